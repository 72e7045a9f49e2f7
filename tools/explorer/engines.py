"""What engines make of each op of a program, beside what the interpreter gives for it.

An engine is asked for all values at once: the program is compiled once more with every value among
its results. Not here: verdicts (`verify`), and beginnings of programs (`tracing.on_target`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from ...ir.arrays import Array
from ...ir.errors import TritonError, first_line
from ...ir.interpreter import entry_function
from ...lowering.engine import engine_of, fit_steps
from ...lowering.sources.source import Source, place_of
from ..bisection import body_ops
from ..tracing import as_wide, comparable
from .following import Objects
from .recorder import first_wrong
from .values import gap, gaps_of, stray_share

Arrays = Mapping[int, Array]
"""What the interpreter gives, by the number of the value."""


def of_source(
    module: ModuleOp, source: Source, inputs: Sequence[Array], arrays: Arrays
) -> dict[str, Any]:
    """A check of an imported program: what its source computes at the same places."""
    objects = Objects(module)
    found: dict[str, Any] = {}
    note, stray = "", stray_share(module)
    try:
        given = source.values(inputs)
    except TritonError as error:
        given, note = {}, first_line(error)
    for value, number in objects.value_number.items():
        place = place_of(getattr(value.owner, "location", module.location))
        leaves = [use for use in value.uses if place_of(use.operation.location) != place]
        if place not in given or number not in arrays or not leaves:
            continue
        result = arrays[number]
        rows = [
            gap(want, as_wide(result, want), stray)
            for want in comparable(given[place][-1:], result)
        ]
        near = [row for row in rows if row is not None]
        if near:
            found[str(number)] = min(near, key=lambda row: float(row["max_abs"]))
    known = getattr(source, "engine", "none")
    return _check("source", "the source" if known == "none" else known, objects, found, note)


def of_target(
    module: ModuleOp, target: str, inputs: Sequence[Array], arrays: Arrays
) -> dict[str, Any]:
    """A check of a program: what the engine of a target gives for its results, and for each op."""
    objects = Objects(module)
    numbers = objects.returned
    found: dict[str, Any] = {}
    note = ""
    try:
        engine = engine_of(fit_steps(module, target, inputs), target)
        given = engine.run(inputs)
        inner, note = _inner(module, target, inputs)
    except TritonError as error:
        return _check("engine", target, objects, found, first_line(error))
    actual = {objects.value_number[value]: np.asarray(array) for value, array in inner.items()}
    actual |= dict(zip(numbers, map(np.asarray, given), strict=False))
    pairs = {number: number for number in actual}
    found = gaps_of(pairs, arrays, actual, numbers, stray_share(module))
    return _check("engine", f"{target} ({engine.name})", objects, found, note, numbers)


def _check(
    kind: str,
    name: str,
    objects: Objects,
    found: dict[str, Any],
    note: str,
    numbers: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A check as `record` has it; it agrees where the results do, or all, if none are named."""
    judged = found if numbers is None else {str(n): found.get(str(n), {}) for n in numbers}
    return {
        "kind": kind,
        "name": name,
        "agrees": not any(row.get("wrong") for row in judged.values()),
        "values": found,
        "first": first_wrong(objects, found),
        "note": note,
    }


def _inner(
    module: ModuleOp, target: str, inputs: Sequence[Array]
) -> tuple[dict[SSAValue, Array], str]:
    """What a program gives at values on the way, and why where it does not tell."""
    all_given = module.clone()
    function = entry_function(all_given, "forward")
    depending = set[SSAValue](entry_function(module, "forward").args)
    for op in body_ops(module):
        if any(operand in depending for inner in op.walk() for operand in inner.operands):
            depending.update(op.results)
    ways = [value for op in body_ops(module) for value in op.results if value in depending]
    same = dict(zip(Objects(module).values, Objects(all_given).values, strict=True))
    end = function.body.block.last_op
    assert isinstance(end, ReturnOp)
    Rewriter.replace_op(end, ReturnOp(*end.operands, *(same[value] for value in ways)))
    function.res_attrs = None
    function.update_function_type()
    try:
        given = engine_of(fit_steps(all_given, target, inputs), target).run(inputs)
    except TritonError as error:
        return {}, f"values on the way are not told: {first_line(error)}"
    return dict(zip(ways, given[len(end.operands) :], strict=False)), ""
