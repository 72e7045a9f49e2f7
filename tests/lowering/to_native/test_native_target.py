"""The target end to end: whole models, in this process and from C, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.emission import entry_function
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.runtime.random_values import fill_parameters, random_inputs
from triton_dsl.tools.verify import is_integer_program, verify_module

pytestmark = pytest.mark.usefixtures("users_code")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "models"
LAYERS = ("FloatMLP", "TernaryMLP", "FloatCNN", "TernaryCNN")
RECIPES = ("avx2", pytest.param("generic", marks=pytest.mark.slow))


def example(layer: str) -> ModuleOp:
    return fill_parameters(import_tri(EXAMPLES / "digits.tri", layer=layer), 0)


def inputs_of(module: ModuleOp, batch: int, seed: int = 0) -> list[Any]:
    type = entry_function(module, "native").function_type
    return random_inputs(type, np.random.default_rng(seed), [batch], 16)


def assert_agrees(module: ModuleOp, outputs: list[Any], inputs: list[Any]) -> None:
    for actual, expected in zip(outputs, run_module(module, inputs), strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        if is_integer_program(module):
            np.testing.assert_array_equal(actual, expected)
        else:
            # Sums of large numbers that are near zero have the errors of these.
            largest = np.abs(expected).max(initial=1)
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6 * max(largest, 100))


@pytest.mark.parametrize("layer", LAYERS)
def test_example_models_agree_with_the_interpreter(layer: str) -> None:
    module = example(layer)
    for batch in (1, 7):
        (row,) = verify_module(module, inputs_of(module, batch), ["native"])
        assert row.agrees and row.engine.startswith("native (")
    program = native_program(module, threads=2)
    assert program.interface.row_wise
    for batch in (0, 40):
        inputs = inputs_of(module, batch)
        assert_agrees(module, program.run(inputs), inputs)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_byte_outside_is_left_alone(recipe: str, c_caller: Callable[..., Any]) -> None:
    module = example("TernaryCNN")
    cpu = "x86-64-v3" if recipe == "avx2" else "x86-64"
    artifact = compile_to_target(module, f"native{{recipe={recipe} cpu={cpu}}}")
    inputs = inputs_of(module, 3)
    assert_agrees(module, c_caller(memcheck=True)(artifact, inputs, 3), inputs)


@pytest.mark.parametrize("language", ["c99", "c++"])
def test_c_programs_give_the_interpreters_answer(
    language: str, c_caller: Callable[..., Any]
) -> None:
    module = fill_parameters(import_tri(EXAMPLES / "mnist.tri"), 0)
    inputs = inputs_of(module, 9)
    outputs = c_caller(language)(compile_to_target(module, "native{name=mnist}"), inputs, 9)
    assert_agrees(module, outputs, inputs)


ODD_TYPES = """
func.func @forward(%a: tensor<?x5xi8>, %b: tensor<?x5xi8>, %flag: tensor<?x1xi1>,
                   %half: tensor<5xf16>)
    -> (tensor<?x5xi1>, tensor<?x5xf64>, tensor<?xi64>) {
  %c = tensor.compare %a, %b {predicate = "lt"}
       : (tensor<?x5xi8>, tensor<?x5xi8>) -> tensor<?x5xi1>
  %w = tensor.where %flag, %a, %b
       : (tensor<?x1xi1>, tensor<?x5xi8>, tensor<?x5xi8>) -> tensor<?x5xi8>
  %d = tensor.convert %w : (tensor<?x5xi8>) -> tensor<?x5xf64>
  %h = tensor.convert %half : (tensor<5xf16>) -> tensor<5xf64>
  %e = tensor.add %d, %h : (tensor<?x5xf64>, tensor<5xf64>) -> tensor<?x5xf64>
  %m = tensor.argmax %e {axis = 1 : i64} : (tensor<?x5xf64>) -> tensor<?xi64>
  func.return %c, %e, %m : tensor<?x5xi1>, tensor<?x5xf64>, tensor<?xi64>
}
"""


def test_several_outputs_and_many_types(c_caller: Callable[..., Any]) -> None:
    module = parse_module(ODD_TYPES)
    inputs = inputs_of(module, 6)
    assert_agrees(module, native_program(module).run(inputs), inputs)
    artifact = compile_to_target(module, "native{cpu=x86-64}")
    assert_agrees(module, c_caller(memcheck=True)(artifact, inputs, 6), inputs)


def test_reductions_over_one_element_start_where_they_should() -> None:
    text = """layer L {
        fn forward(x: Tensor[N, 4, 1]) -> Tensor[N, 4] {
            return sum(x * x, axis=-1) - max(x, axis=-1)
        }
    }"""
    module = import_tri(text)
    inputs = inputs_of(module, 5)
    assert_agrees(module, native_program(module).run(inputs), inputs)


def test_the_same_program_gives_the_same_bytes() -> None:
    first, second = (compile_to_target(example("TernaryMLP"), "native") for _ in range(2))
    assert first.files == second.files and first.manifest == second.manifest


def test_what_was_compiled_comes_from_the_cache(tmp_path: Path) -> None:
    module = example("TernaryMLP")
    native_program(module, cache_folder=tmp_path)
    (entry,) = tmp_path.iterdir()
    before = entry.stat().st_mtime_ns
    inputs = inputs_of(module, 4)
    again = native_program(example("TernaryMLP"), cache_folder=tmp_path)
    assert_agrees(module, again.run(inputs), inputs)
    assert [p.stat().st_mtime_ns for p in tmp_path.iterdir()] == [before]
    other = fill_parameters(import_tri(EXAMPLES / "digits.tri", layer="TernaryMLP"), 1)
    assert_agrees(other, native_program(other, cache_folder=tmp_path).run(inputs), inputs)
    native_program(module, {"precision": "dynamic-int8"}, cache_folder=tmp_path)
    native_program(module, {"recipe": "generic"}, cache_folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_compiled_model_is_saved_in_the_form_of_the_path(tmp_path: Path) -> None:
    from triton_dsl import compile_model

    (tmp_path / "net.tri").write_text(
        "layer Net { fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return relu(x) } }"
    )
    model = compile_model(tmp_path / "net.tri", backend="native")
    saved = {path.name: path.read_bytes() for path in model.save(tmp_path / "a.o")}
    assert saved["a.o"] == model.artifact.files["Net.o"] and b"void Net(" in saved["a.h"]
    model.save(tmp_path / "a.ll")
    assert b"define" in (tmp_path / "a.ll").read_bytes()


def test_dumped_stages_are_taken_up_again(tmp_path: Path) -> None:
    module = fill_parameters(import_tri("""layer L {
        param w: Tensor[6, 3]
        fn forward(x: Tensor[N, 6]) -> Tensor[N, 3] { return sigmoid(x @ w) }
    }"""), 0)  # fmt: skip
    options = {"recipe": "generic"}
    whole = compile_to_target(module, "native", options, dump_stages=tmp_path)
    dumps = sorted(tmp_path.glob("*.mlir"))
    assert [path.name for path in dumps] == [
        "00-input.mlir", "01-decompose.mlir", "02-simplify.mlir", "03-spikes.mlir", "04-fuse.mlir",
        "05-neurons.mlir", "06-linalg.mlir", "07-memory.mlir", "08-llvm.mlir",
    ]  # fmt: skip
    for dump in dumps[:7]:
        again = parse_module(dump.read_text(), str(dump))
        assert compile_to_target(again, "native", options).files == whole.files, dump.name
    inputs = inputs_of(module, 3)
    for dump in dumps[7:]:
        again = parse_module(dump.read_text(), str(dump))
        assert_agrees(module, native_program(again, options).run(inputs), inputs)


def test_ops_without_native_code_are_listed_with_their_places() -> None:
    text = """
    func.func @forward(%x : tensor<4xf32>) -> tensor<4x!ternary.trit> {
      %a = ternary.ternarize %x {mode = "stochastic", seed = 1 : i64}
           : (tensor<4xf32>) -> tensor<4x!ternary.trit>
      func.return %a : tensor<4x!ternary.trit>
    }
    """
    with pytest.raises(UnsupportedError) as raised:
        compile_to_target(parse_module(text, "net.mlir"), "native")
    assert [problem[:2] for problem in raised.value.problems] == [
        ("ternary.ternarize", "net.mlir:3:7")
    ]


NARROWED = """
func.func @forward(%x: tensor<1x64x?xf32>) -> tensor<1x64x?xf32> {
  %w = tensor.parameter "w" : tensor<64x64x9xf32>
  %narrow = tensor.conv %x, %w {strides = array<i64: 1>, padding = array<i64: 0, 0>,
            dilation = array<i64: 1>, groups = 1 : i64}
            : (tensor<1x64x?xf32>, tensor<64x64x9xf32>) -> tensor<1x64x?xf32>
  %y = tensor.pad_to %narrow {low = array<i64: 0, 0, 4>, high = array<i64: 0, 0, 4>,
       value = 1.0 : f64} : (tensor<1x64x?xf32>) -> tensor<1x64x?xf32>
  func.return %y : tensor<1x64x?xf32>
}
"""


def test_images_too_small_for_a_window_are_refused() -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64, 9)).astype(np.float32)
    module = parse_module(NARROWED)
    attach_store(module, ParameterStore.of({"w": weights}))
    program = native_program(module)
    x = np.random.default_rng(1).standard_normal((1, 64, 9)).astype(np.float32)
    expected = np.ones((1, 64, 9), np.float32)
    expected[..., 4] = np.tensordot(weights, x[0], ((1, 2), (0, 1)))
    np.testing.assert_allclose(program(x), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(program(x[..., :8]), np.ones((1, 64, 8)))
    for width in (0, 1, 7):
        with pytest.raises(BackendError, match=r"got .*; batch must be at least 8"):
            program(x[..., :width])
    header = compile_to_target(module, "native", {"name": "net"}).files["net.h"].decode()
    assert "batch: the number of rows; batch must be at least 8." in header
