"""The target as a whole: files, names, metadata, options, and what it refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import LoweringError, OptionError, UnsupportedError
from triton_dsl.ir.trits import pack_trits, unpack_trits
from triton_dsl.lowering.artifact import write_artifact
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target

ANY = DYNAMIC

LINEAR_CLASSIFIER = """
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]
    
    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""  # noqa: W293


def trits(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.int8)


def floats(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def weights() -> dict[str, Any]:
    return {"weights": trits((784, 10)), "bias": floats((10,))}


@pytest.fixture
def classifier(weights: dict[str, Any]) -> ModuleOp:
    return import_tri(LINEAR_CLASSIFIER, weights=weights)


def model_bytes(module: ModuleOp, target: str = "onnx") -> bytes:
    artifact = compile_to_target(module, target)
    assert artifact.main_file is not None
    return artifact.files[artifact.main_file]


def initializers(data: bytes) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in onnx.load_from_string(data).graph.initializer}


def test_the_classifier_keeps_its_weights_packed(
    classifier: ModuleOp, weights: dict[str, Any], bench: Any, opset: int
) -> None:
    data = model_bytes(classifier, f"onnx{{opset={opset}}}")
    stored = initializers(data)["weights"]
    assert stored.data_type == onnx.TensorProto.UINT8
    assert len(stored.raw_data) == 1960
    packed = np.frombuffer(stored.raw_data, np.uint8)
    np.testing.assert_array_equal(unpack_trits(packed, (784, 10)), weights["weights"])
    x = floats((32, 784), 1)
    (got,) = bench.run(data, [x])
    expected = x.astype(np.float64) @ weights["weights"] + weights["bias"]
    np.testing.assert_allclose(got, expected, 1e-5, 1e-4)


@pytest.mark.parametrize("batch", [1, 5, 0])
def test_any_batch(classifier: ModuleOp, bench: Any, batch: int) -> None:
    x = floats((batch, 784))
    bench.same(bench.run(model_bytes(classifier), [x]), run_module(classifier, [x]), 5)


def test_names_and_metadata(classifier: ModuleOp) -> None:
    data = model_bytes(classifier)
    model = onnx.load_from_string(data)
    assert [port.name for port in model.graph.input] == ["x"]
    assert [port.name for port in model.graph.output] == ["output"]
    assert set(initializers(data)) == {"weights", "bias"}
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    assert (sizes[0].dim_param, sizes[1].dim_value) == ("N", 784)
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"
    assert model.producer_name == "triton-dsl"
    assert model.producer_version
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert set(properties) == {"source_layer", "pipeline", "module_sha256", "triton_dsl.sha256"}
    assert properties["source_layer"] == "LinearClassifier"
    assert {f"{f.domain}:{f.name}" for f in model.functions} == {
        "triton_dsl:ternary.matmul",
        "triton_dsl:ternary.unpack",
    }


def test_versions_follow_the_opset(classifier: ModuleOp, opset: int) -> None:
    model = onnx.load_from_string(model_bytes(classifier, f"onnx{{opset={opset}}}"))
    assert {o.domain: o.version for o in model.opset_import}[""] == opset
    # The oldest release of onnx that has the opset says which IR version came with it.
    table = {row[2]: row[1] for row in reversed(onnx.helper.VERSION_TABLE)}
    assert model.ir_version == table[opset]
    assert bool(model.functions) == (opset >= 15)


def test_only_standard_operators_by_default(classifier: ModuleOp) -> None:
    model = onnx.load_from_string(model_bytes(classifier))
    domains = {node.domain for node in model.graph.node}
    domains |= {node.domain for function in model.functions for node in function.node}
    assert domains <= {"", "triton_dsl"}
    fast = onnx.load_from_string(model_bytes(classifier, "onnx{form=fast}"))
    assert {node.domain for node in fast.graph.node} == {"", "com.microsoft"}


def test_the_same_module_gives_the_same_bytes(weights: dict[str, Any]) -> None:
    first, second = (model_bytes(import_tri(LINEAR_CLASSIFIER, weights=weights)) for _ in range(2))
    assert first == second


def test_a_large_ternary_matrix_stays_small(bench: Any) -> None:
    weight = trits((1024, 1024))
    source = """
layer Big {
    param w: TernaryTensor[1024, 1024]
    fn forward(x: Tensor[N, 1024]) -> Tensor[N, 1024] {
        return x @ w
    }
}
"""
    data = model_bytes(import_tri(source, weights={"w": weight}))
    assert len(data) <= 267_000
    x = floats((2, 1024))
    np.testing.assert_allclose(bench.run(data, [x])[0], x @ weight.astype(np.float32), 0, 2e-4)


