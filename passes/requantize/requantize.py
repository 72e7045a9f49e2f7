"""The pass `requantize`: integers all the way between quantised activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import ceil, log2
from typing import Any, ClassVar, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import Float64Type, FloatAttr, ModuleOp, f32, f64, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import DYNAMIC, is_float, with_element
from ...dialects.traits import Affine, has
from ..analysis.compile_time import literal_value
from ..analysis.layers import is_layer
from ..analysis.magnitude import magnitude
from ..analysis.replacement import erase_unused_except, unused_ops
from ..fold_constants import fold
from .integer_builder import IntegerBuilder, parameter_key
from .integer_forms import (
    ACCUMULATOR_LIMIT,
    Combination,
    Grid,
    Mean,
    NotIntegerError,
    Term,
    along_axis,
    common_grid,
    dequantized,
    limits,
    mean_count,
    on_grid,
    part_grid,
    rescaling,
    scalar,
    shaped,
    takes_integers,
)
from .requantize_fusion import fuse_rescaling


@dataclass(frozen=True)
class RequantizePass(ModulePass):
    """Replace float arithmetic between integers by integer arithmetic.

    What stands between `tensor.dequantize` and `tensor.quantize` is computed on integers: the
    scales on both sides and the factors between them become one multiplier and shift, an added
    number becomes an i32 bias, `relu` and its like become bounds, and all of it goes into the
    product before it.

        %z = tensor.dequantize %acc, %s, %0 : …
        %h = tensor.add %z, %bias : …
        %a = tensor.relu %h : …
        %q = tensor.quantize %a, %t, %0 {low = -127, high = 127} : …
        // with the product that made %acc, becomes
        %q = ternary.linear %x, %w bias(%b : tensor<8xi32>) multiplier(%m : tensor<8xi32>)
             shift(%n : tensor<8xi32>) zero_point(%0 : tensor<i8>) {low = 0, high = 127} : …

    - Known factors and sums (`mul`, `div`, `add`, `sub`, `neg`, `batch_norm`) join the scale and
      the bias, channel by channel.
    - `relu`, `relu6`, `hard_tanh` and `clamp` become bounds. Maximum pooling, concatenation and
      ops that move elements work on the integers.
    - A sum of two activations: both go on a common grid finer by up to 16 bits, are added in i32,
      and the sum goes on the grid of the result.
    - Means: the window is summed in i32 (`avg_pool` that is not global as a `ternary.conv` with
      weights of 1), and the count joins the scale.
    - After the last product, known factors and sums join the scale of `tensor.dequantize` and the
      bias of the product.

    Every result is the float result within one step of the grid: the rounding to the grid, a
    quarter of a step for the bias, and 2^-14 for a sum. The integers are the same on every target.
    Values that depend on anything else (softmax, float products), or on a chain of several hundred
    float ops, stay in float. Compile-time values are evaluated first, as by `fold-constants`.
    """

    name = "requantize"
    approximate: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp) and len(function.body.blocks) == 1:
                block = function.body.block
                if any(isinstance(inner, tensor.DequantizeOp) for inner in block.ops):
                    fold(list(block.ops))
                    _Requantizing(op, block).run()


class _Requantizing:
    """Makes one function integer; new ops go before the op being replaced."""

    def __init__(self, module: ModuleOp, block: Block) -> None:
        assert block.last_op is not None
        self.module = module
        self.block = block
        self.emit = IntegerBuilder(module, block.last_op)
        self.original = set(block.ops)
        self.known: dict[tuple[SSAValue, Grid], SSAValue] = {}
        self.forms: dict[tuple[SSAValue, int | None], Combination] = {}
        self.reaches: dict[tuple[SSAValue, int], tuple[float, float]] = {}
        self.moved: dict[tuple[Operation, Grid], Operation] = {}

    def run(self) -> None:
        """Convert what can be, and erase what is left without users."""
        unused = unused_ops(self.block)
        for op in list(self.block.ops):
            if isinstance(op, tensor.QuantizeOp):
                self._try(op, self._quantize)
        erase_unused_except(self.block, unused)
        for op in list(self.block.ops):
            if has(op, Affine) and not _continues(op.results[0]):
                self._try(op, self._dequantize)
        erase_unused_except(self.block, unused)
        fuse_rescaling(self.module, self.block)
        erase_unused_except(self.block, unused)

    def _try(self, op: Operation, convert: Callable[[Any], SSAValue]) -> None:
        self.emit.anchor = op
        try:
            result = convert(op)
        except (NotIntegerError, RecursionError):
            return
        (old,) = op.results
        if old.name_hint is not None and result.owner not in self.original:
            result.name_hint = old.name_hint
        old.replace_all_uses_with(result)

    def _quantize(self, op: tensor.QuantizeOp) -> SSAValue:
        scale, zero = scalar(op.scale), scalar(op.zero_point)
        element = tensor_type(op.result).element_type
        grid = Grid(float(scale), int(zero), op.low.value.data, op.high.value.data, element)
        return self.integers(op.input, grid)

    def _dequantize(self, op: Operation) -> SSAValue:
        """A float result of the program: the last product's integers with one scale."""
        (value,) = op.results
        if tensor_type(value).element_type != f32:
            raise NotIntegerError
        form = self.combination(value, None)
        if len(form.terms) != 1:
            raise NotIntegerError
        (term,) = form.terms
        bare = is_layer(term.value.owner) and tensor_type(term.value).element_type == i32
        if not bare or not term.value.has_one_use():
            raise NotIntegerError
        scale, offset, bound = np.broadcast_arrays(term.scale, form.offset, magnitude(term.value))
        # A channel that is always 0 gets a scale that expresses its offset.
        own = np.where(offset == 0, 1.0, np.abs(offset) * 2.0**-23)
        scale = np.where(bound == 0, own, scale).astype(np.float32)
        if np.any(scale == 0):
            raise NotIntegerError
        bias = np.rint(offset / scale)
        if np.any(np.abs(bias) + bound > ACCUMULATOR_LIMIT):
            raise NotIntegerError
        rank = tensor_type(value).get_num_dims()
        vector, axis = along_axis(scale, rank)
        total = self.emit.plus(term.value, bias.astype(np.int64))
        zero = self.emit.literal("zero_point", np.array(0, np.int32), op)
        scales = self.emit.literal(f"{parameter_key(term.value)}.scale", vector, op)
        return self.emit.add(tensor.DequantizeOp(total, scales, zero, axis=axis), op)

    def integers(self, value: SSAValue, grid: Grid) -> SSAValue:
        """The integers on `grid` that stand for the float `value`.

        Raises:
            NotIntegerError: the value depends on floats.
        """
        key = (value, grid)
        if key not in self.known:
            result = self._integers(value, grid)
            if result.name_hint is None and value.name_hint is not None:
                result.name_hint = f"{value.name_hint}_q"
            self.known[key] = result
        return self.known[key]

    def _integers(self, value: SSAValue, grid: Grid) -> SSAValue:
        op = value.owner
        if not isinstance(op, Operation):
            raise NotIntegerError
        if isinstance(op, tensor.DequantizeOp) and on_grid(op, grid):
            return self.emit.bounded(op.input, grid, op)
        if (bounds := limits(op)) is not None:
            return self.integers(op.operands[0], grid.limited(*bounds))
        if isinstance(op, tensor.ConvertOp) and is_float(tensor_type(op.operand)):
            return self.integers(op.operand, grid)
        if takes_integers(op):
            return self._move(op, grid).results[cast(OpResult, value).index]
        form = self.combination(value, 0)
        try:
            if len(form.terms) != 1:
                raise NotIntegerError
            return self._rescaled(form.terms[0], form.offset, grid, op)
        except NotIntegerError:
            return self._summed(form, grid, op)

    def _move(self, op: Operation, grid: Grid) -> Operation:
        """`op` on integers."""
        if (op, grid) not in self.moved:
            operands = [self.integers(operand, grid) for operand in op.operands]
            properties = dict(op.properties)
            if isinstance(op, tensor.PadToOp):
                number: FloatAttr[Float64Type] = FloatAttr(grid.level(op.value.value.data), f64)
                properties["value"] = number
            types = [with_element(tensor_type(r), grid.element) for r in op.results]
            moved = type(op).create(
                operands=operands,
                result_types=types,
                properties=properties,
                attributes=dict(op.attributes),
            )
            self.emit.add(moved, op)
            self.moved[op, grid] = moved
        return self.moved[op, grid]

    def _rescaled(self, term: Term, offset: Array, grid: Grid, source: Operation) -> SSAValue:
        """scale·value + offset in one `tensor.requantize`."""
        plan = rescaling(term, offset, grid)
        value = self.emit.plus(term.value, plan.bias)
        return self.emit.requantize(value, plan.factor, grid, source)

    def _summed(self, form: Combination, grid: Grid, source: Operation) -> SSAValue:
        """A sum of terms, formed on a finer grid."""
        if not form.terms:
            raise NotIntegerError
        fine, bits = common_grid(form, grid)
        offset, parts = form.offset, list[SSAValue]()
        for term in form.terms:
            value = term.value
            if np.any(offset != 0):
                try:
                    plan = rescaling(term, offset, fine, error=2.0 ** (bits - 4))
                    value = self.emit.plus(value, plan.bias)
                    parts.append(self.emit.requantize(value, plan.factor, fine, source))
                    offset = np.zeros_like(offset)
                    continue
                except NotIntegerError:
                    pass
            parts.append(self.emit.requantize(value, term.scale / fine.scale, fine, source))
        total = reduce(lambda a, b: self.emit.add(tensor.AddOp(a, b), source), parts)
        if np.any(offset != 0):
            rest = np.clip(np.rint(offset / fine.scale), fine.low, fine.high)
            total = self.emit.plus(total, rest.astype(np.int64))
        return self.emit.requantize(total, np.array(2.0**-bits), grid, source)

    def combination(self, value: SSAValue, parts: int | None) -> Combination:
        """`value` as a sum of scaled integers and known numbers.

        Args:
            value: a float value.
            parts: for parts that must be rounded before they are summed, the bits that they leave
                free for further sums; `None` where none may be rounded.

        Raises:
            NotIntegerError: it is no such sum.
        """
        key = (value, parts)
        if key not in self.forms:
            self.forms[key] = self._combination(value, parts)
        return self.forms[key]

    def _combination(self, value: SSAValue, parts: int | None) -> Combination:
        known = literal_value(value)
        if known is not None:
            return Combination((), known.astype(np.float64))
        op = value.owner
        if isinstance(op, tensor.DequantizeOp):
            return dequantized(op)
        if isinstance(op, tensor.AddOp | tensor.SubOp):
            lhs, rhs = self._same_shape(op, parts)
            return lhs.plus(rhs.times(np.array(-1.0 if isinstance(op, tensor.SubOp) else 1.0)))
        if isinstance(op, tensor.NegOp):
            return self.combination(op.operand, parts).times(np.array(-1.0))
        if isinstance(op, tensor.MulOp | tensor.DivOp):
            return self._scaled(op, parts)
        if isinstance(op, tensor.BatchNormOp):
            return self._normalized(op, parts)
        if isinstance(op, tensor.ConvertOp) and is_float(tensor_type(op.operand)):
            return self.combination(op.operand, parts)
        if parts is not None and isinstance(op, Operation):
            if isinstance(op, Mean):
                return self._mean(op, parts)
            if limits(op) is not None or takes_integers(op):
                return self._rounded(value, parts)
        raise NotIntegerError

    def _rounded(self, value: SSAValue, parts: int) -> Combination:
        """`value` on a grid of its own."""
        grid = part_grid(*self.reach(value, parts), parts)
        return Combination((Term(self.integers(value, grid), np.array(grid.scale)),), np.array(0.0))

    def reach(self, value: SSAValue, parts: int) -> tuple[float, float]:
        """Bounds of |value|, and of what it was before it was cut; see `combination`."""
        key = (value, parts)
        if key not in self.reaches:
            self.reaches[key] = self._reach(value, parts)
        return self.reaches[key]

    def _reach(self, value: SSAValue, parts: int) -> tuple[float, float]:
        op = value.owner
        if isinstance(op, Operation):
            if (bounds := limits(op)) is not None:
                low = -np.inf if bounds[0] is None else bounds[0]
                high = np.inf if bounds[1] is None else bounds[1]
                reach, before = self.reach(op.operands[0], parts)
                return float(np.abs(np.clip([-reach, reach], low, high)).max()), before
            if takes_integers(op):
                pad = abs(op.value.value.data) if isinstance(op, tensor.PadToOp) else 0.0
                reaches = [(pad, pad), *(self.reach(operand, parts) for operand in op.operands)]
                return max(reach for reach, _ in reaches), max(before for _, before in reaches)
        reach = self.combination(value, parts).reach()
        return reach, reach

    def _same_shape(
        self, op: tensor.AddOp | tensor.SubOp, parts: int | None
    ) -> tuple[Combination, Combination]:
        """The forms of two operands; integers must not be broadcast."""
        forms = self.combination(op.lhs, parts), self.combination(op.rhs, parts)
        shape = tensor_type(op.result).get_shape()
        for operand, form in zip(op.operands, forms, strict=True):
            if form.terms and tensor_type(operand).get_shape() != shape:
                raise NotIntegerError
        return forms

    def _scaled(self, op: tensor.MulOp | tensor.DivOp, parts: int | None) -> Combination:
        left, right = literal_value(op.lhs), literal_value(op.rhs)
        if right is None and left is not None and isinstance(op, tensor.MulOp):
            value, factor = op.rhs, left
        elif right is not None:
            value, factor = op.lhs, right
        else:
            raise NotIntegerError
        if tensor_type(value).get_shape() != tensor_type(op.result).get_shape():
            raise NotIntegerError
        exact = factor.astype(np.float64)
        if isinstance(op, tensor.DivOp):
            if np.any(exact == 0):
                raise NotIntegerError
            exact = 1 / exact
        return self.combination(value, parts).times(exact)

    def _normalized(self, op: tensor.BatchNormOp, parts: int | None) -> Combination:
        vectors = [literal_value(v) for v in (op.scale, op.bias, op.mean, op.variance)]
        if any(vector is None for vector in vectors):
            raise NotIntegerError
        rank = tensor_type(op.input).get_num_dims()
        scale, bias, mean, variance = (
            shaped(v.astype(np.float64), 1, rank) for v in vectors if v is not None
        )
        factor = scale / np.sqrt(variance + op.epsilon.value.data)
        shift = Combination((), bias - mean * factor)
        return self.combination(op.input, parts).times(factor).plus(shift)

    def _mean(self, op: Mean, parts: int) -> Combination:
        count = mean_count(op)
        spare = parts + ceil(log2(count))
        form = self.combination(op.operand, spare)
        uniform = form.offset.size == 1 and all(term.scale.size == 1 for term in form.terms)
        if len(form.terms) != 1 or (isinstance(op, tensor.ReduceMeanOp) and not uniform):
            narrow = part_grid(form.reach(), form.reach(), spare)
            value = self._summed(form, narrow, op)
            form = Combination((Term(value, np.array(narrow.scale)),), np.array(0.0))
        (term,) = form.terms
        if magnitude(term.value).max() * count > ACCUMULATOR_LIMIT:
            raise NotIntegerError
        if isinstance(op, tensor.AvgPoolOp) and not _is_global(op):
            total = self._window_sums(op, term, form.offset)
        else:
            axes = list(range(2, tensor_type(op.operand).get_num_dims()))
            keepdims = True
            if isinstance(op, tensor.ReduceMeanOp):
                axes, keepdims = list(op.axes.get_values()), bool(op.keepdims.value.data)
            sums = tensor.ReduceSumOp(self.emit.wide(term.value), axes, keepdims=keepdims)
            total = self.emit.add(sums, op)
        return Combination((Term(total, term.scale / count),), form.offset)

    def _window_sums(self, op: tensor.AvgPoolOp, term: Term, offset: NDArray[Any]) -> SSAValue:
        """Sums over windows: a convolution with weights of 1, each channel by itself."""
        kernel, padding = op.kernel.get_values(), op.padding.get_values()
        channels = tensor_type(op.operand).get_shape()[1]
        if channels == DYNAMIC or (any(padding) and not op.count_include_pad.value.data):
            raise NotIntegerError
        value, spatial = term.value, len(kernel)
        if any(padding) and np.any(offset != 0):
            if np.any(term.scale == 0):
                raise NotIntegerError
            pad = np.unique(np.rint(-offset / term.scale))
            if pad.size != 1 or np.any(pad * term.scale != -offset):
                raise NotIntegerError
            low, high = padding[:spatial], padding[spatial:]
            padded = tensor.PadToOp(value, (0, 0, *low), (0, 0, *high), float(pad[0]))
            value, padding = self.emit.add(padded, op), (0,) * len(padding)
        ones = np.ones((channels, 1, *kernel), dtype=np.int8)
        weight = self.emit.literal("avg_pool.ones", ones, op, ternary.trit)
        total = ternary.ConvOp(
            value,
            weight,
            strides=op.strides.get_values(),
            padding=padding,
            dilation=[1] * spatial,
            groups=channels,
        )
        return self.emit.add(total, op)


def _is_global(op: tensor.AvgPoolOp) -> bool:
    """Whether the one window is all of the image."""
    size = tuple(tensor_type(op.operand).get_shape()[2:])
    return tuple(op.kernel.get_values()) == size and not any(op.padding.get_values())


def _continues(value: SSAValue) -> bool:
    """Whether all users of `value` are affine ops, so that a longer chain exists."""
    users = [use.operation for use in value.uses]
    return bool(users) and all(has(user, Affine) for user in users)


def has_integer_form(op: object) -> TypeGuard[Operation]:
    """Whether `requantize` computes an op on integers where it stands between them."""
    if takes_integers(op) or has(op, Affine):
        return True
    return isinstance(op, Operation) and limits(op) is not None
