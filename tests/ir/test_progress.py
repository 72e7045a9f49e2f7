"""A bar where somebody looks at it, and nothing anywhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from triton_dsl.ir.progress import tracked

PROGRAM = """
from triton_dsl.ir.progress import tracked
import time
for _ in tracked(range(3), "Counting"):
    time.sleep(0.2)
"""


def test_everything_comes_through_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(tracked(iter("abc"), "Counting")) == ["a", "b", "c"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_shows_how_far_it_is() -> None:
    import pty

    ours, theirs = pty.openpty()
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stderr=theirs,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "Counting" in shown and re.search("[123]/3", shown)
    assert run.stdout == b""
