"""Circuits of spiking networks give what the interpreter gives, spike for spike.

The test benches send samples one right after the other, and let sender and receiver wait at random
in the second half of them; so the state that one sample leaves must not reach the next.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.tools.verilog import run_verilog

from .trains import TrainProgram

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
OPTIONS = {"time_budget": 0.001, "vectors": 2}


def checked(
    program: Program, written: TrainProgram, simulator: str = "iverilog", **options: Any
) -> dict[str, Any]:
    """The report of a program's circuit, whose results are those of the interpreter."""
    module = program(written.text(), written.values)
    x = written.inputs(8)
    expected = run_module(module, [x])
    artifact = compile_to_target(module, "verilog", {**OPTIONS, **options})
    _, actual = run_verilog(artifact, [x], simulator)
    for found, wanted in zip(actual, expected, strict=True):
        assert found.dtype == wanted.dtype
        if wanted.dtype == np.float32:  # counts, divided by T in the program
            np.testing.assert_allclose(found, wanted, rtol=1.2e-7)
        else:
            assert np.array_equal(found, wanted)
    return json.loads(artifact.text("report.json"))


MODELS = st.tuples(
    st.one_of(st.none(), st.integers(0, 8)),
    st.sampled_from(["subtract", "to_value", "none"]),
    st.sampled_from(["ge", "gt"]),
    st.booleans(),
)


@settings(max_examples=40)
@given(
    steps=st.integers(1, 12),
    size=st.integers(1, 8),
    layers=st.lists(
        st.tuples(
            st.integers(1, 8), st.sampled_from(["i8", "!ternary.trit"]), st.booleans(), MODELS
        ),
        min_size=1,
        max_size=2,
    ),
    late=st.integers(0, 4),
    readout=st.sampled_from(["train", "count", "rate", "last", "membrane"]),
    pipeline=st.integers(0, 2),
    seed=st.integers(0, 1000),
)
def test_small_networks(
    iverilog: str,
    program: Program,
    steps: int,
    size: int,
    layers: list[tuple[int, str, bool, tuple[int | None, str, str, bool]]],
    late: int,
    readout: str,
    pipeline: int,
    seed: int,
) -> None:
    written = TrainProgram(seed, steps, size)
    for index, (outputs, weights, bias, (decay, reset, compare, each)) in enumerate(layers):
        written.linear(outputs, weights, bias=bias)
        last = index == len(layers) - 1
        membrane = last and readout == "membrane"
        written.neurons(decay, reset, compare, each=each, membrane=membrane)
        if late and not last:
            written.delay(late)
    written.result(readout)
    report = checked(program, written, pipeline=pipeline)
    beats = steps if readout == "train" else 1
    assert (report["beats_in"], report["beats_out"]) == (steps, beats)
    assert report["initiation_interval"] == steps


def test_a_step_goes_in_every_cycle(iverilog: str, program: Program) -> None:
    written = TrainProgram(0, 5, 6)
    written.linear(4, "!ternary.trit", bias=False)
    written.neurons(7, "subtract", "ge", each=True)
    written.linear(3, "!ternary.trit", bias=True)
    written.neurons(None, "to_value", "gt", each=True, membrane=True)
    for kind in ("train", "count", "membrane"):
        written.result(kind)
    report = checked(program, written)
    assert report["initiation_interval"] == report["beats_in"] == 5
    names = {layer["name"] for layer in report["layers"]}
    assert {"fc1", "fc3"} <= names


def test_verilator_agrees(require_tool: Callable[[str, str], str], program: Program) -> None:
    require_tool("verilator", "apt-get install verilator")
    written = TrainProgram(3, 7, 5)
    written.linear(6, "i8", bias=True)
    written.neurons(6, "subtract", "ge", each=True)
    written.result("train")
    checked(program, written, "verilator")
