"""TFLite forms of normalisation, which LiteRT has no operators for."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .graph import Array, Element, Tensor
from .layout import Layout
from .products import last_in_place
from .tflite_writer import Rule, Writer


def batch_norm(e: Writer, op: tensor.BatchNormOp) -> None:
    """x·a + b with a number a channel each; they are computed here where the operands are known."""
    x, layout = e.with_axes(op.input)
    axis = layout.axis(1)
    operands = [op.scale, op.bias, op.mean, op.variance]
    known = [e.array(value) for value in operands]
    epsilon = op.epsilon.value.data
    if all(array is not None for array in known):
        factor, shift = _affine([a.astype(np.float64) for a in known if a is not None], epsilon)
        pair = [e.constant(v.astype(np.float32), f"{e.hint}.affine") for v in (factor, shift)]
    else:
        scale, bias, mean, variance = (e.float32(e.value(v)) for v in operands)
        root = e.apply("RSQRT", [e.binary("ADD", variance, e.scalar(epsilon, Element.FLOAT32))])
        gain = e.binary("MUL", scale, root)
        pair = [gain, e.binary("SUB", bias, e.binary("MUL", mean, gain))]
    factor_, shift_ = (e.along_axis(t, axis, x.rank) for t in pair)
    wide = e.float32(x)
    out = e.binary("ADD", e.binary("MUL", wide, factor_), shift_)
    e.bind(op.result, e.cast(out, x.element), layout)


def _affine(operands: list[Array], epsilon: float) -> tuple[Array, Array]:
    scale, bias, mean, variance = operands
    factor = scale / np.sqrt(variance + epsilon)
    return factor, bias - mean * factor


def layer_norm(e: Writer, op: tensor.LayerNormOp) -> None:
    """Mean, squared difference, mean: the axes that `scale` covers; floats in every precision."""
    x, layout, axes = _rows(e, op.input, op.scale)
    with e.exactly():
        mean = e.reduce("MEAN", x, axes, keepdims=True)
        centred = e.binary("SUB", x, mean)
        square = e.reduce("MEAN", e.binary("MUL", centred, centred), axes, keepdims=True)
        out = e.binary("MUL", centred, _root(e, square, op.epsilon.value.data))
        out = e.binary("MUL", out, e.float32(e.value(op.scale)))
        if op.bias is not None:
            out = e.binary("ADD", out, e.float32(e.value(op.bias)))
    e.bind(op.result, e.cast(out, e.stored(op.input)[0].element), layout)


def rms_norm(e: Writer, op: tensor.RmsNormOp) -> None:
    """x/√(mean(x²) + ε)·scale; floats in every precision."""
    x, layout, axes = _rows(e, op.input, op.scale)
    with e.exactly():
        square = e.reduce("MEAN", e.binary("MUL", x, x), axes, keepdims=True)
        out = e.binary("MUL", x, _root(e, square, op.epsilon.value.data))
        out = e.binary("MUL", out, e.float32(e.value(op.scale)))
    e.bind(op.result, e.cast(out, e.stored(op.input)[0].element), layout)


def _rows(e: Writer, input: SSAValue, scale: SSAValue) -> tuple[Tensor, Layout, list[int]]:
    """The operand in an order in which the axes that `scale` covers stand last, and these."""
    rank, covered = (tensor_type(v).get_num_dims() for v in (input, scale))
    x, layout = last_in_place(e, input, covered)
    return e.float32(x), layout, list(range(rank - covered, rank))


def _root(e: Writer, square: Tensor, epsilon: float) -> Tensor:
    return e.apply("RSQRT", [e.binary("ADD", square, e.scalar(epsilon, Element.FLOAT32))])


RULES: dict[type[Operation], Rule] = {
    tensor.BatchNormOp: batch_norm,
    tensor.LayerNormOp: layer_norm,
    tensor.RmsNormOp: rms_norm,
}
