"""Programs with given weights, and the simulator that stands for the hardware."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.parameters import attach_store, parameters
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.ternary import TritType
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]


@pytest.fixture(scope="session")
def program() -> Program:
    """`program(text, values)`: the module with its parameters' values."""

    def build(text: str, values: dict[str, Array]) -> ModuleOp:
        module = parse_module(text)
        arrays: dict[str, Array] = {}
        for op in parameters(module):
            type = tensor_type(op.result)
            array = np.asarray(values[op.key.data])
            trits = isinstance(type.element_type, TritType)
            dtype = numpy_dtype(type.element_type)
            arrays[op.key.data] = (
                pack_trits(array.astype(np.int8)) if trits else array.astype(dtype)
            )
        if arrays:
            attach_store(module, ParameterStore.of(arrays))
        return module

    return build


@pytest.fixture(scope="session")
def iverilog(require_tool: RequireTool) -> str:
    """Icarus Verilog."""
    return require_tool("iverilog", "apt-get install iverilog")


SMALL = """builtin.module @net {
func.func @forward(%x: tensor<?x12xi8>) -> tensor<?xi64> {
  %w1 = ternary.parameter "fc1.weight" : tensor<12x8x!ternary.trit>
  %w2 = ternary.parameter "fc2.weight" : tensor<8x4x!ternary.trit>
  %b = tensor.parameter "fc1.bias" : tensor<8xi32>
  %t = tensor.parameter "fc1.thresholds" : tensor<8x5xi32>
  %h = ternary.linear %x, %w1 bias(%b : tensor<8xi32>) thresholds(%t : tensor<8x5xi32>)
       {activation = "relu"} : tensor<?x12xi8>, tensor<12x8x!ternary.trit> -> tensor<?x8xi8>
  %p = ternary.matmul %h, %w2 : tensor<?x8xi8>, tensor<8x4x!ternary.trit> -> tensor<?x4xi32>
  %y = tensor.argmax %p : (tensor<?x4xi32>) -> tensor<?xi64>
  func.return %y : tensor<?xi64>
}
}"""


@pytest.fixture
def small(program: Program) -> ModuleOp:
    """Two layers, thresholds between them, and the class at the end."""
    rng = np.random.default_rng(0)
    values = {
        "fc1.weight": rng.integers(-1, 2, (12, 8)),
        "fc2.weight": rng.integers(-1, 2, (8, 4)),
        "fc1.bias": rng.integers(-20, 20, 8),
        "fc1.thresholds": np.sort(rng.integers(-300, 300, (8, 5)), axis=1),
    }
    return program(SMALL, values)
