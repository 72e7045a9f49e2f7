"""Everything of ours that writes files, with a fault at each system call that it makes.

A program, run with `faults.c` loaded before the C library: `scenarios.py NAME FOLDER`. Each call is
tried in a process of its own, which fails, stops half-way or is killed there; what the folder holds
afterwards is compared with what it held before and what it was to hold. Prints, as JSON, how many
faults were injected and what was found.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import random
from typing import Any

import numpy as np

from triton_dsl.ir.errors import TritonError

MEMORY = 4
KINDS = {"fail": 1, "half": 2, "kill": 3}
ALLOCATIONS = tuple(dict.fromkeys(int(1.15 ** (step + random())) for step in range(66)))
"""Which of Python's allocations fail: the first ones, later ones ever fewer, others in each run."""
DONE, REFUSED, DEFECT = 0, 3, 4
"""How a process ends: it says that all is written, that it is not, or something unexpected."""


@dataclass(frozen=True)
class Scenario:
    """Something that writes.

    Attributes:
        write: writes one of two contents, by number, into a folder.
        read: what a reader of the folder makes of it; raises a `TritonError` where it refuses.
        may_mix: whether a kill may leave one file new and another old, where the reader says so.
    """

    write: Callable[[Path, int], object]
    read: Callable[[Path], object]
    may_mix: bool = False


def text_files(folder: Path, which: int) -> None:
    from triton_dsl.ir.safe_write import PendingFiles

    with PendingFiles() as pending:
        for name in ("a", "b", "c"):
            pending.add(folder / name, f"{name}{which}".encode() * 5000)


def read_text_files(folder: Path) -> object:
    return [(folder / name).read_bytes()[:2] for name in ("a", "b", "c")]


def arrays(which: int) -> dict[str, Any]:
    return {"w": np.full(3000, which, np.float32), "v": np.arange(which, which + 9)}


def parameters(folder: Path, which: int) -> None:
    from triton_dsl.ir.store import save_arrays

    save_arrays(folder / "w.safetensors", arrays(which))


def read_parameters(folder: Path) -> object:
    from triton_dsl.ir.store import read_arrays

    return {name: array.tolist() for name, array in read_arrays(folder / "w.safetensors").items()}


def module_and_weights(folder: Path, which: int) -> None:
    from xdsl.dialects.builtin import FunctionType, ModuleOp
    from xdsl.dialects.func import FuncOp, ReturnOp
    from xdsl.ir import Block, Region

    from triton_dsl.dialects import tensor
    from triton_dsl.dialects.parameters import add_parameter
    from triton_dsl.lowering.module_file import save_module

    module = ModuleOp([])
    weight = add_parameter(module, "w", np.full(4, which, np.float32))
    block = Block(arg_types=[weight.results[0].type])
    total = tensor.AddOp(block.args[0], weight.results[0])
    block.add_ops([weight, total, ReturnOp(total.result)])
    type = FunctionType.from_lists([weight.results[0].type], [weight.results[0].type])
    module.body.block.add_op(FuncOp("forward", type, Region(block)))
    save_module(module, folder / "m.mlir")


def read_module_and_weights(folder: Path) -> object:
    from triton_dsl.dialects.interpret import run_module
    from triton_dsl.dialects.registry import parse_module

    text = (folder / "m.mlir").read_text("utf-8")
    module = parse_module(text, str(folder / "m.mlir"))
    return [y.tolist() for y in run_module(module, [np.zeros(4, np.float32)])]


def artifact(folder: Path, which: int) -> None:
    from triton_dsl.lowering.artifact import Artifact, write_artifact

    files = {"m.py": b"%d" % which * 9000, "m.bin": b"%d" % which * 70000}
    made = Artifact("m", files, primary="m.py").with_manifest(which=which)
    write_artifact(made, folder / "m.py", manifest=True)


def read_artifact(folder: Path) -> object:
    from hashlib import sha256

    from triton_dsl.ir.errors import ParameterError

    manifest = json.loads((folder / "m.manifest.json").read_text("utf-8"))
    for name, facts in manifest["files"].items():
        if sha256((folder / name).read_bytes()).hexdigest() != facts["sha256"]:
            raise ParameterError(f"'{name}' is not of this manifest")
    return manifest["which"]


def kept_object(folder: Path, which: int) -> None:
    from triton_dsl.runtime.native.cache import ObjectCache

    (folder / "cache").mkdir(mode=0o700, exist_ok=True)
    if not ObjectCache(folder / "cache").write("key", b"%d" % which * 40000):
        raise TritonError("not kept")


def read_kept_object(folder: Path) -> object:
    from triton_dsl.runtime.native.cache import ObjectCache

    content = ObjectCache(folder / "cache").read("key")
    if content is None:
        raise TritonError("nothing is kept")
    return content[:1].decode()


def checkpoint(folder: Path, which: int) -> None:
    import torch

    from triton_dsl.runtime.training.checkpoint import save_tree

    save_tree(folder / "c.safetensors", {"step": which, "w": torch.full((2000,), float(which))})


def read_checkpoint(folder: Path) -> object:
    from triton_dsl.runtime.training.checkpoint import load_tree

    tree = load_tree(folder / "c.safetensors")
    return [tree["step"], tree["w"].tolist()]


SOURCE = """layer L {{
    param w: TernaryTensor[8, {width}]
    fn forward(x: Tensor[N, 8]) -> Tensor[N, {width}] {{ return x @ w }}
}}
"""


