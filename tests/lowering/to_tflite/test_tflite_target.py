"""The target as a whole: files, names, layout, options, narrower arithmetic, what it refuses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import LoweringError, OptionError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.emission import entry_function
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import UNTIL_FUSED, Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_tflite.engine import self_check
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.verify import verify_module

ROOT = Path(__file__).resolve().parents[3]
ANY = DYNAMIC
CONV_NET = """
layer Net {
    let conv1 = TernaryConv2d(3, 8, 3, padding=1)
    let norm1 = BatchNorm2d(8)
    let conv2 = TernaryConv2d(8, 8, 3, padding=1)
    let fc = TernaryLinear(128, 10)

    fn forward(x: Tensor[N, 3, 8, 8]) -> Tensor[N, 10] {
        let h = relu(norm1(conv1(x)))
        h = relu(conv2(h) + h)
        return fc(flatten(max_pool2d(h, 2)))
    }
}
"""


def floats(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def model(source: str | Path) -> ModuleOp:
    return fill_parameters(import_tri(source), seed=3)


@pytest.fixture
def net() -> ModuleOp:
    return model(CONV_NET)


@pytest.fixture
def layer(bench: Any) -> ModuleOp:
    """A ternary layer, 784x256."""
    trits = np.random.default_rng(0).integers(-1, 2, (784, 256)).astype(np.int8)

    def body(add: Any, x: Any) -> Any:
        return add(ternary.MatmulOp(x, add(ternary.ParameterOp("w", [784, 256]))))

    return bench.build([TensorType(f32, [ANY, 784])], body, {"w": pack_trits(trits)})


def file_of(module: ModuleOp, target: str = "tflite", **options: Any) -> bytes:
    return next(iter(compile_to_target(module, target, options).files.values()))


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("storage", ["auto", "2bit", "int8"])
def test_a_network_has_one_transpose(net: ModuleOp, bench: Any, batch: int, storage: str) -> None:
    data = file_of(net, storage=storage)
    x = floats((batch, 3, 8, 8))
    bench.same(bench.run(data, [x]), run_module(net, [x]), 5)
    found = Counter(bench.kinds(data))
    assert found["TRANSPOSE"] == 1
    assert found["RELU"] == found["RESHAPE"] - 1 == 0, "activations are fused"


def test_the_layout_of_the_file_may_be_that_of_litert(net: ModuleOp, bench: Any) -> None:
    data = file_of(net, layout="nhwc")
    x = floats((2, 3, 8, 8))
    bench.same(bench.run(data, [x.transpose(0, 2, 3, 1)]), run_module(net, [x]), 5)
    assert "TRANSPOSE" not in bench.kinds(data)
    rows = verify_module(net, [x], ["tflite{layout=nhwc}", "tflite", "tflite{precision=float16}"])
    assert all(row.agrees for row in rows[:2])
    assert rows[0].engine.startswith("litert ")


def test_images_that_come_out_follow_the_layout(bench: Any) -> None:
    def body(add: Any, x: Any) -> list[Any]:
        pooled = add(tensor.MaxPoolOp(x, [2, 2]))
        return [pooled, x, pooled]

    module = bench.build([TensorType(f32, [ANY, 3, 4, 4])], body)
    x = floats((2, 3, 4, 4))
    expected = run_module(module, [x])
    bench.check(module, [x])
    made = bench.run(bench.bytes_of(module, layout="nhwc"), [x.transpose(0, 2, 3, 1)])
    bench.same(made, [y.transpose(0, 2, 3, 1) for y in expected])


@pytest.mark.parametrize("name", ["mnist", "digits"])
def test_the_example_models(name: str, bench: Any) -> None:
    module = model(ROOT / "examples" / "models" / f"{name}.tri")
    shape = entry_function(module, "tflite").args[0].type
    assert isinstance(shape, TensorType)
    x = floats((3, *shape.get_shape()[1:]))
    bench.same(bench.run(file_of(module), [x]), run_module(module, [x]), 20)


def test_a_ternary_layer_takes_two_bits_a_weight(layer: ModuleOp, bench: Any) -> None:
    x = floats((2, 784))
    (want,) = run_module(layer, [x])
    for storage, precision in (("2bit", "float32"), ("auto", "dynamic-int8")):
        data = file_of(layer, storage=storage, precision=precision)
        assert 784 * 256 // 4 < len(data) <= 56_000
        (got,) = bench.run(data, [x])
        tolerance = 1e-5 if precision == "float32" else 0.02
        assert np.abs(got - want).max() < tolerance * np.abs(want).max()
    assert 784 * 256 < len(file_of(layer)) <= 210_000


def test_a_ternary_convolution_takes_two_bits_a_weight(bench: Any) -> None:
    shape = (64, 64, 3, 3)
    trits = np.random.default_rng(0).integers(-1, 2, shape).astype(np.int8)

    def body(add: Any, x: Any) -> Any:
        w = add(ternary.ParameterOp("w", shape))
        return add(ternary.ConvOp(x, w, padding=[1, 1, 1, 1]))

    module = bench.build([TensorType(f32, [ANY, 64, 9, 9])], body, {"w": pack_trits(trits)})
    data = file_of(module, storage="2bit")
    assert len(data) < 64 * 64 * 9 // 4 + 6_000
    x = floats((2, 64, 9, 9))
    bench.same(bench.run(data, [x]), run_module(module, [x]), 20)


def test_names_signature_versions_and_metadata(layer: ModuleOp, bench: Any) -> None:
    made = bench.read(file_of(layer, precision="dynamic-int8"))
    (signature,) = made.signatureDefs
    assert signature.signatureKey == b"serving_default"
    assert [entry.name for entry in signature.inputs] == [b"x"]
    assert [entry.name for entry in signature.outputs] == [b"y"]
    graph = made.subgraphs[0]
    given = graph.tensors[graph.inputs[0]]
    assert list(given.shape) == [1, 784] and list(given.shapeSignature) == [-1, 784]
    (code,) = made.operatorCodes
    assert (code.builtinCode, code.deprecatedBuiltinCode, code.version) == (9, 9, 14)
    metadata = {entry.name: bytes(made.buffers[entry.buffer].data) for entry in made.metadata}
    assert metadata[b"min_runtime_version"].rstrip(b"\0") == b"2.1.6"
    assert set(metadata) == {b"min_runtime_version", b"module_sha256", b"source_layer"}
    assert made.buffers[0].data is None


def test_float_layers_need_no_new_runtime(bench: Any) -> None:
    def body(add: Any, x: Any) -> Any:
        return add(tensor.MatmulOp(x, add(tensor.ParameterOp("w", TensorType(f32, [4, 4])))))

    module = bench.build([TensorType(f32, [ANY, 4])], body, {"w": floats((4, 4))})
    made = bench.read(file_of(module))
    assert [code.version for code in made.operatorCodes] == [1]
    versions = [entry for entry in made.metadata if entry.name == b"min_runtime_version"]
    assert bytes(made.buffers[versions[0].buffer].data).startswith(b"1.14.0")


def test_stored_values_are_aligned_and_bytes_repeat(net: ModuleOp) -> None:
    import ai_edge_litert.schema_py_generated as schema

    data = file_of(net)
    assert data[4:8] == b"TFL3"
    assert data == file_of(model(CONV_NET))
    root: Any = schema.Model.GetRootAs(data)
    starts: list[int] = []
    for index in range(root.BuffersLength()):
        values = root.Buffers(index).DataAsNumpy()
        if isinstance(values, np.ndarray):
            base = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
            starts.append(values.__array_interface__["data"][0] - base)
    assert len(starts) > 5
    assert all(start % 16 == 0 for start in starts)


def test_the_signature_runner_takes_any_batch(net: ModuleOp) -> None:
    from ai_edge_litert.interpreter import Interpreter

    runner: Any = Interpreter(model_content=file_of(net)).get_signature_runner("serving_default")
    for batch in (1, 7, 2):
        x = floats((batch, 3, 8, 8), batch)
        (y,) = runner(x=x).values()
        np.testing.assert_allclose(y, run_module(net, [x])[0], 1e-3, 1e-4)


def test_integer_programs_are_exact(net: ModuleOp, tmp_path: Path, bench: Any) -> None:
    samples = tmp_path / "samples.npy"
    np.save(samples, floats((8, 3, 8, 8)))
    run_stages(net, [
        Stage("fold", "canonicalize,fold-constants{keep-packed=true},fuse-linear"),
        Stage("quantize", f'quantize-activations{{data="{samples}"}},requantize'),
    ])  # fmt: skip
    x = floats((4, 3, 8, 8), 5)
    (row,) = verify_module(net, [x], ["tflite"])
    assert row.agrees
    data = file_of(net)
    bench.same(bench.run(data, [x], delegates=False), bench.run(data, [x]))
    assert any(tensor.element_type == i8 for tensor in _types(net)), "it computes integers"


def _types(module: ModuleOp) -> list[Any]:
    return [r.type for op in module.walk() for r in op.results if isinstance(r.type, TensorType)]


@pytest.mark.parametrize("storage", ["auto", "2bit"])
def test_full_integers_on_samples(net: ModuleOp, tmp_path: Path, bench: Any, storage: str) -> None:
    samples = floats((64, 3, 8, 8))
    np.savez(tmp_path / "samples.npz", x=samples)
    options = {"precision": "int8", "calibration": str(tmp_path / "samples.npz")}
    (want,) = run_module(net, [samples])
    data = file_of(net, storage=storage, **options)
    (got,) = bench.run(data, [samples])
    assert np.abs(got - want).mean() < 0.03 * np.abs(want).max()
    assert "DEQUANTIZE" in bench.kinds(data)
    data = file_of(net, storage=storage, input_type="uint8", output_type="int8", **options)
    made = bench.read(data).subgraphs[0]
    assert [made.tensors[i].type for i in (*made.inputs, *made.outputs)] == [3, 9]
    grids = [made.tensors[i].quantization for i in (*made.inputs, *made.outputs)]
    levels = np.clip(np.rint(samples / grids[0].scale[0]) + grids[0].zeroPoint[0], 0, 255)
    (got,) = bench.run(data, [levels.astype(np.uint8)])
    real = (got.astype(np.float64) - grids[1].zeroPoint[0]) * grids[1].scale[0]
    assert np.abs(real - want).mean() < 0.03 * np.abs(want).max()
    assert bench.kinds(data).count("QUANTIZE") == 1, "integers from end to end"
    assert "DEQUANTIZE" not in bench.kinds(data)


def test_full_integers_of_16_bits(net: ModuleOp, tmp_path: Path, bench: Any) -> None:
    """Closer than 8 bits, by far; trits are exact, so activations alone are rounded."""
    samples = floats((64, 3, 8, 8))
    np.savez(tmp_path / "samples.npz", x=samples)
    options = {"calibration": str(tmp_path / "samples.npz"), "storage": "2bit"}
    (want,) = run_module(net, [samples])
    off: dict[str, float] = {}
    for precision in ("int8", "int16"):
        data = file_of(net, precision=precision, **options)
        (got,) = bench.run(data, [samples])
        off[precision] = float(np.abs(got - want).max() / np.abs(want).max())
        assert bench.kinds(data).count("QUANTIZE") == 1
    assert off["int16"] < 1e-3 < 10 * off["int16"] < off["int8"]
    data = file_of(net, precision="int16", input_type="int16", output_type="int16", **options)
    made = bench.read(data).subgraphs[0]
    grids = [made.tensors[i].quantization for i in (*made.inputs, *made.outputs)]
    assert all(grid.zeroPoint[0] == 0 for grid in grids)
    levels = np.rint(samples / grids[0].scale[0]).clip(-32767, 32767).astype(np.int16)
    (got,) = bench.run(data, [levels])
    assert got.dtype == np.int16
    assert np.abs(got * grids[1].scale[0] - want).max() < 1e-3 * np.abs(want).max()


DENSE_NET = """
layer Net {
    let conv = Conv2d(3, 16, 3, padding=1)
    let depthwise = Conv2d(16, 16, 5, padding=2, groups=16)
    let point = Conv2d(16, 32, 1)
    let fc = Linear(512, 10)

    fn forward(x: Tensor[N, 3, 8, 8]) -> Tensor[N, 10] {
        let h = relu(depthwise(relu(conv(x))))
        return fc(flatten(max_pool2d(point(h), 2)))
    }
}
"""


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("precision", ["float32", "dynamic-int8", "int8", "int16"])
def test_dense_weights_in_few_bits(
    weights: str, precision: str, tmp_path: Path, bench: Any
) -> None:
    net = model(DENSE_NET)
    samples = floats((64, 3, 8, 8))
    np.savez(tmp_path / "samples.npz", x=samples)
    options: dict[str, str] = {"precision": precision, "weights": weights}
    if precision.startswith("int"):
        options["calibration"] = str(tmp_path / "samples.npz")
    data = file_of(net, **options)
    (want,) = run_module(net, [samples])
    for delegates in (True, False):
        (got,) = bench.run(data, [samples], delegates=delegates)
        limit = {"int8": 0.03, "int4": 0.2}[weights]
        assert np.abs(got - want).mean() < limit * np.abs(want).max()
    tensors = bench.read(data).subgraphs[0].tensors
    found = Counter(tensor.type for tensor in tensors if tensor.name.endswith(b"weight"))
    fewer = 17 if weights == "int4" else 9
    # LiteRT has no right kernel for INT4 in a depthwise convolution of float32 or int16.
    depthwise = 9 if precision in ("dynamic-int8", "int16") else fewer
    assert found[fewer] == 3 + (depthwise == fewer)
    assert len(data) < {"int8": 13_500, "int4": 10_000}[weights]


@pytest.mark.parametrize("storage", ["2bit", "4bit", "int8"])
@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("precision", ["float32", "dynamic-int8"])
def test_every_storage_of_trits(storage: str, groups: int, precision: str, bench: Any) -> None:
    shape = (16, 16 // groups, 3, 3)
    trits = np.random.default_rng(0).integers(-1, 2, shape).astype(np.int8)

    def body(add: Any, x: Any) -> Any:
        w = add(ternary.ParameterOp("w", shape))
        return add(ternary.ConvOp(x, w, padding=[1, 1, 1, 1], groups=groups))

    module = bench.build([TensorType(f32, [ANY, 16, 6, 6])], body, {"w": pack_trits(trits)})
    x = floats((2, 16, 6, 6))
    (want,) = run_module(module, [x])
    (got,) = bench.run(file_of(module, storage=storage, precision=precision), [x])
    tolerance = 1e-5 if precision == "float32" or groups == 4 else 0.02
    assert np.abs(got - want).max() < tolerance * np.abs(want).max()


@pytest.mark.parametrize("observer", ["minmax", "entropy"])
def test_recorded_ranges_stand_for_samples(net: ModuleOp, tmp_path: Path, observer: str) -> None:
    np.savez(tmp_path / "samples.npz", x=floats((64, 3, 8, 8)))
    data = str(tmp_path / "samples.npz")
    at_once = file_of(net.clone(), precision="int8", calibration=data, observer=observer)
    run_stages(net, [
        *UNTIL_FUSED,
        Stage("look", f'calibrate{{data="{data}" observer={observer} symmetric=false}}'),
    ])  # fmt: skip
    assert file_of(net, precision="int8") == at_once


def test_the_self_check_finds_another_program(net: ModuleOp, layer: ModuleOp, bench: Any) -> None:
    doubled = bench.build([TensorType(f32, [2, 2])], lambda add, x: add(tensor.AddOp(x, x)))
    squared = bench.build([TensorType(f32, [2, 2])], lambda add, x: add(tensor.MulOp(x, x)))
    function, orders = entry_function(squared, "tflite"), ([(0, 1)], [(0, 1)])
    self_check(file_of(squared), squared, function, orders, coarse=False)
    with pytest.raises(LoweringError, match="output 0 differs from the interpreter by"):
        self_check(file_of(doubled), squared, function, orders, coarse=False)
    with pytest.raises(LoweringError, match="self-check of the TFLite model failed"):
        self_check(file_of(layer), squared, function, orders, coarse=False)


def test_weights_must_be_given() -> None:
    with pytest.raises(LoweringError, match=r"'conv1.weight'.* have no values; give --weights"):
        file_of(import_tri(CONV_NET))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int8"}, "give calibration=FILE"),
        ({"calibration": "x.npy"}, "belong to precision=int8"),
        ({"output_type": "uint8"}, "belong to precision=int8"),
        ({"precision": "int16"}, "precision=int16 takes its scales from samples"),
        ({"precision": "float16", "weights": "int4"}, "leave 'weights' out"),
        (
            {"precision": "int16", "calibration": "x.npy", "input_type": "uint8"},
            "input-type=uint8 does not go with precision=int16; expected one of float32, int16",
        ),
        ({"storage": "3bit"}, "option 'storage' expects one of auto, 2bit, 4bit, int8"),
    ],
)
def test_options_that_contradict(layer: ModuleOp, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        file_of(layer, **options)


def test_samples_must_fit(layer: ModuleOp, tmp_path: Path) -> None:
    np.save(tmp_path / "samples.npy", floats((4, 3)))
    with pytest.raises(OptionError, match=r"expected samples of shape Nx784, got \[4, 3\]"):
        file_of(layer, precision="int8", calibration=str(tmp_path / "samples.npy"))
