"""Integers that go in and out, and that their caller scales.

A target of microcontrollers alone, whose inputs come from sensors as integers. Not here: which
values become integers (`quantize-activations`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import with_element
from ...ir.interpreter import entry_function
from ...passes.analysis.compile_time import literal_value
from ...passes.analysis.replacement import erase

PORTS = "tensor.quantized_ports"
"""The module attribute with scale and zero point of inputs and results, as text; `""` for none."""


def take_ports(module: ModuleOp) -> None:
    """Take away `tensor.quantize` behind arguments and `tensor.dequantize` before results.

    An argument is taken that goes, by reshapes alone, to one `tensor.quantize`. What was taken away
    stands in the attribute `tensor.quantized_ports` of the module.

        func.func @forward(%x: tensor<1x4xf32>) -> tensor<1x4xi8> {
          %q = tensor.quantize %x, %scale, %zero : …
        // becomes
        func.func @forward(%q: tensor<1x4xi8>) -> tensor<1x4xi8> {
    """
    function = entry_function(module, "forward")
    end = function.body.block.last_op
    assert end is not None
    inputs = [_taken_argument(argument) for argument in list(function.args)]
    outputs = [_taken_result(end, number) for number in range(len(end.operands))]
    function.update_function_type()
    module.attributes[PORTS] = DictionaryAttr(
        {
            "inputs": ArrayAttr(map(StringAttr, inputs)),
            "outputs": ArrayAttr(map(StringAttr, outputs)),
        }
    )


def noted_ports(module: ModuleOp) -> Mapping[str, Sequence[str]]:
    """How integers of `inputs` and `outputs` stand for numbers, as the pass noted."""
    attribute = module.attributes.get(PORTS)
    if not isinstance(attribute, DictionaryAttr):
        return {}
    return {
        key: [word.data for word in cast("ArrayAttr[StringAttr]", words)]
        for key, words in attribute.data.items()
    }


_MOVES = (tensor.FlattenOp, tensor.ReshapeToOp, tensor.PermuteOp, tensor.UnsqueezeOp)
"""Ops that give the elements of their operand, each once."""


def _taken_argument(argument: SSAValue) -> str:
    """Make an argument integers; how they come from numbers, `""` where it stays."""
    chain = [argument]
    user = _only_user(argument)
    while isinstance(user, _MOVES):
        chain.append(user.results[0])
        user = _only_user(user.results[0])
    if not isinstance(user, tensor.QuantizeOp) or user.operands[0] is not chain[-1]:
        return ""
    text = _described(user.scale, user.zero_point)
    if text:
        element = tensor_type(user.result).element_type
        user.result.replace_all_uses_with(chain[-1])
        erase(user)
        for value in chain:
            type = with_element(tensor_type(value), element)
            Rewriter.replace_value_with_new_type(value, type)
    return text


def _taken_result(end: Any, number: int) -> str:
    """Give a result as integers; how numbers come from them, `""` where it stays."""
    maker = end.operands[number].owner
    if not isinstance(maker, tensor.DequantizeOp):
        return ""
    text = _described(maker.scale, maker.zero_point)
    if text:
        end.operands[number] = maker.operands[0]
        if maker.result.first_use is None:
            erase(maker)
    return text


def _only_user(value: SSAValue) -> Any:
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None


def _described(scale: SSAValue, zero_point: SSAValue) -> str:
    """`(integer + 128) * 0.5`, with a scale for each channel where there are several."""
    factors, zeros = literal_value(scale), literal_value(zero_point)
    if factors is None or zeros is None or zeros.size != 1:
        return ""
    shown = ", ".join(f"{float(value):.9g}" for value in factors.reshape(-1))
    return f"(integer - {int(zeros.reshape(()))}) * {f'[{shown}]' if factors.size > 1 else shown}"
