"""Layers of bytes leave for ONNX in a few operators, bit for bit the kernels of LiteRT."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_tflite.graph import Element, Graph
from triton_dsl.runtime.engines import open_session, run_session

FOLDER = Path(__file__).resolve().parent / "converted"
INT8 = Element.INT8
SCALE = st.floats(0.005, 0.1)
ZERO = st.integers(-128, 127)


Rounding = Literal["reference", "xnnpack"]
ROUNDINGS: list[Rounding] = ["reference", "xnnpack"]


def exported(data: bytes, rounding: Rounding = "reference") -> bytes:
    """The ONNX file of a TFLite file."""
    (made,) = compile_to_target(from_tflite(data, rounding=rounding), "onnx").files.values()
    return made


def agrees(
    bench: Any, data: bytes, inputs: list[Any], most: int, rounding: Rounding = "reference"
) -> Counter[str]:
    """Compare with LiteRT; the operators of the file, of which there are at most `most`."""
    file = exported(data, rounding)
    (want,) = bench.litert(data, inputs, reference=rounding == "reference")
    (got,) = run_session(open_session(file), inputs)
    np.testing.assert_array_equal(got, want)
    kinds = Counter(node.op_type for node in onnx.load_from_string(file).graph.node)
    assert kinds.total() <= most
    return kinds


def as_run(file: bytes, folder: Path) -> Counter[str]:
    """The operators that ONNX Runtime makes of a file."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.optimized_model_filepath = str(folder / "run.onnx")
    ort.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "run.onnx").graph.node)


