"""`import_netx`: a netx file as a module of spiking ops in Loihi's fixed point."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    NameLoc,
    StringAttr,
    f32,
    i1,
    i8,
    i32,
)
from xdsl.ir import Block, Region, SSAValue

from ...dialects import spike, tensor
from ...dialects.parameters import store_of
from ...dialects.registry import verify_module
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import TrainType, dense_type
from ...ir.arrays import Array
from ...ir.errors import VerifyError
from ...ir.locations import file_location
from ...ir.value_names import NAME_ATTRIBUTE
from ..hdf5_file import read_hdf5
from ..ir_builder import Builder
from .layers import BIAS_EXPONENT, Layer, Network, read_layers

_LOW, _HIGH = -256, 254
"""The weights of both signs that Loihi has: even, of 8 bits and a sign."""


class NetxWarning(UserWarning):
    """Weights that Loihi cannot hold, and what they became."""


def import_netx(source: Path | str) -> ModuleOp:
    """A network of lava-dl, from a `.net` file: `@forward` takes and gives spike trains [T, N, …].

    Neurons are `spike.loihi_lif`. Every layer has the step of delay that Lava's connections have:
    what comes at step t reaches its neurons at t + 1. Weights of both signs beyond a byte are
    rounded down to even numbers, as on Loihi.

    Args:
        source: the path of the file.

    Raises:
        SourceError: no netx file, or one with layers that are not read; the message names them.
        BackendError: the `h5py` package is missing.

    Warns:
        NetxWarning: weights that change because Loihi cannot hold them.
    """
    path = Path(source)
    network = read_layers(read_hdf5(path, "layer", "netx network"), f"{path}: layer")
    notes: list[str] = []
    module = _Writer(network, str(path), notes).module
    module.sym_name = StringAttr(path.stem)
    for note in notes:
        warnings.warn(f"{path}: {note}", NetxWarning, stacklevel=2)
    try:
        verify_module(module)
    except VerifyError as error:
        raise VerifyError(f"{path}: {error}") from None
    return module


class _Writer:
    """Writes the ops of the layers, one after the other."""

    def __init__(self, network: Network, where: str, notes: list[str]) -> None:
        self.where, self.notes = where, notes
        first = network.layers[0]
        shape = network.input or (first.weight.shape[1],)
        block = Block(arg_types=[TrainType((DYNAMIC, DYNAMIC, *shape))])
        self.module = ModuleOp([])
        self.builder = Builder(block, store_of(self.module))
        block.args[0].name_hint = "input"
        value: SSAValue = block.args[0]
        for layer in network.layers:
            self.builder.location = NameLoc(
                StringAttr(layer.name), file_location(where, layer.index + 1)
            )
            value = self.layer(layer, value)
        self.builder.end(func.ReturnOp(value))
        types = FunctionType.from_lists([block.args[0].type], [value.type])
        function = func.FuncOp("forward", types, Region(block))
        function.arg_attrs = ArrayAttr([DictionaryAttr({NAME_ATTRIBUTE: StringAttr("input")})])
        function.location = file_location(where, 1)
        self.module.body.block.add_op(function)

    def layer(self, layer: Layer, value: SSAValue) -> SSAValue:
        """The spikes of a layer."""
        add = self.builder.add
        value = add(spike.DelayOp(value, 1))
        rank = dense_type(value).get_num_dims()
        dense = len(layer.weight.shape) == 2
        if dense and rank > 3:
            flat = tensor.ReshapeToOp(add(spike.ToTensorOp(value, i1)), [-2, -3, -1])
            value = add(spike.FromTensorOp(add(flat)))
        weight, gain = self._weight(layer)
        kind = spike.LinearOp if dense else spike.ConvOp
        synapse = kind(value, weight, **layer.window)
        current = self.builder.convert(add(synapse), i32)
        bias: float | SSAValue = 0.0
        if layer.bias is not None:
            shape = (layer.bias.size, *[1] * (len(layer.shape) - 1))
            units = (layer.bias << BIAS_EXPONENT).reshape(shape)
            bias = self.builder.numbers(units, i32, f"{layer.name}.bias")
        neuron = spike.LoihiLifOp(
            current,
            du=layer.neuron.du,
            dv=layer.neuron.dv,
            bias=bias,
            gain=gain,
            threshold=layer.neuron.threshold,
        )
        result = add(neuron)
        result.name_hint = layer.name
        return result

    def _weight(self, layer: Layer) -> tuple[SSAValue, float]:
        """The weights, and the gain of the neurons that gives what these stand for.

        Bytes where they fit, or where twice a byte does; else of one sign, as floats.
        """
        weight, name = layer.weight, f"{layer.name}.weight"
        mixed = bool((weight < 0).any() and (weight > 0).any())
        low, high = (_LOW, _HIGH) if mixed else (-255, 255)
        clipped = np.clip(weight, low, high)
        if (clipped != weight).any():
            self.notes.append(
                f"{name}: {int((clipped != weight).sum())} weights are beyond {low} to {high}, "
                "which Loihi holds, and become the nearest of these"
            )
        if clipped.min() >= -128 and clipped.max() <= 127:
            return self._stored(clipped, name), 1.0
        if not (clipped % 2).any():
            return self._stored(clipped // 2, name), 2.0
        if mixed:
            self.notes.append(
                f"{name}: {int((clipped % 2).sum())} odd weights become the next lower even ones, "
                "as on Loihi"
            )
            return self._stored(clipped // 2, name), 2.0
        return self._stored(clipped, name, floats=True), 1.0

    def _stored(self, values: Array, name: str, floats: bool = False) -> SSAValue:
        if values.ndim == 2:
            values = values.T
        return self.builder.numbers(values, f32 if floats else i8, name)
