"""A program in Loihi's fixed point as what the chip has: populations, and connections between them.

The program is made of `spike.loihi_lif` and `spike.loihi_ternary_lif`, products of bytes or floats
that are whole, delays, and reshapes of trains. Not here: how it came to be so (`fixed_point`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import i32
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import Shape
from ...dialects.spike.loihi import LoihiNeuronOp
from ...dialects.spike.types import dense_type, is_train
from ...ir.arrays import Array
from ...passes.analysis.compile_time import is_literal, literal_value
from ..emission import (
    Inexpressible,
    Names,
    UnsupportedOps,
    argument_names,
    result_names,
)
from .synapses import Weights, as_held

RESERVED = ("build", "inputs", "load", "main", "np", "run", "reversed", "list", "sys", "Path")
"""Names that a script has for itself."""

MOST_DELAY = 63
"""Steps of a connection, of which the first is every connection's own."""


@dataclass(frozen=True, eq=False)
class Input:
    """What enters, at each step: spikes, or currents of i32 for one population.

    Attributes:
        name: its name.
        shape: of a step, without the samples.
        spikes: whether it is spikes.
    """

    name: str
    shape: Shape
    spikes: bool


@dataclass(frozen=True, eq=False)
class Population:
    """Neurons of one kind.

    Attributes:
        name: its name.
        shape: of them.
        du, dv, threshold, threshold_low: of the op; the last is `None` for `spike.loihi_lif`.
        bias: one number, or one for each neuron, i32.
        subtracts: whether the threshold is taken off v at a spike.
    """

    name: str
    shape: Shape
    du: int
    dv: int
    threshold: int
    threshold_low: int | None
    bias: Array
    subtracts: bool

    @property
    def count(self) -> int:
        """How many neurons."""
        return prod(self.shape)


