"""Sweeps and evaluation by Dask, in this process and on machines of which one dies."""

from __future__ import annotations

import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.lowering.distribution import Trial, count_right, sweep

PROGRAM = """
layer Net {
    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return softmax(x, axis=1) }
}
"""
RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4)).astype(np.float32)
LABELS = np.where(np.arange(50) % 5 == 0, X.argmin(1), X.argmax(1))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "net.tri"
    path.write_text(PROGRAM)
    return path


def cluster(workers: int, processes: bool) -> Any:
    library: Any = pytest.importorskip("distributed", reason="pip install '.[distributed]'")
    return library.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=processes, dashboard_address=None,
        host="127.0.0.1" if processes else None,
    )  # fmt: skip


FRACTIONS = [{"numerator": n, "denominator": d} for n, d in ((3, 4), (1, 0), (2, 3))]
EXPECTED = [
    Trial(FRACTIONS[0], Fraction(3, 4)),
    Trial(FRACTIONS[1], problem="Fraction(1, 0)"),
    Trial(FRACTIONS[2], Fraction(2, 3)),
]


def test_a_sweep_here() -> None:
    assert sweep(Fraction, FRACTIONS) == EXPECTED
    assert sweep(Fraction, []) == []


def test_rows_are_counted_in_parts(program: Path) -> None:
    assert int((X.argmax(1) == LABELS).sum()) == 40
    for rows in (50, 7):
        assert count_right(program, "pytorch", X, LABELS, rows=rows) == 40
    with pytest.raises(OptionError, match="as many inputs as labels"):
        count_right(program, "pytorch", X, LABELS[:3])


@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_a_sweep_on_a_cluster() -> None:
    with cluster(2, processes=False) as machines:
        assert sweep(Fraction, FRACTIONS, scheduler=machines.scheduler_address) == EXPECTED


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_machine_that_dies_loses_nothing(program: Path) -> None:
    settings = [
        {"file": program, "target": target, "inputs": X, "labels": LABELS, "rows": 5}
        for target in ("onnx", "pytorch", "nosuch", "onnx")
    ]
    with cluster(2, processes=True) as machines:
        address, killed = machines.scheduler_address, list[int]()

        def kill() -> None:
            time.sleep(1)
            worker = next(iter(machines.workers.values()))
            process = psutil.Process(worker.pid)
            killed.append(process.pid)
            process.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        trials = sweep(count_right, settings, scheduler=address, retries=3)
        killer.join()
        assert [trial.result for trial in trials] == [40, 40, None, 40]
        assert "nosuch" in (trials[2].problem or "") and len(killed) == 1
        assert count_right(program, "onnx", X, LABELS, rows=10, scheduler=address) == 40


@pytest.mark.slow
def test_no_scheduler_is_told() -> None:
    pytest.importorskip("distributed", reason="pip install '.[distributed]'")
    with pytest.raises(BackendError, match=r"scheduler 'tcp://127\.0\.0\.1:1' does not"):
        sweep(Fraction, FRACTIONS, scheduler="tcp://127.0.0.1:1")
