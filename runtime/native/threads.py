"""One piece of work in several threads: PyTorch's own where it is loaded, else ours.

With PyTorch in the process, kernels run in the OpenMP runtime that PyTorch uses, so that both share
their threads instead of competing for the processor. Otherwise they run in a team of native threads
that has the same interface (`native_team`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from ...ir.errors import BackendError
from .abi.parallel import BARRIER, START, TEAM_SIZE, THREAD_NUMBER
from .native_team import Start, start_team
from .processor import llvm_binding

WORTH_A_MEMBER = 800_000
"""Products of int8 for which one more thread of a team saves more than it costs."""
WORTH_A_THREAD = 2_000_000
"""The same for work that is shared by `share`, where each thread starts with Python's lock."""

Work = Callable[[int, int], None]
_MEMBER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def default_threads() -> int:
    """How many threads work is worth sharing among: PyTorch's number where it is loaded.

    Otherwise the processors that this process may run on; see `torch.set_num_threads`.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        return torch.get_num_threads()
    return processors()


def processors() -> int:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def team() -> Start | None:
    """Starts a team of threads, see `abi.parallel.START`; `None` where there is none.

    The threads are PyTorch's if it was loaded before the first call, and has an OpenMP runtime with
    GNU's interface; else those of `team`. PyTorch's do not survive a fork, and it does not notice:
    forked processes then have no team. Modules with the function `linear_task` can be loaded after
    this.
    """
    if not _CHOSEN:
        with _LOCK:
            if not _CHOSEN:
                start = _openmp() if "torch" in sys.modules else None
                _CHOSEN.append((start or start_team(processors()), start is not None))
    chosen, is_pytorch = _CHOSEN[0]
    return None if is_pytorch and _FORKED else chosen


_CHOSEN: list[tuple[Start | None, bool]] = []
"""What starts a team, and whether that is PyTorch's."""
_LOCK = Lock()


def _openmp() -> Start | None:
    torch: Any = sys.modules["torch"]
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        # A search in this library also finds what it is linked with: the very runtime it uses.
        library = ctypes.CDLL(str(path))
        start: Any = getattr(library, START)
        functions = {name: getattr(library, name) for name in (BARRIER, THREAD_NUMBER, TEAM_SIZE)}
    except (OSError, AttributeError):
        return None
    with suppress(BackendError):  # without llvmlite, no module is loaded
        for name, function in functions.items():
            llvm_binding().add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    start.restype = None
    return start


_FORKED: list[bool] = []
"""Not empty in a process that was forked from one in which this module was loaded."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _FORKED.append(True))


def split(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` things in at most `parts` ranges that differ by one at most; none is empty."""
    parts = min(parts, count)
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def share(work: Work, ranges: Sequence[tuple[int, int]]) -> None:
    """Do `work` on every range, the first in this thread; ends when all are done.

    Without a team, this thread does all. An exception in any range is raised here.
    """
    start = team() if len(ranges) > 1 else None
    if start is None:
        for bounds in ranges:
            work(*bounds)
        return
    left, errors = iter(ranges), list[BaseException]()

    def member(_: int | None) -> None:
        # A team may be smaller than what was asked for.
        for bounds in left:
            try:
                work(*bounds)
            except BaseException as error:  # raised again in the thread that waits
                errors.append(error)

    function: Any = _MEMBER(member)
    start(function, None, len(ranges), 0)
    if errors:
        raise errors[0]
