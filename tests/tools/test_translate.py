"""`triton-translate`: import, targets, stages."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest

from triton_dsl.ir.store import save_arrays
from triton_dsl.tools.translate import main

SOURCE = """layer Net {
    param weight: TernaryTensor[6, 3]
    fn forward(x: Tensor[N, 6]) -> Tensor[N, 3] { return x @ weight }
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tri").write_text(SOURCE)
    save_arrays(tmp_path / "w.safetensors", {"weight": np.ones((6, 3), np.int8)})
    return tmp_path


def test_import_then_emit_is_the_same_as_emit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net.tri", "--import", "-w", "w.safetensors", "-o", "net.mlir"]) == 0
    assert "ternary.matmul" in Path("net.mlir").read_text()
    assert Path("net.safetensors").is_file()
    assert main(["net.mlir", "-t", "onnx", "-o", "a.onnx"]) == 0
    assert main(["net.tri", "-w", "w.safetensors", "-t", "onnx", "-o", "b.onnx"]) == 0
    assert main(["net.tri", "-t", "pytorch"]) == 0
    assert "class Net(nn.Module)" in capsys.readouterr().out
    import onnx

    first, second = (onnx.load(name).graph for name in ("a.onnx", "b.onnx"))
    assert [n.op_type for n in first.node] == [n.op_type for n in second.node]


def test_a_dash_as_output_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []
    for more in ([], ["-o", "-"]):
        assert main(["net.tri", "--import", *more]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""
    assert not Path("-").exists()


def test_a_program_on_standard_input_is_no_ir(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"# a net\n" + Path("net.tri").read_bytes()
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))
    assert main(["--import"]) == 1
    assert "save a program of the language as .tri" in capsys.readouterr().err


def test_an_output_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["net.tri", "--import", "-o", "a.mlir", "-o", "b.mlir"])
    assert "argument -o/--output: given more than once" in capsys.readouterr().err


def test_locations_are_printed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net.tri", "--import", "--print-debuginfo"]) == 0
    assert 'loc("net.tri":3:58)' in capsys.readouterr().out


def test_values_that_have_no_place_on_stdout_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net.tri", "--import"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["net.tri", "--import", "-w", "w.safetensors"]) == 0
    shown = capsys.readouterr()
    assert "ternary.matmul" in shown.out
    assert "warning: the values of 1 parameter(s) are in memory alone" in shown.err
    assert main(["net.tri", "--import", "-w", "w.safetensors", "-o", "net.mlir"]) == 0
    assert capsys.readouterr().err == ""


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert version("triton-dsl") in capsys.readouterr().out


def test_targets_are_listed_with_their_stages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-targets", "--json"]) == 0
    targets = {row["target"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"pytorch", "onnx", "native"} <= set(targets)
    opset = targets["onnx"]["options"][0]
    assert (opset["name"], opset["type"], opset["default"]) == ("opset", "an integer", 21)
    stages = [stage["name"] for stage in targets["onnx"]["stages"]]
    assert stages == ["decompose", "spiking", "simplify", "fold", "fuse", "neurons"]
    assert main(["--list-targets"]) == 0
    assert "version of the standard operators" in capsys.readouterr().out


def test_the_self_check_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    call = ["net.tri", "-w", "w.safetensors", "--no-self-check"]
    assert main([*call, "-t", "onnx", "-o", "a.onnx"]) == 0
    assert main([*call[:-1], "-t", "onnx", "-o", "b.onnx"]) == 0
    assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()
    assert main([*call, "-t", "pytorch", "-o", "a.py"]) == 2
    assert "target 'pytorch' has no option 'self-check'" in capsys.readouterr().err


def test_stages_can_be_edited_and_taken_up_again() -> None:
    assert main(["net.tri", "-w", "w.safetensors", "-t", "onnx", "-o", "a.onnx",
                 "--dump-stages", "stages"]) == 0  # fmt: skip
    dumps = sorted(Path("stages").glob("*.mlir"))
    assert dumps[0].name.startswith("00-input")
    assert main([str(dumps[-1]), "-t", "onnx", "-o", "b.onnx"]) == 0
    import onnxruntime

    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    results = [
        onnxruntime.InferenceSession(name).run(None, {"x": x})[0] for name in ("a.onnx", "b.onnx")
    ]
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["net.tri"], 2, "give either --import or -t"),
        (["net.tri", "--import", "-t", "onnx"], 2, "give either --import or -t"),
        (["none.tri", "--import"], 1, "no such file"),
        (["none.mlir", "--import"], 1, "none.mlir"),
        (["net.tri", "-t", "verilogg"], 2, "unknown target"),
        (["net.tri", "-t", "onnx{", "-o", "x.onnx"], 2, "onnx{"),
        (["net.tri", "-t", "onnx{opset=9}", "-o", "x.onnx"], 2, "opset"),
        (["broken.mlir", "--import"], 1, "broken.mlir:1"),
        (["bytes.mlir", "--import"], 1, "not UTF-8"),
    ],
)
def test_a_wrong_call_gets_one_message(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.mlir").write_text("func.func @forward(")
    Path("bytes.mlir").write_bytes(b"\xff\xfe\x00")
    before = sorted(Path().iterdir())
    assert main(arguments) == code
    shown = capsys.readouterr().err
    assert message in shown and "Traceback" not in shown
    assert sorted(Path().iterdir()) == before
