"""Trits that loops read stand among the constants at two bits each, and are expanded for a call.

A step of its own expands them before the first loops that read them: to floats where that is what
they become and a near cache holds them, else to bytes. Not here: weights of kernels, which read
two bits (`abi.layouts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import f32, i8, i16, i32, i64
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ....ir.arrays import Array
from ....passes.analysis.replacement import replace_results
from ..kernels.code import POINTER, Code
from ..kernels.recipes import Recipe
from ..llvm.types import vector
from .program import KernelStep, Program, Step
from .repetition import LoopStep
from .sizes import Size
from .structured import NestStep
from .views import Buffer, whole_view

_FIELDS = 4
_NEAR = 1 << 20
"""Bytes of floats that a near cache holds; beyond, reading them costs more than making them."""
_LEAST = 256
"""Trits from which on three quarters of their bytes are worth a step."""


class Expansion(NamedTuple):
    """`<name>(codes, trits, groups)`, two pointers, one int64, for trits as such elements."""

    element: Attribute


def pack_trits(program: Program) -> None:
    """Let loops read trits from the workspace, where steps of their own put them."""
    readers: dict[Buffer, list[NestStep]] = {}
    other: set[Buffer] = set()
    for step in program.steps:
        buffers = {view.buffer for view in step.reads if _are_trits(view.buffer)}
        if isinstance(step, NestStep):
            for buffer in buffers:
                readers.setdefault(buffer, []).append(step)
        else:
            other |= buffers
        if isinstance(step, LoopStep):
            other |= {view.buffer for inner in step.repeated for view in inner.reads}
    steps: list[Step] = []
    waiting = {buffer: steps_ for buffer, steps_ in readers.items() if buffer not in other}
    for step in program.steps:
        steps += [_expanded(program, b, its) for b, its in waiting.items() if its[0] is step]
        steps.append(step)
    program.steps[:] = steps


def _are_trits(buffer: Buffer) -> bool:
    content = buffer.content
    if content is None or content.dtype != np.int8 or content.size < _LEAST:
        return False
    return bool(np.abs(content).max() <= 1)


def _expanded(program: Program, buffer: Buffer, readers: Sequence[NestStep]) -> KernelStep:
    """Make a constant a part of the workspace; the step that fills it."""
    assert buffer.content is not None
    group = _FIELDS * program.recipe.width
    groups = -(-buffer.content.size // group)
    codes = program.constant(packed_codes(buffer.content, program.recipe.width), i8)
    if 4 * buffer.content.size <= _NEAR and all(_converts(step, buffer) for step in readers):
        buffer.element = f32
        for step in readers:
            _take_floats(step, buffer)
    buffer.place, buffer.content, buffer.count = "workspace", None, Size.of(groups * group)
    target = whole_view(buffer, [buffer.count])
    name = program.kernel(Expansion(buffer.element), "expand_trits")
    return KernelStep(name, [codes], [target], [Size.of(groups)])


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
    if sum(a.view.buffer is buffer for a in step.nest.read) != len(done):
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


def packed_codes(trits: Array, width: int) -> Array:
    """Codes trit + 1: field f of byte b of a group is trit f·width + b of it; int8."""
    padded = np.zeros(-(-trits.size // (_FIELDS * width)) * _FIELDS * width, np.uint8)
    padded[: trits.size] = trits.reshape(-1) + 1
    fields = padded.reshape(-1, _FIELDS, width)
    codes = sum(fields[:, f] << (2 * f) for f in range(_FIELDS))
    return np.asarray(codes, np.uint8).reshape(-1).view(np.int8)


def functions(program: Program) -> list[llvm.FuncOp]:
    """What steps of `pack_trits` call."""
    variants = program.kernels_of(Expansion)
    return [_write(program.recipe, variant.element, name) for variant, name in variants]


def _write(recipe: Recipe, element: Attribute, name: str) -> llvm.FuncOp:
    width, lanes = recipe.width, recipe.lanes
    code = Code(name, [POINTER, POINTER, i64])
    codes, trits, groups = code.arguments
    with code.each(0, groups) as group:
        words = code.load(code.at(codes, code.mul(group, width)), vector(i16, width // 2))
        target = code.at(trits, code.mul(group, _FIELDS * width), element)
        for f in range(_FIELDS):
            field = code.bits(code.lshr(words, 2 * f) if f else words, vector(i8, width))
            values = code.sub(code.and_(field, 3), 1)
            if element == i8:
                code.store(values, code.at(target, f * width))
                continue
            for start in range(0, width, lanes):
                part = code.shuffle(values, values, range(start, start + lanes))
                number = code.to_float(code.resize(part, vector(i32, lanes)))
                code.store(number, code.at(target, f * width + start, f32))
    return code.finish(linkage="internal")
