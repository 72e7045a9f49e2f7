"""Sequences of several lengths in one batch, packed for recurrent layers, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported")


class Tagger(nn.Module):
    """A layer over packed sequences, a linear layer for each of their steps, and padding."""

    def __init__(self, cells: nn.RNNBase, is_sorted: bool, starts: bool = False) -> None:
        super().__init__()
        self.cells, self.is_sorted, self.starts = cells, is_sorted, starts
        self.out = nn.Linear((cells.proj_size or 6) * (1 + cells.bidirectional), 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        """Two numbers a step, -1 behind the end; the lengths; the last states."""
        first = self.cells.batch_first
        packed = pack_padded_sequence(x, lengths, first, enforce_sorted=self.is_sorted)
        state = None
        if self.starts:
            count = self.cells.num_layers * (1 + self.cells.bidirectional)
            state = x.mean(1 if first else 0)[:, :1].expand(-1, 6).repeat(count, 1, 1)
            state = (state, 2 * state) if isinstance(self.cells, nn.LSTM) else state
        steps, last = self.cells(packed, state)
        steps = PackedSequence(self.out(steps.data), *steps[1:])
        return *pad_packed_sequence(steps, first, -1.0), last


@pytest.mark.parametrize(
    "tagger",
    [
        Tagger(nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), False),
        Tagger(nn.LSTM(4, 6, proj_size=3, batch_first=True), True),
        Tagger(nn.GRU(4, 6, batch_first=True, bidirectional=True), False, starts=True),
        Tagger(nn.RNN(4, 6, batch_first=True, nonlinearity="relu"), True, starts=True),
    ],
)
def test_packed_sequences(check: Any, tagger: Tagger) -> None:
    """Lengths are inputs; of a free batch some end before the last step."""
    lengths = torch.tensor([5, 4, 2] if tagger.is_sorted else [2, 5, 4])
    x = torch.randn(4, 5, 4)
    more = torch.cat([lengths, torch.tensor([1])])
    batches = [(x[:3], lengths), (x, more)]
    made = check.same(tagger, *batches)
    check.same_in_onnx(tagger, made, batches[1])


def test_packed_sequences_with_a_free_number_of_steps(check: Any) -> None:
    """Time first, and a number of steps that is known when the program runs."""
    tagger = Tagger(nn.LSTM(4, 6), False, starts=True)
    batches = [(torch.randn(n, 3, 4), torch.tensor([2, n, 1])) for n in (5, 7)]
    check.same(tagger, *batches, dynamic={"x": {0: "L", 1: "N"}, "lengths": {0: "N"}})


def test_sequences_that_are_packed_one_by_one(check: Any) -> None:
    """Known lengths, and padding up to more steps than the longest sequence has."""
    cells = nn.GRU(4, 6)

    class Lone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = cells

        def forward(self, x: Tensor, y: Tensor) -> Any:
            return pad_packed_sequence(self.cells(pack_sequence([x, y]))[0], total_length=7)

    check.same(Lone(), (torch.randn(5, 4), torch.randn(3, 4)), dynamic={})
