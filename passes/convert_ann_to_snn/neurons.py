"""Activations that become integrate-and-fire neurons, and the thresholds noted on them.

`balance-thresholds` writes `spike.threshold` and `spike.initial` on an activation; `annotate` is
what it calls, `threshold_of` and `initial_of` read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    Float64Type,
    FloatAttr,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, constant_value, dense
from ...dialects.shapes import DYNAMIC, is_float
from ...dialects.spike.types import is_train
from ...dialects.tensor.shape import SLICE_END
from ...ir.errors import PassError
from .population import Population
from .signals import Conversion, NotConvertible, Signal, compact
from .signed import fire_signed, sums_of_steps, worth_of

THRESHOLD = "spike.threshold"
"""The attribute of an activation with the thresholds of its neurons: a dense attribute of f64, one
number or an array that broadcasts to the activation's shape without its first axis."""

INITIAL = "spike.initial"
"""The attribute of an activation with the initial potential as a share of the threshold, an f64."""

Pool: TypeAlias = tensor.AvgPoolOp | tensor.MaxPoolOp

HALF = 0.5

DITHER = np.array([[0.8, 0.4], [0.2, 0.6]])
"""Initial potentials of a window of four neurons, as shares of their threshold."""

DITHERED_FROM = 4
"""With fewer steps, thresholds differ more from channel to channel than dither makes up for."""


def is_activation(op: Operation) -> bool:
    """Whether `op` is an activation that neurons can stand for: min(max(x, 0), bound)."""
    if isinstance(op, tensor.ReluOp | tensor.Relu6Op):
        return is_float(tensor_type(op.result))
    if isinstance(op, tensor.ClampOp):
        low = op.min
        return low is not None and low.value.data == 0.0 and is_float(tensor_type(op.result))
    if isinstance(op, tensor.MaximumOp):
        return is_float(tensor_type(op.result)) and _zero_operand(op) is not None
    if isinstance(op, ternary.FusedOp):
        return op.activation.data in ("relu", "relu6") and is_float(tensor_type(op.result))
    return False


def activations(function: FuncOp) -> Iterator[Operation]:
    """The activations of a function, in program order."""
    for op in function.body.block.ops:
        if is_activation(op):
            yield op


def _zero_operand(op: tensor.MaximumOp) -> SSAValue | None:
    for value in op.operands:
        owner = value.owner
        if isinstance(owner, tensor.ConstantOp):
            values = constant_value(owner)
            if values is not None and not values.any():
                return value
    return None


def drive_of(op: Operation) -> SSAValue:
    """What an activation is applied to; of a fused product the result."""
    if isinstance(op, tensor.MaximumOp):
        return op.rhs if _zero_operand(op) is op.lhs else op.lhs
    return op.results[0] if isinstance(op, ternary.FusedOp) else op.operands[0]


def bound_of(op: Operation) -> float | None:
    """The greatest value of an activation, if it has one."""
    if isinstance(op, tensor.Relu6Op):
        return 6.0
    if isinstance(op, tensor.ClampOp):
        return None if op.max is None else op.max.value.data
    return 6.0 if isinstance(op, ternary.FusedOp) and op.activation.data == "relu6" else None


def annotate(op: Operation, threshold: Array, initial: float) -> None:
    """Note the threshold and the initial potential, as a share of it, on an activation."""
    op.attributes[THRESHOLD] = dense(np.asarray(threshold, np.float64), f64)
    op.attributes[INITIAL] = FloatAttr(initial, f64)


def dense_numbers(attribute: Attribute) -> Array | None:
    """The numbers of a dense attribute of floats, in f64; `None` for anything else."""
    if not isa(attribute, DenseIntOrFPElementsAttr[AnyFloat]):
        return None
    values = [float(value) for value in attribute.get_values()]
    return np.array(values, np.float64).reshape(attribute.get_shape())


