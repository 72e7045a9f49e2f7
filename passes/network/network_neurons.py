"""Neuron ops as populations, for `build-network`: models and resets that every NIR reader knows.

A neuron that subtracts its threshold is three parts, which compute the same numbers: an integrator,
a threshold, and a synapse back that takes the threshold off a step later, which is before the next
comparison. A potential that it starts with becomes a lower threshold, and a lower reset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.parameters import Array
from ...dialects.shapes import Shape
from ..analysis.initial_state import state_of
from .network_parts import RULES, Arrival, Node, Parts, Rule, Signal, Unfit, constant, sizes


def _numbers(op: spike.NeuronOp) -> dict[str, Array]:
    """The parameters of a neuron in f64, a scalar or one value a neuron."""
    parameters = {name: op.parameter(name) for name in op.PARAMETERS}
    return {
        name: np.asarray(constant(v) if isinstance(v, SSAValue) else v, np.float64)
        for name, v in parameters.items()
    }


def _start(op: spike.NeuronOp, shape: Shape) -> Array:
    """The potential before the first step, a scalar or one value a neuron."""
    start = state_of(op.initial[0], len(shape)) if op.initial else np.zeros(())
    if start is None:
        raise Unfit("starts with potentials that are computed, or of each sample its own")
    return start


def _gathered(parts: Parts, op: spike.NeuronOp) -> Signal:
    signal = parts.signal(op.input)
    if not signal.timed or len(op.final):
        raise Unfit("gives its last state" if len(op.final) else "takes no steps")
    return signal


def _leak(op: spike.NeuronOp, p: dict[str, Array], dt: float) -> tuple[str, dict[str, Array]]:
    """The model of the potential before it fires, and its parameters in seconds."""
    gain, beta = p["gain"], p.get("beta", np.ones(()))
    if (gain == 0).any():
        raise Unfit("gives its input no weight")
    if (beta == 1).all():
        return "integrator", {"r": gain / dt}
    if (beta == 1).any():
        raise Unfit("has neurons with a leak beside neurons without one")
    numbers = {"tau": dt / (1 - beta), "r": gain / (1 - beta), "v_leak": p["v_leak"]}
    return "leaky_integrator", numbers


def firing(parts: Parts, op: spike.LifOp | spike.IntegrateFireOp) -> Signal:
    """Neurons that fire, with any reset."""
    signal, shape = _gathered(parts, op), sizes(op.input, timed=True)
    p, start = _numbers(op), _start(op, shape)
    model, numbers = _leak(op, p, parts.dt)
    if (start != 0).any() and model != "integrator":
        raise Unfit("starts with a potential, and a network starts at rest")
    level = (p["threshold"] - start).astype(np.float32)
    if op.compare.data == "ge":
        level = np.nextafter(level, np.float32(-np.inf))
    if op.reset.data == "to_value":
        whole = "integrate_fire" if model == "integrator" else "lif"
        numbers |= {"v_threshold": level, "v_reset": p["v_reset"] - start}
        return _output(Node(whole, shape, op, numbers, list(signal.arrivals)), signal)
    potential = Node(model, shape, op, numbers, list(signal.arrivals))
    fires = Node("threshold", shape, op, {"threshold": level}, [Arrival(potential)])
    if op.reset.data == "subtract":
        subtracted = -p["threshold"] * p.get("beta", np.ones(())) / p["gain"]
        weights: dict[str, Any] = {"weights": subtracted.astype(np.float32)}
        potential.arrivals.append(Arrival(fires, operands=weights, delay=1))
    return _output(fires, signal)


def integrator(parts: Parts, op: spike.LeakyIntegratorOp) -> Signal:
    """Integrators, whose potentials are what they give."""
    signal, shape = _gathered(parts, op), sizes(op.input, timed=True)
    if (_start(op, shape) != 0).any():
        raise Unfit("starts with a potential, and a network starts at rest")
    model, numbers = _leak(op, _numbers(op), parts.dt)
    return _output(Node(model, shape, op, numbers, list(signal.arrivals)), signal)


def _output(node: Node, signal: Signal) -> Signal:
    return signal.moved(Arrival(node), shape=node.shape, spikes=node.spikes)


NETWORK_RULES: dict[type[Operation], Rule] = {
    **RULES,
    spike.LifOp: firing,
    spike.IntegrateFireOp: firing,
    spike.LeakyIntegratorOp: integrator,
}
"""How ops become parts of a network."""
