"""Dense and ternary products: the interpreter beside LiteRT, in every form of storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f16, f32, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_tflite.flatbuffer import pack_bits

Array = np.ndarray[Any, Any]
ANY = DYNAMIC
STORAGE = ("auto", "2bit", "int8")
SETTINGS = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def values(shape: Sequence[int], seed: int = 0, element: Attribute = f32) -> Array:
    random = np.random.default_rng(seed)
    dtype = numpy_dtype(element)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype, endpoint=True)


def trits(shape: Sequence[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.int8)


def parameter(add: Any, key: str, *shape: int, element: Attribute = f32) -> Any:
    return add(tensor.ParameterOp(key, TensorType(element, shape)))


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [([ANY, 4], [4, 5]), ([4], [4, 5]), ([ANY, 4], [4]), ([4], [4]), ([ANY, 3, 4], [4, 5]),
     ([ANY, 3, 4], [2, 4, 5]), ([2, ANY, 3, 4], [2, 1, 4, 5]), ([4], [ANY, 4, 5])],
)  # fmt: skip
def test_matmul_of_two_operands(bench: Any, lhs: list[int], rhs: list[int]) -> None:
    types = [TensorType(f32, shape) for shape in (lhs, rhs)]
    module = bench.build(types, lambda add, x, y: add(tensor.MatmulOp(x, y)))
    sizes = [[2 if size == ANY else size for size in shape] for shape in (lhs, rhs)]
    bench.check(module, [values(shape, i) for i, shape in enumerate(sizes)])


@pytest.mark.parametrize("element", (f32, f16, i8, i16, i32), ids=str)
@pytest.mark.parametrize("shape", [[ANY, 6], [6], [ANY, 2, 6]])
def test_linear_with_stored_weights(bench: Any, shape: list[int], element: Attribute) -> None:
    weight = values((6, 3), 1, f32 if element in (f32, f16) else i8)
    weight = (weight % 8).astype(numpy_dtype(element))
    store = {"w": weight, "b": values((3,), 2, element)}

    def body(add: Any, x: Any) -> list[Any]:
        w = parameter(add, "w", 6, 3, element=element)
        b = parameter(add, "b", 3, element=element)
        return [add(tensor.LinearOp(x, w, b)), add(tensor.MatmulOp(x, w))]

    module = bench.build([TensorType(element, shape)], body, store)
    bench.check(module, [values([2 if size == ANY else size for size in shape], 0, element)])


def test_attention_moves_no_keys(bench: Any) -> None:
    """The transpose of a key is part of the product, masks and causality are choices."""

    def body(add: Any, q: Any, k: Any, v: Any, keep: Any, bias: Any) -> list[Any]:
        turned = add(tensor.PermuteOp(k, [0, 2, 1]))
        return [
            add(tensor.MatmulOp(q, turned)),
            add(tensor.ScaledDotProductAttentionOp(q, k, v)),
            add(tensor.ScaledDotProductAttentionOp(q, k, v, keep, scale=0.3)),
            add(tensor.ScaledDotProductAttentionOp(q, k, v, bias, is_causal=True)),
        ]

    shapes = ([ANY, 5, 4], [ANY, 5, 4], [ANY, 5, 3])
    types = [*(TensorType(f32, s) for s in shapes), TensorType(i1, [5, 5]), TensorType(f32, [5, 5])]
    module = bench.build(types, body)
    inputs = [values((2, *shape[1:]), i) for i, shape in enumerate(shapes)]
    keep = np.tri(5, dtype=np.bool_)
    data = bench.check(module, [*inputs, keep, values((5, 5), 9)])
    assert "TRANSPOSE" not in bench.kinds(data)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))), ("ij,kj->ik", ((3, 4), (5, 4))),
     ("i,j->ij", ((3,), (4,))), ("bhid,bhjd->bhij", ((2, 2, 3, 4), (2, 2, 5, 4))),
     ("ij->ji", ((3, 4),)), ("ijk->k", ((2, 3, 4),)), ("ab,cb->ca", ((3, 4), (5, 4)))],
)  # fmt: skip
def test_einsum(bench: Any, equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    types = [TensorType(f32, shape) for shape in shapes]
    module = bench.build(types, lambda add, *x: add(tensor.EinsumOp(x, equation)))
    bench.check(module, [values(shape, i) for i, shape in enumerate(shapes)])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))), ("bqhd,bkhd->bhqk", ((2, 3, 2, 4), (2, 5, 2, 4))),
     ("co,nchw->nohw", ((4, 3), (2, 4, 5, 6))), ("bi,bj->bij", ((2, 3), (2, 4)))],
)  # fmt: skip
def test_einsum_of_free_sizes(
    bench: Any, equation: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    types = [TensorType(f32, [ANY] * len(shape)) for shape in shapes]
    module = bench.build(types, lambda add, *x: add(tensor.EinsumOp(x, equation)))
    bench.check(module, [values(shape, i) for i, shape in enumerate(shapes)])


WINDOW = st.fixed_dictionaries(
    {
        "strides": st.tuples(*[st.integers(1, 2)] * 2),
        "padding": st.tuples(*[st.integers(0, 2)] * 4),
        "dilation": st.tuples(*[st.integers(1, 2)] * 2),
        "groups": st.sampled_from([1, 2, 4]),
    }
)


@SETTINGS
@given(WINDOW, st.sampled_from(["dense", *STORAGE]), st.sampled_from([f32, i8]))
def test_convolutions(bench: Any, window: dict[str, Any], form: str, element: Attribute) -> None:
    """Any window, groups and storage; integers bit for bit."""
    shape = (8, 4 // window["groups"], 3, 2)
    weight = trits(shape) if form != "dense" else values(shape, 0, f32)
    if form == "dense" and element == i8:
        weight = (values(shape, 0, i8) // 8).astype(np.int8)
    scale, bias = values((8,), 1), values((8,), 2)
    packed = pack_trits(weight) if form != "dense" else weight
    store = {"w": packed, "s": scale, "b": bias, "a": values((8,), 2, i8)}

    def body(add: Any, x: Any) -> Any:
        if form == "dense":
            w = parameter(add, "w", *shape, element=element)
            b = parameter(add, "b" if element == f32 else "a", 8, element=element)
            return add(tensor.ConvOp(x, w, b, **window))
        w = add(ternary.ParameterOp("w", shape))
        if element == i8:
            return add(ternary.ConvOp(x, w, activation="relu", **window))
        s, b = parameter(add, "s", 8), parameter(add, "b", 8)
        return add(ternary.ConvOp(x, w, scale=s, bias=b, activation="relu6", **window))

    module = bench.build([TensorType(element, [ANY, 4, 7, 6])], body, store)
    options = {} if form == "dense" else {"storage": form}
    bench.check(module, [values((2, 4, 7, 6), 3, element)], 5.0, **options)


@pytest.mark.parametrize("storage", STORAGE)
def test_convolutions_of_signals(bench: Any, storage: str) -> None:
    store = {"w": pack_trits(trits((5, 3, 3))), "d": values((5, 3, 3), 4)}
    window: dict[str, Any] = {"strides": [2], "padding": [1, 2], "dilation": [1]}

    def body(add: Any, x: Any) -> list[Any]:
        w = add(ternary.ParameterOp("w", [5, 3, 3]))
        dense = parameter(add, "d", 5, 3, 3)
        return [add(ternary.ConvOp(x, w, **window)), add(tensor.ConvOp(x, dense, **window))]

    module = bench.build([TensorType(f32, [ANY, 3, 9])], body, store)
    bench.check(module, [values((2, 3, 9))], storage=storage)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("element", (f32, f16, i8, i16, i32, i64), ids=str)
@pytest.mark.parametrize("width", [1, 5, 8])
def test_ternary_products(bench: Any, width: int, element: Attribute, storage: str) -> None:
    """Every width: 2-bit rows are not padded. Integers of any size are exact, wrapping around."""
    store = {"w": pack_trits(trits((37, width)))}

    def body(add: Any, x: Any) -> list[Any]:
        w = add(ternary.ParameterOp("w", [37, width]))
        return [add(ternary.MatmulOp(x, w)), add(ternary.LinearOp(x, w, activation="relu"))]

    module = bench.build([TensorType(element, [ANY, 37])], body, store)
    bench.check(module, [values((3, 37), 0, element)], 4.0, storage=storage)


def test_fused_steps_in_order(bench: Any) -> None:
    store = {
        "w": pack_trits(trits((12, 6))), "s": values((6,), 1), "b": values((6,), 2),
        "a": values((6,), 3, i8).astype(np.int32),
        "t": np.sort(values((6, 5), 4, i8).astype(np.int32), axis=1),
        "m": np.full(6, 1 << 20, np.int32), "h": np.full(6, 22, np.int32),
        "z": np.array(-4, np.int8),
    }  # fmt: skip

    def body(add: Any, x: Any, q: Any) -> list[Any]:
        w = add(ternary.ParameterOp("w", [12, 6]))
        s, b = (parameter(add, key, 6) for key in ("s", "b"))
        a, m, h = (parameter(add, key, 6, element=i32) for key in ("a", "m", "h"))
        to = {"multiplier": m, "shift": h, "zero_point": parameter(add, "z", element=i8)}
        levels = parameter(add, "t", 6, 5, element=i32)
        return [
            add(ternary.LinearOp(x, w, scale=s, bias=b, activation="relu")),
            add(ternary.LinearOp(q, w, bias=a, thresholds=levels)),
            add(ternary.LinearOp(q, w, bias=a, activation="relu", low=-100, high=90, **to)),
        ]

    module = bench.build([TensorType(f32, [ANY, 12]), TensorType(i8, [ANY, 12])], body, store)
    bench.check(module, [values((3, 12)), values((3, 12), 5, i8)], 3.0)


def test_trits_at_run_time(bench: Any) -> None:
    def body(add: Any, x: Any, packed: Any) -> list[Any]:
        made = [add(ternary.TernarizeOp(x, rule=rule)) for rule in ("twn", "absmean")]
        unpacked = add(ternary.UnpackOp(packed, (3, 3)))
        return [*made, add(ternary.PackOp(made[0])), add(ternary.MatmulOp(x, unpacked))]

    byte = ternary.storage.ui8
    module = bench.build([TensorType(f32, [5, 3]), TensorType(byte, [3])], body)
    bench.check(module, [values((5, 3)), pack_trits(trits((3, 3)))])


@SETTINGS
@given(st.integers(1, 40), st.sampled_from([2, 4]), st.integers(0, 99))
def test_packing_is_undone_by_shifts(count: int, bits: int, seed: int) -> None:
    """The first element in the lowest bits, no padding of rows."""
    half = 1 << (bits - 1)
    given_ = np.random.default_rng(seed).integers(-half, half, count)
    packed = int.from_bytes(pack_bits(given_.astype(np.int8), bits).tobytes(), "little")
    found = [(packed >> (bits * i)) & ((1 << bits) - 1) for i in range(count)]
    assert [value - (1 << bits) * (value >= half) for value in found] == given_.tolist()


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("precision", ["dynamic-int8", "float16"])
def test_narrow_arithmetic_is_close_and_uses_no_wrong_kernel(
    bench: Any, precision: str, storage: str
) -> None:
    """CONV_2D never gets 2-bit weights: it returns NaN. K = 36 and 9 take both 2-bit kernels."""
    store = {
        "w": pack_trits(trits((16, 4, 3, 3))), "p": pack_trits(trits((6, 16, 1, 1), 1)),
        "d": pack_trits(trits((6, 1, 3, 3), 2)), "f": pack_trits(trits((9, 10), 3)),
        "s": np.abs(values((16,), 5)), "dense": values((150, 9), 6),
    }  # fmt: skip

    def body(add: Any, x: Any) -> Any:
        s = parameter(add, "s", 16)
        w, p, d, f = (
            add(ternary.ParameterOp(key, shape))
            for key, shape in (
                ("w", (16, 4, 3, 3)), ("p", (6, 16, 1, 1)), ("d", (6, 1, 3, 3)), ("f", (9, 10)),
            )
        )  # fmt: skip
        y = add(ternary.ConvOp(x, w, scale=s, padding=(1, 1, 1, 1), activation="relu"))
        y = add(ternary.ConvOp(y, p))
        y = add(tensor.FlattenOp(add(ternary.ConvOp(y, d, groups=6))))
        return add(ternary.MatmulOp(add(tensor.MatmulOp(y, parameter(add, "dense", 150, 9))), f))

    module = bench.build([TensorType(f32, [ANY, 4, 7, 7])], body, store)
    x = values((3, 4, 7, 7), 7)
    data = bench.bytes_of(module, precision=precision, storage=storage)
    (want,), (got,) = run_module(module, [x]), bench.run(data, [x])
    assert np.abs(got - want).max() < 0.04 * np.abs(want).max()
    assert ("DEQUANTIZE" in bench.kinds(data)) == (precision == "float16")


def test_exact_integers_stay_exact_in_narrow_arithmetic(bench: Any) -> None:
    store = {"w": pack_trits(trits((300, 16)))}

    def body(add: Any, x: Any) -> Any:
        return add(ternary.MatmulOp(x, add(ternary.ParameterOp("w", [300, 16]))))

    module = bench.build([TensorType(i8, [ANY, 300])], body, store)
    bench.check(module, [values((3, 300), 0, i8)], precision="dynamic-int8")


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("precision", ["float32", "dynamic-int8"])
def test_scales_have_any_sign(bench: Any, precision: str, storage: str) -> None:
    """XNNPACK takes scales above 0 alone; 36 inputs take its 2-bit kernel."""
    scale = values((16,), 5)
    scale[3], scale[4] = 0, -1e-40
    store = {"w": pack_trits(trits((36, 16))), "s": scale}

    def body(add: Any, x: Any) -> Any:
        w = add(ternary.ParameterOp("w", [36, 16]))
        return add(ternary.LinearOp(x, w, scale=parameter(add, "s", 16)))

    module = bench.build([TensorType(f32, [ANY, 36])], body, store)
    x = np.linspace(-127, 127, 3 * 36, dtype=np.float32).round().reshape(3, 36)
    x[:, 0] = 127  # what is rounded to 8 bits is on the grid already
    (want,) = run_module(module, [x])
    assert (want.min(axis=0) < 0).any()
    (got,) = bench.run(bench.bytes_of(module, precision=precision, storage=storage), [x])
    np.testing.assert_allclose(got, want, rtol=0.02, atol=0.02 * np.abs(want).max())


def test_sums_that_no_float32_holds_are_refused(bench: Any) -> None:
    store = {"w": np.full((2, 2), 1 << 24, np.int32)}
    module = bench.build(
        [TensorType(i32, [ANY, 2])],
        lambda add, x: add(tensor.MatmulOp(x, parameter(add, "w", 2, 2, element=i32))),
        store,
    )
    with pytest.raises(UnsupportedError, match="are not exact in LiteRT; quantise to fewer bits"):
        bench.bytes_of(module)
