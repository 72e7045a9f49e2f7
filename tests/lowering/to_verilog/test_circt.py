"""CIRCT reads the same hw, comb and seq, and its Verilog is the same circuit.

CIRCT parses what xDSL prints, lowers the registers and exports Verilog. Yosys finds as many adders,
comparisons, selections and registers in that text as in ours, bit for bit, and proves every module
equal with its instances and memories as black boxes; the test bench passes on it.
"""

import importlib
import io
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.printer import Printer

from triton_dsl.lowering.to_verilog.circuit.memories import MEMORY_PREFIX
from triton_dsl.lowering.to_verilog.printer import modules, verilog

from .designs import DESIGNS, hardware

Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

circt: Any = pytest.importorskip(
    "circt", reason="pip install circt==1.62.0: there for Linux on x86-64 and Python 3.11"
)

PASSES = (
    "builtin.module(lower-seq-to-sv,cse,hw.module(hw-legalize-modules),hw.module(prettify-verilog))"
)
OPTIONS = "disallowLocalVariables,disallowPackedArrays,locationInfoStyle=none"
"""Without these Icarus Verilog 11 and Yosys 0.23 refuse what CIRCT writes."""

CELL = re.compile(r"^ +\$(\w+?)_?(\d*) +(\d+)$", re.M)
"""A line of Yosys' `stat -width`: the kind, the width, how many."""

SAME = {"sub": "add", "reduce_bool": "reduce_or", "eq": "reduce_and"}
"""CIRCT writes a sum with -1 as a difference, and a comparison with all ones as a reduction."""


CHAINED = {("and", "1"), ("or", "1")}
"""Not counted: CIRCT joins chains of these and takes them apart in another order, so that Yosys
finds other parts that are shared."""


def by_circt(module: ModuleOp) -> dict[str, str]:
    """The text of each module, as CIRCT exports it; memories are only declared, and left out."""
    alone = ModuleOp([])
    for found in modules(module):
        copy = found.clone()
        alone.body.block.add_op(copy)
        for op in copy.walk():
            if isinstance(op, hw.InstanceOp):
                op.instance_name = StringAttr(f"{op.instance_name.data}_i")  # as in our text
    printed = io.StringIO()
    Printer(printed).print_op(alone)
    ir, passes = (importlib.import_module(f"circt.{name}") for name in ("ir", "passmanager"))
    exported = io.StringIO()
    with ir.Context() as context:
        circt.register_dialects(context)
        context.allow_unregistered_dialects = True
        parsed = ir.Module.parse(printed.getvalue())
        passes.PassManager.parse(PASSES).run(parsed.operation)
        parsed.operation.attributes["circt.loweringOptions"] = ir.StringAttr.get(OPTIONS)
        circt.export_verilog(parsed, exported)
    # Yosys 0.23 stops where one of two cells that it compares has a port with nothing at it.
    whole = re.sub(r"\.(\w+)( *)\(/\* unused \*/\)", r".\1\2(unread_\1)", exported.getvalue())
    texts = re.findall(r"^module \w+\(.*?^endmodule$", whole, re.M | re.S)
    return {text.partition("(")[0].split()[1]: f"{text}\n" for text in texts}


def with_equal_names(module: ModuleOp) -> ModuleOp:
    """The same modules, whose registers have names that both printers keep, and nothing else."""
    module = module.clone()
    for found in modules(module):
        for index, op in enumerate(found.walk()):
            if isinstance(op, seq.CompRegOp):
                op.attributes["name"] = op.attributes["sv.namehint"] = StringAttr(f"r{index}")
                continue
            op.attributes.pop("sv.namehint", None)
            for result in op.results:
                result.name_hint = None
    return module


def both(module: ModuleOp, folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Files of our modules, of CIRCT's, and of the memories."""
    ours = {m.sym_name.data: verilog(m) for m in modules(module)}
    theirs = by_circt(module)
    memories = sorted(ours.keys() - theirs.keys())
    assert theirs.keys() <= ours.keys()
    assert [name for name in memories if not name.startswith(MEMORY_PREFIX)] == []
    for name, text in ours.items():
        (folder / f"{name}.v").write_text(text)
    for name, text in theirs.items():
        (folder / f"{name}_circt.v").write_text(text)
    names = [name for name in ours if name in theirs]
    return (
        [f"{name}.v" for name in names],
        [f"{name}_circt.v" for name in names],
        [f"{name}.v" for name in memories],
    )


def yosys(commands: list[str], folder: Path) -> str:
    """What Yosys prints."""
    (folder / "run.ys").write_text("\n".join([*commands, ""]))
    done = subprocess.run(
        ["yosys", "run.ys"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


def cells(files: list[str], folder: Path) -> Counter[tuple[str, str]]:
    """Kinds and widths of the cells of the whole design, before any of them becomes gates."""
    reading = f"read_verilog -sv {' '.join(files)}"
    log = yosys([reading, "hierarchy -top net", "proc", "flatten", "opt", "stat -width"], folder)
    found: Counter[tuple[str, str]] = Counter()
    for line in CELL.finditer(log.rpartition("Printing statistics")[2]):
        kind, width, count = line.groups("")
        if (kind, width) not in CHAINED:
            found[SAME.get(kind, str(kind)), str(width)] += int(count)
    return found


SLOW = ("conv", "folded conv", "residual")
"""Designs that take long to prove, and are counted and simulated instead."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SLOW else [pytest.mark.slow]) for n in DESIGNS]
)
def test_it_exports_as_many_cells_and_the_same_behaviour(
    require_tool: RequireTool, iverilog: str, program: Program, tmp_path: Path, name: str
) -> None:
    require_tool("yosys", "apt-get install yosys")
    module, artifact = hardware(program, name)
    ours, theirs, memories = both(module, tmp_path)
    expected = cells([*ours, *memories], tmp_path)
    assert expected.total() > 20
    assert cells([*theirs, *memories], tmp_path) == expected
    for path in artifact.files:
        if path.startswith("test/"):
            (tmp_path / Path(path).name).write_text(artifact.text(path))
    command = [iverilog, "-g2012", "-s", "net_tb", "-o", "run", "net_tb.v", *theirs, *memories]
    subprocess.run(command, cwd=tmp_path, check=True)
    shown = subprocess.run(["vvp", "-N", "run"], cwd=tmp_path, capture_output=True, text=True)
    assert "PASS" in shown.stdout


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in DESIGNS]
)
def test_yosys_proves_every_module_equal(
    require_tool: RequireTool, program: Program, tmp_path: Path, name: str
) -> None:
    require_tool("yosys", "apt-get install yosys")
    module, _ = hardware(program, name)
    ours, theirs, memories = both(with_equal_names(module), tmp_path)
    commands: list[str] = []
    for side, files in (("ours", ours), ("theirs", theirs)):
        reading = f"read_verilog -sv {' '.join([*files, *memories])}"
        commands += ["design -reset", reading, "proc", "opt_clean", f"design -save {side}"]
    for top in (file.removesuffix(".v") for file in ours):
        commands += [
            *("design -load ours", "blackbox *"),
            f"design -copy-from ours -as gold {top}",
            f"design -copy-from theirs -as gate {top}",
            *("equiv_make gold gate equiv", "select equiv", "opt_clean"),
            *("equiv_simple", "equiv_induct", "equiv_status -assert", "select -clear"),
        ]
    log = yosys(commands, tmp_path)
    assert log.count("Equivalence successfully proven!") == len(ours)
