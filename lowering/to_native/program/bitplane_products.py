"""Products of trits with constant trits as calls of kernels on bit planes.

Not here: other products (`products`), the kernels (`to_native.kernels.bitplanes`).
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ....dialects import ternary
from ....dialects.inference import tensor_type
from ....dialects.parameters import constant_value
from ....passes.analysis.compile_time import defining_literal
from ....runtime.native.abi.bitplanes import OCTET, Operand, Sizes, column_bases, column_codes
from ....runtime.native.abi.sizes import ZERO, Size, product
from ..kernels.bitplanes import bitplane_functions
from ..kernels.bitplanes_product import Names
from ..kernels.bitplanes_schemes import Scheme, best_scheme
from .program import KernelStep, Program
from .structured import packed
from .views import Buffer
from .writer import Writer

_OPERAND: Operand = "trits"
_PRODUCT = Names(_OPERAND)("product")


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


class BitplaneStep(KernelStep):
    """One call of `product`, see `abi.bitplanes`; without rows it does nothing."""

    def numbers(self, writer: Writer) -> list[SSAValue]:
        """The factor, the shape, and the first and the end of the octets."""
        rows, ins, outs = (writer.size(size) for size in self.sizes)
        octets = writer.lshr(writer.size(self.sizes[0] + Size.of(OCTET - 1)), 3)
        return [writer.constant(1), rows, ins, outs, writer.constant(0), octets]


def plan(program: Program, op: ternary.MatmulOp) -> None:
    """`ternary.matmul` of trits with a matrix that is known, where it `suits`."""
    weight = defining_literal(op.weight)
    assert weight is not None
    trits = constant_value(weight)
    assert trits is not None
    trits = np.asarray(trits, np.int8)
    ins, outs = trits.shape
    x = packed(program, program.view(op.input))
    program.meet(x.sizes[-1], Size.of(ins))
    rows = product(x.sizes[:-1])
    y = program.new(i32, (*x.sizes[:-1], Size.of(outs)))
    program.views[op.result] = y
    if rows == ZERO:
        return
    sizes = Sizes(scheme_of(program).group)
    codes = column_codes(trits, sizes.group).view(np.int8)
    base = program.constant(column_bases(trits, _OPERAND, sizes.group), i32)
    memory = Buffer(i8, Size.of(sizes.product_scratch(_OPERAND, ins, outs)))
    program.kernels[_PRODUCT] = _PRODUCT
    operands, shape = [x, program.constant(codes, i8), base], (rows, Size.of(ins), Size.of(outs))
    program.steps.append(BitplaneStep(_PRODUCT, operands, [y], shape, memory))


def functions(program: Program) -> list[llvm.FuncOp]:
    """The kernels that the steps of a program call."""
    return bitplane_functions(scheme_of(program), _OPERAND) if _PRODUCT in program.kernels else []
