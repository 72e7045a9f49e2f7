"""Registers by levels or by a clock: what fits between two of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import seq

from triton_dsl.dialects.shapes import bit_width
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.circuit.products import graph_row
from triton_dsl.lowering.to_verilog.circuit.signals import Signal
from triton_dsl.lowering.to_verilog.estimate.families import delay
from triton_dsl.passes.adder_graph import InputRange, optimize_matrix

Bench = Callable[..., Any]


def product(bench: Bench, pacing: Pacing, seed: int, bits: int = 4) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-1, 2, (int(rng.integers(2, 12)), 6)).astype(np.int8)
    inputs = InputRange.of_bits(bits)
    graph = optimize_matrix(matrix, inputs=inputs, time_budget=0.001)
    under = bench([(inputs.low, inputs.high)] * len(matrix), pacing)
    signals = graph_row(under.circuit, graph, [Signal(wire) for wire in under.wires], exact=True)
    return under, matrix, signals


PACINGS = [Pacing(0), Pacing(1), Pacing(2), Pacing(3), Pacing(clock=400.0), Pacing(clock=900.0)]


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(PACINGS), st.integers(0, 1000))
def test_products_are_exact_at_every_pace(bench: Bench, pacing: Pacing, seed: int) -> None:
    under, matrix, signals = product(bench, pacing, seed)
    rng = np.random.default_rng(seed)
    for x in (*rng.integers(-8, 8, (3, len(matrix))), np.full(len(matrix), -8)):
        found = [under.number(signal, x.tolist()) for signal in signals]
        assert found == (x @ matrix.astype(np.int64)).tolist()


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000))
def test_bounds_of_products_are_reached(bench: Bench, seed: int) -> None:
    """So no width is larger than it must be."""
    under, matrix, signals = product(bench, Pacing(1), seed, bits=3)
    for column, signal in zip(matrix.T.astype(np.int64), signals, strict=True):
        ends = [np.where(column * side > 0, 3, -4) for side in (-1, 1)]
        least, most = (int(x @ column) for x in ends)
        assert signal.bounds == (least, most)
        assert [under.number(signal, x.tolist()) for x in ends] == [least, most]


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(["ultrascale+", "7-series", "ecp5", "ice40-hx"]), st.integers(0, 1000))
def test_no_path_is_longer_than_the_period(bench: Bench, device: str, seed: int) -> None:
    around = delay(device, "register") + delay(device, "net")
    slowest = 1000 / (around + max(delay(device, "add", width) for width in range(1, 10)))
    for clock in (slowest / 3, slowest / 2, slowest * 0.99):
        pacing = Pacing(clock=clock, device=device)
        _, _, signals = product(bench, pacing, seed)
        for signal in signals:
            level = 0 if signal.wire is None else signal.wire.level
            assert level + delay(device, "register") <= 1000 / clock + 1e-6


def test_a_slower_clock_takes_fewer_registers(bench: Bench) -> None:
    bits: list[int] = []
    for clock in (900.0, 400.0, 200.0, 1.0):
        ops = product(bench, Pacing(clock=clock), 3)[0].circuit.block.ops
        registers = [op.data.type for op in ops if isinstance(op, seq.CompRegOp)]
        bits.append(sum(bit_width(type) or 0 for type in registers))
    assert bits == sorted(bits, reverse=True) and bits[0] > bits[-1] == 0


def test_a_clock_that_no_adder_keeps_is_refused() -> None:
    pacing = Pacing(clock=400.0, device="ice40-hx")
    with pytest.raises(OptionError, match=r"clock=400 is too fast for ice40-hx: one 'add' of 12"):
        pacing.cost("add", 12)
    with pytest.raises(OptionError, match="no delays are known for 'fpga'"):
        assert Pacing(device="fpga").lut_inputs
