"""Makes a virtual environment for Lava, which needs Python 3.10.

    python tests/lava_peer/environment.py

It stands in `build/lava`, or in the folder of the variable `TRITON_LAVA`; one that stands there is
left as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(os.environ.get("TRITON_LAVA", Path(__file__).parents[2] / "build" / "lava"))

PACKAGES = ("lava-nc==0.10.0", "h5py")


def python_3_10() -> str | None:
    """A Python 3.10 that starts: of the path, or of pyenv; `None` where there is none."""
    known = sorted(Path.home().glob(".pyenv/versions/3.10.*/bin/python3.10"))
    for command in (shutil.which("python3.10"), *map(str, known)):
        if command is not None:
            run = subprocess.run([command, "--version"], capture_output=True, check=False)
            if run.returncode == 0:
                return command
    return None


def make() -> Path | None:
    """The interpreter of the environment, made if need be; `None` without Python 3.10."""
    python, whole = ROOT / "bin" / "python", ROOT / "whole"
    if whole.exists():
        return python
    base = python_3_10()
    if base is None:
        return None
    subprocess.run([base, "-m", "venv", "--clear", str(ROOT)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    whole.touch()
    return python


if __name__ == "__main__":
    print(make() or "no Python 3.10 here")
