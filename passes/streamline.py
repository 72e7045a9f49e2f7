"""The pass `streamline`: float steps between products of few-bit values become thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8, i32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects import tensor, ternary
from ..dialects.inference import tensor_type
from ..dialects.parameters import Array
from ..dialects.shapes import is_float
from ..ir.interpreter import entry_function
from .compile_time import is_literal, literal, literal_value
from .input_quantizers import quantizer
from .integer_forms import interval
from .layers import channel_axis, input_of, is_layer, is_ternary, weight_of
from .level_functions import (
    LevelFunction,
    LevelGrid,
    NoFunctionError,
    affine,
    channels_on,
    columns,
    is_step,
    uniform_levels,
)
from .level_products import finished, real_sums, sum_bounds, with_signs
from .replacement import erase_unused, insert_before

_MOVES = (
    tensor.ExpandOp,
    tensor.FlattenOp,
    tensor.MaxPoolOp,
    tensor.PermuteOp,
    tensor.ReduceMaxOp,
    tensor.ReshapeToOp,
    tensor.SliceOp,
    tensor.SqueezeOp,
    tensor.UnsqueezeOp,
)
"""Ops of one operand that commute with a function of the elements that never decreases."""

_GUARD_BITS = 16
"""Results that are sums with a real offset are formed on a grid finer by so many bits at most."""

_MOST = 2**31 - 1


@dataclass(frozen=True)
class StreamlinePass(ModulePass):
    """Compute a network of few-bit activations in integers alone.

    Networks trained with quantisers in float (qonnx's `Quant` and `BipolarQuant`, Brevitas) have a
    few values an activation. Between two products with trits, whatever leads element by element
    from the sums to these values (scales, biases, normalisations, activations, rounding) is a
    function of one integer for each channel. It is evaluated at every integer that a sum can be, by
    the reference interpreter, and becomes a `tensor.multi_threshold` (Umuroglu and Jahre 2017,
    arXiv 1709.04060; FINN). Channels whose values decrease get the negated weights.

        %y = ternary.linear %x, %w : tensor<?x4xf32>, … -> tensor<?x8xf32>      // %x of -1 and 1
        %n = tensor.batch_norm %y, … : …
        %c = tensor.compare %n, %zero {predicate = "ge"} : …
        %a = tensor.where %c, %one, %minus_one : …
        // becomes
        %s = ternary.linear %q, %w2 : tensor<?x4xi8>, … -> tensor<?x8xi32>      // %q of 0 and 1
        %a = tensor.multi_threshold %s, %t : (tensor<?x8xi32>, tensor<8x1xi32>) -> tensor<?x8xi8>

    An argument that is only quantised becomes a `tensor.quantize`, results that are sums a
    `tensor.dequantize`; an offset that is no whole number of steps is rounded to 2^-17 of a step.
    Values between are the same, but where float sums themselves were rounded (scales that are no
    powers of two).

    All or nothing: where a result depends on an op that has no such form, the program stays as it
    is. Weights must be literals with values; run `fold-constants` before.
    """

    name = "streamline"
    approximate: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        if len(function.body.blocks) == 1:
            _Streamlining(op, function.body.block).run()


class _Streamlining:
    """The functions found so far, and the ops added for them."""

    def __init__(self, module: ModuleOp, block: Block) -> None:
        self.module = module
        self.block = block
        self.anchor: Operation = next(iter(block.ops))
        self.functions: dict[SSAValue, LevelFunction] = {}
        self.grids: dict[SSAValue, LevelGrid] = {}
        self.results: dict[SSAValue, SSAValue] = {}
        self.added: list[Operation] = []

    def run(self) -> None:
        """Replace the results of the program, if all of them have an integer form."""
        before = list(self.block.ops)
        returned = before[-1]
        floats = [op for op in before if is_layer(op) and is_float(tensor_type(op.results[0]))]
        if not isinstance(returned, ReturnOp) or not floats:
            return
        for argument in self.block.args:
            self._argument(argument)
        done = False
        try:
            for op in before[:-1]:
                self.anchor = op
                self._visit(op)
            self.anchor = returned
            made = [self._result(value) for value in returned.operands]
            for index, value in enumerate(made):
                returned.operands[index] = value
            done = True
        except NoFunctionError:
            pass
        erase_unused([op for op in self.block.ops if op is not returned] if done else self.added)

    def add(self, op: Operation) -> SSAValue:
        """Insert `op` for the op being visited."""
        insert_before(self.anchor, op)
        self.added.append(op)
        return op.results[0]

    def constant(self, key: str, values: Array, element: Attribute) -> SSAValue:
        """A known value."""
        array = np.asarray(values)
        type = TensorType(element, array.shape)
        return self.add(literal(self.module, key, array, type, buffer=True))

    # What values are.

    def _argument(self, argument: SSAValue) -> None:
        if isinstance(argument.type, TensorType) and argument.type.element_type == f32:
            rank = argument.type.get_num_dims()
            self.functions[argument] = _plain(argument, argument, None, rank)

    def _visit(self, op: Operation) -> None:
        if is_literal(op):
            return
        try:
            if is_layer(op) and is_float(tensor_type(op.results[0])):
                self._product(op)
            elif isinstance(op, tensor.DequantizeOp) and op.input not in self.functions:
                self._dequantized(op)
            elif isinstance(op, _MOVES):
                self._moved(op)
            elif isinstance(op, tensor.GlobalAvgPoolOp | tensor.ReduceMeanOp):
                self._mean(op)
            elif isinstance(op, tensor.ArgmaxOp):
                self._argmax(op)
            elif is_step(op):
                self._step(op)
        except NoFunctionError:
            return

    def _step(self, op: Operation) -> None:
        found = [self.functions[v] for v in op.operands if v in self.functions]
        unknown = [v for v in op.operands if v not in self.functions and literal_value(v) is None]
        if not found or unknown:
            return
        if len({function.root for function in found}) == 1:
            self.functions[op.results[0]] = found[0].then(op, found[1:])
        elif isinstance(op, tensor.AddOp):
            self._sum(op)

    def _sum(self, op: tensor.AddOp) -> None:
        """The sum of two activations of the same step."""
        a, b = self._grid(op.lhs), self._grid(op.rhs)
        same = tensor_type(op.lhs).get_shape() == tensor_type(op.rhs).get_shape()
        if not same or not np.isclose(a.scale, b.scale, rtol=1e-6):
            return
        total = self.add(tensor.AddOp(self._wide(a.root), self._wide(b.root)))
        bounds = (a.bounds[0] + b.bounds[0], a.bounds[1] + b.bounds[1])
        self._enter(op.result, LevelGrid(total, a.scale, a.offset + b.offset, bounds))

    def _dequantized(self, op: tensor.DequantizeOp) -> None:
        scale, zero = literal_value(op.scale), literal_value(op.zero_point)
        if scale is None or zero is None or scale.size != 1 or zero.size != 1:
            return
        step = float(scale.reshape(-1)[0])
        offset = -step * float(zero.reshape(-1)[0])
        self._enter(op.result, LevelGrid(op.input, step, offset, interval(op.input)))

    def _moved(self, op: Operation) -> None:
        (operand,) = op.operands
        function = self.functions.get(operand)
        if function is None:
            return
        if function.bounds is None:
            root = self.add(op.clone({operand: function.root}))
            rank = tensor_type(op.results[0]).get_num_dims()

            def lift(points: Array) -> Array:
                values = columns(function.at(points))
                if values.shape[1] != 1:
                    raise NoFunctionError("channels of an input differ")
                return values.reshape(-1, *[1] * (rank - 1))

            moved = LevelFunction(root, None, op.results[0], lift, op.results[0])
            self.functions[op.results[0]] = moved
            return
        grid = self._grid(operand)
        root = self.add(_with_operand(op, operand, grid.root))
        self._enter(op.results[0], LevelGrid(root, grid.scale, grid.offset, grid.bounds))

    def _mean(self, op: tensor.GlobalAvgPoolOp | tensor.ReduceMeanOp) -> None:
        grid = self._grid(op.operand)
        rank = tensor_type(op.operand).get_num_dims()
        axes, keep = list(range(2, rank)), True
        if isinstance(op, tensor.ReduceMeanOp):
            axes = [axis % rank for axis in op.axes.get_values()]
            keep = bool(op.keepdims.value.data)
        count = int(np.prod([tensor_type(op.operand).get_shape()[axis] for axis in axes]))
        if count < 1 or 0 in axes:
            return
        total = self.add(tensor.ReduceSumOp(self._wide(grid.root), axes, keepdims=keep))
        bounds = (grid.bounds[0] * count, grid.bounds[1] * count)
        self._enter(op.result, LevelGrid(total, grid.scale / count, grid.offset, bounds))

    def _argmax(self, op: tensor.ArgmaxOp) -> None:
        function = self.functions.get(op.operand)
        if function is None:
            return
        table = function.table()
        if (table == table[:, :1]).all() and (np.diff(table[:, 0]) > 0).all():
            self.results[op.result] = self.add(_with_operand(op, op.operand, function.root))

    def _product(self, op: Operation) -> None:
        assert is_layer(op)
        weight = literal_value(weight_of(op))
        if weight is None or not is_ternary(op) or input_of(op) not in self.functions:
            return
        grid = self._grid(input_of(op))
        padded = isinstance(op, ternary.ConvOp) and any(op.padding.get_values())
        if padded:
            grid = self._centred(grid)
        product = (
            op.rebuild(
                input=grid.root, scale=None, bias=None, thresholds=None, activation="none",
                sparsity=None,
            )
            if isinstance(op, ternary.FusedOp)
            else ternary.LinearOp(grid.root, weight_of(op))
        )  # fmt: skip
        sums = self.add(product)
        axis = channel_axis(op)
        channel = 0 if isinstance(op, ternary.ConvOp) else 1
        matrix = np.moveaxis(weight, channel, 0).reshape(weight.shape[channel], -1)
        base = 0.0 if padded else grid.offset

        def lift(points: Array) -> Array:
            real = real_sums(points, matrix, grid.scale, base)
            laid_out = channels_on(op.result, axis, real[0]).shape[1:]
            return finished(op, real.reshape(len(points), *laid_out))

        bounds = sum_bounds(matrix, grid.bounds)
        entry = LevelFunction(sums, bounds, op.result, lift, op.result)
        entry.at(np.array([0]))
        self.functions[op.result] = entry

    # Integers for values.

    def _enter(self, value: SSAValue, grid: LevelGrid) -> None:
        """Note that `value` is on a grid."""
        rank = tensor_type(value).get_num_dims()
        plain = _plain(grid.root, value, grid.bounds, rank)
        scale, offset = grid.scale, grid.offset

        def lift(points: Array) -> Array:
            return (plain.lift(points) * scale + offset).astype(np.float32)

        self.functions[value] = LevelFunction(grid.root, grid.bounds, value, lift, value)

    def _grid(self, value: SSAValue) -> LevelGrid:
        """A value with few levels as integers on a grid.

        Raises:
            NoFunctionError: it has many, or they are not evenly spaced.
        """
        if value not in self.functions:
            raise NoFunctionError("it is no function of one integer")
        if value not in self.grids:
            function = self.functions[value]
            quantized = function.bounds is None
            self.grids[value] = self._quantized(function) if quantized else self._counted(function)
        return self.grids[value]

    def _quantized(self, function: LevelFunction) -> LevelGrid:
        """A float argument that a function takes to few levels: one `quantize`."""
        bits = np.arange(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32)
        points = np.sort(bits.view(np.float32)[np.isfinite(bits.view(np.float32))])
        values = columns(function.at(points))
        found = uniform_levels(values)
        if values.shape[1] != 1 or found is None or (np.diff(values[:, 0]) < 0).any():
            raise NoFunctionError("it is no quantised input")
        step, lowest, number = found

        def counts(x: Array) -> Array:
            return np.rint((columns(function.at(x))[:, 0] - lowest) / step).astype(np.int64)

        fitting = quantizer(counts, number, step)
        if fitting is None:
            raise NoFunctionError("no quantisation gives the same levels")
        scale, zero = fitting
        low = 0 if number <= 127 else -128
        point = self.constant("input.scale", np.array(scale, np.float32), f32)
        shift = self.constant("input.zero_point", np.array(zero + low, _type(zero + low)), i8)
        made = tensor.QuantizeOp(function.root, point, shift, low=low, high=low + number)
        return LevelGrid(self.add(made), step, lowest - low * step, (low, low + number))

    def _counted(self, function: LevelFunction) -> LevelGrid:
        """What a function makes of integers, as the number of thresholds that they reach."""
        assert function.bounds is not None
        table, low = function.table(), function.bounds[0]
        same = bool((table == table[:, :1]).all())
        fitted = affine(table[:, :1], low) if same else None
        if fitted is not None and len(table) <= 256 and fitted[0][0] > 0:
            return LevelGrid(
                function.root, float(fitted[0][0]), float(fitted[1][0]), function.bounds
            )
        found = uniform_levels(table)
        if found is None:
            raise NoFunctionError("its values are not on few, evenly spaced levels")
        step, lowest, number = found
        counts = np.rint((table.astype(np.float64) - lowest) / step).astype(np.int64)
        root = function.root
        falling = np.asarray((np.diff(counts, axis=0) < 0).any(axis=0))
        if falling.any():
            root, counts, low = self._negated(function, counts, falling)
        if (np.diff(counts, axis=0) < 0).any():
            raise NoFunctionError("its values rise and fall")
        asked = np.arange(1, number + 1)
        thresholds = low + np.stack([(counts < level).sum(axis=0) for level in asked], axis=1)
        known = self.constant("thresholds", thresholds.astype(np.int32), i32)
        axis = _channel(function) if thresholds.shape[0] > 1 else 1
        counted = self.add(tensor.MultiThresholdOp(self._wide(root), known, axis=axis))
        return LevelGrid(counted, step, lowest, (0, number))

    def _negated(
        self, function: LevelFunction, counts: Array, falling: Array
    ) -> tuple[SSAValue, Array, int]:
        """The sums with some channels negated; counts for them, and the least sum."""
        assert function.bounds is not None
        product = function.root.owner
        if not isinstance(product, ternary.FusedOp) or len(falling) == 1:
            raise NoFunctionError("its values fall")
        most = max(abs(bound) for bound in function.bounds)
        points = np.arange(-most, most + 1)
        values = np.zeros((len(points), counts.shape[1]), np.int64)
        places = np.clip(points - function.bounds[0], 0, len(counts) - 1)
        values = np.where(falling, counts[places[::-1]], counts[places])
        weight = literal_value(product.weight)
        assert weight is not None
        channel = 0 if isinstance(product, ternary.ConvOp) else 1
        owner = product.weight.owner
        key = owner.key.data if isinstance(owner, ternary.ParameterOp) else "weight"
        signed = with_signs(weight, channel, np.where(falling, -1, 1))
        trits = self.constant(f"{key}.signed", signed, ternary.trit)
        return self.add(product.rebuild(weight=trits)), values, -most

    def _centred(self, grid: LevelGrid) -> LevelGrid:
        """Integers whose 0 is the real number 0, for products that pad with it."""
        for factor in (1, 2):
            shift = factor * grid.offset / grid.scale
            if abs(shift - round(shift)) < 1e-4:
                root = grid.root
                bounds = (factor * grid.bounds[0], factor * grid.bounds[1])
                if factor == 2:
                    root = self.add(tensor.AddOp(root, root))
                if round(shift):
                    by = self.constant("shift", np.array(round(shift), np.int8), i8)
                    root = self.add(tensor.AddOp(root, by))
                bounds = (bounds[0] + round(shift), bounds[1] + round(shift))
                if max(abs(bound) for bound in bounds) <= 127:
                    return LevelGrid(root, grid.scale / factor, 0.0, bounds)
        raise NoFunctionError("padding is between two levels")

    def _wide(self, value: SSAValue) -> SSAValue:
        if tensor_type(value).element_type == i32:
            return value
        return self.add(tensor.ConvertOp(value, i32))

    # Results.

    def _result(self, value: SSAValue) -> SSAValue:
        """What is returned in the place of `value`.

        Raises:
            NoFunctionError: it depends on floats that have no integer form.
        """
        if value in self.results:
            return self.results[value]
        function = self.functions.get(value)
        if function is None or function.bounds is None or function.root is value:
            raise NoFunctionError("a result has no integer form")
        table, low = function.table(), function.bounds[0]
        fitted = affine(table, low)
        root = self._wide(function.root)
        if fitted is None:
            grid = self._grid(value)
            root, low = self._wide(grid.root), grid.bounds[0]
            fitted = np.array([grid.scale]), np.array([grid.offset])
        scale, offset = fitted
        if np.ptp(scale) <= 1e-5 * abs(scale[0]):
            scale = scale[:1]
        if not is_float(tensor_type(value)):
            raise NoFunctionError("a result is no float")
        whole = np.abs(offset / scale - np.rint(offset / scale)).max() < 1e-4
        most = max(abs(bound) for bound in function.bounds) + np.abs(offset / scale).max()
        guard = 0 if whole else min(_GUARD_BITS, floor(log2(_MOST / (most + 1))))
        if guard < 0:
            raise NoFunctionError("a result is too large")
        shift = np.rint(offset * 2.0**guard / scale)
        axis = _channel(function) if fitted[1].size > 1 else 1
        return self._dequantize(root, scale / 2.0**guard, shift.astype(np.int32), guard, axis)

    def _dequantize(
        self, root: SSAValue, scale: Array, shift: Array, guard: int, axis: int
    ) -> SSAValue:
        if guard:
            factor = self.constant("result.guard", np.array(1 << guard, np.int32), i32)
            root = self.add(tensor.MulOp(root, factor))
        step = scale.astype(np.float32)
        if shift.any():
            vector = channels_on(root, axis, shift)[0] if shift.size > 1 else shift.reshape(())
            root = self.add(tensor.AddOp(root, self.constant("result.offset", vector, i32)))
        known = self.constant("result.scale", step if step.size > 1 else step.reshape(()), f32)
        zero = self.constant("result.zero_point", np.zeros((), np.int32), i32)
        return self.add(tensor.DequantizeOp(root, known, zero, axis=axis))


def _plain(
    root: SSAValue, entry: SSAValue, bounds: tuple[int, int] | None, rank: int
) -> LevelFunction:
    """The values of the root themselves."""

    def lift(points: Array) -> Array:
        return points.reshape(-1, *[1] * (rank - 1))

    return LevelFunction(root, bounds, entry, lift, entry)


def _channel(function: LevelFunction) -> int:
    """The axis along which a function differs."""
    shape = function.lift(np.array([0])).shape
    (axis,) = [axis for axis, size in enumerate(shape) if size != 1] or [1]
    return axis


def _with_operand(op: Operation, old: SSAValue, new: SSAValue) -> Operation:
    """A copy of `op` on integers."""
    copy = op.clone({old: new})
    element = tensor_type(new).element_type
    for result in copy.results:
        type = tensor_type(result)
        if is_float(type):
            new_type = TensorType(element, type.get_shape())
            Rewriter.replace_value_with_new_type(result, new_type)
    return copy


def _type(value: int) -> type[np.int8]:
    if not -128 <= value <= 127:
        raise NoFunctionError("a zero point has no 8 bits")
    return np.int8
