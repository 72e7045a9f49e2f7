"""Element-wise ops, run as machine code, against the reference interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)

from triton_dsl.dialects import tensor
from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.to_native.callables import native_program

ui8 = IntegerType(8, Signedness.UNSIGNED)
X = "tensor<?x37xf32>"

UNARY = [
    tensor.NegOp,
    tensor.AbsOp,
    tensor.SignOp,
    tensor.ExpOp,
    tensor.RoundOp,
    tensor.FloorOp,
    tensor.LeakyReluOp,
    tensor.SigmoidOp,
    tensor.TanhOp,
    tensor.HardSwishOp,
    tensor.SoftmaxOp,
]
BINARY = [
    tensor.AddOp,
    tensor.SubOp,
    tensor.MulOp,
    tensor.DivOp,
    tensor.MaximumOp,
    tensor.MinimumOp,
]


def converting(element: Any) -> Callable[..., Any]:
    """A builder of `tensor.convert`."""
    return lambda x: tensor.ConvertOp(x, element)


FLOATS = {
    **{op.name: (op, X) for op in UNARY},
    **{f"{op.name}_channels": (op, f"{X}; tensor<37xf32>") for op in BINARY},
    **{f"{op.name}_rows": (op, "tensor<?x3x5xf32>; tensor<?x3x1xf32>") for op in BINARY},
    "scalar": (tensor.AddOp, f"{X}; tensor<f32>"),
    "vectors": (tensor.MulOp, "tensor<?xf32>; tensor<?xf32>"),
    "static": (tensor.AddOp, "tensor<3x1x7xf32>; tensor<5x1xf32>"),
    "mod": (tensor.ModOp, "tensor<?x5xf32>; tensor<?x5xf32>"),
    "log_softmax": (tensor.LogSoftmaxOp, "tensor<?x2x19xf32>"),
    "softmax_channels": (lambda x: tensor.SoftmaxOp(x, 1), "tensor<?x5x6xf32>"),
    # A little more than whole groups of vectors, and half a group more.
    **{f"softmax_{n}": (tensor.SoftmaxOp, f"tensor<?x{n}xf32>") for n in (65, 96, 197)},
    "f64": (tensor.AddOp, "tensor<?x9xf64>; tensor<9xf64>"),
    "f16": (tensor.MulOp, "tensor<?x9xf16>; tensor<9xf16>"),
    "bf16": (tensor.MulOp, "tensor<?x9xbf16>; tensor<9xbf16>"),
    **{f"to_{t}": (converting(t), "tensor<?x9xf32>") for t in (f64, f16, bf16, i1, i8, i32, i64)},
}
INTEGERS = {
    **{
        f"{op.name}_{t}": (op, f"tensor<?x37x{t}>; tensor<37x{t}>")
        for op in BINARY
        for t in (i8, i32)
    },
    "minimum_ui8": (tensor.MinimumOp, "tensor<?x37xui8>; tensor<37xui8>"),
    "add_i64": (tensor.AddOp, "tensor<?x5xi64>; tensor<5xi64>"),
    "less": (lambda x, y: tensor.CompareOp(x, y, "lt"), "tensor<?x37xi16>; tensor<37xi16>"),
    "equal": (lambda x, y: tensor.CompareOp(x, y, "eq"), "tensor<?x5xi1>; tensor<5xi1>"),
    "and": (tensor.AndOp, "tensor<?x37xi1>; tensor<37xi1>"),
    "not": (tensor.NotOp, "tensor<?x3xi1>"),
    "where": (tensor.WhereOp, "tensor<?x37xi1>; tensor<?x37xi8>; tensor<37xi8>"),
    **{f"i8_to_{t}": (converting(t), "tensor<?x37xi8>") for t in (f32, i1, i16, i64)},
    "ui8_to_f32": (converting(f32), "tensor<?x37xui8>"),
    "i1_to_i32": (converting(i32), "tensor<?x37xi1>"),
}


@pytest.mark.parametrize("recipe", ["best", "generic"], indirect=True)
@pytest.mark.parametrize("cases", [FLOATS, INTEGERS], ids=["floats", "integers"])
def test_elements(compile_cases: Callable[..., Any], recipe: str, cases: Any) -> None:
    program = compile_cases(cases, recipe)
    for batch in (0, 1, 3, 20):
        program.check(program.inputs(batch), batch)


def test_extremes_stay_what_they_are(compile_cases: Callable[..., Any], recipe: str) -> None:
    cases: dict[str, tuple[Callable[..., Any], str]] = {
        op.name: (op, "tensor<?xf32>") for op in (tensor.ReluOp, tensor.ExpOp, tensor.NegOp)
    }
    cases["to_i8"] = (converting(i8), "tensor<?xf32>")
    program = compile_cases(cases, recipe)
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -200.5, 127.9], np.float32)
    results = program.check([x] * 4, len(x))
    assert np.array_equal(np.signbit(results[2][3:5]), [True, False])


@pytest.mark.parametrize("by", [0, 3, 7, 8, 9, -1, -128])
def test_shifts_by_known_amounts_are_written(by: int) -> None:
    """A shift by the width or more is undefined for LLVM, which leaves out what is made of it."""
    module = parse_module(f"""
    func.func @forward(%x: tensor<5x23xi8>) -> (tensor<5x23xi8>, tensor<5x23xi8>) {{
      %by = tensor.constant dense<{by}> : tensor<i8>
      %steps = tensor.constant dense<[[1, 2, 3]]> : tensor<1x3xi8>
      %count = tensor.multi_threshold %x, %steps {{axis = 1 : i64}}
               : (tensor<5x23xi8>, tensor<1x3xi8>) -> tensor<5x23xi8>
      %right = tensor.shift_right %count, %by : (tensor<5x23xi8>, tensor<i8>) -> tensor<5x23xi8>
      %left = tensor.shift_left %count, %by : (tensor<5x23xi8>, tensor<i8>) -> tensor<5x23xi8>
      func.return %right, %left : tensor<5x23xi8>, tensor<5x23xi8>
    }}""")
    x = np.arange(-57, 58, dtype=np.int8).reshape(5, 23)
    outputs = [np.full(x.shape, 77, np.int8) for _ in range(2)]
    native_program(module).bind(x, out=outputs)()
    counts, by = np.clip(x, 0, 3).astype(int), by if 0 <= by < 8 else 63
    np.testing.assert_array_equal(outputs[0], counts >> by)
    np.testing.assert_array_equal(outputs[1], (counts << min(by, 8)).astype(np.uint8).view(np.int8))
