"""Names of earlier interfaces are where `docs/earlier_interfaces.md` says; errors say it too."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
import torch

import triton_dsl
from triton_dsl.ir.errors import ParameterError
from triton_dsl.spiking import SpikeTensor

TABLE = Path(__file__).resolve().parents[2] / "docs" / "earlier_interfaces.md"
ROWS = [
    [re.findall(r"`([\w.]+)`", cell) for cell in line.split("|")[1:3]]
    for line in TABLE.read_text("utf-8").splitlines()
    if line.startswith("| `")
]
PAIRS = [
    (old.rpartition(".")[2], new)
    for before, after in ROWS
    for old, new in zip(before, after, strict=True)
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_name_is_where_the_table_says(old: str, new: str) -> None:
    home, _, name = new.rpartition(".")
    assert name == old or (old, name) == ("unpack_ternary", "unpack")
    assert callable(getattr(import_module(home), name))


def test_no_name_is_told_twice() -> None:
    assert len({old for old, _ in PAIRS}) == len(PAIRS) > 50


def test_a_name_at_the_wrong_place_is_told_where_it_is() -> None:
    with pytest.raises(AttributeError, match=r"'SpikingConfig'; it is in triton_dsl\.spiking"):
        _ = triton_dsl.SpikingConfig  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match=r"no attribute 'Nonsense'$"):
        _ = triton_dsl.Nonsense  # pyright: ignore[reportAttributeAccessIssue]


def test_steps_of_a_spike_tensor_may_be_said() -> None:
    data = torch.zeros(1, 4, 1, 1, 2)
    spikes = SpikeTensor(data=data, timesteps=4, dt=1e-3, metadata={"encoding": "rate"})
    assert spikes == SpikeTensor(data, 1e-3, {"encoding": "rate"})
    with pytest.raises(ParameterError, match="expected 5 steps, got shape"):
        SpikeTensor(data, timesteps=5)
