"""Memory of a program's own, which its first call fills with weights that it expands once.

It has no bytes in a file. Each part has a word that says whether it is filled; calls at the same
time may both fill it, by the same numbers. Written with LLVM's own builder, since xDSL's `llvm`
dialect has neither memory of zeros nor atomic operations. Not here: what is kept (`program`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i64

from ...runtime.native.abi.interface import ALIGNMENT
from .kernels.code import POINTER

if TYPE_CHECKING:
    from llvmlite import ir

KEPT, IS_FILLED, NOTE_FILLED = "kept", "kept.is_filled", "kept.note_filled"
"""The memory; `(word) -> i64` and `(word)`, for a word of it."""
WORD = 8
"""Bytes that say whether a part is filled."""


def kept_memory(size: int) -> list[llvm.GlobalOp | llvm.FuncOp]:
    """So many bytes, and the functions above, to be defined by `define_kept`."""
    kind = llvm.LLVMArrayType(size, i8)
    external = llvm.LinkageAttr("external")
    return [
        llvm.GlobalOp(kind, KEPT, external),
        llvm.FuncOp(IS_FILLED, llvm.LLVMFunctionType([POINTER], i64), external),
        llvm.FuncOp(NOTE_FILLED, llvm.LLVMFunctionType([POINTER]), external),
    ]


def define_kept(module: ir.Module) -> None:
    """Zeros for memory that has no content yet, and the code of the functions above."""
    from llvmlite import ir

    for value in cast("Iterable[ir.GlobalValue]", module.global_values):
        if isinstance(value, ir.GlobalVariable) and value.initializer is None:
            value.initializer = ir.Constant(value.value_type, None)
            value.linkage = "internal"
            value.align = ALIGNMENT
        elif isinstance(value, ir.Function) and value.name in (IS_FILLED, NOTE_FILLED):
            value.linkage = "internal"
            builder = ir.IRBuilder(value.append_basic_block())
            word, size = value.args[0], ir.IntType(64)
            if value.name == IS_FILLED:
                builder.ret(builder.load_atomic(word, "acquire", WORD, typ=size))
            else:
                # llvmlite stores atomically to typed pointers alone.
                builder.fence("release")
                builder.store(ir.Constant(size, 1), word, WORD)
                builder.ret_void()
