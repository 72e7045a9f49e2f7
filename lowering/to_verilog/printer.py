"""Modules of `hw`, `comb` and `seq` as Verilog-2001 text.

One `assign` a value that has a name or several users, one `always` block a register bank; the rest
stands inside those. The text gives no warning in Icarus Verilog, Verilator and Yosys: every width
is explicit, and bits that nobody reads are gathered in a wire called `unused`. Not here: what the
circuit is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ...dialects.fabric import BitsOp, PicksBits, RowOp
from ..emission import Names, UnsupportedOps
from .circuit.circuit import APART, COMMENT, name_of
from .circuit.memories import MEMORY, memory_of
from .circuit.modules import AnyModule, named_ports
from .circuit.ops import read_by
from .circuit.words import KEYWORDS
from .expressions import EXPRESSIONS, Expression, Operands, bits_of, joined, picked, width
from .templates import filled
from .tools import TOOLS, Tool, ToolName, attribute, bit_range, memory_text

LINE = 100
"""Longer lists are broken."""

_WIRES = (hw.ConstantOp, BitsOp, comb.ConcatOp, comb.ExtractOp, comb.ReplicateOp)
"""Expressions that only move bits: repeated where they are used, unless they have a name."""


_DECLARED = (seq.CompRegOp, hw.InstanceOp, RowOp)
"""Ops whose results can be read above their own place, when they are declared first."""

_KNOWN = frozenset((*EXPRESSIONS, *_DECLARED, hw.OutputOp))
"""Ops that have Verilog."""


def modules(module: ModuleOp) -> list[AnyModule]:
    """The hardware modules of a module, in order; memories among them."""
    return [op for op in module.body.block.ops if isinstance(op, AnyModule)]


def check_printable(hardware: Iterable[AnyModule]) -> None:
    """Refuse ops that have no Verilog, all at once.

    Raises:
        UnsupportedError: names each.
    """
    unsupported = UnsupportedOps("verilog")
    for module in hardware:
        if isinstance(module, hw.HWModuleExternOp):
            if MEMORY not in module.attributes:
                unsupported.add(module, "only memories can be declared without a body")
            continue
        for op in module.body.block.ops:
            if type(op) not in _KNOWN:
                unsupported.add(op, "the Verilog printer knows hw, comb, registers and rows")
    unsupported.raise_if_any()


def verilog(module: AnyModule, tool: ToolName = "vivado", *, memory_in_tables: bool = True) -> str:
    """One module as text.

    Args:
        module: the module.
        tool: whose attributes the text has, see `tools`.
        memory_in_tables: see `memory_text`.

    Raises:
        UnsupportedError: names every op that has no Verilog.
    """
    check_printable([module])
    if isinstance(module, hw.HWModuleExternOp):
        memory = memory_of(module)
        assert memory is not None
        name = module.sym_name.data
        return memory_text(memory, name, TOOLS[tool], in_tables=memory_in_tables)
    return _Printer(module, TOOLS[tool]).text()


class _Printer:
    def __init__(self, module: hw.HWModuleOp, tool: Tool) -> None:
        self.module = module
        self.apart = attribute(tool.apart)
        self.ports = module.module_type.ports.data
        self.names = Names(KEYWORDS)
        self.row = f"{module.sym_name.data}_row"
        self.of: dict[SSAValue, Expression] = {}
        self.early: set[SSAValue] = set()
        self.lines: list[str] = []
        self.read: dict[SSAValue, int] = {}
        self.ops = list(module.body.block.ops)
        self.operands = Operands(self._expression)
        self.keeping = {op for op in self.ops if _enables(op)}
        self.named = {op for op in self.ops if self._is_named(op)}

    def text(self) -> str:
        """The module."""
        for port in self.ports:
            self.names.reserve(port.port_name.data)
        for name, argument in named_ports(self.module)[0].items():
            self.of[argument] = Expression(name, simple=True)
        for op in self.ops:
            if op in self.named:
                for result in op.results:
                    wish = name_of(result) or result.name_hint or "n"
                    self.of[result] = Expression(self.names.new(wish), simple=True)
        self._count_reads()
        self._declare_early()
        for op in self.ops:
            comment = op.attributes.get(COMMENT)
            if isinstance(comment, StringAttr):
                self.lines += ["", *_comment(comment.data, "  ")]
            _WRITERS.get(type(op), _Printer.write_value)(self, op)
        text = "\n".join([*self._head(), *self.lines, *self._unused(), "endmodule", ""])
        has_rows = any(type(op) is RowOp for op in self.ops)
        return text + filled("row.v", name=self.row) if has_rows else text

    def _is_named(self, op: Operation) -> bool:
        kind = type(op)
        if kind in _DECLARED:
            return True
        if kind is hw.OutputOp or op in self.keeping:
            return False
        (result,) = op.results
        users = [use.operation for use in result.uses]
        kinds = {type(user) for user in users}
        picks = not kinds.isdisjoint((BitsOp, RowOp))
        if comb.ExtractOp in kinds or (picks and width(result.type) > 1):
            return True
        if kind is hw.ConstantOp:
            return False
        if kind in _WIRES:
            return name_of(result) is not None or len(op.operands) > 3
        return not (len(users) == 1 and users[0] in self.keeping)

    def _declare_early(self) -> None:
        """Declare registers and wires of instances that are read above their own place."""
        later = {result for op in self.ops if type(op) in _DECLARED for result in op.results}
        for op in self.ops:
            if not later.isdisjoint(read := self._read_by(op)):
                self.early |= later.intersection(read)
            later.difference_update(op.results)
        for op in self.ops if self.early else ():
            kind = "reg" if type(op) is seq.CompRegOp else "wire"
            self._declare(kind, [result for result in op.results if result in self.early])

    def _declare(self, kind: str, values: Sequence[SSAValue]) -> None:
        self.lines += [f"  {kind} {_range(value.type)}{self.of[value].text};" for value in values]

    def _expression(self, value: SSAValue) -> Expression:
        known = self.of.get(value)
        if known is None:
            assert isinstance(value.owner, Operation)
            known = self.of[value] = self._of_op(value.owner)
        return known

    def _of_op(self, op: Operation) -> Expression:
        return EXPRESSIONS[type(op)](op, self.operands)

    def write_value(self, op: Operation) -> None:
        """An expression, if it has a name."""
        if op in self.named:
            (result,) = op.results
            name = self.of[result].text
            self._assign(f"wire {_range(result.type)}{name}", self._of_op(op).text)

    def write_outputs(self, op: hw.OutputOp) -> None:
        """What goes out."""
        self.lines.append("")
        for name, value in named_ports(self.module)[1].items():
            self._assign(f"assign {name}", self._expression(value).text)

    def _assign(self, left: str, right: str) -> None:
        line = f"  {left} = {right};"
        if len(line) <= LINE or not _is_concatenation(right):
            self.lines.append(line)
            return
        self.lines.append(f"  {left} = {{")
        self.lines += _filled(right[1:-1].split(", "), "    ")
        self.lines.append("  };")

    def write_register(self, op: seq.CompRegOp) -> None:
        """A bank of registers, and when it changes."""
        (result,) = op.results
        name = self.of[result].text
        if result not in self.early:
            self._declare(f"{self.apart if APART in op.attributes else ''}reg", [result])
        enable = ""
        value, clock, resetting = read_by(op)
        if isinstance(value.owner, Operation) and value.owner in self.keeping:
            condition, value, _ = value.owner.operands
            enable = f"if ({self._expression(condition).text}) "
        step = f"{enable}{name} <= {self._expression(value).text};"
        clock = self._expression(clock).text
        if resetting is not None:
            reset, first = (self._expression(value).text for value in resetting)
            self.lines += [
                f"  always @(posedge {clock})",
                f"    if ({reset}) {name} <= {first};",
                f"    else {step}",
            ]
        else:
            self.lines.append(f"  always @(posedge {clock}) {step}")

    def write_instance(self, op: hw.InstanceOp) -> None:
        """A module inside."""
        self._declare("wire", [result for result in op.results if result not in self.early])
        ports = [
            f".{name.data}({self._expression(value).text})"
            for names, values in ((op.arg_names, op.inputs), (op.result_names, op.results))
            for name, value in zip(names, values, strict=True)
        ]
        instance = self.names.new(f"{op.instance_name.data}_i")
        module = op.module_name.string_value()
        self.lines.append(f"  {module} {instance} ({', '.join(ports)});")

    def write_row(self, op: RowOp) -> None:
        """An instance of the module of all rows."""
        (result,) = op.results
        if result not in self.early:
            self._declare("wire", [result])
        instance = self.names.new(f"{self.of[result].text}_i")
        *x, c = picked(op, self.operands)
        x, y = joined(reversed(x)), self.of[result].text
        self.lines += [
            f"  {self.row} #({_sites(op.functions, *op.flags)}, .CHAIN({int(op.is_chained)}))",
            f"    {instance} (.x({x}), .c({c}), .y({y}));",
        ]

    def _head(self) -> list[str]:
        comment = self.module.attributes.get(COMMENT)
        lines = _comment(comment.data, "") if isinstance(comment, StringAttr) else []
        ports = [
            f"  {'input ' if p.dir.data == hw.Direction.INPUT else 'output'} wire "
            f"{_range(p.type)}{p.port_name.data}"
            for p in self.ports
        ]
        name = self.module.sym_name.data
        return [*lines, f"module {name} (", ",\n".join(ports), ");"]

    def _count_reads(self) -> None:
        """Which bits of each value are read in the text, as the bits of a number."""
        named, read = self.named, self.read
        inside = [op for op in reversed(self.ops) if op not in named]
        for op in (*named, *inside):
            # The text has ops with a name of their own, and those that these take.
            if op.results and op not in named and read.keys().isdisjoint(op.results):
                continue
            operands = self._read_by(op)
            if isinstance(op, PicksBits):
                bits = [0] * len(operands)
                for number, place in op.bits:
                    bits[number] |= 1 << place
            elif type(op) is comb.ExtractOp:
                bits = [((1 << width(op.result.type)) - 1) << op.low_bit.value.data]
            else:
                bits = [(1 << width(value.type)) - 1 for value in operands]
            for value, those in zip(operands, bits, strict=True):
                read[value] = read.get(value, 0) | those

    def _read_by(self, op: Operation) -> Sequence[SSAValue]:
        """What the text of an op takes."""
        operands = tuple(op.operands)
        return operands[:2] if type(op) is comb.MuxOp and op in self.keeping else operands

    def _unused(self) -> list[str]:
        """A wire over the bits that nobody reads, so that no tool warns of them."""
        parts: list[str] = []
        for value, text in self.of.items():
            if isinstance(value, OpResult) and value.op not in self.named:
                continue
            bits = width(value.type)
            missing = ((1 << bits) - 1) & ~self.read.get(value, 0)
            if missing:
                places = [bit for bit in range(bits) if missing >> bit & 1]
                parts += [bits_of(text.text, bits, *run) for run in _runs(places)]
        if not parts:
            return []
        name = self.names.new("unused")
        lines = _filled(["1'b0", *parts], "    ")
        return ["", f"  wire {name} = &{{", *lines, "  };"]


_WRITERS: dict[type[Operation], Callable[[_Printer, Any], None]] = {
    seq.CompRegOp: _Printer.write_register,
    hw.InstanceOp: _Printer.write_instance,
    RowOp: _Printer.write_row,
    hw.OutputOp: _Printer.write_outputs,
}
"""How the ops are written that are no expressions."""


def _enables(op: Operation) -> bool:
    """Whether a selection only keeps a register's value: `mux(enable, next, register)`."""
    if type(op) is not comb.MuxOp:
        return False
    (result,), register = op.results, op.operands[2].owner
    return (
        type(register) is seq.CompRegOp and register.operands[0] is result and result.has_one_use()
    )


