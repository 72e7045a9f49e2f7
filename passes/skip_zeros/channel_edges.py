"""Where the channels of a layer go, and which of them can be left out.

An edge runs from a layer, through ops that keep channels apart, to every layer that reads them. A
channel can go where no reader uses it, or where it is constant and every reader can take what the
constant contributes into its bias.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ...dialects.parameters import Array
from ...dialects.spike.types import dense_type
from ..analysis.layers import Synapse, channel_axis, is_conv, is_layer
from .channel_paths import PathOp
from .prunable import Mask, PrunableLayer


@dataclass(eq=False)
class Reader:
    """A layer that reads channels, the ops on the way to it, and how many features one is there."""

    layer: PrunableLayer
    path: tuple[PathOp, ...]
    spread: int

    @property
    def unread(self) -> Mask:
        """The channels that contribute to none of the layer's outputs."""
        return np.atleast_1d(self.layer.dead_features.reshape(-1, self.spread).all(axis=1))

    def constants(self, values: Array) -> tuple[Array, Mask]:
        """What constant channels are when the layer reads them, and where that can be folded.

        Args:
            values: one constant a channel.

        Returns:
            The constants, [channels, spread], and whether the layer can do without each channel.
        """
        current, folds = values[:, None], np.ones(len(values), dtype=np.bool_)
        for step in self.path:
            current, stays = step.constant(current)
            folds &= stays
        if self.layer.padded:
            folds &= ~current.any(axis=1)  # the pads are zeros, whatever the constant
        if current.dtype.kind not in "iub":
            folds &= np.isfinite(current.astype(np.float64)).all(axis=1)
        return current, folds | self.unread


@dataclass(eq=False)
class ChannelEdge:
    """The channels of one layer, the ops they go through and the layers that read them."""

    source: PrunableLayer
    steps: tuple[PathOp, ...]
    readers: tuple[Reader, ...]

    def prune(self) -> bool:
        """Leave out the channels that can be, one at least staying; whether there were any."""
        dead, spare = self.source.dead_outputs, self._unread()
        if not (dead.any() or spare.any()):
            return False
        constants: list[Array] = []
        foldable = dead.copy()
        for reader in self.readers:
            values, folds = reader.constants(self.source.at_zero)
            if self.source.only_zeros:
                folds &= ~values.any(axis=1)
            constants.append(values)
            foldable &= folds
        removed = spare | foldable
        if removed.all():
            removed[0] = False
        if not removed.any():
            return False
        for reader, values in zip(self.readers, constants, strict=True):
            folded = np.where((removed & ~reader.unread)[:, None], values, 0)
            features = np.repeat(~removed, reader.spread)
            reader.layer.drop_inputs(features, folded.astype(values.dtype).reshape(-1))
        self.source.drop_outputs(~removed)
        for step in self.steps:
            step.drop(~removed)
        return True

    def _unread(self) -> Mask:
        return np.logical_and.reduce([reader.unread for reader in self.readers])

    def commit_steps(self) -> None:
        """Make the ops of the path fit the channels that are left."""
        channels = len(self.source.dead_outputs)
        for step in self.steps:
            step.commit(channels)


def channel_edges(module: ModuleOp) -> tuple[list[PrunableLayer], list[ChannelEdge]]:
    """The layers of a module whose values are known, and the edges between them, in order."""
    layers: dict[SSAValue, PrunableLayer] = {}
    for op in module.walk():
        if is_layer(op):
            layer = PrunableLayer.of(op)
            if layer is not None:
                layers[op.result] = layer
    edges = (edge_from(layer, layers) for layer in layers.values())
    # Between float layers alone zeros are rare, and reading the weights is not free.
    return list(layers.values()), [edge for edge in edges if edge is not None and _has_trits(edge)]


def _has_trits(edge: ChannelEdge) -> bool:
    return edge.source.is_ternary or any(reader.layer.is_ternary for reader in edge.readers)


def edge_from(
    source: PrunableLayer, layers: Mapping[SSAValue, PrunableLayer]
) -> ChannelEdge | None:
    """The edge from `source`; `None` if something else than layers sees its channels.

    Args:
        source: the layer, or synapse with its neurons.
        layers: the layers and synapses that may read it, by result.
    """
    if source.grouped:
        return None
    steps: list[PathOp] = []
    readers: list[Reader] = []
    waiting: list[tuple[SSAValue, int, int, tuple[PathOp, ...]]] = [
        (source.value, channel_axis(source.op), 1, ())
    ]
    while waiting:
        value, axis, spread, path = waiting.pop()
        for use in value.uses:
            user = use.operation
            if use.index != 0 or user.parent is not source.op.parent:
                return None
            if is_layer(user) or isinstance(user, Synapse):
                reader = layers.get(user.result)
                if reader is None or reader.grouped or not _reads(reader, value, axis, spread):
                    return None
                readers.append(Reader(reader, path, spread))
                continue
            step = PathOp.of(user, axis, spread)
            if step is None:
                return None
            steps.append(step)
            after = (step.result_axis, step.result_spread)
            waiting.append((step.op.results[0], *after, (*path, step)))
    return ChannelEdge(source, tuple(steps), tuple(readers)) if readers else None


def _reads(reader: PrunableLayer, value: SSAValue, axis: int, spread: int) -> bool:
    """Whether the layer contracts over the channels."""
    if is_conv(reader.op):
        return axis == channel_axis(reader.op) and spread == 1
    return axis == dense_type(value).get_num_dims() - 1


def prune_channels(edges: Iterable[ChannelEdge]) -> bool:
    """Leave out channels until none is left that can go; whether there were any."""
    ordered = list(edges)
    pruned = False
    # Constants travel forwards, channels that are not read backwards.
    while any([edge.prune() for edge in ordered] + [edge.prune() for edge in reversed(ordered)]):
        pruned = True
    return pruned
