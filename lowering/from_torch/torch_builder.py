"""The builder of ops from a PyTorch graph: what its nodes stand for, weights, and constants.

A tensor that depends on parameters alone is computed by PyTorch and becomes a constant where it is
used. `Known` may have free sizes: then the tensor has one element there, which stands for all.
Rules get a `Builder` and a `Call` (`calls`); they stand in the `rules_*` files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias, TypeVar, cast

import numpy as np
import sympy
import torch
from sympy import Expr
from torch import Tensor, dtype
from torch.fx import Node
from xdsl.dialects.builtin import TensorType, f64, i1, i64
from xdsl.ir import Attribute, Block, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from ...dialects import tensor, ternary
from ...dialects.elements import element_of
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.tensor.shape import SLICE_END
from ...ir.arrays import Array
from ...ir.printing import value_name
from ...ir.store import ParameterStore
from ...ir.trits import pack_trits
from .. import ir_builder
from ..from_onnx.sizes import reshape_target
from ..problems import ProblemError, refuse
from ..ternary_weights import recognize
from ..weights import as_arrays
from .calls import Call, Operand, fake_tensor, is_tensor
from .sizes import (
    FreeSize,
    Size,
    Sizes,
    ir_shape,
    is_free,
    is_node,
    product,
    size_of,
    sizes_of,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Known:
    """A tensor whose values are known.

    Attributes:
        tensor: the values; one element along each free axis.
        sizes: the sizes.
        keys: the parameters and buffers that it was computed from.
        is_stored: it is the parameter `keys[0]` itself.
        integers: of floats that integers stand for: writes these and what restores the floats, with
            their axes in a given order.
    """

    tensor: Tensor
    sizes: Sizes
    keys: tuple[str, ...] = ()
    is_stored: bool = False
    integers: Callable[[Sequence[int]], SSAValue] | None = None

    @property
    def is_spread(self) -> bool:
        """Whether it has free sizes."""
        return any(is_free(size) for size in self.sizes)


Value: TypeAlias = SSAValue | Known | Sequence[SSAValue | Known | None] | None
"""What a node of the graph stands for; operators with several results have a sequence."""

Result: TypeAlias = SSAValue | Known | Sequence[SSAValue | None]
"""What a rule gives: a value for each result that the IR has."""

Rule: TypeAlias = Callable[["Builder", Call], Result]

Arrangement: TypeAlias = "Callable[[Tensor], Tensor]"
"""From a weight in PyTorch to what an op takes, such as the transpose."""


def _number_of(number: FreeSize) -> float:
    """A number of sympy."""
    whole = cast("Expr", number).is_integer
    return int(number) if whole else float(cast("Expr", number))


@dataclass
class Weight:
    """A weight of a product: floats, or trits with a scale."""

    value: SSAValue
    scale: SSAValue | None
    is_trits: bool


@dataclass
class Builder(ir_builder.Builder):
    """Inserts ops at the end of `block`, each with the location of the node being read."""

    recognize_ternary: bool = True
    buffers: frozenset[str] = frozenset()
    values: dict[Node, Value] = field(default_factory=dict["Node", Value])
    sources: dict[SSAValue, tuple[SSAValue, Sizes]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, Sizes]]
    )
    read: dict[Size, SSAValue] = field(default_factory=dict[Size, SSAValue])
    """What `item()` reads from tensors of one element, of rank 0."""

    _companion: object = None
    _ones: dict[Size, SSAValue] = field(default_factory=dict[Size, SSAValue])
    _stored: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    _weights: dict[tuple[Node, Arrangement, int, bool], Weight] = field(
        default_factory=dict[tuple["Node", Arrangement, int, bool], Weight]
    )

    def companion(self, kind: Callable[[Block, ParameterStore, bool], T]) -> T:
        """The one builder of another kind that writes to the same block."""
        if self._companion is None:
            self._companion = kind(self.block, self.store, self.recognize_ternary)
        return cast("T", self._companion)

    # What nodes stand for.

    def known(self, argument: object) -> Known | None:
        """The values of a node without free sizes, if they are known."""
        value = self.values.get(argument) if is_node(argument) else None
        return value if isinstance(value, Known) and not value.is_spread else None

    def value(self, node: Node) -> SSAValue:
        """A node as an SSA value of its sizes."""
        value = self.values[node]
        if isinstance(value, Known):
            return self.constant(value)
        if not isinstance(value, SSAValue):
            raise ProblemError("it takes something that is no tensor")
        return value

    def optional(self, node: Node | None, dtype: dtype | None = None) -> SSAValue | None:
        """A node that may be missing, converted to `dtype`."""
        if node is None:
            return None
        return self.value(node) if dtype is None else self.operand(node, dtype)

    def sizes(self, node: Node) -> Sizes:
        """The sizes of a node."""
        return sizes_of(fake_tensor(node).shape)

    def operand(self, argument: Operand, dtype: dtype, sizes: Sizes | None = None) -> SSAValue:
        """An operand of an element-wise op: a node or number, converted to `dtype`.

        With `sizes`, those of the result, known values may keep one element on a free axis that
        another operand has; see `operands`.
        """
        element = element_type(dtype)
        if not is_tensor(argument):
            return self.number(size_of(argument) if is_node(argument) else argument, element)
        value = self.values[argument]
        if isinstance(value, Known):
            converted = Known(value.tensor.to(dtype), value.sizes, value.keys,
                              value.is_stored and value.tensor.dtype == dtype)  # fmt: skip
            return self.constant(converted, narrow=sizes is not None)
        return self.convert(self.value(argument), element)

    def operands(self, arguments: Sequence[Operand], dtype: dtype, sizes: Sizes) -> list[SSAValue]:
        """Operands of one element-wise op whose result has `sizes`."""
        full = [
            self.sizes(node) for node in filter(is_tensor, arguments)
            if not isinstance(self.values[node], Known)
        ]  # fmt: skip
        covered = all(
            any(_at(own, axis - len(sizes)) == size for own in full)
            for axis, size in enumerate(sizes)
            if is_free(size)
        )
        return [self.operand(a, dtype, sizes if covered else None) for a in arguments]

    # Constants.

    def number(self, value: float | Size, element: Attribute) -> SSAValue:
        """A constant of rank 0; for a free size, or what was read, what it is when it runs."""
        if isinstance(value, int | float):
            return super().number(value, element)
        if value in self.read:
            return self.convert(self.read[value], element)
        parts = cast("Sequence[FreeSize]", getattr(value, "args", ()))
        if self.read and not value.free_symbols.isdisjoint(self.read):
            return self._calculated(value, parts, element)
        return self.convert(self.add(tensor.ReduceSumOp(self.ones(value), [0])), element)

    def _calculated(
        self, value: FreeSize, parts: Sequence[FreeSize], element: Attribute
    ) -> SSAValue:
        """A sum or product, some of it read."""
        kinds = {sympy.Add: tensor.AddOp, sympy.Mul: tensor.MulOp}
        kind = next((made for of, made in kinds.items() if isinstance(value, of)), None)
        if kind is None:
            raise ProblemError(f"nothing computes {value} from what item() reads")
        wide = i64 if cast("Expr", value).is_integer else f64
        terms = [_number_of(p) if p.is_number else p for p in parts]
        numbers = [self.number(term, wide) for term in terms]
        return self.convert(reduce(lambda x, y: self.add(kind(x, y)), numbers), element)

    def ones(self, size: Size) -> SSAValue:
        """As many ones of i64 along an axis."""
        if not is_free(size):
            return self.numbers(np.ones(size, np.int64), i64)
        if size not in self._ones:
            like, one = self._found(size), self.number(1, i64)
            self._ones[size] = self._composed(size) if like is None else self._stretch(
                self.add(tensor.ReshapeToOp(one, [1])), 0, self.add(tensor.ReshapeToOp(like, [-1]))
            )  # fmt: skip
        return self._ones[size]

    def _composed(self, size: FreeSize) -> SSAValue:
        """Ones for a sum or product of sizes that values have."""
        parts = cast("Sequence[FreeSize]", cast("Expr", size).args)
        terms: list[Size] = [int(part) if part.is_number else part for part in parts]
        if isinstance(size, sympy.Add):
            less = sum(min(term, 0) for term in terms if not is_free(term))
            rows = [self.ones(term) for term in terms if is_free(term) or term > 0]
            joined = self.add(tensor.ConcatenateOp(rows, 0)) if len(rows) > 1 else rows[0]
            return self.add(tensor.SliceOp(joined, [0], [less], [1])) if less else joined
        if isinstance(size, sympy.Mul) and all(is_free(term) or term > 0 for term in terms):
            row = self.ones(product(terms[1:]))
            column = self.add(tensor.UnsqueezeOp(self.ones(terms[0]), [1]))
            return self.add(tensor.ReshapeToOp(self.add(tensor.MulOp(column, row)), [-1]))
        raise ProblemError(f"no value has the size {size}; fix it")

    def arange(self, size: Size) -> SSAValue:
        """0, 1, … of i64 along an axis."""
        if not is_free(size):
            return self.numbers(np.arange(size), i64)
        return self.add(tensor.SubOp(self.add(tensor.CumsumOp(self.ones(size), 0)),
                                     self.number(1, i64)))  # fmt: skip

    def constant(self, known: Known, *, narrow: bool = False) -> SSAValue:
        """Known values as a parameter or constant; free axes have their size unless `narrow`."""
        value = self._constant(known)
        return self.spread(value, known.sizes) if known.is_spread and not narrow else value

    def _constant(self, known: Known) -> SSAValue:
        array = array_of(known.tensor)
        if not known.is_stored:
            name = known.keys[0] if len(known.keys) == 1 else "constant"
            return self.numbers(array, element_of(array.dtype), name)
        key = known.keys[0]
        if key not in self._stored:
            self._stored[key] = self.parameter(key, array)
        return self._stored[key]

    def parameter(self, key: str, array: Array) -> SSAValue:
        """A parameter op for `array`; a taken key gets a number."""
        refuse(array.dtype.kind not in "biu" and np.isnan(array).any(), f"'{key}' holds NaN")
        name = self.store.add(key, np.asarray(array, order="C"))
        type = TensorType(element_of(array.dtype), array.shape)
        value = self.add(tensor.ParameterOp(name, type, buffer=key in self.buffers))
        value.name_hint = value_name(name)
        return value

    def weight(
        self, x: SSAValue, node: Node, arrange: Arrangement, *, channel_axis: int = 0
    ) -> Weight:
        """A known weight for a product, as trits where its values are.

        Integers that it was restored from stay integers where `x` was restored from integers too.

        Args:
            x: the other factor.
            node: a node whose values are known.
            arrange: from the values to those that the op takes.
            channel_axis: of the output channels before that.
        """
        place = (node, arrange, channel_axis, isinstance(x.owner, tensor.DequantizeOp))
        if place not in self._weights:
            self._weights[place] = self._weight(*place)
        return self._weights[place]

    def _weight(
        self, node: Node, arrange: Arrangement, channel_axis: int, is_restored: bool
    ) -> Weight:
        known = self.known(node)
        assert known is not None
        key = known.keys[0] if known.keys else "weight"
        array = array_of(known.tensor)
        channels_first = np.moveaxis(array, channel_axis, 0)
        ternary_weight = recognize(channels_first) if self.recognize_ternary else None
        if ternary_weight is None:
            if is_restored and known.integers is not None and arrange in (keep, transposed):
                axes = range(array.ndim)
                order = axes if arrange is keep else axes[::-1]
                return Weight(known.integers(order), None, is_trits=False)
            if known.is_stored and arrange is keep:
                return Weight(self.constant(known), None, is_trits=False)
            arranged = np.ascontiguousarray(array_of(arrange(known.tensor)))
            return Weight(self.parameter(key, arranged), None, is_trits=False)
        trits = np.ascontiguousarray(np.moveaxis(ternary_weight.trits, 0, channel_axis))
        value = self.trits(key, arrange(torch.from_numpy(trits)).numpy())
        scale = None
        if ternary_weight.scale is not None:
            scale = self.numbers(ternary_weight.scale, element_of(array.dtype), f"{key}_scale")
        return Weight(value, scale, is_trits=True)

    def trits(self, key: str, values: Array) -> SSAValue:
        """A parameter op for trits; a taken key gets a number."""
        name = self.store.add(key, pack_trits(np.ascontiguousarray(values)))
        value = self.add(ternary.ParameterOp(name, values.shape))
        value.name_hint = value_name(name)
        return value

    # Small pieces that rules share.

    def reshape(self, value: SSAValue, sizes: Sizes, wanted: Sizes) -> SSAValue:
        """`value` of the sizes `sizes` with the sizes `wanted`.

        What is itself a reshape is taken from its source where free sizes can be found only there.
        """
        if sizes == wanted:
            return value
        try:
            target = reshape_target(sizes, wanted)
        except ProblemError:
            if value in self.sources:
                return self.reshape(*self.sources[value], wanted)
            axis = _parted_axis(sizes, wanted)
            if axis is None:
                raise
            rows = self.reshape(value, sizes, _joined(wanted, axis))
            places = [self.arange(size) for size in wanted[axis : axis + 2]]
            return refined(ir_builder.parted(self, rows, axis, *places), wanted)
        result = refined(self.add(tensor.ReshapeToOp(value, target)), wanted)
        self.sources[result] = (value, sizes)
        return result

    def spread(self, value: SSAValue, sizes: Sizes) -> SSAValue:
        """`value`, with one element along each free axis of `sizes`, repeated to that size."""
        for axis, size in enumerate(sizes):
            if not is_free(size):
                continue
            value = self._stretch(value, axis, self._axis_of(size, axis, len(sizes)))
        return value

    def _axis_of(self, size: Size, axis: int, rank: int) -> SSAValue:
        """Some value of the program's, with `size` along `axis` and one element on other axes."""
        part = self._found(size)
        target = [-1 if a == axis else 1 for a in range(rank)]
        return self.add(tensor.ReshapeToOp(self.ones(size) if part is None else part, target))

    def holder(self, size: Size) -> tuple[SSAValue, Sizes] | None:
        """Some value of the program's with that size, and its sizes."""
        for node, value in self.values.items():
            if not isinstance(value, SSAValue) or not isinstance(value.type, TensorType):
                continue
            sizes = self.sizes(node) if is_tensor(node) else ()
            if size in sizes and 0 not in sizes:
                return value, sizes
        return None

    def _found(self, size: Size) -> SSAValue | None:
        """Some value of the program's, with `size` along one axis and one element on others."""
        held = self.holder(size)
        if held is None or len(held[1]) == 1:
            return held and held[0]
        value, sizes = held
        place = sizes.index(size)
        ends = [SLICE_END if a == place else 1 for a in range(len(sizes))]
        return self.add(tensor.SliceOp(value, [0] * len(ends), ends, [1] * len(ends)))

    def _stretch(self, value: SSAValue, axis: int, like: SSAValue) -> SSAValue:
        """`value` repeated along `axis` as often as `like` has elements there."""
        if tensor_type(like).element_type == i1:
            anything = like
        else:
            anything = self.add(tensor.CompareOp(like, like, "eq"))
        return self.add(tensor.WhereOp(anything, value, value))


