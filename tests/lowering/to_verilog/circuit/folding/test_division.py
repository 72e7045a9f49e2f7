"""Staircases as divisions: the same results as counting thresholds, in Python and in a circuit."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from triton_dsl.lowering.to_verilog.circuit.folding.channel_functions import Staircase
from triton_dsl.lowering.to_verilog.circuit.folding.costs import chosen_division
from triton_dsl.lowering.to_verilog.circuit.folding.folded_stage import folded_stage
from triton_dsl.lowering.to_verilog.circuit.folding.product import FoldedProduct, Folding, Product
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.estimate.areas import areas_of
from triton_dsl.passes.requantize.division import division

from .stage_bench import run_stage

RequireTool = Callable[[str, str], str]


def rising(slope: float, offset: float, top: int, steps: int) -> list[int]:
    """The thresholds of a rescaled number between bounds, by looking at every integer.

    Floats would round some products up and others down, which is no rescaling.
    """
    (a, b), (c, d) = float(slope).as_integer_ratio(), float(offset).as_integer_ratio()
    y = np.array([min(max((u * a * d + c * b) // (b * d), 0), steps) for u in range(top + 1)])
    reached = np.searchsorted(y, np.arange(1, steps + 1))
    return [0 if y[0] >= k else int(t) for k, t in enumerate(reached, 1)]


@settings(max_examples=40)
@example(tops=[1], slope=1.0, offset=0.0, steps=1)
@example(tops=[5000, 40], slope=0.05, offset=-3.5, steps=255)
@example(tops=[1, 1, 28], slope=1.0, offset=0.0, steps=36)
@given(
    tops=st.lists(st.integers(1, 5000), min_size=1, max_size=3),
    slope=st.floats(0.001, 2.0),
    offset=st.floats(-300, 300),
    steps=st.integers(1, 255),
)
def test_a_rescaling_is_a_division(
    tops: list[int], slope: float, offset: float, steps: int
) -> None:
    rows = [rising(slope * (1 + n / 7), offset, top, steps) for n, top in enumerate(tops)]
    found = division(rows, tops)
    assert found is not None
    for column, (row, top) in enumerate(zip(rows, tops, strict=True)):
        u = np.arange(top + 1)
        assert np.array_equal(found(u, column), (u[:, None] >= np.array(row)).sum(1))


def test_uneven_thresholds_are_none() -> None:
    assert division([[0, 1, 2, 100, 101, 102, 200]], [300]) is None


@settings(max_examples=12)
@given(
    k=st.integers(2, 10),
    n=st.integers(2, 9),
    pe=st.integers(1, 4),
    steps=st.sampled_from([40, 63, 100, 200, 255]),
    pacing=st.sampled_from([Pacing(1), Pacing(2), Pacing(clock=300)]),
    seed=st.integers(0, 10_000),
)
def test_a_circuit_divides(
    k: int, n: int, pe: int, steps: int, pacing: Pacing, seed: int, require_tool: RequireTool
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-128, 128, (k, n))
    low = np.minimum(matrix, 0).sum(0) * 255
    span = (np.abs(matrix).sum(0) * 255).astype(int)
    rows = [
        [int(least) + t for t in rising(steps * rng.uniform(0.8, 4) / top, -9.3, int(top), steps)]
        for least, top in zip(low, span, strict=True)
    ]
    function = Staircase(-128, (1,) * n, tuple(tuple(row) for row in rows))
    product = Product(matrix, ((0, 255),) * k, function)
    folded = FoldedProduct(product, Folding(min(pe, n), k))
    x = rng.integers(0, 256, (20, k))
    x[0], x[1] = 0, 255
    with TemporaryDirectory() as folder:
        stage = folded_stage("dut", "test", folded, pacing=pacing)
        run = run_stage(stage, x, folded.cycles, Path(folder), seed)
    sums = x @ matrix
    wanted = (sums[:, :, None] >= np.array(rows)[None]).sum(2) - 128
    assert np.array_equal(run.rows, wanted)


def test_many_steps_for_many_columns_are_divided() -> None:
    areas = areas_of("ultrascale+")
    rows = tuple(tuple(rising(255 / 30_000, 0.0, 32_000, 255)) for _ in range(32))
    product = Product(np.full((1, 32), 125), ((0, 255),), Staircase(0, (1,) * 32, rows))
    few = Product(np.full((1, 32), 125), ((0, 255),), Staircase(0, (1,) * 32, ((5, 9),) * 32))
    assert chosen_division(areas, FoldedProduct(product, Folding(1, 1))) is not None
    assert chosen_division(areas, FoldedProduct(few, Folding(1, 1))) is None


@pytest.mark.parametrize("steps", [1, 7])
def test_the_fraction_is_no_longer_than_needed(steps: int) -> None:
    row = [10 * (k + 1) for k in range(steps)]
    found = division([row], [10 * steps + 9])
    assert found is not None and found.fraction == 0
