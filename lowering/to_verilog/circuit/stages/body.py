"""Writing the module of a stage: its ports, its state, its logic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import IntegerType, SymbolRefAttr, i1
from xdsl.ir import Attribute, Block, SSAValue, TypeAttribute

from .....dialects.shapes import bit_width
from .....ir.printing import value_name
from .....passes.adder_graph.graph import width_of
from .. import ops
from ..circuit import Writer, named
from ..memories import Memory
from ..modules import AnyModule, hw_module, named_ports
from .counters import Counter
from .stage import Layout, Stage


def port_names(side: str, count: int) -> list[str]:
    """The prefixes of a stage's ports: `in`, or `in0`, `in1`, … where there are several."""
    return [side] if count == 1 else [f"{side}{index}" for index in range(count)]


def load_sizes(loads: Sequence[Memory]) -> tuple[int, int]:
    """The bits of an address and of a word that any of some memories takes."""
    return max(m.address_width for m in loads), max(m.width for m in loads)


class ModuleBody(Writer):
    """The inside of a module while it is being written.

    Values are of type i*n*. A register is declared with `state`, read at once, and driven later.

    Attributes:
        block: where the ops go.
        clock: of all registers.
        reset: 1 in the cycles in which the registers with a first value take it.
    """

    clock: SSAValue
    reset: SSAValue

    def __init__(self, inputs: Iterable[tuple[str, Attribute]]) -> None:
        self._ports = list(inputs)
        super().__init__(Block(arg_types=[type for _, type in self._ports]))
        self._states: dict[SSAValue, seq.CompRegOp] = {}

    def element(self, beat: SSAValue, layout: Layout, index: int) -> SSAValue:
        """An element of a beat."""
        return self.extract(beat, layout.places[index], layout.widths[index])

    def resized(self, value: SSAValue, have: tuple[int, int], want: tuple[int, int]) -> SSAValue:
        """A number within the bounds `have` in the bits that the bounds `want` around them need."""
        return self.extended(value, have[0] < 0, width_of(*want))

    def widened(
        self, beat: SSAValue, layout: Layout, index: int, want: tuple[int, int]
    ) -> SSAValue:
        """An element of a beat in the bits that those bounds need."""
        return self.resized(self.element(beat, layout, index), layout.bounds[index], want)

    def state(
        self, bits: int, name: str, first: int | None = None, reset: SSAValue | None = None
    ) -> SSAValue:
        """A register; it takes `first` where `reset` is 1, by default the stage's; without
        `first` it holds anything until it is driven."""
        when = reset or self.reset
        restart = None if first is None else (when, self.constant(first, bits))
        unknown = self.constant(0, bits)
        op = ops.register(unknown, self.clock, restart)
        self._states[op.data] = op
        return named(op.data, name)

    def drive(self, state: SSAValue, value: SSAValue, enable: SSAValue | None = None) -> None:
        """What a register takes at the clock edge, where `enable` is 1."""
        op = self._states.pop(state)
        if enable is not None:
            value = self.put(ops.mux(enable, value, state))
        op.operands[0] = value
        self.block.add_op(op)

    def register(
        self, value: SSAValue, enable: SSAValue | None, name: str, first: int | None = None
    ) -> SSAValue:
        """A register that takes a value, where `enable` is 1 if there is one."""
        register = self.state(bit_width(value.type) or 1, name, first)
        self.drive(register, value, enable)
        return register

    def counter(self, count: int, step: SSAValue, name: str, *, early: bool = False) -> Counter:
        """A number that goes round in [0, count) where `step` is 1."""
        counter = Counter(self, count, name, early=early)
        counter.step(step)
        return counter

    def memory(self, memory: Memory, name: str, operands: Sequence[SSAValue]) -> SSAValue:
        """An instance of a memory; operands after the clock, see `memories`."""
        result = self.put(memory.instance(name, [self.clock, *operands]))
        return named(result, f"{name}_data")

    def instance(
        self,
        module: hw.HWModuleOp,
        name: str,
        inputs: Mapping[str, SSAValue],
        order: Sequence[str] = (),
    ) -> dict[str, SSAValue]:
        """What an instance of another module gives, by port, for what comes in, by port.

        Ports of results are in that order, or in the module's.
        """
        arguments, given = named_ports(module)
        results = {port: given[port] for port in order or given}
        op = hw.InstanceOp(
            name,
            SymbolRefAttr(module.sym_name.data),
            [(port, inputs[port]) for port in arguments],
            [(port, cast("TypeAttribute", value.type)) for port, value in results.items()],
        )
        self.block.add_op(op)
        for result, port in zip(op.results, results, strict=True):
            result.name_hint = value_name(f"{name}_{port}")
        return dict(zip(results, op.results, strict=True))

    def module(
        self, name: str, comment: str, outputs: Sequence[tuple[str, SSAValue]]
    ) -> hw.HWModuleOp:
        """The module, with what it does in one line, and what it gives."""
        assert not self._states, "a register is never driven"
        return hw_module(name, comment, self._ports, outputs, self.block)


