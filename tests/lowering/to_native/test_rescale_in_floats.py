"""Sums of trits that floats round, against exact integers in NumPy and Python's fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.rescale_in_floats import RescaleInFloatsPass, fitting_line

PROGRAM = """
func.func @forward(%x: tensor<?x{ins}x6x5xi8>) -> tensor<?x24x6x5xi8> {{
  %w = ternary.parameter "w" : tensor<24x{each}x3x3x!ternary.trit>
  %m = tensor.parameter "m" buffer : tensor<24xi32>
  %s = tensor.parameter "s" buffer : tensor<24xi32>
  %z = tensor.constant dense<0> : tensor<i32>
  %a = ternary.conv %x, %w multiplier(%m : tensor<24xi32>) shift(%s : tensor<24xi32>)
       zero_point(%z : tensor<i32>) {{low = -2147483647 : i64, high = 2147483647 : i64,
       strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>,
       groups = {groups} : i64}}
       : tensor<?x{ins}x6x5xi8>, tensor<24x{each}x3x3x!ternary.trit> -> tensor<?x24x6x5xi32>
  %c = tensor.parameter "c" buffer : tensor<24x1x1xi32>
  %b = tensor.add %a, %c : (tensor<?x24x6x5xi32>, tensor<24x1x1xi32>) -> tensor<?x24x6x5xi32>
  %one = tensor.constant dense<1> : tensor<i32>
  %n = tensor.constant dense<16> : tensor<i32>
  %o = tensor.constant dense<{zero}> : tensor<i8>
  %y = tensor.requantize %b, %one, %n, %o
       : (tensor<?x24x6x5xi32>, tensor<i32>, tensor<i32>, tensor<i8>) -> tensor<?x24x6x5xi8>
  func.return %y : tensor<?x24x6x5xi8>
}}
"""


def rescaled(x: Any, multiplier: Any, shift: Any, zero: Any, low: int, high: int) -> Any:
    """`tensor.requantize`, on Python's integers."""
    half = 1 << (shift - 1)
    return np.clip(((x * multiplier + half) >> shift) + zero, low, high)


@pytest.mark.parametrize(
    ("native", "ins", "groups", "zero"),
    [
        *((native, *kind) for native in ({}, None) for kind in ((24, 24, -128), (16, 1, -128))),
        ({"recipe": "avx2"}, 24, 24, 3),
        ({"recipe": "generic"}, 8, 1, 3),
    ],
)
def test_convolutions(native: dict[str, str] | None, ins: int, groups: int, zero: int) -> None:
    rng = np.random.default_rng(ins)
    each = ins // groups
    module = parse_module(PROGRAM.format(ins=ins, each=each, groups=groups, zero=zero))
    trits = rng.integers(-1, 2, (24, each, 3, 3)).astype(np.int8)
    trits[5] = 0
    multipliers = rng.integers(1 << 29, 1 << 31, 24).astype(np.int32)
    multipliers[[3, 8]] *= -1
    shifts = np.full(24, 16, np.int32) - rng.integers(0, 2, 24).astype(np.int32)
    biases = rng.integers(-(1 << 22), 1 << 22, (24, 1, 1)).astype(np.int32)
    known = {"w": pack_trits(trits), "m": multipliers, "s": shifts, "c": biases}
    attach_store(module, ParameterStore.of(known))
    x = rng.integers(-128, 128, (3, ins, 6, 5)).astype(np.int8)
    padded = np.pad(x.astype(np.int64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    if groups == 1:
        sums = np.einsum("nchwij,ocij->nohw", windows, trits.astype(np.int64))
    else:
        sums = np.einsum("nchwij,cij->nchw", windows, trits[:, 0].astype(np.int64))
    factor, shift = (v.astype(object)[:, None, None] for v in (multipliers, shifts))
    most = (1 << 31) - 1
    fine = rescaled(sums.astype(object), factor, shift, 0, -most, most) + biases
    expected = rescaled(fine, 1, 16, zero, -128, 127).astype(np.int8)
    if native is not None:
        np.testing.assert_array_equal(native_program(module, native)(x), expected)
        return
    RescaleInFloatsPass().apply(Context(), module)
    verify_module(module)
    kinds = {type(op) for op in module.walk()}
    assert tensor.QuantizeOp in kinds and tensor.RequantizeOp not in kinds
    np.testing.assert_array_equal(run_module(module, [x])[0], expected)


@pytest.mark.parametrize("seed", range(2))
def test_lines_are_exact_whether_or_not_products_are_rounded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bound = rng.integers(1, 900, 12)
    # Levels from some results of all numbers to more than are kept.
    slopes = rng.uniform(20, 400, 12) / bound
    multipliers = np.rint(slopes * (1 << 20)).astype(np.int64) * rng.choice([-1, 1], 12)
    offsets = rng.integers(-(1 << 24), 1 << 24, 12)

    def function(x: Any) -> Any:
        return np.clip((x * multipliers + offsets + (1 << 19)) >> 20, -100, 120)

    line = fitting_line(function, bound)
    assert line is not None
    for c, most in enumerate(bound.tolist()):
        x = np.arange(-most, most + 1)
        expected = function(np.broadcast_to(x[:, None], (len(x), 12)))[:, c]
        factor, start = line.factors[c], line.starts[c]
        twice = x.astype(np.float32) * factor + start
        factor, start = Fraction(float(factor)), Fraction(float(start))
        # The nearest float32 of the exact sum: half of its last place is added or taken off.
        exact = [n * factor + start for n in x.tolist()]
        once = np.array([_nearest(v) for v in exact], np.float32)
        for result in (twice, once):
            assert result.dtype == np.float32
            rounded = np.clip(np.rint(result), line.low, line.high)
            np.testing.assert_array_equal(rounded, expected)


def _nearest(value: Fraction) -> np.float32:
    """The float32 nearest to a number."""
    near = np.float32(float(value))
    around = [np.nextafter(near, np.float32(s * np.inf)) for s in (-1, 1)] + [near]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - value), int(v.view(np.int32)) & 1))


