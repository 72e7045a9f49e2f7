"""Machines as data: what a board has and what things cost on it, each number with its source.

Not here: the files that describe them (`device_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import OptionError, did_you_mean
from .costs import Cost

NUMBERS = {
    "boards": ("boards", "that can be joined"),
    "reserved_cores_per_chip": ("cores", "of each chip that system software takes"),
    "reserved_cores_per_board": ("cores", "of the first chip of a board that it takes besides"),
    "neurons_per_core": ("neurons", "on a core"),
    "sources_per_core": ("places", "of an input on a core; 0 where inputs take no core"),
    "core_bytes": ("bytes", "of a core for neurons, synapses and axons; 0 where chips hold them"),
    "chip_bytes": ("bytes", "of a chip for synapses; 0 where cores hold them"),
    "axons_in": ("neurons", "elsewhere that reach a core; 0 for any number"),
    "axons_out": ("pairs", "of a neuron of a core and a core that it reaches; 0 for any number"),
    "routing_entries": ("entries", "of the router of a chip; 0 where there is none"),
    "neuron_bytes": ("bytes", "of a neuron's state and parameters"),
    "synapse_bytes": ("bytes", "of a synapse"),
    "row_bytes": ("bytes", "for each neuron that reaches a core, besides its synapses"),
    "axon_out_bytes": ("bytes", "for each core that a neuron reaches"),
    "padded_rows": ("1 or 0", "whether all rows of a core's matrix are as long as the longest"),
    "shared_windows": ("1 or 0", "whether a core keeps the kernel of a convolution once"),
    "delay_slots": ("steps", "that a synapse can delay by itself at most; 0 for any number"),
    "tile_side": ("cores", "on a side of the square that shares a router; 0 where none do"),
    "dense": ("1 or 0", "whether synapses are products that are all computed, once a sample"),
    "inclusive": ("1 or 0", "whether the cost of a synapse has all others in it"),
    "chip_hops": ("hops", "between neighbouring cores or chips that leaving a chip counts as"),
}
"""The numbers of a machine, the unit of each, and what of; those left out are 0."""

LAYOUT = "layout"
"""The name of the places of chips and cores among sources."""

LEAST_ONE = ("boards", "neurons_per_core", "chips", "cores_per_chip")
"""Numbers that are 1 at least where they are given."""

MOST_CHIPS = 4096
"""Of a board: the way between any two of them is kept."""

_BOARDS_OF_TRIAD = np.array([[0, 0], [4, 8], [8, 4]])
"""Where the three boards of a triad of 12 by 12 chips stand (SpiNNakerTriadGeometry)."""


@dataclass(frozen=True, eq=False)
class Device:
    """A machine.

    Attributes:
        name: of its file.
        text: as `load_device` reads it again: the name, or the path of a user's file, with other
            numbers behind it.
        title: one line.
        target: what compiles for it; empty where nothing does.
        grid: how chips are joined: `rectangular`, with four neighbours, or `hexagonal`, with six.
        shared: whether a core takes slices of several populations.
        positions: places of the chips of a board, int [chips, 2].
        cores: of each chip of a board, with those that system software takes, int [chips].
        core_columns: columns of the grid of cores on a chip; 0 where all are equally far.
        numbers: by name, see `NUMBERS`.
        sources: by name of a number, and of `LAYOUT`, where it is from and of which year.
        costs: by name, see `costs.COSTS`.
    """

    name: str
    text: str
    title: str
    target: str
    grid: str
    shared: bool
    positions: Array
    cores: Array
    core_columns: int
    numbers: Mapping[str, int]
    sources: Mapping[str, str]
    costs: Mapping[str, Cost]

    def __getitem__(self, name: str) -> int:
        return self.numbers.get(name, 0)

    @property
    def usable_cores(self) -> Array:
        """Cores of each chip of a board that programs get, int [chips]."""
        usable = self.cores - self["reserved_cores_per_chip"]
        usable[0] -= self["reserved_cores_per_board"]
        return np.maximum(usable, 0)

    @property
    def core_count(self) -> int:
        """Cores of all boards that programs get."""
        return int(self.usable_cores.sum()) * max(1, self["boards"])

    def chips(self, boards: int) -> Array:
        """Board, x and y of every chip of so many boards, int [boards·chips, 3]."""
        if self.grid == "hexagonal":
            triads = -(-boards // 3)
            columns = int(np.ceil(np.sqrt(triads)))
            triad = np.arange(boards) // 3
            corners = np.stack([triad % columns, triad // columns], 1) * 12
            corners = corners + _BOARDS_OF_TRIAD[np.arange(boards) % 3]
        else:
            width = self.positions[:, 0].max() + 1
            corners = np.stack([np.arange(boards) * width, np.zeros(boards, np.int64)], 1)
        places = (corners[:, None] + self.positions[None]).reshape(-1, 2)
        return np.column_stack([np.repeat(np.arange(boards), len(self.positions)), places])

    def steps(self, way: Array) -> tuple[Array, Array]:
        """Steps along rows and along columns, of ways [..., 2] from router to router; on a
        hexagonal grid, where a step may be both, all in the first."""
        x, y = np.abs(way[..., 0]), np.abs(way[..., 1])
        if self.grid == "hexagonal":
            return np.where(way[..., 0] * way[..., 1] > 0, np.maximum(x, y), x + y), 0 * y
        return x, y

    def with_constraints(self, constraints: Mapping[str, object]) -> Device:
        """The machine with other numbers, as `SpikingConfig.hardware_constraints` has them.

        Args:
            constraints: numbers by the names of `NUMBERS`, or `chips` and `cores_per_chip` of a
                board; `device` is passed over.

        Raises:
            OptionError: an unknown name, or no whole number of at least 0.
        """
        known = (*NUMBERS, "chips", "cores_per_chip", "device")
        changed = dict(self.numbers)
        sources, cores, positions = dict(self.sources), self.cores, self.positions
        for name, value in constraints.items():
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise OptionError(f"hardware_constraints: unknown limit '{name}'{hint}")
            if name == "device":
                continue
            number = whole(f"hardware_constraints: {name}", value, int(name in LEAST_ONE))
            if name == "chips":
                check_chips("hardware_constraints", number)
                positions, cores = _resized(positions, cores, number)
            elif name == "cores_per_chip":
                cores = np.full(len(cores), number + changed.get("reserved_cores_per_chip", 0))
            else:
                changed[name] = number
            sources[name] = "hardware_constraints"
        kept = {"numbers": changed, "sources": sources, "cores": cores, "positions": positions}
        return replace(self, text=_text(self.text, constraints), **kept)


def _text(text: str, constraints: Mapping[str, object]) -> str:
    name, _, words = text.partition("{")
    own = [] if not words else words.removesuffix("}").split()
    own += [f"{key}={value}" for key, value in constraints.items() if key != "device"]
    by_key = {word.partition("=")[0].replace("-", "_"): word for word in own}
    return f"{name}{{{' '.join(by_key.values())}}}" if by_key else name


def _resized(positions: Array, cores: Array, count: int) -> tuple[Array, Array]:
    """The first chips of a board, or a row of more of the same."""
    if count <= len(cores):
        return positions[:count], cores[:count]
    columns = int(np.ceil(np.sqrt(count)))
    chip = np.arange(count)
    return np.stack([chip % columns, chip // columns], 1), np.full(count, cores.max())


def check_chips(where: str, count: int) -> None:
    """Refuse more chips of a board than are kept."""
    if count > MOST_CHIPS:
        raise OptionError(f"{where}: a board has at most {MOST_CHIPS:,} chips, got {count:,}")


def whole(what: str, value: object, least: int = 0) -> int:
    """A whole number, or an `OptionError`."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**62:
        raise OptionError(f"{what} expects a whole number of at least {least}, got {value!r}")
    return value
