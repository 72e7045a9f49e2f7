"""The pass `convert-vector-to-llvm`: vectors of one dimension as such.

Not here: arithmetic on them (`convert_arith_to_llvm`), loads and stores of memrefs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import llvm, math, vector
from xdsl.dialects.builtin import AnyFloat, ModuleOp, VectorType, i64
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from .half import extend_float, truncate_float
from .llvm_builder import LlvmBuilder
from .types import computed_in, converted, element, integers, lanes, suffix
from .walk import Rule, Values, convert_ops


@dataclass(frozen=True)
class ConvertVectorToLLVMPass(ModulePass):
    """Lower `vector` to the `llvm` dialect.

    Broadcasts, shuffles, elements put in and taken out at places known or not, masks, reductions
    and bit casts of vectors of one dimension. A sum of floats is taken in order, or by halves where
    `fastmath<reassoc>` allows it. `vector.fma` becomes `math.fma`, for `convert-math-to-llvm`.

        %s = vector.reduction <add>, %v : vector<8xi32> into i32
        // becomes
        %s = llvm.call_intrinsic "llvm.vector.reduce.add.v8i32"(%v) : (vector<8xi32>) -> i32

    Raises:
        UnsupportedError: loads, stores and transfers of memrefs and tensors, and vectors of several
            dimensions; all of them.
    """

    name = "convert-vector-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_ops(op, RULES, dialect="vector", refuse=_refuse)


def _refuse(op: Operation) -> str | None:
    if isinstance(op, vector.BroadcastOp):
        source = lanes(op.source.type)
        if source not in (None, 1, lanes(op.vector.type)):
            return f"{op.source.type} does not stretch to {op.vector.type}"
    if isinstance(op, vector.ReductionOp) and op.kind.data not in _kinds(op):
        return f"<{op.kind.data}> is no reduction of {element(op.vector.type)}"
    return None


def broadcast(e: LlvmBuilder, op: vector.BroadcastOp, x: Values) -> SSAValue:
    """`vector.broadcast` of a scalar or of a vector."""
    count = lanes(op.vector.type)
    assert count is not None
    if lanes(x[0].type) == count:
        return x[0]
    return e.splat(x[0] if lanes(x[0].type) is None else e.lane(x[0], 0), count)


def shuffle(e: LlvmBuilder, op: vector.ShuffleOp, x: Values) -> SSAValue:
    """`vector.shuffle`: LLVM wants operands of one length; what is undefined is the first lane."""
    first, second = (lanes(value.type) or 1 for value in x)
    longest = max(first, second)
    a, b = (_lengthened(e, value, longest) for value in x)
    moved = longest - first
    places = [place + moved if place >= first else max(place, 0) for place in op.mask.get_values()]
    return e.shuffle(a, b, places)


def _lengthened(e: LlvmBuilder, x: SSAValue, count: int) -> SSAValue:
    have = lanes(x.type) or 1
    return x if have == count else e.shuffle(x, x, [*range(have), *[0] * (count - have)])


def extract(e: LlvmBuilder, op: vector.ExtractOp, x: Values) -> SSAValue:
    """`vector.extract`; a place that is not known is found by comparing every lane's."""
    positions = op.get_mixed_position()
    if not positions:
        return x[0]
    if isinstance(positions[0], int):
        return e.lane(x[0], positions[0])
    count = lanes(x[0].type) or 1
    kind = integers(x[0].type)
    here = e.icmp("eq", _places(e, count), e.splat(x[1], count))
    chosen = e.select(here, e.bits(x[0], kind), e.constant(0, kind))
    bits = e.intrinsic(f"llvm.vector.reduce.or.{suffix(kind)}", [chosen], element(kind))
    return e.bits(bits, converted(op.result.type))


def _places(e: LlvmBuilder, count: int) -> SSAValue:
    """The number of each lane."""
    return e.listed(range(count), VectorType(i64, [count]))


def insert(e: LlvmBuilder, op: vector.InsertOp, x: Values) -> SSAValue:
    """`vector.insert`."""
    positions = op.get_mixed_position()
    if not positions:
        return x[0]
    place = e.constant(positions[0], i64) if isinstance(positions[0], int) else x[2]
    return e.insert(llvm.InsertElementOp(x[1], x[0], place))


