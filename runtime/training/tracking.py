"""Where the numbers of a run go: its history, TensorBoard, MLflow, and a bar on stderr."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...ir.errors import BackendError, OptionError
from ...ir.extras import needed

Record = dict[str, float]


@dataclass
class History:
    """The numbers of each epoch.

    Attributes:
        records: for each epoch the number by its name: `epoch` from 1, `loss`, `learning_rate`, the
            metrics, and those of the validation with `val_` before their names.
    """

    records: list[Record] = field(default_factory=list[Record])

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, name: str) -> list[float]:
        """One number over all epochs that have it.

        Raises:
            OptionError: no epoch has it.
        """
        values = [record[name] for record in self.records if name in record]
        if not values:
            known = sorted({name for record in self.records for name in record})
            raise OptionError(f"no {name!r} in the history; it has {', '.join(known) or 'nothing'}")
        return values


class Tracker(ABC):
    """A receiver of numbers."""

    @abstractmethod
    def log(self, record: Mapping[str, float], step: int) -> None:
        """Take the numbers of an epoch, which ended with step `step` of all."""

    @abstractmethod
    def close(self) -> None:
        """Write what is left."""


class TensorBoardTracker(Tracker):
    """Event files for TensorBoard in `folder`.

    Raises:
        BackendError: TensorBoard is missing.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ModuleNotFoundError:
            raise BackendError("TensorBoard is missing: pip install tensorboard") from None
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))
        lines = [f"    {name}: {value}" for name, value in settings.items()]
        self._writer.add_text("settings", "\n".join(lines))

    def log(self, record: Mapping[str, float], step: int) -> None:
        """Write a scalar for each number."""
        for name, value in record.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class MlflowTracker(Tracker):
    """A run of MLflow, kept where MLflow is set up to (`MLFLOW_TRACKING_URI`), else in `folder`.

    Raises:
        BackendError: MLflow is missing.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        library: Any = needed("mlflow", "MLflow", "operations")
        place = None
        if not library.is_tracking_uri_set():
            folder.mkdir(parents=True, exist_ok=True)
            place = f"sqlite:///{(folder / 'mlflow.db').resolve()}"
        # A client of its own leaves the caller's active run alone.
        self._client: Any = library.MlflowClient(place)
        self._run = _new_run(self._client)
        for name, value in settings.items():
            self._client.log_param(self._run, name, value)

    def log(self, record: Mapping[str, float], step: int) -> None:
        """Log a metric for each number."""
        for name, value in record.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run)


class PrometheusTracker(Tracker):
    """The last numbers as `training.prom` in `folder`, as a node exporter of Prometheus collects.

    The file is replaced when the new one is whole.

    Raises:
        BackendError: prometheus-client is missing.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        library: Any = needed("prometheus_client", "prometheus-client", "operations")
        folder.mkdir(parents=True, exist_ok=True)
        registry, file = library.CollectorRegistry(), str(folder / "training.prom")
        self._write = partial(library.write_to_textfile, file, registry)
        gauge: Any = partial(library.Gauge, registry=registry)
        self._numbers = gauge("triton_training", "The last number of a run", ["name"])
        self._steps = gauge("triton_training_steps", "Steps that are over")
        self._time = gauge("triton_training_time_seconds", "When they were, since 1970")
        self._ends = gauge("triton_training_running", "1 until the run ends")
        self._ends.set(1)

    def log(self, record: Mapping[str, float], step: int) -> None:
        """Write a gauge for each number."""
        for name, value in record.items():
            self._numbers.labels(name).set(value)
        self._steps.set(step)
        self._time.set_to_current_time()
        self._write()

    def close(self) -> None:
        """Write that the run has ended."""
        self._ends.set(0)
        self._write()


def register_model(
    folder: str | Path, name: str, figures: Mapping[str, float], *, uri: str | None = None
) -> int:
    """Keep the files of `folder` as the next version of a model in MLflow's registry; its number.

    The figures are what was measured of it, by name; the registry is, by default, where MLflow is
    set up to.

    Raises:
        BackendError: MLflow is missing.
    """
    library: Any = needed("mlflow", "MLflow", "operations")
    client: Any = library.MlflowClient(uri, uri)
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    run = _new_run(client)
    for key, value in figures.items():
        client.log_metric(run, key, value)
    client.log_artifacts(run, str(folder))
    client.set_terminated(run)
    source: str = client.get_run(run).info.artifact_uri
    return int(client.create_model_version(name, source, run).version)


def _new_run(client: Any) -> str:
    known: Any = client.get_experiment_by_name("triton_dsl")
    place: str = known.experiment_id if known else client.create_experiment("triton_dsl")
    return str(client.create_run(place).info.run_id)


@contextmanager
def tracking(
    names: Sequence[str], folder: str | Path, settings: Mapping[str, Any]
) -> Generator[list[Tracker]]:
    """A block with trackers by name, closed at its end.

    Raises:
        BackendError: one is missing.
    """
    kinds: dict[str, type[Any]] = {
        "tensorboard": TensorBoardTracker,
        "mlflow": MlflowTracker,
        "prometheus": PrometheusTracker,
    }
    with ExitStack() as stack:
        trackers: list[Tracker] = []
        for name in names:
            tracker = kinds[name](Path(folder), settings)
            stack.callback(tracker.close)
            trackers.append(tracker)
        yield trackers


class Progress:
    """A bar on stderr with the epoch and the last numbers; nothing where that is no terminal.

    Args:
        total: steps of the whole run.
        done: steps that are over.
        shown: whether to show it at all.
    """

    def __init__(self, total: int, done: int, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not (shown and sys.stderr.isatty()),
        )
        self._task = self._bar.add_task("training", total=total, completed=done)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self) -> None:
        """One step is over."""
        self._bar.advance(self._task)

    def describe(self, record: Mapping[str, float]) -> None:
        """Show the numbers of the last epoch."""
        text = "  ".join(f"{name} {value:.4g}" for name, value in record.items())
        self._bar.update(self._task, description=text)
