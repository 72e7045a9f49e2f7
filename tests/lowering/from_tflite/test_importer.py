"""The interface of `from_tflite`: names, sizes, grids, signatures, refusals, where images turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ai_edge_litert.schema_py_generated as schema
import flatbuffers
import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import triton_dsl
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError, SourceError, UnsupportedError
from triton_dsl.lowering.compile_model import compile_model
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.models import import_model
from triton_dsl.lowering.to_tflite.graph import Element, Graph
from triton_dsl.tools.translate import main as translate

FREE = -(2**63)
PLAIN = {"dilationWFactor": 1, "dilationHFactor": 1, "padding": 0, "strideW": 1, "strideH": 1}


def forward(module: Any) -> FuncOp:
    (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
    return function


def changed(data: bytes, change: Any) -> bytes:
    """The file after `change` of the schema's objects."""
    model = schema.ModelT.InitFromPackedBuf(data)
    change(model)
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


@pytest.fixture
def relu(bench: Any) -> bytes:
    """A file with one operator and a free batch."""
    ports = [bench.tensor(name, (FREE, 3)) for name in ("image", "score")]
    return bench.one_operator("RELU", ports[:1], ports[1:], {})


def test_names_and_free_sizes(relu: bytes) -> None:
    module = from_tflite(relu, name="model")
    text = str(module)
    assert 'tensor.name = "image"' in text and 'tensor.name = "score"' in text
    assert 'tensor.dimensions = ["batch", "3"]' in text and "tensor<?x3xf32>" in text
    assert module.sym_name is not None and module.sym_name.data == "model"
    (relu_op,) = [op for op in module.walk() if op.name == "tensor.relu"]
    assert "score" in str(relu_op.location)


def test_shapes_may_be_given(relu: bytes) -> None:
    fixed = from_tflite(relu, shapes={"image": (7, 3)})
    assert "tensor<7x3xf32>" in str(fixed)
    named = from_tflite(relu, shapes={"image": ("rows", 3)})
    assert 'tensor.dimensions = ["rows", "3"]' in str(named)
    for shapes, message in (
        ({"picture": (1, 3)}, "has no input 'picture'"),
        ({"image": (3,)}, "input 'image' has 2 axes, not 1"),
        ({"image": (-1, 3)}, "sizes of 'image' must be at least 0"),
    ):
        with pytest.raises(OptionError, match=message):
            from_tflite(relu, shapes=shapes)  # pyright: ignore[reportArgumentType]


def test_a_file_for_one_sample_is_read_for_a_free_batch(bench: Any) -> None:
    graph = Graph()
    x, flat = bench.tensor("x", (1, 2, 2, 3)), bench.tensor("flat", (1, 12))
    graph.inputs, graph.outputs = [x], [flat]
    graph.add("RESHAPE", [x, bench.constant(np.array([1, 12], np.int32))], [flat], {})
    module = from_tflite(bench.file_of(graph), shapes={"x": ("batch", 2, 2, 3)})
    given = np.arange(36, dtype=np.float32).reshape(3, 2, 2, 3)
    (got,) = run_module(module, [given])
    np.testing.assert_array_equal(got, given.reshape(3, 12))


def test_a_shape_may_be_a_product_of_free_sizes(bench: Any) -> None:
    """As Keras writes a dense layer on the last of three axes for any batch."""
    graph = Graph()
    x, flat = bench.tensor("x", (FREE, 3, 4)), bench.tensor("flat", (FREE, 4))
    sizes, front = (bench.tensor(n, (c,), Element.INT32) for n, c in (("sizes", 3), ("front", 2)))
    rows = bench.tensor("rows", (), Element.INT32)
    wanted = bench.tensor("wanted", (2,), Element.INT32)
    axes, zero, four = (bench.constant(np.array(n, np.int32)) for n in ([0, 1], [0], 4))
    graph.inputs, graph.outputs = [x], [flat]
    graph.add("SHAPE", [x], [sizes], {"outType": 2})
    graph.add("GATHER", [sizes, axes], [front], {"axis": 0})
    graph.add("REDUCE_PROD", [front, zero], [rows], {"keepDims": False})
    graph.add("PACK", [rows, four], [wanted], {"valuesCount": 2, "axis": 0})
    graph.add("RESHAPE", [x, wanted], [flat], {})
    data = bench.file_of(graph)
    given = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
    (want,) = bench.litert(data, [given])
    (got,) = run_module(from_tflite(data), [given])
    np.testing.assert_array_equal(got, want)


def test_grids_of_arguments_and_results_are_kept(bench: Any) -> None:
    scale = np.float32(0.0123)
    x = bench.tensor("x", (2, 3), Element.INT8, bench.grid(scale, -7))
    y = bench.tensor("y", (2, 3), Element.UINT8, bench.grid(0.5, 9))
    module = from_tflite(bench.one_operator("QUANTIZE", [x], [y], {}))
    function = forward(module)
    assert function.arg_attrs is not None and function.res_attrs is not None
    given, made = function.arg_attrs.data[0].data, function.res_attrs.data[0].data
    assert np.float32(given["tensor.scale"].value.data) == scale  # pyright: ignore[reportAttributeAccessIssue]
    assert given["tensor.zero_point"].value.data == -7  # pyright: ignore[reportAttributeAccessIssue]
    assert made["tensor.zero_point"].value.data == 9  # pyright: ignore[reportAttributeAccessIssue]


