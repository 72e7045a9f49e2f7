"""Native threads of our own, for processes without PyTorch: a team as OpenMP has it.

`start_team` has the interface of `abi.parallel.START`, and the functions that a task asks of
its team are named to the loader, so that the same kernels run in PyTorch's team and in this one.
The threads run without Python, watch for work a moment after each call, then sleep. Not here: their
code (`team_code`), how many are worth it (`threads`).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...ir.errors import BackendError
from .abi.parallel import BARRIER, TEAM_SIZE, THREAD_NUMBER
from .memory import aligned
from .processor import LLVM_LOCK, llvm_binding
from .team_code import (
    CONDITION,
    LEAD,
    MEMBER_WORDS,
    MUTEX,
    NUMBER,
    RUN,
    SERVE,
    SET_KEY,
    TEAM,
    TEAM_WORDS,
    WORD,
    team_code,
)

Start = Callable[[Any, Any, int, int], None]


class _Code:
    """The machine code, which stays for as long as the process: threads run in it."""

    def __init__(self) -> None:
        binding: Any = llvm_binding()
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        with LLVM_LOCK:
            triple: str = binding.get_process_triple()
            machine = binding.Target.from_triple(triple).create_target_machine(opt=2, jit=True)
            module = binding.parse_assembly(team_code(triple))
            engine: Any = binding.create_mcjit_compiler(module, machine)
            engine.finalize_object()
            for name in (BARRIER, THREAD_NUMBER, TEAM_SIZE):
                binding.add_symbol(name, engine.get_function_address(name))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
        self.serve: int = engine.get_function_address(SERVE)
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
        )
        self.run: Any = kind(engine.get_function_address(RUN))
        self.system: Any = ctypes.CDLL(None)
        key = ctypes.c_uint64(0)
        if self.system.pthread_key_create(ctypes.byref(key), None):
            raise OSError("no key for the data of a thread is left")
        set_key = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(engine.get_function_address(SET_KEY))
        set_key(key)


class _Team:
    """A team that grows to one member for each processor."""

    def __init__(self, code: _Code, most: int) -> None:
        self._code = code
        self._most = most
        self._members = 1
        self._busy = threading.Lock()
        self._memory = aligned((TEAM_WORDS + (most - 1) * MEMBER_WORDS) * WORD)
        self._memory[:] = 0
        self._words = self._memory.view(np.int64)
        self.address: int = self._memory.ctypes.data
        self._words[LEAD + TEAM] = self.address
        # Threads may wait in this memory until the process ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._memory))

    def run(self, task: int, argument: int, count: int) -> bool:
        """Do a task together; not done if the team is at work."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            while self._members < min(count, self._most) and self._hire():
                self._members += 1
            self._code.run(self.address, task, argument, min(count, self._members))
        finally:
            self._busy.release()
        return True

    def _hire(self) -> bool:
        """Start the next member; whether the system had a thread left."""
        first = TEAM_WORDS + (self._members - 1) * MEMBER_WORDS
        address = self.address + first * WORD
        self._words[first + NUMBER] = self._members
        self._words[first + TEAM] = self.address
        system = self._code.system
        mutex, condition = address + MUTEX * WORD, address + CONDITION * WORD
        system.pthread_mutex_init(ctypes.c_void_p(mutex), None)
        system.pthread_cond_init(ctypes.c_void_p(condition), None)
        thread = ctypes.c_void_p()
        serve, member = ctypes.c_void_p(self._code.serve), ctypes.c_void_p(address)
        if system.pthread_create(ctypes.byref(thread), None, serve, member):
            return False
        system.pthread_detach(thread)
        return True


_TEAMS: list[_Team] = []
"""The team of this process, once it has one."""
_LOCKS = [threading.Lock()]


def _after_fork() -> None:
    # Threads do not survive a fork: a new process makes new ones. The lock may have been held.
    _LOCKS[:] = [threading.Lock()]
    _TEAMS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_ADDRESS = ctypes.c_void_p


@cache
def start_team(most: int) -> Start | None:
    """A function like `abi.parallel.START`, of at most so many threads; `None` if impossible.

    A task that finds the team at work is done by the caller alone.
    """
    try:
        code = _Code()
    except (BackendError, OSError, AttributeError):
        return None

    def start(task: Any, argument: Any, count: int, _: int) -> None:
        function = ctypes.cast(task, _ADDRESS).value or 0
        place = ctypes.cast(argument, _ADDRESS).value or 0
        if not _TEAMS:
            with _LOCKS[0]:
                if not _TEAMS:
                    _TEAMS.append(_Team(code, most))
        if not _TEAMS[0].run(function, place, count):
            _Team(code, 1).run(function, place, 1)

    return start
