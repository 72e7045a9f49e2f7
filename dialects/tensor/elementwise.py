"""Element-wise arithmetic of the `tensor` dialect, with NumPy broadcasting.

Operands of one op share an element type; `tensor.convert` changes it. Activations stand in
`activation`.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    Float64Type,
    FloatAttr,
    StringAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative

from ...ir.definition import irdl_op_definition
from ...ir.errors import ParameterError
from ..inference import InferredOp, OneOperandOp, Value, fail, tensor_type
from ..meaning import Array, mapped
from ..shapes import (
    AnyTensor,
    broadcast,
    check_element,
    is_float,
    is_integer,
    with_element,
    with_shape,
)
from ..traits import (
    Affine,
    BitExact,
    CanonicalizableOp,
    Elementwise,
    HasSteps,
    Homogeneous,
    Idempotent,
    Increasing,
    Involution,
    Rounds,
)

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""By the predicate of `tensor.compare`."""


class UnaryOp(OneOperandOp, CanonicalizableOp, ABC):
    """y = f(x) for each element; shape and element type stay."""

    FLOAT_ONLY: ClassVar[bool] = False
    ON_TRUTH_VALUES: ClassVar[bool] = False

    traits = traits_def(Elementwise())

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        if self.FLOAT_ONLY and not is_float(type):
            fail(f"expects floating-point elements, got {type}")
        if type.element_type == i1 and not self.ON_TRUTH_VALUES:
            fail(f"expects numbers, got {type}")
        return [type]


class FloatUnaryOp(UnaryOp, ABC):
    """A function of floats, which is rounded."""

    FLOAT_ONLY: ClassVar[bool] = True

    traits = traits_def(Rounds())


class BinaryOp(InferredOp, CanonicalizableOp, ABC):
    """z = f(x, y) for each element, broadcast by NumPy's rules; one element type."""

    NUMBERS_ONLY: ClassVar[bool] = False

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Elementwise())

    def infer(self) -> Sequence[Attribute]:
        lhs, rhs = tensor_type(self.lhs), tensor_type(self.rhs)
        if lhs.element_type != rhs.element_type:
            fail(f"expects equal element types, got {lhs} and {rhs}")
        if self.NUMBERS_ONLY:
            require_number(lhs)
        return [with_shape(lhs, broadcast(lhs.get_shape(), rhs.get_shape()))]


class FloatBinaryOp(BinaryOp, ABC):
    """A `BinaryOp` on floating-point elements."""

    traits = traits_def(Rounds())

    def infer(self) -> Sequence[Attribute]:
        if not is_float(tensor_type(self.lhs)):
            fail(f"expects floating-point elements, got {self.lhs.type}")
        return super().infer()


class ArithmeticOp(BinaryOp, ABC):
    """A `BinaryOp` on floats and integers: no truth values, no trits."""

    NUMBERS_ONLY: ClassVar[bool] = True


def require_number(type: AnyTensor) -> None:
    """Refuse elements that are neither floats nor integers of more than one bit."""
    if not (is_float(type) or is_integer(type)):
        fail(f"expects floats or integers, got {type}")


def quotient(x: Array, y: Array) -> Array:
    """x / y; integers truncate toward zero."""
    if x.dtype.kind == "f":
        return np.true_divide(x, y)
    floored = np.floor_divide(x, y)
    inexact = (floored * y != x) & (y != 0)
    return floored + (inexact & ((x < 0) != (y < 0))).astype(floored.dtype)


