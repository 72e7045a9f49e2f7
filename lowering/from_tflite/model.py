"""A `.tflite` file as tensors and operators, each checked; stored values are read when asked for.

Metadata and names of signatures that are not taken are left alone. Not here:
what operators mean (`importer`, `tflite_operators`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import SourceError
from ...ir.safe_read import opened
from ..problems import ProblemError, refuse
from ..to_tflite.flatbuffer import unpack_bits
from ..to_tflite.graph import Element
from .flatbuffer import Buffer, Table
from .schema import CUSTOM, ELEMENTS, IDENTIFIER, OPERATORS, OptionValue, read_options

FILE_LIMIT = 1 << 33
"""No file has as many bytes; values may stand behind the 2 GB of the flatbuffer itself."""

LARGEST = 1 << 40
"""No tensor has more elements than this; sizes are checked before anything is allocated."""

MOST_AXES = 8
"""No tensor of TFLite has more axes."""

MOST_OPERATORS = 500_000
"""A model with more operators is refused."""


@dataclass(frozen=True, eq=False)
class Quantization:
    """x = scale·(q - zero_point); one scale and zero point, or one for each place on `axis`."""

    scale: Array
    zero_point: Array
    axis: int

    @property
    def is_per_axis(self) -> bool:
        """Whether there is more than one scale."""
        return self.scale.size > 1

    @property
    def zero(self) -> int:
        """The one zero point."""
        return int(self.zero_point[0])

    def is_same(self, other: Quantization | None) -> bool:
        """Whether integers mean the same."""
        return (
            other is not None
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )


@dataclass(eq=False)
class StoredTensor:
    """A tensor of the file.

    Attributes:
        name: what the file calls it.
        type: the number of its element type.
        shape: its sizes; -1 where they are free.
        buffer: the number of the buffer with its values; 0 for none.
        quantization: how integers stand for real numbers.
        variable: whether it keeps its value from run to run.
        sparse: whether its values are stored sparsely.
    """

    name: str
    type: int
    shape: tuple[int, ...]
    buffer: int
    quantization: Quantization | None
    variable: bool
    sparse: bool

    @property
    def element(self) -> Element:
        """The element type.

        Raises:
            ProblemError: the IR has none like it.
        """
        try:
            return Element(self.type)
        except ValueError:
            known = 0 <= self.type < len(ELEMENTS)
            shown = ELEMENTS[self.type] if known else f"the unknown type {self.type}"
            raise ProblemError(f"elements of {shown} have no type in the IR") from None

    @property
    def integers(self) -> Quantization | None:
        """How its elements stand for real numbers, where they are integers of 8 or 16 bits."""
        small = self.type in (Element.INT8, Element.UINT8, Element.INT16)
        return self.quantization if small else None


@dataclass(frozen=True, eq=False)
class StoredOperator:
    """An operator of the file: tensors by number, -1 for an input that is left out.

    `intermediates` are tensors that only say on which grids it computes.
    """

    kind: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, OptionValue]
    intermediates: tuple[int, ...]


@dataclass
class Model:
    """The subgraph that is imported.

    Attributes:
        where: what messages call the file.
        name: of the file; empty for bytes.
        inputs: `(name, tensor)` in order.
        outputs: the same.
    """

    where: str
    name: str
    buffer: Buffer
    buffers: list[Table]
    tensors: list[StoredTensor]
    operators: list[StoredOperator]
    inputs: list[tuple[str, int]]
    outputs: list[tuple[str, int]]
    _raw: dict[int, Array] = field(default_factory=dict[int, Array])

    def raw(self, index: int) -> Array | None:
        """The bytes of a buffer; `None` for the empty one."""
        if not 0 <= index < len(self.buffers):
            raise SourceError(f"{self.where}: a broken file: no buffer {index}")
        if index not in self._raw:
            table, data = self.buffers[index], self.buffer.data
            offset, size = (int(table.scalar(slot, "Q")) for slot in (1, 2))
            if offset > 1:
                if offset + size > len(data):
                    raise SourceError(f"{self.where}: a broken file: buffer {index} is cut off")
                self._raw[index] = np.frombuffer(data, np.uint8, size, offset)
            else:
                content = table.numbers(0, "u1")
                self._raw[index] = np.empty(0, np.uint8) if content is None else content
        return self._raw[index] if self._raw[index].size else None

    def values(self, tensor: StoredTensor) -> Array | None:
        """The stored elements; `None` for a tensor that is computed. Less than a byte as int8.

        Raises:
            SourceError: their bytes do not fit the shape.
            ProblemError: the IR has no such elements.
        """
        raw = self.raw(tensor.buffer)
        if raw is None:
            # Nothing is stored of what has no elements.
            return np.empty(tensor.shape, tensor.element.dtype) if 0 in tensor.shape else None
        refuse(tensor.sparse, "its values are stored sparsely; store them densely")
        element = tensor.element
        if -1 in tensor.shape:
            raise SourceError(f"{self.where}: stored tensor '{tensor.name}' has a free size")
        count = prod(tensor.shape)
        needed = -(-count * element.bits // 8)
        if raw.size != needed:
            raise SourceError(
                f"{self.where}: tensor '{tensor.name}' has {raw.size} bytes, its shape "
                f"{list(tensor.shape)} needs {needed}"
            )
        if element.bits < 8:
            return unpack_bits(raw, element.bits, count).reshape(tensor.shape)
        if element is Element.BOOL:
            return (raw != 0).reshape(tensor.shape)
        return np.frombuffer(raw.tobytes(), element.dtype).reshape(tensor.shape)


def read_model(source: Path | str | bytes | bytearray, signature: str | None = None) -> Model:
    """The model in a file or in bytes.

    Raises:
        SourceError: no such file, no TFLite model, a broken one, or no such signature.
    """
    if isinstance(source, bytes | bytearray):
        return _Reader(bytes(source), "TFLite model", "").model(signature)
    path = Path(source)
    with opened(path, FILE_LIMIT, SourceError) as file:
        data = file.read()
    return _Reader(data, str(path), path.stem).model(signature)


class _Reader:
    """Reads the tables of one file."""

    def __init__(self, data: bytes, where: str, name: str) -> None:
        if data[4:8] != IDENTIFIER:
            raise SourceError(f"{where}: no TFLite model: it lacks the identifier TFL3")
        self.where, self.name = where, name
        self.buffer = Buffer(data, where)

    def fail(self, what: str) -> SourceError:
        """The error for a defect."""
        return SourceError(f"{self.where}: a broken file: {what}")

    def model(self, signature: str | None) -> Model:
        """The subgraph of a signature; of the only one, or the first, by default."""
        root = self.buffer.root()
        version = int(root.scalar(0, "I"))
        if version != 3:
            raise SourceError(f"{self.where}: version {version} of the format is not known, 3 is")
        self.codes = [self._code(table) for table in root.tables(1)]
        subgraphs = root.tables(2)
        if not subgraphs:
            raise self.fail("no subgraph")
        index, names = self._signature(root, signature, len(subgraphs))
        graph = subgraphs[index]
        tensors = [self._tensor(table) for table in graph.tables(0)]
        operators = graph.tables(3)
        if len(operators) > MOST_OPERATORS:
            raise SourceError(f"{self.where}: more than {MOST_OPERATORS} operators")
        count = len(tensors)
        ports = [
            [
                (sides.get(int(n)) or tensors[int(n)].name, int(n))
                for n in self._indices(graph, slot, count)
            ]
            for slot, sides in ((1, names[0]), (2, names[1]))
        ]
        return Model(
            self.where, self.name, self.buffer, root.tables(4), tensors,
            [self._operator(table, count) for table in operators], ports[0], ports[1],
        )  # fmt: skip

    def _code(self, table: Table) -> tuple[str, int]:
        number = max(int(table.scalar(0, "b")), int(table.scalar(3, "i")))
        version = int(table.scalar(2, "i", 1))
        if number == CUSTOM:
            return f"custom operator {table.text(1)}", version
        known = 0 <= number < len(OPERATORS)
        return (OPERATORS[number] if known else f"operator {number}"), version

    def _signature(
        self, root: Table, wanted: str | None, count: int
    ) -> tuple[int, tuple[dict[int, str], dict[int, str]]]:
        """The number of the subgraph, and the names that a signature gives its ports."""
        tables = {table.text(2): table for table in root.tables(7)}
        shown = ", ".join(f"'{name}'" for name in tables)
        if wanted is not None and wanted not in tables:
            raise SourceError(f"{self.where}: no signature '{wanted}'; it has {shown or 'none'}")
        places = {int(table.scalar(4, "I")) for table in tables.values()}
        if wanted is None and len(places) > 1:
            raise SourceError(
                f"{self.where}: it has several signatures; give signature= one of {shown}"
            )
        if not tables:
            return 0, ({}, {})
        table = tables[wanted if wanted is not None else next(iter(tables))]
        index = int(table.scalar(4, "I"))
        if index >= count:
            raise self.fail(f"a signature of subgraph {index} of {count}")
        return index, (self._names(table, 0), self._names(table, 1))

    def _names(self, signature: Table, slot: int) -> dict[int, str]:
        return {int(t.scalar(1, "I")): t.text(0) for t in signature.tables(slot)}

    def _indices(self, table: Table, slot: int, count: int, least: int = 0) -> tuple[int, ...]:
        indices = table.numbers(slot, "i4")
        if indices is None:
            return ()
        if indices.size and not (indices.min() >= least and indices.max() < count):
            raise self.fail(f"a tensor outside the {count} of its subgraph")
        return tuple(int(n) for n in indices)

    def _operator(self, table: Table, count: int) -> StoredOperator:
        index = int(table.scalar(0, "I"))
        if index >= len(self.codes):
            raise self.fail(f"an operator with the code {index} of {len(self.codes)}")
        kind, version = self.codes[index]
        options = read_options(kind, int(table.scalar(3, "B")), table.table(4))
        inputs = self._indices(table, 1, count, -1)
        outputs, between = (self._indices(table, slot, count) for slot in (2, 8))
        return StoredOperator(kind, version, inputs, outputs, options, between)

    def _tensor(self, table: Table) -> StoredTensor:
        name = table.text(3)
        shape, signature = table.numbers(0, "i4"), table.numbers(7, "i4")
        sizes = [] if shape is None else [int(size) for size in shape]
        if signature is not None and signature.size:
            if signature.size != len(sizes):
                raise self.fail(f"tensor '{name}' has two ranks")
            sizes = [int(size) for size in signature]
        if len(sizes) > MOST_AXES:
            raise self.fail(f"tensor '{name}' has {len(sizes)} axes")
        if min(sizes, default=0) < -1 or prod(max(size, 1) for size in sizes) > LARGEST:
            raise self.fail(f"tensor '{name}' has the shape {sizes}")
        return StoredTensor(
            name, int(table.scalar(1, "b")), tuple(sizes), int(table.scalar(2, "I")),
            self._quantization(table.table(4), name), bool(table.scalar(5, "?")),
            table.place(6) is not None,
        )  # fmt: skip

    def _quantization(self, table: Table | None, name: str) -> Quantization | None:
        scale = None if table is None else table.numbers(2, "f4")
        if table is None or scale is None or not scale.size:
            return None
        zero = table.numbers(3, "i8")
        zero = np.zeros(scale.size, np.int64) if zero is None or not zero.size else zero
        if zero.size not in (1, scale.size):
            raise self.fail(f"tensor '{name}' has {scale.size} scales and {zero.size} zero points")
        if zero.size == 1:
            zero = np.broadcast_to(zero, scale.shape)
        if not np.isfinite(scale).all():
            raise self.fail(f"tensor '{name}' has a scale that is no number")
        return Quantization(scale, zero, int(table.scalar(6, "i")))
