"""Sixty events as AEDAT 4.0 files of each compression, written by iniVation's own library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dv_processing  # pyright: ignore[reportMissingImports]

dv: Any = dv_processing

for name in ("NONE", "LZ4", "ZSTD"):
    config = dv.io.MonoCameraWriter.Config("TEST", getattr(dv.CompressionType, name))
    config.addEventStream((40, 30))
    writer = dv.io.MonoCameraWriter(dv.Path(str(Path.cwd() / f"{name.lower()}.aedat4")), config)
    store = dv.EventStore()
    for k in range(60):
        store.push_back(1_000_000 + 37 * k, 7 * k % 40, 11 * k % 30, k % 3 == 0)
    writer.writeEvents(store)
    del writer
