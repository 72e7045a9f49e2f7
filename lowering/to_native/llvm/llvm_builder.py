"""Appends ops of the `llvm` dialect, on scalars and on vectors of one dimension alike.

Where xDSL's op takes scalars only, vectors take a detour that LLVM folds back to one instruction:
floats are compared by the class of their difference (`llvm.is.fpclass`), lanes are chosen with
masks. Functions are called by their full names: the translation of ops such as `llvm.intr.fabs`
declares one function for all types. Not here: anything that takes more than a few ops (`half`,
`division`, `casts`, …).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import cast

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
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from .types import element, integers, lanes, like, suffix

NEGATIVE = 0x4 | 0x8 | 0x10
"""`llvm.is.fpclass`: -inf, negative normal, negative subnormal."""
POSITIVE = 0x80 | 0x100 | 0x200
NAN = 0x1 | 0x2

Number = int | float


class LlvmBuilder:
    """Puts ops in front of the op that is being converted, with its location.

    Constants stand once in a function, at its start.
    """

    def __init__(self) -> None:
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

    @property
    def anchor(self) -> Operation:
        """The op that is being converted."""
        assert self._anchor is not None
        return self._anchor

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op with one result, and give that."""
        self.effect(op)
        return op.results[0]

    def effect(self, op: Operation) -> None:
        """Insert an op."""
        anchor = self.anchor
        op.location = anchor.location
        block = anchor.parent
        assert block is not None
        block.insert_op_before(op, anchor)

    def at_start(self, op: Operation) -> SSAValue:
        """Insert an op with one result at the start of the function."""
        assert self._entry is not None
        first = self._entry.first_op
        op.location = self.anchor.location
        if first is None:
            self._entry.add_op(op)
        else:
            self._entry.insert_op_before(op, first)
        return op.results[0]

    # Constants

    def constant(self, value: Number, type: Attribute) -> SSAValue:
        """A number, or a vector with it in every lane; integers are taken modulo their width."""
        assert self._entry is not None
        known = self._constants.setdefault(self._entry, {})
        bits = struct.pack("<d", value) if isinstance(value, float) else value
        found = known.get((type, bits))
        if found is None:
            found = self.at_start(llvm.ConstantOp(attribute(value, type), type))
            known[type, bits] = found
        return found

    def listed(self, values: Sequence[int], type: Attribute) -> SSAValue:
        """A vector of integers, one by one."""
        integers = cast("VectorType[IntegerType]", type)
        content = DenseIntOrFPElementsAttr.from_list(integers, list(values))
        return self.insert(llvm.ConstantOp(content, type))

    def same(self, value: Number, x: SSAValue) -> SSAValue:
        """A constant of the type of `x`."""
        return self.constant(value, x.type)

    def _two(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        return y if isinstance(y, SSAValue) else self.constant(y, x.type)

    # Integers

    def add(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x + y, wrapping."""
        return self.insert(llvm.AddOp(x, self._two(x, y)))

    def sub(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x - y, wrapping."""
        return self.insert(llvm.SubOp(x, self._two(x, y)))

    def mul(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x·y, wrapping."""
        return self.insert(llvm.MulOp(x, self._two(x, y)))

    def and_(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """The bits set in both."""
        return self.insert(llvm.AndOp(x, self._two(x, y)))

    def or_(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """The bits set in either."""
        return self.insert(llvm.OrOp(x, self._two(x, y)))

    def xor(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """The bits set in one of the two."""
        return self.insert(llvm.XOrOp(x, self._two(x, y)))

    def not_(self, x: SSAValue) -> SSAValue:
        """Every bit turned over."""
        return self.xor(x, -1)

    def shl(self, x: SSAValue, bits: SSAValue | int) -> SSAValue:
        """x·2^bits, wrapping."""
        return self.insert(llvm.ShlOp(x, self._two(x, bits)))

    def lshr(self, x: SSAValue, bits: SSAValue | int) -> SSAValue:
        """⌊x / 2^bits⌋ of an unsigned integer."""
        return self.insert(llvm.LShrOp(x, self._two(x, bits)))

    def ashr(self, x: SSAValue, bits: SSAValue | int) -> SSAValue:
        """⌊x / 2^bits⌋ of a signed integer."""
        return self.insert(llvm.AShrOp(x, self._two(x, bits)))

    def icmp(self, predicate: str, x: SSAValue, y: SSAValue | int) -> SSAValue:
        """Compare integers: `eq ne slt sle sgt sge ult ule ugt uge`."""
        code = llvm.ICmpPredicateFlag(predicate).to_int()
        return self.insert(llvm.ICmpOp(x, self._two(x, y), IntegerAttr(code, i64)))

    # Floats

    def fadd(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x + y."""
        return self.insert(llvm.FAddOp(x, self._two(x, y)))

    def fsub(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x - y."""
        return self.insert(llvm.FSubOp(x, self._two(x, y)))

    def fmul(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x·y."""
        return self.insert(llvm.FMulOp(x, self._two(x, y)))

    def fdiv(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x / y."""
        return self.insert(llvm.FDivOp(x, self._two(x, y)))

    def fneg(self, x: SSAValue) -> SSAValue:
        """-x."""
        return self.insert(llvm.FNegOp(x))

    def fabs(self, x: SSAValue) -> SSAValue:
        """\\|x\\|."""
        return self.overloaded("fabs", x)

    def copysign(self, x: SSAValue, sign: SSAValue) -> SSAValue:
        """\\|x\\| with the sign of the other."""
        return self.overloaded("copysign", x, sign)

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Σ cᵢ·xⁱ by Horner's rule, c₀ first."""
        result = self.same(float(coefficients[-1]), x)
        for coefficient in reversed(coefficients[:-1]):
            result = self.fadd(self.fmul(result, x), float(coefficient))
        return result

    def fcmp(self, predicate: str, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """Compare floats: `oeq ogt … une uno`, also `false` and `true`."""
        truth = like(x.type, i1)
        if predicate in ("false", "true"):
            return self.constant(int(predicate == "true"), truth)
        other = self._two(x, y)
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

    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        """x where the condition holds, else y."""
        if lanes(condition.type) is None:
            return self.insert(llvm.SelectOp(condition, x, y))
        mask = condition
        kind = integers(x.type)
        if element(kind) != i1:
            mask = self.insert(llvm.SExtOp(condition, kind))
        yes = self.and_(self.bits(x, kind), mask)
        no = self.and_(self.bits(y, kind), self.not_(mask))
        return self.bits(self.or_(yes, no), x.type)

    def choose(self, condition: SSAValue, x: SSAValue | Number, y: SSAValue | Number) -> SSAValue:
        """`select`, one of the two a number."""
        if not isinstance(x, SSAValue):
            assert isinstance(y, SSAValue)
            x = self.constant(x, y.type)
        return self.select(condition, x, self._two(x, y))

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

    def to_float(self, x: SSAValue, type: Attribute) -> SSAValue:
        """A signed integer as f32 or f64, rounded once; `casts` has the rest."""
        return self.insert(llvm.SIToFPOp(x, type))

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

    def shuffle(self, x: SSAValue, y: SSAValue, places: Sequence[int]) -> SSAValue:
        """The lanes at `places` of `x` and `y` one after the other."""
        kind = VectorType(element(x.type), [len(places)])
        mask = DenseArrayBase.from_list(i32, list(places))
        return self.insert(llvm.ShuffleVectorOp(x, y, mask, kind))

    def splat(self, x: SSAValue, count: int) -> SSAValue:
        """A vector with one scalar in every lane."""
        undefined = self.insert(llvm.UndefOp(VectorType(x.type, [count])))
        first = self.insert(llvm.InsertElementOp(undefined, x, self.constant(0, i32)))
        return first if count == 1 else self.shuffle(first, first, [0] * count)

    def lane(self, x: SSAValue, place: int) -> SSAValue:
        """One element of a vector: a vector of one, whose bits are the element's."""
        return self.insert(llvm.BitcastOp(self.shuffle(x, x, [place]), element(x.type)))


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
