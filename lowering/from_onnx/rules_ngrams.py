"""Rules of sequences of numbers as counts: n-grams. Text is no number and stays refused."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..from_torch.sizes import ProblemError
from .emitter import LARGEST_KNOWN, Call, Emitter, Rule
from .rules_activation import Formula
from .rules_shape import take


@dataclass(frozen=True)
class _Grams:
    """n-grams of one length: their elements, their places in the result and in the pool."""

    elements: NDArray[np.int64]
    places: list[int]
    order: list[int]


def _grams(call: Call) -> dict[int, _Grams]:
    """The n-grams of each length."""
    pool, places = call.attributes["pool_int64s"], call.attributes["ngram_indexes"]
    starts = [*call.attributes["ngram_counts"], len(pool)]
    found: dict[int, _Grams] = {}
    index = 0
    for size, (start, end) in enumerate(pairwise(starts), 1):
        if not 0 <= start <= end <= len(pool) or (end - start) % size:
            raise ProblemError(f"its pool has no whole {size}-grams from {start} to {end}")
        # Of several that are equal the last one counts.
        last: dict[tuple[int, ...], int] = {}
        for first in range(start, end, size):
            last[tuple(pool[first : first + size])] = index
            index += 1
        if last and index <= len(places):
            order = [*last.values()]
            table = np.array([*last], np.int64)
            found[size] = _Grams(table, [int(places[i]) for i in order], order)
    if index != len(places) or min(places, default=0) < 0:
        raise ProblemError(f"it has {index} n-grams and {len(places)} places of them")
    return found


def _counted(e: Emitter, x: SSAValue, grams: _Grams, step: int) -> Formula | None:
    """How often n-grams stand in the rows of x, their elements `step` apart: [rows, n-grams]."""
    rows, length = e.shape(x)
    size = grams.elements.shape[1]
    count = length - step * (size - 1)
    if count < 1:
        return None
    if rows * count * grams.elements.size > LARGEST_KNOWN:
        raise ProblemError(f"it looks for {len(grams.order)} n-grams at {rows * count} places")
    places = [first + step * place for first in range(count) for place in range(size)]
    windows = e.reshape(take(e, x, 1, places), [rows, count, 1, size])
    same = e.convert(e.add(tensor.CompareOp(windows, e.indices(grams.elements), "eq")), f32)
    return Formula(e, e.add(tensor.ReduceSumOp(e.add(tensor.ReduceMinOp(same, [3])), [1])))


def _tf_idf(e: Emitter, call: Call) -> SSAValue:
    """Counts of n-grams whose elements may stand apart, all of them by the same step."""
    if "pool_int64s" not in call.attributes:
        raise ProblemError("it works on text; the IR has numbers alone")
    shape, names = e.shape(call[0]), ("min_gram_length", "max_gram_length", "max_skip_count")
    low, high, skips = (int(call.attributes[name]) for name in names)
    width = max(call.attributes["ngram_indexes"], default=0) + 1
    if len(shape) not in (1, 2) or not 0 <= skips < LARGEST_KNOWN or width > LARGEST_KNOWN:
        raise ProblemError(f"it takes {shape} and skips up to {skips} elements")
    if width * ([1, *shape][-2]) > LARGEST_KNOWN:
        raise ProblemError(f"it makes {width} counts for each row of {shape}")
    x = e.reshape(e.convert(call[0], i64), [1, *shape][-2:])
    made = Formula(e, e.known(np.zeros((e.shape(x)[0], width), np.float32)))
    for size, grams in _grams(call).items():
        if not low <= size <= high:
            continue
        # An element alone has nothing to skip; steps beyond the row find nothing.
        steps = range(1, 2 if size == 1 else min(skips + 1, max(shape[-1], 1)) + 1)
        parts = [part for step in steps if (part := _counted(e, x, grams, step)) is not None]
        if parts:
            counts = parts[0]
            for part in parts[1:]:
                counts = counts + part
            made = made + _weighed(e, call, counts, grams, width)
    return e.reshape(made.value, [*shape[:-1], width])


def _weighed(e: Emitter, call: Call, counts: Formula, grams: _Grams, width: int) -> Formula:
    """Counts of n-grams at their places in the result, with their weights."""
    mode, weights = str(call.attributes["mode"]), call.get("weights")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ProblemError(f"its mode '{mode}' is unknown")
    count = len(grams.order)
    if count * width > LARGEST_KNOWN:
        raise ProblemError(f"it counts {count} n-grams for {width} results")
    table = np.zeros((count, width), np.float32)
    table[np.arange(count), grams.places] = (
        1 if mode == "TF" or weights is None else [weights[i] for i in grams.order]
    )
    counts = counts.minimum(1) if mode == "IDF" else counts
    return Formula(e, e.add(tensor.MatmulOp(counts.value, e.known(table))))


RULES: dict[str, Rule] = {"TfIdfVectorizer": _tf_idf}
"""By the type of the operator."""
