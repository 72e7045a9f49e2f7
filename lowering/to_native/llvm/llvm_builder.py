"""Appends ops of the `llvm` dialect, on scalars and on vectors of one dimension alike.

Where xDSL's op takes scalars only, vectors take a detour that LLVM folds back to one instruction:
floats are compared by the class of their difference (`llvm.is.fpclass`), lanes are chosen with
masks. Functions are called by their full names: the translation of ops such as `llvm.intr.fabs`
declares one function for all types. Not here: loops and functions (`kernels.code`), anything that
takes more than a few ops (`half`, `division`, `casts`, …).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    VectorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from .types import element, integers, lanes, like, suffix, vector

NEGATIVE = 0x4 | 0x8 | 0x10
"""`llvm.is.fpclass`: -inf, negative normal, negative subnormal."""
POSITIVE = 0x80 | 0x100 | 0x200
NAN = 0x1 | 0x2

Number = int | float
Value = SSAValue | Number
"""An operand; a number is taken as one of the type of the other operand."""


class LlvmBuilder(ABC):
    """Every method that computes inserts ops and gives their result.

    Constants stand once in a function, at its start.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Attribute, object], SSAValue] = {}

    @abstractmethod
    def append(self, op: Operation) -> None:
        """Insert an op."""

    @abstractmethod
    def at_start(self, op: Operation) -> SSAValue:
        """Insert an op with one result at the start of the function."""

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op with one result, and give that."""
        self.append(op)
        return op.results[0]

    # Constants

    def constant(self, value: Number, type: Attribute = i64) -> SSAValue:
        """A number, or a vector with it in every lane; integers are taken modulo their width."""
        key = type, value.hex() if isinstance(value, float) else int(value)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.at_start(llvm.ConstantOp(attribute(value, type), type))
        return known

    def listed(self, values: Sequence[int], type: Attribute) -> SSAValue:
        """A vector of integers, one by one."""
        integers = cast("VectorType[IntegerType]", type)
        content = DenseIntOrFPElementsAttr.from_list(integers, list(values))
        return self.insert(llvm.ConstantOp(content, type))

    def pair(self, x: Value, y: Value) -> tuple[SSAValue, SSAValue]:
        """Two operands of one type: i64 where both are numbers."""
        if not isinstance(x, SSAValue):
            x = self.constant(x, y.type if isinstance(y, SSAValue) else i64)
        return x, y if isinstance(y, SSAValue) else self.constant(y, x.type)

    # Integers

    def add(self, x: Value, y: Value) -> SSAValue:
        """x + y, wrapping."""
        return self.insert(llvm.AddOp(*self.pair(x, y)))

    def sub(self, x: Value, y: Value) -> SSAValue:
        """x - y, wrapping."""
        return self.insert(llvm.SubOp(*self.pair(x, y)))

    def mul(self, x: Value, y: Value) -> SSAValue:
        """x·y, wrapping."""
        return self.insert(llvm.MulOp(*self.pair(x, y)))

    def and_(self, x: Value, y: Value) -> SSAValue:
        """The bits set in both."""
        return self.insert(llvm.AndOp(*self.pair(x, y)))

    def or_(self, x: Value, y: Value) -> SSAValue:
        """The bits set in either."""
        return self.insert(llvm.OrOp(*self.pair(x, y)))

    def xor(self, x: Value, y: Value) -> SSAValue:
        """The bits set in one of the two."""
        return self.insert(llvm.XOrOp(*self.pair(x, y)))

    def not_(self, x: SSAValue) -> SSAValue:
        """Every bit turned over."""
        return self.xor(x, -1)

    def shl(self, x: Value, bits: Value) -> SSAValue:
        """x·2^bits, wrapping."""
        return self.insert(llvm.ShlOp(*self.pair(x, bits)))

    def lshr(self, x: Value, bits: Value) -> SSAValue:
        """⌊x / 2^bits⌋ of an unsigned integer."""
        return self.insert(llvm.LShrOp(*self.pair(x, bits)))

    def ashr(self, x: Value, bits: Value) -> SSAValue:
        """⌊x / 2^bits⌋ of a signed integer."""
        return self.insert(llvm.AShrOp(*self.pair(x, bits)))

    def icmp(self, predicate: str, x: Value, y: Value) -> SSAValue:
        """Compare integers: `eq ne slt sle sgt sge ult ule ugt uge`."""
        code = llvm.ICmpPredicateFlag(predicate).to_int()
        return self.insert(llvm.ICmpOp(*self.pair(x, y), IntegerAttr(code, i64)))

    # Floats

    def fadd(self, x: Value, y: Value) -> SSAValue:
        """x + y."""
        return self.insert(llvm.FAddOp(*self.pair(x, y)))

    def fsub(self, x: Value, y: Value) -> SSAValue:
        """x - y."""
        return self.insert(llvm.FSubOp(*self.pair(x, y)))

    def fmul(self, x: Value, y: Value) -> SSAValue:
        """x·y."""
        return self.insert(llvm.FMulOp(*self.pair(x, y)))

    def fdiv(self, x: Value, y: Value) -> SSAValue:
        """x / y."""
        return self.insert(llvm.FDivOp(*self.pair(x, y)))

    def fneg(self, x: SSAValue) -> SSAValue:
        """-x."""
        return self.insert(llvm.FNegOp(x))

    def fabs(self, x: SSAValue) -> SSAValue:
        """\\|x\\|."""
        return self.overloaded("fabs", x)

    def copysign(self, x: SSAValue, sign: SSAValue) -> SSAValue:
        """\\|x\\| with the sign of the other."""
        return self.overloaded("copysign", x, sign)

    def fmuladd(self, x: SSAValue, y: Value, z: Value) -> SSAValue:
        """x·y + z, rounded once where the processor does it at once, else twice."""
        return self.overloaded("fmuladd", *self.pair(x, y), self.pair(x, z)[1])

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Σ cᵢ·xⁱ by Horner's rule, c₀ first."""
        result = self.constant(float(coefficients[-1]), x.type)
        for coefficient in reversed(coefficients[:-1]):
            result = self.fmuladd(result, x, float(coefficient))
        return result

    def fcmp(self, predicate: str, x: SSAValue, y: Value) -> SSAValue:
        """Compare floats: `oeq ogt … une uno`, also `false` and `true`."""
        truth = like(x.type, i1)
        if predicate in ("false", "true"):
            return self.constant(int(predicate == "true"), truth)
        _, other = self.pair(x, y)
        if lanes(x.type) is None:
            return self.insert(llvm.FCmpOp(x, other, predicate))
        if predicate in _INVERSE:
            return self.not_(self.fcmp(_INVERSE[predicate], x, other))
        if predicate == "uno":
            nan = self.has_class(x, NAN)
            return nan if x is other else self.or_(nan, self.has_class(other, NAN))
        if predicate in _CLASSES:
            # With gradual underflow x - y is zero for x = y only; inf - inf is NaN, as it must be.
            return self.has_class(self.fsub(x, other), _CLASSES[predicate])
        # oeq, oge, ole: not the opposite, and no NaN.
        return self.and_(
            self.not_(self.fcmp(_ORDERED[predicate], x, other)), self.fcmp("ord", x, other)
        )

    def has_class(self, x: SSAValue, classes: int) -> SSAValue:
        """Whether a float is of one of the classes of `llvm.is.fpclass`."""
        name = f"llvm.is.fpclass.{suffix(x.type)}"
        return self.intrinsic(name, [x, self.constant(classes, i32)], like(x.type, i1))

    # Both

    def select(self, condition: SSAValue, x: Value, y: Value) -> SSAValue:
        """x where the condition holds, else y."""
        x, y = self.pair(x, y)
        if lanes(condition.type) is None:
            return self.insert(llvm.SelectOp(condition, x, y))
        mask = condition
        kind = integers(x.type)
        if element(kind) != i1:
            mask = self.insert(llvm.SExtOp(condition, kind))
        yes = self.and_(self.bits(x, kind), mask)
        no = self.and_(self.bits(y, kind), self.not_(mask))
        return self.bits(self.or_(yes, no), x.type)

    def bits(self, x: SSAValue, type: Attribute) -> SSAValue:
        """The same bits as another type."""
        return x if x.type == type else self.insert(llvm.BitcastOp(x, type))

    def resize(self, x: SSAValue, type: Attribute, *, unsigned: bool = False) -> SSAValue:
        """An integer as one of another width."""
        have, want = _width(x.type), _width(type)
        if have == want:
            return x
        if want < have:
            return self.insert(llvm.TruncOp(x, type))
        return self.insert((llvm.ZExtOp if unsigned else llvm.SExtOp)(x, type))

    def to_float(self, x: SSAValue, element: Attribute = f32) -> SSAValue:
        """Signed integers as f32 or f64, rounded once; `casts` has the rest."""
        return self.insert(llvm.SIToFPOp(x, like(x.type, element)))

    def extend(self, x: SSAValue, type: Attribute) -> SSAValue:
        """f32 as f64."""
        return x if x.type == type else self.insert(llvm.FPExtOp(x, type))

    def truncate(self, x: SSAValue, type: Attribute) -> SSAValue:
        """f64 as f32, to nearest even."""
        return x if x.type == type else self.insert(llvm.FPTruncOp(x, type))

    def intrinsic(self, name: str, arguments: Sequence[SSAValue], type: Attribute) -> SSAValue:
        """Call an LLVM intrinsic that gives a value."""
        return self.insert(llvm.CallIntrinsicOp(name, arguments, [type]))

    def overloaded(self, name: str, *arguments: SSAValue) -> SSAValue:
        """Call the intrinsic of the type of its first argument, which is that of its result."""
        kind = arguments[0].type
        return self.intrinsic(f"llvm.{name}.{suffix(kind)}", arguments, kind)

    def shuffle(self, x: SSAValue, y: SSAValue, places: Iterable[int]) -> SSAValue:
        """The lanes at `places` of `x` and `y` one after the other."""
        mask = DenseArrayBase.from_list(i32, list(places))
        kind = vector(element(x.type), len(mask))
        return self.insert(llvm.ShuffleVectorOp(x, y, mask, kind))

    def joined(self, parts: Sequence[SSAValue]) -> SSAValue:
        """A power of two of vectors one after the other."""
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffle(a, b, range(2 * (lanes(a.type) or 1))) for a, b in pairs]
        return parts[0]

    def halves(self, x: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The first lanes of a vector, and as many that follow."""
        half = (lanes(x.type) or 1) // 2
        return self.shuffle(x, x, range(half)), self.shuffle(x, x, range(half, 2 * half))

    def splat(self, x: SSAValue, count: int) -> SSAValue:
        """A vector with one scalar in every lane."""
        undefined = self.insert(llvm.UndefOp(vector(x.type, count)))
        first = self.insert(llvm.InsertElementOp(undefined, x, self.constant(0, i32)))
        return first if count == 1 else self.shuffle(first, first, [0] * count)

    def lane(self, x: SSAValue, place: int) -> SSAValue:
        """One element of a vector: a vector of one, whose bits are the element's."""
        return self.insert(llvm.BitcastOp(self.shuffle(x, x, [place]), element(x.type)))


class AnchoredBuilder(LlvmBuilder):
    """Puts ops in front of the op that is being converted, with its location."""

    def __init__(self) -> None:
        super().__init__()
        self._anchor: Operation | None = None
        self._block: Block | None = None
        self._entry: Block | None = None
        self._constants: dict[Block, dict[tuple[Attribute, object], SSAValue]] = {}

    def at(self, op: Operation) -> None:
        """From now on put ops in front of `op`."""
        self._anchor = op
        if op.parent is not self._block:
            self._block = op.parent
            self._entry = _entry_block(op)
            self._known = self._constants.setdefault(self._entry, {})

    @property
    def anchor(self) -> Operation:
        """The op that is being converted."""
        assert self._anchor is not None
        return self._anchor

    def append(self, op: Operation) -> None:
        """Insert an op in front of the anchor."""
        block = self.anchor.parent
        assert block is not None
        op.location = self.anchor.location
        block.insert_op_before(op, self.anchor)

    def at_start(self, op: Operation) -> SSAValue:
        """See `LlvmBuilder.at_start`."""
        assert self._entry is not None
        op.location = self.anchor.location
        Builder(InsertPoint.at_start(self._entry)).insert(op)
        return op.results[0]


_INVERSE = {
    "ord": "uno",
    "ueq": "one",
    "ugt": "ole",
    "uge": "olt",
    "ult": "oge",
    "ule": "ogt",
    "une": "oeq",
}
_CLASSES = {"olt": NEGATIVE, "ogt": POSITIVE, "one": NEGATIVE | POSITIVE}
_ORDERED = {"oeq": "one", "oge": "olt", "ole": "ogt"}


def _width(type: Attribute) -> int:
    scalar = element(type)
    assert isinstance(scalar, IntegerType)
    return cast("IntegerType[int]", scalar).width.data


def _entry_block(op: Operation) -> Block:
    """The first block of the function that `op` is in; of its own region outside of one."""
    block = op.parent
    assert block is not None
    region = block.parent
    parent = block.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        region = parent.regions[0]
        if parent.name in ("func.func", "llvm.func"):
            break
        parent = parent.parent_op()
    assert region is not None and region.first_block is not None
    return region.first_block


def attribute(value: Number, type: Attribute) -> Attribute:
    """A number as the value of a constant of an `llvm` type, or of every lane of a vector."""
    scalar = element(type)
    count = lanes(type)
    if isinstance(scalar, IntegerType):
        bits = cast("IntegerType[int]", scalar).width.data
        number = int(value) & ((1 << bits) - 1)
        number -= (1 << bits) if bits > 1 and number >> (bits - 1) else 0
        if count is None:
            return IntegerAttr(number, cast("IntegerType", scalar))
        integers = cast("VectorType[IntegerType]", type)
        return DenseIntOrFPElementsAttr.from_list(integers, [number] * count)
    if count is None:
        return FloatAttr(float(value), cast("AnyFloat", scalar))
    floats = cast("VectorType[AnyFloat]", type)
    return DenseIntOrFPElementsAttr.from_list(floats, [float(value)] * count)
