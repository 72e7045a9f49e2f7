"""Modules of `hw`, `comb` and `seq` as one netlist: instances dissolved, layers told apart.

Values are computed where somebody needs them, so that what nobody reads costs nothing. Registers
that read themselves, over any number of ops and instances, give what they give before they are
known; so do memories but ROMs in logic. Not here: what a single op becomes (`gates`), memories
(`storage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ....dialects.shapes import bit_width
from ....ir.errors import LoweringError, UnsupportedError
from ....ir.locations import location_text
from ..circuit.circuit import APART, COMMENT
from ..circuit.memories import Memory, memory_of
from ..circuit.ops import read_by
from .families import Family
from .gates import Bits, Gates
from .netlist import FALSE, Block, Netlist
from .storage import Storage

_FOUR = 4
"""Functions of so many inputs are all that such a family has."""


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


def parts_of(module: hw.HWModuleOp) -> list[tuple[Part, list[Operation]]]:
    """The ops of a module in their order, together with the part that they belong to."""
    runs: list[tuple[Part, list[Operation]]] = [(Part(module.sym_name.data, ""), [])]
    for op in module.body.block.ops:
        comment = op.attributes.get(COMMENT)
        if comment is not None and isinstance(comment, StringAttr):
            runs.append((Part(module.sym_name.data, comment.data), []))
        runs[-1][1].append(op)
    return runs if runs[0][1] else runs[1:]


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


Task = tuple[_Scope, SSAValue]


def elaborate(module: ModuleOp, top: hw.HWModuleOp, family: Family) -> tuple[Netlist, list[Part]]:
    """The netlist of a module with everything that it instantiates, and the part of each group.

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
    return work.netlist, list(work.parts)


