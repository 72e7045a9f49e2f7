"""Which ops of a program became which in a rewrite.

An op is followed by being the same object, then by what its results were replaced with, then by
who used them, and last by its place in the source. Not here: what is recorded of ops (`stage`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import ErasedSSAValue, Operation, SSAValue

Replaced = Mapping[SSAValue, SSAValue]
"""What took the place of a value in all its uses."""


@contextmanager
def replacements() -> Generator[dict[SSAValue, SSAValue]]:
    """Notes which value takes the place of which while it lasts.

    Every rewrite goes through one method of xDSL, driven by patterns or by hand, so that one is
    listened to.
    """
    noted: dict[SSAValue, SSAValue] = {}
    method = SSAValue.replace_all_uses_with

    def listened(self: SSAValue, value: SSAValue) -> None:
        if value is not self and not isinstance(value, ErasedSSAValue):  # that means: erased
            noted[self] = value
        method(self, value)

    SSAValue.replace_all_uses_with = listened
    try:
        yield noted
    finally:
        SSAValue.replace_all_uses_with = method


class Objects:
    """The ops of a module in the order of its text, its values, and their numbers.

    They stay as the module was, whatever becomes of it.

    Attributes:
        ops: all but the module.
        values: arguments of blocks and results, in the order of the text.
        users: for each op the numbers of ops that take a result.
        places: of each op.
        returned: numbers of the values that `@forward` gives.
    """

    def __init__(self, module: ModuleOp) -> None:
        self.ops: list[Operation] = [op for op in module.walk() if op is not module]
        self.values: list[SSAValue] = []
        for op in self.ops:
            self.values += op.results
            for region in op.regions:
                for block in region.blocks:
                    self.values += block.args
        self.number = {op: index for index, op in enumerate(self.ops)}
        self.value_number = {value: index for index, value in enumerate(self.values)}
        self.users = [
            sorted({self.number[use.operation] for r in op.results for use in r.uses})
            for op in self.ops
        ]
        self.places = [op.location for op in self.ops]
        self.returned: list[int] = []
        for op in self.ops:
            if isinstance(op, FuncOp) and op.sym_name.data == "forward" and op.body.blocks:
                end = op.body.block.last_op
                if isinstance(end, ReturnOp):
                    self.returned = [self.value_number[value] for value in end.operands]


def _final(value: SSAValue, replaced: Replaced) -> SSAValue:
    seen = {value}
    while value in replaced and (value := replaced[value]) not in seen:
        seen.add(value)
    return value


def values_followed(before: Objects, after: Objects, replaced: Replaced) -> dict[int, int]:
    """For values of `after` the value of `before` that stood in their place."""
    followed: dict[int, int] = {}
    for index, value in enumerate(before.values):
        number = after.value_number.get(_final(value, replaced))
        if number is not None and (value in after.value_number or number not in followed):
            followed[number] = index
    return followed


def origins(before: Objects, after: Objects, replaced: Replaced) -> list[list[int]]:
    """For each op of `after` the ops of `before` that it comes from, in order."""
    heirs: list[set[int]] = [set() for _ in before.ops]
    for index in reversed(range(len(before.ops))):
        op = before.ops[index]
        if op in after.number:
            heirs[index] = {after.number[op]}
            continue
        finals = [_final(result, replaced) for result in op.results]
        owners = [value.owner for value in finals if value in after.value_number]
        heirs[index] = {after.number[o] for o in owners if isinstance(o, Operation)}
        if not heirs[index]:
            heirs[index] = {heir for user in before.users[index] for heir in heirs[user]}
    known = [set[int]() for _ in after.ops]
    for index, found in enumerate(heirs):
        for heir in found:
            known[heir].add(index)
    gone: dict[object, list[int]] = defaultdict(list)
    stayed: dict[object, list[int]] = defaultdict(list)
    for index, place in enumerate(before.places):
        if not isinstance(place, UnknownLoc):
            (stayed if before.ops[index] in after.number else gone)[place].append(index)
    for number, op in enumerate(after.ops):
        if not known[number]:
            same = gone.get(op.location) or stayed.get(op.location) or []
            named = [index for index in same if before.ops[index].name == op.name]
            known[number].update(named or same)
    return [sorted(found) for found in known]
