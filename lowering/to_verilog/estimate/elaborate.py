"""Modules of `hw`, `comb` and `seq` as one netlist: instances dissolved, layers told apart.

Values are computed where somebody needs them, so that what nobody reads costs nothing. Registers
and memories that read themselves, over any number of ops and instances, are cut open there. Not
here: what a single op becomes (`gates`), memories (`storage`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ....dialects.shapes import bit_width
from ....ir.errors import LoweringError, UnsupportedError
from ....ir.locations import location_text
from ..circuit.circuit import APART, COMMENT
from ..circuit.memories import MEMORY
from .families import Family
from .gates import Bits, Gates
from .netlist import FALSE, TRUE, Block, Netlist, Register
from .storage import Storage


@dataclass(frozen=True)
class Part:
    """What is counted together.

    Attributes:
        module: the symbol of an `hw.module`.
        layer: the comment before the layer's first op: its name, a colon, and what it is; empty for
            ops before the first comment.
    """

    module: str
    layer: str


def parts_of(module: hw.HWModuleOp) -> Iterator[tuple[Operation, Part]]:
    """The ops of a module, each with the part that it belongs to."""
    part = Part(module.sym_name.data, "")
    for op in module.body.block.ops:
        comment = op.attributes.get(COMMENT)
        if isinstance(comment, StringAttr):
            part = Part(part.module, comment.data)
        yield op, part


@dataclass
class Elaboration:
    """A netlist and its parts (by group)."""

    netlist: Netlist
    parts: list[Part]


@dataclass(eq=False)
class _Scope:
    """One instance of a module."""

    module: hw.HWModuleOp
    groups: Mapping[Operation, int]
    parent: _Scope | None = None
    instance: hw.InstanceOp | None = None
    values: dict[SSAValue, Bits] = field(default_factory=dict[SSAValue, Bits])
    children: dict[Operation, _Scope] = field(default_factory=dict[Operation, "_Scope"])

    @property
    def outputs(self) -> hw.OutputOp:
        last = self.module.body.block.last_op
        assert isinstance(last, hw.OutputOp)
        return last


@dataclass
class _Needs:
    """What a register reads: data, conditions to take it, reset and its value, clock."""

    data: SSAValue
    conditions: list[tuple[SSAValue, bool]]
    reset: tuple[SSAValue, SSAValue] | None
    clock: SSAValue

    def __post_init__(self) -> None:
        conditions = [condition for condition, _ in self.conditions]
        self.values = [self.data, *conditions, *(self.reset or ()), self.clock]


Task = tuple[_Scope, SSAValue]


def elaborate(module: ModuleOp, top: hw.HWModuleOp, family: Family) -> Elaboration:
    """The netlist of a module with everything that it instantiates.

    Args:
        module: has the modules of the instances.
        top: where to begin.
        family: what adders and comparisons become.

    Raises:
        UnsupportedError: ops that are no hardware, or that are not known here.
        LoweringError: an instance of a module that is not there; a loop without a register.
    """
    work = _Elaborator(module, family)
    work.run(top)
    if work.unknown:
        raise UnsupportedError("verilog", list(work.unknown.values()))
    return Elaboration(work.netlist, work.parts)


class _Elaborator:
    def __init__(self, module: ModuleOp, family: Family) -> None:
        self.symbols: dict[str, Operation] = {}
        for op in module.body.block.ops:
            if isinstance(op, hw.HWModuleOp | hw.HWModuleExternOp):
                self.symbols[op.sym_name.data] = op
        self.netlist = Netlist()
        self.gates = Gates(self.netlist, family)
        self.storage = Storage(self.netlist, family)
        self.parts: list[Part] = []
        self.part_of: dict[Part, int] = {}
        self.groups: dict[hw.HWModuleOp, dict[Operation, int]] = {}
        self.unknown: dict[str, tuple[str, str, str]] = {}
        self.cut: list[tuple[_Scope, seq.CompRegOp | hw.InstanceOp]] = []
        self.needs: dict[seq.CompRegOp, _Needs] = {}
        self.known_registers: dict[tuple[object, ...], Bits] = {}

    def run(self, top: hw.HWModuleOp) -> None:
        scope = self._scope(top, None, None)
        for argument in top.body.block.args:
            scope.values[argument] = self.netlist.leaves(bit_width(argument.type) or 1)
        self.netlist.outputs = [
            bit for value in scope.outputs.inputs for bit in self.value(scope, value)
        ]
        while self.cut:
            owner, op = self.cut.pop()
            register = isinstance(op, seq.CompRegOp)
            for value in self._needs(op).values if register else op.operands:
                self.value(owner, value)
            if register:
                self._connect(owner, op)
            else:
                self._connect_memory(owner, op)

    def _scope(
        self, module: hw.HWModuleOp, parent: _Scope | None, instance: hw.InstanceOp | None
    ) -> _Scope:
        if module not in self.groups:
            self.groups[module] = self._layers(module)
        return _Scope(module, self.groups[module], parent, instance)

    def _layers(self, module: hw.HWModuleOp) -> dict[Operation, int]:
        self._group(Part(module.sym_name.data, ""))
        return {op: self._group(part) for op, part in parts_of(module)}

    def _group(self, part: Part) -> int:
        if part not in self.part_of:
            self.part_of[part] = len(self.parts)
            self.parts.append(part)
        return self.part_of[part]

    def value(self, scope: _Scope, value: SSAValue) -> Bits:
        """The bits of a value, computed with whatever it needs."""
        stack: list[Task] = [(scope, value)]
        waiting: set[Task] = set()
        while stack:
            here, wanted = task = stack[-1]
            if wanted in here.values:
                waiting.discard(stack.pop())
                continue
            missing = self._missing(here, wanted)
            if not missing:
                here.values[wanted] = self._computed(here, wanted)
                waiting.discard(stack.pop())
                continue
            waiting.add(task)
            start = next((task for task in missing if task in waiting), None)
            if start is not None:
                self._cut_open(stack, start, waiting)
            else:
                stack += missing
        return scope.values[value]

    def _cut_open(self, stack: list[Task], start: Task, waiting: set[Task]) -> None:
        """Make the last register or memory of a loop leaves, connected when all else is done."""
        for place in range(len(stack) - 1, -1, -1):
            here, value = stack[place]
            op = value.owner
            cuts = isinstance(op, seq.CompRegOp) or self._memory(op) is not None
            if stack[place] in waiting and cuts:
                assert isinstance(op, seq.CompRegOp | hw.InstanceOp)
                here.values[value] = self.netlist.leaves(bit_width(value.type) or 1)
                self.cut.append((here, op))
                for task in stack[place:]:
                    waiting.discard(task)
                del stack[place:]
                return
            if stack[place] == start:
                break
        raise LoweringError(
            f"hw.module @{start[0].module.sym_name.data}: a value depends on itself without a "
            "register between; registers must cut every loop"
        )

    def _missing(self, scope: _Scope, value: SSAValue) -> list[Task]:
        """What has to be known before a value is; the first is looked at last."""
        if type(value) is BlockArgument:
            assert scope.parent is not None and scope.instance is not None
            needed = [(scope.parent, scope.instance.inputs[value.index])]
            return [task for task in needed if task[1] not in task[0].values]
        assert type(value) is OpResult
        op, known = value.op, scope.values
        child = self._child(scope, op) if isinstance(op, hw.InstanceOp) else None
        if child is not None:
            needed = [(child, child.outputs.inputs[value.index])]
            return [task for task in needed if task[1] not in task[0].values]
        read = self._needs(op).values if isinstance(op, seq.CompRegOp) else op.operands
        return [(scope, operand) for operand in read if operand not in known]

    def _child(self, scope: _Scope, op: hw.InstanceOp) -> _Scope | None:
        """The inside of an instance, if it is dissolved."""
        if op not in scope.children:
            name = op.module_name.string_value()
            module = self.symbols.get(name)
            if module is None:
                raise LoweringError(f"hw.instance '{op.instance_name.data}': no module @{name}")
            if not isinstance(module, hw.HWModuleOp):
                return None
            scope.children[op] = self._scope(module, scope, op)
        return scope.children[op]

    def _computed(self, scope: _Scope, value: SSAValue) -> Bits:
        if type(value) is BlockArgument:
            assert scope.parent is not None and scope.instance is not None
            return scope.parent.values[scope.instance.inputs[value.index]]
        assert type(value) is OpResult
        op = value.op
        self.netlist.group = scope.groups[op]
        if isinstance(op, seq.CompRegOp):
            return self._register(scope, op)
        if isinstance(op, hw.InstanceOp):
            return self._instance(scope, op, value)
        bits = self.gates.compute(op, [scope.values[operand] for operand in op.operands])
        if bits is None:
            reason = "its size as hardware is not known"
            self.unknown.setdefault(op.name, (op.name, location_text(op), reason))
            return self.netlist.leaves(bit_width(value.type) or 1)
        return bits

    def _instance(self, scope: _Scope, op: hw.InstanceOp, value: SSAValue) -> Bits:
        assert isinstance(value, OpResult)
        child = scope.children.get(op)
        if child is not None:
            return child.values[child.outputs.inputs[value.index]]
        name = op.module_name.string_value()
        operands = [scope.values[operand] for operand in op.inputs]
        memory = self._memory(op)
        if memory is not None:
            return self.storage.memory(memory, operands)
        results = [self.netlist.leaves(bit_width(r.type) or 1) for r in op.results]
        for result, bits in zip(op.results, results, strict=True):
            scope.values[result] = bits
        inputs = [bit for word in operands for bit in word]
        outputs = [bit >> 1 for word in results for bit in word]
        self.netlist.blocks.append(Block(name, inputs, outputs, self.netlist.group))
        return results[value.index]

    def _memory(self, op: object) -> hw.HWModuleExternOp | None:
        """The declaration of a memory that an op instantiates."""
        if not isinstance(op, hw.InstanceOp):
            return None
        module = self.symbols.get(op.module_name.string_value())
        if isinstance(module, hw.HWModuleExternOp) and MEMORY in module.attributes:
            return module
        return None

    def _connect_memory(self, scope: _Scope, op: hw.InstanceOp) -> None:
        self.netlist.group = scope.groups[op]
        memory = self._memory(op)
        assert memory is not None
        operands = [scope.values[operand] for operand in op.inputs]
        self.storage.memory(memory, operands, scope.values[op.results[0]])

    def _register(self, scope: _Scope, op: seq.CompRegOp) -> Bits:
        """The bits of a register whose inputs are known; equal registers are one."""
        data, enable, reset, value, clock = self._controls(scope, op)
        key = (*data, clock, enable, reset, *value)
        known = self.known_registers.get(key)
        if known is None:
            width = len(data)
            known = []
            for i in range(width):
                known.append(self._register_bit(data[i], enable, reset, clock, value[i]))
                if APART in op.attributes and known[-1] > TRUE:
                    self.netlist.registers[-1].apart = True
            self.known_registers[key] = known
        return known

    def _register_bit(self, data: int, enable: int, reset: int, clock: int, value: int) -> int:
        if data <= TRUE and (reset == FALSE or data == value):
            return data
        key = (data, enable, reset, clock, value)
        known = self.known_registers.get(key)
        if known is not None:
            return known[0]
        output = self.netlist.leaf()
        self.netlist.registers.append(
            Register(data, enable, reset, clock, value, output >> 1, self.netlist.group)
        )
        self.known_registers[key] = [output]
        return output

    def _connect(self, scope: _Scope, op: seq.CompRegOp) -> None:
        data, enable, reset, value, clock = self._controls(scope, op)
        self.netlist.group = scope.groups[op]
        for i, output in enumerate(scope.values[op.data]):
            register = Register(
                data[i], enable, reset, clock, value[i], output >> 1, self.netlist.group
            )
            self.netlist.registers.append(register)

    def _controls(self, scope: _Scope, op: seq.CompRegOp) -> tuple[Bits, int, int, Bits, int]:
        """Data, enable, reset, the value after a reset, and the clock."""
        values, needs = scope.values, self._needs(op)
        enable = TRUE
        for condition, polarity in needs.conditions:
            enable = self.netlist.both(enable, values[condition][0] ^ (not polarity))
        data = values[needs.data]
        reset, value = FALSE, [FALSE] * len(data)
        if needs.reset is not None:
            reset, value = values[needs.reset[0]][0], values[needs.reset[1]]
        return data, enable, reset, value, values[needs.clock][0]

    def _needs(self, op: seq.CompRegOp) -> _Needs:
        if op not in self.needs:
            data, conditions = _kept(op)
            reset = None
            if op.reset is not None and op.reset_value is not None:
                reset = (op.reset, op.reset_value)
            self.needs[op] = _Needs(data, conditions, reset, op.clk)
        return self.needs[op]


def _kept(op: seq.CompRegOp) -> tuple[SSAValue, list[tuple[SSAValue, bool]]]:
    """What a register takes, and under which conditions; else it keeps its value."""
    value = op.input
    conditions: list[tuple[SSAValue, bool]] = []
    while isinstance(value.owner, comb.MuxOp):
        condition, yes, no = value.owner.operands
        if no is op.data:
            conditions.append((condition, True))
            value = yes
        elif yes is op.data:
            conditions.append((condition, False))
            value = no
        else:
            break
    return value, conditions
