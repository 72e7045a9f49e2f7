"""From a finished graph to the bytes of a `.tflite` file: schema version 3, identifier TFL3.

Stored values are aligned to 16 bytes, which the schema's own packing does not do. Equal graphs give
equal bytes. The one file that needs `ai-edge-litert` and `flatbuffers`, beside `engine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...dialects.shapes import DYNAMIC
from ...ir.errors import BackendError, LoweringError
from ...ir.extras import install
from ...ir.identifiers import free_name
from .graph import Array, Graph, Operator, Tensor
from .kernels import OPTIONS
from .versions import runtime, version

SchemaObject: TypeAlias = Any
"""An object of a table of the schema: `ai-edge-litert` brings their classes without types."""

ALIGNMENT = 16
"""What kernels and memory-mapping expect of stored values."""

FILE_LIMIT = 1 << 31
"""A flatbuffer holds less than this many bytes."""

SIGNATURE = "serving_default"
"""The key of the one signature."""


@dataclass(frozen=True)
class ModelInfo:
    """What a model says of itself; no timestamps, so that equal input gives equal bytes."""

    description: str
    metadata: Mapping[str, str]


def require_litert() -> Any:
    """The schema that `ai-edge-litert` brings.

    Raises:
        BackendError: the package is not installed.
    """
    try:
        import ai_edge_litert.schema_py_generated as schema  # pyright: ignore[reportMissingImports]
        import flatbuffers  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]
    except ImportError:
        raise BackendError(
            f"the target 'tflite' needs the ai-edge-litert package: {install('tflite')}"
        ) from None
    return schema


def serialize(graph: Graph, info: ModelInfo) -> bytes:
    """The file.

    Raises:
        LoweringError: the weights do not fit one file.
        BackendError: `ai-edge-litert` is missing.
    """
    return _Writer(require_litert(), graph, info).write()


def pack_bits(values: Array, bits: int) -> Array:
    """Signed integers of 2 or 4 bits as bytes: the first in the lowest bits, no padding of rows."""
    count = 8 // bits
    flat = values.reshape(-1).astype(np.uint8) & ((1 << bits) - 1)
    padded = np.zeros(-(-flat.size // count) * count, np.uint8)
    padded[: flat.size] = flat
    shifts = np.arange(count, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(padded.reshape(-1, count) << shifts, axis=-1, dtype=np.uint8)


def unpack_bits(packed: Array, bits: int, count: int) -> Array:
    """The way back from `pack_bits`: `count` signed integers as int8."""
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    codes = (packed.view(np.uint8)[:, None] >> shifts).reshape(-1)[:count] << (8 - bits)
    return codes.astype(np.uint8).view(np.int8) >> np.int8(8 - bits)


def stored_bytes(tensor: Tensor) -> bytes:
    """The bytes of a tensor's values in the file."""
    assert tensor.data is not None
    if tensor.element.bits < 8:
        return pack_bits(tensor.data, tensor.element.bits).tobytes()
    return np.ascontiguousarray(tensor.data).tobytes()


