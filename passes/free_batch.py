"""The pass `free-batch`: a batch size that a file fixes becomes free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects import tensor
from ..dialects.inference import InferredOp, tensor_type
from ..dialects.shapes import DYNAMIC, Shape, ints, with_shape
from ..dialects.traits import Elementwise, TakesSamples, WorksAlong, has
from ..ir.errors import PassError
from ..ir.interpreter import entry_function
from ..ir.locations import error_at
from ..ir.value_names import DIMENSIONS_ATTRIBUTE
from .analysis.layers import is_layer, weight_of

_NAMES = ("arg_attrs", "res_attrs")


@dataclass(frozen=True)
class FreeBatchPass(ModulePass):
    """Make the first axis of all arguments free where a file says how many samples a run takes.

    Exporters often write the batch size of the run that they traced. A program that treats the
    samples of its batch one by one computes the same for any number of them:

        func.func @forward(%x: tensor<789444x16xf32>) -> tensor<789444x5xf32> {
          %y = tensor.relu %x : (tensor<789444x16xf32>) -> tensor<789444x16xf32>
        // becomes
        func.func @forward(%x: tensor<?x16xf32>) -> tensor<?x5xf32> {
          %y = tensor.relu %x : (tensor<?x16xf32>) -> tensor<?x16xf32>

    Every op on the way from an argument is looked at. Where one mixes samples, or is not known not
    to, the program stays as it is; with `strict` that is an error. So it is where no argument has
    an axis besides, as that may be one of numbers. Programs whose first axis is free already are
    left alone.

    Raises:
        PassError: with `strict`: the first axes of the arguments differ or are their only ones, or
            an op mixes samples.
    """

    name = "free-batch"

    strict: bool = False
    """Refuse a program whose batch cannot be freed."""

    function: str = "forward"
    """The function to change."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, self.function)
        try:
            _Freeing(function).run()
        except _MixedError as error:
            if self.strict:
                raise PassError(error_at(error.op, error.reason)) from None


class _MixedError(Exception):
    """Samples of a batch are not treated one by one."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op, self.reason = op, reason


class _Freeing:
    """Checks every op first and changes types after that."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.size = 0
        self.batched: set[SSAValue] = set()

    def run(self) -> None:
        if len(self.function.body.blocks) != 1 or not self._arguments():
            return
        block = self.function.body.block
        for op in block.ops:
            self._check(op)
        for value in list(self.batched):
            match value.owner:
                case tensor.ReshapeToOp() as op:
                    op.shape = ints((-2, *op.shape.get_values()[1:]))
                case tensor.SliceOp() as op:
                    op.ends = ints((tensor.SLICE_END, *op.ends.get_values()[1:]))
                case _:
                    pass
        freed = [_free(argument) for argument in list(block.args)]
        assert freed
        for op in block.ops:
            if any(result in self.batched for result in op.results):
                assert isinstance(op, InferredOp)
                for result, type in zip(list(op.results), op.infer(), strict=True):
                    Rewriter.replace_value_with_new_type(result, type)
        self.function.update_function_type()
        self._rename()

    def _arguments(self) -> bool:
        """Whether all arguments are tensors with one first size that is known."""
        args = self.function.body.block.args
        shapes = [tensor_type(a).get_shape() for a in args if isinstance(a.type, TensorType)]
        sizes = {shape[0] if shape else 0 for shape in shapes}
        if len(shapes) < len(args) or not args or DYNAMIC in sizes:
            return False
        if all(len(shape) == 1 for shape in shapes):
            raise _MixedError(self.function, "the only axis of its arguments may not be a batch")
        if len(sizes) > 1 or 0 in sizes:
            raise _MixedError(self.function, f"the first axes of its arguments differ: {sizes}")
        (self.size,) = sizes
        self.batched.update(args)
        return True

    def _check(self, op: Operation) -> None:
        batched = [value for value in op.operands if value in self.batched]
        if isinstance(op, ReturnOp):
            if len(batched) < len(op.operands):
                raise _MixedError(op, "a result does not depend on the samples")
            return
        if not batched:
            return
        reason = self._mixing(op)
        if reason is not None:
            raise _MixedError(op, f"'{op.name}' {reason}, so the batch size cannot be free")
        self.batched.update(op.results)

    def _mixing(self, op: Operation) -> str | None:
        """How an op mixes samples; `None` if it takes them one by one."""
        if any(self._shape(result)[:1] != (self.size,) for result in op.results):
            return "does not keep the first axis"
        if has(op, Elementwise):
            return self._broadcasting(op)
        if is_layer(op):
            weight = weight_of(op)
            return "has a weight that is not known" if weight in self.batched else None
        if has(op, TakesSamples):
            return None
        along = op.get_trait(WorksAlong)
        if along is not None:
            return self._along(op, along.axes(op))
        rule = _RULES.get(type(op))
        return "is not known to take samples one by one" if rule is None else rule(op)

    def _shape(self, value: SSAValue) -> Shape:
        return tensor_type(value).get_shape() if isinstance(value.type, TensorType) else ()

    def _broadcasting(self, op: Operation) -> str | None:
        rank = len(self._shape(op.results[0]))
        for value in op.operands:
            shape = self._shape(value)
            if value in self.batched:
                if len(shape) != rank:
                    return "moves the samples to another axis"
            elif len(shape) == rank and shape[0] != 1:
                return "combines each sample with another number"
        return None

    def _along(self, op: Operation, axes: list[int]) -> str | None:
        rank = len(self._shape(op.operands[0])) + isinstance(op, tensor.UnsqueezeOp)
        parameters = isinstance(
            op, tensor.QuantizeOp | tensor.DequantizeOp | tensor.RequantizeOp
        ) and not any(self._shape(value) for value in op.operands[1:])
        if not parameters and any(axis % rank == 0 for axis in axes):
            return "works along the first axis"
        if isinstance(op, tensor.ConcatenateOp) and not all(
            value in self.batched for value in op.operands
        ):
            return "joins samples with known numbers"
        return None

    def _rename(self) -> None:
        """The name of the first dimension of arguments and results is `batch`."""
        for which in _NAMES:
            attributes: ArrayAttr[DictionaryAttr] | None = getattr(self.function, which)
            if attributes is not None:
                setattr(self.function, which, ArrayAttr(map(_renamed, attributes.data)))


def _renamed(entries: DictionaryAttr) -> DictionaryAttr:
    names = entries.data.get(DIMENSIONS_ATTRIBUTE)
    if not isinstance(names, ArrayAttr):
        return entries
    axes = cast("tuple[Attribute, ...]", names.data)
    renamed: tuple[Attribute, ...] = (StringAttr("batch"), *axes[1:])
    return DictionaryAttr({**entries.data, DIMENSIONS_ATTRIBUTE: ArrayAttr(renamed)})


def _free(value: SSAValue) -> SSAValue:
    type = tensor_type(value)
    shape = (DYNAMIC, *type.get_shape()[1:])
    return Rewriter.replace_value_with_new_type(value, with_shape(type, shape))


def _reshape(op: tensor.ReshapeToOp) -> str | None:
    copies = -2 in op.shape.get_values()[1:]
    return "copies the first axis to another" if copies else None


def _flatten(op: tensor.FlattenOp) -> str | None:
    rank = tensor_type(op.operand).get_num_dims()
    return None if op.start.value.data % rank else "flattens the first axis"


def _permute(op: tensor.PermuteOp) -> str | None:
    return None if op.perm.get_values()[0] == 0 else "moves the first axis"


def _pad(op: tensor.PadToOp) -> str | None:
    padded = op.low.get_values()[0] or op.high.get_values()[0]
    return "pads the first axis" if padded else None


def _slice(op: tensor.SliceOp) -> str | None:
    whole = op.starts.get_values()[0] == 0 and op.steps.get_values()[0] == 1
    return None if whole else "takes some samples of the first axis"


_RULES: dict[type[Operation], Callable[[Any], str | None]] = {
    tensor.FlattenOp: _flatten,
    tensor.PadToOp: _pad,
    tensor.PermuteOp: _permute,
    tensor.ReshapeToOp: _reshape,
    tensor.SliceOp: _slice,
}
"""How ops with rules of their own mix samples; `None` where they take them one by one."""
