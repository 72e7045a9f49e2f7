"""Rules of activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from ...dialects import tensor
from .emitter import Call, Emitter, Rule
from .rules_elementwise import unary
from .rules_shape import counted
from .sizes import product


class Formula:
    """Arithmetic on a tensor and numbers of its type, written as infix operators."""

    def __init__(self, e: Emitter, value: SSAValue) -> None:
        self.e, self.value = e, value

    def _other(self, other: Any) -> SSAValue:
        return other.value if isinstance(other, Formula) else self.e.number(other, self.value)

    def _made(self, kind: Any, lhs: SSAValue, rhs: SSAValue) -> Formula:
        return Formula(self.e, self.e.add(kind(lhs, rhs)))

    def __add__(self, other: Any) -> Formula:
        return self._made(tensor.AddOp, self.value, self._other(other))

    def __sub__(self, other: Any) -> Formula:
        return self._made(tensor.SubOp, self.value, self._other(other))

    def __rsub__(self, other: Any) -> Formula:
        return self._made(tensor.SubOp, self._other(other), self.value)

    def __mul__(self, other: Any) -> Formula:
        return self._made(tensor.MulOp, self.value, self._other(other))

    def __truediv__(self, other: Any) -> Formula:
        return self._made(tensor.DivOp, self.value, self._other(other))

    def __rtruediv__(self, other: Any) -> Formula:
        return self._made(tensor.DivOp, self._other(other), self.value)

    def maximum(self, other: Any) -> Formula:
        return self._made(tensor.MaximumOp, self.value, self._other(other))

    def minimum(self, other: Any) -> Formula:
        return self._made(tensor.MinimumOp, self.value, self._other(other))

    def where(self, predicate: str, bound: Any, other: Any) -> Formula:
        """This where `self ⋈ bound`, else `other`."""
        condition = self.e.add(tensor.CompareOp(self.value, self._other(bound), predicate))
        chosen = tensor.WhereOp(condition, self.value, self._other(other))
        return Formula(self.e, self.e.add(chosen))

    def of(self, kind: Any) -> Formula:
        """An op of one operand."""
        return Formula(self.e, self.e.add(kind(self.value)))

    def softplus(self) -> Formula:
        """ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)."""
        small = (self.of(tensor.AbsOp) * -1).of(tensor.ExpOp)
        return self.maximum(0) + (small + 1).of(tensor.LogOp)


def formula(function: Callable[[Formula, Call], Formula]) -> Rule:
    """A rule for a formula of the first operand."""
    return lambda e, call: function(Formula(e, call[0]), call).value


def _elu(x: Formula, call: Call, default: float = 1.0, gamma: float = 1.0) -> Formula:
    alpha = call.get("alpha", default)
    below = (x.minimum(0).of(tensor.ExpOp) - 1) * alpha
    return (x.maximum(0) + below) * call.get("gamma", gamma)


def _celu(x: Formula, call: Call) -> Formula:
    alpha = call.get("alpha", 1.0)
    return x.maximum(0) + ((x.minimum(0) / alpha).of(tensor.ExpOp) - 1) * alpha


def _shrink(x: Formula, call: Call) -> Formula:
    bound, bias = call.get("lambd", 0.5), call.get("bias", 0.0)
    above, below = x - bias, x + bias
    e = x.e
    is_above = e.add(tensor.CompareOp(x.value, e.number(bound, x.value), "gt"))
    is_below = e.add(tensor.CompareOp(x.value, e.number(-bound, x.value), "lt"))
    inner = e.add(tensor.WhereOp(is_below, below.value, e.number(0, x.value)))
    return Formula(e, e.add(tensor.WhereOp(is_above, above.value, inner)))


def _hard_sigmoid(x: Formula, call: Call) -> Formula:
    return (x * call.get("alpha", 0.2) + call.get("beta", 0.5)).maximum(0).minimum(1)


def _swish(x: Formula, call: Call) -> Formula:
    alpha = call.get("alpha", 1.0)
    if alpha == 1.0:
        return x.of(tensor.SiluOp)
    return x * (x * alpha).of(tensor.SigmoidOp)


def _hard_swish(e: Emitter, call: Call) -> SSAValue:
    return e.add(tensor.HardSwishOp(call[0]))


def _prelu(e: Emitter, call: Call) -> SSAValue:
    x, slope = call[0], call[1]
    if call.opset < 7 and e.rank(slope) == 1 and e.sizes(slope) != (1,):
        slope = e.along(slope, 1, e.rank(x))
    negative = e.add(tensor.CompareOp(x, e.number(0, x), "lt"))
    return e.add(tensor.WhereOp(negative, e.add(tensor.MulOp(x, slope)), x))


def _gelu(e: Emitter, call: Call) -> SSAValue:
    approximate = str(call.get("approximate", "none"))
    return e.add(tensor.GeluOp(call[0], "tanh" if approximate == "tanh" else "exact"))


def along_axis(kind: Callable[[SSAValue, int], Any]) -> Rule:
    """A rule for an op along an axis; up to opset 12 along all axes from that one on."""

    def rule(e: Emitter, call: Call) -> SSAValue:
        x, rank = call[0], e.rank(call[0])
        if call.opset >= 13:
            return e.add(kind(x, call.get("axis", -1) % max(rank, 1)))
        axis, sizes = call.get("axis", 1) % max(rank, 1), e.sizes(x)
        if axis == rank - 1:
            return e.add(kind(x, axis))
        flat = e.reshape(x, (*sizes[:axis], product(sizes[axis:])))
        return e.reshape(e.add(kind(flat, axis)), sizes)

    return rule


def _hardmax(e: Emitter, call: Call) -> SSAValue:
    def made(x: SSAValue, axis: int) -> SSAValue:
        size = e.shape(x)[axis]
        first = e.add(tensor.ArgmaxOp(x, axis, keepdims=True))
        places = e.along(e.indices(counted(size)), axis, e.rank(x))
        return e.convert(e.add(tensor.CompareOp(first, places, "eq")), x)

    x, rank = call[0], e.rank(call[0])
    if call.opset >= 13:
        return made(x, call.get("axis", -1) % rank)
    axis, sizes = call.get("axis", 1) % rank, e.sizes(x)
    flat = e.reshape(x, (*sizes[:axis], product(sizes[axis:])))
    return e.reshape(made(flat, axis), sizes)


def _relu(e: Emitter, call: Call) -> SSAValue:
    return e.add(tensor.ReluOp(call[0]))


def _leaky_relu(e: Emitter, call: Call) -> SSAValue:
    return e.add(tensor.LeakyReluOp(call[0], call.get("alpha", 0.01)))


RULES: dict[str, Rule] = {
    "Celu": formula(_celu),
    "Elu": formula(_elu),
    "Gelu": _gelu,
    "HardSigmoid": formula(_hard_sigmoid),
    "HardSwish": _hard_swish,
    "Hardmax": _hardmax,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": along_axis(tensor.LogSoftmaxOp),
    "Mish": formula(lambda x, call: x * x.softplus().of(tensor.TanhOp)),
    "PRelu": _prelu,
    "Relu": _relu,
    "Selu": formula(lambda x, call: _elu(x, call, 1.6732632423543772, 1.0507009873554805)),
    "Shrink": formula(_shrink),
    "Sigmoid": unary(tensor.SigmoidOp),
    "Softmax": along_axis(tensor.SoftmaxOp),
    "Softplus": formula(lambda x, call: x.softplus()),
    "Softsign": formula(lambda x, call: x / (x.of(tensor.AbsOp) + 1)),
    "Swish": formula(_swish),
    "Tanh": unary(tensor.TanhOp),
    "ThresholdedRelu": formula(lambda x, call: x.where("gt", call.get("alpha", 1.0), 0)),
}
"""By the type of the operator."""
