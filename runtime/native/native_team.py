"""Native threads of our own: a team that takes parts of work, see `team_code`.

`Team` is one for the process; its threads run without Python. Where PyTorch's threads do the work,
they take parts as these do (`elsewhere`). Not here: the threads' code, how many are worth it
(`threads`).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError
from .addresses import address_of
from .jit import assembled
from .memory import aligned
from .processor import llvm_binding
from .system_code import CONDITION, MUTEX, WORD
from .team_code import (
    ELSEWHERE,
    GATE,
    MEMBER_GATE,
    MEMBER_WORDS,
    MEMBERS,
    NUMBER,
    PHASED,
    PHASES,
    RUN,
    SERVE,
    TEAM,
    team_code,
)

Things = tuple[int, int]
"""How many there are of each phase."""
_TOO_LATE, _TURN, _PAUSE, _LONGEST_PAUSE = 100_000, 4_000_000, 16, 1_000_000_000
"""A thread that lost its processor in the middle of a part holds up all. If that cost so many
nanoseconds, callers do without others for so many times as long, twice as long as the last time, at
most so many nanoseconds. What is longer than a turn of another program is rare, and counts as
one."""
_VAIN, _LONGEST_VAIN = 320_000, 5_000_000
"""For so many nanoseconds they do where there was no processor for others, twice as long as the
last time, at most so many: to call others costs little then, but brings nothing."""
_MOST_ELSEWHERE = 64
PARTS_EACH = 4
"""Parts of a phase for each thread: one that comes late leaves more of them to others."""


class _Code:
    """The machine code, which stays for as long as the process: threads run in it."""

    def __init__(self) -> None:
        library = assembled(team_code(llvm_binding().get_process_triple()))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
        job = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * (1 + 2 * PHASES)
        self.run = library.function(RUN, job, ctypes.c_int64)
        phased = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2]
        self.phased = library.function(PHASED, [*phased, *[ctypes.c_int64] * 2], ctypes.c_int64)
        self.elsewhere = library.function(ELSEWHERE, [*job, ctypes.c_void_p, ctypes.c_void_p])
        self.serve: Any = library.function(SERVE, [ctypes.c_void_p])
        self.system: Any = ctypes.CDLL(None)

    def team(self, most: int) -> Array:
        """The memory of a team of so many threads."""
        memory = aligned((MEMBERS + most * MEMBER_WORDS) * WORD)
        memory[:] = 0
        words, address = memory.view(np.int64), address_of(memory)
        gates = [GATE]
        for number in range(most):
            first = MEMBERS + number * MEMBER_WORDS
            words[first + TEAM], words[first + NUMBER] = address, number
            gates.append(first + MEMBER_GATE)
        for gate in gates:
            mutex, condition = (address + (gate + place) * WORD for place in (MUTEX, CONDITION))
            self.system.pthread_mutex_init(ctypes.c_void_p(mutex), None)
            self.system.pthread_cond_init(ctypes.c_void_p(condition), None)
        return memory


def _parts(things: Things, count: int) -> tuple[int, int]:
    # By the threads that are asked for, not those that come: who has so few things that each is a
    # part gave each member memory for one.
    most = count * PARTS_EACH
    return min(things[0], most), min(things[1], most)


class Team:
    """A team that grows to so many threads, the caller among them."""

    def __init__(self, code: _Code, most: int) -> None:
        self._code = code
        self._most = most
        self._members = 1
        self._busy = threading.Lock()
        self._pause, self._alone_until = 0, 0
        memory = code.team(most)
        # Threads may wait in this memory until the process ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        self._address = address_of(memory)

    def run(self, part: Any, argument: Any, count: int, things: Things) -> bool:
        """Do work in parts together, see `threads.together`; whether it was done.

        It is not if the team is at work, or lost its processors to others a moment ago.
        """

        parts = _parts(things, count)

        def run(count: int) -> int:
            return self._code.run(self._address, part, argument, count, *things, *parts)

        return self._running(run, count)

    def run_phases(self, part: Any, argument: int, count: int, things: Array, where: int) -> bool:
        """The same for phases one after the other, see `threads.in_phases`."""

        def run(count: int) -> int:
            job = (self._address, part, argument, count, things.size, address_of(things), where)
            return self._code.phased(*job, PARTS_EACH, _TOO_LATE)

        return self._running(run, count)

    def _running(self, run: Callable[[int], int], count: int) -> bool:
        """Let so many threads do something, which gives how late it was; whether it was done."""
        if perf_counter_ns() < self._alone_until or not self._busy.acquire(blocking=False):
            return False
        try:
            while self._members < min(count, self._most) and self._hire():
                self._members += 1
            lost = run(min(count, self._members))
            if lost > _TOO_LATE:
                least = _PAUSE * min(lost, _TURN)
                self._pause = min(max(least, 2 * self._pause), _LONGEST_PAUSE)
                self._alone_until = perf_counter_ns() + self._pause
            elif lost < 0:
                self._pause = min(max(_VAIN, 2 * self._pause), _LONGEST_VAIN)
                self._alone_until = perf_counter_ns() + self._pause
            else:
                self._pause //= 2
        finally:
            self._busy.release()
        return True

    def _hire(self) -> bool:
        """Start the next member; whether the system had a thread left."""
        system, thread = self._code.system, ctypes.c_void_p()
        member = self._address + (MEMBERS + self._members * MEMBER_WORDS) * WORD
        serve, place = self._code.serve, ctypes.c_void_p(member)
        if system.pthread_create(ctypes.byref(thread), None, serve, place):
            return False
        system.pthread_detach(thread)
        return True


_TEAMS: list[Team] = []
"""The team of this process, once it has one."""
_LOCKS = [threading.Lock()]


def _after_fork() -> None:
    # Threads do not survive a fork: a new process makes new ones. The lock may have been held.
    _LOCKS[:] = [threading.Lock()]
    _TEAMS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _code() -> _Code | None:
    try:
        return _Code()
    except (BackendError, OSError, AttributeError):
        return None


def team_of(most: Callable[[], int]) -> Team | None:
    """The team of this process; `None` where threads cannot be made.

    Args:
        most: tells how many threads it may have, the caller among them; asked once.
    """
    code = _code()
    if code is None:
        return None
    if not _TEAMS:
        with _LOCKS[0]:
            if not _TEAMS:
                _TEAMS.append(Team(code, most()))
    return _TEAMS[0]


class Elsewhere(threading.local):
    """Threads of another runtime that take parts; each thread of ours calls for others of them."""

    def __init__(self, start: Any, number: Any) -> None:
        """Args: functions as OpenMP's `GOMP_parallel` and `omp_get_thread_num`."""
        self._functions = start, number
        self._code = _code()
        if self._code is not None:
            self._memory = self._code.team(_MOST_ELSEWHERE)
            self._address = address_of(self._memory)

    def run(self, part: Any, argument: Any, count: int, things: Things) -> bool:
        """Do work in parts together, see `threads.together`; whether it was done."""
        if self._code is None:
            return False
        parts = _parts(things, count)
        job = (self._address, part, argument, min(count, _MOST_ELSEWHERE), *things, *parts)
        self._code.elsewhere(*job, *self._functions)
        return True
