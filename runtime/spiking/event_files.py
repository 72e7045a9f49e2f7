"""Files of event cameras: AEDAT 2.0, 3.1 and 4.0, N-MNIST and DVS128 Gesture.

Events are structured arrays as the package tonic has them, so that its transforms take them. Files
may come from strangers: sizes are bounded, nothing in them is run, and what is cut or corrupt is
refused. Not here: trains and data sets (`event_data`).

N-MNIST goes through tonic and AEDAT 4.0 through aedat, as in tonic. AEDAT 2.0 and 3.1 are read
here: tonic 1.7.0 raises for most cameras and takes packets of any type for polarity events.
"""

from __future__ import annotations

import csv
import re
import struct
import subprocess
import sys
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import BackendError, OptionError, SourceError
from ...ir.extras import install
from ...ir.safe_read import opened

BYTE_LIMIT = 1 << 30
"""The most bytes of a file."""

EVENT_LIMIT = 1 << 27
"""The most events of a recording."""

DECODER_MEMORY = 8 << 30
"""The most bytes that decoding AEDAT 4.0 may take, on Linux."""

EVENT = np.dtype([("x", np.int16), ("y", np.int16), ("t", np.int64), ("p", np.bool_)])
"""Columns and rows from the upper left corner, microseconds, whether light grew."""

Events = NDArray[Any]
"""A structured array with the fields x, t, p and, of cameras, y."""


class Recording(NamedTuple):
    """The events of a file, in its order, and columns, rows and polarities of the sensor."""

    events: Events
    sensor_size: tuple[int, int, int]


class _Camera(NamedTuple):
    """Its size, and where an AEDAT 2.0 address has what, by jAER's extractor of the chip.

    `other` marks what is no polarity event: frames, inertia, external pulses.
    """

    width: int
    height: int
    x: tuple[int, int] = (12, 0x3FF)
    y: tuple[int, int] = (22, 0x1FF)
    polarity: int = 11
    on: int = 1
    other: int = 0x80000400


CAMERAS = {
    "DVS128": _Camera(128, 128, (1, 0x7F), (8, 0x7F), 0, 0, 0x80008000),
    "DAVIS240": _Camera(240, 180),
    "DAVIS346": _Camera(346, 260),
    "DAVIS640": _Camera(640, 480),
}

_PACKET = struct.Struct("<hhiiiiii")
_POLARITY = 1


def read_events(path: str | Path, *, camera: str | None = None) -> Recording:
    """The polarity events of an AEDAT file (docs.inivation.com), or of a `.bin` file of N-MNIST.

    Rows of AEDAT 2.0 count from below and jAER mirrors its columns: both are turned, as tonic does
    for the DAVIS346. Events that are not valid are left out.

    Args:
        path: of the file, at most `BYTE_LIMIT` bytes.
        camera: a name of `CAMERAS`, for AEDAT 2.0 and 3.1 files that do not name theirs.

    Raises:
        SourceError: no such file, another format, too large, cut or corrupt.
        OptionError: an unknown camera, or none where the file names none.
        BackendError: the package that reads the format is missing.
    """
    path = Path(path)
    with opened(path, BYTE_LIMIT, SourceError) as file:
        content = file.read()
    named = re.match(rb"#!AER-DAT(\d\.\d)\r?\n", content)
    match named[1].decode() if named else path.suffix:
        case "2.0":
            return _aedat2(path, content, camera)
        case "3.1":
            return _aedat3(path, content, camera)
        case "4.0":
            return _aedat4(path)
        case ".bin":
            return _nmnist(path, content)
        case other:
            shown = f"AEDAT {other}" if named else "another format"
            raise SourceError(f"{path}: {shown}; expected AEDAT 2.0, 3.1, 4.0 or N-MNIST's .bin")


def read_gestures(path: str | Path) -> list[tuple[Events, int]]:
    """The gestures of a file of DVS128 Gesture (Amir et al. 2017): events and class, from 0.

    Args:
        path: `NAME.aedat`; beside it stands `NAME_labels.csv` with class, startTime_usec and
            endTime_usec.

    Raises:
        SourceError: see `read_events`; or no such table of labels.
    """
    events = read_events(path, camera="DVS128").events
    table = Path(path).with_name(f"{Path(path).stem}_labels.csv")
    try:
        rows = list(csv.reader(table.read_text("ascii").splitlines()))[1:]
        gestures = [tuple(int(cell) for cell in row) for row in rows if row]
    except (OSError, ValueError, csv.Error) as error:
        raise SourceError(f"{table}: no table of class, start and end: {error}") from None
    if any(len(row) != 3 or not 1 <= row[0] <= 11 for row in gestures):
        raise SourceError(f"{table}: expected rows of a class from 1 to 11, start and end")
    t = events["t"]
    return [(events[(t >= start) & (t < end)], label - 1) for label, start, end in gestures]


