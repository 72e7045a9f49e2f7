"""The code of `docs/pictures.md` runs, and the options it shows exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.tools.cli import main

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "pictures.md").read_text(encoding="utf-8")


def test_the_code_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    pytest.importorskip("matplotlib")
    scope = run_guide("docs/pictures.md")
    # Evenly spaced spikes of x in steps of 1/7: the first four inputs drive one neuron each.
    assert scope["spikes"]["x"] == sum(20 * i // 7 for i in range(8))
    assert scope["spikes"]["w"] == sum(20 * i // 7 for i in range(4))
    assert Path("raster.png").stat().st_size > 0
    assert len(scope["potentials"].axes[0].lines) == 2


def test_the_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == main(["energy", "--help"]) == 0
    shown = capsys.readouterr().out
    options = set(re.findall(r"--[a-z]+", GUIDE))
    assert {"--raster", "--traces", "--rates", "--accuracy", "--labels", "--sample"} <= options
    assert all(option in shown for option in options)
