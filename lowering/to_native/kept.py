"""Memory of a program's own, which its first call fills with weights that it expands once.

It has no bytes in a file. Each part has a word that says whether it is filled; calls at the same
time may both fill it, by the same numbers. Written with LLVM's own builder, since xDSL's `llvm`
dialect has neither memory of zeros nor atomic operations. Not here: what is kept (`program`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i32

from ...runtime.native.abi.interface import ALIGNMENT, KEPT
from .kernels.code import POINTER

if TYPE_CHECKING:
    from llvmlite import ir

IS_FILLED, NOTE_FILLED = f"{KEPT}.is_filled", f"{KEPT}.note_filled"
"""`(word) -> i32` and `(word)`, for a word of the memory."""
WORD = 4
"""Bytes, for which every processor has atomic operations, that say whether a part is filled."""


def kept_memory(size: int) -> list[llvm.GlobalOp | llvm.FuncOp]:
    """So many bytes, and the functions above, to be defined by `define_kept`."""
    kind = llvm.LLVMArrayType(size, i8)
    external = llvm.LinkageAttr("external")
    return [
        llvm.GlobalOp(kind, KEPT, external),
        llvm.FuncOp(IS_FILLED, llvm.LLVMFunctionType([POINTER], i32), external),
        llvm.FuncOp(NOTE_FILLED, llvm.LLVMFunctionType([POINTER]), external),
    ]


def define_kept(module: ir.Module) -> None:
    """Zeros for memory that has no content yet, and the code of the functions above."""
    from llvmlite import ir

    for value in cast("Iterable[ir.GlobalValue]", module.global_values):
        if isinstance(value, ir.GlobalVariable) and value.initializer is None:
            memory: Any = value
            memory.initializer = ir.Constant(value.value_type, None)
            memory.linkage, memory.align = "", ALIGNMENT
        elif isinstance(value, ir.Function) and value.name in (IS_FILLED, NOTE_FILLED):
            value.linkage = "internal"
            builder = ir.IRBuilder(value.append_basic_block())
            word, size = value.args[0], ir.IntType(8 * WORD)
            if value.name == IS_FILLED:
                builder.ret(builder.load_atomic(word, "acquire", WORD, typ=size))
            else:
                # llvmlite stores atomically to typed pointers alone.
                builder.fence("release")
                builder.store(ir.Constant(size, 1), word, WORD)
                builder.ret_void()
