"""The pass `convert-spike-to-loihi`: neurons of floats become those of Loihi, in whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i1, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ...dialects import spike, tensor
from ...dialects.parameters import module_of
from ...dialects.spike.types import TrainType, dense_type, is_train
from ...dialects.traits import MovesElements, has
from ...ir.arrays import Array
from ...ir.interpreter import entry_function
from ...passes.analysis.compile_time import literal
from ...passes.analysis.replacement import erase_unused, replace_results
from ...passes.calibration.observation import read_batches
from ...passes.convert_spike_to_tensor.tensor_builder import Builder
from ...runtime.spiking.activity import record
from ..emission import Inexpressible, UnsupportedOps
from .scales import (
    Layer,
    Readout,
    Scaled,
    Synapse,
    encoded_of,
    layer_of,
    readout_of,
    scaled,
    scaled_channels,
    scaled_readout,
)
from .windows import LARGEST, MOST_CONSTANT, MOST_CURRENT, Windows, move_product

Neuron = spike.LifOp | spike.IntegrateFireOp | spike.CubaLifOp
Records = dict[SSAValue, list[Array]]
"""What values are on samples, batch by batch."""

SAMPLES = 64
"""How many samples are run."""


@dataclass(frozen=True)
class ConvertSpikeToLoihiPass(ModulePass):
    """Put `spike.loihi_lif` in the place of `lif`, `integrate_fire` and `cuba_lif` on floats.

    Weights become bytes times a power of two, decays have 12 bits, potentials 24. A layer's
    thresholds are 64·vth units of the potential; which number vth is, decides how weights are
    rounded: many are tried, and with `data` those are kept with which the neurons fire most nearly
    as often as they did. Lava's connections take a step, so each layer is a step later; paths of
    different lengths stay together.

        %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
        %s = spike.lif %i {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
        // becomes
        %d = spike.delay %x {steps = 1 : i64} : (!spike.train<?x?x8>) -> !spike.train<?x?x8>
        %i = spike.linear %d, %v : !spike.train<?x?x8>, tensor<8x4xi8> -> tensor<?x?x4xi32>
        %s = spike.loihi_lif %i {du = 4095.0 : f64, dv = 410.0 : f64, gain = 64.0 : f64,
             threshold = 8127.0 : f64} : (tensor<?x?x4xi32>) -> !spike.train<?x?x4>

    A program that encodes its input as a constant current and gives the mean of its last
    currents, as `convert-ann-to-snn` makes them, runs so many steps longer. Its first layer hears
    numbers of 8 bits, biases are there for the steps of their layer alone, neurons keep what they
    start with, and the mean is read from the potentials of neurons that never fire.

    Approximate, by those roundings.

    Raises:
        UnsupportedError: names everything that has no such form.
        OptionError: the samples cannot be read, or do not fit.
    """

    name = "convert-spike-to-loihi"
    approximate: ClassVar[bool] = True

    data: str | None = None
    """Sample inputs, with which the scales are chosen: `.npz`, `.safetensors` or `.npy`."""

    spikes: bool = False
    """Arguments of floats that go to synapses hold 0 and 1 alone, and become trains."""

    peak: float = 1.0
    """The largest number that constant inputs hold, of any sign, where no data tell; what is
    larger is cut."""

    samples: int = SAMPLES
    """Use the first so many samples."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        if self.spikes:
            _as_trains(function)
        ops = list(function.body.block.ops)
        for inner in ops:
            if isinstance(inner, spike.EncodeOp):
                move_product(inner)
        layers: dict[Neuron, Layer] = {}
        readouts: dict[spike.DecodeOp, Readout] = {}
        unsupported = UnsupportedOps("loihi2")
        for inner in ops:
            try:
                if isinstance(inner, Neuron):
                    layers[inner] = layer_of(inner)
                elif isinstance(inner, spike.DecodeOp):
                    readouts[inner] = readout_of(inner)
            except Inexpressible as reason:
                unsupported.add(inner, str(reason))
        is_timed = bool(readouts) or any(layer.start.any() for layer in layers.values())
        if is_timed:
            products = [s for layer in layers.values() for s in layer.synapses]
            for synapse in (*products, *(s for synapses, _ in readouts.values() for s in synapses)):
                between = _between(synapse.op.input, layers)
                if between is not None:
                    unsupported.add(between, "stands between neurons, which hear spikes alone")
        unsupported.raise_if_any(
            "the target 'loihi2' takes neurons of floats that hear weighted spikes, of converted "
            "networks those of convert-ann-to-snn{pools=before}; see docs/targets/loihi2.md"
        )
        heard = {synapse.op.input for layer in layers.values() for synapse in layer.synapses}
        wanted = heard | {neuron.output for neuron in layers}
        records = None if self.data is None else recorded(op, self.data, wanted, self.samples)
        levels, windows = dict[SSAValue, int](), None
        if is_timed:
            windows = _windows(op, function, layers, readouts)
            peak = self._peak(function, records)
            for inner in list(function.body.block.ops):
                if isinstance(inner, spike.EncodeOp) and encoded_of(inner.result) is inner:
                    windows.enter(inner, peak)
            found = {
                neuron: scaled_channels(layer, LARGEST / peak if layer.hears_numbers else None)
                for neuron, layer in layers.items()
            }
        else:
            found = {neuron: scaled(layer, records) for neuron, layer in layers.items()}
        for neuron, layer in layers.items():
            _rewrite(neuron, layer, found[neuron], levels, windows)
        for decode, (synapses, bias) in readouts.items():
            assert windows is not None
            weights, unit = scaled_readout(synapses, windows.timesteps)
            builder = Builder(decode)
            current = _current(builder, synapses, weights, windows.depth, levels, windows)
            windows.read(decode, current, unit, bias)
        erase_unused([inner for inner in ops if not isinstance(inner, ReturnOp)])
        function.update_function_type()

    def _peak(self, function: FuncOp, records: Records | None) -> float:
        """The largest number among arguments that are none of spikes."""
        if records is None:
            return self.peak
        numbers = [a for a in function.body.block.args if dense_type(a).element_type != i1]
        return (
            max(
                (float(np.abs(x).max(initial=0)) for a in numbers for x in records.get(a, ())),
                default=self.peak,
            )
            or self.peak
        )


def recorded(
    module: ModuleOp, data: str, wanted: Iterable[SSAValue], samples: int = SAMPLES
) -> Records:
    """What values of a program are on its first samples.

    Args:
        module: the program.
        data: the file of the samples of its inputs.
        wanted: the values.
        samples: how many.

    Raises:
        OptionError: the samples cannot be read, or do not fit.
    """
    records: Records = {value: [] for value in wanted}
    function = entry_function(module, "forward")

    def take(values: Sequence[SSAValue], arrays: Sequence[Array]) -> None:
        for value, array in zip(values, arrays, strict=True):
            if value in records:
                records[value].append(np.asarray(array))

    for batch in read_batches(function, data, size=samples, limit=samples):
        take(function.body.block.args, batch)
        record(
            module, batch, potentials=False, observer=lambda op, _, values: take(op.results, values)
        )
    return records


def _as_trains(function: FuncOp) -> None:
    """Make trains of the arguments of floats that only synapses take."""
    for argument in list(function.body.block.args):
        users = [use.operation for use in argument.uses]
        if not is_train(argument) and all(
            isinstance(user, spike.LinearOp | spike.ConvOp) for user in users
        ):
            train = TrainType(dense_type(argument).get_shape())
            Rewriter.replace_value_with_new_type(argument, train)


def _between(value: SSAValue, layers: Mapping[Neuron, Layer]) -> Operation | None:
    """The last op that computes something between neurons, or an input, and what hears them."""
    while isinstance(op := value.owner, Operation) and op not in layers:
        if isinstance(op, spike.EncodeOp):
            break
        moves = isinstance(op, spike.ToTensorOp | spike.FromTensorOp | spike.DelayOp)
        if len(op.operands) != 1 or not (moves or has(op, MovesElements)):
            return op
        value = op.operands[0]
    return None


def _origin(value: SSAValue) -> tuple[SSAValue, int]:
    """The neurons or input that spikes come from, and what delays them on the way."""
    delay = 0
    while isinstance(value.owner, Operation) and not isinstance(value.owner, spike.NeuronOp):
        if isinstance(value.owner, spike.DelayOp):
            delay += value.owner.steps.value.data
        if not value.owner.operands:
            break
        value = value.owner.operands[0]
    return value, delay


def _windows(
    module: ModuleOp,
    function: FuncOp,
    layers: Mapping[Neuron, Layer],
    readouts: Mapping[spike.DecodeOp, Readout],
) -> Windows:
    """The steps of each layer of a program that has them.

    Raises:
        UnsupportedError: its steps are open, or something else than means leaves it.
    """
    unsupported = UnsupportedOps("loihi2")
    levels = dict[SSAValue, int]()
    for neuron, layer in layers.items():
        levels[neuron.output] = _level([s.op.input for s in layer.synapses], levels)
    depth = 1
    for synapses, _ in readouts.values():
        depth = max(depth, _level([s.op.input for s in synapses], levels))
    counts = {
        op.timesteps.value.data
        for op in function.body.block.ops
        if isinstance(op, spike.EncodeOp) and op.timesteps is not None
    }
    end = function.body.block.last_op
    trains = any(
        is_train(value) for value in (*function.body.block.args, *(end.operands if end else ()))
    )
    if len(counts) != 1 or trains:
        unsupported.add(
            function,
            "begins with potentials or gives means of currents, for which its inputs must be "
            "numbers that it encodes directly, for one number of steps, and its results means",
        )
    unsupported.raise_if_any()
    return Windows(module, counts.pop(), depth)


def _level(inputs: Iterable[SSAValue], levels: Mapping[SSAValue, int]) -> int:
    """How many steps later neurons are that hear `inputs`."""
    return 1 + max(levels.get(_origin(value)[0], 0) for value in inputs)


def _current(
    builder: Builder,
    synapses: Sequence[Synapse],
    weights: Sequence[Array],
    level: int,
    levels: Mapping[SSAValue, int],
    windows: Windows | None,
    shift: int = 0,
) -> SSAValue:
    """The sum of what synapses bring, all as late as `level` says."""
    current: SSAValue | None = None
    for synapse, values in zip(synapses, weights, strict=True):
        heard = synapse.op.input
        late = level - levels.get(_origin(heard)[0], 0)
        if windows is not None:
            heard = windows.heard(heard, builder)
        heard = builder.add(spike.DelayOp(heard, late))
        type = TensorType(i8, values.shape)
        key = f"{synapse.key}.i8"
        stored = builder.add(literal(module_of(synapse.op), key, values, type))
        term = builder.add(_on(synapse, heard, stored))
        if shift:
            term = builder.add(tensor.ShiftRightOp(term, builder.constant(np.array(shift), i32)))
        current = term if current is None else builder.add(tensor.AddOp(current, term))
    assert current is not None
    return current


def _rewrite(
    neuron: Neuron,
    layer: Layer,
    found: Scaled,
    levels: dict[SSAValue, int],
    windows: Windows | None,
) -> None:
    """Put a layer in fixed point in the place of one of floats."""
    builder, module = Builder(neuron), module_of(neuron)
    level = _level([synapse.op.input for synapse in layer.synapses], levels)
    current = _current(builder, layer.synapses, found.weights, level, levels, windows, found.shift)
    bias: float | SSAValue = float(found.bias.reshape(-1)[0])
    key, start = layer.synapses[0].key, list[SSAValue]()
    if windows is not None:
        most = min(MOST_CONSTANT, MOST_CURRENT // found.gain)
        constant = np.clip(np.rint(layer.bias * found.units / found.gain), -most, most)
        current = windows.gated(current, constant, level, builder, key)
        potential = np.rint(layer.start * found.units).astype(np.int64) * 64
        start, bias = windows.start(current, potential, builder, key), 0.0
    elif (found.bias != bias).any():
        array = found.bias.astype(np.int32)
        bias = builder.add(literal(module, f"{key}.bias", array, TensorType(i32, array.shape)))
    threshold: float | SSAValue = float(found.threshold.reshape(-1)[0])
    if found.threshold.ndim:
        array = found.threshold.astype(np.int32)
        type = TensorType(i32, array.shape)
        threshold = builder.add(literal(module, f"{key}.threshold", array, type, buffer=True))
    new = spike.LoihiLifOp(
        current,
        du=layer.du,
        dv=layer.dv,
        bias=bias,
        gain=found.gain,
        threshold=threshold,
        reset=layer.reset,
        initial=start,
    )
    result = builder.add(new)
    new.location, result.name_hint = neuron.location, neuron.output.name_hint
    levels[result] = level
    replace_results(neuron, [result])


def _on(synapse: Synapse, value: SSAValue, weights: SSAValue) -> Operation:
    op = synapse.op
    if isinstance(op, spike.LinearOp):
        return spike.LinearOp(value, weights)
    return spike.ConvOp(
        value,
        weights,
        **op.window,
    )
