"""Makes a virtual environment for each framework that exchanges NIR: their pins conflict.

    python tests/nir_peers/environments.py [NAME …]

They stand in `build/nir-peers/NAME`, or in the folder of the variable `TRITON_NIR_PEERS`. Each
takes about 1 GB and a minute; one that stands there is left as it is. Not here: what the
frameworks run (`run_peer.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(os.environ.get("TRITON_NIR_PEERS", Path(__file__).parents[2] / "build" / "nir-peers"))
"""The folder of the environments."""

_TORCH = ("torch==2.13.0", "numpy==2.4.6", "h5py==3.16.0")
_NIR = ("nir==1.0.8", "nirtorch==2.6")

ENVIRONMENTS: dict[str, tuple[tuple[str, ...], str]] = {
    "nirtorch": ((*_TORCH, "nir==1.0.8"), "nirtorch==2.6"),
    "norse": ((*_TORCH, *_NIR), "norse==1.1.0"),
    "snntorch": ((*_TORCH, *_NIR), "snntorch==1.0.0"),
    "sinabs": ((*_TORCH, "nir==1.0.4", "nirtorch==1.0", "pbr", "matplotlib"), "sinabs==3.1.3"),
    "spikingjelly": (
        (*_TORCH, *_NIR, "loguru", "matplotlib", "requests", "scipy", "tqdm", "tensorboard"),
        "spikingjelly==2.0.0",
    ),
    "rockpool": ((*_TORCH, "nir==1.0.4", "nirtorch==1.0", "scipy"), "rockpool==3.1.0"),
}
"""By framework what it needs, and itself, which is installed without the rest that it asks for."""


def python_of(name: str) -> Path:
    """The interpreter of a framework's environment."""
    return ROOT / name / "bin" / "python"


def make(name: str) -> None:
    """Make the environment of a framework, unless it is whole."""
    whole = ROOT / name / "whole"
    if whole.exists():
        return
    needs, package = ENVIRONMENTS[name]
    venv.create(ROOT / name, with_pip=True, clear=True)
    install = [str(python_of(name)), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *needs], check=True)
    subprocess.run([*install, "--no-deps", package], check=True)
    whole.touch()


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ENVIRONMENTS:
        make(chosen)
