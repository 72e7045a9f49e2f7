"""Regions of images, deformed windows and boxes that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_onnx.backend import reference_backend

Array = np.ndarray[Any, Any]


def image(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def boxes(count: int, width: float, height: float) -> Array:
    """[x1, y1, x2, y2], some of them partly outside."""
    rng = np.random.default_rng(1)
    low = rng.uniform(-2, [width, height], (count, 2))
    size = rng.uniform(0.5, [width, height], (count, 2))
    return np.concatenate([low, low + size], 1).astype(np.float32)


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [1, 2, 3])
def test_aligned_regions(bench: Any, mode: str, ratio: int) -> None:
    """Regions that are arguments, and a number of images that is not theirs."""
    node = helper.make_node(
        "RoiAlign", ["x", "r", "b"], ["y"], output_height=3, output_width=2, sampling_ratio=ratio,
        spatial_scale=0.5, coordinate_transformation_mode=mode,
    )  # fmt: skip
    inputs = {"x": image(2, 3, 7, 9), "r": boxes(5, 16, 12), "b": np.array([0, 1, 1, 0, 1])}
    model = bench.model([node], {k: (v.dtype, v.shape) for k, v in inputs.items()}, ["y"], opset=16)
    bench.check(model, inputs)


def test_adaptive_regions_must_be_known(bench: Any) -> None:
    """How many points a region is sampled at depends on its size."""
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=2)
    regions, which = boxes(4, 9, 7), np.array([1, 0, 1, 1])
    inputs = {"x": (np.float32, (2, 3, 7, 9)), "r": (np.float32, (4, 4))}
    model = bench.model([node], inputs, ["y"], {"b": which}, opset=16)
    with pytest.raises(UnsupportedError, match=r"sampling_ratio is 0.* must be known before"):
        from_onnx(model)
    x = image(2, 3, 7, 9)
    (made,) = run_module(from_onnx(model, constants={"r": regions}), [x])
    (expected,) = bench.run(model, {"x": x, "r": regions})
    np.testing.assert_allclose(made, expected, 2e-5, 2e-5)


@pytest.mark.parametrize("cells", [[1, 1], [3, 2], [4, 5]])
def test_pooled_regions(bench: Any, cells: list[int]) -> None:
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=cells, spatial_scale=0.5)
    rng = np.random.default_rng(2)
    low = rng.integers(0, 10, (6, 2))
    regions = np.concatenate(
        [rng.integers(0, 2, (6, 1)), low, low + rng.integers(0, 12, (6, 2))], 1
    ).astype(np.float32)
    inputs = {"x": image(2, 3, 9, 10), "r": regions}
    model = bench.model([node], {k: (v.dtype, v.shape) for k, v in inputs.items()}, ["y"])
    bench.check(model, inputs)


def deformed(
    x: Array, weight: Array, offset: Array, mask: Array | None, groups: tuple[int, int], pad: int
) -> Array:
    """A deformed convolution of stride 1, pixel by pixel."""
    n, channels, height, width = x.shape
    made, inner, kh, kw = weight.shape
    group, shifted = groups
    oh, ow = offset.shape[2:]
    shifts = offset.reshape(n, shifted, kh, kw, 2, oh, ow)
    result = np.zeros((n, made, oh, ow))

    def pixel(b: int, c: int, y: float, x_place: float) -> float:
        total = 0.0
        for i in (int(np.floor(y)), int(np.floor(y)) + 1):
            for j in (int(np.floor(x_place)), int(np.floor(x_place)) + 1):
                if 0 <= i < height and 0 <= j < width:
                    total += (1 - abs(y - i)) * (1 - abs(x_place - j)) * float(x[b, c, i, j])
        return total

    for b, o, c, k, m, i, j in np.ndindex(n, made, inner, kh, kw, oh, ow):
        channel = o // (made // group) * inner + c
        s = channel // (channels // shifted)
        dy, dx = shifts[b, s, k, m, :, i, j]
        value = pixel(b, channel, i - pad + k + dy, j - pad + m + dx)
        if mask is not None:
            value *= mask.reshape(n, shifted, kh, kw, oh, ow)[b, s, k, m, i, j]
        result[b, o, i, j] += value * weight[o, c, k, m]
    return result


@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_deformed_windows(bench: Any, groups: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    x, weight = image(2, 4, 5, 6), image(6, 4 // groups[0], 3, 2)
    offset = rng.normal(0, 1.5, (2, groups[1] * 12, 5, 7)).astype(np.float32)
    mask = rng.uniform(0, 1, (2, groups[1] * 6, 5, 7)).astype(np.float32)
    bias = image(6)
    node = helper.make_node(
        "DeformConv", ["x", "w", "o", "b", "m"], ["y"], pads=[1, 1, 1, 1], group=groups[0],
        offset_group=groups[1],
    )  # fmt: skip
    inputs = {"x": x, "o": offset, "m": mask}
    model = bench.model(
        [node], {k: (v.dtype, v.shape) for k, v in inputs.items()}, ["y"],
        {"w": weight, "b": bias}, opset=22,
    )  # fmt: skip
    (made,) = run_module(from_onnx(model), [*inputs.values()])
    expected = deformed(x, weight, offset, mask, groups, 1) + bias.reshape(-1, 1, 1)
    np.testing.assert_allclose(made, expected, 1e-4, 1e-4)


def test_deformed_windows_that_are_not(bench: Any) -> None:
    """Without shifts, a convolution, with strides and dilations, of volumes too."""
    for spatial in (2, 3):
        x, weight = image(1, 2, *[7] * spatial), image(3, 2, *[2] * spatial)
        options: dict[str, Any] = {"strides": [2] * spatial, "dilations": [2] * spatial}
        offset = np.zeros((1, 2**spatial * spatial, *[3] * spatial), np.float32)
        models = [
            bench.model(
                [helper.make_node(op, names, ["y"], **options)],
                {"x": (np.float32, x.shape)}, ["y"], {"w": weight, "o": offset}, opset=22,
            )
            for op, names in (("DeformConv", ["x", "w", "o"]), ("Conv", ["x", "w"]))
        ]  # fmt: skip
        made, expected = (run_module(from_onnx(model), [x])[0] for model in models)
        np.testing.assert_allclose(made, expected, 1e-5, 1e-5)


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
    with pytest.raises(UnsupportedError, match="the size of its result depends on them"):
        from_onnx(bench.model([node], inputs, ["y"]))
