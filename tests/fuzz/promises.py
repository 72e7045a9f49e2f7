"""Where an engine promises less than the oracle knows, as its page of the documentation says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float64Type, ModuleOp

Array = NDArray[Any]

PRODUCTS = ("matmul", "linear", "attention")
"""How the ops end that ONNX Runtime may multiply by a scale beside them."""
ACCURACY = 16 * 2.0**-23
"""Of float32 for the largest number of a result, after some operations."""


def promised(
    target: str, module: ModuleOp, values: Sequence[Array], bounds: Sequence[Array]
) -> tuple[Array, ...]:
    """The bounds of what a target computes of a program: wider, where it says so.

    ONNX Runtime rounds a scale beside a float64 product to float32 (docs/targets/onnx.md). Integers
    behind one are not determined.
    """
    if target != "onnx" or not any(
        op.name.endswith(PRODUCTS)
        and isinstance(getattr(op.results[0].type, "element_type", None), Float64Type)
        for op in module.walk()
    ):
        return tuple(bounds)
    return tuple(
        bound + ACCURACY * np.abs(value).max(initial=0.0)
        if value.dtype.kind == "f"
        else np.full(value.shape, np.inf)
        for value, bound in zip(values, bounds, strict=True)
    )
