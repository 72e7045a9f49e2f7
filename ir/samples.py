"""Sample inputs on disk: `.npy`, `.npz` and `.safetensors` files of arrays whose first axis counts.

What the samples are fed to is no business of this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .arrays import Array
from .errors import InputError, ParameterError, refuse
from .numpy_file import read_numpy
from .store import read_arrays


def read_samples(path: Path) -> dict[str, Array]:
    """The arrays of a file by name; the one array of a `.npy` file has the name `""`.

    Raises:
        InputError: no such file, another kind of file, or broken content.
    """
    what = f"sample file '{path}'"
    if path.suffix not in (".npy", ".npz", ".safetensors"):
        raise InputError(f"{what}: unknown kind of file; expected .npy, .npz or .safetensors")
    try:
        arrays = read_arrays(path) if path.suffix == ".safetensors" else read_numpy(path, what)
    except ParameterError as error:
        text = str(error)
        said = text.replace("parameter", "sample", 1) if text.startswith("parameter") else text
        raise InputError(said) from None
    for name, array in arrays.items():
        if not hasattr(array, "dtype") or array.dtype.kind not in "biufV" or array.dtype.names:
            entry = f": entry '{name}'" if name else ""
            raise InputError(f"{what}{entry} holds no real numbers")
    return arrays


def read_labels(path: Path) -> Array:
    """The one array of a file of labels.

    Raises:
        InputError: see `read_samples`, or the file holds another number of arrays.
    """
    arrays = list(read_samples(path).values())
    refuse(len(arrays) != 1, f"labels '{path}': expected one array, got {len(arrays)}", InputError)
    return arrays[0]


def check_labels(labels: Array, count: int, classes: int | None = None) -> None:
    """Refuse what are not the classes of so many samples.

    Args:
        labels: is to be whole numbers [count], from 0 to below `classes` if these are known.

    Raises:
        InputError: it is not.
    """
    if labels.dtype.kind not in "iu" or labels.shape != (count,):
        got = f"{labels.dtype}{list(labels.shape)}"
        raise InputError(f"expected {count} labels as whole numbers, got {got}")
    if classes is not None and not np.isin(labels, range(classes)).all():
        got = f"{labels.min()} to {labels.max()}"
        raise InputError(f"expected labels from 0 to {classes - 1}, got {got}")


def batches(arrays: Sequence[Array], size: int) -> Iterator[tuple[Array, ...]]:
    """Cut arrays of equally many samples along their first axis into batches of up to `size`."""
    for start in range(0, len(arrays[0]), size):
        yield tuple(array[start : start + size] for array in arrays)
