"""What rules write with: a model's values, and the small pieces that rules share.

Rules stand in the `rules_*` files. Not here: how values are held and computed (`values`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, OpResult, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..ir_builder import parted
from ..problems import ProblemError
from .calls import Call, Results, UnknownValueError, Value, element_type
from .sizes import Free, Size, reshape_target, show, static
from .values import LARGEST_KNOWN, Values


class Builder(Values):
    """`Values`, with pieces of several ops."""

    def convert(self, value: SSAValue, element: Attribute | SSAValue) -> SSAValue:
        """`value` with another element type."""
        if isinstance(element, SSAValue):
            element = tensor_type(element).element_type
        if tensor_type(value).element_type == element:
            return value
        return self.add(tensor.ConvertOp(value, element))

    def bare(self, value: SSAValue) -> SSAValue:
        """A value of a format as the bytes it is, which are plain integers."""
        if value in self.arrays:
            plain = self.known(self.arrays[value], tensor_type(value).element_type)
            if value in self.names:
                self.names[plain] = self.names[value]
            return plain
        plain = self.add(tensor.PermuteOp(value, list(range(self.rank(value)))))
        self.formats.pop(plain, None)
        return plain

    def codes(self, value: SSAValue) -> SSAValue:
        """The bytes of a value of a format as `i32`."""
        format = self.formats.pop(value)
        integers = self.convert(value, i32)
        self.formats[value] = format
        return integers

    def real(self, value: SSAValue) -> SSAValue:
        """`value` as one of the program, which counts free sizes where it computes with them."""
        if value not in self.symbolic:
            return super().real(value)
        if value not in self._written:
            table = self.symbolic[value]
            rows = [self.real(self._counted(size)) for size in table.reshape(-1)]
            joined = rows[0] if len(rows) == 1 else self.add(tensor.ConcatenateOp(rows, 0))
            shaped = self.add(tensor.ReshapeToOp(joined, list(table.shape)))
            self._written[value] = self.convert(shaped, value)
        return self._written[value]

    def _counted(self, size: Size) -> SSAValue:
        """A size as a number of the program, i64 [1]."""
        if not isinstance(size, Free):
            return self.indices([size])
        if self._argument_with(size) is not None or size == Free.named(min(size.names)):
            return self.add(tensor.ReduceSumOp(self.ones(size), [0], keepdims=True))
        total: SSAValue | None = None
        for names, count in size.terms:
            term = self.indices([count])
            for name in names:
                term = self.add(tensor.MulOp(self._counted(Free.named(name)), term))
            total = term if total is None else self.add(tensor.AddOp(total, term))
        assert total is not None
        return total

    def ones(self, size: Size) -> SSAValue:
        """As many ones, i64.

        Raises:
            ProblemError: no argument has the size, nor those that it is a sum of.
        """
        if not isinstance(size, Free):
            return self.indices(np.ones(size))
        if self._argument_with(size) is not None or len(size.terms) == 1:
            like = Formula(self, self._with_size(size, 0, 1))
            return self.refine(like.filled(1).value, [size])
        less, rows = 0, list[SSAValue]()
        for names, count in size.terms:
            if names and count > 0:
                rows += [self.ones(Free(((names, 1),)))] * count
            elif not names and count > 0:
                rows.append(self.ones(count))
            elif not names:
                less = count
            else:
                self._with_size(size, 0, 1)  # which says what is missing
        joined = self.add(tensor.ConcatenateOp(rows, 0)) if len(rows) > 1 else rows[0]
        return self.refine(self.cut(joined, 0, 0, less) if less else joined, [size])

    def arange(self, size: Size) -> SSAValue:
        """0, 1, … of i64 along an axis."""
        if not isinstance(size, Free):
            return self.indices(np.arange(size))
        counted = self.add(tensor.CumsumOp(self.ones(size), 0))
        return self.refine(self.add(tensor.SubOp(counted, self.indices(1))), [size])

    def reshape(self, value: SSAValue, wanted: Sequence[Size]) -> SSAValue:
        """`value` with the sizes `wanted`."""
        sizes, wanted = self.sizes(value), tuple(wanted)
        if sizes == wanted:
            return value
        if value in self.symbolic:
            return self.sizes_value(self.symbolic[value].reshape(static(wanted)))
        try:
            target = reshape_target(sizes, wanted)
        except ProblemError:
            if [isinstance(size, Free) for size in wanted].count(True) != 2 or 0 in wanted:
                raise
            return self._parted(value, wanted)
        result = self.add(tensor.ReshapeToOp(value, target))
        return result if result in self.arrays else self.refine(result, wanted)

    def _parted(self, value: SSAValue, wanted: Sequence[Size]) -> SSAValue:
        """A reshape to two free sizes that `value` does not have: its rows, picked anew."""
        first, second = [axis for axis, size in enumerate(wanted) if isinstance(size, Free)]
        if second != first + 1:
            raise ProblemError(f"it makes {show(wanted)} of other sizes; fix one of them")
        joined = [*wanted[:first], wanted[first] * wanted[second], *wanted[second + 1 :]]
        target = [-1 if isinstance(size, Free) else size for size in joined]
        rows = self.add(tensor.ReshapeToOp(value, target))
        places = [self.arange(wanted[axis]) for axis in (first, second)]
        return self.refine(parted(self, rows, first, *places), wanted)

    def permute(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        """The axes in another order."""
        if list(perm) == list(range(len(perm))):
            return value
        return self.add(tensor.PermuteOp(value, list(perm)))

    def move_axis(self, value: SSAValue, source: int, target: int) -> SSAValue:
        """One axis moved to another place, the others in order."""
        axes = list(range(self.rank(value)))
        axes.insert(target % len(axes), axes.pop(source % len(axes)))
        return self.permute(value, axes)

    def cut(
        self, value: SSAValue, axis: int, start: int, end: int = tensor.shape.SLICE_END,
        step: int = 1,
    ) -> SSAValue:  # fmt: skip
        """value[start:end:step] along one axis."""
        return Formula(self, value).cut(axis, start, end, step).value

    def along(self, vector: SSAValue, axis: int, rank: int) -> SSAValue:
        """A vector shaped to broadcast along `axis` of a tensor of `rank`; a scalar stays."""
        if self.rank(vector) == 0:
            return vector
        wanted: list[Size] = [1] * rank
        wanted[axis] = self.sizes(vector)[0]
        return self.reshape(vector, wanted)

    def stretch(self, value: SSAValue, wanted: Sequence[Size]) -> SSAValue:
        """Axes of size 1 repeated up to `wanted`, which has the rank of `value`."""
        sizes = self.sizes(value)
        target = [
            -1 if old == new or isinstance(new, Free) else new
            for old, new in zip(sizes, wanted, strict=True)
        ]
        if any(size != -1 for size in target):
            value = self.add(tensor.ExpandOp(value, target))
        for axis, (old, new) in enumerate(zip(sizes, wanted, strict=True)):
            if isinstance(new, Free) and old != new:
                value = self._repeated(value, axis, new)
        return value

    def _repeated(self, value: SSAValue, axis: int, size: Free) -> SSAValue:
        like = self._with_size(size, axis, self.rank(value))
        stretched = Formula(self, like).filled(Formula(self, value)).value
        sizes = list(self.sizes(value))
        sizes[axis] = size
        return self.refine(stretched, sizes)

    def _with_size(self, size: Free, axis: int, rank: int) -> SSAValue:
        """Some value of the program's, with `size` along `axis` and one element on other axes."""
        argument = self._argument_with(size)
        if argument is None:
            raise ProblemError(f"no argument has the size {size}; give the inputs fixed shapes")
        sizes, part = self.sizes(argument), argument
        for other in range(len(sizes)):
            if other != sizes.index(size):
                part = self.cut(part, other, 0, 1)
        part = self.convert(part, i64)
        return self.add(tensor.ReshapeToOp(part, [-1 if a == axis else 1 for a in range(rank)]))

    def _argument_with(self, size: Free) -> SSAValue | None:
        """An argument with that size, else any value, unless it is a sum of sizes of arguments."""
        arguments = {argument: self.sizes(argument) for argument in self.block.args}
        known = set[Size]().union(*arguments.values())
        if not all(Free.named(name) in known for name in size.names):
            arguments |= {
                value: sizes
                for value, sizes in self._sizes.items()
                if isinstance(value, OpResult) and value.op.parent is self.block
            }
        for value, sizes in arguments.items():
            if size in sizes and 0 not in sizes and value not in self.formats:
                return value
        return None


Rule = Callable[[Builder, Call], Results]
"""Writes the ops of a node, and gives its results."""

__all__ = [
    "LARGEST_KNOWN", "Builder", "Call", "Results", "Rule", "UnknownValueError", "Value",
    "element_type",
]  # fmt: skip
