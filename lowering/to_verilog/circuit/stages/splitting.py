"""Fused convolutions as a product and the ops that follow it, so that every op has one rule."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType

from .....dialects import tensor, ternary
from .....dialects.inference import InferredOp, tensor_type
from .....dialects.parameters import module_of
from .....passes.adder_graph.optimize_adder_graph import fused_steps, note_weight
from .....passes.analysis.compile_time import literal, literal_value
from .....passes.analysis.replacement import insert_before, replace


def split_convolutions(function: func.FuncOp) -> None:
    """Put bias, activation, thresholds and requantisation behind convolutions of integers.

    The weight's key stays on all of them, as the name of the layer.
    """
    for op in list(function.body.walk()):
        if isinstance(op, ternary.ConvOp | tensor.ConvOp):
            _split(op)


def _split(op: ternary.ConvOp | tensor.ConvOp) -> None:
    kind = tensor.ConvOp if isinstance(op, tensor.ConvOp) else ternary.ConvOp
    bias = None if op.bias is None else literal_value(op.bias)
    if op.bias is not None and bias is None:
        return
    product = kind(
        op.input,
        op.weight,
        strides=op.strides.get_values(),
        padding=op.padding.get_values(),
        dilation=op.dilation.get_values(),
        groups=op.groups.value.data,
    )
    ops: list[InferredOp] = [product]
    if op.bias is not None and bias is not None:
        shape = (-1, *[1] * (tensor_type(product.result).get_num_dims() - 2))
        array, maker = bias.reshape(shape), op.bias.owner
        key = maker.key.data if isinstance(maker, tensor.ParameterOp) else "bias"
        type = TensorType(tensor_type(op.bias).element_type, array.shape)
        constant = literal(module_of(op), f"{key}.channels", array, type)
        insert_before(op, constant)
        ops.append(tensor.AddOp(product.result, constant.result))
    if isinstance(op, ternary.ConvOp):
        ops += fused_steps(ops[-1].results[0], op, axis=1)
    if len(ops) == 1:
        product.erase()  # or it would still be a user of the image
        note_weight(op, op)
        return
    for each in ops:
        note_weight(each, op)
    for each in ops[:-1]:
        insert_before(op, each)
    replace(op, ops[-1])
