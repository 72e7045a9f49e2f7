"""What integer neurons do at a step, and where their potentials lie.

Not here: circuits of it (`neurons`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from xdsl.ir import SSAValue

from .....dialects import spike
from .....dialects.elements import numpy_dtype
from .....dialects.inference import tensor_type
from .....dialects.shapes import DYNAMIC
from .....passes.analysis.compile_time import literal_value

IntegerNeuronOp = spike.IntegrateFireOp | spike.IntegerLifOp
"""The neurons that are defined on integers."""

Bounds = tuple[int, int]


@dataclass(frozen=True)
class NeuronRule:
    """What one neuron does at a step: v ← ⌊decay·v / 2^shift⌋ + gain·i, compare, fire, reset.

    Attributes:
        limit: it fires at this potential and above.
        first: the potential before a frame.
        type: the least and the largest number of its type.
    """

    decay: int
    shift: int
    gain: int
    threshold: int
    v_reset: int
    limit: int
    reset: str
    first: int
    type: Bounds

    def kept(self, v: int) -> int:
        """What is left of a potential at the next step."""
        return self.decay * v >> self.shift


@dataclass(frozen=True)
class Potential:
    """Where the potential of a neuron lies.

    Attributes:
        held: before a step.
        left: after the last step of a frame.
        wraps: whether sums may wrap around in its type.
    """

    held: Bounds
    left: Bounds
    wraps: bool = False

    @property
    def all(self) -> Bounds:
        """Before and after any step."""
        return min(self.held[0], self.left[0]), max(self.held[1], self.left[1])


@lru_cache(maxsize=65536)
def potential(rule: NeuronRule, current: Bounds, steps: int) -> Potential:
    """Where the potential lies in frames of so many steps, for currents in an interval."""
    ends = [rule.gain * end for end in current]
    low = high = rule.first
    held = (low, high)
    for step in range(steps):
        total = rule.kept(low) + min(ends), rule.kept(high) + max(ends)
        after = _after_reset(rule, total)
        if not all(rule.type[0] <= end <= rule.type[1] for end in (*total, *after)):
            return Potential(rule.type, rule.type, wraps=True)
        if after == (low, high):
            break
        low, high = after
        if step < steps - 1:
            held = min(held[0], low), max(held[1], high)
    return Potential(held, (low, high))


def _after_reset(rule: NeuronRule, total: Bounds) -> Bounds:
    """Where a potential in an interval is after the reset."""
    low, high = total
    ends: list[int] = []
    if low < rule.limit:
        ends += [low, min(high, rule.limit - 1)]
    if high >= rule.limit:
        fired = [max(low, rule.limit), high]
        if rule.reset == "subtract":
            fired = [end - rule.threshold for end in fired]
        elif rule.reset == "to_value":
            fired = [rule.v_reset]
        ends += fired
    return min(ends), max(ends)


def neuron_rules(op: IntegerNeuronOp, first: SSAValue | None = None) -> list[NeuronRule]:
    """The neurons of an op, in the order of the elements of a step.

    Args:
        op: whose parameters are known.
        first: the potentials before the first step, where the op begins with something else.
    """
    type = tensor_type(op.input)
    shape = tuple(1 if size == DYNAMIC else size for size in type.get_shape()[1:])
    leaky = isinstance(op, spike.IntegerLifOp)
    values = {name: _each(op.parameter(name), shape) for name in op.PARAMETERS}
    begin = (op.initial[0] if op.initial else 0.0) if first is None else first
    starts = _each(begin, shape)
    ones = [1] * len(starts)
    info = np.iinfo(numpy_dtype(type.element_type))
    strict = int(op.compare.data == "gt")
    columns = (
        values["decay"] if leaky else ones,
        *(values[name] for name in ("gain", "threshold", "v_reset")),
        starts,
    )
    return [
        NeuronRule(
            decay=decay,
            shift=op.shift.value.data if isinstance(op, spike.IntegerLifOp) else 0,
            gain=gain,
            threshold=threshold,
            v_reset=v_reset,
            limit=threshold + strict,
            reset=op.reset.data,
            first=start,
            type=(int(info.min), int(info.max)),
        )
        for decay, gain, threshold, v_reset, start in zip(*columns, strict=True)
    ]


def _each(value: float | SSAValue, shape: tuple[int, ...]) -> list[int]:
    """A parameter or state of known value, for each neuron."""
    array = literal_value(value) if isinstance(value, SSAValue) else np.asarray(int(value))
    assert array is not None
    return [int(x) for x in np.broadcast_to(array, shape).reshape(-1)]
