"""The pass `merge-rescaling`: chains of integer steps an element become one rescaling."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import interpret, tensor
from ...dialects.elements import element_of, numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import DYNAMIC, AnyTensor, ShapeError, axes_behind
from ...dialects.tensor.quantization import check_range
from ...dialects.traits import Elementwise, Increasing
from ..analysis.compile_time import literal, literal_value
from ..analysis.magnitude import Magnitudes
from ..analysis.replacement import erase_unused_except, insert_before, unused_ops
from .rescaling_fit import Fit, fit_rescaling

_EXACT: dict[type[Operation], Callable[..., Any]] = {
    tensor.AddOp: operator.add,
    tensor.ConvertOp: operator.pos,
    tensor.MulOp: operator.mul,
    tensor.NegOp: operator.neg,
    tensor.SubOp: operator.sub,
}
"""Steps that wrap around, on whole numbers of any size."""

MOST_STEPS = 1 << 12
"""Chains with more different results are left alone."""


def is_step(kind: type[Operation]) -> bool:
    """Whether ops of a class rise or fall with the elements of a tensor of integers, each alone.

    Those with a predicate or a factor may do neither.
    """
    increasing = all(kind.get_trait(trait) is not None for trait in (Elementwise, Increasing))
    return increasing or kind in _EXACT or kind in (tensor.CompareOp, tensor.RequantizeOp)


@dataclass(frozen=True)
class MergeRescalingPass(ModulePass):
    """Compute what stands between two products of integers by one `tensor.requantize`, exactly.

    Networks from files round in the way of their engine: gemmlowp's two shifts, a zero point that
    is added and taken off again, bounds. Such steps, each on the elements of one tensor with
    known numbers a channel, are one function of an integer that never falls or never rises. Where
    one multiplier and shift, behind a multiplication by a power of two and a sum with a known
    number, reach every result at the same integer, they take its place:

        %a = tensor.requantize %x, %m, %31, %0 : … -> tensor<?x8xi32>
        %n = tensor.compare %a, %0 {predicate = "lt"} : …
        %b = tensor.sub %a, (tensor.convert %n) : …
        %q = tensor.requantize %b, %1, %s, %z : … -> tensor<?x8xi8>
        %y = tensor.sub (tensor.convert %q), %z : … -> tensor<?x8xi32>
        // becomes
        %u = tensor.add (tensor.mul %x, %16), %c : … -> tensor<?x8xi32>
        %y = tensor.requantize %u, %m2, %s2, %0 {low = 0, high = 255} : … -> tensor<?x8xi32>

    All results are compared, at every integer where one begins. Bounds of the integers come from
    weights and the ops before (`analysis.magnitude`). A chain in which a step may wrap around is
    left alone: it rises and falls.
    """

    name = "merge-rescaling"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.walk()):
            if isinstance(function, FuncOp) and len(function.body.blocks) == 1:
                Merging(op, function).run()


class Merging:
    """Finds the chains of one function, and puts one rescaling in the place of each."""

    def __init__(self, module: ModuleOp, function: FuncOp) -> None:
        self.module = module
        self.block = function.body.block
        self.roots: dict[SSAValue, SSAValue] = {}
        self.rising: dict[SSAValue, NDArray[np.int8]] = {}

    def run(self) -> None:
        """Replace the ends of all chains that one rescaling computes."""
        unused = unused_ops(self.block)
        for op in list(self.block.ops):
            if is_step(type(op)):
                self._follow(op)
        sizes = Magnitudes()
        ends = [value for value in self.roots if self._is_end(value)]
        for replace in [self._found(value, sizes) for value in ends]:
            if replace is not None:
                replace()
        erase_unused_except(self.block, unused)

    def _follow(self, op: Operation) -> None:
        """Note of which tensor an op computes a function, if it is one that rises or falls."""
        unknown = [v for v in op.operands if literal_value(v) is None]
        if not unknown or not all(_is_integer(v) for v in (*op.operands, *op.results)):
            return
        roots = {self.root(value) for value in unknown}
        if len(roots) != 1:
            return
        (root,), (result,) = roots, op.results
        shapes = {tensor_type(v).get_shape() for v in (root, result, *unknown)}
        if len(shapes) != 1 or tensor_type(root).get_num_dims() < 2:
            return
        direction = self._direction(op, root)
        if direction is not None:
            self.roots[result], self.rising[result] = root, direction

    def root(self, value: SSAValue) -> SSAValue:
        """The tensor that a chain begins with which goes on with a value."""
        return self.roots.get(value, value)

    def _direction(self, op: Operation, root: SSAValue) -> NDArray[np.int8] | None:
        """1 where the result rises with the root, -1 where it falls, 0 for either, a channel."""

        def of(value: SSAValue) -> NDArray[np.int8]:
            if value is root:
                return np.array(1, np.int8)
            return self.rising.get(value, np.array(0, np.int8))

        directions = [of(value) for value in op.operands]
        match op:
            case tensor.SubOp():
                return _both(directions[0], -directions[1])
            case tensor.NegOp():
                return -directions[0]
            case tensor.CompareOp():
                predicate = op.predicate.data
                if predicate in ("eq", "ne"):
                    return None
                difference = _both(directions[0], -directions[1])
                falls = predicate in ("lt", "le")
                return None if difference is None else -difference if falls else difference
            case tensor.MulOp():
                known = literal_value(op.rhs)
                value, factor = (op.lhs, known) if known is not None else (op.rhs, None)
                if factor is None:
                    factor = literal_value(op.lhs)
                if factor is None:
                    return None
                return self._signed(of(value), factor, root)
            case tensor.RequantizeOp():
                multiplier = literal_value(op.multiplier)
                if multiplier is None:
                    return None
                rank = tensor_type(root).get_num_dims()
                if multiplier.ndim:
                    trailing = axes_behind(op.axis.value.data, rank)
                    multiplier = multiplier.reshape(-1, *[1] * trailing)
                return self._signed(directions[0], multiplier, root)
            case _:
                return _both(directions[0], directions[-1])

    def _signed(
        self, direction: NDArray[np.int8], factor: Array, root: SSAValue
    ) -> NDArray[np.int8] | None:
        if factor.size == 1:
            return (direction * np.sign(factor.reshape(()))).astype(np.int8)
        return np.asarray(direction * np.sign(factor), np.int8)

    def _is_end(self, value: SSAValue) -> bool:
        """Whether a chain with a rescaling ends here, and is more than that rescaling."""
        if any(self._continues(use.operation, value) for use in value.uses):
            return False
        ops = self._chain(value)
        rescalings = [op for op in ops if isinstance(op, tensor.RequantizeOp)]
        return bool(rescalings and value.first_use) and self.gains(ops, rescalings[0])

    def gains(self, ops: Sequence[Operation], first: tensor.RequantizeOp) -> bool:
        """Whether a chain is more than its first rescaling."""
        plain = tensor.AddOp | tensor.SubOp | tensor.ConvertOp
        behind = ops[ops.index(first) + 1 :]
        return sum(not isinstance(op, plain) for op in ops) > 1 or any(
            not isinstance(op, tensor.ConvertOp) for op in behind
        )

    def _continues(self, user: Operation, value: SSAValue) -> bool:
        return len(user.results) == 1 and self.roots.get(user.results[0]) is self.roots[value]

    def _chain(self, value: SSAValue) -> list[Operation]:
        """The ops from the root to a value, in program order."""
        chain: set[Operation] = set()
        waiting = [value]
        while waiting:
            op = waiting.pop().owner
            if isinstance(op, Operation) and op not in chain and op.results[0] in self.roots:
                chain.add(op)
                waiting.extend(op.operands)
        return [op for op in self.block.ops if op in chain]

    def _found(self, value: SSAValue, sizes: Magnitudes) -> Callable[[], None] | None:
        """What puts one rescaling in the place of a chain, if one does the same."""
        root = self.roots[value]
        type = tensor_type(root)
        axis = self.axis(value)
        if axis is not None and axis < 1:
            return None
        channels = 1 if axis is None else type.get_shape()[axis]
        if channels == DYNAMIC or type.element_type != i32:
            return None
        bound = np.broadcast_to(_by_channel(sizes.of(root), axis, type.get_num_dims()), (channels,))
        if float(bound.max()) > 2**30:
            return None
        chain = Chain(self._chain(value), root, axis)
        if chain.wraps(bound.astype(np.int64)):
            return None
        return self.replacement(value, chain, bound.astype(np.int64))

    def replacement(self, value: SSAValue, chain: Chain, bound: Array) -> Callable[[], None] | None:
        """What puts one rescaling in the place of a chain that gives a value.

        Args:
            value: the end of the chain.
            chain: as a function.
            bound: the largest magnitude of what it takes, int64 [channels].
        """
        fit = fit_rescaling(chain, bound, MOST_STEPS)
        if fit is None or not _holds(tensor_type(value), fit):
            return None
        return lambda: self._replace(value, fit)

    def axis(self, value: SSAValue) -> int | None:
        """The one axis along which the numbers of a chain differ; `None` if they do not, -1 where
        they do along several."""
        rank = tensor_type(value).get_num_dims()
        axes: set[int] = set()
        for op in self._chain(value):
            for operand in op.operands:
                known = literal_value(operand)
                if known is None or known.size == 1:
                    continue
                if isinstance(op, tensor.RequantizeOp):
                    axes.add(op.axis.value.data % rank)
                    continue
                axes.update(rank - known.ndim + a for a, n in enumerate(known.shape) if n > 1)
        return axes.pop() if len(axes) == 1 else None if not axes else -1

    def _replace(self, value: SSAValue, fit: Fit) -> None:
        """Compute a value by the rescaling."""
        axis = self.axis(value)
        element = tensor_type(value).element_type

        def known(what: str, values: Array, shaped: bool) -> SSAValue:
            return self.known(value, what, np.asarray(values, np.int32), shaped)

        def add(op: Operation) -> SSAValue:
            return self.add(value, op)

        current = self.roots[value]
        if fit.places:
            factor = known("merged.factor", np.array(1 << fit.places), False)
            current = add(tensor.MulOp(current, factor))
        if any(fit.biases):
            bias = known("merged.bias", np.array(fit.biases), True)
            current = add(tensor.AddOp(current, bias))
        zero = np.array(fit.zero_point, numpy_dtype(element))
        requantize = tensor.RequantizeOp(
            current,
            known("merged.multiplier", np.array(fit.multipliers), False),
            known("merged.shift", np.array(fit.shifts), False),
            self.known(value, "merged.zero", zero),
            axis=1 if axis is None else axis,
            low=fit.low,
            high=fit.high,
        )
        result = add(requantize)
        result.name_hint = value.name_hint
        value.replace_all_uses_with(result)

    def known(self, value: SSAValue, what: str, numbers: Array, shaped: bool = False) -> SSAValue:
        """Numbers before the op that gives a value: one where all are the same, else a vector,
        shaped so that it meets the channels of the value if asked for."""
        rank, axis = tensor_type(value).get_num_dims(), self.axis(value)
        if numbers.size == 1 or (numbers == numbers.reshape(-1)[0]).all():
            numbers = numbers.reshape(-1)[0]
        elif shaped and axis is not None:
            numbers = numbers.reshape(-1, *[1] * (rank - 1 - axis))
        array = np.asarray(numbers)
        type = TensorType(element_of(array.dtype), array.shape)
        op = literal(self.module, what, array, type, buffer=True)
        return self.add(value, op)

    def add(self, value: SSAValue, op: Operation) -> SSAValue:
        """Put an op before the one that gives a value."""
        owner = value.owner
        assert isinstance(owner, Operation)
        insert_before(owner, op)
        return op.results[0]


class Chain:
    """A chain of ops, the last of which gives its results, as a function of integers, a channel."""

    def __init__(self, ops: Sequence[Operation], root: SSAValue, axis: int | None) -> None:
        self.ops, self.root = ops, root
        self.rank = tensor_type(root).get_num_dims()
        self.axis = 1 if axis is None else axis

    def __call__(self, x: Array) -> Array:
        """The results for integers [rows, channels], int64."""
        *_, (_, _, last) = self._steps(x)
        return last.astype(np.int64).reshape(x.shape)

    def wraps(self, bound: Array) -> bool:
        """Whether a step leaves its type for integers within ±bound, int64 [channels].

        Steps before the first that does rise or fall, so that it does so at an end of them.
        """
        return any(
            (_EXACT[type(op)](*(v.astype(object) for v in operands)) != result).any()
            for op, operands, result in self._steps(np.stack([-bound, bound]))
            if type(op) in _EXACT
        )

    def _steps(self, x: Array) -> Iterator[tuple[Operation, list[Array], Array]]:
        """Each op with its operands and result for integers [rows, channels]; the last gives
        the results."""
        shape = [1] * self.rank
        shape[0], shape[self.axis] = x.shape
        values: dict[SSAValue, Array] = {self.root: x.astype(np.int32).reshape(shape)}
        for op in self.ops:
            operands: list[Array] = []
            for operand in op.operands:
                held = values.get(operand)
                known = literal_value(operand) if held is None else held
                assert known is not None
                operands.append(known)
            with np.errstate(all="ignore"):
                result = np.asarray(interpret.RULES[type(op)](op, *operands))
            values[op.results[0]] = result
            yield op, operands, result


def _both(a: NDArray[np.int8], b: NDArray[np.int8]) -> NDArray[np.int8] | None:
    """The direction of a sum: that of both, where they do not go against each other."""
    if (a * b < 0).any():
        return None
    return np.asarray(np.sign(a + b), np.int8)


def _by_channel(bound: Array, axis: int | None, rank: int) -> Array:
    """Bounds of a tensor as one number, or one a position on an axis."""
    if bound.ndim == 0 or axis is None:
        return np.asarray(bound.max())
    place = axis - (rank - bound.ndim)
    if place < 0:
        return np.asarray(bound.max())
    others = tuple(a for a in range(bound.ndim) if a != place)
    return bound.max(axis=others)


def _holds(type: AnyTensor, fit: Fit) -> bool:
    """Whether a rescaling may give elements of a type."""
    try:
        check_range(type, fit.low, fit.high)
    except ShapeError:
        return False
    return True


def _is_integer(value: SSAValue) -> bool:
    if not isinstance(value.type, TensorType):
        return False
    return numpy_dtype(tensor_type(value).element_type).kind in "iub"
