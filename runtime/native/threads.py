"""One piece of work in several threads, each of which takes the next part when it is ready.

Kernels run in a team of native threads (`native_team`). Operators of PyTorch run them in the
threads that PyTorch itself uses, which may still be awake from the operator before.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...ir.arrays import Array
from .native_team import PARTS_EACH as PARTS_EACH
from .native_team import Elsewhere, Things, team_of

WORTH_A_MEMBER = 800_000
"""Products of int8 for which one more thread of a team saves more than it costs."""
WORTH_A_THREAD = 2_000_000
"""The same for work that is shared by `share`, where each thread starts with Python's lock."""

Work = Callable[[int, int], None]
_PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)


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


def together(part: Any, argument: Any, count: int, things: Things) -> None:
    """Do work in parts, in this thread and in others that have the time; ends when all is done.

    Args:
        part: a function of C, see `abi.parallel`.
        argument: of it: bytes, an address or `None`.
        count: threads at most, this one among them.
        things: of each phase. A part is one of them where others help and they are at most
            `PARTS_EACH` a thread, even if fewer threads come.
    """
    team = team_of(processors) if count > 1 else None
    if team is None or not team.run(part, argument, count, things):
        alone(part, argument, things)


def in_phases(part: Any, argument: int, count: int, things: Array, where: int) -> bool:
    """Do work phase by phase; whether it was done, which it is not where others have no time.

    Args:
        part: address of a function of C, see `abi.parallel`.
        argument: of it.
        count: threads at most, this one among them.
        things: of each phase, int64.
        where: address at which the part finds the number of the phase.
    """
    team = team_of(processors)
    return team is not None and team.run_phases(part, argument, count, things, where)


def alone(part: Any, argument: Any, things: Things) -> None:
    """Do the same in this thread."""
    for phase, number in enumerate(things):
        if number:
            part(argument, phase, 0, number, 0)


def phases_with_pytorch(part: Any, argument: int, count: int, things: Array, where: int) -> bool:
    """The same as `in_phases` in PyTorch's threads, see `with_pytorch`."""
    threads = _openmp() if not _FORKED else None
    if threads is None:
        return in_phases(part, argument, count, things, where)
    phase, alone = ctypes.c_int64.from_address(where), _PART(part)
    for number, size in enumerate(things.tolist()):
        phase.value = number
        if size == 1:
            alone(argument, 0, 0, 1, 0)
        elif not threads.run(part, argument, count, (size, 0)):
            return False
    return True


class Crew(NamedTuple):
    """Whose threads do the work.

    Attributes:
        together: as the function of that name.
        in_phases: as the function of that name.
    """

    together: Callable[[Any, Any, int, Things], None]
    in_phases: Callable[[Any, int, int, Array, int], bool]


def with_pytorch(part: Any, argument: Any, count: int, things: Things) -> None:
    """Do the same in PyTorch's threads, which then do not compete with ours.

    They are there if PyTorch has an OpenMP runtime with GNU's interface. They do not survive a
    fork, and it does not notice: forked processes have ours.
    """
    threads = _openmp() if count > 1 and not _FORKED else None
    if threads is None or not threads.run(part, argument, count, things):
        together(part, argument, count, things)


OURS, OF_PYTORCH = Crew(together, in_phases), Crew(with_pytorch, phases_with_pytorch)


@cache
def _openmp() -> Elsewhere | None:
    torch: Any = sys.modules["torch"]
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        # A search in this library also finds what it is linked with: the very runtime it uses.
        library: Any = ctypes.CDLL(str(path))
        return Elsewhere(getattr(library, _START), getattr(library, _NUMBER))
    except (OSError, AttributeError):
        return None


_START, _NUMBER = "GOMP_parallel", "omp_get_thread_num"
"""Starts a team of OpenMP: a function, its argument, the number of threads, 0. Tells there which
thread it is."""
_FORKED: list[bool] = []
"""Not empty in a process that was forked from one in which this module was loaded."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _FORKED.append(True))


def split(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` things in at most `parts` ranges that differ by one at most; none is empty."""
    parts = min(parts, count)
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def share(work: Work, ranges: Sequence[tuple[int, int]], threads: int | None = None) -> None:
    """Do `work` on every range; ends when all are done. An exception in any is raised here.

    Args:
        work: what is done on a range.
        ranges: each is taken by the next thread that is ready.
        threads: most, this one among them; one for each range when not given.
    """
    count = len(ranges) if threads is None else min(threads, len(ranges))
    errors = list[BaseException]()

    def part(_: int | None, __: int, first: int, end: int, ___: int) -> None:
        try:
            for bounds in ranges[first:end]:
                work(*bounds)
        except BaseException as error:  # raised again in the thread that waits
            errors.append(error)

    function: Any = _PART(part)
    together(function, None, count, (len(ranges), 0))
    if errors:
        raise errors[0]
