"""The command line of `triton-opt`."""

import gc
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.dialects.func import ReturnOp
from xdsl.dialects.test import TestOp as UnknownOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from triton_dsl.dialects.parameters import add_parameter
from triton_dsl.passes import universe
from triton_dsl.tools import opt

UNUSED = """func.func @unused(%x: i32) -> i32 {
  %dead = arith.addi %x, %x : i32
  func.return %x : i32
}
"""

DOUBLE = """func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %y = tensor.add %x, %x : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
"""


@dataclass(frozen=True)
class Misbehave(ModulePass):
    """Breaks in the way that `how` says."""

    name = "misbehave"
    how: str = "crash"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["touched"] = i32
        function = next(iter(op.ops))
        block = function.regions[0].block
        match self.how:
            case "crash":
                raise KeyError("boom")
            case "invalid":
                returned = block.last_op
                assert isinstance(returned, ReturnOp)
                returned.detach()
                returned.erase()
            case "wrong":
                returned = block.last_op
                assert returned is not None
                returned.operands = block.args
            case "add":
                block.insert_ops_before(
                    [add_parameter(op, "w", np.ones(2, np.float32))], next(iter(block.ops))
                )
            case _:
                block.insert_ops_before([UnknownOp()], next(iter(block.ops)))


@pytest.fixture(autouse=True)
def misbehave(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = universe.everything().all_passes
    monkeypatch.setitem(passes, "misbehave", lambda: Misbehave)


@pytest.fixture
def unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("unused.mlir")
    path.write_text(UNUSED)
    Path("double.mlir").write_text(DOUBLE)
    return path


Output = tuple[int, str, str]


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Output]:
    def run(*arguments: str | Path, stdin: bytes = b"") -> Output:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = opt.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


Run = Callable[..., Output]


def test_passes_run(run: Run, unused: Path) -> None:
    code, out, err = run(unused, "-p", "canonicalize,dce")
    assert (code, err) == (0, "")
    assert "arith.addi" not in out
    assert out.endswith("}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--pass-pipeline", "builtin.module(func.func(dce))"],
        ["--pass-pipeline=builtin.module(dce)"],
        ["-pass-pipeline=builtin.module(dce)"],
        ["--passes=dce"],
        ["--dce"],
        ["--cse", "--dce"],
    ],
)
def test_ways_to_name_passes(run: Run, unused: Path, arguments: list[str]) -> None:
    code, out, _ = run(unused, *arguments)
    assert code == 0
    assert "arith.addi" not in out


def test_stdin_and_stdout(run: Run) -> None:
    for arguments in ([], ["-"]):
        code, out, err = run(*arguments, stdin=UNUSED.encode())
        assert (code, err) == (0, "")
        assert "func.func @unused" in out


def test_output_to_a_file(run: Run, unused: Path) -> None:
    assert run(unused, "-p", "dce", "-o", "out.txt") == (0, "", "")
    assert run("out.txt")[1] == Path("out.txt").read_text()


def test_a_dash_as_output_is_standard_output(run: Run, unused: Path) -> None:
    assert run(unused, "-o", "-") == run(unused)
    assert not Path("-").exists()


def test_output_over_the_input(run: Run, unused: Path) -> None:
    assert run(unused, "-p", "dce", "-o", unused) == (0, "", "")
    assert "arith.addi" not in unused.read_text()


@pytest.mark.parametrize(
    "arguments",
    [["-p", "misbehave"], ["-p", "misbehave{how=invalid}"], ["-p", "nope"], ["--nope"]],
)
def test_a_failure_keeps_the_old_output(run: Run, unused: Path, arguments: list[str]) -> None:
    Path("out.mlir").write_text("old")
    code, out, err = run(unused, *arguments, "-o", "out.mlir")
    assert code in (1, 2)
    assert out == ""
    assert err.count("\n") == 1
    assert Path("out.mlir").read_text() == "old"
    assert sorted(p.name for p in Path().iterdir()) == ["double.mlir", "out.mlir", "unused.mlir"]


def test_new_parameters_are_saved_beside_the_output(run: Run, unused: Path) -> None:
    assert run(unused, "-p", "misbehave{how=add}", "-o", "out.mlir") == (0, "", "")
    assert load_file("out.safetensors")["w"].tolist() == [1.0, 1.0]
    assert '#tensor.store<"out.safetensors"' in Path("out.mlir").read_text()
    assert run("out.mlir", "--verify-roundtrip")[0] == 0


def test_new_parameters_on_stdout_are_warned_about(run: Run, unused: Path) -> None:
    code, out, err = run(unused, "-p", "misbehave{how=add}")
    assert code == 0
    assert "#tensor.store<unsaved>" in out
    assert err == (
        "triton-opt: warning: the values of 1 parameter(s) are in memory alone; "
        "write to a file with -o to keep them\n"
    )


def deep(levels: int) -> bytes:
    return b'"builtin.module"() ({' * levels + b"}) : () -> ()" * levels


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        (["absent.mlir"], b"", 1, "triton-opt: error: absent.mlir: No such file or directory"),
        (["."], b"", 1, "triton-opt: error: .: Is a directory"),
        ([], b"", 1, "stdin: error: the input is empty"),
        ([], b"\xff", 1, "stdin:1:1: error: not UTF-8 text (byte 0xff)"),
        ([], b"ok\n ok \xc3(", 1, "stdin:2:5: error: not UTF-8 text (byte 0xc3)"),
        ([], b"func.func @f() {\x00}", 1, "stdin:1:17: error: "),
        ([], b"func.func @f( {}", 1, "stdin:1:15: error: "),
        ([], deep(500), 1, "stdin: error: the text nests too deeply"),
        (
            [], b"\n  arth.addi %x", 1,
            "stdin:2:3: error: Operation arth.addi is not registered: unknown dialect 'arth'; "
            "did you mean 'arith'?; --allow-unregistered-dialect accepts it",
        ),
        (
            [], b"tensor.rellu %x", 1,
            "stdin:1:1: error: Operation tensor.rellu is not registered; "
            "did you mean 'tensor.relu'?",
        ),
        (
            [], b"func.func @f(%x: !zzz.t) { func.return }", 1,
            "stdin:1:19: error: 'zzz.t' is not registered: unknown dialect 'zzz' "
            "(--show-dialects lists them)",
        ),
        (["unused.mlir", "-p", "dec"], b"", 2, "error: unknown pass 'dec'; did you mean 'dce'?"),
        (["unused.mlir", "-p", "dce{a=1}"], b"", 2, "error: pass 'dce' has no option 'a'"),
        (["unused.mlir", "-p", "dce,"], b"", 2, "error: pass pipeline, character 5: expected"),
        (["unused.mlir", "-p", "misbehave"], b"", 1, "pass 'misbehave' crashed: KeyError: 'boom'"),
        (
            ["unused.mlir", "-p", "misbehave{how=invalid}"], b"", 1,
            "unused.mlir:2:3: error: 'arith.addi' Operation arith.addi terminates",
        ),
        (["unused.mlir", "-o", "."], b"", 1, "triton-opt: error: .: Is a directory"),
        (["unused.mlir", "-o", "a/b"], b"", 1, "triton-opt: error: a/b: No such file or directory"),
        (["unused.mlir", "-t", "nope"], b"", 2, "argument -t/--target: invalid choice: 'nope'"),
        (["unused.mlir", "-t", "mlir{"], b"", 2, "error: Error parsing pass pipeline"),
        (["--nope"], b"", 2, "error: unrecognized arguments: --nope"),
        (["--list-pass"], b"", 2, "--list-pass; did you mean '--list-passes'?"),
        (["unused.mlir", "--canonicalise"], b"", 2, "did you mean '--canonicalize'?"),
        (["unused.mlir", "-p", "cse", "-p", "dce"], b"", 2, "given more than once"),
        (["unused.mlir", "-o", "a.mlir", "-o", "b.mlir"], b"", 2, "given more than once"),
        (["a.mlir", "b.mlir"], b"", 2, "error: unrecognized arguments: b.mlir"),
        (["unused.mlir", "--cse", "-p", "dce"], b"", 2, "give passes by -p or as options"),
        (["unused.mlir", "--stop-after", "x", "-p", "dce"], b"", 2, "--stop-after x: no such pass"),
        (["unused.mlir", "--stop-after", "2", "-p", "dce"], b"", 2, "the pipeline has 1 passes"),
        (["unused.mlir", "--mlir-print-ir-after=dec"], b"", 2, "unknown pass 'dec'; did you mean"),
        (["unused.mlir", "--run-reproducer"], b"", 1, "error: the file holds no reproducer"),
        (["--verify-semantics=0"], b"", 2, "--verify-semantics: expected a whole number"),
        (["--semantics-tolerance=-1"], b"", 2, "--semantics-tolerance: expected a number"),
        (["--describe-pass", "ternarise"], b"", 2, "unknown pass 'ternarise'; did you mean"),
        (["--describe-dialect", "terary"], b"", 2, "did you mean 'ternary'?"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("unused")
def test_wrong_use_gives_one_message(
    run: Run, arguments: list[str], stdin: bytes, code: int, message: str
) -> None:
    got, out, err = run(*arguments, stdin=stdin)
    assert got == code
    assert out == ""
    first, *rest = err.splitlines()
    assert message in first
    # No more than the source line and a caret below it.
    assert not rest or (len(rest) == 2 and rest[1].strip() == "^")


STORE = """builtin.module attributes {tensor.parameters = #tensor.store<"PATH", sha256 = "00">} {
  func.func @forward() -> tensor<2xf32> {
    %w = tensor.parameter "w" : tensor<2xf32>
    %y = tensor.relu %w : (tensor<2xf32>) -> tensor<2xf32>
    func.return %y : tensor<2xf32>
  }
}
"""


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent.safetensors", "parameter file 'absent.safetensors': No such file or directory"),
        ("unused.mlir", "parameter file 'unused.mlir' has SHA-256 "),
        ("/etc/passwd", "must be a relative path inside the folder of the IR file"),
        ("../x.safetensors", "must be a relative path inside the folder of the IR file"),
    ],
)
@pytest.mark.usefixtures("unused")
def test_bad_parameter_files(run: Run, path: str, message: str) -> None:
    Path("m.mlir").write_text(STORE.replace("PATH", path))
    code, out, err = run("m.mlir", "--verify-semantics", "-p", "cse")
    assert (code, out) == (1, "")
    assert message in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback(run: Run, unused: Path) -> None:
    _, _, err = run(unused, "-p", "misbehave", "--debug")
    assert "Traceback" in err
    assert err.endswith("error: pass 'misbehave' crashed: KeyError: 'boom'\n")