def test_what_floats_cannot_tell_apart_stays() -> None:
    def flat(x: Any) -> Any:
        return np.clip((x * 16807 + 12345) >> 30, -128, 127)

    def curve(x: Any) -> Any:
        return np.clip(np.sign(x) * x**2, -100, 100)

    assert fitting_line(flat, np.array([1 << 23])) is None
    assert fitting_line(flat, np.array([1 << 25])) is None
    assert fitting_line(curve, np.array([40])) is None
    assert fitting_line(lambda x: x, np.array([300])) is None
    assert fitting_line(lambda x: x, np.array([100])) is not None


RECTIFIED = """
func.func @forward(%x: tensor<?x3x4x5xi8>) -> tensor<?x6x4x5xi8> {
  %w = ternary.parameter "w" : tensor<6x3x1x1x!ternary.trit>
  %b = tensor.parameter "b" buffer : tensor<6xi32>
  %m = tensor.constant dense<3> : tensor<i32>
  %s = tensor.constant dense<3> : tensor<i32>
  %z = tensor.constant dense<-7> : tensor<i8>
  %y = ternary.conv %x, %w bias(%b : tensor<6xi32>) multiplier(%m : tensor<i32>)
       shift(%s : tensor<i32>) zero_point(%z : tensor<i8>) {activation = "relu",
       low = -128 : i64, high = 127 : i64, strides = array<i64: 1, 1>,
       padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64}
       : tensor<?x3x4x5xi8>, tensor<6x3x1x1x!ternary.trit> -> tensor<?x6x4x5xi8>
  func.return %y : tensor<?x6x4x5xi8>
}
"""


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_a_bias_comes_before_the_relu_of_its_convolution(share: float) -> None:
    rng = np.random.default_rng(0)
    trits = ((rng.random((6, 3, 1, 1)) < share) * rng.choice([-1, 1], (6, 3, 1, 1))).astype(np.int8)
    biases = rng.integers(-200, 200, 6).astype(np.int32)
    module = parse_module(RECTIFIED)
    attach_store(module, ParameterStore.of({"w": pack_trits(trits), "b": biases}))
    x = rng.integers(-128, 128, (2, 3, 4, 5)).astype(np.int8)
    sums = np.einsum("nchw,oc->nohw", x.astype(np.int64), trits[:, :, 0, 0].astype(np.int64))
    sums = np.maximum(sums + biases[:, None, None], 0)
    expected = rescaled(sums, 3, 3, -7, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(native_program(module)(x), expected)
    RescaleInFloatsPass().apply(Context(), module)
    assert tensor.RequantizeOp not in {type(op) for op in module.walk()}
    np.testing.assert_array_equal(run_module(module, [x])[0], expected)


SHARED = """
func.func @forward(%x: tensor<?x8x5xi8>, %v: tensor<?x8x5xi8>)
    -> (tensor<?x8x5xi8>, tensor<?x8x5xi32>) {
  %c = tensor.convert %x : (tensor<?x8x5xi8>) -> tensor<?x8x5xi32>
  %d = tensor.convert %v : (tensor<?x8x5xi8>) -> tensor<?x8x5xi32>
  %a = tensor.add %c, %d : (tensor<?x8x5xi32>, tensor<?x8x5xi32>) -> tensor<?x8x5xi32>
  %m = tensor.constant dense<1431655765> : tensor<i32>
  %s = tensor.constant dense<32> : tensor<i32>
  %o = tensor.constant dense<-5> : tensor<i8>
  %y = tensor.requantize %a, %m, %s, %o
       : (tensor<?x8x5xi32>, tensor<i32>, tensor<i32>, tensor<i8>) -> tensor<?x8x5xi8>
  %b = tensor.convert %y : (tensor<?x8x5xi8>) -> tensor<?x8x5xi32>
  %n = tensor.constant dense<529481337> : tensor<i32>
  %t = tensor.constant dense<13> : tensor<i32>
  %z = tensor.constant dense<0> : tensor<i32>
  %w = tensor.requantize %b, %n, %t, %z {low = -2147483647 : i64, high = 2147483647 : i64}
       : (tensor<?x8x5xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<?x8x5xi32>
  func.return %y, %w : tensor<?x8x5xi8>, tensor<?x8x5xi32>
}
"""


def test_what_several_ops_read_ends_a_chain() -> None:
    module = parse_module(SHARED)
    RescaleInFloatsPass().apply(Context(), module)
    verify_module(module)
    assert sum(isinstance(op, tensor.QuantizeOp) for op in module.walk()) == 1
    x, v = np.random.default_rng(0).integers(-128, 128, (2, 60, 8, 5), np.int8)
    y = rescaled(x.astype(object) + v, 1431655765, 32, -5, -128, 127)
    most = (1 << 31) - 1
    for have, want in zip(
        run_module(module, [x, v]), (y, rescaled(y, 529481337, 13, 0, -most, most)), strict=True
    ):
        np.testing.assert_array_equal(have.astype(object), want)
