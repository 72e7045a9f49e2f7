"""Two processes of `torchrun` give what one gives, and each of them the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from triton_dsl.ir.errors import BackendError
from triton_dsl.runtime.training.distributed import Processes, join_processes
from triton_dsl.runtime.training.run import CHECKPOINT

from .data_parallel import NETWORKS, train

PROGRAM = Path(__file__).parent / "data_parallel.py"


Results = list[dict[str, dict[str, Tensor]]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What each of two processes has, by the names of networks and parts."""
    folder = tmp_path_factory.mktemp("processes")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *torchrun, PROGRAM, folder],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    for name in (*NETWORKS, "parts"):
        assert [path.name for path in (folder / name).iterdir()] == [CHECKPOINT]
    return [
        {path.name: load_file(path) for path in (folder / rank).iterdir()} for rank in ("0", "1")
    ]


def different(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    """The names of what is not bit for bit the same."""
    assert a.keys() == b.keys()
    return [name for name in a if not torch.equal(a[name], b[name])]


@pytest.mark.parametrize("name", ["unused", "normalised", "spiking"])
def test_two_processes_give_what_one_gives(name: str, results: Results, tmp_path: Path) -> None:
    """float64, since sums over rows are in another order: they differ in the last bits.

    Twelve steps of a rate of 0.05 leave 1e-12 of that, unless a spike falls on the other side of
    its threshold.
    """
    assert different(results[0][name], results[1][name]) == []
    for key, expected in train(name, tmp_path).items():
        found = results[0][name][key]
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12, msg=key)


def test_resuming_bit_for_bit(results: Results) -> None:
    """Each process has its random numbers back."""
    for of_process in results:
        assert different(of_process["resume"], of_process["dropping"]) == []
    assert not torch.equal(results[0]["halt"]["0.weight"], results[0]["dropping"]["0.weight"])
    assert different(results[0]["dropping"], results[1]["dropping"]) == []


def test_alone() -> None:
    processes = join_processes("cpu", {})
    assert processes == Processes(0, 1, torch.device("cpu")) and processes.is_first
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    assert layer.weight.grad is not None
    before = layer.weight.grad.clone()
    processes.sum_gradients(layer.parameters())
    processes.share(layer)
    processes.barrier()
    assert torch.equal(layer.weight.grad, before)
    assert processes.sum(before) is before and processes.gather(before)[0] is before


def test_variables_that_are_wrong() -> None:
    with pytest.raises(BackendError, match="WORLD_SIZE and LOCAL_RANK have to be numbers"):
        join_processes("cpu", {"WORLD_SIZE": "two"})
