"""Rules of the activation functions of ATen; those without an op are made of others."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.activation import SELU
from ...dialects.tensor.formula import Formula
from .rules_elementwise import Rule, composed, unary
from .sizes import ProblemError
from .torch_builder import Builder, Call


def _number(e: Builder, like: SSAValue, value: float) -> SSAValue:
    return e.number(value, tensor_type(like).element_type)


def _choose(e: Builder, x: SSAValue, predicate: str, bound: float, a: Any, b: Any) -> SSAValue:
    """a where x ⋈ bound, else b."""
    condition = e.add(tensor.CompareOp(x, _number(e, x, bound), predicate))
    return e.add(tensor.WhereOp(condition, a, b))


def _gelu(e: Builder, call: Call) -> SSAValue:
    kind = "tanh" if call.get("approximate", "none") == "tanh" else "exact"
    return e.add(tensor.GeluOp(e.value(call["self"]), kind))


def _leaky_relu(e: Builder, call: Call) -> SSAValue:
    return e.add(tensor.LeakyReluOp(e.value(call["self"]), float(call["negative_slope"])))


def _rrelu(e: Builder, call: Call) -> SSAValue:
    if call["training"]:
        raise ProblemError("it draws slopes at random in training; call eval()")
    slope = (float(call["lower"]) + float(call["upper"])) / 2
    return e.add(tensor.LeakyReluOp(e.value(call["self"]), slope))


def _prelu(e: Builder, call: Call) -> SSAValue:
    x, rank = e.value(call["self"]), call.rank
    weight = e.value(call["weight"])
    size = tensor_type(weight).get_shape()[-1] if tensor_type(weight).get_shape() else 1
    if size != 1 and rank > 2:
        weight = e.add(tensor.ReshapeToOp(weight, [size, *[1] * (rank - 2)]))
    return e.add(tensor.PreluOp(x, weight))


def _hard_tanh(e: Builder, call: Call) -> SSAValue:
    low, high = float(call.get("min_val", -1.0)), float(call.get("max_val", 1.0))
    x = e.value(call["self"])
    if (low, high) == (0.0, 6.0):
        return e.add(tensor.Relu6Op(x))
    if (low, high) == (-1.0, 1.0):
        return e.add(tensor.HardTanhOp(x))
    return e.add(tensor.ClampOp(x, min=low, max=high))


def _elu(e: Builder, call: Call) -> SSAValue:
    alpha, scale, inner = (float(call.get(n, 1.0)) for n in ("alpha", "scale", "input_scale"))
    x = Formula(e, e.value(call["self"]))
    if (scale, inner) == (1.0, 1.0):
        return x.of(tensor.EluOp, alpha=alpha).value
    if (alpha, scale, inner) == (*SELU, 1.0):
        return x.of(tensor.SeluOp).value
    return (x > 0).choose(x * scale, (x * inner).of(tensor.Expm1Op) * (alpha * scale)).value


def _celu(e: Builder, call: Call) -> SSAValue:
    return e.add(tensor.CeluOp(e.value(call["self"]), float(call.get("alpha", 1.0))))


def _softplus(e: Builder, call: Call) -> SSAValue:
    beta, threshold = float(call.get("beta", 1)), float(call.get("threshold", 20))
    x = Formula(e, e.value(call["self"]))
    if beta == 1 and threshold >= 20 and not x.is_double:
        return x.of(tensor.SoftplusOp).value
    scaled = x * beta
    return (scaled > threshold).choose(x, scaled.of(tensor.SoftplusOp) * (1 / beta)).value


def _log_sigmoid(e: Builder, x: SSAValue) -> SSAValue:
    return (-(-Formula(e, x)).of(tensor.SoftplusOp)).value


def _tanh_shrink(e: Builder, x: SSAValue) -> SSAValue:
    return e.add(tensor.SubOp(x, e.add(tensor.TanhOp(x))))


def _hard_shrink(e: Builder, call: Call) -> SSAValue:
    x = e.value(call["self"])
    size = e.add(tensor.AbsOp(x))
    return _choose(e, size, "gt", float(call["lambd"]), x, _number(e, x, 0))


def _soft_shrink(e: Builder, call: Call) -> SSAValue:
    x, bound = e.value(call["self"]), float(call["lambd"])
    inside = e.add(tensor.ClampOp(x, min=-bound, max=bound))
    return e.add(tensor.SubOp(x, inside))


def _threshold(e: Builder, call: Call) -> SSAValue:
    x = e.value(call["self"])
    return _choose(e, x, "gt", float(call["threshold"]), x, _number(e, x, float(call["value"])))


def _glu(e: Builder, call: Call) -> SSAValue:
    x, axis = e.value(call["self"]), int(call.get("dim", -1))
    size = e.sizes(call["self"])[axis]
    if not isinstance(size, int):
        raise ProblemError("it halves a size that is not fixed")
    split = tensor.SplitOp(x, axis % call.rank, [size // 2, size // 2])
    e.add(split)
    return e.add(tensor.MulOp(split.results[0], e.add(tensor.SigmoidOp(split.results[1]))))


def _soft_max(kind: type[tensor.SoftmaxOp | tensor.LogSoftmaxOp]) -> Rule:
    def rule(e: Builder, call: Call) -> SSAValue:
        x = e.operand(call["self"], call.value.dtype)
        return e.add(kind(x, int(call["dim"])))

    return rule


def _soft_min(e: Builder, call: Call) -> SSAValue:
    x = e.add(tensor.NegOp(e.operand(call["self"], call.value.dtype)))
    return e.add(tensor.SoftmaxOp(x, int(call["dim"])))


def _logit(e: Builder, call: Call) -> SSAValue:
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
    "hardsigmoid": composed(lambda e, x: e.add(tensor.HardSigmoidOp(x, 1 / 6))),
    "hardswish": unary(tensor.HardSwishOp),
    "hardtanh": _hard_tanh,
    "leaky_relu": _leaky_relu,
    "log_sigmoid": composed(_log_sigmoid),
    "log_softmax": _soft_max(tensor.LogSoftmaxOp),
    "_log_softmax": _soft_max(tensor.LogSoftmaxOp),
    "logit": _logit,
    "mish": unary(tensor.MishOp),
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "relu": unary(tensor.ReluOp),
    "relu6": unary(tensor.Relu6Op),
    "rrelu": _rrelu,
    "rrelu_with_noise": _rrelu,
    "rrelu_with_noise_functional": _rrelu,
    "selu": unary(tensor.SeluOp),
    "sigmoid": unary(tensor.SigmoidOp),
    "silu": unary(tensor.SiluOp),
    "softmax": _soft_max(tensor.SoftmaxOp),
    "_softmax": _soft_max(tensor.SoftmaxOp),
    "softmin": _soft_min,
    "softplus": _softplus,
    "softshrink": _soft_shrink,
    "softsign": unary(tensor.SoftsignOp),
    "tanh": unary(tensor.TanhOp),
    "tanhshrink": composed(_tanh_shrink),
    "threshold": _threshold,
}
"""By the name of the operator in the namespace `aten`."""
