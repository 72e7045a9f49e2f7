"""The pass `convert-math-to-llvm`: functions of floats, and of bits.

Not here: the formulas (`to_native.llvm`), arithmetic (`convert_arith_to_llvm`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, llvm, math
from xdsl.dialects.builtin import ModuleOp, f64, i1
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable

from ....ir.errors import OptionError
from ....ir.walking import all_ops
from . import error_function, exponential, hyperbolic, logarithm, power, rounding
from .c_library import C_NAMES, call_c, declare
from .double_double import two_sum
from .half import extend_float, truncate_float
from .llvm_builder import AnchoredBuilder, LlvmBuilder
from .remainder import PREFIX, fmod_function
from .types import computed_in, element, integers, is_half, like, suffix
from .walk import Rule, Values, convert_ops, realized, replace_op

_Function = Callable[..., SSAValue]
"""LlvmBuilder and operands, f32 or f64, to the result."""

LIBRARIES = ("none", "libm")
_ROUNDS = {"sse4.1", "avx", "avx2", "avx512f", "neon"}
_FUSES = {"fma", "avx512f", "neon"}


@dataclass(frozen=True)
class ConvertMathToLLVMPass(ModulePass):
    """Lower `math` to the `llvm` dialect, on scalars and on vectors of one dimension.

    Unless told otherwise nothing outside of the module is called. Square roots are the processor's;
    exp, exp2, log, log2, tanh, erf and powf are formulas within 2 ulp; f16 and bf16 are computed in
    f32. Formulas fuse products and sums where the processor does both at once (`llvm.fmuladd`).
    Calls of the C library's `fmod` and `fmodf` become calls of a function that is added.

        %r = math.sqrt %x : vector<8xf32>
        // becomes
        %r = llvm.call_intrinsic "llvm.sqrt.v8f32"(%x) : (vector<8xf32>) -> vector<8xf32>

    Raises:
        OptionError: an unknown choice for `library`.
        UnsupportedError: functions without a formula; all of them.
    """

    name = "convert-math-to-llvm"

    library: str = "none"
    """`none`, or `libm`: call the C library, which has more functions (sin, cos, …)."""

    features: tuple[str, ...] = ()
    """What the processor has, in LLVM's names (`avx2`, `fma`, …): it may round floats to integers
    with one instruction, and fuse products and sums where `math.fma` asks for it."""

    def __post_init__(self) -> None:
        if self.library not in LIBRARIES:
            raise OptionError(
                f"{self.name} expects library={' or library='.join(LIBRARIES)}, "
                f"got '{self.library}'"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rules = rules_for(self.library, self.features)
        convert_ops(op, rules, dialect="math", refuse=_refuse(rules))
        if self.library == "libm":
            declare(op)
        else:
            _replace_fmod(op)


def rules_for(library: str, features: Collection[str]) -> dict[type[Operation], Rule]:
    """For each op the function that builds what takes its place, as the options of the pass say."""
    rules = dict(RULES)
    if library == "libm" or _ROUNDS & set(features):
        rules |= {kind: _intrinsic(name) for kind, name in _ROUNDING_NAMES.items()}
    if library == "libm" or _FUSES & set(features):
        rules[math.FmaOp] = _intrinsic("fma")
    if "avx512f" in features:
        rules[math.ErfOp] = _in_f32(error_function.erf_by_tables)
        rules[math.ExpOp] = _in_f32(exponential.exp_by_scaling)
    if library == "libm":
        rules |= {kind: _in_f32(call_c(name)) for kind, name in C_NAMES.items()}
    return rules


def _refuse(rules: dict[type[Operation], Rule]) -> Callable[[Operation], str | None]:
    exact = rules[math.FmaOp] is RULES[math.FmaOp]

    def refuse(op: Operation) -> str | None:
        if exact and isinstance(op, math.FmaOp) and element(op.a.type) == f64:
            return "needs an instruction: give the pass features=fma, or library=libm"
        if type(op) not in rules and type(op) in C_NAMES:
            return "has no formula here; library=libm calls the C library's"
        return None

    return refuse


def _in_f32(build: _Function) -> Rule:
    """A function of floats; f16 and bf16 are extended, and the result rounded."""

    def rule(e: LlvmBuilder, op: Operation, x: Values) -> SSAValue:
        type = op.results[0].type
        if not is_half(type):
            return build(e, *x)
        wide = computed_in(type)
        return truncate_float(e, build(e, *(extend_float(e, v, type, wide) for v in x)), type)

    return rule


def _intrinsic(name: str) -> Rule:
    def build(e: LlvmBuilder, *x: SSAValue) -> SSAValue:
        return e.overloaded(name, *x)

    return _in_f32(build)


def _rsqrt(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    return e.fdiv(e.constant(1.0, x.type), e.overloaded("sqrt", x))


def _flagged(name: str) -> Rule:
    """An intrinsic on integers that says of a flag what is undefined: nothing."""

    def rule(e: LlvmBuilder, op: Operation, x: Values) -> SSAValue:
        arguments = [x[0], e.constant(0, i1)]
        return e.intrinsic(f"llvm.{name}.{suffix(x[0].type)}", arguments, x[0].type)

    return rule


def fuse(e: LlvmBuilder, op: math.FmaOp, x: Values) -> SSAValue:
    """`math.fma` of what is narrower than f64, rounded once, without an instruction for it.

    The product is exact in f64; the sum is rounded to odd there (see `half`).
    """
    type = op.a.type
    assert element(type) != f64, "a product of two f64 is not exact in f64"
    double = like(type, f64)
    a, b, c = (extend_float(e, value, type, double) for value in x)
    total, lost = two_sum(e, e.fmul(a, b), c)
    kind = integers(double)
    bits = e.bits(total, kind)
    outward = e.icmp("eq", e.icmp("slt", e.bits(lost, kind), 0), e.icmp("slt", bits, 0))
    even = e.icmp("eq", e.and_(bits, 1), 0)
    step = e.select(outward, e.constant(1, kind), -1)
    moves = e.and_(e.fcmp("one", lost, 0.0), even)
    odd = e.bits(e.select(moves, e.add(bits, step), bits), double)
    return truncate_float(e, odd, type)


_ROUNDING_NAMES: dict[type[Operation], str] = {
    math.FloorOp: "floor",
    math.CeilOp: "ceil",
    math.TruncOp: "trunc",
    math.RoundEvenOp: "roundeven",
}

RULES: dict[type[Operation], Rule] = {
    math.AbsFOp: _intrinsic("fabs"),
    math.CopySignOp: _intrinsic("copysign"),
    math.SqrtOp: _intrinsic("sqrt"),
    math.RsqrtOp: _in_f32(_rsqrt),
    math.FloorOp: _in_f32(rounding.floor),
    math.CeilOp: _in_f32(rounding.ceil),
    math.TruncOp: _in_f32(rounding.trunc),
    math.RoundOp: _in_f32(rounding.round_away),
    math.RoundEvenOp: _in_f32(rounding.round_even),
    math.ExpOp: _in_f32(exponential.exp),
    math.Exp2Op: _in_f32(exponential.exp2),
    math.LogOp: _in_f32(logarithm.log),
    math.Log2Op: _in_f32(logarithm.log2),
    math.TanhOp: _in_f32(hyperbolic.tanh),
    math.ErfOp: _in_f32(error_function.erf),
    math.PowFOp: _in_f32(power.power),
    math.FmaOp: fuse,
    math.AbsIOp: _flagged("abs"),
    math.CountLeadingZerosOp: _flagged("ctlz"),
    math.CountTrailingZerosOp: _flagged("cttz"),
    math.CtPopOp: lambda e, op, x: e.overloaded("ctpop", x[0]),
}
"""For each op the function that builds what takes its place, with nothing outside of the module."""
FORMULAS = tuple(kind for kind in RULES if kind in C_NAMES)
"""Ops that are many instructions, each of which waits for the one before."""


def _replace_fmod(module: ModuleOp) -> None:
    """Calls of the C library's fmod become calls of a function of the module."""
    declared = {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, func.FuncOp | llvm.FuncOp)
        and op.sym_name.data in ("fmod", "fmodf")
        and not op.body.blocks
    }
    builder = AnchoredBuilder()
    for op in [op for op in all_ops(module) if isinstance(op, func.CallOp | llvm.CallOp)]:
        name = None if op.callee is None else op.callee.string_value()
        if name not in declared:
            continue
        builder.at(op)
        type = op.results[0].type
        if SymbolTable.lookup_symbol(module, f"{PREFIX}{name}") is None:
            module.body.block.add_op(fmod_function(type))
        operands = [realized(builder, operand) for operand in op.operands]
        call = llvm.CallOp(f"{PREFIX}{name}", *operands, return_type=type)
        replace_op(builder, op, [builder.insert(call)])
    for op in declared.values():
        op.detach()
        op.erase()
