"""What Yosys, nextpnr and the compiler's own estimate say of a circuit.

Not here: which circuits (`benchmarks/fpga.py`).
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.artifact import Artifact, write_artifact
from triton_dsl.lowering.targets import compile_to_target

TABLES = re.compile(r"LUT[1-6](_2)?|INV|SRL16E|SRLC32E|RAM\d.*")
"""Cells of UltraScale+ that take a look-up table, as Yosys names them."""

MEMORIES = {"RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM32X1D": 2, "RAM64X1D": 2}
"""The look-up tables of cells that take several."""

REGISTERS = re.compile(r"FD.*")


@dataclass(frozen=True)
class Size:
    """One circuit on UltraScale+.

    Attributes:
        luts: by Yosys, those used as shift registers and memories included; `None` without Yosys.
        flip_flops: by Yosys.
        estimated_luts: by the compiler, without synthesis.
        estimated_flip_flops: by the compiler.
        estimated_mhz: by the compiler.
        latency: in cycles, from the first beat of a frame to the last of its result.
        interval: in cycles, from frame to frame.
    """

    luts: int | None
    flip_flops: int | None
    estimated_luts: int
    estimated_flip_flops: int
    estimated_mhz: float
    latency: int
    interval: int

    @property
    def nanoseconds(self) -> float:
        """Of a frame, at the estimated clock."""
        return 1e3 * self.latency / self.estimated_mhz


def compiled(module: ModuleOp, options: dict[str, Any]) -> Artifact:
    """The folder of a circuit, with the least test bench."""
    return compile_to_target(module, "verilog", {"vectors": 2, **options})


def size_of(artifact: Artifact, synthesis: bool = True) -> Size:
    """What a circuit takes; by Yosys too where it is installed and wanted."""
    report = json.loads(artifact.text("report.json"))
    estimate = report["estimate"]
    cells = cells_of(artifact) if synthesis and which("yosys") else None
    return Size(
        None if cells is None else _count(cells, TABLES),
        None if cells is None else _count(cells, REGISTERS),
        estimate["luts"],
        estimate["flip_flops"],
        estimate["clock_mhz"],
        report["latency_cycles"],
        report["initiation_interval"],
    )


def cells_of(artifact: Artifact) -> dict[str, int]:
    """The cells that the artefact's own script for Yosys gives, by type."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_artifact(artifact, folder)
        with (folder / "synth.ys").open("a", encoding="utf-8") as script:
            script.write("tee -q -o stat.json stat -json\n")
        subprocess.run(["yosys", "-q", "synth.ys"], cwd=folder, check=True, capture_output=True)
        stat = json.loads((folder / "stat.json").read_text(encoding="utf-8"))
    return stat["design"]["num_cells_by_type"]


def routed_mhz(module: ModuleOp, device: str, options: dict[str, Any]) -> float | None:
    """The clock after placement and routing; `None` where its tools are not installed."""
    tool = "nextpnr-ecp5" if device.startswith("ecp5") else "nextpnr-ice40"
    tool = next(filter(which, (tool, f"yowasp-{tool}")), None)
    if tool is None or not all(map(which, ("yosys", "make"))):
        return None
    command = ["make", "implement", f"NEXTPNR={tool}"]
    with TemporaryDirectory() as folder:
        write_artifact(compiled(module, {**options, "device": device}), Path(folder))
        done = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, encoding="utf-8"
        )
    found = re.findall(r"Max frequency for clock .*: ([\d.]+) MHz", done.stdout + done.stderr)
    return float(found[-1])


def _count(cells: dict[str, int], kind: re.Pattern[str]) -> int:
    return sum(MEMORIES.get(cell, 1) * n for cell, n in cells.items() if kind.fullmatch(cell))
