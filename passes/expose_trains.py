"""The pass `expose-trains`: trains at the edges and between ops become tensors of truth values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects import spike, tensor, ternary
from ..dialects.inference import keep_result_types
from ..dialects.shapes import DYNAMIC
from ..dialects.spike.rebuild import rebuilt
from ..dialects.spike.types import TrainType, dense_type, is_train
from ..ir.errors import OptionError, expect_from
from ..ir.interpreter import entry_function
from .adder_graph.optimize_adder_graph import WEIGHT_ATTRIBUTE
from .analysis.replacement import replace, replace_results
from .analysis.time_axis import has_time_first
from .convert_spike_to_tensor import coding, synapses
from .convert_spike_to_tensor.tensor_builder import Builder
from .infer_shapes import InferShapesPass

TIMED = "spike.timed"
"""The attribute of an argument or result whose first axis is time."""


@dataclass(frozen=True)
class ExposeTrainsPass(ModulePass):
    """Let the caller of `@forward` give and take trains as tensors of truth values.

    Arguments and results that are trains become tensors of i1; `spike.timed` marks those whose
    first axis is time. `spike.linear` becomes a product, and `spike.delay` delays truth values.
    `spike.decode{rate}` of T steps becomes the number of spikes and a `tensor.dequantize` by 1/T,
    which is within a rounding of the division. After `canonicalize,cse,dce` trains are left alone
    between neurons, each with one `spike.to_tensor`, and ops that have no place in a circuit.

        func.func @forward(%x: !spike.train<8x?x4>) -> !spike.train<8x?x2> {
          %w = ternary.parameter "w" : tensor<4x2x!ternary.trit>
          %i = spike.linear %x, %w
               : !spike.train<8x?x4>, tensor<4x2x!ternary.trit> -> tensor<8x?x2xi32>
          %s = spike.integrate_fire %i : (tensor<8x?x2xi32>) -> !spike.train<8x?x2>
          func.return %s : !spike.train<8x?x2>
        }
        // becomes
        func.func @forward(%x: tensor<8x?x4xi1> {spike.timed}) -> (tensor<8x?x2xi1> {spike.timed}) {
          %b = tensor.convert %x : (tensor<8x?x4xi1>) -> tensor<8x?x4xi8>
          %i = ternary.matmul %b, %w : … -> tensor<8x?x2xi32>
          %s = spike.integrate_fire %i : (tensor<8x?x2xi32>) -> !spike.train<8x?x2>
          %t = spike.to_tensor %s : (!spike.train<8x?x2>) -> tensor<8x?x2xi1>
          func.return %t : tensor<8x?x2xi1>
        }

    For hardware, which knows no trains. The types of the function change, so that this is for the
    end of a pipeline. A program without ops of `spike` stays as it is.

    Raises:
        OptionError: `timesteps` is below 1, the program has another number of steps, or no argument
            comes in steps.
    """

    name = "expose-trains"
    approximate: ClassVar[bool] = False

    timesteps: int | None = None
    """T, where arguments do not say how many steps they have."""

    def __post_init__(self) -> None:
        expect_from(f"{self.name} expects timesteps", self.timesteps, 1)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        spiking = any(inner.name.startswith("spike.") for inner in function.walk())
        trains = any(is_train(value) for value in function.args)
        if len(function.body.blocks) != 1:
            return
        if self.timesteps is not None:
            _check_steps(function, self.timesteps)
        if not (spiking or trains):
            return
        if self.timesteps is not None and _fix_steps(function, self.timesteps):
            InferShapesPass().apply(ctx, op)
        timed = [has_time_first(argument) for argument in function.args]
        for argument in function.args:
            if is_train(argument):
                _expose(function, argument)
        for inner in list(function.body.block.ops):
            _convert(inner)
        returned = function.body.block.last_op
        assert isinstance(returned, ReturnOp)
        leaving = [is_train(value) for value in returned.operands]
        returned.operands = [Builder(returned).dense(value) for value in returned.operands]
        function.arg_attrs = _marked(function.arg_attrs, timed)
        function.res_attrs = _marked(function.res_attrs, leaving)
        function.update_function_type()


def _check_steps(function: FuncOp, steps: int) -> None:
    """Refuse a number of steps that no argument can have.

    Raises:
        OptionError: says why.
    """
    timed = [argument for argument in function.args if has_time_first(argument)]
    others = {dense_type(argument).get_shape()[0] for argument in timed} - {DYNAMIC, steps}
    if timed and not others:
        return
    said = f"the program says {max(others)}" if others else "no argument of the program has steps"
    raise OptionError(f"timesteps={steps} is given, and {said}; leave it out")


def _fix_steps(function: FuncOp, steps: int) -> bool:
    """Say how many steps arguments have that do not; whether there were any."""
    changed = False
    for argument in function.args:
        type = argument.type
        if has_time_first(argument) and dense_type(argument).get_shape()[:1] == (DYNAMIC,):
            shape = (steps, *dense_type(argument).get_shape()[1:])
            known: Attribute = (
                type.with_shape(shape)
                if isinstance(type, TrainType)
                else TensorType(dense_type(argument).element_type, shape)
            )
            Rewriter.replace_value_with_new_type(argument, known)
            changed = True
    return changed


def _expose(function: FuncOp, argument: SSAValue) -> None:
    type = TensorType(i1, dense_type(argument).get_shape())
    old = argument.type
    dense = Rewriter.replace_value_with_new_type(argument, type)
    train = spike.FromTensorOp(dense)
    first = function.body.block.first_op
    assert first is not None
    function.body.block.insert_op_before(train, first)
    assert train.result.type == old
    dense.replace_uses_with_if(train.result, lambda use: use.operation is not train)


def _convert(op: Operation) -> None:
    builder = Builder(op)
    match op:
        case spike.LinearOp():
            _multiply(builder, op)
        case spike.ToTensorOp() if not _holds_truth(op.result):
            element = dense_type(op.result).element_type
            replace_results(op, [builder.dense(op.operand, element)])
        case spike.FromTensorOp() if not _holds_truth(op.operand):
            replace_results(op, list(coding.from_tensor(builder, op) or ()))
        case spike.DelayOp() if is_train(op.input) and op.final is None and op.initial is None:
            dense = builder.dense(op.input)
            late = rebuilt(op, {"input": [dense]}, {"output": [dense.type]})
            replace_results(op, [builder.train(builder.add(late))])
        case spike.DecodeOp() if op.scheme.data == "rate":
            _count(builder, op)
        case _:
            pass


def _multiply(builder: Builder, op: spike.LinearOp) -> None:
    """The product of a synapse; all its ops note the key of the weight, as names in a circuit."""
    before = op.prev_op
    values = list(synapses.linear(builder, op))
    owner = op.weight.owner
    key = owner.key if isinstance(owner, tensor.ParameterOp | ternary.ParameterOp) else None
    name = key or StringAttr(op.weight.name_hint or op.result.name_hint or "synapse")
    last = op.prev_op
    while last is not None and last is not before:
        last.attributes[WEIGHT_ATTRIBUTE] = name
        last = last.prev_op
    replace_results(op, values)


def _holds_truth(value: SSAValue) -> bool:
    return dense_type(value).element_type == i1


def _count(builder: Builder, op: spike.DecodeOp) -> None:
    """Spikes of each neuron, which are worth 1/T each."""
    steps = dense_type(op.operand).get_shape()[0]
    if steps == DYNAMIC:
        return
    bits = builder.dense(op.operand, i32)
    count = builder.add(tensor.ReduceSumOp(bits, [0]))
    scale = builder.constant(np.float32(1) / np.float32(steps), dense_type(op.result).element_type)
    zero = builder.constant(np.zeros((), np.int32), i32)
    new = tensor.DequantizeOp(count, scale, zero)
    keep_result_types(new, op)
    replace(op, new)


def _marked(
    attributes: ArrayAttr[DictionaryAttr] | None, marked: list[bool]
) -> ArrayAttr[DictionaryAttr] | None:
    if not any(marked):
        return attributes
    noted = [DictionaryAttr({})] * len(marked) if attributes is None else list(attributes.data)
    return ArrayAttr(
        [
            DictionaryAttr({**old.data, TIMED: UnitAttr()}) if mark else old
            for old, mark in zip(noted, marked, strict=True)
        ]
    )
