"""What the rules of the TFLite target write with: operators, casts, constants, stored orders.

A rule turns one op of the IR into operators. `Writer.apply` keeps to the element types that have
kernels; `Writer.laid` is the one place that transposes. Shapes that follow from others stand in
`shapes`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ...dialects.elements import nearest
from ...dialects.parameters import constant_value
from ...dialects.shapes import DYNAMIC, Shape, axes_behind, broadcast
from ...dialects.spike.types import TrainType, dense_type
from ...passes.analysis.magnitude import Magnitudes
from ..emission import Inexpressible
from .graph import (
    Array,
    Element,
    Graph,
    OptionValue,
    Quantization,
    Tensor,
    element_of_array,
    element_type,
)
from .kernels import compute_type
from .layout import Layout, image_order, is_free, moves, plain
from .merged_axes import MOST_AXES, on_merged_axes

Storage: TypeAlias = str
"""How weights of trits are stored: `auto`, `2bit`, `4bit` or `int8`."""


MOVES = frozenset(
    "EXPAND_DIMS PAD PADV2 RESHAPE SLICE SQUEEZE STRIDED_SLICE TILE TRANSPOSE".split()  # noqa: SIM905
)
"""Operators that move integers: their result is on the grid of the first input."""


Rule: TypeAlias = Callable[["Writer", Any], None]
"""Writes the operators of one op."""


class Writer:
    """Writes operators for one op after the other.

    Attributes:
        graph: what has been written.
        storage: how weights of trits are stored.
        narrow: whether products of floats will be of 8-bit integers.
        magnitudes: bounds of the integer values.
    """

    def __init__(self, graph: Graph, storage: Storage = "auto", *, narrow: bool = False) -> None:
        self.graph = graph
        self.storage = storage
        self.narrow = narrow
        self.magnitudes = Magnitudes()
        self._values: dict[SSAValue, tuple[Tensor, Layout]] = {}
        self._laid: dict[tuple[SSAValue, Layout], Tensor] = {}
        self._casts: dict[tuple[Tensor, Element], Tensor] = {}
        self._arrays: dict[SSAValue, Array | None] = {}
        self._constants: dict[tuple[str, Shape, bytes], Tensor] = {}
        self._dequantized: dict[tuple[Any, ...], Tensor] = {}
        self._hint = "value"
        self._exact = False

    @property
    def hint(self) -> str:
        """What the op being written is called; the stem of names."""
        return self._hint

    def start(self, op: Operation) -> None:
        """Name what follows after `op`."""
        hint = op.results[0].name_hint if op.results else None
        self._hint = hint or op.name.rpartition(".")[2]

    def stored_trits(self, depth: int, *, floating: bool, connected: bool = True) -> Element:
        """The type that trits are stored in, for sums over `depth` inputs.

        By default 2 bits only where XNNPACK multiplies them: in fully connected layers
        (`connected`) of integer arithmetic, for rows of whole bytes. Elsewhere they would be
        multiplied by LiteRT's plain kernels, which are slow.
        """
        if self.storage != "auto":
            return {"2bit": Element.INT2, "4bit": Element.INT4, "int8": Element.INT8}[self.storage]
        fast = connected and self.narrow and floating and depth % 4 == 0
        return Element.INT2 if fast else Element.INT8

    @contextmanager
    def exactly(self) -> Generator[None]:
        """Mark the operators written meanwhile: no pass makes their arithmetic coarser.

        They compute integers on float kernels, or what 8 bits are too few for.
        """
        before, self._exact = self._exact, True
        try:
            yield
        finally:
            self._exact = before

    # Values of the IR.

    def bind(self, value: SSAValue, tensor: Tensor, layout: Layout | None = None) -> None:
        """Make `tensor`, stored in `layout`, the IR value; by default in the IR's own order."""
        if tensor.data is None and tensor not in self.graph.inputs:
            tensor.name = value.name_hint or self._hint
        self._values[value] = (tensor, layout or plain(tensor.rank))

    def stand_in(self, op: Operation) -> None:
        """Give the results of an op without operators tensors, so that the rest can be tried."""
        for result in op.results:
            if isinstance(result.type, TensorType | TrainType):
                type = dense_type(result)
                element = element_type(type.element_type)
                self.bind(result, Tensor("missing", element, type.get_shape()))

    def array(self, value: SSAValue) -> Array | None:
        """The values of a parameter or constant; `None` for what is computed at run time."""
        if value not in self._arrays:
            owner = value.owner
            known = constant_value(owner) if isinstance(owner, Operation) else None
            self._arrays[value] = known
        return self._arrays[value]

    def stored(self, value: SSAValue) -> tuple[Tensor, Layout]:
        """The tensor of an IR value as it is stored."""
        if value not in self._values:
            array = self.array(value)
            if array is None:
                raise Inexpressible("an operand is defined elsewhere")
            name = getattr(value.owner, "key", None)
            hint = name.data if name is not None else value.name_hint or "constant"
            self._values[value] = (self.constant(array, hint), plain(array.ndim))
        return self._values[value]

    def with_axes(self, value: SSAValue) -> tuple[Tensor, Layout]:
        """`stored`, but a flattened image in the IR's own order: each axis can be found."""
        tensor, layout = self.stored(value)
        return (tensor, layout) if layout.image is None else (self.value(value), plain(tensor.rank))

    def has(self, value: SSAValue) -> bool:
        """Whether a value has been written, or is stored."""
        return value in self._values or self.array(value) is not None

    def value(self, value: SSAValue) -> Tensor:
        """The tensor of an IR value in the IR's own order."""
        return self.laid(value, plain(dense_type(value).get_num_dims()))

    def laid(self, value: SSAValue, want: Layout) -> Tensor:
        """The tensor of an IR value in a given order; transposed once for each order."""
        tensor, have = self.stored(value)
        if have == want:
            return tensor
        if (value, want) not in self._laid:
            if have.image is not None:
                tensor, have = self._unrolled(tensor, have.image), plain(tensor.rank)
            self._laid[value, want] = self.transpose(tensor, moves(have, want))
        return self._laid[value, want]

    def _unrolled(self, tensor: Tensor, image: tuple[int, ...]) -> Tensor:
        """A vector stored as (…, C) in the IR's order (C, …)."""
        if tensor.data is not None:
            return self.constant(tensor.data[..., np.argsort(image_order(image))], tensor.name)
        rows = tensor.shape[0]
        spread = self.reshape(tensor, (rows, *image[1:], image[0]))
        rank = spread.rank
        return self.reshape(
            self.transpose(spread, [0, rank - 1, *range(1, rank - 1)]), tensor.shape
        )

    def is_positive(self, tensor: Tensor) -> bool:
        """Whether a tensor is known to hold nothing below 0."""
        maker = next((op for op in reversed(self.graph.operators) if tensor in op.outputs), None)
        return maker is not None and maker.kind in ("RELU", "RELU6", "LOGISTIC", "SOFTMAX")

    # Operators.

    def node(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        element: Element,
        shape: Shape,
        **options: OptionValue,
    ) -> Tensor:
        """One operator with one output, as it is."""
        output = Tensor(f"{self._hint}.{kind.lower()}", element, tuple(shape))
        if kind in MOVES and inputs[0] is not None and inputs[0].element is element:
            output.quantization = inputs[0].quantization
        self.graph.add(kind, inputs, [output], options, exact=self._exact)
        return output

    def apply(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        *,
        shape: Shape | None = None,
        rest: Sequence[Tensor | None] = (),
        result: Element | None = None,
        **options: OptionValue,
    ) -> Tensor:
        """One operator on inputs of one element type, computed where it has a kernel.

        Args:
            inputs: of one type, which is also the result's unless `result` says otherwise.
            shape: of the result; by default what the inputs broadcast to.
            rest: further inputs of their own types.

        Raises:
            Inexpressible: there is no kernel for the type and no wider one either.
        """
        element = inputs[0].element
        wide = compute_type(kind, element)
        if wide is None:
            raise Inexpressible(
                f"LiteRT has no {kind} kernel for {element.name}; convert to float32 or int32"
            )
        inside = [self.cast(tensor, wide) for tensor in inputs]
        out = shape if shape is not None else broadcast(*(t.shape for t in inputs))
        computed = self.node(kind, [*inside, *rest], result or wide, out, **options)
        return computed if result is not None else self.cast(computed, element)

    def binary(self, kind: str, lhs: Tensor, rhs: Tensor) -> Tensor:
        """An arithmetic operator that broadcasts."""
        return self.apply(kind, [lhs, rhs])

    def compare(self, kind: str, lhs: Tensor, rhs: Tensor) -> Tensor:
        """A comparison."""
        return self.apply(kind, [lhs, rhs], result=Element.BOOL)

    def choose(self, condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
        """`lhs` where `condition`, else `rhs`; all broadcast."""
        shape = broadcast(condition.shape, lhs.shape, rhs.shape)
        wide = compute_type("SELECT_V2", lhs.element)
        if wide is None:
            raise Inexpressible(f"LiteRT has no SELECT_V2 kernel for {lhs.element.name}")
        return self.node("SELECT_V2", [condition, lhs, rhs], wide, shape)

    def cast(self, tensor: Tensor, element: Element) -> Tensor:
        """`tensor` as another element type; integers wrap around, anything to BOOL is x ≠ 0."""
        if tensor.element is element:
            return tensor
        if tensor.data is not None and tensor.quantization is None:
            with np.errstate(over="ignore"):
                return self.constant(tensor.data.astype(element.dtype), tensor.name)
        if (tensor, element) not in self._casts:
            if Element.BFLOAT16 in (tensor.element, element):
                raise Inexpressible("LiteRT has no arithmetic on BFLOAT16; convert to float32")
            options = {"inDataType": int(tensor.element), "outDataType": int(element)}
            result = self.node("CAST", [tensor], element, tensor.shape, **options)
            self._casts[tensor, element] = result
        return self._casts[tensor, element]

    def float32(self, tensor: Tensor) -> Tensor:
        """`tensor` in float32, to compute with: half precision and integers gain bits by it.

        Raises:
            Inexpressible: it would lose some.
        """
        if tensor.element in (Element.FLOAT64, Element.BFLOAT16):
            raise Inexpressible(
                f"LiteRT has no arithmetic on {tensor.element.name}; convert to float32"
            )
        return self.cast(tensor, Element.FLOAT32)

    # Constants.

    def constant(self, array: Array, hint: str = "constant") -> Tensor:
        """Stored values; equal constants share one tensor."""
        array = np.asarray(array, order="C")
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            tensor = Tensor(hint, element_of_array(array), array.shape, array)
            self._constants[key] = tensor
        return self._constants[key]

    def dequantized(self, array: Array, element: Element, how: Quantization, hint: str) -> Tensor:
        """Stored integers as float32, scaled; equal ones share one tensor."""
        array = np.ascontiguousarray(array)
        key = (element, array.shape, array.tobytes(), how.scale.tobytes(), how.axis)
        if key not in self._dequantized:
            stored = Tensor(hint, element, array.shape, array, how)
            result = self.node("DEQUANTIZE", [stored], Element.FLOAT32, stored.shape)
            self._dequantized[key] = result
        return self._dequantized[key]

    def scalar(self, value: float, element: Element) -> Tensor:
        """One stored number."""
        text = f"{value:g}".replace("-", "minus_")
        return self.constant(nearest(value, element.dtype), f"{element.name.lower()}_{text}")

    def indices(self, values: Sequence[int] | Array, hint: str = "sizes") -> Tensor:
        """Stored INT32 numbers: axes, sizes, positions."""
        return self.constant(np.array(values, dtype=np.int32), hint)

    # Shapes.

    def reshape(self, tensor: Tensor, shape: Sequence[int], source: Tensor | None = None) -> Tensor:
        """`tensor` in another shape.

        One size may be `DYNAMIC`. Where more are, those of `source` (by default the tensor itself)
        are taken axis by axis.
        """
        shape = tuple(shape)
        if shape == tensor.shape and shape.count(DYNAMIC) <= 1:
            return tensor
        if tensor.data is not None and tensor.quantization is None:
            return self.constant(tensor.data.reshape(shape), tensor.name)
        if shape.count(DYNAMIC) <= 1:
            sizes = self.indices([-1 if size == DYNAMIC else size for size in shape], "shape")
        else:
            source = source or tensor
            sizes = self.sizes(
                [self.dimension(source, a) if s == DYNAMIC else s for a, s in enumerate(shape)]
            )
        return self.node("RESHAPE", [tensor, sizes], tensor.element, shape)

    def sizes(self, entries: Sequence[Tensor | int]) -> Tensor:
        """An INT32 vector of sizes, some of which are tensors of one element."""
        parts = [e if isinstance(e, Tensor) else self.indices([e]) for e in entries]
        return self.node("CONCATENATION", parts, Element.INT32, (len(parts),), axis=0)

    def dimension(self, tensor: Tensor, axis: int) -> Tensor:
        """The size of an axis as an INT32 vector of one element."""
        shape = self.node(
            "SHAPE", [tensor], Element.INT32, (tensor.rank,), outType=int(Element.INT32)
        )
        bounds = [self.indices([axis]), self.indices([1])]
        return self.node("SLICE", [shape, *bounds], Element.INT32, (1,))

    def transpose(self, tensor: Tensor, perm: Sequence[int]) -> Tensor:
        """`tensor` with its axes reordered; a reshape where only axes of size 1 move."""
        perm = list(perm)
        if perm == list(range(tensor.rank)):
            return tensor
        shape = tuple(tensor.shape[axis] for axis in perm)
        if tensor.data is not None and tensor.quantization is None:
            return self.constant(tensor.data.transpose(perm), tensor.name)
        if is_free(perm, tensor.shape) and shape.count(DYNAMIC) <= 1:
            return self.reshape(tensor, shape)
        if tensor.rank > 6:
            raise Inexpressible(f"LiteRT transposes up to 6 axes, and here are {tensor.rank}")
        return self.apply("TRANSPOSE", [tensor], shape=shape, rest=[self.indices(perm, "perm")])

    def expand_axes(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """`tensor` with axes of size 1 at the positions `axes` of the result."""
        if not axes:
            return tensor
        rest = iter(tensor.shape)
        shape = [1 if a in axes else next(rest) for a in range(tensor.rank + len(axes))]
        if tensor.data is not None or shape.count(DYNAMIC) <= 1:
            return self.reshape(tensor, shape)
        for axis in sorted(axes):
            grown = (*tensor.shape[:axis], 1, *tensor.shape[axis:])
            rest_ = [self.constant(np.array(axis, np.int32), "axis")]
            tensor = self.apply("EXPAND_DIMS", [tensor], shape=grown, rest=rest_)
        return tensor

    def along_axis(self, tensor: Tensor, axis: int, rank: int) -> Tensor:
        """A vector (or scalar) laid along `axis` of a tensor of `rank`, ready to broadcast."""
        behind = axes_behind(axis, rank) if tensor.rank else 0
        return self.reshape(tensor, (*tensor.shape, *[1] * behind)) if behind else tensor

    def reduce(
        self, kind: str, tensor: Tensor, axes: Sequence[int], *, keepdims: bool = False
    ) -> Tensor:
        """A reduction over stored axes."""
        left = [(a, size) for a, size in enumerate(tensor.shape) if keepdims or a not in axes]
        shape = tuple(1 if a in axes else size for a, size in left)
        if not axes:
            return tensor
        if tensor.rank > MOST_AXES:

            def reduced(flat: list[Tensor], runs: list[list[int]]) -> Tensor:
                places = [place for place, run in enumerate(runs) if run[0] in axes]
                return self.reduce(kind, flat[0], places)

            return on_merged_axes(self, [tensor], shape, axes, reduced, together=True)
        rest = [self.indices(sorted(axes), "axes")]
        return self.apply(kind, [tensor], shape=shape, rest=rest, keepDims=keepdims)
