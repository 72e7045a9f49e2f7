"""NEST as the engine of the target `spinnaker`: it runs the script that a user runs.

NEST and PyNN are looked for beside this Python, or in the one that the variable `TRITON_NEST`
names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError
from ..artifact import write_artifact
from ..engine import ArtifactEngine

VARIABLE = "TRITON_NEST"
_VERSIONS = (
    "from importlib.metadata import version; "
    "print('NEST', version('nest-simulator'), 'PyNN', version('PyNN'))"
)


class NestEngine(ArtifactEngine):
    """Runs the artefact in NEST, a sample after the other."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`; trains are truth values [T, N, …].

        Raises:
            BackendError: NEST or PyNN is missing, or refuses the script.
        """
        python = os.environ.get(VARIABLE, sys.executable)
        versions = _told([python, "-c", _VERSIONS])
        if versions.returncode:
            raise BackendError(
                f"NEST and PyNN are not installed in {python}: pip install nest-simulator==3.10.0 "
                f"PyNN==0.13.0, there or in a Python that the variable {VARIABLE} names"
            )
        self.name = versions.stdout.strip()
        with TemporaryDirectory() as folder:
            return self._run(python, Path(folder), inputs)

    def _run(self, python: str, folder: Path, inputs: Sequence[Array]) -> list[Array]:
        write_artifact(self.artifact, folder)
        network = json.loads((folder / "network.json").read_text(encoding="utf-8"))
        trains = dict(zip(network["arguments"], inputs, strict=True))
        np.savez(folder / "inputs.npz", allow_pickle=False, **trains)
        command = [python, "run.py", "nest", "--inputs", "inputs.npz", "--outputs", "outputs.npz"]
        done = _told(command, folder)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise BackendError(f"NEST stopped: {lines[-1] if lines else 'without a message'}")
        with np.load(folder / "outputs.npz") as results:
            return [results[name] for name in network["results"]]


def _told(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A program that ran, with what it said, in whatever encoding.

    Raises:
        BackendError: there is no such program.
    """
    try:
        return subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise BackendError(f"{command[0]} does not run: {error}; see {VARIABLE}") from error
