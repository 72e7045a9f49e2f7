"""Machines as data: what a board has and what things cost on it, each number with its source.

A machine is a file of TOML: those of `devices/`, by name, or a user's, by path. `machine` says its
form and where that is from, `numbers` limits and sizes (`NUMBERS` lists them), each a number or a
table of `value`, `source` and `year`; `costs` joules, watts and seconds, see `costs`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import OptionError
from ...ir.pipeline import did_you_mean, split_pipeline
from .costs import Cost, read_costs

FOLDER = Path(__file__).parent / "devices"

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

GRIDS = ("rectangular", "hexagonal")
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
            number = _whole(f"hardware_constraints: {name}", value, int(name in LEAST_ONE))
            if name == "chips":
                _check_chips("hardware_constraints", number)
                positions, cores = _resized(positions, cores, number)
            elif name == "cores_per_chip":
                cores = np.full(len(cores), number + changed.get("reserved_cores_per_chip", 0))
            else:
                changed[name] = number
            sources[name] = "hardware_constraints"
        kept = {"numbers": changed, "sources": sources, "cores": cores, "positions": positions}
        return replace(self, text=_text(self.text, constraints), **kept)


def device_names() -> list[str]:
    """The machines that have a file here."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def device_text(device: str | Path, constraints: Mapping[str, object]) -> str:
    """A machine and other numbers of it as one text, `loihi2{chips=4}`, as `load_device` reads it.

    Raises:
        OptionError: a number that is none; see `Device.with_constraints`.
    """
    return load_device(device).with_constraints(constraints).text


def _text(text: str, constraints: Mapping[str, object]) -> str:
    name, _, words = text.partition("{")
    own = [] if not words else words.removesuffix("}").split()
    own += [f"{key}={value}" for key, value in constraints.items() if key != "device"]
    by_key = {word.partition("=")[0].replace("-", "_"): word for word in own}
    return f"{name}{{{' '.join(by_key.values())}}}" if by_key else name


