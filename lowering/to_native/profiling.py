"""Where the time of a native program goes, step by step, beside what this machine allows.

A step can be no quicker than its arithmetic (`roofs.rate`), and no quicker than reading its bytes
from the memory that holds all of the program (`roofs.read_bandwidth`): the larger of both is its
bound. Not here: what steps do (`program.trace`), other engines (`peers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import InputError, refuse
from ...ir.interpreter import entry_function
from ...runtime.native.abi.sizes import free_in
from ..options import parse_options
from . import roofs
from .callables import traced_program
from .free_sizes import free_sizes
from .program.trace import StepFacts, Trace, Unit
from .target import NativeOptions, NativeTarget

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ...runtime.native.bound import BoundProgram

_LEAST_ROUNDS = 5
_LEAST_BYTES, _MOST_BYTES = 1 << 14, 1 << 28
_READ = 1 << 26
"""Bytes that a measurement of bandwidth reads."""


@dataclass(frozen=True)
class StepProfile:
    """A step of a program, or the steps of an op.

    Attributes:
        facts: what it does.
        seconds: its shortest time.
        compute, memory: seconds that its arithmetic and its bytes take at the least; `compute` is
            `None` where nobody knows how much it computes. Sums of 32 bits are counted as such,
            and may be quicker where their factors have 16.
        bound: seconds that it takes at the least.
    """

    facts: StepFacts
    seconds: float
    compute: float | None
    memory: float
    bound: float

    @property
    def limit(self) -> Literal["compute", "memory"]:
        """What the bound comes from."""
        return "compute" if (self.compute or 0.0) > self.memory else "memory"


@dataclass(frozen=True)
class Profile:
    """A program for certain sizes, on one thread, all of it in the nearest cache that holds it.

    Attributes:
        recipe: the instruction set.
        free: these, by name; `batch` where there is none.
        seconds: the shortest call.
        steps: in order; those that take no time because they are empty too.
        footprint: bytes of constants and workspace.
        bandwidth: bytes a second at which so many are read.
    """

    recipe: str
    free: Mapping[str, int]
    seconds: float
    steps: tuple[StepProfile, ...]
    footprint: int
    bandwidth: float

    def ops(self) -> list[StepProfile]:
        """The steps that follow each other and come from one op, as one."""
        groups = groupby(enumerate(self.steps), lambda item: item[1].facts.where or item[0])
        return [_together([step for _, step in group]) for _, group in groups]


def profile_program(
    module: ModuleOp,
    inputs: Sequence[Array],
    options: Mapping[str, object] | None = None,
    *,
    seconds: float = 1.0,
) -> Profile:
    """Time the steps of a program on this machine.

    Args:
        module: IR with a public `@forward`, which stays as it is.
        inputs: of `@forward`, in order; their contents matter to event-driven kernels alone.
        options: of the target `native`, those that do not concern files.
        seconds: how long to measure.

    Raises:
        OptionError: a wrong option, or steps cannot be timed on this machine.
        PassError, UnsupportedError: the program cannot be compiled.
        BackendError: llvmlite is missing, or inputs of a wrong number, shape or dtype.
        InputError: the inputs have no sample.
    """
    chosen = parse_options(NativeOptions, NativeTarget.name, options or {})
    empty = any(x.size == 0 for x in inputs)
    refuse(empty, "steps are timed of a sample at least; the inputs have none", InputError)
    sizes = free_sizes(entry_function(module, "forward"))
    free = free_in(sizes.shapes, [x.shape for x in inputs], max(1, len(sizes.names)))
    program, trace = traced_program(module, chosen, *free)
    bound = program.bind(*(np.ascontiguousarray(x) for x in inputs))
    times = program.constants[trace.offset :][: 8 * (len(trace.steps) + 1)].view(np.int64)
    least, whole = _measured(bound, times, seconds)
    bandwidth = _bandwidth(trace)
    steps = tuple(
        _profiled(facts, float(time), bandwidth)
        for facts, time in zip(trace.steps, least, strict=True)
    )
    interface = program.interface
    named = dict(zip(interface.names, free, strict=True))
    return Profile(interface.recipe, named, whole, steps, trace.footprint, bandwidth)


def _profiled(facts: StepFacts, seconds: float, bandwidth: float) -> StepProfile:
    compute, memory = _compute(facts), facts.bytes / bandwidth
    return StepProfile(facts, seconds, compute, memory, max(compute or 0.0, memory))


def _together(steps: Sequence[StepProfile]) -> StepProfile:
    """Steps one after the other: their sums, under the name of the longest."""
    longest = max(steps, key=lambda step: step.seconds).facts
    operations = [step.facts.operations for step in steps]
    compute = [step.compute for step in steps]
    facts = StepFacts(
        longest.what,
        longest.where,
        None if None in operations else sum(n for n in operations if n is not None),
        longest.unit,
        sum(step.facts.bytes for step in steps),
    )
    return StepProfile(
        facts,
        sum(step.seconds for step in steps),
        None if None in compute else sum(time for time in compute if time is not None),
        sum(step.memory for step in steps),
        sum(step.bound for step in steps),
    )


def _measured(bound: BoundProgram, times: Array, seconds: float) -> tuple[Array, float]:
    """The shortest seconds of each step, and of a call."""
    bound()
    first, start = int(times[-1]), perf_counter()
    least = np.full(len(times) - 1, np.iinfo(np.int64).max)
    whole, rounds, now = float("inf"), 0, start
    while rounds < _LEAST_ROUNDS or now - start < seconds:
        before = perf_counter()
        bound()
        now = perf_counter()
        whole, rounds = min(whole, now - before), rounds + 1
        np.minimum(least, np.diff(times), out=least)
    counted = max(int(times[-1]) - first, 1)
    return least * ((now - start) / counted), whole


def _compute(facts: StepFacts) -> float | None:
    return None if facts.operations is None else facts.operations / 2 / _rate(facts.unit)


@cache
def _rate(unit: Unit) -> float:
    """Products, each added to a sum, of one thread in a second."""
    if unit in ("bytes", "i16"):
        # A register holds half as many numbers of 16 bits.
        return roofs.rate("bytes") / (1 if unit == "bytes" else 2)
    return roofs.rate(unit)


def _bandwidth(trace: Trace) -> float:
    size = 1 << max(trace.footprint - 1, 1).bit_length()
    return _bandwidth_of(min(max(size, _LEAST_BYTES), _MOST_BYTES))


@cache
def _bandwidth_of(size: int) -> float:
    return roofs.read_bandwidth(size, max(1, _READ // size))
