"""The machine code of `native_team`: threads that wait for work, and what tasks ask of their team.

Written with LLVM's own builder, since xDSL's `llvm` dialect has neither atomic operations nor calls
of functions that are given as arguments. A thread first watches for work, for about as long as it
would take to wake it, and then sleeps. Not here: making the threads (`native_team`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .abi.parallel import BARRIER, TEAM_SIZE, THREAD_NUMBER

WORD = 8
TICKET, NUMBER, TEAM, ASLEEP, MUTEX, CONDITION, MEMBER_WORDS = 0, 8, 9, 16, 24, 32, 40
"""Words of a member: how often it was called; its number and the address of its team; whether it
sleeps; a mutex and a condition of POSIX threads."""
TASK, ARGUMENTS, COUNT, DONE, WAITING, ROUND, LEAD, TEAM_WORDS = 0, 1, 2, 8, 16, 24, 32, 48
"""Words of a team: its task, the argument of that and the number of members; how many have ended;
how many wait at the barrier, and how often it opened; `NUMBER` and `TEAM` of the member that calls,
`LEAD` words further. The members of numbers 1, 2, … follow."""
_WATCH, _WATCH_OTHERS = 4000, 2000
"""How often a member looks for work before it sleeps, and for other members before it lets other
threads of the system run in between."""

RUN, SERVE, SET_KEY = "run_team", "serve_team", "set_team_key"
"""`run_team(team, task, argument, count)`; `serve_team(member)`, which never ends;
`set_team_key(key)`: of `pthread_key_create`, before all else."""


def team_code(triple: str) -> str:
    """The module in LLVM's language."""
    from llvmlite import ir

    writer = _Writer(ir, ir.Module("team"), triple)
    writer.declare()
    writer.queries()
    writer.barrier()
    writer.serve()
    writer.run()
    return str(writer.module)


