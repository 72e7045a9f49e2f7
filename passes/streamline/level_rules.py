"""For each op of a network with few-bit activations, what it makes of integers on grids.

Every rule notes the function of the result and adds the ops that compute its integers. Not here:
which rule an op gets, and what is kept where none holds (`streamline`); the grids (`level_grids`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import FloatAttr, TensorType, f64, i1, i8, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ...dialects import tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import DYNAMIC, is_float
from ...dialects.traits import MovesElements, has
from ...ir.locations import location_name
from ..adder_graph.graph import around
from ..analysis.compile_time import literal_value
from ..analysis.layers import (
    Layer,
    as_ternary,
    channel_axis,
    input_of,
    layer_name,
    rebuilt,
    weight_of,
)
from ..requantize.integer_forms import interval
from .channel_grids import by_channel
from .level_functions import (
    LevelFunction,
    LevelGrid,
    NoFunctionError,
    affine,
    channels_on,
    columns,
    is_order,
    of_type,
    with_common_step,
)
from .level_grids import LevelGrids, channel_of, turns
from .level_products import (
    ProductGrid,
    WeightGrid,
    finished,
    real_sums,
    sum_bounds,
    weight_channel,
    weight_grid,
)
from .level_results import integer_result
from .level_sums import MOST_PAIRS, ranks_as, summed

_FINEST = 40
"""Steps of channels are whole multiples of one up to two to this power times finer."""

Reduction = tensor.GlobalAvgPoolOp | tensor.ReduceMeanOp | tensor.ReduceSumOp


def product(levels: LevelGrids, op: Layer) -> None:
    """A layer whose input and weight are on grids: a product of integers."""
    grid = _product_grid(levels, op)
    bounds = sum_bounds(grid.weight.matrix(weight_channel(op)), grid.bounds)
    sums = levels.add(_integer_product(levels, op, grid))
    axis = channel_axis(op)

    def lift(points: Array) -> Array:
        real = real_sums(points, grid)
        laid_out = channels_on(op.result, axis, real[0]).shape[1:]
        return finished(op, of_type(op.result, real.reshape(len(points), *laid_out)))

    entry = LevelFunction(sums, bounds, op.result, lift, op.result)
    entry.at(np.array([0]))
    levels.functions[op.result] = entry
    levels.note_rounded(op, sums, grid.of, _real_weight(op))


def _product_grid(levels: LevelGrids, op: Layer) -> ProductGrid:
    """Input and weight on one grid each, or with one grid a channel of the input."""
    weight = weight_grid(op)
    padded = isinstance(op, ternary.ConvOp | tensor.ConvOp) and any(op.padding.get_values())
    try:
        grid = levels.spaced(input_of(op))
        grid = levels.centred(grid) if padded else grid
    except NoFunctionError:
        made = by_channel(levels, op, weight, padded=padded)
        if made is None:
            raise
        return made
    total = weight.matrix(weight_channel(op)).sum(axis=1, dtype=np.float64)
    scaled = WeightGrid(weight.integers, weight.scale * grid.scale)
    fixed = weight.scale * grid.offset * total
    return ProductGrid(grid.root, grid.bounds, scaled, fixed, grid)


def _real_weight(op: Layer) -> Array:
    """The weight as floats, [channels, inputs]."""
    values, channel = literal_value(weight_of(op)), weight_channel(op)
    assert values is not None
    return np.moveaxis(values, channel, 0).reshape(values.shape[channel], -1)


def _integer_product(levels: LevelGrids, op: Layer, grid: ProductGrid) -> Operation:
    """The sums of `op` on integers: of trits where the weight has no other, else in i32."""
    root = grid.root
    if tensor_type(root).element_type == i1:
        root = levels.of_element(root, i8)
    if isinstance(op, ternary.FusedOp):
        return op.rebuild(
            input=root, scale=None, bias=None, thresholds=None, activation="none",
            sparsity=None,
        )  # fmt: skip
    if isinstance(op, ternary.MatmulOp):
        return ternary.LinearOp(root, weight_of(op))
    key, weight = f"{layer_name(op) or 'weight'}.levels", grid.weight
    if weight.is_ternary:
        trits = levels.constant(key, weight.integers.astype(np.int8), ternary.trit)
        return as_ternary(op, trits, input=root)
    integers = levels.constant(key, weight.integers.astype(np.int32), i32)
    options = {"bias": None} if not isinstance(op, tensor.MatmulOp) else {}
    return rebuilt(op, input=levels.wide(grid.root), weight=integers, **options)


def added(levels: LevelGrids, op: tensor.AddOp | tensor.SubOp) -> None:
    """The sum or difference of two values on grids."""
    if tensor_type(op.lhs).get_shape() != tensor_type(op.rhs).get_shape():
        raise NoFunctionError("its operands have different shapes")
    a, b = levels.spaced(op.lhs), levels.spaced(op.rhs)
    step, factors, exactly = summed(op, a, b)
    first, second = (
        levels.wide(_times(levels, grid.root, factor))
        for grid, factor in zip((a, b), factors, strict=True)
    )
    lows, highs = zip(
        *(
            [factor * end for end in grid.bounds]
            for grid, factor in zip((a, b), factors, strict=True)
        ),
        strict=True,
    )
    if isinstance(op, tensor.AddOp):
        bounds = sum(lows), sum(highs)
        total, offset = levels.add(tensor.AddOp(first, second)), a.offset + b.offset
    else:
        bounds = (lows[0] - highs[1], highs[0] - lows[1])
        total, offset = levels.add(tensor.SubOp(first, second)), a.offset - b.offset
    levels.enter(op.result, LevelGrid(total, step, offset, bounds, exactly))


def _times(levels: LevelGrids, root: SSAValue, factor: int) -> SSAValue:
    if factor == 1:
        return root
    number = levels.constant("grid.factor", np.array(factor, np.int32), i32)
    return levels.add(tensor.MulOp(levels.wide(root), number))


def joined(levels: LevelGrids, op: tensor.ConcatenateOp) -> None:
    """Values side by side: on one grid, or channels each with a function of its own."""
    try:
        grids, bounds = _joint(levels, [levels.spaced(value) for value in op.inputs])
    except NoFunctionError:
        _joined_channels(levels, op)
        return
    whole = _side_by_side(levels, op, [grid.root for grid in grids])
    levels.enter(op.result, LevelGrid(whole, grids[0].scale, grids[0].offset, bounds))


def _joined_channels(levels: LevelGrids, op: tensor.ConcatenateOp) -> None:
    """Functions of one integer a channel, side by side along the axis of the channels."""
    for value in op.inputs:
        function = levels.functions.get(value)
        if function is not None and function.bounds is None:
            levels.enter(value, levels.grid(value))
    functions = [levels.functions.get(value) for value in op.inputs]
    known = [function for function in functions if function is not None]
    axis = op.axis.value.data % tensor_type(op.result).get_num_dims()
    counts = [tensor_type(value).get_shape()[axis] for value in op.inputs]
    bounds = [function.bounds for function in known if function.bounds is not None]
    if len(bounds) < len(functions) or axis == 0 or DYNAMIC in counts:
        raise NoFunctionError("its operands are no integers that stand side by side")

    def lift(points: Array) -> Array:
        parts: list[Array] = []
        for function, count in zip(known, counts, strict=True):
            assert function.bounds is not None
            values = function.at(np.clip(points, *function.bounds))  # others' integers may be wider
            if values.size != len(points) * values.shape[axis]:
                raise NoFunctionError("channels of its operands stand on other axes")
            wanted = [count if a == axis else size for a, size in enumerate(values.shape)]
            parts.append(np.broadcast_to(values, wanted))
        return np.concatenate(parts, axis)

    whole = _side_by_side(levels, op, [function.root for function in known])
    entry = LevelFunction(whole, around(bounds), op.result, lift, op.result)
    entry.at(np.array([0]))
    levels.functions[op.result] = entry


def _side_by_side(
    levels: LevelGrids, op: tensor.ConcatenateOp, roots: Sequence[SSAValue]
) -> SSAValue:
    if len({tensor_type(root).element_type for root in roots}) > 1:
        roots = [levels.wide(root) for root in roots]
    return levels.add(tensor.ConcatenateOp(roots, op.axis.value.data))


def _joint(
    levels: LevelGrids, grids: Sequence[LevelGrid]
) -> tuple[list[LevelGrid], tuple[int, int]]:
    """Grids with the same scale and offset; the bounds of all."""
    step, factors, shifts = with_common_step(grids, offsets=True)
    made: list[LevelGrid] = []
    for grid, factor, shift in zip(grids, factors, shifts, strict=True):
        root = _times(levels, grid.root, factor)
        if shift:
            number = levels.constant("grid.shift", np.array(shift, np.int32), i32)
            root = levels.add(tensor.AddOp(levels.wide(root), number))
        low, high = (factor * bound + shift for bound in grid.bounds)
        made.append(LevelGrid(root, step, grid.offset - step * shift, (low, high)))
    return made, around(grid.bounds for grid in made)


def dequantized(levels: LevelGrids, op: tensor.DequantizeOp) -> None:
    """Integers of the program with one scale and zero point."""
    scale, zero = literal_value(op.scale), literal_value(op.zero_point)
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        raise NoFunctionError("its scale and zero point are not one known number each")
    step = float(scale.reshape(-1)[0])
    offset = -step * float(zero.reshape(-1)[0])
    levels.enter(op.result, LevelGrid(op.input, step, offset, interval(op.input)))


def converted(levels: LevelGrids, op: tensor.ConvertOp) -> None:
    """Integers of the program as another type."""
    if is_float(tensor_type(op.operand)):
        raise NoFunctionError("it computes with values that are no floats of few levels")
    levels.enter(op.result, LevelGrid(op.operand, 1.0, 0.0, levels.integers(op)))


def moved(levels: LevelGrids, op: Operation) -> None:
    """Elements of the first operand in other places."""
    operand = op.operands[0]
    function = levels.functions[operand]
    if function.bounds is None:
        try:
            _moved_integers(levels, op, levels.grid(operand))
        except NoFunctionError:
            _moved_function(levels, op, function)
        return
    if isinstance(op, tensor.PermuteOp) and op.perm.get_values()[0] == 0:
        _permuted(levels, op, function)
        return
    if isinstance(op, tensor.MaxPoolOp) and operand not in levels.entered and not turns(function):
        _pooled_channels(levels, op, function)
        return
    try:
        _moved_integers(levels, op, levels.spaced(operand))
    except NoFunctionError as error:
        if not has(op, MovesElements) or len(op.results) != 1:
            raise
        try:
            _moved_function(levels, op, function)
        except NoFunctionError:
            raise error from None


def _moved_integers(levels: LevelGrids, op: Operation, grid: LevelGrid) -> None:
    """Integers in other places, pads among them."""
    fill = 0
    if isinstance(op, tensor.PadToOp):
        grid = levels.centred(grid)
        real = op.value.value.data / grid.scale
        fill = round(real) if abs(real) < 2**31 else 0
        if abs(real - fill) >= 1e-4:
            raise NoFunctionError("it pads with a number that is between two levels")
        if not -128 <= fill <= 127:
            grid = replace(grid, root=levels.wide(grid.root))
    copy = levels.add(_with_operand(op, op.operands[0], grid.root)).owner
    assert isinstance(copy, Operation)
    bounds = grid.bounds
    if isinstance(copy, tensor.PadToOp):
        copy.value = FloatAttr(float(fill), f64)
        bounds = min(bounds[0], fill), max(bounds[1], fill)
    for result, root in zip(op.results, copy.results, strict=True):
        levels.enter(result, LevelGrid(root, grid.scale, grid.offset, bounds))


def _moved_function(levels: LevelGrids, op: Operation, function: LevelFunction) -> None:
    """A function that is the same in all channels, of its root's elements in other places."""
    if isinstance(op, tensor.PadToOp) or len(op.results) != 1:
        raise NoFunctionError("it moves floats that nobody quantised before")
    point = np.zeros(1, np.float32) if function.bounds is None else np.array(function.bounds[:1])
    if columns(function.at(point)).shape[1] != 1:
        raise NoFunctionError("channels of what it moves differ")
    (result,) = op.results
    root = levels.add(_with_operand(op, function.value, function.root))
    rank = tensor_type(result).get_num_dims()

    def lift(points: Array) -> Array:
        return columns(function.at(points)).reshape(-1, *[1] * (rank - 1))

    levels.functions[result] = LevelFunction(root, function.bounds, result, lift, result)


