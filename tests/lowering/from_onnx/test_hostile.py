"""Broken and hostile files: one clear error, bounded memory, no hang."""

from __future__ import annotations

import random
import resource
import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from triton_dsl.ir.errors import SourceError, TritonError, UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx

SPECIAL = [0, 1, -1, 2, 7, 100, 10**6, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)]
LONGEST = 120.0
"""Seconds that one file may take, generously."""


def rich_model(bench: Any) -> Any:
    """A model with most kinds of nodes that take sizes."""
    make = helper.make_node
    nodes = [
        make("Shape", ["x"], ["s"]),
        make("Gather", ["s", "zero"], ["b"]),
        make("Unsqueeze", ["b", "first"], ["b1"]),
        make("Concat", ["b1", "rest"], ["t"], axis=0),
        make("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        make("Relu", ["c"], ["r"]),
        make("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        make("Reshape", ["p", "t"], ["f"]),
        make("Gemm", ["f", "g"], ["y"], transB=1),
        make("Resize", ["x", "", "scales"], ["z1"], mode="linear"),
        make("Pad", ["x", "pads"], ["z2"]),
        make("Tile", ["x", "repeats"], ["z3"]),
        make("TopK", ["y", "k"], ["z4", "z5"]),
        make("ConstantOfShape", ["big"], ["z6"]),
        make("Einsum", ["y", "y"], ["z7"], equation="ij,ij->i"),
    ]
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((3, 2, 3, 3)).astype(np.float32),
        "g": rng.integers(-1, 2, (4, 12)).astype(np.float32),
        "zero": np.array(0),
        "first": np.array([0]),
        "rest": np.array([-1]),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "repeats": np.array([1, 2, 1, 1]),
        "k": np.array([2]),
        "big": np.array([2, 3]),
    }
    outputs = [f"z{index}" for index in range(1, 8)]
    return bench.model(nodes, {"x": (np.float32, ["N", 2, 8, 8])}, outputs, constants)


def rare_model(bench: Any) -> Any:
    """A model with small elements, spectra, determinants and boxes."""
    make, rng = helper.make_node, np.random.default_rng(0)
    nodes = [
        make("Cast", ["x"], ["c8"], to=TensorProto.FLOAT8E4M3FN),
        make("Transpose", ["c8"], ["t8"]),
        make("BitCast", ["t8"], ["z1"], to=TensorProto.INT8),
        make("QuantizeLinear", ["x", "s"], ["q4"], output_dtype=TensorProto.INT4, axis=1,
             block_size=4),
        make("DequantizeLinear", ["q4", "s"], ["z2"], axis=1, block_size=4),
        make("BitCast", ["x"], ["z3"], to=TensorProto.INT32),
        make("STFT", ["signal", "step", "", "length"], ["z4"]),
        make("MelWeightMatrix", ["length", "length", "rate", "low", "high"], ["z5"]),
        make("Det", ["x"], ["z6"]),
        make("NonMaxSuppression", ["boxes", "scores", "most", "low"], ["z7"]),
    ]  # fmt: skip
    constants = {
        "s": rng.uniform(0.5, 1, (8, 2)).astype(np.float32),
        "most": np.array([3]),
        "step": np.array(3),
        "length": np.array(8),
        "rate": np.array(64),
        "low": np.array(0.5, np.float32),
        "high": np.array(30, np.float32),
        "boxes": rng.uniform(0, 1, (1, 9, 4)).astype(np.float32),
        "scores": rng.uniform(0, 1, (1, 2, 9)).astype(np.float32),
    }
    inputs = {"x": (np.float32, [8, 8]), "signal": (np.float32, [1, 20, 1])}
    outputs = [f"z{index}" for index in range(1, 8)]
    return bench.model(nodes, inputs, outputs, constants, opset=26)


def fields(message: Any) -> list[tuple[Any, Any]]:
    """Every field with a value, below a message too."""
    found: list[tuple[Any, Any]] = []
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            parts: list[Any] = list(value) if hasattr(value, "append") else [value]
            for part in parts:
                found += fields(part)
        else:
            found.append((message, field))
    return found


def with_other_values(model: Any, chance: random.Random) -> Any:
    """A copy with some numbers, names or bytes replaced."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    places = fields(copy)
    for _ in range(chance.choice([1, 1, 2, 4])):
        message, field = chance.choice(places)
        try:
            old: Any = getattr(message, field.name)
            is_list = hasattr(old, "append")
            sample = old[0] if is_list else old
            new: Any = chance.choice(SPECIAL)
            if isinstance(sample, float):
                new = chance.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
            elif isinstance(sample, str):
                new = chance.choice(["x", "y", "", "Loop", "Scan", "Cast", "w"])
            elif isinstance(sample, bytes):
                changed = bytearray(sample)
                changed[chance.randrange(len(changed))] = chance.choice([0, 127, 128, 255])
                new = bytes(changed)
            if is_list:
                old[chance.randrange(len(old))] = new
            else:
                setattr(message, field.name, new)
        except (ValueError, IndexError, TypeError):
            continue
    return copy


def with_other_bytes(data: bytes, chance: random.Random) -> bytes:
    """The file cut short, or with some bytes changed, left out or put in."""
    if chance.random() < 0.2:
        return data[: chance.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        place, kind = chance.randrange(len(changed)), chance.random()
        if kind < 0.7:
            changed[place] = chance.randrange(256)
        elif kind < 0.85:
            del changed[place : place + chance.randrange(1, 8)]
        else:
            changed[place:place] = chance.randbytes(chance.randrange(1, 8))
    return bytes(changed)


@pytest.mark.parametrize(
    ("build", "count"),
    [
        (rich_model, 100),
        (rare_model, 12),
        pytest.param(rich_model, 2000, marks=pytest.mark.slow),
        pytest.param(rare_model, 500, marks=pytest.mark.slow),
    ],
)
def test_mutated_files_give_one_clear_error(bench: Any, count: int, build: Any) -> None:
    chance = random.Random(7)
    model = build(bench)
    from_onnx(model)
    data = model.SerializeToString()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for turn in range(count):
        mutant = with_other_values(model, chance) if turn % 2 else with_other_bytes(data, chance)
        start = time.monotonic()
        try:
            from_onnx(mutant)
        except TritonError as error:
            assert str(error)
        assert time.monotonic() - start < LONGEST
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 2 << 20  # kilobytes


@pytest.mark.parametrize("data", [b"", b"\0", b"no model", b"\x08\x07" * 40])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match="no ONNX model"):
        from_onnx(data)


def test_a_missing_file_is_refused(tmp_path: Any) -> None:
    with pytest.raises(SourceError, match="No such file"):
        from_onnx(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("op", "constant", "attributes"),
    [
        ("ConstantOfShape", np.array([2**40, 2**40]), {}),
        ("Expand", np.array([2**62, 2, 1]), {}),
        ("Tile", np.array([2**61, 8]), {}),
        ("Pad", np.array([2**62, 0, 0, 0]), {}),
        ("Reshape", np.array([-1, -1]), {}),
        ("Reshape", np.array([2**62, 4]), {}),
        ("TopK", np.array([2**40]), {}),
    ],
)
def test_huge_sizes_are_refused(
    bench: Any, op: str, constant: Any, attributes: dict[str, Any]
) -> None:
    inputs = ["c"] if op == "ConstantOfShape" else ["x", "c"]
    outputs = ["y", "i"] if op == "TopK" else ["y"]
    node = helper.make_node(op, inputs, outputs, **attributes)
    model = bench.model([node], {"x": (np.float32, [2, 3])}, ["y"], {"c": constant})
    with pytest.raises(UnsupportedError, match=f"{op} at 'y'"):
        from_onnx(model)


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("op", "shapes", "constants"),
    [
        ("STFT", [[1, 1 << 24, 1]], [1, None, 2000]),
        ("DFT", [[1, HUGE, 1]], []),
        ("MelWeightMatrix", [], [HUGE, HUGE, 8, 1.0, 2.0]),
        ("Det", [[1, HUGE, HUGE]], []),
    ],
)
def test_huge_spectra_are_refused(bench: Any, op: str, shapes: Any, constants: list[Any]) -> None:
    inputs = {f"x{i}": (np.float32, shape) for i, shape in enumerate(shapes)}
    known = {
        f"c{i}": np.array(value, np.float32 if isinstance(value, float) else np.int64)
        for i, value in enumerate(constants)
        if value is not None
    }
    names = [*inputs, *("" if v is None else f"c{i}" for i, v in enumerate(constants))]
    model = bench.model([helper.make_node(op, names, ["y"])], inputs, ["y"], known, opset=24)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnsupportedError, match=f"{op} at 'y'"):
        from_onnx(model)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20


@pytest.mark.parametrize("counted", [0, 1])
def test_huge_pads_of_means_are_refused(bench: Any, counted: int) -> None:
    """How many elements each window has is counted before the program runs."""
    pads = [1 << 38, 0, 0, 0]
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], pads=pads,
                            count_include_pad=counted)  # fmt: skip
    model = bench.model([node], {"x": (np.float32, [1, 1, 4, 4])}, ["y"])
    with pytest.raises(UnsupportedError, match="AveragePool at 'y'"):
        from_onnx(model)


def test_constants_that_double_stop_at_a_bound(bench: Any) -> None:
    """Each node makes twice the elements of the one before: computed up to a bound, then left."""
    nodes = [
        helper.make_node("Concat", [f"v{index}"] * 2, [f"v{index + 1}"], axis=0)
        for index in range(36)
    ]
    nodes.append(helper.make_node("Shape", ["v36"], ["y"]))
    model = bench.model(nodes, {}, ["y"], {"v0": np.arange(64, dtype=np.float32)})
    module = from_onnx(model)
    assert "tensor.constant" in str(module)


@pytest.mark.parametrize("raw", [b"", b"\0" * 15, b"\0" * 17])
def test_values_that_do_not_fit_the_shape_are_refused(bench: Any, raw: bytes) -> None:
    model = bench.model([helper.make_node("Neg", ["w"], ["y"])], {}, ["y"])
    model.graph.initializer.append(
        onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 2], raw_data=raw)
    )
    with pytest.raises(SourceError, match=r"'w' has \d+ bytes, its shape \[2, 2\] needs 16"):
        from_onnx(model)


@pytest.mark.parametrize("dims", [[2**40, 2**40], [-1], [10**9]])
def test_shapes_without_values_are_refused(bench: Any, dims: list[int]) -> None:
    model = bench.model([helper.make_node("Neg", ["w"], ["y"])], {}, ["y"])
    model.graph.initializer.append(
        onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, float_data=[1.0])
    )
    with pytest.raises(SourceError, match="tensor 'w'"):
        from_onnx(model)


def test_models_of_unknown_versions_are_refused(bench: Any) -> None:
    model = bench.model([helper.make_node("Neg", ["x"], ["y"])], {"x": (np.float32, [1])}, ["y"],
                        opset=99)  # fmt: skip
    with pytest.raises(SourceError, match="opset 99 is not supported"):
        from_onnx(model)


@pytest.mark.parametrize(
    ("outputs", "taken", "message"),
    [
        (["y", "y"], "x", r"Neg at 'y' of .*: it gives 'y', which is there before it"),
        (["y", "x"], "y", r"Neg at 'x' of .*: it gives 'x', which is there before it"),
        ([], "", "its graph has no outputs"),
    ],
)
def test_values_that_are_made_twice_or_never_leave(
    bench: Any, outputs: list[str], taken: str, message: str
) -> None:
    """ONNX Runtime refuses these files too."""
    kinds = zip(("Relu", "Neg"), ("x", taken), outputs, strict=False)
    nodes = [helper.make_node(kind, [given], [made]) for kind, given, made in kinds]
    model = bench.model(nodes, {"x": (np.float32, [4])}, outputs[:1], {})
    with pytest.raises(TritonError, match=message):
        from_onnx(model)
