"""What integer neurons do at a step, and where their states lie: the model's step on intervals.

Not here: circuits of it (`neurons`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from xdsl.ir import SSAValue

from .....dialects import spike
from .....dialects.inference import tensor_type
from .....dialects.shapes import DYNAMIC
from .....ir.neurons import MODELS
from .....ir.neurons.arithmetic import Options
from .....passes.adder_graph.graph import around
from .....passes.analysis.compile_time import literal_value
from ..evaluation import type_bounds
from .integer_arithmetic import IntegerArithmetic, NoCircuit

Bounds = tuple[int, int]

_MOST_BRANCHES = 4
"""The comparisons of a step that are followed both ways; of others both results are possible."""


@dataclass(frozen=True)
class NeuronRule:
    """One neuron of a model on integers.

    Attributes:
        model: its name.
        options: see `Options`.
        numbers: its parameters by name.
        first: the states before a frame.
        type: the least and the largest number of its type.
    """

    model: str
    options: Options
    numbers: tuple[tuple[str, int], ...]
    first: tuple[int, ...]
    type: Bounds

    @property
    def states(self) -> tuple[str, ...]:
        """The names of its states."""
        return MODELS[self.model].states


@dataclass(frozen=True)
class Range:
    """Where a state of a neuron lies.

    Attributes:
        held: before a step.
        left: after the last step of a frame.
        wraps: whether what it is made of may wrap around in its type.
    """

    held: Bounds
    left: Bounds
    wraps: bool = False

    @property
    def all(self) -> Bounds:
        """Before and after any step."""
        return around((self.held, self.left))


@lru_cache(maxsize=65536)
def state_ranges(rule: NeuronRule, current: Bounds, steps: int) -> tuple[Range, ...]:
    """Where the states lie in frames of so many steps, for currents in an interval."""
    held = now = [(number, number) for number in rule.first]
    wraps = [False] * len(now)
    for step in range(steps):
        paths = list(_after(rule, current, now))
        wraps = [w or any(path[k].wraps for path in paths) for k, w in enumerate(wraps)]
        ends = [[path[k].bounds for path in paths] for k in range(len(now))]
        after = [rule.type if w else around(each) for w, each in zip(wraps, ends, strict=True)]
        if after == now:
            break
        now = after
        if step < steps - 1:
            held = [around(pair) for pair in zip(held, now, strict=True)]
    return tuple(
        Range(rule.type, rule.type, wraps=True) if w else Range(a, b)
        for a, b, w in zip(held, now, wraps, strict=True)
    )


def _after(
    rule: NeuronRule, current: Bounds, states: Sequence[Bounds]
) -> Iterator[tuple[_Interval, ...]]:
    """The states after a step, for each way in which its comparisons can turn out."""
    waiting: list[list[int]] = [[]]
    while waiting:
        paths = _Paths(rule, waiting.pop())
        before = [_Interval(*bounds) for bounds in states]
        _, after = MODELS[rule.model].step(paths, _Interval(*current), before)
        waiting += paths.others
        yield tuple(map(paths.inside, after))


@dataclass(eq=False)
class _Interval:
    """Numbers between two ends; a comparison narrows them to those for which it holds."""

    low: int
    high: int
    wraps: bool = False

    @property
    def bounds(self) -> Bounds:
        return self.low, self.high


class _Paths(IntegerArithmetic[_Interval]):
    """A step on intervals, along one path through its comparisons.

    Args:
        path: how the first comparisons turn out that may turn out both ways; those after hold.

    Attributes:
        others: the paths that go another way after them.
    """

    def __init__(self, rule: NeuronRule, path: list[int]) -> None:
        super().__init__(rule)
        self._path = path
        self._taken: list[int] = []
        self.others: list[list[int]] = []

    def _branch(self) -> int:
        """How the next comparison turns out."""
        index = len(self._taken)
        if index == len(self._path):
            self.others.append([*self._taken, 0])
            self._path = [*self._path, 1]
        self._taken.append(self._path[index])
        return self._taken[-1]

    def inside(self, a: _Interval) -> _Interval:
        """A number as its type holds it."""
        low, high = self.rule.type
        if not low <= a.low <= a.high <= high:
            a.low, a.high, a.wraps = low, high, True
        return a

    def whole(self, value: int) -> _Interval:
        return _Interval(value, value)

    def add(self, a: _Interval, b: _Interval) -> _Interval:
        return _Interval(a.low + b.low, a.high + b.high, a.wraps or b.wraps)

    def negated(self, a: _Interval) -> _Interval:
        return _Interval(-a.high, -a.low, a.wraps)

    def scaled(self, a: _Interval, factor: int) -> _Interval:
        ends = a.low * factor, a.high * factor
        return _Interval(min(ends), max(ends), a.wraps)

    def shifted(self, factor: _Interval, x: _Interval, places: int) -> _Interval:
        product = self.scaled(self.inside(x), self.fixed(factor))
        return _Interval(product.low >> places, product.high >> places, x.wraps)

    def at_least(self, a: _Interval, bound: int) -> _Interval:
        holds = self.inside(a).low >= bound
        if a.low < bound <= a.high:
            if len(self._taken) == _MOST_BRANCHES:
                return _Interval(0, 1)
            holds = self._branch()
            a.low, a.high = (bound, a.high) if holds else (a.low, bound - 1)
        return self.whole(int(holds))

    def is_zero(self, a: _Interval) -> _Interval:
        not_below, above = self.at_least(a, 0), self.at_least(a, 1)
        return self.choose(above, self.whole(0), not_below)

    def known(self, a: _Interval) -> int | None:
        return a.low if a.low == a.high else None

    def relu(self, a: _Interval) -> _Interval:
        a = self.inside(a)
        return _Interval(max(a.low, 0), max(a.high, 0), a.wraps)

    def choose(self, where: _Interval, chosen: _Interval, other: _Interval) -> _Interval:
        if where.low == where.high:
            return chosen if where.low else other
        bounds = around((chosen.bounds, other.bounds))
        return _Interval(*bounds, chosen.wraps or other.wraps)


def neuron_rules(op: spike.NeuronOp, first: Sequence[float | SSAValue] = ()) -> list[NeuronRule]:
    """The neurons of an op, in the order of the elements of a step.

    Args:
        op: on integers, whose parameters are known.
        first: the states before the first step, where the op begins with something else.
    """
    type = tensor_type(op.input)
    shape = tuple(1 if size == DYNAMIC else size for size in type.get_shape()[1:])
    names = list(op.PARAMETERS)
    columns = [_each(op.parameter(name), shape) for name in names]
    starts = [_each(value, shape) for value in first or op.initial or [0.0] * len(op.STATES)]
    options, limits = op.options(), type_bounds(op.input)
    return [
        NeuronRule(op.MODEL.name, options, tuple(zip(names, numbers, strict=True)), begin, limits)
        for numbers, begin in zip(
            zip(*columns, strict=True), zip(*starts, strict=True), strict=True
        )
    ]


def step_refusal(rule: NeuronRule) -> str | None:
    """Why a step has no circuit; `None` if it has one."""
    try:
        state_ranges(rule, rule.type, 2)
    except NoCircuit as reason:
        return f"no circuit for this model: {reason}"
    return None


def _each(value: float | SSAValue, shape: tuple[int, ...]) -> list[int]:
    """A parameter or state of known value, for each neuron."""
    array = literal_value(value) if isinstance(value, SSAValue) else np.asarray(int(value))
    assert array is not None
    return [int(x) for x in np.broadcast_to(array, shape).reshape(-1)]
