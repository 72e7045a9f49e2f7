"""The values of a graph while it is read: SSA values, and tensors that are known already.

A tensor that depends on parameters alone is computed by PyTorch and becomes a constant where it is
used. `Known` may have free sizes: then the tensor has one element there, which stands for all.
Rules get an `Builder` and a `Call`; they stand in the `rules_*` files.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from ...dialects import tensor, ternary
from ...dialects.elements import element_of, numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import dense_constant
from ...dialects.shapes import DYNAMIC
from ...dialects.tensor.shape import SLICE_END
from ...dialects.tensor.storage import INLINE_LIMIT
from ...ir.arrays import Array
from ...ir.printing import value_name
from ...ir.store import ParameterStore
from ...ir.trits import pack_trits
from ..weights import as_arrays
from .sizes import ProblemError, Size, Sizes, ir_shape, is_free, reshape_target, size_of, sizes_of
from .weights import recognize


@dataclass(frozen=True)
class Known:
    """A tensor whose values are known.

    Attributes:
        tensor: the values, a `torch.Tensor`; one element along each free axis.
        sizes: the sizes.
        keys: the parameters and buffers that it was computed from.
        is_stored: it is the parameter `keys[0]` itself.
    """

    tensor: Any
    sizes: Sizes
    keys: tuple[str, ...] = ()
    is_stored: bool = False

    @property
    def is_spread(self) -> bool:
        """Whether it has free sizes."""
        return any(is_free(size) for size in self.sizes)


Value = SSAValue | Known | list[Any] | None
"""What a node of the graph stands for; operators with several results give a list."""


@dataclass(frozen=True)
class Call:
    """An operator of the graph with its arguments by name, defaults included."""

    node: Any
    name: str
    arguments: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument that not every overload has."""
        found = self.arguments.get(name, default)
        return default if found is None else found

    @property
    def value(self) -> Any:
        """The fake tensor of the result, the first one of several."""
        found: Any = self.node.meta["val"]
        return cast("list[Any]", found)[0] if isinstance(found, list | tuple) else found

    @property
    def sizes(self) -> Sizes:
        """The sizes of the result."""
        return sizes_of(self.value.shape)

    @property
    def rank(self) -> int:
        """The number of axes of the result."""
        return len(self.value.shape)


@dataclass
class Weight:
    """A weight of a product: floats, or trits with a scale."""

    value: SSAValue
    scale: SSAValue | None
    is_trits: bool


