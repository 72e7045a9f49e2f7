"""Fused convolutions as a product and the ops that follow it, so that every op has one rule."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from .....dialects import tensor, ternary
from .....dialects.inference import tensor_type
from .....dialects.parameters import dense_constant
from .....passes.adder_graph.optimize_adder_graph import WEIGHT_ATTRIBUTE
from .....passes.analysis.compile_time import literal_value
from .....passes.analysis.replacement import insert_before, replace


def split_convolutions(function: func.FuncOp) -> None:
    """Put bias, activation, thresholds and requantisation behind convolutions of integers.

    The weight's key stays on all of them, as the name of the layer.
    """
    for op in list(function.body.walk()):
        if isinstance(op, ternary.ConvOp | tensor.ConvOp):
            _split(op)


def _split(op: ternary.ConvOp | tensor.ConvOp) -> None:
    following: list[Operation] = []
    if isinstance(op, tensor.ConvOp):
        product: Operation = tensor.ConvOp(
            op.input,
            op.weight,
            strides=op.strides.get_values(),
            padding=op.padding.get_values(),
            dilation=op.dilation.get_values(),
            groups=op.groups.value.data,
        )
    else:
        product = ternary.ConvOp(
            op.input,
            op.weight,
            strides=op.strides.get_values(),
            padding=op.padding.get_values(),
            dilation=op.dilation.get_values(),
            groups=op.groups.value.data,
        )
    value: SSAValue = product.results[0]
    if op.bias is not None:
        bias = literal_value(op.bias)
        if bias is None:
            return
        shape = (-1, *[1] * (tensor_type(value).get_num_dims() - 2))
        constant = dense_constant(bias.reshape(shape), tensor_type(op.bias).element_type)
        insert_before(op, constant)
        following.append(tensor.AddOp(value, constant.result))
    if isinstance(op, ternary.ConvOp):
        following += _after(following[-1].results[0] if following else value, op)
    ops = [product, *following]
    key = _key(op)
    for each in ops:
        if key is not None:
            each.attributes[WEIGHT_ATTRIBUTE] = StringAttr(key)
    if len(ops) == 1 and key is not None:
        op.attributes[WEIGHT_ATTRIBUTE] = StringAttr(key)
        return
    for each in ops[:-1]:
        insert_before(op, each)
    replace(op, ops[-1])


def _after(value: SSAValue, op: ternary.ConvOp) -> list[Operation]:
    steps: list[Operation] = []
    if op.activation.data == "relu":
        steps.append(tensor.ReluOp(value))
        value = steps[-1].results[0]
    if op.thresholds is not None:
        steps.append(tensor.MultiThresholdOp(value, op.thresholds, axis=1))
        value = steps[-1].results[0]
    if op.multiplier is not None:
        assert op.shift is not None and op.zero_point is not None
        assert op.low is not None and op.high is not None
        steps.append(
            tensor.RequantizeOp(
                value,
                op.multiplier,
                op.shift,
                op.zero_point,
                axis=1,
                low=op.low.value.data,
                high=op.high.value.data,
            )
        )
    return steps


def _key(op: ternary.ConvOp | tensor.ConvOp) -> str | None:
    owner = op.weight.owner
    if isinstance(owner, ternary.ParameterOp | tensor.ParameterOp):
        return owner.key.data
    return op.weight.name_hint
