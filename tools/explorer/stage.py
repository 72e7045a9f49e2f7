"""One stage of a program as data: its text by lines, its ops with the lines they stand on, values.

Not here: what values were computed (`values`), and where ops come from (`following`).
"""

from __future__ import annotations

from io import StringIO
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.parameters import ParameterLike
from ...dialects.spike.types import TrainType
from ...ir.printing import ElidingPrinter
from .following import Objects

MOST_OPS = 30_000
"""Of a stage; what stands behind them is left out of it."""

_MOST_CHARACTERS = 600
_ELIDE_ABOVE = 16


class _Counted(StringIO):
    """Knows on which line it writes."""

    line = 0

    def write(self, text: str, /) -> int:
        self.line += text.count("\n")
        return super().write(text)


class _LinePrinter(ElidingPrinter):
    """Notes the lines of ops and the names of values."""

    def begin(self, stream: _Counted) -> None:
        self.counted = stream
        self.spans: dict[Operation, list[int]] = {}
        self.names: dict[SSAValue, str] = {}
        self.elide_above = _ELIDE_ABOVE

    def print_op(self, op: Operation) -> None:
        first = self.counted.line
        super().print_op(op)
        self.spans[op] = [first, self.counted.line]

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self.names[value] = super().print_ssa_value(value)
        return name


def lines_of(module: ModuleOp) -> tuple[list[str], dict[Operation, list[int]], dict[SSAValue, str]]:
    """The text of a module without large constants, the first and last line of each op, and names
    of values without `%`."""
    stream = _Counted()
    printer = _LinePrinter(stream=stream)
    printer.begin(stream)
    printer.print_op(module)
    return stream.getvalue().split("\n"), printer.spans, printer.names


class Files:
    """The files that places are in, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """In the order of their numbers."""
        return list(self._numbers)

    def place(self, location: Attribute) -> dict[str, Any]:
        """`{"name", "file", "line", "column"}`, what is known of it."""
        match location:
            case FileLineColLoc():
                return {
                    "file": self._numbers.setdefault(location.filename.data, len(self._numbers)),
                    "line": location.line.data,
                    "column": location.column.data,
                }
            case NameLoc():
                return {"name": location.desc.data} | self.place(location.location)
            case CallSiteLoc():
                return self.place(location.callee) or self.place(location.caller)
            case FusedLoc():
                inner = cast("ArrayAttr[Attribute]", location.locations)
                places = [self.place(one) for one in inner]
                return next((place for place in places if place), dict[str, Any]())
            case _:
                return {}


def stage_data(objects: Objects, module: ModuleOp, files: Files) -> dict[str, Any]:
    """`text`, `ops` and `values` of a stage, see `record`."""
    lines, spans, names = lines_of(module)
    count = min(len(objects.ops), MOST_OPS)
    ops = [_op_data(index, objects, spans, files) for index in range(count)]
    last = max((op["lines"][1] for op in ops), default=len(lines)) if count == MOST_OPS else None
    return {
        "text": [_short(line, 2000) for line in (lines if last is None else lines[: last + 1])],
        "ops": ops,
        "values": [
            _value_data(v, objects, names) for v in objects.values if _op(v, objects) < count
        ],
        "left_out": len(objects.ops) - count,
    }


def _op(value: SSAValue, objects: Objects) -> int:
    """The op that gives a value, or in whose region it is an argument."""
    owner = value.owner
    if isinstance(owner, Operation):
        return objects.number[owner]
    parent = owner.parent_op()
    return -1 if parent is None else objects.number[parent]


def _span(op: Operation, spans: dict[Operation, list[int]]) -> list[int]:
    """The lines of an op, or of the op around it where the text leaves it out."""
    while op not in spans and (parent := op.parent_op()) is not None:
        op = parent
    return spans[op]


def _op_data(
    index: int, objects: Objects, spans: dict[Operation, list[int]], files: Files
) -> dict[str, Any]:
    op = objects.ops[index]
    parent = op.parent_op()
    place = files.place(op.location)
    return {
        "name": op.name,
        "lines": _span(op, spans),
        "parent": objects.number.get(parent, -1) if parent is not None else -1,
        "operands": [objects.value_number[operand] for operand in op.operands],
        "results": [objects.value_number[result] for result in op.results],
        "attributes": {
            name: _attribute(attribute)
            for name, attribute in {**op.attributes, **op.properties}.items()
            if not name.endswith("SegmentSizes")
        },
        "place": place,
        "group": _group(op, place.get("name", "")),
        "stored": not op.operands and bool(op.results) and not op.regions,
    }


def _value_data(value: SSAValue, objects: Objects, names: dict[SSAValue, str]) -> dict[str, Any]:
    text = str(value.type)
    shape, element = None, text
    if isinstance(value.type, TensorType):
        tensor = cast("TensorType[Attribute]", value.type)
        shape, element = list(tensor.get_shape()), str(tensor.element_type)
    elif isinstance(value.type, TrainType):
        shape, element = list(value.type.get_shape()), "spikes"
    return {
        "name": names.get(value, ""),
        "type": _short(text),
        "element": _short(element.rpartition(".")[2] if element[:1] == "!" else element, 40),
        "shape": shape,
        "op": _op(value, objects),
        "is_argument": not isinstance(value.owner, Operation),
    }


def _attribute(attribute: Attribute) -> str:
    match attribute:
        case DenseIntOrFPElementsAttr():
            dense = cast("DenseIntOrFPElementsAttr[Any]", attribute)
            many = len(dense) > _ELIDE_ABOVE and not dense.is_splat()
            return f"dense<…> : {dense.get_type()}" if many else _short(str(dense))
        case StringAttr():
            return _short(attribute.data)
        case _:
            return _short(str(attribute))


def _short(text: str, most: int = _MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _group(op: Operation, name: str) -> list[str]:
    """The layers that an op belongs to, outermost first.

    Of what the source calls it, as a path; else of the parameters that it takes.
    """
    parts = [part for part in name.split("/" if "/" in name else ".") if part]
    if len(parts) > 1:
        return parts[:-1] if "/" in name else parts
    for operand in op.operands:
        owner = operand.owner
        if isinstance(owner, ParameterLike):
            key = owner.key.data.split(".")
            if len(key) > 1:
                return key[:-1]
    return []