@dataclass
class Builder:
    """Inserts ops at the end of `block`, each with the location of the node being read."""

    block: Block
    store: ParameterStore
    recognize_ternary: bool = True
    buffers: frozenset[str] = frozenset()
    values: dict[Any, Value] = field(default_factory=dict[Any, Value])
    location: Any = None
    sources: dict[SSAValue, tuple[SSAValue, Sizes]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, Sizes]]
    )
    _emitted: dict[Any, SSAValue] = field(default_factory=dict[Any, SSAValue])
    _ternary: dict[Any, Weight] = field(default_factory=dict[Any, Weight])

    def add(self, op: Operation) -> SSAValue:
        """Insert `op`; its first result."""
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    # What nodes stand for.

    def known(self, argument: Any) -> Known | None:
        """The values of a node without free sizes, if they are known."""
        found = self.values.get(argument) if hasattr(argument, "meta") else None
        return found if isinstance(found, Known) and not found.is_spread else None

    def value(self, argument: Any) -> SSAValue:
        """A node as an SSA value of its sizes."""
        found = self.values[argument]
        if isinstance(found, Known):
            return self.constant(found)
        if not isinstance(found, SSAValue):
            raise ProblemError("it takes something that is no tensor")
        return found

    def sizes(self, argument: Any) -> Sizes:
        """The sizes of a node."""
        return sizes_of(argument.meta["val"].shape)

    def element(self, dtype: Any) -> Attribute:
        """The element type of a torch dtype."""
        return element_type(dtype)

    def operand(self, argument: Any, dtype: Any, sizes: Sizes | None = None) -> SSAValue:
        """An operand of an element-wise op: a node or number, converted to `dtype`.

        With `sizes`, those of the result, known values may keep one element on a free axis that
        another operand has; see `operands`.
        """
        element = self.element(dtype)
        if not hasattr(argument, "meta"):
            return self.number(argument, element)
        if not hasattr(argument.meta["val"], "shape"):
            return self.number(size_of(argument), element)
        found = self.values[argument]
        if isinstance(found, Known):
            converted = Known(found.tensor.to(dtype), found.sizes, found.keys,
                              found.is_stored and found.tensor.dtype == dtype)  # fmt: skip
            return self.constant(converted, narrow=sizes is not None)
        return self.convert(self.value(argument), element)

    def operands(self, arguments: Sequence[Any], dtype: Any, sizes: Sizes) -> list[SSAValue]:
        """Operands of one element-wise op whose result has `sizes`."""
        full = [
            a for a in arguments
            if hasattr(a, "meta") and hasattr(a.meta["val"], "shape")
            and not isinstance(self.values[a], Known)
        ]  # fmt: skip
        covered = all(
            any(_at(self.sizes(a), axis - len(sizes)) == size for a in full)
            for axis, size in enumerate(sizes)
            if is_free(size)
        )
        return [self.operand(a, dtype, sizes if covered else None) for a in arguments]

    # Constants.

    def number(self, value: Any, element: Attribute) -> SSAValue:
        """A constant of rank 0."""
        if not isinstance(value, int | float):
            raise ProblemError("it computes with a size that is not fixed")
        return self.array(np.array(value), element)

    def array(self, values: Array, element: Attribute, name: str = "constant") -> SSAValue:
        """A constant of any size: inline where small or uniform, else in the parameter store."""
        array = np.asarray(values).astype(numpy_dtype(element))
        array = np.asarray(array, order="C")
        uniform = array.size > 0 and (array == array.reshape(-1)[0]).all()
        if array.size <= INLINE_LIMIT or uniform:
            return self.add(dense_constant(array, element))
        key = self.store.add(name, array)
        return self.add(tensor.ParameterOp(key, TensorType(element, array.shape), buffer=True))

    def numbers(self, values: Array, element: Attribute) -> SSAValue:
        """`array`, under the name that formulas call it by."""
        return self.array(values, element)

    def constant(self, known: Known, *, narrow: bool = False) -> SSAValue:
        """Known values as a parameter or constant; free axes have their size unless `narrow`."""
        value = self._constant(known)
        return self.spread(value, known.sizes) if known.is_spread and not narrow else value

    def _constant(self, known: Known) -> SSAValue:
        array = array_of(known.tensor)
        if not known.is_stored:
            name = known.keys[0] if len(known.keys) == 1 else "constant"
            return self.array(array, element_of(array.dtype), name)
        key = known.keys[0]
        if (key, "stored") not in self._emitted:
            self._emitted[key, "stored"] = self.parameter(key, array)
        return self._emitted[key, "stored"]

    def parameter(self, key: str, array: Array) -> SSAValue:
        """A parameter op for `array`; a taken key gets a number."""
        if array.dtype.kind not in "biu" and np.isnan(array).any():
            raise ProblemError(f"'{key}' holds NaN")
        name = self.store.add(key, np.asarray(array, order="C"))
        type = TensorType(element_of(array.dtype), array.shape)
        value = self.add(tensor.ParameterOp(name, type, buffer=key in self.buffers))
        value.name_hint = value_name(name)
        return value

    def weight(
        self, argument: Any, arrange: Callable[[Any], Any], *, channel_axis: int = 0
    ) -> Weight:
        """A known weight for a product, as trits where its values are.

        Args:
            argument: a node whose values are known.
            arrange: from the values to those that the op takes, such as the transpose.
            channel_axis: of the output channels before that.
        """
        known = self.known(argument)
        assert known is not None
        key = known.keys[0] if known.keys else "weight"
        place = (argument, arrange)
        if (place, channel_axis) in self._ternary:
            return self._ternary[place, channel_axis]
        array = array_of(known.tensor)
        channels_first = np.moveaxis(array, channel_axis, 0)
        found = recognize(channels_first) if self.recognize_ternary else None
        if found is None:
            if known.is_stored and arrange is keep:
                return Weight(self.constant(known), None, is_trits=False)
            if place not in self._emitted:
                arranged = np.ascontiguousarray(array_of(arrange(known.tensor)))
                self._emitted[place] = self.parameter(key, arranged)
            return Weight(self._emitted[place], None, is_trits=False)
        trits = np.moveaxis(found.trits, 0, channel_axis)
        import torch

        arranged = arrange(torch.from_numpy(np.ascontiguousarray(trits))).numpy()
        name = self.store.add(key, pack_trits(np.ascontiguousarray(arranged)))
        value = self.add(ternary.ParameterOp(name, arranged.shape))
        value.name_hint = value_name(name)
        scale = None
        if found.scale is not None:
            scale = self.array(found.scale, element_of(array.dtype), f"{key}_scale")
        self._ternary[place, channel_axis] = Weight(value, scale, is_trits=True)
        return self._ternary[place, channel_axis]

    # Small pieces that rules share.

    def convert(self, value: SSAValue, element: Attribute) -> SSAValue:
        """`value` with another element type."""
        if tensor_type(value).element_type == element:
            return value
        return self.add(tensor.ConvertOp(value, element))

    def reshape(self, value: SSAValue, given: Sizes, wanted: Sizes) -> SSAValue:
        """`value` of the sizes `given` with the sizes `wanted`.

        What is itself a reshape is taken from its source where free sizes can be found only there.
        """
        if given == wanted:
            return value
        try:
            target = reshape_target(given, wanted)
        except ProblemError:
            if value not in self.sources:
                raise
            return self.reshape(*self.sources[value], wanted)
        result = refined(self.add(tensor.ReshapeToOp(value, target)), wanted)
        self.sources[result] = (value, given)
        return result

    def permute(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        """The axes in another order."""
        if list(perm) == list(range(len(perm))):
            return value
        return self.add(tensor.PermuteOp(value, perm))

    def spread(self, value: SSAValue, sizes: Sizes) -> SSAValue:
        """`value`, with one element along each free axis of `sizes`, repeated to that size."""
        for axis, size in enumerate(sizes):
            if not is_free(size):
                continue
            value = self._stretch(value, axis, self._axis_of(size, axis, len(sizes)))
        return value

    def _axis_of(self, size: Size, axis: int, rank: int) -> SSAValue:
        """Some value of the program's, with `size` along `axis` and one element on other axes."""
        for node, found in self.values.items():
            if not isinstance(found, SSAValue) or not hasattr(node.meta["val"], "shape"):
                continue
            sizes = self.sizes(node)
            if size not in sizes or any(other == 0 for other in sizes):
                continue
            if not isinstance(found.type, TensorType):
                continue
            place = sizes.index(size)
            part = found
            if len(sizes) > 1:
                ends = [SLICE_END if a == place else 1 for a in range(len(sizes))]
                part = self.add(tensor.SliceOp(found, [0] * len(ends), ends, [1] * len(ends)))
            target = [-1 if a == axis else 1 for a in range(rank)]
            return self.add(tensor.ReshapeToOp(part, target))
        raise ProblemError(f"no value has the size {size}; fix it")

    def _stretch(self, value: SSAValue, axis: int, like: SSAValue) -> SSAValue:
        """`value` repeated along `axis` as often as `like` has elements there."""
        if tensor_type(like).element_type == i1:
            anything = like
        else:
            anything = self.add(tensor.CompareOp(like, like, "eq"))
        return self.add(tensor.WhereOp(anything, value, value))


def keep(values: Any) -> Any:
    """The arrangement of a weight that the op takes as it is."""
    return values


def array_of(values: Any) -> Array:
    """A `torch.Tensor` as a NumPy array."""
    return as_arrays({"value": values}, "the module")["value"]


def element_type(dtype: Any) -> Attribute:
    """The element type of a torch dtype.

    Raises:
        ProblemError: there is none.
    """
    import torch
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


def _at(sizes: Sizes, axis: int) -> Size:
    return sizes[axis] if -len(sizes) <= axis else 1


def evaluate(target: Any, args: Any, kwargs: Any) -> Any:
    """An operator on real tensors."""
    import torch

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return target(*args, **kwargs)
