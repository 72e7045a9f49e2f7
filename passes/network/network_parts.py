"""Ops on whole runs as parts of a network, for `build-network`: the reverse of `network_ops`.

A value of the program is a *signal*: what arrives over synapses at each step. Neurons gather a
signal and become *nodes*. Nothing is written here: `build_network` writes what the results need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.parameters import Array
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.spike.models import SPIKING_MODELS
from ...dialects.spike.network import SIGNALS
from ...dialects.spike.types import dense_type, is_train
from ..analysis.compile_time import is_literal, literal_value
from ..analysis.layers import channel_axis, input_of, is_conv, is_layer, options_of, weight_of

COMPUTED = "takes a number that is computed; run fold-constants first"
PLAIN = StringAttr("none")
ONE_STEP = 0.5
"""Between no spike and one."""


class Unfit(Exception):
    """An op that is no part of a network; the message says why."""


@dataclass(eq=False)
class Node:
    """An input or a population.

    Attributes:
        model: of a population; `spikes` or `current` for an input.
        shape: of its neurons.
        origin: the op that it stands for, or the value that enters.
        parameters: of the model, a scalar or one value a neuron each.
        arrivals: what its synapses bring; feedback is added once the node is there.
    """

    model: str
    shape: Shape
    origin: Operation | SSAValue
    parameters: dict[str, Array] = field(default_factory=dict[str, Array])
    arrivals: list[Arrival] = field(default_factory=list["Arrival"])

    @property
    def is_input(self) -> bool:
        """Whether it is an input."""
        return self.model in SIGNALS

    @property
    def spikes(self) -> bool:
        """Whether it gives spikes."""
        return self.model in (*SPIKING_MODELS, "spikes")


@dataclass(frozen=True)
class Arrival:
    """What one projection brings from a node: the arguments of a `spike.projection`."""

    source: Node
    connection: str = "one_to_one"
    operands: Mapping[str, SSAValue | Array] = field(default_factory=dict[str, Any])
    windows: Mapping[str, Any] = field(default_factory=dict[str, Any])
    delay: int = 0

    @property
    def plain(self) -> bool:
        """Whether it hands on what the source gives."""
        return self.connection == "one_to_one" and not self.operands and not self.delay


@dataclass(frozen=True)
class Signal:
    """A value of the program: the sum of what arrives, at each step.

    Attributes:
        arrivals: the parts of the sum.
        shape: of one step of one sample.
        timed: whether the value has time as its first axis; else it is the same at all steps.
        spikes: whether it holds spikes.
    """

    arrivals: tuple[Arrival, ...]
    shape: Shape
    timed: bool
    spikes: bool = False

    def node(self, origin: Operation) -> Node:
        """A node that gives it: the source of what is handed on, or a relay."""
        source = self.handed_on()
        if source is not None and source.shape == self.shape:
            return source
        return Node("relay", self.shape, origin, arrivals=list(self.arrivals))

    def handed_on(self) -> Node | None:
        """The node whose output it is, but for the shape."""
        plain = len(self.arrivals) == 1 and self.arrivals[0].plain
        return self.arrivals[0].source if plain else None

    def moved(self, *arrivals: Arrival, shape: Shape, spikes: bool = False) -> Signal:
        """Another signal with time as this one has it."""
        return Signal(arrivals, shape, self.timed, spikes)


def sizes(value: SSAValue, timed: bool) -> Shape:
    """The shape of one step of one sample, which must be known."""
    type = dense_type(value)
    shape = type.get_shape()[1 + timed :]
    if type.get_num_dims() < 2 + timed or DYNAMIC in shape:
        raise Unfit("has no axis of samples, or sizes that are not known")
    if not (is_train(value) or type.element_type == f32):
        raise Unfit(f"gives {type.element_type}, and networks compute in f32")
    return shape


class Parts:
    """The signals of a function, op by op: `rules` make those of results from those of operands.

    Attributes:
        timesteps: the steps for which values that have no time are there.
        signals: what is known of the values of the function.
        reasons: for other values the op that is no part of a network, and why.
    """

    def __init__(self, dt: float, rules: Mapping[type[Operation], Rule]) -> None:
        self.dt = dt
        self.rules = rules
        self.timesteps: int | None = None
        self.signals: dict[SSAValue, Signal] = {}
        self.reasons: dict[SSAValue, tuple[Operation, str]] = {}

    def enter(self, value: SSAValue, timed: bool) -> None:
        """Let `value` be an input of the network."""
        shape = sizes(value, timed)
        node = Node("spikes" if is_train(value) else "current", shape, value)
        self.signals[value] = Signal((Arrival(node),), shape, timed, is_train(value))

    def visit(self, op: Operation) -> None:
        """Find the signals of the results of `op`, or note why there are none."""
        if is_literal(op) or len(op.results) != 1:
            return
        late = next((self.reasons[v] for v in op.operands if v in self.reasons), None)
        rule = linear if is_layer(op) else self.rules.get(type(op))
        try:
            if isinstance(op, spike.EncodeOp) and op.operands[0] not in self.signals:
                self.enter(op.results[0], timed=True)
                return
            if rule is None:
                raise Unfit("is no part of a network")
            self.signals[op.results[0]] = rule(self, op)
        except Unfit as reason:
            known = late is not None and not any(v in self.signals for v in op.operands)
            self.reasons[op.results[0]] = late if known and late is not None else (op, str(reason))

    def signal(self, value: SSAValue) -> Signal:
        """The signal of an operand."""
        if value not in self.signals:
            raise Unfit("takes what is no part of a network")
        return self.signals[value]


def constant(value: SSAValue) -> Array:
    """The values of a literal."""
    array = literal_value(value)
    if array is None:
        raise Unfit(COMPUTED)
    return array


def linear(parts: Parts, op: Any) -> Signal:
    """A product with a weight, as one projection."""
    signal = parts.signal(input_of(op))
    operands = {"weights": weight_of(op), **options_of(op)}
    activation = getattr(op, "activation", None)
    if not set(operands) <= {"weights", "scale", "bias"} or activation not in (None, PLAIN):
        raise Unfit("does more than a product, and a network has neurons for that")
    for value in operands.values():
        if not isinstance(value.owner, Operation) or not is_literal(value.owner):
            raise Unfit(COMPUTED)
    shape = sizes(op.result, signal.timed)
    windows: dict[str, Any] = {}
    if is_conv(op):
        source = signal.node(op)
        names = ("strides", "padding", "dilation")
        windows = {name: getattr(op, name).get_values() for name in names}
        windows["groups"] = op.groups.value.data
    else:
        if len(shape) != 1 or channel_axis(op) != 1 + signal.timed:
            raise Unfit("multiplies several vectors of a sample")
        source = signal.handed_on() or signal.node(op)
    connection = "conv" if is_conv(op) else "linear"
    return signal.moved(Arrival(source, connection, operands, windows), shape=shape)


def same(parts: Parts, op: Any) -> Signal:
    """Spikes as numbers, and back."""
    known = parts.signals.get(op.operands[0])
    if isinstance(op, spike.FromTensorOp) and (known is None or not known.spikes):
        return growth(parts, op)
    return parts.signal(op.operands[0])


def encode(parts: Parts, op: spike.EncodeOp) -> Signal:
    """What is there at every step."""
    signal = parts.signal(op.operands[0])
    if op.scheme.data != "direct" or signal.timed:
        raise Unfit("encodes; let the caller do it")
    steps = op.timesteps.value.data if op.timesteps is not None else None
    if parts.timesteps not in (None, steps):
        raise Unfit("has another number of steps")
    parts.timesteps = steps
    return Signal(signal.arrivals, signal.shape, timed=True)


def reshape(parts: Parts, op: Any) -> Signal:
    """The same numbers of each sample in another shape."""
    signal = parts.signal(op.operands[0])
    lead = 1 + signal.timed
    before, after = (dense_type(v).get_shape() for v in (op.operands[0], op.results[0]))
    shape = after[lead:]
    if before[:lead] != after[:lead] or DYNAMIC in shape or prod(shape) != prod(signal.shape):
        raise Unfit("moves more than the axes of a sample")
    source = signal.handed_on() or signal.node(op)
    return signal.moved(Arrival(source), shape=shape, spikes=signal.spikes)


def add(parts: Parts, op: tensor.AddOp) -> Signal:
    """The sum of two currents."""
    left, right = (parts.signal(value) for value in op.operands)
    if (left.shape, left.timed) != (right.shape, right.timed):
        raise Unfit("adds what has another shape")
    return left.moved(*left.arrivals, *right.arrivals, shape=left.shape)


def scaled(signal: Signal, by: Array, op: Operation) -> Signal:
    """A signal times numbers that broadcast to its shape."""
    arrival = Arrival(signal.node(op), operands={"weights": by.astype(np.float32)})
    return signal.moved(arrival, shape=signal.shape)


def multiply(parts: Parts, op: tensor.MulOp) -> Signal:
    """A current times constants."""
    value, factor = op.operands
    if value not in parts.signals:
        value, factor = factor, value
    signal, by = parts.signal(value), constant(factor)
    extra = max(by.ndim - len(signal.shape), 0)
    if any(size != 1 for size in by.shape[:extra]):
        raise Unfit("multiplies by numbers that differ from step to step")
    return scaled(signal, by.reshape(by.shape[extra:]), op)


def subtract(parts: Parts, op: tensor.SubOp) -> Signal:
    """A current less another."""
    left, right = (parts.signal(value) for value in op.operands)
    if (left.shape, left.timed) != (right.shape, right.timed):
        raise Unfit("subtracts what has another shape")
    less = scaled(right, np.array(-1.0), op)
    return left.moved(*left.arrivals, *less.arrivals, shape=left.shape)


def pool(parts: Parts, op: Any) -> Signal:
    """Means of windows."""
    signal = parts.signal(op.operand)
    padding = op.padding.get_values()
    if any(padding) and not op.count_include_pad.value.data:
        raise Unfit("leaves pads out of its means")
    windows = {name: getattr(op, name).get_values() for name in ("kernel", "strides", "padding")}
    arrival = Arrival(signal.node(op), "avg_pool", windows=windows)
    return signal.moved(arrival, shape=sizes(op.result, signal.timed))


def delay(parts: Parts, op: spike.DelayOp) -> Signal:
    """Steps later."""
    signal = parts.signal(op.input)
    if op.initial is not None:
        raise Unfit("starts with steps of its own")
    if op.delays is None:
        arrival = Arrival(signal.node(op), delay=op.steps.value.data)
    else:
        if constant(op.delays).ndim > len(signal.shape):
            raise Unfit("delays each sample by itself")
        arrival = Arrival(signal.node(op), operands={"delays": op.delays})
    return signal.moved(arrival, shape=signal.shape, spikes=signal.spikes)


def growth(parts: Parts, op: spike.FromTensorOp) -> Signal:
    """The max pool of `convert-ann-to-snn`: a spike when the largest count of a window grows.

    As a network: each place of each window counts the spikes it got less those that the window
    gave, in an integrator. The window fires when one of them is above 0, which is the step at which
    the largest count grows.
    """
    pool, train = _counted(op)
    signal = parts.signal(train)
    channels, *places = signal.shape
    kernel = pool.kernel.get_values()
    window = prod(kernel)
    picks = np.zeros((channels * window, 1, window), np.float32)
    picks[np.arange(channels * window), 0, np.arange(channels * window) % window] = 1
    names = ("strides", "padding")
    windows = {name: getattr(pool, name).get_values() for name in names} | {"groups": channels}
    shape = sizes(op.result, timed=True)
    apart = (channels * window, *shape[1:])
    picked = {"weights": picks.reshape(-1, 1, *kernel)}
    counts = Node("integrator", apart, op, {"r": np.array(1 / parts.dt)})
    counts.arrivals.append(Arrival(signal.node(op), "conv", picked, windows))
    level = {"threshold": np.array(ONE_STEP)}
    ahead = Node("threshold", apart, op, level, [Arrival(counts)])
    ones = np.ones((1, window, *[1] * len(places)), np.float32)
    any_one = {"weights": np.repeat(ones, channels, 0)}
    fires = Node("threshold", shape, op, level)
    fires.arrivals.append(Arrival(ahead, "conv", any_one, {"groups": channels}))
    minus = {"weights": -np.ones((channels * window, 1, *[1] * len(places)), np.float32)}
    counts.arrivals.append(Arrival(fires, "conv", minus, {"groups": channels}, delay=1))
    return signal.moved(Arrival(fires), shape=shape, spikes=True)


def _counted(op: spike.FromTensorOp) -> tuple[tensor.MaxPoolOp, SSAValue]:
    """The pool and the train of the ops that `convert-ann-to-snn` writes for a max pool."""
    unfit = Unfit("makes spikes of a current; put neurons there")
    owner = op.operand.owner
    if not isinstance(owner, tensor.SubOp) or not isinstance(owner.rhs.owner, spike.DelayOp):
        raise unfit
    late, most = owner.rhs.owner, owner.lhs.owner
    if late.input != owner.lhs or late.steps.value.data != 1 or late.initial is not None:
        raise unfit
    chain: list[Any] = [most]
    for kind in (tensor.ReshapeToOp, tensor.MaxPoolOp, tensor.FlattenOp, spike.LeakyIntegratorOp):
        if not isinstance(chain[-1], kind):
            raise unfit
        chain.append(chain[-1].operands[0].owner)
    counts, bits = chain[3:5]
    level = (counts.parameter("beta"), counts.parameter("gain"), list(counts.initial))
    if level != (1.0, 1.0, []) or not isinstance(bits, spike.ToTensorOp):
        raise unfit
    return chain[1], bits.operand


Rule = Callable[[Parts, Any], Signal]

RULES: dict[type[Operation], Rule] = {
    spike.LinearOp: linear,
    spike.ConvOp: linear,
    spike.ToTensorOp: same,
    spike.FromTensorOp: same,
    spike.EncodeOp: encode,
    spike.AvgPoolOp: pool,
    spike.DelayOp: delay,
    tensor.AvgPoolOp: pool,
    tensor.ReshapeToOp: reshape,
    tensor.FlattenOp: reshape,
    tensor.AddOp: add,
    tensor.SubOp: subtract,
    tensor.MulOp: multiply,
}
"""How ops join what arrives; products with weights but those of `spike` are found by `is_layer`."""
