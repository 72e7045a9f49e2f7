"""What the `onnx` package knows of operators: versions, and bodies of those that are functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .reading import require_onnx

OPSETS = (1, 28)
"""The versions of the standard's operators that are read; rules follow those of 6 and later."""


def body_of(node: Any, opset: int, types: Sequence[Any]) -> tuple[Any, list[Any]] | None:
    """The standard's definition of a node by other operators, with the defaults of attributes.

    Args:
        node: a node.
        opset: the version of its domain that the model uses.
        types: a `TypeProto` for each input.
    """
    onnx = require_onnx()
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    body: bytes | None = None
    if schema.has_function:
        versions = schema.function_opset_versions
        body = _newest(schema.get_function_with_opset_version, versions, opset)
    elif schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions

        def made(version: int) -> bytes:
            return schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), [type.SerializeToString() for type in types]
            )

        body = _newest(made, versions, opset)
    if not body:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    defaults = [entry.default_value for entry in schema.attributes.values()]
    return function, [value for value in defaults if value.name]


def _newest(body: Any, versions: Sequence[int], opset: int) -> bytes | None:
    fitting = [version for version in versions if version <= opset]
    return body(max(fitting)) if fitting else None
