"""A matrix that a program computes, brought into the order in which dot products take weights.

Panels of outputs: groups of taps, in each of them the outputs, of each the taps of the group. Sums
of the weights of each output come with it, for images that stand in memory less a number. Not here:
for which products (`program.packed_factors`), the products (`program.dot_code`).
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ..llvm.types import vector
from .code import POINTER, Code, lanes
from .recipes import Recipe

BYTES = 4
"""Taps of a group of bytes."""


class Packing(NamedTuple):
    """`<name>(x, panels, sums)`: weights [outs, taps] in panels, and `times` their sums, int32.

    Attributes:
        element: of the weights in memory: i8 or i16.
        unsigned: whether its numbers have no sign.
        packed: of the panels: i8 or i16.
        low: what weights are above the numbers in memory.
        outs, taps: of the matrix.
        out_step, tap_step: numbers in memory from one to the next; one of them is 1.
        width: outputs of a panel, a multiple of the lanes.
        group: taps of a group.
        times: what sums are multiplied by; 0 where there are none.
    """

    element: Attribute
    unsigned: bool
    packed: Attribute
    low: int
    outs: int
    taps: int
    out_step: int
    tap_step: int
    width: int
    group: int
    times: int

    @property
    def groups(self) -> int:
        """Of taps, the last filled up by zeros."""
        return -(-self.taps // self.group)

    @property
    def panels(self) -> int:
        """Of outputs; those of the last that are void hold anything."""
        return -(-self.outs // self.width)


def write_packing(recipe: Recipe, variant: Packing, name: str) -> llvm.FuncOp:
    """The function of a variant."""
    code = Code(name, [POINTER] * 3)
    whole = variant.outs // variant.width
    with code.each(0, whole) as panel:
        _panel(code, recipe, variant, panel, variant.width)
    if whole < variant.panels:
        _panel(code, recipe, variant, code.constant(whole), variant.outs % variant.width)
    return code.finish(linkage="internal")


def _panel(code: Code, recipe: Recipe, variant: Packing, panel: SSAValue, outs: int) -> None:
    """Some outputs of a panel, a register of int32 after the other."""
    x, panels, sums = code.arguments
    for first in range(0, outs, recipe.lanes):
        out = code.add(code.mul(panel, variant.width), first)
        source = code.at(x, code.mul(out, variant.out_step), variant.element)
        place = code.add(code.mul(panel, variant.groups * variant.width), first)
        target = code.at(panels, code.mul(place, variant.group), variant.packed)
        total = _outputs(code, recipe, variant, source, target, min(recipe.lanes, outs - first))
        if variant.times:
            code.store(code.mul(total, variant.times), code.at(sums, out, i32))


def _outputs(
    code: Code, recipe: Recipe, variant: Packing, source: SSAValue, target: SSAValue, count: int
) -> SSAValue:
    """All groups of so many outputs; the sums of their weights, if any are wanted."""
    group, whole = variant.group, variant.taps // variant.group

    def put(number: SSAValue, total: SSAValue, valid: int) -> SSAValue:
        place = code.at(source, code.mul(number, group * variant.tap_step), variant.element)
        values = _group(code, variant, place, count, recipe.lanes, valid)
        there = code.mul(number, variant.width * group)
        code.store(values, code.at(target, there, variant.packed))
        return _summed(code, recipe, variant, total, values) if variant.times else total

    with code.loop(0, whole, 1, [code.constant(0, vector(i32, recipe.lanes))]) as turn:
        turn.values = [put(turn.index, turn.values[0], group)]
    (total,) = turn.values
    rest = variant.taps % group
    return put(code.constant(whole), total, rest) if rest else total


def _group(
    code: Code, variant: Packing, place: SSAValue, outs: int, width: int, valid: int
) -> SSAValue:
    """The taps of a group of so many outputs, of each one after the other; zeros behind `valid`."""
    group = variant.group
    if variant.out_step == 1:
        kind = vector(variant.element, width)
        taps = (code.at(place, t * variant.tap_step, variant.element) for t in range(valid))
        lines = [_converted(code, variant, code.load(tap, kind)) for tap in taps]
        nothing = code.constant(0, lines[0].type)
        lines += [nothing] * (group - valid)
        joined = code.joined(lines)
        return code.shuffle(
            joined, joined, [t * width + n for n in range(width) for t in range(group)]
        )
    kind = vector(variant.element, group)
    rows = [
        code.load(code.at(place, min(n, outs - 1) * variant.out_step, variant.element), kind)
        for n in range(width)
    ]
    values = _converted(code, variant, code.joined(rows))
    if valid == group:
        return values
    known = [int(n % group < valid) for n in range(width * group)]
    return code.mul(values, code.listed(known, values.type))


def _converted(code: Code, variant: Packing, values: SSAValue) -> SSAValue:
    """Weights as they are packed, of what stands in memory."""
    kind = vector(variant.packed, lanes(values.type))
    values = code.resize(values, kind, unsigned=variant.unsigned)
    return code.add(values, variant.low) if variant.low else values


def _summed(
    code: Code, recipe: Recipe, variant: Packing, total: SSAValue, values: SSAValue
) -> SSAValue:
    """Sums, and the weights of a group more."""
    if variant.group == BYTES:
        return recipe.dot(code, total, code.constant(1, vector(i8, recipe.width)), values)
    assert recipe.words is not None
    words = code.resize(values, vector(i16, recipe.width // 2))
    return recipe.words(code, total, code.constant(1, words.type), words)
