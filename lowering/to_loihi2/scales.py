"""How many units a threshold has: scales of weights, found by rounding and by simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block, BlockArgument, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.spike import interpret_neurons
from ...dialects.spike.types import is_train
from ...dialects.tensor.interpret_linear import convolve, product
from ...ir.arrays import Array
from ...ir.neurons.loihi import DECAY_BITS, MOST_THRESHOLD
from ...passes.analysis.compile_time import literal_value
from ...passes.analysis.initial_state import state_of
from ..emission import Inexpressible
from .network import terms
from .synapses import MOST_EXPONENT

UNITS = 1 << 11
"""The vth that is wanted at most: v then holds 64 thresholds on either side."""

MOST_UNITS = 1 << 14
"""The most that is taken where small weights need it."""

LEAST_UNITS = 1 << 7
"""Where the smallest threshold of some is less, it is moved up with the currents."""

TRIED = 40
"""Scales that are tried for rounding."""

BYTE = 127
"""The largest weight of both signs."""

SIMULATED = 8
"""The best of these, which are simulated where there are samples."""


@dataclass(frozen=True, eq=False)
class Synapse:
    """Weights of floats, so that the threshold is 1.

    Attributes:
        op: the product.
        key: the name of its weights.
        weights: f64, as in the op.
        numbers: whether it is of numbers, and not of spikes.
    """

    op: spike.LinearOp | spike.ConvOp
    key: str
    weights: Array
    numbers: bool = False


@dataclass(frozen=True, eq=False)
class Layer:
    """Neurons of floats and what they hear.

    Attributes:
        neuron: the op.
        synapses: whose currents add up.
        bias: what is added to the potential in each step, a scalar or [C, …], threshold 1.
        du, dv, reset: of `spike.loihi_lif`.
        strict: whether they fire above the threshold alone.
        start: the potential that they start with, threshold 1.
    """

    neuron: spike.NeuronOp
    synapses: Sequence[Synapse]
    bias: Array
    du: int
    dv: int
    reset: str
    strict: bool
    start: Array

    @property
    def hears_numbers(self) -> bool:
        """Whether something that it hears is numbers."""
        return any(synapse.numbers for synapse in self.synapses)


Readout: TypeAlias = tuple[Sequence[Synapse], Array]
"""The synapses of a readout, and what is added to the mean of what they bring."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """A layer in whole numbers.

    Attributes:
        weights: of each synapse, i8.
        gain: a power of two, times which they are.
        bias: 13 bits and an exponent.
        threshold: vth, a number or one a channel.
        units: a threshold, in units of weights, alike.
        shift: places by which sums of numbers times weights are moved to the right.
    """

    weights: Sequence[Array]
    gain: int
    bias: Array
    threshold: Array
    units: Array
    shift: int = 0


def layer_of(neuron: spike.LifOp | spike.IntegrateFireOp | spike.CubaLifOp) -> Layer:
    """What a neuron of floats and its synapses are.

    Raises:
        Inexpressible: Loihi has no such thing.
    """
    if neuron.final:
        raise Inexpressible("gives its states")
    p = {name: _known(neuron, name) for name in neuron.PARAMETERS}
    reset = neuron.reset.data
    if reset == "none" or (reset == "to_value" and p["v_reset"].any()):
        raise Inexpressible("does not start again at 0, nor lose its threshold")
    threshold = p["threshold"]
    start = np.zeros(())
    if not (threshold > 0).all():
        raise Inexpressible("has a threshold that is not above 0")
    one = np.ones(())
    beta = _single("beta", p.get("beta", one))
    alpha = _single("alpha", p.get("alpha", np.zeros(())))
    gain = p["gain"] * p.get("w_in", one)
    synapses: list[Synapse] = []
    bias = np.zeros(())
    rank = tensor_type(neuron.input).get_num_dims() - 2
    if neuron.initial:
        potential = state_of(neuron.initial[-1], rank)
        if potential is None or len(neuron.initial) > 1 or beta < 1:
            raise Inexpressible("begins with states that are computed, or that leak")
        start = potential / threshold
    for term in terms(neuron.input):
        synapse, added = _synapse(term, gain / threshold, rank)
        synapses.append(synapse)
        bias = bias + added
    # A current that decays holds what is added to it for 1 / (1 - α) steps.
    bias = bias * _channels(gain / threshold, rank) / (1 - alpha)
    leak = (1 - beta) * p.get("v_leak", np.zeros(()))
    bias = bias + _channels(leak / threshold, rank)
    unity = 2**DECAY_BITS
    du = int(np.clip(np.rint(unity * (1 - alpha)) - 1, 0, unity - 1))
    dv = int(np.clip(np.rint(unity * (1 - beta)), 0, unity - 1))
    strict = neuron.compare.data == "gt"
    return Layer(neuron, synapses, bias, du, dv, reset, strict, start)


def readout_of(op: spike.DecodeOp) -> Readout:
    """The synapses of a readout, whose result is the mean of its currents, and its bias.

    Raises:
        Inexpressible: it is none.
    """
    if op.scheme.data != "membrane" or op.readout is None or op.readout.data != "mean":
        raise Inexpressible("decodes; the mean of currents is read from potentials alone")
    rank = tensor_type(op.result).get_num_dims() - 1
    terms_of = [_synapse(term, np.ones(()), rank) for term in terms(op.operand)]
    return [s for s, _ in terms_of], np.asarray(sum(b for _, b in terms_of))


def _known(neuron: spike.NeuronOp, name: str) -> Array:
    value = neuron.parameter(name)
    known = literal_value(value) if isinstance(value, SSAValue) else np.asarray(value)
    if known is None:
        raise Inexpressible(f"has a parameter {name} that is computed")
    return known.astype(np.float64)


def _single(name: str, values: Array) -> float:
    first = float(values.reshape(-1)[0])
    if (values != first).any() or not 0 <= first <= 1:
        raise Inexpressible(f"expects one {name} from 0 to 1 for all neurons")
    return first


def _channels(values: Array, rank: int) -> Array:
    """One value, or one a channel as [C, 1, …]."""
    if values.size == 1:
        return values.reshape(())
    rows = values.reshape(values.shape[-rank:]) if values.ndim > rank else values
    rows = rows.reshape((1,) * (rank - rows.ndim) + rows.shape)
    if rank > 1 and (rows != rows[(slice(None), *[slice(0, 1)] * (rank - 1))]).any():
        raise Inexpressible("has thresholds or gains that differ within a channel")
    return rows[(slice(None), *[slice(0, 1)] * (rank - 1))]


def _synapse(term: SSAValue, factor: Array, rank: int) -> tuple[Synapse, Array]:
    """A product, and what it adds besides, which is not yet divided by thresholds."""
    op = term.owner
    numbers = isinstance(op, spike.LinearOp | spike.ConvOp) and not is_train(op.input)
    if not isinstance(op, spike.LinearOp | spike.ConvOp) or (
        numbers and encoded_of(op.input) is None
    ):
        raise Inexpressible("expects the sum of products of spikes and weights")
    values = [None if v is None else literal_value(v) for v in (op.weight, op.scale, op.bias)]
    if values[0] is None or any(
        v is None for v, o in zip(values[1:], (op.scale, op.bias), strict=True) if o is not None
    ):
        raise Inexpressible("expects stored weights")
    weights = values[0].astype(np.float64)
    scale = np.ones(()) if values[1] is None else values[1].astype(np.float64)
    across = scale * _channels(factor, rank).reshape(-1 if factor.size > 1 else ())
    if isinstance(op, spike.ConvOp) and across.ndim:
        across = across.reshape(-1, *[1] * (weights.ndim - 1))
    weights = weights * across
    if not np.isfinite(weights).all():
        raise Inexpressible("has weights that are not finite")
    bias = np.zeros(()) if values[2] is None else values[2].astype(np.float64)
    if bias.ndim:
        bias = bias.reshape(-1, *[1] * (rank - 1))
    stored = op.weight.owner
    known = isinstance(stored, tensor.ParameterOp | ternary.ParameterOp)
    return Synapse(op, stored.key.data if known else "weight", weights, numbers), bias


def encoded_of(value: SSAValue) -> spike.EncodeOp | None:
    """What repeats an argument at every step, if a value is that or another shape of it."""
    while isinstance(value.owner, tensor.FlattenOp | tensor.ReshapeToOp):
        value = value.owner.operands[0]
    op = value.owner
    if not isinstance(op, spike.EncodeOp) or op.scheme.data != "direct":
        return None
    return op if isinstance(op.operand, BlockArgument) else None


def scaled(layer: Layer, records: Mapping[SSAValue, Sequence[Array]] | None) -> Scaled:
    """The layer in whole numbers, at the scale that rounds weights least; with samples, of the
    best ones that with which the neurons fire most nearly as often.

    Args:
        layer: of floats.
        records: what its synapses hear and its neurons give on samples.
    """
    most = float(_most(layer.synapses))
    exact = any(isinstance(s.op, spike.ConvOp) for s in layer.synapses)
    top = 0 if exact else MOST_EXPONENT
    exponent = next((e for e in range(top, -1, -1) if 254 * 2**e / most <= UNITS), 0)
    largest = min(254 * 2**exponent / most, MOST_UNITS)
    # Beyond 1 the largest weights are cut.
    shares = np.unique(np.append(np.linspace(0.6, 1.1, TRIED), 1.0))
    tried = {max(1, round(largest * share)) for share in shares}
    gain = 2 ** (exponent + 1)
    # With these, weights of whole numbers stay exact.
    tried |= {n * gain for n in range(1, int(largest) // gain + 1)[-TRIED:]}
    known = [_at(layer, units, gain) for units in sorted(tried)]
    known.sort(key=lambda s: (_rounding(layer.synapses, s.units / s.gain), -float(s.units)))
    if records is None:
        return known[0]
    return min(known[:SIMULATED], key=lambda s: _difference(layer, s, records))


def scaled_channels(layer: Layer, one: float | None = None) -> Scaled:
    """The layer in whole numbers, where neurons subtract and each channel has its own threshold.

    Args:
        layer: of floats.
        one: what stands for 1 in the numbers that it hears; `None` where it hears spikes.

    Raises:
        Inexpressible: it hears both.
    """
    if any(s.numbers != (one is not None) for s in layer.synapses):
        raise Inexpressible("hears spikes and numbers; give them neurons of their own")
    most = _most(layer.synapses)
    if layer.reset == "subtract":
        # Outputs are the last axis of a product, and the first of a convolution.
        most = np.max([_largest(s) for s in layer.synapses], axis=0)
        most = np.where(most > 0, most, most.max() or 1.0)
    unit, gain, shift = np.minimum(BYTE / most, MOST_UNITS), 1, 0
    if one is None:
        exact = any(isinstance(s.op, spike.ConvOp) for s in layer.synapses)
        top = 2 if exact else 2 ** (MOST_EXPONENT + 1)
        while gain < top and gain * unit.min() < LEAST_UNITS:
            gain *= 2
        unit = np.minimum(unit, MOST_UNITS / gain)
        units = np.maximum(np.rint(unit * gain), 1)
        unit = units / gain
    else:
        shift = int(np.clip(np.floor(np.log2(unit.max() * one / MOST_UNITS)) + 1, 0, 16))
        units = np.maximum(np.rint(unit * one / 2**shift), 1)
        unit = units / one * 2**shift
    rank = tensor_type(layer.neuron.input).get_num_dims() - 2
    weights = [_bytes(s.weights * _across(s, unit)) for s in layer.synapses]
    units = units.reshape(-1, *[1] * (rank - 1)) if units.ndim else units
    threshold = (units if layer.strict else np.maximum(units - 1, 0)).astype(np.int64)
    return Scaled(weights, gain, np.zeros(()), threshold, units, shift)


def _largest(synapse: Synapse) -> Array:
    """The largest weight of each output."""
    w = np.abs(synapse.weights)
    conv = isinstance(synapse.op, spike.ConvOp)
    return w.max(axis=tuple(range(1, w.ndim)) if conv else 0)


def _across(synapse: Synapse, unit: Array) -> Array:
    """Numbers of outputs, as they multiply weights."""
    conv = isinstance(synapse.op, spike.ConvOp) and unit.ndim
    return unit.reshape(-1, *[1] * (synapse.weights.ndim - 1)) if conv else unit


def scaled_readout(synapses: Sequence[Synapse], timesteps: int) -> tuple[list[Array], float]:
    """Bytes for the weights of a readout, and what stands for 1 in them.

    However many of its inputs fire in all steps, the potential holds the sum.
    """
    unit = float(BYTE / _most(synapses))
    largest = 0.0
    for sign in (1, -1):
        ways = [np.maximum(sign * s.weights, 0) for s in synapses]
        # [in, out], or [out, in, …].
        sums = [w.sum(axis=0 if w.ndim == 2 else tuple(range(1, w.ndim))) for w in ways]
        largest = max(largest, sum(float(each.max(initial=0)) for each in sums))
    if largest:
        unit = min(unit, (MOST_THRESHOLD - 1) / (largest * timesteps) * 0.99)
    return [_bytes(s.weights * unit) for s in synapses], unit


def _most(synapses: Sequence[Synapse]) -> Array:
    """The largest weight."""
    return np.asarray(max(float(np.abs(s.weights).max(initial=0)) for s in synapses) or 1.0)


def _bytes(values: Array) -> Array:
    return np.clip(np.rint(values), -128, 127).astype(np.int8)


def _rounding(synapses: Sequence[Synapse], units: Array) -> float:
    """How far weights are off, squared, in thresholds."""
    return sum(
        float(np.square(_bytes(s.weights * units).astype(np.float64) / units - s.weights).sum())
        for s in synapses
    )


def _at(layer: Layer, units: int, gain: int) -> Scaled:
    weights = [_bytes(s.weights * (units / gain)) for s in layer.synapses]
    # At the threshold too: the next lower multiple of 64 is not reached by whole weights.
    threshold = units if layer.strict else max(units - 1, 0)
    bias = _bias(layer.bias * units * 64)
    return Scaled(weights, gain, bias, np.asarray(threshold), np.asarray(units))


def _bias(values: Array) -> Array:
    """The nearest numbers of 13 bits and one exponent, i64."""
    most = float(np.abs(values).max(initial=0))
    exponent = next((e for e in range(8) if most / 2**e <= 4095), 7)
    mantissa = np.clip(np.rint(values / 2**exponent), -4096, 4095)
    return mantissa.astype(np.int64) << exponent


def _difference(
    layer: Layer, scale: Scaled, records: Mapping[SSAValue, Sequence[Array]]
) -> tuple[int, float]:
    """Spikes of single neurons too many or too few on the samples, and the error of rounding."""
    total = 0
    for index, fired in enumerate(records[layer.neuron.output]):
        current = sum(
            _current(s, w, records[s.op.input][index])
            for w, s in zip(scale.weights, layer.synapses, strict=True)
        )
        spikes = _fire(layer, scale, np.asarray(current, np.int32))
        off = spikes.sum(axis=0, dtype=np.int64) - fired.sum(axis=0, dtype=np.int64)
        total += int(np.abs(off).sum())
    return total, _rounding(layer.synapses, scale.units / scale.gain)


def _current(synapse: Synapse, weights: Array, spikes: Array) -> Array:
    op, x, w = synapse.op, spikes.astype(np.int64), weights.astype(np.int64)
    if isinstance(op, spike.LinearOp):
        return product(x, w)
    sums = convolve(
        x.reshape(-1, *x.shape[2:]),
        w,
        **op.window,
    )
    return sums.reshape(*x.shape[:2], *sums.shape[1:])


def _fire(layer: Layer, scale: Scaled, current: Array) -> Array:
    block = Block(arg_types=[TensorType(i32, current.shape), TensorType(i32, scale.bias.shape)])
    neuron = spike.LoihiLifOp(
        block.args[0],
        du=layer.du,
        dv=layer.dv,
        bias=block.args[1],
        gain=scale.gain,
        threshold=float(scale.threshold),
        reset=layer.reset,
    )
    return interpret_neurons.run(neuron, current, scale.bias.astype(np.int32))[0]
