"""A program in Loihi's fixed point as what the chip has: populations, and connections between them.

The program is made of Loihi's neurons, products of bytes or floats that are whole, delays, reshapes
of trains, and feedback of these. What neurons and results come from is followed back op by op; one
that nobody can follow is refused where it stands. Not here: how it came to be so (`fixed_point`).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import f32, i1, i32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import module_of
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.spike.loihi import LoihiNeuronOp
from ...dialects.spike.types import dense_type, is_train
from ...dialects.tensor.shape import SLICE_END
from ...ir.arrays import Array
from ...ir.interpreter import entry_function
from ...ir.value_names import argument_names, result_names
from ...passes.analysis.compile_time import literal_value
from ...passes.analysis.initial_state import state_of
from ..emission import Inexpressible, Names, UnsupportedOps
from .parts import (
    Connection,
    Input,
    LoihiNetwork,
    Output,
    Population,
    Pulses,
    SigmaDelta,
    Window,
)
from .synapses import Weights, as_held

RESERVED = (
    *("ActivationMode", "Conv", "DelayDense", "Dense", "LIF", "NUMBERS", "RingBuffer", "STEPS"),
    *("SigmaDelta", "Sparse", "SubtractingLIF", "TernaryLIF", "csr_matrix", "inputs", "load", "np"),
)
"""Names that the script has for itself where it makes the processes."""

MOST_SHIFT = 16
"""Places by which a sum of numbers times weights is moved to the right, at most."""

GRADED_BITS = 24
"""Of messages that are whole numbers."""

MOST_DELAY = 63
"""Steps of a connection, of which the first is every connection's own (Lava 0.10.0,
dense/models.py: a delay of 0 to 63)."""


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
        self.unsupported = unsupported
        self.function, self.original = _flat(function)
        self.names = Names(RESERVED)
        self.sources: dict[SSAValue, str] = {}
        self.graded: dict[str, int] = {}
        self.inputs: list[Input] = []
        self.pulses: dict[tuple[int, int], Pulses] = {}
        self.steps: int | None = None
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
        end = block.last_op
        assert isinstance(end, func.ReturnOp)
        for argument, wish in zip(block.args, argument_names(self.function), strict=True):
            self._argument(argument, wish)
        for op in block.ops:
            if isinstance(op, LoihiNeuronOp):
                wish = op.output.name_hint or f"layer{len(self.sources) - len(block.args)}"
                name = self.sources[op.output] = self.names.new(wish)
                if not is_train(op.output):
                    ternary = isinstance(op, spike.LoihiTernaryLifOp)
                    self.graded[name] = 8 if ternary else GRADED_BITS
        for op in block.ops:
            if isinstance(op, LoihiNeuronOp):
                try:
                    self._population(op)
                except Inexpressible as reason:
                    self.refuse(op, str(reason))
                self._currents(op)
            elif isinstance(op, spike.EncodeOp):
                self._encoded(op)
        outputs: list[Output] = []
        for name, value in zip(result_names(self.function), end.operands, strict=True):
            spikes = _spikes(value)
            if spikes in self.sources and isinstance(spikes.owner, LoihiNeuronOp):
                outputs.append(Output(name, self.sources[spikes]))
                continue
            mean = self._mean(name, value)
            if mean is None:
                owner = value.owner if isinstance(value.owner, Operation) else end
                self.refuse(
                    owner,
                    "gives a result; results are the spikes of neurons, or their potentials at the "
                    "end",
                )
                continue
            outputs.append(mean)
        return LoihiNetwork(
            tuple(self.inputs),
            tuple(self.populations),
            tuple(self.connections),
            tuple(outputs),
            tuple(self.pulses.values()),
            self.steps,
            {name: self.original.get(value, value) for value, name in self.sources.items()},
        )

    def _mean(self, name: str, value: SSAValue) -> Output | None:
        """A result that is a potential at the end, times a number, and another."""
        added: Array = np.zeros((), np.float32)
        if isinstance(value.owner, tensor.AddOp):
            known = literal_value(value.owner.rhs)
            if known is None:
                return None
            value, added = value.owner.lhs, known
        op = value.owner
        if not isinstance(op, tensor.DequantizeOp):
            return None
        scale, zero = literal_value(op.scale), literal_value(op.zero_point)
        neuron = op.input.owner
        if (
            not isinstance(neuron, LoihiNeuronOp)
            or op.input is not neuron.final[-1]
            or neuron.output not in self.sources
            or (scale is None or scale.ndim or zero is None or zero.any())
        ):
            return None
        return Output(name, self.sources[neuron.output], np.float32(scale), added)

    def _encoded(self, op: spike.EncodeOp) -> None:
        """An input of numbers, which stay."""
        scaled = op.operand.owner
        known = isinstance(scaled, tensor.QuantizeOp) and scaled.input in self.sources
        scale = literal_value(scaled.scale) if isinstance(scaled, tensor.QuantizeOp) else None
        steps = op.timesteps.value.data if op.timesteps is not None else None
        if not known or scale is None or scale.ndim or op.scheme.data != "direct":
            self.refuse(op, "encodes; what comes before neurons is left to the caller")
            return
        assert isinstance(scaled, tensor.QuantizeOp)
        high, low = scaled.high.value.data, scaled.low.value.data
        zero = literal_value(scaled.zero_point)
        if low != -high or zero is None or zero.any() or self.steps not in (None, steps):
            self.refuse(op, "encodes numbers around another than 0, or for other steps")
            return
        name, self.steps = self.sources[scaled.input], steps
        self.sources[op.result] = name
        place = [part.name for part in self.inputs].index(name)
        self.inputs[place] = replace(self.inputs[place], numbers=(np.float32(scale), high))
        self.graded[name] = high.bit_length() + 1

    def _argument(self, value: BlockArgument, wish: str) -> None:
        type = dense_type(value)
        spikes = is_train(value) or type.element_type == i1
        shape = type.get_shape()
        users = {use.operation for use in value.uses}
        if (
            type.element_type == f32
            and users
            and all(isinstance(u, tensor.QuantizeOp) for u in users)
        ):
            name = self.sources[value] = self.names.new(wish)
            self.inputs.append(Input(name, shape[1:], spikes=False))
            return
        if (not spikes and type.element_type != i32) or len(shape) < 3 or min(shape[2:]) < 1:
            self.refuse(
                self.function,
                f"takes {value.type}; inputs are spikes, or currents of i32, [T, N, …]",
            )
        name = self.sources[value] = self.names.new(wish)
        self.graded |= {} if spikes else {name: GRADED_BITS}
        self.inputs.append(Input(name, shape[2:], spikes))

    def _population(self, op: LoihiNeuronOp) -> None:
        shape = tensor_type(op.input).get_shape()[2:]
        name = self.sources[op.output]
        if not shape or min(shape) < 1:
            raise Inexpressible("expects currents [T, N, …] of known sizes")
        start = [state_of(value, len(shape)) for value in op.initial] or [np.zeros(())]
        sigma_delta = None
        if isinstance(op, spike.LoihiSigmaDeltaOp):
            if op.initial or any(value.first_use is not None for value in op.final):
                raise Inexpressible("takes or gives states")
            options = op.options()
            relu = options.activation == "relu"
            sigma_delta = SigmaDelta(options.shift, relu, bool(options.cumulative))
        elif len(op.final) and op.final[0].first_use is not None:
            raise Inexpressible("gives its current")
        if start[-1] is None or (len(start) > 1 and (start[0] is None or start[0].any())):
            raise Inexpressible("begins with states that are computed, or with a current")
        threshold_low = None
        if isinstance(op, spike.LoihiTernaryLifOp):
            threshold_low = self._number(op, "threshold_low")
        self.populations.append(
            Population(
                name,
                shape,
                0 if sigma_delta else self._number(op, "du"),
                0 if sigma_delta else self._number(op, "dv"),
                self._threshold(op, shape),
                threshold_low,
                self._bias(op, shape),
                op.options().reset == "subtract" and not sigma_delta,
                np.asarray(start[-1]).astype(np.int64),
                sigma_delta,
            )
        )

    def _currents(self, op: LoihiNeuronOp) -> None:
        """Adds what brings the currents of a population."""
        name, shape = self.sources[op.output], tensor_type(op.input).get_shape()[2:]
        for term in terms(op.input):
            try:
                gain = self._number(op, "gain")
                if not self._constant(name, shape, term, gain):
                    self._connection(name, term, gain)
            except Inexpressible as reason:
                self.refuse(op, str(reason))

    def _number(self, op: LoihiNeuronOp, name: str) -> int:
        value = op.parameter(name)
        known = literal_value(value) if isinstance(value, SSAValue) else np.asarray(value)
        if known is None or not known.size or (known != known.reshape(-1)[0]).any():
            raise Inexpressible(f"expects one {name} for all neurons")
        return int(known.reshape(-1)[0])

    def _threshold(self, op: LoihiNeuronOp, shape: Shape) -> Array:
        value = op.parameter("threshold")
        if (
            op.options().reset != "subtract"
            or isinstance(op, spike.LoihiSigmaDeltaOp)
            or not isinstance(value, SSAValue)
        ):
            return np.asarray(self._number(op, "threshold"))
        known = literal_value(value)
        if known is None or known.ndim > len(shape):
            raise Inexpressible(
                "expects thresholds that are stored, one number or one for each neuron"
            )
        return known.astype(np.int64)

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
        owner, shift = current.owner, 0
        if isinstance(owner, tensor.ShiftRightOp):
            places = literal_value(owner.rhs)
            if places is None or places.ndim or not 0 <= places <= MOST_SHIFT or gain != 1:
                raise Inexpressible("moves a current by places that a synapse has not")
            owner, shift = owner.lhs.owner, int(places)
        if isinstance(owner, tensor.ConvertOp):
            owner = owner.operand.owner
        if not isinstance(owner, spike.SynapseOp):
            self._refuse_between(owner)
            raise Inexpressible("expects the sum of products of spikes and weights")
        values = literal_value(owner.weight)
        if values is None or owner.scale is not None or owner.bias is not None:
            raise Inexpressible("expects products with stored weights, without scale and bias")
        if (values != np.rint(values)).any():
            raise Inexpressible("expects weights of whole numbers")
        source, delay = self._origin(owner.input)
        bits = self.graded.get(source, 0)
        whole = values.astype(np.int64) * gain
        weights, window = self._held(owner, whole, shift)
        wish = owner.weight.name_hint or f"{target}_weight"
        stored = owner.weight.owner
        if isinstance(stored, tensor.ParameterOp):
            wish = stored.key.data
        name = self.names.new(wish)
        self.connections.append(Connection(name, source, target, weights, delay, window, bits))

    def _refuse_between(self, owner: Operation | Block) -> None:
        """Refuse what stands where a synapse, or the way of spikes to one, was expected."""
        if isinstance(owner, Operation) and not isinstance(owner, LoihiNeuronOp):
            self.refuse(owner, "is no part of a network in Loihi's fixed point")

    def _constant(self, target: str, shape: Shape, current: SSAValue, gain: int) -> bool:
        """Adds a current that is there at some steps; whether it is one."""
        values = literal_value(current)
        if values is None:
            return False
        there: Array = np.asarray(values.any(axis=tuple(range(1, values.ndim))))
        steps = np.flatnonzero(there)
        if not len(steps):
            return True
        first, last = int(steps[0]), int(steps[-1]) + 1
        each = np.asarray(values[first], np.int64)
        if not there[first:last].all() or (values[first:last] != each).any() or len(each) > 1:
            raise Inexpressible("adds a current that is not the same at all steps that have it")
        if first == 0:
            raise Inexpressible("adds a constant current at the first step, before synapses can")
        spread = np.broadcast_to(each.reshape(each.shape[1:]), shape).reshape(-1)
        high = (spread + 64) >> 7
        held = as_held(np.stack([spread - 128 * high, high], axis=1) * gain)
        if held is None:
            raise Inexpressible("adds a constant current of more than 14 bits")
        if (first, last) not in self.pulses:
            name = self.names.new(f"steps{first}")
            self.pulses[first, last] = Pulses(name, first - 1, last - 1)
        name = self.names.new(f"{target}_constant")
        source = self.pulses[first, last].name
        self.connections.append(Connection(name, source, target, held, 1, bits=8))
        return True

    def _held(self, op: spike.SynapseOp, whole: Array, shift: int) -> tuple[Weights, Window | None]:
        window = None
        if isinstance(op, spike.ConvOp):
            window = _window(op)
            if shift:
                held = as_held(whole)
                if held is None:
                    raise Inexpressible("has a kernel of more than 8 bits")
                return Weights(held.mantissa, held.exponent - shift), window
            if np.abs(whole).max(initial=0) > 256:
                raise Inexpressible(
                    "has a kernel of more than 8 bits, and Lava gives it no exponent"
                )
            return Weights(whole.astype(np.int32), 0), window
        held = as_held(np.ascontiguousarray(whole.T))
        if held is None:
            raise Inexpressible("has weights of more than 8 bits, or odd ones beyond a byte")
        return Weights(held.mantissa, held.exponent - shift), None

    def _origin(self, value: SSAValue) -> tuple[str, int]:
        """Where spikes come from, and how many steps later they are here."""
        delay, part = 0, None
        followed: set[SSAValue] = set()
        while value not in self.sources:
            op = value.owner
            if value in followed:
                raise Inexpressible("hears feedback of something else than neurons")
            followed.add(value)
            if isinstance(op, tensor.ConcatenateOp) and part is not None:
                value, part = _joined(part, op), None
                continue
            if isinstance(op, tensor.SliceOp) and part is None:
                part = op
            elif isinstance(op, spike.DelayOp):
                if op.delays is not None or op.initial is not None or op.final is not None:
                    raise Inexpressible("expects one delay for all neurons, without states")
                delay += op.steps.value.data
            elif isinstance(op, tensor.ReshapeToOp | tensor.FlattenOp) and part is None:
                _require_steps(op)
            elif not isinstance(op, spike.ToTensorOp | spike.FromTensorOp | tensor.ConvertOp):
                self._refuse_between(op)
                raise Inexpressible(
                    "expects spikes of whole populations or inputs, delayed or reshaped"
                )
            value = cast("Operation", op).operands[0]
        if part is not None:
            raise Inexpressible("hears a part of a population")
        converted = any(isinstance(seen.owner, tensor.ConvertOp) for seen in followed)
        if converted and self.sources[value] in self.graded:
            raise Inexpressible("hears numbers that are converted")
        if not 1 <= delay <= MOST_DELAY:
            raise Inexpressible(
                f"hears spikes {delay} steps later; connections of Lava take 1 to {MOST_DELAY}"
            )
        return self.sources[value], delay


def _spikes(value: SSAValue) -> SSAValue:
    """The train whose truth values a result is, or the result."""
    owner = value.owner
    if isinstance(owner, spike.ToTensorOp) and dense_type(value).element_type == i1:
        return owner.operand
    return value


def _flat(function: func.FuncOp) -> tuple[func.FuncOp, dict[SSAValue, SSAValue]]:
    """A function whose feedback is a delay of what stands behind it, and what its values were."""
    if not any(isinstance(op, spike.RecurrentOp) for op in function.body.block.ops):
        return function, {}
    copies: dict[SSAValue, SSAValue] = {}
    # The module too, which knows what parameters are.
    module = module_of(function).clone(value_mapper=copies)
    function = entry_function(module, function.sym_name.data)
    around = function.body.block
    while loops := [op for op in around.ops if isinstance(op, spike.RecurrentOp)]:
        for loop in loops:
            inner = loop.body.block
            end = inner.last_op
            assert isinstance(end, spike.YieldOp)
            feedback = spike.DelayOp(end.operands[0], 1, initial=loop.initial)
            around.insert_op_before(feedback, loop)
            for argument, value in zip(inner.args, [*loop.inputs, feedback.output], strict=True):
                argument.replace_all_uses_with(value)
            for op in list(inner.ops):
                op.detach()
                if op is not end:
                    around.insert_op_before(op, loop)
            for result, value in zip(loop.results, end.operands, strict=True):
                value.name_hint = value.name_hint or result.name_hint
                result.replace_all_uses_with(value)
            end.erase()
            loop.detach()
            loop.erase()
    return function, {copy: value for value, copy in copies.items()}


def _joined(part: tensor.SliceOp, op: tensor.ConcatenateOp) -> SSAValue:
    """Which operand of a concatenation a slice of it is."""
    axis, first = op.axis.value.data, 0
    sizes = [SLICE_END if n == DYNAMIC else n for n in tensor_type(op.result).get_shape()]
    bounds = zip(*(x.get_values() for x in (part.starts, part.ends, part.steps)), strict=True)
    wanted = [range(n)[slice(*each)] for n, each in zip(sizes, bounds, strict=True)]
    whole = [range(n) for n in sizes]
    for operand in op.operands:
        size = tensor_type(operand).get_shape()[axis]
        whole[axis] = range(first, first + size)
        if size != DYNAMIC and wanted == whole:
            return operand
        first += size
    raise Inexpressible("hears a part of a population")


def _require_steps(op: tensor.ReshapeToOp | tensor.FlattenOp) -> None:
    """Refuse a reshape of something else than what each step of a sample holds."""
    before, after = (tensor_type(v).get_shape() for v in (op.operand, op.result))
    sizes = op.shape.get_values() if isinstance(op, tensor.ReshapeToOp) else (-2, -3)
    kept = all(
        n == m and (n != DYNAMIC or size == -2 - axis)
        for axis, (n, m, size) in enumerate(zip(before[:2], after[:2], sizes[:2], strict=True))
    )
    if not kept or prod(before[2:]) != prod(after[2:]):
        raise Inexpressible("hears what is reshaped over steps and samples")


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
