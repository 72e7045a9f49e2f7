"""Devices that circuits are made for, and whether one fits.

The numbers stand in `devices.toml`, each device with its source. Not here: what a circuit takes
(`estimate`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ....ir.errors import LoweringError, OptionError, did_you_mean
from .estimate import Estimate, Resources
from .families import FAMILIES, Family, entries


@dataclass(frozen=True)
class Device:
    """An FPGA.

    Attributes:
        name: what it is called here.
        part: the order number, with package and speed grade, as tools want it.
        packages: the packages that it comes in, as order numbers have them.
        family: what it is built from.
        grade: whose delays it has.
        luts: look-up tables.
        flip_flops: registers.
        block_memories: in units of the family's block (`Family.block_bits`; of Xilinx the half of
            a block of 36 kbit).
        dsps: multipliers.
        source: where the numbers are from.
        flags: for nextpnr.
        aliases: other names.
    """

    name: str
    part: str
    packages: tuple[str, ...]
    family: str
    grade: str
    luts: int
    flip_flops: int
    block_memories: int
    dsps: int
    source: str
    flags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def built_from(self) -> Family:
        """Its family."""
        return FAMILIES[self.grade]

    @property
    def memory_kbits(self) -> int:
        """The bits of all its block memories, in units of 1024."""
        return self.block_memories * self.built_from.block_bits // 1024

    def ordered(self, rest: str) -> Device | None:
        """The device in the package and grade that `rest` of an order number says.

        Args:
            rest: what follows the device's name, in small letters and digits.

        Returns:
            `None` where it says no package or grade of this device. What is left out stays.
        """
        family = self.built_from
        behind = _rest(self.part, (self.name, *self.aliases)) or ""
        own, words = (re.fullmatch(family.order, text) for text in (behind, rest))
        if own is None or words is None or words["package"] not in (None, *self.packages):
            return None
        said = {key: words[key] or own[key] or "" for key in own.groupdict()}
        if words["speed"] is not None:
            said["temperature"] = words["temperature"] or ""
        said |= {"name": self.name, "size": self.name.rpartition("-")[2]}
        short = said["package"][:2]
        said["nextpnr"] = family.packages.get(short, short) + said["package"][2:]
        said |= {key.upper(): word.upper() for key, word in said.items()}
        part = family.part.format(**said).rstrip("-")
        return replace(self, part=part, flags=tuple(family.nextpnr.format(**said).split()))


def find_device(name: str) -> Device:
    """The device of that name: `xcvu9p`, `xc7a35tcsg324-1`, `ECP5-25`, `LFE5U-25F`, `hx8k`, ….

    Package and speed grade behind the name are those of the result; case and punctuation do not
    matter. Delays are those of the family's usual grade whatever the speed.

    Raises:
        OptionError: there is none, or not in such a package or grade.
    """
    for device in DEVICES:
        rest = _rest(name, (device.name, *device.aliases))
        if rest is None:
            continue
        ordered = device.ordered(rest)
        if ordered is not None:
            return ordered
        raise OptionError(
            f"device '{name}': '{rest}' is no package and grade of {device.name}, as in "
            f"{device.part}; it comes in {', '.join(device.packages)}"
        )
    known = [device.name for device in DEVICES]
    hint = did_you_mean(name.lower(), known) or f"; there are {', '.join(known)}"
    raise OptionError(f"unknown device '{name}'{hint}")


def _rest(name: str, known: Sequence[str]) -> str | None:
    """What follows a device's name in another, without punctuation; `None` if it is not of it."""
    wanted = _plain(name)
    for each in map(_plain, known):
        if wanted.startswith(each):
            return wanted[len(each) :]
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read_devices() -> Iterator[Device]:
    for name, entry in entries("devices.toml").items():
        lists = {key: tuple(entry.pop(key, ())) for key in ("packages", "aliases")}
        device = Device(name, grade=entry.pop("grade", entry["family"]), **lists, **entry)
        ordered = device.ordered("")
        assert ordered is not None
        yield ordered


DEVICES = tuple(_read_devices())
"""The devices that are known, from `devices.toml`."""


@dataclass(frozen=True)
class Need:
    """How much of a resource a circuit takes.

    Attributes:
        name: of the resource.
        needs: of the circuit.
        has: of the device.
    """

    name: str
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
        f"  {need.name}: needs {need.needs:,}, has {need.has:,} ({need.share:.1f} times)"
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
    for name, size in estimated.sums("layer").items():
        luts[name.partition(":")[0] or "control"] += size.luts
    shown = ", ".join(f"{name} ({count:,} LUTs)" for name, count in luts.most_common(3) if count)
    return f"the largest layers are {shown}"
