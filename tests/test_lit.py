"""The files of tests/filecheck/lit under the real `lit`: real processes, pipes and exit codes."""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "filecheck" / "lit"


def test_lit(tmp_path: Path) -> None:
    lit = Path(sys.executable).with_name("lit")
    command = [str(lit), "-v", "--param", f"exec_root={tmp_path}", str(FOLDER)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LIT_")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [path for path in FOLDER.iterdir() if path.suffix in (".mlir", ".tri")]
    assert f"Passed: {len(files)} (100.00%)" in done.stdout