BIG = """
layer Big {
    param w: KIND[1024, 1024]
    fn forward(x: Tensor[N, 1024]) -> Tensor[N, 1024] {
        return x @ w
    }
}
"""


@pytest.mark.parametrize("options", ["{form=fast}", "{precision=dynamic-int8}"])
def test_rounding_forms_stay_small_and_close(bench: Any, options: str) -> None:
    weight = trits((1024, 1024))
    data = model_bytes(
        import_tri(BIG.replace("KIND", "TernaryTensor"), weights={"w": weight}), f"onnx{options}"
    )
    assert len(data) <= 300_000
    x = floats((4, 1024))
    wanted = x @ weight.astype(np.float32)
    (found,) = bench.run(data, [x])
    assert np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted)


@pytest.mark.slow
def test_the_fast_form_is_fast() -> None:
    """Side by side with floats, since other work on the machine slows both.

    64 MB of floats come from memory, where 2 bits a weight stay in any processor's caches.
    """
    import time

    import onnxruntime

    program = BIG.replace("1024", "4096")
    weight = trits((4096, 4096))
    sessions: dict[str, Any] = {}
    for kind, options in (("Tensor", ""), ("TernaryTensor", "{form=fast}")):
        values = weight if options else weight.astype(np.float32) * 0.3 + floats((4096, 4096))
        data = model_bytes(
            import_tri(program.replace("KIND", kind), weights={"w": values}), f"onnx{options}"
        )
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        sessions[kind] = onnxruntime.InferenceSession(
            data, settings, providers=["CPUExecutionProvider"]
        )
    x = floats((1, 4096))
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(100):
        for kind, session in sessions.items():
            start = time.perf_counter()
            session.run(None, {"x": x})
            best[kind] = min(best[kind], time.perf_counter() - start)
    assert best["Tensor"] > 3 * best["TernaryTensor"]


def test_a_scaled_ternary_matrix_stays_packed(bench: Any) -> None:
    source = """
layer Scaled {
    param w: TernaryTensor[256, 64]
    param s: Tensor[64]
    fn forward(x: Tensor[N, 256]) -> Tensor[N, 64] {
        return x @ (w * s)
    }
}
"""
    module = import_tri(source, weights={"w": trits((256, 64)), "s": floats((64,))})
    data = model_bytes(module)
    assert len(initializers(data)["w"].raw_data) == 256 * 64 // 4
    assert len(data) < 8000
    x = floats((3, 256), 1)
    bench.same(bench.run(data, [x]), run_module(module, [x]), 5)


def test_trainable_weights_are_packed_too(weights: dict[str, Any], bench: Any) -> None:
    latent = {**weights, "weights": floats((784, 10), 3)}
    module = import_tri(LINEAR_CLASSIFIER, weights=latent, trainable=True)
    data = model_bytes(module)
    (packed,) = [t for name, t in initializers(data).items() if name.startswith("weights")]
    assert len(packed.raw_data) == 1960
    x = floats((4, 784))
    bench.same(bench.run(data, [x]), run_module(module, [x]), 10)


def test_the_reference_evaluator_agrees(classifier: ModuleOp, bench: Any) -> None:
    from onnx.reference import ReferenceEvaluator

    x = floats((3, 784))
    for options in ("opset=13", "opset=21"):
        data = model_bytes(classifier, f"onnx{{{options}}}")
        evaluator: Any = ReferenceEvaluator(onnx.load_from_string(data))
        (expected,) = evaluator.run(None, {"x": x})
        np.testing.assert_allclose(bench.run(data, [x])[0], expected, 1e-5, 1e-4)


def test_the_graph_is_right_without_optimisation(classifier: ModuleOp, bench: Any) -> None:
    x = floats((3, 784))
    data = model_bytes(classifier)
    bench.same(bench.run(data, [x], optimize=False), run_module(classifier, [x]), 5)