class StageBody(ModuleBody):
    """The module of a stage while it is being written.

    Args:
        outputs: how many there are.

    Attributes:
        in_data: of each input.
        in_valid: of each input.
        out_ready: of each output.
    """

    def __init__(self, *inputs: Layout, outputs: int = 1) -> None:
        self._inputs, self._names = inputs, port_names("out", outputs)
        ports: list[tuple[str, Attribute]] = [("clock", seq.clock), ("reset", i1)]
        for name, layout in zip(port_names("in", len(inputs)), inputs, strict=True):
            ports += [(f"{name}_data", IntegerType(layout.width)), (f"{name}_valid", i1)]
        ports += [(f"{name}_ready", i1) for name in self._names]
        super().__init__(ports)
        self.clock, self.reset, *rest = self.block.args
        end = 2 * len(inputs)
        self.in_data: list[SSAValue] = list(rest[:end:2])
        self.in_valid: list[SSAValue] = list(rest[1:end:2])
        self.out_ready: list[SSAValue] = list(rest[end:])

    def load_ports(self, enables: int, address: int, data: int) -> list[SSAValue]:
        """Ports by which words come into memories, of so many bits: enable, address, data."""
        values: list[SSAValue] = []
        for name, bits in (("enable", enables), ("address", address), ("data", data)):
            type = IntegerType(bits)
            self._ports.append((f"load_{name}", type))
            values.append(self.block.insert_arg(type, len(self.block.args)))
        return values

    def taking(self) -> tuple[SSAValue, SSAValue, SSAValue]:
        """The handshake of a result in registers: `valid`, not driven yet; ready; a beat comes."""
        valid = self.state(1, "valid", 0)
        ready = self.any_of(self.inverse(valid), self.out_ready[0], name="free")
        return valid, ready, self.all_of(ready, self.in_valid[0], name="moved")

    def closing(self, count: int, name: str) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        """The handshake of one beat for so many that come, counted by a counter of that name.

        Returns:
            valid; ready; a beat comes; it is the first one.
        """
        valid, ready, moved = self.taking()
        first = self.state(1, "first", 1)
        last = self.counter(count, moved, name).last
        ends = self.all_of(moved, last, name="ends")
        self.drive(valid, ends, ready)
        self.drive(first, ends, moved)
        return valid, ready, moved, first

    def giving(self, count: int, name: str) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        """The handshake of so many beats for each that comes, counted by a counter of that name.

        Returns:
            valid; ready; a beat comes; one goes.
        """
        valid = self.state(1, "valid", 0)
        sent = self.all_of(valid, self.out_ready[0], name="sent")
        last = self.counter(count, sent, name).last
        ready = self.any_of(self.inverse(valid), self.all_of(sent, last), name="free")
        comes = self.all_of(ready, self.in_valid[0], name="moved")
        self.drive(valid, self.select(ready, self.in_valid[0], valid))
        return valid, ready, comes, sent

    def stage(
        self,
        name: str,
        comment: str,
        output: Layout,
        handshake: tuple[SSAValue, SSAValue, SSAValue],
        parts: Iterable[AnyModule] = (),
        loads: Iterable[Memory] = (),
    ) -> Stage:
        """The stage of one input and one output.

        Args:
            handshake: in_ready, out_data, out_valid.
        """
        ready, data, valid = handshake
        return self.finish(name, comment, [ready], [(output, data, valid)], parts, loads)

    def finish(
        self,
        name: str,
        comment: str,
        in_ready: Sequence[SSAValue],
        outputs: Sequence[tuple[Layout, SSAValue, SSAValue]],
        parts: Iterable[AnyModule] = (),
        loads: Iterable[Memory] = (),
    ) -> Stage:
        """The stage: as `stage`, with `in_ready` of each input, and of each output what goes out,
        `out_data` and `out_valid`."""
        names = port_names("in", len(self._inputs))
        values = [(f"{n}_ready", ready) for n, ready in zip(names, in_ready, strict=True)]
        for port, (_, data, valid) in zip(self._names, outputs, strict=True):
            values += [(f"{port}_data", data), (f"{port}_valid", valid)]
        layouts = tuple(layout for layout, _, _ in outputs)
        module = self.module(name, comment, values)
        return Stage(name, module, self._inputs, layouts, tuple(parts), tuple(loads))
