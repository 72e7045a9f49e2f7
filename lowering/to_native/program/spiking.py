"""Spiking synapses and neurons as calls of kernels, the two in one loop where one feeds the other.

Trains are bytes 0 and 1. Not here: the kernels (`to_native.kernels.spiking_layers`), other ops on
trains, which `convert-spike-to-tensor` makes ops on tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import i1, i8
from xdsl.ir import Operation, SSAValue

from ....dialects import spike
from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.parameters import constant_value
from ....dialects.spike.types import dense_type, is_train
from ....ir.arrays import Array
from ....ir.sparse_matrix import part_names
from ....passes.analysis.compile_time import defining_literal, is_literal
from ....passes.analysis.event_products import event_kind, is_native_number, sparse_key
from ....runtime.native.abi.events import byte_rows, trit_rows
from ....runtime.native.abi.sizes import ONE, ZERO, Size, product
from ..kernels.events import EventRows
from ..kernels.float_events import FloatRows, float_scratch, write_float_layer
from ..kernels.neuron_steps import KERNELS, NeuronStep, Number
from ..kernels.sparse_events import SparseRows
from ..kernels.spiking_layers import (
    Synapse,
    layer_scratch,
    write_layer,
    write_neurons,
)
from .nests import RefusedError
from .program import KernelStep, Planner, Program
from .structured import packed
from .views import Buffer, View


@dataclass(frozen=True)
class _Variant:
    """What a function is made for.

    Attributes:
        synapse, neuron: the halves of a layer; one may be missing.
        initial, final: whether states come in and go out.
    """

    synapse: Synapse | None
    neuron: NeuronStep | None = None
    initial: bool = False
    final: bool = False

    def write(self, name: str, program: Program) -> llvm.FuncOp:
        """The function."""
        flags = {"initial": self.initial, "final": self.final}
        if self.synapse is not None and isinstance(self.synapse.rows, FloatRows):
            return write_float_layer(name, self.synapse, self.neuron, **flags)
        if self.synapse is None:
            assert self.neuron is not None
            return write_neurons(name, program.recipe, self.neuron, **flags)
        return write_layer(name, self.synapse, self.neuron, **flags)

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        if self.synapse is None:
            return 0
        if isinstance(self.synapse.rows, FloatRows):
            return float_scratch(self.synapse, self.neuron)
        return layer_scratch(self.synapse, self.neuron)


def _add(
    program: Program,
    variant: _Variant,
    operands: Sequence[View | None],
    outputs: Sequence[View],
    sizes: Sequence[Size],
) -> None:
    """Add a call of the function for a variant."""
    memory = Buffer(i8, Size.of(variant.scratch)) if variant.scratch else None
    name = program.kernel(variant, "spiking")
    program.steps.append(KernelStep(name, operands, outputs, sizes, memory))


def functions(program: Program) -> list[llvm.FuncOp]:
    """The kernels that the steps of a program call."""
    return [variant.write(name, program) for variant, name in program.kernels_of(_Variant)]


# Synapses


def _values(value: SSAValue) -> Array:
    owner = defining_literal(value)
    assert owner is not None
    values = constant_value(owner)
    assert values is not None
    return values


def _rows(program: Program, op: spike.LinearOp) -> tuple[EventRows, View]:
    """The weights of a synapse, and where they stand."""
    kind = event_kind(op)
    if kind is None:
        raise RefusedError(
            "no event-driven kernel takes it; take it apart with 'convert-spike-to-tensor'"
        )
    key = sparse_key(op)
    if key is not None:
        rows = SparseRows(program.recipe, kind, *tensor_type(op.weight).get_shape())
        return rows, program.held(part_names(key))
    weights, width = _values(op.weight), program.recipe.width
    if kind in ("f32", "f64"):
        rows, element = FloatRows(program.recipe, kind, *weights.shape), tensor_type(op.weight)
        return rows, program.constant(rows.arranged(weights), element.element_type)
    rows = EventRows(program.recipe, kind, *weights.shape)
    if kind == "trit":
        return rows, program.constant(rows.arranged(trit_rows(weights, width).view(np.int8)), i8)
    return rows, program.constant(rows.arranged(byte_rows(weights, width).view(np.int8)), i8)


def _synapse(program: Program, op: spike.LinearOp) -> tuple[Synapse, list[View | None]]:
    """A synapse; views of input, weights, scale and bias."""
    rows, weights = _rows(program, op)
    element = tensor_type(op.result).element_type
    scale = None if op.scale is None else _values(op.scale).reshape(-1)
    spread = None if scale is None else "all" if scale.size == 1 else "channel"
    synapse = Synapse(rows, element, spread, op.bias is not None)
    tables: list[View | None] = [None, None]
    if scale is not None:
        values = scale if scale.size == 1 else _padded(scale, synapse)
        tables[0] = program.constant(values, element)
    if op.bias is not None:
        tables[1] = program.constant(_padded(_values(op.bias).reshape(-1), synapse), element)
    x = packed(program, program.view(op.input))
    program.meet(x.sizes[-1], Size.of(rows.ins))
    return synapse, [x, weights, *tables]


def _padded(values: Array, synapse: Synapse) -> Array:
    padded = np.zeros(synapse.finished, values.dtype)
    padded[: values.size] = values
    return padded


def linear(program: Program, op: spike.LinearOp) -> None:
    """`spike.linear` on a train; nothing yet where the neurons that follow take it along."""
    if _neuron_after(program, op) is not None:
        return
    synapse, inputs = _synapse(program, op)
    x = inputs[0]
    assert x is not None
    y = program.new(synapse.result, (*x.sizes[:-1], Size.of(synapse.rows.outs)))
    program.views[op.result] = y
    rows = product(x.sizes[:-1])
    if rows != ZERO:
        _add(program, _Variant(synapse), inputs, [y], [rows])


def _neuron_after(program: Program, op: spike.LinearOp) -> spike.NeuronOp | None:
    """The neurons that alone take the currents of a synapse, if one kernel does both."""
    uses = list(op.result.uses)
    if len(uses) != 1 or event_kind(op) is None:
        return None
    neuron, between = uses[0].operation, op.next_op
    while between is not None and between is not neuron and is_literal(between):
        between = between.next_op
    if not isinstance(neuron, spike.NeuronOp) or between is not neuron:
        return None
    if neuron.input is not op.result or not _one_by_output(neuron):
        return None
    return neuron


def _one_by_output(neuron: spike.NeuronOp) -> bool:
    """Whether parameters are numbers, or literals with one for each place of the last axis."""
    for name in neuron.PARAMETERS:
        value = neuron.parameter(name)
        if not isinstance(value, SSAValue):
            continue
        if defining_literal(value) is None or any(
            n != 1 for n in tensor_type(value).get_shape()[:-1]
        ):
            return False
    return True


# Neurons


def neuron(program: Program, op: spike.NeuronOp) -> None:
    """A neuron over all steps of its currents, with its synapse where that was left to it."""
    owner = op.input.owner
    if isinstance(owner, spike.LinearOp) and _neuron_after(program, owner) is op:
        _layer(program, op, owner)
    else:
        _neurons(program, op)


def _layer(program: Program, op: spike.NeuronOp, source: spike.LinearOp) -> None:
    synapse, inputs = _synapse(program, source)
    x = inputs[0]
    assert x is not None
    outs = synapse.rows.outs
    sizes = (*x.sizes[:-1], Size.of(outs))
    step, tables = _step(program, op, [Size.of(outs)])
    padded = [program.constant(_padded(table, synapse), step.element) for table in tables]
    starts = _starts(program, op, sizes)
    outputs = _outputs(program, op, sizes)
    if x.sizes[0] == ZERO or product(sizes) == ZERO:
        raise RefusedError("has no steps")
    variant = _Variant(synapse, step, bool(starts), bool(op.final))
    batch = product(x.sizes[1:-1])
    _add(program, variant, [*inputs, *starts, *padded], outputs, [x.sizes[0], batch])


def _neurons(program: Program, op: spike.NeuronOp) -> None:
    x = packed(program, program.view(op.input))
    sizes = x.sizes[1:]
    own = [axis for axis, size in enumerate(sizes) if size.number is None]
    first = own[-1] + 1 if own else 0
    step, tables = _step(program, op, sizes[first:])
    if not step.each:
        first = len(sizes)
        groups, count = ONE, product(sizes)
    else:
        groups, count = product(sizes[:first]), product(sizes[first:])
    each = [program.constant(table, step.element) for table in tables]
    starts = _starts(program, op, x.sizes)
    outputs = _outputs(program, op, x.sizes)
    if x.sizes[0] == ZERO:
        raise RefusedError("has no steps")
    variant = _Variant(None, step, bool(starts), bool(op.final))
    _add(program, variant, [x, *starts, *each], outputs, [x.sizes[0], groups, count])


def _starts(program: Program, op: spike.NeuronOp, sizes: Sequence[Size]) -> list[View]:
    """The states before the first step."""
    views = [program.view(value) for value in op.initial]
    for view in views:
        for size, wanted in zip(view.sizes, sizes[1:], strict=True):
            program.meet(size, wanted)
    return [packed(program, view) for view in views]


def _outputs(program: Program, op: spike.NeuronOp, sizes: Sequence[Size]) -> list[View]:
    """Views of the results of a neuron."""
    outputs = [program.new(dense_type(op.output).element_type, sizes)]
    element = tensor_type(op.input).element_type
    outputs += [program.new(element, sizes[1:]) for _ in op.final]
    for value, view in zip((op.output, *op.final), outputs, strict=True):
        program.views[value] = view
    return outputs


def _step(
    program: Program, op: spike.NeuronOp, sizes: Sequence[Size]
) -> tuple[NeuronStep, list[Array]]:
    """What a neuron computes, and its parameters that are one for each place of `sizes`.

    Raises:
        RefusedError: elements or parameters that kernels do not take.
    """
    element = tensor_type(op.input).element_type
    if not is_native_number(element):
        raise RefusedError(f"has neurons of {element}; kernels take f32, f64 and integers")
    dtype = numpy_dtype(element)
    numbers: list[tuple[str, Number]] = []
    each: dict[str, Array] = {}
    for name in op.PARAMETERS:
        value = op.parameter(name)
        if not isinstance(value, SSAValue):
            numbers.append((name, np.asarray(value, dtype).item()))
            continue
        if defining_literal(value) is None:
            raise RefusedError(f"has a parameter {name} that is computed")
        values = _values(value)
        if name == "threshold" and not np.isfinite(values).all():
            raise RefusedError("has thresholds that are not finite")
        if values.size == 1:
            numbers.append((name, values.reshape(()).item()))
        else:
            each[name] = _spread(name, values, sizes)
    step = NeuronStep(
        op.MODEL.name,
        element,
        tuple(numbers),
        tuple(each),
        len(op.STATES),
        is_train(op.output),
        op.options(),
    )
    return step, list(each.values())


def _spread(name: str, values: Array, sizes: Sequence[Size]) -> Array:
    """A parameter for each place of the last axes, whose sizes are known."""
    shape = [cast("int", size.number) for size in sizes]
    lead = values.shape[: max(0, values.ndim - len(shape))]
    if any(n != 1 for n in lead):
        raise RefusedError(f"has a parameter {name} of its own for each sample")
    inner = values.reshape(values.shape[len(lead) :])
    return np.ascontiguousarray(np.broadcast_to(inner, shape)).reshape(-1)


# Trains as tensors


def retyped(program: Program, op: spike.ToTensorOp | spike.FromTensorOp) -> None:
    """A train as a tensor of truth values, or the other way round: the same bytes."""
    if dense_type(op.operand).element_type != i1 or dense_type(op.result).element_type != i1:
        raise RefusedError("changes the elements; take it apart with 'convert-spike-to-tensor'")
    program.views[op.result] = program.view(op.operand)


TRAINS: Mapping[type[Operation], Planner] = {
    spike.ToTensorOp: retyped,
    spike.FromTensorOp: retyped,
}
"""Ops that do nothing in memory."""

RULES: Mapping[type[Operation], Planner] = {
    **TRAINS,
    spike.LinearOp: linear,
    **{op: neuron for name, op in spike.NEURONS.items() if name in KERNELS},
}
"""For each op the function that plans it."""
