"""Events as trains: steps of equal length, data sets to train on, the files of SHD and SSC.

What has events, labels and a length is a source: tonic's data sets, `SpikingSpeech`, a list.
Transforms are tonic's, or any function of events; random ones draw from NumPy's global generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from ...ir.errors import OptionError, SourceError
from .event_files import EVENT, EVENT_LIMIT, Events, library

PLACE_LIMIT = 1 << 28
"""The most places of a train."""

UNITS = 700
"""The channels of SHD and SSC."""


class Source(Protocol):
    """Events with labels, by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[Any, int]: ...


def to_train(
    events: Events,
    sensor_size: tuple[int, int, int],
    steps: int,
    dt: float,
    *,
    start: float | None = None,
    counts: bool = False,
) -> NDArray[Any]:
    """Where there were events in each step: truth values [steps, polarities, rows, columns].

    Step k is the time from start + k·dt to start + (k+1)·dt; events before and after are left out.

    Args:
        events: with x, t, p and perhaps y, in any order.
        sensor_size: columns, rows, polarities, as tonic orders them. With one polarity all events
            count, with one row too the train is [steps, columns].
        steps: at least 1.
        dt: microseconds, above 0.
        start: microseconds; by default the time of the first event.
        counts: give the numbers of events, float32 (tonic's `ToFrame` counts in int16).

    Raises:
        OptionError: sizes that are not allowed, or events outside of the sensor.
    """
    width, height, polarities = sensor_size
    shape = (steps, polarities, height, width)
    if min(shape) < 1 or not 0 < dt < np.inf or np.prod(shape, dtype=float) > PLACE_LIMIT:
        raise OptionError(
            f"expected steps, dt and sizes above 0 and at most {PLACE_LIMIT} places, got dt {dt} "
            f"and {list(shape)}"
        )
    if start is None:
        start = events["t"].min() if len(events) else 0
    step = np.floor((events["t"] - start) / dt)
    events, step = (a[(step >= 0) & (step < steps)] for a in (events, step))
    none = np.zeros(len(events), np.int64)
    y = events["y"] if "y" in (events.dtype.names or ()) else none
    places = (step, none if polarities == 1 else events["p"], y, events["x"])
    try:
        flat = np.ravel_multi_index(tuple(place.astype(np.int64) for place in places), shape)
    except ValueError:
        raise OptionError(f"events outside of the sensor {sensor_size}") from None
    train = np.bincount(flat, minlength=int(np.prod(shape)))
    train = train.astype(np.float32) if counts else train > 0
    return train.reshape((steps, width) if height == polarities == 1 else shape)


class EventDataset(Dataset[tuple[Tensor, int]]):
    """Trains and labels, for a `DataLoader`, or for `Trainer` with `SpikingRun` of `recorded`.

    Args:
        source: see above; of tonic's data sets without their own transform.
        sensor_size: columns, rows and polarities of the events that `transform` gives.
        steps, dt, start, counts: see `to_train`.
        transform: of a source's events. It gives events, or frames [steps, …] as tonic's `ToFrame`
            does, which are taken as they are.
    """

    def __init__(
        self,
        source: Source,
        sensor_size: tuple[int, int, int],
        steps: int,
        dt: float,
        *,
        start: float | None = None,
        counts: bool = False,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.source, self.sensor_size, self.transform = source, sensor_size, transform
        self.steps, self.dt, self.start, self.counts = steps, dt, start, counts

    def __len__(self) -> int:
        """The number of recordings."""
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The train [steps, …] of a recording, and its label.

        Raises:
            OptionError: see `to_train`; or frames of another number of steps.
        """
        events, label = self.source[index]
        train = events if self.transform is None else self.transform(events)
        if train.dtype.names is not None:
            size, span = self.sensor_size, (self.steps, self.dt)
            train = to_train(train, size, *span, start=self.start, counts=self.counts)
        if len(train) != self.steps:
            raise OptionError(f"the transform gives {len(train)} frames; expected {self.steps}")
        train = np.ascontiguousarray(train, np.float32 if self.counts else np.bool_)
        return torch.from_numpy(train), int(label)

    def batch(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The recordings as a train [steps, N, …], and their labels [N]."""
        trains, labels = zip(*(self[index] for index in indices), strict=True)
        return torch.stack(trains, 1), torch.tensor(labels)


class SpikingSpeech:
    """The recordings in a file of SHD or SSC (Cramer et al. 2020), such as `shd_train.h5`.

    Item k is events with x from 0 to 699, y = 0, t in microseconds and p = 1, and the label; the
    sensor is (700, 1, 1).

    Args:
        path: HDF5 with spikes/times, spikes/units and labels, whose values stand in the file.

    Raises:
        SourceError: no such file, or not like that; of an item, values that are not allowed.
        BackendError: h5py is missing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise SourceError(f"{path}: no such file")
        try:
            with library("h5py").File(self.path, "r") as file:
                times, units, labels = (_rows(file, name) for name in _ROWS)
                self._labels: NDArray[np.int64] = labels[()].astype(np.int64)
                if not len(times) == len(units) == len(self._labels):
                    raise ValueError("it has not as many times as units and labels")
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise SourceError(f"{path}: not a readable file of SHD or SSC: {error}") from None

    def __len__(self) -> int:
        """The number of recordings."""
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Events, int]:
        """The events of a recording and its label."""
        label = int(self._labels[index])
        try:
            with library("h5py").File(self.path, "r") as file:
                times, units = (_rows(file, name)[index] for name in _ROWS[:2])
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise SourceError(f"{self.path}: recording {index}: {error}") from None
        # Half-precision seconds, of which microseconds overflow.
        t = times.astype(np.float64) * 1e6
        fits = len(t) == len(units) <= EVENT_LIMIT and ((t >= 0) & (t < 2.0**53)).all()
        if not fits or (units.astype(np.int64) >= UNITS).any() or (units < 0).any():
            raise SourceError(f"{self.path}: recording {index} has units or times of no use")
        events = np.zeros(len(t), EVENT)
        events["x"], events["t"], events["p"] = units, t, True
        return events, label


_ROWS = ("spikes/times", "spikes/units", "labels")


def _rows(file: Any, name: str) -> Any:
    """The rows of numbers in a file under `name`, which are not read yet."""
    h5py = library("h5py")
    links = [file.get(part, getlink=True) for part in {name, name.partition("/")[0]}]
    item = file[name] if all(isinstance(link, h5py.HardLink) for link in links) else None
    if item is None or item.is_virtual or item.external or item.ndim != 1:
        raise ValueError(f"expected a row of values under '{name}' in the file itself")
    values = h5py.check_vlen_dtype(item.dtype) if "/" in name else item.dtype
    if values is None or values.kind not in "iuf" or item.size > EVENT_LIMIT:
        raise ValueError(f"expected numbers under '{name}', got {item.dtype}")
    return item
