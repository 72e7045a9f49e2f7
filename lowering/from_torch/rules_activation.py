"""Rules of the activation functions of ATen; those without an op are made of others."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.activation import SELU
from ...dialects.tensor.formula import Formula
from ..problems import refuse
from .calls import Call
from .rules_elementwise import composed, first, unary
from .sizes import static
from .torch_builder import Builder, Rule


def _formula(function: Callable[[Formula, Call], Formula]) -> Rule:
    """A rule for a formula of the operand."""
    return lambda e, call: function(Formula(e, e.value(call["self"])), call).value


def _with_number(kind: type[tensor.AlphaOp], name: str, default: float | None = None) -> Rule:
    """A rule for an op of one operand and a number."""
    return lambda e, call: e.add(kind(e.value(call["self"]), call.number(name, default)))


def _gelu(e: Builder, call: Call) -> SSAValue:
    kind = "tanh" if call.word("approximate") == "tanh" else "exact"
    return e.add(tensor.GeluOp(e.value(call["self"]), kind))


def _rrelu(e: Builder, call: Call) -> SSAValue:
    refuse(call.flag("training"), "it draws slopes at random in training; call eval()")
    slope = (call.number("lower") + call.number("upper")) / 2
    return e.add(tensor.LeakyReluOp(e.value(call["self"]), slope))


def _prelu(e: Builder, call: Call) -> SSAValue:
    x, weight = e.value(call["self"]), e.value(call["weight"])
    (size,) = static(e.sizes(call["weight"])[-1:], "slopes") or [1]
    if size != 1 and call.rank > 2:
        weight = e.add(tensor.ReshapeToOp(weight, [size, *[1] * (call.rank - 2)]))
    return e.add(tensor.PreluOp(x, weight))


def _hard_tanh(e: Builder, call: Call) -> SSAValue:
    low, high = call.number("min_val", -1.0), call.number("max_val", 1.0)
    x = e.value(call["self"])
    if (low, high) == (0.0, 6.0):
        return e.add(tensor.Relu6Op(x))
    if (low, high) == (-1.0, 1.0):
        return e.add(tensor.HardTanhOp(x))
    return e.add(tensor.ClampOp(x, min=low, max=high))


@_formula
def _elu(x: Formula, call: Call) -> Formula:
    alpha, scale, inner = (call.number(n, 1.0) for n in ("alpha", "scale", "input_scale"))
    if (scale, inner) == (1.0, 1.0):
        return x.of(tensor.EluOp, alpha=alpha)
    if (alpha, scale, inner) == (*SELU, 1.0):
        return x.of(tensor.SeluOp)
    return (x > 0).choose(x * scale, (x * inner).of(tensor.Expm1Op) * (alpha * scale))


@_formula
def _softplus(x: Formula, call: Call) -> Formula:
    beta, threshold = call.number("beta", 1), call.number("threshold", 20)
    if beta == 1 and threshold >= 20 and not x.is_double:
        return x.of(tensor.SoftplusOp)
    scaled = x * beta
    return (scaled > threshold).choose(x, scaled.of(tensor.SoftplusOp) * (1 / beta))


def _soft_shrink(e: Builder, call: Call) -> SSAValue:
    x, bound = e.value(call["self"]), call.number("lambd")
    inside = e.add(tensor.ClampOp(x, min=-bound, max=bound))
    return e.add(tensor.SubOp(x, inside))


@_formula
def _threshold(x: Formula, call: Call) -> Formula:
    below = x.compare("le", call.number("threshold"))  # which NaN is not
    return below.choose(x.number(call.number("value")), x)


def _glu(e: Builder, call: Call) -> SSAValue:
    axis = call.axis(call.rank, default=-1)
    (size,) = static([e.sizes(call["self"])[axis]], "halved size")
    split = tensor.SplitOp(e.value(call["self"]), axis, [size // 2, size // 2])
    e.add(split)
    return e.add(tensor.MulOp(split.results[0], e.add(tensor.SigmoidOp(split.results[1]))))


def _soft_max(kind: type[tensor.SoftmaxOp | tensor.LogSoftmaxOp], sign: int = 1) -> Rule:
    """Along an axis, or of one number without axes."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = first(e, call) if sign > 0 else e.add(tensor.NegOp(first(e, call)))
        if call.rank:
            return e.add(kind(x, call.integer("dim")))
        return e.add(tensor.SqueezeOp(e.add(kind(e.add(tensor.UnsqueezeOp(x, [0])), 0)), [0]))

    return rule


@_formula
def _logit(x: Formula, call: Call) -> Formula:
    if "eps" in call:
        bound = call.number("eps")
        x = x.of(tensor.ClampOp, min=bound, max=1 - bound)
    return (x / (1 - x)).of(tensor.LogOp)


RULES: dict[str, Rule] = {
    "celu": _with_number(tensor.CeluOp, "alpha", 1.0),
    "elu": _elu,
    "gelu": _gelu,
    "glu": _glu,
    "hardshrink": _formula(lambda x, call: (abs(x) > call.number("lambd")).choose(x, 0)),
    "hardsigmoid": composed(lambda e, x: e.add(tensor.HardSigmoidOp(x, 1 / 6))),
    "hardtanh": _hard_tanh,
    "leaky_relu": _with_number(tensor.LeakyReluOp, "negative_slope"),
    "log_sigmoid": composed(lambda e, x: (-(-Formula(e, x)).of(tensor.SoftplusOp)).value),
    "log_softmax": _soft_max(tensor.LogSoftmaxOp),
    "_log_softmax": _soft_max(tensor.LogSoftmaxOp),
    "logit": _logit,
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "relu": unary(tensor.ReluOp),
    "relu6": unary(tensor.Relu6Op),
    "rrelu": _rrelu,
    "rrelu_with_noise": _rrelu,
    "rrelu_with_noise_functional": _rrelu,
    "softmax": _soft_max(tensor.SoftmaxOp),
    "_softmax": _soft_max(tensor.SoftmaxOp),
    "softmin": _soft_max(tensor.SoftmaxOp, -1),
    "softplus": _softplus,
    "softshrink": _soft_shrink,
    "tanhshrink": composed(lambda e, x: e.add(tensor.SubOp(x, e.add(tensor.TanhOp(x))))),
    "threshold": _threshold,
}
"""By the name of the operator in the namespace `aten`."""
