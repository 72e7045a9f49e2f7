"""The pass `convert-spike-to-loihi`: neurons of floats become those of Loihi, in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i8, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ...dialects import spike, tensor
from ...dialects.interpret import run_module
from ...dialects.parameters import module_of
from ...dialects.spike.types import TrainType, dense_type, is_train
from ...ir.arrays import Array
from ...ir.interpreter import entry_function
from ...ir.samples import read_samples
from ...passes.analysis.compile_time import literal
from ...passes.analysis.replacement import erase_unused, replace_results
from ...passes.calibration.observation import bind_samples
from ...passes.convert_spike_to_tensor.tensor_builder import Builder
from ..emission import Inexpressible, UnsupportedOps
from .scales import Layer, Scaled, Synapse, layer_of, scaled

Neuron = spike.LifOp | spike.IntegrateFireOp | spike.CubaLifOp
Records = dict[SSAValue, list[Array]]
"""What values are on samples, batch by batch."""


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

    Approximate, by those roundings.

    Raises:
        UnsupportedError: names every neuron that has no such form.
        OptionError: the samples cannot be read, or do not fit.
    """

    name = "convert-spike-to-loihi"
    approximate: ClassVar[bool] = True

    data: str | None = None
    """Sample inputs, with which the scales are chosen: `.npz`, `.safetensors` or `.npy`."""

    spikes: bool = False
    """Arguments of floats that go to synapses hold 0 and 1 alone, and become trains."""

    samples: int = 64
    """Use the first so many samples."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        if self.spikes:
            _as_trains(function)
        neurons = [inner for inner in function.body.block.ops if isinstance(inner, Neuron)]
        unsupported = UnsupportedOps("loihi2")
        layers: dict[Neuron, Layer] = {}
        for neuron in neurons:
            try:
                layers[neuron] = layer_of(neuron)
            except Inexpressible as reason:
                unsupported.add(neuron, str(reason))
        unsupported.raise_if_any(
            "the target 'loihi2' takes neurons of floats that hear weighted spikes; see "
            "docs/targets/loihi2.md"
        )
        records = self._recorded(op, function, layers)
        found = {neuron: scaled(layer, records) for neuron, layer in layers.items()}
        levels: dict[SSAValue, int] = {}
        for neuron, layer in layers.items():
            _rewrite(neuron, layer, found[neuron], levels)
        function.update_function_type()

    def _recorded(
        self, module: ModuleOp, function: FuncOp, layers: dict[Neuron, Layer]
    ) -> Records | None:
        """What synapses hear and neurons give on the samples."""
        if self.data is None:
            return None
        wanted = {synapse.op.input for layer in layers.values() for synapse in layer.synapses}
        wanted |= {neuron.output for neuron in layers}
        records: Records = {value: [] for value in wanted}

        def take(values: Sequence[SSAValue], arrays: Sequence[Array]) -> None:
            for value, array in zip(values, arrays, strict=True):
                if value in records:
                    records[value].append(np.asarray(array))

        arrays = read_samples(Path(self.data))
        for batch in bind_samples(function, arrays, size=self.samples, limit=self.samples):
            take(function.body.block.args, batch)
            run_module(module, batch, "forward", lambda op, _, values: take(op.results, values))
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


def _rewrite(neuron: Neuron, layer: Layer, found: Scaled, levels: dict[SSAValue, int]) -> None:
    """Put a layer in fixed point in the place of one of floats."""
    builder, module = Builder(neuron), module_of(neuron)
    origins = [_origin(synapse.op.input)[0] for synapse in layer.synapses]
    level = max(levels.get(origin, 0) for origin in origins) + 1
    current: SSAValue | None = None
    for synapse, origin, weights in zip(layer.synapses, origins, found.weights, strict=True):
        late = builder.add(spike.DelayOp(synapse.op.input, level - levels.get(origin, 0)))
        type = TensorType(i8, weights.shape)
        stored = builder.add(literal(module, f"{synapse.key}.i8", weights, type))
        term = builder.add(_on(synapse, late, stored))
        current = term if current is None else builder.add(tensor.AddOp(current, term))
    assert current is not None
    bias: float | SSAValue = float(found.bias.reshape(-1)[0])
    if (found.bias != found.bias.reshape(-1)[0]).any():
        array = found.bias.astype(np.int32)
        type = TensorType(i32, array.shape)
        bias = builder.add(literal(module, f"{layer.synapses[0].key}.bias", array, type))
    new = spike.LoihiLifOp(
        current,
        du=layer.du,
        dv=layer.dv,
        bias=bias,
        gain=found.gain,
        threshold=found.threshold,
        reset=layer.reset,
    )
    result = builder.add(new)
    new.location, result.name_hint = neuron.location, neuron.output.name_hint
    levels[result] = level
    chain = [synapse.op for synapse in layer.synapses]
    replace_results(neuron, [result])
    erase_unused([*chain])


def _on(synapse: Synapse, value: SSAValue, weights: SSAValue) -> Operation:
    op = synapse.op
    if isinstance(op, spike.LinearOp):
        return spike.LinearOp(value, weights)
    return spike.ConvOp(
        value,
        weights,
        strides=op.strides.get_values(),
        padding=op.padding.get_values(),
        dilation=op.dilation.get_values(),
        groups=op.groups.value.data,
    )
