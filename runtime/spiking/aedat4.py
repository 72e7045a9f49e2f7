"""The program that decodes the events of an AEDAT 4.0 file, started by `event_files`.

A process of its own: the decoder, the package `aedat`, aborts on some files that are corrupt. It
writes two arrays in NumPy's format: width and height of the sensor, then columns, rows, times and
polarities of the events.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np


def main(path: str, event_limit: int, memory_limit: int) -> None:
    """Write the sizes and events of the first stream of events to standard output."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    decoder: Any = import_module("aedat").Decoder(path)
    streams: dict[int, Any] = decoder.id_to_stream()
    first = min((n for n, stream in streams.items() if stream["type"] == "events"), default=None)
    if first is None:
        sys.exit("it has no stream of events")
    packets: list[Any] = [np.empty((4, 0), np.int64)]
    for packet in decoder:
        if packet["stream_id"] == first:
            events = packet["events"]
            packets.append(np.array([events[name] for name in ("x", "y", "t", "on")], np.int64))
            event_limit -= len(events)
        if event_limit < 0:
            sys.exit("it has too many events")
    np.save(sys.stdout.buffer, [streams[first]["width"], streams[first]["height"]])
    np.save(sys.stdout.buffer, np.concatenate(packets, 1), allow_pickle=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
