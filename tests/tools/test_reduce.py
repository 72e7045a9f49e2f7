"""`triton-reduce`: what is left fails in the same way, and is small."""

import shlex
import sys
from pathlib import Path

import pytest

from triton_dsl.dialects.registry import parse_module
from triton_dsl.tools import opt, reduce

# Passes that are wrong on purpose, and a program in which one op of many matters.
PASSES = """
from dataclasses import dataclass
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from triton_dsl.dialects import tensor

@dataclass(frozen=True)
class Wrong(ModulePass):
    name = "wrong-tanh"
    def apply(self, ctx, op):
        for found in list(op.walk()):
            if isinstance(found, tensor.TanhOp):
                Rewriter.replace_op(found, tensor.SigmoidOp(found.operands[0]))

@dataclass(frozen=True)
class Crash(ModulePass):
    name = "crash-on-relu"
    def apply(self, ctx, op):
        if any(found.name == "tensor.relu" for found in op.walk()):
            raise KeyError("no relu")
"""

OPS = ["abs", "sigmoid", "neg", "exp", "relu", "abs", "tanh", "neg", "sigmoid", "abs"]


def program() -> str:
    type = "tensor<?x4xf32>"
    lines = [f"func.func @forward(%v0: {type}) -> {type} {{"]
    lines += [
        f"  %v{i + 1} = tensor.{name} %v{i} : ({type}) -> {type}" for i, name in enumerate(OPS)
    ]
    return "\n".join([*lines, f"  func.return %v{len(OPS)} : {type}", "}"]) + "\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(program(), encoding="utf-8")
    Path("p.py").write_text(PASSES, encoding="utf-8")


def left(name: str) -> list[str]:
    module = parse_module(Path(name).read_text(encoding="utf-8"), name)
    return [op.name for op in module.walk() if op.operands and op.name != "func.return"]


def test_a_pass_that_computes_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    passes = ["--load", "p.py", "-p", "cse,wrong-tanh,dce"]
    assert reduce.main(["m.mlir", *passes, "--verify-semantics", "-o", "small.mlir"]) == 0
    command = capsys.readouterr().err.partition("fails again: triton-opt ")[2]
    assert left("small.mlir") == ["tensor.tanh"]
    assert opt.main(shlex.split(command)) == 1
    assert "pass 'wrong-tanh' changes the result" in capsys.readouterr().err


def test_a_pass_that_crashes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["m.mlir", "--load", "p.py", "-p", "canonicalize,crash-on-relu"]
    assert reduce.main([*arguments, "-o", "small.mlir"]) == 0
    assert left("small.mlir") == ["tensor.relu"]
    assert "10 ops became 1, 2 passes 1" in capsys.readouterr().err


def test_a_command_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    Path("test.py").write_text(
        "import sys\ntext = open(sys.argv[1]).read()\n"
        "sys.exit('tensor.tanh' in text and 'tensor.exp' in text)\n", encoding="utf-8"
    )  # fmt: skip
    command = f"{sys.executable} -S test.py"
    assert reduce.main(["m.mlir", "--test", command, "-o", "small.mlir"]) == 0
    assert sorted(left("small.mlir")) == ["tensor.exp", "tensor.tanh"]


def test_the_first_pass_after_which_a_command_fails(capsys: pytest.CaptureFixture[str]) -> None:
    Path("test.py").write_text(
        "import sys\nsys.exit('tensor.tanh' not in open(sys.argv[1]).read())\n", encoding="utf-8"
    )
    command = f"{sys.executable} -S test.py"
    arguments = ["m.mlir", "--load", "p.py", "--test", command, "--bisect"]
    assert reduce.main([*arguments, "-p", "cse,dce,wrong-tanh,canonicalize,cse"]) == 0
    assert capsys.readouterr().out == "pass 3 of 5: wrong-tanh\n"
    assert reduce.main([*arguments, "-p", "cse,dce"]) == 1
    assert "does not fail after all passes" in capsys.readouterr().err


def test_what_cannot_be_reduced(capsys: pytest.CaptureFixture[str]) -> None:
    assert reduce.main(["m.mlir", "-p", "cse"]) == 1
    assert "nothing fails" in capsys.readouterr().err
    assert reduce.main(["m.mlir"]) == 2
    assert reduce.main(["m.mlir", "-p", "cse", "--bisect"]) == 2
    assert reduce.main(["none.mlir", "-p", "cse"]) == 1
