"""Rules and decompositions together cover `tensor`; what has neither is refused, all at once."""

from collections.abc import Callable

import pytest
from op_examples import example_of, function_around
from xdsl.dialects.builtin import f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from triton_dsl.dialects import interpret, tensor
from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.instrument import run_passes
from triton_dsl.ir.pipeline import parse_pipeline
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_native.linalg import takes as native_takes
from triton_dsl.lowering.to_onnx.onnx_rules import takes as onnx_takes
from triton_dsl.lowering.to_pytorch.module_source import RULES as PYTORCH
from triton_dsl.lowering.to_tflite.tflite_rules import takes as tflite_takes
from triton_dsl.passes.decompose import decomposition
from triton_dsl.passes.universe import everything

TAKES: dict[str, Callable[[type[Operation], Attribute], bool]] = {
    "interpreter": lambda kind, element: kind in interpret.RULES,
    "pytorch": lambda kind, element: kind in PYTORCH,
    "onnx, opset 13": lambda kind, element: onnx_takes(kind, element, 13),
    "onnx, opset 21": lambda kind, element: onnx_takes(kind, element, 21),
    "tflite": tflite_takes,
    "native": native_takes,
    "circuits": lambda kind, element: kind not in tensor.OPERATIONS,
}
STORED = (tensor.ParameterOp, tensor.ConstantOp)


def rest(kind: type[Operation], target: str, element: str = "f32") -> set[str]:
    """What is left of the example of an op that a target neither takes nor can decompose."""
    text = function_around(example_of(kind)).replace("f32", element)
    module, takes = parse_module(text), TAKES[target]
    passes = parse_pipeline(decomposition(takes), everything().all_passes)
    run_passes(triton_context(), module, passes, [])
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    ops = [op for op in function.walk() if not isinstance(op, (FuncOp, ReturnOp, *STORED))]
    first = {op: op.operands[0].type for op in ops}
    return {op.name for op in ops if not takes(type(op), getattr(first[op], "element_type"))}  # noqa: B009


@pytest.mark.parametrize("target", [name for name in TAKES if name != "circuits"])
def test_rules_and_decompositions_cover_the_dialect(target: str) -> None:
    left = {kind.name: rest(kind, target) for kind in tensor.OPERATIONS if kind not in STORED}
    assert {name: ops for name, ops in left.items() if ops} == {}


@pytest.mark.parametrize("kind", [tensor.TanOp, tensor.MishOp, tensor.EluOp, tensor.PreluOp])
def test_what_an_engine_lacks_for_a_type_is_decomposed(kind: type[Operation]) -> None:
    assert not onnx_takes(kind, f64, 21)
    assert rest(kind, "onnx, opset 21", "f64") == set()


def test_what_has_no_rule_and_no_parts_is_found() -> None:
    assert rest(tensor.FloorOp, "circuits") == {"tensor.floor"}


@pytest.mark.parametrize("target", ["verilog", "nir"])
def test_targets_of_few_ops_refuse_the_rest_at_once(target: str) -> None:
    module = parse_module(
        """
        func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
          %a = tensor.sin %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
          %b = tensor.mish %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
          %c = tensor.atan %b : (tensor<?x4xf32>) -> tensor<?x4xf32>
          func.return %c : tensor<?x4xf32>
        }
        """
    )
    with pytest.raises(UnsupportedError) as caught:
        compile_to_target(module, target)
    names = [name for name, _, _ in caught.value.problems]
    assert names[:3] == ["tensor.sin", "tensor.mish", "tensor.atan"]