def saturate(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats to integers: truncated toward zero, saturated, NaN to 0."""
    info = np.iinfo(dtype)
    truncated = np.trunc(x.astype(np.float64))
    end = math.ldexp(1.0, info.bits - (info.kind == "i"))  # max + 1, exact in double precision
    inside = (truncated >= info.min) & (truncated < end)
    result = np.where(inside, truncated, 0).astype(dtype)
    result = np.where(truncated >= end, info.max, result)
    return np.where(truncated < info.min, info.min, result).astype(dtype)


@irdl_op_definition
class AddOp(ArithmeticOp):
    """z = x + y. Integers wrap around.

    %z = tensor.add %x, %y : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    """

    name = "tensor.add"
    compute = mapped(np.add)
    traits = traits_def(Commutative(), Homogeneous(), Rounds(), Affine())


@irdl_op_definition
class SubOp(ArithmeticOp):
    """z = x - y. Integers wrap around.

    %z = tensor.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.sub"
    compute = mapped(np.subtract)
    traits = traits_def(Homogeneous(), Rounds(), Affine())


@irdl_op_definition
class MulOp(ArithmeticOp):
    """z = x·y. Integers wrap around.

    %z = tensor.mul %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.mul"
    compute = mapped(np.multiply)
    traits = traits_def(Commutative(), Rounds(), Affine())


@irdl_op_definition
class DivOp(ArithmeticOp):
    """z = x / y. Integers truncate toward zero; an integer by 0 gives 0.

    %z = tensor.div %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.div"
    compute = mapped(quotient)
    traits = traits_def(Rounds(), Affine())


@irdl_op_definition
class ModOp(ArithmeticOp):
    """z = x - floor(x / y)·y: the remainder with the sign of y (Python's `%`).

    %z = tensor.mod %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    """

    name = "tensor.mod"
    compute = mapped(np.mod)
    traits = traits_def(HasSteps())


@irdl_op_definition
class PowOp(FloatBinaryOp):
    """z = x^y on floating-point elements.

    %z = tensor.pow %x, %y : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    """

    name = "tensor.pow"
    compute = mapped(np.power)
    traits = traits_def(Rounds())


@irdl_op_definition
class MaximumOp(ArithmeticOp):
    """z = max(x, y); NaN where either is NaN.

    %z = tensor.maximum %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.maximum"
    compute = mapped(np.maximum)
    traits = traits_def(Commutative(), Increasing())


@irdl_op_definition
class MinimumOp(ArithmeticOp):
    """z = min(x, y); NaN where either is NaN.

    %z = tensor.minimum %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.minimum"
    compute = mapped(np.minimum)
    traits = traits_def(Commutative(), Increasing())


@irdl_op_definition
class CompareOp(BinaryOp):
    """z = x ⋈ y as `i1`, ⋈ one of eq, ne, lt, le, gt, ge.

    %z = tensor.compare %x, %y {predicate = "lt"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
    """

    name = "tensor.compare"
    traits = traits_def(BitExact(), HasSteps())

    predicate = prop_def(StringAttr)

    def infer(self) -> Sequence[Attribute]:
        if self.predicate.data not in COMPARISONS:
            known = ", ".join(COMPARISONS)
            fail(f"expects predicate one of {known}, got '{self.predicate.data}'")
        (type,) = super().infer()
        assert isinstance(type, TensorType)
        return [with_element(cast(AnyTensor, type), i1)]

    def compute(self, x: Array, y: Array) -> Array:
        return COMPARISONS[self.predicate.data](x, y)


@irdl_op_definition
class WhereOp(InferredOp):
    """z = x where the condition holds, else y; all three broadcast.

    %z = tensor.where %c, %x, %y
         : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.where"
    compute = mapped(np.where)

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Elementwise())

    def infer(self) -> Sequence[Attribute]:
        condition = tensor_type(self.condition)
        lhs, rhs = tensor_type(self.lhs), tensor_type(self.rhs)
        if condition.element_type != i1:
            fail(f"expects an i1 condition, got {condition}")
        if lhs.element_type != rhs.element_type:
            fail(f"expects equal element types, got {lhs} and {rhs}")
        shape = broadcast(condition.get_shape(), lhs.get_shape(), rhs.get_shape())
        return [with_shape(lhs, shape)]


_TRIT = "ternary.trit"
"""The element type of the dialect `ternary`, which loads this one."""


@irdl_op_definition
class ConvertOp(InferredOp):
    """Change the element type, keep the value where it fits.

    Float to integer truncates toward zero and saturates (NaN gives 0); integer to narrower integer
    wraps around; anything to `i1` is x ≠ 0; trits to a number keep their value. Numbers to trits
    must be -1, 0 or 1: others are an error of the interpreter, and nothing that engines look for.

        %y = tensor.convert %x : (tensor<4xi32>) -> tensor<4xf32>
    """

    name = "tensor.convert"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Elementwise(), BitExact(), HasSteps())

    def __init__(self, operand: Value, element: Attribute) -> None:
        from xdsl.ir import SSAValue

        type = tensor_type(SSAValue.get(operand))
        IRDLOperation.__init__(self, operands=[operand], result_types=[with_element(type, element)])

    def infer(self) -> Sequence[Attribute]:
        target = tensor_type(self.result)
        if target.element_type.name != _TRIT:
            check_element(target)
        return [with_element(tensor_type(self.operand), target.element_type)]

    def compute(self, x: Array) -> Array:
        from ..elements import numpy_dtype  # it loads the types of other dialects

        element = tensor_type(self.result).element_type
        dtype = numpy_dtype(element)
        if element.name == _TRIT and ((x < -1) | (x > 1)).any():
            raise ParameterError(f"'{self.name}' expects -1, 0 and 1, got {x.min()} to {x.max()}")
        if dtype == np.bool_:
            return x != 0
        if dtype.kind in "iu":
            return saturate(x, dtype) if x.dtype.kind == "f" else x.astype(dtype)
        # Floats are rounded to the result's type by the caller.
        return x if x.dtype.kind == "f" else x.astype(dtype)


@irdl_op_definition
class NegOp(UnaryOp):
    """y = -x.

    %y = tensor.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.neg"
    compute = mapped(np.negative)
    traits = traits_def(Involution(), Homogeneous(), Affine())


@irdl_op_definition
class AbsOp(UnaryOp):
    """y = |x|.

    %y = tensor.abs %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.abs"
    compute = mapped(np.abs)
    traits = traits_def(Idempotent())


@irdl_op_definition
class SignOp(UnaryOp):
    """y = -1, 0 or 1, the sign of x; the element type stays.

    %y = tensor.sign %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.sign"
    compute = mapped(np.sign)
    traits = traits_def(Idempotent(), HasSteps(), Increasing())


@irdl_op_definition
class ExpOp(FloatUnaryOp):
    """y = e^x.

    %y = tensor.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.exp"
    compute = mapped(np.exp)
    traits = traits_def(Increasing())


@irdl_op_definition
class LogOp(FloatUnaryOp):
    """y = ln x.

    %y = tensor.log %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.log"
    compute = mapped(np.log)
    traits = traits_def(Increasing())


@irdl_op_definition
class SqrtOp(FloatUnaryOp):
    """y = √x.

    %y = tensor.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.sqrt"
    compute = mapped(np.sqrt)
    traits = traits_def(Increasing())


@irdl_op_definition
class RoundOp(UnaryOp):
    """y = x rounded to the nearest integer, halves to even.

    %y = tensor.round %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.round"
    compute = mapped(np.rint)
    FLOAT_ONLY: ClassVar[bool] = True
    traits = traits_def(Idempotent(), HasSteps(), Increasing())


@irdl_op_definition
class FloorOp(UnaryOp):
    """y = ⌊x⌋.

    %y = tensor.floor %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.floor"
    compute = mapped(np.floor)
    FLOAT_ONLY: ClassVar[bool] = True
    traits = traits_def(Idempotent(), HasSteps(), Increasing())


def require_representable(type: AnyTensor, value: float, what: str) -> None:
    """Refuse NaN, and for integers a value that is not whole or is infinite."""
    if math.isnan(value) or not (is_float(type) or value.is_integer()):
        fail(f"expects a {what} that is an element of {type}, got {value}")


@irdl_op_definition
class ClampOp(UnaryOp):
    """y = min(max(x, min), max); an absent bound does not limit.

    Integers take whole bounds.

        %y = tensor.clamp %x {min = 0.0 : f64, max = 6.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.clamp"
    traits = traits_def(Increasing())

    min = opt_prop_def(FloatAttr[Float64Type])
    max = opt_prop_def(FloatAttr[Float64Type])

    def infer(self) -> Sequence[Attribute]:
        low, high = self.min, self.max
        if low is not None and high is not None and low.value.data > high.value.data:
            fail(f"expects min <= max, got {low.value.data} > {high.value.data}")
        type = tensor_type(self.operand)
        require_number(type)
        for bound in (low, high):
            if bound is not None:
                require_representable(type, bound.value.data, "bound")
        return super().infer()

    def compute(self, x: Array) -> Array:
        for limit, bound in ((np.maximum, self.min), (np.minimum, self.max)):
            if bound is not None:
                value = np.asarray(bound.value.data)
                whole = x.dtype.kind != "f"
                x = limit(x, saturate(value, x.dtype) if whole else value.astype(x.dtype))
        return x
