"""ONNX forms of what is left of spikes: loops over steps, random spikes, trains as numbers.

Neurons, synapses and the other codes are ops of `tensor` by then (`convert-spike-to-tensor`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...dialects import spike
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.threefry import key_schedule
from ...dialects.spike.types import dense_type, is_train
from ..emission import STORED, Inexpressible, write_within
from .graph import DOMAIN, Element, Port, element_type
from .onnx_writer import Rule, Writer
from .quantization import constant_of
from .shape import arange
from .threefry import LEAST_OPSET


def scan(e: Writer, op: spike.ScanOp, write: Rule) -> None:
    """One Scan node, whose body makes one step.

    The body reads values around it too: what does not change stays outside. Where it works on each
    element alone, a step has no axis of time in it.
    """
    steps, fixed, states = op.arguments()
    flat = op.is_elementwise()
    for argument, value in zip(fixed, op.fixed, strict=True):
        e.alias(argument, value)
    runs = [e.value(run) for run in op.runs]
    before = [_initial(e, op, index, flat) for index in range(len(states))]
    body = e.graph.child()
    carried, slices = (
        [body.add_input(f"{e.hint}.{kind}", e.element(name)) for name in names]
        for kind, names in (("before", before), ("step", runs))
    )
    hint = e.hint
    with e.writing(body):
        for arguments, names in ((states, carried), (steps, slices)):
            for argument, name in zip(arguments, names, strict=True):
                whole = flat or arguments is states
                e.bind_input(argument, name if whole else e.unsqueeze(name, [0]))
        for inner in op.body.block.ops:
            if not isinstance(inner, (*STORED, spike.YieldOp)):
                write_within(lambda op: write(e, op), inner)
        after, outputs = op.yielded()
        left = [
            e.numbers(value, e.element(name)) for value, name in zip(after, before, strict=True)
        ]
        given = [e.floats(e.value(value)) for value in outputs]
        given = given if flat else [e.squeeze(name, [0]) for name in given]
    elements = [e.element(name) for name in (*left, *given)]
    renamed: dict[str, str] = {}
    ranks = [dense_type(value).get_num_dims() - flat for value in after]
    ranks += [dense_type(value).get_num_dims() - 1 for value in outputs]
    for name, element, rank in zip((*left, *given), elements, ranks, strict=True):
        port = Port(body.new_name(f"{hint}.after"), element, (None,) * rank)
        renamed[name] = body.add_output(renamed.get(name, name), port)
    wishes = [f"{hint}.state"] * len(left) + [f"{hint}.steps"] * len(given)
    attributes = {"num_scan_inputs": len(runs)}
    results = e.graph.add_node("Scan", [*before, *runs], elements, wishes, attributes, body=body)
    for value, name in zip(op.outputs, results[len(left) :], strict=True):
        e.bind(value, name)
    for value, name in zip(op.final, results, strict=False):
        e.bind_input(value, e.unsqueeze(name, [0]) if flat else name)


def _initial(e: Writer, op: spike.ScanOp, index: int, flat: bool) -> str:
    """A state before the first step; a scalar is spread over the sizes of the state."""
    argument, name = op.arguments()[2][index], e.value(op.states[index])
    shape = dense_type(argument).get_shape()
    if dense_type(op.states[index]).get_num_dims():
        return e.squeeze(name, [0]) if flat else name
    value = constant_of(op.states[index])
    if DYNAMIC not in shape and value is not None:
        return e.constant(np.broadcast_to(value, shape[flat:]), "zeros")
    run, known = e.value(op.runs[0]), dense_type(op.runs[0]).get_shape()
    axes = [op.source_axis(argument, axis) for axis in range(len(shape))]
    if flat and e.opset >= 15 and axes[1:] == list(range(1, len(known))) and shape[1:] == known[1:]:
        wanted = e.node("Shape", [run], Element.INT64, start=1)
    else:
        pieces = [
            e.dimension(run, axis, known[axis]) if size == DYNAMIC else e.indices([size])
            for axis, size in list(zip(axes, shape, strict=True))[flat:]
        ]
        wanted = e.node("Concat", pieces, Element.INT64, axis=0)
    return e.apply("Expand", [name], rest=[wanted])


def encode(e: Writer, op: spike.EncodeOp) -> None:
    """Spikes at random, by the same numbers as everywhere: h/2^32 < x for a random word h."""
    if e.opset < LEAST_OPSET:
        raise Inexpressible(
            f"random numbers need exclusive ors, which come with opset {LEAST_OPSET}"
        )
    assert op.seed is not None
    x, shape = e.value(op.operand), tensor_type(op.operand).get_shape()
    if DYNAMIC in shape:
        size = e.node("Size", [x], Element.INT64)
        numbers = arange(e, e.unsqueeze(size, [0]))
        places = e.reshape_to(numbers, e.node("Shape", [x], Element.INT64))
    else:
        count = int(np.prod(shape, dtype=np.int64))
        places = e.constant(np.arange(count, dtype=np.int64).reshape(shape), "places")
    key = {"key": key_schedule(op.seed.value.data)}
    words = e.call(DOMAIN, "spike.threefry", [_steps(e, op), places], Element.UINT32, key)
    draws = e.apply("Mul", [e.cast(words, Element.DOUBLE), e.scalar(2.0**-32, Element.DOUBLE)])
    e.bind(op.result, e.apply("Less", [draws, e.cast(x, Element.DOUBLE)], result=Element.BOOL))


def _steps(e: Writer, op: spike.EncodeOp) -> str:
    """The numbers of the steps, INT64 laid along time."""
    assert op.timesteps is not None
    start, count = op.start.value.data, op.timesteps.value.data
    rank = tensor_type(op.operand).get_num_dims()
    steps = np.arange(start, start + count, dtype=np.int64).reshape(-1, *[1] * rank)
    name = e.constant(steps, "t")
    return name if op.elapsed is None else e.apply("Add", [name, e.value(op.elapsed)])


def convert_train(e: Writer, op: spike.ToTensorOp | spike.FromTensorOp) -> None:
    """A train as numbers, or what is not zero as a train: no node for the numbers that it has."""
    if is_train(op.result):
        e.bind_input(op.result, e.cast(e.value(op.operand), Element.BOOL))
        return
    element = element_type(tensor_type(op.result).element_type)
    e.bind_input(op.result, e.cast(e.same(e.value(op.operand), Element.BOOL), element))


RULES: dict[type[Operation], Rule] = {
    spike.EncodeOp: encode,
    spike.ToTensorOp: convert_train,
    spike.FromTensorOp: convert_train,
}
