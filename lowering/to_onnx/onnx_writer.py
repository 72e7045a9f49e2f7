"""What the rules of the ONNX target write with: nodes, casts, constants, unpacked trits.

A rule turns one op of the IR into nodes. `Writer.apply` keeps to the element types that have
kernels; `Writer.trits` is the one place that knows how packed weights become numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.elements import nearest
from ...dialects.inference import tensor_type
from ...dialects.parameters import (
    ParameterLike,
    constant_value,
    module_of,
    parameter_value,
    store_of,
)
from ...dialects.shapes import DYNAMIC, Shape, axes_behind
from ...dialects.spike.types import TrainType, dense_type
from ...dialects.ternary.types import is_trit
from ...ir.trits import QUADS, pack_trits
from ...passes.analysis.magnitude import Magnitudes
from ...passes.calibration.ranges import Range, recorded_range
from ..emission import Inexpressible
from .graph import DOMAIN, Array, AttributeValue, Element, Graph, element_type
from .kernels import compute_type

FUNCTION_OPSET = 15
"""Model-local functions need IR version 8, which came with opset 15."""


TRITS = "trits_of_bytes"
"""The name of a table of the four trits of each byte, and the table; the reserved code gives 0."""
TRITS_OF_BYTES = np.where(abs(QUADS) == 1, QUADS, np.int8(0))


NARROWED = 256
"""Parameters of so many integers are stored in 8 or 16 bits where these hold them."""


Precision: TypeAlias = Literal["float32", "int8", "dynamic-int8"]

Rule: TypeAlias = Callable[["Writer", Any], None]
"""Writes the nodes of one op."""


def result_of(function: Callable[[Writer, Any], str]) -> Rule:
    """A rule for the one result of an op."""
    return lambda e, op: e.bind(op.result, function(e, op))


class Writer:
    """Writes nodes for one op after the other.

    Attributes:
        graph: what has been written.
        form: `exact`, or `fast` for ONNX Runtime's own 2-bit product.
        precision: of products on floats, see `narrow`.
        weight_bits: of float weights that become integers.
        stored: how many weights the program has.
        magnitudes: bounds of the integer values.
        unsigned: of INT8 tensors, the same as UINT8, 128 more (`byte_levels`).
        centred: of these less a zero point, the same as FLOAT.
        pixels: of rows of bytes, the same as images of one pixel (`byte_products`).
        neighbours: of images, what they were before their pixels came apart, with its sizes.
        keeps_pairs: whether floats between integers are written for the runtime to join (`pairs`).
    """

    def __init__(
        self,
        graph: Graph,
        form: Literal["exact", "fast"] = "exact",
        precision: Precision = "float32",
        weight_bits: int = 8,
    ) -> None:
        self.graph = graph
        self.form = form
        self.precision = precision
        self.weight_bits = weight_bits
        self.stored = 0
        self.magnitudes = Magnitudes()
        self.keeps_pairs = False
        self._root = graph
        self._values: dict[SSAValue, str] = {}
        self._bound: set[str] = set()
        self._aliases: dict[SSAValue, SSAValue] = {}
        self._numbers: dict[tuple[str, Element], str] = {}
        self._packed: dict[SSAValue, str] = {}
        self._unpacked: dict[tuple[SSAValue, Element], str] = {}
        self._rounded: dict[str, tuple[str, str, str]] = {}
        self._keys: dict[str, str] = {}
        self._truncated: set[str] = set()  # integers that a Cast made of floats
        self._origins: dict[str, str] = {}  # of what holds the same numbers in another type
        self._sums: dict[str, str] = {}  # of integers, the floats in which they were summed
        self._exact: set[str] = set()  # products in which floats sum integers
        self.unsigned: dict[str, str] = {}
        self.centred: dict[tuple[str, int], str] = {}
        self.pixels: dict[str, str] = {}
        self.neighbours: dict[str, tuple[str, tuple[int, int, int]]] = {}
        self._lifted: dict[str, str] = {}  # of what has an axis in front of it, what it was before
        self._parameters: set[str] = set()
        self._hint = "value"

    @property
    def hint(self) -> str:
        """What the op being written is called; the stem of names."""
        return self._hint

    @property
    def opset(self) -> int:
        """The version of the default operator set."""
        return self.graph.opset

    def start(self, op: Operation) -> None:
        """Name what follows after `op`."""
        hint = op.results[0].name_hint if op.results else None
        self._hint = hint or op.name.rpartition(".")[2]

    # Values of the IR.

    def bind(self, value: SSAValue, name: str) -> None:
        """Make `name` the tensor of an IR value, and call it as the IR does where that is free."""
        if name not in self._bound:
            before = name
            name = self.graph.rename_last(before, value.name_hint or self._hint)
            if before in self._truncated:
                self._truncated.add(name)
            for known in (self._origins, self._sums, self._lifted, self.unsigned):
                if before in known:
                    known[name] = known.pop(before)
        self.bind_input(value, name)

    def reserve_key(self, key: str) -> None:
        """Keep a parameter's key as the name of its initialiser."""
        if key not in self._keys:
            self._keys[key] = self.graph.new_name(key)

    def alias(self, value: SSAValue, source: SSAValue) -> None:
        """Make `value`, the argument of a region, stand for `source`."""
        self._aliases[value] = self.source(source)

    def source(self, value: SSAValue) -> SSAValue:
        """What an argument of a region stands for; else the value itself."""
        return self._aliases.get(value, value)

    def bind_input(self, value: SSAValue, name: str) -> None:
        """Make `name` the tensor of a value, as it is called already."""
        self._values[value] = name
        self._bound.add(name)

    def stand_in(self, op: Operation) -> None:
        """Give the results of an op without nodes names, so that the rest can be tried."""
        for result in op.results:
            name = self.graph.new_name("missing")
            if isinstance(result.type, TensorType | TrainType):
                self.graph.elements[name] = element_type(dense_type(result).element_type)
            self._values[result] = name

    def value(self, value: SSAValue) -> str:
        """The tensor of an IR value; trits as INT8, trains as zeros and ones of any type."""
        value = self.source(value)
        if value not in self._values:
            if is_trit(tensor_type(value)):
                return self.trits(value, Element.INT8)
            owner = value.owner
            if isinstance(owner, tensor.ParameterOp):
                name = self._parameter(owner)
                element = element_type(owner.result.type.element_type)
                with self.writing(self._root):
                    self._values[value] = self.cast(name, element)
            elif isinstance(owner, tensor.ConstantOp):
                array = constant_value(owner)
                assert array is not None
                self._values[value] = self.constant(array, value.name_hint or "constant")
            else:
                raise Inexpressible("an operand is defined elsewhere")
        return self._values[value]

    def numbers(self, value: SSAValue, element: Element) -> str:
        """A train, or a tensor, as numbers of `element`; what is cast once is not cast again."""
        name = self.value(value)
        if self.element(name) is element:
            return name
        known = self._numbers.get((name, element))
        if known is not None:
            return known
        if self.graph.makes(name) and self.in_body:
            return self.cast(name, element)  # what a body computes is not seen outside
        with self.writing(self._root):
            result = self.cast(name, element)
        self._numbers[name, element] = result
        self._bound.add(result)  # what is kept here keeps its name
        return result

    def _parameter(self, op: ParameterLike) -> str:
        key = op.key.data
        self.reserve_key(key)
        if key not in self._parameters:
            array = parameter_value(op)
            if isinstance(op, ternary.ParameterOp):
                array = store_of(module_of(op)).read(key)  # checked above, packed already
            elif array.dtype.kind == "i" and array.size >= NARROWED:
                array = _narrowed(array)  # `value` widens it; the runtime does that once
            self._parameters.add(key)
            self.graph.set_initializer(self._keys[key], array)
        return self._keys[key]

    # Trits.

    def packed(self, value: SSAValue) -> str | None:
        """The packed bytes of constant trits; `None` for trits computed at run time."""
        value = self.source(value)
        if value not in self._packed:
            owner = value.owner
            if isinstance(owner, ternary.ParameterOp):
                self._packed[value] = self._parameter(owner)
            elif isinstance(owner, ternary.ConstantOp):
                array = constant_value(owner)
                assert array is not None
                name = value.name_hint or "trits"
                self._packed[value] = self.constant(pack_trits(array), name)
            else:
                return None
        return self._packed[value]

    def trits(self, value: SSAValue, element: Element) -> str:
        """Trits as numbers of `element`; constant ones are unpacked once for each type."""
        value = self.source(value)
        packed = self.packed(value)
        if packed is None:
            return self.cast(self._values[value], element)
        if (value, element) not in self._unpacked:
            shape = tensor_type(value).get_shape()
            with self.writing(self._root):
                self._unpacked[value, element] = self.unpack(packed, shape, element)
        return self._unpacked[value, element]

    def unpack(self, packed: str, shape: Shape, element: Element) -> str:
        """Packed bytes as numbers of `element`, by a model-local function where there are some."""
        count = int(np.prod(shape, dtype=np.int64))
        if count % 4:
            every = self.unpack(packed, (count + -count % 4,), element)
            return self.reshape(self.slice_axes(every, [0], [count], [0], [1]), shape)
        if self.opset < FUNCTION_OPSET:
            table = self.constant(TRITS_OF_BYTES, TRITS)
            places = self.cast(packed, Element.INT32)
            quads = self.node("Gather", [table, places], Element.INT8, axis=0)
            return self.cast(self.reshape(quads, shape), element)
        return self.graph.add_node(
            "ternary.unpack",
            [packed],
            [element],
            [f"{packed}.{element.name.lower()}"],
            {"shape": list(shape), "to": int(element)},
            DOMAIN,
        )[0]

    def rounded(self, name: str) -> tuple[str, str, str]:
        """Floats as UINT8, with their scale and zero point of this run; once for each tensor."""
        if name not in self._rounded:
            elements = [Element.UINT8, Element.FLOAT, Element.UINT8]
            wishes = [f"{name}.{part}" for part in ("levels", "scale", "zero")]
            outputs = self.graph.add_node("DynamicQuantizeLinear", [name], elements, wishes, {})
            self._rounded[name] = (outputs[0], outputs[1], outputs[2])
        return self._rounded[name]

    def ranges(self) -> dict[str, Range]:
        """The recorded ranges of what has been written, by tensor."""
        pairs = ((name, recorded_range(value)) for value, name in self._values.items())
        return {name: range for name, range in pairs if range is not None}

    def matrices(self) -> set[str]:
        """The tensors of two axes among the values of the IR."""
        pairs = self._values.items()
        return {name for value, name in pairs if dense_type(value).get_num_dims() == 2}

    # Bodies.

    @property
    def in_body(self) -> bool:
        """Whether nodes go into the body of another node."""
        return self.graph is not self._root

    @contextmanager
    def writing(self, graph: Graph) -> Generator[None]:
        """Write nodes into `graph`."""
        before, self.graph = self.graph, graph
        try:
            yield
        finally:
            self.graph = before

    # Nodes.

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        element: Element,
        **attributes: AttributeValue,
    ) -> str:
        """One standard node with one output of type `element`, as it is."""
        return self.call("", op_type, inputs, element, attributes)

    def call(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[str],
        element: Element,
        attributes: Mapping[str, AttributeValue],
    ) -> str:
        """One node of any domain with one output of type `element`."""
        name = f"{self._hint}.{op_type.rpartition('.')[2].lower()}"
        return self.graph.add_node(op_type, inputs, [element], [name], attributes, domain)[0]

    def apply(
        self,
        op_type: str,
        inputs: Sequence[str],
        *,
        rest: Sequence[str] = (),
        result: Element | None = None,
        **attributes: AttributeValue,
    ) -> str:
        """One operator on inputs of one element type, computed where it has a kernel.

        Args:
            inputs: of one type, which is also the result's unless `result` says otherwise.
            rest: further inputs of their own types.

        Raises:
            Inexpressible: there is no kernel for the type and no wider one either.
        """
        element = self.element(inputs[0])
        wide = compute_type(op_type, element)
        if wide is None:
            raise Inexpressible(
                f"ONNX Runtime has no {op_type} kernel for {element.name}; convert to float32"
            )
        inside = [self.cast(name, wide) for name in inputs]
        out = self.node(op_type, [*inside, *rest], result or wide, **attributes)
        return out if result is not None else self.cast(out, element)

    def element(self, name: str) -> Element:
        """The element type of a tensor."""
        return self.graph.elements[name]

    def cast(self, name: str, element: Element) -> str:
        """`name` as another element type; integers wrap around, anything to BOOL is x ≠ 0."""
        source = self.element(name)
        if source is element:
            return name
        origin = self._origins.get(name)
        if origin is not None and self.element(origin) in (element, Element.BOOL):
            return self.cast(origin, element)
        if name in self._truncated and not _holds(element, source):
            # ONNX Runtime would join both casts to one, which does not wrap around.
            name = self.cast(name, Element.INT64) if source is Element.UINT32 else name
            name = self.apply("Neg", [self.apply("Neg", [name])])
        result = self.node("Cast", [name], element, to=int(element))
        if source.is_float and not element.is_float:
            self._truncated.add(result)
        if source is Element.BOOL:
            self._origins[result] = name
        return result

    def same(self, name: str, element: Element) -> str:
        """Numbers, each of which `element` holds too, as that; casting them back costs nothing."""
        result = self.cast(name, element)
        if result not in (name, self._origins.get(name)):
            self._origins[result] = name
        return result

    def product(self, name: str, element: Element) -> str:
        """A matrix product in which floats sum integers, as integers; see `factor`."""
        self._exact.add(name)
        return self.same(name, element)

    def factor(self, name: str, product: str, width: int) -> str:
        """A number that multiplies such a product, for each column: ONNX Runtime would put a scalar
        into the product, which then rounds in between."""
        if product not in self._exact or name in self._exact or width == DYNAMIC:
            return name
        values = self.graph.initializers.get(name)
        if values is None or values.size != 1:
            return name
        return self.constant(np.broadcast_to(values.reshape(-1), (width,)), f"{name}.each")

    def whole(self, name: str, element: Element) -> str:
        """Floats that are exact sums, as integers.

        Casting them back takes a Cast: without one ONNX Runtime joins the product and what follows
        it, and rounds otherwise. Where elements move in between it cannot, see `moved`.
        """
        result = self.cast(name, element)
        self._sums[result] = name
        return result

    def origin(self, name: str) -> str:
        """What `name` was before it was cast to a type that holds the same numbers."""
        return self._origins.get(name, name)

    def floats(self, name: str) -> str:
        """Truth values as FLOAT where this body has them so already, else as they are."""
        known = (r for r, o in self._origins.items() if o == name and self.graph.makes(r))
        return next((r for r in known if self.element(r) is Element.FLOAT), name)

    def moved(self, name: str, move: Callable[[str], str]) -> str:
        """`name` with its elements moved: truth values and sums as what they were before."""
        if name in self._sums:
            return self.same(move(self._sums[name]), self.element(name))
        if name not in self._origins or not self.is_truth(name):
            return move(name)
        return self.same(self.moved(self._origins[name], move), self.element(name))

    def is_truth(self, name: str) -> bool:
        """Whether a tensor holds zeros and ones, made of truth values."""
        return Element.BOOL in (self.element(name), self.element(self.origin(name)))

    def constant(self, array: Array, hint: str = "constant") -> str:
        """Stored values."""
        return self.graph.add_constant(array, hint)

    def scalar(self, value: float, element: Element) -> str:
        """One stored number."""
        text = f"{value:g}".replace("-", "minus_")
        return self.constant(nearest(value, element.dtype), f"{element.name.lower()}_{text}")

    def indices(self, values: Sequence[int], hint: str = "sizes") -> str:
        """Stored INT64 numbers: axes, sizes, positions."""
        return self.constant(np.array(values, dtype=np.int64).reshape(-1), hint)

    # Shapes.

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """`name` in another shape; one size may be -1."""
        return self.reshape_to(name, self.indices(shape, "shape"), literal_zero=0 in shape)

    def reshape_to(self, name: str, sizes: str, *, literal_zero: bool = False) -> str:
        """`name` in the shape that the INT64 vector `sizes` holds.

        A size of 0 keeps the operand's axis, unless `literal_zero` (from opset 14 on).
        """
        element = self.element(name)
        if literal_zero and self.opset >= 14:
            return self.node("Reshape", [name, sizes], element, allowzero=1)
        return self.node("Reshape", [name, sizes], element)

    def reshape_with_copies(self, name: str, shape: Sequence[int]) -> str:
        """`name` in another shape; sizes of -2 and below keep the axis they stand on.

        Where such sizes occur, no size may be 0.
        """
        if min(shape, default=0) >= -1:
            return self.reshape(name, shape)
        sizes = self.indices([0 if size <= -2 else size for size in shape], "shape")
        return self.reshape_to(name, sizes)

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        """`name` with axes of size 1 inserted."""
        if not axes:
            return name
        result = self.node("Unsqueeze", [name, self.indices(axes, "axes")], self.element(name))
        if list(axes) == [0]:
            self._lifted[result] = name
        return result

    def squeeze(self, name: str, axes: Sequence[int]) -> str:
        """`name` without some axes of size 1."""
        if list(axes) == [0] and name in self._lifted:
            return self._lifted[name]
        return self.apply("Squeeze", [name], rest=[self.indices(axes, "axes")])

    def slice_axes(
        self,
        name: str,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int],
    ) -> str:
        """`name` cut along some axes."""
        rest = [self.indices(values, "slice") for values in (starts, ends, axes, steps)]
        return self.apply("Slice", [name], rest=rest)

    def along_axis(self, name: str, type: Shape, axis: int, rank: int) -> str:
        """A vector (or scalar) laid along `axis` of a tensor of `rank`, ready to broadcast."""
        behind = axes_behind(axis, rank) if type else 0
        return self.unsqueeze(name, list(range(1, behind + 1))) if behind else name

    def dimension(self, name: str, axis: int, size: int) -> str:
        """The size of an axis as an INT64 vector of one element, known or not."""
        if size != DYNAMIC:
            return self.indices([size])
        if self.opset >= 15:
            return self.node("Shape", [name], Element.INT64, start=axis, end=axis + 1)
        shape = self.node("Shape", [name], Element.INT64)
        return self.node("Gather", [shape, self.indices([axis], "axes")], Element.INT64, axis=0)


def _narrowed(array: Array) -> Array:
    """Integers in the least type that holds them, at most as wide as their own."""
    for dtype in (np.int8, np.int16):
        info = np.iinfo(dtype)
        if array.min(initial=0) >= info.min and array.max(initial=0) <= info.max:
            return array if array.itemsize < info.bits // 8 else array.astype(dtype)
    return array


def _holds(wide: Element, narrow: Element) -> bool:
    """Whether a type has every value of an integer type, or is none of integers."""
    if wide.is_float or Element.BOOL in (wide, narrow):
        return True
    return np.can_cast(narrow.dtype, wide.dtype)
