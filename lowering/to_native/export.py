"""A compiled program as LLVM IR that stands alone: constants inside, two functions for C outside.

The internal `forward` keeps its arguments; the exported functions give it the constants and a
workspace that is aligned as it needs. Not here: compiling the text (`object_code`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation

from ...dialects.parameters import ARGUMENT_ATTRIBUTE, store_of
from ...dialects.tensor.storage import STORE_ATTRIBUTE
from ...ir.errors import LoweringError
from ...ir.walking import all_ops
from ...runtime.native.abi.interface import (
    ALIGNMENT,
    CONSTANTS,
    FORWARD,
    INTERFACE_SUFFIX,
    WORKSPACE_BYTES,
    WORKSPACE_SUFFIX,
    Interface,
)
from ..emission import UnsupportedOps
from .kept import define_kept
from .machine import Machine
from .object_code import make_internal

if TYPE_CHECKING:
    from llvmlite import ir


def program_constants(module: ModuleOp) -> NDArray[np.uint8]:
    """The constants of a program that went through the passes; empty where it has none.

    An argument of `forward` names them: the store may have had to give them another name.
    """
    if STORE_ATTRIBUTE not in module.attributes:
        return np.zeros(0, np.uint8)
    store, key = store_of(module), _constants_key(module)
    if key not in store:
        return np.zeros(0, np.uint8)
    return np.ascontiguousarray(store.read(key)).view(np.uint8).reshape(-1)


def _constants_key(module: ModuleOp) -> str:
    for op in module.ops:
        if isinstance(op, llvm.FuncOp) and op.sym_name.data == FORWARD and op.arg_attrs is not None:
            for attributes in op.arg_attrs:
                key = attributes.data.get(ARGUMENT_ATTRIBUTE)
                if isinstance(key, StringAttr):
                    return key.data
    return CONSTANTS


def check_lowered(module: ModuleOp) -> None:
    """Refuse a module that is not all of the `llvm` dialect, or lacks the functions of a program.

    Raises:
        UnsupportedError: names every other op.
        LoweringError: no `forward` or `forward_workspace_bytes`.
    """
    unsupported = UnsupportedOps("native")
    for op in all_ops(module):
        if op is not module and type(op) not in _LLVM:
            unsupported.add(op, "no pass takes it to the llvm dialect")
    unsupported.raise_if_any()
    functions = {op.sym_name.data for op in module.ops if isinstance(op, llvm.FuncOp)}
    for name in (FORWARD, WORKSPACE_BYTES):
        if name not in functions:
            raise LoweringError(f"the lowered module has no function '{name}'")


_LLVM: frozenset[type[Operation]] = frozenset(llvm.LLVM.operations)


def standalone_text(module: ModuleOp, interface: Interface, prefix: str, machine: Machine) -> str:
    """LLVM IR of a lowered program, with `prefix` and `prefix_workspace_bytes` for its callers."""
    from xdsl.backend.llvm.convert import convert_module

    content = program_constants(module)
    module = module.clone()
    _rename(module, prefix)
    llvm_module = convert_module(module, fallback_target_triple=machine.triple)
    define_kept(llvm_module)
    make_internal(llvm_module)
    forward, workspace_bytes = (
        cast("ir.Function", llvm_module.get_global(f"{prefix}.{name}"))
        for name in (FORWARD, WORKSPACE_BYTES)
    )
    constants = _byte_array(llvm_module, f"{prefix}.constants", content.tobytes() or b"\0")
    constants.linkage = "private"
    constants.align = ALIGNMENT
    _byte_array(llvm_module, f"{prefix}{INTERFACE_SUFFIX}", interface.to_json().encode() + b"\0")
    _add_workspace_bytes(llvm_module, prefix, workspace_bytes)
    _add_entry(llvm_module, prefix, forward, constants, interface)
    for function in llvm_module.functions:
        if not function.is_declaration:
            # What is quick is written out; the rest is what most of a small file would be.
            function.attributes.add("optsize")
    for value in cast("Iterable[ir.GlobalValue]", llvm_module.global_values):
        if value.linkage == "internal":
            value.linkage = "private"  # without a name in the file
    return str(llvm_module)


def _rename(module: ModuleOp, prefix: str) -> None:
    """Give what is defined names that no C program has, so that `prefix` may be any name."""
    defined = {
        op.sym_name.data: f"{prefix}.{op.sym_name.data}"
        for op in module.ops
        if isinstance(op, llvm.GlobalOp) or (isinstance(op, llvm.FuncOp) and op.body.blocks)
    }
    for op in all_ops(module):
        if isinstance(op, llvm.FuncOp | llvm.GlobalOp) and op.sym_name.data in defined:
            op.sym_name = StringAttr(defined[op.sym_name.data])
        elif isinstance(op, llvm.CallOp) and op.callee is not None:
            name = op.callee.string_value()
            op.callee = SymbolRefAttr(defined.get(name, name))
        elif isinstance(op, llvm.AddressOfOp):
            name = op.global_name.string_value()
            op.global_name = SymbolRefAttr(defined.get(name, name))


def _byte_array(module: ir.Module, name: str, content: bytes) -> Any:
    """A constant of LLVM's, whose class says too little of its attributes."""
    from llvmlite import ir

    kind = ir.ArrayType(ir.IntType(8), len(content))
    value: Any = ir.GlobalVariable(module, kind, name)
    value.global_constant = True
    value.initializer = ir.Constant(kind, bytearray(content))
    return value


def _add_workspace_bytes(module: ir.Module, prefix: str, inner: ir.Function) -> None:
    from llvmlite import ir

    size = ir.IntType(64)
    free: Any = inner.args
    kind = ir.FunctionType(size, [size] * len(free))
    function = ir.Function(module, kind, f"{prefix}{WORKSPACE_SUFFIX}")
    builder = ir.IRBuilder(function.append_basic_block())
    bytes = builder.call(inner, function.args)
    slack = ir.Constant(size, ALIGNMENT - 1)
    empty = builder.icmp_signed("<=", bytes, ir.Constant(size, 0))
    builder.ret(builder.select(empty, ir.Constant(size, 0), builder.add(bytes, slack)))


def _add_entry(
    module: ir.Module,
    prefix: str,
    inner: ir.Function,
    constants: ir.GlobalVariable,
    interface: Interface,
) -> None:
    from llvmlite import ir

    size, pointer = ir.IntType(64), ir.PointerType()
    count, free = len(interface.inputs) + len(interface.outputs), len(interface.names)
    kind = ir.FunctionType(ir.VoidType(), [*[pointer] * (count + 1), *[size] * free])
    function = ir.Function(module, kind, prefix)
    tensors, workspace = function.args[:count], function.args[count]
    builder = ir.IRBuilder(function.append_basic_block())
    address = builder.ptrtoint(workspace, size)
    up = builder.add(address, ir.Constant(size, ALIGNMENT - 1))
    aligned = builder.inttoptr(builder.and_(up, ir.Constant(size, -ALIGNMENT)), pointer)
    # Constants stand where this says: addresses from there take no entries of the file's tables.
    asked = ir.InlineAsm(ir.FunctionType(pointer, [pointer]), "", "=r,0")
    place = builder.call(asked, [constants])
    builder.call(inner, [*tensors, place, aligned, *function.args[count + 1 :]])
    builder.ret_void()
