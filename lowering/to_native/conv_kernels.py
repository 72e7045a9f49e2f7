"""Convolutions of PyTorch's operator as compiled programs of one op.

The entry point `conv` of the group `triton_dsl.kernels`. Not here: what calls them
(`runtime.native.torch_conv`), how convolutions are compiled (`program`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from ...dialects import ternary
from ...dialects.parameters import store_of
from ...dialects.shapes import DYNAMIC
from ...ir.arrays import Array
from ...runtime.native.abi.conv import Convolution
from ...runtime.native.loading import load_program
from ...runtime.native.processor import host_features
from ...runtime.native.program import NativeProgram
from ...runtime.native.threads import OF_PYTORCH
from .callables import program_content
from .kernels.recipes import recipe_for
from .target import NativeOptions

if TYPE_CHECKING:
    from ...runtime.native.torch_conv import ConvProvider


def conv_provider(recipe: str | None = None) -> ConvProvider:
    """What gives the operator `triton_dsl::ternary_conv2d` its programs.

    Args:
        recipe: name of a SIMD recipe that this processor can run; the best one when not given.

    Raises:
        OptionError: an unknown recipe, or one that this processor cannot run.
        BackendError: llvmlite is missing.
    """
    chosen = recipe_for(recipe, host_features()).name

    def provide(conv: Convolution, packed: Array, threads: int) -> NativeProgram:
        options = NativeOptions(recipe=chosen, precision=conv.precision)
        content = program_content(_module(conv, packed), options, together=threads > 1)
        return load_program(content, threads=threads, crew=OF_PYTORCH)

    return provide


def _module(conv: Convolution, packed: Array) -> ModuleOp:
    """`forward(x, scale, bias)` of floats, or of int8 without scale and bias."""
    module = ModuleOp([])
    store_of(module).add("weight", packed)
    vectors = [TensorType(f32, conv.shape[:1])] * 2 if conv.floats else []
    block = Block(
        arg_types=[TensorType(f32 if conv.floats else i8, (DYNAMIC, *conv.image)), *vectors]
    )
    weight = ternary.ParameterOp("weight", conv.shape)
    scale, bias = block.args[1:] or (None, None)
    op = ternary.ConvOp(
        block.args[0],
        weight.result,
        scale=scale,
        bias=bias,
        strides=conv.stride,
        padding=conv.padding,
        dilation=conv.dilation,
        groups=conv.groups,
    )
    block.add_ops([weight, op, ReturnOp(op.result)])
    types = FunctionType.from_lists([x.type for x in block.args], [op.result.type])
    module.body.block.add_op(FuncOp("forward", types, Region(block)))
    return module
