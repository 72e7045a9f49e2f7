"""Making, packing and unpacking of trits: parameters, constants, `ternarize`, `pack`, `unpack`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    f32,
    f64,
    i8,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from ...ir.arrays import Array
from ...ir.definition import irdl_op_definition
from ...ir.trits import TRITS_OF_BYTES, pack_trits, unpack_trits
from ..inference import InferredOp, OneOperandOp, Value, fail, tensor_type
from ..shapes import (
    AnyTensor,
    Shape,
    axis_index,
    element_count,
    integer,
    is_float,
    merge_dim,
    with_element,
)
from ..tensor.formula import Formula
from ..tensor.interpret_linear import along_channels
from ..tensor.reduction import ReduceMeanOp, ReduceSumOp
from ..tensor.shape import GatherRowsOp, PadToOp, ReshapeToOp
from ..tensor.storage import INLINE_LIMIT, verify_parameter
from ..traits import BitExact, HasSteps
from .types import TritType, require_trit, trit, trit_tensor

RULES = ("fixed", "twn", "absmean")
SCALES = ("none", "tensor", "channel")
MODES = ("deterministic", "stochastic")

ui8 = IntegerType(8, Signedness.UNSIGNED)


@irdl_op_definition
class ParameterOp(IRDLOperation):
    """A named trit tensor of the module's parameter store, packed there as uint8 (see `ir.trits`).

    %w = ternary.parameter "fc1.weight" : tensor<784x10x!ternary.trit>
    """

    name = "ternary.parameter"

    key = prop_def(StringAttr)
    result = result_def(TensorType[TritType])

    traits = traits_def(Pure(), BitExact())
    assembly_format = "$key attr-dict `:` type($result)"

    def __init__(self, key: str, shape: Sequence[int]) -> None:
        super().__init__(result_types=[trit_tensor(*shape)], properties={"key": StringAttr(key)})

    def verify_(self) -> None:
        verify_parameter(self.name, self.key.data, self.result)


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A small trit tensor in the text, at most 64 elements, row-major.

    %w = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>
    """

    name = "ternary.constant"

    value = prop_def(DenseArrayBase.constr(i8))
    result = result_def(TensorType[TritType])

    traits = traits_def(Pure(), ConstantLike(), BitExact())
    assembly_format = "$value attr-dict `:` type($result)"

    def __init__(self, values: Sequence[int], shape: Sequence[int]) -> None:
        super().__init__(
            result_types=[trit_tensor(*shape)],
            properties={"value": DenseArrayBase.from_list(i8, values)},
        )

    def verify_(self) -> None:
        values = self.value.get_values()
        count = element_count(tensor_type(self.result).get_shape())
        if count is None or len(values) != count or count > INLINE_LIMIT:
            raise VerifyException(
                f"'{self.name}' holds {len(values)} trits for {self.result.type}, "
                f"expected all of them and at most {INLINE_LIMIT}"
            )
        outside = [v for v in values if v not in (-1, 0, 1)]
        if outside:
            raise VerifyException(f"'{self.name}' expects trits in {{-1, 0, 1}}, got {outside[0]}")


