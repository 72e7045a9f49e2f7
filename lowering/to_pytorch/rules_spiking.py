"""PyTorch forms of spiking neurons, coding, delays, attention and normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialects import spike
from ...dialects.inference import tensor_type
from ...dialects.spike.interpret_neurons import OPS
from ...dialects.spike.types import is_train
from ...dialects.traits import MovesElements, has
from ...ir.neurons.arithmetic import SILENT, Options
from .expressions import COMPARE, Expr, sequence
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
    settings |= _flags(op.options())
    if len(op.STATES) > 1:
        settings["states"] = len(op.STATES)
    e.used.add(op.MODEL.name)
    state = _tuple(op.initial, e)
    call = e.library("run_neuron", op.MODEL.name, e.value(op.input), state=state, **settings)
    if is_train(op.output):
        e.set_train(op.output, dtype_of(op.input))
    return [call] if op.final else [call.index("0")]


def _resets_to_value(op: spike.NeuronOp) -> bool:
    return not isinstance(op, spike.FiringOp) or op.reset.data == "to_value"


def _flags(options: Options) -> dict[str, object]:
    """The options that are not what `run_neuron` takes by default."""
    return {
        name: f'"{value}"' if isinstance(value, str) else value
        for name, value in vars(options).items()
        if value != getattr(Options, name)
    }


def _tuple(values: Sequence[SSAValue], e: Forward) -> str | None:
    return sequence([str(e.value(value)) for value in values]) if values else None


def attention(op: spike.AttentionOp, e: Forward) -> Sequence[Expr]:
    """Spiking attention."""
    scale, tau, threshold = op.numbers()
    call = e.library(
        "attend_spikes",
        *(e.value(train) for train in (op.query, op.key, op.value)),
        state=_tuple([op.initial] if op.initial is not None else [], e),
        kind=f'"{op.kind.data}"',
        heads=op.heads.value.data,
        scale=number(scale),
        tau=number(tau),
        threshold=number(threshold),
        **_flags(Options(op.compare.data, op.reset.data)),
        **({"v_reset": number(0.0)} if op.reset.data == "to_value" else {}),
    )
    e.set_train(op.output, "torch.float32")
    return [call] if op.final is not None else [call.index("0")]


def delay(op: spike.DelayOp, e: Forward) -> Sequence[Expr]:
    """A delay, and what it still holds on request."""
    call = e.library(
        "delay_steps",
        e.value(op.input),
        op.steps.value.data,
        before=None if op.initial is None else e.value(op.initial),
        delays=None if op.delays is None else e.value(op.delays),
    )
    for result in op.results if is_train(op.input) else ():
        e.set_train(result, e.train_dtype(op.input))
    return [call] if op.final is not None else [call.index("0")]


def batch_norm(op: spike.BatchNormOp, e: Forward) -> Expr:
    """Normalisation of each channel."""
    vectors = (op.scale, op.bias, op.mean, op.variance)
    factor = op.factor() if op.kind.data == "tdbn" else 1.0
    return e.library(
        "normalize_channels",
        e.value(op.input),
        *map(e.value, vectors),
        axis=op.axis.value.data % tensor_type(op.input).get_num_dims(),
        epsilon=number(op.epsilon.value.data),
        factor=None if factor == 1.0 else number(factor),
    )


def encode(op: spike.EncodeOp, e: Forward) -> Expr:
    """Numbers as spikes."""
    x, scheme = e.value(op.operand), op.scheme.data
    threshold = None if op.threshold is None else number(op.threshold.value.data)
    if is_train(op.result):
        e.set_train(op.result, "torch.bool")
    if scheme == "delta":
        previous = None if op.previous is None else e.value(op.previous)
        return e.library("encode_delta", x, threshold, previous=previous)
    assert op.timesteps is not None
    steps = op.timesteps.value.data
    if scheme == "direct":
        rank = tensor_type(op.operand).get_num_dims()
        return x.method("expand", steps, *[-1] * rank)
    timed = scheme in ("latency", "phase")
    return e.library(
        f"encode_{scheme}",
        x,
        steps,
        op.start.value.data,
        elapsed=None if op.elapsed is None else e.value(op.elapsed),
        seed=None if op.seed is None else op.seed.value.data,
        period=op.steps_in_period() if timed else None,
        threshold=threshold,
    )


def decode(op: spike.DecodeOp, e: Forward) -> Expr:
    """Steps as one number for each neuron."""
    x = e.value(op.operand)
    if op.readout is None:
        return e.library(f"decode_{op.scheme.data}", x)
    if op.readout.data == "last":
        return x.index("-1")
    return x.method({"max": "amax", "mean": "mean"}[op.readout.data], 0)


def to_tensor(op: spike.ToTensorOp, e: Forward) -> Expr:
    """Zeros and ones of the wanted type; floats also for truth values that become spikes again."""
    dtype = dtype_of(op.result)
    spikes = e.train_dtype(op.operand)
    if dtype == "torch.bool" and spikes is not None and _ends_as_train(op.result):
        _mark(op.result, spikes, e)
        return e.value(op.operand)
    return e.train(op.operand, dtype)


def from_tensor(op: spike.FromTensorOp, e: Forward) -> Expr:
    """What is not zero is a spike; what was spikes and has only moved stays as it is."""
    x, dtype = e.value(op.operand), e.train_dtype(op.operand) or dtype_of(op.operand)
    if dtype == "torch.bool" or _comes_from_trains(op.operand):
        e.set_train(op.result, dtype)
        return x
    e.set_train(op.result, "torch.bool")
    return Expr(f"{x.at(COMPARE + 1)} != 0", COMPARE)


def _ends_as_train(value: SSAValue) -> bool:
    """Whether truth values are only moved about and made spikes again."""
    return all(
        isinstance(use.operation, spike.FromTensorOp)
        or (has(use.operation, MovesElements) and all(map(_ends_as_train, use.operation.results)))
        for use in value.uses
    )


def _mark(value: SSAValue, dtype: str, e: Forward) -> None:
    e.set_train(value, dtype)
    for use in value.uses:
        if has(use.operation, MovesElements):
            for result in use.operation.results:
                _mark(result, dtype, e)


def _comes_from_trains(value: SSAValue) -> bool:
    """Whether all elements of a tensor are spikes of trains."""
    owner = value.owner
    if has(owner, MovesElements):
        return all(map(_comes_from_trains, owner.operands))
    return isinstance(owner, spike.ToTensorOp)


RULES = {
    **dict.fromkeys(OPS, neuron),
    spike.AttentionOp: attention,
    spike.DelayOp: delay,
    spike.BatchNormOp: batch_norm,
    spike.EncodeOp: encode,
    spike.DecodeOp: decode,
    spike.ToTensorOp: to_tensor,
    spike.FromTensorOp: from_tensor,
}
"""The rule of each op."""
