"""Function types without trits, and parameters as arguments or constants."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ....dialects.inference import tensor_type
from ....dialects.parameters import constant_value
from ....dialects.tensor.storage import STORE_ATTRIBUTE, StoreAttr
from ....ir.value_names import added_argument
from ....passes.analysis.compile_time import Literal, ParameterOp
from .linalg_builder import LinalgBuilder

ARGUMENT_ATTRIBUTE = "tensor.parameter"
"""The argument attribute that holds the key of a parameter."""

FILE_ATTRIBUTE = "tensor.parameter_file"
"""The module attribute that names the file of the parameters: its path and its SHA-256."""


def lowered_type(type: Attribute) -> Attribute:
    """`type`; a tensor of trits becomes one of i8, of unsigned integers one of signless ones."""
    if not isinstance(type, TensorType):
        return type
    shaped = cast("TensorType[Attribute]", type)
    return TensorType(
        LinalgBuilder.signless(shaped.element_type), shaped.get_shape(), shaped.encoding
    )


def is_unsigned_tensor(type: Attribute) -> bool:
    """Whether `type` is a tensor of unsigned integers."""
    return isinstance(type, TensorType) and LinalgBuilder.is_unsigned_type(
        cast("TensorType[Attribute]", type).element_type
    )


def lower_argument_types(function: FuncOp, builder: LinalgBuilder) -> None:
    """Give the arguments of all blocks of `function` their lowered types."""
    for op in function.walk():
        for block in (block for region in op.regions for block in region.blocks):
            for argument in block.args:
                lower_type_of(argument, builder)


def lower_type_of(value: SSAValue, builder: LinalgBuilder) -> None:
    """Give `value` its lowered type; that it is unsigned is kept in mind."""
    type, lowered = value.type, lowered_type(value.type)
    if type == lowered:
        return
    changed = Rewriter.replace_value_with_new_type(value, lowered)
    if is_unsigned_tensor(type):
        builder.unsigned.add(changed)


def lower_function_type(function: FuncOp) -> None:
    """Make the type of `function` that of its body, or of a declaration without trits."""
    type = function.function_type
    inputs = [lowered_type(t) for t in type.inputs]
    if not function.is_declaration:
        inputs = [argument.type for argument in function.args]
    outputs = [lowered_type(t) for t in type.outputs]
    function.function_type = type.from_lists(inputs, outputs)


class ParameterArguments:
    """New arguments of one function, one for each key."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self._arguments: dict[str, SSAValue] = {}

    def value_of(self, op: ParameterOp) -> SSAValue:
        """The argument that stands for the parameter, added when first asked for."""
        key = op.key.data
        if key not in self._arguments:
            type = lowered_type(op.result.type)
            argument = added_argument(self.function, type, key, ARGUMENT_ATTRIBUTE)
            argument.name_hint = op.result.name_hint
            self._arguments[key] = argument
        return self._arguments[key]


def constant(builder: LinalgBuilder, op: Literal) -> SSAValue:
    """The values of a constant or parameter as an `arith.constant`; trits as i8.

    Raises:
        ParameterError: a parameter has no values.
    """
    values = constant_value(op)
    assert values is not None
    type = tensor_type(op.result)
    return builder.dense(values, LinalgBuilder.signless(type.element_type))


def rename_store(module: ModuleOp, *, keep: bool) -> None:
    """Take the parameter store away, which MLIR cannot read; with `keep` name its file still."""
    store = module.attributes.pop(STORE_ATTRIBUTE, None)
    if keep and isinstance(store, StoreAttr) and store.data.reference is not None:
        reference = store.data.reference
        module.attributes[FILE_ATTRIBUTE] = DictionaryAttr(
            {"path": StringAttr(reference.path), "sha256": StringAttr(reference.sha256)}
        )


def calls_of_parametrised(module: ModuleOp) -> list[Operation]:
    """Calls of functions that have parameters: those would lack arguments."""
    parametrised: set[str] = set()
    calls: list[CallOp] = []
    for op in module.walk():
        if isinstance(op, CallOp):
            calls.append(op)
        elif isinstance(op, FuncOp) and any(isinstance(inner, ParameterOp) for inner in op.walk()):
            parametrised.add(op.sym_name.data)
    return [call for call in calls if call.callee.string_value() in parametrised]
