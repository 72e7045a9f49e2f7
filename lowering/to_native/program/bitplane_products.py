"""Products of trits with constant trits as calls of kernels on bit planes.

Not here: other products (`products`), the kernels (`to_native.kernels.bitplanes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ....dialects import ternary
from ....dialects.inference import tensor_type
from ....dialects.parameters import constant_value
from ....passes.analysis.compile_time import defining_literal
from ....runtime.native.abi.bitplanes import OCTET, Operand, Sizes, column_bases, column_codes
from ..kernels.bitplanes import bitplane_functions
from ..kernels.bitplanes_product import Names
from ..kernels.bitplanes_schemes import Scheme, best_scheme
from .program import CallStep, Program
from .sizes import ZERO, Size, product
from .structured import packed
from .views import Buffer, View
from .writer import Writer

_OPERAND: Operand = "trits"


def scheme_of(program: Program) -> Scheme:
    """The scheme for the instruction set of a program."""
    return best_scheme(program.recipe.features, program.recipe.width)


def suits(program: Program, op: ternary.MatmulOp) -> bool:
    """Whether these kernels are the right ones: they take 8 rows together."""
    element = tensor_type(op.input).element_type
    if not isinstance(element, ternary.TritType) or defining_literal(op.weight) is None:
        return False
    rows = product(program.view(op.input).sizes[:-1])
    return rows == ZERO or rows.at(1) >= OCTET


@dataclass
class BitplaneStep(CallStep):
    """One call of `product`, see `abi.bitplanes`.

    Attributes:
        x, codes, base, y: operands.
        rows, ins, outs: the shape.
        memory: scratch.
    """

    x: View
    codes: View
    base: View
    y: View
    rows: Size
    ins: int
    outs: int
    memory: Buffer

    @property
    def reads(self) -> Sequence[View]:
        """Activations, and what the matrix became."""
        return [self.x, self.codes, self.base]

    @property
    def writes(self) -> Sequence[View]:
        """The result."""
        return [self.y]

    @property
    def scratch(self) -> Buffer:
        """Memory of the kernel."""
        return self.memory

    def call(self, writer: Writer, address: Callable[[View], SSAValue]) -> None:
        """Append the call; without rows it does nothing."""
        arguments = [address(view) for view in (self.x, self.codes, self.base, self.y)]
        arguments.append(address(View(self.memory, (), ())))
        rows = writer.size(self.rows)
        octets = writer.size(self.rows + Size.of(OCTET - 1))
        sizes = (1, rows, self.ins, self.outs, 0, writer.lshr(octets, 3))
        writer.call(Names(_OPERAND)("product"), *arguments, *sizes)


def plan(program: Program, op: ternary.MatmulOp) -> None:
    """`ternary.matmul` of trits with a matrix that is known, where it `suits`."""
    weight = defining_literal(op.weight)
    assert weight is not None
    trits = constant_value(weight)
    assert trits is not None
    trits = np.asarray(trits, np.int8)
    ins, outs = trits.shape
    x = packed(program, program.view(op.input))
    rows = product(x.sizes[:-1])
    y = program.new(i32, (*x.sizes[:-1], Size.of(outs)))
    program.views[op.result] = y
    if rows == ZERO:
        return
    sizes = Sizes(scheme_of(program).group)
    codes = column_codes(trits, sizes.group).view(np.int8)
    program.steps.append(
        BitplaneStep(
            x,
            program.constant(codes, i8),
            program.constant(column_bases(trits, _OPERAND, sizes.group), i32),
            y,
            rows,
            ins,
            outs,
            Buffer(i8, Size.of(sizes.product_scratch(_OPERAND, ins, outs))),
        )
    )


def functions(program: Program) -> list[llvm.FuncOp]:
    """The kernels that the steps of a program call."""
    if not any(isinstance(step, BitplaneStep) for step in program.all_steps()):
        return []
    return bitplane_functions(scheme_of(program), _OPERAND)
