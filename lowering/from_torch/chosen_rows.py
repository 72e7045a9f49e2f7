"""Rows that values choose, as all rows and a mask of those that are meant.

`x[mask]`, `where(mask)`, `nonzero` and a split by counts give tensors whose sizes depend on values.
Where each of their rows is computed by itself, and the rows are put back, joined again or summed,
all rows are computed, and those that are not chosen are left out at the end: so are the loops over
experts written that send each its tokens. That takes as long as if each expert had all tokens.
Not here: choices by known values (`known_sizes`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from ..problems import ProblemError
from .calls import Call, fake_tensor, is_tensor, nodes_of, operator_name, schema_of
from .in_place import becomes_functional, becomes_scattered, written_constants
from .rewriting import Rewriting, are_equal
from .row_operators import BESIDE, DIVISIONS, EACH, NEUTRAL, NEW, OF_IMAGES, RESHAPES
from .sizes import Size, depends_on_values, product, size_of, sizes_of

Writer: TypeAlias = "Callable[[], None]"
"""Puts a node in its form for all rows."""


class _Chosen(NamedTuple):
    """Rows that one operator chooses: that node, and the place among its results."""

    source: Node
    part: int


def all_rows(program: ExportedProgram, elementwise: frozenset[str]) -> None:
    """Put all rows in the place of those that values choose, where that gives the same.

    A graph in which something else becomes of them stays as it is.

    Args:
        program: as it is exported.
        elementwise: operators that compute each element by itself, by name without overload.
    """
    values = (node.meta.get("val") for node in nodes_of(program))
    if any(_is_open(value) for value in values):
        _AllRows(program, elementwise).run()


def _values(node: Node) -> Sequence[object]:
    value = node.meta.get("val")
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]


def _is_open(value: object) -> bool:
    """Whether a tensor, or one of several, has sizes that depend on values."""
    if isinstance(value, list | tuple):
        return any(map(_is_open, cast("Sequence[object]", value)))
    return isinstance(value, Tensor) and any(map(depends_on_values, sizes_of(value.shape)))


class _AllRows(Rewriting):
    """First says what becomes of each node, then writes that."""

    def __init__(self, program: ExportedProgram, elementwise: frozenset[str]) -> None:
        nodes = nodes_of(program)
        some = next(node for node in nodes if is_tensor(node) and _is_open(node.meta["val"]))
        super().__init__(program.graph, cast("Any", fake_tensor(some)).fake_mode)
        self.program, self.nodes = program, nodes
        self.written = written_constants(program)
        self.each = EACH | elementwise
        self.chosen: dict[Size, _Chosen] = {}
        self.joined: set[Size] = set()
        self.changed: set[Node] = set()
        self.masks: dict[_Chosen, Node] = {}

    def run(self) -> None:
        """Rewrite the graph, if all that becomes of chosen rows is known."""
        writers: list[tuple[Node, Writer]] = []
        try:
            for node in self.nodes:
                writer = self._writer(node)
                if writer is not None:
                    self.changed.add(node)
                    writers.append((node, writer))
        except ProblemError:
            return
        for node, write in writers:
            with self.graph.inserting_before(node):
                self.at = node
                write()
        self.graph.eliminate_dead_code()

    # What becomes of a node.

    def _writer(self, node: Node) -> Writer | None:
        value = node.meta.get("val")
        source = _SOURCES.get(operator_name(node)) if node.op == "call_function" else None
        is_choice = operator_name(node) != "aten::where" or len(node.args) == 1
        if source is not None and is_choice and _is_open(value):
            return source(self, node)
        if not self.changed.intersection(node.all_input_nodes):
            if (schema := schema_of(node)) and schema.is_mutable and node not in self.written:
                self._is_functional(node)  # chosen rows may be read of what is written before
            return None
        if node.op != "call_function":
            if any(self._rows_of_any(part) for part in node.all_input_nodes if is_tensor(part)):
                raise ProblemError("it is a result")
            return None
        if schema_of(node) is None or operator_name(node) == "aten::sym_size":
            if node.target is operator.getitem and is_tensor(node):
                self._axis(fake_tensor(node))
            return lambda: self.again(node)
        return self._operator(node)

    def _is_functional(self, node: Node) -> bool:
        return becomes_functional(node) or becomes_scattered(self.program, node)

    def _operator(self, node: Node) -> Writer:
        changes = (schema := schema_of(node)) is not None and schema.is_mutable
        if changes and not self._is_functional(node) and operator_name(node) != "aten::detach_":
            raise ProblemError("it changes a tensor that others see")
        name, call = operator_name(node), Call.of(node)
        if not all(isinstance(value, Tensor) for value in _values(node)):  # a number, or nothing
            if any(map(self._rows_of_any, filter(is_tensor, node.all_input_nodes))):
                raise ProblemError("it is read as a number")
            return lambda: None
        if (end := _ENDS.get(name)) and (writer := end(self, call)):
            return writer
        if name in DIVISIONS and not call.value.is_floating_point() and (
            is_tensor(by := call.arguments["other"]) and self._rows_of_any(by)
        ):  # fmt: skip
            raise ProblemError("rows that are not chosen may divide by 0")
        axes = {self._axis(value) for value in call.values}
        tensors = [part for part in node.all_input_nodes if is_tensor(part)]
        given = [axis for part in tensors if (axis := self._axis(fake_tensor(part))) is not None]
        numbers = [part for part in node.all_input_nodes if part not in tensors]
        sized = name in RESHAPES or name in ("aten::expand", *NEW)
        if self.changed.intersection(numbers) and not sized:
            raise ProblemError("it computes with their number")
        if axes == {None} and not given:
            return lambda: self.again(node)
        if len(axes) != 1 or None in axes:
            raise ProblemError("it joins rows")
        (axis,) = axes
        fits = (
            name in self.each
            or name in NEW
            or (name in RESHAPES and self._keeps_axis(call, cast("int", axis)))
            or (name in BESIDE and self._goes_beside(call, given))
            or (name in OF_IMAGES and axis == 0)
            or (name in ("aten::index", "aten::index_select") and self._picks(call))
        )
        if not fits:
            raise ProblemError("it may join rows")
        return lambda: self.again(node)

    def _axis(self, tensor: Tensor) -> int | None:
        """The axis of a tensor that chosen rows lie along."""
        sizes = sizes_of(tensor.shape)
        axes = [axis for axis, size in enumerate(sizes) if depends_on_values(size)]
        axes = [axis for axis in axes if sizes[axis] not in self.joined]
        if not axes:
            return None
        if len(axes) > 1 or sizes[axes[0]] not in self.chosen:
            raise ProblemError("rows of two choices meet")
        return axes[0]

    def _rows(self, node: Node) -> _Chosen | None:
        axis = self._axis(fake_tensor(node))
        return None if axis is None else self.chosen[size_of(fake_tensor(node).shape[axis])]

    def _keeps_axis(self, call: Call, axis: int) -> bool:
        before = fake_tensor(cast("Node", call.node.args[0]))
        start = self._axis(before)
        ahead = sizes_of(call.value.shape)[:axis]
        return start is None or product(sizes_of(before.shape)[:start]) == product(ahead)

    def _goes_beside(self, call: Call, axes: Sequence[int]) -> bool:
        listed = "tensors" in call
        operand = call.tensors("tensors")[0] if listed else cast("Node", call.node.args[0])
        rank = fake_tensor(operand).dim() + (call.name == "aten::stack")
        default = 0 if call.name not in ("aten::glu", "aten::sort", "aten::topk") else -1
        given = call.arguments.get("dim", default)
        if given is None:
            return False
        dims = cast("Sequence[int]", given if isinstance(given, Sequence) else [given])
        if call.name == "aten::stack":
            return True
        return bool(dims) and not {dim % rank for dim in dims} & {*axes}

    def _picks(self, call: Call) -> bool:
        return self._axis(fake_tensor(call["self"])) is None

    # Sources.

    def _choose(self, node: Node, axis: int, tensor: Tensor, part: int = 0) -> _Chosen:
        size = size_of(tensor.shape[axis])
        if not getattr(size, "is_Symbol", False):
            raise ProblemError("its size is no single one")
        # One mask has one size, however often it chooses.
        return self.chosen.setdefault(size, _Chosen(node, part))

    def indices(self, node: Node) -> Writer:
        """`where(mask)` and `nonzero(mask)`: the places of what is not zero."""
        mask, value = cast("Node", node.args[0]), node.meta["val"]
        rank = fake_tensor(mask).dim()
        listed = not isinstance(value, Tensor)
        if self._rows_of_any(mask) or rank == 0:
            raise ProblemError("it chooses of chosen ones")
        chosen = self._choose(node, 0, value[0] if listed else value)

        def write() -> None:
            self.masks.setdefault(chosen, self.flat(mask))
            every = self.index_of_each(mask)
            if listed:
                for user in list(node.users):
                    self.replace(user, every[cast("int", user.args[1])])
                return
            self.replace(node, self.make(_aten.stack.default, every, 1))

        return write

    def by_mask(self, node: Node) -> Writer | None:
        """`x[mask]` and `masked_select(x, mask)`."""
        call = Call.of(node)
        x = call["self"]
        if call.name == "aten::masked_select":
            axis, mask = 0, call["mask"]
            fits = sizes_of(fake_tensor(x).shape) == sizes_of(fake_tensor(mask).shape)
        else:
            listed = cast("Sequence[Node | None]", call.arguments["indices"])
            axis, mask = next((i, part) for i, part in enumerate(listed) if part is not None)
            if fake_tensor(mask).dtype != torch.bool:
                return self._operator(node)
            fits = [part for part in listed if part is not None] == [mask]
        if not fits or self._rows_of_any(x) or self._rows_of_any(mask) or not is_tensor(x):
            raise ProblemError("it chooses of chosen ones")
        chosen = self._choose(node, axis, call.value)

        def write() -> None:
            self.masks.setdefault(chosen, self.flat(mask))
            rank = fake_tensor(mask).dim()
            rows = x
            if rank > 1:
                sizes = self.sizes(x)
                shape = [*sizes[:axis], -1, *sizes[axis + rank :]]
                rows = self.make(_aten.reshape.default, x, shape)
            if not fake_tensor(x).is_floating_point():
                rows = self._only(rows, chosen, axis, 0)  # what is not meant may be no index
            else:  # what is written to `x` later is not seen
                rows = self.make(_aten.clone.default, rows)
            self.replace(node, rows)

        return write

    def pieces(self, node: Node) -> Writer:
        """A split into as many rows as values say."""
        call = Call.of(node)
        counts = cast("Sequence[int | Node]", call.arguments["split_sizes"])
        x, axis = call["self"], call.axis(fake_tensor(call["self"]).dim())
        if self._rows_of_any(x) or not all(
            isinstance(count, int) or operator_name(count) == "aten::item" for count in counts
        ):
            raise ProblemError("its pieces are computed")
        parts = [
            self._choose(node, axis, value, index) if _is_open(value) else None
            for index, value in enumerate(call.values)
        ]
        if None in parts:
            raise ProblemError("some pieces are of known sizes")

        def write() -> None:
            places = self.places(self.sizes(x)[axis])
            end: Node | None = None
            for chosen, count in zip(cast("list[_Chosen]", parts), counts, strict=True):
                length = cast("Node", count).args[0]
                start, end = end, cast("Node", length) if end is None else (
                    self.make(_aten.add.Tensor, end, length)
                )  # fmt: skip
                mask = self.make(_aten.lt.Tensor, places, end)
                if start is not None:
                    behind = self.make(_aten.ge.Tensor, places, start)
                    mask = self.make(_aten.logical_and.default, behind, mask)
                self.masks[chosen] = mask
            for user in list(node.users):
                self.replace(user, x)

        return write

    def _rows_of_any(self, node: Node) -> bool:
        return self._axis(fake_tensor(node)) is not None

    # Ends.

    def reduce(self, call: Call) -> Writer | None:
        """A sum and the like along chosen rows."""
        x = cast("Node", call.node.args[0])
        rows, axis, rank = self._rows(x), self._axis(fake_tensor(x)), fake_tensor(x).dim()
        if rows is None or axis is None or len(call.values) > 1:
            return None
        given = call.arguments.get("dim")
        dims = [dim % rank for dim in call.integers("dim")] if given not in (None, []) else (
            list(range(rank))
        )  # fmt: skip
        if axis not in dims:
            return None
        is_mean = call.name == "aten::mean"
        if is_mean and dims != [axis]:
            raise ProblemError("it is a mean along several axes")
        neutral = NEUTRAL[call.name](fake_tensor(x).dtype)

        def write() -> None:
            call.node.args = (self._only(x, rows, axis, neutral), *call.node.args[1:])
            if is_mean:
                kept = {"keepdim": call.flag("keepdim")}
                summed = self.make(
                    _aten.sum.dim_IntList, call.node.args[0], dims, dtype=call.value.dtype, **kept
                )
                count = self.make(_aten.sum.default, self.masks[rows])
                self.replace(call.node, self.make(_aten.div.Tensor, summed, count))
                return
            self.again(call.node)

        return write

    def add(self, call: Call) -> Writer | None:
        """`index_add`: what is not chosen adds nothing."""
        axis, rank = call.axis(fake_tensor(call["self"]).dim()), fake_tensor(call["source"]).dim()
        rows = self._rows(call["source"])
        if rows is None and not any(map(self._rows_of_any, (call["self"], call["index"]))):
            return None
        if rows is None or self._rows(call["index"]) != rows or self._rows_of_any(call["self"]) or (
            self._axis(fake_tensor(call["source"])) != axis % rank
        ):  # fmt: skip
            raise ProblemError("its rows are not those that are added")

        def write() -> None:
            source = self._only(call["source"], rows, axis, 0)
            self.set(call, source=source)

        return write

    def put(self, call: Call) -> Writer | None:
        """`index_put` of chosen rows where they were, or at places of theirs."""
        indices = cast("Sequence[Node | None]", call.arguments["indices"])
        out, values = call["self"], call["values"]
        axis, index = next((i, part) for i, part in enumerate(indices) if part is not None)
        rows, adds = self._rows(values), call.flag("accumulate")
        if self._rows_of_any(out):
            raise ProblemError("it writes to chosen rows")
        if fake_tensor(index).dtype == torch.bool:
            return self._put_back(call, axis, index)
        placed = [part for part in indices if part is not None and self._rows_of_any(part)]
        chosen = rows or (self._rows(placed[0]) if placed else None)
        if chosen is None:
            return None
        if any(self._rows(part) != chosen or fake_tensor(part).dim() > 1 for part in placed) or (
            rows is not None and self._axis(fake_tensor(values)) != axis
        ) or len(placed) < sum(part is not None for part in indices) or (
            not all(map(self._is_place, placed))
        ):  # fmt: skip
            raise ProblemError("its places are computed")

        def write() -> None:
            if adds:
                given = self._only(values, chosen, axis if rows else 0, 0)
                self.set(call, values=given)
                return
            size = self.sizes(out)[axis]
            longer, outside = self.with_room(out, axis), self._only(index, chosen, 0, size)
            put = [outside if part is index else part for part in indices]
            result = self.make(_aten.index_put.default, longer, put, values)
            self.replace(call.node, self.make(_aten.slice.Tensor, result, axis, 0, -1))

        return write

    def _put_back(self, call: Call, axis: int, mask: Node) -> Writer | None:
        values, indices = call["values"], cast("Sequence[object]", call.arguments["indices"])
        rows, rank = self._rows(values), fake_tensor(mask).dim()
        if rows is None:
            return None
        same = _SOURCE_MASKS.get(operator_name(rows.source))
        if sum(part is not None for part in indices) > 1 or same is None or not (
            self._same(same(Call.of(rows.source)), mask)
        ) or self._axis(fake_tensor(values)) != axis or (
            fake_tensor(values).dim() != fake_tensor(call["self"]).dim() - rank + 1
        ):  # fmt: skip
            raise ProblemError("another mask chose its rows")

        def write() -> None:
            out = call["self"]
            shape = self.sizes(out)
            given = values
            if rank > 1:
                given = self.make(_aten.reshape.default, values, shape)
            if call.flag("accumulate"):
                given = self.make(_aten.add.Tensor, out, given)
            condition = self.spread(mask, len(shape) - axis - rank)
            self.replace(call.node, self.make(_aten.where.self, condition, given, out))

        return write

    def _same(self, first: Node, second: Node) -> bool:
        """Whether two masks have the same values: nothing is written between them."""
        if first is second:
            return True
        between = self.nodes[self.nodes.index(first) : self.nodes.index(second)]
        schemas = [schema for node in between if (schema := schema_of(node)) is not None]
        return are_equal(first, second) and not any(schema.is_mutable for schema in schemas)

    def copy(self, call: Call) -> Writer | None:
        """`index_copy` of chosen rows, or of all of them joined again."""
        out, index = call["self"], call["index"]
        axis, rows = call.axis(fake_tensor(out).dim()), self._rows(call["source"])
        if rows is None and not self._rows_of_any(index):
            return None
        if rows is None or self._rows(index) != rows or not self._is_place(index) or (
            self._rows_of_any(out)
        ):  # fmt: skip
            raise ProblemError("its places are computed")

        def write() -> None:
            size = self.sizes(out)[axis]
            longer, outside = self.with_room(out, axis), self._only(index, rows, 0, size)
            result = self.make(_aten.index_copy.default, longer, axis, outside, call["source"])
            self.replace(call.node, self.make(_aten.slice.Tensor, result, axis, 0, -1))

        return write

    def join(self, call: Call) -> Writer | None:
        """`cat` of all pieces of a split in their order."""
        parts = call.tensors("tensors")
        rank = fake_tensor(parts[0]).dim()
        axis = call.axis(rank)
        rows = [self._rows(part) for part in parts]
        first = rows[0]
        if first is None or any(self._axis(fake_tensor(part)) != axis for part in parts):
            return None
        count = len(Call.of(first.source).values)
        if rows != [_Chosen(first.source, part) for part in range(count)]:
            raise ProblemError("it joins other pieces")
        self.joined.add(size_of(call.value.shape[axis]))

        def write() -> None:
            result = parts[-1]
            for part, chosen in zip(reversed(parts[:-1]), reversed(rows[:-1]), strict=True):
                mask = self.spread(self.masks[cast("_Chosen", chosen)], rank - axis - 1)
                result = self.make(_aten.where.self, mask, part, result)
            self.replace(call.node, result)

        return write

    def _is_place(self, node: Node) -> bool:
        """Whether a tensor has places of what was chosen, none of which is negative."""
        if node.target is operator.getitem or operator_name(node) in ("aten::squeeze",
                                                                       "aten::select"):  # fmt: skip
            return self._is_place(cast("Node", node.args[0]))
        return operator_name(node) in ("aten::where", "aten::nonzero", "aten::nonzero_numpy",
                                       "aten::argwhere")  # fmt: skip

    def _only(self, x: Node, rows: _Chosen, axis: int, other: float | Node) -> Node:
        """Chosen rows as they are, and `other` in the place of the rest."""
        mask = self.spread(self.masks[rows], fake_tensor(x).dim() - axis - 1)
        return self.make(_aten.where.ScalarOther, mask, x, other)


_aten: Any = torch.ops.aten

_SOURCES: dict[str, Callable[[_AllRows, Node], Writer | None]] = {
    "aten::argwhere": _AllRows.indices,
    "aten::index": _AllRows.by_mask,
    "aten::masked_select": _AllRows.by_mask,
    "aten::nonzero": _AllRows.indices,
    "aten::nonzero_numpy": _AllRows.indices,
    "aten::split_with_sizes": _AllRows.pieces,
    "aten::where": _AllRows.indices,
}

_ENDS: dict[str, Callable[[_AllRows, Call], Writer | None]] = {
    **dict.fromkeys(NEUTRAL, _AllRows.reduce),
    "aten::cat": _AllRows.join,
    "aten::index_add": _AllRows.add,
    "aten::index_copy": _AllRows.copy,
    "aten::index_put": _AllRows.put,
}

_SOURCE_MASKS: dict[str, Callable[[Call], Node]] = {
    "aten::index": lambda call: next(
        part for part in cast("Sequence[Node | None]", call.arguments["indices"]) if part
    ),
    "aten::masked_select": lambda call: call["mask"],
}
"""The masks of what chooses by one."""
