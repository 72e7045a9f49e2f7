"""NEST as the engine of the target `spinnaker`: it runs the script that a user runs.

NEST and PyNN are looked for beside this Python, or in the one that the variable `TRITON_NEST`
names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError
from ...runtime.outside import called
from ..artifact import write_artifact
from ..engine import ArtifactEngine

_VERSION = "from importlib.metadata import version; print(*(version(p) for p in {}))"


class NestEngine(ArtifactEngine):
    """Runs the artefact in NEST, a sample after the other."""

    simulator: ClassVar[str] = "nest"
    title: ClassVar[str] = "NEST {} PyNN {}"
    variable: ClassVar[str] = "TRITON_NEST"
    packages: ClassVar[dict[str, str]] = {"nest-simulator": "3.10.0", "PyNN": "0.13.0"}

    @classmethod
    def found(cls) -> tuple[str, str]:
        """A Python that has the simulator, and the versions.

        Raises:
            BackendError: there is none.
        """
        python = os.environ.get(cls.variable, sys.executable)
        try:
            told = called([python, "-c", _VERSION.format(list(cls.packages))])
        except BackendError as error:
            raise BackendError(f"{error}; see {cls.variable}") from None
        if told.returncode:
            names = " and ".join(cls.title.replace("{}", "").split())
            pinned = " ".join(f"{name}=={version}" for name, version in cls.packages.items())
            raise BackendError(
                f"{names} are not installed in {python}: pip install {pinned}, "
                f"there or in a Python that the variable {cls.variable} names"
            )
        return python, cls.title.format(*told.stdout.split())

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`; trains are truth values [T, N, …].

        Raises:
            BackendError: NEST or PyNN is missing, or refuses the script.
        """
        python, self.name = self.found()
        with TemporaryDirectory() as folder:
            return self._run(python, Path(folder), inputs)

    def _run(self, python: str, folder: Path, inputs: Sequence[Array]) -> list[Array]:
        write_artifact(self.artifact, folder)
        network = json.loads((folder / "network.json").read_text(encoding="utf-8"))
        trains = dict(zip(network["arguments"], inputs, strict=True))
        np.savez(folder / "inputs.npz", allow_pickle=False, **trains)
        command = [python, "run.py", self.simulator, "--inputs", "inputs.npz"]
        done = called([*command, "--outputs", "outputs.npz"], folder)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            told = lines[-1] if lines else "without a message"
            raise BackendError(f"{self.title.split()[0]} stopped: {told}")
        with np.load(folder / "outputs.npz") as results:
            return [results[name] for name in network["results"]]


class SpyNNakerEngine(NestEngine):
    """Runs the artefact on the board of SpiNNaker that sPyNNaker's configuration names."""

    simulator: ClassVar[str] = "spiNNaker"
    title: ClassVar[str] = "sPyNNaker {}"
    variable: ClassVar[str] = "TRITON_SPYNNAKER"
    packages: ClassVar[dict[str, str]] = {"sPyNNaker": "1!7.4.1"}

    @classmethod
    def found(cls) -> tuple[str, str]:
        """See `NestEngine.found`; a board that is virtual maps networks and runs none."""
        python, versions = super().found()
        settings = ConfigParser()
        settings.read(Path.home() / ".spynnaker.cfg", encoding="utf-8")
        if settings.get("Machine", "virtual_board", fallback="").strip().lower() == "true":
            raise BackendError("the board of ~/.spynnaker.cfg is virtual, and runs nothing")
        keys = ("machine_name", "machineName", "spalloc_server")
        if not any(settings.get("Machine", key, fallback="") for key in keys):
            raise BackendError("~/.spynnaker.cfg names no board")
        return python, versions