def keep(values: Tensor) -> Tensor:
    """The arrangement of a weight that the op takes as it is."""
    return values


def transposed(values: Tensor) -> Tensor:
    """[out, in] as [in, out]."""
    return values.t().contiguous()


def array_of(values: Tensor) -> Array:
    """A tensor as a NumPy array."""
    return as_arrays({"value": values}, "the module")["value"]


def element_type(dtype: dtype) -> Attribute:
    """The element type of a torch dtype.

    Raises:
        ProblemError: there is none.
    """
    from xdsl.utils.exceptions import VerifyException

    try:
        return element_of(array_of(torch.empty(0, dtype=dtype)).dtype)
    except (VerifyException, TypeError):
        raise ProblemError(f"elements of {dtype} have no type in the IR") from None


def refined(value: SSAValue, sizes: Sizes) -> SSAValue:
    """An op's result with those sizes in its type that PyTorch knows and shape rules do not."""
    type = value.type
    if not isinstance(value, OpResult) or not isinstance(type, TensorType):
        return value
    shape = tensor_type(value).get_shape()
    wanted = ir_shape(sizes)
    merged = [w if have == DYNAMIC else have for have, w in zip(shape, wanted, strict=True)]
    if list(shape) == merged:
        return value
    element = tensor_type(value).element_type
    return Rewriter.replace_value_with_new_type(value, TensorType(element, merged))


def _parted_axis(sizes: Sizes, wanted: Sizes) -> int | None:
    """The first of two wanted axes whose product is a free size that there is."""
    pairs = ((axis, wanted[axis : axis + 2]) for axis in range(len(wanted) - 1))
    return next(
        (axis for axis, pair in pairs if all(map(is_free, pair)) and product(pair) in sizes), None
    )


def _joined(sizes: Sizes, axis: int) -> Sizes:
    """Sizes with an axis and the next one as one."""
    return (*sizes[:axis], product(sizes[axis : axis + 2]), *sizes[axis + 2 :])


def _at(sizes: Sizes, axis: int) -> Size:
    return sizes[axis] if -len(sizes) <= axis else 1
