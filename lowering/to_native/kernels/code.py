"""A thin layer over the builders of xDSL's `llvm` dialect: types, straight code, loops, functions.

Not here: anything about ternary arithmetic or instruction sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
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
    VectorType,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

POINTER = llvm.LLVMPointerType()
Loop = Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]]

_SUFFIXES: dict[Attribute, str] = {
    f32: "f32",
    f64: "f64",
    i1: "i1",
    i8: "i8",
    i16: "i16",
    i32: "i32",
    i64: "i64",
}


@cache
def vector(element: Attribute, count: int) -> VectorType[Attribute]:
    """The type of `count` elements in a register."""
    return VectorType(element, [count])


def suffix(kind: Attribute) -> str:
    """How LLVM writes a type in the name of an intrinsic: `v16i32`, `f32`, `p0`."""
    if kind == POINTER:
        return "p0"
    element = element_of(kind)
    return _SUFFIXES[kind] if element is None else f"v{lanes(kind)}{_SUFFIXES[element]}"


def lanes(kind: Attribute) -> int:
    """The number of elements of a vector type."""
    assert isinstance(kind, VectorType)
    return cast("VectorType[Attribute]", kind).get_shape()[0]


def element_of(kind: Attribute) -> Attribute | None:
    """The element of a vector type, `None` for a scalar."""
    if not isinstance(kind, VectorType):
        return None
    return cast("VectorType[Attribute]", kind).element_type


def _attribute(value: int | float, kind: Attribute) -> Attribute:
    element = element_of(kind)
    if isinstance(element, IntegerType):
        numbers = [int(value)] * lanes(kind)
        return DenseIntOrFPElementsAttr.from_list(cast("VectorType[IntegerType]", kind), numbers)
    if element is not None:
        floats = [float(value)] * lanes(kind)
        return DenseIntOrFPElementsAttr.from_list(cast("VectorType[AnyFloat]", kind), floats)
    if isinstance(kind, IntegerType):
        return IntegerAttr(int(value), cast("IntegerType", kind))
    return FloatAttr(float(value), cast("AnyFloat", kind))


class Code:
    """Writes one function. Every method that computes appends an operation and gives its result."""

    def __init__(self, block: Block) -> None:
        region = block.parent
        assert region is not None
        self._region: Region = region
        self._entry = block
        self._builder = Builder(InsertPoint.at_end(block))
        self._constants: dict[tuple[object, Attribute], SSAValue] = {}

    def _add(self, op: Operation) -> SSAValue:
        self._builder.insert(op)
        return op.results[0]

    def _enter(self, block: Block) -> None:
        self._builder.insertion_point = InsertPoint.at_end(block)

    def _at_entry(self, op: Operation) -> SSAValue:
        # Constants and stack memory belong to the entry block, which dominates everything.
        first = self._entry.first_op
        place = InsertPoint.at_end(self._entry) if first is None else InsertPoint.before(first)
        Builder(place).insert(op)
        return op.results[0]

    def constant(self, value: int | float, kind: Attribute = i64) -> SSAValue:
        """A number, or a vector with it in every lane."""
        known = self._constants.get((value, kind))
        if known is not None:
            return known
        result = self._at_entry(llvm.ConstantOp(_attribute(value, kind), kind))
        self._constants[value, kind] = result
        return result

    def constant_bytes(self, content: bytes) -> SSAValue:
        """A vector of bytes, one by one."""
        kind = VectorType(i8, [len(content)])
        signed = [byte - 256 if byte > 127 else byte for byte in content]
        attribute = DenseIntOrFPElementsAttr.from_list(kind, signed)
        known = self._constants.get((content, kind))
        if known is None:
            known = self._constants[content, kind] = self._at_entry(
                llvm.ConstantOp(attribute, kind)
            )
        return known

    def stack(self, size: int) -> SSAValue:
        """The address of `size` bytes, aligned to 64, that live as long as the call."""
        count = llvm.ConstantOp(IntegerAttr(size, i64), i64)
        memory = llvm.AllocaOp(count, i8, alignment=64)
        # What an alloca gives is converted to a pointer to bytes, to which no vector can be stored.
        result = self._at_entry(llvm.BitcastOp(memory.results[0], POINTER))
        self._at_entry(memory)
        self._at_entry(count)
        return result

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer sum, wrapping."""
        return self._add(llvm.AddOp(a, b))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer difference, wrapping."""
        return self._add(llvm.SubOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer product, wrapping."""
        return self._add(llvm.MulOp(a, b))

    def udiv(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Unsigned quotient."""
        return self._add(llvm.UDivOp(a, b))

    def and_(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Bitwise and."""
        return self._add(llvm.AndOp(a, b))

    def or_(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Bitwise or."""
        return self._add(llvm.OrOp(a, b))

    def xor(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Bitwise exclusive or."""
        return self._add(llvm.XOrOp(a, b))

    def shl(self, a: SSAValue, bits: int) -> SSAValue:
        """Left shift of every lane."""
        return self._add(llvm.ShlOp(a, self.constant(bits, a.type)))

    def lshr(self, a: SSAValue, bits: int) -> SSAValue:
        """Logical right shift of every lane."""
        return self._add(llvm.LShrOp(a, self.constant(bits, a.type)))

    def ashr(self, a: SSAValue, bits: int) -> SSAValue:
        """Arithmetic right shift of every lane."""
        return self._add(llvm.AShrOp(a, self.constant(bits, a.type)))

    def shift_left(self, a: SSAValue, bits: SSAValue) -> SSAValue:
        """Left shift of every lane by a number of its own."""
        return self._add(llvm.ShlOp(a, bits))

    def shift_right(self, a: SSAValue, bits: SSAValue) -> SSAValue:
        """Arithmetic right shift of every lane by a number of its own."""
        return self._add(llvm.AShrOp(a, bits))

    def fadd(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Float sum."""
        return self._add(llvm.FAddOp(a, b))

    def fsub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Float difference."""
        return self._add(llvm.FSubOp(a, b))

    def fmul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Float product."""
        return self._add(llvm.FMulOp(a, b))

    def fdiv(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Float quotient."""
        return self._add(llvm.FDivOp(a, b))

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer comparison: `eq ne slt sle sgt sge ult ule ugt uge`."""
        code = llvm.ICmpPredicateFlag(predicate).to_int()
        return self._add(llvm.ICmpOp(a, b, IntegerAttr(code, i64)))

    def select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """`yes` where the condition holds."""
        return self._add(llvm.SelectOp(condition, yes, no))

    def minimum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The lesser of two signed integers."""
        return self.intrinsic(f"llvm.smin.{suffix(a.type)}", [a, b], a.type)

    def maximum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The greater of two signed integers."""
        return self.intrinsic(f"llvm.smax.{suffix(a.type)}", [a, b], a.type)

    def lesser(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The lesser of two unsigned integers."""
        return self.intrinsic(f"llvm.umin.{suffix(a.type)}", [a, b], a.type)

    def fminimum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The lesser of two floats; NaN if one is."""
        return self.intrinsic(f"llvm.minimum.{suffix(a.type)}", [a, b], a.type)

    def fmaximum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The greater of two floats; NaN if one is."""
        return self.intrinsic(f"llvm.maximum.{suffix(a.type)}", [a, b], a.type)

    def bits(self, a: SSAValue, kind: Attribute) -> SSAValue:
        """The same bits as another type."""
        return a if a.type == kind else self._add(llvm.BitcastOp(a, kind))

    def to_float(self, a: SSAValue, element: Attribute = f32) -> SSAValue:
        """Signed integers to floats, lane by lane."""
        kind = element if element_of(a.type) is None else vector(element, lanes(a.type))
        return self._add(llvm.SIToFPOp(a, kind))

    def narrow(self, a: SSAValue, kind: Attribute) -> SSAValue:
        """The low bits of every lane."""
        return self._add(llvm.TruncOp(a, kind))

    def widen(self, a: SSAValue, kind: Attribute) -> SSAValue:
        """Signed integers in more bits."""
        return self._add(llvm.SExtOp(a, kind))

    def lengthen(self, a: SSAValue, kind: Attribute) -> SSAValue:
        """Unsigned integers in more bits."""
        return self._add(llvm.ZExtOp(a, kind))

    def shuffle(self, a: SSAValue, b: SSAValue, places: Iterable[int]) -> SSAValue:
        """The lanes at `places` of `a` and `b` one after the other."""
        chosen = list(places)
        element = element_of(a.type)
        assert element is not None
        kind = vector(element, len(chosen))
        return self._add(llvm.ShuffleVectorOp(a, b, DenseArrayBase.from_list(i32, chosen), kind))

    def splat(self, a: SSAValue, count: int) -> SSAValue:
        """A vector with one scalar in every lane."""
        undefined = self._add(llvm.UndefOp(vector(a.type, count)))
        first = self._add(llvm.InsertElementOp(undefined, a, self.constant(0, i32)))
        return self.shuffle(first, first, [0] * count)

    def at(self, base: SSAValue, index: SSAValue | int, element: Attribute = i8) -> SSAValue:
        """The address of an element of an array."""
        if index == 0:
            return base
        return self._add(llvm.GEPOp.from_mixed_indices(base, [index], element))

    def load(self, address: SSAValue, kind: Attribute) -> SSAValue:
        """What stands at an address of any alignment."""
        return self._add(llvm.LoadOp(address, kind, alignment=1))

    def store(self, value: SSAValue, address: SSAValue) -> None:
        """Put a value at an address of any alignment."""
        self._builder.insert(llvm.StoreOp(value, address, alignment=1))

    def intrinsic(self, name: str, arguments: Sequence[SSAValue], kind: Attribute) -> SSAValue:
        """Call an LLVM intrinsic that gives a value."""
        return self._add(llvm.CallIntrinsicOp(name, arguments, [kind]))

    def effect(self, name: str, *arguments: SSAValue) -> None:
        """Call an LLVM intrinsic that gives nothing."""
        self._builder.insert(llvm.CallIntrinsicOp(name, arguments, []))

    def call(self, name: str, *arguments: SSAValue) -> None:
        """Call a function of the same module."""
        self._builder.insert(llvm.CallOp(name, *arguments))

    def ask(self, name: str, kind: Attribute, *arguments: SSAValue) -> SSAValue:
        """Call a function of the same module that gives a value."""
        return self._add(llvm.CallOp(name, *arguments, return_type=kind))

    def prefetch(self, address: SSAValue) -> None:
        """Ask for a line of memory early; any address is allowed."""
        read, keep, data = (self.constant(value, i32) for value in (0, 3, 1))
        self.effect("llvm.prefetch.p0", address, read, keep, data)

    def copy(self, target: SSAValue, source: SSAValue, count: SSAValue) -> None:
        """Copy bytes between places that do not overlap."""
        self.effect("llvm.memcpy.p0.p0.i64", target, source, count, self.constant(0, i1))

    def clear(self, target: SSAValue, count: int) -> None:
        """Set bytes to zero."""
        zero, size = self.constant(0, i8), self.constant(count)
        self.effect("llvm.memset.p0.i64", target, zero, size, self.constant(0, i1))

    def loop(
        self,
        start: SSAValue,
        end: SSAValue,
        step: int,
        body: Loop,
        carried: Sequence[SSAValue] = (),
    ) -> list[SSAValue]:
        """`for i in range(start, end, step)`; `body` gives the next carried values."""
        kinds = [value.type for value in carried]
        head = Block(arg_types=[i64, *kinds])
        after = Block(arg_types=kinds)
        self._region.add_block(head)
        enter = self.compare("slt", start, end)
        self._builder.insert(llvm.CondBrOp(enter, head, [start, *carried], after, list(carried)))
        self._enter(head)
        values = list(body(head.args[0], list(head.args[1:])))
        following = self.add(head.args[0], self.constant(step))
        again = self.compare("slt", following, end)
        self._builder.insert(llvm.CondBrOp(again, head, [following, *values], after, values))
        self._region.add_block(after)
        self._enter(after)
        return list(after.args)

    def when(self, condition: SSAValue, body: Callable[[], None]) -> None:
        """Do something only if the condition holds."""
        inside, after = Block(), Block()
        self._region.add_block(inside)
        self._builder.insert(llvm.CondBrOp(condition, inside, [], after, []))
        self._enter(inside)
        body()
        self._builder.insert(llvm.BrOp(after))
        self._region.add_block(after)
        self._enter(after)

    def finish(self) -> None:
        """End the function."""
        self._builder.insert(llvm.ReturnOp())


def function(
    name: str,
    arguments: Sequence[Attribute],
    body: Callable[[Code, Sequence[SSAValue]], None],
) -> llvm.FuncOp:
    """A function that returns nothing; `body` writes it."""
    block = Block(arg_types=arguments)
    region = Region([block])
    code = Code(block)
    body(code, list(block.args))
    code.finish()
    linkage = llvm.LinkageAttr("external")
    return llvm.FuncOp(name, llvm.LLVMFunctionType(arguments), linkage, body=region)
