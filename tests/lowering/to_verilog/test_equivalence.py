"""Yosys proves small circuits equal to plain sums of products, for every input.

What the plain form means is checked in `test_plain`, against NumPy.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import comb, seq
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.to_verilog.layer_circuits import LayerCircuit, LayerCircuits
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.tools.layer_proofs import Time, is_pipeline, prove_layer

from .test_verilog_target import network, random_values

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

SECONDS = 300.0


def random_network(
    sizes: list[int], bits: int, change: Callable[[dict[str, Array]], None] = lambda values: None
) -> dict[str, Array]:
    """Values of few bits, for the proof's sake."""
    rng = np.random.default_rng(sum(sizes) + bits)
    values = random_values(rng, sizes)
    for i, n in enumerate(sizes[1:]):
        values[f"s{i}"] = rng.integers(2, 9, n)
        values[f"m{i}"] = (2.0 ** values[f"s{i}"] * rng.uniform(-0.7, 0.7, n)).astype(np.int64)
    change(values)
    return values


def circuits(
    program: Program,
    sizes: list[int],
    after: str,
    source: str = "i8",
    bits: int = 3,
    *,
    whole: bool = True,
    change: Callable[[dict[str, Array]], None] = lambda values: None,
    **options: Any,
) -> list[LayerCircuit]:
    """The circuits of a network's layers, or of all of it as one."""
    module = program(network(sizes, source, after, False), random_network(sizes, bits, change))
    given = VerilogOptions(input_bits=bits, time_budget=0.02, **options)
    return list(LayerCircuits(module, given, whole=whole))


def proved(circuit: LayerCircuit, time: Time = "function") -> bool | None:
    return prove_layer(circuit, SECONDS, time).equal


@pytest.fixture(autouse=True)
def tools(require_tool: RequireTool) -> None:
    require_tool("yosys", "apt-get install yosys")
    require_tool("yosys-abc", "apt-get install yosys")


@pytest.mark.parametrize(
    ("sizes", "after", "source", "bits"),
    [
        ([4, 3], "none", "i8", 4),
        pytest.param([16, 8], "relu", "ui8", 1, marks=pytest.mark.slow),
        pytest.param([12, 6], "relu", "i8", 2, marks=pytest.mark.slow),
        ([6, 4, 3], "thresholds", "i8", 3),
        ([6, 4, 3], "relu thresholds", "ui8", 2),
        ([6, 4, 3], "none", "i8", 2),
    ],
)
def test_shared_sums_are_plain_sums(
    program: Program, sizes: list[int], after: str, source: str, bits: int
) -> None:
    (circuit,) = circuits(program, sizes, after, source, bits, pipeline=0)
    assert proved(circuit)


@pytest.mark.parametrize(
    ("sizes", "after", "pipeline"),
    [([6, 4, 3], "thresholds", 1), ([6, 4, 3], "none", 2), ([5, 4], "relu", 1)],
)
def test_pipelines_are_plain_sums_some_cycles_later(
    program: Program, sizes: list[int], after: str, pipeline: int
) -> None:
    (circuit,) = circuits(program, sizes, after, bits=2, pipeline=pipeline)
    assert proved(circuit, "cycles") and proved(circuit)


@pytest.mark.slow
def test_a_pipeline_is_right_for_ever(program: Program) -> None:
    (circuit,) = circuits(program, [4, 3], "none", bits=2)
    assert proved(circuit, "for ever")


def test_each_layer_is_proved_within_its_bounds(program: Program) -> None:
    """Inputs of the second layer fill no power of two: others do not occur."""

    def change(values: dict[str, Array]) -> None:
        values["t0"] = np.tile([-3, -1, 0, 1, 2], (4, 1)) + values["fc1.bias"][:, None]

    sizes = [5, 4, 3]
    first, second = circuits(program, sizes, "thresholds", bits=2, whole=False, change=change)
    assert proved(first) and proved(second)
    (port,) = second.interface.inputs
    counts = [high - low + 1 for low, high in zip(port.low, port.high, strict=True)]
    assert any(count & (count - 1) for count in counts)


@pytest.mark.parametrize("key", ["fc1.weight", "fc2.bias", "t0", "m0"])
@pytest.mark.parametrize(("pipeline", "time"), [(0, "function"), (1, "function"), (1, "cycles")])
def test_another_number_is_another_circuit(
    program: Program, key: str, pipeline: int, time: Time
) -> None:
    def change(values: dict[str, Array]) -> None:
        array = values[key].copy()
        if key == "t0":
            array[:] = 0
        else:
            array.flat[0] += {"fc1.weight": -1 if array.flat[0] > 0 else 1, "m0": 90}.get(key, 1)
        values[key] = array

    after = "thresholds" if key == "t0" else "none"
    sizes = [4, 3, 2]
    (circuit,) = circuits(program, sizes, after, bits=2, pipeline=pipeline)
    (other,) = circuits(program, sizes, after, bits=2, pipeline=pipeline, change=change)
    found = prove_layer(replace(circuit, layer=other.layer), SECONDS, time)
    assert found.equal is False and str(found).startswith("REFUTED in")


def test_what_is_large_or_no_arithmetic_is_left_alone(program: Program) -> None:
    (circuit,) = circuits(program, [64, 48], "none", bits=4)
    found = prove_layer(circuit, SECONDS)
    assert found.equal is None and str(found).startswith("too large: ")
    assert found.seconds == 0


@pytest.mark.slow
def test_time_that_is_over_leaves_a_proof_open(program: Program) -> None:
    (circuit,) = circuits(program, [24, 10], "none", bits=4)
    found = prove_layer(circuit, 5)
    assert found.equal is None and str(found) == "undecided in 5 s"
    assert found.seconds < 120


@pytest.mark.parametrize("pipeline", [1, 2])
def test_a_pipeline_without_one_register_is_none(program: Program, pipeline: int) -> None:
    (circuit,) = circuits(program, [6, 4, 3], "thresholds", bits=2, pipeline=pipeline)
    name, latency = circuit.interface.name, circuit.interface.latency
    assert is_pipeline(circuit.hardware, name, latency)
    assert not is_pipeline(circuit.hardware, name, latency + 1)
    registers = [op for op in circuit.hardware.walk() if isinstance(op, seq.CompRegOp)]
    register = registers[len(registers) // 2]
    kept = register.input.owner
    assert isinstance(kept, comb.MuxOp)
    register.data.replace_uses_with_if(kept.true_value, lambda use: use.operation is not kept)
    assert not is_pipeline(circuit.hardware, name, latency)
