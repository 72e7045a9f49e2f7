"""TFLite forms of what is left of spikes: loops over steps, random spikes, trains as truth values.

The steps of a loop are written one after the other, since LiteRT has no loop over slices. Neurons,
synapses and the other codes are ops of `tensor` by then (`convert-spike-to-tensor`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import spike
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type, is_train
from ..emission import STORED, Inexpressible, write_within
from .elementwise import clip
from .graph import Element, Tensor, element_type
from .shape import cut
from .tflite_writer import Rule, Writer
from .threefry import words

MOST_STEPS = 1024
"""The longest run that is written out."""


def scan(e: Writer, op: spike.ScanOp, write: Rule) -> None:
    """Every step of the body written out, each on values of its own."""
    steps = _step_count(op.runs[0])
    runs, fixed = ([e.value(value) for value in values] for values in (op.runs, op.fixed))
    states = [_initial(e, op, index) for index in range(len(op.states))]
    outputs: list[list[Tensor]] = [[] for _ in op.outputs]
    for step in range(steps):
        arguments = [*(_step_of(e, run, step, steps) for run in runs), *fixed, *states]
        results = _one_step(e, op, arguments, write)
        states = results[: len(states)]
        for collected, value in zip(outputs, results[len(states) :], strict=True):
            collected.append(value)
    e.start(op)
    for result, pieces, value in zip(op.outputs, outputs, op.yielded()[1], strict=True):
        e.bind(result, _joined(e, [_whole(e, op, piece, value) for piece in pieces]))
    for result, state, value in zip(op.final, states, op.arguments()[2], strict=True):
        e.bind(result, _whole(e, op, state, value))


def _one_step(e: Writer, op: spike.ScanOp, inputs: list[Tensor], write: Rule) -> list[Tensor]:
    """What the body yields for its arguments; weights stay those of the program."""
    body = op.body.block
    arguments = Block(arg_types=[argument.type for argument in body.args]).args
    for argument, value in zip(arguments, inputs, strict=True):
        e.bind(argument, value)
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=True))
    for inner in body.ops:
        if isinstance(inner, spike.YieldOp):
            return [e.value(values.get(value, value)) for value in inner.operands]
        if not isinstance(inner, STORED):
            write_within(lambda op: write(e, op), inner.clone(values))
    return []


def _initial(e: Writer, op: spike.ScanOp, index: int) -> Tensor:
    """A state before the first step; where the body broadcasts, a scalar needs no sizes."""
    argument = op.arguments()[2][index]
    rank = dense_type(argument).get_num_dims()
    state = e.value(op.states[index])
    if state.rank == rank:
        return state
    if state.data is None:
        raise Inexpressible("a state that begins as one computed number for all places")
    number = e.constant(state.data.reshape((1,) * rank), state.name)
    return number if op.is_elementwise() else _whole(e, op, number, argument)


def _whole(e: Writer, op: spike.ScanOp, x: Tensor, value: SSAValue) -> Tensor:
    """`x` in all the sizes of `value`, a state or a step of an output, where it has 1 for some."""
    wanted = dense_type(value).get_shape()
    if all(have == size for have, size in zip(x.shape, wanted, strict=True)):
        return x
    if DYNAMIC not in wanted and x.data is not None:
        return e.constant(np.broadcast_to(x.data, wanted), x.name)
    run = e.value(op.runs[0])
    sizes = [
        e.dimension(run, op.source_axis(value, axis)) if size == DYNAMIC else size
        for axis, size in enumerate(wanted)
    ]
    return e.apply("BROADCAST_TO", [x], shape=wanted, rest=[e.sizes(sizes)])


def _step_count(run: SSAValue) -> int:
    """How many steps a run has.

    Raises:
        Inexpressible: that is not known, or they are too many to write out.
    """
    steps = dense_type(run).get_shape()[0]
    if steps == DYNAMIC or not 0 < steps <= MOST_STEPS:
        raise Inexpressible(
            f"LiteRT runs neurons and loops over 1 to {MOST_STEPS} known steps; "
            "fix them with infer-shapes{timesteps=…}"
        )
    return steps


def _step_of(e: Writer, run: Tensor, step: int, steps: int) -> Tensor:
    """One of the `steps` steps of a run, with its axis."""
    if steps == 1:
        return run
    begin, rest = [step, *[0] * (run.rank - 1)], [DYNAMIC] * (run.rank - 1)
    return cut(e, run, begin, [1, *rest])


def _joined(e: Writer, pieces: list[Tensor]) -> Tensor:
    """Steps one after the other as a run."""
    if len(pieces) == 1:
        return pieces[0]
    shape = (len(pieces), *pieces[0].shape[1:])
    return e.apply("CONCATENATION", pieces, shape=shape, axis=0)


def encode(e: Writer, op: spike.EncodeOp) -> None:
    """Spikes at random, by the same numbers as everywhere: h/2^32 < x for a random word h.

    For an integer h that is h < ⌈x·2^32⌉, in INT64.
    """
    assert op.timesteps is not None and op.seed is not None
    x = e.float32(e.value(op.operand))
    steps = op.timesteps.value.data
    drawn = words(e, op.seed.value.data, _steps(e, op), _places(e, x))
    spread = _spread(e, drawn, x, steps)
    unsigned = e.cast(e.cast(spread, Element.UINT32), Element.INT64)
    e.bind(op.result, e.compare("LESS", unsigned, _limit(e, x)))


def _limit(e: Writer, x: Tensor) -> Tensor:
    """⌈x·2^32⌉ for x cut to [0, 1], as INT64; 0 for what is no number."""
    zero = e.scalar(0, Element.FLOAT32)
    number = e.choose(e.compare("EQUAL", x, x), x, zero)
    scaled = e.binary("MUL", clip(e, number, 0, 1), e.scalar(2.0**32, Element.FLOAT32))
    ceiling = e.apply("NEG", [e.apply("FLOOR", [e.apply("NEG", [scaled])])])
    return e.cast(ceiling, Element.INT64)


def _steps(e: Writer, op: spike.EncodeOp) -> Tensor:
    """The numbers of the steps modulo 2^32, as INT32 [steps, 1]."""
    assert op.timesteps is not None
    start, count = op.start.value.data, op.timesteps.value.data
    numbers = np.arange(start, start + count, dtype=np.int64).astype(np.int32).reshape(-1, 1)
    steps = e.constant(numbers, "steps")
    if op.elapsed is None:
        return steps
    return e.binary("ADD", steps, e.cast(e.value(op.elapsed), Element.INT32))


def _places(e: Writer, x: Tensor) -> Tensor:
    """The row-major index of each element, as INT32 [elements]."""
    if DYNAMIC not in x.shape:
        return e.constant(np.arange(np.prod(x.shape, dtype=np.int64)).astype(np.int32), "places")
    count = e.reshape(e.dimension(e.reshape(x, (DYNAMIC,)), 0), ())
    bounds = [e.scalar(0, Element.INT32), count, e.scalar(1, Element.INT32)]
    return e.node("RANGE", bounds, Element.INT32, (DYNAMIC,))


def _spread(e: Writer, drawn: Tensor, x: Tensor, steps: int) -> Tensor:
    """[steps, elements] as [steps, …] of the sizes of `x`."""
    shape = (steps, *x.shape)
    if shape.count(DYNAMIC) <= 1:
        return e.reshape(drawn, shape)
    sizes = e.sizes(
        [steps, *(e.dimension(x, a) if s == DYNAMIC else s for a, s in enumerate(x.shape))]
    )
    return e.node("RESHAPE", [drawn, sizes], drawn.element, shape)


def convert_train(e: Writer, op: spike.ToTensorOp | spike.FromTensorOp) -> None:
    """A train as numbers, or truth values as a train."""
    wanted = dense_type(op.result)
    element = Element.BOOL if is_train(op.result) else element_type(wanted.element_type)
    x, layout = e.stored(op.operand)
    e.bind(op.result, e.cast(x, element), layout)


RULES: dict[type[Operation], Rule] = {
    spike.EncodeOp: encode,
    spike.ToTensorOp: convert_train,
    spike.FromTensorOp: convert_train,
}
