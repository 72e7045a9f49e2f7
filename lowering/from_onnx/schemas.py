"""What the `onnx` package knows of operators: versions, and bodies of those that are functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..problems import ProblemError

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto

OPSETS = (1, 28)
"""The versions of the standard's operators that are read; rules follow those of 6 and later."""


def body_of(
    node: NodeProto, opset: int, types: Sequence[TypeProto]
) -> tuple[FunctionProto, list[AttributeProto]] | None:
    """The standard's definition of a node by other operators, with the defaults of attributes.

    Args:
        node: a node.
        opset: the version of its domain that the model uses.
        types: a `TypeProto` for each input.

    Raises:
        ProblemError: the node does not fit its definition.
    """
    from onnx import FunctionProto, defs

    try:
        schema = defs.get_schema(node.op_type, opset, node.domain)
    except defs.SchemaError:
        return None
    try:
        body = _body(schema, node, opset, types)
    except (RuntimeError, ValueError) as error:
        raise ProblemError(f"its attributes or inputs do not fit it: {error}") from None
    if not body:
        return None
    function = FunctionProto()
    function.ParseFromString(body)
    defaults = [entry.default_value for entry in schema.attributes.values()]
    return function, [value for value in defaults if value.name]


def _body(schema: Any, node: NodeProto, opset: int, types: Sequence[TypeProto]) -> bytes | None:
    """The serialised body; of some operators it depends on attributes and types."""
    if schema.has_function:
        versions = schema.function_opset_versions
        return _newest(schema.get_function_with_opset_version, versions, opset)
    if not schema.has_context_dependent_function:
        return None

    def body_at(version: int) -> bytes:
        return schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), [type.SerializeToString() for type in types]
        )

    return _newest(body_at, schema.context_dependent_function_opset_versions, opset)


def _newest(body: Callable[[int], bytes], versions: Sequence[int], opset: int) -> bytes | None:
    fitting = [version for version in versions if version <= opset]
    return body(max(fitting)) if fitting else None
