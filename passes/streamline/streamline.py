"""The pass `streamline`: float steps between products of few-bit values become thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import is_float
from ...dialects.traits import SelectsElements, has
from ...ir.interpreter import entry_function
from ..analysis.compile_time import is_literal, literal_value
from ..analysis.layers import channel_axis, input_of, is_layer, is_ternary, weight_of
from ..analysis.replacement import erase_unused
from ..requantize.integer_forms import interval
from .level_functions import (
    LevelFunction,
    LevelGrid,
    NoFunctionError,
    channels_on,
    columns,
    is_step,
)
from .level_grids import LevelGrids, plain
from .level_products import finished, real_sums, sum_bounds
from .level_results import integer_result


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

    An argument that is only quantised becomes a `tensor.quantize`, of its `tensor.sign` where the
    only step is at 0; results that are sums a `tensor.dequantize`. An offset that is no fraction of
    a step, with a divisor of at most 256, is rounded to 2^-17 of a step.
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
        self.block = block
        self.levels = LevelGrids(module, next(iter(block.ops)))
        self.functions = self.levels.functions
        self.results: dict[SSAValue, SSAValue] = {}

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
                self.levels.anchor = op
                self._visit(op)
            self.levels.anchor = returned
            new_values = [
                self.results.get(value) or integer_result(self.levels, value)
                for value in returned.operands
            ]
            for index, value in enumerate(new_values):
                returned.operands[index] = value
            done = True
        except NoFunctionError:
            pass
        erase_unused(
            [op for op in self.block.ops if op is not returned] if done else self.levels.added
        )

    def _argument(self, argument: SSAValue) -> None:
        if isinstance(argument.type, TensorType) and argument.type.element_type == f32:
            rank = argument.type.get_num_dims()
            self.functions[argument] = plain(argument, argument, None, rank)

    def _visit(self, op: Operation) -> None:
        if is_literal(op):
            return
        try:
            if is_layer(op) and is_float(tensor_type(op.results[0])):
                self._product(op)
            elif isinstance(op, tensor.DequantizeOp) and op.input not in self.functions:
                self._dequantized(op)
            elif has(op, SelectsElements) and len(op.operands) == len(op.results) == 1:
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
        functions = [self.functions[v] for v in op.operands if v in self.functions]
        unknown = [v for v in op.operands if v not in self.functions and literal_value(v) is None]
        if not functions or unknown:
            return
        if len({function.root for function in functions}) == 1:
            self.functions[op.results[0]] = functions[0].then(op, functions[1:])
        elif isinstance(op, tensor.AddOp):
            self._sum(op)

    def _sum(self, op: tensor.AddOp) -> None:
        """The sum of two activations of the same step."""
        a, b = self.levels.grid(op.lhs), self.levels.grid(op.rhs)
        same = tensor_type(op.lhs).get_shape() == tensor_type(op.rhs).get_shape()
        if not same or not np.isclose(a.scale, b.scale, rtol=1e-6):
            return
        total = self.levels.add(tensor.AddOp(self.levels.wide(a.root), self.levels.wide(b.root)))
        bounds = (a.bounds[0] + b.bounds[0], a.bounds[1] + b.bounds[1])
        self.levels.enter(op.result, LevelGrid(total, a.scale, a.offset + b.offset, bounds))

    def _dequantized(self, op: tensor.DequantizeOp) -> None:
        scale, zero = literal_value(op.scale), literal_value(op.zero_point)
        if scale is None or zero is None or scale.size != 1 or zero.size != 1:
            return
        step = float(scale.reshape(-1)[0])
        offset = -step * float(zero.reshape(-1)[0])
        self.levels.enter(op.result, LevelGrid(op.input, step, offset, interval(op.input)))

    def _moved(self, op: Operation) -> None:
        (operand,) = op.operands
        function = self.functions.get(operand)
        if function is None:
            return
        if function.bounds is None:
            root = self.levels.add(op.clone({operand: function.root}))
            rank = tensor_type(op.results[0]).get_num_dims()

            def lift(points: Array) -> Array:
                values = columns(function.at(points))
                if values.shape[1] != 1:
                    raise NoFunctionError("channels of an input differ")
                return values.reshape(-1, *[1] * (rank - 1))

            moved = LevelFunction(root, None, op.results[0], lift, op.results[0])
            self.functions[op.results[0]] = moved
            return
        grid = self.levels.grid(operand)
        root = self.levels.add(_with_operand(op, operand, grid.root))
        self.levels.enter(op.results[0], LevelGrid(root, grid.scale, grid.offset, grid.bounds))

    def _mean(self, op: tensor.GlobalAvgPoolOp | tensor.ReduceMeanOp) -> None:
        grid = self.levels.grid(op.operand)
        rank = tensor_type(op.operand).get_num_dims()
        axes, keep = list(range(2, rank)), True
        if isinstance(op, tensor.ReduceMeanOp):
            axes = [axis % rank for axis in op.axes.get_values()]
            keep = bool(op.keepdims.value.data)
        count = int(np.prod([tensor_type(op.operand).get_shape()[axis] for axis in axes]))
        if count < 1 or 0 in axes:
            return
        total = self.levels.add(
            tensor.ReduceSumOp(self.levels.wide(grid.root), axes, keepdims=keep)
        )
        bounds = (grid.bounds[0] * count, grid.bounds[1] * count)
        self.levels.enter(op.result, LevelGrid(total, grid.scale / count, grid.offset, bounds))

    def _argmax(self, op: tensor.ArgmaxOp) -> None:
        function = self.functions.get(op.operand)
        if function is None:
            return
        table = function.table()
        if (table == table[:, :1]).all() and (np.diff(table[:, 0]) > 0).all():
            self.results[op.result] = self.levels.add(_with_operand(op, op.operand, function.root))

    def _product(self, op: Operation) -> None:
        assert is_layer(op)
        weight = literal_value(weight_of(op))
        if weight is None or not is_ternary(op) or input_of(op) not in self.functions:
            return
        grid = self.levels.grid(input_of(op))
        padded = isinstance(op, ternary.ConvOp) and any(op.padding.get_values())
        if padded:
            grid = self.levels.centred(grid)
        product = (
            op.rebuild(
                input=grid.root, scale=None, bias=None, thresholds=None, activation="none",
                sparsity=None,
            )
            if isinstance(op, ternary.FusedOp)
            else ternary.LinearOp(grid.root, weight_of(op))
        )  # fmt: skip
        sums = self.levels.add(product)
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
