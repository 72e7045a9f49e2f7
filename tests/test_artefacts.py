"""`tests/artefacts.py`: two runs agree; a change of a program, output or message is seen."""

import json
from pathlib import Path

import artefacts
import pytest

PARTS = """
// A remark.
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @forward(%x: tensor<4xi32>) -> tensor<4xi32> {
  func.return %x : tensor<4xi32>
}
// -----
func.func @f(%x: tensor<4xi1>) -> tensor<4xi1> {
  %y = tensor.relu %x : (tensor<4xi1>) -> tensor<4xi1> // expected-error {{numbers}}
  func.return %y : tensor<4xi1>
}
"""
LIMITS = artefacts.Limits(verilog=10_000, size=100_000, seconds=60)


def entries(tmp_path: Path, text: str, name: str = "a.mlir") -> dict[str, str]:
    path = tmp_path / name
    path.write_text(text)
    task = artefacts.Input("a", path, run="RUN:" in text)
    return artefacts.results(task, LIMITS, None)


def test_each_function_is_a_program_of_its_own() -> None:
    found = dict(artefacts.functions(PARTS))
    assert list(found) == ["@f", "@forward", "@f 2"]
    assert all(module.count("@forward") == 1 and "@f(" not in module for module in found.values())
    assert not any("//" in module for module in found.values())
    assert "xi32" in found["@forward"] and "xi32" not in found["@f"] and "xi1>" in found["@f 2"]


def test_every_target_of_a_program_is_in_the_table_and_again_the_same(tmp_path: Path) -> None:
    module = dict(artefacts.functions(PARTS))["@f"]
    first, second = entries(tmp_path, module), entries(tmp_path, module)
    assert first == second
    assert {"input", "info", "ir", *artefacts.TARGETS} <= first.keys()
    for target in ("native", "onnx", "pytorch", "tflite"):
        assert artefacts.is_hash(first[target]) and artefacts.is_hash(
            f"{first[target]} stages"[:64]
        )
    assert "cannot express" in first["verilog"] and "spike.network" in first["nir"]


def test_a_change_of_the_program_changes_every_artefact(tmp_path: Path) -> None:
    module = dict(artefacts.functions(PARTS))["@f"]
    before, after = entries(tmp_path, module), entries(tmp_path, module.replace("relu", "exp"))
    same = {key for key in before if before[key] == after[key]}
    assert same == set()


def test_a_refused_program_has_its_message(tmp_path: Path) -> None:
    found = entries(tmp_path, dict(artefacts.functions(PARTS))["@f 2"])
    assert found.keys() == {"input", "ir"}
    assert found["ir"].startswith("exit code 1: a.mlir:2:3: error: 'tensor.relu' expects numbers")


def test_run_lines_are_run_without_their_checks(tmp_path: Path) -> None:
    run = "// RUN: triton-opt %s -p canonicalize > %t && filecheck %s < %t\n"
    run += "// RUN: triton-opt %s --mlir-timing\n"
    run += "// RUN: not triton-opt %s -p no-such-pass 2>&1 | filecheck %s --check-prefix=ERROR\n"
    found = entries(tmp_path, run + PARTS.partition("// -----")[0])
    plain, timing, refused = sorted(found.keys() - {"input"})
    assert plain.startswith("1 triton-opt a.mlir -p canonicalize") and artefacts.is_hash(
        found[plain]
    )
    assert found[timing].startswith(artefacts.SKIPPED)
    assert refused.startswith("3 not triton-opt") and "no-such-pass" in found[refused]


PROGRAM = """
layer Net {
    let fc = TernaryLinear(4, 3)
    let norm = BatchNorm1d(3)

    fn forward(x: Tensor[N, 4]) -> Tensor[N, 3] {
        return norm(fc(x))
    }
}
"""


def test_parameters_without_values_get_some(tmp_path: Path) -> None:
    found = entries(tmp_path, PROGRAM, "a.tri")
    for target in ("native", "onnx", "pytorch", "tflite"):
        assert artefacts.is_hash(found[target]), found[target]


def test_what_differs_is_told_by_kind() -> None:
    one, other = "1" * 64, "2" * 64
    before = {"a": {"input": one, "x": one, "y": "exit code 1: no"}, "gone": {"x": one}}
    after = {"a": {"input": other, "x": other, "y": "exit code 1: yes"}, "new": {"x": one}}
    skipped = f"{artefacts.SKIPPED}too large"
    before["a part"], after["a part"] = {"x": one}, {"x": skipped}
    before["all"], after["all"] = {"ir": one, "x": one}, {"ir": skipped}
    before["same"] = after["same"] = {"x": one}
    lines, counts = artefacts.differences(before, after)
    assert lines == [
        "different: a: x (of another input)",
        "different: a: y (of another input)",
        "  - exit code 1: no",
        "  + exit code 1: yes",
        "gone: gone: x",
        "new: new: x",
    ]
    assert counts == {"same": 1, "different": 2, "new": 1, "gone": 1, "not compared": 3}


def test_compare_ends_with_1_where_something_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.json"
    some = ["--only", "tensor/storage_invalid.mlir", "--jobs", "1"]
    assert artefacts.main(["write", str(table), *some]) == 0
    content = json.loads(table.read_text())
    assert artefacts.main(["compare", str(table), *some]) == 0
    assert ", 0 different, 0 new, 0 gone" in capsys.readouterr().out
    name = next(name for name, found in content.items() if "ir" in found)
    content[name]["ir"] = "0" * 64
    table.write_text(json.dumps(content))
    assert artefacts.main(["compare", str(table), *some]) == 1
    assert f"different: {name}: ir\n" in capsys.readouterr().out


def test_a_quick_run_leaves_the_same_functions_out_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a.mlir"
    path.write_text(PARTS)
    limits = artefacts.Limits(verilog=0, size=0, seconds=60, part=3)
    names = [f"a.mlir @f {number}" for number in range(60)]
    tasks = [artefacts.Input(name, path, PARTS) for name in names]
    left_out = [limits.reason(task, b"") is not None for task in tasks]
    assert 20 < sum(left_out) < 60
    assert limits.reason(artefacts.Input("a.mlir", path, run=True), b"") is None
    found = artefacts.results(tasks[left_out.index(True)], limits, None)
    assert found.keys() == {"input", "ir"} and found["ir"].startswith(artefacts.SKIPPED)