def _pooled_channels(levels: LevelGrids, op: tensor.MaxPoolOp, function: LevelFunction) -> None:
    """The largest of values that rise with their integers, channel by channel."""
    rising = levels.rising(function)
    root = levels.add(_with_operand(op, op.operand, rising.root))
    entry = LevelFunction(root, rising.bounds, op.result, rising.at, op.result)
    levels.functions[op.result] = entry


def _permuted(levels: LevelGrids, op: tensor.PermuteOp, function: LevelFunction) -> None:
    """A function of each channel, whose axis stands in another place."""
    root = levels.add(_with_operand(op, op.operand, function.root))

    def lift(points: Array) -> Array:
        return function.at(points).transpose(op.perm.get_values())

    levels.functions[op.result] = LevelFunction(root, function.bounds, op.result, lift, op.result)


def reduced(levels: LevelGrids, op: Reduction) -> None:
    """A sum or a mean over axes whose sizes are known: a sum of integers."""
    grid = levels.spaced(op.operand)
    shape = tensor_type(op.operand).get_shape()
    axes, keep = list(range(2, len(shape))), True
    if not isinstance(op, tensor.GlobalAvgPoolOp):
        axes = [axis % len(shape) for axis in op.axes.get_values()]
        keep = bool(op.keepdims.value.data)
    count = prod(shape[axis] for axis in axes)
    if 0 in axes or any(shape[axis] in (0, DYNAMIC) for axis in axes):
        raise NoFunctionError("it sums over an axis whose size is not known")
    total = levels.add(tensor.ReduceSumOp(levels.wide(grid.root), axes, keepdims=keep))
    bounds = (grid.bounds[0] * count, grid.bounds[1] * count)
    if not isinstance(op, tensor.ReduceSumOp):
        levels.mean(op, grid, total, count, bounds)
        return
    levels.enter(op.result, LevelGrid(total, grid.scale, grid.offset * count, bounds))


