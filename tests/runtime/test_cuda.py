"""Kernels for NVIDIA's devices: on one, in Triton's interpreter, and through Triton's compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from triton_dsl.ir.extras import install
from triton_dsl.runtime import cuda
from triton_dsl.runtime.operators import ternary_linear
from triton_dsl.runtime.packing import pack

# rows, ins, outs: single rows and tiles, whole and cut off.
SHAPES = [(1, 1, 1), (1, 7, 5), (3, 100, 33), (8, 64, 64), (9, 7, 5), (20, 130, 70), (70, 64, 129)]
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int8]

INTERPRETED = """
import torch
from triton_dsl.runtime.cuda import FEW_ROWS
from test_cuda import SHAPES, TYPES, check
for shape in SHAPES:
    for dtype in TYPES:
        # The interpreter keeps bfloat16 as integers, and multiplies tiles of these.
        if dtype != torch.bfloat16 or shape[0] <= FEW_ROWS:
            check(*shape, dtype, "cpu")
print("done")
"""


def check(rows: int, ins: int, outs: int, dtype: torch.dtype, device: str) -> None:
    """The kernels against a product in float64."""
    generator = torch.Generator().manual_seed(rows + ins)
    trits = torch.randint(-1, 2, (ins, outs), generator=generator)
    weight = pack(trits).to(device)
    if dtype == torch.int8:
        x = torch.randint(-128, 128, (rows, ins), generator=generator).to(dtype)
        result = cuda.product(x.to(device), weight, outs, None, None)
        assert result is not None
        expected = (x.double() @ trits.double()).to(torch.int32)
        assert torch.equal(result.cpu(), expected)
        return
    x = torch.randn(rows, ins, generator=generator).to(dtype)
    scale, bias = (torch.randn(outs, generator=generator) for _ in range(2))
    result = cuda.product(x.to(device), weight, outs, scale.to(device), bias.to(device))
    assert result is not None
    expected = (x.double() @ trits.double()) * scale.double() + bias.double()
    torch.testing.assert_close(result.cpu(), expected.to(dtype), rtol=1.6e-2, atol=1e-4)
    if dtype == torch.float32:
        torch.testing.assert_close(result.cpu().double(), expected, rtol=1e-5, atol=1e-4)


def test_kernels_are_right_in_the_interpreter() -> None:
    pytest.importorskip("triton", reason=install("cuda"))
    path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETED],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("element", ["fp32", "fp16", "bf16", "i8"])
def test_kernels_compile(element: str, capability: int) -> None:
    triton: Any = pytest.importorskip("triton", reason=install("cuda"))
    backends: Any = pytest.importorskip("triton.backends.compiler")
    from triton_dsl.runtime import cuda_kernels

    exact = element == "i8"
    many = cuda.MANY_FLOAT32 if element == "fp32" else cuda.MANY
    for kernel, tile in ((cuda_kernels.single_rows, cuda.FEW), (cuda_kernels.many_rows, many)):
        constants = {
            "HAS_SCALE": not exact,
            "HAS_BIAS": not exact,
            "EXACT": exact,
            "ROWS": tile.rows,
            "OUTS": tile.outs,
            "INS": tile.ins,
        }
        types = {"x": f"*{element}", "weight": "*u8", "y": "*i32" if exact else f"*{element}"}
        types |= {"scale": "*fp32", "bias": "*fp32"}
        types |= dict.fromkeys(("rows", "ins", "outs"), "i32")
        types |= dict.fromkeys(constants, "constexpr")
        source = triton.compiler.ASTSource(fn=kernel, signature=types, constexprs=constants)
        options = {"num_warps": tile.warps, "enable_fp_fusion": True}
        target = backends.GPUTarget("cuda", capability, 32)
        made = triton.compile(source, target=target, options=options)
        has_tensor_cores = "mma" in made.asm["ptx"]
        assert has_tensor_cores == (tile is cuda.MANY)
        # The least that a multiprocessor of these devices has.
        assert made.metadata.shared <= 99 * 1024


def test_what_kernels_cannot_do_is_left_to_the_formula() -> None:
    weight = pack(torch.ones(4, 2, dtype=torch.int8))
    assert cuda.product(torch.ones(3, 4, dtype=torch.float64), weight, 2, None, None) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that PyTorch can use")
@pytest.mark.parametrize("shape", [*SHAPES, (1, 4096, 4096), (128, 4096, 4096)])
@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_are_right_on_a_gpu(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    check(*shape, dtype, "cuda")
    rows, ins, outs = shape
    if dtype == torch.float32:
        x = torch.randn(rows, ins, device="cuda", requires_grad=True)
        weight = pack(torch.randint(-1, 2, (ins, outs))).cuda()
        ternary_linear(x, weight, outs).sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape
