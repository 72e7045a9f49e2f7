"""The `.tri` frontend: an elaborated program becomes one module with `func.func @forward`.

Every op carries its place in the source; parameters keep their dotted names, which are PyTorch's
`state_dict` keys. `tri_builtins`, `tri_spiking` and `tri_trains` hold the rules of the built-in
functions. Spike trains enter and leave a program as truth values (`tensor<…xi1>`, time first),
which every target and file format has; inside they are `!spike.train`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
    i1,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ..dialects import spike, tensor, ternary
from ..dialects.inference import tensor_type
from ..dialects.parameters import attach_store
from ..ir.errors import LoweringError
from ..ir.language import elaborated
from ..ir.language.checker import TypeChecker
from ..ir.language.elaborate import GenericValue
from ..ir.language.parser import read_source
from ..ir.language.types import TensorType as LanguageType
from ..ir.printing import value_name
from ..ir.store import ParameterStore
from ..ir.value_names import DIMENSIONS_ATTRIBUTE, NAME_ATTRIBUTE
from .ir_builder import Builder
from .tri_builder import ir_type, location
from .tri_spiking import dense, state_time_step
from .tri_trains import rule_of, time_first_values
from .weights import Weights, attach_weights


def import_tri(
    source: str | Path,
    *,
    layer: str | None = None,
    generics: Mapping[str, GenericValue] | None = None,
    weights: Weights | None = None,
    trainable: bool = False,
    dt: float | None = None,
) -> ModuleOp:
    """Compile `.tri` source to IR.

    Args:
        source: a path, or the program's text.
        layer: the entry layer; by default the last one of the file that needs no generics.
        generics: values for the entry layer's generic arguments.
        weights: a weights file or a `state_dict` to fill the parameters with.
        trainable: keep each ternary parameter as a float latent with the same key and shape,
            ternarized (rule `twn`) where it is used; `fold-constants` makes it trits for good.
        dt: seconds a time step, for `spike.dt`; by default as the encoders of the program say.

    Raises:
        CompilationError: the program has errors.
        LoweringError: it cannot be expressed in the IR; or steps of two lengths.
        ParameterError: the weights do not fit.
    """
    path = source if isinstance(source, Path) else None
    text = read_source(source) if isinstance(source, Path) else source
    typed = TypeChecker().check_source(text, path)
    program = typed.elaborate(layer, generics or {})
    module = module_from_elaborated(program, trainable=trainable, dt=dt)
    if weights is not None:
        attach_weights(module, weights)
    return module


def module_from_elaborated(
    program: elaborated.Elaborated, *, trainable: bool = False, dt: float | None = None
) -> ModuleOp:
    """The module of one elaborated layer, named after it; its weights are not attached yet.

    Raises:
        LoweringError: see `import_tri`.
    """
    store = ParameterStore.unsaved()
    inputs = [ir_type(value.type) for value in program.inputs]
    block = Block(arg_types=inputs)
    builder = Builder(block, store, location=location(program.span))
    values: dict[int, list[SSAValue]] = {}
    for value, argument in zip(program.inputs, block.args, strict=True):
        argument.name_hint = value_name(value.name)
        argument.location = location(value.span)
        builder.location = location(value.span)
        is_train = value.type.kind == "spike"
        entered = builder.add(spike.FromTensorOp(argument)) if is_train else argument
        values[id(value)] = [entered]
    for parameter in program.parameters:
        values[id(parameter)] = [_parameter(builder, parameter, trainable)]
    timed = time_first_values(program)
    for op in program.operations():
        builder.location = location(op.span)
        operands = [_value(builder, operand, values) for operand in op.operands]
        result = rule_of(op, timed)(builder, op, operands)
        values[id(op)] = result if isinstance(result, list) else [result]
        _check_elements(op, values[id(op)])
    outputs = [_output(builder, value, values) for value in program.outputs]
    builder.location = location(program.outputs[-1].span if program.outputs else program.span)
    end = ReturnOp(*outputs)
    builder.end(end)
    function = FuncOp(
        "forward",
        FunctionType.from_lists(inputs, [value.type for value in outputs]),
        Region(block),
        arg_attrs=ArrayAttr([_names(value.name, value.type) for value in program.inputs]),
        res_attrs=ArrayAttr([
            _names("output" if len(outputs) == 1 else f"output{i}", value.type)
            for i, value in enumerate(program.outputs)
        ]),
    )  # fmt: skip
    function.location = location(program.span)
    state_time_step(function, program, dt)
    module = ModuleOp([function], sym_name=StringAttr(program.name))
    module.location = location(program.span)
    attach_store(module, store)
    return module


def _check_elements(op: elaborated.Operation, results: list[SSAValue]) -> None:
    """Refuse results with other elements than the checker gave them: one of the two is wrong."""
    for type, result in zip(op.result_types or (op.type,), results, strict=True):
        if type.kind == "spike" or not isinstance(result.type, TensorType):
            continue
        if tensor_type(result).element_type != ir_type(type).element_type:
            raise LoweringError(
                f"{op.span}: error: '{op.function}' is checked as {type} but computed as "
                f"{result.type}; this is a fault of Triton DSL: convert its operands with cast(…)"
            )


def _names(name: str, type: LanguageType) -> DictionaryAttr:
    dimensions = ArrayAttr([StringAttr(str(size)) for size in type.shape])
    return DictionaryAttr({NAME_ATTRIBUTE: StringAttr(name), DIMENSIONS_ATTRIBUTE: dimensions})


def _parameter(builder: Builder, parameter: elaborated.ParameterValue, trainable: bool) -> SSAValue:
    builder.location = location(parameter.span)
    type = ir_type(parameter.type)
    if parameter.type.kind == "ternary" and trainable:
        latent = builder.add(tensor.ParameterOp(parameter.path, TensorType(f32, type.get_shape())))
        latent.name_hint = value_name(f"{parameter.path}_latent")
        value = builder.add(ternary.TernarizeOp(latent, rule="twn"))
    elif parameter.type.kind == "ternary":
        value = builder.add(ternary.ParameterOp(parameter.path, type.get_shape()))
    else:
        value = builder.add(tensor.ParameterOp(parameter.path, type, buffer=parameter.is_buffer))
    value.name_hint = value_name(parameter.path)
    return value


def _output(
    builder: Builder, value: elaborated.Value, values: dict[int, list[SSAValue]]
) -> SSAValue:
    result = _value(builder, value, values)
    builder.location = location(value.span)
    return dense(builder, result, i1)


def _value(
    builder: Builder, value: elaborated.Value, values: dict[int, list[SSAValue]]
) -> SSAValue:
    if isinstance(value, elaborated.Projection):
        return values[id(value.source)][value.index]
    if id(value) not in values:
        assert isinstance(value, elaborated.ConstantValue), value
        builder.location = location(value.span)
        type = ir_type(value.type)
        if isinstance(type.element_type, ternary.TritType):
            trits = np.array(value.value, dtype=np.int8)
            op = ternary.ConstantOp(trits.reshape(-1).tolist(), trits.shape)
            values[id(value)] = [builder.add(op)]
        else:
            values[id(value)] = [builder.numbers(np.array(value.value), type.element_type)]
    return values[id(value)][0]
