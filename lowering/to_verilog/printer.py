"""Modules of `hw`, `comb` and `seq` as Verilog-2001 text.

One `assign` a value that has a name or several users, one `always` block a register bank; the rest
stands inside those. The text gives no warning in Icarus Verilog, Verilator and Yosys: every width
is explicit, and bits that nobody reads are gathered in a wire called `unused`. Not here: what the
circuit is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.fabric import BitsOp, RowOp
from ..emission import Names, UnsupportedOps
from .circuit.circuit import APART, COMMENT, name_of
from .circuit.memories import MEMORY, memory_of
from .circuit.words import KEYWORDS
from .expressions import EXPRESSIONS, Expression, bits_of, expression, width
from .memories import memory_text
from .rows import row_module, row_parameters
from .tools import TOOLS, Tool, ToolName, attribute

HardwareModule = hw.HWModuleOp | hw.HWModuleExternOp
"""A module with a body, or one that is declared: a memory."""

LINE = 100
"""Longer lists are broken."""

_WIRES = (hw.ConstantOp, BitsOp, comb.ConcatOp, comb.ExtractOp, comb.ReplicateOp)
"""Expressions that only move bits: repeated where they are used, unless they have a name."""


_DECLARED = (seq.CompRegOp, hw.InstanceOp, RowOp)
"""Ops whose results can be read above their own place, when they are declared first."""

_KNOWN = frozenset((*EXPRESSIONS, *_DECLARED, hw.OutputOp))
"""Ops that have Verilog."""


def modules(module: ModuleOp) -> list[HardwareModule]:
    """The hardware modules of a module, in order; memories among them."""
    return [op for op in module.body.block.ops if isinstance(op, HardwareModule)]


def check_printable(hardware: Iterable[HardwareModule], target: str = "verilog") -> None:
    """Refuse ops that have no Verilog, all at once.

    Raises:
        UnsupportedError: names each.
    """
    unsupported = UnsupportedOps(target)
    for module in hardware:
        if isinstance(module, hw.HWModuleExternOp):
            if MEMORY not in module.attributes:
                unsupported.add(module, "only memories can be declared without a body")
            continue
        for op in module.body.block.ops:
            if type(op) not in _KNOWN:
                unsupported.add(op, "the Verilog printer knows hw, comb, registers and rows")
    unsupported.raise_if_any()


def verilog(
    module: HardwareModule, tool: ToolName = "vivado", *, memory_in_tables: bool = True
) -> str:
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
        ops = list(module.body.block.ops)
        self.keeping = {op for op in ops if _enables(op)}
        self.named = {op for op in ops if self._is_named(op)}

    def text(self) -> str:
        """The module."""
        block = self.module.body.block
        inputs = [p for p in self.ports if p.dir.data == hw.Direction.INPUT]
        for port in self.ports:
            self.names.reserve(port.port_name.data)
        for port, argument in zip(inputs, block.args, strict=True):
            self.of[argument] = Expression(port.port_name.data, simple=True)
        for op in block.ops:
            for result in op.results:
                if op in self.named:
                    wish = name_of(result) or result.name_hint or "n"
                    self.of[result] = Expression(self.names.new(wish), simple=True)
        self._count_reads()
        self._declare_early()
        for op in block.ops:
            self._write(op)
        text = "\n".join([*self._head(), *self.lines, *self._unused(), "endmodule", ""])
        has_rows = any(isinstance(op, RowOp) for op in block.ops)
        return text + row_module(self.row) if has_rows else text

    def _is_named(self, op: Operation) -> bool:
        if isinstance(op, _DECLARED):
            return True
        if isinstance(op, hw.OutputOp) or op in self.keeping:
            return False
        (result,) = op.results
        users = [use.operation for use in result.uses]
        if any(isinstance(user, comb.ExtractOp) for user in users):
            return True
        if width(result.type) > 1 and any(isinstance(user, BitsOp) for user in users):
            return True
        if isinstance(op, hw.ConstantOp):
            return False
        if isinstance(op, _WIRES):
            if len(users) == 1 and isinstance(users[0], RowOp):
                return False
            return name_of(result) is not None or len(op.operands) > 3
        return not (len(users) == 1 and users[0] in self.keeping)

    def _declare_early(self) -> None:
        """Declare registers and wires of instances that are read above their own place."""
        seen: set[SSAValue] = set(self.module.body.block.args)
        for op in self.module.body.block.ops:
            for index, value in enumerate(op.operands):
                is_kept = index == 2 and op in self.keeping
                if value not in seen and not is_kept and isinstance(value.owner, _DECLARED):
                    self.early.add(value)
            seen.update(op.results)
        for op in self.module.body.block.ops:
            if isinstance(op, seq.CompRegOp) and op.data in self.early:
                self.lines.append(f"  reg {_range(op.data.type)}{self.of[op.data].text};")
            elif isinstance(op, hw.InstanceOp | RowOp):
                wires = [result for result in op.results if result in self.early]
                self.lines += [f"  wire {_range(w.type)}{self.of[w].text};" for w in wires]

    def _expression(self, value: SSAValue) -> Expression:
        if value not in self.of:
            assert isinstance(value.owner, Operation)
            self.of[value] = self._of_op(value.owner)
        return self.of[value]

    def _of_op(self, op: Operation) -> Expression:
        return expression(op, {value: self._expression(value) for value in op.operands})

    def _write(self, op: Operation) -> None:
        comment = op.attributes.get(COMMENT)
        if isinstance(comment, StringAttr):
            self.lines += ["", *_comment(comment.data, "  ")]
        match op:
            case seq.CompRegOp():
                self._write_register(op)
            case hw.InstanceOp():
                self._write_instance(op)
            case RowOp():
                self._write_row(op)
            case hw.OutputOp():
                outputs = [p for p in self.ports if p.dir.data == hw.Direction.OUTPUT]
                self.lines.append("")
                for port, value in zip(outputs, op.inputs, strict=True):
                    self._assign(f"assign {port.port_name.data}", self._expression(value).text)
            case _:
                (result,) = op.results
                if op in self.named:
                    name = self.of[result].text
                    self._assign(f"wire {_range(result.type)}{name}", self._of_op(op).text)

    def _assign(self, left: str, right: str) -> None:
        line = f"  {left} = {right};"
        if len(line) <= LINE or not _is_concatenation(right):
            self.lines.append(line)
            return
        self.lines.append(f"  {left} = {{")
        self.lines += _filled(right[1:-1].split(", "), "    ")
        self.lines.append("  };")

    def _write_register(self, op: seq.CompRegOp) -> None:
        name = self.of[op.data].text
        if op.data not in self.early:
            apart = self.apart if APART in op.attributes else ""
            self.lines.append(f"  {apart}reg {_range(op.data.type)}{name};")
        enable = ""
        value = op.input
        if isinstance(value.owner, comb.MuxOp) and value.owner in self.keeping:
            enable = f"if ({self._expression(value.owner.cond).text}) "
            value = value.owner.true_value
        step = f"{enable}{name} <= {self._expression(value).text};"
        clock = self._expression(op.clk).text
        if op.reset is not None and op.reset_value is not None:
            reset = self._expression(op.reset).text
            first = self._expression(op.reset_value).text
            self.lines += [
                f"  always @(posedge {clock})",
                f"    if ({reset}) {name} <= {first};",
                f"    else {step}",
            ]
        else:
            self.lines.append(f"  always @(posedge {clock}) {step}")

    def _write_instance(self, op: hw.InstanceOp) -> None:
        for result in op.results:
            if result not in self.early:
                self.lines.append(f"  wire {_range(result.type)}{self.of[result].text};")
        ports = [
            f".{name.data}({self._expression(value).text})"
            for names, values in ((op.arg_names, op.inputs), (op.result_names, op.results))
            for name, value in zip(names, values, strict=True)
        ]
        instance = self.names.new(f"{op.instance_name.data}_i")
        module = op.module_name.string_value()
        self.lines.append(f"  {module} {instance} ({', '.join(ports)});")

    def _write_row(self, op: RowOp) -> None:
        result = op.result
        if result not in self.early:
            self.lines.append(f"  wire {_range(result.type)}{self.of[result].text};")
        instance = self.names.new(f"{self.of[result].text}_i")
        x, c, y = (self._expression(v).text for v in (op.inputs, op.carry, result))
        self.lines += [
            f"  {self.row} #({row_parameters(op)})",
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
        shown = self._shown()
        for op in self.module.body.block.ops:
            if op not in shown:
                continue
            if isinstance(op, BitsOp):
                for number, place in op.bits:
                    value = op.inputs[number]
                    self.read[value] = self.read.get(value, 0) | 1 << place
                continue
            if isinstance(op, comb.ExtractOp):
                bits = ((1 << width(op.result.type)) - 1) << op.low_bit.value.data
                self.read[op.input] = self.read.get(op.input, 0) | bits
                continue
            for index, value in enumerate(op.operands):
                if not (index == 2 and op in self.keeping):
                    self.read[value] = (1 << width(value.type)) - 1

    def _shown(self) -> set[Operation]:
        """The ops that the text has: with a name of their own, or inside of another one."""
        shown: set[Operation] = set()
        for op in reversed(list(self.module.body.block.ops)):
            users = (use.operation for result in op.results for use in result.uses)
            if (
                op in self.named
                or not op.results
                or any(u in self.named or u in shown for u in users)
            ):
                shown.add(op)
        return shown

    def _unused(self) -> list[str]:
        """A wire over the bits that nobody reads, so that no tool warns of them."""
        parts: list[str] = []
        for value, text in self.of.items():
            named = not isinstance(value.owner, Operation) or value.owner in self.named
            bits = width(value.type)
            missing = ((1 << bits) - 1) & ~self.read.get(value, 0)
            if missing and named and text.simple:
                places = [bit for bit in range(bits) if missing >> bit & 1]
                parts += [bits_of(text.text, bits, *run) for run in _runs(places)]
        if not parts:
            return []
        name = self.names.new("unused")
        lines = _filled(["1'b0", *parts], "    ")
        return ["", f"  wire {name} = &{{", *lines, "  };"]


def _enables(op: Operation) -> bool:
    """Whether a selection only keeps a register's value: `mux(enable, next, register)`."""
    if not isinstance(op, comb.MuxOp):
        return False
    register = op.false_value.owner
    return (
        isinstance(register, seq.CompRegOp)
        and register.input is op.result
        and op.result.has_one_use()
    )


def _range(type: Attribute) -> str:
    bits = width(type)
    return "" if bits == 1 else f"[{bits - 1}:0] "


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


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
