"""Two nodes train together; one process is killed, and the run has the bits of one that went on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

PROGRAM = Path(__file__).parent / "elastic.py"


def train(folder: Path, dies_at: int) -> dict[str, Tensor]:
    """What two agents of `torchrun`, as on two machines, have in the end."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as opened:
        port = opened.getsockname()[1]
    torchrun = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1",
        "--max-restarts=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=one", "--local-addr=127.0.0.1", "--monitor-interval=0.1",
    ]  # fmt: skip
    # Else `torchrun` gives processes that are started again the store of those before, in which
    # they may find the address of the one that died, and wait for it.
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    nodes = [
        subprocess.Popen(
            [*torchrun, str(PROGRAM), str(folder), str(dies_at)],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    said = [node.communicate(timeout=400)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    return load_file(folder / "result.safetensors")


@pytest.mark.slow
def test_a_node_that_dies_is_replaced_and_nothing_changes(tmp_path: Path) -> None:
    straight, broken = train(tmp_path / "straight", 0), train(tmp_path / "broken", 8)
    assert not (tmp_path / "straight" / "died").exists()
    assert (tmp_path / "broken" / "died").exists()
    # Fifteen steps, of which the run after the death takes those behind the checkpoint.
    assert (tmp_path / "straight" / "steps").read_text() == "15"
    assert (tmp_path / "broken" / "steps").read_text() in ("10", "11")
    assert straight.keys() == broken.keys()
    assert [name for name in straight if not torch.equal(straight[name], broken[name])] == []
