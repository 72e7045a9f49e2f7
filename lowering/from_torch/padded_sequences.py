"""Packed sequences of PyTorch as padded ones, whose sizes do not hang on values.

`pack_padded_sequence` leaves out the steps behind the end of each sequence. Here they stay: packed
are all steps of all sequences, as PyTorch has them where all are equally long, so that what a
module computes with each packed step is the same. The numbers of sequences that go on are right,
and give the lengths back. Not here: the layers that take them (`standard_layers`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

import torch
from torch import (
    _VF,  # pyright: ignore[reportPrivateUsage]
    Tensor,
)
from torch._ops import _OpNamespace  # pyright: ignore[reportPrivateUsage]
from torch.library import Library
from torch.nn.utils.rnn import PackedSequence

NAMESPACE = "triton_dsl_sequences"


@cache
def operators() -> _OpNamespace:
    """Other sizes for the same elements; PyTorch's own put bounds on free ones."""
    library = torch.library.Library(NAMESPACE, "DEF")
    _libraries.append(library)

    def rows(x: Tensor, count: int) -> Tensor:
        return x.new_empty((count, *x.shape[2:]))

    def steps(x: Tensor, count: int, batch: int) -> Tensor:
        return x.new_empty((count, batch, *x.shape[1:]))

    for name, schema, fake in (
        ("rows", "(Tensor self, SymInt count) -> Tensor", rows),
        ("steps", "(Tensor self, SymInt count, SymInt batch) -> Tensor", steps),
    ):
        library.define(name + schema)
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
    return getattr(torch.ops, NAMESPACE)


_libraries: list[Library] = []
"""A library's operators go with it."""


@contextmanager
def padded_sequences() -> Generator[None]:
    """Sequences are packed so in a `with` block."""
    replaced = {"_pack_padded_sequence": _packed, "_pad_packed_sequence": _padded}
    kept = {name: getattr(_VF, name) for name in replaced}
    for name, function in replaced.items():
        setattr(_VF, name, function)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(_VF, name, function)


def rows_of(x: Tensor) -> Tensor:
    """[steps, batch, …] as rows, those of the first step first."""
    return operators().rows(x, x.shape[0] * x.shape[1])


def steps_of(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """What is packed as [steps, batch, …], and the lengths."""
    return _steps(packed.data, packed.batch_sizes)


def _steps(data: Tensor, going_on: Tensor) -> tuple[Tensor, Tensor]:
    x = operators().steps(data, going_on.shape[0], data.shape[0] // going_on.shape[0])
    places = torch.arange(x.shape[1], device=going_on.device)
    return x, (going_on[:, None] > places).sum(0)


def _packed(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    x = input.transpose(0, 1) if batch_first else input
    places = torch.arange(x.shape[0], device=lengths.device)
    return rows_of(x), (lengths > places[:, None]).sum(1)


def _padded(
    data: Tensor, going_on: Tensor, batch_first: bool, padding: float, steps: int
) -> tuple[Tensor, Tensor]:
    x, lengths = _steps(data, going_on)
    ended = torch.arange(going_on.shape[0], device=lengths.device)[:, None] >= lengths
    for _ in range(x.dim() - 2):
        ended = ended[..., None]
    x = x.masked_fill(ended, padding)
    if steps != going_on.shape[0]:
        rest = x.new_full((steps - x.shape[0], *x.shape[1:]), padding)
        x = torch.cat([x, rest])
    return x.transpose(0, 1) if batch_first else x, lengths
