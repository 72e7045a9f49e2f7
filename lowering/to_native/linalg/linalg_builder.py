"""The builder of `linalg` ops, and of the ops of `tensor` that MLIR has too.

`LinalgBuilder` inserts before the op that is being lowered, with its location. Sizes are integers
where they are known, else values of type `index` (`Size`). Not here: what an op of ours means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.dialects.builtin import (
    AffineMapAttr,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    i8,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from ....dialects.inference import tensor_type
from ....dialects.parameters import Array, dense
from ....dialects.shapes import DYNAMIC, AnyTensor, Shape
from ....dialects.ternary import TritType
from .scalars import Number, Scalars

Size = int | SSAValue
Body: TypeAlias = (
    Callable[[Scalars, SSAValue], SSAValue]
    | Callable[[Scalars, SSAValue, SSAValue], SSAValue]
    | Callable[[Scalars, SSAValue, SSAValue, SSAValue], SSAValue]
    | Callable[[Scalars, SSAValue, SSAValue, SSAValue, SSAValue, SSAValue], SSAValue]
)
"""`body(scalars, *elements)`: the element of the result."""

Step: TypeAlias = Callable[[Scalars, SSAValue, SSAValue], SSAValue]
"""`step(scalars, element, so_far)`: one step of a reduction."""

GenericBody: TypeAlias = (
    Callable[[Scalars, SSAValue, SSAValue], Sequence[SSAValue]]
    | Callable[[Scalars, SSAValue, SSAValue, SSAValue], Sequence[SSAValue]]
)
"""`body(scalars, *inputs, *outputs)`: the new elements of the outputs."""

Rule = Callable[..., SSAValue | tuple[SSAValue, ...]]
"""`rule(builder, op, *operands)`: the values that take the place of the results.

Operands are lowered already: trits are i8, integers signless, f16 and bf16 widened to f32.
"""

MAY_FUSE = "may_fuse"
"""An attribute of products and sums that may be rounded once, since the results stay the same."""

PARALLEL, REDUCTION = IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()


def element(value: SSAValue) -> Attribute:
    """The element type of a tensor."""
    return tensor_type(value).element_type


def rank(value: SSAValue) -> int:
    """The number of axes of a tensor."""
    return tensor_type(value).get_num_dims()


def dims(count: int, start: int = 0) -> list[AffineExpr]:
    """The loop dimensions `start` … `start + count - 1`."""
    return [AffineExpr.dimension(start + axis) for axis in range(count)]


def zero() -> AffineExpr:
    """The position 0."""
    return AffineExpr.constant(0)


def static_shape(sizes: Sequence[Size]) -> list[int]:
    """`sizes`, those not known early as `DYNAMIC`."""
    return [size if isinstance(size, int) else DYNAMIC for size in sizes]


def broadcast_exprs(
    shape: Shape, result: Sequence[AffineExpr], sizes: Sequence[Size]
) -> list[AffineExpr]:
    """Where an operand of `shape` is read at the position `result`, by NumPy's broadcasting."""
    lead = len(result) - len(shape)
    return [
        zero() if size == 1 and sizes[lead + axis] != 1 else result[lead + axis]
        for axis, size in enumerate(shape)
    ]


def may_fuse(op: Operation | Block) -> None:
    """Let LLVM add products inside of an op without rounding them first."""
    contract = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
    for inner in op.walk():
        if isinstance(inner, arith.MulfOp | arith.AddfOp):
            inner.fastmath = contract


