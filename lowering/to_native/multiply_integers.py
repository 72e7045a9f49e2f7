"""The pass `multiply-integers`: products of dequantised integers, on the integers.

Not here: rounding back to integers by a multiplier and a shift (`requantize`), which moves results
by up to one step.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, constant_value
from ...passes.analysis.compile_time import has_value, is_literal, literal, literal_value
from ...passes.analysis.replacement import insert_before, replace

_BITS, _MORE_BITS = 8, 16
"""Of weights and activations, and of activations that instructions also multiply."""
_WORD = 1 << 15
_MOST = 1 << 31
"""Sums of 32 bits are exact below."""
_LEAST_SCALE, _MOST_SCALE = 2.0**-100, 2.0**90
"""What a step of a sum may count, so that float32 holds all sums with all their digits."""

Product = tensor.ConvOp | tensor.LinearOp


@dataclass(frozen=True)
class MultiplyIntegersPass(ModulePass):
    """Multiply and add the integers behind `tensor.dequantize` in place of the floats it makes.

    Sums are exact in 32 bits; what each step counts and the bias follow in float32, so that results
    are as accurate as float32, and more so. The operands have known scales: one of activations of 8
    or 16 bits, one of weights of 8 bits for each output or for all. Activations less their zero
    that 16 bits do not hold stay as they are: pads are that zero, whose part of a sum is taken off.

    %x = tensor.dequantize %q, %s, %z : (tensor<?x8xi8>, tensor<f32>, tensor<i8>) -> tensor<?x8xf32>
    %w = tensor.dequantize %p, %t, %o : (tensor<8x4xi8>, tensor<4xf32>, tensor<4xi8>)
         -> tensor<8x4xf32>
    %y = tensor.linear %x, %w : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
    // becomes, with s·t known
    %a = tensor.convert %q : (tensor<?x8xi8>) -> tensor<?x8xi32>
    %b = tensor.sub %a, %z : (tensor<?x8xi32>, tensor<i32>) -> tensor<?x8xi32>
    %c = tensor.convert %p : (tensor<8x4xi8>) -> tensor<8x4xi32>
    %i = tensor.linear %b, %c : (tensor<?x8xi32>, tensor<8x4xi32>) -> tensor<?x4xi32>
    %y = tensor.dequantize %i, %st, %0 : (tensor<?x4xi32>, tensor<4xf32>, tensor<i32>)
         -> tensor<?x4xf32>
    """

    name = "multiply-integers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for product in list(op.walk()):
            if isinstance(product, Product):
                _rewrite(op, product)


class _Factor(NamedTuple):
    """Integers, and what they stand for: (value - zero)·scale.

    Attributes:
        value: the integers.
        zero: of all.
        scale: one, or one for each place on an axis.
        low, high: the least and the greatest value - zero that the type can hold.
        moved: what is taken off values, so that 16 bits hold the rest: the zero, if they can.
    """

    value: SSAValue
    zero: int
    scale: Array
    low: int
    high: int
    moved: int


def _rewrite(module: ModuleOp, op: Product) -> None:
    shape = tensor_type(op.weight).get_shape()
    convolves = isinstance(op, tensor.ConvOp)
    axis = 0 if convolves else len(shape) - 1
    x, w = _factor(op.input, None, (_BITS, _MORE_BITS)), _factor(op.weight, axis, (_BITS,))
    if x is None or w is None or not is_literal(w.value.owner):
        return
    if x.zero != x.moved and not has_value(w.value.owner):
        return
    bias = None if op.bias is None else _known(op.bias)
    above, below = _sums(w, axis)
    left = x.zero - x.moved
    for low, high in (x.low, x.high), (x.low + left, x.high + left):
        ends = np.maximum(high * above - low * below, high * below - low * above)
        if ends.max(initial=0) >= _MOST:
            return
    if op.bias is not None and bias is None:
        return
    exact = x.scale.astype(np.float64) * w.scale.astype(np.float64)
    sizes = np.abs(exact[exact != 0])
    if not ((sizes > _LEAST_SCALE) & (sizes < _MOST_SCALE)).all() or np.isnan(exact).any():
        return
    scale = exact.astype(np.float32)

    def put(new: Operation) -> SSAValue:
        insert_before(op, new)
        return new.results[0]

    def known(name: str, values: Array, element: Attribute) -> SSAValue:
        return put(literal(module, name, values, TensorType(element, values.shape)))

    def moved(factor: _Factor) -> SSAValue:
        wide = put(tensor.ConvertOp(factor.value, i32))
        if not factor.moved:
            return wide
        return put(tensor.SubOp(wide, known("zero", np.array(factor.moved, np.int32), i32)))

    a, b = moved(x), moved(w)
    if isinstance(op, tensor.ConvOp):
        window = op.window
        if left:
            a = put(_padded(a, op.padding.get_values(), left))
            window["padding"] = [0] * len(op.padding)
        sums = put(tensor.ConvOp(a, b, **window))
    else:
        sums = put(tensor.LinearOp(a, b))
    spread = (-1, *[1] * (len(shape) - 2)) if convolves else (-1,)
    if left:
        part = (-left * (above - below)).astype(np.int32).reshape(spread)
        sums = put(tensor.AddOp(sums, known("zero", part, i32)))
    axis = 1 if convolves else tensor_type(op.result).get_num_dims() - 1
    steps = known("scale", scale, f32)
    zero = known("zero", np.array(0, np.int32), i32)
    result = tensor.DequantizeOp(sums, steps, zero, axis=axis)
    if bias is None:
        replace(op, result)
        return
    bias = bias.astype(np.float32).reshape(spread)
    replace(op, tensor.AddOp(put(result), known("bias", bias, f32)))


def _padded(x: SSAValue, pads: Sequence[int], value: int) -> Operation:
    """An image within such pads."""
    half = len(pads) // 2
    return tensor.PadToOp(x, (0, 0, *pads[:half]), (0, 0, *pads[half:]), float(value))


def _sums(w: _Factor, axis: int) -> tuple[Array, Array]:
    """What the weights of each output above 0 and those below add up to, both without a sign; of
    unknown ones, what all of one sign may."""
    shape, values = tensor_type(w.value).get_shape(), literal_value(w.value)
    if values is None:
        most = prod(shape) // max(1, shape[axis]) * max(w.high, -w.low)
        return np.array([most]), np.array([0])
    rows = np.moveaxis(values, axis, 0).reshape(shape[axis], -1) - np.int64(w.zero)
    return np.maximum(rows, 0).sum(axis=1), np.maximum(-rows, 0).sum(axis=1)


def _factor(value: SSAValue, axis: int | None, widths: Container[int]) -> _Factor | None:
    """The integers behind a float tensor, of so many bits; `axis` is where scales may differ."""
    op = value.owner
    if not isinstance(op, tensor.DequantizeOp):
        return None
    element = tensor_type(op.input).element_type
    scale, zeros = literal_value(op.scale), literal_value(op.zero_point)
    if not isinstance(element, IntegerType) or scale is None or zeros is None or not zeros.size:
        return None
    kind = cast("IntegerType[int, Signedness]", element)
    width = kind.width.data
    if width not in widths or (scale.ndim and op.axis.value.data != axis):
        return None
    zero = int(zeros.flat[0])
    if (zeros != zero).any():
        return None
    low = 0 if kind.signedness.data == Signedness.UNSIGNED else -(1 << width - 1)
    high = low + (1 << width) - 1
    fits = low - zero >= -_WORD and high - zero < _WORD
    moved = zero if fits else low + _WORD
    return _Factor(op.input, zero, scale, low - zero, high - zero, moved)


def _known(value: SSAValue) -> Array | None:
    """The values of a literal, or of one that is dequantised."""
    op = value.owner
    if isinstance(op, tensor.DequantizeOp):
        parts = [literal_value(operand) for operand in op.operands]
        q, scale, zero = parts
        return None if q is None or scale is None or zero is None else op.compute(q, scale, zero)
    return constant_value(op) if is_literal(op) and has_value(op) else None
