"""Operators whose results have sizes that depend on values: unique elements, boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_onnx.onnx_backend import reference_backend


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("ordered", [0, 1])
def test_unique_elements_that_are_known(bench: Any, axis: int | None, ordered: int) -> None:
    x = np.array([[2, 1, 2], [0, 1, 0], [2, 1, 2]], np.float32)
    options: dict[str, Any] = {"sorted": ordered} | ({} if axis is None else {"axis": axis})
    names = ["y", "first", "inverse", "counts"]
    node = helper.make_node("Unique", ["x"], names, **options)
    model = bench.model([node], {"x": (x.dtype, x.shape)}, names)
    expected, made = bench.run(model, {"x": x}), reference_backend().run_model(model, [x])
    for got, want in zip(made, expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_what_a_known_condition_keeps(bench: Any, axis: int | None) -> None:
    x = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)
    options: dict[str, Any] = {} if axis is None else {"axis": axis}
    node = helper.make_node("Compress", ["x", "c"], ["y"], **options)
    condition = {"c": np.array([True, False, True])}
    bench.check(bench.model([node], {"x": (x.dtype, x.shape)}, ["y"], condition), {"x": x})


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("threshold", [None, 0.3])
def test_boxes_that_are_known(bench: Any, center: int, threshold: float | None) -> None:
    rng = np.random.default_rng(4)
    inputs = {
        "boxes": rng.uniform(0.1, 1, (2, 30, 4)).astype(np.float32),
        "scores": rng.uniform(0, 1, (2, 3, 30)).astype(np.float32),
    }
    constants = {"n": np.array([8]), "iou": np.array([0.4], np.float32)}
    names = ["boxes", "scores", "n", "iou"]
    if threshold is not None:
        constants["t"] = np.array([threshold], np.float32)
        names.append("t")
    node = helper.make_node("NonMaxSuppression", names, ["y"], center_point_box=center)
    model = bench.model(
        [node], {k: (v.dtype, v.shape) for k, v in inputs.items()}, ["y"], constants
    )
    (expected,) = bench.run(model, inputs)
    (made,) = reference_backend().run_model(model, [*inputs.values()])
    np.testing.assert_array_equal(made, expected)


def test_boxes_that_are_computed_are_refused(bench: Any) -> None:
    node = helper.make_node("NonMaxSuppression", ["b", "s"], ["y"])
    inputs = {"b": (np.float32, (1, 9, 4)), "s": (np.float32, (1, 1, 9))}
    with pytest.raises(UnsupportedError, match="on which the sizes of its result depend"):
        from_onnx(bench.model([node], inputs, ["y"]))
