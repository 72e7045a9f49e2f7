"""Sample inputs on disk: `.npy`, `.npz` and `.safetensors` files of arrays whose first axis counts.

What the samples are fed to is no business of this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np
from numpy.typing import NDArray

from .errors import OptionError, ParameterError
from .store import read_arrays

Array = NDArray[Any]


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
            return read_arrays(path)
        if path.suffix == ".npy":
            arrays = {"": np.load(path, allow_pickle=False)}
        else:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise OptionError(f"sample file '{path}': No such file or directory") from None
    except ParameterError as error:
        raise OptionError(f"sample file: {error}") from None
    except (OSError, ValueError, EOFError, BadZipFile, TokenError, ZlibError) as error:
        if "pickle" in str(error):  # what NumPy takes every unknown content for
            raise OptionError(
                f"sample file '{path}' cannot be read: it holds Python objects, "
                f"or is no {path.suffix} file"
            ) from None
        raise OptionError(f"sample file '{path}' cannot be read: {error}") from None
    for name, array in arrays.items():
        if not hasattr(array, "dtype") or array.dtype.kind not in "biufV" or array.dtype.names:
            raise OptionError(f"sample file '{path}': entry '{name}' holds no real numbers")
    return arrays


def batches(arrays: Sequence[Array], size: int) -> Iterator[tuple[Array, ...]]:
    """Cut arrays of equally many samples along their first axis into batches of up to `size`."""
    for start in range(0, len(arrays[0]), size):
        yield tuple(array[start : start + size] for array in arrays)
