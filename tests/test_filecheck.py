"""Runs every test file of tests/filecheck inside this process, one pytest item a file.

A file says in `RUN:` lines how it is tested, as under `lit`; `make lit` runs the same files there,
each command in its own process, which is many times slower. Understood here: pipes, `&&`, `<`, `>`,
`>>`, `2>&1`, `not`, a line continued with a backslash, and the substitutions `%s` (the file), `%S`
(its folder) and `%t` (a path for temporary files). Folders named `Inputs` hold what tests read.
"""

import contextlib
import importlib
import io
import re
import shlex
import shutil
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent / "filecheck"
FILES = sorted(
    path
    for suffix in ("*.mlir", "*.tri")
    for path in FOLDER.rglob(suffix)
    if "Inputs" not in path.relative_to(FOLDER).parts
)

RUN_LINE = re.compile(r"^\s*(?://|#|;)\s*RUN:\s*(.*?)\s*$")

# Our own tools take the arguments alone; the others read `sys.argv` or want the program's name too.
TOOLS: dict[str, Callable[[list[str]], object]] = {
    "triton": lambda argv: call("triton_dsl.tools.cli", argv[1:]),
    "triton-opt": lambda argv: call("triton_dsl.tools.opt", argv[1:]),
    "triton-translate": lambda argv: call("triton_dsl.tools.translate", argv[1:]),
    "filecheck": lambda argv: call("filecheck.main", argv),
    "xdsl-opt": lambda argv: call("xdsl.tools.xdsl_opt"),
}

# Programs that are not Python: other names they go by, and where they come from.
EXTERNAL = {"mlir-opt": (("mlir-opt", "mlir-opt-19"), "apt-get install mlir-19-tools")}

RequireTool = Callable[[str, str], str]


@dataclass(frozen=True)
class Result:
    """What a command left: its exit code and its output streams."""

    code: int
    stdout: bytes
    stderr: bytes


def call(module: str, *arguments: list[str]) -> object:
    """Call `main` of `module`, imported when first used."""
    return importlib.import_module(module).main(*arguments)


def run_lines(text: str) -> list[str]:
    """The commands of the `RUN:` lines, those continued with a backslash joined."""
    lines: list[str] = []
    continued = False
    for line in text.splitlines():
        match = RUN_LINE.match(line)
        if match is None:
            continue
        command = match[1]
        lines.append(f"{lines.pop()} {command}" if continued else command)
        continued = command.endswith("\\")
        if continued:
            lines[-1] = lines[-1][:-1]
    if continued:
        raise ValueError("the last RUN line ends in a backslash")
    return lines