def test_an_integer_network_is_exact(bench: Any) -> None:
    """Quantised input, a ternary convolution and two ternary layers, requantised in between."""
    stored = {
        "conv.w": pack_trits(trits((8, 1, 3, 3))),
        "conv.m": np.full(8, 1_500_000_000, np.int32),
        "conv.s": np.full(8, 33, np.int32),
        "fc1.w": pack_trits(trits((8 * 36, 32), 1)),
        "fc1.t": np.sort(trits((32, 15), 2).astype(np.int32) * 90, axis=1),
        "fc2.w": pack_trits(trits((32, 10), 3)),
        "fc2.b": np.arange(10, dtype=np.int32),
        "scale": np.array(1 / 64, np.float32),
        "zero": np.array(-3, np.int8),
    }

    def parameter(add: Any, key: str) -> Any:
        array = stored[key]
        element = {"int32": tensor_i32, "float32": f32, "int8": i8}[array.dtype.name]
        return add(tensor.ParameterOp(key, TensorType(element, array.shape)))

    from xdsl.dialects.builtin import i32 as tensor_i32

    def body(add: Any, x: Any) -> Any:
        zero = parameter(add, "zero")
        q = add(tensor.QuantizeOp(x, parameter(add, "scale"), zero))
        conv = add(
            ternary.ConvOp(
                q,
                add(ternary.ParameterOp("conv.w", [8, 1, 3, 3])),
                activation="relu",
                multiplier=parameter(add, "conv.m"),
                shift=parameter(add, "conv.s"),
                zero_point=zero,
                low=-128,
                high=127,
            )
        )
        flat = add(tensor.FlattenOp(conv))
        hidden = add(
            ternary.LinearOp(
                flat,
                add(ternary.ParameterOp("fc1.w", [8 * 36, 32])),
                thresholds=parameter(add, "fc1.t"),
            )
        )
        out = add(
            ternary.LinearOp(
                hidden, add(ternary.ParameterOp("fc2.w", [32, 10])), bias=parameter(add, "fc2.b")
            )
        )
        return [out, add(tensor.ArgmaxOp(out))]

    module = bench.build([TensorType(f32, [ANY, 1, 8, 8])], body, stored)
    x = floats((200, 1, 8, 8))
    for opset in (13, 18, 21):
        data = bench.check(module, [x], opset)
        bench.same(bench.run(data, [x], optimize=False), run_module(module, [x]))
        read = {name for node in onnx.load_from_string(data).graph.node for name in node.input}
        assert set(initializers(data)) <= read


@pytest.mark.parametrize("options", ["", "bits=4 signed=false", "symmetric=false"])
def test_a_quantised_model_is_exact(bench: Any, tmp_path: Path, options: str) -> None:
    source = """
layer Net {
    param w1: TernaryTensor[64, 48]
    param b1: Tensor[48]
    param w2: TernaryTensor[48, 10]
    fn forward(x: Tensor[N, 64]) -> Tensor[N, 10] {
        return relu(x @ w1 + b1) @ w2
    }
}
"""
    weights = {"w1": trits((64, 48)), "b1": floats((48,)), "w2": trits((48, 10), 1)}
    module = import_tri(source, weights=weights)
    x = np.abs(floats((300, 64), 2))
    np.savez(tmp_path / "samples.npz", x=x)
    pipeline = (
        "canonicalize,fuse-linear,fold-constants,canonicalize,"
        f'quantize-activations{{data="{tmp_path / "samples.npz"}" {options}}},requantize,cse,dce'
    )
    run_stages(module, [Stage("quantise", pipeline)])
    (expected,) = run_module(module, [x])
    for opset in (13, 18, 21):
        data = model_bytes(module, f"onnx{{opset={opset}}}")
        assert b"MatMulInteger" in data
        np.testing.assert_array_equal(bench.run(data, [x])[0], expected)


def test_missing_weights_are_one_error() -> None:
    with pytest.raises(LoweringError, match=r"'weights', 'bias' have no values; give --weights"):
        compile_to_target(import_tri(LINEAR_CLASSIFIER), "onnx")


@pytest.mark.parametrize("opset", [12, 26, 0])
def test_opsets_out_of_range(classifier: ModuleOp, opset: int) -> None:
    with pytest.raises(OptionError, match="13 to 25"):
        compile_to_target(classifier, f"onnx{{opset={opset}}}")


def test_all_unsupported_ops_are_listed(bench: Any) -> None:
    from xdsl.dialects import arith
    from xdsl.dialects.builtin import IntegerAttr, i64

    def body(add: Any, x: Any) -> Any:
        add(arith.ConstantOp(IntegerAttr(1, i64)))
        return add(ternary.TernarizeOp(x, mode="stochastic", seed=0))

    with pytest.raises(UnsupportedError) as caught:
        bench.bytes_of(bench.build([TensorType(f32, [4])], body))
    assert [problem[0] for problem in caught.value.problems] == [
        "arith.constant",
        "ternary.ternarize",
    ]


