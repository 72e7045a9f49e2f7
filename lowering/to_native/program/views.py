"""Tensors in memory: buffers, and views of them that need no copy to permute, cut or stretch.

Not here: where a buffer stands in the workspace (`arena`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, Signedness, i8
from xdsl.ir import Attribute

from ....dialects.elements import numpy_dtype
from ....runtime.native.abi.sizes import ONE, ZERO, Size, product
from ..llvm.types import converted, width

Place = Literal["input", "output", "constant", "workspace", "step", "held", "kept"]


UI8 = IntegerType(8, Signedness.UNSIGNED)
"""Bytes without a sign, as narrow integers stand in memory."""


def stored(element: Attribute) -> Attribute:
    """The type that an element has in memory: a byte for a truth value, i16 for a bf16."""
    kind = IntegerType(width(element)) if has_no_sign(element) else converted(element)
    return i8 if kind == IntegerType(1) else kind


def has_no_sign(element: Attribute) -> bool:
    """Whether an integer in memory is one without a sign, which only narrow ones say."""
    if not isinstance(element, IntegerType):
        return False
    return cast("IntegerType[int]", element).signedness.data == Signedness.UNSIGNED


def element_bytes(element: Attribute) -> int:
    """Bytes of an element."""
    return numpy_dtype(element).itemsize


@dataclass(eq=False)
class Buffer:
    """Memory of one tensor.

    Attributes:
        element: type of the elements, signless.
        count: elements.
        place: whose memory it is; `kept` is the program's own, which the first call fills.
        number: of the input or output.
        content: what a constant holds, contiguous.
        offset: bytes from the start of the constants or the workspace, once that is planned.
        low: what elements are above those that stand in memory.
        table: where its address stands, if that is known only when the program runs.
        run: for a step, the steps of which a loop takes one after the other; time comes first.
    """

    element: Attribute
    count: Size
    place: Place = "workspace"
    number: int = 0
    content: NDArray[np.generic] | None = None
    offset: Size = ZERO
    low: int = 0
    table: View | None = None
    run: View | None = None

    @property
    def size(self) -> Size:
        """Bytes."""
        return self.count * Size.of(element_bytes(self.element))


@dataclass(frozen=True)
class View:
    """Elements of a buffer as a tensor; offset and strides count elements."""

    buffer: Buffer
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = ZERO

    @property
    def element(self) -> Attribute:
        """The type of the elements."""
        return self.buffer.element

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.sizes)

    @property
    def contiguous(self) -> bool:
        """Whether elements follow each other in row-major order."""
        return self._packed(range(self.rank))

    @property
    def order(self) -> list[int] | None:
        """The axes as they lie in memory, the outermost first; `None` where strides are free."""
        strides = [stride.number for stride in self.strides]
        if None in strides:
            return None
        return sorted(range(self.rank), key=lambda axis: -(strides[axis] or 0))

    def ends_with(self, last: Sequence[int]) -> bool:
        """Whether what lies along the axes is in a row, that along the last one after the other."""
        if self.strides[last[-1]] != ONE:
            return False
        return len(last) == 1 or (self.order or [])[-len(last) :] == [*last]

    @property
    def whole(self) -> bool:
        """Whether it is all of its buffer, in order."""
        return self.contiguous and self.offset == ZERO and product(self.sizes) == self.buffer.count

    def _packed(self, axes: Sequence[int]) -> bool:
        """Whether the axes are those of a contiguous block (its last stride being 1)."""
        expected = ONE
        for axis in reversed(axes):
            if self.sizes[axis] == ONE:
                continue
            if self.strides[axis] != expected:
                return False
            expected = expected * self.sizes[axis]
        return True

    def cut(self, offsets: Sequence[Size], sizes: Sequence[Size], steps: Sequence[Size]) -> View:
        """The elements offset + step·i of each axis."""
        start = self.offset
        for offset, stride in zip(offsets, self.strides, strict=True):
            start = start + offset * stride
        strides = (s * step for s, step in zip(self.strides, steps, strict=True))
        return replace(self, offset=start, sizes=tuple(sizes), strides=tuple(strides))

    def expanded(self, groups: Sequence[Sequence[int]], sizes: Sequence[Size]) -> View:
        """Each axis cut into the group of axes of the result, with these sizes."""
        strides: list[Size] = []
        for axis, group in enumerate(groups):
            inner = self.strides[axis]
            backwards: list[Size] = []
            for position in reversed(group):
                backwards.append(inner)
                inner = inner * sizes[position]
            strides += reversed(backwards)
        strides += [ONE] * (len(sizes) - len(strides))
        return replace(self, sizes=tuple(sizes), strides=tuple(strides))

    def collapsed(self, groups: Sequence[Sequence[int]]) -> View | None:
        """Each group of axes merged to one, `None` if their elements lie too irregularly."""
        sizes: list[Size] = []
        strides: list[Size] = []
        for group in groups:
            axes = [axis for axis in group if self.sizes[axis] != ONE]
            for outer, inner in pairwise(axes):
                if self.strides[outer] != self.strides[inner] * self.sizes[inner]:
                    return None
            sizes.append(product(self.sizes[axis] for axis in group))
            strides.append(self.strides[axes[-1]] if axes else ONE)
        return replace(self, sizes=tuple(sizes), strides=tuple(strides))


def row_major(sizes: Sequence[Size]) -> tuple[Size, ...]:
    """The strides of a contiguous tensor."""
    strides: list[Size] = []
    step = ONE
    for size in reversed(sizes):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def whole_view(buffer: Buffer, sizes: Sequence[Size], order: Sequence[int] | None = None) -> View:
    """All of a buffer as a tensor: its axes in memory as they come, or in an order from outside."""
    if order is None:
        return View(buffer, tuple(sizes), row_major(sizes))
    steps = row_major([sizes[axis] for axis in order])
    return View(buffer, tuple(sizes), tuple(steps[order.index(a)] for a in range(len(sizes))))


def holder(view: View) -> Buffer:
    """The buffer that a view looks at; of one step of a run that of the run."""
    return view.buffer if view.buffer.run is None else holder(view.buffer.run)
