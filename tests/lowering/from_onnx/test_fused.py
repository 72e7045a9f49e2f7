"""Operators that ONNX Runtime's optimiser makes, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_onnx import from_onnx

MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(3)
SEVEN_BITS = -63, 64
"""Of weights whose products with bytes ONNX Runtime adds in pairs, which saturate without VNNI."""


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def fused(
    bench: Any, kind: str, x: Any, known: dict[str, Any], outputs: int = 1, **options: Any
) -> None:
    """One node on x, whose batch is free, and on known inputs; names from `_` on are absent."""
    names = ["x", *("" if name.startswith("_") else name for name in known)]
    results = [f"y{index}" if index in (0, outputs - 1) else "" for index in range(outputs)]
    node = helper.make_node(kind, names, results, domain=MICROSOFT, **options)
    model = bench.model(
        [node],
        {"x": (x.dtype, ("N", *x.shape[1:]))},
        [name for name in results if name],
        {name: array for name, array in known.items() if not name.startswith("_")},
        domains=[MICROSOFT],
        opset=17,
    )
    bench.check(model, {"x": x})


@pytest.mark.parametrize("activation", ["Relu", "Clip", "LeakyRelu", "HardSigmoid", "Tanh"])
def test_convolutions_with_activations(bench: Any, activation: str) -> None:
    numbers = {"Clip": [-0.5, 1.0], "LeakyRelu": [0.3], "HardSigmoid": [0.3, 0.4]}
    options: Any = {"activation_params": numbers[activation]} if activation in numbers else {}
    known = {"w": floats(5, 2, 3, 3), "b": floats(5)}
    fused(bench, "FusedConv", floats(2, 2, 6, 6), known, activation=activation, **options)


def test_convolutions_with_an_addend(bench: Any) -> None:
    known = {"w": floats(5, 2, 3, 3), "b": floats(5), "z": floats(1, 5, 4, 4)}
    fused(bench, "FusedConv", floats(1, 2, 6, 6), known, activation="Relu")


def test_matrix_products_with_activations(bench: Any) -> None:
    known = {"w": floats(4, 6), "b": floats(4)}
    options: Any = {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1, "alpha": 0.5}
    fused(bench, "FusedGemm", floats(3, 6), known, **options)


@pytest.mark.parametrize("turned", [False, True])
def test_scaled_products_of_transposed_sides(bench: Any, turned: bool) -> None:
    w = floats(5, 6) if turned else floats(6, 5)
    fused(bench, "FusedMatMul", floats(2, 3, 6), {"w": w}, transB=int(turned), alpha=0.25)


def test_gelu(bench: Any) -> None:
    fused(bench, "BiasGelu", floats(3, 6), {"b": floats(6)})
    fused(bench, "QuickGelu", floats(3, 6), {}, alpha=1.3)
    fused(bench, "QuickGelu", floats(3, 6), {})


@pytest.mark.parametrize("biased", [False, True])
def test_normalisation_of_a_sum(bench: Any, biased: bool) -> None:
    known = {"s": floats(1, 3, 6), "g": floats(6), "b": floats(6)}
    x = floats(1, 3, 6)
    fused(
        bench, "SkipLayerNormalization", x, known | ({"c": floats(6)} if biased else {}),
        outputs=4, epsilon=1e-3,
    )  # fmt: skip
    del known["b"]
    fused(
        bench, "SkipSimplifiedLayerNormalization", x,
        known | ({"c": floats(6)} if biased else {}), outputs=4, epsilon=1e-3,
    )  # fmt: skip


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(bench: Any, causal: int, masked: bool) -> None:
    mask = {"m": np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.int32)} if masked else {}
    known = {"w": floats(8, 24), "b": floats(24), **mask}
    fused(bench, "Attention", floats(2, 5, 8), known, num_heads=2, unidirectional=causal)


KEPT = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.int32)


@pytest.mark.parametrize("mask", [None, KEPT])
def test_attention_of_integers(bench: Any, mask: Any) -> None:
    known = {
        "w": RANDOM.integers(*SEVEN_BITS, (8, 24)).astype(np.int8), "b": floats(24),
        "s": np.asarray(0.02, np.float32), "t": np.asarray(0.01, np.float32),
        **({"_m": None} if mask is None else {"m": mask}),
        "z": np.asarray(99, np.uint8), "u": np.asarray(3, np.int8),
    }  # fmt: skip
    x = RANDOM.integers(0, 255, (2, 5, 8)).astype(np.uint8)
    fused(bench, "QAttention", x, known, num_heads=2, unidirectional=int(mask is None))


def test_attention_to_the_first_keys(bench: Any) -> None:
    node = helper.make_node("Attention", ["x", "w", "b", "m"], ["y"], domain=MICROSOFT, num_heads=2)
    inputs = {"x": (np.float32, ("N", 5, 8)), "m": (np.int32, ("N",))}
    known = {"w": floats(8, 24), "b": floats(24)}
    model = bench.model([node], inputs, ["y"], known, domains=[MICROSOFT], opset=17)
    bench.check(model, {"x": floats(2, 5, 8), "m": np.array([3, 5], np.int32)})


@pytest.mark.parametrize("whole", [False, True])
def test_rows_of_tables_added_and_normalised(bench: Any, whole: bool) -> None:
    words = RANDOM.integers(0, 20, (2, 5)).astype(np.int32)
    known: dict[str, Any] = {
        "segments": words % 2, "w": floats(20, 8), "p": floats(9, 8), "s": floats(2, 8),
        "g": floats(8), "b": floats(8), "m": KEPT, "i": words[:, ::-1] % 9,
    }  # fmt: skip
    if whole:
        fused(bench, "EmbedLayerNormalization", words, known, outputs=2, epsilon=1e-3)
        return
    first = {"_segments": None, "w": known["w"], "p": known["p"], "_s": None}
    rest = {"g": known["g"], "b": known["b"]}
    fused(bench, "EmbedLayerNormalization", words, first | rest, outputs=2)


def test_normalisation_by_the_name_before_the_standard_had_it(bench: Any) -> None:
    node = helper.make_node("SimplifiedLayerNormalization", ["x", "g"], ["y"], epsilon=1e-3)
    x, known = floats(2, 3, 8), {"g": floats(8)}
    model = bench.model([node], {"x": (np.float32, ("N", 3, 8))}, ["y"], known, opset=17)
    bench.check(model, {"x": x})


def test_attention_behind_projections(bench: Any) -> None:
    known = {"k": floats(2, 4, 8), "v": floats(2, 4, 8), "b": floats(24)}
    fused(bench, "MultiHeadAttention", floats(2, 5, 8), known, num_heads=4, scale=0.3)
    known = {"k": floats(2, 4, 8), "v": floats(2, 4, 8), "_b": None, "_m": None,
             "a": floats(1, 4, 5, 4)}  # fmt: skip
    fused(bench, "MultiHeadAttention", floats(2, 5, 8), known, num_heads=4)


@pytest.mark.parametrize("biased", [False, True])
def test_products_of_integers_as_floats(bench: Any, biased: bool) -> None:
    w = RANDOM.integers(*SEVEN_BITS, (6, 5)).astype(np.int8)
    bias = {"b": floats(5)} if biased else {}
    scales = {"s": np.float32(0.1), "t": np.abs(floats(5)), "z": np.uint8(99), "_u": None}
    x = RANDOM.integers(0, 99, (3, 6)).astype(np.uint8)
    arrays = {k: v if v is None else np.asarray(v) for k, v in scales.items()}
    fused(bench, "MatMulIntegerToFloat", x, {"w": w, **arrays, **bias})
    known = {"w": w, "t": arrays["t"], "u": np.full(5, 3, np.int8), **bias}
    fused(bench, "DynamicQuantizeMatMul", floats(3, 6), known)


def test_convolutions_with_channels_last(bench: Any) -> None:
    """ONNX Runtime has them for other devices than a processor."""
    x, known = floats(2, 5, 6, 4), {"w": floats(6, 2, 2, 3), "b": floats(6)}
    given: Any = {"group": 2, "pads": [1, 0, 0, 2], "strides": [2, 1]}
    node = helper.make_node("NhwcConv", ["x", "w", "b"], ["y"], domain=MICROSOFT, **given)
    inputs = {"x": (np.float32, ("N", 5, 6, 4))}
    model = bench.model([node], inputs, ["y"], known, domains=[MICROSOFT])
    standard = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], **given),
        helper.make_node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1]),
    ]
    (wanted,) = bench.run(bench.model(standard, inputs, ["y"], known), {"x": x})
    (found,) = run_module(from_onnx(model), [x])
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_groups_of_channels_normalised(bench: Any, last: int, activation: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    tensor = pytest.importorskip("torch").from_numpy
    x, known = floats(2, 6, 3, 4), {"g": floats(6), "b": floats(6)}
    wanted = functional.group_norm(tensor(x), 3, tensor(known["g"]), tensor(known["b"]), 1e-3)
    wanted = (functional.silu(wanted) if activation else wanted).numpy()
    if last:
        x, wanted = x.transpose(0, 2, 3, 1).copy(), wanted.transpose(0, 2, 3, 1)
    node = helper.make_node(
        "GroupNorm", ["x", "g", "b"], ["y"], domain=MICROSOFT, groups=3, epsilon=1e-3,
        activation=activation, channels_last=last,
    )  # fmt: skip
    inputs = {"x": (np.float32, ("N", *x.shape[1:]))}
    model = bench.model([node], inputs, ["y"], known, domains=[MICROSOFT])
    np.testing.assert_allclose(run_module(from_onnx(model), [x])[0], wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("apart", [False, True])
def test_recurrence_of_integers(bench: Any, direction: str, apart: bool) -> None:
    """Weights of seven bits, with a scale for each direction or for each of their columns."""
    ways = 2 if direction == "bidirectional" else 1
    scales = (ways, 20) if apart else (ways,)
    known: dict[str, Any] = {
        "w": RANDOM.integers(*SEVEN_BITS, (ways, 4, 20), np.int8),
        "r": RANDOM.integers(*SEVEN_BITS, (ways, 5, 20), np.int8),
        "b": floats(ways, 40), "_lengths": None, "_h": None, "_c": None, "_p": None,
    }  # fmt: skip
    for name in "wr":
        known[f"{name}s"] = RANDOM.uniform(0.005, 0.02, scales).astype(np.float32)
        known[f"{name}z"] = np.zeros(scales, np.int8)
    fused(
        bench, "DynamicQuantizeLSTM", floats(3, 2, 4), known, 3,
        hidden_size=5, direction=direction,
    )  # fmt: skip
