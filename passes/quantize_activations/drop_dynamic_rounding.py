"""The pass `drop-dynamic-rounding`: activations that are rounded in each run are floats again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ..analysis.compile_time import is_literal, literal, literal_value
from ..analysis.layers import PlainLayer, input_of, is_layer, rebuilt, weight_of
from ..analysis.replacement import erase_unused_except, insert_before, replace_results, unused_ops

Powers: TypeAlias = frozenset[tuple[SSAValue, int]]
"""A product of powers of numbers that each sample has one of."""

Key: TypeAlias = tuple[SSAValue | None, Powers]

_EXTREMES = (tensor.MaximumOp, tensor.MinimumOp, tensor.ClampOp)


@dataclass(frozen=True)
class DropDynamicRoundingPass(ModulePass):
    """Take back the rounding of activations whose scale is found in each run.

    Files with *dynamic-range* quantisation (hybrid kernels of TFLite, `DynamicQuantizeLinear` of
    ONNX) hold integer weights, and round the activations of each run on a scale from their own
    largest value. Such scales depend on the input, so that no integer network has them. The product
    of the activations as they are by the weights times their scale differs by that rounding alone:

        %q = tensor.convert (round (%x · 127/max|x|)) : … -> tensor<?x8xi32>
        %s = tensor.matmul %q, %w : (tensor<?x8xi32>, tensor<8x4xi32>) -> tensor<?x4xi32>
        %y = tensor.mul (tensor.convert %s), (max|x|/127 · %c) : … -> tensor<?x4xf32>
        // becomes
        %p = tensor.linear %x, %wf : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
        %y = tensor.mul %p, %c : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>

    `quantize-activations` then gives the activations a scale from samples. Values are followed as
    sums of products of powers of such numbers; what does not cancel is left alone.
    """

    name = "drop-dynamic-rounding"
    approximate: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.walk()):
            if isinstance(function, FuncOp) and len(function.body.blocks) == 1:
                _Following(op, function).run()


@dataclass(frozen=True)
class _Form:
    """A sum of terms: a tensor (or 1), times powers of per-sample numbers, times known numbers.

    Attributes:
        terms: the known numbers by tensor and powers.
        rounded: whether it has been rounded to whole numbers.
    """

    terms: dict[Key, NDArray[np.float64]]
    rounded: bool = False

    def times(self, other: _Form) -> _Form | None:
        """The product, if one side has no tensor."""
        terms: dict[Key, NDArray[np.float64]] = {}
        for (a, powers), x in self.terms.items():
            for (b, others), y in other.terms.items():
                if a is not None and b is not None:
                    return None
                key = (b if a is None else a, _product(powers, others))
                terms[key] = terms.get(key, np.array(0.0)) + x * y
        return _Form(terms, self.rounded and other.rounded)

    def plus(self, other: _Form, sign: float) -> _Form:
        """The sum or difference; terms that cancel are left out."""
        terms = dict(self.terms)
        for key, value in other.terms.items():
            terms[key] = terms.get(key, np.array(0.0)) + sign * value
        return _Form({k: v for k, v in terms.items() if v.any()}, self.rounded)

    def inverse(self) -> _Form | None:
        """1 / x of a single term without a tensor."""
        if len(self.terms) != 1:
            return None
        (((held, powers), value),) = self.terms.items()
        if held is not None or not value.all():
            return None
        return _Form({(None, frozenset((v, -n) for v, n in powers)): 1 / value}, rounded=True)

    @property
    def has_tensor(self) -> bool:
        return any(held is not None for held, _ in self.terms)


def _product(a: Powers, b: Powers) -> Powers:
    counts = dict(a)
    for value, power in b:
        counts[value] = counts.get(value, 0) + power
    return frozenset((value, power) for value, power in counts.items() if power)


class _Following:
    """Follows the values of one function in program order."""

    def __init__(self, module: ModuleOp, function: FuncOp) -> None:
        self.module = module
        self.block = function.body.block
        self.forms: dict[SSAValue, _Form] = {}
        self.products: dict[SSAValue, tuple[PlainLayer, SSAValue]] = {}

    def run(self) -> None:
        """Replace every product whose scales cancel."""
        if not any(isinstance(op, tensor.ConvertOp) for op in self.block.ops):
            return
        unused = unused_ops(self.block)
        for op in list(self.block.ops):
            if is_literal(op) or len(op.results) != 1 or not _is_numeric(op):
                continue
            form = self._visit(op)
            # A sum of numbers of a sample is a number by itself, which can be divided by.
            if form is not None and (form.has_tensor or len(form.terms) == 1):
                self.forms[op.results[0]] = form
                self._replace(op, form)
        erase_unused_except(self.block, unused)

    def _form(self, value: SSAValue) -> _Form:
        """What is known of a value; a known number, one a sample, or a tensor by itself."""
        if value in self.forms:
            return self.forms[value]
        known = literal_value(value)
        if known is not None:
            return _Form({(None, frozenset()): known.astype(np.float64)}, rounded=True)
        if _is_per_sample(value):
            return _Form({(None, frozenset({(value, 1)})): np.array(1.0)}, rounded=True)
        return _Form({(value, frozenset()): np.array(1.0)})

    def _visit(self, op: Operation) -> _Form | None:
        match op:
            case tensor.MulOp():
                nearest = self._nearest(op)
                if nearest is not None:
                    return nearest
                return self._scaled(op.lhs, self._form(op.rhs))
            case tensor.DivOp():
                inverse = self._form(op.rhs).inverse()
                return None if inverse is None else self._scaled(op.lhs, inverse)
            case tensor.AddOp() | tensor.SubOp():
                return self._sum(op)
            case tensor.RoundOp():
                return _Form(self._form(op.operand).terms, rounded=True)
            case tensor.ConvertOp():
                return self._converted(op)
            case tensor.WhereOp():
                return self._guarded(op)
            case _ if isinstance(op, _EXTREMES):
                form = self._form(op.operands[0])
                return form if form.has_tensor and form.rounded else None
            case _:
                return self._product(op) if is_layer(op) else None

    def _scaled(self, value: SSAValue, by: _Form) -> _Form | None:
        """A value times numbers, of which each sample has one or all samples the same."""
        form = self._form(value)
        if by.has_tensor:
            form, by = by, form
        varies = any(powers for _, powers in by.terms)
        if form.has_tensor and not (form.rounded or varies):
            return None
        return form.times(by)

    def _sum(self, op: tensor.AddOp | tensor.SubOp) -> _Form | None:
        """A sum with numbers of which each sample has one: a zero point."""
        left, right = self._form(op.lhs), self._form(op.rhs)
        if left.has_tensor and right.has_tensor:
            return None
        known = any(literal_value(v) is not None for v in op.operands)
        if known and any(form.has_tensor and not form.rounded for form in (left, right)):
            return None
        return left.plus(right, -1.0 if isinstance(op, tensor.SubOp) else 1.0)

    def _nearest(self, op: tensor.MulOp) -> _Form | None:
        """⌊|x| + 1/2⌋ · sign x."""
        for one, other in ((op.lhs.owner, op.rhs.owner), (op.rhs.owner, op.lhs.owner)):
            if not isinstance(one, tensor.FloorOp) or not isinstance(other, tensor.SignOp):
                continue
            added = one.operand.owner
            if not isinstance(added, tensor.AddOp):
                continue
            size, half = added.lhs.owner, literal_value(added.rhs)
            is_half = half is not None and bool((half == 0.5).all())
            if isinstance(size, tensor.AbsOp) and is_half and size.operand is other.operand:
                return _Form(self._form(other.operand).terms, rounded=True)
        return None

    def _converted(self, op: tensor.ConvertOp) -> _Form | None:
        form = self._form(op.operand)
        into_integers = not is_float(tensor_type(op.result))
        if into_integers and is_float(tensor_type(op.operand)) and not form.rounded:
            return None
        return form

    def _guarded(self, op: tensor.WhereOp) -> _Form | None:
        """A number, or 1 where it is 0."""
        test, one, value = op.operands
        asked = test.owner
        if not isinstance(asked, tensor.CompareOp) or asked.predicate.data != "eq":
            return None
        known, zero = literal_value(one), literal_value(asked.rhs)
        is_guard = known is not None and (known == 1).all() and zero is not None and not zero.any()
        return self._form(value) if is_guard and _is_per_sample(value) else None

    def _product(self, op: Operation) -> _Form | None:
        """A product of rounded activations by known integers: its sums are the tensor from here."""
        assert is_layer(op)
        if not isinstance(op, PlainLayer) or is_float(tensor_type(op.result)):
            return None
        form, weight = self._form(input_of(op)), literal_value(weight_of(op))
        if weight is None or len(form.terms) != 1 or not form.rounded:
            return None
        (((held, powers), number),) = form.terms.items()
        if held is None or number.size != 1 or not is_float(tensor_type(held)):
            return None
        if not isinstance(op, tensor.MatmulOp) and op.bias is not None:
            return None
        self.products[op.result] = op, held
        return _Form({(op.result, powers): number.reshape(())}, rounded=True)

    def _replace(self, op: Operation, form: _Form) -> None:
        """Compute a float value from a product of floats, where the scales of samples cancel."""
        if len(form.terms) != 1 or not is_float(tensor_type(op.results[0])):
            return
        (((held, powers), number),) = form.terms.items()
        if powers or held is None or held not in self.products:
            return
        product, source = self.products[held]
        values = literal_value(weight_of(product))
        assert values is not None
        weight = values.astype(np.float32)
        owner = weight_of(product).owner
        key = owner.key.data if isinstance(owner, tensor.ParameterOp) else "weight"
        known = literal(self.module, f"{key}.real", weight, TensorType(f32, weight.shape))
        scale = number.astype(np.float32)
        factor = literal(self.module, f"{key}.step", scale, TensorType(f32, scale.shape))
        floats = rebuilt(product, input=source, weight=known.result)
        scaled = tensor.MulOp(floats.results[0], factor.result)
        for new_op in (known, floats, factor, scaled):
            insert_before(op, new_op)
        (result,) = scaled.results
        del self.forms[op.results[0]]
        replace_results(op, [result])


def _is_numeric(op: Operation) -> bool:
    return all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))


def _is_per_sample(value: SSAValue) -> bool:
    """Whether a value holds one number a sample, or a row: what reductions over the rest give."""
    shape = tensor_type(value).get_shape()
    return not shape or (shape[-1] == 1 and all(size == 1 for size in shape[1:]))
