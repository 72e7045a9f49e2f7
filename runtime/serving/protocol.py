"""Requests and answers of the Open Inference Protocol, version 2, in JSON and in its binary form.

The protocol: https://github.com/open-inference/open-inference-protocol, REST; binary tensors are
the extension of that name: after JSON of `Inference-Header-Content-Length` bytes come the bytes of
the tensors, little-endian and row-major.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, cast

import ml_dtypes
import numpy as np

from ...ir.arrays import Array
from ...ir.errors import OptionError, refuse
from ...ir.settings import Settings
from .batching import Busy
from .signature import Signature

HEADER = "Inference-Header-Content-Length"
DATATYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"UINT{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
NAMES = {dtype: name for name, dtype in DATATYPES.items()}


def status_of(error: Exception) -> tuple[int, str]:
    """The status with which a request is answered that ended so, and what is said.

    Args:
        error: FastAPI's `HTTPException`, or whatever a request or an engine raises.
    """
    told = vars(error)
    if {"status_code", "detail"} <= told.keys():
        return told["status_code"], str(told["detail"])
    status = 400 if isinstance(error, OptionError) else 429 if isinstance(error, Busy) else 500
    return status, str(error) or type(error).__name__


class Request:
    """What a client asks for.

    Attributes:
        id: of the request, given back.
        inputs: arrays in the order of the model.
        outputs: the results asked for in their order, and whether each is to be binary.
        samples: how many it holds.
    """

    def __init__(self, body: bytes, header_length: int | None, signature: Signature) -> None:
        """Read a request.

        Raises:
            OptionError: it is no request, or does not fit the model.
        """
        end = len(body) if header_length is None else header_length
        refuse(not 0 <= end <= len(body), f"{HEADER} is {end}, but the body has {len(body)} bytes")
        fields = Settings.of_json(body[:end], "the request", OptionError).values
        self.id = str(fields["id"]) if "id" in fields else None
        parameters = _object(fields.get("parameters", {}), "'parameters'")
        binary = parameters.get("binary_data_output") is True
        self.outputs = _outputs(fields.get("outputs"), binary, signature)
        given: dict[str, Array] = {}
        rest = body[end:]
        for entry in _list(fields.get("inputs"), "inputs"):
            name, array, rest = read_tensor(_object(entry, "an input"), rest)
            refuse(name in given, f"input '{name}' is given twice")
            given[name] = array
        refuse(rest, f"{len(rest)} bytes follow the last binary input")
        wanted = [port.name for port in signature.inputs]
        if sorted(given) != sorted(wanted):
            raise OptionError(f"expected the inputs {wanted}, got {sorted(given)}")
        self.inputs = [given[name] for name in wanted]
        for port, array in zip(signature.inputs, self.inputs, strict=True):
            port.check(array)
        self.samples = signature.samples(self.inputs)


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise OptionError(f"{what} is no JSON object")
    return cast("Mapping[str, Any]", value)


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise OptionError(f"the request has no list '{key}'")
    return cast("list[Any]", value)


def _outputs(listed: Any, binary: bool, signature: Signature) -> dict[str, bool]:
    """The results asked for, all where none are listed, and whether each is to be binary."""
    names = [port.name for port in signature.outputs]
    if listed is None:
        return dict.fromkeys(names, binary)
    asked: dict[str, bool] = {}
    for value in _list(listed, "outputs"):
        entry = _object(value, "an output")
        name = entry.get("name")
        refuse(name not in names, f"there is no output {name!r}; there are {names}")
        parameters = _object(entry.get("parameters", {}), "'parameters'")
        asked[str(name)] = parameters.get("binary_data", binary) is True
    return asked or dict.fromkeys(names, binary)


def read_tensor(entry: Mapping[str, Any], rest: bytes) -> tuple[str, Array, bytes]:
    """The name and values of an input or output, and the binary tensors behind it.

    Raises:
        OptionError: it is none.
    """
    name, shape, datatype = (entry.get(key) for key in ("name", "shape", "datatype"))
    if not isinstance(name, str):
        raise OptionError("an input has no name")
    sizes: list[Any] = cast("list[Any]", shape) if isinstance(shape, list) else [None]
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise OptionError(f"input '{name}' has no shape of sizes from 0 on")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise OptionError(f"input '{name}' has the datatype {datatype!r}; there are {[*DATATYPES]}")
    dtype = DATATYPES[datatype]
    length = _object(entry.get("parameters", {}), "'parameters'").get("binary_data_size")
    try:
        if length is None:
            return name, _written(entry.get("data"), dtype).reshape(sizes), rest
        if type(length) is not int or not 0 <= length <= len(rest):
            raise OptionError(f"input '{name}' is to have {length} bytes, of {len(rest)} there are")
        values = np.frombuffer(rest[:length], dtype.newbyteorder("<")).astype(dtype, copy=False)
        if dtype == np.bool_ and (values.view(np.uint8) > 1).any():
            raise ValueError("bytes other than 0 and 1")
        return name, values.reshape(sizes), rest[length:]
    except (ValueError, TypeError, OverflowError) as error:
        raise OptionError(f"input '{name}' does not hold {datatype}{sizes}: {error}") from None


def _written(data: Any, dtype: np.dtype[Any]) -> Array:
    """Numbers of JSON as they are: NumPy would also read texts, and cut numbers to integers."""
    level: list[Any] = [data]
    while list in (kinds := set(map(type, level))):
        if kinds != {list}:
            raise ValueError("lists stand beside numbers")
        level = [*chain.from_iterable(level)]
    wanted = {np.dtype(np.bool_): {bool}}.get(dtype, {int} if dtype.kind in "iu" else {int, float})
    if not kinds <= wanted:
        found = ", ".join(sorted(kind.__name__ for kind in kinds - wanted))
        raise ValueError(f"'data' has elements of the type {found}")
    return np.array(data, dtype=dtype)


def answer(
    model: str, request: Request, signature: Signature, results: Sequence[Array]
) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON where binary tensors follow."""
    outputs: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    named = {port.name: x for port, x in zip(signature.outputs, results, strict=True)}
    for name, binary in request.outputs.items():
        outputs.append(write_tensor(name, named[name], blobs if binary else None))
    fields: dict[str, Any] = {"model_name": model, "outputs": outputs}
    if request.id is not None:
        fields["id"] = request.id
    text = json.dumps(fields).encode()
    return b"".join((text, *blobs)), len(text) if blobs else None


def write_tensor(name: str, array: Array, blobs: list[bytes] | None) -> dict[str, Any]:
    """An input or output: its values among `blobs`, or in what is given where there are none."""
    facts: dict[str, Any] = {"name": name, "shape": [*array.shape], "datatype": NAMES[array.dtype]}
    if blobs is None:
        return {**facts, "data": array.ravel().tolist()}
    blobs.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return {**facts, "parameters": {"binary_data_size": len(blobs[-1])}}


def describe(model: str, platform: str, signature: Signature) -> dict[str, Any]:
    """The metadata of a model."""

    def ports(listed: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            {"name": port.name, "datatype": NAMES[port.dtype], "shape": list(port.shape)}
            for port in listed
        ]

    return {
        "name": model,
        "versions": ["1"],
        "platform": platform,
        "inputs": ports(signature.inputs),
        "outputs": ports(signature.outputs),
    }
