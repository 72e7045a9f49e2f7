"""Whether modules of `hw`, `comb` and `seq` are a circuit, checked before it is written.

xDSL verifies ops one by one: an instance may have ports of other types there than its module. Here
names, ports, widths, drivers, memories and loops of the whole are looked at. Not here: what a
circuit computes (`triton verify`), and ops that have no Verilog (`to_verilog.printer`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ....dialects.fabric import BitsOp, RowOp
from ....dialects.shapes import bit_width
from ....ir.errors import VerifyError
from ....ir.locations import location_text
from .circuit import name_of
from .memories import MEMORY, memory_of
from .modules import AnyModule
from .ops import read_by
from .words import KEYWORDS

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_DIRECTIONS = (hw.Direction.INPUT, hw.Direction.OUTPUT)

_SHOWN = 20
"""Problems that are told, at most."""

Types = Mapping[str, Attribute]
"""Of ports, by name."""


@dataclass(frozen=True)
class _Ports:
    inputs: Types
    outputs: Types


def check_structure(module: ModuleOp, top: str, streams: Mapping[str, int] | None = None) -> None:
    """Refuse hardware modules that are no circuit.

    Each module has a name of its own, which Verilog takes; each instance has every port of its
    module once, with its direction and type; operands and results of every op have the widths that
    belong together; each value is driven in its module; memories are what their ports say; and no
    signal depends on itself but through a register.

    Args:
        module: holds them.
        top: the outermost one.
        streams: bits that ports of `top` must have, by name.

    Raises:
        VerifyError: says what is wrong where, up to 20 problems.
    """
    modules = [op for op in module.body.block.ops if isinstance(op, AnyModule)]
    checks = _Checks(modules)
    problems = checks.problems(top, streams or {})
    if problems:
        shown = "\n".join(f"  {each}" for each in problems[:_SHOWN])
        more = f"\n  and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise VerifyError(f"circuit '{top}' is not well formed:\n{shown}{more}")


class _Checks:
    def __init__(self, modules: Sequence[AnyModule]) -> None:
        self.modules = modules
        self.named = {module.sym_name.data: module for module in modules}
        self.ports = {module: _ports(module) for module in modules}
        self.found: list[str] = []
        self._reaching: dict[AnyModule, dict[str, frozenset[str]]] = {}

    def problems(self, top: str, streams: Mapping[str, int]) -> list[str]:
        """What is wrong."""
        outermost = self.named.get(top)
        if outermost is None:
            self.found.append(f"there is no module '{top}'")
        else:
            ports = {**self.ports[outermost].inputs, **self.ports[outermost].outputs}
            for name, bits in streams.items():
                if name not in ports or bit_width(ports[name]) != bits:
                    text = f"of type {ports[name]}" if name in ports else "missing"
                    self._note(outermost, f"port '{name}' is {text}, expected i{bits}")
        self._check_names()
        for module in self.modules:
            if isinstance(module, hw.HWModuleExternOp):
                self._check_memory(module)
            else:
                self._check_body(module)
        if not self.found:
            for module in self.modules:
                self._reached_outputs(module, [])
        return self.found

    def _note(self, module: AnyModule, text: str, op: Operation | None = None) -> None:
        place = f"module '{module.sym_name.data}'"
        if op is not None:
            name = op.instance_name.data if isinstance(op, hw.InstanceOp) else _result_name(op)
            place += f", {op.name}" + (f" '{name}'" if name else "")
            source = location_text(op)
            place += "" if source == "unknown" else f" at {source}"
        self.found.append(f"{place}: {text}")

    def _check_names(self) -> None:
        for module in self.modules:
            name = module.sym_name.data
            if self.named[name] is not module:
                self._note(module, "another module has the same name")
            names: set[str] = set()
            for port in module.module_type.ports.data:
                own = port.port_name.data
                if own in names:
                    self._note(module, f"two ports are called '{own}'")
                if port.dir.data not in _DIRECTIONS or not _is_signal(port.type):
                    self._note(module, f"port '{own}' is {port.dir.data.value} {port.type}")
                names.add(own)
            for each in (name, *sorted(names)):
                if not _IDENTIFIER.fullmatch(each) or each in KEYWORDS:
                    self._note(module, f"Verilog does not take the name '{each}'")

    def _check_memory(self, module: hw.HWModuleExternOp) -> None:
        if MEMORY not in module.attributes:
            return  # the printer refuses what has no body
        try:
            memory = memory_of(module)
            assert memory is not None
        except (ValueError, TypeError, AttributeError) as error:
            self._note(module, f"it is no memory: {error}")
            return
        expected = _Ports(dict(memory.inputs), dict([memory.output]))
        if expected != self.ports[module]:
            self._note(
                module, f"its ports are not those of {memory.depth} words of {memory.width} bits"
            )

    def _check_body(self, module: hw.HWModuleOp) -> None:
        block, ports = module.body.block, self.ports[module]
        if [argument.type for argument in block.args] != list(ports.inputs.values()):
            self._note(module, "its inputs are not the arguments of its body")
        last = block.last_op
        if not isinstance(last, hw.OutputOp):
            self._note(module, "it does not end with hw.output")
        elif [value.type for value in last.inputs] != list(ports.outputs.values()):
            self._note(module, "its results are not of the types of its outputs", last)
        for op in block.ops:
            operands = tuple(op.operands)
            for value in operands:
                where = value.op.parent if type(value) is OpResult else value.owner
                if where is not block:
                    self._note(module, "an operand is driven outside of the module", op)
            types = [value.type for value in (*operands, *op.results)]
            widths = [bit_width(type) or 0 for type in types]
            if 0 in widths and not all(map(_is_signal, types)):
                self._note(module, "a value has no bits", op)
            elif type(op) is hw.InstanceOp:
                self._check_instance(module, op)
            elif not _fits(op, widths):
                self._note(module, f"widths do not fit: {', '.join(map(str, types))}", op)

    def _check_instance(self, module: AnyModule, op: hw.InstanceOp) -> None:
        name = op.module_name.string_value()
        of = self.named.get(name)
        if of is None:
            self._note(module, f"there is no module '{name}'", op)
            return
        ports = self.ports[of]
        for kind, names, values, expected in (
            ("input", op.arg_names, op.inputs, ports.inputs),
            ("output", op.result_names, op.results, ports.outputs),
        ):
            ports_there = [each.data for each in names]
            if sorted(ports_there) != sorted(expected) or len(ports_there) != len(values):
                names = f"{sorted(ports_there)} are not those of '{name}', {sorted(expected)}"
                self._note(module, f"{kind}s {names}", op)
                continue
            for port, value in zip(ports_there, values, strict=True):
                if value.type != expected[port]:
                    self._note(
                        module, f"'{port}' of '{name}' is {expected[port]}, gets {value.type}", op
                    )

    def _reached_outputs(
        self, module: AnyModule, around: list[AnyModule]
    ) -> Mapping[str, frozenset[str]]:
        """For each output the inputs that reach it within a cycle; notes loops."""
        if module in around:
            self._note(module, "it is a part of itself")
            return {}
        if module in self._reaching:
            return self._reaching[module]
        reaching: dict[str, frozenset[str]] = {}
        if isinstance(module, hw.HWModuleOp):
            block, ports = module.body.block, self.ports[module]
            path = [*around, module]
            ops = list(block.ops)
            inputs: dict[SSAValue, frozenset[str]] = {
                op.results[0]: _NONE for op in ops if type(op) is seq.CompRegOp
            }
            for value, name in zip(block.args, ports.inputs, strict=True):
                inputs[value] = frozenset([name])
            late: dict[SSAValue, Sequence[SSAValue]] = {}
            for value in (value for op in ops for value in op.results):
                if value not in inputs:
                    before = self._before(value, path)
                    if not _follow(inputs, value, before):
                        late[value] = before
            try:
                for value in TopologicalSorter(late).static_order():
                    if value in late:
                        _follow(inputs, value, late[value])
            except CycleError as error:
                loop: SSAValue = error.args[1][0]
                assert isinstance(loop.owner, Operation)
                self._note(module, "it depends on itself without a register", loop.owner)
                return self._reaching.setdefault(module, {})
            assert isinstance(block.last_op, hw.OutputOp)
            for name, value in zip(ports.outputs, block.last_op.inputs, strict=True):
                reaching[name] = inputs[value]
        return self._reaching.setdefault(module, reaching)

    def _before(self, value: OpResult, around: list[AnyModule]) -> Sequence[SSAValue]:
        """The values that one waits for within a cycle."""
        op = value.op
        if type(op) is not hw.InstanceOp:
            return op.operands
        reaching = self._reached_outputs(self.named[op.module_name.string_value()], around)
        names = reaching.get(op.result_names.data[value.index].data, _NONE)
        return [x for name, x in zip(op.arg_names, op.inputs, strict=True) if name.data in names]


_NONE: frozenset[str] = frozenset()


def _follow(
    inputs: dict[SSAValue, frozenset[str]], value: SSAValue, before: Sequence[SSAValue]
) -> bool:
    """Note the inputs that reach a value by those before it; whether they are known."""
    parts = {inputs.get(each) for each in before}
    if None in parts:
        return False
    inputs[value] = _NONE.union(*(part for part in parts if part))
    return True


def _fits(op: Operation, widths: Sequence[int]) -> bool:
    """Whether the widths of an op's operands and result belong together."""
    kind, (*of, result) = type(op), widths if op.results else (*widths, 0)
    if kind in _FITTING:
        return _FITTING[kind](op, of, result)
    return kind is hw.OutputOp or (bool(of) and all(bits == result for bits in of))


