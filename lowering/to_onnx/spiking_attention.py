"""ONNX form of `spike.attention`: products of spikes of all steps, then a Scan over the neuron."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...dialects import spike
from ...dialects.neuron_equations import STEPS, Options
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from .graph import Element
from .integer import FLOAT_EXACT
from .onnx_writer import Rule, Writer
from .reduction import reduce_axes
from .spiking_neurons import Model, Parameter, run, zeros


def attention(e: Writer, op: spike.AttentionOp) -> None:
    """The currents of all steps, and the neuron."""
    exact = _exact_element(op)
    query, key, value = (e.numbers(train, exact) for train in (op.query, op.key, op.value))
    is_ssa = op.kind.data == "ssa"
    if is_ssa:
        sums = _heads(e, op, query, key, value)
    else:
        sums = reduce_axes(e, "ReduceSum", e.apply("Mul", [key, value]), [2], True)
    scale, tau, threshold = op.numbers()
    sums = e.cast(sums, Element.FLOAT)
    if scale != 1.0:
        sums = e.apply("Mul", [sums, e.scalar(scale, Element.FLOAT)])
    drive = e.apply("Div", [sums, e.scalar(tau, Element.FLOAT)])
    numbers = {"beta": 1 - 1 / tau, "threshold": threshold, "v_reset": 0.0}
    parameters = {
        name: Parameter(e.scalar(number, Element.FLOAT), float(np.float32(number)))
        for name, number in numbers.items()
    }
    model = Model(e, Options(op.compare.data, op.reset.data), parameters)
    query_shape = dense_type(op.query).get_shape()
    shape = (query_shape[0], *op.state_shape(query_shape))
    initial = zeros(e, drive, shape) if op.initial is None else e.value(op.initial)
    spikes, final = run(e, model, STEPS["lif"], drive, [initial], shape)
    if not is_ssa:
        masked = [e.cast(spikes, Element.BOOL), e.numbers(op.query, Element.BOOL)]
        spikes = e.apply("And", masked)
    e.bind(op.output, spikes)
    if op.final is not None:
        e.bind(op.final, final[0])


def _exact_element(op: spike.AttentionOp) -> Element:
    """The float type that holds every sum: of tokens times channels of a head."""
    tokens, channels = dense_type(op.key).get_shape()[2:]
    terms = tokens * (channels if op.kind.data == "ssa" else 1)
    known = tokens != DYNAMIC and channels != DYNAMIC and terms <= FLOAT_EXACT
    return Element.FLOAT if known else Element.DOUBLE


def _heads(e: Writer, op: spike.AttentionOp, query: str, key: str, value: str) -> str:
    """Q Kᵀ V of each head, side by side again."""
    heads, trains = op.heads.value.data, (op.query, op.key, op.value)
    if heads == 1:
        turned = e.apply("Transpose", [key], perm=[0, 1, 3, 2])
        return e.apply("MatMul", [e.apply("MatMul", [query, turned]), value])
    apart: list[str] = []
    for name, train, perm in zip(
        (query, key, value),
        trains,
        ([0, 1, 3, 2, 4], [0, 1, 3, 4, 2], [0, 1, 3, 2, 4]),
        strict=True,
    ):
        sizes = [
            e.dimension(name, axis, size)
            for axis, size in enumerate(dense_type(train).get_shape()[:3])
        ]
        shape = e.node("Concat", [*sizes, e.indices([heads, -1])], Element.INT64, axis=0)
        apart.append(e.apply("Transpose", [e.reshape_to(name, shape)], perm=perm))
    sums = e.apply("MatMul", [e.apply("MatMul", apart[:2]), apart[2]])
    together = e.apply("Transpose", [sums], perm=[0, 1, 3, 2, 4])
    return e.reshape_to(together, e.node("Shape", [query], Element.INT64))


RULES: dict[type[Operation], Rule] = {spike.AttentionOp: attention}
