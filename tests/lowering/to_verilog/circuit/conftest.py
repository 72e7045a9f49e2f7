"""A circuit under test: inputs as wires, and what a value of it is for given inputs."""

from collections.abc import Callable

import pytest
from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Block, Operation, SSAValue

from triton_dsl.dialects.fabric import BitsOp, RowOp
from triton_dsl.dialects.shapes import bit_width
from triton_dsl.lowering.to_verilog.circuit.circuit import Circuit
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.circuit.signals import Signal, Wire
from triton_dsl.passes.adder_graph.graph import width_of


def _bits(value: SSAValue) -> int:
    width = bit_width(value.type)
    assert width is not None
    return width


class Bench:
    """A circuit with an input for each pair of bounds.

    Values are computed by Python's integers, op by op; a register is what goes into it, as all
    ways through a circuit have the same number of them.
    """

    def __init__(self, bounds: list[tuple[int, int]], pacing: Pacing) -> None:
        types = [IntegerType(width_of(*ends)) for ends in bounds]
        self.block = Block(arg_types=[seq.clock, i1, *types])
        clock, enable, *inputs = self.block.args
        self.enable = enable
        self.circuit = Circuit(self.block, clock, enable, pacing)
        self.circuit.begin("layer", "under test")
        self.computed: tuple[list[int], dict[SSAValue, int]] = ([], {})
        self.wires = [Wire(v, *ends) for v, ends in zip(inputs, bounds, strict=True)]

    def number(self, signal: Signal, inputs: list[int]) -> int:
        """The integer that a signal stands for."""
        if signal.wire is None:
            return signal.offset
        wire = signal.wire
        if self.computed[0] != inputs or wire.value not in self.computed[1]:
            self.computed = (inputs, self._values(inputs))
        found = self.computed[1][wire.value]
        if wire.low < 0 and found >> (wire.width - 1):
            found -= 1 << wire.width
        assert wire.low <= found <= wire.high
        return signal.sign * found + signal.offset

    def _values(self, inputs: list[int]) -> dict[SSAValue, int]:
        values = {
            w.value: x % (1 << _bits(w.value)) for w, x in zip(self.wires, inputs, strict=True)
        }
        for op in self.block.ops:
            for result in op.results:
                values[result] = self._result(op, values) % (1 << _bits(result))
        return values

    def _result(self, op: Operation, values: dict[SSAValue, int]) -> int:
        match op:
            case hw.ConstantOp():
                return op.value.value.data
            case BitsOp() | RowOp():
                return op.value([values[operand] for operand in op.inputs])
            case comb.MuxOp() if op.cond is self.enable:
                return values[op.true_value]
            case seq.CompRegOp():
                return values[op.input]
            case comb.ExtractOp():
                return values[op.input] >> op.low_bit.value.data
            case comb.ConcatOp():
                total = 0
                for part in op.operands:
                    total = total << _bits(part) | values[part]
                return total
            case comb.ICmpOp():
                half = 1 << (_bits(op.lhs) - 1)
                a, b = values[op.lhs], values[op.rhs]
                name = _PREDICATES[op.predicate.value.data]
                if name.startswith("s"):
                    a, b = (x - 2 * half if x >= half else x for x in (a, b))
                return int({"eq": a == b, "ge": a >= b, "le": a <= b}[name[-2:]])
            case comb.ReplicateOp():
                width = _bits(op.input)
                times = _bits(op.result) // width
                return sum(values[op.input] << width * place for place in range(times))
            case _:
                first, *rest = (values[operand] for operand in op.operands)
                for value in rest:
                    first = _BINARY[type(op)](first, value)
                return first


_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""The order of CIRCT's `comb.icmp`."""

_BINARY: dict[type[Operation], Callable[[int, int], int]] = {
    comb.AddOp: int.__add__,
    comb.SubOp: int.__sub__,
    comb.AndOp: int.__and__,
    comb.OrOp: int.__or__,
    comb.XorOp: int.__xor__,
}


@pytest.fixture(scope="session")
def bench() -> type[Bench]:
    """`bench(bounds, pacing)`."""
    return Bench
