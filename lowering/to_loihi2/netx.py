"""A network as a netx file of lava-dl, which `from_netx` reads; same network, same bytes."""

from __future__ import annotations

import numpy as np

from ...dialects.shapes import Shape
from ...ir.arrays import Array
from ..emission import Inexpressible
from ..from_netx.layers import BIAS_EXPONENT
from ..hdf5_file import write_hdf5
from .parts import Connection, LoihiNetwork, Population

Entry = dict[str, object]


def netx_file(network: LoihiNetwork) -> bytes:
    """The bytes of the file.

    Raises:
        Inexpressible: the network is more than one layer after the other, or has what netx lacks.
        BackendError: the `h5py` package is missing.
    """
    if len(network.inputs) != 1 or not network.inputs[0].spikes:
        raise Inexpressible("netx has one input, of spikes")
    if any(population.start.any() for population in network.populations) or network.pulses:
        raise Inexpressible("netx has neurons that start at 0, and biases that stay")
    last: tuple[str, Shape] = (network.inputs[0].name, network.inputs[0].shape)
    layers: list[Entry] = []
    if len(last[1]) > 1:
        layers.append(_entry("input", last[1]))
    for population in network.populations:
        heard = [c for c in network.connections if c.target == population.name]
        if len(heard) != 1 or heard[0].source != last[0] or heard[0].weights is None:
            raise Inexpressible(f"'{population.name}': netx has one layer after the other")
        (connection,) = heard
        if connection.window is None and len(last[1]) > 1:
            layers.append(_entry("flatten", (int(np.prod(last[1])),)))
        layers.append(_layer(population, connection, last[1]))
        last = (population.name, population.shape)
    if [o.population for o in network.outputs] != [last[0]] or network.outputs[0].added is not None:
        raise Inexpressible("netx gives the spikes of the last layer, and nothing else")
    return write_hdf5({"layer": {str(n): layer for n, layer in enumerate(layers)}})


def _entry(kind: str, shape: Shape) -> Entry:
    return {"type": np.array([kind.encode()]), "shape": np.asarray(shape, np.int64)}


def _layer(population: Population, connection: Connection, before: Shape) -> Entry:
    name, weights = population.name, connection.weights
    assert weights is not None
    if population.threshold_low is not None or population.subtracts or population.sigma_delta:
        raise Inexpressible(f"'{name}': netx has neurons with one threshold that start again at 0")
    if connection.delay != 1:
        raise Inexpressible(f"'{name}' hears spikes {connection.delay} steps later; netx has 1")
    values = weights.values
    if values.min(initial=0) < -256 or values.max(initial=0) > 255:
        raise Inexpressible(f"'{name}' has weights beyond 8 bits; netx has no exponent")
    entry = _entry("dense" if connection.window is None else "conv", population.shape)
    entry["neuron"] = {
        "type": "CUBA",
        "gradedSpike": np.bool_(False),
        "iDecay": np.int64(population.du + 1),
        "refDelay": np.int64(1),
        "vDecay": np.int64(population.dv),
        "vThMant": np.int64(population.threshold),
    }
    if population.bias.any():
        entry["bias"] = _bias(population)
    window = connection.window
    if window is None:
        entry |= {"weight": values.astype(np.float32)}
        entry |= {"inFeatures": np.int64(values.shape[1]), "outFeatures": np.int64(len(values))}
        return entry
    return entry | {
        "weight": values.astype(np.float32)[..., None],
        "inChannels": np.int64(before[0]),
        "outChannels": np.int64(population.shape[0]),
        "kernelSize": np.asarray(values.shape[2:], np.int64),
        "stride": np.asarray(window.strides, np.int64),
        "padding": np.asarray(window.padding, np.int64),
        "dilation": np.asarray(window.dilation, np.int64),
        "groups": np.int64(window.groups),
    }


def _bias(population: Population) -> Array:
    bias = np.broadcast_to(population.bias, population.shape)
    first = bias.reshape(population.shape[0], -1)[:, :1]
    units = first[:, 0] >> BIAS_EXPONENT
    same = (bias.reshape(population.shape[0], -1) == units[:, None] << BIAS_EXPONENT).all()
    if not same or np.abs(units).max() > 4095:
        raise Inexpressible(
            f"'{population.name}' has biases that are no multiples of 64 of 13 bits, or not one "
            "a channel"
        )
    return units.astype(np.float32)
