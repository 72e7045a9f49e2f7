"""Tensors of blocks by our names, whatever way an architecture's files cut, join and order them.

Not here: what is in the files (`model_file`), trits (`projections`).
"""

from __future__ import annotations

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import ParameterError
from .decoder import Decoder
from .model_file import ModelFile

ROUTER = "mlp.router"


class Tensors:
    """Of a model, [outs, ins] each.

    Args:
        file: that holds them.
        decoder: what it is known to be.
        parts: rows that stand in one byte.

    Raises:
        SourceError: matrices that are not what the configuration says.
    """

    def __init__(self, file: ModelFile, decoder: Decoder, parts: int) -> None:
        self.file, self._decoder = file, decoder
        self._form, self._experts = file.architecture, int(decoder.block["experts"])
        for layer in range(decoder.layers):
            for name, (_, ins) in decoder.projections.items():
                whole = sum(decoder.projections[part][0] for part in self._joined(name)[0])
                wanted = [whole // parts, ins]
                for own in self._owns(f"layers.{layer}.{name}.weight"):
                    found = [*file.shape(own)] if own in file.places else None
                    if found is not None and found not in self._shapes(name, wanted):
                        file.config.refuse(f"'{own}' is of {found}, expected {wanted}")

    def read(self, layer: int, name: str) -> Array:
        """A tensor of a block, `NAME.weight`, `.bias` or a scale."""
        full, (stem, _, end) = f"layers.{layer}.{name}", name.rpartition(".")
        if self._experts == 1 or stem not in _MLP:
            values = self.file.read(full)
            if self._form.is_transposed and values.ndim == 2:
                values = values.T
            return self._arranged(stem, values) if end in ("weight", "bias") else values
        owns = self._owns(full)
        found = [self.file.values(self.file.found_own(own)) for own in owns]
        each = found[0] if len(owns) == 1 else np.stack(found)
        outs, ins = self._decoder.projections[stem]
        return (each.swapaxes(0, 1) if stem == "mlp.down_proj" else each).reshape(outs, ins)

    def trits(self, layer: int, name: str) -> tuple[Array, Array] | None:
        """Trits int8 and a scale for each output, float32; `None` for other tensors."""
        found = self.file.trits(f"layers.{layer}.{name}.weight")
        if found is None:
            return None
        trits, scales = found
        return self._arranged(name, trits), self._arranged(name, scales)

    def vector(self, layer: int, name: str, size: int) -> Array:
        """A vector of a block, float32 [size]."""
        is_norm = name.endswith("norm.weight")
        values = self.read(layer, name)
        return sized(self.file, f"layers.{layer}.{name}", values, size, self._form.offset * is_norm)

    def _owns(self, name: str) -> list[str]:
        own = self.file.own(name)
        return [own.format(n) for n in range(self._experts)] if "{}" in own else [own]

    def _shapes(self, name: str, wanted: list[int]) -> list[list[int]]:
        """That the own tensor of one expert or all may have."""
        if self._experts > 1:
            outs, ins = wanted
            outs, ins = (
                (outs, ins // self._experts)
                if name == "mlp.down_proj"
                else ((outs // self._experts, ins) if "mlp." in name else (outs, ins))
            )
            return [[outs, ins], [self._experts, outs, ins]]
        return [wanted[::-1] if self._form.is_transposed else wanted]

    def _joined(self, stem: str) -> tuple[list[str], int]:
        """Linear layers that share a tensor with one, and which of them it is."""
        theirs, shared = self._form.names.get(stem), list[str]()
        if theirs is not None and self._experts == 1:
            names = self._form.names
            shared = [name for name in self._decoder.projections if names.get(name) == theirs]
        shared = shared or [stem]
        return shared, shared.index(stem)

    def _arranged(self, stem: str, values: Array) -> Array:
        """The rows of a linear layer or a vector, in our order."""
        decoder, (shared, place) = self._decoder, self._joined(stem)
        if len(shared) > 1:
            sizes = [decoder.projections[name][0] for name in shared]
            if len(values) != sum(sizes):
                raise ParameterError(
                    f"{self.file.what}: '{stem}' has {len(values)} rows, not {sum(sizes)}"
                )
            if self._form.is_grouped:
                groups = values.reshape(decoder.groups, -1, decoder.head_dim, *values.shape[1:])
                part = (groups[:, :-2], groups[:, -2:-1], groups[:, -1:])[place]
                values = part.reshape(sizes[place], *values.shape[1:])
            else:
                first = sum(sizes[:place])
                values = values[first : first + sizes[place]]
        if self._form.is_paired and stem.rpartition(".")[2] in _TURNED:
            heads = values.reshape(-1, decoder.head_dim, *values.shape[1:])
            order = np.arange(decoder.head_dim)
            turned = int(decoder.block["turned"])
            order[:turned] = np.arange(turned).reshape(-1, 2).T.reshape(-1)
            values = heads[:, order].reshape(values.shape)
        return np.ascontiguousarray(values)


_MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
_TURNED = ("q_proj", "k_proj", "q_norm", "k_norm")


def sized(file: ModelFile, name: str, values: Array, size: int, offset: int = 0) -> Array:
    """A vector of the right size, with an offset, float32.

    Raises:
        ParameterError: it has another size.
    """
    if values.shape != (size,) and (size > 1 or values.shape != ()):
        found = f"{values.dtype}{[*values.shape]}"
        raise ParameterError(f"{file.what}: '{name}': expected float32[{size}], got {found}")
    return values.astype(np.float32).reshape(size) + np.float32(offset)
