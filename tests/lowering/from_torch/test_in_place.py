"""Tensors that are changed in place: as in PyTorch, and the module stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_torch import from_torch


class Function(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are read as they are exported."""

    def refuse(*_arguments: object) -> None:
        raise AssertionError("the graph is taken apart")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)


class Windows(nn.Module):
    """The mask of shifted windows and the bias without keys, as Swin has them."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        marks = x.new_zeros((4, 4))
        for count, (low, high) in enumerate(((0, 2), (2, 3), (3, 4))):
            marks[low:high, 1:3] = count
        marks.transpose(0, 1)[0].fill_(5.0)
        marks[:, 3] += marks[:, 2]
        windows = marks.view(2, 2, 2, 2).permute(0, 2, 3, 1).reshape(4, 4)
        mask = windows.unsqueeze(1) - windows.unsqueeze(2)
        bias = self.bias.clone()
        bias[2:4].zero_()
        return x @ mask.masked_fill(mask != 0, -100.0) + bias.sum() + self.bias[2]


@pytest.mark.usefixtures("whole")
def test_what_is_written_to_constants_is_computed(check: Any) -> None:
    module = Windows()
    before = module.bias.detach().clone()
    check.same(module, (torch.randn(2, 4, 4, 4),), (torch.randn(3, 4, 4, 4),))
    assert torch.equal(module.bias, before)


def read_before(x: Tensor) -> Tensor:
    """A constant that is read, changed, and read again."""
    places = torch.zeros(3)
    first = x + places
    places[1] = 4
    copied = places.clone()
    places[0] = 3
    copied[2] = 1
    return first * places + copied


def with_inputs(x: Tensor) -> Tensor:
    """A constant that takes values of an input, also through a view made before."""
    rows = torch.ones(2, 3)
    view = rows[1]
    rows[0] = 2
    rows[:, 1:] = x[0, 1:]
    return x + view


def flattened(x: Tensor) -> Tensor:
    """A reshape that shares memory, and one that does not."""
    table = torch.zeros(2, 3)
    shared, copied = table.reshape(6), table.t().reshape(6)
    table[1, 2] = 5
    return x + shared[3:] + copied[3:]


def parts(x: Tensor) -> Tensor:
    """Parts of a copy, some within others, each read before and after; some are empty."""
    y = x.clone()
    y[:, 5::2] = 1
    y[:, 2:1] = 1
    before = y[0] * 2
    y[:, 1:] = x[:, :-1]
    y[:, ::2][0, :1].mul_(3.0)
    y[0] += before
    y[1, 1].fill_(x.sum())
    y[1, 0].zero_()
    y[y > 1] = 0.5
    return y


def whole_tensor(x: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor that is changed after others have read it, under one name and two."""
    y = x * 2
    z = y + 1
    y *= z
    y.add_(x, alpha=2)
    y = nn.functional.dropout(y, training=False)
    y *= 3
    best = x.topk(2).values
    best /= best.sum(-1, keepdim=True)
    return y + best.sum(), z


def second_name(x: Tensor) -> Tensor:
    """What is written under one name is read under another."""
    y = x + 1
    row = y[0]
    turned = y.t()
    flat = y.reshape(-1)
    y[0, 1] = 7
    row[2] = x[0, 0]
    return turned + flat.sum() + row.sum() + y.shape[1]


def integers(x: Tensor) -> Tensor:
    """Floats that are written as integers."""
    y = (x * 10).to(torch.int64)
    y[0] = x[1] * 5
    return y


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("function", [parts, whole_tensor, integers])
def test_written_parts_are_new_tensors(check: Any, function: Any) -> None:
    check.same(function, (torch.randn(2, 3),), dynamic={})


@pytest.mark.parametrize("function", [parts, whole_tensor, integers, second_name])
def test_written_parts_of_graphs_taken_apart(check: Any, function: Any) -> None:
    def beside(x: Tensor) -> Any:
        return function(x), torch.logaddexp2(x, x)

    check.same(beside, (torch.randn(2, 3),), dynamic={})