class _Writer:
    """Fills the schema's objects, then packs them."""

    def __init__(self, schema: Any, graph: Graph, info: ModelInfo) -> None:
        self.schema = schema
        self.graph = graph
        self.info = info
        self.contents: list[bytes] = [b""]  # buffer 0 is the empty one
        self.known: dict[bytes, int] = {b"": 0}
        self.codes: dict[tuple[str, int], int] = {}

    def write(self) -> bytes:
        schema, graph = self.schema, self.graph
        tensors = graph.tensors()
        index = {tensor: place for place, tensor in enumerate(tensors)}
        subgraph = schema.SubGraphT()
        subgraph.name = "main"
        subgraph.tensors = self._tensors(tensors)
        subgraph.operators = [self._operator(op, index) for op in graph.operators]
        subgraph.inputs = [index[tensor] for tensor in graph.inputs]
        subgraph.outputs = [index[tensor] for tensor in graph.outputs]
        model = schema.ModelT()
        model.version = 3
        model.description = self.info.description
        model.subgraphs = [subgraph]
        model.signatureDefs = [self._signature(index)]
        model.metadata = self._metadata()
        model.operatorCodes = [self._code(kind, number) for kind, number in self.codes]
        model.buffers = [_AlignedBuffer(schema, content) for content in self.contents]
        return self._pack(model)

    def _tensors(self, tensors: list[Tensor]) -> list[SchemaObject]:
        used: set[str] = set()
        tables: list[SchemaObject] = []
        ports = dict(zip(self.graph.inputs, self.graph.input_names, strict=True))
        ports |= dict(zip(self.graph.outputs, self.graph.output_names, strict=True))
        used.update(ports.values())
        for tensor in tensors:
            used.add(name := free_name(tensor.name, used))
            tables.append(self._tensor(tensor, ports.get(tensor, name)))
        return tables

    def _tensor(self, tensor: Tensor, name: str) -> SchemaObject:
        table = self.schema.TensorT()
        table.name, table.type = name, int(tensor.element)
        table.shape = [1 if size == DYNAMIC else size for size in tensor.shape]
        table.hasRank = True
        if DYNAMIC in tensor.shape:
            table.shapeSignature = [-1 if size == DYNAMIC else size for size in tensor.shape]
        table.buffer = 0 if tensor.data is None else self._buffer(stored_bytes(tensor))
        table.isVariable = tensor.variable
        if tensor.quantization is not None:
            how = self.schema.QuantizationParametersT()
            scale = tensor.quantization.scale.astype(np.float32).reshape(-1)
            how.scale = scale
            how.zeroPoint = np.full(scale.size, tensor.quantization.zero_point, np.int64)
            how.quantizedDimension = tensor.quantization.axis
            table.quantization = how
        return table

    def _buffer(self, content: bytes) -> int:
        if content not in self.known:
            self.known[content] = len(self.contents)
            self.contents.append(content)
        return self.known[content]

    def _operator(self, op: Operator, index: Mapping[Tensor, int]) -> SchemaObject:
        schema = self.schema
        entry = schema.OperatorT()
        entry.opcodeIndex = self.codes.setdefault((op.kind, version(op)), len(self.codes))
        entry.inputs = [-1 if tensor is None else index[tensor] for tensor in op.inputs]
        entry.outputs = [index[tensor] for tensor in op.outputs]
        table = OPTIONS.get(op.kind)
        if table is not None:
            options = getattr(schema, f"{table}T")()
            for name, value in op.options.items():
                setattr(options, name, value)
            entry.builtinOptionsType = getattr(schema.BuiltinOptions, table)
            entry.builtinOptions = options
        return entry

    def _code(self, kind: str, number: int) -> SchemaObject:
        code = self.schema.OperatorCodeT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = number
        return code

    def _signature(self, index: Mapping[Tensor, int]) -> SchemaObject:
        def maps(tensors: list[Tensor], names: list[str]) -> list[SchemaObject]:
            tables: list[SchemaObject] = []
            for tensor, name in zip(tensors, names, strict=True):
                entry = self.schema.TensorMapT()
                entry.name, entry.tensorIndex = name, index[tensor]
                tables.append(entry)
            return tables

        signature = self.schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = SIGNATURE, 0
        signature.inputs = maps(self.graph.inputs, self.graph.input_names)
        signature.outputs = maps(self.graph.outputs, self.graph.output_names)
        return signature

    def _metadata(self) -> list[SchemaObject]:
        oldest = runtime(self.graph.operators).encode()
        entries = {"min_runtime_version": oldest + bytes(max(16 - len(oldest), 0))}
        entries |= {name: text.encode() for name, text in sorted(self.info.metadata.items())}
        tables: list[SchemaObject] = []
        for name, content in entries.items():
            entry = self.schema.MetadataT()
            entry.name, entry.buffer = name, self._buffer(content)
            tables.append(entry)
        return tables

    def _pack(self, model: SchemaObject) -> bytes:
        import flatbuffers  # pyright: ignore[reportMissingImports]

        total = sum(len(content) for content in self.contents)
        if total + (1 << 20) >= FILE_LIMIT:
            raise LoweringError(
                f"a .tflite file holds less than 2 GB, and the weights take {total} bytes; "
                "take another target"
            )
        builder: Any = flatbuffers.Builder(total + (1 << 16))
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


class _AlignedBuffer:
    """Stands for the schema's `BufferT`, and packs its content on a boundary of `ALIGNMENT`."""

    def __init__(self, schema: Any, content: bytes) -> None:
        self.schema = schema
        self.content = content

    def Pack(self, builder: Any) -> int:
        """Write the buffer; its place in the file."""
        schema, content = self.schema, self.content
        data = None
        if content:
            builder.StartVector(1, len(content), ALIGNMENT)
            builder.head -= len(content)
            builder.Bytes[builder.head : builder.head + len(content)] = content
            data = builder.EndVector()
        schema.BufferStart(builder)
        if data is not None:
            schema.BufferAddData(builder, data)
        return schema.BufferEnd(builder)
