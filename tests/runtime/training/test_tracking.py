"""Histories, trackers and the bar."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.runtime.training.tracking import History, Progress, tracking

NAMES = {"tensorboard": "TensorBoard", "mlflow": "MLflow"}


def test_history() -> None:
    history = History([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25, "val_loss": 0.3}])
    assert len(history) == 2
    assert history["loss"] == [0.5, 0.25] and history["val_loss"] == [0.3]
    with pytest.raises(OptionError, match="no 'accuracy' in the history; it has epoch, loss, val"):
        history["accuracy"]
    with pytest.raises(OptionError, match="it has nothing"):
        History()["loss"]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_missing_trackers(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed")
    message = f"{NAMES[name]} is missing: pip install {name}"
    with pytest.raises(BackendError, match=message), tracking([name], tmp_path, {}):
        pytest.fail("entered without the tracker")
    assert list(tmp_path.iterdir()) == []


def log_two(name: str, folder: Path) -> None:
    with tracking([name], folder, {"epochs": 2}) as (tracker,):
        tracker.log({"loss": 0.5, "val_loss": 0.75}, 3)
        tracker.log({"loss": 0.25}, 6)


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing import event_accumulator  # pyright: ignore

    log_two("tensorboard", tmp_path)
    library: Any = event_accumulator
    events: Any = library.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 0.5), (6, 0.25)]
    assert [event.value for event in events.Scalars("val_loss")] == [0.75]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's own
def test_mlflow(tmp_path: Path) -> None:
    library: Any = pytest.importorskip("mlflow")
    log_two("mlflow", tmp_path)
    client: Any = library.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("triton_dsl").experiment_id
    (run,) = client.search_runs([experiment])
    losses = client.get_metric_history(run.info.run_id, "loss")
    assert [(entry.step, entry.value) for entry in losses] == [(3, 0.5), (6, 0.25)]
    assert run.data.params == {"epochs": "2"} and run.info.status == "FINISHED"


@pytest.mark.parametrize("shown", [True, False])
def test_the_bar_is_silent_without_a_terminal(
    shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(3, 1, shown) as bar:
        bar.advance()
        bar.describe({"loss": 0.5})
    written = capsys.readouterr()
    assert written.out == written.err == ""
