"""Folded products give what NumPy gives on 64-bit integers, through random stalls."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_verilog.circuit.folding.channel_functions import (
    Bounded,
    ChannelFunction,
    Staircase,
)
from triton_dsl.lowering.to_verilog.circuit.folding.folded_stage import folded_stage
from triton_dsl.lowering.to_verilog.circuit.folding.product import FoldedProduct, Folding, Product
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.estimate.estimate import estimate

from .stage_bench import modelled, run_stage

Array = NDArray[Any]
CLOCKED = Pacing(clock=400)
pytestmark = pytest.mark.usefixtures("iverilog")


def random_product(rng: np.random.Generator, k: int, n: int, bits: int, after: str) -> Product:
    """A product of inputs of at most so many bits, not all of the same width."""
    matrix = rng.integers(-1, 2, (k, n)).astype(np.int8)
    low = -rng.integers(0, 1 << (bits - 1), k) if bits > 1 else np.zeros(k, np.int64)
    if rng.random() < 0.4:
        low[:] = 0
    high = np.where(low < 0, rng.integers(0, 1 << (bits - 1), k), rng.integers(1, 1 << bits, k))
    inputs = tuple((int(a), int(b)) for a, b in zip(low, high, strict=True))
    return Product(matrix, inputs, random_function(rng, n, after))


def with_weights(product: Product, bits: int, seed: int) -> Product:
    """The product with weights of so many bits; of one, trits."""
    if bits == 1:
        return product
    rng = np.random.default_rng(seed)
    low = 0 if seed % 3 == 0 else -(1 << (bits - 1))
    matrix = rng.integers(low, 1 << (bits - 1), product.shape)
    return Product(matrix, product.inputs, product.function, product.taken)


def random_function(rng: np.random.Generator, n: int, after: str) -> ChannelFunction:
    if after == "bias":
        return Bounded(tuple(rng.integers(-30, 30, n).tolist()))
    if after == "bounded":
        return Bounded(tuple(rng.integers(-30, 30, n).tolist()), -3, 7)
    if after == "relu":
        return Bounded(tuple(rng.integers(-30, 30, n).tolist()), 0)
    steps = int(after)
    rows = [np.sort(rng.integers(-40, 40, rng.integers(0, steps + 1))).tolist() for _ in range(n)]
    signs = rng.choice([1, -1], n).tolist()
    return Staircase(int(rng.integers(-4, 3)), tuple(signs), tuple(tuple(row) for row in rows))


def in_groups(product: Product, groups: int, seed: int) -> Product:
    """The product with its columns in groups, each of inputs of its own, which lie anywhere."""
    k, n = product.shape
    inputs = product.inputs * groups
    places = np.random.default_rng(seed).permutation(k * groups).reshape(groups, k)
    matrix = np.tile(product.matrix, groups)
    function = product.function
    if isinstance(function, Bounded):
        function = Bounded(function.offsets * groups, function.low, function.high)
    else:
        function = Staircase(function.base, function.signs * groups, function.thresholds * groups)
    flips = np.random.default_rng(seed + 1).choice([-1, 1], n * groups)
    return Product((matrix * flips).astype(np.int8), inputs, function, places)


def expected(product: Product, rows: Array) -> Array:
    matrix = np.zeros((len(product.inputs), product.shape[1]), np.int64)
    own = product.shape[1] // product.groups
    for group, places in enumerate(product.places):
        columns = slice(group * own, (group + 1) * own)
        matrix[places, columns] = product.matrix[:, columns]
    sums = rows.astype(np.int64) @ matrix
    function = product.function
    if isinstance(function, Bounded):
        return np.clip(sums + np.array(function.offsets), function.low, function.high)
    found = np.zeros_like(sums)
    for column, (sign, row) in enumerate(zip(function.signs, function.thresholds, strict=True)):
        reached = (sign * sums[:, column, None]) >= np.array(row, np.int64).reshape(1, -1)
        found[:, column] = function.base + reached.sum(1)
    return found


def random_rows(rng: np.random.Generator, product: Product, count: int) -> Array:
    low, high = np.array(product.inputs).T
    rows = rng.integers(low, high + 1, (count, len(low)))
    rows[0], rows[1] = low, high
    return rows


@settings(max_examples=25)
@example(k=1, n=1, pe=1, simd=1, bits=1, weights=1, after="3", keep=True, pacing=Pacing(), seed=0)
@example(k=9, n=5, pe=5, simd=9, bits=3, weights=1, after="7", keep=False, pacing=Pacing(), seed=1)
@example(k=9, n=5, pe=1, simd=9, bits=1, weights=1, after="relu", keep=True, pacing=CLOCKED, seed=2)
@example(k=1, n=1, pe=1, simd=1, bits=1, weights=9, after="1", keep=True, pacing=Pacing(), seed=0)
@example(k=9, n=5, pe=2, simd=3, bits=8, weights=8, after="15", keep=False, pacing=CLOCKED, seed=1)
@given(
    k=st.integers(1, 24),
    n=st.integers(1, 12),
    pe=st.integers(1, 12),
    simd=st.integers(1, 24),
    bits=st.integers(1, 8),
    weights=st.sampled_from([1, 1, 2, 3, 8, 9]),
    after=st.sampled_from(["bias", "bounded", "relu", "0", "1", "3", "6", "15"]),
    keep=st.booleans(),
    pacing=st.sampled_from([Pacing(1), Pacing(2), Pacing(3), Pacing(clock=150), CLOCKED]),
    seed=st.integers(0, 10_000),
)
def test_a_folded_product_is_exact(
    k: int,
    n: int,
    pe: int,
    simd: int,
    bits: int,
    weights: int,
    after: str,
    keep: bool,
    pacing: Pacing,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    product = with_weights(random_product(rng, k, n, bits, after), weights, seed)
    folded = FoldedProduct(product, Folding(min(pe, n), min(simd, k)))
    stage = folded_stage("dut", "test", folded, pacing=pacing, keep_beat=keep)
    rows = random_rows(rng, product, 24)
    with TemporaryDirectory() as folder:
        run = run_stage(stage, rows, folded.cycles, Path(folder), seed + 1)
    assert np.array_equal(run.rows, expected(product, rows))
    assert (np.diff(run.sent()[:11]) == folded.cycles).all()
    assert run.moves == modelled(stage, run.moves)


@settings(max_examples=20)
@example(k=9, own=1, groups=6, pe=4, simd=9, bits=4, after="7", keep=False, seed=0)
@example(k=9, own=1, groups=6, pe=1, simd=4, bits=1, after="relu", keep=True, seed=1)
@example(k=4, own=3, groups=3, pe=2, simd=3, bits=3, after="3", keep=True, seed=2)
@given(
    k=st.integers(1, 9),
    own=st.integers(1, 4),
    groups=st.integers(1, 5),
    pe=st.integers(1, 20),
    simd=st.integers(1, 9),
    bits=st.integers(1, 5),
    after=st.sampled_from(["bias", "bounded", "1", "7"]),
    keep=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_columns_take_the_inputs_of_their_group(
    k: int,
    own: int,
    groups: int,
    pe: int,
    simd: int,
    bits: int,
    after: str,
    keep: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    product = in_groups(random_product(rng, k, own, bits, after), groups, seed)
    pe = min(pe, own * groups)
    folding = Folding(pe if pe <= own else pe // own * own, min(simd, k))
    folded = FoldedProduct(product, folding)
    stage = folded_stage("dut", "test", folded, keep_beat=keep)
    rows = random_rows(rng, product, 24)
    with TemporaryDirectory() as folder:
        run = run_stage(stage, rows, folded.cycles, Path(folder), seed + 1)
    assert np.array_equal(run.rows, expected(product, rows))
    assert (np.diff(run.sent()[:11]) == folded.cycles).all()
    assert run.moves == modelled(stage, run.moves)


def test_some_columns_of_several_groups_are_refused() -> None:
    places = np.arange(8).reshape(2, 4)
    product = Product(np.ones((4, 6), np.int8), ((0, 1),) * 8, Bounded((0,) * 6), places)
    with pytest.raises(OptionError, match=r"pe in \[1, 3\] or a multiple of 3 up to 6"):
        FoldedProduct(product, Folding(4, 1))


@pytest.mark.parametrize(("pe", "simd"), [(0, 1), (1, 0), (4, 1), (1, 6)])
def test_foldings_out_of_range_are_refused(pe: int, simd: int) -> None:
    product = Product(np.ones((5, 3), np.int8), ((0, 1),) * 5, Bounded((0, 0, 0)))
    with pytest.raises(OptionError, match=r"pe in \[1, 3\] and simd in \[1, 5\]"):
        FoldedProduct(product, Folding(pe, simd))


@pytest.mark.parametrize("clock", [100, 200, 300])
@pytest.mark.parametrize(
    ("k", "n", "bits", "after", "pe", "simd"),
    [
        (64, 64, 4, "7", 8, 8),
        (64, 32, 4, "relu", 4, 16),
        (64, 32, 1, "1", 8, 32),
        (128, 32, 8, "15", 4, 16),
        (96, 48, 8, "bias", 8, 16),
    ],
)
def test_the_estimated_clock_is_that_of_the_goal(
    k: int, n: int, bits: int, after: str, pe: int, simd: int, clock: int
) -> None:
    product = random_product(np.random.default_rng(k), k, n, bits, after)
    folded = FoldedProduct(product, Folding(pe, simd))
    stages = [folded_stage("dut", "test", folded, pacing=Pacing(clock=c)) for c in (clock, 300)]
    sizes = [estimate(ModuleOp([*stage.parts, stage.module])) for stage in stages]
    assert max(sizes[0].periods.values()) <= 1000 / clock
    assert sizes[0].total.flip_flops <= sizes[1].total.flip_flops
