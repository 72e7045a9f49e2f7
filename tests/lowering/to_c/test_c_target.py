"""C gives the bits of the interpreter without a warning, here and on emulated boards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.tools.verify import verify_module

from .conftest import CHECKED
from .programs import MIXED

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]


def mixed_inputs(seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-128, 128, (1, 70)).astype(np.int8),
        rng.integers(-128, 128, (1, 3, 9, 10)).astype(np.int8),
        rng.integers(0, 256, (1, 23)).astype(np.uint8),
        rng.integers(-1, 2, (1, 50)).astype(np.int8),
        rng.random((6, 1, 37)) < 0.4,
    ]


def test_every_kind_of_step_gives_the_bits_of_the_interpreter(
    filled: Filled, in_c: Callable[..., list[Array]]
) -> None:
    module = filled(MIXED)
    for seed in range(3):
        inputs = mixed_inputs(seed)
        for got, want in zip(in_c(module, *inputs), run_module(module, inputs), strict=True):
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype


def test_sanitizers_find_nothing(filled: Filled, sanitized: Callable[..., list[bytes]]) -> None:
    module, inputs = filled(MIXED), mixed_inputs(5)
    got = sanitized(compile_to_target(module, "c"), inputs)
    assert got == [y.tobytes() for y in run_module(module, inputs)]


@pytest.mark.parametrize("board", ["cortex-m4", "riscv32"])
def test_boards_give_the_bits_of_the_interpreter(
    filled: Filled, on_board: Callable[..., Any], board: str
) -> None:
    module = filled(MIXED)
    samples = [mixed_inputs(seed) for seed in range(3)]
    stacked = [np.stack(parts) for parts in zip(*samples, strict=True)]
    run = on_board(board, compile_to_target(module, "c"), stacked)
    for number, inputs in enumerate(samples):
        for got, want in zip(run.outputs, run_module(module, inputs), strict=True):
            np.testing.assert_array_equal(got[number], want.reshape(-1))
    assert len(run.instructions) == 3
    assert min(run.instructions) > 10_000


def test_the_same_program_gives_the_same_bytes(filled: Filled) -> None:
    assert (
        compile_to_target(filled(MIXED), "c").files == compile_to_target(filled(MIXED), "c").files
    )


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16"])
def test_floats_are_those_of_the_interpreter(
    filled: Filled, in_c: Callable[..., list[Array]], element: str
) -> None:
    module = filled(
        f"""
        func.func @forward(%x: tensor<1x6x{element}>) -> tensor<1x6x{element}> {{
          %a = tensor.tanh %x : (tensor<1x6x{element}>) -> tensor<1x6x{element}>
          %b = tensor.softmax %a {{axis = 1 : i64}}
               : (tensor<1x6x{element}>) -> tensor<1x6x{element}>
          %c = tensor.mul %b, %x : (tensor<1x6x{element}>, tensor<1x6x{element}>)
               -> tensor<1x6x{element}>
          func.return %c : tensor<1x6x{element}>
        }}
        """
    )
    from triton_dsl.dialects.elements import numpy_dtype
    from triton_dsl.dialects.inference import tensor_type
    from triton_dsl.ir.interpreter import entry_function

    dtype = numpy_dtype(tensor_type(entry_function(module, "forward").args[0]).element_type)
    x = np.array([[0.0, -0.0, 1.5, -3.0, 100.0, 1e-7]]).astype(dtype)
    (got,), (want,) = in_c(module, x), run_module(module, [x])
    tolerance = {"f32": 1e-6, "f64": 1e-14, "f16": 2e-3, "bf16": 2e-2}[element]
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=1e-9
    )


def test_a_batch_is_an_option_and_verification_takes_that_of_the_inputs(filled: Filled) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x30xf32>) -> tensor<?x9xf32> {
          %w = ternary.parameter "w" : tensor<30x9x!ternary.trit>
          %y = ternary.matmul %x, %w : tensor<?x30xf32>, tensor<30x9x!ternary.trit>
               -> tensor<?x9xf32>
          func.return %y : tensor<?x9xf32>
        }
        """
    )
    x = np.random.default_rng(0).integers(-50, 50, (4, 30)).astype(np.float32)
    engine, (y,), size = run_target(module, "c", [x])
    assert engine == "C99 (cc)"
    assert size > 1000
    np.testing.assert_array_equal(y, run_module(module, [x])[0])
    header = compile_to_target(module, "c{batch=4}").text("model.h")
    assert "#define MODEL_INPUT_0_ELEMENTS 120" in header
    with pytest.raises(OptionError, match="at least 1"):
        compile_to_target(module, "c{batch=0}")


