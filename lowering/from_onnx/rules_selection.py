"""ONNX import of what has sizes that depend on values, which must be known: what differs from 0,
what a condition keeps, unique elements, boxes that overlap none with a higher score.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ...dialects.inference import tensor_type
from ...ir.arrays import Array
from ..problems import ProblemError
from .onnx_builder import LARGEST_KNOWN, Builder, Call, Results, Rule
from .rules_shape import axis_of, take

_DECIDING = "{}, on which the sizes of its result depend,"


def _compress(e: Builder, call: Call) -> SSAValue:
    places = np.flatnonzero(e.array(call[1], _DECIDING.format("condition")))
    if "axis" in call.attributes:
        return take(e, call[0], axis_of(call, e.rank(call[0])), places)
    return take(e, e.reshape(call[0], [prod(e.shape(call[0]))]), 0, places)


def _unique(e: Builder, call: Call) -> Results:
    values = e.array(call[0], _DECIDING.format("values"))
    axis = call.integer("axis", None)
    unique, first, inverse, counts = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not call.integer("sorted", 1):
        order = np.argsort(first)
        unique = np.take(unique, order, axis=0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    results = [e.known(unique, tensor_type(call[0]).element_type)]
    results += [e.indices(table) for table in (first, inverse, counts)]
    return tuple(results[: max(call.outputs, 1)])


def _non_max_suppression(e: Builder, call: Call) -> SSAValue:
    """Places of the boxes with the highest scores that overlap none before them."""
    boxes = e.array(call[0], _DECIDING.format("boxes")).astype(np.float64)
    scores = e.array(call[1], _DECIDING.format("scores"))
    most = e.int_list(call[2], "count")[0] if call.has(2) else 0
    overlap, least = (
        float(e.array(call[index], "threshold").reshape(-1)[0]) if call.has(index) else default
        for index, default in ((3, 0.0), (4, -np.inf))
    )
    first, second = boxes[..., :2], boxes[..., 2:]
    if call.integer("center_point_box", 0):
        first, second = first - second / 2, first + second / 2
    low, high = np.minimum(first, second), np.maximum(first, second)
    if scores.size * min(max(most, 0), scores.shape[-1]) > LARGEST_KNOWN:
        raise ProblemError(f"it compares {scores.size} boxes with up to {most} each")
    chosen: list[tuple[int, int, int]] = []
    for image, kind in np.ndindex(*scores.shape[:2]):
        picked: list[int] = []
        for box in np.argsort(-scores[image, kind], kind="stable"):
            if len(picked) >= most or not scores[image, kind, box] > least:
                break
            shared = _overlap(low[image, box], high[image, box], low[image][picked],
                              high[image][picked])  # fmt: skip
            if not (shared > overlap).any():
                picked.append(int(box))
        chosen += [(image, kind, box) for box in picked]
    return e.indices(np.array(chosen, np.int64).reshape(-1, 3))


def _overlap(low: Array, high: Array, lows: Array, highs: Array) -> Array:
    """What a box shares with each of others, as a part of what they cover together."""
    shared = np.minimum(high, highs) - np.maximum(low, lows)
    common = np.where((shared > 0).all(-1), shared.prod(-1), 0)
    both = (high - low).prod() + (highs - lows).prod(-1) - common
    return np.divide(common, both, out=np.zeros_like(common), where=both > 0)


RULES: dict[str, Rule] = {
    "Compress": _compress,
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": lambda e, call: e.indices(
        np.array(np.nonzero(e.array(call[0], _DECIDING.format("values"))))
    ),
    "Unique": _unique,
}
"""By the type of the operator."""
