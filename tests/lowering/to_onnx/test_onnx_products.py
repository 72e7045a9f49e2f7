"""Dense products, convolution and attention: the interpreter beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from triton_dsl.dialects import tensor
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.engines import open_session, run_session

Array = np.ndarray[Any, Any]
ANY = DYNAMIC
INTEGERS = (i8, i16, i32, i64)


def values(element: Attribute, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Random numbers; integers over their whole range, first the least."""
    random = np.random.default_rng(seed)
    dtype = numpy_dtype(element)
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        array = random.integers(info.min, info.max, shape, dtype, endpoint=True)
        array.reshape(-1)[: array.size // 3] = info.min
        return array
    return random.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("element", (f16, f32, f64, *INTEGERS), ids=str)
@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (6, 4, 2)),
    ],
)
def test_matmul(
    bench: Any, opset: int, lhs: tuple[int, ...], rhs: tuple[int, ...], element: Attribute
) -> None:
    types = [TensorType(element, lhs), TensorType(element, rhs)]
    module = bench.build(types, lambda add, x, y: add(tensor.MatmulOp(x, y)))
    bench.check(module, [values(element, lhs), values(element, rhs, 1)], opset, scale=5)


@pytest.mark.parametrize("batch", [1, 5, 0])
@pytest.mark.parametrize("element", (f32, f64, i8, i32), ids=str)
def test_linear(bench: Any, opset: int, element: Attribute, batch: int) -> None:
    types = [TensorType(element, s) for s in ([ANY, 6], [6, 3], [3])]
    module = bench.build(
        types,
        lambda add, x, w, b: [add(tensor.LinearOp(x, w, b)), add(tensor.LinearOp(x, w))],
    )
    shapes = ((batch, 6), (6, 3), (3,))
    bench.check(module, [values(element, s, i) for i, s in enumerate(shapes)], opset)