class _Writer:
    """Writes one function after another."""

    def __init__(self, ir: Any, module: Any, triple: str) -> None:
        self.module = module
        self._ir = ir
        self._word = ir.IntType(64)
        self._pointer = ir.IntType(8).as_pointer()
        self._void = ir.VoidType()
        self._nothing = ir.FunctionType(self._void, [])
        self._processor = triple.partition("-")[0]
        self._outside: dict[str, Any] = {}
        self._key = ir.GlobalVariable(module, self._word, "team_key")
        self._key.initializer = self._word(0)
        self._key.linkage = "internal"
        self._builder: Any = None

    def declare(self) -> None:
        """The functions of the system, and `set_team_key`."""
        ir, word, pointer = self._ir, self._word, self._pointer
        one, two = [pointer], [pointer, pointer]
        integer = ir.IntType(32)
        kinds: dict[str, tuple[Any, list[Any]]] = {
            "pthread_mutex_lock": (integer, one),
            "pthread_mutex_unlock": (integer, one),
            "pthread_cond_wait": (integer, two),
            "pthread_cond_signal": (integer, one),
            "pthread_getspecific": (pointer, [word]),
            "pthread_setspecific": (integer, [word, pointer]),
            "sched_yield": (integer, []),
        }
        for name, (result, arguments) in kinds.items():
            kind = ir.FunctionType(result, arguments)
            self._outside[name] = ir.Function(self.module, kind, name)
        (key,) = self._begin(SET_KEY, self._void, [word])
        self._builder.store(key, self._key)
        self._builder.ret_void()

    def queries(self) -> None:
        """The number of this thread and the size of its team; 0 and 1 outside a team."""
        integer = self._ir.IntType(32)
        for name, outside in ((THREAD_NUMBER, 0), (TEAM_SIZE, 1)):
            self._begin(name, integer, [])
            builder, member = self._builder, self._member()
            with builder.if_then(builder.icmp_unsigned("==", member, self._pointer(None))):
                builder.ret(integer(outside))
            if name == THREAD_NUMBER:
                value = builder.load(self._at(member, NUMBER))
            else:
                value = builder.load(self._at(self._team(member), COUNT))
            builder.ret(builder.trunc(value, integer))

    def barrier(self) -> None:
        """Waits for the other members; the last one opens it for the next time."""
        self._begin(BARRIER, self._void, [])
        builder, member = self._builder, self._member()
        with builder.if_then(builder.icmp_unsigned("==", member, self._pointer(None))):
            builder.ret_void()
        team = self._team(member)
        here = self._atomic(self._at(team, ROUND))
        before = builder.atomic_rmw("add", self._at(team, WAITING), self._word(1), "acq_rel")
        count = builder.load(self._at(team, COUNT))
        last = builder.icmp_signed("==", builder.add(before, self._word(1)), count)
        with builder.if_then(last):
            self._set(self._at(team, WAITING), self._word(0))
            self._set(self._at(team, ROUND), builder.add(here, self._word(1)))
            builder.ret_void()
        self._watch(
            lambda: self._builder.icmp_signed("!=", self._atomic(self._at(team, ROUND)), here)
        )
        builder.ret_void()

    def serve(self) -> None:
        """The life of a member."""
        (member,) = self._begin(SERVE, self._pointer, [self._pointer])
        builder, call = self._builder, self._call
        call("pthread_setspecific", builder.load(self._key), member)
        seen = builder.alloca(self._word)
        builder.store(self._word(0), seen)
        ticket, asleep = self._at(member, TICKET), self._at(member, ASLEEP)
        mutex, condition = (self._bytes(member, place) for place in (MUTEX, CONDITION))

        def is_called() -> Any:
            return self._builder.icmp_signed("!=", self._atomic(ticket), builder.load(seen))

        again = self._block("again")
        builder.branch(again)
        builder.position_at_end(again)
        called, sleep, look, wait, awake = (
            self._block(name) for name in ("called", "sleep", "look", "wait", "awake")
        )
        self._look(is_called, _WATCH, called, sleep)
        builder.position_at_end(sleep)
        call("pthread_mutex_lock", mutex)
        builder.branch(look)
        builder.position_at_end(look)
        # The lead first counts up the ticket, then asks whether to wake: one of both is seen.
        self._set(asleep, self._word(1), "seq_cst")
        now = self._atomic(ticket, "seq_cst")
        builder.cbranch(builder.icmp_signed("!=", now, builder.load(seen)), awake, wait)
        builder.position_at_end(wait)
        call("pthread_cond_wait", condition, mutex)
        builder.branch(look)
        builder.position_at_end(awake)
        self._set(asleep, self._word(0))
        call("pthread_mutex_unlock", mutex)
        builder.branch(called)
        builder.position_at_end(called)
        builder.store(self._atomic(ticket), seen)
        team = self._team(member)
        self._do(builder.load(self._at(team, TASK)), builder.load(self._at(team, ARGUMENTS)))
        builder.atomic_rmw("add", self._at(team, DONE), self._word(1), "release")
        builder.branch(again)

    def run(self) -> None:
        """Call the members, do the task as number 0, wait for the others."""
        kinds = [self._pointer, self._word, self._word, self._word]
        team, task, argument, count = self._begin(RUN, self._void, kinds)
        builder, call = self._builder, self._call
        for place, value in ((TASK, task), (ARGUMENTS, argument), (COUNT, count)):
            builder.store(value, self._at(team, place))
        for place in (DONE, WAITING):
            builder.store(self._word(0), self._at(team, place))
        key, outer = builder.load(self._key), self._member()
        call("pthread_setspecific", key, self._bytes(team, LEAD))
        self._each_member(team, count, self._wake)
        self._do(task, argument)
        others = builder.sub(count, self._word(1))
        self._watch(
            lambda: self._builder.icmp_signed("==", self._atomic(self._at(team, DONE)), others)
        )
        call("pthread_setspecific", key, outer)
        builder.ret_void()

    def _each_member(self, team: Any, count: Any, body: Callable[[Any], None]) -> None:
        builder = self._builder
        before = builder.block
        loop, inside, after = (self._block(name) for name in ("members", "member", "called"))
        builder.branch(loop)
        builder.position_at_end(loop)
        number = builder.phi(self._word)
        number.add_incoming(self._word(1), before)
        builder.cbranch(builder.icmp_signed("<", number, count), inside, after)
        builder.position_at_end(inside)
        place = builder.mul(builder.sub(number, self._word(1)), self._word(MEMBER_WORDS * WORD))
        first = builder.add(place, self._word(TEAM_WORDS * WORD))
        body(builder.gep(team, [first]))
        number.add_incoming(builder.add(number, self._word(1)), builder.block)
        builder.branch(loop)
        builder.position_at_end(after)

    def _wake(self, member: Any) -> None:
        builder, call = self._builder, self._call
        builder.atomic_rmw("add", self._at(member, TICKET), self._word(1), "seq_cst")
        asleep = self._atomic(self._at(member, ASLEEP), "seq_cst")
        with builder.if_then(builder.icmp_signed("!=", asleep, self._word(0))):
            mutex = self._bytes(member, MUTEX)
            call("pthread_mutex_lock", mutex)
            call("pthread_cond_signal", self._bytes(member, CONDITION))
            call("pthread_mutex_unlock", mutex)

    def _watch(self, done: Callable[[], Any]) -> None:
        """Go on once `done`; let other threads run when that takes long."""
        builder = self._builder
        after, rest = self._block("done"), self._block("rest")
        self._look(done, _WATCH_OTHERS, after, rest)
        builder.position_at_end(rest)
        self._call("sched_yield")
        builder.cbranch(done(), after, rest)
        builder.position_at_end(after)

    def _look(self, done: Callable[[], Any], times: int, after: Any, rest: Any) -> None:
        """Go to `after` once `done`, to `rest` when that was not so many times."""
        builder, before = self._builder, self._builder.block
        look, again = self._block("look"), self._block("next")
        builder.branch(look)
        builder.position_at_end(look)
        tried = builder.phi(self._word)
        tried.add_incoming(self._word(0), before)
        builder.cbranch(done(), after, again)
        builder.position_at_end(again)
        self._pause()
        more = builder.add(tried, self._word(1))
        tried.add_incoming(more, again)
        builder.cbranch(builder.icmp_signed("<", more, self._word(times)), look, rest)

    def _pause(self) -> None:
        """Tell the processor that this thread only waits."""
        ir = self._ir
        if self._processor == "x86_64":
            pause = self.module.declare_intrinsic("llvm.x86.sse2.pause", (), self._nothing)
            self._builder.call(pause, [])
        elif self._processor in ("aarch64", "arm64"):
            kind = ir.FunctionType(self._void, [ir.IntType(32)])
            hint = self.module.declare_intrinsic("llvm.aarch64.hint", (), kind)
            self._builder.call(hint, [ir.IntType(32)(1)])

    def _begin(self, name: str, result: Any, arguments: list[Any]) -> Any:
        kind = self._ir.FunctionType(result, arguments)
        function = self._ir.Function(self.module, kind, name)
        self._builder = self._ir.IRBuilder(function.append_basic_block())
        return function.args

    def _block(self, name: str) -> Any:
        return self._builder.append_basic_block(name)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._builder.call(self._outside[name], arguments)

    def _do(self, task: Any, argument: Any) -> None:
        kind = self._ir.FunctionType(self._void, [self._word])
        self._builder.call(self._builder.inttoptr(task, kind.as_pointer()), [argument])

    def _member(self) -> Any:
        return self._call("pthread_getspecific", self._builder.load(self._key))

    def _team(self, member: Any) -> Any:
        return self._builder.inttoptr(self._builder.load(self._at(member, TEAM)), self._pointer)

    def _bytes(self, base: Any, place: int) -> Any:
        return self._builder.gep(base, [self._word(place * WORD)])

    def _at(self, base: Any, place: int) -> Any:
        return self._builder.bitcast(self._bytes(base, place), self._word.as_pointer())

    def _atomic(self, address: Any, order: str = "acquire") -> Any:
        return self._builder.load_atomic(address, order, WORD)

    def _set(self, address: Any, value: Any, order: str = "release") -> None:
        self._builder.store_atomic(value, address, order, WORD)