def pooled(levels: LevelGrids, op: tensor.AvgPoolOp) -> None:
    """Means of windows: a convolution with ones, channel by channel."""
    padding, kernel = op.padding.get_values(), op.kernel.get_values()
    channels = tensor_type(op.operand).get_shape()[1]
    if channels == DYNAMIC:
        raise NoFunctionError("its number of channels is not known")
    grid = levels.spaced(op.operand)
    if any(padding):
        if not op.count_include_pad.value.data:
            raise NoFunctionError("pads that are left out make means of different counts")
        grid = levels.centred(grid)
    ones = np.ones((channels, 1, *kernel), np.int8)
    total = levels.add(
        ternary.ConvOp(
            grid.root,
            levels.constant(f"{location_name(op) or 'window'}.levels", ones, ternary.trit),
            strides=op.strides.get_values(),
            padding=padding,
            dilation=[1] * len(kernel),
            groups=channels,
        )
    )
    count = prod(kernel)
    bounds = sum_bounds(np.ones((1, count)), grid.bounds)
    levels.mean(op, grid, total, count, bounds)


def largest(levels: LevelGrids, op: tensor.ArgmaxOp) -> None:
    """The place of the largest value, among integers that rank as the values do."""
    function = levels.functions[op.operand]
    root = function.root
    if not is_order(function):
        real = integer_result(levels, op.operand).owner
        assert isinstance(real, tensor.DequantizeOp)
        scale = literal_value(real.scale)
        one_step = scale is not None and scale.size == 1 and scale.reshape(-1)[0] > 0
        root = real.input if one_step else _compared(levels, function)
    levels.results[op.result] = levels.add(_with_operand(op, op.operand, root))