@pytest.mark.parametrize("element", (f32, f16, *INTEGERS), ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv(bench: Any, opset: int, element: Attribute, groups: int) -> None:
    shapes = ((2, 4, 6, 5), (6, 4 // groups, 3, 2), (6,))
    types = [TensorType(element, [ANY, 4, 6, 5]), *(TensorType(element, s) for s in shapes[1:])]
    module = bench.build(
        types,
        lambda add, x, w, b: [
            add(tensor.ConvOp(x, w, b, padding=(1, 0, 2, 1), groups=groups)),
            add(tensor.ConvOp(x, w, strides=(2, 1), dilation=(2, 3), groups=groups)),
        ],
    )
    inputs = [values(element, s, i) for i, s in enumerate(shapes)]
    bench.check(module, inputs, opset, scale=4)


def test_conv_in_one_dimension(bench: Any, opset: int) -> None:
    types = [TensorType(f32, [ANY, 3, 9]), TensorType(f32, [4, 3, 3])]
    module = bench.build(
        types,
        lambda add, x, w: add(
            tensor.ConvOp(x, w, strides=[2], padding=[1, 2], dilation=[2], groups=1)
        ),
    )
    bench.check(module, [values(f32, (2, 3, 9)), values(f32, (4, 3, 3), 1)], opset)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_integer_conv_of_any_size_is_exact(bench: Any, data: st.DataObject) -> None:
    draw = data.draw
    element = draw(st.sampled_from(INTEGERS))
    groups, channels, outputs = (draw(st.integers(1, n)) for n in (2, 3, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(2)]
    size = [k + draw(st.integers(0, 3)) for k in kernel]
    shapes = ((1, groups * channels, *size), (groups * outputs, channels, *kernel))
    module = bench.build(
        [TensorType(element, s) for s in shapes],
        lambda add, x, w: add(tensor.ConvOp(x, w, groups=groups)),
    )
    seed = draw(st.integers(0, 1000))
    bench.check(module, [values(element, s, seed) for s in shapes], draw(st.sampled_from([13, 21])))


def test_integer_conv_with_too_many_terms_is_refused(bench: Any) -> None:
    types = [TensorType(i32, [1, 1 << 23, 1, 1]), TensorType(i32, [1, 1 << 23, 1, 1])]
    module = bench.build(types, lambda add, x, w: add(tensor.ConvOp(x, w)))
    with pytest.raises(UnsupportedError, match="8388608 integer products"):
        bench.bytes_of(module)


@pytest.mark.parametrize("element", (f32, f64, i8, i32), ids=str)
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
        ("ij->ji", ((3, 4),)),
        ("ij,j,k->ik", ((3, 4), (4,), (2,))),
        ("ij,ij->", ((3, 4), (3, 4))),
    ],
)
def test_einsum(
    bench: Any, opset: int, equation: str, shapes: tuple[tuple[int, ...], ...], element: Attribute
) -> None:
    types = [TensorType(element, shape) for shape in shapes]
    module = bench.build(types, lambda add, *x: add(tensor.EinsumOp(x, equation)))
    bench.check(module, [values(element, s, i) for i, s in enumerate(shapes)], opset, scale=4)


@pytest.mark.parametrize("element", (f16, f32, f64), ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, i1, "float"])
def test_attention(
    bench: Any, opset: int, element: Attribute, causal: bool, mask: Attribute | str | None
) -> None:
    types = [TensorType(element, [ANY, 2, ANY, 8]), *[TensorType(element, [ANY, 2, ANY, 8])] * 2]
    inputs = [values(element, (3, 2, 5, 8)), *(values(element, (3, 2, 6, 8), i) for i in (1, 2))]
    if mask is not None:
        kind = element if isinstance(mask, str) else mask
        types.append(TensorType(kind, [5, 6]))
        keep = np.random.default_rng(0).random((5, 6)) < 0.7
        keep[:, 0] = True
        inputs.append(keep if kind == i1 else np.where(keep, 0, -2).astype(numpy_dtype(kind)))
    module = bench.build(
        types,
        lambda add, *x: add(tensor.ScaledDotProductAttentionOp(*x, is_causal=causal, scale=0.4)),
    )
    # ONNX Runtime fuses the scale into its product as float32, in float64 too.
    bench.check(module, inputs, opset, scale=1e6 if element == f64 else 1)


def test_attention_scales_by_the_query_size(bench: Any, opset: int) -> None:
    type = TensorType(f32, [4, 8])
    module = bench.build([type] * 3, lambda add, *x: add(tensor.ScaledDotProductAttentionOp(*x)))
    bench.check(module, [values(f32, (4, 8), i) for i in range(3)], opset)


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("element", [f32, i32], ids=str)
def test_any_batch_times_a_vector(bench: Any, opset: int, element: Attribute, batch: int) -> None:
    types = [TensorType(element, (DYNAMIC, 4)), TensorType(element, (4,))]
    module = bench.build(types, lambda add, x, w: add(tensor.MatmulOp(x, w)))
    x = np.arange(4 * batch).reshape(batch, 4)
    dtype = np.float32 if element == f32 else np.int32
    bench.check(module, [x.astype(dtype), np.array([1, -2, 3, 5], dtype)], opset)


@pytest.mark.parametrize(
    ("most", "stored"),
    [
        (127, onnx.TensorProto.INT8),
        (255, onnx.TensorProto.INT16),
        (1 << 20, onnx.TensorProto.INT32),
    ],
)
def test_whole_weights_take_no_more_room_than_they_need(bench: Any, most: int, stored: int) -> None:
    weight = np.random.default_rng(most).integers(-100, most + 1, (32, 16)).astype(np.int32)
    weight[0, 0] = most
    type = TensorType(i32, (DYNAMIC, 32))

    def body(add: Any, x: Any) -> Any:
        w = add(tensor.ParameterOp("w", TensorType(i32, weight.shape)))
        return add(tensor.MatmulOp(x, w))

    module = bench.build([type], body, {"w": weight})
    (data,) = compile_to_target(module, "onnx").files.values()
    (w,) = (i for i in onnx.load_from_string(data).graph.initializer if i.name == "w")
    assert w.data_type == stored
    x = np.random.default_rng(1).integers(-9, 9, (3, 32)).astype(np.int32)
    (got,) = run_session(open_session(data), [x])
    np.testing.assert_array_equal(got, x @ weight)


@pytest.mark.parametrize("weights", ["always", "safe", "asked"])
@pytest.mark.parametrize("least", [-128, -127])
def test_widened_bytes_meet_a_kernel_for_bytes(weights: str, least: int) -> None:
    """Kernels for INT32 take ten times as long.

    Where those for bytes are asked for always, they saturate without VNNI: inputs are small then.
    """
    text = """
func.func @forward(%x: tensor<?x3x40xi8>) -> (tensor<?x3x9xi32>, tensor<?x3x9xi32>) {
  %v = tensor.convert %x : (tensor<?x3x40xi8>) -> tensor<?x3x40xi32>
  %w = tensor.parameter "w" : tensor<40x9xi32>
  %b = tensor.parameter "b" : tensor<9xi32>
  %y = tensor.linear %v, %w, %b
       : (tensor<?x3x40xi32>, tensor<40x9xi32>, tensor<9xi32>) -> tensor<?x3x9xi32>
  %z = tensor.matmul %v, %w : (tensor<?x3x40xi32>, tensor<40x9xi32>) -> tensor<?x3x9xi32>
  func.return %y, %z : tensor<?x3x9xi32>, tensor<?x3x9xi32>
}
"""
    module = parse_module(text)
    random = np.random.default_rng(0)
    w = random.choice([least, 127], (40, 9)).astype(np.int32)
    b = random.integers(-(1 << 20), 1 << 20, 9).astype(np.int32)
    attach_store(module, ParameterStore.of({"w": w, "b": b}))
    always = weights == "always"
    options: dict[str, Any] = {"int8_weights": weights, "self_check": not always}
    (data,) = compile_to_target(module, "onnx", options).files.values()
    kinds = [node.op_type for node in onnx.load_from_string(data).graph.node]
    assert "MatMul" not in kinds
    x = random.choice([-128, -1 if always else 127], (5, 3, 40)).astype(np.int8)
    y, z = run_session(open_session(data), [x])
    wanted = x.astype(np.int64) @ w
    np.testing.assert_array_equal(z, wanted)
    np.testing.assert_array_equal(y, wanted + b)


@pytest.mark.parametrize(("terms", "floats"), [(500, True), (1100, False)])
def test_products_of_two_activations_are_floats_where_these_are_exact(
    terms: int, floats: bool
) -> None:
    text = f"""
func.func @forward(%x: tensor<?x2x{terms}xi8>, %y: tensor<?x{terms}x3xi8>) -> tensor<?x2x3xi32> {{
  %v = tensor.convert %x : (tensor<?x2x{terms}xi8>) -> tensor<?x2x{terms}xi32>
  %w = tensor.convert %y : (tensor<?x{terms}x3xi8>) -> tensor<?x{terms}x3xi32>
  %z = tensor.matmul %v, %w
       : (tensor<?x2x{terms}xi32>, tensor<?x{terms}x3xi32>) -> tensor<?x2x3xi32>
  func.return %z : tensor<?x2x3xi32>
}}
"""
    artifact = compile_to_target(parse_module(text), "onnx", {})
    (data,) = artifact.files.values()
    graph = onnx.load_from_string(data).graph
    types = {
        o.name: o.type.tensor_type.elem_type
        for o in onnx.shape_inference.infer_shapes(onnx.load_from_string(data)).graph.value_info
    }
    (product,) = (node for node in graph.node if node.op_type == "MatMul")
    assert (types.get(product.output[0]) == onnx.TensorProto.FLOAT) == floats
    x, y = np.full((4, 2, terms), -128, np.int8), np.full((4, terms, 3), -128, np.int8)
    y[:, 0] = 127
    (z,) = run_session(open_session(data), [x, y])
    np.testing.assert_array_equal(z, x.astype(np.int64) @ y)
