"""Names that mean something to a target: keywords, built-in names, names of its own.

A program whose layer, parameters, inputs and values have such names runs on every target.
"""

from __future__ import annotations

import numpy as np
import pytest

from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tri import import_tri

LAYERS = ("forward", "class", "module", "int", "torch", "main", "inf")
WEIGHTS = (
    *("wire", "reg", "begin", "endmodule", "signed", "clk", "rst"),
    *("self", "F", "nn", "None", "lambda", "while", "inf", "nan", "type"),
    *("training", "parameters", "unpack_ternary", "state_dict", "constant", "Constant"),
    *("float", "void", "static", "NULL"),
)
"""Keywords of Verilog, Python and C, and what generated files and `nn.Module` use themselves."""


def program(layer: str, names: tuple[str, ...]) -> str:
    """A chain of products, each with a weight of an awkward name."""
    lines = [f"layer {layer} {{"]
    lines += [f"    param {name}: TernaryTensor[4, 4]" for name in names]
    lines += ["", "    fn forward(input: Tensor<int8>[N, 4]) -> Tensor<int32>[N, 4] {"]
    lines += [f"        let output = input @ {names[0]}"]
    before = "output"
    for number, name in enumerate(names[1:4]):
        value = ("always", "def", "double")[number]
        lines.append(f"        let {value} = {before} @ {name}")
        before = value
    products = " + ".join(f"input @ {name}" for name in names[4:])
    return "\n".join([*lines, f"        return {before} + {products}", "    }", "}", ""])


@pytest.mark.parametrize("target", ["pytorch", "onnx", "native", "tflite", "verilog"])
def test_no_name_disturbs_a_target(target: str) -> None:
    # Circuits are large and slow to simulate.
    names = WEIGHTS[:5] if target == "verilog" else WEIGHTS
    layers = {"pytorch": LAYERS, "verilog": ("forward",)}.get(target, LAYERS[:1])
    rng = np.random.default_rng(0)
    weights = {name: rng.integers(-1, 2, (4, 4)).astype(np.int8) for name in names}
    x = rng.integers(-128, 128, (3, 4)).astype(np.int8)
    wide = {name: weight.astype(np.int64) for name, weight in weights.items()}
    chain = np.linalg.multi_dot([x.astype(np.int64), *(wide[name] for name in names[:4])])
    want = chain + sum(x @ wide[name] for name in names[4:])
    for layer in layers:
        module = import_tri(program(layer, names), weights=weights)
        (got,) = run_target(module, target, [x])[1]
        np.testing.assert_array_equal(got, want, err_msg=layer)
