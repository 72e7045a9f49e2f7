"""Devices that circuits are made for, and whether one fits.

The numbers are those of the data sheets: DS890 (UltraScale+), DS891 (Zynq UltraScale+), DS180 (7
series), DS190 (Zynq-7000), FPGA-DS-02012 (ECP5), FPGA-DS-02029 and FPGA-DS-02008 (iCE40). Not here:
what a circuit takes (`estimate`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ....ir.errors import LoweringError, OptionError
from ....ir.pipeline import did_you_mean
from .delays import Grade
from .estimate import Estimate, Resources
from .families import FAMILIES, Family, FamilyName


@dataclass(frozen=True)
class Device:
    """An FPGA.

    Attributes:
        name: what it is called here.
        part: the order number, with package and speed grade, as tools want it.
        family: what it is built from.
        grade: whose delays it has.
        luts: look-up tables.
        flip_flops: registers.
        block_memories: in units of the family's block (`Family.block_bits`; of Xilinx the half of
            a block of 36 kbit).
        dsps: multipliers.
        flags: for nextpnr.
        aliases: other names.
    """

    name: str
    part: str
    family: FamilyName
    grade: Grade
    luts: int
    flip_flops: int
    block_memories: int
    dsps: int
    flags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def built_from(self) -> Family:
        """Its family."""
        return FAMILIES[self.family]

    @property
    def memory_kbits(self) -> int:
        """The bits of all its block memories, in units of 1024."""
        return self.block_memories * self.built_from.block_bits // 1024


# fmt: off
DEVICES: tuple[Device, ...] = (
    Device("xcvu9p", "xcvu9p-flga2104-2-e", "ultrascale+", "ultrascale+",
           luts=1_182_240, flip_flops=2_364_480, block_memories=4_320, dsps=6_840),
    Device("xczu3eg", "xczu3eg-sbva484-1-e", "ultrascale+", "ultrascale+",
           luts=70_560, flip_flops=141_120, block_memories=432, dsps=360),
    Device("xc7a35t", "xc7a35tcsg324-1", "7-series", "7-series",
           luts=20_800, flip_flops=41_600, block_memories=100, dsps=90),
    Device("xc7z020", "xc7z020clg400-1", "7-series", "7-series",
           luts=53_200, flip_flops=106_400, block_memories=280, dsps=220),
    Device("ecp5-25", "LFE5U-25F-6BG381C", "ecp5", "ecp5",
           luts=24_288, flip_flops=24_288, block_memories=56, dsps=28,
           flags=("--25k", "--package", "CABGA381", "--speed", "6"),
           aliases=("lfe5u25f", "ecp525k", "ecp525f")),
    Device("ecp5-85", "LFE5U-85F-6BG756C", "ecp5", "ecp5",
           luts=83_640, flip_flops=83_640, block_memories=208, dsps=156,
           flags=("--85k", "--package", "CABGA756", "--speed", "6"),
           aliases=("lfe5u85f", "ecp585k", "ecp585f")),
    Device("ice40-hx8k", "iCE40HX8K-CT256", "ice40", "ice40-hx",
           luts=7_680, flip_flops=7_680, block_memories=32, dsps=0,
           flags=("--hx8k", "--package", "ct256"), aliases=("hx8k",)),
    Device("ice40-up5k", "iCE40UP5K-SG48", "ice40", "ice40-up",
           luts=5_280, flip_flops=5_280, block_memories=30, dsps=8,
           flags=("--up5k", "--package", "sg48"), aliases=("up5k",)),
)
# fmt: on
"""The devices that are known."""


def find_device(name: str) -> Device:
    """The device of that name: `xcvu9p`, `xc7a35tcsg324-1`, `ECP5-25`, `LFE5U-25F`, `hx8k`, ….

    Package and speed grade behind the name do not matter; case and punctuation neither.

    Raises:
        OptionError: there is none.
    """
    wanted = _plain(name)
    for device in DEVICES:
        names = (device.name, device.part, *device.aliases)
        if any(wanted.startswith(_plain(known)) for known in names):
            return device
    known = [device.name for device in DEVICES]
    hint = did_you_mean(name.lower(), known) or f"; there are {', '.join(known)}"
    raise OptionError(f"unknown device '{name}'{hint}")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(frozen=True)
class Need:
    """How much of a resource a circuit takes.

    Attributes:
        resource: what it is called.
        needs: of the circuit.
        has: of the device.
    """

    resource: str
    needs: int
    has: int

    @property
    def fits(self) -> bool:
        """Whether there is enough."""
        return self.needs <= self.has

    @property
    def share(self) -> float:
        """How much of what there is."""
        return self.needs / self.has if self.has else float(bool(self.needs))


def needs(size: Resources, device: Device) -> list[Need]:
    """What a circuit takes of each resource of a device.

    A device whose cells have one look-up table and one register has as many cells as the first.
    """
    logic = (
        Need("logic cells", size.cells, device.luts)
        if device.built_from.paired
        else Need("LUTs", size.luts, device.luts)
    )
    kinds = "4 kbit" if device.family == "ice40" else "18 kbit"
    return [
        logic,
        Need("flip-flops", size.flip_flops, device.flip_flops),
        Need(f"memory blocks of {kinds}", size.block_memories, device.block_memories),
    ]


def check_fits(
    size: Estimate, device: Device, where: str, advice: Callable[[], str] | None = None
) -> None:
    """Refuse a circuit that a device has no room for.

    Args:
        found: the circuit's size, estimated for the device's family.
        device: to be filled.
        where: what does not fit, for the message.
        advice: says what would fit, as a sentence without a full stop, or nothing; is asked where
            the circuit does not.

    Raises:
        LoweringError: with each resource, what is needed, and what there is.
    """
    short = [need for need in needs(size.total, device) if not need.fits]
    if not short:
        return
    lines = [
        f"  {need.resource}: needs {need.needs:,}, has {need.has:,} ({need.share:.1f} times)"
        for need in short
    ]
    text = "\n".join(lines)
    told = advice() if advice is not None else ""
    raise LoweringError(
        f"{where} does not fit on {device.name} ({device.part}), by an estimate of\n{text}\n"
        f"{_largest(size)}; {told or 'fold them, narrow the numbers, or take a larger device'}"
    )


def _largest(estimated: Estimate) -> str:
    luts: Counter[str] = Counter()
    for name, size in estimated.layers().items():
        luts[name.partition(":")[0] or "control"] += size.luts
    shown = ", ".join(f"{name} ({count:,} LUTs)" for name, count in luts.most_common(3) if count)
    return f"the largest layers are {shown}"
