"""Lava, where a Python that has it can be found: runs the scripts of the target `loihi2`.

Lava 0.10 needs Python 3.10, so it runs in another process, in an environment of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..ir.arrays import Array
from ..ir.errors import BackendError
from .outside import called

VARIABLE = "TRITON_LAVA_PYTHON"
"""The environment variable with the path of a Python that has Lava."""

_VERSION = "from importlib.metadata import version; import lava; print(version('lava-nc'))"


@cache
def lava_python(named: str | None = None) -> tuple[str, str] | None:
    """A Python with Lava and Lava's version: as the variable says, else `python3.10` of the path.

    Args:
        named: the path to try; by default that of the variable.
    """
    command = named or os.environ.get(VARIABLE) or shutil.which("python3.10")
    if command is None or not Path(command).exists():
        return None
    try:
        told = called([command, "-c", _VERSION], seconds=60)
    except (BackendError, subprocess.TimeoutExpired):
        return None
    return (command, told.stdout.strip()) if told.returncode == 0 else None


def run_script(
    files: Mapping[str, bytes], inputs: Mapping[str, Array], *, states: bool = False
) -> dict[str, Array]:
    """The arrays that a script writes.

    Args:
        files: those of the target `loihi2`.
        inputs: by name, [steps, samples, …].
        states: whether u and v after each step are wanted too.

    Raises:
        BackendError: there is no Lava here, or it refuses the script.
    """
    found = lava_python()
    if found is None:
        raise BackendError(
            f"Lava is not here: make an environment of Python 3.10 with 'pip install "
            f"lava-nc==0.10.0', and set {VARIABLE} to its python"
        )
    with TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        save: Any = np.savez
        save(folder / "inputs.npz", **inputs)
        command = [found[0], "network.py", "inputs.npz", "results.npz"]
        command += ["--states"] if states else []
        ran = called(command, folder)
        if ran.returncode or not (folder / "results.npz").is_file():
            last = (ran.stderr.strip() or "it wrote no results").splitlines()[-1]
            raise BackendError(f"Lava refuses the network: {last}")
        with np.load(folder / "results.npz") as file:
            return {key: np.asarray(file[key]) for key in file.files}
