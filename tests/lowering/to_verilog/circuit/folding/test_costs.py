"""The closed formulas against the estimate of the finished stages, and against found graphs."""

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.to_verilog.circuit.folding.channel_functions import Bounded, Staircase
from triton_dsl.lowering.to_verilog.circuit.folding.costs import (
    folded_cost,
    graph_size,
    serial_cost,
)
from triton_dsl.lowering.to_verilog.circuit.folding.digit_serial import SerialProduct, serial_stage
from triton_dsl.lowering.to_verilog.circuit.folding.folded_stage import folded_stage
from triton_dsl.lowering.to_verilog.circuit.folding.product import FoldedProduct, Folding, Product
from triton_dsl.lowering.to_verilog.circuit.pacing import DEVICE
from triton_dsl.lowering.to_verilog.circuit.stages.stage import Stage
from triton_dsl.lowering.to_verilog.estimate.areas import areas_of
from triton_dsl.lowering.to_verilog.estimate.estimate import Resources, estimate
from triton_dsl.passes.adder_graph import InputRange, optimize_matrix


def product(k: int, n: int, bits: int, steps: int) -> Product:
    rng = np.random.default_rng(k * n)
    matrix = rng.choice([-1, 0, 0, 1], (k, n)).astype(np.int8)
    low = -(1 << (bits - 1)) if bits > 1 else 0
    inputs = ((low, low + (1 << bits) - 1),) * k
    if not steps:
        return Product(matrix, inputs, Bounded((0,) * n))
    ends = Product(matrix, inputs, Bounded((0,) * n)).ends
    rows = tuple(
        tuple(sorted(rng.integers(a // 3, b // 3 + 1, steps).tolist()))
        for a, b in zip(*ends, strict=True)
    )
    return Product(matrix, inputs, Staircase(0, (1,) * n, rows))


def size(stage: Stage) -> Resources:
    return estimate(ModuleOp([*stage.parts, stage.module])).total


@pytest.mark.parametrize(
    ("k", "n", "bits", "steps", "pe", "simd"),
    [
        (64, 64, 4, 7, 8, 8),
        (64, 64, 4, 7, 2, 4),
        (64, 64, 4, 0, 4, 16),
        (64, 64, 1, 1, 8, 32),
        (64, 32, 8, 15, 4, 8),
        (196, 16, 2, 3, 4, 14),
    ],
)
def test_a_folded_product_takes_what_the_formula_says(
    k: int, n: int, bits: int, steps: int, pe: int, simd: int
) -> None:
    folded = FoldedProduct(product(k, n, bits, steps), Folding(pe, simd))
    cost = folded_cost(areas_of(DEVICE), folded)
    found = size(folded_stage("dut", "test", folded))
    assert cost.luts == pytest.approx(found.luts, rel=0.25)
    assert cost.flip_flops == pytest.approx(found.flip_flops, rel=0.25)


@pytest.mark.parametrize(("digit", "steps"), [(1, 0), (2, 0), (1, 7), (2, 7)])
def test_a_digit_serial_product_takes_what_the_formula_says(digit: int, steps: int) -> None:
    own = product(64, 32, 4, steps)
    graph = optimize_matrix(own.matrix, cost="adders", time_budget=0.01)
    serial = SerialProduct(own, graph, digit)
    cost = serial_cost(areas_of(DEVICE), own, digit, serial.cycles)
    found = size(serial_stage("dut", "test", serial))
    assert cost.luts == pytest.approx(found.luts, rel=0.3)
    assert cost.flip_flops == pytest.approx(found.flip_flops, rel=0.3)


@pytest.mark.parametrize(("k", "n", "zeros"), [(64, 64, 0.5), (160, 32, 0.5), (128, 64, 0.75)])
def test_the_size_of_a_graph_is_foreseen(k: int, n: int, zeros: float) -> None:
    rng = np.random.default_rng(k)
    ends = (1 - zeros) / 2
    matrix = rng.choice([-1, 0, 1], (k, n), p=[ends, zeros, ends]).astype(np.int8)
    inputs = InputRange(-8, 7)
    found = optimize_matrix(matrix, cost="bits", time_budget=0.01, inputs=inputs)
    adders, bits = graph_size(matrix, 4)
    assert adders == pytest.approx(found.adders, rel=0.2)
    assert bits == pytest.approx(found.bits(inputs), rel=0.25)


@pytest.mark.parametrize("matrix", [np.zeros((3, 2)), np.eye(4), np.ones((1, 5)), np.ones((5, 1))])
def test_small_graphs(matrix: NDArray[np.float64]) -> None:
    adders, _ = graph_size(matrix.astype(np.int8), 4)
    assert adders == (4 if matrix.shape == (5, 1) else 0)
