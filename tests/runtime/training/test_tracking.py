"""Histories, trackers and the bar."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.runtime.training.tracking import History, Progress, register_model, tracking

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
    message = f"{NAMES[name]} is missing: pip install"
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


@pytest.mark.slow  # it makes a database
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


@pytest.mark.slow  # it makes a database
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's own
def test_the_registry_of_mlflow(tmp_path: Path) -> None:
    library: Any = pytest.importorskip("mlflow")
    files, uri = tmp_path / "compiled", f"sqlite:///{tmp_path / 'mlflow.db'}"
    files.mkdir()
    client: Any = library.MlflowClient(uri, uri)
    client.create_experiment("triton_dsl", (tmp_path / "artefacts").as_uri())
    for version in (1, 2):
        (files / "model.c").write_text(f"// {version}")
        assert register_model(files, "net", {"accuracy": 0.9 + version / 100}, uri=uri) == version
    kept: Any = client.get_model_version("net", "1")
    assert client.get_run(kept.run_id).data.metrics == {"accuracy": 0.91}
    folder = library.artifacts.download_artifacts(kept.source, dst_path=str(tmp_path / "edge"))
    assert (Path(folder) / "model.c").read_text() == "// 1"


def test_prometheus(tmp_path: Path) -> None:
    """Read by Prometheus' own parser."""
    parser: Any = pytest.importorskip("prometheus_client.parser")
    log_two("prometheus", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["training.prom"]
    families = parser.text_string_to_metric_families((tmp_path / "training.prom").read_text())
    samples = {(s.name, s.labels.get("name")): s.value for f in families for s in f.samples}
    assert samples["triton_training", "loss"] == 0.25
    assert samples["triton_training", "val_loss"] == 0.75
    assert samples["triton_training_steps", None] == 6
    assert samples["triton_training_running", None] == 0
    assert abs(samples["triton_training_time_seconds", None] - time.time()) < 60


@pytest.mark.parametrize("shown", [True, False])
def test_the_bar_is_silent_without_a_terminal(
    shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(3, 1, shown) as bar:
        bar.advance()
        bar.describe({"loss": 0.5})
    written = capsys.readouterr()
    assert written.out == written.err == ""