def threshold_of(op: Operation) -> Array | None:
    """The threshold noted on an activation, if one is.

    Raises:
        PassError: the attribute is no dense f64 of positive numbers that fit the activation.
    """
    attribute = op.attributes.get(THRESHOLD)
    if attribute is None:
        return None
    values = dense_numbers(attribute)
    if values is None:
        raise PassError(f"'{op.name}' expects '{THRESHOLD}' as a dense f64, got {attribute}")
    shape = tensor_type(op.results[0]).get_shape()[1:]
    fits = values.ndim == 0 or (
        values.ndim == len(shape)
        and all(have in (1, want) for have, want in zip(values.shape, shape, strict=True))
    )
    if not fits or not np.isfinite(values).all() or not (values > 0).all():
        raise PassError(
            f"'{op.name}' expects '{THRESHOLD}' as positive numbers that broadcast to its shape "
            f"without the first axis, got {list(values.shape)}"
        )
    return compact(values)


def initial_of(op: Operation) -> float | None:
    """The initial potential noted on an activation, as a share of its threshold, if one is.

    Raises:
        PassError: the attribute is no finite f64.
    """
    attribute = op.attributes.get(INITIAL)
    if attribute is None:
        return None
    if not isinstance(attribute, FloatAttr) or not isinstance(attribute.type, Float64Type):
        raise PassError(f"'{op.name}' expects '{INITIAL}' as an f64, got {attribute}")
    return float(attribute.value.data)


def activation(state: Conversion, op: Operation) -> Sequence[Signal]:
    """Neurons for min(max(x, 0), bound); spikes that are worth something positive pass."""
    drive = drive_of(op)
    if state.is_dynamic(drive):
        source = state.signals[drive]
        if is_train(source.steps) and (source.worth > 0).all() and bound_of(op) is None:
            return [Signal(source.steps, source.worth, tensor_type(op.results[0]))]
    return [fire(state, op, drive, state.current(drive).steps)]


def fire(state: Conversion, op: Operation, original: SSAValue, current: SSAValue) -> Signal:
    """The neurons of an activation on the current [T, …] that a float value has become."""
    if state.correction is not None:
        current = state.correction.shifted(state, original, current)
    return neurons_of(state, op, op, current)


def neurons_of(state: Conversion, op: Operation, place: Operation, current: SSAValue) -> Signal:
    """The neurons of the activation `op`: their spikes are worth the threshold.

    Args:
        state: the conversion.
        op: the activation.
        place: the op whose result they say: the activation, or the pool that they stand behind.
        current: their current [T, …].
    """
    share, bound, value = initial_of(op), bound_of(op), place.results[0]
    initial = np.array(HALF if share is None or state.signed else share)
    threshold = threshold_of(op)
    if threshold is None and state.default_threshold is not None and bound is None:
        threshold = np.array(state.default_threshold)
    type = tensor_type(current)
    never, copies, margin = np.inf, np.array(1), np.array(0.0)
    if threshold is None and state.correction is not None:
        if share is None and not state.signed and state.timesteps >= DITHERED_FROM:
            initial = dithered(value)
        threshold, copies, never, margin = state.correction.population(
            state, value, current, initial, bound
        )
        threshold, copies = compact(threshold), compact(copies)
    if threshold is None and bound is not None:
        threshold = np.array(bound)
    if threshold is None:
        raise NotConvertible(
            "it has no threshold: give data=… or threshold=…, or run balance-thresholds first"
        )
    state.populations += 1
    sums = sums_of_steps(state, current) if state.signed else []
    said: list[SSAValue] = []
    for level, start in Population(threshold, copies, never).members(initial):
        if state.signed:
            said.append(fire_signed(state, sums, compact(level), compact(start), margin))
            continue
        first = compact(start * level)
        begin = [initial_potential(state, current, first)] if first.any() else []
        limit = state.level(compact(level), type.element_type)
        neurons = spike.IntegrateFireOp(current, threshold=limit, initial=begin, reset=state.reset)
        spikes = state.add(neurons)
        spikes.name_hint = value.name_hint
        said.append(spikes)
    worth = compact(threshold / copies)
    if state.signed:
        worth = worth_of(worth, state.timesteps)
    if len(said) > 1 and not state.signed:
        said = [state.add(spike.ToTensorOp(train, type.element_type)) for train in said]
    total = said[0]
    for more in said[1:]:
        total = state.add(tensor.AddOp(total, more))
    return Signal(total, worth, tensor_type(value))


