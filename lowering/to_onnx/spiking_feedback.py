"""ONNX form of `spike.recurrent`: one Scan whose body makes a step of all its ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from ...dialects import spike
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from ...ir.errors import LoweringError
from ...passes.analysis.step_form import CarriedState, StepForm, step_form
from ..emission import STORED, Inexpressible, write_within
from .graph import Element, element_type
from .onnx_writer import Writer
from .scan import scan
from .spiking_neurons import squeeze_step

Write = Callable[[Writer, Operation], None]
"""Writes the nodes of one op."""


def recurrent(e: Writer, op: spike.RecurrentOp, write: Write) -> None:
    """What does not depend on the feedback, the Scan, and what depends on last states alone."""
    try:
        form = step_form(op)
    except LoweringError as error:
        raise Inexpressible(str(error)) from None
    for argument, value in zip(op.body.block.args, op.inputs, strict=False):
        e.alias(argument, value)
    _write_all(e, form.before, write)
    e.start(op)
    _loop(e, op, form, write)
    _write_all(e, form.after, write)
    end = op.body.block.last_op
    assert end is not None
    for result, value in zip(op.results, end.operands, strict=True):
        e.alias(result, value)


def _write_all(e: Writer, ops: list[Operation], write: Write) -> None:
    for op in ops:
        if not isinstance(op, STORED):
            write_within(lambda inner: write(e, inner), op)


def _loop(e: Writer, op: spike.RecurrentOp, form: StepForm, write: Write) -> None:
    for argument, value in form.fixed.items():
        e.alias(argument, value)
    runs = [e.value(value) for value in form.slices.values()]
    steps = dense_type(op.output).get_shape()[0]
    if not runs and steps == DYNAMIC:
        runs = [e.value(op.inputs[0])]  # which says how many steps there are
    elif not runs:
        runs = [e.constant(np.zeros(steps, np.bool_), "steps")]
    states = [_initial(e, op, state) for state in form.states]

    def step(before: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
        for state, name in zip(form.states, before, strict=True):
            e.bind_input(state.argument, name)
        for argument, name in zip(form.slices, inputs, strict=False):
            e.bind_input(argument, e.unsqueeze(name, [0]))
        _write_all(e, list(form.block.ops), write)
        after = [
            e.numbers(state.after, e.element(name))
            for state, name in zip(form.states, before, strict=True)
        ]
        return after, [squeeze_step(e, e.value(value)) for value in form.stacked.values()]

    ranks = [dense_type(state.argument).get_num_dims() for state in form.states]
    ranks += [dense_type(value).get_num_dims() - 1 for value in form.stacked]
    final, results = scan(e, states, runs, step, ranks)
    for value, name in zip(form.stacked, results, strict=True):
        e.bind_input(value, name)
    for value, state in form.last.items():
        e.bind_input(value, final[form.states.index(state)])


def _initial(e: Writer, op: spike.RecurrentOp, state: CarriedState) -> str:
    """The value before the first step: given, or zeros of the sizes that the first input has."""
    type = dense_type(state.argument)
    element = element_type(type.element_type)
    if state.initial is not None:
        return e.numbers(state.initial, element)
    shape = type.get_shape()
    if DYNAMIC not in shape:
        return e.constant(np.zeros(shape, element.dtype), "zeros")
    first, known = e.value(op.inputs[0]), dense_type(op.inputs[0]).get_shape()
    offset = 0 if state.has_time else 1
    sizes = [
        e.dimension(first, axis + offset, known[axis + offset])
        if size == DYNAMIC
        else e.indices([size])
        for axis, size in enumerate(shape)
    ]
    whole = e.node("Concat", sizes, Element.INT64, axis=0)
    return e.apply("Expand", [e.scalar(0, element)], rest=[whole])