class _Elaborator:
    def __init__(self, module: ModuleOp, family: Family) -> None:
        self.symbols: dict[str, Operation] = {}
        self.memories: dict[str, Memory] = {}
        for op in module.body.block.ops:
            if isinstance(op, hw.HWModuleOp | hw.HWModuleExternOp):
                self.symbols[op.sym_name.data] = op
            if isinstance(op, hw.HWModuleExternOp) and (memory := memory_of(op)):
                self.memories[op.sym_name.data] = memory
        self.netlist = Netlist(in_fours=family.widest == _FOUR)
        self.gates = Gates(self.netlist, family)
        self.storage = Storage(self.netlist, family)
        self.parts: dict[Part, int] = {}
        self.groups: dict[hw.HWModuleOp, dict[Operation, int]] = {}
        self.unknown: dict[str, tuple[str, str, str]] = {}
        self.open: list[tuple[_Scope, seq.CompRegOp | hw.InstanceOp]] = []

    def run(self, top: hw.HWModuleOp) -> None:
        scope = _Scope(top, self._layers(top))
        for argument in top.body.block.args:
            scope.values[argument] = self._leaves(argument)
        self.netlist.outputs = [
            bit for value in scope.outputs.inputs for bit in self.value(scope, value)
        ]
        while self.open:
            owner, op = self.open.pop()
            for value in _read(op):
                self.value(owner, value)
            self.netlist.group = owner.groups[op]
            if isinstance(op, seq.CompRegOp):
                self._registers(owner, op, owner.values[op.data])
            else:
                self._connect_instance(owner, op)

    def _layers(self, module: hw.HWModuleOp) -> dict[Operation, int]:
        """The group of each op."""
        if module not in self.groups:
            groups = self.groups[module] = dict[Operation, int]()
            for part, ops in ((Part(module.sym_name.data, ""), ()), *parts_of(module)):
                groups |= dict.fromkeys(ops, self.parts.setdefault(part, len(self.parts)))
        return self.groups[module]

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
            loop = next((task for task in missing if task in waiting), None)
            if loop is not None:
                self._cut_open(stack, loop, waiting)
            else:
                stack += missing
        return scope.values[value]

    def _cut_open(self, stack: list[Task], loop: Task, waiting: set[Task]) -> None:
        """Let a register of a loop be known, to be connected when all else is done.

        The narrowest of them, and of those the last: what is known so far to be constant of its
        bits, or equal, is not seen.
        """
        place, narrowest = -1, 0
        for i in reversed(range(stack.index(loop), len(stack))):
            here, value = stack[i]
            op, width = value.owner, bit_width(value.type) or 1
            is_cut = isinstance(op, seq.CompRegOp)
            # What is dissolved has its registers inside.
            is_cut |= isinstance(op, hw.InstanceOp) and not self._child(here, op)
            if stack[i] in waiting and is_cut and (place < 0 or width < narrowest):
                place, narrowest = i, width
        if place >= 0:
            here, value = stack[place]
            assert isinstance(value.owner, seq.CompRegOp | hw.InstanceOp)
            self._given(here, value.owner, value)
            waiting.difference_update(stack[place:])
            del stack[place:]
            return
        raise LoweringError(
            f"hw.module @{loop[0].module.sym_name.data}: a value depends on itself without a "
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
        if type(op) is not hw.InstanceOp:
            return [(scope, operand) for operand in _read(op) if operand not in known]
        child = self._child(scope, op)
        if child is None:
            memory = self._memory(op)
            operands = op.inputs if self._rom(op) else ()
            if memory is not None and not operands:
                operands = op.inputs[self.storage.written(memory)]
            return [(scope, operand) for operand in operands if operand not in known]
        needed = [(child, child.outputs.inputs[value.index])]
        return [task for task in needed if task[1] not in task[0].values]

    def _rom(self, op: hw.InstanceOp) -> Memory | None:
        """The ROM in logic that an op instantiates, which gives what registers take."""
        memory = self._memory(op)
        if memory is None or memory.kind != "rom" or self.storage.is_block(memory):
            return None
        return memory

    def _child(self, scope: _Scope, op: hw.InstanceOp) -> _Scope | None:
        """The inside of an instance, if it is dissolved."""
        if op not in scope.children:
            name = op.module_name.string_value()
            module = self.symbols.get(name)
            if module is None:
                raise LoweringError(f"hw.instance '{op.instance_name.data}': no module @{name}")
            if not isinstance(module, hw.HWModuleOp):
                return None
            scope.children[op] = _Scope(module, self._layers(module), scope, op)
        return scope.children[op]

    def _computed(self, scope: _Scope, value: SSAValue) -> Bits:
        if type(value) is BlockArgument:
            assert scope.parent is not None and scope.instance is not None
            return scope.parent.values[scope.instance.inputs[value.index]]
        assert type(value) is OpResult
        op = value.op
        self.netlist.group = scope.groups[op]
        if type(op) is seq.CompRegOp:
            return self._registers(scope, op)
        if type(op) is hw.InstanceOp:
            child = scope.children.get(op)
            if child is not None:
                return child.values[child.outputs.inputs[value.index]]
            rom = self._rom(op)
            if rom is None:
                return self._given(scope, op, value)
            return self.storage.rom(rom, [scope.values[operand] for operand in op.inputs])
        bits = self.gates.compute(op, [scope.values[operand] for operand in op.operands])
        if bits is None:
            reason = "its size as hardware is not known"
            self.unknown.setdefault(op.name, (op.name, location_text(op), reason))
            return self._leaves(value)
        return bits

    def _leaves(self, value: SSAValue) -> Bits:
        return self.netlist.leaves(bit_width(value.type) or 1)

    def _given(self, scope: _Scope, op: seq.CompRegOp | hw.InstanceOp, value: SSAValue) -> Bits:
        """What a register, a memory or a module from elsewhere gives, connected later."""
        memory = self._memory(op)
        for result in op.results:
            known = None
            if memory is not None:
                words = [scope.values.get(x) for x in op.operands[self.storage.written(memory)]]
                known = self.storage.outputs(memory, *words)
            scope.values[result] = known or self._leaves(result)
        self.open.append((scope, op))
        return scope.values[value]

    def _memory(self, op: seq.CompRegOp | hw.InstanceOp) -> Memory | None:
        """The memory that an op instantiates."""
        is_instance = isinstance(op, hw.InstanceOp)
        return self.memories.get(op.module_name.string_value()) if is_instance else None

    def _connect_instance(self, scope: _Scope, op: hw.InstanceOp) -> None:
        operands = [scope.values[operand] for operand in op.inputs]
        outputs = [bit for result in op.results for bit in scope.values[result]]
        memory = self._memory(op)
        if memory is not None:
            self.storage.connect(memory, operands, outputs)
            return
        inputs, nodes = [bit for word in operands for bit in word], [bit >> 1 for bit in outputs]
        self.netlist.blocks.append(Block(inputs, nodes, self.netlist.group))

    def _registers(self, scope: _Scope, op: seq.CompRegOp, outputs: Bits | None = None) -> Bits:
        """What a register gives, where that is not said; constants need none, equal bits one."""
        values, (data, conditions), net = scope.values, _kept(op), self.netlist
        enable = net.all_of([values[c][0] ^ (not wanted) for c, wanted in conditions])
        reset, first = FALSE, [FALSE] * len(values[data])
        _, clk, resetting = read_by(op)
        if resetting is not None:
            reset, first = values[resetting[0]][0], values[resetting[1]]
        clock, apart, given = values[clk][0], APART in op.attributes, outputs or [None] * len(first)
        return [
            net.register(bit, enable, clock, output, reset=reset, begin=begin, apart=apart)
            for bit, begin, output in zip(values[data], first, given, strict=True)
        ]


def _read(op: Operation) -> Sequence[SSAValue]:
    """What an op takes; of a register what it keeps its value by is not looked at."""
    if type(op) is not seq.CompRegOp:
        return op.operands
    data, conditions = _kept(op)
    return [data, *(condition for condition, _ in conditions), *op.operands[1:]]


def _kept(op: seq.CompRegOp) -> tuple[SSAValue, list[tuple[SSAValue, bool]]]:
    """What a register takes, and under which conditions; else it keeps its value."""
    value, own = op.operands[0], op.results[0]
    conditions: list[tuple[SSAValue, bool]] = []
    while type(value.owner) is comb.MuxOp:
        condition, yes, no = value.owner.operands
        if own is not yes and own is not no:
            break
        conditions.append((condition, no is own))
        value = yes if no is own else no
    return value, conditions
