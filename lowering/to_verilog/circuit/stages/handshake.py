"""How a stage moves beats, read off the logic of valid and ready in its module.

A `Handshake` is what a module does to its valid and ready signals, cycle by cycle, without data:
the ops and registers that `in_ready` and `out_valid` depend on, evaluated. `schedule` runs those of
a whole network. What a cycle does is kept by all that it depends on, so that each is evaluated
once.

Registers that count by themselves, whenever one bit lets them, go round for ever: they are a
*position* in a table of what the rest of the logic sees of them. So times at which states are
equal, and what stands in the tables from there on, are followed by the same cycles, which
`schedule` uses.
Not here: data, and the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
from xdsl.dialects import comb, hw, seq
from xdsl.ir import Operation, SSAValue

from .....dialects.shapes import bit_width
from .....ir.errors import LoweringError
from ..modules import named_ports

Bits = Any
"""A number, or an int64 array of numbers, below 2^width."""

Values = dict[SSAValue, Bits]

State = tuple[int, ...]

Signals = tuple[bool, ...]

_TABULATED = 20
"""Bits of counters of which the next number is computed for all numbers at once."""

_LONGEST = 1 << 16
"""Numbers that other counters go through, at most."""

_SYMBOLS = 256
"""Different things that the logic sees of a position, at most."""


@dataclass(frozen=True)
class Cycle:
    """What one cycle does.

    Attributes:
        valid: `out_valid` of each output.
        ready: `in_ready` of each input.
        after: the state after it.
        moved: for each position 1 where it goes on.
    """

    valid: Signals
    ready: Signals
    after: State
    moved: tuple[int, ...]


@dataclass(frozen=True)
class _Rounds:
    """Registers that count by themselves while `step` is 1.

    Attributes:
        step: the bit.
        registers: those that count.
        seen: what the rest of the logic reads of them.
        table: the symbol of what it reads, number by number.
        symbols: the values of `seen` for each symbol.
    """

    step: SSAValue
    registers: tuple[seq.CompRegOp, ...]
    seen: tuple[SSAValue, ...]
    table: bytes
    symbols: tuple[tuple[int, ...], ...]


class Handshake:
    """The handshake of one stage, after reset.

    Attributes:
        first: what the registers that are no positions hold after reset: a state.
        tables: what the logic sees at each position, a byte each, going round.
        passes_ready: whether `out_ready` reaches an `in_ready` without a register between.

    Raises:
        LoweringError: the handshake depends on data, or on what registers hold before reset.
    """

    def __init__(self, module: hw.HWModuleOp) -> None:
        arguments, results = named_ports(module)
        self._in_valid, self._out_ready, self._out_valid, self._in_ready = (
            [value for name, value in side.items() if name.endswith(end)]
            for side in (arguments, results)
            for end in ("_valid", "_ready")
        )
        self._clock, self._reset = arguments["clock"], arguments["reset"]
        inside = self._depended_on(module)
        self._ops = [op for op in inside if not isinstance(op, seq.CompRegOp)]
        self._registers = [op for op in inside if isinstance(op, seq.CompRegOp)]
        leaves = [*self._in_valid, *self._out_ready, self._reset]
        leaves += [register.data for register in self._registers]
        self._support = {leaf: frozenset([leaf]) for leaf in leaves}
        for op in self._ops:
            parts = [self._support[value] for value in op.operands]
            self._support[op.results[0]] = frozenset().union(*parts)
        self.passes_ready = any(
            not self._support[x].isdisjoint(self._out_ready) for x in self._in_ready
        )
        self._rounds = self._all_rounds()
        self.tables = tuple(rounds.table for rounds in self._rounds)
        counted = {register for rounds in self._rounds for register in rounds.registers}
        self._kept = [r for r in self._registers if r not in counted]
        self.first = tuple(map(_first, self._kept))
        wanted = [*self._in_ready, *self._out_valid, *(rounds.step for rounds in self._rounds)]
        wanted += [value for r in self._kept for value in _read_by(r)]
        given = [value for rounds in self._rounds for value in rounds.seen]
        self._needed = self._making(wanted, given)
        self._known: dict[tuple[object, ...], Cycle] = {}

    def valid(self, state: State, seen: State, inputs: Signals) -> Signals:
        """`out_valid` of each output.

        Args:
            state: at the beginning of the cycle.
            seen: what stands at each position.
            inputs: `in_valid` of each input.
        """
        return self.cycle(state, seen, inputs, (False,) * len(self._out_ready)).valid

    def cycle(self, state: State, seen: State, inputs: Signals, outputs: Signals) -> Cycle:
        """What a cycle does; `outputs` are `out_ready` of each output."""
        key = state, seen, inputs, outputs
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._worked_out(*key)
        return known

    def _depended_on(self, module: hw.HWModuleOp) -> list[Operation]:
        """The ops that valid and ready depend on, each after what it takes within a cycle."""
        inside: dict[Operation, None] = {}
        allowed = {*self._in_valid, *self._out_ready, self._reset, self._clock}
        waiting = [*self._in_ready, *self._out_valid]
        while waiting:
            op = waiting[-1].owner
            if waiting[-1] in allowed or op in inside:
                waiting.pop()
                continue
            if not isinstance(op, Operation) or isinstance(op, hw.InstanceOp):
                raise LoweringError(
                    f"the handshake of stage '{module.sym_name.data}' depends on data"
                )
            before = [x for x in op.operands if x not in allowed and x.owner not in inside]
            if isinstance(op, seq.CompRegOp):
                inside[op] = None
                waiting[:0] = op.operands  # after all that reads it
            elif before:
                waiting += before
            else:
                inside[op] = None
        return list(inside)

    def _making(
        self, values: Iterable[SSAValue], given: Iterable[SSAValue] = ()
    ) -> list[Operation]:
        """The ops that make values of registers, inputs and `given` ones, in order."""
        given = set(given)
        wanted = set(values) - given
        ops: list[Operation] = []
        for op in reversed(self._ops):
            if op.results[0] in wanted:
                ops.append(op)
                wanted |= set(op.operands) - given
        return ops[::-1]

    def _all_rounds(self) -> list[_Rounds]:
        by_step: dict[SSAValue, list[seq.CompRegOp]] = {}
        for register in self._registers:
            keeps = register.input.owner
            alone = register.reset is None or register.reset is self._reset
            if isinstance(keeps, comb.MuxOp) and keeps.false_value is register.data and alone:
                by_step.setdefault(keeps.cond, []).append(register)
        found = [
            self._gone_round(step, group)
            for step, candidates in by_step.items()
            for group in self._closed(candidates)
        ]
        return [rounds for rounds in found if rounds is not None]

    def _closed(self, candidates: list[seq.CompRegOp]) -> list[list[seq.CompRegOp]]:
        """Registers whose next numbers are functions of one another, in groups."""
        makers = {r: {v.owner for v in self._support[_next(r)]} for r in candidates}
        while outside := [r for r, own in makers.items() if not own <= makers.keys()]:
            for register in outside:
                del makers[register]
        groups: list[set[object]] = []
        for register, own in makers.items():
            joined: set[object] = {register, *own}
            for group in [group for group in groups if not group.isdisjoint(joined)]:
                groups.remove(group)
                joined |= group
            groups.append(joined)
        return [[r for r in candidates if r in group] for group in groups]

    def _gone_round(self, step: SSAValue, group: Sequence[seq.CompRegOp]) -> _Rounds | None:
        """The registers as a position; `None` where they do not come back to where they begin."""
        seen = self._seen_of(group)
        following = [_next(register) for register in group]
        ops = self._making([*following, *seen])
        widths = [bit_width(register.data.type) or 1 for register in group]
        start = tuple(map(_first, group))

        def computed(numbers: Iterable[Bits]) -> Values:
            values: Values = dict(zip((r.data for r in group), numbers, strict=True))
            return _evaluated(ops, values)

        every: list[tuple[int, ...]] = []
        if sum(widths) <= _TABULATED:
            every = _orbit(computed, widths, start, following, seen)
        else:
            now = start
            while len(every) <= _LONGEST:
                values = computed(now)
                every.append(tuple(values[value] for value in seen))
                now = tuple(values[value] for value in following)
                if now == start:
                    break
            else:
                every = []
        numbers: dict[tuple[int, ...], int] = {}
        table = [numbers.setdefault(symbol, len(numbers)) for symbol in every]
        if not table or len(numbers) > _SYMBOLS:
            return None
        return _Rounds(step, tuple(group), seen, bytes(table), tuple(numbers))

    def _seen_of(self, group: Sequence[seq.CompRegOp]) -> tuple[SSAValue, ...]:
        """Functions of those registers alone that something else reads."""
        own = {register.data for register in group}
        keeping = {register.input.owner for register in group}
        alone = {v for v, of in self._support.items() if of and of <= own}
        read = [*self._in_ready, *self._out_valid]
        for op in self._ops:
            if op.results[0] not in alone and op not in keeping:
                read += op.operands
        for register in self._registers:
            if register not in group:
                read += _read_by(register)
        return tuple(dict.fromkeys(value for value in read if value in alone))

    def _worked_out(self, state: State, seen: State, inputs: Signals, outputs: Signals) -> Cycle:
        values: Values = {self._reset: 0}
        values |= zip(self._in_valid, map(int, inputs), strict=True)
        values |= zip(self._out_ready, map(int, outputs), strict=True)
        values |= zip((register.data for register in self._kept), state, strict=True)
        for rounds, symbol in zip(self._rounds, seen, strict=True):
            values |= zip(rounds.seen, rounds.symbols[symbol], strict=True)
        _evaluated(self._needed, values)
        return Cycle(
            tuple(bool(values[value]) for value in self._out_valid),
            tuple(bool(values[value]) for value in self._in_ready),
            tuple(
                _first(r) if r.reset is not None and values[r.reset] else values[r.input]
                for r in self._kept
            ),
            tuple(values[rounds.step] for rounds in self._rounds),
        )


def _orbit(
    computed: Callable[[Iterable[Bits]], Values],
    widths: Sequence[int],
    start: tuple[int, ...],
    following: Sequence[SSAValue],
    seen: Sequence[SSAValue],
) -> list[tuple[int, ...]]:
    """What is seen of counters from the start until they are there again; nothing if never.

    All their numbers side by side are one number, for which the next one stands in a table.
    """
    places = np.cumsum([0, *widths]).tolist()
    every = np.arange(1 << places[-1], dtype=np.int64)
    values = computed(
        every >> low & ((1 << width) - 1) for low, width in zip(places, widths, strict=False)
    )
    table = sum(values[v] << low for v, low in zip(following, places, strict=False))
    after: list[int] = np.broadcast_to(table, every.shape).tolist()
    begin = sum(number << low for number, low in zip(start, places, strict=False))
    orbit, now = [begin], after[begin]
    while now != begin and len(orbit) < len(after):
        orbit.append(now)
        now = after[now]
    if now != begin:
        return []
    columns = [np.broadcast_to(values[v], every.shape)[orbit].tolist() for v in seen]
    return list(zip(*columns, strict=True)) if columns else [()] * len(orbit)


def _first(register: seq.CompRegOp) -> int:
    """What a register holds after reset; one without a reset, what the handshake never reads."""
    value = register.reset_value
    if value is None:
        return 0
    assert isinstance(value.owner, hw.ConstantOp)
    return value.owner.value.value.data % (1 << (bit_width(value.type) or 1))


def _next(register: seq.CompRegOp) -> SSAValue:
    """What a register takes that keeps its number otherwise."""
    assert isinstance(register.input.owner, comb.MuxOp)
    return register.input.owner.true_value


def _read_by(register: seq.CompRegOp) -> list[SSAValue]:
    return [register.input] if register.reset is None else [register.input, register.reset]


def _evaluated(ops: Sequence[Operation], values: Values) -> Values:
    """The results of ops in order, beside what is known."""
    for op in ops:
        rule = _RULES[type(op)]
        values[op.results[0]] = rule(op, [values[value] for value in op.operands])
    return values


def _mask(op: Operation) -> int:
    return (1 << (bit_width(op.results[0].type) or 1)) - 1


def _compared(op: comb.ICmpOp, x: Sequence[Bits]) -> Bits:
    return _COMPARISONS[op.predicate.value.data](*x) * 1


_COMPARISONS: dict[int, Callable[[Bits, Bits], Bits]] = {0: eq, 1: ne, 6: lt, 7: le, 8: gt, 9: ge}
"""Predicates of `comb.icmp` on unsigned numbers."""

_RULES: dict[type[Operation], Callable[[Any, Sequence[Bits]], Bits]] = {
    hw.ConstantOp: lambda op, x: op.value.value.data & _mask(op),
    comb.AddOp: lambda op, x: sum(x) & _mask(op),
    comb.SubOp: lambda op, x: (x[0] - x[1]) & _mask(op),
    comb.AndOp: lambda op, x: reduce(lambda a, b: a & b, x),
    comb.OrOp: lambda op, x: reduce(lambda a, b: a | b, x),
    comb.XorOp: lambda op, x: reduce(lambda a, b: a ^ b, x),
    comb.ExtractOp: lambda op, x: x[0] >> op.low_bit.value.data & _mask(op),
    comb.MuxOp: lambda op, x: x[2] ^ (x[1] ^ x[2]) * x[0],
    comb.ICmpOp: _compared,
}
"""What ops of the logic compute: all kinds that counters and handshakes are made of."""
