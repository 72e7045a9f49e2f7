"""Writes functions of the `llvm` dialect: memory, loops and calls beside `LlvmBuilder`'s sums.

Not here: anything about ternary arithmetic or instruction sets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    VectorType,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from ..llvm.llvm_builder import LlvmBuilder, Value
from ..llvm.types import suffix

POINTER = llvm.LLVMPointerType()
Index = SSAValue | int
"""A size or a place: an i64."""

_ANYWHERE: Mapping[str, Attribute] = {
    "ordering": IntegerAttr(0, i64),
    "alignment": IntegerAttr(1, i64),
}
"""Properties of plain loads and stores."""
_NO_FLAGS = IntegerAttr(0, i32)


@cache
def _one_index(index: int) -> Attribute:
    return DenseArrayBase.from_list(i32, [index])


def lanes(kind: Attribute) -> int:
    """The number of elements of a vector type."""
    assert isinstance(kind, VectorType)
    return cast("VectorType[Attribute]", kind).get_shape()[0]


@dataclass
class Turn:
    """A turn of a loop, of which the code is written.

    Attributes:
        index: of the turn.
        values: before the turn; to be set to those after it. Once the loop is written, they are
            those after its last turn.
    """

    index: SSAValue
    values: Sequence[SSAValue]


class Code(LlvmBuilder):
    """Appends to a new function.

    Numbers among operands are constants: of the type of the other operand, else i64.

    Args:
        name: of the function.
        arguments: their types.
    """

    def __init__(self, name: str, arguments: Sequence[Attribute]) -> None:
        super().__init__()
        self._name = name
        self._entry = Block(arg_types=arguments)
        self._region = Region([self._entry])
        self._builder = Builder(InsertPoint.at_end(self._entry))

    @property
    def arguments(self) -> Sequence[SSAValue]:
        """The arguments of the function."""
        return self._entry.args

    def finish(self, *results: SSAValue, linkage: str = "external") -> llvm.FuncOp:
        """End the function with one result or none, and give it."""
        self.append(llvm.ReturnOp(*results))
        output = results[0].type if results else None
        kind = llvm.LLVMFunctionType([argument.type for argument in self.arguments], output)
        return llvm.FuncOp(self._name, kind, llvm.LinkageAttr(linkage), body=self._region)

    def append(self, op: Operation) -> None:
        """Append an op."""
        self._builder.insert(op)

    def at_start(self, op: Operation) -> SSAValue:
        """See `LlvmBuilder.at_start`; the first block dominates everything."""
        Builder(InsertPoint.at_start(self._entry)).insert(op)
        return op.results[0]

    def behind_constants(self, ops: Iterable[Operation]) -> None:
        """Put ops into the first block, behind the constants alone, which come to its start."""
        rest = (op for op in self._entry.ops if not isinstance(op, llvm.ConstantOp))
        first = next(rest, None)
        for op in ops:
            self._entry.insert_op_before(op, first) if first else self._entry.add_op(op)

    def _enter(self, block: Block) -> None:
        self._builder.insertion_point = InsertPoint.at_end(block)

    def integer(self, value: Index) -> SSAValue:
        """A size or a place as a value."""
        return value if isinstance(value, SSAValue) else self.constant(value)

    def constant_bytes(self, content: bytes) -> SSAValue:
        """A vector of bytes, one by one."""
        kind = VectorType(i8, [len(content)])
        known = self._known.get((kind, content))
        if known is None:
            signed = [byte - 256 if byte > 127 else byte for byte in content]
            attribute = DenseIntOrFPElementsAttr.from_list(kind, signed)
            known = self._known[kind, content] = self.at_start(llvm.ConstantOp(attribute, kind))
        return known

    # Arithmetic

    def udiv(self, x: Value, y: Value) -> SSAValue:
        """Unsigned quotient."""
        return self.insert(llvm.UDivOp(*self.pair(x, y)))

    def minimum(self, x: Value, y: Value) -> SSAValue:
        """The lesser of two signed integers."""
        return self.overloaded("smin", *self.pair(x, y))

    def maximum(self, x: Value, y: Value) -> SSAValue:
        """The greater of two signed integers."""
        return self.overloaded("smax", *self.pair(x, y))

    def reduced(self, kind: str, x: SSAValue) -> SSAValue:
        """The lanes of a vector of int32 as one number: their sum (`add`), greatest (`smax`)…"""
        return self.intrinsic(f"llvm.vector.reduce.{kind}.{suffix(x.type)}", [x], i32)

    def across(self, x: SSAValue, join: Callable[[SSAValue, SSAValue], SSAValue]) -> SSAValue:
        """The lanes of a vector of f32 joined to one number, halves with each other."""
        while lanes(x.type) > 1:
            x = join(*self.halves(x))
        return self.bits(x, f32)

    # Memory

    def stack(self, size: int) -> SSAValue:
        """The address of `size` bytes, aligned to 64, that live as long as the call."""
        memory = llvm.AllocaOp(self.constant(size), i8, alignment=64)
        # What an alloca gives is converted to a pointer to bytes, to which no vector can be stored.
        result = llvm.BitcastOp(memory.results[0], POINTER)
        self.behind_constants([memory, result])
        return result.results[0]

    def at(self, base: SSAValue, index: Index, element: Attribute = i8) -> SSAValue:
        """The address of an element of an array."""
        if index == 0:
            return base
        # An op made of what is known of it, as xDSL's own ways take five times as long.
        number = isinstance(index, int)
        properties = {
            "rawConstantIndices": _one_index(index if number else llvm.GEP_USE_SSA_VAL),
            "elem_type": element,
            "noWrapFlags": _NO_FLAGS,
        }
        operands = [base] if number else [base, index]
        return self.insert(
            llvm.GEPOp.create(operands=operands, result_types=[POINTER], properties=properties)
        )

    def load(self, address: SSAValue, kind: Attribute) -> SSAValue:
        """What stands at an address of any alignment."""
        properties = dict(_ANYWHERE)
        return self.insert(
            llvm.LoadOp.create(operands=[address], result_types=[kind], properties=properties)
        )

    def store(self, value: SSAValue, address: SSAValue) -> None:
        """Put a value at an address of any alignment."""
        self.append(llvm.StoreOp.create(operands=[value, address], properties=dict(_ANYWHERE)))

    def prefetch(self, address: SSAValue, nearness: int = 3) -> None:
        """Ask for a line of memory early, 3 for the nearest cache; any address is allowed."""
        flags = (self.constant(n, i32) for n in (0, nearness, 1))
        self.effect("llvm.prefetch.p0", address, *flags)

    def copy(self, target: SSAValue, source: SSAValue, count: Index) -> None:
        """Copy bytes between places that do not overlap."""
        plain = self.constant(0, i1)
        self.effect("llvm.memcpy.p0.p0.i64", target, source, self.integer(count), plain)

    def clear(self, target: SSAValue, count: Index) -> None:
        """Set bytes to zero."""
        value, plain = self.constant(0, i8), self.constant(0, i1)
        self.effect("llvm.memset.p0.i64", target, value, self.integer(count), plain)

    # Calls

    def address_of(self, name: str) -> SSAValue:
        """Where memory of the same module stands."""
        return self.insert(llvm.AddressOfOp(name, POINTER))

    def effect(self, name: str, *arguments: SSAValue) -> None:
        """Call an LLVM intrinsic that gives nothing."""
        self.append(llvm.CallIntrinsicOp(name, arguments, []))

    def call(self, name: str, *arguments: Index) -> None:
        """Call a function of the same module."""
        self.append(llvm.CallOp(name, *(self.integer(value) for value in arguments)))

    def ask(self, name: str, kind: Attribute, *arguments: SSAValue) -> SSAValue:
        """Call a function of the same module that gives a value."""
        return self.insert(llvm.CallOp(name, *arguments, return_type=kind))

    # Loops

    @contextmanager
    def each(self, start: Index, end: Index, step: int = 1) -> Generator[SSAValue]:
        """`for i in range(start, end, step)` around what is written inside of `with`."""
        if isinstance(start, int) and isinstance(end, int) and start < end <= start + step:
            yield self.constant(start)
            return
        with self.loop(start, end, step, ()) as turn:
            yield turn.index

    @contextmanager
    def loop(
        self,
        start: Index,
        end: Index,
        step: int,
        carried: Sequence[SSAValue],
    ) -> Generator[Turn]:
        """`each` with values that change from turn to turn, see `Turn`."""
        stop, kinds = self.integer(end), [value.type for value in carried]
        first = self.integer(start)
        head, after = Block(arg_types=[i64, *kinds]), Block(arg_types=kinds)
        self._region.add_block(head)
        enter = self.icmp("slt", first, stop)
        self.append(llvm.CondBrOp(enter, head, [first, *carried], after, list(carried)))
        self._enter(head)
        turn = Turn(head.args[0], list(head.args[1:]))
        yield turn
        following = self.add(turn.index, step)
        again = self.icmp("slt", following, stop)
        values = list(turn.values)
        self.append(llvm.CondBrOp(again, head, [following, *values], after, values))
        self._region.add_block(after)
        self._enter(after)
        turn.values = list(after.args)

    def cases(self, value: SSAValue, numbers: Iterable[int]) -> Iterator[int]:
        """Each of the numbers; what is written meanwhile is done only if the value is that one."""
        for number in numbers:
            with self.when(self.icmp("eq", value, number)):
                yield number

    @contextmanager
    def when(self, condition: SSAValue) -> Generator[None]:
        """What is written inside of `with` is done only if the condition holds."""
        inside, after = Block(), Block()
        self._region.add_block(inside)
        self.append(llvm.CondBrOp(condition, inside, [], after, []))
        self._enter(inside)
        yield
        self.append(llvm.BrOp(after))
        self._region.add_block(after)
        self._enter(after)
