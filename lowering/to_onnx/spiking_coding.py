"""ONNX forms of encoders, decoders and conversions between trains and tensors."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...dialects import spike
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.threefry import key_schedule
from ...dialects.spike.types import dense_type
from .elementwise import clip
from .graph import DOMAIN, Element, element_type
from .onnx_writer import Inexpressible, Rule, Writer
from .reduction import reduce_axes
from .shape import arange
from .spiking_neurons import compute_element, zeros
from .threefry import LEAST_OPSET


def encode(e: Writer, op: spike.EncodeOp) -> None:
    """The spikes of all steps."""
    e.bind(op.result, _SCHEMES[op.scheme.data](e, op))


def _steps(e: Writer, op: spike.EncodeOp, more: int = 0) -> str:
    """The numbers of the steps, and of `more` behind, INT64 laid along time."""
    assert op.timesteps is not None
    start, count = op.start.value.data, op.timesteps.value.data + more
    rank = tensor_type(op.operand).get_num_dims()
    steps = np.arange(start, start + count, dtype=np.int64).reshape(-1, *[1] * rank)
    name = e.constant(steps, "t")
    return name if op.elapsed is None else e.apply("Add", [name, e.value(op.elapsed)])


def _clipped(e: Writer, op: spike.EncodeOp) -> str:
    """x from 0 to 1 as DOUBLE; what is no number as 0, which gives no spikes either way."""
    x = e.cast(e.value(op.operand), Element.DOUBLE)
    above = e.apply("Greater", [x, e.scalar(0, Element.DOUBLE)], result=Element.BOOL)
    positive = e.node("Where", [above, x, e.scalar(0, Element.DOUBLE)], Element.DOUBLE)
    return clip(e, positive, None, 1)


def _direct(e: Writer, op: spike.EncodeOp) -> str:
    assert op.timesteps is not None
    x = e.value(op.operand)
    rank = tensor_type(op.operand).get_num_dims()
    sizes = e.indices([op.timesteps.value.data, *[1] * rank])
    return e.apply("Expand", [x], rest=[sizes])


def _rate(e: Writer, op: spike.EncodeOp) -> str:
    if e.opset < LEAST_OPSET:
        raise Inexpressible(
            f"random numbers need exclusive ors, which come with opset {LEAST_OPSET}"
        )
    assert op.seed is not None
    x, shape = e.value(op.operand), tensor_type(op.operand).get_shape()
    count = int(np.prod(shape, dtype=np.int64))
    if DYNAMIC in shape:
        size = e.node("Size", [x], Element.INT64)
        numbers = arange(e, e.unsqueeze(size, [0]))
        places = e.reshape_to(numbers, e.node("Shape", [x], Element.INT64))
    else:
        places = e.constant(np.arange(count, dtype=np.int64).reshape(shape), "places")
    key = {"key": key_schedule(op.seed.value.data)}
    words = e.call(DOMAIN, "spike.threefry", [_steps(e, op), places], Element.UINT32, key)
    draws = e.apply("Mul", [e.cast(words, Element.DOUBLE), e.scalar(2.0**-32, Element.DOUBLE)])
    return e.apply("Less", [draws, e.cast(x, Element.DOUBLE)], result=Element.BOOL)


def _regular(e: Writer, op: spike.EncodeOp) -> str:
    assert op.timesteps is not None
    steps = e.cast(_steps(e, op, 1), Element.DOUBLE)
    sums = e.apply("Floor", [e.apply("Mul", [steps, _clipped(e, op)])])
    after = e.slice_axes(sums, [1], [1 << 31], [0], [1])
    before = e.slice_axes(sums, [0], [op.timesteps.value.data], [0], [1])
    return e.apply("Greater", [after, before], result=Element.BOOL)


def _latency(e: Writer, op: spike.EncodeOp) -> str:
    period = op.steps_in_period()
    assert period is not None
    one, last = e.scalar(1, Element.DOUBLE), e.scalar(period - 1, Element.DOUBLE)
    late = e.apply("Mul", [last, e.apply("Sub", [one, _clipped(e, op)])])
    steps = e.cast(_steps(e, op), Element.DOUBLE)
    spikes = e.apply("Equal", [steps, e.apply("Round", [late])], result=Element.BOOL)
    x = e.value(op.operand)
    if op.threshold is None:
        return _and_numbers(e, spikes, x)
    wide = compute_element(e.element(x))
    threshold = e.scalar(op.threshold.value.data, wide)
    enough = e.apply("GreaterOrEqual", [e.cast(x, wide), threshold], result=Element.BOOL)
    return e.apply("And", [spikes, enough])


def _and_numbers(e: Writer, spikes: str, x: str) -> str:
    """`spikes` where `x` is a number: what is none has no time."""
    is_number = e.apply("Equal", [x, x], result=Element.BOOL)
    return e.apply("And", [spikes, is_number])


def _phase(e: Writer, op: spike.EncodeOp) -> str:
    period = op.steps_in_period()
    assert period is not None
    levels = float(2**period)
    scaled = e.apply("Mul", [_clipped(e, op), e.scalar(levels, Element.DOUBLE)])
    digits = clip(e, e.apply("Floor", [scaled]), None, levels - 1)
    phases = e.apply("Mod", [_steps(e, op), e.scalar(period, Element.INT64)])
    table = e.constant(2.0 ** (np.arange(period) - (period - 1)), "places")
    factors = e.node("Gather", [table, phases], Element.DOUBLE, axis=0)
    # The digit is the last one of what is left of ⌊digits / 2^(P-1-t)⌋ after halving.
    left = e.apply("Floor", [e.apply("Mul", [digits, factors])])
    half = e.apply("Mul", [left, e.scalar(0.5, Element.DOUBLE)])
    return e.apply("Greater", [half, e.apply("Floor", [half])], result=Element.BOOL)


def _delta(e: Writer, op: spike.EncodeOp) -> str:
    assert op.threshold is not None
    x, shape = e.value(op.operand), tensor_type(op.operand).get_shape()
    wide = compute_element(e.element(x))
    before = zeros(e, x, shape) if op.previous is None else e.value(op.previous)
    whole = e.cast(e.apply("Concat", [e.unsqueeze(before, [0]), x], axis=0), wide)
    rises = e.apply("Sub", [e.cast(x, wide), e.slice_axes(whole, [0], [-1], [0], [1])])
    threshold = e.scalar(op.threshold.value.data, wide)
    return e.apply("GreaterOrEqual", [rises, threshold], result=Element.BOOL)


_SCHEMES = {
    "direct": _direct,
    "rate": _rate,
    "regular": _regular,
    "latency": _latency,
    "phase": _phase,
    "delta": _delta,
}


def decode(e: Writer, op: spike.DecodeOp) -> None:
    """One number for each neuron."""
    shape = dense_type(op.operand).get_shape()
    if op.scheme.data == "membrane":
        e.bind(op.result, _membrane(e, op))
        return
    train = e.numbers(op.operand, Element.FLOAT)
    if op.scheme.data == "rate":
        total = reduce_axes(e, "ReduceSum", train, [0], False)
    else:
        # The first spike counts most: T - t of each, and the greatest of them.
        left = e.unsqueeze(_steps_left(e, train, shape[0]), list(range(1, len(shape))))
        total = reduce_axes(e, "ReduceMax", e.apply("Mul", [train, left]), [0], False)
    e.bind(op.result, e.apply("Div", [total, _step_count(e, train, shape[0])]))


def _step_count(e: Writer, train: str, steps: int) -> str:
    if steps != DYNAMIC:
        return e.scalar(steps, Element.FLOAT)
    count = e.cast(e.dimension(train, 0, steps), Element.FLOAT)
    return e.node("Squeeze", [count, e.indices([0], "axes")], Element.FLOAT)


def _steps_left(e: Writer, train: str, steps: int) -> str:
    """T - t for each step t."""
    if steps != DYNAMIC:
        return e.constant(np.arange(steps, 0, -1).astype(np.float32), "left")
    t = e.cast(arange(e, e.dimension(train, 0, steps)), Element.FLOAT)
    return e.apply("Sub", [_step_count(e, train, steps), t])


def _membrane(e: Writer, op: spike.DecodeOp) -> str:
    assert op.readout is not None
    x = e.value(op.operand)
    if op.readout.data == "last":
        last = e.constant(np.array(-1, np.int64), "last")
        return e.apply("Gather", [x], rest=[last], axis=0)
    op_type = "ReduceMax" if op.readout.data == "max" else "ReduceMean"
    return reduce_axes(e, op_type, x, [0], False)


def to_tensor(e: Writer, op: spike.ToTensorOp) -> None:
    """Zeros and ones of the wanted type."""
    e.bind(op.result, e.numbers(op.operand, element_type(tensor_type(op.result).element_type)))


def from_tensor(e: Writer, op: spike.FromTensorOp) -> None:
    """What is not zero is a spike."""
    e.bind(op.result, e.cast(e.value(op.operand), Element.BOOL))


RULES: dict[type[Operation], Rule] = {
    spike.EncodeOp: encode,
    spike.DecodeOp: decode,
    spike.ToTensorOp: to_tensor,
    spike.FromTensorOp: from_tensor,
}
