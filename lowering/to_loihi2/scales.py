"""How many units a threshold has: scales of weights, found by rounding and by simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.spike import interpret_neurons
from ...dialects.spike.types import is_train
from ...dialects.tensor.interpret_linear import convolve, product
from ...ir.arrays import Array
from ...ir.neurons.loihi import DECAY_BITS
from ...passes.analysis.compile_time import literal_value
from ..emission import Inexpressible
from .network import terms
from .synapses import MOST_EXPONENT

UNITS = 1 << 11
"""The vth that is wanted at most: v then holds 64 thresholds on either side."""

MOST_UNITS = 1 << 14
"""The most that is taken where small weights need it."""

TRIED = 40
"""Scales that are tried for rounding."""

SIMULATED = 8
"""The best of these, which are simulated where there are samples."""


@dataclass(frozen=True, eq=False)
class Synapse:
    """Weights of floats, so that the threshold is 1.

    Attributes:
        op: the product.
        key: the name of its weights.
        weights: f64, as in the op.
    """

    op: spike.LinearOp | spike.ConvOp
    key: str
    weights: Array


@dataclass(frozen=True, eq=False)
class Layer:
    """Neurons of floats and what they hear.

    Attributes:
        neuron: the op.
        synapses: whose currents add up.
        bias: what is added to the potential in each step, a scalar or [C, …], threshold 1.
        du, dv, reset: of `spike.loihi_lif`.
        strict: whether they fire above the threshold alone.
    """

    neuron: spike.NeuronOp
    synapses: Sequence[Synapse]
    bias: Array
    du: int
    dv: int
    reset: str
    strict: bool


@dataclass(frozen=True, eq=False)
class Scaled:
    """A layer in whole numbers.

    Attributes:
        weights: of each synapse, i8.
        gain: a power of two, times which they are.
        bias: 13 bits and an exponent.
        threshold: vth.
        units: a threshold, in units of weights.
    """

    weights: Sequence[Array]
    gain: int
    bias: Array
    threshold: int
    units: int


def layer_of(neuron: spike.LifOp | spike.IntegrateFireOp | spike.CubaLifOp) -> Layer:
    """What a neuron of floats and its synapses are.

    Raises:
        Inexpressible: Loihi has no such thing.
    """
    if neuron.initial or neuron.final:
        raise Inexpressible("begins with states, or gives them")
    p = {name: _known(neuron, name) for name in neuron.PARAMETERS}
    reset = neuron.reset.data
    if reset == "none" or (reset == "to_value" and p["v_reset"].any()):
        raise Inexpressible("does not start again at 0, nor lose its threshold")
    threshold = p["threshold"]
    if not (threshold > 0).all():
        raise Inexpressible("has a threshold that is not above 0")
    one = np.ones(())
    beta = _single("beta", p.get("beta", one))
    alpha = _single("alpha", p.get("alpha", np.zeros(())))
    gain = p["gain"] * p.get("w_in", one)
    synapses: list[Synapse] = []
    bias = np.zeros(())
    rank = tensor_type(neuron.input).get_num_dims() - 2
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
    return Layer(neuron, synapses, bias, du, dv, reset, neuron.compare.data == "gt")


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
    if not isinstance(op, spike.LinearOp | spike.ConvOp) or not is_train(op.input):
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
    return Synapse(op, stored.key.data if known else "weight", weights), bias


def scaled(layer: Layer, records: Mapping[SSAValue, Sequence[Array]] | None) -> Scaled:
    """The layer in whole numbers, at the scale that rounds weights least; with samples, of the
    best ones that with which the neurons fire most nearly as often.

    Args:
        layer: of floats.
        records: what its synapses hear and its neurons give on samples.
    """
    most = max(float(np.abs(s.weights).max(initial=0)) for s in layer.synapses) or 1.0
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
    known.sort(key=lambda s: (_error(layer, s), -s.units))
    if records is None:
        return known[0]
    return min(known[:SIMULATED], key=lambda s: _difference(layer, s, records))


def _at(layer: Layer, units: int, gain: int) -> Scaled:
    weights = [
        np.clip(np.rint(s.weights * (units / gain)), -128, 127).astype(np.int8)
        for s in layer.synapses
    ]
    # At the threshold too: the next lower multiple of 64 is not reached by whole weights.
    threshold = units if layer.strict else max(units - 1, 0)
    return Scaled(weights, gain, _bias(layer.bias * units * 64), threshold, units)


def _bias(values: Array) -> Array:
    """The nearest numbers of 13 bits and one exponent, i64."""
    most = float(np.abs(values).max(initial=0))
    exponent = next((e for e in range(8) if most / 2**e <= 4095), 7)
    mantissa = np.clip(np.rint(values / 2**exponent), -4096, 4095)
    return mantissa.astype(np.int64) << exponent


def _error(layer: Layer, scale: Scaled) -> float:
    """How far weights are off, squared, in thresholds."""
    return sum(
        float(np.square(w.astype(np.float64) * scale.gain / scale.units - s.weights).sum())
        for w, s in zip(scale.weights, layer.synapses, strict=True)
    )


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
    return total, _error(layer, scale)


def _current(synapse: Synapse, weights: Array, spikes: Array) -> Array:
    op, x, w = synapse.op, spikes.astype(np.int64), weights.astype(np.int64)
    if isinstance(op, spike.LinearOp):
        return product(x, w)
    sums = convolve(
        x.reshape(-1, *x.shape[2:]),
        w,
        op.strides.get_values(),
        op.padding.get_values(),
        op.dilation.get_values(),
        op.groups.value.data,
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
        threshold=scale.threshold,
        reset=layer.reset,
    )
    return interpret_neurons.run(neuron, current, scale.bias.astype(np.int32))[0]
