"""Packed trits and their products, for all sizes, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_c.products import pack
from triton_dsl.runtime.boards.boards import Run

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]


@given(st.integers(0, 23), st.integers(1, 9), st.integers(0, 2**32))
def test_five_trits_stand_in_a_byte(ins: int, outs: int, seed: int) -> None:
    trits = np.random.default_rng(seed).integers(-1, 2, (ins, outs))
    packed = pack(trits)
    assert packed.shape == (-(-ins // 5), outs)
    for i in range(ins):
        np.testing.assert_array_equal(packed[i // 5].astype(int) // 3 ** (i % 5) % 3 - 1, trits[i])


@pytest.mark.parametrize("element", ["i8", "ui8", "i16", "i32", "f32"])
@pytest.mark.parametrize(
    ("ins", "outs"), [(1, 1), (5, 3), (6, 90), (10, 86), (11, 85), (23, 100), (784, 128)]
)
def test_products_are_exact_at_the_ends_of_types(
    filled: Filled, in_c: Callable[..., list[Array]], element: str, ins: int, outs: int
) -> None:
    sums = "f32" if element == "f32" else "i32"
    module = filled(
        f"""
        func.func @forward(%x: tensor<2x{ins}x{element}>) -> tensor<2x{outs}x{sums}> {{
          %w = ternary.parameter "w" : tensor<{ins}x{outs}x!ternary.trit>
          %y = ternary.matmul %x, %w : tensor<2x{ins}x{element}>,
               tensor<{ins}x{outs}x!ternary.trit> -> tensor<2x{outs}x{sums}>
          func.return %y : tensor<2x{outs}x{sums}>
        }}
        """,
        values={"w": np.random.default_rng(ins).integers(-1, 2, (ins, outs)).astype(np.int8)},
    )
    trits = np.random.default_rng(ins).integers(-1, 2, (ins, outs))
    names = {"i8": "int8", "ui8": "uint8", "i16": "int16", "i32": "int32", "f32": "int16"}
    ends = np.iinfo(names[element])
    # One row of the greatest sums, one of any.
    rng = np.random.default_rng(1)
    first = np.where(trits[:, 0] > 0, ends.max, ends.min)
    x = np.stack([first, rng.integers(ends.min, ends.max + 1, ins)])
    x = x.astype("float32" if element == "f32" else names[element])
    want = (x.astype(np.int64) @ trits).astype("float32" if element == "f32" else "int32")
    np.testing.assert_array_equal(in_c(module, x)[0], want)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_convolutions_of_all_shapes(data: st.DataObject) -> None:
    import torch

    from triton_dsl.dialects.parameters import attach_store
    from triton_dsl.dialects.registry import parse_module
    from triton_dsl.ir.store import ParameterStore
    from triton_dsl.ir.trits import pack_trits
    from triton_dsl.lowering.targets import compile_to_target
    from triton_dsl.lowering.to_c.engine import LoadedC

    draw = data.draw
    groups, batch = draw(st.sampled_from([1, 2])), draw(st.integers(1, 2))
    channels, outs = groups * draw(st.integers(1, 4)), groups * draw(st.integers(1, 6))
    taps = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    strides = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    pads = (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
    dilation = draw(st.integers(1, 2))
    image = (draw(st.integers(5, 9)), draw(st.integers(5, 8)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    trits = rng.integers(-1, 2, (outs, channels // groups, *taps)).astype(np.int8)
    x = rng.integers(-128, 128, (batch, channels, *image)).astype(np.int8)
    want = torch.nn.functional.conv2d(
        torch.tensor(x).double(),
        torch.tensor(trits).double(),
        stride=strides,
        padding=pads,
        dilation=dilation,
        groups=groups,
    ).numpy()
    shape = "x".join(map(str, want.shape))
    sizes = "x".join(map(str, x.shape))
    weights = "x".join(map(str, trits.shape))
    module = parse_module(
        f"""
        func.func @forward(%x: tensor<{sizes}xi8>) -> (tensor<{shape}xi32>, tensor<{shape}xi32>) {{
          %w = ternary.parameter "w" : tensor<{weights}x!ternary.trit>
          %y = ternary.conv %x, %w {{strides = array<i64: {strides[0]}, {strides[1]}>,
               padding = array<i64: {pads[0]}, {pads[1]}, {pads[0]}, {pads[1]}>,
               dilation = array<i64: {dilation}, {dilation}>, groups = {groups} : i64}}
               : tensor<{sizes}xi8>, tensor<{weights}x!ternary.trit> -> tensor<{shape}xi32>
          %z = tensor.neg %y : (tensor<{shape}xi32>) -> tensor<{shape}xi32>
          func.return %y, %z : tensor<{shape}xi32>, tensor<{shape}xi32>
        }}
        """
    )
    attach_store(module, ParameterStore.of({"w": pack_trits(trits)}))
    loaded = LoadedC(compile_to_target(module, "c"), ["-std=c99", "-O1", "-fPIC"])
    for got, sign in zip(loaded(x), (1, -1), strict=True):
        np.testing.assert_array_equal(got, sign * want)


@pytest.mark.parametrize("kind", ["!ternary.trit", "i8", "f32"])
def test_weights_of_inputs_that_fire_are_added(
    filled: Filled, in_c: Callable[..., list[Array]], kind: str
) -> None:
    sums = "f32" if kind == "f32" else "i32"
    op = "ternary.parameter" if "trit" in kind else "tensor.parameter"
    module = filled(
        f"""
        func.func @forward(%s: !spike.train<5x2x71>) -> tensor<5x2x33xf32> {{
          %w = {op} "w" : tensor<71x33x{kind}>
          %scale = tensor.constant dense<0.5> : tensor<f32>
          %bias = tensor.parameter "b" : tensor<33xf32>
          %y = spike.linear %s, %w scale(%scale : tensor<f32>) bias(%bias : tensor<33xf32>)
               : !spike.train<5x2x71>, tensor<71x33x{kind}> -> tensor<5x2x33xf32>
          func.return %y : tensor<5x2x33xf32>
        }}
        """
    )
    del sums
    from triton_dsl.dialects.interpret import run_module

    rng = np.random.default_rng(0)
    for share in (0.0, 0.1, 1.0):
        train = rng.random((5, 2, 71)) < share
        (want,) = run_module(module, [train])
        np.testing.assert_allclose(in_c(module, train)[0], want, rtol=1e-5, atol=1e-5)


def dense(ins: int, zero: int) -> ModuleOp:
    """Bytes, from which a zero point is taken, times bytes."""
    run, wide = f"tensor<1x{ins}xi8>", f"tensor<1x{ins}xi32>"
    return parse_module(f"""
