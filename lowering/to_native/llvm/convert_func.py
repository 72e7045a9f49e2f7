"""The pass `convert-func-to-llvm`: functions, calls and returns.

The last of the conversions: it also gives the arguments of all blocks their `llvm` types.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, llvm
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, ModuleOp, i64
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ....ir.errors import UnsupportedError
from ....ir.locations import location_text
from ....ir.walking import all_ops
from .blocks import convert_arguments, replace_type
from .llvm_builder import AnchoredBuilder
from .types import NO_TYPE, converted, llvm_type
from .walk import in_dialect, realized, remove_casts, replace_op


@dataclass(frozen=True)
class ConvertFuncToLLVMPass(ModulePass):
    """Lower `func` to the `llvm` dialect.

    A private function with a body is `internal`, every other one `external`. Several results are
    one struct. Attributes of functions and of their arguments stay.

        func.func private @f(%x: i32) -> (i32, f32)
        // becomes
        llvm.func @f(%x: i32) -> !llvm.struct<(i32, f32)>

    Raises:
        UnsupportedError: tensors, memrefs and other types without a counterpart, in functions and
            in what is left in their bodies; all of them.
    """

    name = "convert-func-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = [each for each in all_ops(op) if in_dialect(each, "func")]
        _check(op)
        builder = AnchoredBuilder()
        functions = [each for each in ops if isinstance(each, func.FuncOp)]
        for function in functions:
            for block in function.body.blocks:
                convert_arguments(builder, block)
        for each in ops:
            builder.at(each)
            if isinstance(each, func.CallOp):
                _call(builder, each)
            elif isinstance(each, func.ReturnOp):
                _return(builder, each)
        for each in [each for each in all_ops(op) if in_dialect(each, "llvm")]:
            _memory(builder, each)
        for function in functions:
            _function(function)
        remove_casts(op)


def _check(module: ModuleOp) -> None:
    problems: list[tuple[str, str, str]] = []
    for op in all_ops(module):
        strange = [type for type in _types(op) if llvm_type(type) is None]
        if strange:
            names = ", ".join(dict.fromkeys(str(type) for type in strange))
            problems.append((op.name, location_text(op), f"{names} {NO_TYPE}"))
    if problems:
        raise UnsupportedError("llvm", problems)


def _types(op: Operation) -> list[Attribute]:
    types = [value.type for value in (*op.operands, *op.results)]
    if isinstance(op, func.FuncOp):
        types += [*op.function_type.inputs, *op.function_type.outputs]
        types += [argument.type for block in op.body.blocks for argument in block.args]
    return types


def _memory(e: AnchoredBuilder, op: Operation) -> None:
    """What loads, stores and places in memory have of types that change: `index`, bf16."""
    e.at(op)
    for place, operand in enumerate(op.operands):
        if llvm_type(operand.type) is not operand.type:
            op.operands[place] = realized(e, operand)
    if isinstance(op, llvm.GEPOp | llvm.AllocaOp):
        op.elem_type = llvm_type(op.elem_type) or op.elem_type
    following = op.next_op
    for result in list(op.results):
        if following is not None:
            replace_type(e, result, following)


def result_type(types: ArrayAttr[Attribute]) -> Attribute | None:
    """What a function with results of `types` returns: nothing, one value, or a struct."""
    results = [converted(type) for type in types]
    if not results:
        return None
    return results[0] if len(results) == 1 else llvm.LLVMStructType.from_type_list(results)


def _function(op: func.FuncOp) -> None:
    inputs = [converted(type) for type in op.function_type.inputs]
    private = op.sym_visibility is not None and op.sym_visibility.data == "private"
    internal = private and not op.is_declaration
    new = llvm.FuncOp(
        op.sym_name,
        llvm.LLVMFunctionType(inputs, result_type(op.function_type.outputs)),
        llvm.LinkageAttr("internal" if internal else "external"),
        body=_moved(op.body),
        other_props={"arg_attrs": op.arg_attrs, "res_attrs": op.res_attrs},
        extra_attrs=op.attributes,
    )
    new.location = op.location
    block = op.parent
    assert block is not None
    block.insert_op_before(new, op)
    block.erase_op(op)


def _moved(body: Region) -> Region:
    region = Region()
    body.move_blocks(region)
    return region


def _call(e: AnchoredBuilder, op: func.CallOp) -> None:
    types = ArrayAttr(op.result_types)
    operands = [realized(e, operand) for operand in op.arguments]
    call = llvm.CallOp(op.callee, *operands, return_type=result_type(types))
    call.attributes |= op.attributes
    e.append(call)
    results: list[SSAValue] = list(call.results)
    if len(types) > 1:
        results = [
            e.insert(
                llvm.ExtractValueOp(
                    DenseArrayBase.from_list(i64, [place]), call.results[0], converted(type)
                )
            )
            for place, type in enumerate(types)
        ]
    replace_op(e, op, results)


def _return(e: AnchoredBuilder, op: func.ReturnOp) -> None:
    operands = [realized(e, operand) for operand in op.arguments]
    if len(operands) > 1:
        together = e.insert(
            llvm.UndefOp(llvm.LLVMStructType.from_type_list([x.type for x in operands]))
        )
        for place, value in enumerate(operands):
            position = DenseArrayBase.from_list(i64, [place])
            together = e.insert(llvm.InsertValueOp(position, together, value))
        operands = [together]
    e.append(llvm.ReturnOp(*operands))
    replace_op(e, op, [])