def test_global_state_is_restored(run: Run, unused: Path) -> None:
    before = Attribute.__post_init__, gc.get_threshold()
    assert run(unused, "--disable-verify", "--syntax-highlight")[0] == 0
    assert (Attribute.__post_init__, gc.get_threshold()) == before


@pytest.mark.parametrize("limit", ["1", "cse"])
def test_stop_after(run: Run, unused: Path, limit: str) -> None:
    assert run(unused, "-p", "cse,misbehave")[0] == 1
    assert run(unused, "-p", "cse,misbehave", "--stop-after", limit)[0] == 0


def test_dumping_the_pipeline(run: Run, unused: Path) -> None:
    _, _, err = run(unused, "-p", "builtin.module(cse,func.func(dce))", "--dump-pass-pipeline")
    assert err == "Pass Manager with 2 passes:\nbuiltin.module(cse,dce)\n"


def test_reports_go_to_stderr(run: Run, unused: Path) -> None:
    plain = run(unused, "-p", "cse,dce")[1]
    flags = ["--mlir-timing", "--mlir-pass-statistics", "--mlir-print-ir-after-all"]
    code, out, err = run(unused, "-p", "cse,dce", *flags)
    assert (code, out) == (0, plain)
    assert err.count("// -----// IR Dump After") == 2
    assert "Execution time report" in err
    assert "(S) -1 arith.addi" in err


def test_verification_can_wait_for_the_last_pass(run: Run, unused: Path) -> None:
    broken = ["-p", "misbehave{how=invalid},misbehave"]
    assert "(after pass 'misbehave')" in run(unused, *broken)[2]
    assert "crashed: KeyError" in run(unused, *broken, "--no-verify-each")[2]


def test_a_reproducer_replays_the_failure(run: Run, unused: Path) -> None:
    flag = "--pass-pipeline-crash-reproducer=r.mlir"
    code, _, err = run(unused, "-p", "cse,misbehave{how=crash},dce", flag)
    assert code == 1
    note, error = err.splitlines()
    assert note == "triton-opt: note: reproducer: triton-opt r.mlir --run-reproducer"
    assert "touched" not in Path("r.mlir").read_text()
    code, out, again = run("r.mlir", "--run-reproducer")
    assert (code, out, again) == (1, "", error + "\n")
    assert run("r.mlir")[0] == 0


