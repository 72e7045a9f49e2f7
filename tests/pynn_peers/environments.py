"""Makes a virtual environment for NEST and one for sPyNNaker: both bring a PyNN of their own.

    python tests/pynn_peers/environments.py [nest] [spynnaker]

They stand in `build/pynn-peers/NAME`, or in the folder of the variable `TRITON_PYNN_PEERS`, and
take some minutes. sPyNNaker 7.4.1 wants Python 3.11 or newer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(os.environ.get("TRITON_PYNN_PEERS", Path(__file__).parents[2] / "build/pynn-peers"))
"""The folder of the environments."""

ENVIRONMENTS = {
    "nest": ("nest-simulator==3.10.0", "PyNN==0.13.0"),
    "spynnaker": ("sPyNNaker==1!7.4.1",),
}

CONFIGURATION = """[Machine]
virtual_board=True
version={version}
[Java]
use_java=False
[Reports]
write_application_graph_placer_report=True
"""
"""`.spynnaker.cfg` of the home folder; sPyNNaker reads none but this one."""


def python_of(name: str) -> Path:
    """The interpreter of an environment."""
    return ROOT / name / "bin" / "python"


def make(name: str) -> None:
    """Make an environment, unless it is there."""
    if not python_of(name).exists():
        venv.create(ROOT / name, with_pip=True, clear=True)
        install = [str(python_of(name)), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *ENVIRONMENTS[name]], check=True)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ENVIRONMENTS:
        make(chosen)
