"""Sample inputs on disk: `.npy`, `.npz` and `.safetensors` files of arrays whose first axis counts.

What the samples are fed to is no business of this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from .arrays import Array
from .errors import OptionError, ParameterError
from .numpy_file import read_numpy
from .store import read_arrays


def read_samples(path: Path) -> dict[str, Array]:
    """The arrays of a file by name; the one array of a `.npy` file has the name `""`.

    Raises:
        OptionError: no such file, another kind of file, or broken content.
    """
    if path.suffix not in (".npy", ".npz", ".safetensors"):
        raise OptionError(
            f"sample file '{path}': unknown kind of file; expected .npy, .npz or .safetensors"
        )
    try:
        if path.suffix == ".safetensors":
            arrays = read_arrays(path)
        else:
            arrays = read_numpy(path, f"sample file '{path}'")
    except ParameterError as error:
        text = str(error)
        raise OptionError(text if text.startswith("sample") else f"sample file: {text}") from None
    for name, array in arrays.items():
        if not hasattr(array, "dtype") or array.dtype.kind not in "biufV" or array.dtype.names:
            raise OptionError(f"sample file '{path}': entry '{name}' holds no real numbers")
    return arrays


def batches(arrays: Sequence[Array], size: int) -> Iterator[tuple[Array, ...]]:
    """Cut arrays of equally many samples along their first axis into batches of up to `size`."""
    for start in range(0, len(arrays[0]), size):
        yield tuple(array[start : start + size] for array in arrays)
