"""Faults at every system call of what writes files: the old file, the new one, and nothing half."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
RequireTool = Callable[[str, str], str]


@pytest.fixture(scope="module")
def library(require_tool: RequireTool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`faults.c`, compiled."""
    if not sys.platform.startswith("linux"):
        pytest.skip("system calls are caught by LD_PRELOAD, as Linux has it")
    compiler = require_tool("gcc", "apt-get install gcc")
    built = tmp_path_factory.mktemp("faults") / "faults.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", built, HERE / "faults.c", "-ldl"], check=True)
    return built


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("parameters", 40),
        ("artifact", 120),
        ("object", 25),
        ("fmt", 18),
        pytest.param("files", 100, marks=pytest.mark.slow),
        pytest.param("module", 100, marks=pytest.mark.slow),
        pytest.param("checkpoint", 40, marks=pytest.mark.slow),
        pytest.param("compile", 40, marks=pytest.mark.slow),
    ],
)
def test_a_fault_leaves_the_old_or_the_new(
    name: str, least: int, library: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "scenarios.py", name, tmp_path],
        env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["found"] == []
    assert report["injected"] > least
    assert report["allocations"] > 50 or find_spec("_testcapi") is None
