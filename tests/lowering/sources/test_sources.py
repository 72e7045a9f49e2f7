"""What a program came from is run as it is, by an engine that is not ours."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from triton_dsl import from_onnx, from_torch
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.from_torch.pt2_file import from_pt2
from triton_dsl.lowering.sources import nir as nir_source
from triton_dsl.lowering.sources import onnx_faults
from triton_dsl.lowering.sources.choice import source_of
from triton_dsl.lowering.sources.onnx import OnnxSource
from triton_dsl.lowering.sources.torch import TorchSource
from triton_dsl.tools.draws import EDGE, ORDINARY, draw
from triton_dsl.tools.verify import verify_module

torch: Any = pytest.importorskip("torch")

TFLITE = Path(__file__).resolve().parents[2] / "lowering" / "from_tflite" / "converted"


def onnx_model(nodes: list[Any], outputs: dict[str, int], opset: int = 21, **inputs: Any) -> Any:
    """A model; inputs are `(type, shape)`, or arrays for initialisers."""
    arrays = {n: v for n, v in inputs.items() if isinstance(v, np.ndarray)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, *v) for n, v in inputs.items() if n not in arrays],
        [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()],
        [numpy_helper.from_array(array, n) for n, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def rows_of(module: Any, source: Any, **options: Any) -> Any:
    """The rows of the source and the interpreter on random inputs, each kind."""
    origin = source_of(source)
    ordinary, edge = (draw(module, kind, 4, 0, source=origin) for kind in (ORDINARY, EDGE))
    assert ordinary is not None and edge is not None
    return verify_module(module, ordinary, [], source=origin, more_inputs=[edge], **options)


def test_an_onnx_file_runs_in_onnx_runtime(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    nodes = [helper.make_node("Gemm", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])]
    model = onnx_model(nodes, {"y": TensorProto.FLOAT}, x=(TensorProto.FLOAT, ["N", 6]), w=w)
    for given in (model, model.SerializeToString()):
        assert rows_of(from_onnx(model), given)[1].agrees
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    for given in (path, str(path)):
        source, interpreter = rows_of(from_onnx(path), given)
        assert source.engine.startswith("onnxruntime") and source.bytes == path.stat().st_size
        assert interpreter.agrees and interpreter.max_abs < 1e-4
    assert [*OnnxSource(path).values([np.zeros((1, 6), np.float32)])] == [("h", 1), ("y", 2)]


def test_values_are_told_by_node() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Split", ["a"], ["b", "c"], num_outputs=2, axis=1),
    ]
    model = onnx_model(nodes, {"c": TensorProto.FLOAT}, x=(TensorProto.FLOAT, ["N", 4]))
    x = np.array([[1, -2, 3, -4]], np.float32)
    values = OnnxSource(model).values([x])
    assert [*values] == [("first", 1), ("b", 2)]
    assert [v.tolist() for v in values["b", 2]] == [[[1, 0]], [[3, 0]]]


def test_where_the_runtime_is_wrong_the_standard_runs() -> None:
    nodes = [
        helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear",
                         coordinate_transformation_mode="align_corners"),
    ]  # fmt: skip
    s = np.array([1, 1, 0.6, 0.6], np.float32)
    model = onnx_model(nodes, {"y": TensorProto.FLOAT}, x=(TensorProto.FLOAT, [1, 1, 4, 4]), s=s)
    source, interpreter = rows_of(from_onnx(model), model)
    assert source.engine.startswith("onnx.reference") and interpreter.agrees


def test_the_runtime_is_asked_without_its_optimisations() -> None:
    """They would take the zeros around the image for pads of the pool, which never win."""
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["h"]),
        helper.make_node("MaxPool", ["h"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    shape, p = [1, 1, 4, 4], np.array([0, 0, 1, 1, 0, 0, 1, 1])
    model = onnx_model(nodes, {"y": TensorProto.FLOAT}, 18, x=(TensorProto.FLOAT, shape), p=p)
    source = OnnxSource(model)
    (found,) = source.run([np.full(shape, -1, np.float32)])
    assert source.engine.startswith("onnxruntime")
    assert found[0, 0].tolist() == [[0, 0, 0], [0, -1, 0], [0, 0, 0]]


def test_sums_of_wide_integers_wrap_around() -> None:
    node = helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=0)
    axes = np.array([1])
    for kind, engine in ((TensorProto.INT64, "onnx.reference"), (TensorProto.FLOAT, "onnxruntime")):
        model = onnx_model([node], {"y": kind}, x=(kind, ["N", 4]), a=axes)
        source, interpreter = rows_of(from_onnx(model), model)
        assert source.engine.startswith(engine) and interpreter.agrees


@pytest.mark.parametrize("wrong", [True, False])
def test_integer_products_run_where_they_are_right(
    wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = np.full((64, 8), 127, np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    model = onnx_model([node], {"y": TensorProto.INT32}, x=(TensorProto.UINT8, ["N", 64]), w=w)
    monkeypatch.setattr(onnx_faults, "saturates", lambda: wrong)
    source = OnnxSource(model)
    (y,) = source.run([np.full((1, 64), 255, np.uint8)])
    assert source.engine.startswith("onnx.reference" if wrong else "onnxruntime")
    if wrong:
        assert (y == 64 * 255 * 127).all()


def test_this_processor_is_asked_whether_products_saturate() -> None:
    x, w = np.full((8, 64), 255, np.uint8), np.full((64, 32), 127, np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    model = onnx_model([node], {"y": TensorProto.INT32}, x=(TensorProto.UINT8, ["N", 64]), w=w)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found: Any = session.run(None, {"x": x})
    assert onnx_faults.saturates() == bool((found[0] != 64 * 255 * 127).any())


@pytest.mark.slow
def test_a_processor_that_saturates_is_noticed(require_tool: Callable[[str, str], str]) -> None:
    """A Haswell has AVX2 and no VNNI."""
    qemu = require_tool("qemu-x86_64", "apt-get install qemu-user")
    code = "from triton_dsl.lowering.sources.onnx_faults import saturates; print(saturates())"
    command = [qemu, "-cpu", "Haswell", sys.executable, "-c", code]
    made = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert made.stdout.split() == ["True"]


def test_elements_that_the_ir_holds_in_bytes() -> None:
    for kind in (TensorProto.INT4, TensorProto.FLOAT8E4M3FN, TensorProto.BFLOAT16):
        node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
        model = onnx_model([node], {"y": TensorProto.FLOAT}, x=(kind, ["N", 5]))
        source, interpreter = rows_of(from_onnx(model), model)
        assert source.engine.startswith("onnx.reference") and interpreter.agrees


def test_inputs_that_became_constants_are_given_again() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    model = onnx_model(
        [node], {"y": TensorProto.FLOAT}, x=(TensorProto.FLOAT, [2, 6]), s=(TensorProto.INT64, [2])
    )
    constants = {"s": np.array([3, 4])}
    module = from_onnx(model, constants=constants)
    assert rows_of(module, OnnxSource(model, constants=constants))[1].agrees
    with pytest.raises(OptionError, match=r"takes 2 inputs \(x, s\).*constants="):
        rows_of(module, model)


def test_operators_that_nobody_here_knows_are_said() -> None:
    node = helper.make_node("Quant", ["x", "s", "z", "b"], ["y"], domain="onnx.brevitas",
                            signed=1, narrow=0, rounding_mode="ROUND")  # fmt: skip
    numbers: dict[str, Any] = dict(
        zip("szb", (np.array(v, np.float32) for v in (0.5, 0, 4)), strict=True)
    )
    model = onnx_model([node], {"y": TensorProto.FLOAT}, x=(TensorProto.FLOAT, ["N", 4]), **numbers)
    model.opset_import.append(helper.make_opsetid("onnx.brevitas", 1))
    source, *rest = rows_of(from_onnx(model), model)
    if importlib.util.find_spec("qonnx") is None:
        assert (source.engine, rest) == ("none", []) and "qonnx" in source.note
    else:
        assert source.engine.startswith("qonnx") and rest[0].bit_exact


def test_the_standard_infers_with_old_normalisations_too(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = dict(zip("sbmv", np.random.default_rng(0).uniform(1, 2, (4, 3)), strict=True))
    arrays: dict[str, Any] = {name: v.astype(np.float32) for name, v in vectors.items()}
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], epsilon=0.5)
    model = onnx_model(
        [node], {"y": TensorProto.FLOAT}, 9, x=(TensorProto.FLOAT, ["N", 3]), **arrays
    )
    monkeypatch.setattr("triton_dsl.lowering.sources.onnx.runtime_fault", lambda model: "a fault")
    source = OnnxSource(model)
    x = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
    (y,) = source.run([x])
    assert source.engine.startswith("onnx.reference")
    s, b, m, v = (vectors[name] for name in "sbmv")
    np.testing.assert_allclose(y, s * (x - m) / np.sqrt(v + 0.5) + b, 1e-5)


@pytest.mark.parametrize(
    "name", ["resnet.float32", "mobilenet.int8", "legacy.uint8", "unet.int8", "excitation.float32"]
)
def test_a_tflite_file_runs_in_litert(name: str) -> None:
    path = TFLITE / f"{name}.tflite"
    source, interpreter = rows_of(from_tflite(path), path)
    assert source.engine.startswith("litert") and "reference kernels" in source.engine
    assert interpreter.agrees and interpreter.bit_exact == ("int8" in name)
    assert rows_of(from_tflite(path.read_bytes()), path.read_bytes())[1].agrees


def test_a_module_runs_eagerly_and_stays_as_it_is() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.Dropout(0.5)
    )
    net.train()
    module = from_torch(net, torch.zeros(2, 2, 8, 8))
    source, interpreter = rows_of(module, net)
    assert "eager" in source.engine and interpreter.agrees and net.training


def test_other_arguments_than_tensors() -> None:
    class Net(torch.nn.Module):
        def forward(self, pair: Any, scale: float, flip: bool = False) -> Any:
            a, b = pair
            return {"sum": a + b * scale, "first": -a if flip else a}

    example = {"pair": (torch.zeros(2, 3), torch.zeros(2, 3)), "scale": 3.0, "flip": True}
    module = from_torch(Net(), example)
    assert rows_of(module, TorchSource(Net(), example))[1].agrees


def test_a_saved_program_runs_in_torch(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, pair: Any, scale: float, flip: bool = False) -> Any:
            a, b = pair
            return {"sum": self.linear(a) + b * scale, "first": -a if flip else a}

    net, path = Net().eval(), tmp_path / "net.pt2"
    rows = {0: torch.export.Dim("rows", max=8)}
    example = (torch.zeros(2, 3), torch.zeros(2, 3)), 3.0
    shapes = {"pair": (rows, rows), "scale": None, "flip": None}
    program = torch.export.export(net, example, {"flip": True}, dynamic_shapes=shapes)
    torch.export.save(program, path)
    a, b = np.random.default_rng(1).standard_normal((2, 4, 3), np.float32)
    source = source_of(path)
    with torch.no_grad():
        expected = net((torch.from_numpy(a), torch.from_numpy(b)), 3.0, True)
    np.testing.assert_array_equal(source.run([a, b])[0], expected["sum"])
    with pytest.warns(UserWarning, match="up to 8"):
        module = from_pt2(path)
    assert rows_of(module, source)[1].agrees
    assert ("linear", [(4, 3)]) in [
        (place[0], [value.shape for value in values])
        for place, values in source.values([a, b]).items()
    ]
    with pytest.raises(BackendError, match="Guard failed"):
        source.run([np.zeros((9, 3), np.float32)] * 2)


def test_programs_of_ours_have_no_other_engine(tmp_path: Path) -> None:
    for name in ("a.tri", "b.mlir"):
        with pytest.raises(BackendError, match="no other engine than the interpreter"):
            source_of(tmp_path / name).run([])
    with pytest.raises(OptionError, match="got int"):
        source_of(3)  # pyright: ignore[reportArgumentType]


def graph() -> Any:
    import nir

    ones = np.ones(3, np.float32)
    weight = np.random.default_rng(0).uniform(0, 1, (3, 4)).astype(np.float32)
    neurons = nir.LIF(tau=ones * 2e-3, r=ones, v_leak=ones * 0, v_threshold=ones * 0.1)
    nodes: Any = [nir.Linear(weight), neurons]
    return nir.NIRGraph.from_list(nodes)


def test_a_nir_graph_runs_in_a_peer_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The face of such a package: a module of a current and a state."""
    import nir

    path = tmp_path / "net.nir"
    nir.write(path, graph())
    module = import_nir(path)
    source = source_of(path)
    if not any(map(nir_source.find_spec, nir_source.PEERS)):
        (row,) = rows_of(module, path)
        assert row.engine == "none" and "norse or snntorch" in row.note

    def peer(read: Any) -> Any:
        weight = torch.from_numpy(
            next(n.weight for n in read.nodes.values() if "weight" in vars(n))
        )

        def step(current: Any, v: Any) -> Any:
            v = torch.zeros(3) if v is None else v
            v = v + 1e-4 / 2e-3 * (weight @ current - v)
            spikes = (v > 0.1).float()
            return spikes, v * (1 - spikes)

        return step

    monkeypatch.setattr(nir_source, "PEERS", {"torch": peer})
    currents = np.random.default_rng(1).uniform(0, 1, (20, 2, 4)).astype(np.float32)
    source, interpreter = verify_module(module, [currents], [], source=path)
    assert source.engine.startswith("torch") and interpreter.bit_exact
    assert 0.05 < np.mean(run_module(module, [currents])[0]) < 0.95


def test_peers_that_read_other_neurons_than_a_file_has() -> None:
    """As their code does: see docs/targets/nir.md."""
    nir = pytest.importorskip("nir")
    one, zero = np.ones(2), np.zeros(2)
    graph = nir.NIRGraph.from_list(nir.IF(2 * one, one, zero))
    with pytest.raises(BackendError, match="Norse takes r of IF as 1"):
        nir_source.PEERS["norse"](graph)
    graph = nir.NIRGraph.from_list(nir.LIF(one, one, zero, one, one / 2))
    with pytest.raises(BackendError, match="Norse takes v_reset of LIF as 0"):
        nir_source.PEERS["norse"](graph)
    graph = nir.NIRGraph.from_list(nir.IF(one, one, zero))
    with pytest.raises(BackendError, match="snnTorch reads IF as a leaky neuron"):
        nir_source.PEERS["snntorch"](graph)