def _compared(levels: LevelGrids, function: LevelFunction) -> SSAValue:
    """Integers of channels with a scale and offset each, times numbers that make one step of all.

    Raises:
        NoFunctionError: no such numbers rank all values as the floats.
    """
    fitted, bounds = affine(function), function.bounds
    assert bounds is not None
    counts = np.arange(bounds[0], bounds[1] + 1)
    if fitted is None or fitted[0].size * counts.size > MOST_PAIRS:
        raise NoFunctionError("its values have steps of different sizes")
    values, most = columns(function.at(counts)), int(np.abs(counts).max())
    for finer in range(_FINEST):
        step = np.abs(fitted[0]).max() / (1 << finer)
        whole = [np.rint(part / step) for part in fitted]
        largest = float((most * np.abs(whole[0]) + np.abs(whole[1])).max())
        if largest >= 2**62:
            break
        factors, shifts = (part.astype(np.int64) for part in whole)
        if ranks_as(values, counts[:, None] * factors + shifts):
            element = i32 if largest < 2**31 else i64
            root = levels.of_element(function.root, element)
            for kind, numbers in ((tensor.MulOp, factors), (tensor.AddOp, shifts)):
                along = channels_on(function.value, channel_of(function), numbers)[0]
                known = levels.constant("compared", along.astype(numpy_dtype(element)), element)
                root = levels.add(kind(root, known))
            return root
    raise NoFunctionError(
        "its values have steps of different sizes, which no common step tells apart"
    )


def _with_operand(op: Operation, old: SSAValue, new: SSAValue) -> Operation:
    """A copy of `op` on integers."""
    copy = op.clone({old: new})
    before, element = (tensor_type(value).element_type for value in (old, new))
    for result in copy.results:
        type = tensor_type(result)
        if type.element_type == before:
            new_type = TensorType(element, type.get_shape())
            Rewriter.replace_value_with_new_type(result, new_type)
    return copy
