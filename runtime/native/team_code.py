"""The machine code of `native_team`: threads that take parts of work until none is left.

A piece of work is a job: a function in parts (`abi.parallel`). Who calls for others does not wait
for them to come: it takes one part after the other itself. Others that come in time enter the job,
take parts, and leave; at the end the caller waits for those inside alone, each of which has a part
to finish. So a thread that gets no processor costs nothing but its help.

Written with LLVM's own builder, since xDSL's `llvm` dialect has neither atomic operations nor calls
of functions that are given as arguments. Not here: how one waits (`system_code`), making the
threads (`native_team`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .system_code import GATE_WORDS, LINE, WORD, SystemWriter

_FUNCTION, _ARGUMENT, _MOST, _THINGS, _PARTS = 0, 1, 2, 3, 5
"""Words of a job: its function and the argument of that; how many may do parts; for each of two
phases how many things it has, and in how many parts they are taken."""
PHASES = 2
_WAITED = 3 + 2 * PHASES
"""How many nanoseconds the caller waited between phases."""
_STATE, _DONE, GATE = LINE, 2 * LINE, (2 + PHASES) * LINE
"""Whether it is open and how many are inside; for each phase how many parts are done; where those
wait who must."""
_TICKET = GATE + GATE_WORDS
"""How many jobs there were."""
_NUMBERING, _PROCESSOR, _STACKED, _MORE = _TICKET + 1, _TICKET + 2, _TICKET + 3, _TICKET + 4
"""Of a job for threads of another runtime, its function that tells a thread's number; the processor
that the caller runs on; whether the member that came last was there too; whether the caller has
more jobs at once."""
MEMBERS = _TICKET + LINE
"""The members follow, the caller first."""
TEAM, NUMBER, _PRESENT, _NEXT, MEMBER_GATE = 0, 1, LINE, 2 * LINE, (2 + PHASES) * LINE
"""Words of a member: its team and its number there; whether it is inside the job; for each phase
the next of its own parts; where it sleeps."""
MEMBER_WORDS = MEMBER_GATE + GATE_WORDS
_OPEN = 1 << 32
"""What an open job's state is more than how many are inside."""
_WATCH, _LONG_WATCH = 1500, 4000
"""How often a thread looks for what it waits for before it sleeps: less than 0.1 ms; and between
phases, where others would take the processor, and its nearest cache, a hundred times in a call."""
_GRACE = 1000
"""How often it looks whether another one who is at work takes its own parts itself."""

RUN, PHASED, ELSEWHERE, SERVE = "run_team", "run_phases", "run_elsewhere", "serve_team"
"""`run_team(team, function, argument, most, things, things, parts, parts)`, for both phases, gives
how many nanoseconds longer the caller waited for others than two parts take; -1 if nobody came, and
the processor that who is called gets is the caller's own.
`run_phases(team, function, argument, most, count, things, where, each, late)` does so many phases
one after the other, of as many things as `things` lists; the number of the one that is done stands
at `where`. Those of one thing are done alone, others are jobs of at most `each` parts a thread.
Once a job lost more than `late`, or nobody came, the rest is done alone; gives what that job lost.
`run_elsewhere(team, …, start, number)`, the same by the threads of another runtime: `start(f, team,
most, 0)` calls `f(team)` in so many threads and waits for them; `number()` tells which one it is.
`serve_team(member)`, the life of a member, never ends."""


def team_code(triple: str) -> str:
    """The module in LLVM's language."""
    from llvmlite import ir

    writer = _Writer(ir, ir.Module("team"), triple)
    writer.declare()
    writer.take_parts()
    writer.join()
    writer.serve()
    writer.run()
    writer.run_phases()
    writer.run_elsewhere()
    return str(writer.module)


