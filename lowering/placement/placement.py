"""`Placement`: where the neurons of a network stand, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...ir.arrays import Array
from .device import Device

if TYPE_CHECKING:
    from networkx import DiGraph


@dataclass(frozen=True)
class Slice:
    """Neurons of one population on one core.

    Attributes:
        population: its name.
        start: the first neuron.
        stop: behind the last one.
        core: the number of the core, over all chips, of those that are used.
        board: the number of the board.
        chip: the number of the chip, over all boards.
        x: the column of the chip.
        y: its row.
        processor: the core within its chip, behind those that system software takes.
        key: of the first neuron's spikes; 0 where there are no routers.
        mask: of the keys.
    """

    population: str
    start: int
    stop: int
    core: int
    board: int
    chip: int
    x: int
    y: int
    processor: int
    key: int
    mask: int

    @property
    def neurons(self) -> int:
        """How many."""
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Placement:
    """A network on a machine.

    Attributes:
        network: the name of the network.
        device: the machine.
        slices: by population, in order; inputs that take no core have none.
        boards: boards that are used.
        core_loads: by resource what each core needs, int [cores].
        source: the core that spikes come from, int [pairs]; pairs of cores, each once.
        target: the core that they reach, int [pairs].
        spikes: that go from one to the other in a step, each neuron once a slice
            and projection, f64 [pairs].
        hops: between the cores of each pair, int [pairs]; see `traffic`.
        entries: of the router of each chip with cores in use, one for each slice.
        merged_entries: the same where entries that send to the same places are joined.
        input_spikes: that inputs without a core send to cores in a step.
    """

    network: str
    device: Device
    slices: Sequence[Slice]
    boards: int
    core_loads: Mapping[str, Array]
    source: Array
    target: Array
    spikes: Array
    hops: Array
    entries: Mapping[int, int]
    merged_entries: Mapping[int, int]
    input_spikes: float

    def of(self, population: str) -> list[Slice]:
        """The slices of a population, in the order of its neurons."""
        return [part for part in self.slices if part.population == population]

    @property
    def cores(self) -> int:
        """Cores that are used."""
        return max((part.core + 1 for part in self.slices), default=0)

    @property
    def chips(self) -> int:
        """Chips with cores in use."""
        return len({part.chip for part in self.slices})

    def core_chips(self) -> Array:
        """The chip of each core, int [cores]."""
        chips = np.zeros(self.cores, np.int64)
        for part in self.slices:
            chips[part.core] = part.chip
        return chips

    @property
    def traffic(self) -> dict[str, float]:
        """Spikes of a step that arrive at cores, by how far they come, and their hops.

        `within_cores`, `between_cores` (of one chip or several), `between_chips` (of these those
        of different chips), `hops` (spikes times steps of the grid), `from_inputs` of inputs
        that take no core. A spike counts once for each core that it reaches.
        """
        chips = self.core_chips()
        apart = self.source != self.target
        far = chips[self.source] != chips[self.target]
        return {
            "within_cores": float(self.spikes[~apart].sum()),
            "between_cores": float(self.spikes[apart].sum()),
            "between_chips": float(self.spikes[far].sum()),
            "hops": float(self.spikes @ self.hops),
            "from_inputs": self.input_spikes,
        }

    def graph(self) -> DiGraph[int]:
        """The cores that are used with their `slices` and `chip`, and `spikes` between them."""
        import networkx as nx

        graph: DiGraph[int] = nx.DiGraph(name=self.network)
        for core, chip in enumerate(self.core_chips().tolist()):
            slices = [part for part in self.slices if part.core == core]
            graph.add_node(core, chip=chip, slices=slices)
        pairs = zip(self.source.tolist(), self.target.tolist(), self.spikes.tolist(), strict=True)
        graph.add_weighted_edges_from(pairs, weight="spikes")
        return graph

    def to_dict(self) -> dict[str, object]:
        """What JSON has of it: slices, counts, loads, entries of routers, traffic."""
        return {
            "network": self.network,
            "device": self.device.name,
            "cores": self.cores,
            "chips": self.chips,
            "boards": self.boards,
            "slices": [asdict(part) for part in self.slices],
            "core_loads": {name: load.tolist() for name, load in self.core_loads.items()},
            "traffic": self.traffic,
            "routing_entries": {str(chip): count for chip, count in self.entries.items()},
            "merged_entries": {str(chip): count for chip, count in self.merged_entries.items()},
        }
