"""Spiking programs of the language on random inputs: ONNX Runtime and PyTorch agree with us."""

from __future__ import annotations

import pytest

from triton_dsl.ir.extras import install
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.draws import random_arrays
from triton_dsl.tools.verify import verify_module

pytest.importorskip("onnxruntime", reason=install("onnx"))
pytest.importorskip("torch", reason=install("torch"))

TRAIN = "s: SpikeTensor[T, N, 3, 4]"
CURRENT = "x: Tensor[T, N, 5]"

PROGRAMS = [
    ("LIF()", CURRENT),
    ("CubaLIF()", CURRENT),
    ("TemporalBatchNorm(5)", CURRENT),
    ("SpikingLinear(9, 5)", "s: SpikeTensor[T, N, 9]"),
    ("SpikingConv2d(3, 4, 3, stride=2, padding=1)", "s: SpikeTensor[T, N, 3, 8, 8]"),
    ("SpikingSelfAttention(8, 2)", "s: SpikeTensor[T, N, 5, 8]"),
    ('SpikingSelfAttention(8, 2, scale=1.0, kind="sdsa")', "s: SpikeTensor[T, N, 5, 8]"),
    ("SpikingMLP(8, 6, 4)", "s: SpikeTensor[T, N, 8]"),
    ("SpikeFormerBlock(8, 2)", "x: Tensor[T, N, 5, 8]"),
    ("flatten(s, start=2)", TRAIN),
    ("permute(s[1:, :, ::2], [0, 1, 3, 2])", TRAIN),
    ("concat(split(s, 2, axis=3), axis=2)", TRAIN),
    ("stack([s, delay(s, 2)], axis=1)", TRAIN),
    ("max_pool2d(s, 2)", "s: SpikeTensor[T, N, 3, 4, 4]"),
    ("avg_pool2d(s, 2)", "s: SpikeTensor[T, N, 3, 4, 4]"),
    ("global_avg_pool2d(s)", "s: SpikeTensor[T, N, 3, 4, 4]"),
    ("lif(x, initial=v)", f"{CURRENT}, v: Tensor[N, 5]"),
    ("cuba_lif(x, initial=v)", f"{CURRENT}, v: Tensor[N, 5]"),
    ("lif(x, tau=t * t + 1.0)", f"{CURRENT}, t: Tensor[5]"),
    ("adaptive_lif(x)", CURRENT),
    ("sigma_delta(x)", CURRENT),
    ("leaky_integrator(x)", CURRENT),
    ('decode(s, "first_spike")', TRAIN),
    ('decode(s, "membrane", "max")', TRAIN),
    *[
        (f'encode(x, 9, "{scheme}")', "x: Tensor[9, 5]")
        for scheme in ("rate", "regular", "latency", "phase", "direct", "delta")
    ],
]


@pytest.mark.parametrize(("body", "signature"), PROGRAMS)
def test_random_inputs_agree(body: str, signature: str) -> None:
    name = signature.partition(":")[0]
    is_layer = body[0].isupper()
    source = f"""
layer Outer {{
    {f"let inner = {body}" if is_layer else ""}
    fn forward({signature}) {{ return {f"inner({name})" if is_layer else body} }}
}}"""
    module = fill_parameters(import_tri(source), 1)
    for found in verify_module(module, random_arrays(module, 3, 0, 7), ["onnx", "pytorch"]):
        assert found.agrees, found