@lru_cache(maxsize=1 << 14)
def _sites(functions: tuple[int, ...], *flags: tuple[int, ...]) -> str:
    """What makes an instance of the module of rows one row."""
    sites = len(functions)
    tables = sum(table << 64 * site for site, table in enumerate(functions))
    direct, linked = ("".join(map(str, reversed(each))) for each in flags)
    return (
        f".SITES({sites}), .TABLES({64 * sites}'h{tables:x}), .DIRECT({sites}'b{direct}), "
        f".LINKED({sites}'b{linked})"
    )


def _range(type: Attribute) -> str:
    return bit_range(width(type))


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last of each run of ascending numbers."""
    groups = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return [(run[0], run[-1]) for run in runs]


def _is_concatenation(text: str) -> bool:
    """Whether all of an expression stands between one pair of braces."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if not depth:
            return character == "}" and place == len(text) - 1
    return False


def _filled(parts: Sequence[str], indent: str) -> list[str]:
    lines = [indent]
    for index, part in enumerate(parts):
        piece = part + ("," if index < len(parts) - 1 else "")
        if len(lines[-1]) + len(piece) + 1 > LINE and lines[-1].strip():
            lines.append(indent)
        lines[-1] += piece if not lines[-1].strip() else f" {piece}"
    return lines


def _comment(text: str, indent: str) -> list[str]:
    """Comment lines: printable ASCII only, so that no text ends the comment."""
    clean = "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
    return [f"{indent}// {clean}"]
