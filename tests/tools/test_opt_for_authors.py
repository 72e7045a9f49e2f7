"""`triton-opt` for authors of passes: weights, loaded passes, reproducers, and what is told."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from triton_dsl.tools import opt, translate

MODULE = """func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = tensor.relu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""

PASSES = '''
from dataclasses import dataclass
from xdsl.dialects.builtin import StringAttr
from xdsl.passes import ModulePass

@dataclass(frozen=True)
class MarkPass(ModulePass):
    """Mark the module."""

    name = "mark"
    word: str = "yes"

    def apply(self, ctx, op):
        if self.word == "fail":
            raise ValueError("no")
        op.attributes["marked"] = StringAttr(self.word)
'''


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(MODULE, encoding="utf-8")
    Path("p.py").write_text(PASSES, encoding="utf-8")
    return tmp_path


def test_weights_reach_the_passes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """README's chain: import, then passes that read the weights."""
    Path("net.tri").write_text(
        "layer Net {\n    param w: Tensor[16, 32]\n"
        "    fn forward(x: Tensor[N, 16]) -> Tensor[N, 32] { return relu(x @ w) }\n}\n",
        encoding="utf-8",
    )
    random = np.random.default_rng(0)
    weight = random.normal(size=(16, 32)).astype(np.float32)
    save_file({"w": weight}, "w.safetensors")
    samples = random.normal(size=(64, 16)).astype(np.float32)
    np.save("samples.npy", samples)
    assert translate.main(["net.tri", "--import", "-o", "net.mlir"]) == 0
    passes = "calibrate{data=samples.npy},ternarize{method=gptq data=samples.npy}"
    assert opt.main(["net.mlir", "-p", passes]) == 1
    assert "parameter 'w' is in no file" in capsys.readouterr().err
    assert opt.main(["net.mlir", "-w", "w.safetensors", "-p", passes, "-o", "out.mlir"]) == 0
    assert "ternary.linear" in Path("out.mlir").read_text(encoding="utf-8")
    (packed,) = (v for k, v in load_file("out.safetensors").items() if "trits" in k)
    codes = (packed[:, None] >> np.array([0, 2, 4, 6])) & 3
    trits = np.array([0, 1, -1])[codes.ravel()[: weight.size]].reshape(weight.shape)
    # Trits that stand for these weights go the way that they go.
    assert np.sum(np.sign(weight) == trits) > 0.5 * weight.size
    assert np.sum(trits * weight < 0) < 0.1 * weight.size
    assert opt.main(["net.mlir", "-w", "none.safetensors"]) == 1
    assert "no such file" in capsys.readouterr().err


