"""Indices and slices of lists and tensors."""

from __future__ import annotations

from .annotations import DECODE_RULE
from .dims import Dim
from .elaborated import Value
from .nodes import Expression, Index, Slice
from .rules_shape import slice_size
from .signatures import Opaque, RuleCall, RuleError, Undetermined
from .tensor_operators import TensorOperators
from .values import POISON, Frame, Poison, Range, Trit, describe, is_list


class Indexing(TensorOperators):
    """Evaluates `x[i, a:b]`."""

    def index(self, expression: Index, frame: Frame, compile_time: bool) -> object:
        base = self.evaluate(expression.base, frame, compile_time)
        if isinstance(base, Poison):
            return POISON
        if isinstance(base, Range):
            base = tuple(base.numbers) if len(base.numbers) <= 10_000 else base
        if is_list(base):
            return self._index_list(base, expression, frame)
        if not isinstance(base, Value):
            return self.error(f"cannot index {describe(base)}", expression.span)
        return self._index_tensor(base, expression, frame)

    def _index_list(self, items: tuple[object, ...], expression: Index, frame: Frame) -> object:
        if len(expression.indices) != 1:
            return self.error("a list has one index", expression.span)
        (index,) = expression.indices
        if isinstance(index, Slice):
            parts = self._slice_parts(index, frame)
            if parts is None:
                return POISON
            start, stop, step = parts
            if isinstance(stop, Dim) or step == 0:
                return self.error("a list needs bounds known while compiling", index.span)
            return items[slice(start, stop, step)]
        number = self._index_number(index, frame)
        if not isinstance(number, int):
            return POISON
        if not -len(items) <= number < len(items):
            return self.error(
                f"index {number} is out of range for a list of {len(items)}", index.span
            )
        return items[number]

    def _index_number(self, node: Expression, frame: Frame) -> int | None:
        value = self.evaluate(node, frame, compile_time=True)
        if isinstance(value, Dim):
            value = self.unknown_number(value, "int", node.span)
        if isinstance(value, Trit):
            value = value.value
        if isinstance(value, Poison | Opaque):
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        self.error(
            f"an index is an int known while compiling, found {describe(value)}",
            node.span,
            suggestion="use gather(…)" if isinstance(value, Value) else None,
        )
        return None

    def _slice_parts(
        self, node: Slice, frame: Frame
    ) -> tuple[int | None, int | Dim | None, int] | None:
        start: int | None = None
        stop: int | Dim | None = None
        step = 1
        if node.start is not None:
            start = self._index_number(node.start, frame)
            if start is None:
                return None
        if node.stop is not None:
            value = self.evaluate(node.stop, frame, compile_time=True)
            if isinstance(value, Dim):
                stop = value
            else:
                number = self._index_number(node.stop, frame)
                if number is None:
                    return None
                stop = number
        if node.step is not None:
            stride = self._index_number(node.step, frame)
            if stride is None:
                return None
            step = stride
        return start, stop, step

    def _index_tensor(self, base: Value, expression: Index, frame: Frame) -> object:
        tensor = base.type
        if len(expression.indices) > tensor.rank:
            return self.error(
                f"{len(expression.indices)} indices for {tensor}, which has {tensor.rank} axes",
                expression.span,
            )
        starts: list[int] = []
        stops: list[int | Dim | None] = []
        steps: list[int] = []
        sizes: list[Dim] = []
        dropped: list[int] = []
        call = RuleCall("slice", {"x": tensor}, {}, {}, self.assumptions)
        for axis, size in enumerate(tensor.shape):
            item = expression.indices[axis] if axis < len(expression.indices) else None
            try:
                if item is None:
                    bounds = (None, None, 1)
                elif isinstance(item, Slice):
                    parts = self._slice_parts(item, frame)
                    if parts is None:
                        return POISON
                    bounds = parts
                else:
                    number = self._index_number(item, frame)
                    if number is None:
                        return POISON
                    known = size.constant()
                    if known is not None and not -known <= number < known:
                        return self.error(
                            f"index {number} is out of range for axis {axis} of {tensor}", item.span
                        )
                    bounds = (number, number + 1 if number != -1 else None, 1)
                    dropped.append(axis)
                start, stop, length = slice_size(call, size, *bounds)
            except RuleError as error:
                return self.error(error.message, item.span if item is not None else expression.span)
            except Undetermined:
                return POISON
            starts.append(start)
            stops.append(stop)
            steps.append(bounds[2])
            sizes.append(Dim.of(1) if axis in dropped else length)
        if tensor.kind == "spike" and 0 in dropped:
            return self.error(
                f"an index takes the time axis of {tensor} away: {DECODE_RULE}",
                expression.span,
                suggestion="write decode(…)",
            )
        value: Value = base
        if tuple(sizes) != tensor.shape or any(s != 1 for s in steps):
            value = self.operation(
                "slice",
                (base,),
                tensor.with_shape(sizes),
                expression.span,
                {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)},
            )
        if dropped:
            shape = [d for i, d in enumerate(sizes) if i not in dropped]
            value = self.operation(
                "squeeze",
                (value,),
                tensor.with_shape(shape),
                expression.span,
                {"axes": tuple(dropped)},
            )
        return value