def stands_behind(state: Conversion, op: Operation) -> Pool | None:
    """The pool behind which the neurons of an activation stand; `None` where they stand before.

    A quarter as many neurons say the same. Before the first neurons, activation and pool are
    computed once; later ones are applied to what the sum of the current is at each step.
    """
    pools = "before" if state.correction is None else state.correction.pools
    if pools == "before" or not is_activation(op) or isinstance(op, ternary.FusedOp):
        return None
    pool, changes = following_pool(op.results[0]), state.is_dynamic(drive_of(op))
    # The maximum of a window of signed spikes is none of them.
    asked = pools == "all" or not changes or (state.signed and isinstance(pool, tensor.MaxPoolOp))
    return pool if asked and THRESHOLD not in op.attributes else None


def fire_behind(state: Conversion, op: Operation, pool: Pool) -> Signal:
    """The neurons of an activation, behind the pool that reads it."""
    drive = drive_of(op)
    if not state.is_dynamic(drive):
        once = state.add(pool.clone())
        return neurons_of(state, op, pool, state.signal(once).steps)
    current = state.current(drive).steps
    if state.correction is not None:
        current = state.correction.shifted(state, drive, current)
    bound = bound_of(op)
    most = None if bound is None else bound * state.timesteps
    total = state.add(spike.LeakyIntegratorOp(current, 1.0))
    total = state.add(tensor.ClampOp(total, min=0.0, max=most))
    return neurons_of(state, op, pool, growth(state, pool, total))


def growth(state: Conversion, pool: Pool, totals: SSAValue) -> SSAValue:
    """By how much the pool of sums over time [T, N, C, …] grows at each step."""
    images = state.add(tensor.FlattenOp(totals, 0, 1))
    if isinstance(pool, tensor.MaxPoolOp):
        pooled = tensor.MaxPoolOp(images, *pool.window)
    else:
        counted = bool(pool.count_include_pad.value.data)
        pooled = tensor.AvgPoolOp(images, *pool.window, count_include_pad=counted)
    image = [-2 - axis for axis in range(1, tensor_type(pool.operand).get_num_dims())]
    sums = state.add(tensor.ReshapeToOp(state.add(pooled), [state.timesteps, -1, *image]))
    return state.add(tensor.SubOp(sums, state.add(spike.DelayOp(sums, 1))))


def following_pool(value: SSAValue) -> Pool | None:
    """The pool that reads a value, if nothing else of the float program does."""
    users = {use.operation for use in value.uses}
    pools = [user for user in users if isinstance(user, Pool)]
    return pools[0] if len(pools) == len(users) == 1 else None


def dithered(value: SSAValue) -> Array:
    """Initial potentials of neurons before an average pool, which differ within its windows.

    What one neuron rounds up another rounds down (ordered dither by Bayer's 2×2 matrix).
    """
    shape = tensor_type(value).get_shape()[2:]
    averaged = isinstance(following_pool(value), tensor.AvgPoolOp)
    if not averaged or len(shape) != 2 or DYNAMIC in shape:
        return np.array(HALF)
    return np.tile(DITHER, (shape[0] // 2 + 1, shape[1] // 2 + 1))[None, : shape[0], : shape[1]]


def initial_potential(state: Conversion, current: SSAValue, potential: Array) -> SSAValue:
    """Potentials before the first step, for a batch of any size: [N, …] like a step of `current`.

    A value is clamped to one number, which is that number whatever the value was.
    """
    type = tensor_type(current)
    owner = current.owner
    if isinstance(owner, spike.EncodeOp):
        like = owner.operand
    else:
        rank = type.get_num_dims()
        end = [1, *[SLICE_END] * (rank - 1)]
        first = state.add(tensor.SliceOp(current, [0] * rank, end, [1] * rank))
        like = state.add(tensor.SqueezeOp(first, [0]))
    if potential.ndim == 0:
        level = float(potential)
        return state.add(tensor.ClampOp(like, min=level, max=level))
    zeros = state.add(tensor.ClampOp(like, min=0.0, max=0.0))
    return state.plus(zeros, potential, "initial")


RULES = {
    tensor.ReluOp: activation,
    tensor.Relu6Op: activation,
    tensor.ClampOp: activation,
    tensor.MaximumOp: activation,
}
