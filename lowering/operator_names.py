"""What ONNX and TFLite call the functions of one tensor that `tensor` has too, for both ways.

Not here: functions whose arguments are another matter (the rules of those front ends and targets),
and what PyTorch calls them (`torch_functions`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ..dialects import tensor

OneOperand: TypeAlias = tensor.UnaryOp | tensor.PredicateOp


def _ops(names: str) -> list[type[OneOperand]]:
    known: dict[str, Any] = {kind.name.removeprefix("tensor."): kind for kind in tensor.OPERATIONS}
    return [known[name] for name in names.split()]


def camel(name: str) -> str:
    """`leaky_relu` as `LeakyRelu`."""
    return "".join(word.capitalize() for word in name.split("_"))


ONNX: dict[type[OneOperand], str] = {
    kind: camel(kind.name.removeprefix("tensor."))
    for kind in _ops(
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor hard_swish is_inf log "
        "mish neg not reciprocal round sigmoid sin sinh softplus softsign sqrt tan tanh"
    )
} | {tensor.IsNanOp: "IsNaN"}
"""Operators without attributes, but for the signs that IsInf looks for."""

TFLITE: dict[type[OneOperand], str] = {
    kind: kind.name.removeprefix("tensor.").upper()
    for kind in _ops("ceil cos exp floor log neg round rsqrt sin sqrt")
} | {tensor.NotOp: "LOGICAL_NOT"}
"""Operators of the schema, by their names in it."""
