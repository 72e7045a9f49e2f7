"""Installs other readers of MLIR into an environment of their own, `build/readers`.

    python tests/lowering/to_mlir/install_readers.py

Netron is JavaScript and runs under Node.js, which comes with the development tools. Model
Explorer's adapter and IREE's compiler are libraries of some hundred megabytes.
"""

import subprocess
import sys
import venv
from pathlib import Path

HOME = Path(__file__).resolve().parents[3] / "build" / "readers"
PACKAGES = [
    "netron==9.3.3",
    "ai-edge-model-explorer-adapter==0.2.1",
    "iree-base-compiler==3.13.0",
]

if __name__ == "__main__":
    venv.create(HOME, with_pip=True)
    command = [str(HOME / "bin" / "python"), "-m", "pip", "install", "--no-deps", *PACKAGES]
    sys.exit(subprocess.run(command, check=False).returncode)
