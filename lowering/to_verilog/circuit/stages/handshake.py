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
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from xdsl.dialects import comb, hw, seq
from xdsl.ir import BlockArgument, Operation, SSAValue

from .....dialects.shapes import bit_width
from .....ir.errors import LoweringError
from ..modules import named_ports

Bits = Any
"""A number, or an int64 array of numbers, below 2^width."""

Values = dict[SSAValue, Bits]

Signals = tuple[bool, ...]

_TABULATED = 20
"""Bits of counters of which the next number is computed for all numbers at once."""

_LONGEST = 1 << 16
"""Numbers that other counters go through, at most."""

_SYMBOLS = 256
"""Different things that the logic sees of a position, at most."""


class Handshake:
    """The handshake of one stage, after reset.

    In each cycle `valid` is asked first, from the sources on, then `ready`, from the sinks on, then
    `step`.

    Args:
        module: with the stage interface.

    Attributes:
        state: the registers that are no positions; hashable.
        tables: what the logic sees at each position, a byte each, going round.
        positions: how far it is in each table.

    Raises:
        LoweringError: the handshake depends on data, or on what registers hold before reset.
    """

    def __init__(self, module: hw.HWModuleOp) -> None:
        self._logic = _Logic(module)
        self.tables = tuple(rounds.table for rounds in self._logic.rounds)
        self.state: tuple[int, ...] = self._logic.first
        self.positions = [0] * len(self.tables)
        self._valid: dict[tuple[object, ...], Signals] = {}
        self._known: dict[tuple[object, ...], _Cycle] = {}
        self._now: tuple[object, ...] = ()
        self._cycle: _Cycle | None = None

    def copy(self) -> Self:
        """The handshake after reset; what is known of cycles is shared."""
        new = copy(self)
        new.state, new.positions = self._logic.first, [0] * len(self.tables)
        return new

    @property
    def passes_ready(self) -> bool:
        """Whether `out_ready` reaches an `in_ready` without a register between."""
        return self._logic.passes_ready

    def valid(self, inputs: Sequence[bool]) -> Signals:
        """`out_valid` of each output, from `in_valid` of each input."""
        seen = [t[p % len(t)] for t, p in zip(self.tables, self.positions, strict=True)]
        self._now = key = (self.state, *seen, *inputs)
        known = self._valid.get(key)
        if known is None:
            none = [False] * len(self._logic.out_ready)
            known = self._valid[key] = self._logic.cycle(self.state, seen, inputs, none).valid
        return known

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Signals:
        """`in_ready` of each input, from each `in_valid` and each `out_ready`."""
        key = (*self._now, *outputs)
        cycle = self._known.get(key)
        if cycle is None:
            seen = [t[p % len(t)] for t, p in zip(self.tables, self.positions, strict=True)]
            cycle = self._known[key] = self._logic.cycle(self.state, seen, inputs, outputs)
        self._cycle = cycle
        return cycle.ready

    def step(self) -> tuple[int, ...]:
        """The clock edge after the cycle that `ready` was asked of; the positions that go on."""
        assert self._cycle is not None
        self.state = self._cycle.after
        for index in self._cycle.moved:
            self.positions[index] += 1
        return self._cycle.moved


@dataclass(frozen=True)
class _Cycle:
    """What one cycle does: the outputs, the state after it, and the positions that move on."""

    valid: Signals
    ready: Signals
    after: tuple[int, ...]
    moved: tuple[int, ...]


@dataclass(frozen=True)
class _Rounds:
    """Registers that count by themselves while `step` is 1.

    Attributes:
        step: the bit.
        seen: what the rest of the logic reads of them.
        table: the symbol of what it reads, number by number.
        symbols: the values of `seen` for each symbol.
    """

    step: SSAValue
    seen: tuple[SSAValue, ...]
    table: bytes
    symbols: tuple[tuple[int, ...], ...]


