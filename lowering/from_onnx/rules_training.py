"""Rules of one step of training: new parameters for their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..from_torch.sizes import ProblemError
from .emitter import Call, Emitter, Rule
from .rules_activation import Formula

Step = Callable[[Call, Formula, Formula, list[Formula]], list[Formula]]
"""`step(call, rate, count, [parameter, gradient, states…])`: the parameter and states after it."""


def _optimizer(step: Step, states: int) -> Rule:
    """A rule for any number of parameters: all of them, their gradients, then each state's."""

    def rule(e: Emitter, call: Call) -> Any:
        given, kinds = call.inputs[2:], 2 + states
        count = len(given) // kinds
        if len(given) != count * kinds or any(value is None for value in given):
            raise ProblemError(f"it takes {kinds} tensors for each parameter, not {len(given)}")
        rows: list[list[SSAValue]] = []
        for index in range(count):
            parts = [Formula(e, value) for value in given[index::count]]
            rate, steps = (Formula(e, e.convert(call[i], parts[0].value)) for i in (0, 1))
            rows.append([made.value for made in step(call, rate, steps, parts)])
        return tuple(value for kind in zip(*rows, strict=True) for value in kind)

    return rule


def _regularized(call: Call, x: Formula, gradient: Formula) -> Formula:
    factor = call.get("norm_coefficient", 0.0)
    return x * factor + gradient if factor else gradient


def _adagrad(call: Call, rate: Formula, count: Formula, parts: list[Formula]) -> list[Formula]:
    """Duchi et al. 2011."""
    x, gradient, squares = parts
    gradient = _regularized(call, x, gradient)
    rate = rate / (count * call.get("decay_factor", 0.0) + 1)
    squares = squares + gradient * gradient
    root = squares.of(tensor.SqrtOp) + call.get("epsilon", 1e-6)
    return [x - rate * gradient / root, squares]


def _adam(call: Call, rate: Formula, count: Formula, parts: list[Formula]) -> list[Formula]:
    """Kingma and Ba 2015; without the correction of the bias where the count is 0."""
    x, gradient, mean, squares = parts
    alpha, beta = call.get("alpha", 0.9), call.get("beta", 0.999)
    gradient = _regularized(call, x, gradient)
    mean = mean * alpha + gradient * (1 - alpha)
    squares = squares * beta + gradient * gradient * (1 - beta)
    root = squares.of(tensor.SqrtOp) + call.get("epsilon", 1e-6)
    e = x.e
    steps = Formula(e, e.convert(count.value, f64))
    first, second = (
        1 - Formula(e, e.add(tensor.PowOp(e.number(base, f64), steps.value)))
        for base in (alpha, beta)
    )
    some = e.add(tensor.CompareOp(steps.value, e.number(0, f64), "gt"))
    unbiased = second.of(tensor.SqrtOp) / first
    factor = e.add(tensor.WhereOp(some, unbiased.value, e.number(1, f64)))
    rate = rate * Formula(e, e.convert(factor, rate.value))
    made = x - rate * (mean / root)
    return [made * (1 - call.get("norm_coefficient_post", 0.0)), mean, squares]


def _momentum(call: Call, rate: Formula, count: Formula, parts: list[Formula]) -> list[Formula]:
    """v ← α·v + β·g, β = 1 at the first step; x ← x - r·v, or x - r·(g + α·v) of Nesterov."""
    x, gradient, velocity = parts
    alpha, beta, mode = (call.attributes[name] for name in ("alpha", "beta", "mode"))
    if mode not in ("standard", "nesterov"):
        raise ProblemError(f"its mode '{mode}' is unknown")
    gradient = _regularized(call, x, gradient)
    e = x.e
    some = e.add(tensor.CompareOp(count.value, e.number(0, count.value), "gt"))
    numbers = [e.number(value, count.value) for value in (beta, 1.0)]
    weight = Formula(e, e.add(tensor.WhereOp(some, *numbers)))
    velocity = velocity * alpha + weight * gradient
    change = gradient + velocity * alpha if mode == "nesterov" else velocity
    return [x - rate * change, velocity]


TRAINING: dict[str, Rule] = {
    "Adagrad": _optimizer(_adagrad, 1),
    "Adam": _optimizer(_adam, 2),
    "Momentum": _optimizer(_momentum, 1),
}
"""Operators of the domain `ai.onnx.preview.training`."""
