"""Rules of the activation functions of ATen; those without an op are made of others."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .emitter import Call, Emitter
from .rules_elementwise import Rule, composed, expm1, log1p, unary
from .sizes import ProblemError

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""Klambauer et al. 2017, equation 14."""


def _number(e: Emitter, like: SSAValue, value: float) -> SSAValue:
    return e.number(value, tensor_type(like).element_type)


def _choose(e: Emitter, x: SSAValue, predicate: str, bound: float, a: Any, b: Any) -> SSAValue:
    """a where x ⋈ bound, else b."""
    condition = e.add(tensor.CompareOp(x, _number(e, x, bound), predicate))
    return e.add(tensor.WhereOp(condition, a, b))


def _times(e: Emitter, x: SSAValue, factor: float) -> SSAValue:
    return x if factor == 1 else e.add(tensor.MulOp(x, _number(e, x, factor)))


def _gelu(e: Emitter, call: Call) -> SSAValue:
    kind = "tanh" if call.get("approximate", "none") == "tanh" else "exact"
    return e.add(tensor.GeluOp(e.value(call["self"]), kind))


def _leaky_relu(e: Emitter, call: Call) -> SSAValue:
    return e.add(tensor.LeakyReluOp(e.value(call["self"]), float(call["negative_slope"])))


def _rrelu(e: Emitter, call: Call) -> SSAValue:
    if call["training"]:
        raise ProblemError("it draws slopes at random in training; call eval()")
    slope = (float(call["lower"]) + float(call["upper"])) / 2
    return e.add(tensor.LeakyReluOp(e.value(call["self"]), slope))


def _prelu(e: Emitter, call: Call) -> SSAValue:
    x, rank = e.value(call["self"]), call.rank
    weight = e.value(call["weight"])
    size = tensor_type(weight).get_shape()[-1] if tensor_type(weight).get_shape() else 1
    if size != 1 and rank > 2:
        weight = e.add(tensor.ReshapeToOp(weight, [size, *[1] * (rank - 2)]))
    return _choose(e, x, "gt", 0.0, x, e.add(tensor.MulOp(weight, x)))


def _hard_tanh(e: Emitter, call: Call) -> SSAValue:
    low, high = float(call.get("min_val", -1.0)), float(call.get("max_val", 1.0))
    x = e.value(call["self"])
    if (low, high) == (0.0, 6.0):
        return e.add(tensor.Relu6Op(x))
    if (low, high) == (-1.0, 1.0):
        return e.add(tensor.HardTanhOp(x))
    return e.add(tensor.ClampOp(x, min=low, max=high))


def _hard_sigmoid(e: Emitter, x: SSAValue) -> SSAValue:
    moved = e.add(tensor.AddOp(x, _number(e, x, 3)))
    return e.add(tensor.DivOp(e.add(tensor.Relu6Op(moved)), _number(e, x, 6)))


def _elu(e: Emitter, call: Call) -> SSAValue:
    alpha, scale, inner = (float(call.get(n, 1.0)) for n in ("alpha", "scale", "input_scale"))
    return _exponential(e, e.value(call["self"]), alpha * scale, scale, inner)


def _selu(e: Emitter, x: SSAValue) -> SSAValue:
    return _exponential(e, x, SELU_ALPHA * SELU_SCALE, SELU_SCALE, 1.0)


def _celu(e: Emitter, call: Call) -> SSAValue:
    alpha = float(call.get("alpha", 1.0))
    return _exponential(e, e.value(call["self"]), alpha, 1.0, 1 / alpha)


def _exponential(e: Emitter, x: SSAValue, alpha: float, scale: float, inner: float) -> SSAValue:
    """scale·x where x > 0, else alpha·(e^(inner·x) - 1)."""
    low = e.add(tensor.ClampOp(x, max=0.0))
    below = _times(e, expm1(e, _times(e, low, inner)), alpha)
    return _choose(e, x, "gt", 0.0, _times(e, x, scale), below)


def _softplus(e: Emitter, call: Call) -> SSAValue:
    beta, threshold = float(call.get("beta", 1)), float(call.get("threshold", 20))
    x = e.value(call["self"])
    scaled = _times(e, x, beta)
    soft = _times(e, soft_plus(e, scaled), 1 / beta)
    return _choose(e, scaled, "gt", threshold, x, soft)


def soft_plus(e: Emitter, x: SSAValue) -> SSAValue:
    """ln(1 + e^x) as max(x, 0) + ln(1 + e^-|x|), which does not overflow."""
    small = e.add(tensor.ExpOp(e.add(tensor.NegOp(e.add(tensor.AbsOp(x))))))
    return e.add(tensor.AddOp(e.add(tensor.ReluOp(x)), log1p(e, small)))


