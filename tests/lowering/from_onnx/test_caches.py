"""ONNX Runtime's attention with caches and masks of every form, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx

MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(23)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def compared(
    bench: Any, kind: str, inputs: dict[str, Any], known: dict[str, Any], outputs: int,
    shapes: dict[str, Any] | None = None, **options: Any,
) -> None:  # fmt: skip
    """One node on inputs and known ones by number; those named from `_` on are absent."""
    order = sorted({**inputs, **known}, key=lambda name: int(name[1:]))
    names = ["" if name.startswith("_") else name for name in order]
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(kind, names, results, domain=MICROSOFT, **options)
    typed = {name: (x.dtype, (shapes or {}).get(name, x.shape)) for name, x in inputs.items()}
    here = {name: array for name, array in known.items() if array is not None}
    model = bench.model([node], typed, results, here, domains=[MICROSOFT], opset=17)
    bench.check(model, inputs)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_a_cache_of_keys_and_values(bench: Any, causal: int, masked: bool) -> None:
    mask = {"i3": np.array([[1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]], np.int32)} if masked else {}
    inputs = {"i0": floats(2, 3, 8), **mask, "i4": floats(2, 2, 2, 3, 4)}
    known = {"i1": floats(8, 24), "i2": floats(24), **({} if masked else {"_3": None})}
    shapes = {"i0": (2, 3, 8), "i4": (2, 2, 2, 3, 4)}
    compared(bench, "Attention", inputs, known, 2, shapes, num_heads=2, unidirectional=causal)


def test_a_cache_of_free_length(bench: Any) -> None:
    inputs = {"i0": floats(2, 1, 8), "i4": floats(2, 2, 2, 3, 4)}
    known = {"i1": floats(8, 24), "i2": floats(24), "_3": None}
    shapes = {"i0": ("N", 1, 8), "i4": (2, "N", 2, "P", 4)}
    compared(bench, "Attention", inputs, known, 2, shapes, num_heads=2, unidirectional=1)


def test_a_first_step_gives_its_cache(bench: Any) -> None:
    known = {"i1": floats(8, 24), "i2": floats(24)}
    compared(bench, "Attention", {"i0": floats(2, 3, 8)}, known, 2, num_heads=2, unidirectional=1)


def test_masks_for_each_step(bench: Any) -> None:
    mask = RANDOM.integers(0, 2, (2, 3, 3)).astype(np.int32)
    mask[..., 0] = 1
    known = {"i1": floats(8, 24), "i2": floats(24)}
    compared(bench, "Attention", {"i0": floats(2, 3, 8), "i3": mask}, known, 1, num_heads=2)


def test_values_of_another_width(bench: Any) -> None:
    known = {"i1": floats(8, 20), "i2": floats(20)}
    compared(
        bench, "Attention", {"i0": floats(2, 3, 8)}, known, 1, num_heads=2,
        qkv_hidden_sizes=[8, 8, 4],
    )  # fmt: skip


@pytest.mark.parametrize("past", [False, True])
def test_heads_behind_projections(bench: Any, past: bool) -> None:
    inputs = {f"i{index}": floats(2, 3, 8) for index in range(3)}
    cache = {"i6": floats(2, 2, 4, 4), "i7": floats(2, 2, 4, 4)} if past else {}
    known = {"i3": floats(24), **(dict.fromkeys(("_4", "_5")) if past else {})}
    shapes = {name: ("N", *x.shape[1:]) for name, x in (inputs | cache).items()}
    compared(bench, "MultiHeadAttention", inputs | cache, known, 3, shapes, num_heads=2)


def test_keys_that_have_heads_already(bench: Any) -> None:
    inputs = {"i0": floats(2, 3, 8), "i1": floats(2, 2, 5, 4), "i2": floats(2, 2, 5, 4)}
    compared(bench, "MultiHeadAttention", inputs, {}, 1, num_heads=2, scale=0.4)


def test_places_in_a_cache_are_refused(bench: Any) -> None:
    node = helper.make_node(
        "Attention", ["x", "w", "b", "", "past", "", "n"], ["y", "now"], domain=MICROSOFT,
        num_heads=2, past_present_share_buffer=1,
    )  # fmt: skip
    inputs = {"x": (np.float32, (1, 3, 8)), "past": (np.float32, (2, 1, 2, 9, 4))}
    known = {"w": floats(8, 24), "b": floats(24), "n": np.array([4], np.int32)}
    model = bench.model([node], inputs, ["y", "now"], known, domains=[MICROSOFT])
    with pytest.raises(UnsupportedError, match="the length of its past; export the model without"):
        from_onnx(model)
