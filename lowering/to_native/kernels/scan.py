"""Runs of neurons over time: a few functions of arrays, step by step, in one call.

A thread goes through its neurons by blocks whose states stay in a near cache, and through the steps
of each block in their order, so that rows are read and written along. Not here: what a step is
(`runtime.spiking.native_steps`), neurons of the dialect `spike` (`neuron_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import llvm
from xdsl.dialects.builtin import Float64Type, ModuleOp, i64
from xdsl.ir import Attribute, SSAValue

from ....runtime.native.abi.scan import SCAN_CALL, SCAN_PART, UNIT, ScanCode
from ..llvm.types import integers, vector
from .code import POINTER, Code
from .neuron_steps import infinity_of, reaches
from .parallel import PART_ARGUMENTS

REGISTER = 64
"""Bytes that are computed at a time; LLVM divides them where registers are smaller."""

BLOCK = 2048
"""Neurons whose states stay in a near cache."""

_RANGE = "scan_range"


def scan_module(scan: ScanCode, element: Attribute, *, forward: bool) -> ModuleOp:
    """The functions `scan_call` and `scan_part`, see `abi.scan`.

    Args:
        scan: what is computed.
        element: f32 or f64.
        forward: whether steps run from the first to the last.
    """
    functions = [_Writer(scan, element, forward).finish()]
    last = 8 * (scan.arguments - 1)
    alone = Code(SCAN_CALL, [POINTER])
    count = alone.load(alone.at(alone.arguments[0], last), i64)
    alone.call(_RANGE, alone.arguments[0], 0, count)
    functions.append(alone.finish())
    code = Code(SCAN_PART, PART_ARGUMENTS)
    memory, _, first, end, _ = code.arguments
    stop = code.minimum(code.mul(end, UNIT), code.load(code.at(memory, last), i64))
    code.call(_RANGE, memory, code.mul(first, UNIT), stop)
    functions.append(code.finish())
    return ModuleOp(list[llvm.FuncOp](functions))


class _Writer:
    """Writes the function `scan_range`: arguments, the first neuron and the end of them."""

    def __init__(self, scan: ScanCode, element: Attribute, forward: bool) -> None:
        self.scan, self.element, self.forward = scan, element, forward
        self.size = 8 if isinstance(element, Float64Type) else 4
        self.code = code = Code(_RANGE, [POINTER, i64, i64])
        memory, first, end = code.arguments

        def loaded(start: int, count: int, kind: Attribute = POINTER) -> list[SSAValue]:
            places = range(start, start + count)
            return [code.load(code.at(memory, 8 * place), kind) for place in places]

        states, scalars = scan.rows, scan.rows + scan.carried
        results = scalars + scan.scalars
        self.rows, self.states = loaded(0, scan.rows), loaded(states, scan.carried)
        self.scalars = [code.load(a, element) for a in loaded(scalars, scan.scalars)]
        self.results = loaded(results, len(scan.results))
        self.steps, self.count = loaded(scan.arguments - 2, 2, i64)
        with code.each(first, end, BLOCK) as begin:
            stop = code.minimum(code.add(begin, BLOCK), end)
            with code.each(0, self.steps) as turn:
                last = code.sub(code.sub(self.steps, 1), turn)
                self._row(turn if forward else last, begin, stop)

    def finish(self) -> llvm.FuncOp:
        """The function."""
        return self.code.finish(linkage="internal")

    def _row(self, step: SSAValue, begin: SSAValue, stop: SSAValue) -> None:
        """One step of some neurons: whole registers, then one by one."""
        code, lanes = self.code, REGISTER // self.size
        row = code.mul(step, self.count)
        full = code.add(begin, code.and_(code.sub(stop, begin), -lanes))
        with code.each(begin, full, lanes) as place:
            self._neurons(row, place, vector(self.element, lanes))
        with code.each(full, stop) as place:
            self._neurons(row, place, self.element)

    def _neurons(self, row: SSAValue, place: SSAValue, kind: Attribute) -> None:
        code, scan = self.code, self.scan
        there = code.add(row, place)
        values = [code.load(code.at(base, there, self.element), kind) for base in self.rows]
        values += [code.load(code.at(base, place, self.element), kind) for base in self.states]
        values += [
            scalar if kind == self.element else code.splat(scalar, REGISTER // self.size)
            for scalar in self.scalars
        ]
        for name, operands in scan.calls:
            known = [
                code.constant(operand, kind) if isinstance(operand, float) else values[operand]
                for operand in operands
            ]
            values.append(_value(code, kind, name, *known))
        for base, number in zip(self.results, scan.results, strict=True):
            code.store(values[number], code.at(base, there, self.element))
        for base, number in zip(self.states, scan.after, strict=True):
            code.store(values[number], code.at(base, place, self.element))


_OF_TWO: Mapping[str, Callable[[Code, SSAValue, SSAValue], SSAValue]] = {
    "add": Code.fadd,
    "sub": Code.fsub,
    "mul": Code.fmul,
    "div": Code.fdiv,
    "minimum": lambda code, a, b: code.overloaded("minimum", a, b),
    "eq": lambda code, a, b: code.fcmp("oeq", a, b),
    "ne": lambda code, a, b: code.fcmp("une", a, b),
    "lt": lambda code, a, b: code.fcmp("olt", a, b),
    "gt": lambda code, a, b: code.fcmp("ogt", a, b),
    "reaches_gt": lambda code, v, threshold: reaches(code, v, threshold, strict=True),
    "reaches_ge": lambda code, v, threshold: reaches(code, v, threshold, strict=False),
}


def _value(code: Code, kind: Attribute, name: str, a: SSAValue, *others: SSAValue) -> SSAValue:
    """What a function of `FUNCTIONS` gives for numbers of one type, or for truth values."""
    zero = code.constant(0.0, kind)
    match name:
        case "copy":
            return a
        case "neg":
            return code.fneg(a)
        case "abs":
            return code.fabs(a)
        case "relu":
            return code.overloaded("maximum", a, zero)
        case "sign":
            below = code.select(code.fcmp("olt", a, zero), -1.0, zero)
            return code.select(code.fcmp("ogt", a, zero), 1.0, below)
        case "isfinite":
            exponent = infinity_of(a)
            bits = code.bits(a, integers(a.type))
            return code.icmp("ne", code.and_(bits, exponent), exponent)
        case "zero" | "one":
            return code.constant(float(name == "one"), kind)
        case "number":
            return code.select(a, 1.0, zero)
        case "where":
            return code.select(a, *others)
        case "reaches_gt" | "reaches_ge":
            return code.select(_OF_TWO[name](code, a, *others), 1.0, zero)
        case _:
            return _OF_TWO[name](code, a, *others)
