"""The pass `multiply-integers`: products of dequantised integers, on the integers.

Not here: rounding back to integers by a multiplier and a shift (`requantize`), which moves results
by up to one step.
"""

from __future__ import annotations

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

_BITS = 8
_MOST = 1 << 31
"""Sums of 32 bits are exact below."""
_LEAST_SCALE, _MOST_SCALE = 2.0**-100, 2.0**90
"""What a step of a sum may count, so that float32 holds all sums with all their digits."""

Product = tensor.ConvOp | tensor.LinearOp


@dataclass(frozen=True)
class MultiplyIntegersPass(ModulePass):
    """Multiply and add the bytes behind `tensor.dequantize` in place of the floats that it makes.

    Sums are exact in 32 bits; what each step counts and the bias follow in float32, so that results
    are as accurate as float32, and more so. The operands are bytes with known scales: one of
    activations, one of weights for each output or for all.

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
    """Bytes, and what they stand for: (value - zero)·scale.

    Attributes:
        value: the bytes.
        zero: of all.
        scale: one, or one for each place on an axis.
        most: the largest |value - zero| that the type can hold.
    """

    value: SSAValue
    zero: int
    scale: Array
    most: int


def _rewrite(module: ModuleOp, op: Product) -> None:
    shape = tensor_type(op.weight).get_shape()
    convolves = isinstance(op, tensor.ConvOp)
    x, w = _factor(op.input, None), _factor(op.weight, 0 if convolves else len(shape) - 1)
    if x is None or w is None or not is_literal(w.value.owner):
        return
    terms = prod(shape[1:]) if convolves else shape[0]
    bias = None if op.bias is None else _known(op.bias)
    if terms * x.most * w.most >= _MOST or (op.bias is not None and bias is None):
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

    def centred(factor: _Factor) -> SSAValue:
        wide = put(tensor.ConvertOp(factor.value, i32))
        if not factor.zero:
            return wide
        return put(tensor.SubOp(wide, known("zero", np.array(factor.zero, np.int32), i32)))

    a, b = centred(x), centred(w)
    if isinstance(op, tensor.ConvOp):
        sums = put(
            tensor.ConvOp(
                a,
                b,
                **op.window,
            )
        )
    else:
        sums = put(tensor.LinearOp(a, b))
    axis = 1 if convolves else tensor_type(op.result).get_num_dims() - 1
    steps = known("scale", scale, f32)
    zero = known("zero", np.array(0, np.int32), i32)
    result = tensor.DequantizeOp(sums, steps, zero, axis=axis)
    if bias is None:
        replace(op, result)
        return
    spread = bias.reshape(-1, *[1] * (len(shape) - 2)) if convolves else bias
    replace(op, tensor.AddOp(put(result), known("bias", spread.astype(np.float32), f32)))


def _factor(value: SSAValue, axis: int | None) -> _Factor | None:
    """The bytes behind a float tensor; `axis` is where scales may differ."""
    op = value.owner
    if not isinstance(op, tensor.DequantizeOp):
        return None
    element = tensor_type(op.input).element_type
    scale, zeros = literal_value(op.scale), literal_value(op.zero_point)
    if not isinstance(element, IntegerType) or scale is None or zeros is None or not zeros.size:
        return None
    kind = cast("IntegerType[int, Signedness]", element)
    if kind.width.data != _BITS or (scale.ndim and op.axis.value.data != axis):
        return None
    zero = int(zeros.flat[0])
    if (zeros != zero).any():
        return None
    low, high = (0, 255) if kind.signedness.data == Signedness.UNSIGNED else (-128, 127)
    return _Factor(op.input, zero, scale, max(high - zero, zero - low))


def _known(value: SSAValue) -> Array | None:
    """The values of a literal, or of one that is dequantised."""
    op = value.owner
    if isinstance(op, tensor.DequantizeOp):
        parts = [literal_value(operand) for operand in op.operands]
        q, scale, zero = parts
        return None if q is None or scale is None or zero is None else op.compute(q, scale, zero)
    return constant_value(op) if is_literal(op) and has_value(op) else None
