"""Other simulators as contenders: each is a process of the environment that has it.

PyTorch alone runs in the environment at hand, the others in those of `tests/nir_peers`. Not here:
what they run (`run_spiking_peer`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .rounds import Contender

TESTS = Path(__file__).parents[2] / "tests"
sys.path.insert(0, str(TESTS))
from nir_peers.environments import ROOT, python_of  # noqa: E402

SIMULATORS = {
    "norse": "norse",
    "sinabs": "Sinabs",
    "snntorch": "snnTorch",
    "spikingjelly": "SpikingJelly",
}
"""By environment what a simulator calls itself."""


class Peer(Contender):
    """A simulator in a process of its own, which tells the seconds of its calls."""

    def __init__(self, name: str, python: Path, program: str, threads: int) -> None:
        super().__init__(name, lambda: self.timed(1), lambda: self.timed(1))
        path = Path(__file__).with_name("run_spiking_peer.py")
        self._process = subprocess.Popen(
            [str(python), str(path), program, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def load(self, problem: Path) -> NDArray[Any]:
        """Take a problem; what a run of it gives."""
        self.seconds.clear()
        return np.array(self._answer(f"load {problem}"), np.float32)

    def timed(self, calls: int) -> float:
        """Seconds of so many calls."""
        return self._answer(f"time {calls}")

    def stop(self) -> None:
        """End the process."""
        self._process.communicate()

    def _answer(self, line: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"benchmark: error: {self.name} ended at '{line}'")
        return json.loads(answer)


def installed_simulators(threads: int) -> list[Peer]:
    """A process of each simulator that is installed."""
    pythons = {"torch": Path(sys.executable)} if find_spec("torch") else {}
    pythons |= {name: python_of(name) for name in SIMULATORS if (ROOT / name / "whole").exists()}
    return [
        Peer(SIMULATORS.get(name, "torch fp32"), python, name, threads)
        for name, python in pythons.items()
    ]
