"""What the rules of the ONNX target write with: the tensors of IR values, unpacked trits.

A rule turns one op of the IR into nodes. `Writer.trits` is the one place that knows how packed
weights become numbers. Not here: nodes, casts and shapes of tensors (`node_writer`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import (
    ParameterLike,
    constant_value,
    module_of,
    parameter_value,
    store_of,
)
from ...dialects.shapes import Shape
from ...dialects.spike.types import TrainType, dense_type
from ...dialects.ternary.types import is_trit
from ...ir.trits import TRITS_OF_BYTES, pack_trits
from ...passes.analysis.magnitude import Magnitudes
from ...passes.calibration.ranges import Range, recorded_range
from ..emission import Inexpressible
from .graph import DOMAIN, Array, Element, Graph, element_type
from .node_writer import NodeWriter

FUNCTION_OPSET = 15
"""Model-local functions need IR version 8, which came with opset 15."""


TRITS = "trits_of_bytes"
"""The name of the table of the four trits of each byte."""


NARROWED = 256
"""Parameters of so many integers are stored in 8 or 16 bits where these hold them."""


Precision: TypeAlias = Literal["float32", "int8", "dynamic-int8"]

Rule: TypeAlias = Callable[["Writer", Any], None]
"""Writes the nodes of one op."""


def result_of(function: Callable[[Writer, Any], str]) -> Rule:
    """A rule for the one result of an op."""
    return lambda e, op: e.bind(op.result, function(e, op))


class Writer(NodeWriter):
    """Writes nodes for one op after the other.

    Attributes:
        form: `exact`, or `fast` for ONNX Runtime's own 2-bit product.
        precision: of products on floats, see `narrow`.
        weight_bits: of float weights that become integers.
        stored: how many weights the program has.
        magnitudes: bounds of the integer values.
        unsigned: of INT8 tensors, the same as UINT8, 128 more (`byte_levels`).
        joined: of floats that are quantised, what the runtime joins to an operator on bytes.
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
        super().__init__(graph)
        self.form = form
        self.precision = precision
        self.weight_bits = weight_bits
        self.stored = 0
        self.magnitudes = Magnitudes()
        self.keeps_pairs = False
        self._values: dict[SSAValue, str] = {}
        self._bound: set[str] = set()
        self._aliases: dict[SSAValue, SSAValue] = {}
        self._numbers: dict[tuple[str, Element], str] = {}
        self._packed: dict[SSAValue, str] = {}
        self._unpacked: dict[tuple[SSAValue, Element], str] = {}
        self._rounded: dict[str, tuple[str, str, str]] = {}
        self._keys: dict[str, str] = {}
        self.unsigned: dict[str, str] = {}
        self.centred: dict[tuple[str, int], str] = {}
        self.joined: dict[SSAValue, str] = {}
        self.pixels: dict[str, str] = {}
        self.neighbours: dict[str, tuple[str, tuple[int, int, int]]] = {}
        self._parameters: set[str] = set()

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


def _narrowed(array: Array) -> Array:
    """Integers in the least type that holds them, at most as wide as their own."""
    for dtype in (np.int8, np.int16):
        info = np.iinfo(dtype)
        if array.min(initial=0) >= info.min and array.max(initial=0) <= info.max:
            return array if array.itemsize < info.bits // 8 else array.astype(dtype)
    return array
