"""The first op of a program whose values are wrong: against its source, or on a target.

The source tells what it computes at each place, and ops carry the places that they come from; a
target is asked for beginnings of the program. Not here: verdicts on results (`verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from ..dialects.interpret import run_module
from ..ir.arrays import Array
from ..ir.errors import TritonError
from ..ir.interpreter import entry_function
from ..lowering.emission import source_place
from ..lowering.sources.source import Source, place_of
from .bisection import beginning, body_ops, first_wrong, live_values

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


Agree = Callable[["ModuleOp", Array, Array], bool]
"""Whether a result of a program is as close to the expected one as it must be."""

Run = Callable[["ModuleOp", Sequence[Array]], list[Array]]
"""The results of a program on an engine."""


@dataclass(frozen=True)
class FirstDifference:
    """Where two engines part.

    Attributes:
        op: the op's name.
        place: where it comes from: the source's name for it, file and line.
        operands: types and sizes of what it takes, such as `f32[2,3]`.
        result: the same of what differs.
        index: of the element that differs most.
        expected: its value by `expected_by`.
        actual: its value by `actual_by`.
        max_abs: the largest difference; infinite where one of the two is no number.
        expected_by: an engine.
        actual_by: the other one.
        unseen: places before it, behind the last one that agrees, which have no op that can be
            compared.
    """

    op: str
    place: str
    operands: tuple[str, ...]
    result: str
    index: tuple[int, ...]
    expected: float | int
    actual: float | int
    max_abs: float
    expected_by: str
    actual_by: str
    unseen: tuple[str, ...] = ()

    def __str__(self) -> str:
        operands = ", ".join(self.operands) or "nothing"
        text = (
            f"first difference at '{self.op}' of {self.place}: takes {operands}; element "
            f"{list(self.index)} of {self.result} is {self.actual:.9g} ({self.actual_by}) and not "
            f"{self.expected:.9g} ({self.expected_by}); largest difference {self.max_abs:.4g}"
        )
        if self.unseen:
            text += f"; no op to compare for {', '.join(self.unseen)} before it"
        return text


def gaps(expected: Array, actual: Array) -> NDArray[np.float64]:
    """|expected - actual|; 0 where both are NaN, infinite where one is. Integers are subtracted
    exactly."""
    if expected.dtype.kind in "iu" and actual.dtype.kind in "iu" and expected.dtype.itemsize == 8:
        low, high = np.minimum(expected, actual), np.maximum(expected, actual)
        return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    wide, other = expected.astype(np.float64), actual.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(wide - other)
    same = (wide == other) | (np.isnan(wide) & np.isnan(other))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def against_source(
    module: ModuleOp, source: Source, inputs: Sequence[Array], agree: Agree, interpreter: str
) -> FirstDifference | None:
    """The first op whose value the source has otherwise; `None` where none can be told.

    Of the values that leave a place those of the same sizes are compared, integers with integers of
    any width, images also with channels last; one that agrees is enough.

    Raises:
        TritonError: the source does not tell its values.
    """
    source_values = source.values(inputs)
    order = {place: number for number, place in enumerate(source_values)}
    agreed: set[tuple[str, int]] = set()
    worst: dict[tuple[str, int], FirstDifference] = {}

    def observe(op: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        place = place_of(op.location)
        if place is None or place not in source_values or place in agreed:
            return
        for value, result in zip(op.results, results, strict=True):
            if all(place_of(use.operation.location) == place for use in value.uses):
                continue
            for want in comparable(source_values[place][-1:], result):
                if agree(module, want, as_wide(result, want)):
                    agreed.add(place)
                    return
                shown = _told(op, operands, want, result, (source.engine, interpreter))
                if place not in worst or shown.max_abs <= worst[place].max_abs:
                    worst[place] = shown

    run_module(module, inputs, observer=observe)
    wrong = [place for place in source_values if place in worst and place not in agreed]
    if not wrong:
        return None
    first = wrong[0]
    before = [place for place in agreed if order[place] < order[first]]
    last = max((order[place] for place in before), default=-1)
    unseen = [f"'{place[0]}'" for place in source_values if last < order[place] < order[first]]
    return replace(worst[first], unseen=tuple(unseen[:_SHOWN]))


def on_target(
    module: ModuleOp, run: Run, inputs: Sequence[Array], agree: Agree, engines: tuple[str, str]
) -> FirstDifference | None:
    """The op with which the least beginning ends that an engine computes otherwise.

    Args:
        module: a program that the engine computes otherwise.
        run: compiles a program and runs it.
        inputs: of the program.
        agree: see `Agree`.
        engines: the interpreter's name, and the engine's.
    """
    ops = body_ops(module)

    def compared(count: int) -> tuple[ModuleOp, tuple[Array, ...], list[Array]] | None:
        part = beginning(module, count)
        if not entry_function(part, "forward").function_type.outputs.data:
            return None
        try:
            return part, run_module(part, inputs), run(part, inputs)
        except TritonError:
            return None  # the engine has no such results

    def is_wrong(count: int) -> bool | None:
        comparison = compared(count)
        return None if comparison is None else _first_off(*comparison, agree) is not None

    count = first_wrong(len(ops), is_wrong)
    comparison = compared(count)
    if comparison is None or (number := _first_off(*comparison, agree)) is None:
        return None
    _, expected, actual = comparison
    op: Operation = ops[count - 1]
    if count < len(ops):
        owner = live_values(module, count)[number].owner
    else:
        end = entry_function(module, "forward").body.block.last_op
        assert end is not None
        owner = end.operands[number].owner
    op = owner if isinstance(owner, Operation) and owner in ops else op
    operands = _operands_of(module, op, inputs)
    return _told(op, operands, expected[number], actual[number], engines)


_SHOWN = 8
"""Places that are named, at most."""


def _first_off(
    part: ModuleOp, expected: Sequence[Array], actual: Sequence[Array], agree: Agree
) -> int | None:
    for number, (want, got) in enumerate(zip(expected, actual, strict=True)):
        if want.shape != got.shape or want.dtype != got.dtype or not agree(part, want, got):
            return number
    return None


def _operands_of(module: ModuleOp, op: Operation, inputs: Sequence[Array]) -> Sequence[Any]:
    """What an op takes in a run."""
    values: list[Any] = []

    def observe(seen: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        if seen is op:
            values.extend(operands)

    run_module(module, inputs, observer=observe)
    return values


def comparable(candidates: Sequence[Array], result: Any) -> list[Array]:
    """The given values that a result may be, turned as it is."""
    matches: list[Array] = []
    for want in candidates:
        if _kind(want) != _kind(result):
            continue
        turned = [want, np.moveaxis(want, -1, 1)] if want.ndim > 2 else [want]
        matches += [laid for laid in turned if laid.shape == result.shape]
    return matches


def _kind(array: Any) -> str:
    return "i" if array.dtype.kind in "iu" else "b" if array.dtype.kind == "b" else "f"


def as_wide(result: Array, want: Array) -> Array:
    """`result` in the type of `want` where that holds all its values, as it is elsewhere."""
    with np.errstate(all="ignore"):
        cast = result.astype(want.dtype)
    same = np.array_equal(cast, result, equal_nan=_kind(want) == "f")
    return cast if same else result


def _told(
    op: Operation,
    operands: Sequence[Any],
    expected: Array,
    actual: Array,
    engines: tuple[str, str],
) -> FirstDifference:
    if expected.shape != actual.shape:
        gap, index = np.array(np.inf), ()
        values: list[float | int] = [float("nan"), float("nan")]
    else:
        gap = gaps(expected, actual)
        index = tuple(int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
        values = [_number(expected[index]), _number(actual[index])]
    return FirstDifference(
        op=op.name,
        place=_place_text(op),
        operands=tuple(form(np.asarray(value)) for value in operands),
        result=form(actual),
        index=index,
        expected=values[0],
        actual=values[1],
        max_abs=float(gap.max()),
        expected_by=engines[0],
        actual_by=engines[1],
    )


def _place_text(op: Operation) -> str:
    """`'conv1' (model.onnx:3:1)`, or the file and line alone."""
    place, where = place_of(op.location), source_place(op.location)
    if place is None or where is None:
        return "an unknown place"
    return f"'{place[0]}' ({where})" if place[0] else where


def form(array: Array) -> str:
    """`f32[2,3]`."""
    kind = {"f": "f", "i": "i", "u": "ui", "b": "i"}.get(array.dtype.kind)
    bits = 1 if array.dtype.kind == "b" else 8 * array.dtype.itemsize
    name = f"{kind}{bits}" if kind else array.dtype.name
    return f"{name}[{','.join(map(str, array.shape))}]"


def _number(value: Any) -> float | int:
    return int(value) if np.asarray(value).dtype.kind in "iub" else float(value)
