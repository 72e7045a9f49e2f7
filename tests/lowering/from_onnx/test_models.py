"""Whole models: shapes that stay free, published files, functions, control flow, external data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import triton_dsl
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import OptionError, SourceError, UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.tools.opt import main as opt
from triton_dsl.tools.translate import main as translate

make = helper.make_node
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def flatten_by_shape() -> list[Any]:
    """x [N, …] as [N, -1], as exporters of PyTorch write it."""
    return [
        make("Shape", ["x"], ["shape"]),
        make("Gather", ["shape", "zero"], ["batch"], axis=0),
        make("Unsqueeze", ["batch", "axes"], ["row"]),
        make("Concat", ["row", "rest"], ["target"], axis=0),
        make("Reshape", ["x", "target"], ["flat"]),
    ]


SHAPE_CONSTANTS = {
    "zero": np.array(0),
    "axes": np.array([0]),
    "rest": np.array([-1]),
}


def test_a_free_batch_survives_shape_arithmetic(bench: Any) -> None:
    weight = RNG.standard_normal((12, 5)).astype(np.float32)
    model = bench.model(
        [*flatten_by_shape(), make("MatMul", ["flat", "w"], ["y"])],
        {"x": (np.float32, ["batch", 3, 4])},
        ["y"],
        {**SHAPE_CONSTANTS, "w": weight},
    )
    module = bench.check(model, {"x": RNG.standard_normal((7, 3, 4)).astype(np.float32)})
    assert bench.ops(module) == ["tensor.reshape_to", "tensor.matmul"]
    (function,) = module.ops
    (result,) = function.body.block.last_op.operands
    assert tensor_type(result).get_shape() == (DYNAMIC, 5)
    shown = str(function)
    assert 'tensor.name = "x", tensor.dimensions = ["batch", "3", "4"]' in shown
    assert 'tensor.name = "y", tensor.dimensions = ["batch", "5"]' in shown


def test_two_free_sizes_and_a_broadcast(bench: Any) -> None:
    nodes = [
        make("Shape", ["x"], ["s"]),
        make("Slice", ["s", "zero", "two"], ["lead"]),
        make("Concat", ["lead", "heads"], ["target"], axis=0),
        make("Reshape", ["x", "target"], ["apart"]),
        make("Transpose", ["apart"], ["t"], perm=[0, 2, 1, 3]),
        make("ConstantOfShape", ["lead"], ["ones"]),
        make("Unsqueeze", ["ones", "places"], ["wide"]),
        make("Add", ["t", "wide"], ["y"]),
    ]
    constants = {
        "zero": np.array([0]),
        "two": np.array([2]),
        "heads": np.array([2, 3]),
        "places": np.array([1, 3]),
    }
    inputs: dict[str, Any] = {"x": (np.float32, ["N", "T", 6])}
    x = RNG.standard_normal((2, 5, 6)).astype(np.float32)
    module = bench.check(bench.model(nodes, inputs, ["y"], constants), {"x": x})
    assert 'tensor.dimensions = ["N", "2", "T", "3"]' in str(module)


def test_sizes_that_are_computed_as_numbers(bench: Any) -> None:
    nodes = [make("Size", ["x"], ["n"]), make("Cast", ["n"], ["y"], to=TensorProto.FLOAT)]
    model = bench.model(nodes, {"x": (np.float32, ["N", 4])}, ["y"])
    free, fixed = from_onnx(model), from_onnx(model, shapes={"x": (3, 4)})
    for module, rows in ((free, 3), (free, 5), (fixed, 3)):
        (y,) = run_module(module, [np.zeros((rows, 4), np.float32)])
        assert y == 4 * rows


def test_shapes_and_constants_of_a_caller(bench: Any) -> None:
    nodes = [make("Reshape", ["x", "shape"], ["y"])]
    inputs: dict[str, Any] = {"x": (np.float32, [4, 6]), "shape": (np.int64, [2])}
    model = bench.model(nodes, inputs, ["y"])
    with pytest.raises(UnsupportedError, match="shape must be known before the program runs"):
        from_onnx(model)
    module = from_onnx(
        model, shapes={"x": ("N", 6)}, constants={"shape": np.array([-1, 3])}, name="other"
    )
    assert module.sym_name is not None and module.sym_name.data == "other"
    x = RNG.standard_normal((5, 6)).astype(np.float32)
    np.testing.assert_array_equal(run_module(module, [x])[0], x.reshape(10, 3))
    for wrong in ({"shapes": {"z": (1,)}}, {"shapes": {"x": (1,)}}, {"constants": {"z": 1}}):
        with pytest.raises(OptionError):
            from_onnx(model, **wrong)  # pyright: ignore[reportArgumentType]


def test_all_refused_nodes_are_named_at_once(bench: Any) -> None:
    nodes = [
        make("RandomNormalLike", ["x"], ["a"], name="noise"),
        make("Bernoulli", ["x"], ["b"]),
        make("Add", ["a", "b"], ["c"]),
        make("Blur", ["x"], ["d"], domain="mine"),
    ]
    model = bench.model(nodes, {"x": (np.float32, [2, 2])}, ["c", "d"], domains=["mine"])
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(model)
    named = [problem[0] for problem in caught.value.problems]
    assert named == ["RandomNormalLike", "Bernoulli", "Blur"]
    assert "'noise'" in str(caught.value) and "mine.Blur is not known" in str(caught.value)


def test_functions_of_the_model_are_inlined(bench: Any) -> None:
    scale = make("Constant", [], ["f"])
    scale.attribute.append(
        onnx.AttributeProto(
            name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT
        )
    )
    function = helper.make_function(
        "mine",
        "Scaled",
        ["a"],
        ["b"],
        [scale, make("Mul", ["a", "f"], ["b"])],
        [helper.make_opsetid("", 21)],
        ["factor"],
    )
    nodes = [
        make("Scaled", ["x"], ["t"], domain="mine", factor=3.0),
        make("Scaled", ["t"], ["y"], domain="mine", factor=0.5),
    ]
    inputs: dict[str, Any] = {"x": (np.float32, [2, 2])}
    model = bench.model(nodes, inputs, ["y"], functions=[function], domains=["mine"])
    bench.check(model, {"x": RNG.standard_normal((2, 2)).astype(np.float32)})


def test_a_function_that_calls_itself_is_refused(bench: Any) -> None:
    body = [make("Again", ["a"], ["b"], domain="mine")]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    function = helper.make_function("mine", "Again", ["a"], ["b"], body, opsets)
    model = bench.model(
        [make("Again", ["x"], ["y"], domain="mine")], {"x": (np.float32, [2])}, ["y"],
        functions=[function], domains=["mine"],
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="nested more than"):
        from_onnx(model)


def test_a_parameter_laid_out_in_another_way_stays_one(bench: Any) -> None:
    nodes = [make("Gemm", ["x", "w"], ["t"], transB=1), make("Mul", ["t", "half"], ["y"])]
    constants = {"w": floats(30, 4), "half": np.full(30, 0.5, np.float32) + floats(30)}
    model = bench.model(nodes, {"x": (np.float32, ["N", 4])}, ["y"], constants)
    text = str(bench.check(model, {"x": floats(2, 4)}))
    assert 'tensor.parameter "w" : tensor<4x30xf32>' in text


def test_a_loop_and_a_branch_are_unrolled(bench: Any) -> None:
    def value(name: str, kind: int, shape: list[int]) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    body = helper.make_graph(
        [make("Mul", ["v", "w"], ["v2"]), make("Identity", ["c"], ["c2"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []),
         value("v", TensorProto.FLOAT, [3])],
        [value("c2", TensorProto.BOOL, []), value("v2", TensorProto.FLOAT, [3])],
    )  # fmt: skip
    branches: dict[str, Any] = {
        name: helper.make_graph([make(op, ["last"], ["r"])], name, [],
                                [value("r", TensorProto.FLOAT, [3])])
        for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }  # fmt: skip
    nodes = [
        make("Loop", ["count", "", "x"], ["last"], body=body),
        make("If", ["choice"], ["y"], **branches),
    ]
    constants = {
        "count": np.array(3),
        "choice": np.array(True),
        "w": np.array([2, -1, 0.5], np.float32),
    }
    model = bench.model(nodes, {"x": (np.float32, [3])}, ["y"], constants)
    module = bench.check(model, {"x": np.array([1, 2, 3], np.float32)})
    assert bench.ops(module) == ["tensor.mul"] * 3 + ["tensor.neg"]


@pytest.mark.parametrize("shape", [[], [1]])
def test_values_choose_a_branch(bench: Any, shape: list[int]) -> None:
    def branch(name: str, *nodes: Any) -> Any:
        outputs = [
            helper.make_tensor_value_info(nodes[1].output[0], TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info(nodes[0].output[0], TensorProto.INT64, [2]),
        ]
        return helper.make_graph(list(nodes), name, [], outputs)

    nodes = [
        make("If", ["choice"], ["y", "n"],
             then_branch=branch("a", make("Identity", ["one"], ["i"]), make("Neg", ["x"], ["r"])),
             else_branch=branch("b", make("Identity", ["two"], ["j"]), make("Abs", ["x"], ["s"]))),
    ]  # fmt: skip
    constants = {"one": np.array([1, 2]), "two": np.array([3, 4])}
    inputs: dict[str, Any] = {"choice": (np.bool_, shape), "x": (np.float32, ["N", 3])}
    model = bench.model(nodes, inputs, ["y", "n"], constants)
    for choice in (True, False):
        bench.check(model, {"choice": np.full(shape, choice), "x": floats(2, 3)})


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers_over_free_lengths(bench: Any, direction: str) -> None:
    ways = 2 if direction == "bidirectional" else 1
    constants = {"w": floats(ways, 12, 4), "r": floats(ways, 12, 3), "b": floats(ways, 24)}
    for op, gates, outputs in (("LSTM", 12, "yhc"), ("GRU", 9, "yh")):
        own = {name: value[:, : 2 * gates if name == "b" else gates]
               for name, value in constants.items()}  # fmt: skip
        node = make(op, ["x", "w", "r", "b"], [*outputs], hidden_size=3, direction=direction)
        model = bench.model([node], {"x": (np.float32, ["T", "N", 4])}, [*outputs], own)
        assert "spike.scan" in str(bench.check(model, {"x": floats(5, 2, 4)}))
        bench.check(model, {"x": floats(1, 3, 4)})


# Files.


def external_model(folder: Path, location: str, **entries: str) -> Path:
    """y = x · w with w in another file."""
    weight = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 3])
    weight.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=text)
    graph = helper.make_graph(
        [make("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [weight],
    )
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=10,
        opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())  # fmt: skip
    return path


def test_external_data_are_mapped(bench: Any, tmp_path: Path) -> None:
    weight = RNG.standard_normal((4, 3)).astype(np.float32)
    (tmp_path / "w.bin").write_bytes(b"\0" * 64 + weight.tobytes())
    path = external_model(tmp_path, "w.bin", offset="64", length="48")
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    (y,) = run_module(from_onnx(path), [x])
    np.testing.assert_allclose(y, bench.run(str(path), {"x": x})[0], 1e-6)


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("../w.bin", {}, "outside the model's folder"),
        ("/etc/passwd", {}, "outside the model's folder"),
        ("link.bin", {}, "outside the model's folder"),
        ("none.bin", {}, "No such file"),
        ("w.bin", {"offset": "32"}, "needs 48 bytes from byte 32"),
        ("w.bin", {"offset": "-8"}, "needs 48 bytes from byte -8"),
        ("w.bin", {"length": "40"}, "needs 48 bytes"),
        ("w.bin", {"offset": "x"}, "must be numbers"),
        ("", {}, "outside the model's folder"),
    ],
)
def test_external_data_that_do_not_fit_are_refused(
    tmp_path: Path, location: str, entries: dict[str, str], message: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 48)
    (folder / "w.bin").write_bytes(b"\0" * 48)
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(SourceError, match=message):
        from_onnx(external_model(folder, location, **entries))


def test_external_data_need_a_folder(tmp_path: Path) -> None:
    path = external_model(tmp_path, "w.bin")
    with pytest.raises(SourceError, match="give the model by its path"):
        from_onnx(path.read_bytes())


def test_commands_read_onnx_files(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = bench.model([make("Relu", ["x"], ["y"])], {"x": (np.float32, ["N", 4])}, ["y"])
    path = tmp_path / "small.onnx"
    path.write_bytes(model.SerializeToString())
    assert translate([str(path), "--import"]) == 0
    shown = capsys.readouterr().out
    assert "tensor.relu" in shown and "builtin.module @small" in shown
    assert translate([str(path), "--import", "-w", "w.npz"]) == 2
    assert opt([str(path), "-p", "canonicalize"]) == 0
    assert "tensor.relu" in capsys.readouterr().out
    assert triton_dsl.from_onnx is from_onnx


def test_compile_model_takes_onnx_files(bench: Any, tmp_path: Path) -> None:
    weight = RNG.integers(-1, 2, (4, 3)).astype(np.float32)
    statistics = {name: floats(3) for name in ("scale", "bias", "mean")}
    statistics["variance"] = floats(3) ** 2
    nodes = [
        make("MatMul", ["x", "w"], ["t"]),
        make("BatchNormalization", ["t", *statistics], ["y"]),
    ]
    model = bench.model(nodes, {"x": (np.float32, ["N", 4])}, ["y"], {"w": weight, **statistics})
    path = tmp_path / "small.onnx"
    path.write_bytes(model.SerializeToString())
    compiled = triton_dsl.compile_model(path, "onnx")
    data = compiled.artifact.files["small.onnx"]
    x = floats(5, 4)
    np.testing.assert_allclose(
        bench.run(data, {"x": x})[0], bench.run(model, {"x": x})[0], 1e-5, 1e-5
    )
    assert 'tensor.parameter "mean" buffer' in str(compiled.module)
    assert 'tensor.parameter "scale" :' in str(compiled.module)
    with pytest.raises(OptionError, match="has its own weights"):
        triton_dsl.compile_model(path, "onnx", trainable=True)


# Published files.


@pytest.mark.parametrize("name", ["dense_big_keras", "mnist-conv-opset8", "three_layer_pytorch"])
def test_published_models_predict_what_onnx_runtime_does(
    bench: Any, shared_data: Any, name: str
) -> None:
    path = shared_data.path("models", "onnx", f"{name}.onnx")
    stored = onnx.load(path)
    taken = {tensor.name for tensor in stored.graph.initializer}
    (port,) = [port for port in stored.graph.input if port.name not in taken]
    shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
    x = RNG.standard_normal([1, *shape[1:]]).astype(np.float32)
    module = from_onnx(path, shapes={port.name: x.shape})
    (y,) = run_module(module, [x])
    whole = np.concatenate([x, np.zeros([shape[0] - 1, *shape[1:]], np.float32)])
    want = bench.run(str(path), {port.name: whole})[0][:1]
    np.testing.assert_allclose(y, want, 1e-4, 1e-4)
    assert y.argmax() == want.argmax()


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_published_classifier_of_digits(shared_data: Any, count: int) -> None:
    import onnxruntime

    path = shared_data.path("models", "onnx", "mnist-conv-opset8.onnx")
    images, labels = (
        shared_data.digits("t10k")[:, None] * np.float32(255),
        shared_data.labels("t10k"),
    )
    module = from_onnx(path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ours = np.array([run_module(module, [image])[0].argmax() for image in images[:count]])
    theirs = np.array(
        [np.asarray(session.run(None, {"Input3": image})[0]).argmax() for image in images[:count]]
    )
    np.testing.assert_array_equal(ours, theirs)
    if count == 10_000:
        assert round(100 * float((ours == labels).mean()), 2) == 98.91


def test_weights_of_one_bit_become_trits(bench: Any, shared_data: Any) -> None:
    """A model with Brevitas' BipolarQuant on weights and activations."""
    path = shared_data.path("models", "onnx", "TFC_1W1A.onnx")
    module = from_onnx(path)
    assert bench.ops(module).count("ternary.linear") == 4
    stored = onnx.load(path)
    for node in stored.graph.node:
        node.domain = "qonnx.custom_op.general" if node.op_type == "BipolarQuant" else node.domain
    image = shared_data.digits("t10k")[:1]
    expected = _bipolar_reference(stored, image)
    np.testing.assert_allclose(run_module(module, [image])[0], expected, 1e-4, 1e-4)


def _bipolar_reference(model: Any, image: Any) -> Any:
    """The model in `onnx.reference`, with the definition of BipolarQuant."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class BipolarQuant(OpRun):
        op_domain = "qonnx.custom_op.general"

        def _run(self, x: Any, scale: Any) -> Any:
            return (np.where(x >= 0, scale, -scale).astype(np.float32),)

    model.opset_import.add(domain="qonnx.custom_op.general", version=1)
    results: Any = ReferenceEvaluator(model, new_ops=[BipolarQuant]).run(None, {"0": image})
    return results[0]
