"""LiteRT's integer kernels for programs that do their arithmetic.

A program that came from a TFLite file has grids (`calibration.stored_grids`) and the arithmetic of
LiteRT's reference kernels (`integer_patterns`). Where the scales of the operands and the result
give just the multipliers and shifts that the program has, the kernel is what the program says, bit
for bit, and one operator stands for a dozen. Anything else is written out by the rules, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...passes.calibration.stored_grids import Grid
from .elementwise import together
from .graph import Element, Quantization, Tensor
from .integer_grids import (
    RANGES,
    Kernel,
    activation,
    agrees,
    element_of,
    grid_of,
    is_same,
    node_for,
    quantization_of,
)
from .integer_patterns import Rescaled, centred, is_byte, known, pooled, rescaled, times
from .integer_products import product
from .integer_softmax import softmax
from .layout import channels_last
from .multipliers import shared_multiplier
from .tflite_writer import Writer
from .window import Window, window_of


def put_on_grid(e: Writer, value: SSAValue) -> None:
    """Say in the file how the bytes of a value that has been written stand for real numbers."""
    if not is_byte(value) or not e.has(value) or (how := quantization_of(value)) is None:
        return
    stored, _ = e.stored(value)
    if stored.data is None and stored.element in RANGES and stored.quantization is None:
        stored.quantization = how
    if isinstance(value.owner, tensor.ConcatenateOp):
        # LiteRT joins what is on one grid; the program has put it there.
        op = next(op for op in reversed(e.graph.operators) if stored in op.outputs)
        op.inputs = [_on(t, how) for t in op.inputs if t is not None]


def _on(stored: Tensor, how: Quantization) -> Tensor:
    if stored.data is not None:
        return Tensor(stored.name, stored.element, stored.shape, stored.data, how)
    stored.quantization = stored.quantization or how
    return stored


# Arithmetic on elements.


def _sum(value: SSAValue) -> Kernel | None:
    """ADD and SUB: operands on one fine grid, then one rescaling."""
    scaled = rescaled(value)
    op = None if scaled is None else scaled.source.owner
    if scaled is None or not isinstance(op, tensor.AddOp | tensor.SubOp):
        return None
    parts = [rescaled(v) for v in (op.lhs, op.rhs)]
    operands: list[SSAValue] = []
    grids: list[Grid] = []
    for part in parts:
        inner = None if part is None else times(part.source)
        grid = None if inner is None else grid_of(inner[0])
        if part is None or inner is None or grid is None or part.zero:
            return None
        if inner[1:] != (grid.zero_point, 1 << 20):
            return None
        operands.append(inner[0])
        grids.append(grid)
    y, largest = grid_of(value), 2.0 * max(grid.scale for grid in grids)
    if y is None or scaled.zero != y.zero_point:
        return None
    fits = all(
        part is not None and agrees(part, np.atleast_1d(np.float64(grid.scale) / largest))
        for part, grid in zip(parts, grids, strict=True)
    )
    if not fits or not agrees(scaled, np.atleast_1d(largest / (2.0**20 * np.float64(y.scale)))):
        return None
    return _elementwise(
        "ADD" if isinstance(op, tensor.AddOp) else "SUB", value, operands, scaled, y
    )


def _times_each_other(value: SSAValue) -> Kernel | None:
    """MUL."""
    scaled = rescaled(value)
    op = None if scaled is None else scaled.source.owner
    if scaled is None or not isinstance(op, tensor.MulOp):
        return None
    operands = [centred(op.lhs), centred(op.rhs)]
    if operands[0] is None or operands[1] is None:
        return None
    grids, y = [grid_of(x[0]) for x in operands if x is not None], grid_of(value)
    if y is None or scaled.zero != y.zero_point or grids[0] is None or grids[1] is None:
        return None
    zeros = (operands[0][1], operands[1][1])
    scales = [np.float32(grid.scale) for grid in (grids[0], grids[1], y)]
    factor = np.float64(scales[0] * scales[1] / scales[2])
    if zeros != (grids[0].zero_point, grids[1].zero_point) or not agrees(
        scaled, np.array([factor])
    ):
        return None
    return _elementwise("MUL", value, [operands[0][0], operands[1][0]], scaled, y)


def _elementwise(
    kind: str, value: SSAValue, operands: list[SSAValue], scaled: Rescaled, y: Grid
) -> Kernel | None:
    number = activation(scaled.bounds, y, element_of(value))
    if number is None or any(element_of(x) is not element_of(value) for x in operands):
        return None

    def write(e: Writer) -> None:
        inputs, layout = together(e, operands, value)
        shape = layout.stored(tensor_type(value).get_shape())
        result = node_for(e, kind, inputs, value, shape, fusedActivationFunction=number)
        e.bind(value, result, layout)

    return Kernel(operands, write)


def _regridded(value: SSAValue) -> Kernel | None:
    """QUANTIZE between grids; RELU and the like where it has bounds."""
    scaled = rescaled(value)
    inner = None if scaled is None else centred(scaled.source)
    if scaled is None or inner is None:
        return None
    x, y = grid_of(inner[0]), grid_of(value)
    if x is None or y is None or (x.zero_point, y.zero_point) != (inner[1], scaled.zero):
        return None
    element, number = element_of(value), activation(scaled.bounds, y, element_of(value))
    if number is None or (number and element is not element_of(inner[0])):
        return None
    if not agrees(scaled, np.atleast_1d(np.float64(x.scale) / np.float64(y.scale))):
        return None
    kind = ("QUANTIZE", "RELU", "RELU_N1_TO_1", "RELU6")[number]
    return Kernel([inner[0]], lambda e: _alone(e, kind, inner[0], value))


def _alone(e: Writer, kind: str, x: SSAValue, value: SSAValue) -> None:
    """An operator on one operand, in whatever order it is stored."""
    stored, layout = e.stored(x)
    e.bind(value, node_for(e, kind, [stored], value, stored.shape), layout)


def _to_real(value: SSAValue) -> Kernel | None:
    """DEQUANTIZE."""
    op = value.owner
    assert isinstance(op, tensor.DequantizeOp)
    grid = grid_of(op.input)
    if grid is None or not _is_grid(grid, op.scale, op.zero_point):
        return None
    return Kernel([op.input], lambda e: _alone(e, "DEQUANTIZE", op.input, value))


def _from_real(value: SSAValue) -> Kernel | None:
    """QUANTIZE."""
    op = value.owner
    assert isinstance(op, tensor.QuantizeOp)
    grid = grid_of(value)
    if grid is None or not _is_grid(grid, op.scale, op.zero_point):
        return None
    bounds = (op.low.value.data, op.high.value.data)
    if element_of(op.input) is not Element.FLOAT32 or bounds != RANGES[element_of(value)]:
        return None
    return Kernel([op.input], lambda e: _alone(e, "QUANTIZE", op.input, value))


def _is_grid(grid: Grid, scale: SSAValue, zero: SSAValue) -> bool:
    scales, zeros = known(scale), known(zero)
    if scales is None or zeros is None or scales.size != 1 or zeros.size != 1:
        return False
    return (float(scales.reshape(-1)[0]), int(zeros.reshape(-1)[0])) == (
        grid.scale, grid.zero_point,
    )  # fmt: skip


# Pools.


def _mean(value: SSAValue) -> Kernel | None:
    """MEAN."""
    scaled = rescaled(value)
    op = None if scaled is None else scaled.source.owner
    if scaled is None or not isinstance(op, tensor.ReduceSumOp):
        return None
    inner, shape = centred(op.operand), tensor_type(op.operand).get_shape()
    axes = sorted({axis % len(shape) for axis in op.axes.get_values()})
    x, y = None if inner is None else grid_of(inner[0]), grid_of(value)
    if inner is None or x is None or y is None or not axes:
        return None
    count = prod(shape[axis] for axis in axes)
    if DYNAMIC in [shape[axis] for axis in axes] or count < 1:
        return None
    if (x.zero_point, y.zero_point) != (inner[1], scaled.zero):
        return None
    factor = float(np.float64(np.float32(x.scale) / np.float32(y.scale)))
    multiplier, exponent = shared_multiplier(factor, count)
    fits = is_same(scaled.multipliers, multiplier) and is_same(scaled.exponents, exponent)
    if (
        not fits
        or not (scaled.twice or exponent >= 0)
        or scaled.bounds != RANGES[element_of(value)]
    ):
        return None

    def write(e: Writer) -> None:
        operand, layout = e.stored(inner[0])
        stored = sorted(layout.axis(axis) for axis in axes)
        keep = bool(op.keepdims.value.data)
        sizes = [(1 if a in stored else n) for a, n in enumerate(operand.shape)
                 if keep or a not in stored]  # fmt: skip
        result = node_for(
            e, "MEAN", [operand, e.indices(stored, "axes")], value, sizes, keepDims=keep
        )
        e.bind(value, result, layout if keep else layout.without(set(axes)))

    return Kernel([inner[0]], write)


def _average(value: SSAValue) -> Kernel | None:
    """AVERAGE_POOL_2D."""
    pool = pooled(value)
    y = grid_of(value)
    if pool is None or y is None or grid_of(pool.x) != y:
        return None
    number = activation(pool.bounds, y, element_of(value))
    if number is None or element_of(pool.x) is not element_of(value):
        return None
    window = Window(pool.kernel, pool.strides, pool.low, pool.high, (1, 1))
    return _pool("AVERAGE_POOL_2D", value, pool.x, window, number)


def _maximum(value: SSAValue) -> Kernel | None:
    """MAX_POOL_2D."""
    op = value.owner
    assert isinstance(op, tensor.MaxPoolOp)
    if not is_byte(value) or grid_of(value) is None or tensor_type(value).get_num_dims() != 4:
        return None
    return _pool("MAX_POOL_2D", value, op.operand, window_of(op, op.kernel.get_values()), 0)


def _pool(kind: str, value: SSAValue, x: SSAValue, window: Window, number: int) -> Kernel | None:
    sizes = tensor_type(x).get_shape()
    stored = Tensor("image", element_of(x), (sizes[0], *sizes[2:], sizes[1]))
    if window.has_pads and not window.is_same(stored):
        return None

    def write(e: Writer) -> None:
        image = e.laid(x, channels_last(4))
        shape = channels_last(4).stored(tensor_type(value).get_shape())
        options = window.pool_options(window.has_pads)
        result = node_for(e, kind, [image], value, shape, fusedActivationFunction=number, **options)
        e.bind(value, result, channels_last(4))

    return Kernel([x], write)


_RESCALED = (product, _sum, _times_each_other, _mean, _regridded)

_MATCHES: dict[type[Operation], Sequence[Callable[[SSAValue], Kernel | None]]] = {
    tensor.RequantizeOp: _RESCALED,
    tensor.ConvertOp: (*_RESCALED, _average, softmax),
    tensor.DequantizeOp: (_to_real,),
    tensor.GatherRowsOp: (softmax,),
    tensor.QuantizeOp: (softmax, _from_real),
    tensor.MaxPoolOp: (_maximum,),
}
"""What may give the result of an op."""


_ALONE: dict[type[Operation], Sequence[Callable[[SSAValue], Kernel | None]]] = {
    tensor.ConvertOp: (softmax,),
    tensor.GatherRowsOp: (softmax,),
    tensor.QuantizeOp: (softmax,),
}
"""Those whose arithmetic no other operators have."""


def integer_kernels(function: FuncOp, *, exact: bool = False) -> dict[Operation, Kernel]:
    """The ops of a function whose result an integer kernel gives.

    Args:
        function: its body has one block.
        exact: only those that nothing else in LiteRT computes.
    """
    kernels: dict[Operation, Kernel] = {}
    for op in function.body.block.ops:
        for match in _ALONE.get(type(op), ()) if exact else _MATCHES.get(type(op), ()):
            if not isinstance(op, tensor.DequantizeOp) and not is_byte(op.results[0]):
                continue
            kernel = match(op.results[0])
            if kernel is not None:
                kernels[op] = kernel
                break
    return kernels


def needed(function: FuncOp, kernels: dict[Operation, Kernel]) -> set[Operation]:
    """The ops that lead to a result, by way of kernels where there are any."""
    end = function.body.block.last_op
    open_: list[object] = [] if end is None else [value.owner for value in end.operands]
    seen: set[Operation] = set()
    while open_:
        op = open_.pop()
        if isinstance(op, Operation) and op not in seen:
            seen.add(op)
            operands = kernels[op].operands if op in kernels else op.operands
            open_ += [value.owner for value in operands]
    return seen
