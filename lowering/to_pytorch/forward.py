"""The body of `forward`: SSA values become expressions and, where that reads better, locals.

A value that is used once stands inside its user while the line stays short; everything else gets
a name. The rules of the ops stand in the `rules_*` files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type, is_train
from ..emission import Names, UnsupportedOps, source_place
from .expressions import Expr, call, layout, printable, sequence
from .literals import literal, nested
from .state import MODULE_ATTRIBUTES, Entry, State, torch_dtype
from .wide_unsigned import lacks_kernel, wide_unsigned

INLINE = 48
"""The longest expression that is put into its user."""

RETURNED = 84
"""The longest expression that is put into `return`."""

LONGEST = 76
"""The longest expression with others inside; above it the inner ones get names."""

_PASSING = (spike.ScanOp, spike.ToTensorOp, spike.FromTensorOp)
"""Ops whose results may have names already: those of other values."""

Rule: TypeAlias = Callable[[Operation, "Forward"], Expr | Sequence[Expr]]


class Refusal(Exception):
    """A rule cannot express the op as it stands; the message is the reason, one clause."""


@dataclass(frozen=True)
class Trits:
    """Where a trit value is: in packed bytes, or in a tensor of some dtype."""

    source: Expr
    dtype: str | None
    shape: tuple[int, ...] = ()


class Forward:
    """Writes the statements of `forward`.

    Attributes:
        lines: the body, indented as it stands in a class.
        constants: statements of `__init__` for constant tensors.
        used: names of library functions that the body calls.
        preamble: module-level lines (tables too long for a line).
    """

    def __init__(self, rules: Mapping[type[Operation], Rule], state: State, names: Names) -> None:
        self._rules = rules
        self._state = state
        self._names = names
        self._values: dict[SSAValue, Expr] = {}
        self._pending: dict[SSAValue, Expr] = {}
        self._trits: dict[SSAValue, Trits] = {}
        self._unpacked: dict[tuple[SSAValue, str], Expr] = {}
        self._constants: dict[SSAValue, Expr] = {}
        self._tables: dict[tuple[Operation, str], str] = {}
        self._aliases: dict[SSAValue, SSAValue] = {}
        self._trains: dict[SSAValue, str | None] = {}
        self._kept: set[SSAValue] = set()
        self._unsupported = UnsupportedOps("pytorch")
        self._indent = 8
        self._place: str | None = None
        self._current: Operation | None = None
        self.lines: list[str] = []
        self.constants: list[str] = []
        self.preamble: list[str] = []
        self.used: set[str] = set()

    def argument(self, value: SSAValue, name: str) -> None:
        """Bind an argument of the function to its Python name."""
        if isinstance(value.type, TensorType) and ternary.types.is_trit(tensor_type(value)):
            self._trits[value] = Trits(Expr(name), "torch.int8")
        self._values[value] = Expr(name)

    def run(self, ops: Sequence[Operation], unsupported: UnsupportedOps) -> None:
        """Write every op; those without a rule are noted."""
        self._unsupported = unsupported
        self.run_all(ops)

    def run_all(self, ops: Sequence[Operation]) -> None:
        """Write further ops, those of a region."""
        unsupported = self._unsupported
        for op in ops:
            self._current = op
            if isinstance(op, func.ReturnOp):
                self._return(op)
            elif isinstance(op, tensor.ParameterOp | ternary.ParameterOp):
                self._parameter(op)
            elif isinstance(op, tensor.ConstantOp | ternary.ConstantOp):
                pass
            elif (rule := self._rules.get(type(op))) is None:
                unsupported.add(op, "there is no PyTorch form of it")
                self._stub(op)
            else:
                try:
                    self._apply(op, rule)
                except Refusal as refusal:
                    unsupported.add(op, str(refusal))
                    self._stub(op)

    def operand(self, value: SSAValue) -> Expr:
        """The value as an expression; a constant of rank 0 as a Python number."""
        value = self._source(value)
        if isinstance(value.owner, tensor.ConstantOp) and not tensor_type(value).get_shape():
            return _number(value.owner)
        return self.value(value)

    def value(self, value: SSAValue) -> Expr:
        """The value as an expression of a tensor; a train as spikes of any type, see `train`."""
        value = self._source(value)
        if value in self._pending:
            return self._pending[value]
        if value in self._trits:
            return self._trits[value].source if self._trits[value].dtype else self._int8(value)
        if isinstance(value.owner, tensor.ConstantOp | ternary.ConstantOp):
            return self._constant(value, value.owner)
        return self._values[value]

    def local(self, value: SSAValue) -> Expr:
        """The value as a name, to be used more than once."""
        value = self._source(value)
        if value in self._pending:
            owner = value.owner
            assert isinstance(owner, Operation)
            self._assign(owner, value, self._pending.pop(value))
        return self.value(value)

    def train(self, value: SSAValue, dtype: str) -> Expr:
        """The spikes of a train as ones and zeros of `dtype`."""
        spikes = self.value(value)
        return spikes if self.train_dtype(value) == dtype else spikes.method("to", dtype)

    def train_dtype(self, value: SSAValue) -> str | None:
        """The type in which the spikes of a train stand; `None` where the caller chooses it."""
        return self._trains.get(self._source(value))

    def set_train(self, value: SSAValue, dtype: str | None) -> None:
        """Note the type in which the spikes of a train stand."""
        self._trains[value] = dtype

    def alias(self, value: SSAValue, source: SSAValue) -> None:
        """Make `value`, the argument of a region, stand for `source`."""
        source = self._source(source)
        if source in self._pending:
            self.local(source)
        self._aliases[value] = source

    def _source(self, value: SSAValue) -> SSAValue:
        return self._aliases.get(value, value)

    def set_value(self, value: SSAValue, name: Expr, train: str | None = None) -> None:
        """Make `name` the expression of a value; `train` is the type of its spikes."""
        self._values[value] = name
        self._trains[value] = train

    def keep(self, values: Iterable[SSAValue]) -> None:
        """Give the values names when they are written, though no op may use them."""
        self._kept.update(values)

    def new_name(self, wish: str) -> str:
        """A free name."""
        return self._names.new(wish)

    @contextmanager
    def block(self, op: Operation, head: str) -> Generator[None]:
        """Write what follows into the body of a compound statement."""
        self.write(op, head)
        self._indent += 4
        try:
            yield
        finally:
            self._indent -= 4

    def bind(self, op: Operation, name: str, expression: Expr) -> Expr:
        """Give an intermediate result of `op` a name."""
        chosen = self._names.new(name)
        self.write(op, f"{chosen} = {expression}")
        return Expr(chosen)

    def library(self, function: str, *arguments: object, **keywords: object) -> Expr:
        """A call of a library function, which the generated file then carries."""
        self.used.add(function)
        return call(function, *arguments, **keywords)

    def trits(self, value: SSAValue, dtype: str, like: Expr | None = None) -> Expr:
        """A trit value as a tensor of `dtype` with elements -1, 0 and 1.

        With `like`, a name, constant trits take the dtype which that tensor has when the module
        runs: another one after `half()` or `double()`.
        """
        value = self._source(value)
        known = self._unpacked.get((value, dtype))
        if known is not None:
            return known
        if value not in self._trits:
            assert isinstance(value.owner, ternary.ConstantOp)
            self._trits[value] = Trits(self._constant(value, value.owner), "torch.int8")
        trits = self._trits[value]
        if trits.dtype == dtype:
            return trits.source
        target = dtype if like is None else f"{like}.dtype"
        if trits.dtype is not None:
            expression = trits.source.method("to", target)
        else:
            shown = None if target == "torch.float32" else target
            expression = self.library(
                "unpack_once", trits.source, sequence(trits.shape), dtype=shown
            )
        owner = self._current or value.owner
        assert isinstance(owner, Operation)
        wish = trits.source.text.removeprefix("self.")
        suffix = "unpacked" if trits.dtype is None else dtype.removeprefix("torch.")
        result = self.bind(owner, f"{wish}_{suffix}", expression)
        self._unpacked[value, dtype] = result
        return result

    def packed(self, value: SSAValue) -> Trits | None:
        """Where the bytes of a trit parameter are; `None` for trits that are no bytes."""
        trits = self._trits.get(self._source(value))
        return trits if trits is not None and trits.dtype is None else None

    def packed_matrix(self, value: SSAValue) -> Trits | None:
        """As `packed`, for a matrix."""
        trits = self.packed(value)
        return trits if trits is not None and len(trits.shape) == 2 else None

    def _int8(self, value: SSAValue) -> Expr:
        return self.trits(value, "torch.int8")

    def set_trits(self, value: SSAValue, source: Expr, dtype: str) -> None:
        """Bind a trit result to a tensor of `dtype`."""
        self._trits[value] = Trits(source, dtype)

    def table(self, op: Operation, wish: str, numbers: Sequence[int], size: int) -> Expr:
        """A table of integers at the top of the file, `size` of them a row."""
        name = self._tables.get((op, wish))
        if name is None:
            name = self._tables[op, wish] = self._names.new(wish)
            self.used.add("parse_numbers")
            rows = [numbers[i : i + size] for i in range(0, len(numbers), size)]
            self.preamble += [
                f"{name} = parse_numbers(",
                '    """',
                *("    " + " ".join(map(str, row)) for row in rows),
                '    """,',
                f"    {size},",
                ")",
            ]
        return Expr(name)

    def parameter_entry(self, value: SSAValue) -> Entry | None:
        """The entry of a value that is a parameter itself."""
        if isinstance(value.owner, tensor.ParameterOp):
            return self._state.entries[value.owner.key.data]
        return None

    def size(self, value: SSAValue, axis: int) -> str:
        """The size of an axis as text: a number, or read from the tensor."""
        known = dense_type(value).get_shape()[axis]
        return str(known) if known != DYNAMIC else f"{self.local(value)}.shape[{axis}]"

    def _parameter(self, op: tensor.ParameterOp | ternary.ParameterOp) -> None:
        entry = self._state.entries[op.key.data]
        if entry.packed:
            self._trits[op.result] = Trits(entry.access, None, entry.shape)
        else:
            self._values[op.result] = entry.access

    def _apply(self, op: Operation, rule: Rule) -> None:
        if lacks_kernel(op):
            kind = next(filter(None, map(wide_unsigned, op.operands)))
            raise Refusal(f"PyTorch has no kernel of it for {kind}; convert to int64 before")
        forms = rule(op, self)
        operands = [self._source(value) for value in op.operands]
        inner = [value for value in operands if value in self._pending]
        longest = max(
            (len(e.text) for e in ([forms] if isinstance(forms, Expr) else forms)), default=0
        )
        if inner and longest > LONGEST:
            for value in inner:
                self.local(value)
            forms = rule(op, self)
        for value in operands:
            self._pending.pop(value, None)
        if isinstance(forms, Expr):
            forms = [forms]
        if len(forms) == 1 and len(op.results) > 1:
            self._unpack(op, forms[0])
            return
        for value, expression in zip(op.results, forms, strict=True):
            self._define(op, value, expression)

    def _define(self, op: Operation, value: SSAValue, expression: Expr) -> None:
        if value in self._trits:
            return
        if isinstance(value.type, TensorType) and ternary.types.is_trit(tensor_type(value)):
            kinds = {self._trits[v].dtype for v in op.operands if v in self._trits} - {None}
            name = self.bind(op, value.name_hint or _default_name(op), expression)
            self.set_trits(value, name, kinds.pop() or "" if len(kinds) == 1 else "torch.int8")
            return
        if value in self._kept:
            self._assign(op, value, expression)
            return
        if isinstance(op, _PASSING) and expression.text.isidentifier():
            self._values[value] = expression
            return
        uses = value.uses.get_length()
        users = [use.operation for use in value.uses]
        returned = uses == 1 and isinstance(users[0], func.ReturnOp) and len(users[0].operands) == 1
        room = RETURNED if returned else INLINE
        if uses == 1 and value.name_hint is None and len(expression.text) <= room:
            self._pending[value] = expression
        elif uses:
            self._assign(op, value, expression)

    def _unpack(self, op: Operation, expression: Expr) -> None:
        names = [self._names.of_value(value, _default_name(op)) for value in op.results]
        targets = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
        self.write(op, f"{targets} = {expression}")
        for value, name in zip(op.results, names, strict=True):
            self._values[value] = Expr(name)

    def _assign(self, op: Operation, value: SSAValue, expression: Expr) -> None:
        name = self._names.of_value(value, _default_name(op))
        self.write(op, f"{name} = {expression}")
        self._values[value] = Expr(name)

    def _return(self, op: func.ReturnOp) -> None:
        place = op.operands[0].owner if op.operands and op.operands[0] in self._pending else op
        values = [self._returned(value) for value in op.operands]
        text = ", ".join(map(str, values)) or "()"
        if len(text) > LONGEST + 12 and len(values) > 1:
            for value in op.operands:
                self.local(value)
            text = ", ".join(str(self._returned(value)) for value in op.operands)
        if len(values) > 1 and len(text) > LONGEST + 12:
            text = f"({text})"
        self.write(place if isinstance(place, Operation) else op, f"return {text}")

    def _returned(self, value: SSAValue) -> Expr:
        if is_train(value):
            return self.train(value, "torch.bool")
        trits = value in self._trits and value not in self._pending
        return self._int8(value) if trits else self.value(value)

    def write(self, op: Operation, statement: str) -> None:
        """A statement, below a comment that says where `op` comes from."""
        place = _source_line(op)
        if place is not None and place != self._place:
            self.lines.append(f"{' ' * self._indent}# {place}")
            self._place = place
        self.lines += layout(statement, self._indent)

    def _constant(self, value: SSAValue, op: tensor.ConstantOp | ternary.ConstantOp) -> Expr:
        if value not in self._constants:
            array = constant_value(op)
            assert array is not None
            name = self._constant_name(value)
            dtype = torch_dtype(tensor_type(value).element_type)
            if isinstance(op, ternary.ConstantOp):
                dtype = "torch.int8"
            wide = array.astype(np.float64) if array.dtype.kind not in "iub" else array
            if array.size == 0:
                data = f"torch.empty({sequence(array.shape)}"
            elif array.size > 1 and array.tobytes() == array.flat[0].tobytes() * array.size:
                data = f"torch.full({sequence(array.shape)}, {literal(wide.flat[0], array.dtype)}"
            else:
                data = f"torch.tensor({nested(array)}"
            self.constants.append(
                f'self.register_buffer("{name}", {data}, dtype={dtype}), persistent=False)'
            )
            self._constants[value] = Expr(f"self.{name}")
        return self._constants[value]

    def _constant_name(self, value: SSAValue) -> str:
        """A name that is none of the module's parameters, containers and own attributes."""
        reserved = MODULE_ATTRIBUTES | {entry.path[0] for entry in self._state.entries.values()}
        while (name := self._names.of_value(value, "constant")) in reserved:
            pass
        return name

    def _stub(self, op: Operation) -> None:
        for value in op.results:
            self._values[value] = Expr("unsupported")
            if isinstance(value.type, TensorType) and ternary.types.is_trit(tensor_type(value)):
                self._trits[value] = Trits(Expr("unsupported"), "torch.int8")


def _default_name(op: Operation) -> str:
    """That of the train that the result becomes, else that of the op."""
    users = [use.operation for result in op.results for use in result.uses]
    names = [user.result.name_hint for user in users if isinstance(user, spike.FromTensorOp)]
    return next(filter(None, names), op.name.rpartition(".")[2])


def _source_line(op: Operation) -> str | None:
    place = source_place(op.location)
    if place is None:
        return None
    file, line, _ = place.rsplit(":", 2)
    if file.startswith("<"):
        return f"line {line}"
    return f"{printable(PurePath(file).name)}:{line}"


def _number(op: tensor.ConstantOp) -> Expr:
    array = constant_value(op)
    assert array is not None
    text = literal(array.reshape(-1)[0], array.dtype)
    return Expr(text, 90 if text.startswith("-") else 100, scalar=True)


def dtype_of(value: SSAValue) -> str:
    """`torch.float32` and the like, of a value's elements."""
    return torch_dtype(dense_type(value).element_type)


def bits_of(value: SSAValue) -> int:
    """Bytes an element takes times eight."""
    return numpy_dtype(tensor_type(value).element_type).itemsize * 8
