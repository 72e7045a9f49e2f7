"""The layers of language models against PyTorch: products of trits, attention with a cache."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_native.callables import native_program

RNG = np.random.default_rng(0)

ATTENTION = """
layer Net {{
    let attention = CausalAttention(12, heads=6, groups=2, head_dim=4, kind="dense"{more})
    fn forward(
        x: Tensor[{batch}, {tokens}, 12],
        keys: Tensor[{batch}, P, 2, 4], values: Tensor[{batch}, P, 2, 4]
    ) {{ return attention(x, keys, values) }}
}}
"""


def attention_weights() -> dict[str, np.ndarray]:
    shapes = {"q_proj": (12, 24), "k_proj": (12, 8), "v_proj": (12, 8), "o_proj": (24, 12)}
    weights = {
        f"attention.{name}.weight": RNG.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    frequencies = (10000.0 ** -(np.arange(2) / 2)).astype(np.float32)
    return weights | {"attention.rotary_emb.inv_freq": frequencies}


def rotated(x: torch.Tensor, start: int) -> torch.Tensor:
    """Pairs (i, i + half) turned by complex numbers; x is [N, T, H, D]."""
    half = x.shape[-1] // 2
    angles = (start + torch.arange(x.shape[1]))[:, None] * 10000.0 ** -(torch.arange(half) / half)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
        torch.ones_like(angles), angles
    ).unsqueeze(1)
    return torch.cat([turned.real, turned.imag], -1)


def attended(
    weights: dict[str, np.ndarray], x: np.ndarray, cache: list[np.ndarray], window: int = 0
) -> list[np.ndarray]:
    """The layer by PyTorch's own attention in float64."""
    q, k, v, o = (
        torch.from_numpy(weights[f"attention.{name}_proj.weight"]).double() for name in "qkvo"
    )
    tokens, (keys, values) = torch.from_numpy(x).double(), map(torch.from_numpy, cache)
    (count, length), before = tokens.shape[:2], keys.shape[1]
    query = rotated((tokens @ q).reshape(count, length, 6, 4), before)
    key = rotated((tokens @ k).reshape(count, length, 2, 4), before)
    keys = torch.cat([keys.double(), key], 1)
    values = torch.cat([values.double(), (tokens @ v).reshape(count, length, 2, 4)], 1)
    places = torch.arange(before, before + length)[:, None] - torch.arange(before + length)
    mask = (places >= 0) & ((places < window) if window else True)
    heads = F.scaled_dot_product_attention(
        query.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=mask,
        enable_gqa=True,
    )
    result = heads.transpose(1, 2).reshape(count, length, 24) @ o
    return [result.numpy(), keys.numpy(), values.numpy()]


def attention_inputs(count: int, length: int, before: int) -> list[np.ndarray]:
    shapes = [(count, length, 12), (count, before, 2, 4), (count, before, 2, 4)]
    return [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize(
    ("count", "length", "before"), [(1, 1, 0), (2, 5, 0), (1, 1, 7), (2, 3, 4)]
)
def test_attention_continues_what_is_in_the_cache(
    count: int, length: int, before: int, window: int
) -> None:
    weights = attention_weights()
    text = ATTENTION.format(batch="N", tokens="T", more=f", window={window}")
    module = import_tri(text, weights=weights)
    inputs = attention_inputs(count, length, before)
    expected = attended(weights, inputs[0], inputs[1:], window)
    for actual, wanted in zip(run_module(module, inputs), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)
    for target in ("pytorch", "onnx"):
        _, results, _ = run_target(module, target, inputs)
        for actual, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [1, 4])
def test_a_native_program_takes_a_cache_of_any_length(length: int) -> None:
    weights = attention_weights()
    module = import_tri(ATTENTION.format(batch=1, tokens=length, more=""), weights=weights)
    program = native_program(module)
    for before in (0, 1, 2, 9):
        inputs = attention_inputs(1, length, before)
        expected = attended(weights, inputs[0], inputs[1:])
        for actual, wanted in zip(program(*inputs), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 70), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_a_bit_linear_layer_sums_integers(rows: int, ins: int, outs: int, seed: int) -> None:
    """The equations of BitNet b1.58 in PyTorch; rows of zeros are among the inputs."""
    rng = np.random.default_rng(seed)
    trits = rng.integers(-1, 2, (ins, outs)).astype(np.int8)
    scale = rng.uniform(0.1, 2, 1).astype(np.float32)
    x = (rng.standard_normal((rows, ins)) * rng.choice([0, 1e-6, 1, 1e4], (rows, 1))).astype(
        np.float32
    )
    text = f"""
layer Net {{
    let linear = BitLinear({ins}, {outs})
    fn forward(x: Tensor[N, {ins}]) -> Tensor[N, {outs}] {{ return linear(x) }}
}}"""
    weights = {"linear.weight": trits, "linear.weight_scale": scale}
    tokens = torch.from_numpy(x)
    grid = 127 / tokens.abs().amax(-1, keepdim=True).clamp(min=1e-5)
    rounded = (tokens * grid).round().clamp(-128, 127)
    sums = (rounded.double() @ torch.from_numpy(trits).double()).float()
    expected = sums / grid * torch.from_numpy(scale)
    (actual,) = run_module(import_tri(text, weights=weights), [x])
    np.testing.assert_array_equal(actual, expected.numpy())
