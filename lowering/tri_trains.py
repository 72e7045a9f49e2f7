"""What the functions of the `.tri` language do to spike trains, and which values have time first.

Products and pools become ops of `spike`; shape functions move truth values and make trains of them
again. Not here: the functions of dense tensors, in `tri_builtins`; neurons, in `tri_spiking`.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import f32, i1, i8
from xdsl.ir import SSAValue

from ..dialects import spike, tensor
from ..dialects.inference import tensor_type
from ..dialects.shapes import is_float
from ..dialects.spike.types import dense_type
from ..dialects.ternary.types import is_trit
from ..ir.language import elaborated
from ..ir.language.rules_neurons import NEURONS
from .ir_builder import Builder
from .tri_builder import Rule, ints, optional
from .tri_builtins import RULES, conv_window
from .tri_spiking import SPIKING_RULES, batch_norm, dense


def rule_of(op: elaborated.Operation, timed: frozenset[elaborated.Value]) -> Rule:
    """The rule of an operation; `timed` are the values with time first, `time_first_values`."""
    if op.function in SPIKING_RULES:
        return SPIKING_RULES[op.function]
    if any(operand.type.kind == "spike" for operand in op.operands):
        return TRAIN_RULES[op.function]
    if op.function == "batch_norm" and op.operands[0] in timed and op.attributes["axis"] != 0:
        return batch_norm
    return RULES[op.function]


def _weights(builder: Builder, weight: SSAValue) -> tuple[SSAValue, SSAValue | None]:
    """Weights that a synapse takes, and the scale 1 that makes floats of exact sums."""
    type = tensor_type(weight)
    if is_trit(type) or type.element_type == i8:
        return weight, builder.number(1.0, f32)
    return (weight if is_float(type) else builder.convert(weight, f32)), None


def _linear(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    weight, scale = _weights(builder, operands[1])
    bias = optional(op, operands, ["bias"])["bias"]
    return builder.add(spike.LinearOp(operands[0], weight, scale=scale, bias=bias))


def _ternary_matmul(
    builder: Builder, op: elaborated.Operation, operands: list[SSAValue]
) -> SSAValue:
    weight, one = _weights(builder, operands[1])
    scale = optional(op, operands, ["scale"])["scale"]
    scale = one if scale is None else builder.convert(scale, f32)
    return builder.add(spike.LinearOp(operands[0], weight, scale=scale))


def _matmul(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    weight = operands[1]
    rank = tensor_type(weight).get_num_dims()
    if rank > 2:  # another matrix for each step or batch
        weight = weight if is_float(tensor_type(weight)) else builder.convert(weight, f32)
        numbers = dense(builder, operands[0], tensor_type(weight).element_type)
        return builder.add(tensor.MatmulOp(numbers, weight))
    if rank == 1:
        weight = builder.add(tensor.UnsqueezeOp(weight, [1]))
    weight, scale = _weights(builder, weight)
    sums = builder.add(spike.LinearOp(operands[0], weight, scale=scale))
    last = tensor_type(sums).get_num_dims() - 1
    return sums if rank == 2 else builder.add(tensor.SqueezeOp(sums, [last]))


def _conv(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    weight, scale = _weights(builder, operands[1])
    bias = optional(op, operands, ["bias"])["bias"]
    window = conv_window(op, dense_type(operands[0]).get_shape()[2])
    return builder.add(spike.ConvOp(operands[0], weight, scale=scale, bias=bias, **window))


def _pool(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    a = op.attributes
    kernel, strides, padding = ints(a["kernel"]), ints(a["stride"]), ints(a["padding"]) * 2
    if op.function == "max_pool2d":
        return builder.add(spike.MaxPoolOp(operands[0], kernel, strides, padding))
    counted = bool(a["count_include_pad"])
    pooled = spike.AvgPoolOp(operands[0], kernel, strides, padding, count_include_pad=counted)
    return builder.add(pooled)


def _global_pool(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    return builder.add(tensor.ReduceMeanOp(dense(builder, operands[0]), axes=[3, 4], keepdims=True))


def _moved(
    builder: Builder, op: elaborated.Operation, operands: list[SSAValue]
) -> SSAValue | list[SSAValue]:
    """A shape function, on truth values."""
    moved = RULES[op.function](builder, op, [dense(builder, value, i1) for value in operands])
    if isinstance(moved, SSAValue):
        return builder.add(spike.FromTensorOp(moved))
    return [builder.add(spike.FromTensorOp(part)) for part in moved]


_SHAPE_FUNCTIONS = (
    "reshape",
    "flatten",
    "transpose",
    "permute",
    "concat",
    "split",
    "stack",
    "slice",
    "squeeze",
    "unsqueeze",
    "expand",
    "gather",
)

TRAIN_RULES: Mapping[str, Rule] = {
    "matmul": _matmul,
    "linear": _linear,
    "ternary_matmul": _ternary_matmul,
    "conv1d": _conv,
    "conv2d": _conv,
    "depthwise_conv2d": _conv,
    "max_pool2d": _pool,
    "avg_pool2d": _pool,
    "global_avg_pool2d": _global_pool,
    "batch_norm": batch_norm,
    **dict.fromkeys(_SHAPE_FUNCTIONS, _moved),
}
"""The rule of each function that takes trains but is no spiking one."""

_NEURONS = {neuron.name for neuron in NEURONS}

_LOSES_TIME = ("decode", "permute", "transpose", "argmax", "sum", "mean", "max", "min")

_STEP_BY_STEP = (
    *("add", "sub", "mul", "div", "mod", "neg", "where", "maximum", "minimum", "clamp", "relu"),
    *("abs", "batch_norm", "temporal_batch_norm", "cast", "delay"),
)


def time_first_values(program: elaborated.Elaborated) -> frozenset[elaborated.Value]:
    """The values whose first axis is known to be time.

    Trains, what is computed from them with the same first axis, and what goes to neurons. Another
    value may have time first too: nothing hangs on it but which op a normalisation becomes.
    """
    operations = list(program.operations())
    timed: set[elaborated.Value] = {v for v in program.inputs if v.type.kind == "spike"}
    for op in operations:
        keeps = op.function not in _LOSES_TIME and any(
            operand in timed and operand.type.shape[:1] == op.type.shape[:1]
            for operand in op.operands
        )
        if op.type.rank and (op.type.kind == "spike" or op.function in _NEURONS or keeps):
            timed.add(op)
    for op in reversed(operations):
        if op.function in _NEURONS or (op.function in _STEP_BY_STEP and op in timed):
            shape = op.type.shape
            timed.update(v for v in op.operands if v.type.rank and v.type.shape == shape)
    return frozenset(timed)
