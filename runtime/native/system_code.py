"""Words of memory, gates and the clock in code of LLVM's own builder, by the functions of POSIX.

A gate is where threads wait: whoever does looks for a moment, then sleeps, so that the processor is
free for others. Not here: what waits for what (`team_code`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WORD, LINE = 8, 8
"""Bytes of a word; words of a line of the cache, which are never two threads' at a time."""
_WAITING, MUTEX, CONDITION, GATE_WORDS = 0, LINE, 2 * LINE, 3 * LINE
"""Words of a gate: how many sleep there; a mutex and a condition of POSIX threads."""
_CLOCK, _CLOCK_APPLE = 1, 6
"""Numbers of the system's monotonic clock."""


class SystemWriter:
    """Writes one function after another."""

    def __init__(self, ir: Any, module: Any, triple: str) -> None:
        self.module = module
        self._ir = ir
        self._word = ir.IntType(64)
        self._integer = ir.IntType(32)
        self._pointer = ir.IntType(8).as_pointer()
        self._void = ir.VoidType()
        self._processor = triple.partition("-")[0]
        self._linux = "linux" in triple
        self._clock = _CLOCK_APPLE if "apple" in triple else _CLOCK
        self._functions: dict[str, Any] = {}
        self._builder: Any = None

    def declare(self) -> None:
        """The functions of the system."""
        one, two = [self._pointer], [self._pointer, self._pointer]
        for name, arguments in (
            ("pthread_mutex_lock", one),
            ("pthread_mutex_unlock", one),
            ("pthread_cond_wait", two),
            ("pthread_cond_broadcast", one),
        ):
            kind = self._ir.FunctionType(self._integer, arguments)
            self._functions[name] = self._ir.Function(self.module, kind, name)
        kind = self._ir.FunctionType(self._integer, [self._integer, self._word.as_pointer()])
        self._functions["clock_gettime"] = self._ir.Function(self.module, kind, "clock_gettime")
        if self._linux:
            kind = self._ir.FunctionType(self._integer, [])
            self._functions["sched_getcpu"] = self._ir.Function(self.module, kind, "sched_getcpu")

    def _here(self, unknown: int) -> Any:
        """The number of the processor; another one where the system does not tell it."""
        if not self._linux:
            return self._word(unknown)
        return self._builder.sext(self._call("sched_getcpu"), self._word)

    def _now(self) -> Any:
        builder = self._builder
        with builder.goto_entry_block():
            time = builder.alloca(self._word, 2)
        self._call("clock_gettime", self._integer(self._clock), time)
        seconds = builder.load(time)
        rest = builder.load(builder.gep(time, [self._word(1)]))
        return builder.add(builder.mul(seconds, self._word(10**9)), rest)

    def _wait(self, base: Any, gate: int, done: Callable[[], Any], watch: Any) -> None:
        """Go on once `done`: look so many times, then sleep at a gate."""
        builder = self._builder
        sleep, check, wait, awake, after = (
            self._block(name) for name in ("sleep", "check", "wait", "awake", "after")
        )
        self._look(done, watch, after, sleep)
        builder.position_at_end(sleep)
        mutex, condition = (self._bytes(base, gate + place) for place in (MUTEX, CONDITION))
        self._call("pthread_mutex_lock", mutex)
        # Who waits first says so, then looks; who changes what it waits for first changes it, then
        # asks whether anybody waits: one of both is seen.
        self._add(base, gate + _WAITING, 1)
        builder.branch(check)
        builder.position_at_end(check)
        builder.cbranch(done(), awake, wait)
        builder.position_at_end(wait)
        self._call("pthread_cond_wait", condition, mutex)
        builder.branch(check)
        builder.position_at_end(awake)
        self._add(base, gate + _WAITING, -1)
        self._call("pthread_mutex_unlock", mutex)
        builder.branch(after)
        builder.position_at_end(after)

    def _look(self, done: Callable[[], Any], times: Any, after: Any, rest: Any) -> None:
        """Go to `after` once `done`, to `rest` when that was not so many times."""
        builder, before = self._builder, self._builder.block
        look, again = self._block("look"), self._block("again")
        builder.branch(look)
        builder.position_at_end(look)
        tried = builder.phi(self._word)
        tried.add_incoming(self._word(0), before)
        builder.cbranch(done(), after, again)
        builder.position_at_end(again)
        self._pause()
        more = builder.add(tried, self._word(1))
        tried.add_incoming(more, again)
        builder.cbranch(builder.icmp_unsigned("<", more, times), look, rest)

    def _wake(self, base: Any, gate: int) -> None:
        """Wake those at a gate."""
        waiting = self._atomic(base, gate + _WAITING)
        with self._builder.if_then(self._builder.icmp_unsigned("!=", waiting, self._word(0))):
            # Who is about to sleep does so first, since only sleepers are woken.
            mutex = self._bytes(base, gate + MUTEX)
            self._call("pthread_mutex_lock", mutex)
            self._call("pthread_mutex_unlock", mutex)
            self._call("pthread_cond_broadcast", self._bytes(base, gate + CONDITION))

    def _pause(self) -> None:
        """Tell the processor that this thread only waits."""
        ir = self._ir
        if self._processor == "x86_64":
            nothing = ir.FunctionType(self._void, [])
            pause = self.module.declare_intrinsic("llvm.x86.sse2.pause", (), nothing)
            self._builder.call(pause, [])
        elif self._processor in ("aarch64", "arm64"):
            kind = ir.FunctionType(self._void, [self._integer])
            hint = self.module.declare_intrinsic("llvm.aarch64.hint", (), kind)
            self._builder.call(hint, [self._integer(1)])

    def _begin(self, name: str, result: Any, arguments: list[Any]) -> Any:
        kind = self._ir.FunctionType(result, arguments)
        function = self._functions[name] = self._ir.Function(self.module, kind, name)
        self._builder = self._ir.IRBuilder(function.append_basic_block())
        return function.args

    def _block(self, name: str) -> Any:
        return self._builder.append_basic_block(name)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._builder.call(self._functions[name], arguments)

    def _bytes(self, base: Any, place: int) -> Any:
        return self._builder.gep(base, [self._word(place * WORD)])

    def _at(self, base: Any, place: int) -> Any:
        return self._builder.bitcast(self._bytes(base, place), self._word.as_pointer())

    def _load(self, base: Any, place: int) -> Any:
        return self._builder.load(self._at(base, place))

    def _atomic(self, base: Any, place: int) -> Any:
        return self._builder.load_atomic(self._at(base, place), "seq_cst", WORD)

    def _add(self, base: Any, place: int, value: int) -> Any:
        """Add to a word; gives what it was before."""
        place = self._at(base, place)
        return self._builder.atomic_rmw("add", place, self._word(value), "seq_cst")

    def _set(self, base: Any, place: int, value: int) -> None:
        place = self._at(base, place)
        self._builder.store_atomic(self._word(value), place, "seq_cst", WORD)
