"""What things cost on a machine in joules, watts and seconds, each with its source.

A cost is a range: where sources differ both ends are kept, and what is computed is a range too. Not
here: how often things happen (`energy`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import OptionError, did_you_mean

COSTS = {
    "synapse": ("J", "a spike at a synapse; of a machine of dense products, a product"),
    "step": ("J", "a neuron in a step, whatever it does"),
    "update": ("J", "a neuron that hears something or has a potential, besides `step`"),
    "spike": ("J", "a neuron that fires, besides `update`"),
    "message": ("J", "a spike for each core that it is sent to"),
    "hop_x": ("J", "a message between routers of a row; of a hexagonal grid any two"),
    "hop_y": ("J", "a message between routers of a column"),
    "chip_idle": ("W", "a chip in use, whatever it does"),
    "synapse_time": ("s", "a spike at a synapse of a core"),
    "step_time": ("s", "a neuron of a core in a step"),
    "update_time": ("s", "a neuron that hears something or has a potential, besides"),
    "spike_time": ("s", "a neuron that fires, besides"),
    "send_time": ("s", "a message that leaves a core"),
    "receive_time": ("s", "a message that comes to a core"),
    "barrier_time": ("s", "the end of a step, until all cores know of it"),
    "real_time": ("s", "a step where the machine keeps to a clock"),
}
"""The costs that a machine may have, the unit of each, and what of."""


@dataclass(frozen=True)
class Cost:
    """What something costs.

    Attributes:
        low, high: the least and the most that sources say, in `unit`.
        unit: J, W or s.
        source: where it is from.
        year: of the source.
    """

    low: float
    high: float
    unit: str
    source: str
    year: int

    @property
    def range(self) -> Array:
        """Both ends, f64 [2]."""
        return np.array([self.low, self.high])

    def of(self, machine: str) -> Cost:
        """The same where it stands for that of another machine, which has none of its own."""
        return replace(self, source=f"{self.source} (of {machine})")

    def to_dict(self) -> dict[str, object]:
        """What JSON has of it."""
        return dict(vars(self))


def read_costs(where: str, entries: Mapping[str, Any]) -> dict[str, Cost]:
    """The costs of a table `costs`.

    Args:
        where: the machine, for messages.
        entries: by name `value` (a number or [least, most]), `unit`, `source` and `year`.

    Raises:
        OptionError: an unknown cost, or one that is no number with a unit and a source.
    """
    return {name: _cost(f"{where}: cost '{name}'", name, entry) for name, entry in entries.items()}


def _cost(where: str, name: str, entry: object) -> Cost:
    if name not in COSTS:
        hint = did_you_mean(name, COSTS) or f"; there are {', '.join(COSTS)}"
        raise OptionError(f"{where} is unknown{hint}")
    table: Mapping[str, Any] = cast("Mapping[str, Any]", entry if isinstance(entry, dict) else {})
    value, unit = table.get("value"), COSTS[name][0]
    ends = cast("list[Any]", value if isinstance(value, list) else [value, value])
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in ends)
    if not (numbers and len(ends) == 2 and 0 <= ends[0] <= ends[1] < inf):
        raise OptionError(f"{where} expects a number of at least 0 or [least, most], got {value!r}")
    source, year = table.get("source"), table.get("year")
    if table.get("unit") != unit or not isinstance(source, str) or type(year) is not int:
        raise OptionError(f'{where} expects unit = "{unit}", a source and its year')
    return Cost(float(ends[0]), float(ends[1]), unit, source, year)