def test_it_is_a_row_of_verification(filled: Filled) -> None:
    module = filled(MIXED)
    rows = verify_module(module, mixed_inputs(1), ["c"])
    (row,) = [row for row in rows if row.target == "c"]
    assert row.agrees
    assert row.bit_exact
    assert row.exact_required


def test_a_free_size_is_refused_with_a_way_out() -> None:
    module = parse_module(
        """
        func.func @forward(%s: !spike.train<?x1x3>) -> !spike.train<?x1x3> {
          func.return %s : !spike.train<?x1x3>
        }
        """
    )
    with pytest.raises(UnsupportedError, match=r"infer-shapes\{timesteps="):
        compile_to_target(module, "c")


def test_ports_can_be_integers(filled: Filled, in_c: Callable[..., list[Array]]) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x2x3xf32>) -> tensor<?x5xf32> {
          %flat = tensor.flatten %x : (tensor<?x2x3xf32>) -> tensor<?x6xf32>
          %scale = tensor.constant dense<0.5> : tensor<f32>
          %zero = tensor.constant dense<-7> : tensor<i8>
          %q = tensor.quantize %flat, %scale, %zero {axis = 1 : i64, low = -128 : i64,
               high = 127 : i64} : (tensor<?x6xf32>, tensor<f32>, tensor<i8>) -> tensor<?x6xi8>
          %w = ternary.parameter "w" : tensor<6x5x!ternary.trit>
          %y = ternary.matmul %q, %w : tensor<?x6xi8>, tensor<6x5x!ternary.trit> -> tensor<?x5xi32>
          %none = tensor.constant dense<0> : tensor<i32>
          %z = tensor.dequantize %y, %scale, %none {axis = 1 : i64}
               : (tensor<?x5xi32>, tensor<f32>, tensor<i32>) -> tensor<?x5xf32>
          func.return %z : tensor<?x5xf32>
        }
        """
    )
    x = np.random.default_rng(0).normal(size=(1, 2, 3)).astype(np.float32) * 20
    (want,) = run_module(module, [x])
    integers = np.clip(np.rint(x / 0.5) - 7, -128, 127).astype(np.int8)
    (got,) = in_c(module, integers, ports="quantized")
    np.testing.assert_array_equal(got * np.float32(0.5), want)
    header = compile_to_target(module, "c{ports=quantized}").text("model.h")
    assert "(integer - -7) * 0.5" in header
    assert "int8_t *x" in header


def test_the_report_counts_bytes(filled: Filled) -> None:
    artifact = compile_to_target(filled(MIXED), "c")
    report = json.loads(artifact.text("report.json"))
    packed = (14 * 130, 26 * 9, 6 * 10, 10 * 21, 37 * 8, 5 * 7, 2 * 6)
    assert set(packed) <= set(report["flash"]["of"].values())
    assert report["flash"]["constants"] == sum(report["flash"]["of"].values())
    assert report["ram"]["inputs"]["x"] == 70
    assert report["ram"]["memory"] < 8000


def test_names_of_c_are_left_alone(filled: Filled) -> None:
    module = parse_module(
        "func.func @forward(%int: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %y = tensor.neg %int : (tensor<2xf32>) -> tensor<2xf32>\n"
        "  func.return %y : tensor<2xf32>\n}"
    )
    assert "const float *int_" in compile_to_target(module, "c{name=while}").text("while_.h")


@pytest.mark.parametrize("name", ["memory", "step1", "loops0", "inside", "x", "main"])
@pytest.mark.parametrize("of", ["argument", "function"])
def test_names_of_the_code_are_free(
    name: str, of: str, tmp_path: Path, compiler: str, in_c: Callable[..., list[Array]]
) -> None:
    """Arguments and the function are called what the code calls something of its own."""
    argument = name if of == "argument" else "x"
    module = parse_module(
        f"func.func @forward(%{argument}: tensor<6x1x4xf32>, %idle: tensor<2xf32>)"
        " -> tensor<1x4xf32> {\n"
        f"  %s = spike.lif %{argument} {{beta = 0.75 : f64}}"
        " : (tensor<6x1x4xf32>) -> !spike.train<6x1x4>\n"
        "  %t = spike.to_tensor %s : (!spike.train<6x1x4>) -> tensor<6x1x4xf32>\n"
        "  %y = tensor.reduce_sum %t {axes = array<i64: 0>}"
        " : (tensor<6x1x4xf32>) -> tensor<1x4xf32>\n"
        "  func.return %y : tensor<1x4xf32>\n}"
    )
    options = {"name": name} if of == "function" else {}
    inputs = [np.linspace(-1, 3, 24, dtype=np.float32).reshape(6, 1, 4), np.zeros(2, np.float32)]
    (want,), (got,) = run_module(module, inputs), in_c(module, *inputs, **options)
    assert want.any()
    np.testing.assert_array_equal(got, want)
    files = compile_to_target(module, "c", options).files
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    sources = sorted(file for file in files if file.endswith(".c"))
    command = [compiler, *CHECKED, "-Wshadow", *sources, "-lm", "-o", "example"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./example"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "y[3] = 0" in done.stdout


def test_a_sum_that_a_loop_reads_too_stays_in_memory(
    filled: Filled, in_c: Callable[..., list[Array]]
) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<1x4xf32>) -> !spike.train<8x1x3> {
          %w = tensor.parameter "w" : tensor<4x3xf32>
          %z = tensor.linear %x, %w : (tensor<1x4xf32>, tensor<4x3xf32>) -> tensor<1x3xf32>
          %i = spike.encode %z {scheme = "direct", timesteps = 8 : i64}
               : (tensor<1x3xf32>) -> tensor<8x1x3xf32>
          %v = tensor.clamp %z {min = 1.0 : f64, max = 1.0 : f64}
               : (tensor<1x3xf32>) -> tensor<1x3xf32>
          %s = spike.integrate_fire %i initial(%v : tensor<1x3xf32>) {threshold = 2.0 : f64}
               : (tensor<8x1x3xf32>) -> !spike.train<8x1x3>
          func.return %s : !spike.train<8x1x3>
        }
        """,
        values={"w": np.arange(12, dtype=np.float32).reshape(4, 3) / 8 - 0.5},
    )
    x = np.array([[1.0, -0.5, 0.25, 2.0]], np.float32)
    np.testing.assert_array_equal(in_c(module, x)[0], run_module(module, [x])[0])


