"""A network learns from generated events in which direction a bar moves."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "moving_bars.py"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_directions_are_learnt() -> None:
    example = runpy.run_path(str(EXAMPLE))
    assert example["accuracy"](seed=3, epochs=6) > 0.9
