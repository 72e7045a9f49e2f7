"""Reference semantics of the neurons: one step of each model, and the run over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...ir.arrays import Array
from ..elements import numpy_dtype
from ..inference import tensor_type
from ..meaning import Rule
from . import adaptive, integer, neurons
from .neuron import FiringOp, NeuronOp
from .types import is_train

States = tuple[Array, ...]
Parameters = Mapping[str, Array]


@dataclass(frozen=True)
class Options:
    """What a neuron has besides numbers; see the ops."""

    compare: str = "ge"
    reset: str = "subtract"
    activation: str = "relu"
    cumulative: bool = False
    shift: int = 0

    @staticmethod
    def of(op: NeuronOp) -> Options:
        """The options of an op."""
        if isinstance(op, adaptive.SigmaDeltaOp):
            cumulative = bool(op.cumulative.value.data)
            return Options(op.compare.data, activation=op.activation.data, cumulative=cumulative)
        if isinstance(op, integer.IntegerLifOp):
            return Options(op.compare.data, op.reset.data, shift=op.shift.value.data)
        if isinstance(op, FiringOp):
            return Options(op.compare.data, op.reset.data)
        return Options()


Step = Callable[[Options, Parameters, Array, States], tuple[Array, States]]
"""`step(options, parameters, input, states)`: what a step gives, and the states after it."""


def named_operands(op: Operation, operands: Sequence[Array]) -> dict[SSAValue, Array]:
    """The values of `operands` by the operands of `op`."""
    return dict(zip(op.operands, operands, strict=True))


def fire(potential: Array, threshold: Array, compare: str) -> Array:
    """Where a neuron fires: above the threshold (`gt`), or at it too (`ge`)."""
    return potential > threshold if compare == "gt" else potential >= threshold


def reset(potential: Array, spikes: Array, threshold: Array, value: Array, mode: str) -> Array:
    """The potential after the reset; see `FiringOp`."""
    if mode == "subtract":
        return np.where(spikes, potential - threshold, potential)
    return np.where(spikes, value, potential) if mode == "to_value" else potential


def leak(p: Parameters, v: Array, current: Array) -> Array:
    """β·v + (1-β)·v_leak + g·i."""
    beta = p["beta"]
    one = beta.dtype.type(1)
    return beta * v + (one - beta) * p["v_leak"] + p["gain"] * current


def fired(options: Options, p: Parameters, v: Array, threshold: Array) -> tuple[Array, Array]:
    """The spikes of the potential `v`, and what the reset leaves of it."""
    spikes = fire(v, threshold, options.compare)
    return spikes, reset(v, spikes, threshold, p["v_reset"], options.reset)


def lif(options: Options, p: Parameters, x: Array, states: States) -> tuple[Array, States]:
    """See `spike.lif`."""
    spikes, v = fired(options, p, leak(p, states[0], x), p["threshold"])
    return spikes, (v,)


def integrate_fire(
    options: Options, p: Parameters, x: Array, states: States
) -> tuple[Array, States]:
    """See `spike.integrate_fire`."""
    spikes, v = fired(options, p, states[0] + p["gain"] * x, p["threshold"])
    return spikes, (v,)


def integer_lif(options: Options, p: Parameters, x: Array, states: States) -> tuple[Array, States]:
    """See `spike.integer_lif`."""
    decayed = (p["decay"].astype(np.int64) * states[0]) >> options.shift
    spikes, v = fired(options, p, decayed.astype(x.dtype) + p["gain"] * x, p["threshold"])
    return spikes, (v,)


def cuba_lif(options: Options, p: Parameters, x: Array, states: States) -> tuple[Array, States]:
    """See `spike.cuba_lif`."""
    current = p["alpha"] * states[0] + p["w_in"] * x
    spikes, v = fired(options, p, leak(p, states[1], current), p["threshold"])
    return spikes, (current, v)


def leaky_integrator(
    options: Options, p: Parameters, x: Array, states: States
) -> tuple[Array, States]:
    """See `spike.leaky_integrator`."""
    v = leak(p, states[0], x)
    return v, (v,)


def adaptive_lif(options: Options, p: Parameters, x: Array, states: States) -> tuple[Array, States]:
    """See `spike.adaptive_lif`."""
    v, adaptation = states
    threshold = p["threshold"] + p["kappa"] * adaptation
    spikes, v = fired(options, p, leak(p, v, x), threshold)
    rho = p["rho"]
    one = rho.dtype.type(1)
    return spikes, (v, rho * adaptation + (one - rho) * spikes)


def sigma_delta(options: Options, p: Parameters, x: Array, states: States) -> tuple[Array, States]:
    """See `spike.sigma_delta`."""
    sigma, last, residue, error = states
    sigma = sigma + p["gain"] * x
    y = sigma + p["bias"]
    if options.activation == "relu":
        y = np.maximum(y, y.dtype.type(0))
    change = y - last + residue
    error = error + change if options.cumulative else error
    watched = np.abs(error if options.cumulative else change)
    sent = np.where(fire(watched, p["threshold"], options.compare), change, change.dtype.type(0))
    if options.cumulative:
        error = np.where(sent != 0, error.dtype.type(0), error)
    return sent, (sigma, y, change - sent, error)


STEPS: dict[type[NeuronOp], Step] = {
    neurons.LifOp: lif,
    neurons.IntegrateFireOp: integrate_fire,
    integer.IntegerLifOp: integer_lif,
    neurons.CubaLifOp: cuba_lif,
    neurons.LeakyIntegratorOp: leaky_integrator,
    adaptive.AdaptiveLifOp: adaptive_lif,
    adaptive.SigmaDeltaOp: sigma_delta,
}


def _initial(op: NeuronOp, values: Mapping[SSAValue, Array]) -> States:
    x = values[op.input]
    zeros = (np.zeros(x.shape[1:], x.dtype) for _ in op.STATES)
    return tuple(values[value] for value in op.initial) or tuple(zeros)


def steps(op: NeuronOp, *operands: Array) -> Iterator[tuple[Array, States]]:
    """What a neuron gives at each step of its input, and its states after the step."""
    values = named_operands(op, operands)
    x, states = values[op.input], _initial(op, values)
    stored = numpy_dtype(tensor_type(op.input).element_type)
    parameters = {
        name: values[value]
        if isinstance(value, SSAValue)
        else np.asarray(value, stored).astype(x.dtype)
        for name in op.PARAMETERS
        for value in [op.parameter(name)]
    }
    step, options = STEPS[type(op)], Options.of(op)
    for current in x:
        output, states = step(options, parameters, current, states)
        # A state is kept in the element type: this rounds f16 and bf16.
        states = tuple(state.astype(stored).astype(x.dtype) for state in states)
        yield output, states


def run(op: NeuronOp, *operands: Array) -> tuple[Array, ...]:
    """A neuron over all steps of its input; see `NeuronOp`."""
    values = named_operands(op, operands)
    x, states = values[op.input], _initial(op, values)
    output = np.zeros(x.shape, np.bool_ if is_train(op.output) else x.dtype)
    for t, (sent, after) in enumerate(steps(op, *operands)):
        output[t], states = sent, after
    return (output, *states) if op.final else (output,)


def potentials(op: NeuronOp, *operands: Array) -> Array:
    """The potential after each step [T, …], after its reset; of `sigma_delta` the sum."""
    index = op.STATES.index("v") if "v" in op.STATES else 0
    x = named_operands(op, operands)[op.input]
    trace = np.zeros(x.shape, x.dtype)
    for t, (_, states) in enumerate(steps(op, *operands)):
        trace[t] = states[index]
    return trace


RULES: dict[type[Operation], Rule] = {kind: run for kind in STEPS}
