"""Arrays of `.npy` and `.npz` files from whoever wrote them: no pickles, no bombs, one error.

What the arrays are is the reader's business (`ir.samples`, `lowering.weights`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from .arrays import Array
from .errors import ParameterError

_PLAIN, _RATIO = 1 << 28, 64
"""An archive may unpack to so many bytes, or to so many times its own."""

_HEADER, _WIDEST = 65536, 8
"""Bytes that the header of an entry and one element take at most."""


def read_numpy(path: Path, what: str, *, largest: int | None = None) -> dict[str, Array]:
    """The arrays of a file by name; the one array of a `.npy` file has the name `""`.

    Args:
        path: of the file, `.npy` or `.npz`.
        what: is in the file, for messages: `sample file 'x.npz'`.
        largest: the most elements that an entry of an archive may have, where that is known.

    Raises:
        ParameterError: no such file, broken content, Python objects, or an archive that unpacks to
            far more than it takes.
    """
    try:
        if path.suffix.lower() == ".npz":
            check_archive(path, what, largest)
        loaded: Any = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded as archive:
            return {name: archive[name] for name in archive.files}
    except ParameterError:
        raise
    except FileNotFoundError:
        raise ParameterError(f"{what}: No such file or directory") from None
    except OSError as error:
        raise ParameterError(f"{what} cannot be read: {error.strerror or error}") from None
    # NumPy's reader parses headers as Python and unpacks by several libraries: broken content ends
    # in SyntaxError, NotImplementedError, zlib.error, struct.error and others.
    except Exception as error:
        if "pickle" in str(error):  # what NumPy takes every unknown content for
            reason = f"it holds Python objects, or is no {path.suffix} file"
        else:
            reason = " ".join(str(error).split()) or type(error).__name__
        raise ParameterError(f"{what} cannot be read: {reason}") from None


def check_archive(path: Path, what: str, largest: int | None = None) -> None:
    """Refuse a ZIP archive that would fill the memory, by the sizes that it declares.

    Readers stop at a declared size, so that a wrong one is no way around.

    Raises:
        ParameterError: an entry, or all of them, would unpack to too much.
        zipfile.BadZipFile: it is no archive.
    """
    with ZipFile(path) as archive:
        members = archive.infolist()
    for member in members:
        if largest is not None and member.file_size > _HEADER + largest * _WIDEST:
            raise ParameterError(
                f"{what}: entry '{member.filename}' has {member.file_size} bytes, "
                "more than any parameter of the model"
            )
    total, size = sum(member.file_size for member in members), path.stat().st_size
    if total > max(_PLAIN, _RATIO * size):
        raise ParameterError(
            f"{what} has {size} bytes and would unpack to {total}; "
            "write it without compression, as numpy.savez does, or as .safetensors"
        )