def load_device(device: str | Path | Device) -> Device:
    """A machine by its name, or by the path of a file that describes one.

    Args:
        device: with other numbers of it behind the name, `loihi2{chips=4 neurons_per_core=64}`,
            if need be; see `Device.with_constraints`.

    Raises:
        OptionError: no such machine or number, or no description of one.
    """
    if isinstance(device, Device):
        return device
    name, brace, words = str(device).partition("{")
    if brace:
        try:
            options = split_pipeline(f"device{{{words}")[0].options
        except OptionError:
            example = "write for example 'loihi2{chips=4 neurons_per_core=64}'"
            raise OptionError(f"'{device}' is no device with other numbers; {example}") from None
        texts = {key.replace("-", "_"): ",".join(w.text for w in v) for key, v in options.items()}
        numbers = {key: int(t) if t.isdecimal() else t for key, t in texts.items()}
        return load_device(name).with_constraints(numbers)
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if name.endswith(".toml") and not path.is_file():
        raise OptionError(f"there is no file '{name}'")
    if not path.is_file():
        names = device_names()
        known = f"; there are {', '.join(names)}, or give the path of a .toml file"
        raise OptionError(f"unknown device '{name}'{did_you_mean(name, names) or known}")
    try:
        return _device(path.stem, name, _described(path.stem, path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OptionError(f"device '{path}': {error}") from None


def _described(name: str, path: Path) -> Mapping[str, Any]:
    """What a file says, with the layout, numbers and costs of the machine that it is like."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    machine = data.get("machine")
    if not isinstance(machine, dict) or "like" not in machine:
        return data
    own = cast("dict[str, Any]", machine)
    other = _named(f"device '{name}': like", own.pop("like"))
    base = _described(other, FOLDER / f"{other}.toml")
    own_alone = ("title", "source", "year")
    layout = {key: value for key, value in base["machine"].items() if key not in own_alone}
    numbers, costs = (
        _table(f"device '{name}'", data.get(key, {}), key) for key in ("numbers", "costs")
    )
    return {
        **data,
        "machine": {**layout, **own},
        "numbers": {**base["numbers"], **numbers},
        "costs": costs if "costs_of" in own else {**base.get("costs", {}), **costs},
    }


def _device(name: str, text: str, data: Mapping[str, Any]) -> Device:
    where = f"device '{name}'"
    machine: Mapping[str, Any] = _table(where, data.get("machine"), "machine")
    entries: Mapping[str, Any] = _table(where, data.get("numbers", {}), "numbers")
    known = (
        *("title", "grid", "shared", "chips", "columns", "cores", "core_columns"),
        *("positions", "costs_of", "target", "source", "year"),
    )
    for entry, names in ((data, ("machine", "numbers", "costs")), (machine, known)):
        for unknown in [key for key in entry if key not in names]:
            hint = did_you_mean(unknown, names) or f"; there are {', '.join(names)}"
            raise OptionError(f"{where}: unknown entry '{unknown}'{hint}")
    for key, kind in (("title", str), ("target", str), ("grid", str), ("shared", bool)):
        if not isinstance(machine.get(key, kind()), kind):
            what = "a text" if kind is str else "true or false"
            raise OptionError(f"{where}: {key} expects {what}, got {machine[key]!r}")
    costs = read_costs(where, _table(where, data.get("costs", {}), "costs"))
    if machine.get("costs_of", "none") != "none":
        other = load_device(_named(f"{where}: costs_of", machine["costs_of"]))
        costs = {key: cost.of(other.title) for key, cost in other.costs.items()} | costs
    numbers, sources = dict[str, int](), {LAYOUT: _source(machine)}
    for key, entry in entries.items():
        if key not in NUMBERS:
            hint = did_you_mean(key, NUMBERS) or f"; there are {', '.join(NUMBERS)}"
            raise OptionError(f"{where}: unknown number '{key}'{hint}")
        table = cast("Mapping[str, object]", entry) if isinstance(entry, dict) else {"value": entry}
        numbers[key] = _whole(f"{where}: {key}", table.get("value"), int(key in LEAST_ONE))
        sources[key] = _source(table)
    grid: str = machine.get("grid", "rectangular")
    if grid not in GRIDS:
        raise OptionError(f"{where}: grid expects one of {', '.join(GRIDS)}, got '{grid}'")
    positions, cores = _layout(where, machine)
    title, shared, target = (
        machine.get(key, default)
        for key, default in (("title", name), ("shared", False), ("target", ""))
    )
    columns = _whole(f"{where}: core_columns", machine.get("core_columns", 0))
    named = (name, text, title, target, grid, shared, positions, cores, columns)
    device = Device(*named, numbers, sources, costs)
    if device["neurons_per_core"] < 1:
        raise OptionError(f"{where}: expects neurons_per_core of at least 1")
    return device


def _source(entry: Mapping[str, object]) -> str:
    """Where an entry is from, and of which year."""
    source, year = entry.get("source", "the user's file"), entry.get("year", "")
    return f"{source} ({year})" if year else str(source)


def _named(where: str, name: object) -> str:
    """A machine of `FOLDER`."""
    if not isinstance(name, str) or name not in device_names():
        raise OptionError(f"{where} expects one of {', '.join(device_names())}")
    return name


def _layout(where: str, machine: Mapping[str, Any]) -> tuple[Array, Array]:
    """Places and cores of the chips of a board: `positions` [[x, y, cores], …], or a rectangle."""
    if "positions" in machine:
        try:
            rows: Array = np.array(machine["positions"], np.int64)
        except (TypeError, ValueError, OverflowError):
            rows = np.zeros((0,), np.int64)
        if rows.shape[1:] != (3,) or not len(rows) or rows.min() < 0:
            raise OptionError(f"{where}: positions expects [x, y, cores] for each chip of a board")
        _check_chips(where, len(rows))
        return rows[:, :2], rows[:, 2].copy()
    sizes = (("chips", 1), ("columns", 1), ("cores", None))
    count, columns, cores = (_whole(f"{where}: {k}", machine.get(k, n), 1) for k, n in sizes)
    _check_chips(where, count)
    chip = np.arange(count)
    return np.stack([chip % columns, chip // columns], 1), np.full(count, cores)


def _resized(positions: Array, cores: Array, count: int) -> tuple[Array, Array]:
    """The first chips of a board, or a row of more of the same."""
    if count <= len(cores):
        return positions[:count], cores[:count]
    columns = int(np.ceil(np.sqrt(count)))
    chip = np.arange(count)
    return np.stack([chip % columns, chip // columns], 1), np.full(count, cores.max())


def _table(where: str, value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise OptionError(f"{where}: expects a table [{name}]")
    return cast("Mapping[str, Any]", value)


def _check_chips(where: str, count: int) -> None:
    if count > MOST_CHIPS:
        raise OptionError(f"{where}: a board has at most {MOST_CHIPS:,} chips, got {count:,}")


def _whole(what: str, value: object, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**62:
        raise OptionError(f"{what} expects a whole number of at least {least}, got {value!r}")
    return value
