"""PyTorch form of `spike.recurrent`: a loop over the steps."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import spike
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type, is_train
from ...ir.errors import LoweringError
from ...passes.analysis.step_form import CarriedState, StepForm, step_form
from .expressions import Expr, call, sequence
from .forward import Forward, Refusal, dtype_of
from .state import torch_dtype


def recurrent(op: spike.RecurrentOp, e: Forward) -> Sequence[Expr]:
    """What does not depend on the feedback, the loop, and what depends on last states alone."""
    try:
        form = step_form(op)
    except LoweringError as error:
        raise Refusal(str(error)) from None
    for argument, value in zip(op.body.block.args, op.inputs, strict=False):
        e.alias(argument, value)
    e.run_all(form.before)
    _loop(op, form, e)
    e.run_all(form.after)
    end = op.body.block.last_op
    assert end is not None
    for result, value in zip(op.results, end.operands, strict=True):
        if is_train(result):
            e.set_train(result, e.train_dtype(value))
    return [e.local(value) for value in end.operands]


def _loop(op: spike.RecurrentOp, form: StepForm, e: Forward) -> None:
    for argument, value in form.fixed.items():
        e.alias(argument, value)
    for state in form.states:
        value = Expr("") if state.initial is None else e.value(state.initial)
        initial = _zeros(op, state, e) if state.initial is None else value
        e.set_value(state.argument, e.bind(op, "state", initial))
    lists = {value: e.bind(op, "steps", Expr("[]")) for value in form.stacked}
    t = e.new_name("t")
    with e.block(op, f"for {t} in range({_step_count(op, form, e)}):"):
        for argument, run in form.slices.items():
            name = e.bind(op, "step", e.local(run).index(f"{t} : {t} + 1"))
            e.set_value(argument, name, e.train_dtype(run) if is_train(run) else None)
        e.keep(state.after for state in form.states)
        e.keep(form.stacked.values())
        e.run_all(list(form.block.ops))
        after = [e.value(state.after) for state in form.states]
        for value, name in lists.items():
            e.write(op, f"{name}.append({e.value(form.stacked[value])})")
        names = [e.value(state.argument).text for state in form.states]
        e.write(op, f"{', '.join(names)} = {', '.join(map(str, after))}")
    for value, name in lists.items():
        kind = e.train_dtype(form.stacked[value]) if is_train(value) else None
        e.set_value(value, e.bind(op, "run", Expr(f"torch.cat({name})")), kind)
    for value, state in form.last.items():
        kind = e.train_dtype(state.after) if is_train(value) else None
        e.set_value(value, e.value(state.argument), kind)


def _step_count(op: spike.RecurrentOp, form: StepForm, e: Forward) -> str:
    steps = dense_type(op.output).get_shape()[0]
    if steps != DYNAMIC:
        return str(steps)
    first = next(iter(form.slices.values()), op.inputs[0])
    return f"{e.local(first)}.shape[0]"


def _zeros(op: spike.RecurrentOp, state: CarriedState, e: Forward) -> Expr:
    """Zeros of the sizes that the first input has; of spikes as floats, like those of neurons."""
    type, offset = dense_type(state.argument), 0 if state.has_time else 1
    first = e.local(op.inputs[0])
    sizes = [
        f"{first}.shape[{axis + offset}]" if size == DYNAMIC else str(size)
        for axis, size in enumerate(type.get_shape())
    ]
    dtype = "torch.float32" if is_train(state.argument) else torch_dtype(type.element_type)
    if dtype == dtype_of(op.inputs[0]):
        return first.method("new_zeros", sequence(sizes))  # also after half() or double()
    return call("torch.zeros", sequence(sizes), dtype=dtype, device=f"{first}.device")


RULES = {spike.RecurrentOp: recurrent}
"""The rule of the op."""