class _Logic:
    """The ops that valid and ready depend on."""

    def __init__(self, module: hw.HWModuleOp) -> None:
        self.module = module
        arguments, results = named_ports(module)
        self.in_valid, self.out_ready, self.out_valid, self.in_ready = (
            [value for name, value in side.items() if name.endswith(end)]
            for side in (arguments, results)
            for end in ("_valid", "_ready")
        )
        self.reset = arguments["reset"]
        self.clock = arguments["clock"]
        self.registers = self._registers()
        self.support = self._supports()
        self.passes_ready = any(
            not self.support[x].isdisjoint(self.out_ready) for x in self.in_ready
        )
        self.rounds = self._all_rounds()
        inside = {r for rounds in self.rounds for r in self._members[rounds.step, rounds.seen]}
        self.kept = [r for r in self.registers if r not in inside]
        self.first = tuple(_first(r) for r in self.kept)
        wanted = [*self.in_ready, *self.out_valid, *(rounds.step for rounds in self.rounds)]
        wanted += [value for r in self.kept for value in _read_by(r)]
        given = {value for rounds in self.rounds for value in rounds.seen}
        self._ops = _ordered(wanted, given)

    def _registers(self) -> list[seq.CompRegOp]:
        """Those that the handshake depends on."""
        registers: dict[seq.CompRegOp, None] = {}
        waiting = [*self.in_ready, *self.out_valid]
        allowed = {*self.in_valid, *self.out_ready, self.reset}
        while waiting:
            for leaf in _leaves([waiting.pop()]):
                if isinstance(leaf.owner, seq.CompRegOp):
                    if leaf.owner not in registers:
                        registers[leaf.owner] = None
                        waiting += _read_by(leaf.owner)
                elif leaf not in allowed:
                    raise LoweringError(
                        f"the handshake of stage '{self.module.sym_name.data}' depends on data"
                    )
        return list(registers)

    def _supports(self) -> dict[SSAValue, frozenset[SSAValue]]:
        """For each value the registers and inputs that it is a function of."""
        wanted = [*self.in_ready, *self.out_valid]
        wanted += [value for register in self.registers for value in _read_by(register)]
        support: dict[SSAValue, frozenset[SSAValue]] = {
            leaf: frozenset([leaf]) for leaf in _leaves(wanted)
        }
        for op in _ordered(wanted, ()):
            parts = [support[value] for value in op.operands]
            support[op.results[0]] = frozenset().union(*parts)
        for register in self.registers:
            support[register.data] = frozenset([register.data])
        return support

    def _all_rounds(self) -> list[_Rounds]:
        by_step: dict[SSAValue, set[seq.CompRegOp]] = {}
        for register in self.registers:
            keeps = register.input.owner
            alone = register.reset is None or register.reset is self.reset
            if isinstance(keeps, comb.MuxOp) and keeps.false_value is register.data and alone:
                by_step.setdefault(keeps.cond, set()).add(register)
        self._members: dict[tuple[SSAValue, tuple[SSAValue, ...]], list[seq.CompRegOp]] = {}
        found: list[_Rounds] = []
        for step, candidates in by_step.items():
            for group in self._closed(candidates):
                rounds = self._gone_round(step, group)
                if rounds is not None:
                    self._members[rounds.step, rounds.seen] = group
                    found.append(rounds)
        return found

    def _closed(self, candidates: set[seq.CompRegOp]) -> list[list[seq.CompRegOp]]:
        """Registers whose next numbers are functions of one another, in groups, in order."""
        makers = {r: {v.owner for v in self.support[_next(r)]} for r in candidates}
        left = set(candidates)
        while True:
            fewer = {r for r in left if makers[r] <= left}
            if fewer == left:
                break
            left = fewer
        groups: list[set[object]] = []
        for register in left:
            own: set[object] = {register, *makers[register]}
            for group in [g for g in groups if not g.isdisjoint(own)]:
                groups.remove(group)
                own |= group
            groups.append(own)
        ordered = [[r for r in self.registers if r in group] for group in groups]
        return sorted(ordered, key=lambda group: self.registers.index(group[0]))

    def _gone_round(self, step: SSAValue, group: Sequence[seq.CompRegOp]) -> _Rounds | None:
        """The registers as a position; `None` where they do not come back to where they begin."""
        own: set[SSAValue] = {register.data for register in group}
        seen = self._seen_of(own)
        following = [_next(register) for register in group]
        ops = _ordered([*following, *seen], ())
        widths = [bit_width(register.data.type) or 1 for register in group]
        start = tuple(_first(register) for register in group)

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
        return _Rounds(step, seen, bytes(table), tuple(numbers))

    def _seen_of(self, own: set[SSAValue]) -> tuple[SSAValue, ...]:
        """Functions of those registers alone that something else reads."""
        inside = {v for v, s in self.support.items() if s and s <= own}
        read: dict[SSAValue, None] = {}
        for value in (*self.in_ready, *self.out_valid):
            if value in inside:
                read[value] = None
        keeping = {r.input.owner for r in self.registers if r.data in own}
        for value, of in self.support.items():
            op = value.owner
            if of <= own or op in keeping or not isinstance(op, Operation):
                continue
            if not isinstance(op, seq.CompRegOp):
                read |= dict.fromkeys(x for x in op.operands if x in inside)
        for register in self.registers:
            if register.data not in own:
                read |= dict.fromkeys(x for x in _read_by(register) if x in inside)
        return tuple(read)

    def cycle(
        self,
        state: Sequence[int],
        seen: Sequence[int],
        inputs: Sequence[bool],
        outputs: Sequence[bool],
    ) -> _Cycle:
        """What a cycle does."""
        values: Values = {self.reset: 0}
        values |= {value: int(bit) for value, bit in zip(self.in_valid, inputs, strict=True)}
        values |= {value: int(bit) for value, bit in zip(self.out_ready, outputs, strict=True)}
        values |= {r.data: number for r, number in zip(self.kept, state, strict=True)}
        for rounds, symbol in zip(self.rounds, seen, strict=True):
            values |= zip(rounds.seen, rounds.symbols[symbol], strict=True)
        _evaluated(self._ops, values)
        after = [
            values[r.input] if r.reset is None or not values[r.reset] else _first(r)
            for r in self.kept
        ]
        moved = [index for index, rounds in enumerate(self.rounds) if values[rounds.step]]
        return _Cycle(
            tuple(bool(values[value]) for value in self.out_valid),
            tuple(bool(values[value]) for value in self.in_ready),
            tuple(after),
            tuple(moved),
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


def _is_leaf(value: SSAValue) -> bool:
    return isinstance(value, BlockArgument) or isinstance(
        value.owner, seq.CompRegOp | hw.InstanceOp
    )


def _leaves(values: Iterable[SSAValue]) -> list[SSAValue]:
    """Registers, arguments and results of instances that values are functions of."""
    seen: dict[SSAValue, None] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen[value] = None
            if not _is_leaf(value):
                assert isinstance(value.owner, Operation)
                waiting += value.owner.operands
    return [value for value in seen if _is_leaf(value)]


def _ordered(values: Iterable[SSAValue], given: Iterable[SSAValue]) -> list[Operation]:
    """The ops that values are made by, each after those of its operands; `given` ones are there."""
    done: set[SSAValue] = set(given)
    order: list[Operation] = []
    waiting = list(values)
    while waiting:
        value = waiting[-1]
        op = value.owner
        if value in done or _is_leaf(value):
            waiting.pop()
            continue
        assert isinstance(op, Operation)
        before = [x for x in op.operands if x not in done and not _is_leaf(x)]
        if before:
            waiting += before
            continue
        done.add(value)
        order.append(op)
        waiting.pop()
    return order


def _evaluated(ops: Sequence[Operation], values: Values) -> Values:
    """The results of ops in order, beside what is known."""
    for op in ops:
        rule = _RULES[type(op)]
        values[op.results[0]] = rule(op, [values[value] for value in op.operands])
    return values


def _ones(value: SSAValue) -> int:
    return (1 << (bit_width(value.type) or 1)) - 1


def _mask(op: Operation) -> int:
    return _ones(op.results[0])


def _joined(op: comb.ConcatOp, x: Sequence[Bits]) -> Bits:
    result = 0
    for value, bits in zip(op.inputs, x, strict=True):
        result = result << (bit_width(value.type) or 1) | bits
    return result


def _compared(op: comb.ICmpOp, x: Sequence[Bits]) -> Bits:
    predicate = op.predicate.value.data
    a, b = x
    if 2 <= predicate < 6:  # of two's complement: the sign the other way is the order
        sign = 1 << ((bit_width(op.lhs.type) or 1) - 1)
        a, b = a ^ sign, b ^ sign
    compare = (a == b, a != b) if predicate < 2 else (a < b, a <= b, a > b, a >= b)
    return compare[predicate if predicate < 2 else (predicate - 2) % 4] * 1


_RULES: dict[type[Operation], Callable[[Any, Sequence[Bits]], Bits]] = {
    hw.ConstantOp: lambda op, x: op.value.value.data & _mask(op),
    comb.AddOp: lambda op, x: sum(x) & _mask(op),
    comb.SubOp: lambda op, x: (x[0] - x[1]) & _mask(op),
    comb.AndOp: lambda op, x: reduce(lambda a, b: a & b, x),
    comb.OrOp: lambda op, x: reduce(lambda a, b: a | b, x),
    comb.XorOp: lambda op, x: reduce(lambda a, b: a ^ b, x),
    comb.ConcatOp: _joined,
    comb.ExtractOp: lambda op, x: x[0] >> op.low_bit.value.data & _mask(op),
    comb.ReplicateOp: lambda op, x: x[0] * (_mask(op) // _ones(op.input)),
    comb.MuxOp: lambda op, x: x[2] ^ (x[1] ^ x[2]) * x[0],
    comb.ICmpOp: _compared,
}
"""What ops of the logic compute."""