func.func @forward(%x: {run}) -> tensor<1x37xi32> {{
  %wide = tensor.convert %x : ({run}) -> {wide}
  %zero = tensor.constant dense<{zero}> : tensor<i32>
  %moved = tensor.sub %wide, %zero : ({wide}, tensor<i32>) -> {wide}
  %w = tensor.parameter "w" : tensor<{ins}x37xi32>
  %y = tensor.matmul %moved, %w : ({wide}, tensor<{ins}x37xi32>) -> tensor<1x37xi32>
  func.return %y : tensor<1x37xi32>
}}""")


@pytest.mark.parametrize("zero", [0, 1, -128])
@pytest.mark.parametrize("ins", [7, 8, 41, 130])
def test_products_of_bytes_with_dsp_instructions_and_without(
    ins: int,
    zero: int,
    in_c: Callable[..., list[Array]],
    on_board: Callable[..., Run],
    sanitized: Callable[..., list[bytes]],
) -> None:
    rng = np.random.default_rng(ins)
    weights = rng.choice(np.arange(-128, 128), (ins, 37)).astype(np.int32)
    weights[:, 0] = -128
    module = dense(ins, zero)
    attach_store(module, ParameterStore.of({"w": weights}))
    inputs = rng.integers(-128, 128, (2, 1, ins)).astype(np.int8)
    inputs[0] = -128
    want = np.matmul(inputs.astype(np.int64) - zero, weights)
    for x, y in zip(inputs, want, strict=True):
        np.testing.assert_array_equal(in_c(module, x)[0], y)
    artifact = compile_to_target(module, "c")
    assert sanitized(artifact, [inputs[0]]) == [want[0].astype(np.int32).tobytes()]
    plain = replace(
        artifact,
        files={
            name: data.replace(b"__ARM_FEATURE_SIMD32", b"NONE")
            for name, data in artifact.files.items()
        },
    )
    counts: list[int] = []
    for each in (artifact, plain):
        run = on_board("cortex-m4", each, [inputs])
        np.testing.assert_array_equal(run.outputs[0].reshape(want.shape), want)
        counts.append(max(run.instructions))
    code = artifact.files[f"{artifact.name}.c"]
    assert (b"dot_int" in code) == (ins >= 8)
    if ins == 130 and not zero:  # counted in steps of 40
        assert counts[0] < 0.8 * counts[1]