def test_images_of_small_integers_stand_in_small_types(
    filled: Filled, in_c: Callable[..., list[Array]]
) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<1x2x8x8xi8>) -> tensor<1x3x8x8xi32> {
          %wide = tensor.convert %x : (tensor<1x2x8x8xi8>) -> tensor<1x2x8x8xi32>
          %zero = tensor.constant dense<-128> : tensor<i32>
          %moved = tensor.sub %wide, %zero
                   : (tensor<1x2x8x8xi32>, tensor<i32>) -> tensor<1x2x8x8xi32>
          %k = tensor.parameter "k" : tensor<3x2x3x3xi32>
          %y = tensor.conv %moved, %k {strides = array<i64: 1, 1>,
               padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64}
               : (tensor<1x2x8x8xi32>, tensor<3x2x3x3xi32>) -> tensor<1x3x8x8xi32>
          func.return %y : tensor<1x3x8x8xi32>
        }
        """
    )
    report = json.loads(compile_to_target(module, "c").text("report.json"))
    assert report["ram"]["memory"] <= 2 * (2 * 64 + 2 * 100) + 16  # int16, with and without zeros
    assert report["flash"]["constants"] == 54
    x = np.array([-128, 127, 0, -1], np.int8)[np.arange(128) % 4].reshape(1, 2, 8, 8)
    np.testing.assert_array_equal(in_c(module, x)[0], run_module(module, [x])[0])


def test_integer_states_are_summed_in_c(in_c: Callable[..., list[Array]]) -> None:
    """States that are sums of themselves and of integers, which no small type holds."""
    module = parse_module(
        """
func.func @forward(%x: tensor<9x1x3xi32>) -> tensor<9x1x3xi32> {
  %y = spike.loihi_sigma_delta %x {threshold = 300.0 : f64, shift = 3 : i64}
    : (tensor<9x1x3xi32>) -> tensor<9x1x3xi32>
  func.return %y : tensor<9x1x3xi32>
}"""
    )
    x = np.random.default_rng(0).integers(-400, 500, (9, 1, 3)).astype(np.int32)
    (expected,), (got,) = run_module(module, [x]), in_c(module, x)
    assert expected.any()
    np.testing.assert_array_equal(got, expected)


def test_products_of_nothing_are_zero() -> None:
    module = parse_module("""
        func.func @forward(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
          %none = tensor.slice %x {starts = array<i64: 0, 4>, ends = array<i64: 2, 4>,
                                   steps = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x0xf32>
          %w = tensor.constant dense<> : tensor<0x3xf32>
          %y = tensor.matmul %none, %w : (tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
          func.return %y : tensor<2x3xf32>
        }
    """)
    _, (found,), _ = run_target(module, "c", [np.ones((2, 4), np.float32)])
    np.testing.assert_array_equal(found, np.zeros((2, 3), np.float32))
