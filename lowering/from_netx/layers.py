"""What a netx file says, layer by layer, checked: files may come from strangers.

The layout is that of lava-dl 0.6: `layer/0`, `layer/1`, …, each with a `type`, a `shape` in the
order channels, height, width, and what its type needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import SourceError
from ...ir.neurons.loihi import DECAY_BITS, MOST_THRESHOLD
from ..hdf5_file import Tree

BIAS_EXPONENT = 6
"""lava-dl's exponent of all biases."""

MOST_NEURONS = 1 << 26
"""The most neurons of a layer that is read."""

CUBA = ("CUBA", "LOIHI")
"""Names of the leaky neuron with a current."""


@dataclass(frozen=True)
class Neuron:
    """`du`, `dv` and `threshold` of `spike.loihi_lif`."""

    du: int
    dv: int
    threshold: int


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer with neurons.

    Attributes:
        name: `layer0`, …
        index: of it in the file.
        shape: of its neurons: [N], or [C, H, W].
        weight: whole numbers: [out, in], or [out, in / groups, kernel height, kernel width].
        bias: whole numbers, of each neuron or channel; `None` for 0.
        neuron: what its neurons are.
        window: of a convolution `strides`, `padding` at both ends, `dilation`, each for height and
            width, and `groups`, as `spike.conv` takes them; else empty.
    """

    name: str
    index: int
    shape: tuple[int, ...]
    weight: Array
    bias: Array | None
    neuron: Neuron
    window: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, eq=False)
class Network:
    """The layers of a file in order, and the shape that the file says of its input, if it does."""

    input: tuple[int, ...] | None
    layers: tuple[Layer, ...]


class _Group:
    """A group of the file, whose values are asked for by name.

    Args:
        tree: what is in it.
        where: file and path in it, for messages.
    """

    def __init__(self, tree: Tree, where: str) -> None:
        self.tree, self.where = tree, where

    def fail(self, message: str) -> SourceError:
        """The error that says where."""
        return SourceError(f"{self.where}: {message}")

    def group(self, name: str) -> _Group:
        """A group in it."""
        value = self.tree.get(name)
        if not isinstance(value, Mapping):
            raise self.fail(f"expected a group '{name}'")
        return _Group(cast("Tree", value), f"{self.where}/{name}")

    def word(self, name: str) -> str:
        """A text, or a list of one."""
        value = self.tree.get(name)
        while isinstance(value, list) and len(cast("list[object]", value)) == 1:
            value = cast("list[object]", value)[0]
        if isinstance(value, bytes):
            value = value.decode("ascii", "replace")
        if not isinstance(value, str):
            raise self.fail(f"expected a word '{name}'")
        return value

    def numbers(self, name: str) -> Array:
        """Whole numbers, as i64."""
        array: Array = np.asarray(self.tree.get(name))
        if array.dtype.kind not in "biuf":
            raise self.fail(f"expected numbers '{name}'")
        if array.dtype.kind == "f" and not (np.abs(array) < 1 << 60).all():
            raise self.fail(f"{name} is not finite, or too large")
        whole = array.astype(np.int64)
        if (whole != array).any():
            raise self.fail(f"{name} expects whole numbers; export the quantised network")
        return whole

    def number(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """One whole number within bounds."""
        if default is not None and name not in self.tree:
            return default
        values = self.numbers(name)
        if values.size != 1:
            raise self.fail(f"{name} expects one number, got {list(values.shape)}")
        value = int(values.reshape(()))
        if not low <= value <= high:
            raise self.fail(f"{name} expects {low} to {high}, got {value}")
        return value

    def sizes(self, name: str, count: int, low: int, default: int) -> tuple[int, ...]:
        """`count` sizes, given as that many or as one."""
        if name not in self.tree:
            return (default,) * count
        values = self.numbers(name).reshape(-1)[: count + 1]
        values = np.repeat(values, count) if values.size == 1 else values
        if values.size != count or values.min() < low or values.max() > 1 << 20:
            raise self.fail(f"{name} expects {count} numbers of at least {low}")
        return tuple(values.tolist())


def read_layers(tree: Tree, where: str) -> Network:
    """The network in the group `layer` of a file.

    Raises:
        SourceError: something is missing, does not fit, or is of a kind that is not read; the
            message names the layer.
    """
    root = _Group(tree, where)
    if not tree or set(tree) != {str(n) for n in range(len(tree))}:
        raise root.fail("expected layers '0', '1', …")
    input, shape, flat = None, None, False
    layers: list[Layer] = []
    for index in range(len(tree)):
        group = root.group(str(index))
        kind = group.word("type")
        if kind == "input" and not index:
            if "neuron" in group.tree:
                raise group.fail(
                    "input layers with neurons take numbers as biases, which is not read; export "
                    "the network without it and give spikes"
                )
            input = shape = _shape(group)
        elif kind == "flatten":
            flat = True
        elif kind in ("dense", "conv"):
            layer = _layer(group, kind, index, shape, flat)
            layers.append(layer)
            shape, flat = layer.shape, False
        else:
            raise group.fail(f"layers '{kind}' are not read; dense, conv, flatten and input are")
    if not layers:
        raise root.fail("expected a layer with neurons")
    return Network(input, tuple(layers))


def _shape(group: _Group) -> tuple[int, ...]:
    shape = tuple(group.numbers("shape").reshape(-1).tolist())
    if not 1 <= len(shape) <= 3 or min(shape) < 1 or prod(shape) > MOST_NEURONS:
        raise group.fail(f"shape expects 1 to 3 sizes, got {list(shape)[:4]}")
    return shape


def _layer(
    group: _Group, kind: str, index: int, before: tuple[int, ...] | None, flat: bool
) -> Layer:
    if "delay" in group.tree and group.numbers("delay").any():
        raise group.fail("delays of neurons are not read; train with delay=False")
    shape, weight = _shape(group), group.numbers("weight")
    if not weight.size:
        raise group.fail("its weight is empty")
    neuron = group.group("neuron")
    model = neuron.word("type")
    if model not in CUBA:
        raise neuron.fail(f"neurons '{model}' are not read; {' and '.join(CUBA)} are")
    if neuron.number("refDelay", 0, 1 << 16, 1) > 1:
        raise neuron.fail("refDelay above 1, a rest after spikes, is not read")
    if neuron.number("gradedSpike", 0, 1, 0):
        raise neuron.fail("gradedSpike is not read")
    unity = 2**DECAY_BITS
    numbers = Neuron(
        neuron.number("iDecay", 1, unity) - 1,
        neuron.number("vDecay", 0, unity - 1),
        neuron.number("vThMant", 0, MOST_THRESHOLD),
    )
    name = f"layer{index}"
    if kind == "dense":
        shape = (prod(shape),)
        count = weight.size // shape[0] if before is None else prod(before)
        if weight.size != shape[0] * count:
            raise group.fail(f"weight expects [{shape[0]}, {count}], got {list(weight.shape)}")
        bias = _bias(group, shape[0])
        weight = weight.reshape(shape[0], count)
        return Layer(name, index, shape, weight, bias, numbers)
    if before is None:
        raise group.fail("a convolution expects an input layer or convolution before it")
    weight, window = _convolution(group, shape, weight, before, flat)
    return Layer(name, index, shape, weight, _bias(group, shape[0]), numbers, window)


def _convolution(
    group: _Group, shape: tuple[int, ...], weight: Array, before: tuple[int, ...], flat: bool
) -> tuple[Array, Mapping[str, Any]]:
    """The weight and the window of a convolution; see `Layer`."""
    if flat or len(before) != 3 or len(shape) != 3:
        raise group.fail(f"a convolution expects shapes [C, H, W], got {before} and {shape}")
    if weight.ndim == 5 and weight.shape[4] == 1:
        weight = weight[..., 0]
    groups = group.number("groups", 1, before[0], 1)
    if weight.ndim != 4 or before[0] % groups or shape[0] % groups:
        raise group.fail(f"weight expects [out, in / groups, height, width], got {weight.shape}")
    if weight.shape[:2] != (shape[0], before[0] // groups):
        raise group.fail(
            f"weight expects [{shape[0]}, {before[0] // groups}, …], got {list(weight.shape)}"
        )
    strides, padding, dilation = (
        group.sizes(key, 2, low, default)
        for key, low, default in (("stride", 1, 1), ("padding", 0, 0), ("dilation", 1, 1))
    )
    sizes = tuple(
        (before[1 + a] + 2 * padding[a] - dilation[a] * (weight.shape[2 + a] - 1) - 1) // strides[a]
        + 1
        for a in range(2)
    )
    if sizes != shape[1:]:
        raise group.fail(f"shape expects [{shape[0]}, {sizes[0]}, {sizes[1]}], got {list(shape)}")
    window = {"strides": strides, "padding": (*padding, *padding), "dilation": dilation}
    return weight, {**window, "groups": groups}


def _bias(group: _Group, count: int) -> Array | None:
    """One for each neuron of a dense layer, or each channel of a convolution."""
    if "bias" not in group.tree:
        return None
    bias = group.numbers("bias").reshape(-1)
    if bias.size != count or np.abs(bias).max() > 1 << 12:
        raise group.fail(f"bias expects {count} numbers of 13 bits, got {bias.size}")
    return bias if bias.any() else None
