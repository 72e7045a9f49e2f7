"""What the pass does with functions, parameters, whole models, and what it cannot lower."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, UnitAttr, UnknownLoc
from xdsl.dialects.func import FuncOp

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store, parameter_value, parameters
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.ir.errors import OptionError, ParameterError, UnsupportedError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.to_native.linalg import RULES, ConvertTensorToLinalgPass
from triton_dsl.lowering.to_native.target import native_stages
from triton_dsl.passes.decompose import DECOMPOSED

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]
Samples = Callable[..., list[Array]]

MODELS = Path(__file__).resolve().parents[4] / "examples" / "models"

NETWORK = """
func.func @forward(%x: tensor<?x8xf32> {tensor.name = "x"})
    -> (tensor<?x3xf32> {tensor.name = "y"}) {
  %w1 = ternary.parameter "fc1.weight" : tensor<8x6x!ternary.trit>
  %b1 = tensor.parameter "fc1.bias" : tensor<6xf32>
  %w2 = ternary.constant [1, 0, -1, 1, 1, 0, -1, 0, 0, 0, 1, 0, 1, 1, -1, 0, 0, 1]
        : tensor<6x3x!ternary.trit>
  %b2 = tensor.constant dense<[0.5, -0.5, 0.25]> : tensor<3xf32>
  %on = tensor.constant dense<[true, false, true]> : tensor<3xi1>
  %0 = ternary.linear %x, %w1 bias(%b1 : tensor<6xf32>) {activation = "relu"}
       : tensor<?x8xf32>, tensor<8x6x!ternary.trit> -> tensor<?x6xf32>
  %1 = ternary.linear %0, %w2 bias(%b2 : tensor<3xf32>)
       : tensor<?x6xf32>, tensor<6x3x!ternary.trit> -> tensor<?x3xf32>
  %2 = tensor.softmax %1 {axis = -1 : i64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %3 = tensor.where %on, %2, %1
       : (tensor<3xi1>, tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %3 : tensor<?x3xf32>
}
"""


def lowered(module: ModuleOp, parameters: str = "arguments") -> ModuleOp:
    """A lowered copy that `_mlir_ciface_forward` can be called in."""
    copy = module.clone()
    entry_function(copy, "forward").attributes["llvm.emit_c_interface"] = UnitAttr()
    run_stages(copy, native_stages("")[:1])  # what has no rule is decomposed
    ConvertTensorToLinalgPass(parameters).apply(triton_context(), copy)
    verify_module(copy)
    return copy


def keys_of(function: FuncOp) -> list[str]:
    """The keys of the parameters among the arguments."""
    assert function.arg_attrs is not None
    given = [attrs.data.get("tensor.parameter") for attrs in function.arg_attrs]
    return [key.data for key in given if isinstance(key, StringAttr)]


def check_model(module: ModuleOp, inputs: list[Array], compile_natively: Any) -> None:
    """Compare LLVM with the interpreter, parameters as arguments and as constants."""
    expected = run_module(module, inputs)
    function = entry_function(module, "forward")
    with_arguments = lowered(module)
    values = {op.key.data: parameter_value(op) for op in parameters(module)}
    weights = [values[key] for key in keys_of(entry_function(with_arguments, "forward"))]
    for result, operands in (
        (with_arguments, [*inputs, *weights]),
        (lowered(module, parameters="constants"), inputs),
    ):
        got = compile_natively(str(result))(function, operands)
        for have, want in zip(got, expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_a_network(filled: Filled, samples: Samples, compile_natively: Any) -> None:
    module = filled(NETWORK)
    check_model(module, samples(module), compile_natively)


@pytest.mark.parametrize(
    ("file", "layer"),
    [
        ("digits.tri", "FloatMLP"),
        ("digits.tri", "TernaryMLP"),
        ("digits.tri", "FloatCNN"),
        ("digits.tri", "TernaryCNN"),
        ("mnist.tri", None),
    ],
)
@pytest.mark.parametrize("trainable", [False, True])
def test_the_example_models(
    file: str,
    layer: str | None,
    trainable: bool,
    filled: Filled,
    samples: Samples,
    compile_natively: Any,
) -> None:
    module = filled(str(import_tri(MODELS / file, layer=layer, trainable=trainable)))
    check_model(module, samples(module), compile_natively)


def test_a_fused_integer_network(
    filled: Filled, samples: Samples, apply_passes: Any, compile_natively: Any
) -> None:
    module = filled("""
func.func @forward(%x: tensor<?x2x6x6xi8>) -> tensor<?x4xi32> {
  %k = ternary.parameter "k" : tensor<3x2x3x3x!ternary.trit>
  %w = ternary.parameter "w" : tensor<48x4x!ternary.trit>
  %t = tensor.constant dense<[[-30, -10, 0, 10, 30]]> : tensor<1x5xi32>
  %0 = ternary.conv %x, %k {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : tensor<?x2x6x6xi8>, tensor<3x2x3x3x!ternary.trit> -> tensor<?x3x4x4xi32>
  %1 = tensor.multi_threshold %0, %t {axis = 1 : i64}
       : (tensor<?x3x4x4xi32>, tensor<1x5xi32>) -> tensor<?x3x4x4xi8>
  %2 = tensor.flatten %1 {start = 1 : i64, end = -1 : i64}
       : (tensor<?x3x4x4xi8>) -> tensor<?x48xi8>
  %3 = ternary.matmul %2, %w
       : tensor<?x48xi8>, tensor<48x4x!ternary.trit> -> tensor<?x4xi32>
  func.return %3 : tensor<?x4xi32>
}""")
    apply_passes(module, "fuse-linear,skip-zeros")
    check_model(module, samples(module), compile_natively)


def test_parameters_become_named_arguments(filled: Filled) -> None:
    module = filled(NETWORK)
    function = entry_function(lowered(module), "forward")
    assert keys_of(function) == ["fc1.weight", "fc1.bias"]
    assert [str(t) for t in function.function_type.inputs] == [
        "tensor<?x8xf32>",
        "tensor<8x6xi8>",
        "tensor<6xf32>",
    ]
    assert function.arg_attrs is not None
    assert function.arg_attrs.data[0] == DictionaryAttr({"tensor.name": StringAttr("x")})
    assert function.res_attrs is not None
    assert function.args[1].name_hint == "w1"


def test_a_parameter_used_twice_is_one_argument() -> None:
    module = parse_module("""
func.func @forward() -> (tensor<2xf32>, tensor<2xf32>) {
  %a = tensor.parameter "w" : tensor<2xf32>
  %b = tensor.parameter "w" : tensor<2xf32>
  func.return %a, %b : tensor<2xf32>, tensor<2xf32>
}""")
    function = entry_function(lowered(module), "forward")
    assert keys_of(function) == ["w"] and len(function.args) == 1


def test_constants_need_values() -> None:
    module = parse_module(NETWORK)
    with pytest.raises(ParameterError, match=r"fc1\.weight"):
        lowered(module, parameters="constants")


def test_the_parameter_file_stays_named(tmp_path: Path, filled: Filled) -> None:
    module = filled(NETWORK)
    path = tmp_path / "m.safetensors"
    store = ParameterStore.of({"a": np.zeros(1, np.float32)})
    store.save(path, ["a"])
    attach_store(module, ParameterStore.open(path))
    attribute = lowered(module).attributes["tensor.parameter_file"]
    assert isinstance(attribute, DictionaryAttr)
    assert attribute.data["path"] == StringAttr("m.safetensors")


def test_every_op_has_a_rule() -> None:
    literals = {
        tensor.ParameterOp,
        tensor.ConstantOp,
        ternary.ParameterOp,
        ternary.ConstantOp,
    }
    others = {*tensor.OPERATIONS, *ternary.Ternary.operations} - set(RULES)
    assert others - set(DECOMPOSED) == literals


def test_all_that_cannot_be_lowered_is_named_and_nothing_is_changed() -> None:
    module = parse_module(
        """
func.func @draw(%x: tensor<4xf32>) -> (tensor<4x!ternary.trit>, tensor<4xf32>) {
  %w = tensor.parameter "w" : tensor<4xf32>
  %t = ternary.ternarize %x {mode = "stochastic", seed = 1 : i64}
       : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return %t, %w : tensor<4x!ternary.trit>, tensor<4xf32>
}
func.func @forward(%x: tensor<4xf32>) -> (tensor<4x!ternary.trit>, tensor<4xf32>) {
  %t, %w = func.call @draw(%x) : (tensor<4xf32>) -> (tensor<4x!ternary.trit>, tensor<4xf32>)
  func.return %t, %w : tensor<4x!ternary.trit>, tensor<4xf32>
}""",
        "model.mlir",
    )
    before = str(module)
    with pytest.raises(UnsupportedError) as caught:
        ConvertTensorToLinalgPass().apply(triton_context(), module)
    names = [(name, place) for name, place, _ in caught.value.problems]
    assert names == [
        ("ternary.ternarize", "model.mlir:4:3"),
        ("func.call", "model.mlir:9:3"),
    ]
    assert "fold-constants" in str(caught.value) and "inline" in str(caught.value)
    assert str(module) == before


def test_calls_pass_trits_as_bytes(compile_natively: Any) -> None:
    module = parse_module("""
func.func private @weights(%t: tensor<2x2x!ternary.trit>) -> tensor<2x2x!ternary.trit> {
  func.return %t : tensor<2x2x!ternary.trit>
}
func.func @forward(%x: tensor<?x2xi8>, %t: tensor<2x2x!ternary.trit>) -> tensor<?x2xi32> {
  %w = func.call @weights(%t) : (tensor<2x2x!ternary.trit>) -> tensor<2x2x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x2xi8>, tensor<2x2x!ternary.trit> -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}""")
    native = compile_natively(str(lowered(module)))
    x = np.array([[5, 7]], np.int8)
    t = np.array([[1, -1], [0, 1]], np.int8)
    (y,) = native(entry_function(module, "forward"), [x, t])
    assert y.tolist() == [[5, 2]]


def test_new_ops_stand_where_the_old_ones_did(filled: Filled) -> None:
    module = parse_module(NETWORK, "net.mlir")
    for op in lowered(module).walk():
        assert not isinstance(op.location, UnknownLoc) or isinstance(op, ModuleOp), op.name


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(OptionError, match="parameters=arguments or parameters=constants"):
        ConvertTensorToLinalgPass(parameters="globals")


def test_mlir_reads_it_and_we_read_it_again(
    filled: Filled, require_tool: Callable[[str, str], str]
) -> None:
    program = require_tool("mlir-opt-19", "apt-get install mlir-19-tools")
    for options in ({}, {"parameters": "constants"}):
        text = str(lowered(filled(NETWORK), **options))
        assert re.search(r"tensor\.(?!dim|empty|expand_shape|name|parameter)|ternary", text) is None
        assert str(parse_module(text)) == text
        done = subprocess.run(
            [program, "--canonicalize", "--linalg-fuse-elementwise-ops"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_scalars(filled: Filled, samples: Samples, compile_natively: Any) -> None:
    module = filled("""
func.func @forward(%x: tensor<?x4xf32>) -> tensor<f32> {
  %two = tensor.constant dense<2.0> : tensor<f32>
  %0 = tensor.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<?x4xf32>) -> tensor<f32>
  %1 = tensor.mul %0, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %p = tensor.parameter "p" : tensor<f32>
  %2 = tensor.add %1, %p : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return %2 : tensor<f32>
}""")
    check_model(module, samples(module), compile_natively)
