"""What the rules write with: the values of `lowering.from_onnx`, images channels first, and nodes.

TFLite lays images out as N, H, W, C, the IR as N, C, H, W. Windows take `Builder.first` and give
`Builder.last`; permutations meet and cancel, since all that moves or computes elements one by one
goes before a permutation (`Builder.permute`, `cut`, `reshape`, `shared_order`). What is left has
no other way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from xdsl.ir import Attribute, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ..from_onnx import onnx_builder as onnx
from ..from_onnx.calls import AttributeValue, Call, element_type, tensor_of
from ..from_onnx.onnx_operators import RULES as STANDARD
from ..from_onnx.sizes import Size
from ..problems import ProblemError, refuse
from .model import Model, Quantization, StoredTensor
from .schema import OptionValue


class Builder(onnx.Builder):
    """Inserts ops; moves that follow a permutation are done before it.

    Attributes:
        rounds_activations: whether products of floats by stored integers round the floats.
        rounding: how sums of integers are rescaled (`fixed_point`).
    """

    rounds_activations: bool = True
    rounding: Literal["reference", "xnnpack", "once"] = "reference"

    def permute(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        """The axes in another order; two permutations become one."""
        if (before := self.permuted(value)) is not None:
            value, first = before
            perm = [first[axis] for axis in perm]
        return super().permute(value, perm)

    def permuted(self, value: SSAValue) -> tuple[SSAValue, list[int]] | None:
        """What a value of the program permutes, and how."""
        owner = value.owner
        if value in self.arrays or not isinstance(owner, tensor.PermuteOp):
            return None
        return owner.operand, [int(axis) for axis in owner.perm.get_values()]

    def reshape(self, value: SSAValue, wanted: Sequence[Size]) -> SSAValue:
        """`value` with other sizes; a permutation before it that moves no element is left out."""
        if (before := self.permuted(value)) is not None:
            source, perm = before
            sizes = self.sizes(source)
            moved = [axis for axis in perm if sizes[axis] != 1]
            if moved == sorted(moved):
                value = source
        return super().reshape(value, wanted)

    def cut(
        self, value: SSAValue, axis: int, start: int, end: int = tensor.shape.SLICE_END,
        step: int = 1,
    ) -> SSAValue:  # fmt: skip
        """value[start:end:step] along one axis."""
        if (before := self.permuted(value)) is not None:
            source, perm = before
            return self.permute(super().cut(source, perm[axis], start, end, step), perm)
        return super().cut(value, axis, start, end, step)

    def first(self, x: SSAValue) -> SSAValue:
        """Channels first: N, …, C as N, C, …."""
        return self.move_axis(x, -1, 1)

    def last(self, x: SSAValue) -> SSAValue:
        """The way back from `first`."""
        return self.move_axis(x, 1, -1)

    def shared_order(
        self, values: Sequence[SSAValue | None]
    ) -> tuple[list[SSAValue | None], list[int] | None]:
        """Operands of an op on elements before the permutation that all went through.

        Returns:
            The operands, and the permutation of the result; `None` where there is none to share.
        """
        operands = [value for value in values if value is not None]
        rank = max((self.rank(value) for value in operands), default=0)
        orders = [p[1] for v in operands if (p := self.permuted(v)) and self.rank(v) == rank]
        if not orders:
            return list(values), None
        perm, inverse = orders[0], [int(axis) for axis in np.argsort(orders[0])]
        ordered: list[SSAValue | None] = []
        for value in values:
            if value is None or self.rank(value) == 0:
                ordered.append(value)
            elif (before := self.permuted(value)) is not None and before[1] == perm:
                ordered.append(before[0])
            elif value in self.arrays:
                spread = (*[1] * (rank - self.rank(value)), *self.sizes(value))
                ordered.append(self.permute(self.reshape(value, spread), inverse))
            else:
                return list(values), None
        return ordered, perm


@dataclass(frozen=True)
class Node:
    """An operator with what it takes.

    Attributes:
        kind: its name in the schema.
        inputs: values; `None` for those left out.
        stored: the file's own tensors for these.
        outputs: the file's own tensors for what it gives.
        options: by name.
        model: the file.
        intermediates: the file's own tensors that say on which grids it computes.
    """

    kind: str
    inputs: Sequence[SSAValue | None]
    stored: Sequence[StoredTensor | None]
    outputs: Sequence[StoredTensor]
    options: Mapping[str, OptionValue]
    model: Model
    intermediates: Sequence[StoredTensor] = ()

    def __getitem__(self, index: int) -> SSAValue:
        """An input that must be there."""
        value = self.optional(index)
        if value is None:
            raise ProblemError(f"input {index} is missing")
        return value

    def optional(self, index: int) -> SSAValue | None:
        """An input, or `None` where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def integer(self, name: str, default: int = 0) -> int:
        """An option that is a whole number."""
        value = self.options.get(name, default)
        assert isinstance(value, int)
        return value

    def number(self, name: str) -> float:
        """An option that is a number."""
        value = self.options[name]
        assert isinstance(value, int | float)
        return value

    def flag(self, name: str) -> bool:
        """An option that says whether something holds."""
        return self.integer(name) != 0

    def integers(self, name: str) -> list[int]:
        """An option that is a list; empty where the file leaves it out."""
        value = self.options.get(name)
        return value if isinstance(value, list) else []

    def scales(self, index: int) -> Quantization:
        """How the integers of an input stand for real numbers."""
        tensor_ = self.stored[index] if index < len(self.stored) else None
        return _scales(tensor_, f"input {index}")

    def result_scales(self) -> Quantization:
        """How the integers of the first result stand for real numbers."""
        scales = _scales(self.outputs[0], "its result")
        refuse((scales.scale < 0).any(), "its result has a scale below 0")
        return scales

    def with_inputs(self, inputs: Sequence[SSAValue | None]) -> Node:
        """The operator on other values."""
        return replace(self, inputs=inputs)

    @property
    def is_quantized(self) -> bool:
        """Whether the first input and result are integers that stand for real numbers."""
        first = next((t for t in self.stored if t is not None), None)
        result = self.outputs[0].integers if self.outputs else None
        return first is not None and first.integers is not None and result is not None

    @property
    def element(self) -> Attribute:
        """The element type of the first result."""
        return element_type(self.outputs[0].element.dtype)


def _scales(stored: StoredTensor | None, what: str) -> Quantization:
    if stored is None or stored.quantization is None:
        raise ProblemError(f"{what} has no scale")
    refuse((stored.quantization.scale == 0).any(), f"{what} has a scale of 0")
    return stored.quantization


Results: TypeAlias = SSAValue | tuple[SSAValue, ...]

Rule = Callable[[Builder, Node], Results]
"""Gives the value of the first result, or a tuple of those of all."""


def standard(
    e: Builder, op: str, inputs: Sequence[SSAValue | None], **attributes: AttributeValue
) -> SSAValue:
    """What the operator `op` of ONNX, opset 21, is in the IR; its first result."""
    return tensor_of(STANDARD[op](e, Call(op, "", 21, inputs, attributes)))


def like(op: str, **attributes: AttributeValue) -> Rule:
    """A rule for what an operator of ONNX does with the same inputs."""
    return lambda e, node: standard(e, op, node.inputs, **attributes)


def is_real(value: SSAValue) -> bool:
    """Whether the elements are floats."""
    return is_float(tensor_type(value))
