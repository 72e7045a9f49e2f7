"""Elements of 2, 4 and 8 bits: codes, rounding, and what keeps them; expected by ml_dtypes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_onnx.formats import FORMATS, Format
from triton_dsl.lowering.from_onnx.onnx_backend import reference_backend

Array = np.ndarray[Any, Any]

TYPES = {
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "float8_e8m0fnu": TensorProto.FLOAT8E8M0,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int2": TensorProto.INT2,
    "uint2": TensorProto.UINT2,
}
FLOATS = sorted(name for name in TYPES if FORMATS[name].is_float)
SIGNED = [name for name in FLOATS if name != "float8_e8m0fnu"]
INTEGERS = sorted(set(TYPES) - set(FLOATS))


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name))


def codes(name: str) -> Array:
    """Every element of a type."""
    format = FORMATS[name]
    if format.is_float:
        return np.arange(1 << format.bits, dtype=np.uint8).view(dtype_of(name))
    low, high = format.bounds
    return np.arange(low, high + 1).astype(dtype_of(name))


def graph(nodes: list[Any], source: int, target: int, rank: int = 1) -> Any:
    """A model from one input `x` to one output `y`."""
    shape: list[Any] = [f"n{axis}" for axis in range(rank)]
    made = helper.make_model(
        helper.make_graph(
            nodes,
            "model",
            [helper.make_tensor_value_info("x", source, shape)],
            [helper.make_tensor_value_info("y", target, None)],
        ),
        opset_imports=[helper.make_opsetid("", 26)],
    )
    made.ir_version = 13
    return made


def cast(x: Array, to: int, **attributes: Any) -> Array:
    """A `Cast` in the reference interpreter, on an argument and on a constant."""
    node = helper.make_node("Cast", ["x"], ["y"], to=to, **attributes)
    model = graph([node], helper.np_dtype_to_tensor_dtype(x.dtype), to, x.ndim)
    (made,) = reference_backend().run_model(model, [x])
    format = FORMATS.get(made.dtype.name)
    if format is not None or not np.isnan(made).any():
        (constant,) = run_module(from_onnx(model, constants={"x": x}), [])
        np.testing.assert_array_equal(constant, made if format is None else format.stored(made))
    return made


def bits_of(x: Array) -> Array:
    """Codes, those of every NaN the same."""
    format = FORMATS[x.dtype.name]
    made = x.view(np.uint8)
    return np.where(np.isnan(x.astype(np.float32)), format.nan, made)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_every_code_has_its_value(name: str, to: int) -> None:
    x = codes(name)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float32).astype(helper.tensor_dtype_to_np_dtype(to))
    made = cast(x, to)
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(
        np.signbit(made[expected == 0]), np.signbit(expected[expected == 0])
    )


@pytest.mark.parametrize("name", FLOATS)
def test_every_value_has_its_code(name: str) -> None:
    x = codes(name)
    for saturate in (0, 1):
        made = cast(x.astype(np.float32), TYPES[name], saturate=saturate)
        finite = np.isfinite(x.astype(np.float32))
        np.testing.assert_array_equal(bits_of(made)[finite], bits_of(x)[finite])


def around(name: str) -> Array:
    """All values, all middles between two, and the numbers beside each, with other signs."""
    values = np.sort(codes(name).astype(np.float64))
    values = values[np.isfinite(values)]
    middles = (values[1:] + values[:-1]) / 2
    ends = np.array([np.inf, np.nan, 1e30, 1e-30, 5e5, 464, 465, 448.1, 61440, 61439, 248, 247.9])
    exact = np.concatenate([values, middles, ends]).astype(np.float32)
    near = [np.nextafter(exact, np.float32(end)) for end in (-np.inf, np.inf)]
    both = np.concatenate([exact, *near])
    return np.concatenate([both, -both])


def expected_codes(x: Array, name: str, saturate: bool) -> Array:
    """What ml_dtypes rounds to; the standard saturates before that."""
    top = ml_dtypes.finfo(dtype_of(name)).max if saturate else None
    with np.errstate(invalid="ignore"):
        return (x if top is None else np.clip(x, -float(top), float(top))).astype(dtype_of(name))


def has_code(x: Array, name: str) -> Array:
    """What is not NaN, of which 4 bits have none."""
    return ~np.isnan(x) if FORMATS[name].bits == 4 else np.ones(x.shape, np.bool_)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("name", SIGNED)
def test_rounding_between_all_codes(name: str, saturate: bool) -> None:
    x = around(name)
    made = cast(x, TYPES[name], saturate=int(saturate))
    kept = has_code(x, name)
    wanted = expected_codes(x, name, saturate)
    np.testing.assert_array_equal(bits_of(made)[kept], bits_of(wanted)[kept])


@pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", SIGNED)
def test_rounding_of_every_half(name: str, source: Any) -> None:
    """All 65536 numbers of 16 bits."""
    x = np.arange(1 << 16, dtype=np.uint16).view(source)
    made = cast(x, TYPES[name])
    wanted = expected_codes(x.astype(np.float32), name, True)
    kept = has_code(x.astype(np.float32), name)
    np.testing.assert_array_equal(bits_of(made)[kept], bits_of(wanted)[kept])


@settings(max_examples=50, deadline=None)
@given(
    name=st.sampled_from(SIGNED),
    values=st.lists(st.floats(width=64), min_size=1, max_size=20),
    saturate=st.booleans(),
)
def test_rounding_of_doubles_happens_once(name: str, values: list[float], saturate: bool) -> None:
    """Not to f32 first: the nearest of all codes in f64, found by looking at all of them."""
    x = np.array(values)
    made = cast(x, TYPES[name], saturate=int(saturate)).astype(np.float64)
    table = codes(name).astype(np.float64)
    table = table[np.isfinite(table)]
    top = table.max()
    inside = np.abs(x) <= top
    distance = np.abs(table[:, None] - x[inside]).min(0)
    np.testing.assert_array_equal(np.abs(made[inside] - x[inside]), distance)
    if saturate:
        beyond = np.abs(x) > top
        np.testing.assert_array_equal(made[beyond], np.sign(x[beyond]) * top)
    if FORMATS[name].bits == 8:
        np.testing.assert_array_equal(np.isnan(made[np.isnan(x)]), True)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("up", [0.5, 0.5, 1, 1, 2, 2, 2.0**127]),
        ("down", [0.25, 0.5, 0.5, 0.5, 1, 1, 2.0**127]),
        ("nearest", [0.25, 0.5, 0.5, 1, 1, 2, 2.0**127]),
    ],
)
def test_powers_of_two_are_rounded_in_three_ways(mode: str, expected: list[float]) -> None:
    """Ties of `nearest` go up, and too great numbers, infinity too, are the greatest."""
    x = np.array([0.3, 0.5, 0.7, 0.75, 1.3, 1.7, np.inf], np.float32)
    made = cast(x, TensorProto.FLOAT8E8M0, round_mode=mode)
    np.testing.assert_array_equal(made.astype(np.float32), np.array(expected, np.float32))
    ends = np.array([0, 2.0**-130, 2.0**-127, np.nan], np.float32)
    made = cast(ends, TensorProto.FLOAT8E8M0, round_mode=mode).astype(np.float32)
    np.testing.assert_array_equal(made, np.array([2.0**-127] * 3 + [np.nan], np.float32))


def test_powers_of_two_that_do_not_saturate() -> None:
    x = np.array([0, 2.0**-128, 2.0**-127, 1, 2.0**127, 3.4e38, np.inf, np.nan], np.float32)
    made = cast(x, TensorProto.FLOAT8E8M0, round_mode="nearest", saturate=0).astype(np.float32)
    none = np.nan
    wanted = [none, none, 2.0**-127, 1, 2.0**127, none, none, none]
    np.testing.assert_array_equal(made, np.array(wanted, np.float32))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("source", [np.int8, np.uint8, np.int64, np.uint32])
def test_integers_keep_their_lowest_bits(name: str, source: Any) -> None:
    info = np.iinfo(source)
    x = np.concatenate([np.arange(max(info.min, -40), 41), [info.min, info.max]]).astype(source)
    made = cast(x, TYPES[name])
    np.testing.assert_array_equal(made, x.astype(np.int64).astype(dtype_of(name)))
    np.testing.assert_array_equal(cast(made, TensorProto.INT64), made.astype(np.int64))
    assert cast(made, TensorProto.INT8).dtype == np.int8


@settings(max_examples=50, deadline=None)
@given(
    name=st.sampled_from(INTEGERS),
    values=st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=20),
)
def test_floats_are_cut_to_integers(name: str, values: list[float]) -> None:
    x = np.array(values, np.float32)
    made = cast(x, TYPES[name])
    np.testing.assert_array_equal(made, np.trunc(x).astype(np.int64).astype(dtype_of(name)))


# Bits.


def bit_cast(x: Array, to: int) -> Array:
    node = helper.make_node("BitCast", ["x"], ["y"], to=to)
    model = graph([node], helper.np_dtype_to_tensor_dtype(x.dtype), to, x.ndim)
    (made,) = reference_backend().run_model(model, [x])
    return made


@pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16])
def test_bits_of_every_half_and_back(source: Any) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = bits.view(source)
    number = ~np.isnan(x.astype(np.float32))
    np.testing.assert_array_equal(bit_cast(x, TensorProto.UINT16)[number], bits[number])
    made = bit_cast(bits, helper.np_dtype_to_tensor_dtype(np.dtype(source)))
    np.testing.assert_array_equal(made.view(np.uint16)[number], bits[number])
    assert np.isnan(made.astype(np.float32)[~number]).all()
    assert np.isnan(
        bit_cast(bit_cast(x, TensorProto.INT16), TensorProto.FLOAT16)[31745:32768]
    ).all()


@pytest.mark.parametrize(
    ("width", "real", "whole"),
    [(32, TensorProto.FLOAT, TensorProto.INT32), (64, TensorProto.DOUBLE, TensorProto.UINT64)],
)
def test_bits_of_floats_and_back(width: int, real: int, whole: int) -> None:
    """Random bits, every exponent with the least and the greatest mantissa, and both zeros."""
    kind, mantissa = np.dtype(f"uint{width}").type, {32: 23, 64: 52}[width]
    random = np.random.default_rng(5).integers(0, 1 << width, 2000, kind)
    exponents = np.arange(1 << (width - 1 - mantissa), dtype=kind) << kind(mantissa)
    ends = np.concatenate([exponents, exponents | kind((1 << mantissa) - 1)])
    bits = np.concatenate([random, ends, ends | kind(1 << (width - 1))])
    integers = bits.view(helper.tensor_dtype_to_np_dtype(whole))
    x = bits.view(f"float{width}")
    number = ~np.isnan(x)
    np.testing.assert_array_equal(bit_cast(x, whole)[number], integers[number])
    made = bit_cast(integers, real)
    np.testing.assert_array_equal(made.view(bits.dtype)[number], bits[number])
    assert np.isnan(made[~number]).all()


@pytest.mark.parametrize("name", sorted(TYPES))
def test_bits_of_formats(name: str) -> None:
    """To every type as wide, and back."""
    x, format = codes(name), FORMATS[name]
    others = [n for n in TYPES if FORMATS[n].bits == format.bits]
    for other in others:
        made = bit_cast(x, TYPES[other])
        mask = (1 << format.bits) - 1
        expected = x.view(np.uint8) if format.is_float else x.astype(np.int16)
        got = made.view(np.uint8) if FORMATS[other].is_float else made.astype(np.int16)
        np.testing.assert_array_equal(got & mask, expected & mask)
        np.testing.assert_array_equal(bit_cast(made, TYPES[name]).astype(np.float32),
                                      x.astype(np.float32))  # fmt: skip
    if format.bits == 8:
        as_bytes = bit_cast(x, TensorProto.UINT8)
        np.testing.assert_array_equal(as_bytes, x.view(np.uint8))
        back = bit_cast(bit_cast(x, TensorProto.INT8), TYPES[name])
        np.testing.assert_array_equal(back.view(np.uint8), x.view(np.uint8))


def test_bits_of_another_width_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="it reads elements of 4 bits as those of 8"):
        bit_cast(codes("int4"), TensorProto.INT8)


# What keeps a format.


@pytest.mark.parametrize("name", sorted(TYPES))
def test_moving_elements_keeps_them(name: str) -> None:
    make, x = helper.make_node, codes(name)
    x = np.resize(x, (4, 6))
    nodes = [
        make("Transpose", ["x"], ["a"]),
        make("Constant", [], ["shape"], value_ints=[3, 8]),
        make("Reshape", ["a", "shape"], ["b"]),
        make("Constant", [], ["pads"], value_ints=[1, 0, 0, 2]),
        make("Pad", ["b", "pads"], ["c"]),
        make("Identity", ["c"], ["d"]),
        make("Unsqueeze", ["d", "axis"], ["e"]),
        make("Squeeze", ["e", "axis"], ["f"]),
        make("Flatten", ["f"], ["y"]),
    ]
    nodes.insert(0, make("Constant", [], ["axis"], value_ints=[1]))
    (made,) = reference_backend().run_model(graph(nodes, TYPES[name], TYPES[name], 2), [x])
    expected = x.T.reshape(3, 8)
    expected = np.concatenate([np.zeros((1, 8), x.dtype), expected])
    expected = np.concatenate([expected, np.zeros((4, 2), x.dtype)], 1)
    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("name", FLOATS)
def test_computing_with_codes_is_refused(name: str) -> None:
    model = graph([helper.make_node("Neg", ["x"], ["y"])], TYPES[name], TYPES[name])
    shown = FORMATS[name].shown
    with pytest.raises(UnsupportedError, match=f"computes with elements of {shown}; cast them"):
        from_onnx(model)


def test_sums_of_small_integers_are_no_small_integers() -> None:
    model = graph([helper.make_node("Add", ["x", "x"], ["y"])], TensorProto.INT4, TensorProto.INT4)
    with pytest.raises(UnsupportedError, match="states elements of int4, its nodes give i8"):
        from_onnx(model)


def test_arguments_and_results_say_what_their_bytes_are() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E5M2)
    text = str(from_onnx(graph([node], TensorProto.INT4, TensorProto.FLOAT8E5M2)))
    assert "%x: tensor<?xi8>" in text.replace(" : ", ": ")
    assert 'onnx.type = "int4"' in text and 'onnx.type = "float8e5m2"' in text
    assert "tensor<?xui8>" in text


# Quantisation.


@pytest.mark.parametrize("name", [*SIGNED, *INTEGERS])
def test_quantized_and_back(name: str) -> None:
    """Per tensor, per axis and in blocks; against the reference implementation of onnx."""
    from onnx.reference import ReferenceEvaluator

    format, rng = FORMATS[name], np.random.default_rng(1)
    x = (rng.standard_normal((6, 8)) * 4).astype(np.float32)
    for shape, block in (((), 0), ((8,), 0), ((6, 2), 4)):
        scale = rng.uniform(0.25, 2, shape).astype(np.float32)
        zero = np.zeros(shape, dtype_of(name))
        if not format.is_float:
            zero = rng.integers(*format.bounds, shape, endpoint=True).astype(dtype_of(name))
        nodes = [
            helper.make_node(op, [source, "s", "z"], [target], axis=1, block_size=block)
            for op, source, target in (
                ("QuantizeLinear", "x", "q"),
                ("DequantizeLinear", "q", "y"),
            )
        ]
        model = graph(nodes, TensorProto.FLOAT, TensorProto.FLOAT, 2)
        for key, array in (("s", scale), ("z", zero)):
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, key))
        (made,) = reference_backend().run_model(model, [x])
        (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_array_equal(made, np.asarray(expected))


def four_bit_layer(folder: Path | None) -> tuple[Any, Array]:
    """A layer with packed weights of 4 bits in blocks of 16, and what they stand for."""
    rng = np.random.default_rng(3)
    weight = rng.integers(-8, 8, (32, 5)).astype(ml_dtypes.int4)
    scale = rng.uniform(0.1, 1, (2, 5)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=16),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    model = graph(nodes, TensorProto.FLOAT, TensorProto.FLOAT, 2)
    tensor = onnx.numpy_helper.from_array(weight, "w")
    assert len(tensor.raw_data) == 80
    if folder is not None:
        (folder / "w.bin").write_bytes(bytes(8) + tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", "8"), ("length", "80")):
            tensor.external_data.add(key=key, value=value)
    model.graph.initializer.extend([tensor, onnx.numpy_helper.from_array(scale, "s")])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 32
    return model, weight.astype(np.float32) * np.repeat(scale, 16, 0)


@pytest.mark.parametrize("external", [False, True])
def test_weights_of_four_bits(tmp_path: Path, external: bool) -> None:
    model, weight = four_bit_layer(tmp_path if external else None)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    x = np.random.default_rng(4).standard_normal((3, 32)).astype(np.float32)
    (made,) = run_module(from_onnx(path), [x])
    np.testing.assert_allclose(made, x @ weight, 1e-5, 1e-5)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_bytes_of_a_file(name: str) -> None:
    """`unpacked` turns back what the standard packs."""
    format: Format = FORMATS[name]
    x = np.resize(codes(name), 13)
    data = np.frombuffer(onnx.numpy_helper.from_array(x).raw_data, np.uint8)
    np.testing.assert_array_equal(format.unpacked(data, 13).view(np.uint8), x.view(np.uint8))


def test_too_few_bytes_are_refused() -> None:
    from triton_dsl.ir.errors import SourceError

    model, _ = four_bit_layer(None)
    model.graph.initializer[0].raw_data = bytes(79)
    with pytest.raises(SourceError, match=r"'w' has 79 bytes, its shape .* needs 80"):
        from_onnx(model)
