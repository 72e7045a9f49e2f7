"""Convolutions with trits as calls of kernels; layers of the same geometry share a function.

Not here: the kernels (`to_native.kernels`), matrix products (`products`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8
from xdsl.ir import Operation

from ....dialects import ternary
from ....dialects.inference import tensor_type
from ....dialects.parameters import constant_value
from ....passes.analysis.compile_time import defining_literal
from ....runtime.native.abi.conv import ConvGeometry, conv_weights
from ....runtime.native.abi.linear import Kind
from ..kernels.conv import conv_functions, conv_scratch_bytes
from ..kernels.epilogue import Epilogue
from ..kernels.panel import write_tiles
from ..linalg.linalg_builder import LinalgBuilder
from ..ternary_products import conv_geometry, kind_of
from .nests import RefusedError
from .products import Tables
from .program import KernelStep, Planner, Program
from .sizes import ZERO, Size, product
from .structured import packed
from .views import Buffer


class ConvVariant(NamedTuple):
    """What the functions of a convolution are made for."""

    geometry: ConvGeometry
    kind: Kind
    epilogue: Epilogue


def conv(program: Program, op: ternary.ConvOp) -> None:
    """`ternary.conv` with weights that are known."""
    kind = kind_of(tensor_type(op.input).element_type, program.precision)
    weight, geometry = defining_literal(op.weight), conv_geometry(op)
    if kind is None or weight is None or geometry is None:
        raise RefusedError("no kernel takes it; lower it with 'convert-tensor-to-linalg'")
    trits = constant_value(weight)
    assert trits is not None
    x = packed(program, program.view(op.input))
    epilogue, tables = Tables(program, op, kind, trits.reshape(len(trits), -1)).read()
    shape = tensor_type(op.result).get_shape()
    sizes = (x.sizes[0], *(Size.of(size) for size in shape[1:]))
    y = program.new(LinalgBuilder.signless(tensor_type(op.result).element_type), sizes)
    program.views[op.result] = y
    if product(sizes) == ZERO:
        return
    memory = Buffer(i8, Size.of(conv_scratch_bytes(program.recipe, kind, geometry)))
    weights = program.constant(conv_weights(geometry, trits).view(np.int8), i8)
    name = program.kernel(ConvVariant(geometry, kind, epilogue), "conv")
    operands = [x, weights, *tables]
    program.steps.append(KernelStep(name, operands, [y], [x.sizes[0]], memory, place=2))


def functions(program: Program, others: Sequence[llvm.FuncOp]) -> list[llvm.FuncOp]:
    """The kernels that the convolutions of a program call, besides `others`."""
    variants = program.kernels_of(ConvVariant)
    kernels: list[llvm.FuncOp] = []
    if any(not variant.geometry.depthwise for variant, _ in variants):
        known = {other.sym_name.data for other in others}
        tiles = write_tiles(program.recipe, 1)
        kernels += [tile for tile in tiles if tile.sym_name.data not in known]
    for (geometry, kind, epilogue), name in variants:
        kernels += conv_functions(program.recipe, kind, geometry, epilogue, name)
    return kernels


RULES: Mapping[type[Operation], Planner] = {ternary.ConvOp: conv}
"""For each kept convolution the function that plans it."""
