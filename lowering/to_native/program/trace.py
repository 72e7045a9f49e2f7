"""What each step of a program does, for whoever times it: its operations and bytes.

A traced program notes a counter of the processor before its first step and after each, in memory
among its constants. Not here: what reads it (`to_native.profiling`).
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import PurePath
from typing import Literal

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FileLineColLoc, IndexType, NameLoc, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block

from ....ir.errors import OptionError
from ....runtime.native.abi.sizes import Size, product
from ..llvm.types import converted
from .additions import AdditionStep
from .dots import DotStep
from .nests import Nest
from .products import LinearVariant
from .program import KernelStep, Program, Step
from .repetition import LoopStep
from .structured import NestStep
from .views import Buffer, View, element_bytes, holder, whole_view

TRACE_ATTRIBUTE = "native.trace"
"""Module attribute that says what the steps of a traced program do: `Trace` as JSON."""

Unit = Literal["bytes", "i16", "f32", "f64", "i32", "i64"]

_DOTS: dict[int, Unit] = {4: "bytes", 2: "i16"}
"""What is multiplied where an instruction adds so many products to a sum of 32 bits."""

COUNTERS = {
    "x86_64": "llvm.readcyclecounter",
    "amd64": "llvm.readcyclecounter",
    "aarch64": "llvm.readsteadycounter",
    "arm64": "llvm.readsteadycounter",
}
"""What counts time on an architecture, where a program may ask."""

_CASTS = (
    *(arith.ConstantOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.SIToFPOp),
    *(arith.UIToFPOp, arith.ExtFOp, arith.TruncFOp, arith.BitcastOp, arith.IndexCastOp),
    *(linalg.YieldOp, linalg.IndexOp),
)
"""Ops of bodies that are no arithmetic, or come with loads."""


@dataclass(frozen=True)
class StepFacts:
    """A step.

    Attributes:
        what: the kernel, or `loops`.
        where: the name of the op that it comes from, or its place in a file; empty without one.
        operations: additions and multiplications, each counted; `None` where nobody knows. Of sums
            of products by dot products of bytes or 16 bits, and of kernels, what follows is not.
        unit: on what; `bytes` for sums of products of bytes.
        bytes: that it reads or writes, each once, however often they are touched.
    """

    what: str
    where: str
    operations: int | None
    unit: Unit
    bytes: int


@dataclass(frozen=True)
class Trace:
    """The steps of a program for certain sizes, and where their times stand among its constants.

    Attributes:
        offset: of the first of `len(steps) + 1` int64, in bytes.
        steps: in order.
        footprint: bytes of all constants and of the workspace.
    """

    offset: int
    steps: tuple[StepFacts, ...]
    footprint: int

    def to_json(self) -> str:
        """As it stands in the attribute of a module."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Trace:
        """The reverse of `to_json`."""
        known = json.loads(text)
        steps = tuple(StepFacts(**step) for step in known["steps"])
        return Trace(known["offset"], steps, known["footprint"])


def counter() -> str:
    """The intrinsic that reads a counter on this machine.

    Raises:
        OptionError: programs may not read one on its architecture.
    """
    architecture = platform.machine().lower()
    if architecture not in COUNTERS:
        known = ", ".join(COUNTERS)
        raise OptionError(f"steps can be timed on {known}, and not on '{architecture}'")
    return COUNTERS[architecture]


def times_of(steps: int) -> View:
    """Memory for the times of so many steps."""
    size = Size.of(steps + 1)
    content = np.zeros(steps + 1, np.int64)
    return whole_view(Buffer(i64, size, "constant", content=content), [size])


def facts_of(program: Program, step: Step, *free: int) -> StepFacts:
    """What a step does for free sizes."""
    what, operations, unit = _work(program, step, free)
    bytes_ = touched([*step.reads, *step.writes], free)
    return StepFacts(what, _name(step.location), operations, unit, bytes_)


def _name(location: Attribute | None) -> str:
    """A location in few words: the name of an op, or a place in a file."""
    match location:
        case NameLoc():
            return location.desc.data
        case FileLineColLoc():
            name = PurePath(location.filename.data).name
            return f"{name}:{location.line.data}:{location.column.data}"
        case _:
            return ""


def touched(views: Iterable[View], free: Sequence[int]) -> int:
    """Bytes of the elements of views, each counted once at the most."""
    most: dict[Buffer, int] = {}
    for view in views:
        buffer = holder(view)
        size = element_bytes(buffer.element)
        count = min(product(view.sizes).at(*free), buffer.count.at(*free)) * size
        most[buffer] = max(count, most.get(buffer, 0))
    return sum(most.values())


def _work(program: Program, step: Step, free: Sequence[int]) -> tuple[str, int | None, Unit]:
    if isinstance(step, DotStep) and step.dots is not None:
        depth = prod(count for count, _ in step.dots.taps) * step.dots.group
        sums = product(step.nest.sizes).at(*free)
        return "dots", 2 * sums * depth, _DOTS[step.dots.group]
    if isinstance(step, AdditionStep):
        return "additions", step.work, "i16"
    if isinstance(step, NestStep):
        return "loops", *_work_of_nest(step.nest, free)
    if isinstance(step, LoopStep):
        inner = [_work(program, one, free) for one in step.repeated]
        known = [operations for _, operations, _ in inner if operations is not None]
        units: list[Unit] = [unit for _, operations, unit in inner if operations] or ["f32"]
        total = sum(known) * step.count.at(*free) if len(known) == len(inner) else None
        return "steps", total, units[0]
    assert isinstance(step, KernelStep)
    products = _products(program, step, free)
    return step.name, None if products is None else 2 * products, "bytes"


def _products(program: Program, step: KernelStep, free: Sequence[int]) -> int | None:
    """Products of bytes in a kernel, those by zeros too; `None` where it does something else."""
    by_name = {name: variant for variant, name in program.kernels.items()}
    variant = by_name.get(step.name, by_name.get(step.name.removeprefix("linear_")))
    sizes = [size.at(*free) for size in step.sizes]
    if isinstance(variant, LinearVariant):
        return prod(sizes) * variant.kind.digits
    return None


def _work_of_nest(nest: Nest, free: Sequence[int]) -> tuple[int, Unit]:
    turns = product(nest.sizes).at(*free)
    operations = turns * _arithmetic(nest.body)
    if nest.behind is not None:
        operations += product(nest.writes[0].view.sizes).at(*free) * _arithmetic(nest.behind.body)
    return operations, _unit([result.type for result in nest.results()])


def _arithmetic(body: Block) -> int:
    return sum(not isinstance(op, _CASTS) for op in body.ops)


def _unit(types: Sequence[Attribute]) -> Unit:
    """The unit of the widest number that a body gives."""
    kind = converted(types[0])
    if isinstance(types[0], IndexType) or kind == i64:
        return "i64"
    text = str(kind)
    return "f64" if text == "f64" else "f32" if text.startswith(("f", "bf")) else "i32"
