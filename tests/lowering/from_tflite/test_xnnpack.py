"""With `rounding="xnnpack"` integers are bit for bit what LiteRT gives by default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.to_tflite.graph import Element

FOLDER = Path(__file__).resolve().parent / "converted"
TYPES = {"int8": (Element.INT8, 0), "uint8": (Element.UINT8, 128)}
SCALE = st.floats(0.002, 0.1)
ZERO = st.integers(-128, 127)
OPERATORS = ["ADD", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED",
             "LEAKY_RELU", "MEAN", "MUL", "QUANTIZE", "RESIZE_BILINEAR", "SUB",
             "SUM", "TRANSPOSE_CONV"]  # fmt: skip


def same(bench: Any, data: bytes, inputs: list[Any]) -> None:
    """Compare with what LiteRT gives by default."""
    want = bench.litert(data, inputs, reference=False)
    for expected, got in zip(want, run_module(from_tflite(data, rounding="xnnpack"), inputs),
                             strict=True):  # fmt: skip
        np.testing.assert_array_equal(got, expected)


@settings(
    max_examples=30,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(OPERATORS), st.sampled_from(sorted(TYPES)), st.tuples(SCALE, SCALE, SCALE),
    st.tuples(ZERO, ZERO, ZERO), st.sampled_from([0, 1, 3]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_operators(
    bench: Any, op: str, name: str, scales: tuple[float, ...], zeros: tuple[int, ...],
    activation: int, seed: int,
) -> None:  # fmt: skip
    random = np.random.default_rng(seed)
    name = "int8" if op in ("TRANSPOSE_CONV", "LEAKY_RELU") else name
    element, start = TYPES[name]
    grids = [bench.grid(s, z + start) for s, z in zip(scales, zeros, strict=True)]
    depth, channels = random.integers(1, 17, 2).tolist()
    sizes, result = (1, 9, 9, depth), (1, 9, 9, depth)
    options: dict[str, Any] = {"fusedActivationFunction": activation}
    x_scale = np.float32(scales[0])

    def weights(shape: tuple[int, ...], axis: int) -> list[Any]:
        steps = 0.01 * random.uniform(0.5, 2, shape[axis])
        how = bench.grid(steps, 0, axis)
        if name == "uint8":
            how = bench.grid(steps[:1], 120)
        info = np.iinfo(element.dtype)
        levels = random.integers(info.min, info.max + 1, shape).astype(element.dtype)
        levels = np.maximum(levels, -127) if element is Element.INT8 else levels
        bias = random.integers(-2000, 2000, shape[axis]).astype(np.int32)
        real = bench.grid(how.scale * x_scale)
        return [bench.constant(levels, element, how),
                bench.constant(bias, Element.INT32, real, "bias")]  # fmt: skip

    more: list[Any] = []
    window = {"padding": 0, "strideW": 1, "strideH": 1}
    dilated = {**window, "dilationWFactor": 1, "dilationHFactor": 1}
    match op:
        case "CONV_2D":
            more, options = weights((channels, 3, 3, depth), 0), options | dilated
            result = (1, 9, 9, channels)
        case "DEPTHWISE_CONV_2D":
            more, options = weights((1, 3, 3, depth), 3), options | dilated | {"depthMultiplier": 1}
        case "TRANSPOSE_CONV":
            result, options = (1, 18, 18, channels), {"padding": 0, "strideW": 2, "strideH": 2}
        case "FULLY_CONNECTED":
            sizes, result = (40, depth), (40, channels)
            more, options = weights((channels, depth), 0), options | {"keepNumDims": False}
        case "MEAN":
            more, result = [bench.constant(np.array([1, 2], np.int32))], (1, depth)
            options = {"keepDims": False}
        case "SUM":
            axes = ([1, 2], [1], [2], [3], [1, 2, 3])[seed % 5]
            more = [bench.constant(np.array(axes, np.int32))]
            result = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
            grids[2], options = bench.grid(20 * scales[2], zeros[2] + start), {"keepDims": True}
        case "AVERAGE_POOL_2D":
            result, grids[2] = (1, 3, 3, depth), grids[0]
            options |= {"padding": 1, "strideW": 3, "strideH": 3, "filterWidth": 3,
                        "filterHeight": 3}  # fmt: skip
        case "RESIZE_BILINEAR":
            new = random.integers(1, 25, 2).astype(np.int32)
            more, result, grids[2] = [bench.constant(new)], (1, *new.tolist(), depth), grids[0]
            options = {"alignCorners": activation == 1, "halfPixelCenters": activation == 3}
        case "LEAKY_RELU":
            options = {"alpha": 0.1}
        case "QUANTIZE":
            options = {}
        case _:
            sizes = result = (256, 256)
            more = [bench.tensor("y", sizes, element, grids[1])]
    x, z = bench.tensor("x", sizes, element, grids[0]), bench.tensor("z", result, element, grids[2])
    inputs: list[Any] = [x, *more]
    values = [bench.values(x, seed)]
    if op == "TRANSPOSE_CONV":
        kernel, _ = weights((channels, 2, 2, depth), 0)
        inputs = [bench.constant(np.array(result, np.int32)), kernel, x]
    elif sizes == (256, 256):
        low = np.iinfo(element.dtype).min
        values = [v.astype(element.dtype) for v in np.mgrid[low : low + 256, low : low + 256]]
    same(bench, bench.one_operator(op, inputs, [z], options), values)


@pytest.mark.parametrize(
    "name",
    ["resnet.int8", "mobilenet.int8", "mobilenet.int8-old", "autoencoder.int8-one-scale",
     "unet.int8"],
)  # fmt: skip
def test_networks(bench: Any, name: str) -> None:
    data = (FOLDER / f"{name}.tflite").read_bytes()
    module = from_tflite(data, rounding="xnnpack")
    (port,) = module.body.block.first_op.body.block.args  # type: ignore[union-attr]
    shape = tuple(max(size, 1) for size in port.type.get_shape())
    values = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    same(bench, data, [values])
    _, (got,), _ = run_target(module, "native", [values])
    np.testing.assert_array_equal(got, bench.litert(data, [values], reference=False)[0])


def test_other_roundings_are_refused() -> None:
    with pytest.raises(OptionError, match="'reference' or 'xnnpack' or 'once', got 'up'"):
        from_tflite(b"", rounding="up")  # type: ignore[arg-type]


def test_commands_take_a_rounding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compared with LiteRT on the kernels that are asked for; with others bytes differ."""
    from triton_dsl.lowering.sources.tflite import TFLiteSource
    from triton_dsl.tools.cli import main

    file, out = FOLDER / "excitation.int8.tflite", tmp_path / "m.onnx"
    assert main(["compile", str(file), "--rounding", "xnnpack", "-t", "onnx", "-o", str(out)]) == 0
    assert "QLinearConv" in out.read_bytes().decode("latin-1")
    line = ["verify", str(file), "-t", "onnx", "--samples", "2", "--rounding"]
    capsys.readouterr()
    assert main([*line, "xnnpack", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert "XNNPACK" in rows[0]["engine"]
    assert all(row["agrees"] for row in rows)
    assert main([*line, "up"]) == 2
    assert "expected rounding 'reference'" in capsys.readouterr().err
    data = (FOLDER / "mobilenet.int8.tflite").read_bytes()
    x = np.random.default_rng(0).integers(-128, 128, (64, 32, 32, 3)).astype(np.int8)
    shape = from_tflite(data).body.block.first_op.body.block.args[0].type.get_shape()  # type: ignore[union-attr]
    x = np.resize(x, (64, *shape[1:]))
    kernels = [TFLiteSource(data, rounding).run([x])[0] for rounding in ("reference", "xnnpack")]
    assert (kernels[0] != kernels[1]).any()
