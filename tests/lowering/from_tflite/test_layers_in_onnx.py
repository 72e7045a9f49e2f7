"""Layers of bytes leave for ONNX in a few operators, bit for bit the kernels of LiteRT."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_tflite.graph import Element
from triton_dsl.runtime.engines import open_session, run_session

FOLDER = Path(__file__).resolve().parent / "converted"
INT8 = Element.INT8
SCALE = st.floats(0.005, 0.1)
ZERO = st.integers(-128, 127)


Rounding = Literal["reference", "xnnpack"]
ROUNDINGS: list[Rounding] = ["reference", "xnnpack"]


def exported(data: bytes, rounding: Rounding = "reference") -> bytes:
    """The ONNX file of a TFLite file."""
    (made,) = compile_to_target(from_tflite(data, rounding=rounding), "onnx").files.values()
    return made


def agrees(
    bench: Any, data: bytes, inputs: list[Any], most: int, rounding: Rounding = "reference"
) -> Counter[str]:
    """Compare with LiteRT; the operators of the file, of which there are at most `most`."""
    file = exported(data, rounding)
    (want,) = bench.litert(data, inputs, reference=rounding == "reference")
    (got,) = run_session(open_session(file), inputs)
    np.testing.assert_array_equal(got, want)
    kinds = Counter(node.op_type for node in onnx.load_from_string(file).graph.node)
    assert kinds.total() <= most
    return kinds


@settings(
    max_examples=5,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"]),
    SCALE, SCALE, ZERO, ZERO, st.sampled_from([0, 1, 3]), st.integers(0, 2**32 - 1),
    st.sampled_from(ROUNDINGS),
)  # fmt: skip
def test_products(
    bench: Any, op: str, x_scale: float, y_scale: float, x_zero: int, y_zero: int, activation: int,
    seed: int, rounding: Rounding,
) -> None:  # fmt: skip
    random = np.random.default_rng(seed)
    depth, channels = int(random.integers(1, 9)), int(random.integers(1, 9))
    if op == "DEPTHWISE_CONV_2D":
        channels = depth
    shapes = {"CONV_2D": (channels, 3, 3, depth), "DEPTHWISE_CONV_2D": (1, 3, 3, depth)}
    shape = shapes.get(op, (channels, depth))
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    scales = 0.01 * random.uniform(0.5, 2, channels)
    levels = random.integers(-127, 128, shape)
    weight = bench.constant(levels.astype(np.int8), INT8, bench.grid(scales, 0, axis))
    bias = random.integers(-2000, 2000, channels).astype(np.int32)
    added = bench.constant(bias, Element.INT32, bench.grid(scales * np.float32(x_scale)))
    image = op != "FULLY_CONNECTED"
    sizes = (2, 9, 9, depth) if image else (40, depth)
    x = bench.tensor("x", sizes, INT8, bench.grid(x_scale, x_zero))
    result = (2, 9, 9, channels) if image else (40, channels)
    y = bench.tensor("y", result, INT8, bench.grid(y_scale, y_zero))
    window = {"padding": 0, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
    options = window if image else {"keepNumDims": False}
    if op == "DEPTHWISE_CONV_2D":
        options = {**options, "depthMultiplier": 1}
    options = {**options, "fusedActivationFunction": activation}
    data = bench.one_operator(op, [x, weight, added], [y], options)
    values = random.integers(-128, 128, sizes).astype(np.int8)
    values.flat[: values.size // 3] = 127
    values.flat[values.size // 3 : values.size // 2] = -128
    agrees(bench, data, [values], 40 if rounding == "reference" else 14, rounding)


@settings(
    max_examples=5,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(["ADD", "SUB"]), SCALE, SCALE, SCALE, ZERO, ZERO, ZERO,
    st.sampled_from([0, 1, 3]), st.sampled_from(ROUNDINGS),
)  # fmt: skip
def test_sums_of_any_two_bytes(
    bench: Any,
    op: str,
    a: float,
    b: float,
    c: float,
    za: int,
    zb: int,
    zc: int,
    activation: int,
    rounding: Rounding,
) -> None:
    grids = [bench.grid(s, z) for s, z in ((a, za), (b, zb), (c, zc))]
    x, y, z = (bench.tensor(n, (256, 256), INT8, g) for n, g in zip("xyz", grids, strict=True))
    data = bench.one_operator(op, [x, y], [z], {"fusedActivationFunction": activation})
    values = [v.astype(np.int8).copy() for v in np.mgrid[-128:128, -128:128]]
    agrees(bench, data, values, 60, rounding)


@pytest.mark.parametrize(
    ("name", "rounding", "most"),
    [
        ("resnet.int8", "reference", 115),
        ("resnet.int8", "xnnpack", 75),
        ("mobilenet.int8", "reference", 75),
        ("mobilenet.int8", "xnnpack", 40),
        ("autoencoder.int8-one-scale", "xnnpack", 15),
    ],
)
def test_networks(bench: Any, name: str, rounding: Rounding, most: int) -> None:
    data = (FOLDER / f"{name}.tflite").read_bytes()
    (port,) = from_tflite(data).body.block.first_op.body.block.args  # type: ignore[union-attr]
    shape = tuple(max(size, 1) for size in port.type.get_shape())
    values = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    kinds = agrees(bench, data, [values], most, rounding)
    assert kinds["QLinearConv"] + kinds["Conv"] >= 6
    assert rounding == "reference" or kinds["Conv"] == 0
    initializers = onnx.load_from_string(exported(data)).graph.initializer
    large = [i for i in initializers if np.prod(i.dims) > 64]
    assert large and all(i.data_type in (2, 3) for i in large)
