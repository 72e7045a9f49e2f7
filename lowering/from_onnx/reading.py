"""Opens ONNX files from strangers: the protocol buffer, its tensors, and files beside it.

Every defect is one `SourceError`; nothing outside the model's folder is read. Not here: what nodes
mean (`importer`, `onnx_operators`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...ir.arrays import Array, Dtype
from ...ir.errors import BackendError, SourceError
from ...ir.extras import install
from ...ir.safe_read import opened
from .calls import AttributeValue
from .formats import format_of

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, TensorProto

ModelSource: TypeAlias = "str | PathLike[str] | bytes | ModelProto"
"""A path, the bytes of a file, or a model."""

FILE_LIMIT = 1 << 31
"""Protocol buffers hold less than this many bytes in one message."""

LARGEST = 1 << 40
"""No tensor has more elements than this; sizes are checked before anything is allocated."""


def require_onnx() -> Any:
    """The `onnx` package.

    Raises:
        BackendError: it is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise BackendError(f"from_onnx needs the onnx package: {install('onnx')}") from None
    return onnx


def read_model(source: ModelSource) -> tuple[ModelProto, str, Path | None]:
    """The `ModelProto` of a path, of bytes or of itself; what messages call it; its folder.

    Raises:
        SourceError: no such file, or no ONNX model.
        BackendError: the `onnx` package is missing.
    """
    require_onnx()
    from onnx import ModelProto

    if isinstance(source, ModelProto):
        return source, "ONNX model", None
    if isinstance(source, bytes):
        return _parsed(source, "ONNX model"), "ONNX model", None
    path = Path(source)
    with opened(path, FILE_LIMIT, SourceError) as file:
        data = file.read()
    return _parsed(data, str(path)), str(path), path.parent


def _parsed(data: bytes, where: str) -> ModelProto:
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    model = ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError) as error:
        raise SourceError(f"{where}: no ONNX model: {error}") from None
    if not model.HasField("graph"):
        raise SourceError(f"{where}: no ONNX model: it has no graph")
    return model


def require_text(where: str, *names: object) -> None:
    """Refuse names that are no text: protocol buffers give bytes for what is not UTF-8.

    Raises:
        SourceError: one is bytes.
    """
    for name in names:
        if not isinstance(name, str):
            raise SourceError(f"{where}: the name {name!r} is not UTF-8 text")


def tensor_array(proto: TensorProto, folder: Path | None, where: str) -> Array:
    """The values of a `TensorProto`, of the dtype that the standard's has in NumPy.

    Values that stand in a file beside the model are mapped into memory and not read.

    Raises:
        SourceError: the values do not fit the shape, or the file is missing or outside the folder.
    """
    from onnx import TensorProto, numpy_helper

    name = f"{where}: tensor '{proto.name}'"
    shape = tuple(int(size) for size in proto.dims)
    if any(size < 0 for size in shape) or prod(max(size, 1) for size in shape) > LARGEST:
        raise SourceError(f"{name} has the shape {list(shape)}")
    if proto.HasField("segment"):
        raise SourceError(f"{name} is one segment of several; ONNX has no meaning for them")
    if proto.data_location == TensorProto.EXTERNAL:
        return _external(proto, shape, folder, name)
    if proto.data_type == TensorProto.STRING:
        _require_count(len(proto.string_data), shape, name)
        return np.array([bytes(s) for s in proto.string_data], object).reshape(shape)
    if proto.HasField("raw_data"):
        dtype = _dtype(proto.data_type, name)
        if (needed := _byte_count(dtype, shape)) != len(proto.raw_data):
            raise SourceError(
                f"{name} has {len(proto.raw_data)} bytes, its shape {list(shape)} needs {needed}"
            )
        if (format := format_of(dtype)) is not None:
            return format.unpacked(np.frombuffer(proto.raw_data, np.uint8), prod(shape)).reshape(
                shape
            )
        if dtype.isbuiltin:
            little = dtype.newbyteorder("<")
            return np.frombuffer(proto.raw_data, little).reshape(shape).astype(dtype, copy=False)
    elif prod(shape) > 8 * proto.ByteSize():
        raise SourceError(f"{name} has the shape {list(shape)} and too few values for it")
    _dtype(proto.data_type, name)
    try:
        array: Array = numpy_helper.to_array(proto)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise SourceError(f"{name}: {error}") from None
    if array.shape != shape:
        raise SourceError(f"{name} has values of shape {list(array.shape)}, not {list(shape)}")
    return array


