"""Makes the files of this folder with other programs, each in a virtual environment of its own.

`python tests/runtime/spiking/recorded/make.py` installs them from PyPI and writes here what
`test_event_files.py`, `test_stdp.py`, `test_eprop.py`, `test_delays.py` and
`lowering/test_neuron_models.py` compare with. Needed only to renew them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent

PROGRAMS = {
    "aedat4.py": ["dv-processing==2.0.4"],
    "delays.py": ["dcls==0.1.1", "numpy==2.3.5", "torch==2.13.0"],
    "eprop_nest.py": ["nest-simulator==3.10.0", "numpy==2.3.5"],
    "neurons_brian.py": ["brian2==2.9.0", "numpy==2.3.5"],
    "stdp_brian.py": ["brian2==2.9.0", "numpy==2.3.5"],
    "stdp_nest.py": ["nest-simulator==3.10.0", "numpy==2.3.5"],
}
"""Which program needs which packages."""


def main() -> None:
    """Run each program with its packages, or those named on the command line."""
    for name in sys.argv[1:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=True)
            python = str(Path(folder) / "bin" / "python")
            subprocess.run([python, "-m", "pip", "install", "-q", *PROGRAMS[name]], check=True)
            subprocess.run([python, str(HERE / name)], cwd=HERE, check=True)


if __name__ == "__main__":
    main()
