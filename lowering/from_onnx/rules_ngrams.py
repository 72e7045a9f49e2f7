"""Rules of sequences of numbers as counts: n-grams. Text is no number and stays refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..from_torch.sizes import ProblemError
from .emitter import LARGEST_KNOWN, Call, Emitter, Rule
from .rules_activation import Formula
from .rules_shape import take


def _grams(call: Call) -> dict[int, dict[tuple[int, ...], int]]:
    """For each length the n-grams of that length, with their places in the result."""
    pool, places = call.attributes["pool_int64s"], call.attributes["ngram_indexes"]
    starts = [*call.attributes["ngram_counts"], len(pool)]
    found: dict[int, dict[tuple[int, ...], int]] = {}
    index = 0
    for size, (start, end) in enumerate(pairwise(starts), 1):
        if not 0 <= start <= end <= len(pool) or (end - start) % size:
            raise ProblemError(f"its pool has no whole {size}-grams from {start} to {end}")
        for first in range(start, end, size):
            found.setdefault(size, {})[tuple(pool[first : first + size])] = places[index]
            index += 1
    if index != len(places) or min(places, default=0) < 0:
        raise ProblemError(f"it has {index} n-grams and {len(places)} places of them")
    return found


def _counted(
    e: Emitter, x: SSAValue, grams: dict[tuple[int, ...], int], step: int, width: int
) -> Formula | None:
    """How often n-grams stand in the rows of x, their elements `step` apart: [rows, width]."""
    table = np.array([*grams], np.int64)
    rows, length = e.shape(x)
    size = table.shape[1]
    count = length - step * (size - 1)
    if count < 1:
        return None
    if rows * count * table.size > LARGEST_KNOWN or width * len(grams) > LARGEST_KNOWN:
        raise ProblemError(f"it looks for {len(grams)} n-grams at {rows * count} places")
    places = [first + step * place for first in range(count) for place in range(size)]
    windows = e.reshape(take(e, x, 1, places), [rows, count, 1, size])
    same = e.convert(e.add(tensor.CompareOp(windows, e.indices(table), "eq")), f32)
    hits = e.add(tensor.ReduceSumOp(e.add(tensor.ReduceMinOp(same, [3])), [1]))
    where = np.zeros((len(grams), width), np.float32)
    where[np.arange(len(grams)), [*grams.values()]] = 1
    return Formula(e, e.add(tensor.MatmulOp(hits, e.known(where))))


def _tf_idf(e: Emitter, call: Call) -> SSAValue:
    """Counts of n-grams whose elements may stand apart, all of them by the same step."""
    if "pool_int64s" not in call.attributes:
        raise ProblemError("it works on text; the IR has numbers alone")
    grams, shape = _grams(call), e.shape(call[0])
    names = ("min_gram_length", "max_gram_length", "max_skip_count")
    low, high, skips = (int(call.attributes[name]) for name in names)
    width = max(call.attributes["ngram_indexes"], default=0) + 1
    if len(shape) not in (1, 2) or not 0 <= skips < LARGEST_KNOWN or width > LARGEST_KNOWN:
        raise ProblemError(f"it takes {shape} and skips up to {skips} elements")
    x = e.reshape(e.convert(call[0], i64), [1, *shape][-2:])
    total = Formula(e, e.known(np.zeros((e.shape(x)[0], width), np.float32)))
    # An element alone has nothing to skip; steps beyond the row find nothing.
    for step in range(1, min(skips + 1, max(shape[-1], 1)) + 1):
        for size in range(max(low, 1 if step == 1 else 2), high + 1):
            if size not in grams:
                continue
            part = _counted(e, x, grams[size], step, width)
            total = total if part is None else total + part
    made = _weighed(e, call, total, width)
    return e.reshape(made.value, [*shape[:-1], width])


def _weighed(e: Emitter, call: Call, counts: Formula, width: int) -> Formula:
    mode, weights = str(call.attributes["mode"]), call.get("weights")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ProblemError(f"its mode '{mode}' is unknown")
    if mode == "IDF":
        counts = counts.minimum(1)
    if mode == "TF" or weights is None:
        return counts
    if len(weights) < width:
        raise ProblemError(f"it has {len(weights)} weights for {width} results")
    return counts * Formula(e, e.known(np.asarray(weights[:width], np.float32)))


RULES: dict[str, Rule] = {"TfIdfVectorizer": _tf_idf}
"""By the type of the operator."""
