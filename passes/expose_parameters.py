"""The pass `expose-parameters`: dense weights as arguments, so that the caller gives them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..dialects import tensor
from ..ir.interpreter import entry_function
from ..ir.value_names import added_argument
from .analysis.replacement import erase


@dataclass(frozen=True)
class ExposeParametersPass(ModulePass):
    """Make the dense parameters of `@forward` its last arguments, in program order.

    The `tensor.name` of an argument is the parameter's key. Trits stay parameters. A program whose
    weights are arguments is one for all layers of these shapes.

        func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
          %w = tensor.parameter "bias" : tensor<4xf32>
          %y = tensor.add %x, %w : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
        // becomes
        func.func @forward(%x: tensor<?x4xf32>, %w: tensor<4xf32> {tensor.name = "bias"}) -> … {
          %y = tensor.add %x, %w : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    """

    name = "expose-parameters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        for parameter in list(function.walk()):
            if isinstance(parameter, tensor.ParameterOp):
                value = parameter.result
                argument = added_argument(function, value.type, parameter.key.data)
                argument.name_hint, argument.location = value.name_hint, parameter.location
                value.replace_all_uses_with(argument)
                erase(parameter)
        function.update_function_type()
