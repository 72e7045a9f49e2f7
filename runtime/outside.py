"""Other programs: they are called here, and told apart from those that are not there.

Not here: which programs there are, and what their answers mean.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..ir.errors import BackendError


def called(
    command: Sequence[str],
    folder: Path | None = None,
    seconds: float | None = None,
    given: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """What a program printed, in whatever encoding, and how it ended.

    Args:
        command: its name and arguments.
        folder: where it runs; here by default.
        seconds: that it may take; any number by default.
        given: what it reads from its standard input.

    Raises:
        BackendError: it is missing.
        subprocess.TimeoutExpired: it takes longer than so many seconds.
    """
    try:
        return subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=seconds,
            input=given,
        )
    except OSError as error:
        raise BackendError(f"'{command[0]}' cannot be run: {error.strerror or error}") from None
