"""The reference interpreter of our dialects: what a module computes, on NumPy.

Each op's docstring states its meaning; its method `compute`, or a rule of `spike.interpret`,
computes it. Element types map to dtypes by `elements.numpy_dtype` (trits are int8 in {-1, 0, 1}); a
spike train is an array of truth values. Floating-point ops compute in their own type; f16 and bf16
compute in f32, and each op rounds its results. Division by zero, overflow and NaN follow IEEE 754
without warnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    ModuleOp,
    TensorType,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ..ir.arrays import Array
from ..ir.errors import TritonError
from ..ir.interpreter import Observer, check_supported, entry_function, run_function
from ..ir.value_names import given_name
from . import tensor, ternary
from .elements import numpy_dtype
from .meaning import Rule, rules_of
from .parameters import constant_value
from .shapes import DYNAMIC
from .spike import LayerOp, RecurrentOp, ScanOp, Spike, TrainType, YieldOp
from .spike import interpret as spike_interpret
from .spike.types import dense_type
from .ternary import Ternary
from .ternary.types import TritType


def stored(op: Operation) -> Array:
    """The values of a constant or parameter."""
    values = constant_value(op)
    assert values is not None
    return values


RULES: dict[type[Operation], Rule] = {
    **rules_of((*tensor.OPERATIONS, *Ternary.operations, *Spike.operations)),
    **dict.fromkeys(
        (tensor.ParameterOp, tensor.ConstantOp, ternary.ParameterOp, ternary.ConstantOp), stored
    ),
    **spike_interpret.RULES,
    RecurrentOp: spike_interpret.recurrence(lambda op, operands: evaluate(op, operands)),
    ScanOp: spike_interpret.scan(lambda op, operands: evaluate(op, operands)),
    LayerOp: spike_interpret.layer(lambda op, operands: evaluate(op, operands)),
}
"""For each op the function that computes its results from its operands."""


def run_module(
    module: ModuleOp,
    inputs: Sequence[Array],
    function: str = "forward",
    observer: Observer | None = None,
) -> tuple[Array, ...]:
    """Run a function of a module on NumPy arrays; its results.

    Args:
        module: a verified module; parameters come from its store.
        inputs: one array an argument, of the argument's dtype and rank; `?` takes any size.
        function: the name of the function.
        observer: called after each op with the op, its operands and its results.

    Raises:
        TritonError: no such function; an input of another count, shape or dtype; an op that cannot
            be computed on the values it gets.
        UnsupportedError: ops without a rule, all of them.
        ParameterError: a parameter is missing or does not fit.
    """
    entry = entry_function(module, function)
    check_supported(module, entry, (*RULES, YieldOp))
    arrays = check_inputs(entry, inputs)
    results = run_function(module, entry, arrays, [_functions()], observer)
    return tuple(np.array(result, order="C") for result in results)


def check_inputs(function: FuncOp, inputs: Sequence[Array]) -> list[Array]:
    """Refuse inputs that do not fit the function's arguments.

    Raises:
        TritonError: names the argument, what it expects and what it got.
    """
    name, types = function.sym_name.data, function.function_type.inputs.data
    if len(inputs) != len(types):
        raise TritonError(f"function '{name}' expects {len(types)} input(s), got {len(inputs)}")
    arrays = [np.asarray(value) for value in inputs]
    for index, (type, array) in enumerate(zip(types, arrays, strict=True)):
        problem = _misfit(type, array)
        if problem is not None:
            raise TritonError(f"function '{name}' input {_input_name(function, index)}: {problem}")
    return arrays


def _input_name(function: FuncOp, index: int) -> str:
    name = given_name(function.arg_attrs, index) or function.args[index].name_hint
    return f"'{name}'" if name else str(index)


def _misfit(type: Attribute, array: Array) -> str | None:
    """Why `array` is no value of `type`; `None` if it is one."""
    if isinstance(type, TrainType):
        dense = TensorType(i1, type.get_shape())
        return None if _misfit(dense, array) is None else _expected(type, array)
    if not isa(type, TensorType):
        return f"the reference interpreter has no values of {type}"
    try:
        dtype = numpy_dtype(type.element_type)
    except VerifyException as error:
        return str(error)
    shape = type.get_shape()
    fits = len(shape) == array.ndim and all(
        want in (DYNAMIC, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        return _expected(type, array)
    if isinstance(type.element_type, TritType) and array.size:
        least, most = int(array.min()), int(array.max())
        if least < -1 or most > 1:
            return f"expected trits in {{-1, 0, 1}}, got values from {least} to {most}"
    return None


def _expected(type: TrainType | TensorType[Attribute], array: Array) -> str:
    dtype = "bool" if isinstance(type, TrainType) else numpy_dtype(type.element_type)
    return f"expected {type} as {dtype}, got {array.dtype}{list(array.shape)}"


def evaluate(op: Operation, operands: Sequence[Array]) -> tuple[Array, ...]:
    """The results of one op on given operands, of the dtypes that its result types state.

    Raises:
        KeyError: the op has no rule.
        TritonError, ValueError: it cannot be computed on these operands.
    """
    with np.errstate(all="ignore"):
        computed = RULES[type(op)](op, *widened(op, operands))
        results = computed if isinstance(computed, tuple) else (computed,)
        return tuple(_of_type(v, r) for v, r in zip(op.results, results, strict=True))


def widened(op: Operation, operands: Sequence[Array]) -> list[Array]:
    """The operands of an op as its rule takes them: f16 and bf16 as f32."""
    return [
        operand.astype(np.float32) if _is_half(value) else operand
        for value, operand in zip(op.operands, operands, strict=True)
    ]


def _is_half(value: SSAValue) -> bool:
    return isinstance(dense_type(value).element_type, Float16Type | BFloat16Type)


def _of_type(value: SSAValue, array: Array) -> Array:
    """`array`, floats rounded to the value's element type, checked against its shape."""
    element = dense_type(value).element_type
    array = np.asarray(array)
    if array.dtype.kind == "f" and isinstance(element, AnyFloat):
        array = array.astype(numpy_dtype(element), copy=False)
    misfit = _misfit(value.type, array)
    if misfit is not None:
        raise ValueError(f"result: {misfit}")
    return array


@cache
def _functions() -> InterpreterFunctions:
    """The rules as functions of xDSL's interpreter."""

    def run(
        self: InterpreterFunctions, interpreter: Interpreter, op: Operation, args: PythonValues
    ) -> PythonValues:
        return evaluate(op, args)

    implementations = {kind.name: impl(kind)(run) for kind in RULES}
    return register_impls(type("DialectFunctions", (InterpreterFunctions,), implementations))()