def split(command: str) -> list[str]:
    """The words and the operators of a shell command."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def divide(words: Sequence[str], operator: str) -> Iterator[list[str]]:
    """The parts of `words` between the occurrences of `operator`."""
    part: list[str] = []
    for word in words:
        if word == operator:
            yield part
            part = []
        else:
            part.append(word)
    yield part


@contextlib.contextmanager
def standard_streams(argv: list[str], stdin: bytes) -> Generator[tuple[io.BytesIO, io.BytesIO]]:
    """Stand in for the arguments and the three streams of a process."""
    stdout, stderr = io.BytesIO(), io.BytesIO()
    saved = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = argv
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(stdout, encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(stderr, encoding="utf-8", write_through=True)
    try:
        with warnings.catch_warnings():
            yield stdout, stderr
    finally:
        streams = sys.stdout, sys.stderr
        sys.argv, sys.stdin, sys.stdout, sys.stderr = saved
        for stream in streams:
            stream.flush()
            stream.detach()


def run_in_process(argv: list[str], stdin: bytes) -> Result:
    """Run a tool of `TOOLS` as if it were a process of its own."""
    with standard_streams(argv, stdin) as (stdout, stderr):
        try:
            returned = TOOLS[argv[0]](argv)
            code = returned if isinstance(returned, int) else 0
        except SystemExit as exit_:
            if isinstance(exit_.code, str):
                print(exit_.code, file=sys.stderr)
            code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        except BaseException as error:
            # A process would die with a traceback; some of xDSL's errors are not an `Exception`.
            if isinstance(error, KeyboardInterrupt):
                raise
            traceback.print_exc()
            code = 1
    return Result(code, stdout.getvalue(), stderr.getvalue())


def run_external(argv: list[str], stdin: bytes, require_tool: RequireTool) -> Result:
    """Run a program of `EXTERNAL`."""
    names, hint = EXTERNAL[argv[0]]
    found = next((name for name in names if shutil.which(name)), names[0])
    program = require_tool(found, hint)
    done = subprocess.run([program, *argv[1:]], input=stdin, capture_output=True, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def run_command(words: Sequence[str], stdin: bytes, require_tool: RequireTool) -> Result:
    """Run one command of a pipeline, its redirections included."""
    argv: list[str] = []
    target: Path | None = None
    append = merge = False
    rest = iter(words)
    for word in rest:
        if word == "<":
            stdin = Path(next(rest)).read_bytes()
        elif word in (">", ">>"):
            target, append = Path(next(rest)), word == ">>"
        elif word == ">&":
            if argv.pop() != "2" or next(rest) != "1":
                raise ValueError("of the redirections of descriptors only 2>&1 is understood")
            merge = True
        else:
            argv.append(word)

    negated = argv[:1] == ["not"]
    argv = argv[1:] if negated else argv
    if argv and argv[0] in TOOLS:
        result = run_in_process(argv, stdin)
    elif argv and argv[0] in EXTERNAL:
        result = run_external(argv, stdin, require_tool)
    else:
        known = ", ".join([*TOOLS, *EXTERNAL])
        raise ValueError(f"unknown command {' '.join(argv)!r} (known: {known})")

    code = int(result.code == 0) if negated else result.code
    # The order of the two streams is lost, as it may be in a real pipe.
    stdout = result.stderr + result.stdout if merge else result.stdout
    stderr = b"" if merge else result.stderr
    if target is not None:
        with target.open("ab" if append else "wb") as file:
            file.write(stdout)
        stdout = b""
    return Result(code, stdout, stderr)


def run_test(text: str, substitutions: dict[str, str], require_tool: RequireTool) -> str | None:
    """Run the `RUN:` lines of `text`; what went wrong, or `None`.

    A pipeline fails if any of its commands does, and the first failure ends the test.
    """
    lines = run_lines(text)
    if not lines:
        return "the file has no RUN line"
    pattern = re.compile("%[sSt]")
    for line in lines:
        command = pattern.sub(lambda found: substitutions[found[0]], line)
        for pipeline in divide(split(command), "&&"):
            stdin, errors, codes = b"", b"", list[int]()
            for words in divide(pipeline, "|"):
                result = run_command(words, stdin, require_tool)
                stdin = result.stdout
                errors += result.stderr
                codes.append(result.code)
            if any(codes):
                return (
                    f"RUN: {command}\nexit codes: {codes}\n"
                    f"{errors.decode(errors='replace')}\n{stdin.decode(errors='replace')}"
                )
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require_tool: RequireTool
) -> None:
    monkeypatch.chdir(tmp_path)
    substitutions = {
        "%s": shlex.quote(str(path)),
        "%S": shlex.quote(str(path.parent)),
        "%t": shlex.quote(str(tmp_path / f"{path.name}.tmp")),
    }
    failure = run_test(path.read_text(encoding="utf-8"), substitutions, require_tool)
    if failure is not None:
        pytest.fail(failure, pytrace=False)


MODULE = "%x = arith.constant 1 : i32\n"


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ("xdsl-opt %s | filecheck %s", None),
        ("xdsl-opt %s | filecheck %s --check-prefix=ABSENT", "exit codes: [0, 1]"),
        ("not xdsl-opt %s", "exit codes: [1]"),
        ("not xdsl-opt %S/absent.mlir", None),
        ("xdsl-opt --nonsense | filecheck %s --allow-empty --check-prefix=X", "exit codes: [2,"),
        ("not xdsl-opt --nonsense 2>&1 | filecheck %s --check-prefix=NONSENSE", None),
        ("not xdsl-opt --nonsense | filecheck %s --check-prefix=NONSENSE", "exit codes: [0, "),
        ("xdsl-opt %s > %t && filecheck %s < %t", None),
        ("xdsl-opt %s > %t && not filecheck %s --check-prefix=ABSENT < %t", None),
        ("xdsl-opt %s \\\n// RUN:   -p 'canonicalize,cse' | filecheck %s", "exit codes: [0, 1]"),
        ("xdsl-opt %s\n// RUN: not xdsl-opt %s", "exit codes: [1]"),
    ],
)
def test_the_runner_tells_success_from_failure(
    run: str, problem: str | None, tmp_path: Path, require_tool: RequireTool
) -> None:
    path = tmp_path / "a file.mlir"
    text = f"// RUN: {run}\n{MODULE}// CHECK: arith.constant 1\n"
    text += "// ABSENT: arith.constant 2\n// NONSENSE: unrecognized arguments: --nonsense\n"
    path.write_text(text, encoding="utf-8")
    substitutions = {
        "%s": shlex.quote(str(path)),
        "%S": shlex.quote(str(tmp_path)),
        "%t": shlex.quote(str(tmp_path / "out put")),
    }
    failure = run_test(text, substitutions, require_tool)
    if problem is None:
        assert failure is None
    else:
        assert failure is not None and problem in failure


def test_a_file_without_run_lines_fails(require_tool: RequireTool) -> None:
    assert run_test(MODULE, {}, require_tool) == "the file has no RUN line"


def test_an_unknown_command_is_refused(require_tool: RequireTool) -> None:
    with pytest.raises(ValueError, match="unknown command 'rm -rf"):
        run_test("// RUN: rm -rf nothing\n", {}, require_tool)
