"""What the reference interpreter computed at each value of a stage, in numbers that fit on a page.

Not here: engines to compare with (`engines`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ...ir.errors import TritonError, first_line
from ...ir.interpreter import entry_function
from ..tracing import gaps
from ..verify import ATOL, RTOL

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
    width = high - low
    if np.isfinite(width):
        bars = np.histogram(finite, BINS, (low, high) if width > 0 else (low - 0.5, low + 0.5))[0]
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


def gap(expected: Array, actual: Array) -> dict[str, Any] | None:
    """How far two arrays of the same sizes are apart, and whether more than rounding is in it;
    `None` of others.

    Integers must be equal, floats within the tolerance of `triton verify`.
    """
    if expected.shape != actual.shape or expected.dtype.kind not in "biuf":
        return None
    if actual.dtype.kind not in "biuf":
        return None
    apart = gaps(expected, actual)
    most = float(apart.max(initial=0.0))
    wide = np.abs(expected.astype(np.float64))
    largest = float(wide.max(initial=0.0, where=np.isfinite(wide)))
    exact = expected.dtype.kind in "biu" and actual.dtype.kind in "biu"
    bound = 0.0 if exact else ATOL + RTOL * largest
    share = most / largest if largest else float(most > 0)
    return {
        "max_abs": _json(most),
        "relative": _json(share),
        "wrong": not most <= bound,
    }


def _json(number: float) -> float | str:
    """JSON has no infinity."""
    return _digits(number) if np.isfinite(number) else "inf"


def gaps_of(
    pairs: Mapping[int, int],
    expected: Mapping[int, Array],
    actual: Mapping[int, Array],
) -> dict[str, Any]:
    """The differences of values, by the numbers of the later stage, as text."""
    found: dict[str, Any] = {}
    for number, before in pairs.items():
        if number in actual and before in expected:
            apart = gap(expected[before], actual[number])
            if apart is not None:
                found[str(number)] = apart
    return found
