"""Operators that decoders of language models have in ONNX Runtime, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import OnnxWarning, from_onnx

MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(11)
HEADS, SHARED, WIDTH, LONGEST = 4, 2, 16, 16


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


ANGLES = floats(LONGEST, WIDTH // 2)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("places", [np.array([3]), np.array([[0, 1, 2], [5, 7, 4]])])
def test_rotations(bench: Any, interleaved: int, rank: int, places: Any) -> None:
    x = floats(2, 3, HEADS * WIDTH) if rank == 3 else floats(2, HEADS, 3, WIDTH)
    node = helper.make_node("RotaryEmbedding", ["x", "p", "cos", "sin"], ["y"], domain=MICROSOFT,
                            interleaved=interleaved)  # fmt: skip
    shape = ("N", *x.shape[1:]) if rank == 3 else x.shape
    model = bench.model(
        [node], {"x": (np.float32, shape), "p": (np.int64, places.shape)}, ["y"],
        {"cos": COS, "sin": SIN}, domains=[MICROSOFT],
    )  # fmt: skip
    bench.check(model, {"x": x, "p": places})


def test_rotations_of_a_part_of_each_head(bench: Any) -> None:
    node = helper.make_node("RotaryEmbedding", ["x", "p", "cos", "sin"], ["y"], domain=MICROSOFT,
                            num_heads=HEADS, rotary_embedding_dim=4)  # fmt: skip
    tables = {"cos": COS[:, :2].copy(), "sin": SIN[:, :2].copy()}
    inputs = {"x": floats(1, 3, HEADS * WIDTH), "p": np.array([[4, 2, 9]])}
    model = bench.model([node], {"x": (np.float32, (1, "L", HEADS * WIDTH)),
                        "p": (np.int64, (1, "L"))}, ["y"], tables, domains=[MICROSOFT])  # fmt: skip
    bench.check(model, inputs)


def grouped(bench: Any, steps: int, past: int, packed: bool, **options: Any) -> None:
    """GroupQueryAttention behind a cache of free length, with a free batch."""
    batch = 2 if steps == 1 else 1  # the runtime takes no more
    joined = (HEADS + 2 * SHARED) * WIDTH
    widths = {"q": joined} if packed else {
        "q": HEADS * WIDTH, "k": SHARED * WIDTH, "v": SHARED * WIDTH,
    }  # fmt: skip
    inputs = {name: floats(batch, steps, width) for name, width in widths.items()}
    inputs |= {name: floats(batch, SHARED, past, WIDTH) for name in ("pk", "pv")}
    shapes: dict[str, Any] = {name: ("N", "L", width) for name, width in widths.items()}
    shapes |= dict.fromkeys(("pk", "pv"), ("N", SHARED, "P", WIDTH))
    known = {
        "seqlens": np.full(batch, past + steps - 1, np.int32),
        "total": np.array(past + steps, np.int32), "cos": COS, "sin": SIN,
    }  # fmt: skip
    tables = ["cos", "sin"] if options.get("do_rotary") else ["", ""]
    start = [name if name in widths else "" for name in ("q", "k", "v")]
    node = helper.make_node(
        "GroupQueryAttention", [*start, "pk", "pv", "seqlens", "total", *tables],
        ["y", "nk", "nv"], domain=MICROSOFT, num_heads=HEADS, kv_num_heads=SHARED, **options,
    )  # fmt: skip
    model = bench.model([node], {name: (np.float32, shapes[name]) for name in inputs},
                        ["y", "nk", "nv"], known, domains=[MICROSOFT])  # fmt: skip
    with pytest.warns(OnnxWarning, match="its sequences fill their cache"):
        bench.check(model, inputs)


@pytest.mark.parametrize(("steps", "past"), [(1, 5), (4, 3)])
@pytest.mark.parametrize(
    "options",
    [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}, {"softcap": 2.0},
     {"local_window_size": 3}, {"scale": 0.7}],
)  # fmt: skip
def test_heads_that_share_keys(bench: Any, steps: int, past: int, options: Any) -> None:
    grouped(bench, steps, past, packed=False, **options)


def test_heads_that_share_keys_from_one_product(bench: Any) -> None:
    grouped(bench, 3, 2, packed=True, do_rotary=1)


def test_what_is_not_read_says_so(bench: Any) -> None:
    names = ["q", "k", "v", "", "", "seqlens", "total"]
    node = helper.make_node("GroupQueryAttention", names, ["y"], domain=MICROSOFT, num_heads=2,
                            kv_num_heads=1, smooth_softmax=1)  # fmt: skip
    shapes: dict[str, Any] = {"q": (1, 3, 8), "k": (1, 3, 4), "v": (1, 3, 4)}
    known = {"seqlens": np.array([2], np.int32), "total": np.array(3, np.int32)}
    model = bench.model([node], {name: (np.float32, shape) for name, shape in shapes.items()},
                        ["y"], known, domains=[MICROSOFT])  # fmt: skip
    with pytest.raises(UnsupportedError, match="'smooth_softmax' is not read; export the model"):
        from_onnx(model)


@pytest.mark.parametrize("has_zeros", [False, True])
def test_rows_of_a_table_of_four_bits(bench: Any, has_zeros: bool) -> None:
    known = {
        "t": RANDOM.integers(0, 256, (10, 16), np.uint8), "s": np.abs(floats(10, 2)) + 0.1,
    }  # fmt: skip
    known |= {"z": RANDOM.integers(0, 256, (10, 1), np.uint8)} if has_zeros else {}
    inputs = ["t", "i", "s", *(["z"] if has_zeros else [])]
    node = helper.make_node("GatherBlockQuantized", inputs, ["y"], domain=MICROSOFT, block_size=16,
                            quantize_axis=1, gather_axis=0, bits=4)  # fmt: skip
    model = bench.model([node], {"i": (np.int64, ("N", 3))}, ["y"], known, domains=[MICROSOFT])
    bench.check(model, {"i": np.array([[0, 3, 9], [2, 2, 1]])})


@pytest.mark.parametrize("size", [1, 2, 5])
def test_inverses(bench: Any, size: int) -> None:
    node = helper.make_node("Inverse", ["x"], ["y"], domain=MICROSOFT)
    model = bench.model([node], {"x": (np.float32, ("N", size, size))}, ["y"], domains=[MICROSOFT])
    x = floats(3, size, size) + np.eye(size, dtype=np.float32)
    x[0] = np.roll(x[0], 1, axis=0)  # rows must change places
    bench.check(model, {"x": x}, tolerance=1e-3)
