"""Events become trains as tonic's frames are, and data sets train a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError, SourceError
from triton_dsl.runtime.spiking import event_data
from triton_dsl.runtime.spiking.event_files import EVENT
from triton_dsl.spiking import EventDataset, SpikeTensor, SpikingSpeech, to_train

Rows = list[tuple[int, int, int, bool]]
SENSOR = (5, 4, 2)
EVENTS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 999), st.booleans()), max_size=60
)


def array(rows: Rows) -> Any:
    return np.array(rows, EVENT)


@settings(deadline=None)
@given(EVENTS, st.integers(1, 12), st.sampled_from([1, 50, 83.3, 100]), st.integers(0, 300))
def test_a_train_is_a_count_of_events(rows: Rows, steps: int, dt: float, start: int) -> None:
    expected = np.zeros((steps, 2, 4, 5), int)
    for x, y, t, p in rows:
        step = int((t - start) // dt)
        if 0 <= step < steps:
            expected[step, int(p), y, x] += 1
    counts = to_train(array(rows), SENSOR, steps, dt, start=start, counts=True)
    assert counts.dtype == np.float32
    np.testing.assert_array_equal(counts, expected)
    train = to_train(array(rows), SENSOR, steps, dt, start=start)
    assert train.dtype == np.bool_
    np.testing.assert_array_equal(train, expected > 0)


@settings(deadline=None, max_examples=40)
@given(EVENTS, st.integers(1, 10), st.sampled_from([50, 100, 250]))
def test_as_frames_of_tonic(rows: Rows, steps: int, dt: int) -> None:
    from tonic.transforms import ToFrame

    # Of no events tonic's frames have rows and columns the other way.
    events = np.sort(array([*rows, (0, 0, 0, True)]), order="t")
    frames = ToFrame(SENSOR, time_window=dt, start_time=0, end_time=steps * dt)(events)
    counts = to_train(events, SENSOR, steps, dt, start=0, counts=True)
    np.testing.assert_array_equal(counts, frames)


def test_shapes_and_starts() -> None:
    events = array([(1, 0, 1000, True), (1, 0, 1100, False), (2, 0, 1250, True)])
    train = to_train(events, (3, 1, 1), 3, 100)
    np.testing.assert_array_equal(train, [[0, 1, 0], [0, 1, 0], [0, 0, 1]])
    assert to_train(events[:0], (3, 1, 1), 3, 100).sum() == 0
    assert to_train(events, (3, 2, 1), 2, 100).shape == (2, 1, 2, 3)
    # tonic's frames are int16, in which as many events at one place are none.
    many = np.repeat(events[:1], 1 << 16)
    assert to_train(many, (3, 1, 1), 1, 100, counts=True)[0, 1] == 1 << 16


@pytest.mark.parametrize(
    ("size", "steps", "dt", "message"),
    [
        ((5, 4, 2), 0, 1, "steps, dt and sizes above 0"),
        ((5, 4, 2), 1, 0, "steps, dt and sizes above 0"),
        ((5, 4, 2), 1, float("nan"), "steps, dt and sizes above 0"),
        ((5, 0, 2), 1, 1, "steps, dt and sizes above 0"),
        ((5, 4, 2), 1 << 40, 1, "at most 268435456 places"),
        ((2, 4, 2), 1, 1, "outside of the sensor"),
    ],
)
def test_sizes_that_are_refused(
    size: tuple[int, int, int], steps: int, dt: float, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        to_train(array([(4, 3, 0, True)]), size, steps, dt)


SOURCE = [(array([(k, k, 10 * k, True), (k, 0, 95, False)]), k) for k in range(4)]


def test_items_and_batches() -> None:
    dataset = EventDataset(SOURCE, SENSOR, steps=5, dt=20, start=0)
    train, label = dataset[3]
    assert train.dtype == torch.bool and train.shape == (5, 2, 4, 5) and label == 3
    assert train.nonzero().tolist() == [[1, 1, 3, 3], [4, 0, 0, 3]]
    trains, labels = dataset.batch([3, 1])
    assert trains.shape == (5, 2, 2, 4, 5) and labels.tolist() == [3, 1]
    assert torch.equal(trains[:, 0], train)
    events = SpikeTensor.from_train(trains).to_sparse()
    assert torch.equal(events.to_train(dtype=torch.bool), trains)


def test_transforms_of_tonic() -> None:
    from tonic import transforms

    chain = transforms.Compose([transforms.CropTime(max=94), transforms.MergePolarities()])
    dataset = EventDataset(SOURCE, (5, 4, 1), steps=5, dt=20, start=0, transform=chain)
    assert dataset[3][0].nonzero().tolist() == [[1, 0, 3, 3]]
    frames = transforms.ToFrame(SENSOR, n_time_bins=5)
    dataset = EventDataset(SOURCE, SENSOR, steps=5, dt=20, counts=True, transform=frames)
    assert dataset[2][0].dtype == torch.float32 and dataset[2][0].shape == (5, 2, 4, 5)
    with pytest.raises(OptionError, match="gives 5 frames; expected 6"):
        _ = EventDataset(SOURCE, SENSOR, steps=6, dt=20, transform=frames)[2]


def speech(path: Path, times: list[Any], units: list[Any], labels: Any) -> Path:
    """A file as SHD is published: half-precision seconds, 16-bit units, rows of any length."""
    with h5py.File(path, "w") as file:
        spikes = file.create_group("spikes")
        for name, values, kind in (("times", times, np.float16), ("units", units, np.uint16)):
            rows = spikes.create_dataset(name, (len(values),), h5py.vlen_dtype(kind))
            for k, row in enumerate(values):
                rows[k] = np.asarray(row, kind)
        file["labels"] = np.asarray(labels, np.uint16)
        file["extra/keys"] = np.array([b"zero", b"one"])
    return path


@settings(deadline=None, max_examples=25)
@given(rows=st.lists(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 699))), max_size=4))
def test_spiking_speech(tmp_path_factory: Any, rows: list[list[tuple[int, int]]]) -> None:
    path = tmp_path_factory.mktemp("shd") / "shd_test.h5"
    # Multiples of 1/1024 s are exact in half precision, and their microseconds are cut.
    times = [[t / 1024 for t, _ in row] for row in rows]
    speech(path, times, [[u for _, u in row] for row in rows], [k % 20 for k in range(len(rows))])
    data = SpikingSpeech(path)
    assert len(data) == len(rows)
    for k, row in enumerate(rows):
        events, label = data[k]
        assert label == k % 20
        assert events["x"].tolist() == [u for _, u in row]
        assert events["p"].all() and events["t"].tolist() == [t * 1_000_000 // 1024 for t, _ in row]


def test_spiking_speech_as_tonic_reads_it(tmp_path: Path) -> None:
    from tonic.datasets import hsd

    rng = np.random.default_rng(0)
    times, units = np.sort(rng.random((3, 50))), rng.integers(0, 700, (3, 50))
    ours = SpikingSpeech(speech(tmp_path / "a.h5", [*times], [*units], [4, 5, 6]))
    theirs: Any = hsd.HSD("")
    theirs.location_on_system, theirs.data_filename = tmp_path, "a.h5"
    for k in range(3):
        (events, label), (expected, expected_label) = ours[k], theirs[k]
        assert label == expected_label
        for name in ("x", "t", "p"):
            np.testing.assert_array_equal(events[name], expected[name])


def test_a_network_reads_spiking_speech(tmp_path: Path) -> None:
    speech(tmp_path / "a.h5", [[0.0, 0.0105], [0.02]], [[0, 699], [5]], [1, 0])
    dataset = EventDataset(SpikingSpeech(tmp_path / "a.h5"), (700, 1, 1), 3, 10_000, start=0)
    trains, labels = dataset.batch([0, 1])
    assert trains.shape == (3, 2, 700) and labels.tolist() == [1, 0]
    assert trains.nonzero().tolist() == [[0, 0, 0], [1, 0, 699], [2, 1, 5]]
    assert SpikingSpeech(tmp_path / "a.h5")[-1][1] == 0
    with pytest.raises(IndexError):
        _ = SpikingSpeech(tmp_path / "a.h5")[2]


def test_speech_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        SpikingSpeech(tmp_path / "none.h5")
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(SourceError, match=r"text\.h5: not a readable file of SHD or SSC"):
        SpikingSpeech(tmp_path / "text.h5")
    whole = speech(tmp_path / "whole.h5", [[0.5] * 1000] * 50, [[3] * 1000] * 50, [0] * 50)
    (tmp_path / "cut.h5").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(SourceError, match="not a readable file of SHD or SSC"):
        SpikingSpeech(tmp_path / "cut.h5")
    short = speech(tmp_path / "short.h5", [[0.5]], [[3]], [0, 1])
    with pytest.raises(SourceError, match="not a readable file of SHD or SSC"):
        SpikingSpeech(short)
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["spikes/times"] = h5py.ExternalLink("/etc/passwd", "/")
    with pytest.raises(SourceError, match="'spikes/times' in the file itself"):
        SpikingSpeech(tmp_path / "link.h5")
    for times, units in (
        ([[0.5, 0.6]], [[1]]),
        ([[0.5]], [[700]]),
        ([[-0.5]], [[1]]),
        ([[np.nan]], [[1]]),
    ):
        wrong = SpikingSpeech(speech(tmp_path / "wrong.h5", times, units, [0]))
        with pytest.raises(SourceError, match=r"wrong\.h5: recording 0"):
            _ = wrong[0]


def test_the_limit_of_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SpikingSpeech(speech(tmp_path / "a.h5", [[0.1, 0.2]], [[1, 2]], [0]))
    monkeypatch.setattr(event_data, "EVENT_LIMIT", 1)
    with pytest.raises(SourceError, match="of no use"):
        _ = data[0]
