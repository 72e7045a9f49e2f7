"""Products of dequantised bytes on the bytes, against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from xdsl.context import Context

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.multiply_integers import MultiplyIntegersPass

CONV = """
func.func @forward(%q: tensor<?x6x9x7x{kind}>) -> tensor<?x10x5x{out}xf32> {{
  %s = tensor.constant dense<{scale}> : tensor<f32>
  %z = tensor.constant dense<{zero}> : tensor<{kind}>
  %x = tensor.dequantize %q, %s, %z
       : (tensor<?x6x9x7x{kind}>, tensor<f32>, tensor<{kind}>) -> tensor<?x6x9x7xf32>
  %p = tensor.parameter "p" : tensor<10x{ins}x3x3x{weights}>
  %t = tensor.parameter "t" : tensor<{scales}f32>
  %o = tensor.parameter "o" : tensor<{scales}{weights}>
  %w = tensor.dequantize %p, %t, %o {{axis = 0 : i64}}
       : (tensor<10x{ins}x3x3x{weights}>, tensor<{scales}f32>, tensor<{scales}{weights}>)
       -> tensor<10x{ins}x3x3xf32>
  %b = tensor.parameter "b" : tensor<10xf32>
  %y = tensor.conv %x, %w, %b {{strides = array<i64: 2, 1>, padding = array<i64: 1, 0, 1, 2>,
       dilation = array<i64: 1, 2>, groups = {groups} : i64}}
       : (tensor<?x6x9x7xf32>, tensor<10x{ins}x3x3xf32>, tensor<10xf32>) -> tensor<?x10x5x{out}xf32>
  func.return %y : tensor<?x10x5x{out}xf32>
}}
"""


def values(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Any:
    info = np.iinfo(kind.replace("ui", "uint") if kind[0] == "u" else kind.replace("i", "int"))
    return rng.integers(info.min, info.max + 1, shape).astype(info.dtype)


@pytest.mark.parametrize("native", [False, True], ids=["interpreter", "native"])
@pytest.mark.parametrize(
    ("kind", "zero", "weights", "offset", "each", "groups"),
    [
        ("i8", -7, "i8", 0, True, 1),
        ("ui8", 131, "ui8", 128, True, 2),
        ("i8", 127, "i8", -3, False, 1),
        ("ui8", 0, "i8", 0, False, 2),
        ("i16", 0, "i8", 0, True, 1),
        ("ui16", 1 << 15, "ui8", 120, False, 2),
        ("i16", -955, "i8", 3, True, 1),
        ("ui16", 40_000, "i8", 0, False, 2),
    ],
)
def test_convolutions(
    native: bool, kind: str, zero: int, weights: str, offset: int, each: bool, groups: int
) -> None:
    rng = np.random.default_rng(zero % 97)
    text = CONV.format(
        kind=kind, zero=zero, weights=weights, scale=0.037, groups=groups, ins=6 // groups, out=5,
        scales="10x" if each else "",
    )  # fmt: skip
    module = parse_module(text)
    shape = (10,) if each else ()
    arrays: dict[str, Any] = {
        "p": values(rng, weights, (10, 6 // groups, 3, 3)),
        "t": rng.uniform(0.001, 0.1, shape).astype(np.float32),
        "o": np.full(shape, offset, values(rng, weights, (1,)).dtype),
        "b": rng.normal(size=10).astype(np.float32),
    }
    attach_store(module, ParameterStore.of(arrays))
    q = values(rng, kind, (3, 6, 9, 7))
    x = (q.astype(np.float64) - zero) * np.float64(np.float32(0.037))
    steps = arrays["t"].astype(np.float64).reshape(-1, 1, 1, 1)
    w = (arrays["p"].astype(np.float64) - offset) * steps
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 2)))
    tensors = (torch.from_numpy(a) for a in (padded, w, arrays["b"].astype(np.float64)))
    expected = torch.nn.functional.conv2d(
        *tensors, stride=(2, 1), dilation=(1, 2), groups=groups
    ).numpy()
    if native:
        pytest.importorskip("llvmlite")
        found = native_program(module)(q)
    else:
        MultiplyIntegersPass().apply(Context(), module)
        verify_module(module)
        assert "-> tensor<?x10x5x5xi32>" in str(module)
        found = run_module(module, [q])[0]
    assert np.abs(found - expected).max() < 3e-7 * np.abs(expected).max()


LINEAR = """
func.func @forward(%q: tensor<?x2x{ins}x{kind}>) -> tensor<?x2x5xf32> {{
  %s = tensor.constant dense<{scale}> : tensor<f32>
  %z = tensor.constant dense<{zero}> : tensor<{kind}>
  %x = tensor.dequantize %q, %s, %z
       : (tensor<?x2x{ins}x{kind}>, tensor<f32>, tensor<{kind}>) -> tensor<?x2x{ins}xf32>
  %p = tensor.parameter "p" : tensor<{ins}x5xi8>
  %t = tensor.parameter "t" : tensor<{scales}xf32>
  %o = tensor.parameter "o" : tensor<{scales}xi8>
  %w = tensor.dequantize %p, %t, %o {{axis = {axis} : i64}}
       : (tensor<{ins}x5xi8>, tensor<{scales}xf32>, tensor<{scales}xi8>) -> tensor<{ins}x5xf32>
  %c = tensor.constant dense<[3, 1, 4, 1, 5]> : tensor<5xi32>
  %u = tensor.constant dense<0.25> : tensor<f32>
  %n = tensor.constant dense<0> : tensor<i32>
  %b = tensor.dequantize %c, %u, %n
       : (tensor<5xi32>, tensor<f32>, tensor<i32>) -> tensor<5xf32>
  %y = tensor.linear %x, %w, %b
       : (tensor<?x2x{ins}xf32>, tensor<{ins}x5xf32>, tensor<5xf32>) -> tensor<?x2x5xf32>
  func.return %y : tensor<?x2x5xf32>
}}
"""
TAKEN: dict[str, Any] = {
    "ins": 40, "kind": "i8", "zero": 1, "scale": 0.5, "scales": 5, "axis": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "zeros", "taken"),
    [
        ({}, [2] * 5, True),
        ({}, [0, 0, 1, 0, 0], False),
        ({"kind": "i16"}, [0] * 5, True),
        ({"kind": "i16", "zero": -32768, "ins": 700}, [0] * 5, True),
        ({"kind": "i16", "zero": -32768, "ins": 1200}, [0] * 5, False),
        ({"kind": "i32"}, [0] * 5, False),
        ({"scale": "1.0e-36"}, [0] * 5, False),
        ({"ins": 280_000}, [0] * 5, False),
        ({"axis": 0, "scales": 40}, [0] * 40, False),
    ],
)
def test_matrices_and_what_stays(change: dict[str, Any], zeros: list[int], taken: bool) -> None:
    parts = {**TAKEN, **change}
    rng = np.random.default_rng(4)
    module = parse_module(LINEAR.format(**parts))
    p = values(rng, "i8", (parts["ins"], 5))
    t = rng.uniform(0.01, 0.1, parts["scales"]).astype(np.float32)
    o = np.array(zeros, np.int8)
    attach_store(module, ParameterStore.of({"p": p, "t": t, "o": o}))
    MultiplyIntegersPass().apply(Context(), module)
    verify_module(module)
    assert ("tensor<?x2x5xi32>" in str(module)) == taken
    if taken:
        q = values(rng, parts["kind"], (3, 2, parts["ins"]))
        q[0, 0] = np.where(p[:, 0] > 0, np.iinfo(q.dtype).max, np.iinfo(q.dtype).min)
        w = (p.astype(np.float64) - o) * t.astype(np.float64)
        expected = (q.astype(np.float64) - parts["zero"]) * 0.5 @ w
        expected += np.array([3, 1, 4, 1, 5]) * 0.25
        for found in (run_module(module, [q])[0], native_program(module)(q)):
            assert np.abs(found - expected).max() < 3e-7 * np.abs(expected).max()


def test_weights_stay_bytes_in_a_native_program() -> None:
    pytest.importorskip("llvmlite")
    module = parse_module(LINEAR.format(**{**TAKEN, "ins": 4000}))
    rng = np.random.default_rng(4)
    p, t = values(rng, "i8", (4000, 5)), np.full(5, 0.01, np.float32)
    attach_store(module, ParameterStore.of({"p": p, "t": t, "o": np.zeros(5, np.int8)}))
    # Of the outputs whole vectors, of up to 16.
    assert native_program(module).constants.size <= 4000 * 16 + 4096