def test_outputs_that_are_inputs_constants_or_twice_the_same(bench: Any) -> None:
    def body(add: Any, x: Any) -> Any:
        y = add(tensor.ReluOp(x))
        return [x, y, y, add(tensor.ParameterOp("p", TensorType(f32, [2]))), y]

    module = bench.build([TensorType(f32, [ANY])], body, {"p": floats((2,))})
    bench.check(module, [floats((3,))])


def test_names_that_clash_are_numbered(bench: Any) -> None:
    def body(add: Any, x: Any) -> Any:
        x.name_hint = "y"
        hidden = add(tensor.AddOp(x, add(tensor.ParameterOp("y", TensorType(f32, [2])))))
        hidden.name_hint = "w.y"
        return add(tensor.MulOp(hidden, add(tensor.ParameterOp("w.y", TensorType(f32, [2])))))

    module = bench.build([TensorType(f32, [2])], body, {"y": floats((2,)), "w.y": floats((2,), 1)})
    bench.check(module, [floats((2,), 2)])


def test_external_data(classifier: ModuleOp, tmp_path: Path) -> None:
    import onnxruntime

    artifact = compile_to_target(classifier, "onnx{external-data=always}")
    (beside,) = artifact.files.keys() - {"LinearClassifier.onnx"}
    assert re.fullmatch(r"LinearClassifier-[0-9a-f]{12}\.data", beside)
    assert len(artifact.files["LinearClassifier.onnx"]) < 3000
    path = write_artifact(artifact, tmp_path / "out.onnx")[0]
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = floats((3, 784))
    results: list[Any] = list(session.run(None, {"x": x}))
    np.testing.assert_allclose(results[0], run_module(classifier, [x])[0], 1e-5, 1e-4)


def test_the_limit_of_external_data(classifier: ModuleOp) -> None:
    below = compile_to_target(classifier, "onnx{external-limit=2000000}")
    assert set(below.files) == {"LinearClassifier.onnx"}
    above = compile_to_target(classifier, "onnx{external-limit=1000}")
    assert len(above.files) == 2
    again = compile_to_target(classifier, "onnx{external-data=always}")
    assert above.files == again.files


@pytest.mark.slow
def test_a_model_above_two_gigabytes(bench: Any, tmp_path: Path) -> None:
    import onnxruntime

    shape = (16384, 33000)
    weight = np.zeros(shape, np.float32)
    weight[0], weight[-1], weight[:, -1] = 1, 2, 3
    assert weight.nbytes > 1 << 31
    module = bench.build(
        [TensorType(f32, [ANY, shape[0]])],
        lambda add, x: add(
            tensor.LinearOp(x, add(tensor.ParameterOp("w", TensorType(f32, shape))))
        ),
        {"w": weight},
    )
    artifact = compile_to_target(module, "onnx")
    path = write_artifact(artifact, tmp_path / "large.onnx")[0]
    assert path.stat().st_size < 2000
    del artifact
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = np.ones((1, shape[0]), np.float32)
    results: list[Any] = list(session.run(None, {"x": x}))
    np.testing.assert_array_equal(results[0][0, [0, -2, -1]], [3, 3, 3 * shape[0]])


def test_large_models_are_checked_without_their_weights(bench: Any) -> None:
    shape = (2048, 8192)
    module = bench.build(
        [TensorType(f32, [ANY, 2048])],
        lambda add, x: add(
            tensor.LinearOp(x, add(tensor.ParameterOp("w", TensorType(f32, shape))))
        ),
        {"w": np.ones(shape, np.float32)},
    )
    data = bench.bytes_of(module)
    assert list(initializers(data)) == ["w"]
    assert [port.name for port in onnx.load_from_string(data).graph.input] == ["x"]


def test_neither_torch_nor_onnx_is_loaded_early() -> None:
    program = """
import sys
import triton_dsl.lowering.to_onnx.target
assert "onnx" not in sys.modules
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
import numpy as np
source = '''
layer L {
    param w: TernaryTensor[4, 2]
    fn forward(x: Tensor[N, 4]) -> Tensor[N, 2] { return x @ w }
}
'''
compile_to_target(import_tri(source, weights={"w": np.ones((4, 2), np.int8)}), "onnx")
assert "onnx" in sys.modules and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