def test_signatures(relu: bytes, bench: Any) -> None:
    def rename(model: Any) -> None:
        model.signatureDefs[0].inputs[0].name = b"pixels"

    assert 'tensor.name = "pixels"' in str(from_tflite(changed(relu, rename)))

    def drop(model: Any) -> None:
        model.signatureDefs = []

    assert 'tensor.name = "image"' in str(from_tflite(changed(relu, drop)))

    def add(model: Any) -> None:
        other: Any = schema.ModelT.InitFromPackedBuf(relu)
        other.signatureDefs[0].signatureKey = b"other"
        other.signatureDefs[0].subgraphIndex = 1
        other.signatureDefs[0].inputs[0].name = b"second"
        model.subgraphs.append(other.subgraphs[0])
        model.signatureDefs.append(other.signatureDefs[0])

    both = changed(relu, add)
    with pytest.raises(SourceError, match="several signatures; give signature= one of"):
        from_tflite(both)
    with pytest.raises(SourceError, match="no signature 'third'; it has 'serving_default'"):
        from_tflite(both, signature="third")
    assert 'tensor.name = "second"' in str(from_tflite(both, signature="other"))


def test_unused_subgraphs_are_left_alone(relu: bytes) -> None:
    def add(model: Any) -> None:
        other: Any = schema.ModelT.InitFromPackedBuf(relu)
        model.subgraphs.append(other.subgraphs[0])

    from_tflite(changed(relu, add))


def test_all_that_is_refused_is_named_at_once(bench: Any) -> None:
    graph = Graph()
    names = ("x", "a", "b", "c", "d")
    x, a, b, c, d = (bench.tensor(name, (2, 3)) for name in names)
    graph.inputs, graph.outputs = [x], [c, d]
    graph.add("WHILE", [x], [a], {})
    graph.add("RFFT2D", [x], [b], {})
    graph.add("ADD", [a, b], [c], {})
    graph.add("STABLEHLO_SORT", [x], [d], {})
    with pytest.raises(UnsupportedError) as caught:
        from_tflite(bench.file_of(graph))
    text = str(caught.value)
    assert "cannot express 3 operation(s)" in text
    assert "WHILE at 'a' of TFLite model: it runs another subgraph" in text
    assert "RFFT2D at 'b' of TFLite model: the IR has no complex numbers" in text
    assert "STABLEHLO_SORT at 'd' of TFLite model: STABLEHLO_SORT is not known" in text


def test_custom_operators_are_named(relu: bytes) -> None:
    def change(model: Any) -> None:
        code = model.operatorCodes[0]
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode = b"FlexErf"

    with pytest.raises(UnsupportedError, match="custom operator FlexErf is not known"):
        from_tflite(changed(relu, change))


def test_images_turn_once_on_the_way_in_and_once_on_the_way_out(bench: Any) -> None:
    random = np.random.default_rng(0)
    graph = Graph()
    x = bench.tensor("x", (2, 6, 6, 3))
    graph.inputs = [x]

    def add(kind: str, inputs: list[Any], shape: tuple[int, ...], **options: Any) -> Any:
        made = bench.tensor(f"{kind.lower()}{len(graph.operators)}", shape)
        graph.add(kind, inputs, [made], options)
        return made

    def filters(*shape: int) -> Any:
        return bench.constant(random.standard_normal(shape).astype(np.float32))

    y = add("CONV_2D", [x, filters(4, 3, 3, 3), filters(4)], (2, 6, 6, 4), **PLAIN)
    y = add("MUL", [y, filters(4)], (2, 6, 6, 4))
    y = add("HARD_SWISH", [y], (2, 6, 6, 4))
    z = add("DEPTHWISE_CONV_2D", [y, filters(1, 3, 3, 4), filters(4)], (2, 6, 6, 4),
            depthMultiplier=1, **PLAIN)  # fmt: skip
    y = add("ADD", [y, z], (2, 6, 6, 4))
    y = add("CONCATENATION", [y, z], (2, 6, 6, 8), axis=3)
    pads = bench.constant(np.array([[0, 0], [1, 0], [0, 1], [0, 0]], np.int32))
    y = add("PAD", [y, pads], (2, 7, 7, 8))
    share = add("MEAN", [y, bench.constant(np.array([1, 2], np.int32))], (2, 1, 1, 8),
                keepDims=True)  # fmt: skip
    y = add("MUL", [y, share], (2, 7, 7, 8))
    y = add("MAX_POOL_2D", [y], (2, 3, 3, 8), padding=1, strideW=2, strideH=2, filterWidth=2,
            filterHeight=2)  # fmt: skip
    flat = add("RESHAPE", [y, bench.constant(np.array([2, 72], np.int32))], (2, 72))
    logits = add("FULLY_CONNECTED", [flat, filters(5, 72), filters(5)], (2, 5), keepNumDims=False)
    graph.outputs = [logits]
    data = bench.file_of(graph)
    module = from_tflite(data)
    # The flattened image needs none: the rows of the weight are in the order of the IR.
    assert str(module).count("tensor.permute") == 1
    inputs = [bench.values(x)]
    (want,), (got,) = bench.litert(data, inputs), run_module(module, inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_every_door_takes_tflite_files(
    relu: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(relu)
    text = str(import_model(path))
    assert text == str(triton_dsl.from_tflite(path))
    assert translate([str(path), "--import"]) == 0
    assert "tensor.relu" in capsys.readouterr().out
    compiled = compile_model(path, "onnx")
    assert compiled.artifact.main_file == "model.onnx"
    with pytest.raises(OptionError, match="has its own weights"):
        import_model(path, weights=path)
    with pytest.raises(OptionError, match="has its own weights"):
        compile_model(path, "onnx", layer="net")