def command_line(*arguments: str) -> None:
    """`triton`; a failure must be one line, and exit code 1, or 2 for a place it cannot write."""
    from triton_dsl.tools.cli import main

    shown = io.StringIO()
    with redirect_stderr(shown), redirect_stdout(io.StringIO()):
        code = main(arguments)
    message = shown.getvalue().strip()
    if code == 0:
        return
    if (
        code not in (1, 2)
        or not message.startswith("triton: error: ")
        or "internal error" in message
    ):
        raise AssertionError(f"exit code {code}: {message}")
    raise TritonError(message)


def compiled(folder: Path, which: int) -> None:
    source = folder.parent / f"program{which}.tri"
    if not source.exists():
        source.write_text(SOURCE.format(width=which), "utf-8")
        width = np.zeros((8, which), np.int8)
        np.savez(folder.parent / f"weights{which}.npz", w=width)
    weights = str(folder.parent / f"weights{which}.npz")
    out = str(folder / "model.onnx")
    command_line("compile", str(source), "-t", "onnx", "-w", weights, "-o", out)


def read_compiled(folder: Path) -> object:
    import onnx

    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model)
    return str(model.graph.output[0].type)


def formatted(folder: Path, which: int) -> None:
    """The first content is written plainly: what stood there before."""
    spoilt = SOURCE.format(width=3).replace("    ", "  ")
    if which == 1:
        (folder / "p.tri").write_text(spoilt, "utf-8")
    else:
        command_line("fmt", str(folder / "p.tri"))


def read_formatted(folder: Path) -> object:
    return (folder / "p.tri").read_text("utf-8")


SCENARIOS = {
    "files": Scenario(text_files, read_text_files, may_mix=True),
    "parameters": Scenario(parameters, read_parameters),
    "module": Scenario(module_and_weights, read_module_and_weights, may_mix=True),
    "artifact": Scenario(artifact, read_artifact, may_mix=True),
    "object": Scenario(kept_object, read_kept_object),
    "checkpoint": Scenario(checkpoint, read_checkpoint),
    "compile": Scenario(compiled, read_compiled),
    "fmt": Scenario(formatted, read_formatted),
}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def attempt(scenario: Scenario, folder: Path, kind: int, which: int, library: Any) -> int:
    """How a process that writes with one fault ends; minus the signal that killed it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = DEFECT
    try:
        if kind == MEMORY:
            without_memory: Any = import_module("_testcapi").set_nomemory
            without_memory(which, which + 1)
        else:
            library.fault_arm(str(folder).encode(), kind, which)
        scenario.write(folder, 2)
        if kind == MEMORY:
            os._exit(DONE)
        code = DONE if library.fault_disarm() >= which else DONE + 100
    except (OSError, TritonError) as error:
        library.fault_disarm()
        code = REFUSED if str(error) and "\n" not in str(error) else DEFECT
    except BaseException:
        library.fault_disarm()
        # Python itself turns failed allocations into other errors here and there.
        if kind == MEMORY:
            code = REFUSED
        else:
            traceback.print_exc()
    finally:
        os._exit(code)


def problem(
    scenario: Scenario, folder: Path, code: int, old: dict[str, bytes], new: dict[str, bytes]
) -> str | None:
    """What is wrong with a folder after a process that ended with `code`, or `None`."""
    left = contents(folder)
    if code in (DONE, DONE + 100):
        return None if left == new else f"reported as written, but {sorted(left)} differ"
    if code == REFUSED:
        # The last step of all is the folder's own entry: the new files stand, whole.
        return None if left in (old, new) else f"an error left {sorted(left)}"
    if code != -9:
        return f"ended with {code}"
    named = {name: data for name, data in left.items() if not Path(name).name.startswith(".")}
    for name, data in named.items():
        if data not in (old.get(name), new.get(name)):
            return f"a kill left '{name}' half"
    if named not in (old, new):
        if not scenario.may_mix:
            return f"a kill left {sorted(named)}"
        with suppress(TritonError, FileNotFoundError):
            scenario.read(folder)
    scenario.write(folder, 2)  # what a kill leaves is in nobody's way
    again = {n: d for n, d in contents(folder).items() if not Path(n).name.startswith(".")}
    return None if again == new else "after a kill it cannot be written again"


def run(name: str, place: Path, library: Any) -> dict[str, Any]:
    """All faults of one scenario, on a folder that held files before and on an empty one."""
    scenario = SCENARIOS[name]
    found: list[str] = []
    injected = allocations = 0
    for start in ("full", "empty"):
        if start == "empty" and name == "fmt":
            continue
        before, after = place / "before", place / "after"
        for folder in (before, after):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        if start == "full":
            scenario.write(before, 1)
            shutil.copytree(before, after, dirs_exist_ok=True)
        scenario.write(after, 2)
        old, new = contents(before), contents(after)
        if name == "module":  # the text names what stands beside it, whatever that is called
            scenario.read(after)
        for kind, number in KINDS.items():
            for which in range(1, 1000):
                folder = place / "here"
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(before, folder)
                code = attempt(scenario, folder, number, which, library)
                if code == DONE + 100:
                    break
                injected += 1
                wrong = problem(scenario, folder, code, old, new)
                if wrong:
                    found.append(f"{start}, {kind} at call {which}: {wrong}")
        # A Python without its own tests has no allocations that fail.
        for which in ALLOCATIONS if find_spec("_testcapi") else ():
            folder = place / "here"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(before, folder)
            code = attempt(scenario, folder, MEMORY, which, library)
            allocations += 1
            for leftover in folder.rglob(".*.old"):  # clearing up needs memory too
                leftover.unlink()
            wrong = problem(scenario, folder, code, old, new)
            if wrong:
                found.append(f"{start}, allocation {which}: {wrong}")
    return {"injected": injected, "allocations": allocations, "found": found}


if __name__ == "__main__":
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    shim.fault_disarm.restype = ctypes.c_long
    shim.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long]
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), shim)))
