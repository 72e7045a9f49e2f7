"""Machines from files of TOML: those of `devices/`, by name, or a user's, by path.

`machine` says the form of one and where that is from, `numbers` limits and sizes (`device.NUMBERS`
lists them), each a number or a table of `value`, `source` and `year`; `costs` joules, watts and
seconds, see `costs`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import InputError, OptionError, did_you_mean, refuse
from ...ir.pipeline import split_pipeline
from .costs import read_costs
from .device import LAYOUT, LEAST_ONE, NUMBERS, Device, check_chips, whole

FOLDER = Path(__file__).parent / "devices"

GRIDS = ("rectangular", "hexagonal")


def device_names() -> list[str]:
    """The machines that have a file here."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def device_text(device: str | Path, constraints: Mapping[str, object]) -> str:
    """A machine and other numbers of it as one text, `loihi2{chips=4}`, as `load_device` reads it.

    Raises:
        OptionError: a number that is none; see `Device.with_constraints`.
    """
    return load_device(device).with_constraints(constraints).text


def load_device(device: str | Path | Device) -> Device:
    """A machine by its name, or by the path of a file that describes one.

    Args:
        device: with other numbers of it behind the name, `loihi2{chips=4 neurons_per_core=64}`,
            if need be; see `Device.with_constraints`.

    Raises:
        OptionError: no such machine or number.
        InputError: a file that describes none.
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
        raise InputError(f"there is no file '{name}'")
    if not path.is_file():
        names = device_names()
        known = f"; there are {', '.join(names)}, or give the path of a .toml file"
        raise OptionError(f"unknown device '{name}'{did_you_mean(name, names) or known}")
    try:
        return _device(path.stem, name, _described(path.stem, path))
    except OptionError as error:
        raise InputError(str(error)) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"device '{path}': {error}") from None


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
        numbers[key] = whole(f"{where}: {key}", table.get("value"), int(key in LEAST_ONE))
        sources[key] = _source(table)
    grid: str = machine.get("grid", "rectangular")
    refuse(grid not in GRIDS, f"{where}: grid expects one of {', '.join(GRIDS)}, got '{grid}'")
    positions, cores = _layout(where, machine)
    title, shared, target = (
        machine.get(key, default)
        for key, default in (("title", name), ("shared", False), ("target", ""))
    )
    columns = whole(f"{where}: core_columns", machine.get("core_columns", 0))
    named = (name, text, title, target, grid, shared, positions, cores, columns)
    device = Device(*named, numbers, sources, costs)
    refuse(device["neurons_per_core"] < 1, f"{where}: expects neurons_per_core of at least 1")
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
        if len(np.unique(rows[:, :2], axis=0)) != len(rows):
            raise OptionError(f"{where}: positions has two chips at one place")
        check_chips(where, len(rows))
        return rows[:, :2], rows[:, 2].copy()
    sizes = (("chips", 1), ("columns", 1), ("cores", None))
    count, columns, cores = (whole(f"{where}: {k}", machine.get(k, n), 1) for k, n in sizes)
    check_chips(where, count)
    chip = np.arange(count)
    return np.stack([chip % columns, chip // columns], 1), np.full(count, cores)


def _table(where: str, value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise OptionError(f"{where}: expects a table [{name}]")
    return cast("Mapping[str, Any]", value)