@irdl_op_definition
class TernarizeOp(InferredOp):
    """Turn floats into trits and a scale: |x| ≤ Δ gives 0, else the sign of x.

    `rule`: `fixed` takes Δ = `threshold`; `twn` Δ = 0.7·mean|x| (Li & Liu 2016, eq. 6); `absmean`
    gives clip(round(x / mean|x|), -1, 1) (Ma et al. 2024, BitNet b1.58, eq. 1-3).
    `scale`: `none` gives no second result; `tensor` one value, `channel` one for each position on
    `axis`: the mean of |x| over the kept elements, which is their least-squares scale (0 where none
    is kept). With `channel`, Δ too is taken for each channel. Means are taken in f64 and rounded to
    x's type, so that engines that sum in another order agree.
    `mode` `stochastic`: the sign of x where u·m < |x|, else 0, with m = max|x| over the tensor and
    u drawn uniformly from [0, 1) by NumPy's Philox generator with `seed`; the rule is not used.

        %t, %s = ternary.ternarize %x {rule = "twn", scale = "channel", axis = 1 : i64}
                 : (tensor<784x10xf32>) -> (tensor<784x10x!ternary.trit>, tensor<10xf32>)
    """

    name = "ternary.ternarize"

    operand = operand_def(TensorType)
    rule = prop_def(StringAttr, default_value=StringAttr("twn"))
    threshold = opt_prop_def(FloatAttr[Float64Type])
    scaling = prop_def(StringAttr, default_value=StringAttr("none"), prop_name="scale")
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(-1))
    mode = prop_def(StringAttr, default_value=StringAttr("deterministic"))
    seed = opt_prop_def(IntegerAttr[IntegerType])
    trits = result_def(TensorType[TritType])
    scale = opt_result_def(TensorType)

    traits = traits_def(HasSteps())

    def __init__(
        self,
        operand: Value,
        *,
        rule: str = "twn",
        threshold: float | None = None,
        scale: str = "none",
        axis: int = -1,
        mode: str = "deterministic",
        seed: int | None = None,
    ) -> None:
        self.build_inferred(
            [operand],
            {
                "rule": StringAttr(rule),
                "threshold": None if threshold is None else FloatAttr(threshold, f64),
                "scale": StringAttr(scale),
                "axis": integer(axis),
                "mode": StringAttr(mode),
                "seed": None if seed is None else integer(seed),
            },
            results=[1, int(scale != "none")],
        )

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        if not is_float(type):
            fail(f"expects floating-point elements, got {type}")
        for what, value, allowed in (
            ("rule", self.rule.data, RULES),
            ("scale", self.scaling.data, SCALES),
            ("mode", self.mode.data, MODES),
        ):
            if value not in allowed:
                fail(f"expects {what} one of {', '.join(allowed)}, got '{value}'")
        if (self.rule.data == "fixed") != (self.threshold is not None):
            fail("expects a threshold with the rule 'fixed', and only there")
        if self.threshold is not None and not self.threshold.value.data >= 0:
            fail(f"expects a threshold of at least 0, got {self.threshold.value.data}")
        if (self.mode.data == "stochastic") != (self.seed is not None):
            fail("expects a seed with the mode 'stochastic', and only there")
        if self.seed is not None and self.seed.value.data < 0:
            fail(f"expects a seed of at least 0, got {self.seed.value.data}")
        trits = with_element(type, trit)
        if self.scaling.data == "none":
            return [trits]
        if self.scaling.data == "tensor":
            return [trits, TensorType(type.element_type, [])]
        size = type.get_shape()[axis_index(self.axis.value.data, type.get_num_dims())]
        return [trits, TensorType(type.element_type, [size])]

    def compute(self, x: Array) -> tuple[Array, ...]:
        """Means are taken in f64 and rounded to the type that
        x is computed in: f32 for f16 and bf16."""
        channel = self.axis.value.data % x.ndim if self.scaling.data == "channel" else None
        axes = tuple(a for a in range(x.ndim) if a != channel)
        magnitude = np.abs(x).astype(np.float64)

        if self.seed is not None:
            largest = magnitude.max(initial=0.0)
            draws = np.random.Generator(np.random.Philox(self.seed.value.data)).random(x.shape)
            nonzero = draws * largest < magnitude
            trits = np.where(nonzero, np.sign(x), 0).astype(np.int8)
        elif self.rule.data == "absmean":
            mean = _mean(magnitude, axes).astype(x.dtype)
            steps = np.rint(np.divide(x, mean, out=np.zeros_like(x), where=mean > 0))
            trits = np.clip(steps, -1, 1).astype(np.int8)
        else:
            if self.threshold is not None:
                threshold = x.dtype.type(self.threshold.value.data)
            else:
                threshold = (0.7 * _mean(magnitude, axes)).astype(x.dtype)
            trits = (x > threshold).astype(np.int8) - (x < -threshold)

        if self.scale is None:
            return (trits,)
        nonzero = trits != 0
        count = nonzero.sum(axis=axes)
        total = np.where(nonzero, magnitude, 0).sum(axis=axes)
        return trits, (total / np.maximum(count, 1)).astype(x.dtype)

    def decompose(self, x: Formula) -> tuple[Formula, ...] | None:
        """The formula of the op; none for random trits."""
        if self.seed is not None:
            return None
        channel = self.axis.value.data % x.rank if self.scaling.data == "channel" else None
        axes = [axis for axis in range(x.rank) if axis != channel]
        fixed = self.threshold
        if fixed is None:
            wide = abs(x).convert(f64)
            mean = wide.of(ReduceMeanOp, axes=axes, keepdims=True) if axes else wide
            bound = (mean * (0.7 if self.rule.data == "twn" else 1)).convert(x.element)
        else:
            bound = x.number(fixed.value.data)
        if self.rule.data == "absmean":
            trits = (bound > 0).choose(round(x / bound).maximum(-1).minimum(1), 0)
        else:
            one = Formula(x.writer, x.writer.number(1, i8))
            trits = (x > bound).choose(one, (x < -bound).choose(one.number(-1), 0))
        trits = trits.convert(trit)
        if self.scale is None:
            return (trits,)
        kept = trits.convert(i8).compare("ne", 0)
        total, count = abs(kept.choose(x, 0)).convert(f64), kept.convert(f64)
        if axes:
            total, count = (part.of(ReduceSumOp, axes=axes) for part in (total, count))
        return trits, total / count.maximum(1)