def _register_fits(op: seq.CompRegOp, of: Sequence[int], result: int) -> bool:
    value, clock, reset = read_by(op)
    if clock.type != seq.clock or value.type != op.results[0].type:
        return False
    return len(of) == 2 if reset is None else of[2:] == [1, result]


_FITTING: dict[type[Operation], Callable[[Any, list[int], int], bool]] = {
    hw.ConstantOp: lambda op, of, result: bit_width(op.value.type) == result,
    comb.ConcatOp: lambda op, of, result: sum(of) == result,
    BitsOp: lambda op, of, result: not op.fault,
    comb.ExtractOp: lambda op, of, result: 0 <= op.low_bit.value.data <= of[0] - result,
    comb.ReplicateOp: lambda op, of, result: result % of[0] == 0,
    comb.ICmpOp: lambda op, of, result: of[0] == of[1] and result == 1,
    comb.ParityOp: lambda op, of, result: result == 1,
    RowOp: lambda op, of, result: not op.fault,
    comb.MuxOp: lambda op, of, result: of == [1, result, result],
    seq.CompRegOp: _register_fits,
}
"""Of ops whose widths are not all the same: whether those of operands and result fit."""


def _ports(module: AnyModule) -> _Ports:
    sides: dict[bool, dict[str, Attribute]] = {True: {}, False: {}}
    for port in module.module_type.ports.data:
        sides[port.dir.data != hw.Direction.OUTPUT][port.port_name.data] = port.type
    return _Ports(sides[True], sides[False])


def _is_signal(type: Attribute) -> bool:
    return (bit_width(type) or 0) > 0 or type == seq.clock


def _result_name(op: Operation) -> str | None:
    return name_of(op.results[0]) or op.results[0].name_hint if op.results else None
