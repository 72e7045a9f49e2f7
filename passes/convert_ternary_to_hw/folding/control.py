"""Stages that take several steps a beat: flags, counters, ROMs, and a result that waits.

Such a stage takes a step in each clock cycle in which its enable is 1. It stands still only when
a part of a result is there while the result before has not been taken. Not here: what is computed
in the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import comb, hw
from xdsl.ir import Operation, SSAValue

from ....dialects.shapes import bit_width
from ..circuit import Circuit
from ..memories import Memory, Style
from ..signals import Wire
from ..stages.body import StageBody, clog2
from ..stream import adder_module


class SteppedBody(StageBody):
    """A stage of one input and one output, while it is written.

    Args:
        name: of the module.
        source: what it computes, in words.
        bits: of the input's beat and of the output's.
        pipeline: a register after so many levels of adders, at least 1.

    Attributes:
        enable: 1 in the cycles in which the stage takes a step.
        circuit: arithmetic that takes these steps.
        memories: those that it uses, by symbol.
    """

    def __init__(self, name: str, source: str, bits: tuple[int, int], pipeline: int) -> None:
        super().__init__([bits[0]], [bits[1]])
        self.name, self.source = name, source
        (self.data,), (self.valid,), (self.ready,) = self.in_data, self.in_valid, self.out_ready
        one = self.constant(1, 1)
        self._waits = self.inverse(self.ready)
        # Registers need the enable first; what it depends on is known last.
        self._blocked = comb.AndOp([one, one])
        self.enable = self.inverse(self.put(self._blocked), "enable")
        self.circuit = Circuit(self.block, self.clock, self.enable, max(1, pipeline))
        self.circuit.begin(name, source)
        self.memories: dict[str, Memory] = {}

    def flag(self, value: SSAValue, name: str) -> SSAValue:
        """The bit one step later, 0 after a reset."""
        register = self.state(1, name, 0)
        self.drive(register, value, self.enable)
        return register

    def flags(self, value: SSAValue, steps: int, name: str) -> SSAValue:
        """The bit so many steps later."""
        for step in range(steps):
            value = self.flag(value, f"{name}_{step + 1}")
        return value

    def kept(self, value: SSAValue, enable: SSAValue, name: str) -> SSAValue:
        """A register that takes a value where `enable` is 1."""
        register = self.state(bit_width(value.type) or 1, name)
        self.drive(register, value, enable)
        return register

    def numbered(self, count: int, step: SSAValue, name: str) -> tuple[Wire, SSAValue, SSAValue]:
        """Counts 0 … count-1 for ever: its value, its next value, and whether it is the last.

        Args:
            count: at least 1.
            step: 1 in the cycles after which it is one further.
            name: of the register.
        """
        if count == 1:
            zero = self.constant(0, 1)
            return Wire(zero, 0, 0), zero, self.constant(1, 1)
        value, last = self.counter(count, step, name)
        more = self.add(value, 1)
        if count & (count - 1):
            more = self.select(last, self.constant(0, clog2(count)), more)
        return Wire(value, 0, count - 1), self.select(step, more, value), last

    def rom(
        self,
        words: Sequence[int],
        width: int,
        address: SSAValue,
        name: str,
        style: Style | None = None,
    ) -> SSAValue:
        """The word of an address, a step later; equal words need no memory."""
        if len(set(words)) == 1:
            return self.constant(words[0], width)
        memory = Memory.rom(words, width, style)
        self.circuit.layer.memory_bits += memory.depth * memory.width
        self.memories[memory.symbol] = memory
        return self.memory(memory, name, [self.enable, address])

    def end(
        self, in_ready: SSAValue, done: SSAValue, last: SSAValue, data: SSAValue, *, at_once: bool
    ) -> tuple[hw.HWModuleOp, list[Operation]]:
        """The output; the stage's module, and the modules that it uses.

        Args:
            in_ready: whether a beat is taken.
            done: whether a part of a result is there, from a register.
            last: whether it is the last part; a step later the result is whole.
            data: the result, from registers.
            at_once: whether parts may come in each step: then a result that leaves makes room for
                one in the same cycle, and `out_ready` reaches `in_ready` without a register.
        """
        result = self.state(1, "result_valid", 0)
        more = self.all_of(done, last, self.enable)
        self.drive(result, self.any_of(more, self.all_of(result, self._waits)))
        self._blocked.operands = [done, result, *([self._waits] if at_once else [])]
        module = self.finish(self.name, self.source, [in_ready], [data], [result])
        memories = [self.memories[symbol].declaration() for symbol in sorted(self.memories)]
        adders = [adder_module(*adder) for adder in sorted(self.circuit.adder_widths)]
        self.circuit.layer.register_bits += self.register_bits
        return module, [*memories, *adders]
