"""What the reference interpreter computed at each value of a stage, in numbers that fit on a page.

Not here: engines to compare with (`engines`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ...ir.errors import TritonError, first_line
from ...ir.interpreter import entry_function
from ...lowering.comparison import has_steps
from ..tracing import gaps
from ..verify import ATOL, RTOL, STRAY, is_integer_program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

BINS = 24
"""Bars of a histogram."""

Observed = dict[SSAValue, Array]
"""What a run gave at each value."""


def observe(module: ModuleOp, inputs: Sequence[Array]) -> tuple[Observed, str]:
    """What the interpreter gives at each value, or none and why."""
    seen: Observed = {}

    def note(op: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        seen.update(zip(op.results, map(np.asarray, results), strict=True))

    try:
        arguments = entry_function(module, "forward").body.block.args
        run_module(module, inputs, observer=note)
    except TritonError as error:
        return {}, first_line(error)
    return {**dict(zip(arguments, inputs, strict=True)), **seen}, ""


def statistics(array: Array) -> dict[str, Any]:
    """Range, mean, share of zeros, bits and a histogram.

    `bits` are of the element type; of integers those that hold all values there are.
    """
    numbers = array.astype(np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    facts: dict[str, Any] = {"count": array.size, "bits": _bits(array, finite)}
    if finite.size < numbers.size:
        facts["not_finite"] = int(numbers.size - finite.size)
    if not finite.size:
        return facts
    low, high = float(finite.min()), float(finite.max())
    # Floats are this far apart there, and no two bounds of a histogram may be one.
    apart = 2 * BINS * float(np.spacing(max(abs(low), abs(high))))
    ends = (low, high) if high - low > apart else (low - max(0.5, apart), low + max(0.5, apart))
    if np.isfinite(ends[1] - ends[0]):
        bars = np.histogram(finite, BINS, ends)[0]
        facts["histogram"] = [int(bar) for bar in bars]
    return facts | {
        "min": _digits(low),
        "max": _digits(high),
        "mean": _digits(float(finite.mean())),
        "zeros": _digits(1 - np.count_nonzero(numbers) / numbers.size),
    }


def _bits(array: Array, finite: Array) -> int:
    if array.dtype.kind == "b":
        return 1
    if array.dtype.kind not in "iu" or not finite.size:
        return 8 * array.dtype.itemsize
    low, high = int(array.min()), int(array.max())
    return (
        max(high.bit_length(), (-low - 1).bit_length()) + 1
        if low < 0
        else max(1, high.bit_length())
    )


def _digits(number: float) -> float:
    return float(f"{number:.5g}")


def stray_share(module: ModuleOp) -> float:
    """The share of elements that roundings may put on other steps, as `triton verify` has it."""
    return STRAY if has_steps(module) and not is_integer_program(module) else 0.0


def gap(expected: Array, actual: Array, stray: float = 0.0) -> dict[str, Any] | None:
    """How far two arrays of the same sizes are apart, and whether more than rounding is in it;
    `None` of others.

    Integers must be equal, floats within the tolerance of `triton verify`, those of 16 bits within
    8 units in their last place; a share `stray` of the elements may be anything.
    """
    if expected.shape != actual.shape or not {expected.dtype.kind, actual.dtype.kind} <= {*"biufV"}:
        return None
    apart = gaps(expected, actual)
    most = float(apart.max(initial=0.0))
    wide = np.abs(expected.astype(np.float64))
    largest = float(wide.max(initial=0.0, where=np.isfinite(wide)))
    exact = expected.dtype.kind in "biu" and actual.dtype.kind in "biu"
    step = max(_STEPS.get(array.dtype.name, 0.0) for array in (expected, actual))
    bound = 0.0 if exact else ATOL + max(RTOL, 8 * step) * largest
    share = most / largest if largest else float(most > 0)
    return {
        "max_abs": _json(most),
        "relative": _json(share),
        "wrong": bool((~(apart <= bound)).mean() > stray) if apart.size else False,
    }


_STEPS = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Relative steps of floats of 16 bits."""


def _json(number: float) -> float | str:
    """JSON has no infinity."""
    return _digits(number) if np.isfinite(number) else "inf"


def gaps_of(
    pairs: Mapping[int, int],
    expected: Mapping[int, Array],
    actual: Mapping[int, Array],
    results: Collection[int],
    stray: float = 0.0,
) -> dict[str, Any]:
    """The differences of values, by the numbers of the later ones, as text.

    Args:
        pairs: numbers of what is compared.
        expected: arrays by the numbers on the right.
        actual: arrays by the numbers on the left.
        results: numbers on the left that must be comparable: other sizes are wrong.
        stray: see `gap`.
    """
    found: dict[str, Any] = {}
    for number, before in pairs.items():
        if number in actual and before in expected:
            apart = gap(expected[before], actual[number], stray)
            if apart is None and number in results:
                apart = {"max_abs": "inf", "relative": "inf", "wrong": True}
            if apart is not None:
                found[str(number)] = apart
    return found