def _byte_count(dtype: Dtype, shape: Sequence[int]) -> int:
    """How many bytes of a file hold elements: several may share one."""
    format = format_of(dtype)
    return -(-prod(shape) * (8 * dtype.itemsize if format is None else format.bits) // 8)


def _require_count(count: int, shape: Sequence[int], name: str) -> None:
    if count != prod(shape):
        raise SourceError(f"{name} has {count} values, its shape {list(shape)} needs {prod(shape)}")


def _dtype(data_type: int, name: str) -> Dtype:
    try:
        return np.dtype(require_onnx().helper.tensor_dtype_to_np_dtype(data_type))
    except (KeyError, TypeError, ValueError):
        raise SourceError(f"{name} has the unknown element type {data_type}") from None


def _external(proto: TensorProto, shape: tuple[int, ...], folder: Path | None, name: str) -> Array:
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    pure = PurePosixPath(location)
    outside = pure.is_absolute() or ".." in pure.parts or "\\" in location or "\0" in location
    if not location or outside:
        raise SourceError(f"{name} stands in the file '{location}', outside the model's folder")
    if folder is None:
        raise SourceError(f"{name} stands in the file '{location}'; give the model by its path")
    path = folder / location
    try:
        root, real = folder.resolve(), path.resolve(strict=True)
        if not real.is_relative_to(root) or not real.is_file():
            raise SourceError(f"{name} stands in the file '{location}', outside the model's folder")
        offset, length = (int(entries.get(key) or 0) for key in ("offset", "length"))
        size = real.stat().st_size
    except OSError as error:
        raise SourceError(f"{name} stands in the file '{location}': {error.strerror}") from None
    except ValueError:
        raise SourceError(f"{name}: offset and length in its file must be numbers") from None
    dtype = _dtype(proto.data_type, name)
    if dtype == np.dtype(object):
        raise SourceError(f"{name}: elements of {dtype.name} in another file are not supported")
    needed = _byte_count(dtype, shape)
    if offset < 0 or ("length" in entries and length != needed) or offset + needed > size:
        raise SourceError(
            f"{name} needs {needed} bytes from byte {offset} of the file '{location}', which has "
            f"{size}; its entry says {entries.get('length', 'no length')}"
        )
    if needed == 0:
        return np.empty(shape, dtype)
    if (format := format_of(dtype)) is not None and format.bits < 8:
        data = np.fromfile(real, np.uint8, needed, offset=offset)
        return format.unpacked(data, prod(shape)).reshape(shape)
    if not dtype.isbuiltin:
        return np.fromfile(real, np.uint8, needed, offset=offset).view(dtype).reshape(shape)
    return np.memmap(real, dtype.newbyteorder("<"), "r", offset, shape)


def attributes_of(
    entries: Iterable[AttributeProto], folder: Path | None, where: str
) -> dict[str, AttributeValue]:
    """Attributes by name: numbers, text, lists, arrays, or graphs as they are."""
    from onnx import AttributeProto as types

    def text(data: bytes) -> str:
        return data.decode("utf-8", "replace")

    read: dict[int, Callable[[AttributeProto], AttributeValue]] = {
        types.FLOAT: lambda entry: entry.f,
        types.INT: lambda entry: entry.i,
        types.STRING: lambda entry: text(entry.s),
        types.TENSOR: lambda entry: tensor_array(entry.t, folder, where),
        types.FLOATS: lambda entry: list(entry.floats),
        types.INTS: lambda entry: list(entry.ints),
        types.STRINGS: lambda entry: [text(data) for data in entry.strings],
        types.GRAPH: lambda entry: entry.g,
    }
    attributes: dict[str, AttributeValue] = {}
    for entry in entries:
        require_text(where, entry.name, entry.ref_attr_name)
        attributes[entry.name] = read[entry.type](entry) if entry.type in read else entry
    return attributes
