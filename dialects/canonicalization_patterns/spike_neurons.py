"""Patterns that put a simpler neuron in the place of one whose parameters make it that.

Currents are finite. Patterns of synapses, gains, delays and conversions stand in `spike`.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ..inference import replace_with
from ..spike.adaptive import AdaptiveLifOp
from ..spike.neuron import FiringOp, NeuronOp, Parameter
from ..spike.neurons import CubaLifOp, IntegrateFireOp, LifOp


class NoLeak(RewritePattern):
    """A leaky neuron that keeps everything (β = 1) integrates."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LifOp, rewriter: PatternRewriter) -> None:
        if op.parameter("beta") == 1.0 and isinstance(op.parameter("v_leak"), float):
            parameters = _parameters(op, IntegrateFireOp)
            states: Any = {"initial": list(op.initial), "final": bool(op.final)}
            replace_with(op, IntegrateFireOp(op.input, **parameters, **states), rewriter)


class NoMemoryOfCurrent(RewritePattern):
    """A synaptic current that keeps nothing (α = 0) and is not weighted is the input."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CubaLifOp, rewriter: PatternRewriter) -> None:
        if op.parameter("alpha") == 0.0 and op.parameter("w_in") == 1.0 and _is_stateless(op):
            replace_with(op, LifOp(op.input, **_parameters(op, LifOp)), rewriter)


class NoAdaptation(RewritePattern):
    """A threshold that does not rise (κ = 0) is fixed."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AdaptiveLifOp, rewriter: PatternRewriter) -> None:
        if op.parameter("kappa") == 0.0 and _is_stateless(op):
            replace_with(op, LifOp(op.input, **_parameters(op, LifOp)), rewriter)


def _is_stateless(op: NeuronOp) -> bool:
    """Whether nobody gives or takes states, of which the simpler neuron has fewer."""
    return not op.initial and not op.final


def _parameters(op: FiringOp, kind: type[NeuronOp]) -> dict[str, Any]:
    """The parameters that `kind` has too, by name, as they are given; and how `op` fires."""
    parameters: dict[str, Parameter | str | None] = {
        "compare": op.compare.data,
        "reset": op.reset.data,
    }
    for name in kind.PARAMETERS:
        value = op.parameter(name)
        attribute = getattr(op, name)
        if isinstance(value, SSAValue) or attribute is not None:
            parameters[name] = value
    return parameters


def simpler_neurons() -> tuple[RewritePattern, ...]:
    """The patterns of neurons that are a simpler one."""
    return (NoLeak(), NoMemoryOfCurrent(), NoAdaptation())
