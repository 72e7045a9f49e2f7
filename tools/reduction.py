"""Making what fails smaller: one greedy search, and the ways in which a module can be smaller.

`smallest` knows nothing of what it reduces; `smaller_modules` gives it modules of IR with the
inputs that they are run on. Not here: what it means to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerType,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from ..dialects.inference import InferredOp
from ..dialects.interpret import run_module
from ..dialects.parameters import attach_store, parameter_value, parameters, store_of
from ..dialects.registry import verify_module
from ..dialects.shapes import DYNAMIC, ints
from ..dialects.spike.types import dense_type, like
from ..dialects.ternary import ParameterOp as TritParameterOp
from ..ir.arrays import Array
from ..ir.errors import TritonError
from ..ir.interpreter import entry_function
from ..ir.store import ParameterStore
from ..ir.trits import pack_trits

Candidate = TypeVar("Candidate")


def smallest(
    candidate: Candidate,
    smaller: Callable[[Candidate], Iterable[Candidate]],
    fails: Callable[[Candidate], bool],
    *,
    tries: int = 1000,
    seconds: float = 60.0,
) -> Candidate:
    """The candidate that is left when nothing smaller fails any more.

    Greedy: the first of the smaller ones that fails takes the place, and the search starts again
    from there (Regehr et al. 2012, "Test-case reduction for C compiler bugs"). Deterministic but
    for the time limit.

    Args:
        candidate: something that fails.
        smaller: simpler forms of a candidate, the boldest first; each must be simpler in an order
            without infinite descent, or `tries` ends the search.
        fails: whether a candidate still shows the failure.
        tries: calls of `fails`, at most.
        seconds: when to stop, at the latest after the call that is running.
    """
    end = monotonic() + seconds
    while True:
        for proposal in smaller(candidate):
            if tries <= 0 or monotonic() > end:
                return candidate
            tries -= 1
            if fails(proposal):
                candidate = proposal
                break
        else:
            return candidate


@dataclass(frozen=True)
class Runnable:
    """A module and what its function is run on.

    Attributes:
        module: with its parameters in memory; a function of one block.
        inputs: one array an argument.
        function: its name.
    """

    module: ModuleOp
    inputs: tuple[Array, ...]
    function: str = "forward"


def smaller_modules(whole: Runnable) -> Iterator[Runnable]:
    """Valid modules with fewer ops, then with fewer properties, sizes and digits.

    The function returns less; it stops early; an op gives way to an operand, or to an argument
    with the value that the op computes; properties that may be absent are; sizes shrink everywhere
    at once; inputs and parameters become plain numbers.
    """
    for make in (_returning_less, _without_ops, _with_plain_properties, _of_smaller_sizes):
        for candidate in make(whole):
            if _is_valid(candidate):
                yield candidate
    yield from _of_plain_numbers(whole)


def plainer(array: Array) -> Iterator[Array]:
    """The array with plainer numbers, in an order that cannot fall for ever."""
    if array.size == 0 or array.dtype.kind == "b":
        return
    candidates = [np.zeros_like(array), np.ones_like(array)]
    if array.dtype.kind not in "iu":
        wide = array.astype(np.float64)
        candidates += [(np.round(wide * scale) / scale).astype(array.dtype) for scale in (1, 8)]
    for candidate in candidates:
        if _digits(candidate) < _digits(array):
            yield candidate


def _digits(array: Array) -> int:
    digits = sum(len(f"{float(v):.9g}") for v in array.ravel())
    return digits + 2 * int(np.count_nonzero(array))


def _is_valid(candidate: Runnable) -> bool:
    try:
        verify_module(candidate.module)
    except TritonError:
        return False
    return True


def _copy(whole: Runnable) -> tuple[ModuleOp, FuncOp, list[Operation], ReturnOp]:
    module = whole.module.clone()
    function = entry_function(module, whole.function)
    *ops, last = function.body.block.ops
    return module, function, ops, cast(ReturnOp, last)


def _returning_less(whole: Runnable) -> Iterator[Runnable]:
    _, _, ops, last = _copy(whole)
    if len(last.operands) > 1:
        for index in range(len(last.operands)):
            module, function, _, end = _copy(whole)
            yield _returning(whole, module, function, [end.operands[index]])
    returned = set(last.operands)
    for index, op in enumerate(ops):
        for number, result in enumerate(op.results):
            if op.operands and result not in returned:
                module, function, copies, _ = _copy(whole)
                yield _returning(whole, module, function, [copies[index].results[number]])


def _returning(
    whole: Runnable, module: ModuleOp, function: FuncOp, values: Sequence[SSAValue]
) -> Runnable:
    block = function.body.block
    last = block.last_op
    assert last is not None
    Rewriter.replace_op(last, ReturnOp(*values))
    function.properties.pop("res_attrs", None)
    return _tidy(whole, module, function, list(whole.inputs))


def _tidy(whole: Runnable, module: ModuleOp, function: FuncOp, inputs: Sequence[Array]) -> Runnable:
    """Without ops and arguments that nothing uses; at least one argument stays."""
    block = function.body.block
    for op in reversed(list(block.ops)):
        if not isinstance(op, ReturnOp) and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)
    used = [index for index, argument in enumerate(block.args) if argument.uses] or [0]
    attributes = function.arg_attrs
    if attributes is not None:
        function.properties["arg_attrs"] = ArrayAttr([attributes.data[i] for i in used])
    for index in reversed(range(len(block.args))):
        if index not in used:
            block.erase_arg(block.args[index])
    _state_type(function)
    return Runnable(module, tuple(inputs[i] for i in used), whole.function)


def _state_type(function: FuncOp) -> None:
    block = function.body.block
    last = block.last_op
    assert last is not None
    function.properties["function_type"] = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in last.operands]
    )


def _without_ops(whole: Runnable) -> Iterator[Runnable]:
    computed: dict[Operation, Sequence[Array]] = {}
    try:
        run_module(
            whole.module,
            whole.inputs,
            whole.function,
            lambda op, _, results: computed.update({op: results}),
        )
    except Exception:
        computed.clear()  # no op can be replaced by what it computes
    originals = list(entry_function(whole.module, whole.function).body.block.ops)[:-1]
    for index, op in reversed(list(enumerate(originals))):
        if not op.operands or len(op.results) != 1:
            continue
        for number, operand in enumerate(op.operands):
            if operand.type == op.results[0].type:
                module, function, copies, _ = _copy(whole)
                copies[index].results[0].replace_all_uses_with(copies[index].operands[number])
                yield _tidy(whole, module, function, whole.inputs)
        if op in computed:
            module, function, copies, _ = _copy(whole)
            argument = function.body.block.insert_arg(
                copies[index].results[0].type, len(whole.inputs)
            )
            copies[index].results[0].replace_all_uses_with(argument)
            function.properties.pop("arg_attrs", None)
            yield _tidy(whole, module, function, [*whole.inputs, np.asarray(computed[op][0])])


def _with_plain_properties(whole: Runnable) -> Iterator[Runnable]:
    _, _, ops, _ = _copy(whole)
    for index, op in enumerate(ops):
        for name, attribute in op.properties.items():
            if name == "operandSegmentSizes":
                continue
            for plain in (None, *_plain_attributes(attribute)):
                module, function, copies, _ = _copy(whole)
                target = copies[index]
                if plain is None:
                    target.properties.pop(name)
                else:
                    target.properties[name] = plain
                try:
                    _infer(function)
                except Exception:  # a property that must be there
                    continue
                yield Runnable(module, whole.inputs, whole.function)
        for number, operand in enumerate(op.operands):
            if "operandSegmentSizes" in op.properties and op.operands[0] is not operand:
                module, function, copies, _ = _copy(whole)
                if _drop_operand(copies[index], number):
                    yield _tidy(whole, module, function, whole.inputs)


def _plain_attributes(attribute: Attribute) -> Iterator[Attribute]:
    if isinstance(attribute, DenseArrayBase):
        values = list(attribute.get_values())
        for value in (0, 1):
            if any(v > value for v in values) and value not in values[:1]:
                yield ints([value] * len(values))


def _drop_operand(op: Operation, number: int) -> bool:
    """Take one operand of an op with segments away; whether its segment could lose it."""
    sizes = cast("DenseArrayBase[IntegerType]", op.properties["operandSegmentSizes"])
    counts = list(sizes.get_values())
    position = 0
    for segment, count in enumerate(counts):
        if position <= number < position + count:
            counts[segment] -= 1
            op.operands = [v for i, v in enumerate(op.operands) if i != number]
            op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(sizes.elt_type, counts)
            return True
        position += count
    return False


def _infer(function: FuncOp) -> None:
    """Compute the result types anew, first to last."""
    for op in function.body.block.ops:
        if isinstance(op, InferredOp):
            for result, type in zip(op.results, op.infer(), strict=True):
                Rewriter.replace_value_with_new_type(result, type)
    _state_type(function)


def _of_smaller_sizes(whole: Runnable) -> Iterator[Runnable]:
    sizes = {n for array in whole.inputs for n in array.shape}
    sizes |= {n for op in parameters(whole.module) for n in dense_type(op.result).get_shape()}
    for size in sorted(sizes, reverse=True):
        for smaller in sorted({1, 2, size // 2}):
            if 0 < smaller < size:
                try:
                    yield _resized(whole, size, smaller)
                except (VerifyException, TritonError, ValueError):
                    continue


def _resized(whole: Runnable, size: int, smaller: int) -> Runnable:
    module, function, _, _ = _copy(whole)

    def cut(array: Array) -> Array:
        return array[tuple(slice(smaller if n == size else n) for n in array.shape)]

    def retyped(value: SSAValue, array: Array) -> None:
        type = dense_type(value)
        pairs = zip(type.get_shape(), array.shape, strict=True)
        shape = tuple(declared if declared == DYNAMIC else n for declared, n in pairs)
        Rewriter.replace_value_with_new_type(value, like(value, shape))

    inputs = tuple(map(cut, whole.inputs))
    for argument, array in zip(function.args, inputs, strict=True):
        retyped(argument, array)
    arrays: dict[str, Array] = {}
    for op in parameters(module):
        array = cut(parameter_value(op))
        arrays[op.key.data] = pack_trits(array) if isinstance(op, TritParameterOp) else array
        retyped(op.result, array)
    attach_store(module, ParameterStore.of(arrays))
    _infer(function)
    return Runnable(module, inputs, whole.function)


def _of_plain_numbers(whole: Runnable) -> Iterator[Runnable]:
    for index, array in enumerate(whole.inputs):
        for plain in plainer(array):
            inputs = (*whole.inputs[:index], plain, *whole.inputs[index + 1 :])
            yield Runnable(whole.module, inputs, whole.function)
    for op in parameters(whole.module):
        key = op.key.data
        trits = isinstance(op, TritParameterOp)
        for plain in plainer(parameter_value(op)):
            module = whole.module.clone()
            store = store_of(module)
            arrays = {name: store.read(name) for name in store.names()}
            arrays[key] = pack_trits(plain) if trits else plain
            attach_store(module, ParameterStore.of(arrays))
            yield Runnable(module, whole.inputs, whole.function)