def _mish(e: Emitter, x: SSAValue) -> SSAValue:
    return e.add(tensor.MulOp(x, e.add(tensor.TanhOp(soft_plus(e, x)))))


def _log_sigmoid(e: Emitter, x: SSAValue) -> SSAValue:
    return e.add(tensor.NegOp(soft_plus(e, e.add(tensor.NegOp(x)))))


def _soft_sign(e: Emitter, x: SSAValue) -> SSAValue:
    below = e.add(tensor.AddOp(e.add(tensor.AbsOp(x)), _number(e, x, 1)))
    return e.add(tensor.DivOp(x, below))


def _tanh_shrink(e: Emitter, x: SSAValue) -> SSAValue:
    return e.add(tensor.SubOp(x, e.add(tensor.TanhOp(x))))


def _hard_shrink(e: Emitter, call: Call) -> SSAValue:
    x = e.value(call["self"])
    size = e.add(tensor.AbsOp(x))
    return _choose(e, size, "gt", float(call["lambd"]), x, _number(e, x, 0))


def _soft_shrink(e: Emitter, call: Call) -> SSAValue:
    x, bound = e.value(call["self"]), float(call["lambd"])
    inside = e.add(tensor.ClampOp(x, min=-bound, max=bound))
    return e.add(tensor.SubOp(x, inside))


def _threshold(e: Emitter, call: Call) -> SSAValue:
    x = e.value(call["self"])
    return _choose(e, x, "gt", float(call["threshold"]), x, _number(e, x, float(call["value"])))


def _glu(e: Emitter, call: Call) -> SSAValue:
    x, axis = e.value(call["self"]), int(call.get("dim", -1))
    size = e.sizes(call["self"])[axis]
    if not isinstance(size, int):
        raise ProblemError("it halves a size that is not fixed")
    split = tensor.SplitOp(x, axis % call.rank, [size // 2, size // 2])
    e.add(split)
    return e.add(tensor.MulOp(split.results[0], e.add(tensor.SigmoidOp(split.results[1]))))


def _soft_max(kind: type[tensor.SoftmaxOp | tensor.LogSoftmaxOp]) -> Rule:
    def rule(e: Emitter, call: Call) -> SSAValue:
        x = e.operand(call["self"], call.value.dtype)
        return e.add(kind(x, int(call["dim"])))

    return rule


def _soft_min(e: Emitter, call: Call) -> SSAValue:
    x = e.add(tensor.NegOp(e.operand(call["self"], call.value.dtype)))
    return e.add(tensor.SoftmaxOp(x, int(call["dim"])))


def _logit(e: Emitter, call: Call) -> SSAValue:
    x, bound = e.value(call["self"]), call.get("eps")
    if bound is not None:
        x = e.add(tensor.ClampOp(x, min=float(bound), max=1 - float(bound)))
    rest = e.add(tensor.SubOp(_number(e, x, 1), x))
    return e.add(tensor.LogOp(e.add(tensor.DivOp(x, rest))))


RULES: dict[str, Rule] = {
    "celu": _celu,
    "elu": _elu,
    "gelu": _gelu,
    "glu": _glu,
    "hardshrink": _hard_shrink,
    "hardsigmoid": composed(_hard_sigmoid),
    "hardswish": unary(tensor.HardSwishOp),
    "hardtanh": _hard_tanh,
    "leaky_relu": _leaky_relu,
    "log_sigmoid": composed(_log_sigmoid),
    "log_softmax": _soft_max(tensor.LogSoftmaxOp),
    "_log_softmax": _soft_max(tensor.LogSoftmaxOp),
    "logit": _logit,
    "mish": composed(_mish),
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "relu": unary(tensor.ReluOp),
    "relu6": unary(tensor.Relu6Op),
    "rrelu": _rrelu,
    "rrelu_with_noise": _rrelu,
    "rrelu_with_noise_functional": _rrelu,
    "selu": composed(_selu),
    "sigmoid": unary(tensor.SigmoidOp),
    "silu": unary(tensor.SiluOp),
    "softmax": _soft_max(tensor.SoftmaxOp),
    "_softmax": _soft_max(tensor.SoftmaxOp),
    "softmin": _soft_min,
    "softplus": _softplus,
    "softshrink": _soft_shrink,
    "softsign": composed(_soft_sign),
    "tanh": unary(tensor.TanhOp),
    "tanhshrink": composed(_tanh_shrink),
    "threshold": _threshold,
}
"""By the name of the operator in the namespace `aten`."""
