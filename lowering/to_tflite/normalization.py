"""TFLite forms of normalisation, which LiteRT has no operators for."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .graph import Array, Element
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


def norm(e: Writer, op: tensor.LayerNormOp | tensor.RmsNormOp) -> None:
    """x/√(mean(x²) + ε)·scale, and of x - μ with a bias: by floats in every precision."""
    rank, covered = (tensor_type(v).get_num_dims() for v in (op.input, op.scale))
    stored, layout = last_in_place(e, op.input, covered)
    x, axes = e.float32(stored), list(range(rank - covered, rank))
    with e.exactly():
        if isinstance(op, tensor.LayerNormOp):
            x = e.binary("SUB", x, e.reduce("MEAN", x, axes, keepdims=True))
        square = e.reduce("MEAN", e.binary("MUL", x, x), axes, keepdims=True)
        epsilon = e.scalar(op.epsilon.value.data, Element.FLOAT32)
        out = e.binary("MUL", x, e.apply("RSQRT", [e.binary("ADD", square, epsilon)]))
        out = e.binary("MUL", out, e.float32(e.value(op.scale)))
        if isinstance(op, tensor.LayerNormOp) and op.bias is not None:
            out = e.binary("ADD", out, e.float32(e.value(op.bias)))
    e.bind(op.result, e.cast(out, e.stored(op.input)[0].element), layout)


RULES: dict[type[Operation], Rule] = {
    tensor.BatchNormOp: batch_norm,
    tensor.LayerNormOp: norm,
    tensor.RmsNormOp: norm,
}
