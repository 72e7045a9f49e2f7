"""Numbers in the place of constants that hold one: code knows them, and memory need not.

Shifts, bounds and zero points of quantised layers are tensors in the IR, of one element or of as
many equal ones as a layer has outputs. Steps that share a function keep those that differ in it.
Not here: smaller types for other constants (`narrowing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint

from ....ir.arrays import Array
from ....runtime.native.abi.sizes import ZERO
from .nests import Access, Nest, shape_of
from .structured import NestStep


def use_literals(steps: Sequence[NestStep]) -> None:
    """Write numbers into the bodies of loops, where all steps of the same code read the same."""
    alike: dict[object, list[NestStep]] = {}
    for step in steps:
        alike.setdefault((shape_of(step.nest), step.plan, step.kind), []).append(step)
    for group in alike.values():
        _write(group, behind=False)
        if group[0].nest.behind is not None:
            _write(group, behind=True)


def _write(steps: Sequence[NestStep], *, behind: bool) -> None:
    """Numbers into one body of each step."""
    for n in range(len(_body(steps[0].nest, behind=behind)[0].args)):
        read = [_content(step.nest, n, behind=behind) for step in steps]
        kind = _body(steps[0].nest, behind=behind)[0].args[n].type
        first = read[0]
        # Bytes, for zeros have signs.
        if first is None or any(x is None or x.tobytes() != first.tobytes() for x in read):
            continue
        number = _number(first.item(), kind)
        if number is None:
            continue
        for step in steps:
            argument = _body(step.nest, behind=behind)[0].args[n]
            literal = arith.ConstantOp(number)
            Builder(InsertPoint.at_start(argument.block)).insert(literal)
            argument.replace_all_uses_with(literal.result)
            step.nest = _without(step.nest, argument)
            step.given = step.given and _without(step.given, argument)


def _body(nest: Nest, *, behind: bool) -> tuple[Block, Mapping[SSAValue, Access]]:
    """The ops of a nest, or those behind its sums, and what their arguments stand for."""
    if not behind:
        return nest.body, nest.reads
    assert nest.behind is not None
    return nest.behind.body, nest.behind.reads


def _without(nest: Nest, argument: SSAValue) -> Nest:
    """The nest where an argument stands for nothing."""

    def rest(reads: Mapping[SSAValue, Access]) -> dict[SSAValue, Access]:
        return {v: a for v, a in reads.items() if v is not argument}

    behind = nest.behind and replace(nest.behind, reads=rest(nest.behind.reads))
    return replace(nest, reads=rest(nest.reads), behind=behind)


def _content(nest: Nest, n: int, *, behind: bool) -> Array | None:
    """What an argument is in every iteration, if that is one known number: an array of it."""
    body, reads = _body(nest, behind=behind)
    a = reads.get(body.args[n])
    if a is None or a.view.buffer.content is None:
        return None
    if any(a.depends_on(d) for d in nest.reductions):
        return None  # weights of sums are what instructions multiply
    content, start = a.view.buffer.content, a.offset.number
    if start is not None and all(stride == ZERO for stride in a.strides):
        content = content[start : start + 1]
    first = content[:1]
    return first if first.size and content.tobytes() == first.tobytes() * content.size else None


def _number(value: Any, kind: Attribute) -> IntegerAttr | FloatAttr | None:
    if isinstance(kind, IntegerType):
        return IntegerAttr(int(value), cast("IntegerType[int]", kind))
    return FloatAttr(float(value), kind) if isinstance(kind, AnyFloat) else None