class _Writer(SystemWriter):
    """Writes one function after another."""

    def take_parts(self) -> None:
        """`take_parts(job, number)`: do parts of each phase until there are none.

        The parts are shared out evenly, and the next time in the same way: what a thread reads may
        still be in the cache of its processor. Who has done its own takes those of others.
        """
        job, number = self._begin("take_parts", self._word, [self._pointer, self._word])
        builder = self._builder
        kind = self._ir.FunctionType(self._void, [self._word] * 5)
        function = builder.inttoptr(self._load(job, _FUNCTION), kind.as_pointer())
        argument, most = self._load(job, _ARGUMENT), self._load(job, _MOST)
        mine = builder.alloca(self._word)
        builder.store(self._word(0), mine)
        for phase in range(PHASES):
            things, parts = self._load(job, _THINGS + phase), self._load(job, _PARTS + phase)
            owners, grace, take, do, following, done = (
                self._block(name) for name in ("owners", "grace", "take", "do", "following", "done")
            )
            before = builder.block
            builder.branch(owners)
            builder.position_at_end(owners)
            turn = builder.phi(self._word)
            turn.add_incoming(self._word(0), before)
            shifted = builder.add(turn, number)
            wrapped = builder.sub(shifted, most)
            owner = builder.select(builder.icmp_unsigned("<", shifted, most), shifted, wrapped)
            stop = self._first_part(parts, builder.add(owner, self._word(1)), most)
            block = self._member(job, owner)
            counter = self._at(block, _NEXT + phase * LINE)
            # What another one is about to do is in the cache of its processor.
            other = builder.icmp_unsigned("!=", turn, self._word(0))
            present = builder.icmp_unsigned("!=", self._atomic(block, _PRESENT), self._word(0))
            builder.cbranch(builder.and_(other, present), grace, take)
            builder.position_at_end(grace)
            self._look(
                lambda counter=counter, stop=stop: self._builder.icmp_unsigned(
                    ">=", self._builder.load_atomic(counter, "seq_cst", WORD), stop
                ),
                self._word(_GRACE),
                following,
                take,
            )
            builder.position_at_end(take)
            part = builder.atomic_rmw("add", counter, self._word(1), "seq_cst")
            builder.cbranch(builder.icmp_unsigned("<", part, stop), do, following)
            builder.position_at_end(following)
            after = builder.add(turn, self._word(1))
            turn.add_incoming(after, following)
            builder.cbranch(builder.icmp_unsigned("<", after, most), owners, done)
            builder.position_at_end(do)
            first, end = (
                builder.udiv(builder.mul(things, bound), parts)
                for bound in (part, builder.add(part, self._word(1)))
            )
            builder.call(function, [argument, self._word(phase), first, end, number])
            builder.store(builder.add(builder.load(mine), self._word(1)), mine)
            before = self._add(job, _DONE + phase * LINE, 1)
            if phase == PHASES - 1:
                builder.branch(take)
            else:
                last = builder.icmp_unsigned("==", builder.add(before, self._word(1)), parts)
                with builder.if_then(last):
                    self._wake(job, GATE)
                builder.branch(take)
            builder.position_at_end(done)
            if phase < PHASES - 1:
                more = builder.icmp_unsigned(
                    "!=", self._load(job, _PARTS + phase + 1), self._word(0)
                )
                with builder.if_then(more):
                    waited = self._wait_timed(
                        job,
                        lambda phase=phase, parts=parts: self._builder.icmp_unsigned(
                            "==", self._atomic(job, _DONE + phase * LINE), parts
                        ),
                    )
                    with builder.if_then(builder.icmp_unsigned("==", number, self._word(0))):
                        builder.store(waited, self._at(job, _WAITED))
        builder.ret(builder.load(mine))

    def join(self) -> None:
        """`join_job(member)`: enter the job if it is open, take parts, leave.

        Gives how often it is worth looking for the next one: not at all where this member would
        only keep the caller from the processor.
        """
        (member,) = self._begin("join_job", self._word, [self._pointer])
        builder = self._builder
        job = builder.inttoptr(self._load(member, TEAM), self._pointer)
        apart = builder.icmp_signed("!=", self._here(0), self._atomic(job, _PROCESSOR))
        stacked = builder.zext(builder.not_(apart), self._word)
        builder.store_atomic(stacked, self._at(job, _STACKED), "seq_cst", WORD)
        patience = builder.select(apart, self._patience(job), self._word(0))
        look, trying, inside, outside = (
            self._block(name) for name in ("look", "trying", "inside", "outside")
        )
        builder.branch(look)
        builder.position_at_end(look)
        state = self._atomic(job, _STATE)
        is_open = builder.icmp_unsigned(">=", state, self._word(_OPEN))
        builder.cbranch(is_open, trying, outside)
        builder.position_at_end(trying)
        after = builder.add(state, self._word(1))
        tried = builder.cmpxchg(self._at(job, _STATE), state, after, "seq_cst", "seq_cst")
        builder.cbranch(builder.extract_value(tried, 1), inside, look)
        builder.position_at_end(inside)
        # What the job is, is read inside: it cannot become another one meanwhile.
        number = self._load(member, NUMBER)
        wanted = builder.icmp_unsigned("<", number, self._load(job, _MOST))
        with builder.if_then(builder.and_(wanted, apart)):
            self._set(member, _PRESENT, 1)
            self._call("take_parts", job, number)
            self._set(member, _PRESENT, 0)
        # The last one to leave a closed job wakes who waits for that.
        last = builder.icmp_unsigned("==", self._add(job, _STATE, -1), self._word(1))
        with builder.if_then(last):
            self._wake(job, GATE)
        builder.branch(outside)
        builder.position_at_end(outside)
        builder.ret(patience)

    def serve(self) -> None:
        """The life of a member."""
        (member,) = self._begin(SERVE, self._pointer, [self._pointer])
        builder = self._builder
        team = builder.inttoptr(self._load(member, TEAM), self._pointer)
        seen = builder.alloca(self._word)
        builder.store(self._word(0), seen)
        watch = builder.alloca(self._word)
        builder.store(self._word(_WATCH), watch)
        again = self._block("again")
        builder.branch(again)
        builder.position_at_end(again)
        self._wait(
            member,
            MEMBER_GATE,
            lambda: self._builder.icmp_unsigned(
                "!=", self._atomic(team, _TICKET), self._builder.load(seen)
            ),
            builder.load(watch),
        )
        builder.store(self._atomic(team, _TICKET), seen)
        builder.store(self._call("join_job", member), watch)
        builder.branch(again)

    def run(self) -> None:
        """Open the job, call members, take parts, close it, wait for those inside."""
        team, *values = self._begin(RUN, self._word, [self._pointer] + [self._word] * 7)
        builder = self._builder
        began = self._now()
        self._open(team, values)
        here = self._here(-1)
        builder.store_atomic(here, self._at(team, _PROCESSOR), "seq_cst", WORD)
        self._add(team, _TICKET, 1)
        self._each_member(team, values[2], lambda member, _: self._wake(member, MEMBER_GATE))
        mine = self._call("take_parts", team, self._word(0))
        self._add(team, _STATE, -_OPEN)

        def is_empty() -> Any:
            return self._builder.icmp_unsigned("==", self._atomic(team, _STATE), self._word(0))

        last = self._wait_timed(team, is_empty)
        waited = builder.add(last, self._load(team, _WAITED))
        took = builder.sub(builder.sub(self._now(), began), waited)
        none = builder.icmp_unsigned("==", mine, self._word(0))
        each = builder.udiv(took, builder.select(none, self._word(1), mine))
        lost = builder.sub(waited, builder.mul(each, self._word(2)))
        found = builder.select(none, self._word(0), lost)
        found = builder.select(builder.icmp_signed("<", found, self._word(0)), self._word(0), found)
        stacked = builder.icmp_unsigned("!=", self._atomic(team, _STACKED), self._word(0))
        all_parts = builder.add(values[3 + PHASES], values[4 + PHASES])
        vain = builder.and_(stacked, builder.icmp_unsigned("==", mine, all_parts))
        builder.ret(builder.select(vain, self._word(-1), found))

    def run_phases(self) -> None:
        """One job after the other, or what is not worth it alone."""
        word = self._word
        address = word.as_pointer()
        kinds = [self._pointer, word, word, word, word, address, address, word, word]
        team, function, argument, most, count, things, where, each, late = self._begin(
            PHASED, word, kinds
        )
        builder = self._builder
        kind = self._ir.FunctionType(self._void, [word] * 5)
        part = builder.inttoptr(function, kind.as_pointer())
        lost = builder.alloca(word)
        builder.store(word(0), lost)
        self._set(team, _MORE, 1)
        before, loop, after = builder.block, self._block("phase"), self._block("phases")
        builder.branch(loop)
        builder.position_at_end(loop)
        phase = builder.phi(word)
        phase.add_incoming(word(0), before)
        builder.store(phase, where)
        number = builder.load(builder.gep(things, [phase]))
        fine = builder.and_(
            builder.icmp_signed("<=", builder.load(lost), late),
            builder.icmp_signed(">=", builder.load(lost), word(0)),
        )
        several = builder.icmp_unsigned(">", number, word(1))
        with builder.if_else(builder.and_(fine, several)) as (together, alone):
            with together:
                parts = builder.mul(most, each)
                parts = builder.select(builder.icmp_unsigned("<", number, parts), number, parts)
                job = [team, function, argument, most, number, word(0), parts, word(0)]
                builder.store(self._call(RUN, *job), lost)
            with alone:
                builder.call(part, [argument, word(0), word(0), number, word(0)])
        following = builder.add(phase, word(1))
        phase.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, count), loop, after)
        builder.position_at_end(after)
        self._set(team, _MORE, 0)
        builder.ret(builder.load(lost))

    def run_elsewhere(self) -> None:
        """Do parts in the threads of another runtime, the caller among them."""
        query = self._ir.FunctionType(self._integer, []).as_pointer()
        (team,) = self._begin("take_elsewhere", self._void, [self._pointer])
        builder = self._builder
        ask = builder.inttoptr(self._load(team, _NUMBERING), query)
        self._call("take_parts", team, builder.zext(builder.call(ask, []), self._word))
        builder.ret_void()
        kinds = [self._pointer] + [self._word] * 9
        team, *values, start, number = self._begin(ELSEWHERE, self._void, kinds)
        builder = self._builder
        self._open(team, values)
        builder.store(number, self._at(team, _NUMBERING))
        kind = self._ir.FunctionType(
            self._void, [self._pointer, self._pointer, self._integer, self._integer]
        )
        take = builder.bitcast(self._functions["take_elsewhere"], self._pointer)
        most = builder.trunc(values[2], self._integer)
        function = builder.inttoptr(start, kind.as_pointer())
        builder.call(function, [take, team, most, self._integer(0)])
        builder.ret_void()

    def _first_part(self, parts: Any, owner: Any, most: Any) -> Any:
        """The first of the parts of a thread; a single one is the caller's."""
        builder = self._builder
        above = builder.sub(most, self._word(1))
        return builder.udiv(builder.add(builder.mul(parts, owner), above), most)

    def _member(self, team: Any, number: Any) -> Any:
        place = self._builder.mul(number, self._word(MEMBER_WORDS * WORD))
        return self._bytes(self._builder.gep(team, [place]), MEMBERS)

    def _wait_timed(self, job: Any, done: Callable[[], Any]) -> Any:
        """Wait at the gate of a job; gives nanoseconds."""
        start = self._now()
        self._wait(job, GATE, done, self._patience(job))
        return self._builder.sub(self._now(), start)

    def _patience(self, job: Any) -> Any:
        """How often it is worth looking for what others do."""
        more = self._builder.icmp_unsigned("!=", self._atomic(job, _MORE), self._word(0))
        return self._builder.select(more, self._word(_LONG_WATCH), self._word(_WATCH))

    def _open(self, job: Any, values: list[Any]) -> None:
        builder = self._builder
        for place, value in enumerate(values):
            builder.store(value, self._at(job, place))
        builder.store(self._word(0), self._at(job, _WAITED))
        for phase in range(PHASES):
            builder.store(self._word(0), self._at(job, _DONE + phase * LINE))

        def give(member: Any, number: Any) -> None:
            for phase, parts in enumerate(values[3 + PHASES :]):
                first = self._first_part(parts, number, values[2])
                self._builder.store(first, self._at(member, _NEXT + phase * LINE))

        self._each_member(job, values[2], give)
        self._set(self._member(job, self._word(0)), _PRESENT, 1)
        self._set(job, _STATE, _OPEN)

    def _each_member(self, team: Any, most: Any, body: Callable[[Any, Any], None]) -> None:
        builder = self._builder
        before, loop, after = builder.block, self._block("member"), self._block("members")
        builder.branch(loop)
        builder.position_at_end(loop)
        number = builder.phi(self._word)
        number.add_incoming(self._word(0), before)
        body(self._member(team, number), number)
        following = builder.add(number, self._word(1))
        number.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, most), loop, after)
        builder.position_at_end(after)
