"""Ctrl-C at any moment of a command line, while it loads and while it ends too, is one line."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.packages.archive import to_archive
from triton_dsl.lowering.packages.package import FORMAT

SCRIPTS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["scripts"]

INTERRUPTED = """
import atexit, os, signal, sys
from importlib import import_module

class Interrupting:
    # Ctrl-C when a module is looked for.
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

MODULE, HOME, FUNCTION, *sys.argv = sys.argv[1:]
sys.meta_path.insert(0, Interrupting())
if MODULE == "atexit":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.exit(getattr(import_module(HOME), FUNCTION)())
"""


def interrupted(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command line with Ctrl-C where it imports a module."""
    entry = SCRIPTS[words[0]].split(":")
    return subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, *entry, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("typer", ["triton", "--help"]),
        ("triton_dsl.tools.console", ["triton", "--help"]),
        ("triton_dsl.tools.commands.explain", ["triton", "explain", "E0001"]),
        ("xdsl.dialects.builtin", ["triton-opt"]),
        ("numpy", ["triton-translate", "--list-targets"]),
        ("triton_dsl.tools.console", ["triton-reduce", "--help"]),
        ("triton_dsl.tools.console", ["triton-lsp"]),
        ("atexit", ["triton-lsp", "--help"]),
    ],
)
def test_ctrl_c_is_one_line(module: str, words: list[str]) -> None:
    done = interrupted(module, *words)
    assert (done.returncode, done.stderr) == (130, f"{words[0]}: error: interrupted\n")


def test_what_ignores_it_goes_on() -> None:
    code = "import os, signal\n" + INTERRUPTED
    code = code.replace(
        "MODULE, HOME", "signal.signal(signal.SIGINT, signal.SIG_IGN)\nMODULE, HOME"
    )
    command = ["typer", *SCRIPTS["triton"].split(":"), "triton", "--help"]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    assert done.returncode == 0 and "Usage" in done.stdout


@pytest.mark.parametrize("command", ["inspect", "verify-package"])
def test_packages_are_looked_at_without_a_compiler(command: str, tmp_path: Path) -> None:
    """What tells of a file takes no longer to load than it needs."""
    path = tmp_path / "model.tpk"
    artifact = Artifact("model", {"file": b"content"}).with_manifest(name="model", format=FORMAT)
    path.write_bytes(to_archive(artifact))
    code = (
        "import sys\nfrom triton_dsl.tools.cli import main\n"
        f"code = main([{command!r}, {str(path)!r}])\n"
        "assert not {'xdsl', 'torch', 'onnx', 'llvmlite'} & {*sys.modules}\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "file" in done.stdout


def test_the_end_looks_for_no_garbage() -> None:
    lines = [
        "import atexit, gc, sys",
        "sys.argv = ['triton', 'explain', 'E0101']",
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000, file=sys.stderr))",
        "from triton_dsl.tools.entry import triton",
        "triton()",
    ]
    run = [sys.executable, "-c", "\n".join(lines)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stderr == "True\n"
