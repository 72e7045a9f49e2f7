"""The pass `infer-shapes`: result types from operand types; a batch and steps on request."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects.inference import InferredOp, tensor_type
from ..dialects.shapes import DYNAMIC, Shape, ShapeError, SizedType, compatible, with_shape
from ..dialects.spike import LayerOp, RecurrentOp, TrainType
from ..dialects.spike.types import dense_type, like
from ..ir.errors import PassError, expect_from
from ..ir.locations import error_at
from .analysis.time_axis import has_time_first
from .expose_state import state_count


@dataclass(frozen=True)
class InferShapesPass(ModulePass):
    """Compute the result types of every op anew, first to last, and make `?` known where it can be.

    A dimension that either the declared or the inferred type knows is known afterwards. The types
    of functions follow. Values of parameters are not read.

        // infer-shapes{batch=2}
        func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
          %y = tensor.relu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
        // becomes
        func.func @forward(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
          %y = tensor.relu %x : (tensor<2x8xf32>) -> tensor<2x8xf32>

    Raises:
        OptionError: `batch` or `timesteps` is below 1.
        PassError: a declared type contradicts the inferred one, or a call does not fit its callee.
    """

    name = "infer-shapes"

    batch: int | None = None
    """The size of the batch: replaces the leading `?` of every function argument (of one with time
    first that of the second axis; of a state that `expose-state` added the first `?`)."""

    timesteps: int | None = None
    """The steps: replaces the leading `?` of every function argument with time first, which is a
    spike train or goes to neurons, synapses or a network as one does, through layers or not."""

    def __post_init__(self) -> None:
        expect_from("infer-shapes expects a batch", self.batch, 1)
        expect_from("infer-shapes expects timesteps", self.timesteps, 1)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.walk() if isinstance(f, FuncOp) and not f.is_declaration]
        for function in functions:
            _fix_sizes(function, self.batch, self.timesteps)
            for inner in function.body.walk():
                if isinstance(inner, RecurrentOp | LayerOp):
                    _refine_body(inner)
                if isinstance(inner, InferredOp):
                    _refine(inner)
            function.update_function_type()
        if functions:
            _check_calls(op)


def _fix_sizes(function: FuncOp, batch: int | None, timesteps: int | None) -> None:
    """Replace a `?` of each argument by the batch, and one by the steps where it has time."""
    states = len(function.args) - state_count(function)
    for index, argument in enumerate(function.args):
        if not isinstance(argument.type, TensorType | TrainType):
            continue
        shape = list(dense_type(argument).get_shape())
        place = 0
        if index >= states:
            place = shape.index(DYNAMIC) if DYNAMIC in shape else 0
        elif has_time_first(argument):
            _fix(shape, 0, timesteps)
            place = 1
        _fix(shape, place, batch)
        _set_type(argument, like(argument, tuple(shape)))


def _fix(shape: list[int], place: int, size: int | None) -> None:
    if size is not None and shape[place : place + 1] == [DYNAMIC]:
        shape[place] = size


def _refine_body(op: RecurrentOp | LayerOp) -> None:
    """Tell the body what its inputs are, and the feedback what the body makes of them."""
    end = op.body.block.last_op
    for _ in range(2):
        for argument, value in zip(op.body.block.args, op.inputs, strict=False):
            _learn(argument, value.type)
        if isinstance(op, RecurrentOp):
            _learn_from_input(op)
        for inner in op.body.walk():
            if isinstance(inner, InferredOp):
                _refine(inner)
        if isinstance(op, RecurrentOp) and end is not None and end.operands:
            _learn(op.feedback(), end.operands[0].type)


def _learn_from_input(op: RecurrentOp) -> None:
    """Unknown sizes of the feedback are those of the first input on the same axis."""
    feedback, first = op.feedback(), dense_type(op.inputs[0]).get_shape()
    shape = dense_type(feedback).get_shape()
    known = zip(shape, first, strict=False)
    leading = [own if size == DYNAMIC else size for size, own in known]
    _set_type(feedback, like(feedback, (*leading, *shape[len(leading) :])))


def _refine(op: InferredOp) -> None:
    try:
        inferred = op.infer()
    except ShapeError as error:
        raise PassError(error_at(op, str(error))) from None
    for index, (result, expected) in enumerate(zip(op.results, inferred, strict=True)):
        if not compatible(result.type, expected):
            raise PassError(
                error_at(op, f"result {index} has type {result.type}, but {expected} follows")
            )
        _learn(result, expected)


def _learn(value: SSAValue, type: Attribute) -> None:
    """Take over the sizes that `type`, compatible with that of `value`, knows."""
    have = value.type
    if not compatible(have, type):
        return
    if isinstance(type, SizedType) and isinstance(have, SizedType):
        _set_type(value, have.with_shape(_known(have.get_shape(), type.get_shape())))
    elif isinstance(type, TensorType) and isinstance(have, TensorType):
        known = _known(tensor_type(value).get_shape(), type.get_shape())
        _set_type(value, with_shape(tensor_type(value), known))


def _known(have: Shape, new: Shape) -> Shape:
    return tuple(h if n == DYNAMIC else n for h, n in zip(have, new, strict=True))


def _set_type(value: SSAValue, type: Attribute) -> None:
    if value.type != type:
        Rewriter.replace_value_with_new_type(value, type)


def _check_calls(module: ModuleOp) -> None:
    calls = [op for op in module.walk() if isinstance(op, CallOp)]
    if not calls:
        return
    functions = {f.sym_name.data: f for f in module.walk() if isinstance(f, FuncOp)}
    for call in calls:
        callee = functions.get(call.callee.string_value())
        if callee is not None and not _fits(call, callee):
            raise PassError(
                error_at(
                    call, f"no longer fits '@{callee.sym_name.data}'; inline the function first"
                )
            )


def _fits(call: Operation, callee: FuncOp) -> bool:
    type = callee.function_type
    operands = [operand.type for operand in call.operands]
    return operands == list(type.inputs) and list(call.result_types) == list(type.outputs)
