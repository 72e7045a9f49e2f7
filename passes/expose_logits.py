"""The pass `expose-logits`: a softmax or sigmoid at the end of a program becomes its caller's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import tensor
from ..dialects.elements import numpy_dtype
from ..dialects.inference import tensor_type
from ..dialects.shapes import is_float
from ..ir.attribute_data import data_of, dictionary_of
from ..ir.interpreter import entry_function
from .analysis.compile_time import literal_value
from .analysis.replacement import erase
from .calibration.integer_softmax import recorded_softmax

LEFT_OUT = "tensor.left_out"
"""The attribute of a module with what the caller does with each result: a list of steps."""

_ENDS = (tensor.SoftmaxOp, tensor.LogSoftmaxOp, tensor.SigmoidOp)
"""Functions that rise with each number and, along their axis, keep the order of numbers."""


@dataclass(frozen=True)
class ExposeLogitsPass(ModulePass):
    """Leave the last softmax, log-softmax or sigmoid of `@forward` to the caller.

    The largest of some logits is the largest of their softmax, and a logit above 0 has a sigmoid
    above 1/2, so that a classifier on integers can end with its logits. Quantisation and
    dequantisation around such an end goes along:

        %p = tensor.softmax %y {axis = 1 : i64} : (tensor<?x10xf32>) -> tensor<?x10xf32>
        %q = tensor.quantize %p, %s, %z : … -> tensor<?x10xi8>
        func.return %q : tensor<?x10xi8>
        // becomes
        func.return %y : tensor<?x10xf32>

    So does a softmax of bytes that the program writes out and notes (`integer_softmax`): the bytes
    that it reads are the logits.

    The results of the program become other numbers. The attribute `tensor.left_out` of the module
    lists what was left out of each result, in order, so that the caller can do it. (Equal numbers
    after a coarse quantisation of probabilities can belong to logits that differ: then the class is
    that of the larger logit, where the program took the first.)
    """

    name = "expose-logits"
    approximate: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        if len(function.body.blocks) != 1:
            return
        returned = function.body.block.last_op
        if not isinstance(returned, ReturnOp):
            return
        left = [_expose(returned, index) for index in range(len(returned.operands))]
        if any(left):
            op.attributes[LEFT_OUT] = ArrayAttr([ArrayAttr(steps) for steps in left])
            function.update_function_type()


def _expose(returned: ReturnOp, index: int) -> list[DictionaryAttr]:
    """Return the logits of a result; what the caller has to do with them, in order."""
    value = logits = returned.operands[index]
    tail: list[Operation] = []
    steps: list[DictionaryAttr] = []
    left: list[DictionaryAttr] = []
    end = 0
    while True:
        if (softmax := recorded_softmax(value)) is not None:
            value = softmax.operand
            tail.append(softmax.last)
            steps[:0] = map(dictionary_of, softmax.steps)
        elif (op := _movable(value)) is not None:
            value = op.operands[0]
            tail.append(op)
            steps.insert(0, _step(op))
        else:
            break
        if softmax is not None or isinstance(tail[-1], _ENDS):
            end, logits, left = len(tail), value, list(steps)
    if not end:
        return []
    returned.operands[index] = logits
    for op in tail[:end]:
        if not any(result.first_use for result in op.results):
            erase(op)
    return left


def _movable(value: SSAValue) -> Operation | None:
    """The op that made a result, if the caller can do it instead and keeps the class."""
    op = value.owner
    if not isinstance(op, (*_ENDS, tensor.QuantizeOp, tensor.DequantizeOp, tensor.ConvertOp)):
        return None
    if isinstance(op, tensor.SigmoidOp):
        return op
    if isinstance(op, tensor.SoftmaxOp | tensor.LogSoftmaxOp):
        return op if op.axis.value.data % tensor_type(op.operands[0]).get_num_dims() else None
    if isinstance(op, tensor.ConvertOp):
        return (
            op if is_float(tensor_type(op.operand)) and is_float(tensor_type(op.result)) else None
        )
    scale, zero = literal_value(op.scale), literal_value(op.zero_point)
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    return op if float(scale.reshape(-1)[0]) > 0 else None


def _step(op: Operation) -> DictionaryAttr:
    entries: dict[str, object] = {"op": op.name}
    if isinstance(op, tensor.SoftmaxOp | tensor.LogSoftmaxOp):
        entries["axis"] = op.axis.value.data
    if isinstance(op, tensor.ConvertOp | tensor.QuantizeOp):
        entries["dtype"] = numpy_dtype(tensor_type(op.result).element_type).name
    if isinstance(op, tensor.QuantizeOp | tensor.DequantizeOp):
        scale, zero = literal_value(op.scale), literal_value(op.zero_point)
        assert scale is not None and zero is not None
        entries["scale"] = float(scale.reshape(-1)[0])
        entries["zero_point"] = int(zero.reshape(-1)[0])
    if isinstance(op, tensor.QuantizeOp):
        entries |= {"low": op.low, "high": op.high}
    return dictionary_of(entries)


def left_out(module: ModuleOp) -> list[list[dict[str, Any]]]:
    """For each result of a program what `expose-logits` left to the caller, as JSON data."""
    noted = module.attributes.get(LEFT_OUT)
    return [] if noted is None else data_of(noted)
