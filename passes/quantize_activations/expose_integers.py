"""The pass `expose-integers`: quantisation at the edges of a program becomes its caller's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import dense
from ...dialects.shapes import is_float, with_element
from ...dialects.traits import MovesElements, has
from ...ir.interpreter import entry_function
from ..analysis.compile_time import is_literal, literal_value
from ..analysis.replacement import erase

QUANTIZED = "tensor.quantized"
"""The attribute of an argument or result: the scale, the zero point and the bounds."""


@dataclass(frozen=True)
class ExposeIntegersPass(ModulePass):
    """Let the caller of `@forward` quantise its inputs and dequantise its results.

    A float argument that is only quantised, with a known scale, becomes the integer argument; a
    result that was only dequantised becomes the integer result. The attribute `tensor.quantized`
    of the argument or result holds what the caller has to do: `scale`, `zero_point`, `axis`, and
    for arguments `low` and `high`, as in `tensor.quantize` and `tensor.dequantize`, and `of_sign`:
    1 where the caller quantises the `tensor.sign` of the argument. An argument of which only known
    thresholds are counted, the same for all elements, has `thresholds` in the place of scale, zero
    point and axis. Moves of elements may stand
    between where one scale serves all elements. Known factors and addends of a result before its
    `tensor.dequantize` are the caller's too: `factor` and `addend`, one or one for each element of
    the last axis, of integers that wrap around as those of the result do.

        func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
          %q = tensor.quantize %x, %s, %z {low = -8 : i64, high = 7 : i64} : …
          %p = tensor.requantize %q, … : … -> tensor<?x4xi8>
          %y = tensor.dequantize %p, %t, %z : …
          func.return %y : tensor<?x4xf32>
        }
        // becomes
        func.func @forward(%q: tensor<?x4xi8> {tensor.quantized = {axis = 1 : i64, …}})
            -> (tensor<?x4xi8> {tensor.quantized = {…}}) {…}

    For hardware, which computes with integers alone. The types of the function change, so that this
    is for the end of a pipeline.
    """

    name = "expose-integers"
    approximate: ClassVar[bool] = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        if len(function.body.blocks) != 1:
            return
        for index in range(len(function.args)):
            _expose_argument(function, index)
        returned = function.body.block.last_op
        assert isinstance(returned, ReturnOp)
        for index in range(len(returned.operands)):
            _expose_result(function, returned, index)
        function.update_function_type()


def _expose_argument(function: FuncOp, index: int) -> None:
    argument = function.args[index]
    type = tensor_type(argument)
    if not is_float(type):
        return
    held: list[SSAValue] = [argument]
    while has(move := held[-1].get_user_of_unique_use(), MovesElements):
        if not len(move.operands) == len(move.results) == 1:
            return
        held += move.results
    value = held[-1]
    sign = value.get_user_of_unique_use()
    users = [
        use.operation for use in (sign.result if isinstance(sign, tensor.SignOp) else value).uses
    ]
    first = users[0] if users else None
    if not isinstance(first, _TO_INTEGERS) or not all(_same(user, first) for user in users):
        return
    entries = _made_by_caller(first, moved=len(held) > 1)
    if entries is None:
        return
    element = tensor_type(first.result).element_type
    for moved in held:
        type = with_element(tensor_type(moved), element)
        value = Rewriter.replace_value_with_new_type(moved, type)
    for user in users:
        user.results[0].replace_all_uses_with(value)
        erase(user)
    if isinstance(sign, tensor.SignOp):
        erase(sign)
        entries["of_sign"] = IntegerAttr(1, i64)
    _forget(*first.operands[1:])
    function.arg_attrs = _noted(function.arg_attrs, len(function.args), index, entries)


_TO_INTEGERS = tensor.QuantizeOp | tensor.MultiThresholdOp


def _made_by_caller(
    op: tensor.QuantizeOp | tensor.MultiThresholdOp, *, moved: bool
) -> dict[str, Attribute] | None:
    """What the caller has to do in the place of `op`; `None` where it is not known."""
    known = [literal_value(parameter) for parameter in op.operands[1:]]
    literals = [each for each in known if each is not None]
    if len(literals) < len(known):
        return None
    if isinstance(op, tensor.QuantizeOp):
        if moved and literals[0].ndim:
            return None
        return _entries(op, op.scale, op.zero_point) | {"low": op.low, "high": op.high}
    (thresholds,) = literals
    if len(thresholds) != 1:
        return None
    ends = {"low": IntegerAttr(0, i64), "high": IntegerAttr(thresholds.size, i64)}
    element = tensor_type(op.thresholds).element_type
    return {"thresholds": dense(np.sort(thresholds[0]), element), **ends}


def _expose_result(function: FuncOp, returned: ReturnOp, index: int) -> None:
    value = returned.operands[index]
    op = value.owner
    if not isinstance(op, tensor.DequantizeOp):
        return
    if literal_value(op.scale) is None or literal_value(op.zero_point) is None:
        return
    entries = _entries(op, op.scale, op.zero_point)
    returned.operands[index] = op.input
    if op.result.first_use is None:
        erase(op)
        _forget(op.scale, op.zero_point)
        entries |= _expose_affine(returned, index)
    count = len(returned.operands)
    function.res_attrs = _noted(function.res_attrs, count, index, entries)


def _expose_affine(returned: ReturnOp, index: int) -> dict[str, Attribute]:
    """Leave known factors and addends of a result to the caller; what it has to do."""
    whole = returned.operands[index]
    factor, addend = np.array(1, np.int64), np.array(0, np.int64)
    while isinstance(op := returned.operands[index].owner, _AFFINE):
        value, known = _known_side(op)
        literal = None if known is None else literal_value(known)
        is_last = [use.operation for use in op.result.uses] == [returned]
        if value is None or known is None or literal is None or not is_last:
            break
        numbers = literal.astype(np.int64)
        numbers = numbers.reshape(numbers.shape[-1:] if numbers.size > 1 else ())
        if isinstance(op, tensor.AddOp):
            addend = addend + factor * numbers
        else:
            factor = factor * numbers
        returned.operands[index] = value
        erase(op)
        _forget(known)
    if returned.operands[index] is whole:
        return {}
    return {"factor": dense(factor, i64), "addend": dense(addend, i64)}


_AFFINE = tensor.AddOp | tensor.MulOp


def _known_side(op: tensor.AddOp | tensor.MulOp) -> tuple[SSAValue | None, SSAValue | None]:
    """The operand of the result's type, and the other one where it is known and the same but
    along the last axis."""
    for value, known in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        literal = literal_value(known)
        if literal is None or value.type != op.result.type or literal_value(value) is not None:
            continue
        if literal.size == 1 or literal.size == literal.shape[-1]:
            return value, known
    return None, None


def _same(user: Operation, first: Operation) -> bool:
    return (
        isinstance(user, type(first))
        and user.properties == first.properties
        and tuple(user.operands) == tuple(first.operands)
    )


def _entries(
    op: tensor.QuantizeOp | tensor.DequantizeOp, scale: SSAValue, zero_point: SSAValue
) -> dict[str, Attribute]:
    entries: dict[str, Attribute] = {
        "axis": IntegerAttr(op.axis.value.data % len(tensor_type(op.input).get_shape()), i64)
    }
    for name, value in (("scale", scale), ("zero_point", zero_point)):
        array = literal_value(value)
        assert array is not None
        entries[name] = dense(array, tensor_type(value).element_type)
    return entries


def _forget(*values: SSAValue) -> None:
    for value in values:
        owner = value.owner
        unused = value.first_use is None and isinstance(owner, Operation)
        if unused and owner.parent is not None and is_literal(owner):
            erase(owner)


def _noted(
    attributes: ArrayAttr[DictionaryAttr] | None,
    count: int,
    index: int,
    entries: dict[str, Attribute],
) -> ArrayAttr[DictionaryAttr]:
    noted = [DictionaryAttr({})] * count if attributes is None else list(attributes.data)
    noted[index] = DictionaryAttr({**noted[index].data, QUANTIZED: DictionaryAttr(entries)})
    return ArrayAttr(noted)