@settings(
    max_examples=5,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"]),
    SCALE, SCALE, ZERO, ZERO, st.sampled_from([0, 1, 3]), st.integers(0, 2**32 - 1),
    st.sampled_from(ROUNDINGS),
)  # fmt: skip
def test_products(
    bench: Any, op: str, x_scale: float, y_scale: float, x_zero: int, y_zero: int, activation: int,
    seed: int, rounding: Rounding,
) -> None:  # fmt: skip
    random = np.random.default_rng(seed)
    depth, channels = int(random.integers(1, 9)), int(random.integers(1, 9))
    if op == "DEPTHWISE_CONV_2D":
        channels = depth
    shapes = {"CONV_2D": (channels, 3, 3, depth), "DEPTHWISE_CONV_2D": (1, 3, 3, depth)}
    shape = shapes.get(op, (channels, depth))
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    scales = 0.01 * random.uniform(0.5, 2, channels)
    levels = random.integers(-127, 128, shape)
    weight = bench.constant(levels.astype(np.int8), INT8, bench.grid(scales, 0, axis))
    bias = random.integers(-2000, 2000, channels).astype(np.int32)
    added = bench.constant(bias, Element.INT32, bench.grid(scales * np.float32(x_scale)))
    image = op != "FULLY_CONNECTED"
    sizes = (2, 9, 9, depth) if image else (40, depth)
    x = bench.tensor("x", sizes, INT8, bench.grid(x_scale, x_zero))
    result = (2, 9, 9, channels) if image else (40, channels)
    y = bench.tensor("y", result, INT8, bench.grid(y_scale, y_zero))
    window = {"padding": 0, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
    options = window if image else {"keepNumDims": False}
    if op == "DEPTHWISE_CONV_2D":
        options = {**options, "depthMultiplier": 1}
    options = {**options, "fusedActivationFunction": activation}
    data = bench.one_operator(op, [x, weight, added], [y], options)
    values = random.integers(-128, 128, sizes).astype(np.int8)
    values.flat[: values.size // 3] = 127
    values.flat[values.size // 3 : values.size // 2] = -128
    agrees(bench, data, [values], 40 if rounding == "reference" else 14, rounding)


@settings(
    max_examples=5,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(["ADD", "SUB"]), SCALE, SCALE, SCALE, ZERO, ZERO, ZERO,
    st.sampled_from([0, 1, 3]), st.sampled_from(ROUNDINGS),
)  # fmt: skip
def test_sums_of_any_two_bytes(
    bench: Any,
    op: str,
    a: float,
    b: float,
    c: float,
    za: int,
    zb: int,
    zc: int,
    activation: int,
    rounding: Rounding,
) -> None:
    grids = [bench.grid(s, z) for s, z in ((a, za), (b, zb), (c, zc))]
    x, y, z = (bench.tensor(n, (256, 256), INT8, g) for n, g in zip("xyz", grids, strict=True))
    data = bench.one_operator(op, [x, y], [z], {"fusedActivationFunction": activation})
    values = [v.astype(np.int8).copy() for v in np.mgrid[-128:128, -128:128]]
    agrees(bench, data, values, 60, rounding)


@pytest.mark.parametrize(
    ("name", "rounding", "most"),
    [
        ("resnet.int8", "reference", 119),
        ("resnet.int8", "xnnpack", 39),
        ("mobilenet.int8", "reference", 43),
        ("mobilenet.int8", "xnnpack", 23),
        ("autoencoder.int8-one-scale", "reference", 14),
        ("autoencoder.int8-one-scale", "xnnpack", 14),
    ],
)
def test_networks(bench: Any, name: str, rounding: Rounding, most: int) -> None:
    data = (FOLDER / f"{name}.tflite").read_bytes()
    (port,) = from_tflite(data).body.block.first_op.body.block.args  # type: ignore[union-attr]
    shape = tuple(max(size, 1) for size in port.type.get_shape())
    values = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    kinds = agrees(bench, data, [values], most, rounding)
    integer = kinds["QLinearConv"] + kinds["int8.conv"]
    assert integer + kinds["Conv"] + kinds["Gemm"] >= 6
    assert rounding == "reference" or integer >= 6
    initializers = onnx.load_from_string(exported(data)).graph.initializer
    weights = [i for i in initializers if list(i.dims) != [256]]  # but for a table of softmax
    large = [i for i in weights if np.prod(i.dims) > 64]
    assert large and all(i.data_type in (2, 3) for i in large)


@pytest.mark.parametrize(
    ("name", "most"),
    [("resnet.int8", 31), ("mobilenet.int8", 16), ("autoencoder.int8-one-scale", 12)],
)
def test_nothing_is_transposed(name: str, most: int, tmp_path: Path) -> None:
    """Layouts of images, packed pixels and rows are what the runtime's kernels have."""
    kinds = as_run(exported((FOLDER / f"{name}.tflite").read_bytes(), "xnnpack"), tmp_path)
    assert kinds["Transpose"] == 0
    assert kinds.total() <= most


@pytest.mark.parametrize(
    ("op", "rounding", "scale", "kind"),
    [
        ("AVERAGE_POOL_2D", "reference", 0.05, "QLinearConv"),
        ("AVERAGE_POOL_2D", "xnnpack", 0.05, "QLinearConv"),
        ("MEAN", "reference", 0.0213377, "ReduceSum"),
        ("MEAN", "xnnpack", 0.0213377, "ReduceSum"),
        ("MEAN", "xnnpack", 0.02, "ReduceSum"),  # quotients that lie on halves
    ],
)
def test_means_of_images(bench: Any, op: str, rounding: Rounding, scale: float, kind: str) -> None:
    """Sums of all sizes, those that lie on a half among them."""
    where, to = bench.grid(0.05, 3), bench.grid(scale, -7)
    to = where if op == "AVERAGE_POOL_2D" else to
    x = bench.tensor("x", (1, 4, 6, 3000), INT8, where)
    random = np.random.default_rng(3)
    middle = np.linspace(-150, 150, 3000)
    values = np.clip(np.rint(middle + random.normal(0, 30, x.shape)), -128, 127).astype(np.int8)
    if op == "MEAN":
        more, options = [bench.constant(np.array([1, 2], np.int32))], {"keepDims": False}
        y = bench.tensor("y", (1, 3000), INT8, to)
    else:
        more, y = [], bench.tensor("y", (1, 1, 1, 3000), INT8, to)
        options = {"padding": 1, "strideW": 1, "strideH": 1, "filterWidth": 6, "filterHeight": 4,
                   "fusedActivationFunction": 0}  # fmt: skip
    kinds = agrees(bench, bench.one_operator(op, [x, *more], [y], options), [values], 14, rounding)
    assert kinds[kind] == 1


def test_products_of_any_two_bytes(bench: Any) -> None:
    grids = [bench.grid(s, z) for s, z in ((0.03, -11), (0.05, 127), (0.31, 4))]
    x, y, z = (bench.tensor(n, (256, 256), INT8, g) for n, g in zip("xyz", grids, strict=True))
    data = bench.one_operator("MUL", [x, y], [z], {"fusedActivationFunction": 1})
    values = [v.astype(np.int8).copy() for v in np.mgrid[-128:128, -128:128]]
    agrees(bench, data, values, 16, "xnnpack")


def test_means_of_windows(bench: Any) -> None:
    """Sums of 0 to 6 bytes beside halves: windows of ones are a convolution."""
    here = bench.grid(0.05, 3)
    x, y = bench.tensor("x", (2, 7, 8, 5), INT8, here), bench.tensor("y", (2, 3, 3, 5), INT8, here)
    options = {"padding": 1, "strideW": 2, "strideH": 2, "filterWidth": 3, "filterHeight": 2,
               "fusedActivationFunction": 1}  # fmt: skip
    values = np.random.default_rng(1).integers(-128, 128, x.shape).astype(np.int8)
    data = bench.one_operator("AVERAGE_POOL_2D", [x], [y], options)
    assert agrees(bench, data, [values], 12)["QLinearConv"] == 1


def test_bytes_stay_bytes_between_layers(bench: Any) -> None:
    """MAX_POOL_2D and CONCATENATION between convolutions have no casts beside them."""
    here, graph = bench.grid(0.05, 9), Graph()
    random = np.random.default_rng(5)
    x = bench.tensor("x", (1, 8, 8, 3), INT8, here)
    y = bench.tensor("y", (1, 4, 4, 8), INT8, bench.grid(0.4, -3))
    window = {"padding": 0, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1,
              "fusedActivationFunction": 0}  # fmt: skip
    pool = {"padding": 1, "strideW": 2, "strideH": 2, "filterWidth": 2, "filterHeight": 2,
            "fusedActivationFunction": 0}  # fmt: skip

    def conv(source: Any, result: Any) -> None:
        shape = (result.shape[3], 3, 3, source.shape[3])
        levels = random.integers(-127, 128, shape).astype(np.int8)
        how = bench.grid(0.01 * random.uniform(0.5, 2, shape[0]))
        real = bench.grid(how.scale * np.float32(0.05))
        bias = bench.constant(np.zeros(shape[0], np.int32), Element.INT32, real)
        graph.add("CONV_2D", [source, bench.constant(levels, INT8, how), bias], [result], window)

    parts = [bench.tensor(name, (1, 8, 8, 4), INT8, here) for name in "ab"]
    half = [bench.tensor(name, (1, 4, 4, 4), INT8, here) for name in "cd"]
    both = bench.tensor("both", (1, 4, 4, 8), INT8, here)
    graph.inputs, graph.outputs = [x], [y]
    for part, small in zip(parts, half, strict=True):
        conv(x, part)
        graph.add("MAX_POOL_2D", [part], [small], pool)
    graph.add("CONCATENATION", half, [both], {"axis": 3, "fusedActivationFunction": 0})
    wide, turned = (bench.tensor(name, (1, 4, 4, 11), INT8, here) for name in ("wide", "turned"))
    sizes = bench.constant(np.array([[0, 0], [0, 0], [0, 0], [1, 2]], np.int32))
    graph.add("PAD", [both, sizes], [wide], {})
    graph.add("HARD_SWISH", [wide], [turned], {})
    conv(turned, y)
    values = random.integers(-128, 128, x.shape).astype(np.int8)
    kinds = agrees(bench, bench.file_of(graph), [values], 27, "xnnpack")
    assert kinds.total() - kinds["Transpose"] - kinds["Reshape"] <= 15
    assert kinds["Cast"] <= 4  # of the argument, of places in the table, and of the result


@pytest.mark.parametrize("apart", [True, False])
def test_channels_come_in_multiples(bench: Any, apart: bool) -> None:
    """Of 4 in front of a convolution and of 16 behind, in chains that nobody else reads.

    Channels of the image lie apart, or together.
    """
    graph, random = Graph(), np.random.default_rng(5)
    here = bench.grid(0.05, -9)
    window = {"padding": 0, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1,
              "fusedActivationFunction": 1}  # fmt: skip

    def layer(kind: str, source: Any, channels: int, size: int) -> Any:
        deep = kind == "DEPTHWISE_CONV_2D"
        shape = (1, size, size, channels) if deep else (channels, size, size, source.shape[3])
        how = bench.grid(0.01 * random.uniform(0.5, 2, channels), 0, 3 if deep else 0)
        levels = random.integers(-60, 61, shape).astype(np.int8)
        bias = random.integers(-900, 900, channels).astype(np.int32)
        real = bench.grid(how.scale * np.float32(0.05))
        result = bench.tensor(f"y{len(graph.operators)}", (2, 6, 7, channels), INT8, here)
        stored = [bench.constant(levels, INT8, how), bench.constant(bias, Element.INT32, real)]
        options = {**window, "depthMultiplier": 1} if deep else window
        graph.add(kind, [source, *stored], [result], options)
        return result

    first = bench.tensor("x", (2, 3, 6, 7) if apart else (2, 6, 7, 3), INT8, here)
    x = bench.tensor("last", (2, 6, 7, 3), INT8, here) if apart else first
    graph.inputs = [first]
    if apart:
        graph.add("TRANSPOSE", [first, bench.constant(np.array([0, 2, 3, 1], np.int32))], [x], {})
    a = layer("CONV_2D", x, 8, 3)
    b = layer("DEPTHWISE_CONV_2D", a, 8, 3)
    c = layer("CONV_2D", b, 24, 1)
    d = layer("DEPTHWISE_CONV_2D", c, 24, 5)
    e = layer("CONV_2D", d, 5, 1)
    graph.outputs = [e, layer("CONV_2D", d, 20, 3), layer("CONV_2D", e, 16, 3)]
    data = bench.file_of(graph)
    values = random.integers(-128, 128, first.shape).astype(np.int8)
    file = exported(data, "xnnpack")
    for want, got in zip(bench.litert(data, [values], reference=False),
                         run_session(open_session(file), [values]), strict=True):  # fmt: skip
        np.testing.assert_array_equal(got, want)
    made = onnx.load_from_string(file).graph
    assert weights_of(file) == [
        (16, 4, 3, 3), (16, 1, 3, 3), (32, 16, 1, 1), (32, 1, 5, 5), (5, 32, 1, 1), (20, 32, 3, 3),
        (16, 5, 3, 3),
    ]  # fmt: skip
    kinds = Counter(node.op_type for node in made.node)
    assert (kinds["Pad"], kinds["MatMul"]) == ((1, 0) if apart else (0, 1))


WINDOW = {"dilationWFactor": 1, "dilationHFactor": 1}


def stacked(bench: Any, random: Any, sizes: tuple[int, ...], layers: list[tuple[Any, ...]]) -> Any:
    """The file of convolutions (kind, channels, rows and columns, strides, padding) on a tensor."""
    graph, here = Graph(), bench.grid(0.05, int(random.integers(-128, 128)))
    x = bench.tensor("x", sizes, INT8, here)
    graph.inputs = [x]
    for index, (kind, channels, kernel, strides, valid) in enumerate(layers):
        deep = kind == "DEPTHWISE_CONV_2D"
        shape = (1, *kernel, channels) if deep else (channels, *kernel, x.shape[3])
        how = bench.grid(0.01 * random.uniform(0.5, 2, channels), 0, 3 if deep else 0)
        levels = bench.constant(random.integers(-127, 128, shape).astype(np.int8), INT8, how)
        bias = random.integers(-900, 900, channels).astype(np.int32)
        real = bench.constant(bias, Element.INT32, bench.grid(how.scale * np.float32(0.05)))
        taken = [(k - 1) * valid for k in kernel]
        image = [-(-(n - k) // s) for n, k, s in zip(x.shape[1:3], taken, strides, strict=True)]
        y = bench.tensor(f"y{index}", (sizes[0], *image, channels), INT8, bench.grid(0.05, -70))
        options = {**WINDOW, "padding": valid, "strideH": strides[0], "strideW": strides[1],
                   "fusedActivationFunction": index % 2}  # fmt: skip
        options |= {"depthMultiplier": 1} if deep else {}
        graph.add(kind, [x, levels, real], [y], options)
        x = y
    graph.outputs = [x]
    return bench.file_of(graph)


def weights_of(file: bytes) -> list[tuple[int, ...]]:
    """The shapes of the weights of QLinearConv."""
    made = onnx.load_from_string(file).graph
    dims = {stored.name: tuple(stored.dims) for stored in made.initializer}
    convs = [node for node in made.node if node.op_type == "QLinearConv"]
    return [dims[node.input[3]] for node in convs]


@settings(
    max_examples=12,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(ROUNDINGS), st.integers(1, 4), st.sampled_from([4, 8, 16, 24]),
    st.tuples(st.integers(1, 5), st.integers(2, 6)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([8, 12, 16, 24, 48]), st.booleans(), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_pixels_side_by_side_are_channels(
    bench: Any, rounding: Rounding, depth: int, channels: int, kernel: tuple[int, int],
    strides: tuple[int, int], width: int, deep: bool, seed: int,
) -> None:  # fmt: skip
    """Windows of all sizes, strides and pads, on images of few channels, bit for bit LiteRT."""
    random = np.random.default_rng(seed)
    layers: list[tuple[Any, ...]] = [("CONV_2D", channels, kernel, strides, 0)]
    if deep:
        layers.append(("DEPTHWISE_CONV_2D", channels, (3, 3), (1, 1), 0))
    data = stacked(bench, random, (2, 9, width, depth), layers)
    values = random.integers(-128, 128, (2, 9, width, depth)).astype(np.int8)
    agrees(bench, data, [values], 80, rounding)


@pytest.mark.parametrize(
    ("depth", "first", "strides", "want"),
    [
        (3, (8, (3, 3)), (2, 2), [(16, 12, 3, 2), (16, 16, 3, 3), (16, 8, 1, 1)]),
        (3, (16, (3, 3)), (2, 2), [(32, 12, 3, 2), (16, 1, 3, 3), (16, 16, 1, 1)]),
        (1, (16, (3, 3)), (1, 1), [(64, 4, 3, 3), (16, 1, 3, 3), (16, 16, 1, 1)]),
        # The file would grow, no whole vectors for what reads it, and too many products.
        (3, (16, (3, 3)), (1, 1), [(16, 4, 3, 3), (16, 1, 3, 3), (16, 16, 1, 1)]),
        (3, (12, (3, 3)), (1, 1), [(16, 4, 3, 3), (16, 1, 3, 3), (16, 16, 1, 1)]),
        (3, (32, (3, 3)), (1, 1), [(32, 4, 3, 3), (32, 1, 3, 3), (16, 32, 1, 1)]),
    ],
)
def test_where_pixels_are_packed(
    bench: Any, depth: int, first: tuple[int, tuple[int, int]], strides: tuple[int, int],
    want: list[tuple[int, ...]],
) -> None:  # fmt: skip
    channels, kernel = first
    layers = [
        ("CONV_2D", channels, kernel, strides, 0),
        ("DEPTHWISE_CONV_2D", channels, (3, 3), (1, 1), 0),
        ("CONV_2D", 16, (1, 1), (1, 1), 0),
    ]
    random = np.random.default_rng(1)
    data = stacked(bench, random, (1, 16, 16, depth), layers)
    found = compile_to_target(
        from_tflite(data, rounding="xnnpack"), "onnx", {"int8_weights": "always"}
    )
    (file,) = found.files.values()
    assert weights_of(file) == want
    values = random.integers(-128, 128, (1, 16, 16, depth)).astype(np.int8)
    agrees(bench, data, [values], 60, "xnnpack")


@pytest.mark.parametrize(
    ("pairs", "joined"),
    [
        (((0.0312871, -11), (0.0471093, 5), (0.0523317, -128)), 1),
        # Those that ONNX Runtime's own sum would round otherwise.
        (((0.0331919879969977, 17), (0.051820462997811595, 119), (0.08569873906300601, 111)), 0),
    ],
)
def test_sums_of_tensors_become_one_kernel(
    bench: Any, pairs: Any, joined: int, tmp_path: Path
) -> None:
    """Two DequantizeLinear, one Add and QuantizeLinear are one operator in ONNX Runtime."""
    grids = [bench.grid(s, z) for s, z in pairs]
    x, y, z = (bench.tensor(n, (256, 256), INT8, g) for n, g in zip("xyz", grids, strict=True))
    data = bench.one_operator("ADD", [x, y], [z], {"fusedActivationFunction": 0})
    values = [v.astype(np.int8).copy() for v in np.mgrid[-128:128, -128:128]]
    kinds = agrees(bench, data, values, 14, "xnnpack")
    assert kinds["DequantizeLinear"] == 3  # of the result, too
    assert (kinds["Mul"], kinds["Add"]) == (0, joined)
    assert as_run(exported(data, "xnnpack"), tmp_path)["QLinearAdd"] == joined


def test_pads_are_those_of_the_convolution(bench: Any) -> None:
    """PAD with the zero point before CONV_2D, as converters of PyTorch write it."""
    here = bench.grid(0.05, 9)
    x, same = (bench.tensor(name, (1, 6, 7, 2), INT8, here) for name in "xs")
    wide = bench.tensor("w", (1, 9, 8, 2), INT8, here)
    y = bench.tensor("y", (1, 4, 3, 5), INT8, bench.grid(0.4, -3))
    random = np.random.default_rng(5)
    levels = random.integers(-127, 128, (5, 3, 3, 2)).astype(np.int8)
    how = bench.grid(0.01 * random.uniform(0.5, 2, 5))
    bias = bench.constant(np.zeros(5, np.int32), Element.INT32, bench.grid(how.scale * 0.05))
    graph = Graph()
    graph.inputs, graph.outputs = [x], [y]
    sizes = bench.constant(np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32))
    once = {"padding": 1, "strideW": 1, "strideH": 1, "filterWidth": 1, "filterHeight": 1,
            "fusedActivationFunction": 0}  # fmt: skip
    graph.add("MAX_POOL_2D", [x], [same], once)
    graph.add("PAD", [same, sizes], [wide], {})
    graph.add(
        "CONV_2D", [wide, bench.constant(levels, INT8, how), bias], [y],
        {"padding": 1, "strideW": 2, "strideH": 2, "dilationWFactor": 1, "dilationHFactor": 1,
         "fusedActivationFunction": 0},
    )  # fmt: skip
    values = random.integers(-128, 128, x.shape).astype(np.int8)
    kinds = agrees(bench, bench.file_of(graph), [values], 10, "xnnpack")
    assert kinds["Pad"] == 0
    assert kinds["QLinearConv"] + kinds["int8.conv"] == 1


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_channels_of_one_result_are_a_bias(bench: Any, kind: str) -> None:
    """Channels that training switched off: scales beside 0, for which LiteRT's multiplier is 0, and
    biases as large as i32; the others keep their operators.
    """
    here, random = bench.grid(0.05, -128), np.random.default_rng(4)
    scales = np.array([1e-10, 3e-9, 0.01, 1e-12, 0.004, 2e-8, 0.01, 0.02], np.float32)
    most = 2**31 - 400_000
    bias = np.array([-most, most, 300, most, -700, 2**30 + 5, -(2**27), 0], np.int32)
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    x = bench.tensor("x", (1, 5, 5, 8), INT8, here)
    y = bench.tensor("y", (1, 5, 5, 8), INT8, bench.grid(0.1, -128))
    levels = random.integers(-30, 31, (1 if axis else 8, 3, 3, 8)).astype(np.int8)
    stored = [
        bench.constant(levels, INT8, bench.grid(scales, 0, axis)),
        bench.constant(bias, Element.INT32, bench.grid(scales * np.float32(0.05))),
    ]
    options = {**WINDOW, "padding": 0, "strideW": 1, "strideH": 1, "fusedActivationFunction": 1}
    options |= {"depthMultiplier": 1} if axis else {}
    data = bench.one_operator(kind, [x, *stored], [y], options)
    values = random.integers(-128, 128, x.shape).astype(np.int8)
    agrees(bench, data, [values], 15)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_softmax_of_any_two_bytes_is_a_table(bench: Any, rounding: Rounding) -> None:
    grids = [bench.grid(0.037, 3), bench.grid(1 / 256, -128)]
    x, y = (bench.tensor(n, (65536, 2), INT8, g) for n, g in zip("xy", grids, strict=True))
    values = np.mgrid[-128:128, -128:128].reshape(2, -1).T.astype(np.int8)
    data = bench.one_operator("SOFTMAX", [x], [y], {"beta": 1.0})
    agrees(bench, data, [values], 10, rounding)


def test_int8_weights_always(bench: Any) -> None:
    """Exact by the standard's own reference, whatever the processor at hand does."""
    from onnx.reference import ReferenceEvaluator

    data = (FOLDER / "autoencoder.int8-one-scale.tflite").read_bytes()
    module = from_tflite(data, rounding="xnnpack")
    (safe,), (made,) = (
        compile_to_target(
            module.clone(), "onnx", {"int8_weights": name, "self_check": False}
        ).files.values()
        for name in ("safe", "always")
    )
    types = [
        Counter(
            stored.data_type
            for stored in onnx.load_from_string(file).graph.initializer
            if np.prod(stored.dims) > 64
        )
        for file in (safe, made)
    ]
    assert types[0][onnx.TensorProto.UINT8] > 0
    assert types[1][onnx.TensorProto.UINT8] == 0
    assert types[1][onnx.TensorProto.INT8] >= 6
    (port,) = module.body.block.first_op.body.block.args  # type: ignore[union-attr]
    shape = tuple(max(size, 1) for size in port.type.get_shape())
    values = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    (want,) = bench.litert(data, [values], reference=False)
    model = onnx.load_from_string(made)
    (got,) = ReferenceEvaluator(model).run(None, {model.graph.input[0].name: values})
    np.testing.assert_array_equal(got, want)
