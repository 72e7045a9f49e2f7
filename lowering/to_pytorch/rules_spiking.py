"""PyTorch forms of neurons, loops over steps, random spikes, and trains as numbers.

Synapses and the other codes are ops of `tensor` by then (`convert-spike-to-tensor`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import DYNAMIC, is_float
from ...dialects.spike.interpret_neurons import OPS
from ...dialects.spike.types import dense_type, is_train
from ...dialects.ternary.types import is_trit
from ...dialects.traits import AddsUp, MovesElements, has
from ...ir.neurons.arithmetic import SILENT, Options
from .expressions import Expr, sequence
from .forward import Forward, dtype_of
from .literals import number


def neuron(op: spike.NeuronOp, e: Forward) -> Sequence[Expr]:
    """A neuron over all steps: what it gives, and its last states on request."""
    settings: dict[str, object] = {}
    for name in op.PARAMETERS:
        value = op.parameter(name)
        if isinstance(value, SSAValue):
            settings[name] = e.value(value)
        elif value != SILENT.get(name) and (name != "v_reset" or _resets_to_value(op)):
            settings[name] = number(value)
    for name, value in vars(op.options()).items():
        if value != getattr(Options, name):
            settings[name] = f'"{value}"' if isinstance(value, str) else value
    if len(op.STATES) > 1:
        settings["states"] = len(op.STATES)
    e.used.add(op.MODEL.name)
    state = sequence([str(e.value(value)) for value in op.initial]) if op.initial else None
    call = e.library("run_neuron", op.MODEL.name, e.value(op.input), state=state, **settings)
    if is_train(op.output):
        e.set_train(op.output, dtype_of(op.input))
    return [call] if op.final else [call.index("0")]


def _resets_to_value(op: spike.NeuronOp) -> bool:
    return not isinstance(op, spike.FiringOp) or op.reset.data == "to_value"


def scan(op: spike.ScanOp, e: Forward) -> Sequence[Expr]:
    """A loop over the steps; what is the same in all of them stands before it."""
    steps, fixed, states = op.arguments()
    after, outputs = op.yielded()
    for argument, value in zip(fixed, op.fixed, strict=True):
        e.alias(argument, value)
    for argument, value in zip(states, op.states, strict=True):
        e.set_value(argument, e.bind(op, "state", _initial(op, argument, value, e)))
    lists = [e.bind(op, "steps", Expr("[]")) for _ in outputs]
    changing: set[SSAValue] = {*steps, *states}
    body = [inner for inner in op.body.block.ops if not isinstance(inner, spike.YieldOp)]
    for inner in body:
        if not changing.isdisjoint(inner.operands):
            changing.update(inner.results)
    e.run_all([inner for inner in body if changing.isdisjoint(inner.results)])
    first, t = op.runs[0], e.new_name("t")
    with e.block(op, f"for {t} in range({e.size(first, 0)}):"):
        for argument, run in zip(steps, op.runs, strict=True):
            if argument.first_use is not None:
                name = e.bind(op, "step", e.local(run).index(f"{t} : {t} + 1"))
                e.set_value(argument, name, e.train_dtype(run))
        e.keep((*after, *outputs))
        e.run_all([inner for inner in body if not changing.isdisjoint(inner.results)])
        for value, name in zip(outputs, lists, strict=True):
            e.write(op, f"{name}.append({e.value(value)})")
        names = ", ".join(e.value(argument).text for argument in states)
        if states:
            e.write(op, f"{names} = {', '.join(str(e.value(value)) for value in after)}")
    for value, result in zip(outputs, op.outputs, strict=True):
        e.set_train(result, e.train_dtype(value))
    return [Expr(f"torch.cat({name})") for name in lists] + [e.value(value) for value in states]


def _initial(op: spike.ScanOp, argument: SSAValue, value: SSAValue, e: Forward) -> Expr:
    """A state before the first step; of spikes as floats, like those of neurons."""
    type, run = dense_type(argument), op.runs[0]
    if dense_type(value).get_num_dims() == type.get_num_dims():
        return e.value(value)
    sizes = sequence(
        [
            e.size(run, op.source_axis(argument, axis)) if size == DYNAMIC else size
            for axis, size in enumerate(type.get_shape())
        ]
    )
    known = constant_value(value.owner) if isinstance(value.owner, tensor.ConstantOp) else None
    if known is None or known.any():
        return e.value(value).method("expand", sizes)
    dtype = "torch.float32" if is_train(argument) else dtype_of(argument)
    like = dtype == dtype_of(run) and not is_train(run)  # also after half() or double()
    return e.local(run).method("new_zeros", sizes, dtype=None if like else dtype)


def delay(op: spike.DelayOp, e: Forward) -> Sequence[Expr]:
    """A delay of each neuron, and what it still holds on request."""
    assert op.delays is not None
    before = None if op.initial is None else e.value(op.initial)
    places = (e.value(op.input), e.value(op.delays), op.steps.value.data)
    for result in op.results if is_train(op.input) else ():
        e.set_train(result, e.train_dtype(op.input))
    call = e.library("delay_each", *places, before=before)
    return [call] if op.final is not None else [call.index("0")]


def encode(op: spike.EncodeOp, e: Forward) -> Expr:
    """Random spikes."""
    assert op.timesteps is not None and op.seed is not None
    e.set_train(op.result, "torch.bool")
    return e.library(
        "encode_rate",
        e.value(op.operand),
        op.timesteps.value.data,
        op.start.value.data,
        elapsed=None if op.elapsed is None else e.value(op.elapsed),
        seed=op.seed.value.data,
    )


def to_tensor(op: spike.ToTensorOp, e: Forward) -> Expr:
    """Ones and zeros; in front of weights in their type, which `double()` changes."""
    dtype, weight = dtype_of(op.result), _weight(op.result)
    if weight is not None and are_spikes(op.result) and e.packed_matrix(weight) is not None:
        return e.value(op.operand)  # of any type
    entry = None if weight is None else e.parameter_entry(weight)
    if entry is not None and e.train_dtype(op.operand) != dtype:
        dtype = f"{entry.access}.dtype"
    return e.train(op.operand, dtype)


def are_spikes(value: SSAValue) -> bool:
    """Whether a tensor is spikes as floats, moved about."""
    return is_float(tensor_type(value)) and isinstance(_origin(value), spike.ToTensorOp)


def are_whole_sums(value: SSAValue) -> bool:
    """Whether a tensor is sums of whole weights for spikes, as floats that hold them."""
    op = _origin(value)
    if not has(op, AddsUp) or len(op.operands) < 2 or not are_spikes(op.operands[0]):
        return False
    weight = op.operands[1]
    source = weight.owner.operands[0] if isinstance(weight.owner, tensor.ConvertOp) else weight
    return is_trit(tensor_type(source)) or not is_float(tensor_type(source))


def _origin(value: SSAValue) -> Operation | Block:
    """What makes the elements of a tensor, which others may only move."""
    while has(value.owner, MovesElements):
        value = value.owner.operands[0]
    return value.owner


def _weight(value: SSAValue) -> SSAValue | None:
    """The weights that a tensor, moved about, is multiplied with."""
    for use in value.uses:
        op = use.operation
        if has(op, AddsUp) and len(op.operands) > 1:
            return op.operands[1]
        if has(op, MovesElements) and (weight := _weight(op.results[0])) is not None:
            return weight
    return None


def from_tensor(op: spike.FromTensorOp, e: Forward) -> Expr:
    """Truth values, or zeros and ones, as they are."""
    e.set_train(op.result, dtype_of(op.operand))
    return e.value(op.operand)


RULES = {
    **dict.fromkeys(OPS, neuron),
    spike.ScanOp: scan,
    spike.DelayOp: delay,
    spike.EncodeOp: encode,
    spike.ToTensorOp: to_tensor,
    spike.FromTensorOp: from_tensor,
}
"""The rule of each op."""
