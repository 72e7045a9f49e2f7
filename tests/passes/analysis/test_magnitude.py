"""Bounds of integers, against the worst inputs."""

import numpy as np
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
    i8,
    i32,
)
from xdsl.ir import Block

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.passes.analysis.magnitude import Magnitudes, magnitude


def test_products_are_bounded_tightly() -> None:
    rng = np.random.default_rng(0)
    trits = rng.integers(-1, 2, (6, 4))
    block = Block(arg_types=[TensorType(i8, [DYNAMIC, 6])])
    weight = ternary.ConstantOp(trits.ravel().tolist(), (6, 4))
    product = ternary.LinearOp(block.args[0], weight)
    worst = -128 * np.sign(trits)  # the input that makes each column largest
    np.testing.assert_array_equal(magnitude(product.result), np.abs((worst * trits).sum(0)))


def test_unknown_weights_count_as_nonzero() -> None:
    block = Block(arg_types=[TensorType(i8, [1, 2, 5, 5]), TensorType(ternary.trit, [4, 1, 3, 3])])
    x, w = block.args
    product = ternary.ConvOp(x, w, groups=2)
    assert magnitude(product.result).shape == (4, 1, 1)
    assert magnitude(product.result).max() == 9 * 128


def test_what_follows_a_product() -> None:
    block = Block(arg_types=[TensorType(i8, [DYNAMIC, 3, 4])])
    x = block.args[0]
    wide = tensor.ConvertOp(x, i32)
    assert magnitude(wide.result) == 128
    assert magnitude(tensor.ReduceSumOp(wide, [1, 2]).result) == 128 * 12
    assert magnitude(tensor.ReduceSumOp(wide, [0]).result) == 2.0**31
    assert magnitude(tensor.AddOp(wide, wide).result) == 256
    assert magnitude(tensor.PadToOp(x, [0, 0, 1], [0, 0, 1], -3.0).result) == 128
    assert magnitude(tensor.MulOp(wide, wide).result) == 128 * 128
    assert magnitude(tensor.DivOp(wide, wide).result) == 2.0**31
    known = tensor.ConstantOp(
        DenseIntOrFPElementsAttr.from_list(TensorType(i32, [4]), [-4, 9, 5, 4])
    )
    assert magnitude(tensor.DivOp(wide, known).result) == 32
    assert magnitude(tensor.GatherRowsOp(known, wide).result) == 9


def test_negative_numbers_become_large_unsigned_ones() -> None:
    block = Block(arg_types=[TensorType(ternary.trit, [4])])
    narrow = tensor.ConvertOp(block.args[0], i8)
    assert magnitude(narrow.result) == 1
    unsigned = tensor.ConvertOp(narrow, IntegerType(8, Signedness.UNSIGNED))
    assert magnitude(unsigned.result) >= 255  # -1 as a byte


def test_a_product_with_bounds_hides_what_comes_before_it() -> None:
    block = Block(arg_types=[TensorType(i8, [DYNAMIC, 6])])
    weight = ternary.ConstantOp([1] * 24, (6, 4))
    thresholds = tensor.ConstantOp(
        DenseIntOrFPElementsAttr.from_list(TensorType(i32, [1, 2]), [0, 5])
    )
    counted = ternary.LinearOp(block.args[0], weight, thresholds=thresholds)
    bounds = Magnitudes()
    assert bounds.of(counted.result) == 2
    assert list(bounds.known) == [counted.result]
