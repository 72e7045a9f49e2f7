"""Makes a virtual environment for SANA-FE.

    python tests/sanafe_peer/environment.py

It stands in `build/sanafe`, or in the folder of the variable `TRITON_SANAFE`.
"""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

ROOT = Path(os.environ.get("TRITON_SANAFE", Path(__file__).parents[2] / "build" / "sanafe"))
PACKAGES = ("sanafe==2.2.9", "numpy")


def python() -> Path:
    """Its interpreter."""
    return ROOT / "bin" / "python"


def make() -> None:
    """Make it, unless it is there."""
    if not python().exists():
        venv.create(ROOT, with_pip=True, clear=True)
        install = [str(python()), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *PACKAGES], check=True)


if __name__ == "__main__":
    make()