@irdl_op_definition
class PackOp(OneOperandOp):
    """Trits to bytes, four to a byte, row-major (see `ir.trits`).

    %b = ternary.pack %t : (tensor<784x10x!ternary.trit>) -> tensor<1960xui8>
    """

    name = "ternary.pack"

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        require_trit(type, "operand")
        return [TensorType(ui8, [_packed(type.get_shape())])]

    def compute(self, trits: Array) -> Array:
        return pack_trits(trits)

    def decompose(self, trits: Formula) -> Formula:
        """The sum of code·4^i over each four trits."""
        count = math.prod(tensor_type(self.operand).get_shape())
        flat = trits.convert(i32).of(ReshapeToOp, shape=[count])
        quads = flat.of(PadToOp, low=[0], high=[-count % 4]).of(ReshapeToOp, shape=[-1, 4])
        codes = (quads < 0).choose(quads.number(2), quads)
        return (codes * codes.array(np.array([1, 4, 16, 64]))).of(ReduceSumOp, axes=[1])


def _packed(shape: Shape) -> int:
    count = element_count(shape)
    if count is None:
        fail("expects a static shape")
    return -(-count // 4)


@irdl_op_definition
class UnpackOp(InferredOp):
    """Bytes to trits of the result's shape; the reserved code is an error at run time.

    %t = ternary.unpack %b : (tensor<1960xui8>) -> tensor<784x10x!ternary.trit>
    """

    name = "ternary.unpack"

    operand = operand_def(TensorType)
    result = result_def(TensorType[TritType])

    def __init__(self, operand: Value, shape: Sequence[int]) -> None:
        IRDLOperation.__init__(self, operands=[operand], result_types=[trit_tensor(*shape)])

    def infer(self) -> Sequence[Attribute]:
        bytes_type, result = tensor_type(self.operand), tensor_type(self.result)
        if bytes_type.element_type != ui8 or bytes_type.get_num_dims() != 1:
            fail(f"expects a vector of ui8, got {bytes_type}")
        merge_dim(bytes_type.get_shape()[0], _packed(result.get_shape()), "byte counts")
        return [result]

    def compute(self, packed: Array) -> Array:
        return unpack_trits(packed, tensor_type(self.result).get_shape())

    def decompose(self, packed: Formula) -> Formula:
        """Four trits for each byte; the reserved code, which engines cannot refuse, gives 0."""
        writer, shape = packed.writer, tensor_type(self.result).get_shape()
        table = Formula(writer, writer.numbers(TRITS_OF_BYTES, i8))
        quads = table.of(GatherRowsOp, packed.convert(i32))
        flat = quads.of(ReshapeToOp, shape=[-1]).cut(0, 0, math.prod(shape))
        return flat.of(ReshapeToOp, shape=shape)


@irdl_op_definition
class DequantizeOp(InferredOp):
    """x = scale·t: trits to floats of the scale's type, f32 without a scale.

    The scale is a scalar or one value for each position on `axis`.

        %x = ternary.dequantize %t, %s {axis = 1 : i64}
             : (tensor<784x10x!ternary.trit>, tensor<10xf32>) -> tensor<784x10xf32>
    """

    name = "ternary.dequantize"

    operand = operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(-1))
    result = result_def(TensorType)

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        require_trit(type, "operand")
        if self.scale is None:
            return [with_element(type, f32)]
        scale = tensor_type(self.scale)
        check_scale(type, scale, self.axis.value.data)
        return [with_element(type, scale.element_type)]

    def compute(self, trits: Array, *scale: Array) -> Array:
        if not scale:
            return trits.astype(np.float32)
        factor = along_channels(scale[0], trits.ndim, self.axis.value.data)
        return trits.astype(factor.dtype) * factor


def check_scale(type: AnyTensor, scale: AnyTensor, axis: int) -> None:
    """Refuse a scale that is neither a float scalar nor one float a channel."""
    if not is_float(scale) or scale.get_num_dims() > 1:
        fail(f"expects a scale of floats, scalar or vector, got {scale}")
    if scale.get_shape():
        size = type.get_shape()[axis_index(axis, type.get_num_dims())]
        merge_dim(size, scale.get_shape()[0], "channels and scale elements")


def _mean(magnitude: Array, axes: tuple[int, ...]) -> Array:
    total = magnitude.sum(axis=axes, keepdims=True)
    count = magnitude.size // max(total.size, 1)
    return total / max(count, 1)