def library(name: str) -> Any:
    """A module of a package of the extra `events`.

    Raises:
        BackendError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise BackendError(
            f"event data needs the {name.partition('.')[0]} package: {install('events')}"
        ) from None


def _recording(path: Path, x: Any, y: Any, t: Any, p: Any, width: int, height: int) -> Recording:
    if ((x < 0) | (x >= width) | (y < 0) | (y >= height) | (t < 0)).any():
        raise SourceError(
            f"{path}: events outside of {width} columns and {height} rows; the file is corrupt, or "
            "of another camera"
        )
    events = np.empty(len(t), EVENT)
    events["x"], events["y"], events["t"], events["p"] = x, y, t, p
    return Recording(events, (width, height, 2))


def _camera(path: Path, header: bytes, key: bytes, name: str | None) -> _Camera:
    text = b"".join(re.findall(rb"^# ?" + key + rb"(.*)", header, re.MULTILINE)).upper()
    for known, camera in CAMERAS.items():
        if name == known or (name is None and known.encode() in text):
            return camera
    what = "names no known camera" if name is None else f"read as of an unknown camera, {name!r}"
    raise OptionError(f"{path}: {what}; pass camera= one of {', '.join(CAMERAS)}")


def _aedat2(path: Path, content: bytes, name: str | None) -> Recording:
    # Lines of text: the first event, too, may begin with the byte of '#'.
    line = rb"#[\t\x20-\x7e\x80-\xff]*\r?\n"
    header = re.match(b"(?:%b)+" % line, content)
    assert header is not None
    camera = _camera(path, header[0], b"AEChip:", name)
    # What looks like lines may be an event, too: whole ones, of eight bytes, stand behind the text.
    ends = [found.end() for found in re.finditer(line, header[0])]
    starts = [end for end in ends if header.end() - end < 8 and (len(content) - end) % 8 == 0]
    if not starts:
        raise SourceError(f"{path}: ends within an event; it is cut")
    words = np.frombuffer(content, ">u4", offset=starts[-1]).reshape(-1, 2).astype(np.int64)
    address, t = words[words[:, 0] & camera.other == 0].T
    x, y = ((address >> shift) & mask for shift, mask in (camera.x, camera.y))
    p = (address >> camera.polarity) & 1 == camera.on
    x, y = camera.width - 1 - x, camera.height - 1 - y
    return _recording(path, x, y, t, p, camera.width, camera.height)


def _aedat3(path: Path, content: bytes, name: str | None) -> Recording:
    header, end, _ = content.partition(b"#!END-HEADER\r\n")
    if not end or not re.search(rb"^#Format: RAW\r$", header, re.MULTILINE):
        raise SourceError(f"{path}: expected a header of the format RAW, and its end")
    camera = _camera(path, header, rb"Source \d+:", name)
    place = len(header) + len(end)
    packets = [np.empty((0, 2), np.int64)]
    while place < len(content):
        head = content[place : place + _PACKET.size]
        if len(head) < _PACKET.size:
            raise SourceError(f"{path}: ends within the head of a packet; it is cut")
        kind, _, size, _, overflow, room, count, _ = _PACKET.unpack(head)
        is_sound = size > 0 <= overflow and 0 <= count <= room
        if not is_sound or (kind == _POLARITY and size != 8):
            raise SourceError(f"{path}: no packet at byte {place}; it is corrupt")
        place += _PACKET.size + room * size
        if place > len(content):
            raise SourceError(f"{path}: ends within a packet; it is cut")
        if kind == _POLARITY:
            words = np.frombuffer(content, "<u4", 2 * count, place - room * size)
            packets.append(words.reshape(-1, 2) + np.array([0, overflow << 31]))
    words = np.concatenate(packets)
    data, t = words[words[:, 0] & 1 == 1].T
    x, y, p = data >> 17, (data >> 2) & 0x7FFF, (data >> 1) & 1
    return _recording(path, x, y, t, p, camera.width, camera.height)


def _aedat4(path: Path) -> Recording:
    library("aedat")
    program = [sys.executable, "-P", str(Path(__file__).with_name("aedat4.py")), str(path)]
    limits = [str(EVENT_LIMIT), str(DECODER_MEMORY)]
    done = subprocess.run([*program, *limits], capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SourceError(f"{path}: not a readable AEDAT 4.0 file: {reason}")
    arrays = BytesIO(done.stdout)
    width, height = np.load(arrays, allow_pickle=False).tolist()
    x, y, t, p = np.load(arrays, allow_pickle=False)
    return _recording(path, x, y, t, p, width, height)


def _nmnist(path: Path, content: bytes) -> Recording:
    overflows = content[1::5].count(240)
    # tonic's work grows with the product: recordings of 300 ms have 40 overflows of their time.
    if len(content) % 5 or overflows * len(content) > 1 << 28:
        raise SourceError(f"{path}: no events of N-MNIST; it is cut or corrupt")
    events: Events = library("tonic.io").read_mnist_file(BytesIO(content), EVENT, is_stream=True)
    return _recording(path, events["x"], events["y"], events["t"], events["p"], 34, 34)
