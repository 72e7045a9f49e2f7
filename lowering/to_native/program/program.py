"""A program on its way to memory: the views that stand for its tensors, and the steps to take.

Rules (`shapes`, `structured`, `products`) are asked op by op; they say which view a
result is, and add steps that fill buffers. Nothing is written until all ops are understood. Not
here: the code of a step, the functions (`assembly`).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, i8, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ....dialects.elements import numpy_dtype
from ....dialects.shapes import DYNAMIC
from ....dialects.spike.types import dense_type
from ....ir.arrays import Array
from ....runtime.native.abi.linear import Precision
from ....runtime.native.abi.sizes import Size, product
from ..kernels.recipes import Recipe
from .nests import Nest, RefusedError
from .schedule import Schedule
from .views import Buffer, View, row_major, whole_view
from .writer import Writer

_Variant = TypeVar("_Variant")


class Step(ABC):
    """Something to do at run time.

    Attributes:
        location: that of the op it comes from.
    """

    location: LocationAttr | None = None

    @property
    @abstractmethod
    def reads(self) -> Sequence[View]:
        """What must stand in memory before."""

    @property
    @abstractmethod
    def writes(self) -> Sequence[View]:
        """What stands in memory afterwards."""

    @property
    def scratch(self) -> Buffer | None:
        """Memory that is needed meanwhile."""
        return None


class Padded(NamedTuple):
    """A tensor with room around another one: before and behind it on each axis."""

    view: View
    low: Sequence[int]
    high: Sequence[int]


@dataclass
class Program:
    """What is known so far.

    Attributes:
        recipe, precision: options of the pass.
        function: being compiled.
        rules: for each op the function that plans it.
        scalars: the ops that bodies of loops may have.
        target: what it is compiled for, as errors say.
        scheduled: how a nest of loops shall run.
        blocked: whether tensors may stand in another order than that of their axes.
        outside: whether matrices of trits are not the program's, but of whoever runs it.
        free: how many sizes it takes.
        keeps: whether weights may be expanded once, into memory of the program's own.
        adds: whether sums by trits may be code that adds.
        added: images, and the trits by which sums of them shall be such code.
        counted: instructions that sums by trits take as such code.
        order: the positions of its ops, and of those of the loops that it holds.
        views: tensors in memory.
        literals: tensors that become constants once something reads them from memory; kernels have
            their weights in layouts of their own.
        sizes: values of type `index`.
        equal: pairs of them that must be equal.
        needs: what must not be negative, as what is left of axes behind slices of them.
        lists: tensors of sizes.
        steps: in order.
        kernels: the functions that steps call, by what they are made for.
        tables: constants that hold addresses, and the entries of the store that stand there.
        turned: for tensors and axes, in a block, copies whose elements lie in a row along these.
        padded: for tensors that stand inside others, which those are.
    """

    recipe: Recipe
    precision: Precision
    function: FuncOp
    rules: Mapping[type[Operation], Planner]
    scalars: Container[type[Operation]]
    target: str
    scheduled: Callable[[Nest], Schedule]
    blocked: bool = False
    outside: bool = False
    free: int = 1
    keeps: bool = False
    adds: bool = False
    added: set[tuple[Buffer, Buffer]] = field(default_factory=set[tuple[Buffer, Buffer]])
    counted: dict[Buffer, int] = field(default_factory=dict[Buffer, int])
    order: dict[Operation, int] = field(default_factory=dict[Operation, int])
    views: dict[SSAValue, View] = field(default_factory=dict[SSAValue, View])
    literals: dict[SSAValue, Callable[[], View]] = field(
        default_factory=dict[SSAValue, Callable[[], View]]
    )
    sizes: dict[SSAValue, Size] = field(default_factory=dict[SSAValue, Size])
    needs: dict[Size, None] = field(default_factory=dict[Size, None])
    equal: dict[tuple[Size, Size], None] = field(default_factory=dict["tuple[Size, Size]", None])
    lists: dict[SSAValue, tuple[Size, ...]] = field(
        default_factory=dict[SSAValue, "tuple[Size, ...]"]
    )
    steps: list[Step] = field(default_factory=list[Step])
    kernels: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    tables: dict[Buffer, Sequence[str]] = field(default_factory=dict[Buffer, Sequence[str]])
    _held: dict[Buffer, Buffer] = field(default_factory=dict[Buffer, Buffer])
    turned: dict[tuple[Block | None, SSAValue, tuple[int, ...]], View] = field(
        default_factory=dict["tuple[Block | None, SSAValue, tuple[int, ...]]", "View"]
    )
    padded: dict[SSAValue, Padded] = field(default_factory=dict[SSAValue, "Padded"])
    _constants: dict[tuple[str, bytes], Buffer] = field(
        default_factory=dict[tuple[str, bytes], Buffer]
    )

    def kernel(self, variant: Hashable, stem: str) -> str:
        """The name of the function for a variant: alike steps share it."""
        number = sum(isinstance(other, type(variant)) for other in self.kernels)
        return self.kernels.setdefault(variant, f"{stem}_{number}")

    def kernels_of(self, kind: type[_Variant]) -> list[tuple[_Variant, str]]:
        """The variants of a kind that steps call, and the names of their functions."""
        return [(v, name) for v, name in self.kernels.items() if isinstance(v, kind)]

    def view(self, value: SSAValue) -> View:
        """Where a tensor stands."""
        known = self.views.get(value)
        if known is None:
            known = self.views[value] = self.literals[value]()
        return known

    def holds(self, value: SSAValue) -> bool:
        """Whether a value is a tensor that is known."""
        return value in self.views or value in self.literals

    def size(self, value: SSAValue) -> Size:
        """A value of type `index`.

        Raises:
            RefusedError: it does not follow from free sizes alone.
        """
        owner = value.owner
        if isinstance(owner, arith.ConstantOp):
            return Size.of(int(cast("IntegerAttr", owner.value).value.data))
        known = self.sizes.get(value)
        if known is None:
            raise RefusedError("uses a number that is computed from data")
        return known

    def meet(self, a: Size, b: Size) -> None:
        """Note that two sizes are one, which whoever runs the program sees to.

        Raises:
            RefusedError: they never are.
        """
        if (a - b).number not in (0, None):
            raise RefusedError(f"sizes {a} and {b} meet on one axis")
        divisor = gcd(*(c for size in (a, b) for _, c in size.terms)) or 1
        a, b = a.over(divisor), b.over(divisor)
        if a != b and (b, a) not in self.equal:
            self.equal[a, b] = None

    def new(
        self,
        element: Attribute,
        sizes: Sequence[Size],
        order: Sequence[int] | None = None,
        rows: int = 0,
    ) -> View:
        """A new tensor in the workspace; see `whole_view`.

        What lies along the last `rows` axes of that order, if that many are given, begins where a
        register of words would begin.
        """
        axes = [*range(len(sizes))] if order is None else [*order]
        outer, inner = axes[: len(axes) - rows], axes[len(axes) - rows :]
        row = product(sizes[axis] for axis in inner)
        if rows == 0 or row.number is None:
            return whole_view(Buffer(element, product(sizes)), sizes, axes)
        words = self.recipe.width // 2
        apart = Size.of(-(-row.number // words) * words)
        around = self.new(element, [*(sizes[axis] for axis in outer), apart])
        strides = dict(zip(outer, around.strides, strict=False))
        strides |= dict(zip(inner, row_major([sizes[axis] for axis in inner]), strict=True))
        return replace(
            around, sizes=tuple(sizes), strides=tuple(strides[a] for a in range(len(sizes)))
        )

    def constant(self, values: Array, element: Attribute) -> View:
        """A tensor among the constants; one with the same bytes is used again, unless narrowed."""
        array = np.asarray(values, dtype=numpy_dtype(element), order="C")
        sizes = [Size.of(n) for n in array.shape]
        key = (str(element), hashlib.sha256(array.tobytes()).digest())
        buffer = self._constants.get(key)
        if buffer is None or buffer.element != element:
            count = Size.of(array.size)
            buffer = Buffer(element, count, "constant", content=array.reshape(-1))
            self._constants[key] = buffer
        return whole_view(buffer, sizes)

    def held(self, names: Sequence[str]) -> View:
        """A table of the addresses of arrays that whoever runs the program holds."""
        size = Size.of(len(names))
        buffer = next((known for known, its in self.tables.items() if its == names), None)
        if buffer is None:
            buffer = Buffer(i64, size, "constant", content=np.zeros(len(names), np.int64))
            self.tables[buffer] = names
        return whole_view(buffer, [size])

    def held_weights(self, key: str, layout: str, count: int) -> View:
        """Bytes of a parameter in a layout, which whoever runs the program holds."""
        table = self.held([f"{key}:{layout}"])
        if table.buffer not in self._held:
            self._held[table.buffer] = Buffer(i8, Size.of(count), "held", table=table)
        return whole_view(self._held[table.buffer], [Size.of(count)])

    def last_use(self, value: SSAValue) -> int:
        """The position of the last op that needs a value, -1 if none does."""
        return max((self.position(use.operation) for use in value.uses), default=-1)

    def position(self, op: Operation) -> int:
        """The position of the op of the function's block that an op is or stands in."""
        while op not in self.order:
            parent = op.parent_op()
            assert parent is not None
            op = parent
        return self.order[op]

    def writable(self, value: SSAValue, op: Operation) -> bool:
        """Whether `op` may overwrite a tensor: nothing later looks at its memory.

        What stands in another block does, as a loop comes by again.
        """
        buffer = self.view(value).buffer
        here = self.position(op)
        uses = sum(use.operation is op or use.operation.parent_op() is op for use in value.uses)
        if buffer.place != "workspace" or uses > 1:
            return False
        return all(
            _block(other) is op.parent
            and self.last_use(other) <= here
            and (other is value or self.last_use(other) < here)
            for other, view in self.views.items()
            if view.buffer is buffer
        )


