"""One piece of work in several threads: PyTorch's own where it is loaded, else threads of Python.

With PyTorch in the process, kernels run in the OpenMP runtime that PyTorch uses (`openmp`), so that
both share their threads instead of competing for the processor. Otherwise native functions, which
run without Python's lock, are shared out among Python's threads, which wait between calls.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ...ir.errors import BackendError
from ...ir.native_parallel import BARRIER, START, TEAM_SIZE, THREAD_NUMBER
from ...ir.processor import llvm_binding

WORTH_A_MEMBER = 800_000
"""Products of int8 for which one more thread of PyTorch's team saves more than it costs."""
WORTH_A_THREAD = 2_000_000
"""Products of int8 for which one more of the threads here does, which have to be woken."""

Work = Callable[[int, int], None]
Start = Callable[[Any, Any, int, int], None]
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


def openmp() -> Start | None:
    """Starts a team of PyTorch's threads, see `ir.native_parallel.START`; `None` where it cannot.

    It can where PyTorch is loaded with an OpenMP runtime that has GNU's interface, in any process
    but a forked one: the threads of such a runtime do not survive a fork, and it does not notice.
    Modules with the function `linear_task` can be loaded after this.
    """
    return None if _FORKED or "torch" not in sys.modules else _openmp()


@cache
def _openmp() -> Start | None:
    torch: Any = sys.modules["torch"]
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        # A search in this library also finds what it is linked with: the very runtime it uses.
        library = ctypes.CDLL(str(path))
        start: Any = getattr(library, START)
        found = {name: getattr(library, name) for name in (BARRIER, THREAD_NUMBER, TEAM_SIZE)}
    except (OSError, AttributeError):
        return None
    with suppress(BackendError):  # without llvmlite, no module is loaded
        for name, function in found.items():
            llvm_binding().add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    start.restype = None
    return start


class _Worker:
    """A thread that waits for work, does it, and waits again."""

    def __init__(self) -> None:
        self._begin, self._end = threading.Lock(), threading.Lock()
        self._begin.acquire()
        self._end.acquire()
        self._task: tuple[Work, tuple[int, int]] | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="triton-dsl", daemon=True).start()

    def start(self, work: Work, bounds: tuple[int, int]) -> None:
        self._task = work, bounds
        self._begin.release()

    def finish(self) -> BaseException | None:
        """Wait for the end; what the work raised, if anything."""
        self._end.acquire()
        error, self._error = self._error, None
        return error

    def _run(self) -> None:
        while True:
            self._begin.acquire()
            if self._task is not None:
                work, bounds = self._task
                self._task = None
                try:
                    work(*bounds)
                except BaseException as error:  # raised again in the thread that waits
                    self._error = error
                del work
            self._end.release()


_FORKED: list[bool] = []
"""Not empty in a process that was forked from one in which this module was loaded."""
_IDLE: list[_Worker] = []
_COUNT = [0]
_LOCKS = [threading.Lock()]


def _after_fork() -> None:
    # Threads do not survive a fork: a new process makes new ones. The lock may have been held.
    _LOCKS[:] = [threading.Lock()]
    _IDLE.clear()
    _COUNT[0] = 0
    _FORKED.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _hire(most: int) -> list[_Worker]:
    """At most so many idle workers; new ones are made up to one for each processor."""
    with _LOCKS[0]:
        taken = _IDLE[-most:] if most else []
        del _IDLE[len(_IDLE) - len(taken) :]
        new = max(0, min(most - len(taken), (os.cpu_count() or 1) - _COUNT[0]))
        _COUNT[0] += new
    return [*taken, *(_Worker() for _ in range(new))]


def split(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` things in at most `parts` ranges that differ by one at most; none is empty."""
    parts = min(parts, count)
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def share(work: Work, ranges: Sequence[tuple[int, int]]) -> None:
    """Do `work` on every range, the first in this thread; ends when all are done.

    What finds no idle thread is done in this one. An exception in any range is raised here.
    """
    start = openmp() if len(ranges) > 1 else None
    if start is not None:
        _share_in_team(start, work, ranges)
    elif ranges:
        _share_among_workers(work, ranges)


def _share_in_team(start: Start, work: Work, ranges: Sequence[tuple[int, int]]) -> None:
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


def _share_among_workers(work: Work, ranges: Sequence[tuple[int, int]]) -> None:
    workers = _hire(len(ranges) - 1)
    given = ranges[len(ranges) - len(workers) :]
    for worker, bounds in zip(workers, given, strict=True):
        worker.start(work, bounds)
    errors: list[BaseException] = []
    try:
        for bounds in ranges[: len(ranges) - len(workers)]:
            work(*bounds)
    finally:
        for worker in workers:
            error = worker.finish()
            if error is not None:
                errors.append(error)
        with _LOCKS[0]:
            _IDLE.extend(workers)
    if errors:
        raise errors[0]
