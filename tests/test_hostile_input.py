"""Input made to break things: names that want to be code, files that want all the memory."""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import CompilationError, OptionError, ParameterError, SourceError
from triton_dsl.ir.printing import module_text
from triton_dsl.ir.samples import read_samples
from triton_dsl.ir.store import save_arrays
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.weights import attach_weights
from triton_dsl.tools import console
from triton_dsl.tools.cli import main
from triton_dsl.tools.translate import main as translate
from triton_dsl.tools.verify import verify_module

X = np.arange(8, dtype=np.float32).reshape(2, 4)
W = np.array([1, -2, 3, -4], np.float32)

NAMES = [
    '"""\nopen("PWNED", "w")\n"""',
    'a\n        open("PWNED", "w")',
    'a\r        open("PWNED", "w")',
    '\\"',
    "é",
    "ﬁ",
    "😀.\"w'",
    "a\0b",
    "__class__",
    "1.weight",
    "a..b",
    "../up",
    "/abs",
    "[/]",
    "torch",
]
PLACES = ["key", "argument", "result", "module", "file", "dimension"]


def quoted(text: str) -> str:
    """A string of textual IR, with every other character as an escape."""
    return '"' + "".join(f"\\{byte:02X}" for byte in text.encode()) + '"'


def program(place: str, name: str) -> tuple[ModuleOp, str]:
    """A program with `name` in one place, and the key of its parameter."""
    names = {p: quoted(name if p == place else f"plain_{p}") for p in PLACES}
    text = f"""builtin.module @{names["module"]} {{
func.func @forward(%0 : tensor<?x4xf32> {{tensor.name = {names["argument"]},
    tensor.dimensions = [{names["dimension"]}, "4"]}})
    -> (tensor<?x4xf32> {{tensor.name = {names["result"]}}}) {{
  %1 = tensor.parameter {names["key"]} : tensor<4xf32> loc({names["file"]}:1:1)
  %2 = tensor.add %0, %1 : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
      loc({names["file"]}:2:1)
  func.return %2 : tensor<?x4xf32> loc({names["file"]}:3:1)
}}}}"""
    key = name if place == "key" else "plain_key"
    module = parse_module(text)
    attach_weights(module, {key: W})
    return module, key


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_no_name_becomes_code(place: str, name: str) -> None:
    module, _ = program(place, name)
    for comparison in verify_module(module, [X]):
        assert comparison.agrees, comparison
    source = compile_to_target(module, "pytorch{weights=none}").text()
    called = {
        node.func.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "open" not in called
    assert all(line.isprintable() for line in source.split("\n"))


@pytest.mark.parametrize("name", ["é", "😀", "\u2028", 'a\\b"c'])
def test_strings_beyond_ascii_read_as_they_were_printed(name: str) -> None:
    text = module_text(program("key", name)[0])
    assert module_text(parse_module(text)) == text


@pytest.mark.parametrize("name", ["torch", "nn", "F", "load", "print", "Path", "Sequence"])
def test_a_layer_may_be_called_as_what_its_source_uses(name: str) -> None:
    source = f"""layer {name} {{
        param w: TernaryTensor[4, 3]
        fn forward(x: Tensor[N, 4]) -> Tensor[N, 3] {{ return x @ w }}
    }}"""
    module = import_tri(source, weights={"w": np.eye(4, 3, dtype=np.float32)})
    for comparison in verify_module(module, [X], ["pytorch", "pytorch{weights=embed}", "onnx"]):
        assert comparison.agrees, comparison


def test_few_of_many_errors_get_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a search among all names, of which there are as many as errors."""
    searches = Mock(wraps=difflib.get_close_matches)
    monkeypatch.setattr(difflib, "get_close_matches", searches)
    lines = "\n".join(f"let a{i} = zz{i}\nb{i} = x" for i in range(5000))
    with pytest.raises(CompilationError, match="unknown name 'zz0'"):
        import_tri(f"layer L {{ fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] {{\n{lines}\n}} }}")
    assert 0 < searches.call_count < 300


def test_random_trits_have_a_limit() -> None:
    with pytest.raises(CompilationError, match=r"at most 2\^28 trits"):
        import_tri(
            "layer L { fn forward(x: Tensor[N, 1000000]) -> Tensor[N, 1000000] "
            "{ return x @ random_ternary([1000000, 1000000]) } }"
        )


def test_huge_constants_are_refused_before_they_fill_the_memory() -> None:
    text = "%0 = arith.constant dense<0.0> : tensor<1000000x1000000xf32>"
    with pytest.raises(SourceError, match=r"at most 2\^26 elements"):
        parse_module(text)


SMALL = """layer L {
    param w: Tensor[4]
    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return x * w }
}"""


def npy_header(shape: tuple[int, ...]) -> bytes:
    text = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n"


def test_archives_larger_than_the_model_are_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", npy_header((1 << 22,)) + bytes(1 << 24))
    with pytest.raises(ParameterError, match="more than any parameter of the model"):
        import_tri(SMALL, weights=tmp_path / "bomb.npz")
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive:
        archive.writestr("w.npy", npy_header((1 << 45,)))
    with pytest.raises(ParameterError, match="claim"):
        import_tri(SMALL, weights=tmp_path / "claim.npz")


def test_tensors_without_a_plain_form_are_refused() -> None:
    torch: Any = pytest.importorskip("torch")
    for tensor in (
        torch.ones(4).to_sparse(),
        torch.empty(4, device="meta"),
        torch.ones(4).to(torch.float8_e4m3fn),
    ):
        with pytest.raises(ParameterError, match="'w' is no plain tensor"):
            import_tri(SMALL, weights={"w": tensor})


def test_complex_numbers_are_no_trits() -> None:
    source = SMALL.replace("param w: Tensor", "param w: TernaryTensor")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ParameterError, match="complex"):
            import_tri(source, weights={"w": np.ones(4, complex)})


@pytest.mark.parametrize(
    "array",
    [np.array(["a"]), np.zeros(4, [("a", "f4")]), np.ones(4, complex), np.zeros(1, "M8[s]")],
    ids=["text", "record", "complex", "date"],
)
def test_samples_are_real_numbers(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", x=array)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(OptionError, match="no real numbers"):
            read_samples(tmp_path / name)


def test_a_broken_header_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00" + b"[" * 16)
    with pytest.raises(OptionError, match="cannot be read"):
        read_samples(tmp_path / "x.npy")


@pytest.mark.parametrize("tool", ["triton", "triton-translate"])
def test_what_was_read_is_not_overwritten(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.tri").write_text(SMALL.replace("param w: Tensor", "param w: TernaryTensor"))
    save_arrays(Path("m.safetensors"), {"w": np.ones(4, np.float32)})
    before = {path: path.read_bytes() for path in Path().iterdir()}
    compile_, given = (main, ["compile"]) if tool == "triton" else (translate, [])
    for output in ("m.py", "m.tri", "m.safetensors"):
        arguments = [*given, "m.tri", "-w", "m.safetensors", "-t", "pytorch", "-o", output]
        assert compile_(arguments) == 2
        assert {path: path.read_bytes() for path in Path().iterdir()} == before
    assert compile_([*given, "m.tri", "-w", "m.safetensors", "-t", "pytorch", "-o", "n.py"]) == 0


@pytest.mark.parametrize("tool", ["cli", "opt", "translate"])
def test_closed_streams_are_no_defects(tool: str, tmp_path: Path) -> None:
    (tmp_path / "m.tri").write_text(SMALL)
    arguments = {"cli": "info m.tri", "opt": "m.tri", "translate": "m.tri --import"}[tool]
    command = f"{sys.executable} -m triton_dsl.tools.{tool} {arguments} <&- >&-"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, stderr=subprocess.PIPE, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_messages_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.tri").write_text("")
    assert main(["info", "empty.tri"]) == 1
    assert capsys.readouterr().err.startswith("empty.tri:1:1: error: no layer has")
    Path("[bold]x.tri").write_text(SMALL)
    assert main(["info", "[bold]x.tri"]) == 0
    assert "[bold]x.tri" in capsys.readouterr().out

    def exhausted() -> int:
        raise MemoryError("Unable to allocate 1 TiB")

    assert console.guarded("triton", exhausted) == 1
    assert capsys.readouterr().err == "triton: error: out of memory: Unable to allocate 1 TiB\n"
