"""`triton`: each command as a newcomer uses it, and what it says when something is wrong."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path

import numpy as np
import onnx
import pytest

from triton_dsl.ir.store import save_arrays
from triton_dsl.lowering.to_native.kernels.bitplanes_schemes import SCHEMES
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.tools.cli import main
from triton_dsl.tools.commands.options import COMMANDS, options_of

SOURCE = """layer Net {
    param weight: TernaryTensor[6, 3]
    param bias: Tensor[3]

    fn forward(x: Tensor[N, 6]) -> Tensor[N, 3] {
        return relu(x @ weight + bias)
    }
}
"""
RNG = np.random.default_rng(5)
TRITS = RNG.integers(-1, 2, (6, 3)).astype(np.int8)
BIAS = RNG.standard_normal(3).astype(np.float32)
X = RNG.standard_normal((4, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tri").write_text(SOURCE)
    save_arrays(tmp_path / "w.safetensors", {"weight": TRITS, "bias": BIAS})
    np.savez(tmp_path / "x.npz", x=X)
    return tmp_path


def run(*arguments: str, code: int = 0) -> None:
    assert main(list(arguments)) == code


def test_check_reports_every_file(capsys: pytest.CaptureFixture[str]) -> None:
    run("check", "net.tri")
    assert "net.tri: no errors" in capsys.readouterr().out
    Path("bad.tri").write_text(SOURCE.replace("@ weight", "@ wieght").replace("relu", "rellu"))
    run("check", "net.tri", "bad.tri", code=1)
    shown = capsys.readouterr()
    assert "bad.tri:6:" in shown.err and "did you mean 'weight'" in shown.err
    assert "did you mean 'relu'" in shown.err and "Traceback" not in shown.err
    run("check", "--json", "bad.tri", code=1)
    (report,) = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert [d["line"] for d in report["diagnostics"]] == [6, 6]


TWO_KINDS = """layer Syntax {
    fn forward(x: Tensor[N, 3]) -> Tensor[N, 3] { return x + }
}
layer Names {
    fn forward(x: Tensor[N, 3]) -> Tensor[N, 3] { return x + unknown }
}
"""


@pytest.mark.parametrize("command", ["check", "compile", "info"])
def test_errors_of_syntax_and_of_types_come_in_one_run(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("two.tri").write_text(TWO_KINDS)
    run(command, "two.tri", code=1)
    shown = capsys.readouterr().err
    assert "two.tri:2:61: error: expected an expression" in shown
    assert "two.tri:5:62: error: unknown name 'unknown'" in shown


def test_fmt_is_idempotent_and_safe(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("messy.tri")
    path.write_text("layer  L{fn forward(x:Tensor[N,2])->Tensor[N,2]{return x+x}} # end\n")
    run("fmt", "--check", "messy.tri", code=1)
    run("fmt", "--diff", "messy.tri")
    assert "+layer L {" in capsys.readouterr().out
    run("fmt", "messy.tri")
    formatted = path.read_text()
    assert formatted.startswith("layer L {") and "# end" in formatted
    run("fmt", "--check", "messy.tri")
    path.write_text("layer {")
    run("fmt", "messy.tri", code=1)
    assert path.read_text() == "layer {"


def test_run_gives_the_products(capsys: pytest.CaptureFixture[str]) -> None:
    expected = np.maximum(X @ TRITS + BIAS, 0)
    for engine in ("interpreter", "pytorch", "onnx", "native"):
        run("run", "net.tri", "-w", "w.safetensors", "-i", "x.npz", "--engine", engine,
            "-o", "y.npz", "--json")  # fmt: skip
        (output,) = json.loads(capsys.readouterr().out)["outputs"]
        np.testing.assert_allclose(output["values"], expected, rtol=1e-5, atol=1e-6)
        with Path("y.npz").open("rb") as file, np.load(file) as archive:
            np.testing.assert_allclose(archive["output"], expected, rtol=1e-5, atol=1e-6)


def test_verify_compares_every_engine(capsys: pytest.CaptureFixture[str]) -> None:
    run("verify", "net.tri", "-w", "w.safetensors", "--json")
    rows = json.loads(capsys.readouterr().out)
    source, *rows = rows
    assert (source["target"], source["engine"]) == ("source", "none")
    assert "no other engine" in source["note"]
    assert [row["target"] for row in rows] == ["pytorch", "onnx", "native", "tflite"]
    assert all(row["agrees"] and row["argmax_agreement"] == 1.0 for row in rows)
    run("verify", "net.tri", "-w", "w.safetensors")
    assert "agrees" in capsys.readouterr().out


def test_compile_writes_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    run("compile", "net.tri", "-w", "w.safetensors", "-t", "onnx", "-o", "net.onnx", "--json")
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["bytes"] == Path("net.onnx").stat().st_size
    run("compile", "net.tri", "--dump-stages", "stages")
    assert "class Net(nn.Module)" in Path("net.py").read_text()
    assert len(list(Path("stages").glob("*.mlir"))) >= 2


def test_the_name_of_a_native_file_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    run("compile", "net.tri", "-w", "w.safetensors", "-t", "native")
    assert Path("net.o").read_bytes()[:4] == b"\x7fELF"
    assert "void Net(const float *x, float *output," in Path("net.h").read_text()
    run("compile", "net.tri", "-w", "w.safetensors", "-t", "native{name=other}", "-o", "a.ll")
    assert "define" in Path("a.ll").read_text() and "void other(" in Path("a.h").read_text()
    run("compile", "net.tri", "-w", "w.safetensors", "-t", "native", "-o", "a.s")
    assert ".globl\tNet" in Path("a.s").read_text()
    capsys.readouterr()
    run("compile", "net.tri", "-t", "native{form=object}", "-o", "a.so", code=2)
    assert "'a.so' is a file of form=shared" in capsys.readouterr().err


def test_info_counts(capsys: pytest.CaptureFixture[str]) -> None:
    run("info", "net.tri", "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["total_parameters"] == 21 and facts["ternary_parameters"] == 18
    assert facts["stored_bytes"] == 5 + 12 and facts["float32_bytes"] == 84
    assert facts["ops"]["ternary.matmul"] == 1
    run("info", "net.tri")
    assert "tensor<6x3x!ternary.trit>" in capsys.readouterr().out


def test_devices_and_doctor_speak_json(capsys: pytest.CaptureFixture[str]) -> None:
    run("devices", "--json")
    assert json.loads(capsys.readouterr().out)["devices"][0]["backend"] == "cpu"
    run("doctor", "--json")
    found = {row["name"]: row["found"] for row in json.loads(capsys.readouterr().out)}
    assert found["xdsl"] == "0.74.0" and {"llvmlite", "cc"} <= found.keys()
    assert found["ternary products"] in {recipe.name for recipe in RECIPES}
    assert found["trits by trits"] in {scheme.name for scheme in SCHEMES}
    run("doctor")
    assert found["ternary products"] in capsys.readouterr().out.partition("kernels on")[2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "none.tri"], 1, "none.tri: no such file"),
        (["run", "net.tri"], 1, "parameter 'weight' is in no file: give weights (-w FILE"),
        (["run", "x.npz"], 1, "unknown kind of file"),
        (["run", "net.tri", "-w", "x.npz"], 1, "missing 'weight'"),
        (["run", "net.tri", "-w", "none.npz"], 1, "no such file"),
        (["run", "net.tri", "-w", "."], 1, "weights file '.': Is a directory"),
        (["run", "net.tri", "-w", "w.safetensors", "-i", "d.safetensors"], 1, "No such file"),
        (["run", "net.tri", "-w", "w.safetensors", "-i", "w.safetensors"], 1, "takes the inputs x"),
        (["run", "net.tri", "--engine", "tpu"], 2, "unknown target 'tpu'"),
        (["run", "net.tri", "-p", "canonicalise"], 2, "did you mean 'canonicalize'"),
        (["run", "net.tri", "--layer", "Nets"], 1, "Net"),
        (["compile", "net.tri", "-t", "onnx{opsett=13}"], 2, "did you mean 'opset'"),
        (["compile", "net.tri", "-t", "onnx"], 1, "weight"),
        (["compile", "net.tri", "-o", "net.tri/net.py"], 1, "net.tri"),
        (["compile", "net.tri", "-o", "-"], 2, "to print: triton-translate net.tri -t pytorch"),
        (["compile", "net.tri", "-t", "onnx", "-t", "c"], 2, "--target is given more than once"),
        (["compile", "net.tri", "-o", "a.py", "--output", "b.py"], 2, "given more than once"),
        (["verify", "net.tri", "--samples", "0"], 2, "samples"),
        (["info"], 2, "Missing argument"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_a_wrong_call_gets_one_message(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*arguments, code=code)
    shown = capsys.readouterr()
    assert message in " ".join(shown.err.split()), shown.err
    assert "Traceback" not in shown.err and not shown.out
    assert sorted(p.name for p in Path().iterdir()) == ["net.tri", "w.safetensors", "x.npz"]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    run("--help")
    text = capsys.readouterr().out
    for name in (
        "compile",
        "convert",
        "check",
        "fmt",
        "run",
        "profile",
        "energy",
        "verify",
        "info",
        "devices",
        "doctor",
    ):
        assert name in text
        run(name, "--help")
        told = capsys.readouterr().out
        assert "Usage" in told and "<bool>" not in told and "...}" not in told


def test_what_commands_tell_they_tell_as_json_too() -> None:
    without = {name for name in COMMANDS if "json" not in signature(options_of(name)).parameters}
    assert without == {"fmt", "explore", "serve"}  # a text, --format json, HTTP


@pytest.mark.parametrize(
    "wrong", [["--tagret", "onnx"], ["-t", "c", "-t", "onnx"], ["--dt", "soon"], ["more.tri"]]
)
def test_a_wrong_call_is_told_as_json_too(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run("compile", "net.tri", *wrong, "--json", code=2)
    shown = capsys.readouterr()
    told = json.loads(shown.out)["error"]
    assert told["exit_code"] == 2 and told["message"] and shown.err


def test_paragraphs_of_the_help_run_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run("publish", "--help")
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert len([line for line in lines if line.startswith("Example: ")]) == 2
    run("verify", "--help")
    assert "where there is none, the interpreter's values" in capsys.readouterr().out


def test_options_that_take_several_values_are_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = "verify", "net.tri", "-w", "w.safetensors", "--json", "--json"
    run(*given, "-t", "onnx", "-t", "pytorch")
    rows = json.loads(capsys.readouterr().out)
    assert [row["target"] for row in rows] == ["source", "onnx", "pytorch"]


def test_verifying_without_an_engine_is_no_agreement(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triton_dsl.tools.verify.default_targets", tuple)
    run("verify", "net.tri", "-w", "w.safetensors", code=1)
    shown = capsys.readouterr()
    assert "nothing is compared: no engine is installed" in shown.err and not shown.out


def test_what_was_not_compared_has_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    run("verify", "net.tri", "-w", "w.safetensors", "-t", "onnx")
    (source,) = [line for line in capsys.readouterr().out.splitlines() if "no engine" in line]
    assert "nan" not in source


def test_inputs_are_named_as_in_the_compiled_model(capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.mlir").write_text(
        "func.func @forward(%image : tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
        "  %y = tensor.relu %image : (tensor<?x4xf32>) -> tensor<?x4xf32>\n"
        "  func.return %y : tensor<?x4xf32>\n}\n"
    )
    run("info", "net.mlir", "--json")
    facts = json.loads(capsys.readouterr().out)
    run("compile", "net.mlir", "-t", "onnx", "-o", "net.onnx")
    graph = onnx.load("net.onnx").graph
    assert [v["name"] for v in facts["inputs"]] == [v.name for v in graph.input] == ["image"]
    assert [v["name"] for v in facts["outputs"]] == [v.name for v in graph.output]
