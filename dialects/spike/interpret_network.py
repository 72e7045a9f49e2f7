"""Reference semantics of networks: populations step by step, projections between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...ir.arrays import Array
from ...ir.neurons import MODELS as NEURON_MODELS
from ...ir.neurons.arithmetic import Options, Step
from ...ir.neurons.fixed_threshold import CUBA_INTEGRATOR, LEAKY_INTEGRATOR
from ..meaning import Rule
from ..parameters import constant_value
from ..tensor.interpret_linear import along_channels, convolve, over_windows, product
from .interpret_neurons import NumpyArithmetic, States
from .models import MODELS, discrete
from .network import InputOp, NetworkOp
from .network_graph import execution_order, nodes, probes, projections
from .population import PopulationOp
from .projection import ProjectionOp
from .simulate import SimulateOp

Transfer = Callable[[Array], Array]
"""What the target of a projection receives for an output [N, shape…] of its source, in f32."""


def _threshold(a: NumpyArithmetic, x: Array, states: States) -> tuple[Array, States]:
    """Spikes where the current is above the threshold (NIR's Threshold)."""
    return a.reaches(x, a.parameter("threshold")), states


def _relay(a: NumpyArithmetic, x: Array, states: States) -> tuple[Array, States]:
    return x, states


MODEL_STEPS: dict[str, Step] = {
    **{name: model.step for name, model in NEURON_MODELS.items()},
    "integrator": LEAKY_INTEGRATOR.step,
    "cuba_integrator": CUBA_INTEGRATOR.step,
    "threshold": _threshold,
    "relay": _relay,
}
"""The step of each model."""

_STATES = {
    **{name: model.states for name, model in NEURON_MODELS.items()},
    "integrator": LEAKY_INTEGRATOR.states,
    "cuba_integrator": CUBA_INTEGRATOR.states,
}
"""The states of the models that have some."""


class _Population:
    """A population at work: its numbers, its states, and what it gave so far."""

    def __init__(self, op: PopulationOp, network: NetworkOp, steps: int, batch: int) -> None:
        model = op.model.data
        dt, integration = network.dt.value.data, network.integration.data
        numbers = discrete(model, population_parameters(op), dt, integration)
        self.op = op
        parameters = {n: np.asarray(v, np.float32) for n, v in numbers.items()}
        options = Options(op.compare.data, op.reset.data)
        if model == "sigma_delta":
            options = Options("ge")
        self.arithmetic = NumpyArithmetic(options, parameters)
        self.step, self.names = MODEL_STEPS[model], _STATES.get(model, ())
        self.shape = (batch, *op.shape.get_values())
        self.states: States = tuple(np.zeros(self.shape, np.float32) for _ in self.names)
        self.output = np.zeros((steps, *self.shape), np.bool_ if op.spikes() else np.float32)
        self.potential = np.zeros((steps, *self.shape), np.float32)
        self.heard = np.zeros((steps, *self.shape), np.bool_)

    def run(self, t: int, current: Array) -> None:
        """Make step `t` with the sum of what the projections bring."""
        result, self.states = self.step(self.arithmetic, current, self.states)
        self.output[t], self.heard[t] = result, current != 0
        if "v" in self.names:
            self.potential[t] = self.states[self.names.index("v")]


def population_parameters(op: PopulationOp) -> dict[str, Array]:
    """All parameters of a population in f64: its numbers, its operands, or defaults."""
    each, parameters = op.values_by_name(), dict[str, Array]()
    for name, spec in MODELS[op.model.data].items():
        number = op.parameters.data.get(name)
        if name in each:
            parameters[name] = network_value(each[name]).astype(np.float64)
        else:
            value: Any = number.value.data if isinstance(number, FloatAttr) else spec.default
            parameters[name] = np.asarray(value, np.float64)
        if name.startswith("tau") and (parameters[name] < op.shortest_time()).any():
            raise ValueError(f"expects {name} of at least {op.shortest_time():g} s")
    return parameters


def network_value(value: SSAValue) -> Array:
    """The values of a parameter or constant of a network."""
    values = constant_value(value.owner) if isinstance(value.owner, Operation) else None
    if values is None:
        raise VerifyException("a network takes parameters and constants alone")
    return values


def transfer(op: ProjectionOp) -> Transfer:
    """What a projection makes of an output of its source."""
    source, target = op.ends()
    shape = target.shape.get_values()
    weights = None if op.weights is None else network_value(op.weights)
    scale = None if op.scale is None else network_value(op.scale).astype(np.float32)
    bias = None if op.bias is None else network_value(op.bias).astype(np.float32)
    exact = weights is not None and weights.dtype == np.int8 and source.spikes()
    connect = _connection(op, weights)

    def run(output: Array) -> Array:
        sums = connect(output.astype(np.int64 if exact else np.float32)).astype(np.float32)
        if scale is not None:
            sums = sums * along_channels(scale, sums.ndim)
        if bias is not None:
            sums = sums + along_channels(bias, sums.ndim)
        return sums.reshape(len(output), *shape)

    return run


def _connection(op: ProjectionOp, weights: Array | None) -> Transfer:
    connection = op.connection.data
    if connection == "linear":
        assert weights is not None
        return lambda x: product(x.reshape(len(x), len(weights)), weights.astype(x.dtype))
    if connection == "one_to_one":
        return lambda x: x if weights is None else x * weights.astype(x.dtype)
    strides, padding, dilation = op.window()
    if connection == "conv":
        assert weights is not None
        groups = op.group_count()
        return lambda x: convolve(x, weights.astype(x.dtype), strides, padding, dilation, groups)
    assert op.kernel is not None
    kernel, mean = op.kernel.get_values(), connection == "avg_pool"

    def pool(x: Array) -> Array:
        spatial = x.ndim - 2
        pads = [(0, 0), (0, 0), *zip(padding[:spatial], padding[spatial:], strict=True)]
        windows = sliding_window_view(np.pad(x, pads), kernel, axis=tuple(range(2, x.ndim)))
        windows = windows[(slice(None), slice(None), *[slice(None, None, s) for s in strides])]
        total = over_windows(np.add, windows, x.ndim)
        return total / x.dtype.type(math.prod(kernel)) if mean else total

    return pool


class Recorded(NamedTuple):
    """What a population did, each [T, N, shape…].

    Attributes:
        output: what it gave.
        potential: v after each step; 0 where the model has none.
        heard: where its current is not 0.
    """

    output: Array
    potential: Array
    heard: Array


def simulate(op: SimulateOp, *operands: Array) -> tuple[Array, ...]:
    """See `spike.simulate`."""
    network = op.find_network()
    done = run_network(network, operands)
    return tuple(
        recorded.output if probe.variable.data == "output" else recorded.potential
        for probe in probes(network)
        for recorded in [done[probe.target.string_value()]]
    )


def run_network(network: NetworkOp, operands: Sequence[Array]) -> dict[str, Recorded]:
    """What each population does, by name, for inputs [T, N, shape…] in the order of the text."""
    sources = [name for name, node in nodes(network).items() if isinstance(node, InputOp)]
    steps, batch = operands[0].shape[:2] if operands else (0, 0)
    if any(operand.shape[:2] != (steps, batch) for operand in operands):
        raise ValueError("expects inputs of equally many steps and of one batch size")
    outputs: dict[str, Array] = dict(zip(sources, operands, strict=True))
    populations = {
        p.sym_name.data: _Population(p, network, steps, batch) for p in execution_order(network)
    }
    outputs.update({name: population.output for name, population in populations.items()})
    edges: dict[str, list[Callable[[int], Array]]] = {name: [] for name in populations}
    for edge in projections(network):
        arriving = _arriving(edge, outputs[edge.source.string_value()])
        edges[edge.target.string_value()].append(arriving)
    for t in range(steps):
        for name, population in populations.items():
            current = np.zeros(population.shape, np.float32)
            population.run(t, sum((arriving(t) for arriving in edges[name]), current))
    return {
        name: Recorded(population.output, population.potential, population.heard)
        for name, population in populations.items()
    }


def _arriving(op: ProjectionOp, outputs: Array) -> Callable[[int], Array]:
    """What a projection brings at a step, for the outputs [T, N, shape…] of its source."""
    run = transfer(op)
    places = outputs.shape[2:]
    delays = np.full(places, op.delay.value.data, np.int64)
    if op.delays is not None:
        delays = delays + network_value(op.delays)
    if (delays < op.delay.value.data).any():
        raise ValueError(f"@{op.sym_name.data} expects delays of at least 0")

    def arriving(t: int) -> Array:
        arrived = np.zeros_like(outputs[0])
        for delay in np.unique(delays[delays <= t]).tolist():
            arrived = np.where(delays == delay, outputs[t - delay], arrived)
        return run(arrived)

    return arriving


RULES: dict[type[Operation], Rule] = {SimulateOp: simulate}
