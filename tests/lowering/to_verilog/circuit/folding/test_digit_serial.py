"""Digit-serial adder graphs give what NumPy gives on 64-bit integers, through random stalls."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_verilog.circuit.folding.channel_functions import Bounded
from triton_dsl.lowering.to_verilog.circuit.folding.digit_serial import (
    SerialProduct,
    serial_stage,
    serial_width,
)
from triton_dsl.lowering.to_verilog.circuit.folding.product import Product
from triton_dsl.passes.adder_graph import optimize_matrix

from .stage_bench import modelled, run_stage
from .test_folded_stage import expected, random_product, random_rows

pytestmark = pytest.mark.usefixtures("iverilog")


def serial_product(product: Product, digit: int) -> SerialProduct:
    graph = optimize_matrix(product.matrix, time_budget=0.001)
    widest = serial_width(product)
    return SerialProduct(product, graph, min(digit, widest))


@settings(max_examples=25)
@example(k=1, n=1, digit=1, bits=1, after="none", keep=True, seed=0)
@example(k=5, n=4, digit=20, bits=2, after="7", keep=False, seed=3)
@given(
    k=st.integers(1, 20),
    n=st.integers(1, 10),
    digit=st.integers(1, 6),
    bits=st.integers(1, 8),
    after=st.sampled_from(["none", "0", "1", "3", "6", "15"]),
    keep=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_a_digit_serial_product_is_exact(
    k: int, n: int, digit: int, bits: int, after: str, keep: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_product(rng, k, n, bits, "0" if after == "none" else after)
    function = Bounded((0,) * n) if after == "none" else drawn.function
    product = Product(drawn.matrix, drawn.inputs, function)
    serial = serial_product(product, digit)
    stage = serial_stage("dut", "test", serial, keep_beat=keep)
    rows = random_rows(rng, product, 24)
    with TemporaryDirectory() as folder:
        run = run_stage(stage, rows, serial.cycles, Path(folder), seed + 1)
    assert np.array_equal(run.rows, expected(product, rows))
    assert (np.diff(run.sent()[:11]) == serial.cycles).all()
    assert run.moves == modelled(stage, run.moves)


@pytest.mark.parametrize("digit", [0, 9])
def test_digits_out_of_range_are_refused(digit: int) -> None:
    product = Product(np.ones((5, 3), np.int8), ((-4, 3),) * 5, Bounded((0, 0, 0)))
    graph = optimize_matrix(product.matrix, time_budget=0.001)
    with pytest.raises(OptionError, match=r"digits of 1 to 6 bits"):
        SerialProduct(product, graph, digit)