@pytest.mark.parametrize("function", [read_before, with_inputs, flattened])
def test_order_of_reads_and_writes(check: Any, function: Any) -> None:
    check.same(function, (torch.randn(2, 3),), (torch.randn(4, 3),))


class Random(nn.Module):
    """Noise that is written to a constant."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.zeros(3).uniform_()


def test_random_numbers_are_no_constants() -> None:
    with pytest.raises(UnsupportedError, match="random"):
        from_torch(Random(), torch.randn(2, 3))


STEPS = ("set", "add", "scale", "fill", "read", "view", "see", "mask", "rename")


def performed(steps: list[tuple[str, int, int, int]], x: Tensor) -> Tensor:
    """Writes to a tensor and to a constant, through views new and old, with reads between."""
    held, total, views = [x * 2, torch.zeros(3, 4)], x.sum(0), list[Tensor]()
    for step, which, row, column in steps:
        y = held[which]
        part = y[row][column:] if row < 3 else y[:, column:]
        if step == "set":
            y[row % 3, column] = x[column % 3, row]
        elif step == "add":
            part += 1.5
        elif step == "scale":
            part.mul_(part)
        elif step == "fill":
            part[..., -1:].fill_(row - 2.0)
        elif step == "read":
            total = total + part.sum() * (column + 1)
        elif step == "view":
            views.append(part if column else y.t())
        elif step == "see" and views:
            total = total + views[row % len(views)].sum()
        elif step == "mask":
            y[y > column] = 0.25
        elif step == "rename":
            y *= 0.5
            held[which] = y.reshape(4, 3).transpose(0, 1).reshape(3, 4) if row else y.clone()
    return torch.cat([*held, total[None]])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3)),
        min_size=1,
        max_size=7,
    )
)
def test_any_order_of_writes_and_reads(steps: list[tuple[str, int, int, int]]) -> None:
    x = torch.arange(12.0).reshape(3, 4) / 8 - 0.5
    wanted = performed(steps, x)
    module = from_torch(Function(lambda value: performed(steps, value)), x, dynamic={})
    (found,) = run_module(module, [x.numpy()])
    np.testing.assert_allclose(found, wanted.numpy(), 1e-5, 1e-5)


def _masked_slice(x: Tensor) -> Tensor:
    """What is changed lies in memory that other names had, and that nobody reads any more."""
    shifted = (x @ x.mT).reshape(x.shape[0], -1)[:, 1:].view(x.shape[0], 3, 5)
    shifted *= x[:, :3, :1]
    shifted[:, 0].add_(1)
    return shifted.relu() + shifted


def _read_again(x: Tensor) -> Tensor:
    whole = (x @ x.mT).reshape(x.shape[0], -1)
    part = whole[:, 1:]
    part *= 2
    return whole.sum(1) + part.sum(1)


def _masks_in_turn(x: Tensor) -> Tensor:
    y = x * 2
    y[y < 0] = 0.5
    y[x > 1] *= 3
    return y


def _free_axis(x: Tensor) -> Tensor:
    y = torch.slice_scatter(x, x[:1] * 2, 0, 0, 1).clone()
    y[:1] += 1
    y[-1] = 0
    return torch.select_scatter(y, y[0] - 1, 0, 0)


@pytest.mark.parametrize("function", [_masked_slice, _read_again, _masks_in_turn, _free_axis])
def test_what_is_read_behind_a_writer(function: Callable[[Tensor], Tensor]) -> None:
    made = from_torch(Function(function), torch.randn(2, 4, 4))
    for batch in (2, 5):
        x = torch.randn(batch, 4, 4)
        (found,) = run_module(made, [x.numpy()])
        np.testing.assert_allclose(found, function(x).numpy(), rtol=1e-4, atol=1e-4)
