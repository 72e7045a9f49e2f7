"""Regions and deformed windows beside ONNX Runtime: inside, outside and across borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx

INPUTS = {"x": (np.float32, ("N", 3, 7, 9)), "r": (np.float32, ("R", 4)), "b": (np.int64, ("R",))}


def aligned(bench: Any, **options: Any) -> Any:
    node = helper.make_node(
        "RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=3, spatial_scale=0.5,
        **options,
    )  # fmt: skip
    return bench.model([node], INPUTS, ["y"], opset=17)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("way", ["half_pixel", "output_half_pixel"])
def test_regions_of_images(bench: Any, mode: str, way: str) -> None:
    random = np.random.default_rng(2)
    corner = random.random((4, 2)) * 9
    boxes = np.concatenate([corner, corner + random.random((4, 2)) * 7], 1)
    boxes = np.concatenate([boxes, [[-30, -20, 5, 5], [2, 2, 90, 80], [4, 4, 4, 4]]])
    inputs = {
        "x": random.standard_normal((2, 3, 7, 9)).astype(np.float32),
        "r": boxes.astype(np.float32),
        "b": np.array([0, 1, 1, 0, 0, 1, 0]),
    }
    model = aligned(bench, mode=mode, coordinate_transformation_mode=way, sampling_ratio=2)
    bench.check(model, inputs)


def test_samples_that_depend_on_boxes(bench: Any) -> None:
    with pytest.raises(UnsupportedError, match="depends on values; give a 'sampling_ratio'"):
        from_onnx(aligned(bench))


def test_deformed_windows(bench: Any) -> None:
    random = np.random.default_rng(5)
    offsets = random.normal(size=(2, 2 * 2 * 6, 4, 5)) * 3
    inputs = {
        "x": random.normal(size=(2, 8, 7, 9)).astype(np.float32),
        "o": np.concatenate([offsets[:1].round(), offsets[1:]]).astype(np.float32),
        "m": random.random((2, 2 * 6, 4, 5)).astype(np.float32),
    }
    weights = {"w": random.normal(size=(8, 2, 3, 2)), "b": random.normal(size=8)}
    node = helper.make_node(
        "DeformConv", ["x", "w", "o", "b", "m"], ["y"], kernel_shape=[3, 2], strides=[2, 2],
        pads=[1, 0, 1, 2], dilations=[1, 1], group=4, offset_group=2,
    )  # fmt: skip
    types = {name: (np.float32, ("N", *value.shape[1:])) for name, value in inputs.items()}
    known = {name: value.astype(np.float32) for name, value in weights.items()}
    bench.check(bench.model([node], types, ["y"], known, opset=19), inputs)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": [2, 1]}, "for places"),
        ({"strides": [1]}, "its strides, dilations or pads differ"),
        ({"dilations": [0, 1]}, "must be at least 1"),
        ({"group": 0}, "it has 0 groups"),
    ],
)
def test_deformed_windows_that_do_not_fit(
    bench: Any, attributes: dict[str, Any], message: str
) -> None:
    node = helper.make_node("DeformConv", ["x", "w", "o"], ["y"], **attributes)
    types = {"x": (np.float32, (1, 4, 6, 6)), "o": (np.float32, (1, 18, 4, 4))}
    weights = {"w": np.ones((6, 4, 3, 3), np.float32)}
    with pytest.raises(UnsupportedError, match=message):
        from_onnx(bench.model([node], types, ["y"], weights, opset=19))
