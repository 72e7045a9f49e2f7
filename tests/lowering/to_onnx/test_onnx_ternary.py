"""The `ternary` dialect: the interpreter beside ONNX Runtime; integers bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.ternary.types import trit, trit_tensor
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.trits import pack_trits

Array = np.ndarray[Any, Any]
ANY = DYNAMIC
INTEGERS = (i8, i16, i32, i64)
ui8 = IntegerType(8, Signedness.UNSIGNED)


def trits(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.int8)


def values(element: Attribute, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Random numbers; of integers a third is the least, so that sums reach their bound."""
    if element == trit:
        return trits(shape, seed)
    random = np.random.default_rng(seed)
    dtype = numpy_dtype(element)
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        array = random.integers(info.min, info.max, shape, dtype, endpoint=True)
        array.reshape(-1)[: array.size // 3] = info.min
        return array
    return random.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("element", (f16, f32, f64, *INTEGERS, trit), ids=str)
@pytest.mark.parametrize(
    ("input", "weight"),
    [((3, 7), (7, 5)), ((7,), (7, 5)), ((3, 7), (7,)), ((2, 3, 7), (2, 7, 3)), ((4, 4), (4, 4))],
)
def test_matmul_with_a_parameter(
    bench: Any, opset: int, input: tuple[int, ...], weight: tuple[int, ...], element: Attribute
) -> None:
    module = bench.build(
        [TensorType(element, input)],
        lambda add, x: add(ternary.MatmulOp(x, add(ternary.ParameterOp("fc.weight", weight)))),
        {"fc.weight": pack_trits(trits(weight))},
    )
    bench.check(module, [values(element, input)], opset, scale=4)


@pytest.mark.parametrize("element", (f32, i8, i32, trit), ids=str)
def test_matmul_with_trits_from_outside(bench: Any, opset: int, element: Attribute) -> None:
    types = [TensorType(element, [ANY, 6]), trit_tensor(6, 4)]
    module = bench.build(types, lambda add, x, w: add(ternary.MatmulOp(x, w)))
    bench.check(module, [values(element, (3, 6)), trits((6, 4))], opset)


def test_matmul_with_a_constant_and_scale(bench: Any, opset: int) -> None:
    module = bench.build(
        [TensorType(f32, [ANY, 3]), TensorType(f32, [2])],
        lambda add, x, s: add(
            ternary.MatmulOp(x, add(ternary.ConstantOp([1, 0, -1, 1, 1, -1], [3, 2])), s)
        ),
    )
    bench.check(module, [values(f32, (4, 3)), values(f32, (2,), 1)], opset)


def test_bfloat16_input(bench: Any, opset: int) -> None:
    module = bench.build(
        [TensorType(f32, [ANY, 8])],
        lambda add, x: add(
            tensor.ConvertOp(
                add(
                    ternary.LinearOp(
                        add(tensor.ConvertOp(x, bf16)), add(ternary.ParameterOp("w", [8, 4]))
                    )
                ),
                f32,
            )
        ),
        {"w": pack_trits(trits((8, 4)))},
    )
    bench.check(module, [values(f32, (3, 8))], opset, scale=800)


@pytest.mark.parametrize("element", (f16, f32, f64), ids=str)
@pytest.mark.parametrize("activation", ["none", "relu", "relu6"])
@pytest.mark.parametrize("scale", [None, (), (5,)])
def test_linear_with_float_steps(
    bench: Any, opset: int, element: Attribute, activation: str, scale: tuple[int, ...] | None
) -> None:
    types = [TensorType(element, [ANY, 9]), TensorType(element, [5])]
    inputs = [values(element, (4, 9)), values(element, (5,), 1)]
    if scale is not None:
        types.append(TensorType(element, scale))
        inputs.append(values(element, scale, 2))
    module = bench.build(
        types,
        lambda add, x, b, s=None: add(
            ternary.LinearOp(
                x, add(ternary.ParameterOp("w", [9, 5])), bias=b, scale=s, activation=activation
            )
        ),
        {"w": pack_trits(trits((9, 5)))},
    )
    # A scalar scale is fused into the product as float32 by ONNX Runtime.
    bench.check(module, inputs, opset, scale=1e6 if element == f64 else 8)


@pytest.mark.parametrize("element", (f16, f32), ids=str)
@pytest.mark.parametrize("scale", [None, (), (6,)])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_with_float_steps(
    bench: Any, opset: int, element: Attribute, scale: tuple[int, ...] | None, groups: int
) -> None:
    shape = (6, 4 // groups, 3, 3)
    types = [TensorType(element, [ANY, 4, 7, 6]), TensorType(element, [6])]
    inputs = [values(element, (2, 4, 7, 6)), values(element, (6,), 1)]
    if scale is not None:
        types.append(TensorType(element, scale))
        inputs.append(values(element, scale, 2))
    module = bench.build(
        types,
        lambda add, x, b, s=None: add(
            ternary.ConvOp(
                x,
                add(ternary.ParameterOp("w", shape)),
                bias=b,
                scale=s,
                activation="relu",
                padding=(1, 0, 1, 2),
                strides=(2, 1),
                groups=groups,
            )
        ),
        {"w": pack_trits(trits(shape))},
    )
    bench.check(module, inputs, opset, scale=8)


def test_conv_in_one_dimension(bench: Any, opset: int) -> None:
    module = bench.build(
        [TensorType(i8, [ANY, 3, 8])],
        lambda add, x: add(
            ternary.ConvOp(
                x,
                add(ternary.ParameterOp("w", [4, 3, 3])),
                strides=[1],
                padding=[1, 1],
                dilation=[1],
            )
        ),
        {"w": pack_trits(trits((4, 3, 3)))},
    )
    bench.check(module, [values(i8, (2, 3, 8))], opset)


@pytest.mark.parametrize("element", (*INTEGERS, trit), ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_integer_conv_is_exact(bench: Any, opset: int, element: Attribute, groups: int) -> None:
    shape = (4, 4 // groups, 3, 3)
    sums = i64 if element == i64 else i32
    module = bench.build(
        [TensorType(element, [ANY, 4, 6, 6]), TensorType(sums, [4])],
        lambda add, x, b: add(
            ternary.ConvOp(
                x,
                add(ternary.ParameterOp("w", shape)),
                bias=b,
                activation="relu",
                padding=(1, 1, 1, 1),
                groups=groups,
            )
        ),
        {"w": pack_trits(trits(shape))},
    )
    bench.check(module, [values(element, (2, 4, 6, 6)), values(sums, (4,), 1)], opset)


def test_sums_at_the_edge_of_float32_are_exact(bench: Any, opset: int) -> None:
    """All weights 1, all inputs the least int16: the sum passes 2^24 by far."""
    depth = 1025
    module = bench.build(
        [TensorType(i16, [ANY, depth])],
        lambda add, x: add(ternary.LinearOp(x, add(ternary.ParameterOp("w", [depth, 3])))),
        {"w": pack_trits(np.ones((depth, 3), np.int8))},
    )
    x = np.full((2, depth), -(2**15), np.int16)
    x[1] += np.arange(depth, dtype=np.int16)
    bench.check(module, [x], opset)


@pytest.mark.parametrize("element", (f32, i8), ids=str)
@pytest.mark.parametrize("axis", ["linear", "conv"])
def test_thresholds_follow(bench: Any, opset: int, element: Attribute, axis: str) -> None:
    accumulator = f32 if element == f32 else i32
    random = np.random.default_rng(0)
    levels = np.sort(random.integers(-300, 300, (5, 15)), axis=1).astype(numpy_dtype(accumulator))
    if axis == "linear":
        shape, weight, kind = (3, 12), (12, 5), ternary.LinearOp
    else:
        shape, weight, kind = (2, 3, 5, 5), (5, 3, 3, 3), ternary.ConvOp
    x = values(i8, shape).astype(numpy_dtype(element))
    module = bench.build(
        [TensorType(element, [ANY, *shape[1:]]), TensorType(accumulator, [5, 15])],
        lambda add, x, t: add(
            kind(x, add(ternary.ParameterOp("w", weight)), activation="relu", thresholds=t)
        ),
        {"w": pack_trits(trits(weight))},
    )
    bench.check(module, [x, levels], opset)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_requantisation_follows(bench: Any, opset: int, known: bool, per_channel: bool) -> None:
    """Known multipliers go through float64, unknown ones through int64."""
    count = (5,) if per_channel else ()
    random = np.random.default_rng(1)
    multiplier = random.integers(2**30, 2**31 - 1, count).astype(np.int32)
    shift = random.integers(33, 38, count).astype(np.int32)
    stored = {
        "w": pack_trits(trits((40, 5))),
        "m": np.asarray(multiplier),
        "s": np.asarray(shift),
        "b": values(i32, (5,)) // 2**20,
        "z": np.array(-3, np.int8),
    }
    vector = TensorType(i32, count)

    def body(add: Any, x: Any, m: Any = None, s: Any = None) -> Any:
        if known:
            m, s = (add(tensor.ParameterOp(key, vector)) for key in "ms")
        return add(
            ternary.LinearOp(
                x,
                add(ternary.ParameterOp("w", [40, 5])),
                bias=add(tensor.ParameterOp("b", TensorType(i32, [5]))),
                activation="relu",
                multiplier=m,
                shift=s,
                zero_point=add(tensor.ParameterOp("z", TensorType(i8, []))),
                low=-128,
                high=127,
            )
        )

    types = [TensorType(i8, [ANY, 40]), *([] if known else [vector, vector])]
    inputs = [values(i8, (6, 40)), *([] if known else [stored["m"], stored["s"]])]
    data = bench.check(bench.build(types, body, stored), inputs, opset)
    assert (b"Floor" in data) == known


@pytest.mark.parametrize("element", (f16, f32, f64), ids=str)
@pytest.mark.parametrize("rule", ["fixed", "twn", "absmean"])
@pytest.mark.parametrize("scale", ["none", "tensor", "channel"])
def test_ternarize(bench: Any, opset: int, element: Attribute, rule: str, scale: str) -> None:
    threshold = 0.5 if rule == "fixed" else None
    module = bench.build(
        [TensorType(element, [ANY, 4])],
        lambda add, x: add(ternary.TernarizeOp(x, rule=rule, scale=scale, threshold=threshold)),
    )
    x = values(element, (20, 4))
    x[:, 2] = 0
    x[0, 0] = 0.5
    bench.check(module, [x], opset)
    bench.check(module, [np.zeros((2, 4), x.dtype)], opset)


def test_stochastic_ternarize_is_refused(bench: Any) -> None:
    module = bench.build(
        [TensorType(f32, [4])],
        lambda add, x: add(ternary.TernarizeOp(x, mode="stochastic", seed=1)),
    )
    with pytest.raises(UnsupportedError, match="stochastic"):
        bench.bytes_of(module)


@pytest.mark.parametrize("shape", [(1,), (3, 3), (2, 4), (5,)])
def test_pack_and_unpack(bench: Any, opset: int, shape: tuple[int, ...]) -> None:
    module = bench.build(
        [trit_tensor(*shape)],
        lambda add, t: [
            add(ternary.PackOp(t)),
            add(ternary.UnpackOp(add(ternary.PackOp(t)), shape)),
        ],
    )
    bench.check(module, [trits(shape)], opset)


@pytest.mark.parametrize("element", (f16, f32, f64), ids=str)
def test_dequantize(bench: Any, opset: int, element: Attribute) -> None:
    module = bench.build(
        [TensorType(element, [3]), TensorType(element, [])],
        lambda add, s, one: [
            add(ternary.DequantizeOp(w := add(ternary.ParameterOp("w", [3, 5])), s, axis=0)),
            add(ternary.DequantizeOp(w, one)),
            add(ternary.DequantizeOp(w)),
        ],
        {"w": pack_trits(trits((3, 5)))},
    )
    bench.check(module, [values(element, (3,)), values(element, (), 1)], opset)


@pytest.mark.parametrize("element", (f16, f32, f64, *INTEGERS, trit), ids=str)
def test_convert_trits(bench: Any, opset: int, element: Attribute) -> None:
    if element == trit:
        return
    module = bench.build(
        [TensorType(f32, [1])],
        lambda add, x: [x, add(tensor.ConvertOp(add(ternary.ParameterOp("w", [3, 5])), element))],
        {"w": pack_trits(trits((3, 5)))},
    )
    bench.check(module, [np.ones(1, "f")], opset)


@pytest.mark.parametrize("element", (f32, f64, *INTEGERS), ids=str)
@pytest.mark.parametrize("shift", [0, 9])
def test_adder_graph(bench: Any, opset: int, element: Attribute, shift: int) -> None:
    nodes = [(0, 1, -1, 0), (3, 2, 1, shift), (2, 2, -1, 0)]
    outputs = [(4, 1), (3, -1), (0, 0), (1, 1), (5, 1)]
    module = bench.build(
        [TensorType(element, [ANY, 3])],
        lambda add, x: add(ternary.AdderGraphOp(x, 3, nodes, outputs)),
    )
    bench.check(module, [values(element, (4, 3))], opset)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_linear_of_any_size(bench: Any, data: st.DataObject) -> None:
    draw = data.draw
    depth, width, batch = (
        draw(st.integers(1, 40)),
        draw(st.integers(1, 20)),
        draw(st.integers(0, 4)),
    )
    element = draw(st.sampled_from([f32, i8, i16, i32, i64, trit]))
    module = bench.build(
        [TensorType(element, [ANY, depth])],
        lambda add, x: add(ternary.LinearOp(x, add(ternary.ParameterOp("w", [depth, width])))),
        {"w": pack_trits(trits((depth, width), draw(st.integers(0, 99))))},
    )
    opset = draw(st.sampled_from([13, 15, 21]))
    bench.check(module, [values(element, (batch, depth))], opset, scale=4)


@pytest.mark.parametrize("width", [1, 3, 10, 16])
@pytest.mark.parametrize("depth", [5, 128, 200])
def test_the_fast_form_is_close_for_every_width(bench: Any, depth: int, width: int) -> None:
    module = bench.build(
        [TensorType(f32, [ANY, depth])],
        lambda add, x: add(
            ternary.LinearOp(
                x,
                add(ternary.ParameterOp("w", [depth, width])),
                scale=add(tensor.ParameterOp("s", TensorType(f32, [width]))),
                bias=add(tensor.ParameterOp("b", TensorType(f32, [width]))),
                activation="relu",
            )
        ),
        {
            "w": pack_trits(trits((depth, width))),
            "s": np.abs(values(f32, (width,))),
            "b": values(f32, (width,), 1),
        },
    )
    x = values(f32, (4, depth))
    exact, fast = (
        bench.run(bench.bytes_of(module, form=form), [x])[0] for form in ("exact", "fast")
    )
    assert np.abs(exact - fast).max() <= 0.02 * max(np.abs(exact).max(), depth**0.5)
    assert b"MatMulNBits" in bench.bytes_of(module, form="fast")


def test_the_fast_form_leaves_integers_exact(bench: Any) -> None:
    module = bench.build(
        [TensorType(i8, [ANY, 20])],
        lambda add, x: add(ternary.LinearOp(x, add(ternary.ParameterOp("w", [20, 3])))),
        {"w": pack_trits(trits((20, 3)))},
    )
    assert bench.bytes_of(module, form="fast") == bench.bytes_of(module)


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("element", (f16, f32, *INTEGERS), ids=str)
def test_any_batch_times_a_ternary_vector(
    bench: Any, opset: int, element: Attribute, batch: int
) -> None:
    types = [TensorType(element, (ANY, 7))]
    packed = {"w": pack_trits(trits((7,)))}
    module = bench.build(
        types, lambda add, x: add(ternary.MatmulOp(x, add(ternary.ParameterOp("w", (7,))))), packed
    )
    bench.check(module, [values(element, (batch, 7))], opset)


@pytest.mark.parametrize("element", (f16, f32, i8, i16), ids=str)
def test_weights_are_unpacked_when_the_model_is_loaded(
    bench: Any, opset: int, element: Attribute, tmp_path: Path
) -> None:
    types = [TensorType(element, (ANY, 64))]
    packed = {"w": pack_trits(trits((64, 32)))}
    module = bench.build(
        types,
        lambda add, x: add(ternary.MatmulOp(x, add(ternary.ParameterOp("w", (64, 32))))),
        packed,
    )
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "loaded.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(bench.bytes_of(module, opset=opset), options)
    left = {node.op_type for node in onnx.load(tmp_path / "loaded.onnx").graph.node}
    assert left.isdisjoint({"Gather", "Reshape", "Slice"})


def test_nodes_that_lead_nowhere_are_left_out(bench: Any) -> None:
    # Sums have 32 bits: the upper pieces of 64-bit operands are cut, but never multiplied.
    packed = {"w": pack_trits(trits((3, 4, 3, 3)))}
    module = bench.build(
        [TensorType(i64, (ANY, 4, 5, 5))],
        lambda add, x: add(ternary.ConvOp(x, add(ternary.ParameterOp("w", (3, 4, 3, 3))))),
        packed,
    )
    graph = onnx.load_from_string(bench.bytes_of(module)).graph
    read = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    assert all(read.intersection(node.output) for node in graph.node)
    assert read >= {value.name for value in graph.initializer}
