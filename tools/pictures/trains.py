"""What pictures are drawn of, as layers: recorded runs, arrays, tensors and `SpikeTensor`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import InputError, OptionError, refuse
from ...runtime.spiking.activity import Activity, LayerActivity

if TYPE_CHECKING:
    from torch import Tensor

    from ...runtime.spiking.spike_tensor import SpikeTensor

    Recorded = Array | Tensor | SpikeTensor
else:
    Recorded = Any

Source = Activity | Mapping[str, Recorded] | Recorded
"""What a picture is drawn of: a recorded run, or trains [T, N, …], several by name."""


def layers_of(source: Source, potentials: bool = False) -> list[LayerActivity]:
    """The layers of what is to be drawn.

    Args:
        source: see `Source`.
        potentials: arrays are potentials, not spikes.

    Raises:
        OptionError: there are none, or an array has no axis besides time.
    """
    if isinstance(source, Activity):
        return [x for x in source.layers if (x.potential is not None if potentials else x.fires)]
    named = source if isinstance(source, Mapping) else {"spikes": source}
    layers: list[LayerActivity] = []
    for name, spikes in named.items():
        array = _array(spikes)
        if array.ndim < 2 or array.dtype.kind not in "biuf":
            raise InputError(
                f"'{name}': expected numbers [T, N, …], got {array.dtype}{list(array.shape)}"
            )
        output = array if potentials else array != 0
        layers.append(LayerActivity(name, "spike.lif", "", output, array if potentials else None))
    return layers


def _array(spikes: Any) -> Array:
    if hasattr(spikes, "to_train"):  # a SpikeTensor: [batch, time, …]
        return np.swapaxes(spikes.data.cpu().numpy(), 0, 1)
    return spikes.detach().cpu().numpy() if hasattr(spikes, "detach") else np.asarray(spikes)


def of_sample(array: Array, sample: int) -> Array:
    """[T, neurons] of one sample.

    Raises:
        OptionError: there is no such sample.
    """
    if not 0 <= sample < array.shape[1]:
        raise OptionError(f"sample {sample} is not among the {array.shape[1]} of the run")
    return array[:, sample].reshape(len(array), prod(array.shape[2:]))


def chosen(count: int, most: int) -> list[int]:
    """Indices of at most `most` of `count` neurons, evenly apart."""
    refuse(most < 1, f"expected at least 1 neuron to draw, got {most}")
    return list(range(count)) if count <= most else [i * count // most for i in range(most)]


def most_active(spikes: Array, most: int) -> list[int]:
    """Indices of the `most` neurons of [T, neurons] with the most spikes, in order."""
    counts = np.count_nonzero(spikes, axis=0)
    return sorted(np.argsort(-counts, kind="stable")[:most].tolist())


def with_spikes(layers: Sequence[LayerActivity], what: str) -> Sequence[LayerActivity]:
    """`layers`, of which there must be some.

    Raises:
        OptionError: there are none.
    """
    refuse(not layers, f"the program has no {what} to draw")
    return layers
