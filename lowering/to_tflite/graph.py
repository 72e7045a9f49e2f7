"""A TFLite graph in the making: tensors, operators and element types.

Plain Python, without the schema of the format: `flatbuffer` turns the graph into bytes. Tensors are
objects that operators refer to, so that passes over the graph rewrite without renumbering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.ir import Attribute

from ...dialects.elements import numpy_dtype
from ...dialects.shapes import Shape
from ...ir.arrays import Array
from ...ir.errors import LoweringError
from ..stored_elements import StoredElement

OptionValue: TypeAlias = bool | int | float | Sequence[int]


class Element(StoredElement):
    """Element types by their number in the schema's `TensorType`."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    BOOL = 6
    INT16 = 7
    INT8 = 9
    FLOAT64 = 10
    UINT32 = 15
    INT4 = 17
    BFLOAT16 = 18
    INT2 = 19

    @property
    def bits(self) -> int:
        """The size of one stored element."""
        return {Element.INT2: 2, Element.INT4: 4}.get(self, 8 * self.dtype.itemsize)


_BY_DTYPE = {
    element.dtype_name: element for element in Element if element.name.lower() == element.dtype_name
}


def element_type(element: Attribute) -> Element:
    """The TFLite type of an IR element type; trits travel as INT8.

    Raises:
        LoweringError: LiteRT has none.
    """
    name = numpy_dtype(element).name
    if name not in _BY_DTYPE:
        raise LoweringError(f"LiteRT has no tensors of {name}; convert to int64 before")
    return _BY_DTYPE[name]


def element_of_array(array: Array) -> Element:
    """The TFLite type of an array."""
    return _BY_DTYPE[array.dtype.name]


@dataclass(frozen=True, eq=False)
class Quantization:
    """x = scale·(q - zero_point); one scale, or one for each position on `axis`."""

    scale: Array
    zero_point: int = 0
    axis: int = 0


@dataclass(eq=False)
class Tensor:
    """A value of the graph.

    Attributes:
        name: a name, not yet unique.
        element: the element type.
        shape: sizes, `DYNAMIC` where unknown.
        data: stored values; `None` for what is computed.
        quantization: how integers stand for real numbers.
        variable: whether it keeps its value from run to run.
    """

    name: str
    element: Element
    shape: Shape
    data: Array | None = None
    quantization: Quantization | None = None
    variable: bool = False

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)


@dataclass(eq=False)
class Operator:
    """One operator, by its name in the schema's `BuiltinOperator`, with the fields of its options.

    An input of `None` is left out. `exact` operators compute integers on float kernels, or what 8
    bits are too few for: no pass may make their arithmetic coarser.
    """

    kind: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    options: dict[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    exact: bool = False


@dataclass
class Graph:
    """Operators in order, and the tensors that are inputs and outputs."""

    operators: list[Operator] = field(default_factory=list[Operator])
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    outputs: list[Tensor] = field(default_factory=list[Tensor])
    input_names: list[str] = field(default_factory=list[str])
    output_names: list[str] = field(default_factory=list[str])

    def add(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        options: Mapping[str, OptionValue],
        *,
        exact: bool = False,
    ) -> None:
        """Append an operator."""
        operator = Operator(kind, list(inputs), list(outputs), dict(options), exact)
        self.operators.append(operator)

    def tensors(self) -> list[Tensor]:
        """Every tensor once: inputs, then in the order in which operators name them."""
        seen = dict.fromkeys(self.inputs)
        for operator in self.operators:
            seen.update(dict.fromkeys(t for t in operator.inputs if t is not None))
            seen.update(dict.fromkeys(operator.outputs))
        seen.update(dict.fromkeys(self.outputs))
        return list(seen)

    def producers(self) -> dict[Tensor, Operator]:
        """The operator that gives each computed tensor."""
        return {output: op for op in self.operators for output in op.outputs}

    def uses(self) -> dict[Tensor, int]:
        """How many operators and graph outputs take each tensor."""
        counts: dict[Tensor, int] = {}
        for tensor in self._read():
            counts[tensor] = counts.get(tensor, 0) + 1
        return counts

    def _read(self) -> Iterator[Tensor]:
        for operator in self.operators:
            yield from (t for t in operator.inputs if t is not None)
        yield from self.outputs

    def drop_unused(self) -> None:
        """Remove operators that lead to no output."""
        used = set(self.outputs)
        live: list[Operator] = []
        for operator in reversed(self.operators):
            if not used.isdisjoint(operator.outputs):
                live.append(operator)
                used.update(t for t in operator.inputs if t is not None)
        self.operators = live[::-1]