def create_mask(e: LlvmBuilder, op: vector.CreateMaskOp, x: Values) -> SSAValue:
    """`vector.create_mask`: so many lanes are set."""
    count = lanes(op.mask_vector.type) or 1
    return e.icmp("slt", _places(e, count), e.splat(x[0], count))


def fused(e: LlvmBuilder, op: vector.FMAOp, x: Values) -> SSAValue:
    """`vector.fma`."""
    return e.insert(math.FmaOp(op.lhs, op.rhs, op.acc))


_INTEGER_KINDS = {
    "add": "add",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "minsi": "smin",
    "maxsi": "smax",
    "minui": "umin",
    "maxui": "umax",
}
_FLOAT_KINDS = {
    "add": "fadd",
    "mul": "fmul",
    "minnumf": "fmin",
    "maxnumf": "fmax",
    "minimumf": "fminimum",
    "maximumf": "fmaximum",
}
_BINARY = {"fmin": "minnum", "fmax": "maxnum", "fminimum": "minimum", "fmaximum": "maximum"}
_OPS: dict[str, Callable[[LlvmBuilder, SSAValue, SSAValue], SSAValue]] = {
    "add": LlvmBuilder.add,
    "mul": LlvmBuilder.mul,
    "and": LlvmBuilder.and_,
    "or": LlvmBuilder.or_,
    "xor": LlvmBuilder.xor,
    "fadd": LlvmBuilder.fadd,
    "fmul": LlvmBuilder.fmul,
}


def _kinds(op: vector.ReductionOp) -> dict[str, str]:
    scalar = element(op.vector.type)
    return _FLOAT_KINDS if isinstance(scalar, AnyFloat) else _INTEGER_KINDS


def reduction(e: LlvmBuilder, op: vector.ReductionOp, x: Values) -> SSAValue:
    """`vector.reduction`; f16 and bf16 in f32, rounded at the end."""
    kind = _kinds(op)[op.kind.data]
    type = op.vector.type
    wide = computed_in(type)
    values = extend_float(e, x[0], type, wide) if wide != type else x[0]
    start = x[1] if len(x) > 1 else None
    if start is not None and wide != type:
        start = extend_float(e, start, element(type), element(wide))
    if kind in ("fadd", "fmul"):
        result = _accumulated(e, op, kind, values, start)
    else:
        name = f"llvm.vector.reduce.{kind}.{suffix(values.type)}"
        result = e.intrinsic(name, [values], element(values.type))
        result = result if start is None else _combined(e, kind, result, start)
    return truncate_float(e, result, element(type)) if wide != type else result


def _combined(e: LlvmBuilder, kind: str, x: SSAValue, y: SSAValue) -> SSAValue:
    if kind in _OPS:
        return _OPS[kind](e, x, y)
    return e.overloaded(_BINARY.get(kind, kind), x, y)


def _accumulated(
    e: LlvmBuilder, op: vector.ReductionOp, kind: str, x: SSAValue, start: SSAValue | None
) -> SSAValue:
    """A sum or a product of floats."""
    count = lanes(x.type) or 1
    if FastMathFlag.REASSOC in op.fastmath.data and count & (count - 1) == 0:
        while lanes(x.type) != 1:
            x = _combined(e, kind, *e.halves(x))
        total = e.lane(x, 0)
        return total if start is None else _combined(e, kind, total, start)
    if start is None:
        start = e.constant(-0.0 if kind == "fadd" else 1.0, element(x.type))
    name = f"llvm.vector.reduce.{kind}.{suffix(x.type)}"
    return e.intrinsic(name, [start, x], start.type)


RULES: dict[type[Operation], Rule] = {
    vector.BroadcastOp: broadcast,
    vector.ShuffleOp: shuffle,
    vector.ExtractOp: extract,
    vector.InsertOp: insert,
    vector.CreateMaskOp: create_mask,
    vector.FMAOp: fused,
    vector.ReductionOp: reduction,
    vector.BitcastOp: lambda e, op, x: e.bits(x[0], converted(op.result.type)),
}
"""For each op the function that builds what takes its place."""
