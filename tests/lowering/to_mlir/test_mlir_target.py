"""The target `mlir`: what goes in comes out, weights included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from triton_dsl.dialects.parameters import parameter_value, parameters
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import LoweringError
from triton_dsl.ir.printing import module_text
from triton_dsl.ir.store import file_sha256
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.tools.opt import main as opt
from triton_dsl.tools.translate import main as translate

WEIGHTS = {
    "fc.weight": pack_trits(np.array([[1, 0], [-1, 1], [0, -1]], np.int8)),
    "fc.bias": np.array([0.5, -1.5], np.float32),
    "unused": np.ones(3, np.float32),
}
BODY = """
  func.func @forward(%x: tensor<?x3xf32> {tensor.name = "pixels"}) -> tensor<?x2xf32> {
    %w = ternary.parameter "fc.weight" : tensor<3x2x!ternary.trit>
    %b = tensor.parameter "fc.bias" buffer : tensor<2xf32>
    %y = ternary.linear %x, %w bias(%b : tensor<2xf32>) {activation = "relu"}
      : tensor<?x3xf32>, tensor<3x2x!ternary.trit> -> tensor<?x2xf32>
    %e = tensor.exp %y : (tensor<?x2xf32>) -> tensor<?x2xf32>
    func.return %e : tensor<?x2xf32>
  }
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A module and its weights in a folder of their own."""
    weights = tmp_path / "given" / "w.safetensors"
    weights.parent.mkdir()
    safetensors.numpy.save_file(WEIGHTS, weights)
    head = f'#tensor.store<"w.safetensors", sha256 = "{file_sha256(weights)}">'
    path = weights.with_name("net.mlir")
    path.write_text(f"builtin.module @net attributes {{tensor.parameters = {head}}} {{{BODY}}}\n")
    return path


def test_a_file_reads_back_with_its_weights(program: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "for_others.mlir"
    assert translate([str(program), "-t", "mlir", "-o", str(output)]) == 0
    text = output.read_text()
    assert '"tf.ternary.linear"(' in text and '"tf.triton_tensor.exp"(' in text
    (weights,) = output.parent.glob("*.safetensors")
    digest = file_sha256(weights)
    assert weights.name == f"parameters-{digest[:12]}.safetensors"
    assert f'#triton_tensor.store<"{weights.name}", sha256 = "{digest}">' in text
    again, first = (parse_module(p.read_text(), str(p)) for p in (output, program))
    assert module_text(again).split("\n", 1)[1] == module_text(first).split("\n", 1)[1]
    values = {op.key.data: parameter_value(op) for op in parameters(again)}
    np.testing.assert_array_equal(values["fc.weight"], [[1, 0], [-1, 1], [0, -1]])
    np.testing.assert_array_equal(values["fc.bias"], WEIGHTS["fc.bias"])


def test_the_file_is_a_program_like_any_other(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "a.mlir"
    assert translate([str(program), "-t", "mlir", "-o", str(output)]) == 0
    for path in (program, output):
        assert opt([str(path), "-p", "canonicalize", "--verify-semantics"]) == 0
    first, again = capsys.readouterr().out.split("builtin.module")[1:]
    assert again.split("\n", 1)[1] == first.split("\n", 1)[1]


def test_two_programs_in_a_folder_keep_their_weights(program: Path, tmp_path: Path) -> None:
    weights = program.with_name("w.safetensors")
    biases: list[np.ndarray] = []
    for number in range(2):
        output = tmp_path / f"{number}.mlir"
        assert translate([str(program), "-t", "mlir", "-o", str(output)]) == 0
        digest = file_sha256(weights)
        safetensors.numpy.save_file({**WEIGHTS, "fc.bias": WEIGHTS["fc.bias"] + 1}, weights)
        program.write_text(program.read_text().replace(digest, file_sha256(weights)))
    for number in range(2):
        output = tmp_path / f"{number}.mlir"
        (_, bias) = parameters(parse_module(output.read_text(), str(output)))
        biases.append(parameter_value(bias))
    np.testing.assert_array_equal(biases[1], biases[0] + 1)


def test_a_program_without_weights_is_one_text() -> None:
    module = parse_module(BODY)
    before = module_text(module)
    artifact = compile_to_target(module, "mlir")
    assert module_text(module) == before, "the module stays as it was"
    assert list(artifact.files) == ["model.mlir"]
    assert module_text(parse_module(artifact.text())) == before
    assert compile_to_target(module, "mlir").files == artifact.files


def test_missing_weights_are_one_message(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (program.parent / "w.safetensors").unlink()
    assert translate([str(program), "-t", "mlir", "-o", str(tmp_path / "a.mlir")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "w.safetensors': No such file" in error
    assert not (tmp_path / "a.mlir").exists()


def test_an_attribute_with_the_name_of_a_property_is_refused() -> None:
    text = '"tensor.softmax"(%x) <{axis = 0 : i64}> {axis = 1 : i64} : (tensor<2xf32>) -> '
    body = f"func.func @f(%x: tensor<2xf32>) {{\n%y = {text}tensor<2xf32>\nfunc.return\n}}"
    with pytest.raises(LoweringError, match=r"2:.*'tensor.softmax' has an attribute and a"):
        compile_to_target(parse_module(body), "mlir")
