"""Each layer of a circuit against the reference interpreter: what `triton verify --layers` runs.

Every layer is simulated as a circuit of its own on random vectors within the bounds that interval
analysis states, and on the values that samples of the program give. Not here: the circuits
(`lowering.to_verilog.layer_circuits`), and whole programs (`verify`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from shutil import which
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..dialects.interpret import run_module
from ..ir.errors import BackendError, OptionError
from ..lowering.options import parse_target_spec
from ..lowering.targets import get_target, read_options
from ..lowering.to_verilog.interface import Port, pack, unpack
from ..lowering.to_verilog.layer_circuits import LayerCircuit, LayerCircuits
from ..lowering.to_verilog.target import VerilogOptions, random_inputs
from ..runtime.equivalence import check_provers
from ..runtime.verilog import SIMULATORS
from .layer_proofs import prove_layer
from .layer_results import Difference, LayerReport, LayerResult
from .verify import compare, is_integer_program
from .verilog import Simulated, dequantized, frames_of, quantized, shaped, simulate_words

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Array = NDArray[Any]

VECTORS = 10_000
"""Random vectors for a layer, where nothing else is said."""

_SHOWN = 4096
"""Numbers of a vector that are told, at most."""

_ICARUS_CYCLES = 30_000
"""Simulations of more cycles go to Verilator where it is installed: it is slow to begin."""

_CYCLES = 50_000_000
"""The most cycles of a simulation: what the counters of the test bench hold."""


@dataclass(frozen=True)
class LayerChecks:
    """How layers are checked.

    Attributes:
        vectors: random ones for a layer, the corners of its bounds among them. Beats: an image of
            1,024 positions counts as so many.
        seed: of them.
        simulator: see `runtime.verilog.simulate`; by default the one that takes less time.
        jobs: simulations at a time; by default one a core.
        prove: seconds for a proof of each layer; none without.
        with_samples: whether the values of samples go through the circuits too.
    """

    vectors: int = VECTORS
    seed: int = 0
    simulator: str | None = None
    jobs: int | None = None
    prove: float | None = None
    with_samples: bool = True


def verilog_options(target: str | None) -> VerilogOptions:
    """The options in a target's text, `verilog` where there is none.

    Raises:
        OptionError: another target, or options that it does not have.
    """
    spec = parse_target_spec(target or "verilog")
    if spec.name != "verilog":
        raise OptionError(f"only the target verilog is verified layer by layer, got '{spec.name}'")
    options = read_options(get_target("verilog"), spec.options)
    assert isinstance(options, VerilogOptions)
    return options


def verify_layers(
    module: ModuleOp,
    samples: Sequence[Array],
    options: VerilogOptions | None = None,
    checks: LayerChecks | None = None,
    on_layer: Callable[[str, int], None] = lambda name, count: None,
) -> LayerReport:
    """Compare the circuit of each layer of a program with the interpreter.

    Args:
        module: the program.
        samples: inputs of `@forward`, in order.
        options: of the target `verilog`.
        checks: how.
        on_layer: told of each layer that is begun, and how many there are.

    Raises:
        BackendError: no simulator is installed, or one refuses a circuit.
        OptionError: an option is out of its range.
        UnsupportedError: ops that cannot become hardware.
    """
    given = checks or LayerChecks()
    if given.simulator is None and not any(map(which, SIMULATORS)):
        raise BackendError(
            "a Verilog simulator is missing: install iverilog or verilator, on Debian "
            "'apt-get install iverilog'"
        )
    if given.prove is not None:
        check_provers()
    made = LayerCircuits(module, options or VerilogOptions())
    values = Values(made, samples)

    def circuits() -> Iterable[LayerCircuit]:
        for circuit in made:
            on_layer(circuit.layer.name, len(made.layers))
            yield circuit

    results = check_circuits(circuits(), values, given)
    return LayerReport(tuple(results), values.agree_with(module, made.results), values.samples)


class Values:
    """What the interpreter gives for samples, layer after layer.

    Args:
        circuits: of the program.
        samples: inputs of `@forward`, in order.
    """

    def __init__(self, circuits: LayerCircuits, samples: Sequence[Array]) -> None:
        self._samples = samples
        self._ports: dict[int, Port] = dict(enumerate(circuits.inputs))
        self._frames: dict[int, Array] = {}
        for number, (port, x) in enumerate(zip(circuits.inputs, samples, strict=True)):
            self._frames[number] = frames_of(port, quantized(port, x))

    @property
    def samples(self) -> int:
        """How many there are."""
        return len(self._frames[0]) if self._frames else 1

    def through(self, circuit: LayerCircuit) -> list[Array]:
        """What a layer takes, int64 [frames, elements], one array an input.

        Layers come in the order of the program.
        """
        layer = circuit.layer
        taken = [self._frames[number] for number in layer.takes]
        given = reference(circuit, taken)
        self._ports |= dict(zip(layer.gives, circuit.interface.outputs, strict=True))
        self._frames |= dict(zip(layer.gives, given, strict=True))
        return taken

    def agree_with(self, module: ModuleOp, results: Sequence[int]) -> bool:
        """Whether the last values are what the whole program gives for the samples.

        Bit for bit, or within the tolerances of `verify` for a program of floats.
        """
        expected = run_module(module, self._samples)
        found = [dequantized(self._ports[number], self._frames[number]) for number in results]
        exact = is_integer_program(module)
        return compare("layers", "interpreter", expected, found, exact, 0).agrees


def reference(circuit: LayerCircuit, inputs: Sequence[Array]) -> list[Array]:
    """What the interpreter gives for a layer: int64 [frames, elements], one array a result.

    Args:
        circuit: of the layer.
        inputs: of the same form.
    """
    interface, module = circuit.interface, circuit.layer.module
    together = all(port.free for port in (*interface.inputs, *interface.outputs))
    count = len(inputs[0]) if inputs else 1
    parts = [slice(None)] if together else [slice(n, n + 1) for n in range(count)]
    rows: list[list[Array]] = []
    for part in parts:
        arrays = [
            shaped(port, x[part]).astype(port.dtype)
            for port, x in zip(interface.inputs, inputs, strict=True)
        ]
        found = run_module(module, arrays)
        rows.append([frames_of(p, y) for p, y in zip(interface.outputs, found, strict=True)])
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def check_circuits(
    circuits: Iterable[LayerCircuit], values: Values, checks: LayerChecks
) -> list[LayerResult]:
    """Check circuits at the same time, in the order of the program.

    Raises:
        BackendError: a simulator refuses a circuit.
    """
    jobs = checks.jobs or os.cpu_count() or 1
    with ThreadPoolExecutor(jobs) as pool:
        running: list[Future[LayerResult]] = []
        for index, circuit in enumerate(circuits):
            samples = values.through(circuit)
            task = pool.submit(check_circuit, circuit, samples, checks, index)
            running.append(task)
        return [task.result() for task in running]


def check_circuit(
    circuit: LayerCircuit, samples: Sequence[Array], checks: LayerChecks, index: int = 0
) -> LayerResult:
    """One layer, simulated and compared.

    Args:
        circuit: of the layer.
        samples: what it takes for samples of the program, int64 [frames, elements] an input.
        checks: how.
        index: of the layer: each has random vectors of its own.

    Raises:
        BackendError: the simulator refuses the circuit.
    """
    start = perf_counter()
    interface, layer = circuit.interface, circuit.layer
    beats = max(interface.beats_in, interface.beats_out)
    most = _CYCLES // (interface.interval + interface.beats_out)
    count = max(2, min(-(-checks.vectors // beats), most))
    inputs = random_inputs(interface, count, [checks.seed, index])
    if checks.with_samples:
        inputs = [np.concatenate(pair) for pair in zip(inputs, samples, strict=True)]
    expected = reference(circuit, inputs)
    run = simulate_words(
        circuit.rtl,
        interface,
        pack(interface.inputs, inputs),
        pack(interface.outputs, expected),
        checks.simulator or _quickest(len(inputs[0]) * interface.interval),
    )
    result = LayerResult(
        layer.name,
        layer.ops,
        len(inputs[0]),
        len(inputs[0]) - count,
        interface.beats_in,
        interface.latency,
        run.engine,
        _difference(circuit, inputs, expected, run, count),
        _complaint(run, len(inputs[0]) * interface.beats_out),
        None,
        round(perf_counter() - start, 3),
    )
    if checks.prove is None:
        return result
    return replace(result, proof=prove_layer(circuit, checks.prove))


def _quickest(cycles: int) -> str | None:
    """The simulator for so many cycles; `None` for the usual one."""
    return "verilator" if cycles > _ICARUS_CYCLES and which("verilator") else None


def _complaint(run: Simulated, wanted: int) -> str | None:
    if len(run.words) < wanted:
        return f"only {len(run.words):,} of {wanted:,} beats came"
    return run.complaints[0] if run.complaints else None


def _difference(
    circuit: LayerCircuit,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    run: Simulated,
    random: int,
) -> Difference | None:
    """The first frame that differs, among those that came out."""
    interface = circuit.interface
    frames = len(run.words) // interface.beats_out
    words = run.words[: frames * interface.beats_out]
    if not words:
        return None
    found = unpack(interface.outputs, [word or 0 for word in words])
    undefined: Array = np.array([w is None for w in words]).reshape(frames, -1).max(axis=1)
    wrong: list[Array] = [
        undefined[:, None] | (y[:frames] != z) for y, z in zip(expected, found, strict=True)
    ]
    differs: Array = np.any([rows.any(axis=1) for rows in wrong], axis=0)
    if not differs.any():
        return None
    vector = int(differs.argmax())
    side = next(index for index, rows in enumerate(wrong) if rows[vector].any())
    port, element = interface.outputs[side], int(wrong[side][vector].argmax())
    corners = {0: "least", 1: "largest"}
    shown = sum(x.shape[1] for x in inputs) <= _SHOWN
    return Difference(
        vector,
        corners.get(vector, "random") if vector < random else "sample",
        port.name,
        tuple(int(n) for n in np.unravel_index(element, port.shape)),
        int(expected[side][vector, element]),
        None if undefined[vector] else int(found[side][vector, element]),
        int(differs.sum()),
        tuple(tuple(x[vector].tolist()) for x in inputs) if shown else (),
    )
