"""`merge-rescaling`, proven for all inputs of products of int8 with known weights.

The bit-vector query for two products with numbers of 31 bits is beyond the solver, so that the
proofs are others. All pairs of int8 are run, which with the weights 1 and 256 are all accumulators
of 16 bits. And two functions of whole numbers are the same where they reach each level at the same
numbers: a query of linear arithmetic for each level, for accumulators of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i1, i8, i16, i32
from xdsl.ir import SSAValue

from triton_dsl.dialects import tensor
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.passes.requantize.merge_rescaling import MergeRescalingPass

from .equivalence import all_values, changed, enumerate_all, prove_by_levels
from .programs import program, tensor_of
from .rewrites import proves, rewrites_of

CHANNELS = 2
LEAST, MOST = -(2**31), 2**31 - 1
BYTE = range(-128, 128)
PAIRS = all_values(BYTE, BYTE).reshape(-1, 1, 2)

ui8 = IntegerType(8, Signedness.UNSIGNED)

Step = Callable[[Any, SSAValue], SSAValue]


def known(insert: Any, numbers: Any, element: Any = i32) -> SSAValue:
    """A constant: one number, or one a channel."""
    return insert(dense_constant(np.asarray(numbers), element))


def rescaled(
    multiplier: Any, shift: Any, low: int = LEAST, high: int = MOST, zero: int = 0, to: Any = i32
) -> Step:
    def step(insert: Any, x: SSAValue) -> SSAValue:
        operands = known(insert, multiplier), known(insert, shift), known(insert, zero, to)
        return insert(tensor.RequantizeOp(x, *operands, low=low, high=high))

    return step


def with_number(kind: Any, number: Any, *, left: bool = False, element: Any = i32) -> Step:
    def step(insert: Any, x: SSAValue) -> SSAValue:
        other = known(insert, number, element)
        return insert(kind(other, x) if left else kind(x, other))

    return step


def plain(kind: Any, *options: Any, **named: Any) -> Step:
    return lambda insert, x: insert(kind(x, *options, **named))


def truth(predicate: str, number: int, element: Any = i32) -> Step:
    """Whether a comparison holds, as a number."""

    def step(insert: Any, x: SSAValue) -> SSAValue:
        holds = insert(tensor.CompareOp(x, known(insert, number, element), predicate))
        return insert(tensor.ConvertOp(holds, i32))

    return step


def nothing(insert: Any, x: SSAValue) -> SSAValue:
    return x


def chain(*steps: Step) -> Step:
    def step(insert: Any, x: SSAValue) -> SSAValue:
        for each in steps:
            x = each(insert, x)
        return x

    return step


def on_sums(body: Step, matrix: Any = ((1, 3), (256, -200))) -> ModuleOp:
    """`body` on sums of int8 with known weights, i32 [?, channels]."""

    def whole(insert: Any, x: SSAValue) -> SSAValue:
        wide = insert(tensor.ConvertOp(x, i32))
        return body(insert, insert(tensor.LinearOp(wide, known(insert, matrix))))

    return program([tensor_of(i8, [-1, len(matrix)])], whole)


def merged(before: ModuleOp) -> ModuleOp | None:
    """The module after the pass; `None` if it left it as it is."""
    after = changed(before, lambda m: MergeRescalingPass().apply(Context(), m))
    return None if str(after) == str(before) else after


FIRST: list[Step] = [
    nothing,
    with_number(tensor.AddOp, [1000, -77]),
    with_number(tensor.SubOp, [-5, 30000]),
    with_number(tensor.SubOp, 100, left=True),
    with_number(tensor.MulOp, [3, 5], left=True),
    with_number(tensor.MulOp, [7, -2]),
    plain(tensor.NegOp),
    plain(tensor.ReluOp),
    with_number(tensor.MaximumOp, -900),
    with_number(tensor.MinimumOp, [800, 90]),
    plain(tensor.ClampOp, min=-3000.0, max=20000.0),
    # Sums and products that may wrap around.
    with_number(tensor.AddOp, [MOST - 30000, 7]),
    with_number(tensor.MulOp, [1 << 16, 1 << 24]),
]

RESCALINGS: list[Step] = [
    rescaled([1359514674, 1510897544], [40, 39]),
    rescaled([1359514674, -1510897544], [41, 41], -100, 90, 5),
    rescaled(3, 9),
    rescaled(-5, 10, -40, 127),
]

LAST: list[Step] = [
    plain(tensor.ReluOp),
    plain(tensor.Relu6Op),
    plain(tensor.SignOp),
    with_number(tensor.AddOp, [9, -9]),
    with_number(tensor.SubOp, 50, left=True),
    with_number(tensor.MulOp, [2, -3]),
    chain(plain(tensor.NegOp), with_number(tensor.MinimumOp, [20, 3])),
    chain(plain(tensor.ClampOp, min=-20.0, max=100.0), plain(tensor.ConvertOp, i8)),
    chain(plain(tensor.ClampOp, min=0.0, max=200.0), plain(tensor.ConvertOp, ui8)),
    chain(with_number(tensor.MaximumOp, 3), plain(tensor.ConvertOp, i16)),
    truth("lt", 7),
    truth("ge", 0),
    chain(truth("gt", 0), with_number(tensor.MulOp, 5), rescaled(1, 1)),
    chain(rescaled(1, 3, -128, 127, -10, i8), plain(tensor.ConvertOp, i32)),
    # Conversions that lose bits, or the sign.
    plain(tensor.ConvertOp, i8),
    chain(plain(tensor.ConvertOp, i8), with_number(tensor.AddOp, 100, element=i8)),
    chain(plain(tensor.ConvertOp, ui8), plain(tensor.ConvertOp, i32)),
    chain(plain(tensor.ConvertOp, i1), plain(tensor.ConvertOp, i32)),
    lambda insert, x: insert(tensor.CompareOp(x, known(insert, 7), "le")),
]


def programs(rescalings: list[Step], few: bool) -> Iterator[ModuleOp]:
    pairs = list(product(FIRST, LAST))
    for at, (first, last) in enumerate(pairs[::2] if few else pairs):
        for step in [rescalings[at % len(rescalings)]] if few else rescalings:
            yield on_sums(chain(first, step, last))


def proven(family: Iterator[ModuleOp], least: int) -> None:
    """Run all pairs through each program that the pass changes; each kind of op must be in some."""
    kinds: set[str] = set()
    count = 0
    for before in family:
        after = merged(before)
        if after is not None:
            enumerate_all(before, after, [PAIRS])
            kinds |= {op.name for op in before.walk()}
            count += 1
    assert count >= least
    assert {name.rpartition(": ")[2] for name in rewrites_of("merge-rescaling")} <= kinds


@proves(rewrites_of("merge-rescaling"), by="enumeration and SMT")
def test_chains_of_all_steps() -> None:
    proven(programs(RESCALINGS, few=True), 40)


@pytest.mark.slow
def test_all_chains() -> None:
    proven(programs(RESCALINGS, few=False), 300)


def gemmlowp(multipliers: Any, exponents: Any, zero: int, bits: int = 8) -> Step:
    """Two roundings, the second with halves away from zero, bounds and a zero point."""
    half = 1 << (bits - 1)

    def step(insert: Any, x: SSAValue) -> SSAValue:
        high = rescaled(multipliers, [31] * len(multipliers))(insert, x)
        below = insert(tensor.CompareOp(high, known(insert, 0), "lt"))
        nudged = insert(tensor.SubOp(high, insert(tensor.ConvertOp(below, i32))))
        ones = [1] * len(multipliers)
        q = rescaled(ones, exponents, -half, half - 1, zero, i8)(insert, nudged)
        wide = insert(tensor.ConvertOp(q, i32))
        return insert(tensor.SubOp(wide, known(insert, zero)))

    return step


@pytest.mark.parametrize("m", [[1359514674, 1510897544], [1359514674, -1510897544]], ids=str)
@pytest.mark.parametrize("e", [[5, 7], [6, 6], [6, 8]], ids=str)
def test_two_roundings(m: list[int], e: list[int]) -> None:
    before = on_sums(gemmlowp(m, e, -128))
    after = merged(before)
    assert after is not None
    enumerate_all(before, after, [PAIRS])


@pytest.mark.parametrize("m", [1359514674, -1510897544])
def test_two_roundings_of_large_accumulators(m: int) -> None:
    """Sums of up to 22 bits in 16 levels, level by level."""
    before = on_sums(gemmlowp([m], [14], -8, bits=4), [[32000], [-7]])
    after = merged(before)
    assert after is not None
    prove_by_levels(before, after, range(-16, 33))


@pytest.mark.slow
def test_two_roundings_of_all_accumulators_of_24_bits() -> None:
    before = on_sums(gemmlowp([1359514674], [16], -128), [[1], [256], [65536]])
    after = merged(before)
    assert after is not None
    for first in BYTE:
        cases = all_values(BYTE, BYTE, [first]).reshape(-1, 1, 3)
        enumerate_all(before, after, [cases])