def test_a_pass_from_a_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["m.mlir", "--load", "p.py", "-p", "mark{word=no}"]) == 0
    assert 'marked = "no"' in capsys.readouterr().out
    assert opt.main(["m.mlir", "--load=p.py", "--mark"]) == 0
    assert 'marked = "yes"' in capsys.readouterr().out
    assert opt.main(["--load", "p.py", "--describe-pass", "mark"]) == 0
    assert "Mark the module." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (None, 1, "expected a file of Python"),
        ("x = 1\n", 1, "the file defines no pass"),
        ("def f(:\n", 1, "SyntaxError"),
        ("raise ValueError('boom')\n", 1, "ValueError: boom"),
        (PASSES.replace('"mark"', '"cse"'), 1, "there is a pass 'cse' already"),
    ],
)
def test_a_file_that_cannot_be_loaded(
    content: str | None, code: int, message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        Path("q.py").write_text(content, encoding="utf-8")
    assert opt.main(["m.mlir", "--load", "q.py"]) == code
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_every_failing_part_is_told(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = MODULE.replace("-> tensor<?x4xf32>\n  func", "-> tensor<?x5xf32>\n  func")
    wrong = wrong.replace("return %y", "return %x")
    Path("parts.mlir").write_text(
        "// -----\n".join([wrong, MODULE, "func.func @g(\n"]), encoding="utf-8"
    )
    assert opt.main(["parts.mlir", "--split-input-file"]) == 1
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert lines[0].startswith("parts.mlir:2:3: error: 'tensor.relu' result 0 has type")
    # The verifier's errors show the line, as the parser's do.
    assert lines[1] == "    %y = tensor.relu %x : (tensor<?x4xf32>) -> tensor<?x5xf32>"
    assert lines[2] == "    ^"
    assert lines[3].startswith("parts.mlir:12:1: error: ")
    assert lines[-1] == "triton-opt: error: 2 part(s) of the input failed"
    assert captured.out.count("tensor.relu") == 1
    assert opt.main(["parts.mlir", "--split-input-file", "-o", "out.mlir"]) == 1
    assert "nothing is written" in capsys.readouterr().err and not Path("out.mlir").exists()


def test_ir_goes_to_a_folder(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["m.mlir", "--load", "p.py", "--cse", "--mark", "--mlir-print-ir-tree-dir=tree"]
    assert opt.main(arguments) == 0
    assert capsys.readouterr().err == ""
    folder = Path("tree") / "builtin_module_no-symbol-name"
    assert sorted(path.name for path in folder.iterdir()) == ["0_cse.mlir", "1_mark.mlir"]
    assert "marked" in (folder / "1_mark.mlir").read_text(encoding="utf-8")
    assert opt.main([*arguments, "--mlir-print-ir-before=mark"]) == 0
    assert (folder / "1_mark.before.mlir").exists()


def test_ir_after_a_failure(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["m.mlir", "--load", "p.py", "-p", "cse,mark{word=fail}"]
    assert opt.main([*arguments, "--mlir-print-ir-after-failure"]) == 1
    heads = [line for line in capsys.readouterr().err.splitlines() if "IR Dump" in line]
    assert heads == ["// -----// IR Dump After MarkPass Failed (mark) //----- //"]


def test_reproducers(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["m.mlir", "--load", "p.py", "-p", "cse,mark{word=fail},dce"]
    crash = "--mlir-pass-pipeline-crash-reproducer=crash.mlir"
    assert opt.main([*arguments, crash]) == 1
    assert "mark{word=" in _text("crash.mlir") and ",dce" in _text("crash.mlir")
    assert opt.main([*arguments, crash, "--mlir-pass-pipeline-local-reproducer"]) == 1
    assert "mark{word=" in _text("crash.mlir") and "dce" not in _text("crash.mlir")
    assert opt.main(["crash.mlir", "--load", "p.py", "--run-reproducer"]) == 1
    whole = ["m.mlir", "-p", "cse,dce", "--mlir-generate-reproducer=whole.mlir"]
    assert opt.main(whole) == 0
    capsys.readouterr()
    assert opt.main(["whole.mlir", "--run-reproducer", "--dump-pass-pipeline"]) == 0
    captured = capsys.readouterr()
    assert "cse" in _text("whole.mlir") and captured.out.count("tensor.relu") == 1


def _text(name: str) -> str:
    return Path(name).read_text(encoding="utf-8")


def test_timing_as_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["m.mlir", "--cse", "--mlir-timing", "--mlir-output-format=json"]) == 0
    rows = json.loads(capsys.readouterr().err)
    assert {"Parser", "cse", "Output", "Total"} <= {row["name"] for row in rows}
    assert sum(row["wall"]["duration"] for row in rows[:-1]) == pytest.approx(
        rows[-1]["wall"]["duration"]
    )


def test_switches_take_values(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--verify-each=false`, as LLVM's tools take it."""
    arguments = ["m.mlir", "--cse", "--mlir-print-op-generic=true", "--mlir-timing=false"]
    assert opt.main([*arguments, "--verify-each=false", "-verify-each=true"]) == 0
    captured = capsys.readouterr()
    assert '"tensor.relu"' in captured.out and captured.err == ""
    assert opt.main(["m.mlir", "--verify-each=maybe"]) == 2


def test_ir_is_drawn_for_graphviz(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["m.mlir", "-t", "dot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'digraph "program" {' and lines[-1] == "}"
    (relu,) = (line.split()[0] for line in lines if "tensor.relu" in line)
    assert sum(f"{relu} ->" in line for line in lines) == 1
