"""The pass `convert-arith-to-llvm`: arithmetic on scalars and on vectors of one dimension.

Not here: functions such as exp (`convert_math_to_llvm`), vectors as such
(`convert_vector_to_llvm`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    AnyDenseElement,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    UnrealizedConversionCastOp,
    VectorType,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from . import casts, division
from .half import extend_float, truncate_float
from .llvm_builder import LlvmBuilder
from .types import computed_in, converted, element, integers, is_half, lanes, vector, width
from .walk import Rule, Values, convert_ops

_HALF = 32
_Build = Callable[[LlvmBuilder, SSAValue, SSAValue], SSAValue]


@dataclass(frozen=True)
class ConvertArithToLLVMPass(ModulePass):
    """Lower `arith` to the `llvm` dialect.

    Every op, on integers, floats and `index` (as i64) and on vectors of one dimension. f16 and bf16
    are computed in f32 and rounded by bit arithmetic, so that nothing outside of the module is
    called; a bf16 is an i16 with its bits. What has no defined result ends no process: divisors
    that would trap are taken as 1, floats beyond an integer type give its nearest number.

        %n = arith.addi %i, %c1 : index
        %c = arith.cmpf olt, %a, %b : f32
        // becomes
        %n = llvm.add %i, %c1 : i64
        %c = llvm.fcmp "olt" %a, %b : f32

    Raises:
        UnsupportedError: an op on tensors, memrefs or vectors of several dimensions; all of them.
    """

    name = "convert-arith-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_ops(op, RULES, dialect="arith", refuse=_refuse)


def _refuse(op: Operation) -> str | None:
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseResourceAttr):
        return "its values are in a resource, not in the program"
    if isinstance(op, _CONVERSIONS):
        wide = max(width(converted(value.type)) for value in (*op.operands, *op.results))
        if wide > 64:
            return "integers of more than 64 bits do not become floats, nor floats such integers"
    return None


_CONVERSIONS = (arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp)


def constant(e: LlvmBuilder, op: arith.ConstantOp, _: Values) -> SSAValue:
    """`arith.constant`."""
    type = converted(op.result.type)
    return e.insert(llvm.ConstantOp(constant_value(op.value, type), type))


def constant_value(value: Attribute, type: Attribute) -> Attribute:
    """The value of an `arith.constant` as that of a constant of an `llvm` type."""
    if isinstance(value, DenseIntOrFPElementsAttr):
        dense = cast("DenseIntOrFPElementsAttr", value)
        if dense.type == type:
            return dense
        return DenseIntOrFPElementsAttr(cast("VectorType[AnyDenseElement]", type), dense.data)
    if isinstance(value, FloatAttr):
        number = cast("FloatAttr", value)
        if not isinstance(number.type, BFloat16Type):
            return number
        bits = int.from_bytes(number.type.pack([number.value.data]), "little", signed=True)
        return IntegerAttr(bits, cast("IntegerType", type))
    integer = cast("IntegerAttr", value)
    return IntegerAttr(integer.value.data, cast("IntegerType", type))


def _overflowing(kind: type[llvm.ArithmeticBinOpOverflow]) -> Rule:
    def rule(
        e: LlvmBuilder, op: arith.SignlessIntegerBinaryOperationWithOverflow, x: Values
    ) -> SSAValue:
        flags = [llvm.OverflowFlag(flag.value) for flag in op.overflow_flags.data]
        return e.insert(kind(x[0], x[1], overflow=llvm.OverflowAttr(flags or None)))

    return rule


def _binary(build: _Build) -> Rule:
    return lambda e, op, x: build(e, x[0], x[1])


def _intrinsic(name: str) -> Rule:
    return lambda e, op, x: e.overloaded(name, x[0], x[1])


def on_floats(e: LlvmBuilder, op: Operation, x: Values, build: _Build) -> SSAValue:
    """A function of two floats of the type of the result: f16 and bf16 in f32."""
    type = op.results[0].type
    if not is_half(type):
        return build(e, x[0], x[1])
    wide = [extend_float(e, value, type, computed_in(type)) for value in x]
    return truncate_float(e, build(e, wide[0], wide[1]), type)


def _float_binary(kind: type[llvm.AbstractFloatArithOp]) -> Rule:
    def rule(e: LlvmBuilder, op: arith.FloatingPointLikeBinaryOperation, x: Values) -> SSAValue:
        flags = llvm.FastMathAttr(op.fastmath.data or None)
        return on_floats(e, op, x, lambda e, a, b: e.insert(kind(a, b, flags)))

    return rule


def _float_intrinsic(name: str) -> Rule:
    return lambda e, op, x: on_floats(e, op, x, lambda e, a, b: e.overloaded(name, a, b))


def extreme_of_numbers(predicate: str) -> Rule:
    """`arith.minnumf` by `olt`, or `arith.maxnumf` by `ogt`, for processors without an instruction
    for it, where LLVM calls the C library."""

    def build(e: LlvmBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        extreme = e.select(e.fcmp(predicate, a, b), a, b)
        return e.select(e.fcmp("uno", b, b), a, extreme)

    return lambda e, op, x: on_floats(e, op, x, build)


def extreme_of_doubles(predicate: str, rule: Rule) -> Rule:
    """What a rule makes, of f64 `arith.minimumf` by `olt`, or `arith.maximumf` by `ogt`; of zeros,
    any. LLVM 22 stops with a failed assertion on 32-bit ARM, where it has none of them.
    """

    def build(e: LlvmBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        first = e.or_(e.fcmp(predicate, a, b), e.fcmp("uno", a, a))
        return e.select(first, a, b)

    return lambda e, op, x: build(e, *x) if element(x[0].type) == f64 else rule(e, op, x)


def lane_by_lane(rule: Rule) -> Rule:
    """What a rule makes, of three numbers of 64 bits one by one.

    LLVM 22 stops with a failed assertion on 64-bit ARM where it is to cut such a vector to bytes,
    so that numbers are bounded and cut apart.
    """

    def build(e: LlvmBuilder, op: Operation, x: Values) -> SSAValue | Values:
        kind = converted(op.results[0].type)
        if lanes(kind) != 3 or width(x[0].type) != 64:
            return rule(e, op, x)
        single = type(op).create(
            operands=[UnrealizedConversionCastOp.get([], [element(v.type)]).results[0] for v in x],
            result_types=[element(op.results[0].type)],
        )
        result = e.insert(llvm.UndefOp(kind))
        for place in range(3):
            found = rule(e, single, [e.lane(value, place) for value in x])
            assert isinstance(found, SSAValue)
            result = e.insert(llvm.InsertElementOp(result, found, e.constant(place, i32)))
        return result

    return build


_EXTREMES = {128: ("sse", "sse2"), 256: ("avx", "avx"), 512: ("avx512", "avx512")}
"""By the bits of a register of x86, what its instructions for f32 and f64 belong to."""


def extreme_of_registers(name: str, features: Collection[str]) -> Rule:
    """`arith.maximumf` or `arith.minimumf` by `maxps` and the like, which give their second operand
    where either is NaN; of zeros, any. Whole registers are compared in this way, others as LLVM
    does it.
    """
    intrinsic = {"maximum": "max", "minimum": "min"}[name]

    def build(e: LlvmBuilder, so_far: SSAValue, x: SSAValue) -> SSAValue:
        size, kind = (lanes(x.type) or 0) * width(x.type), element(x.type)
        known = any(isinstance(v.owner, llvm.ConstantOp) for v in (so_far, x))
        if known or size not in _EXTREMES or (size == 512 and "avx512f" not in features):
            return e.overloaded(name, so_far, x)
        set_, letter = _EXTREMES[size][kind == f64], "d" if kind == f64 else "s"
        mode = [e.constant(4, i32)] if size == 512 else []
        called = f"llvm.x86.{set_}.{intrinsic}.p{letter}" + (f".{size}" if size > 128 else "")
        larger = e.intrinsic(called, [x, so_far, *mode], x.type)
        return e.select(e.fcmp("uno", x, x), x, larger)

    return lambda e, op, x: on_floats(e, op, x, build)


def negate(e: LlvmBuilder, op: arith.NegfOp, x: Values) -> SSAValue:
    """`arith.negf`: turns the sign over, of NaN too."""
    type = op.result.type
    if not is_half(type):
        return e.insert(llvm.FNegOp(x[0], llvm.FastMathAttr(op.fastmath.data or None)))
    bits = e.xor(e.bits(x[0], integers(x[0].type, 16)), 0x8000)
    return e.bits(bits, x[0].type)


def compare_integers(e: LlvmBuilder, op: arith.CmpiOp, x: Values) -> SSAValue:
    """`arith.cmpi`."""
    return e.icmp(arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data], x[0], x[1])


def compare_floats(e: LlvmBuilder, op: arith.CmpfOp, x: Values) -> SSAValue:
    """`arith.cmpf`."""
    type = op.lhs.type
    a, b = (extend_float(e, value, type, computed_in(type)) for value in x)
    return e.fcmp(arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data], a, b)


def add_with_carry(e: LlvmBuilder, op: arith.AddUIExtendedOp, x: Values) -> Values:
    """`arith.addui_extended`."""
    total = e.add(x[0], x[1])
    return [total, e.icmp("ult", total, x[0])]


def multiply_wide(e: LlvmBuilder, op: arith.MulExtendedBase, x: Values) -> Values:
    """`arith.mului_extended`, `arith.mulsi_extended`: in integers of twice the width."""
    unsigned = isinstance(op, arith.MulUIExtendedOp)
    type, bits = x[0].type, width(x[0].type)
    twice = integers(type, 2 * bits)
    product = e.mul(*(e.resize(value, twice, unsigned=unsigned) for value in x))
    return [e.resize(part, type) for part in (product, e.lshr(product, bits))]


def multiply_halves(e: LlvmBuilder, op: arith.MulSIExtendedOp, x: Values) -> Values:
    """`arith.mulsi_extended` where an instruction multiplies every second number of 32 bits.

    Those in between are moved there, and back.
    """
    type, count = x[0].type, lanes(x[0].type)
    if count is None or count % 2 or width(type) != _HALF:
        return multiply_wide(e, op, x)
    moved = [e.shuffle(value, value, [n | 1 for n in range(count)]) for value in x]
    # LLVM sees that a factor has 32 bits where it was shifted both ways, even outside of the loop.
    even, odd = (
        e.mul(*(e.ashr(e.shl(e.bits(v, vector(i64, count // 2)), _HALF), _HALF) for v in values))
        for values in (x, moved)
    )
    upper = e.or_(e.lshr(even, _HALF), e.and_(odd, -(1 << _HALF)))
    return [e.mul(x[0], x[1]), e.bits(upper, type)]


def _resize(*, unsigned: bool) -> Rule:
    def rule(e: LlvmBuilder, op: Operation, x: Values) -> SSAValue:
        return e.resize(x[0], converted(op.results[0].type), unsigned=unsigned)

    return rule


def extend(e: LlvmBuilder, op: arith.ExtFOp, x: Values) -> SSAValue:
    """`arith.extf`."""
    return extend_float(e, x[0], op.input.type, op.result.type)


def truncate(e: LlvmBuilder, op: arith.TruncFOp, x: Values) -> SSAValue:
    """`arith.truncf`."""
    return truncate_float(e, x[0], op.result.type)


def bitcast(e: LlvmBuilder, op: arith.BitcastOp, x: Values) -> SSAValue:
    """`arith.bitcast`."""
    return e.bits(x[0], converted(op.result.type))


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: constant,
    arith.AddiOp: _overflowing(llvm.AddOp),
    arith.SubiOp: _overflowing(llvm.SubOp),
    arith.MuliOp: _overflowing(llvm.MulOp),
    arith.ShLIOp: _overflowing(llvm.ShlOp),
    arith.AddUIExtendedOp: add_with_carry,
    arith.MulUIExtendedOp: multiply_wide,
    arith.MulSIExtendedOp: multiply_wide,
    arith.DivSIOp: _binary(division.divide),
    arith.DivUIOp: _binary(division.divide_unsigned),
    arith.FloorDivSIOp: _binary(division.divide_down),
    arith.CeilDivSIOp: _binary(division.divide_up),
    arith.CeilDivUIOp: _binary(division.divide_up_unsigned),
    arith.RemSIOp: _binary(division.remainder),
    arith.RemUIOp: _binary(division.remainder_unsigned),
    arith.MinSIOp: _intrinsic("smin"),
    arith.MaxSIOp: _intrinsic("smax"),
    arith.MinUIOp: _intrinsic("umin"),
    arith.MaxUIOp: _intrinsic("umax"),
    arith.AndIOp: _binary(lambda e, x, y: e.and_(x, y)),
    arith.OrIOp: _binary(lambda e, x, y: e.or_(x, y)),
    arith.XOrIOp: _binary(lambda e, x, y: e.xor(x, y)),
    arith.ShRSIOp: _binary(lambda e, x, y: e.ashr(x, y)),
    arith.ShRUIOp: _binary(lambda e, x, y: e.lshr(x, y)),
    arith.AddfOp: _float_binary(llvm.FAddOp),
    arith.SubfOp: _float_binary(llvm.FSubOp),
    arith.MulfOp: _float_binary(llvm.FMulOp),
    arith.DivfOp: _float_binary(llvm.FDivOp),
    arith.MaximumfOp: _float_intrinsic("maximum"),
    arith.MinimumfOp: _float_intrinsic("minimum"),
    arith.MaxnumfOp: _float_intrinsic("maxnum"),
    arith.MinnumfOp: _float_intrinsic("minnum"),
    arith.NegfOp: negate,
    arith.CmpiOp: compare_integers,
    arith.CmpfOp: compare_floats,
    arith.SelectOp: lambda e, op, x: e.select(x[0], x[1], x[2]),
    arith.ExtSIOp: _resize(unsigned=False),
    arith.ExtUIOp: _resize(unsigned=True),
    arith.TruncIOp: _resize(unsigned=True),
    arith.IndexCastOp: _resize(unsigned=False),
    arith.ExtFOp: extend,
    arith.TruncFOp: truncate,
    arith.BitcastOp: bitcast,
    arith.SIToFPOp: lambda e, op, x: casts.from_signed(e, x[0], op.result.type),
    arith.UIToFPOp: lambda e, op, x: casts.from_unsigned(e, x[0], op.result.type),
    arith.FPToSIOp: lambda e, op, x: casts.to_integer(
        e, x[0], op.input.type, converted(op.result.type), unsigned=False
    ),
    arith.FPToUIOp: lambda e, op, x: casts.to_integer(
        e, x[0], op.input.type, converted(op.result.type), unsigned=True
    ),
}
"""For each op the function that builds what takes its place."""