@dataclass(frozen=True, eq=False)
class Window:
    """A convolution: strides, dilation, and pads at both ends, each for height and width."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, eq=False)
class Connection:
    """Synapses, or the way of currents from an input.

    Attributes:
        name: its name.
        source: the name of a population or input.
        target: the name of a population.
        weights: [out, in], or [out, in / groups, height, width]; `None` for currents.
        delay: steps, at least 1; 0 for currents.
        window: of a convolution.
    """

    name: str
    source: str
    target: str
    weights: Weights | None
    delay: int
    window: Window | None = None


@dataclass(frozen=True, eq=False)
class LoihiNetwork:
    """All of a program.

    Attributes:
        inputs: in the order of the arguments.
        populations: such that each comes after those that reach it.
        connections: in that order.
        outputs: the names of the results and of the populations that they are.
    """

    inputs: tuple[Input, ...]
    populations: tuple[Population, ...]
    connections: tuple[Connection, ...]
    outputs: tuple[tuple[str, str], ...]


def network_of(function: func.FuncOp, unsupported: UnsupportedOps) -> LoihiNetwork:
    """The network of a function, whose parameters have values.

    Args:
        function: `@forward`.
        unsupported: is told of every op that has no place in a network.
    """
    return _Reader(function, unsupported).network()


class _Reader:
    """Reads the ops of a function in their order."""

    def __init__(self, function: func.FuncOp, unsupported: UnsupportedOps) -> None:
        self.function, self.unsupported = function, unsupported
        self.names = Names(RESERVED)
        self.sources: dict[SSAValue, str] = {}
        self.inputs: list[Input] = []
        self.populations: list[Population] = []
        self.connections: list[Connection] = []
        self.refused: set[Operation] = set()

    def refuse(self, op: Operation, reason: str) -> None:
        """Note an op once."""
        if op not in self.refused:
            self.refused.add(op)
            self.unsupported.add(op, reason)

    def network(self) -> LoihiNetwork:
        """The network; `unsupported` knows what is missing in it."""
        block = self.function.body.block
        for argument, wish in zip(block.args, argument_names(self.function), strict=True):
            self._argument(argument, wish)
        for op in block.ops:
            if isinstance(op, LoihiNeuronOp):
                try:
                    self._population(op)
                except Inexpressible as reason:
                    self.refuse(op, str(reason))
            elif not isinstance(op, (*_RESHAPES, *_SYNAPSES, func.ReturnOp)) and not is_literal(op):
                self.refuse(op, "is no part of a network in Loihi's fixed point")
        end = block.last_op
        assert isinstance(end, func.ReturnOp)
        outputs: list[tuple[str, str]] = []
        for name, value in zip(result_names(self.function), end.operands, strict=True):
            if value not in self.sources or isinstance(value, BlockArgument):
                owner = value.owner if isinstance(value.owner, Operation) else end
                self.refuse(owner, "gives a result; results are the spikes of neurons")
                continue
            outputs.append((name, self.sources[value]))
        return LoihiNetwork(
            tuple(self.inputs), tuple(self.populations), tuple(self.connections), tuple(outputs)
        )

    def _argument(self, value: BlockArgument, wish: str) -> None:
        type, spikes = dense_type(value), is_train(value)
        shape = type.get_shape()
        if (not spikes and type.element_type != i32) or len(shape) < 3 or min(shape[2:]) < 1:
            self.refuse(
                self.function,
                f"takes {value.type}; inputs are spikes, or currents of i32, [T, N, …]",
            )
        name = self.sources[value] = self.names.new(wish)
        self.inputs.append(Input(name, shape[2:], spikes))

    def _population(self, op: LoihiNeuronOp) -> None:
        shape = tensor_type(op.input).get_shape()[2:]
        wish = op.output.name_hint or f"layer{len(self.populations)}"
        name = self.sources[op.output] = self.names.new(wish)
        if not shape or min(shape) < 1:
            raise Inexpressible("expects currents [T, N, …] of known sizes")
        if op.initial or op.final:
            raise Inexpressible("is given states, or gives them; on the chip they stay")
        threshold_low = None
        if isinstance(op, spike.LoihiTernaryLifOp):
            threshold_low = self._number(op, "threshold_low")
        self.populations.append(
            Population(
                name,
                shape,
                self._number(op, "du"),
                self._number(op, "dv"),
                self._number(op, "threshold"),
                threshold_low,
                self._bias(op, shape),
                op.reset.data == "subtract",
            )
        )
        gain = self._number(op, "gain")
        for term in terms(op.input):
            self._connection(name, term, gain)

    def _number(self, op: LoihiNeuronOp, name: str) -> int:
        value = op.parameter(name)
        known = literal_value(value) if isinstance(value, SSAValue) else np.asarray(value)
        if known is None or not known.size or (known != known.reshape(-1)[0]).any():
            raise Inexpressible(f"expects one {name} for all neurons")
        return int(known.reshape(-1)[0])

    def _bias(self, op: LoihiNeuronOp, shape: Shape) -> Array:
        value = op.parameter("bias")
        known = literal_value(value) if isinstance(value, SSAValue) else np.asarray(value)
        if known is None:
            raise Inexpressible("has a bias that is computed")
        if known.ndim > len(shape):
            known = known.reshape(known.shape[-len(shape) :])
        bias = known.astype(np.int64)
        return bias if not bias.ndim else np.broadcast_to(bias, shape)

    def _connection(self, target: str, current: SSAValue, gain: int) -> None:
        """Adds what brings one of the currents that neurons add up."""
        if isinstance(current, BlockArgument) and current in self.sources:
            if gain != 1:
                raise Inexpressible("multiplies currents from outside; give it the gain 1")
            name = self.names.new(f"{self.sources[current]}_current")
            self.connections.append(Connection(name, self.sources[current], target, None, 0))
            return
        owner = current.owner
        if isinstance(owner, tensor.ConvertOp):
            owner = owner.operand.owner
        if not isinstance(owner, spike.LinearOp | spike.ConvOp):
            raise Inexpressible("expects the sum of products of spikes and weights")
        values = literal_value(owner.weight)
        if values is None or owner.scale is not None or owner.bias is not None:
            raise Inexpressible("expects products with stored weights, without scale and bias")
        if (values != np.rint(values)).any():
            raise Inexpressible("expects weights of whole numbers")
        source, delay = self._origin(owner.input)
        whole = values.astype(np.int64) * gain
        weights, window = self._held(owner, whole)
        wish = owner.weight.name_hint or f"{target}_weight"
        stored = owner.weight.owner
        if isinstance(stored, tensor.ParameterOp):
            wish = stored.key.data
        name = self.names.new(wish)
        self.connections.append(Connection(name, source, target, weights, delay, window))

    def _held(
        self, op: spike.LinearOp | spike.ConvOp, whole: Array
    ) -> tuple[Weights, Window | None]:
        window = None
        if isinstance(op, spike.ConvOp):
            window = _window(op)
            if np.abs(whole).max(initial=0) > 256:
                raise Inexpressible(
                    "has a kernel of more than 8 bits, and Lava gives it no exponent"
                )
            return Weights(whole.astype(np.int32), 0), window
        held = as_held(np.ascontiguousarray(whole.T))
        if held is None:
            raise Inexpressible("has weights of more than 8 bits, or odd ones beyond a byte")
        return held, None

    def _origin(self, value: SSAValue) -> tuple[str, int]:
        """Where spikes come from, and how many steps later they are here."""
        delay = 0
        while value not in self.sources:
            op = value.owner
            if isinstance(op, spike.DelayOp):
                if op.delays is not None or op.initial is not None or op.final is not None:
                    raise Inexpressible("expects one delay for all neurons, without states")
                delay += op.steps.value.data
            elif not isinstance(op, _RESHAPES):
                raise Inexpressible("expects spikes of neurons or inputs, delayed or reshaped")
            value = cast("Operation", op).operands[0]
        if not 1 <= delay <= MOST_DELAY:
            raise Inexpressible(
                f"hears spikes {delay} steps later; connections of Lava take 1 to {MOST_DELAY}"
            )
        return self.sources[value], delay


def terms(value: SSAValue) -> list[SSAValue]:
    """What is added up to a current."""
    if isinstance(value.owner, tensor.AddOp):
        return [*terms(value.owner.lhs), *terms(value.owner.rhs)]
    return [value]


def _window(op: spike.ConvOp) -> Window:
    padding = op.padding.get_values()
    half = len(padding) // 2
    if half != 2 or padding[:half] != padding[half:]:
        raise Inexpressible("expects a convolution of images with equal pads at both ends")
    return Window(
        tuple(op.strides.get_values()),
        tuple(padding[:half]),
        tuple(op.dilation.get_values()),
        op.groups.value.data,
    )


_RESHAPES = (spike.ToTensorOp, spike.FromTensorOp, tensor.ReshapeToOp, tensor.FlattenOp)

_SYNAPSES = (spike.DelayOp, spike.LinearOp, spike.ConvOp, tensor.AddOp, tensor.ConvertOp)
"""What else may stand between neurons; currents are followed through it."""
