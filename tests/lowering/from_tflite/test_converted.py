"""Files of TensorFlow's own converter (`converted/make.py`): as LiteRT computes them, and out."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.targets import compile_to_target

FOLDER = Path(__file__).resolve().parent / "converted"
NAMES = sorted(path.stem for path in FOLDER.glob("*.tflite"))

# What goes through floats here and through fixed point there: softmax of 16 bits.
STEPS = {"resnet.int16": 10}

# Operators that LiteRT has as one and the program as several.
KERNELS = ["resnet.int8", "resnet.int8-float-ports", "mobilenet.int8", "mobilenet.int8-old",
           "mobilenet.uint8-ports", "autoencoder.int8-one-scale"]  # fmt: skip


@cache
def imported(name: str) -> ModuleOp:
    return from_tflite(FOLDER / f"{name}.tflite")


def data_of(name: str) -> bytes:
    return (FOLDER / f"{name}.tflite").read_bytes()


def inputs(name: str, count: int = 3) -> list[Any]:
    """Typical values: floats around 0, integers over their whole range."""
    from ai_edge_litert.interpreter import Interpreter

    random = np.random.default_rng(4)
    interpreter: Any = Interpreter(model_content=data_of(name))
    made: list[Any] = []
    for port in interpreter.get_input_details():
        free = -1 in port["shape_signature"]
        shape = (count if free else 1, *port["shape"][1:])
        if np.dtype(port["dtype"]).kind == "f":
            made.append(random.standard_normal(shape).astype(port["dtype"]))
            continue
        info = np.iinfo(port["dtype"])
        middle, spread = (info.max + info.min) / 2, (info.max - info.min) / 6
        drawn = np.rint(middle + spread * random.standard_normal(shape))
        made.append(np.clip(drawn, info.min, info.max).astype(port["dtype"]))
    return made


def close(got: Any, want: Any, steps: int = 0) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
    else:
        assert np.abs(got.astype(int) - want).max() <= steps


def kinds(data: bytes) -> Counter[str]:
    import ai_edge_litert.schema_py_generated as schema

    names = {number: name for name, number in vars(schema.BuiltinOperator).items()}
    model: Any = schema.ModelT.InitFromPackedBuf(data)
    codes = [names[max(c.builtinCode, c.deprecatedBuiltinCode)] for c in model.operatorCodes]
    return Counter(codes[op.opcodeIndex] for op in model.subgraphs[0].operators)


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_litert(name: str, bench: Any) -> None:
    given = inputs(name)
    (got,) = run_module(imported(name), given)
    (want,) = bench.litert(data_of(name), given)
    close(got, want, STEPS.get(name, 0))
    if name not in STEPS:
        assert (got.argmax(-1) == want.argmax(-1)).all()


@pytest.mark.parametrize("target", ["onnx", "pytorch", "tflite"])
@pytest.mark.parametrize("name", NAMES)
def test_out_through_targets(name: str, target: str) -> None:
    given = inputs(name)
    (want,) = run_module(imported(name), given)
    _, (got,), _ = run_target(imported(name), target, given)
    # Sums of floats in another order may round an activation the other way.
    close(got, want, STEPS.get(name, 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_out_as_machine_code(name: str) -> None:
    given = inputs(name)
    (want,) = run_module(imported(name), given)
    _, (got,), _ = run_target(imported(name), "native", given)
    close(got, want, STEPS.get(name, 0))


@pytest.mark.parametrize("name", KERNELS)
def test_integer_kernels_come_back(name: str, bench: Any) -> None:
    """The same operators on the same numbers: LiteRT's default kernels give the same too."""
    artifact = compile_to_target(imported(name).clone(), "tflite")
    data = next(iter(artifact.files.values()))
    assert artifact.manifest["kernels"] == "reference"
    shapes = ("SHAPE", "STRIDED_SLICE", "PACK", "RESHAPE", "QUANTIZE", "DEQUANTIZE")
    before, after = ({k: n for k, n in kinds(d).items() if k not in shapes}
                     for d in (data_of(name), data))  # fmt: skip
    assert after == before
    assert len(data) <= len(data_of(name))
    given, orders = inputs(name), artifact.manifest["input_axes"]
    laid = [x.transpose(order) for x, order in zip(given, orders, strict=True)]  # pyright: ignore[reportArgumentType]
    (want,) = bench.litert(data_of(name), given, reference=False)
    (got,) = bench.litert(data, laid, reference=False)
    close(got, want, 0)


def test_exact_integers_need_no_reference_kernels(bench: Any) -> None:
    name = "mobilenet.int8"
    artifact = compile_to_target(imported(name).clone(), "tflite", {"integers": "exact"})
    assert artifact.manifest["kernels"] == "any"
    (given,) = inputs(name)
    (want,) = run_module(imported(name), [given])
    (got,) = bench.litert(next(iter(artifact.files.values())), [given], reference=False)
    np.testing.assert_array_equal(got, want)


def test_other_scales_are_written_out(bench: Any) -> None:
    """A scale that cannot be is no reason for a kernel, and no reason to fail."""
    from xdsl.dialects.builtin import FloatAttr, f32

    from triton_dsl.passes.calibration.stored_grids import SCALE

    module = imported("autoencoder.int8-one-scale").clone()
    grids = [op for op in module.walk() if SCALE in op.attributes]
    for op in grids[2:]:
        op.attributes[SCALE] = FloatAttr(0.0, f32)
    artifact = compile_to_target(module, "tflite")
    assert kinds(next(iter(artifact.files.values())))["FLOOR_MOD"]
    given = inputs("autoencoder.int8-one-scale")
    (want,) = run_module(imported("autoencoder.int8-one-scale"), given)
    (got,) = bench.litert(next(iter(artifact.files.values())), given)
    np.testing.assert_array_equal(got, want)


def test_channels_that_died_keep_their_kernel(bench: Any) -> None:
    """Scales so small that the multiplier is 0."""
    from triton_dsl.lowering.to_tflite.graph import Element

    x = bench.tensor("x", (2, 4, 4, 3), Element.INT8, bench.grid(0.02, 3))
    y = bench.tensor("y", (2, 4, 4, 2), Element.INT8, bench.grid(0.1, -5))
    random = np.random.default_rng(0)
    weight = bench.constant(random.integers(-127, 128, (2, 1, 1, 3)).astype(np.int8), None,
                            bench.grid([0.01, 1e-15]))  # fmt: skip
    module = bench.check(
        "CONV_2D", [x, weight, bench.constant(np.array([100, -7], np.int32))], y, padding=1,
        strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1, fusedActivationFunction=1,
    )  # fmt: skip
    artifact = compile_to_target(module.clone(), "tflite")
    assert kinds(next(iter(artifact.files.values()))) == Counter(CONV_2D=1)
    given = bench.values(x)
    _, (got,), _ = run_target(module, "tflite", [given])
    np.testing.assert_array_equal(got, run_module(module, [given])[0])
