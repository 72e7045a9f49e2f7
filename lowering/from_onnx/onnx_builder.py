"""What rules write with: a model's values, and the small pieces that rules share.

Rules stand in the `rules_*` files. Not here: how values are held and computed (`values`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError
from .calls import Call, Results, UnknownValueError, Value, element_type
from .sizes import Free, Size, reshape_target, static
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

    def reshape(self, value: SSAValue, wanted: Sequence[Size]) -> SSAValue:
        """`value` with the sizes `wanted`."""
        sizes, wanted = self.sizes(value), tuple(wanted)
        if sizes == wanted:
            return value
        if value in self.symbolic:
            return self.sizes_value(self.symbolic[value].reshape(static(wanted)))
        result = self.add(tensor.ReshapeToOp(value, reshape_target(sizes, wanted)))
        return result if result in self.arrays else self.refine(result, wanted)

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
        for argument in self.block.args:
            sizes = self.sizes(argument)
            if size not in sizes or 0 in sizes or argument in self.formats:
                continue
            place, part = sizes.index(size), self.convert(argument, i64)
            for other in range(len(sizes)):
                if other != place:
                    part = self.cut(part, other, 0, 1)
            return self.add(tensor.ReshapeToOp(part, [-1 if a == axis else 1 for a in range(rank)]))
        raise ProblemError(f"no argument has the size {size}; give the inputs fixed shapes")


Rule = Callable[[Builder, Call], Results]
"""Writes the ops of a node, and gives its results."""

__all__ = [
    "LARGEST_KNOWN", "Builder", "Call", "Results", "Rule", "UnknownValueError", "Value",
    "element_type",
]  # fmt: skip