def test_semantics(run: Run, unused: Path) -> None:
    code, _, err = run("double.mlir", "--verify-semantics", "-p", "canonicalize,cse,dce")
    assert (code, err) == (0, "")
    wrong = ["-p", "cse,misbehave{how=wrong}"]
    assert run("double.mlir", *wrong)[0] == 0
    code, out, err = run("double.mlir", *wrong, "--verify-semantics=2", "--semantics-seed=7")
    assert (code, out) == (1, "")
    assert "error: pass 'misbehave' changes the result: result 0 at [" in err
    assert err.endswith("(function 'forward', input 1 of 2, seed 7)\n")


def test_semantics_that_compare_nothing_fail(run: Run, unused: Path) -> None:
    code, _, err = run(unused, "--verify-semantics", "-p", "cse")
    assert code == 1
    assert "semantics of 'unused' not checked: no random values of type i32" in err
    assert "could not run any function" in err


def test_split_input(run: Run, unused: Path) -> None:
    unused.write_text(f"{UNUSED}// -----\n{DOUBLE}")
    code, out, _ = run(unused, "--split-input-file", "-p", "dce")
    assert code == 0
    first, second = out.split("// -----\n")
    assert "@unused" in first
    assert "@forward" in second
    assert run(unused, "--split-input-file", "-p", "dce", "-o", "out.mlir")[0] == 0
    assert Path("out.mlir").read_text() == out


def test_places_in_later_parts_count_from_the_start_of_the_file(run: Run, unused: Path) -> None:
    unused.write_text(f"{UNUSED}// -----\n\nfoo.bar\n")
    assert "unused.mlir:7:1: error: Operation foo.bar" in run(unused, "--split-input-file")[2]


def test_locations_survive(run: Run, unused: Path) -> None:
    out = run(unused, "--print-debuginfo")[1]
    assert 'arith.addi %x, %x : i32 loc("unused.mlir":2:3)' in out
    again = run("-", "--print-debuginfo", stdin=out.encode())[1]
    assert again.splitlines()[:-1] == out.splitlines()[:-1]


def test_verify_diagnostics(run: Run, unused: Path) -> None:
    unused.write_text("// expected-error@+1 {{Operation foo.bar is not}}\nfoo.bar\n")
    assert run(unused, "--verify-diagnostics") == (0, "", "")
    unused.write_text(f"// expected-error@+1 {{{{bad}}}}\n{UNUSED}")
    code, _, err = run(unused, "--verify-diagnostics")
    assert (code, err) == (
        1, 'unused.mlir:1: error: expected error "bad" at line 2 was not produced\n'
    )  # fmt: skip
    unused.write_text("foo.bar\n")
    code, _, err = run(unused, "--verify-diagnostics")
    assert code == 1
    assert err.startswith("unused.mlir:1: error: unexpected error: Operation foo.bar")


def test_the_input_may_be_a_tri_program(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "m.tri"
    path.write_text("layer L(x: Tensor[f32, [B, 4]]) -> Tensor[f32, [B, 4]] { }")
    code, out, err = run(path)
    assert code in (0, 1)
    assert "Traceback" not in err
    assert (code == 0) == bool(out)


def test_describing_a_pass(run: Run) -> None:
    code, out, _ = run("--describe-pass", "ternarize")
    assert code == 0
    assert out.startswith("ternarize (from triton_dsl)\n")
    assert "\nOptions:\n" in out
    described = json.loads(run("--describe-pass", "ternarize", "--json")[1])
    assert described["name"] == "ternarize"
    assert {"rule", "scale", "threshold"} <= {option["name"] for option in described["options"]}


def test_describing_a_dialect(run: Run) -> None:
    assert "ternary.linear" in run("--describe-dialect", "ternary")[1]
    described = json.loads(run("--describe-dialect", "tensor", "--json")[1])
    assert "tensor.relu" in [op["name"] for op in described["operations"]]
    assert described["package"] == "triton_dsl"


def test_lists(run: Run) -> None:
    passes = json.loads(run("--list-passes", "--json")[1])
    assert {"canonicalize", "cse", "dce", "ternarize"} <= {p["name"] for p in passes}
    assert passes[0]["package"] == "triton_dsl"
    assert "ternarize" in run("--list-passes")[1]
    assert {"func", "tensor", "ternary"} <= set(json.loads(run("--show-dialects", "--json")[1]))
    assert run("--show-dialects")[1].startswith("Available Dialects: acc, ")


def test_help_and_version(run: Run) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for option in ("--verify-semantics", "--pass-pipeline-crash-reproducer", "--split-input-file"):
        assert option in out
    assert len(out.splitlines()) < 150
    code, out, _ = run("--version")
    assert code == 0
    assert "xdsl" in out
