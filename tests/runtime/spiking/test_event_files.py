"""Files of event cameras, written here as their formats are described, and by other programs."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import BackendError, OptionError, SourceError, TritonError
from triton_dsl.runtime.spiking import event_files
from triton_dsl.spiking import read_events, read_gestures

RECORDED = Path(__file__).resolve().parent / "recorded"
Event = tuple[int, int, int, int]
"""Column, row, microseconds, polarity."""

IN_TMP = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def events_of(width: int, height: int, last: int = 2**31 - 1) -> st.SearchStrategy[list[Event]]:
    """Events of a sensor, in order of time."""
    event = st.tuples(
        st.integers(0, width - 1),
        st.integers(0, height - 1),
        st.integers(0, last),
        st.integers(0, 1),
    )
    return st.lists(event, max_size=40).map(lambda events: sorted(events, key=lambda e: e[2]))


def rows(events: Any) -> list[Event]:
    return [tuple(int(event[name]) for name in ("x", "y", "t", "p")) for event in events]  # type: ignore[misc]


def aedat2(events: list[Event], camera: str) -> bytes:
    """As jAER writes it: rows from below, columns mirrored; the DVS128 has ON as 0."""
    lines = ["#!AER-DAT2.0", "# This is a raw AE data file - do not edit", f"# AEChip: {camera}"]
    content = b"".join(f"{line}\r\n".encode() for line in lines)
    for x, y, t, p in events:
        if camera.endswith("DVS128"):
            address = (127 - y) << 8 | (127 - x) << 1 | 1 - p
        else:
            address = (259 - y) << 22 | (345 - x) << 12 | p << 11
        content += struct.pack(">II", address, t)
    return content


HEADER3 = (
    b"#!AER-DAT3.1\r\n#Format: RAW\r\n#Source 1: DVS128\r\n"
    b"#Start-Time: 2026-01-01 00:00:00 (TZ+0000)\r\n#!END-HEADER\r\n"
)


def packet3(
    events: list[Event], kind: int = 1, valid: int = 1, overflow: int = 0, room: int = 0
) -> bytes:
    """A packet of AEDAT 3.1: its head of 28 bytes, eight bytes an event, and room for more."""
    count = len(events)
    content = struct.pack("<hhiiiiii", kind, 1, 8, 4, overflow, count + room, count, count * valid)
    for x, y, t, p in events:
        content += struct.pack("<Ii", x << 17 | y << 2 | p << 1 | valid, t)
    return content + b"\1" * 8 * room


def nmnist(events: list[Event]) -> bytes:
    """Five bytes an event: column, row, polarity and 23 bits of time."""
    return b"".join(bytes([x, y, p << 7 | t >> 16, t >> 8 & 255, t & 255]) for x, y, t, p in events)


@pytest.mark.parametrize(
    ("camera", "width", "height"),
    [
        ("ch.unizh.ini.jaer.chip.retina.DVS128", 128, 128),
        ("eu.seebetter.ini.chips.davis.Davis346red", 346, 260),
    ],
)
@IN_TMP
@given(data=st.data())
def test_aedat2(tmp_path: Path, camera: str, width: int, height: int, data: Any) -> None:
    events = data.draw(events_of(width, height, 2**32 - 1))
    (tmp_path / "a.aedat").write_bytes(aedat2(events, camera))
    recording = read_events(tmp_path / "a.aedat")
    assert rows(recording.events) == events
    assert recording.sensor_size == (width, height, 2)


def test_aedat2_as_tonic_reads_it(tmp_path: Path) -> None:
    from tonic.io import read_davis_346

    rng = np.random.default_rng(0)
    events = [(int(x), int(y), k, k % 2) for k, (x, y) in enumerate(rng.integers(0, 260, (200, 2)))]
    (tmp_path / "a.aedat").write_bytes(aedat2(events, "Davis346"))
    shape, _, theirs = read_davis_346(str(tmp_path / "a.aedat"))
    ours = read_events(tmp_path / "a.aedat")
    assert shape == ours.sensor_size[:2]
    assert rows(theirs) == rows(ours.events) == events


def test_aedat2_has_whole_events_behind_its_text(tmp_path: Path) -> None:
    """The address of the first event is the bytes of `#` and of a new line."""
    events = [(170, 119, 0, 0), (1, 2, 3, 1)]
    content = aedat2(events, "Davis346")
    assert content.split(b"\r\n")[-1].startswith(b"#\n")
    (tmp_path / "a.aedat").write_bytes(content)
    assert rows(read_events(tmp_path / "a.aedat").events) == events


def test_aedat2_leaves_out_frames_and_begins_after_text(tmp_path: Path) -> None:
    content = aedat2([], "Davis346") + struct.pack(">II", 0x23 << 24, 0)
    content += struct.pack(">IIII", 1 << 31, 1, 1 << 10, 2)
    (tmp_path / "a.aedat").write_bytes(content)
    # The first address begins with the byte of '#'; what follows are a sample and a pulse.
    assert rows(read_events(tmp_path / "a.aedat").events) == [(345, 259 - 140, 0, 0)]


@IN_TMP
@given(st.lists(events_of(128, 128), max_size=3), st.integers(0, 3))
def test_aedat3(tmp_path: Path, packets: list[list[Event]], overflow: int) -> None:
    noise = packet3([(1, 2, 3, 1)], kind=0) + packet3([(1, 2, 3, 1)], valid=0)
    parts = [packet3(part, overflow=overflow, room=overflow % 2) + noise for part in packets]
    content = HEADER3 + b"".join(parts)
    (tmp_path / "a.aedat").write_bytes(content)
    expected = [(x, y, t + (overflow << 31), p) for part in packets for x, y, t, p in part]
    assert rows(read_events(tmp_path / "a.aedat").events) == expected


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_aedat4_of_dv_processing(compression: str) -> None:
    recording = read_events(RECORDED / f"{compression}.aedat4")
    expected = [(7 * k % 40, 11 * k % 30, 1_000_000 + 37 * k, k % 3 == 0) for k in range(60)]
    assert rows(recording.events) == expected
    assert recording.sensor_size == (40, 30, 2)


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_aedat4_that_is_corrupt(tmp_path: Path, compression: str) -> None:
    """Whatever stands in it: an error or events, and this process goes on."""
    content = (RECORDED / f"{compression}.aedat4").read_bytes()
    rng = random.Random(compression)
    broken = [content[: len(content) // 2], content[:14]]
    for _ in range(6):
        changed = bytearray(content)
        for place in rng.sample(range(14, len(content)), 4):
            changed[place] = rng.randrange(256)
        broken.append(bytes(changed))
    refused = 0
    for part in broken:
        (tmp_path / "b.aedat4").write_bytes(part)
        try:
            assert len(read_events(tmp_path / "b.aedat4").events) <= 60
        except SourceError as error:
            refused += 1
            assert "b.aedat4" in str(error) and "Traceback" not in str(error)
    assert refused >= 3


def test_the_decoder_of_aedat4_may_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "DECODER_MEMORY", 1 << 20)
    with pytest.raises(SourceError, match=r"none\.aedat4: not a readable AEDAT 4\.0 file"):
        read_events(RECORDED / "none.aedat4")
    monkeypatch.undo()
    monkeypatch.setattr(event_files, "EVENT_LIMIT", 59)
    with pytest.raises(SourceError, match="too many events"):
        read_events(RECORDED / "none.aedat4")


@IN_TMP
@given(events_of(34, 34, 2**23 - 1))
def test_nmnist(tmp_path: Path, events: list[Event]) -> None:
    (tmp_path / "00002.bin").write_bytes(nmnist(events))
    recording = read_events(tmp_path / "00002.bin")
    assert rows(recording.events) == events
    assert recording.sensor_size == (34, 34, 2)


def test_nmnist_counts_overflows_of_time(tmp_path: Path) -> None:
    content = nmnist([(1, 2, 8000, 1), (0, 240, 0, 0), (3, 4, 5, 0)])
    (tmp_path / "a.bin").write_bytes(content)
    assert rows(read_events(tmp_path / "a.bin").events) == [(1, 2, 8000, 1), (3, 4, 8197, 0)]


def test_gestures(tmp_path: Path) -> None:
    events = [(k, 127 - k, 100 * k, k % 2) for k in range(100)]
    (tmp_path / "user01_led.aedat").write_bytes(HEADER3 + packet3(events))
    (tmp_path / "user01_led_labels.csv").write_text(
        "class,startTime_usec,endTime_usec\n1,0,500\n11,2000,2300\n"
    )
    (first, clap), (second, other) = read_gestures(tmp_path / "user01_led.aedat")
    assert (clap, other) == (0, 10)
    assert rows(first) == events[:5] and rows(second) == events[20:23]
    (tmp_path / "user01_led_labels.csv").write_text("class,start,end\n12,0,500\n")
    with pytest.raises(SourceError, match="a class from 1 to 11"):
        read_gestures(tmp_path / "user01_led.aedat")
    (tmp_path / "user01_led_labels.csv").unlink()
    with pytest.raises(SourceError, match="no table of class"):
        read_gestures(tmp_path / "user01_led.aedat")


GOOD2 = aedat2([(1, 2, 3, 1)], "DVS128")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.aedat", b"", "another format"),
        ("a.aedat", b"PK\x03\x04", "another format"),
        ("a.aedat", b"#!AER-DAT3.0\r\n", "AEDAT 3.0; expected"),
        ("a.aedat", GOOD2[:-1], "ends within an event"),
        ("a.aedat", HEADER3[:-5], "expected a header"),
        ("a.aedat", HEADER3.replace(b"RAW", b"PNG"), "expected a header"),
        ("a.aedat", HEADER3 + packet3([(1, 2, 3, 1)])[:-1], "ends within a packet"),
        ("a.aedat", HEADER3 + packet3([])[:-1], "ends within the head"),
        ("a.aedat", HEADER3 + packet3([(128, 2, 3, 1)]), "outside of 128 columns"),
        ("a.aedat", HEADER3 + packet3([(0, 0, -3 % 2**31, 0)], overflow=-1), "no packet at byte"),
        ("a.bin", nmnist([(1, 2, 3, 1)])[:-1], "no events of N-MNIST"),
        ("a.bin", nmnist([(34, 2, 3, 1)]), "outside of 34 columns"),
        ("a.bin", nmnist([(0, 240, 0, 0)]) * 20000, "no events of N-MNIST"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message) as caught:
        read_events(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


@settings(IN_TMP, max_examples=200)
@given(st.sampled_from(["a.aedat", "a.bin"]), st.data())
def test_bytes_of_strangers(tmp_path: Path, name: str, data: Any) -> None:
    """Any bytes after any beginning: events, or one error of ours."""
    good = HEADER3 + packet3([(1, 2, 3, 1), (4, 5, 6, 0)])
    whole = data.draw(st.sampled_from([GOOD2, good, nmnist([(1, 2, 3, 1)] * 3), HEADER3]))
    cut = data.draw(st.integers(0, len(whole)))
    content = whole[:cut] + data.draw(st.binary(max_size=60)) + whole[cut + 1 :]
    if content.startswith(b"#!AER-DAT4"):
        return
    (tmp_path / name).write_bytes(content)
    try:
        recording = read_events(
            tmp_path / name, camera=data.draw(st.sampled_from([None, "DVS128"]))
        )
    except TritonError:
        return
    width, height, _ = recording.sensor_size
    assert (recording.events["x"] < width).all() and (recording.events["y"] < height).all()


def test_arguments_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="No such file"):
        read_events(tmp_path / "none.aedat")
    (tmp_path / "a.aedat").write_bytes(aedat2([(1, 2, 3, 1)], "Unknown"))
    with pytest.raises(OptionError, match="names no known camera"):
        read_events(tmp_path / "a.aedat")
    with pytest.raises(OptionError, match="unknown camera, 'dvs'; pass camera= one of DVS128"):
        read_events(tmp_path / "a.aedat", camera="dvs")
    assert len(read_events(tmp_path / "a.aedat", camera="DAVIS346").events) == 1
    monkeypatch.setattr(event_files, "BYTE_LIMIT", 10)
    with pytest.raises(SourceError, match="larger than 10 bytes"):
        read_events(tmp_path / "a.aedat", camera="DAVIS346")


@pytest.mark.parametrize(("name", "package"), [("a.bin", "tonic"), ("a.aedat4", "aedat")])
def test_a_package_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.io", None)
    (tmp_path / name).write_bytes(b"" if package == "tonic" else b"#!AER-DAT4.0\r\n")
    with pytest.raises(BackendError, match=rf"{package} package: pip install '\.\[events"):
        read_events(tmp_path / name)