class LinalgBuilder(Scalars):
    """Inserts ops before `anchor`."""

    def __init__(self, anchor: Operation) -> None:
        super().__init__(self._insert_before)
        self.anchor = anchor
        self.unsigned: set[SSAValue] = set()
        """Tensors of signless integers that stand for unsigned ones."""
        self.of_numbers: set[Operation] = set()
        """Quantisations of what is never NaN."""
        self.of_small: set[Operation] = set()
        """Those of them whose steps a float32 counts, with a bit to spare."""
        self.declarations: dict[str, FuncOp] = {}
        """Functions of the C library that are called, by name."""
        self.rounded: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        """Float images of this block that were rounded to bytes: these, and their scales."""
        self.widened: dict[tuple[SSAValue, Attribute], SSAValue] = {}
        """Factors of this block in the types of their sums."""
        self._sizes: dict[SSAValue, list[Size]] = {}
        self._block = anchor.parent

    def move_to(self, anchor: Operation) -> None:
        """Insert before `anchor` from now on."""
        self.anchor = anchor
        if anchor.parent is not self._block:
            self._block = anchor.parent
            self.rounded.clear()
            self.widened.clear()
            self._sizes.clear()  # values of another block need not be visible here

    def _insert_before(self, op: Operation) -> None:
        block = self.anchor.parent
        assert block is not None
        for inner in op.walk():
            inner.location = self.anchor.location
        block.insert_op_before(op, self.anchor)

    @staticmethod
    def is_unsigned_type(type: Attribute) -> bool:
        """Whether `type` is an unsigned integer."""
        if not isinstance(type, IntegerType):
            return False
        return cast("IntegerType", type).signedness.data == Signedness.UNSIGNED

    @staticmethod
    def signless(type: Attribute) -> Attribute:
        """The element type that stands for `type` in MLIR's arithmetic: i8 for trits."""
        if isinstance(type, TritType):
            return i8
        if isinstance(type, IntegerType):
            return IntegerType(cast("IntegerType", type).width.data)
        return type

    def library_function(self, name: str, arity: int, type: Attribute) -> str:
        """`name`, declared in the module as a function of the C library."""
        self.declarations[name] = FuncOp.external(name, [type] * arity, [type])
        return name

    def size(self, value: SSAValue, axis: int) -> Size:
        """The size of an axis."""
        axis %= rank(value)
        known = self._sizes.get(value)
        if known is None:
            shape = tensor_type(value).get_shape()
            known = [
                self.insert(upstream.DimOp(value, self.constant(a, IndexType())))
                if size == DYNAMIC
                else size
                for a, size in enumerate(shape)
            ]
            self._sizes[value] = known
        return known[axis]

    def with_sizes(self, value: SSAValue, sizes: Sequence[Size]) -> SSAValue:
        """`value`, whose sizes are known to be `sizes`; equal sizes stay equal values."""
        shape = tensor_type(value).get_shape()
        self._sizes[value] = [
            known if have == DYNAMIC else have for have, known in zip(shape, sizes, strict=True)
        ]
        return value

    def sizes(self, value: SSAValue) -> list[Size]:
        """The sizes of all axes."""
        return [self.size(value, axis) for axis in range(rank(value))]

    def size_value(self, size: Size) -> SSAValue:
        """A size as a value of type `index`."""
        return self.constant(size, IndexType()) if isinstance(size, int) else size

    def plus(self, a: Size, b: Size) -> Size:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        return a if b == 0 else self.add(self.size_value(a), self.size_value(b))

    def times(self, a: Size, b: Size) -> Size:
        """a·b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        return a if b == 1 else self.mul(self.size_value(a), self.size_value(b))

    def product(self, sizes: Sequence[Size]) -> Size:
        """The product of sizes."""
        total: Size = 1
        for size in sizes:
            total = self.times(total, size)
        return total

    def over(self, a: Size, b: Size) -> Size:
        """⌊a / b⌋ of numbers that are not negative."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if b == 1 else self.div(self.size_value(a), self.size_value(b), unsigned=True)

    def broadcast_sizes(self, values: Sequence[SSAValue]) -> list[Size]:
        """The sizes that tensors have together, by NumPy's rules; a `?` is not stretched."""
        shapes = [tensor_type(value).get_shape() for value in values]
        result: list[Size] = []
        for axis in range(-max(map(len, shapes)), 0):
            present = [
                (value, shape[axis])
                for value, shape in zip(values, shapes, strict=True)
                if len(shape) >= -axis
            ]
            known = [size for _, size in present if size not in (1, DYNAMIC)]
            free = [value for value, size in present if size == DYNAMIC]
            result.append(known[0] if known else self.size(free[0], axis) if free else 1)
        return result

    def empty(self, sizes: Sequence[Size], type: Attribute) -> SSAValue:
        """A tensor without defined values."""
        shape = static_shape(sizes)
        free = [size for size in sizes if isinstance(size, SSAValue)]
        return self.with_sizes(self.insert(upstream.EmptyOp(free, TensorType(type, shape))), sizes)

    def fill(self, sizes: Sequence[Size], number: Number, type: Attribute) -> SSAValue:
        """A tensor of one number."""
        scalar = self.constant(number, type)
        filled = self.insert(linalg.FillOp([scalar], [self.empty(sizes, type)]))
        return self.with_sizes(filled, sizes)

    def dense(self, array: Array, type: Attribute) -> SSAValue:
        """A constant tensor with the bytes of `array`."""
        return self.insert(arith.ConstantOp(dense(array, type)))

    def cast_to(self, value: SSAValue, type: AnyTensor) -> SSAValue:
        """`value` with the sizes that `type` states, which it has at run time."""
        if value.type == type:
            return value
        sizes = self._sizes.get(value)
        cast = self.insert(upstream.CastOp(value, type))
        if value in self.unsigned:
            self.unsigned.add(cast)
        return cast if sizes is None else self.with_sizes(cast, sizes)

    def generic(
        self,
        inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        outputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        iterators: Sequence[IteratorTypeAttr],
        body: GenericBody,
    ) -> list[SSAValue]:
        """A `linalg.generic` whose body is `body(scalars, *elements)`, inputs before outputs."""
        operands = [*inputs, *outputs]
        block = Block(arg_types=[element(value) for value, _ in operands])
        results = body(Scalars(block.add_op), *block.args)
        block.add_op(linalg.YieldOp(*results))
        op = linalg.GenericOp(
            [value for value, _ in inputs],
            [value for value, _ in outputs],
            Region(block),
            [AffineMapAttr(AffineMap(len(iterators), 0, tuple(e))) for _, e in operands],
            iterators,
            [value.type for value, _ in outputs],
        )
        self.insert(op)
        return [
            self.with_sizes(result, self.sizes(init))
            for result, (init, _) in zip(op.results, outputs, strict=True)
        ]

    def map(self, values: Sequence[SSAValue], body: Body, type: Attribute) -> SSAValue:
        """`body` of the elements of tensors that broadcast; elements of the result have `type`."""
        return self.map_to(self.broadcast_sizes(values), values, body, type)

    def map_to(
        self, sizes: Sequence[Size], values: Sequence[SSAValue], body: Body, type: Attribute
    ) -> SSAValue:
        """`map` with given result sizes."""
        result = dims(len(sizes))

        def element_of_result(s: Scalars, *elements: SSAValue) -> list[SSAValue]:
            return [body(s, *elements[:-1])]

        (mapped,) = self.generic(
            [(v, broadcast_exprs(tensor_type(v).get_shape(), result, sizes)) for v in values],
            [(self.empty(sizes, type), result)],
            [PARALLEL] * len(sizes),
            element_of_result,
        )
        return mapped

    def convert_elements(self, value: SSAValue, type: Attribute) -> SSAValue:
        """`value` with elements of another type."""
        if element(value) == type:
            return value
        unsigned = value in self.unsigned
        return self.map([value], lambda s, x: s.convert(x, type, unsigned=unsigned), type)

    def reduce(self, value: SSAValue, axes: Sequence[int], step: Step, start: Number) -> SSAValue:
        """`step` over all elements along `axes`, beginning with `start`."""
        count = rank(value)
        reduced = {axis % count for axis in axes}
        sizes = self.sizes(value)
        remaining = [axis for axis in range(count) if axis not in reduced]
        every = dims(count)
        init = self.fill([sizes[axis] for axis in remaining], start, element(value))
        (result,) = self.generic(
            [(value, every)],
            [(init, [every[axis] for axis in remaining])],
            [REDUCTION if axis in reduced else PARALLEL for axis in range(count)],
            lambda s, x, so_far: [step(s, x, so_far)],
        )
        return result

    def pad(
        self, value: SSAValue, low: Sequence[int], high: Sequence[int], number: Number
    ) -> SSAValue:
        """`value` with `number` around it."""
        if not any((*low, *high)):
            return value
        type = tensor_type(value)
        block = Block(arg_types=[IndexType()] * len(low))
        block.add_op(upstream.YieldOp(Scalars(block.add_op).constant(number, type.element_type)))
        shape = [
            DYNAMIC if n == DYNAMIC else n + a + b
            for n, a, b in zip(type.get_shape(), low, high, strict=True)
        ]
        result: TensorType = TensorType(type.element_type, shape)
        sizes = [
            self.plus(size, a + b) for size, a, b in zip(self.sizes(value), low, high, strict=True)
        ]
        padded = upstream.PadOp(value, [], [], Region(block), low, high, result)
        return self.with_sizes(self.insert(padded), sizes)
