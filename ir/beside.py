"""Computing something in another process beside what this one does.

A copy of this process (`fork`) begins at once with all that is in memory and gives back its result
alone. It takes Linux, two processors, and a process without threads that might hold a lock; else
the same is computed here when it is asked for. What is computed must change nothing, print nothing
and be a function of what is in memory: the result is the same either way.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from .progress import threads as of_progress

T = TypeVar("T")

_is_copy = False
"""Whether this process was made here: it makes no others."""


class Beside(Generic[T]):
    """The result of a function, computed in another process where that may be.

        with Beside(long) as other:
            something()
            result = other.result()

    Leaving ends the other process where nobody asked for its result.

    Args:
        function: without arguments; its result can be pickled.
        pays: whether it takes longer than a process does to begin, some hundredths of a second.
    """

    def __init__(self, function: Callable[[], T], *, pays: bool = True) -> None:
        self._function = function
        is_other = pays and processors() > 1
        self._process, self._pipe = _copied(function) if is_other else (0, -1)

    def __enter__(self) -> Beside[T]:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            self._end()

    def result(self) -> T:
        """What the function gives, or raises."""
        if self._process:
            data = b""
            # A process that came to no end, for want of memory or an error, gave less or nothing.
            with suppress(OSError), open(self._pipe, "rb", closefd=False) as pipe:
                data = pipe.read()
            self._end()
            with suppress(EOFError, pickle.UnpicklingError):
                return pickle.loads(data)
        return self._function()

    def _end(self) -> None:
        process, self._process = self._process, 0
        os.close(self._pipe)
        with suppress(ChildProcessError):  # where the host leaves its children to themselves
            os.waitpid(process, 0)


def processors() -> int:
    """How many processes may run at once; 1 where this one is not to be copied."""
    alone = threading.active_count() - of_progress() == 1
    is_first = threading.current_thread() is threading.main_thread()
    if _is_copy or not (sys.platform == "linux" and alone and is_first):
        return 1
    return len(os.sched_getaffinity(0))


def _copied(function: Callable[[], object]) -> tuple[int, int]:
    """A process that computes something, and where its result comes from; 0 where there is none."""
    global _is_copy
    source, sink = os.pipe()
    try:
        with warnings.catch_warnings():
            # Of threads that Python does not know, as BLAS has, which look after themselves.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    except OSError:
        os.close(source)
        os.close(sink)
        return 0, -1
    if process:
        os.close(sink)
        return process, source
    try:
        _is_copy = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        gc.disable()
        os.close(source)
        with open(sink, "wb") as pipe:
            pickle.dump(function(), pipe, pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)  # without what this process would do at its end
