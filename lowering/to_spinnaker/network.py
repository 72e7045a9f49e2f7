"""The whole network as data: what `run.py` reads from `network.json` and `network.npz`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...dialects.interpret import run_module
from ...dialects.spike import InputOp, NetworkOp, PopulationOp, ProjectionOp, SimulateOp
from ...dialects.spike.interpret_network import Recorded, run_network
from ...dialects.spike.network_graph import nodes, probes, projections
from ...ir.arrays import Array
from ..emission import Inexpressible
from ..placement import Neurons, Synapses, Workload
from ..placement.connectivity import Sparse
from ..placement.run import Drive, active_steps, kept, spike_counts
from .neurons import Cell, cell_of
from .synapses import constant_of, synapse_list
from .timing import offsets

BIAS = "constants"
"""The source of what neurons add in each step."""

START = 2
"""Steps before the first one in `run.py`."""

Refuse = Callable[[Operation, str], None]


class PyNNNetwork:
    """A network in PyNN's words.

    Args:
        network: whose parameters have values.
        step_ms: how long a step is in PyNN.
        slots: most steps that a synapse takes.
        nest_only: whether numbers may be beyond 16.15 bits.
        refuse: takes each op that has no form, and why.
        held: inputs of numbers that are there at each step; what they bring, the host adds up.

    Attributes:
        data: what JSON has of it.
        arrays: by name.
        kinds: offsets of populations that add something in every step.
    """

    def __init__(
        self,
        network: NetworkOp,
        step_ms: float,
        slots: int,
        nest_only: bool,
        refuse: Refuse,
        held: Sequence[str] = (),
    ) -> None:
        self.held = held
        self.network, self.slots, self.refuse = network, slots, refuse
        self.arrays: dict[str, Array] = {}
        self.kinds: list[int] = []
        self.cells: dict[str, Cell] = {}
        sending = {op.source.string_value() for op in projections(network)}
        for name, op in nodes(network).items():
            try:
                if isinstance(op, PopulationOp):
                    self.cells[name] = cell_of(op, network, step_ms, nest_only)
                    if not op.spikes() and name in sending:
                        raise Inexpressible("projections of its potential, where PyNN has spikes")
                elif not op.spikes() and name not in held:
                    raise Inexpressible(
                        "numbers for an input, where PyNN's sources give spikes; encode them"
                    )
            except Inexpressible as reason:
                refuse(op, f"@{name} has {reason}")
        self.offsets, cycle = offsets(network)
        for op in cycle:
            refuse(
                op,
                f"@{op.sym_name.data} is in a cycle of {len(cycle)} projections with fewer steps "
                f"of delay in all; every projection takes a step here, so give them {len(cycle)}",
            )
        complete = len(self.cells) == sum(
            isinstance(op, PopulationOp) for op in nodes(network).values()
        )
        self.data: Mapping[str, object] = self.whole(step_ms) if complete and not cycle else {}

    def whole(self, step_ms: float) -> Mapping[str, object]:
        """What JSON has, once every node has a form."""
        known = nodes(self.network)
        added = {name: self.constant(name) * cell.unit for name, cell in self.cells.items()}
        driven = {op.target.string_value() for op in self.currents()}
        driven |= {name for name, values in added.items() if values.any()}
        self.kinds = sorted({self.offsets[name] for name in driven})
        return {
            "name": self.network.sym_name.data,
            "timestep": step_ms,
            "slots": self.slots,
            "inputs": [
                {"name": name, "shape": list(op.shape.get_values())}
                for name, op in known.items()
                if isinstance(op, InputOp) and name not in self.held
            ],
            "currents": [self.listed(op) for op in self.currents()],
            "populations": [self.population(name, cell) for name, cell in self.cells.items()],
            "constants": self.kinds,
            "projections": self.projections() + self.constants(added, driven),
            "outputs": [
                {
                    "name": op.sym_name.data,
                    "population": op.target.string_value(),
                    "spikes": op.variable.data == "output" and op.population().spikes(),
                    "sums": op.population().model.data == "relay",
                }
                for op in probes(self.network)
            ],
        }

    def population(self, name: str, cell: Cell) -> dict[str, object]:
        """Numbers of a population, or names of arrays of them."""
        shape = self.shape(name)
        parameters: dict[str, object] = {}
        for key in ("tau_m", "cm", "v_thresh", "v_reset"):
            values: Array = getattr(cell, key)
            parameters[key] = float(values) if values.ndim == 0 else f"{name}.{key}"
            if values.ndim:
                self.arrays[f"{name}.{key}"] = np.broadcast_to(values, shape).reshape(-1)
        return {
            "name": name,
            "shape": list(shape),
            "offset": self.offsets[name],
            "parameters": parameters,
            "above": cell.above,
            "unit": cell.unit,
            "error": cell.error,
        }

    def currents(self) -> list[ProjectionOp]:
        """The projections from inputs of numbers that stay."""
        return [op for op in projections(self.network) if op.source.string_value() in self.held]

    def listed(self, op: ProjectionOp) -> dict[str, object]:
        """A sum of numbers times weights, mV, which the host makes."""
        name, target = op.sym_name.data, op.target.string_value()
        synapses = synapse_list(op, self.cells[target], 1)
        for key in ("source", "target", "weight"):
            self.arrays[f"{name}.{key}"] = getattr(synapses, key)
        return {"name": name, "source": op.source.string_value(), "target": target}

    def workload(self, work: Workload) -> Workload:
        """What placement asks of the network, with the source of constants."""
        kinds, listed = self.kinds, list[Synapses]()
        work = replace(
            work,
            neurons=[part for part in work.neurons if part.name not in self.held],
            synapses=[part for part in work.synapses if part.source not in self.held],
        )
        for name in self.cells:
            key = f"{name}.{BIAS}"
            if f"{key}.target" in self.arrays:
                ends = self.arrays[f"{key}.source"], self.arrays[f"{key}.target"]
                ways = Sparse.of(*ends, len(kinds), prod(self.shape(name)))
                listed.append(Synapses(key, BIAS, name, ways))
        if not listed:
            return work
        source = Neurons(BIAS, len(kinds), np.ones(len(kinds)), is_input=True)
        return replace(work, neurons=[*work.neurons, source], synapses=[*work.synapses, *listed])

    def drive(self, module: ModuleOp, work: Workload, inputs: Sequence[Array]) -> Drive:
        """What populations do in a run of the script, whose steps are those of the program, those
        before spikes can go, and those by which populations are late.

        Args:
            module: the program that runs the network.
            work: see `workload`.
            inputs: of its `@forward`.
        """
        runs: list[tuple[Sequence[Array], Mapping[str, Recorded]]] = []

        def see(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
            if isinstance(op, SimulateOp):
                runs.append((operands, run_network(self.network, operands)))

        outputs = run_module(module, inputs, observer=see)
        ((entered, done),) = runs
        known, sent, active = nodes(self.network), dict[str, Array](), dict[str, Array]()
        names = [name for name, op in known.items() if isinstance(op, InputOp)]
        sent |= {n: x for n, x in zip(names, entered, strict=True) if n not in self.held}
        for name, part in done.items():
            op = known[name]
            potential = part.potential if op.spikes() else kept(part.heard)
            active[name] = active_steps(part.heard, potential)
            sent[name] = part.output if op.spikes() else np.zeros_like(part.heard)
        steps, samples = next(iter(done.values())).output.shape[:2]
        first = {name: START + self.offsets[name] for name in sent}
        total = START + steps + max(self.offsets.values())
        spikes = {name: np.zeros((total, prod(self.shape(name))), np.int64) for name in sent}
        for name, x in sent.items():
            spikes[name][first[name] : first[name] + steps] = spike_counts(x)
        if any(part.name == BIAS for part in work.neurons):
            spikes[BIAS] = np.zeros((total, len(self.kinds)), np.int64)
            for index, offset in enumerate(self.kinds):
                begin = START + offset - 1
                spikes[BIAS][begin : begin + steps, index] = samples
        products = sum(len(self.arrays[f"{op.sym_name.data}.source"]) for op in self.currents())
        dt = self.network.dt.value.data
        return Drive(work, spikes, active, samples, total, dt, float(products), outputs)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an input or population."""
        return tuple(nodes(self.network)[name].shape.get_values())

    def projections(self) -> list[dict[str, object]]:
        """The projections, whose lists go to `arrays`."""
        listed: list[dict[str, object]] = []
        for op in projections(self.network):
            if op.source.string_value() in self.held:
                continue
            name = op.sym_name.data
            source, target = op.source.string_value(), op.target.string_value()
            delay = op.delay.value.data + self.offsets[target] - self.offsets[source]
            synapses = synapse_list(op, self.cells[target], delay)
            longest = int(synapses.delay.max(initial=1))
            if longest > self.slots:
                self.refuse(
                    op,
                    f"@{name} takes {longest} steps, of which {delay - op.delay.value.data} wait "
                    f"for other ways to @{target}; SpiNNaker has {self.slots} slots, so put "
                    "populations in between",
                )
            self.arrays |= {f"{name}.{key}": value for key, value in vars(synapses).items()}
            listed.append({"name": name, "source": source, "target": target})
        return listed

    def constants(
        self, added: Mapping[str, Array], driven: Collection[str]
    ) -> list[dict[str, object]]:
        """A projection to each population that adds something in every step.

        Its source has a place for each offset, which fires a step before that at every step.

        Args:
            added: mV of each neuron, by population.
            driven: those that get something, from inputs that stay too.
        """
        listed: list[dict[str, object]] = []
        fed = {op.target.string_value() for op in self.currents()}
        for name, values in added.items():
            if name not in driven:
                continue
            target = np.arange(len(values)) if name in fed else np.flatnonzero(values)
            target = target.astype(np.int32)
            if len(target):
                key = f"{name}.{BIAS}"
                source = np.full(len(target), self.kinds.index(self.offsets[name]), np.int32)
                self.arrays |= {
                    f"{key}.source": source,
                    f"{key}.target": target,
                    f"{key}.weight": values[target],
                    f"{key}.delay": np.ones(len(target), np.int16),
                }
                listed.append({"name": key, "source": BIAS, "target": name})
        return listed

    def constant(self, name: str) -> Array:
        """What a population adds in every step, before `unit`, f64 [neurons]."""
        cell = self.cells[name]
        shape = self.shape(name)
        total = np.broadcast_to(cell.constant, shape).reshape(prod(shape)).astype(np.float64)
        for op in projections(self.network):
            if op.target.string_value() == name:
                total = total + constant_of(op, cell)
        return total
