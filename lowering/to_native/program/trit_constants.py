"""Trits that loops read stand among the constants at two bits each, and are expanded for a call.

A step of its own expands them before the first loops that read them: to floats where that is what
they become and a near cache holds them, else to bytes. Where that takes a good part of the time of
the loops, it is done by the first call alone, into memory of the program's own (`kept`). Not here:
weights of kernels, which read two bits (`abi.layouts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import f32, i8, i16, i32, i64
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ....ir.arrays import Array
from ....passes.analysis.replacement import replace_results
from ....runtime.native.abi.sizes import ONE, Size, product
from ..kernels.code import POINTER, Code, lanes
from ..kernels.recipes import Recipe
from ..llvm.types import vector
from .dots import DotStep
from .program import KernelStep, Program, Step
from .repetition import LoopStep
from .structured import NestStep
from .views import Buffer, whole_view

_FIELDS = 4
_LOOKUPS = (
    ("avx512f", "llvm.x86.avx512.vpermilvar.ps.512"),
    ("avx", "llvm.x86.avx.vpermilvar.ps.256"),
)
"""By what a processor must have, instructions that choose one of four floats for each lane."""
_TABLE = [int(number) for number in np.array([-1, 0, 1, 0], np.float32).view(np.int32)]
"""The bits of what each code stands for."""
_NEAR = 1 << 20
"""Bytes of floats that a near cache holds; beyond, reading them costs more than making them."""
_LEAST = 256
"""Trits from which on three quarters of their bytes are worth a step."""
_SHARE = 0.005
"""Of the time that weights are used, what to make them may take in each call."""
_EXPANDED = 1.5
"""What it costs to expand a vector of trits, in products of a vector."""
_MANY = 8
"""Products of a weight from which on reading floats costs less than making them of bytes."""


class Expansion(NamedTuple):
    """`<name>(codes, trits, groups)`, two pointers, one int64, for trits as such elements."""

    element: Attribute


def pack_trits(program: Program) -> None:
    """Let loops read trits from the workspace, where steps of their own put them."""
    readers: dict[Buffer, list[NestStep]] = {}
    other: set[Buffer] = set()
    for step in program.steps:
        # In the order of the step: a set of these has another in every process.
        buffers = dict.fromkeys(view.buffer for view in step.reads if _are_trits(view.buffer))
        if isinstance(step, NestStep):
            for buffer in buffers:
                readers.setdefault(buffer, []).append(step)
        else:
            other.update(buffers)
        if isinstance(step, LoopStep):
            other |= {view.buffer for inner in step.repeated for view in inner.reads}
    steps: list[Step] = []
    waiting = {buffer: steps_ for buffer, steps_ in readers.items() if buffer not in other}
    for step in program.steps:
        made = [(b, _expanded(program, b, its)) for b, its in waiting.items() if its[0] is step]
        if not _keeps(step):
            steps += [_once(one) if _keeps(one) else one for _, one in made]
            steps.append(step)
            continue
        alone = [one for b, one in made if waiting[b] == [step]]
        steps += [one for _, one in made if one not in alone]
        steps.append(_once(*alone, step))
    program.steps[:] = steps


def worth_keeping(program: Program, made: float, used: float) -> bool:
    """Whether weights that take so long to make, and are used so long, stay for the next call."""
    return program.keeps and made > _SHARE * used


def _keeps(step: Step) -> bool:
    """Whether a step fills memory that is kept."""
    return any(view.buffer.place == "kept" for view in step.writes)


def _once(*steps: Step) -> LoopStep:
    """What the first call alone does."""
    loop = LoopStep(ONE, steps, [], once=True)
    loop.location = steps[-1].location
    return loop


def _are_trits(buffer: Buffer) -> bool:
    content = buffer.content
    if content is None or content.dtype != np.int8 or content.size < _LEAST:
        return False
    return bool(content.min() >= -1 and content.max() <= 1)


def _expanded(program: Program, buffer: Buffer, readers: Sequence[NestStep]) -> KernelStep:
    """Make a constant a part of the workspace; the step that fills it."""
    assert buffer.content is not None
    group = _FIELDS * program.recipe.width
    groups = -(-buffer.content.size // group)
    trits = buffer.content
    used = sum(_products(step) for step in readers)
    keep = worth_keeping(program, _EXPANDED * trits.size, used) and not any(map(_keeps, readers))
    near = 4 * trits.size <= _NEAR or (keep and used > _MANY * trits.size)
    if near and all(_converts(step, buffer) for step in readers):
        buffer.element = f32
        for step in readers:
            _take_floats(step, buffer)
    codes = program.constant(packed_codes(trits, program.recipe, buffer.element), i8)
    buffer.place, buffer.content = "kept" if keep else "workspace", None
    buffer.count = Size.of(groups * group)
    target = whole_view(buffer, [buffer.count])
    name = program.kernel(Expansion(buffer.element), "expand_trits")
    return KernelStep(name, [codes], [target], [Size.of(groups)])


def _products(step: NestStep) -> int:
    """Products of a step for one sample."""
    depth = 1
    if isinstance(step, DotStep) and step.dots is not None:
        depth = prod(count for count, _ in step.dots.taps) * step.dots.group
    return product(step.nest.sizes).at(1) * depth


def _conversions(step: NestStep, buffer: Buffer) -> dict[SSAValue, list[Operation]]:
    """What is done with the trits that a nest reads."""
    return {
        value: [use.operation for use in value.uses]
        for value, a in step.nest.reads.items()
        if a.view.buffer is buffer
    }


def _converts(step: NestStep, buffer: Buffer) -> bool:
    """Whether loops do nothing with trits but make floats of them."""
    done = _conversions(step, buffer)
    if step.kind is not None or sum(a.view.buffer is buffer for a in step.nest.read) != len(done):
        return False
    if any(view.buffer is buffer for view in step.nest.views()):  # what is looked up in it
        return False
    return all(
        isinstance(op, arith.SIToFPOp) and op.result.type == f32
        for ops in done.values()
        for op in ops
    )


def _take_floats(step: NestStep, buffer: Buffer) -> None:
    """Let the body of a nest have floats where it made them."""
    reads, body = dict(step.nest.reads), step.nest.body
    for value, ops in _conversions(step, buffer).items():
        assert isinstance(value, BlockArgument)
        argument = body.insert_arg(f32, value.index)
        for op in ops:
            replace_results(op, [argument])
        reads[argument] = reads.pop(value)
        body.erase_arg(value)
    step.nest = replace(step.nest, reads=reads)


def packed_codes(trits: Array, recipe: Recipe, element: Attribute) -> Array:
    """Codes trit + 1 in groups of `_FIELDS` times a register; int8.

    Field f of unit u of a group, counted in two bits, is trit f·units + u of it. Units are bytes
    where trits become bytes, 32 bits where they become floats.
    """
    unit = _unit(element)
    fields, units = 4 * unit, recipe.width // unit
    padded = np.zeros(-(-trits.size // (fields * units)) * fields * units, np.uint32)
    padded[: trits.size] = trits.reshape(-1) + 1
    shifts = 2 * np.arange(fields, dtype=np.uint32)[:, None]
    codes = np.bitwise_or.reduce(padded.reshape(-1, fields, units) << shifts, axis=1)
    return codes.astype(f"<u{unit}").reshape(-1).view(np.int8)


def _unit(element: Attribute) -> int:
    """Bytes in which codes stand for trits as such elements."""
    return 4 if element == f32 else 1


def functions(program: Program) -> list[llvm.FuncOp]:
    """What steps of `pack_trits` call."""
    variants = program.kernels_of(Expansion)
    return [_write(program.recipe, variant.element, name) for variant, name in variants]


def _write(recipe: Recipe, element: Attribute, name: str) -> llvm.FuncOp:
    code = Code(name, [POINTER, POINTER, i64])
    codes, trits, groups = code.arguments
    with code.each(0, groups) as group:
        source = code.at(codes, code.mul(group, recipe.width))
        target = code.at(trits, code.mul(group, _FIELDS * recipe.width), element)
        fields = _floats if element == f32 else _bytes
        for place, values in enumerate(fields(code, recipe, source)):
            code.store(values, code.at(target, place * lanes(values.type), element))
    return code.finish(linkage="internal")


def _bytes(code: Code, recipe: Recipe, source: SSAValue) -> Iterator[SSAValue]:
    width = recipe.width
    words = code.load(source, vector(i16, width // 2))
    for f in range(_FIELDS):
        field = code.bits(code.lshr(words, 2 * f) if f else words, vector(i8, width))
        yield code.sub(code.and_(field, 3), 1)


def _floats(code: Code, recipe: Recipe, source: SSAValue) -> Iterator[SSAValue]:
    """One field of each number a vector; x86 looks it up by its lowest two bits."""
    count = recipe.lanes
    numbers = code.load(source, vector(i32, count))
    shuffle = next((s for feature, s in _LOOKUPS if feature in recipe.features), None)
    for f in range(4 * _FIELDS):
        field = code.lshr(numbers, 2 * f) if f else numbers
        if shuffle is None:
            yield code.to_float(code.sub(code.and_(field, 3), 1))
            continue
        table = code.bits(code.listed(_TABLE * (count // 4), numbers.type), vector(f32, count))
        yield code.intrinsic(shuffle, [table, field], table.type)