def _block(value: SSAValue) -> Block | None:
    """The block that a value is made in."""
    return value.owner if isinstance(value.owner, Block) else value.owner.parent


Planner = Callable[[Program, Any], None]
"""`rule(program, op)`: notes the views of the results, adds steps."""


def sizes_of(value: SSAValue, free: Sequence[Size] | None) -> tuple[Size, ...]:
    """The sizes of a tensor; `free` says what they are where its type does not."""
    shape = dense_type(value).get_shape()
    if DYNAMIC in shape and free is None:
        raise RefusedError("has a size that is not known")
    return tuple(
        free[axis] if size == DYNAMIC and free is not None else Size.of(size)
        for axis, size in enumerate(shape)
    )


@dataclass
class KernelStep(Step):
    """One call of a kernel.

    Attributes:
        name: of the function.
        operands: what it reads, in the order of its arguments; `None` for a table that is not
            there.
        outputs: what it writes.
        sizes: its last arguments.
        memory: scratch, if it needs any.
        place: how many of the operands stand before the outputs and the scratch memory; by default
            all.
    """

    name: str
    operands: Sequence[View | None]
    outputs: Sequence[View]
    sizes: Sequence[Size]
    memory: Buffer | None = None
    place: int | None = None

    @property
    def reads(self) -> Sequence[View]:
        """The operands."""
        return [view for view in self.operands if view is not None]

    @property
    def writes(self) -> Sequence[View]:
        """The outputs."""
        return self.outputs

    @property
    def scratch(self) -> Buffer | None:
        """Memory of the kernel."""
        return self.memory

    def call(self, writer: Writer, address: Callable[[View], SSAValue], *more: SSAValue) -> None:
        """Append the call, with more arguments behind the sizes."""
        place = len(self.operands) if self.place is None else self.place
        memory = [] if self.memory is None else [View(self.memory, (), ())]
        views = [*self.operands[:place], *self.outputs, *memory, *self.operands[place:]]
        arguments = [writer.null() if view is None else address(view) for view in views]
        writer.call(self.name, *arguments, *self.numbers(writer), *more)

    def numbers(self, writer: Writer) -> list[SSAValue]:
        """The last arguments."""
        return [writer.size(size) for size in self.sizes]


class SharedStep(KernelStep):
    """A call of a kernel whose things threads can share out."""

    @property
    @abstractmethod
    def things(self) -> int:
        """How many there are."""

    @property
    def preparation(self) -> KernelStep | None:
        """What comes before any thing; where nothing does, each thread has scratch of its own."""
        return None

    @abstractmethod
    def compute(
        self,
        writer: Writer,
        address: Callable[[View], SSAValue],
        bounds: tuple[SSAValue, SSAValue],
    ) -> None:
        """Append the call for some things."""
