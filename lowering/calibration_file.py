"""Samples of a data loader as a file, for the option `calibration` of targets.

Not here: reading it (`ir.samples`), and what is looked for in samples (`calibration.observation`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from xdsl.dialects.func import FuncOp

from ..ir.arrays import Array
from ..ir.errors import InputError
from ..ir.value_names import argument_names
from ..passes.calibration.observation import Batch, loaded

SAMPLES = 1024
"""Samples of a calibration that are used at most."""


def save_calibration(function: FuncOp, loader: Iterable[Batch], folder: Path) -> Path:
    """Write the first samples of a loader under the names of the arguments; the `.npz` file.

    Args:
        function: the entry of the program that they are for.
        loader: batches, as `calibration.observation.loaded` takes them.
        folder: where to.

    Raises:
        OptionError: no samples, or batches that do not fit the arguments.
    """
    names = argument_names(function)
    columns: list[list[Array]] = [[] for _ in names]
    count = 0
    for batch in loaded(function, loader):
        for column, value in zip(columns, batch, strict=True):
            column.append(value)
        count += max(map(len, batch))
        if count >= SAMPLES:
            break
    if not count:
        raise InputError("there are no samples to calibrate with: the data set is empty")
    path = folder / "samples.npz"
    arrays = {n: np.concatenate(c)[:SAMPLES] for n, c in zip(names, columns, strict=True)}
    np.savez(path, allow_pickle=False, **arrays)
    return path
