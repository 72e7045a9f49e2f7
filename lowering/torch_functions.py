"""What PyTorch calls the functions of one tensor that `tensor` has too, for both ways.

Not here: functions whose arguments are another matter (the rules of `from_torch`, `to_pytorch`).
"""

from __future__ import annotations

from xdsl.ir import Operation

from ..dialects import tensor

_NAMES = {
    **{
        name: f"torch.{name}"
        for name in (
            "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf",
            "exp", "exp2", "expm1", "floor", "log", "log1p", "log2", "reciprocal", "relu", "round",
            "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
        )
    },
    **{
        name: f"F.{name}"
        for name in ("celu", "elu", "leaky_relu", "mish", "selu", "silu", "softsign")
    },
    "hard_swish": "F.hardswish",
    "hard_tanh": "F.hardtanh",
    "is_inf": "torch.isinf",
    "is_nan": "torch.isnan",
}  # fmt: skip

FUNCTIONS: dict[type[Operation], str] = {
    kind: _NAMES[name]
    for kind in tensor.OPERATIONS
    if (name := kind.name.removeprefix("tensor.")) in _NAMES
}
"""By op: `torch.NAME` or `F.NAME` of `torch.nn.functional`; in ATen it is `aten::NAME`."""
