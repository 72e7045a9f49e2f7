"""Each layer of a circuit against the reference interpreter: what `triton verify --layers` runs.

Every layer is simulated as a circuit of its own on random vectors within the bounds that interval
analysis states, and on the values that samples of the program give; the whole circuit comes last
(`whole_circuit`). Not here: the circuits (`to_verilog.layer_circuits`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from shutil import which
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..dialects.interpret import run_module
from ..ir.arrays import Array
from ..ir.errors import BackendError, OptionError
from ..lowering.options import parse_target_spec
from ..lowering.targets import get_target, read_options
from ..lowering.to_verilog.circuit.interface import Port
from ..lowering.to_verilog.host.circuit_driver import dequantized, frames_of, quantized
from ..lowering.to_verilog.layer_circuits import LayerCircuit, LayerCircuits
from ..lowering.to_verilog.options import VerilogOptions
from ..lowering.to_verilog.testbench import golden, random_inputs
from ..runtime.verilog import SIMULATORS
from ..runtime.verilog_equivalence import check_provers
from .circuit_comparison import compared
from .layer_proofs import prove_layer
from .layer_results import LayerChecks, LayerReport, LayerResult
from .verify import compare, is_integer_program
from .whole_circuit import WHOLE, check_whole

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


_CYCLES = 100_000_000
"""The most cycles of a simulation, some minutes of a small circuit."""


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
    settings = checks or LayerChecks()
    if settings.simulator is None and not any(map(which, SIMULATORS)):
        raise BackendError(
            "a Verilog simulator is missing: install iverilog or verilator, on Debian "
            "'apt-get install iverilog'"
        )
    if settings.prove is not None:
        check_provers()
    layer_circuits = LayerCircuits(module, options or VerilogOptions())
    values = Values(layer_circuits, samples)

    def circuits() -> Iterable[LayerCircuit]:
        for circuit in layer_circuits:
            on_layer(circuit.layer.name, len(layer_circuits.layers))
            yield circuit

    results = check_circuits(circuits(), values, settings)
    chain = values.agree_with(module, layer_circuits.results)
    on_layer(WHOLE, len(layer_circuits.layers) + 1)
    whole = check_whole(module, samples, options or VerilogOptions(), settings)
    return LayerReport(tuple(results), chain, values.samples, whole)


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
            self._frames[number] = frames_of(port.record, quantized(port.record, x))

    @property
    def samples(self) -> int:
        """How many there are."""
        return len(self._frames[0]) if self._frames else 1

    def through(self, circuit: LayerCircuit) -> list[Array]:
        """What a layer takes, int64 [frames, elements], one array an input.

        Layers come in the order of the program.
        """
        layer = circuit.layer
        inputs = [self._frames[number] for number in layer.takes]
        outputs = golden(layer.module, circuit.interface, inputs)
        self._ports |= dict(zip(layer.gives, circuit.interface.outputs, strict=True))
        self._frames |= dict(zip(layer.gives, outputs, strict=True))
        return inputs

    def agree_with(self, module: ModuleOp, results: Sequence[int]) -> bool:
        """Whether the last values are what the whole program gives for the samples.

        Bit for bit, or within the tolerances of `verify` for a program of floats.
        """
        expected = run_module(module, self._samples)
        outputs = [dequantized(self._ports[n].record, self._frames[n]) for n in results]
        exact = is_integer_program(module)
        return compare("layers", "interpreter", expected, outputs, exact, 0).agrees


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
    comparison = compared(
        circuit.rtl,
        interface,
        inputs,
        golden(layer.module, interface, inputs),
        count,
        checks.simulator,
    )
    result = LayerResult(
        layer.name,
        layer.ops,
        len(inputs[0]),
        len(inputs[0]) - count,
        interface.beats_in,
        interface.latency,
        comparison.engine,
        comparison.difference,
        comparison.complaint,
        None,
        round(perf_counter() - start, 3),
    )
    if checks.prove is None:
        return result
    return replace(result, proof=prove_layer(circuit, checks.prove))
