"""The one way in: every kind of model through the same function, and so through every command.

What a model computes is compared with NumPy in float64 or PyTorch.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from triton_dsl import compile_model, export_to_onnx, optimize_for_mobile
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import BackendError, OptionError, ParameterError, SourceError
from triton_dsl.lowering import frontends
from triton_dsl.lowering.conversion import convert_to_snn, run_spiking
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.frontends import FrontEnd, register_front_end
from triton_dsl.lowering.models import import_model
from triton_dsl.lowering.module_file import save_module
from triton_dsl.lowering.simulator import simulator
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_tflite import export_to_tflite
from triton_dsl.runtime.engines import run_onnx
from triton_dsl.tools.cli import main as triton
from triton_dsl.tools.opt import main as triton_opt
from triton_dsl.tools.translate import main as triton_translate
from triton_dsl.tools.verify import verify_module

RNG = np.random.default_rng(5)
WEIGHTS = RNG.standard_normal((6, 3)).astype(np.float32)
X = RNG.standard_normal((4, 6)).astype(np.float32)
EXPECTED = X.astype(np.float64) @ WEIGHTS
SOURCE = """
layer Dense {
    param w: Tensor[6, 3]

    fn forward(x: Tensor[N, 6]) -> Tensor[N, 3] {
        return x @ w
    }
}
"""

Make = Callable[[Path], Any]


def tri_file(folder: Path) -> Path:
    path = folder / "dense.tri"
    path.write_text(SOURCE)
    return path


def ir_file(folder: Path) -> Path:
    path = folder / "dense.mlir"
    save_module(ir(), path, str)
    return path


def ir() -> ModuleOp:
    return import_tri(SOURCE, weights={"w": WEIGHTS})


def onnx_file(folder: Path) -> Path:
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])
        for name, size in (("x", 6), ("y", 3))
    ]
    weights = [numpy_helper.from_array(WEIGHTS, "w")]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "dense", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), folder / "dense.onnx")
    return folder / "dense.onnx"


def tflite_file(folder: Path) -> Path:
    """Our own file, which LiteRT is asked about in the tests of that target."""
    return export_to_tflite(ir(), folder / "dense.tflite")


def torch_module(folder: Path) -> torch.nn.Module:
    layer = torch.nn.Linear(6, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(WEIGHTS.T))
    return layer


KINDS: dict[str, tuple[Make, dict[str, Any]]] = {
    ".tri": (tri_file, {"weights": {"w": WEIGHTS}}),
    ".mlir": (ir_file, {}),
    ".onnx": (onnx_file, {}),
    ".tflite": (tflite_file, {}),
    "IR": (lambda folder: ir(), {}),
    "nn.Module": (torch_module, {"example_inputs": torch.from_numpy(X)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_compile_model_takes_every_kind_of_model(kind: str, tmp_path: Path) -> None:
    make, options = KINDS[kind]
    made = compile_model(make(tmp_path), "onnx", **options)
    (content,) = made.artifact.files.values()
    (y,) = run_onnx(content, [X])
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [".mlir", ".onnx", ".tflite", "IR", "nn.Module"])
@pytest.mark.parametrize(
    "export",
    [
        lambda model, folder, **given: export_to_onnx(model, folder / "made.onnx", **given),
        lambda model, folder, **given: export_to_tflite(model, folder / "made.tflite", **given),
        lambda model, folder, **given: optimize_for_mobile(model, **given),
    ],
    ids=["export_to_onnx", "export_to_tflite", "optimize_for_mobile"],
)
def test_exports_take_every_kind_of_model(export: Any, kind: str, tmp_path: Path) -> None:
    make, options = KINDS[kind]
    made = export(make(tmp_path), tmp_path, **options)
    if isinstance(made, Path) and made.suffix == ".tflite":
        (y,) = run_module(import_model(made), [X])
    else:
        (y,) = run_onnx(made, [X]) if isinstance(made, Path) else [made(X)]
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [".mlir", ".onnx", "IR", "nn.Module"])
def test_programs_of_this_processor_take_every_kind_of_model(kind: str, tmp_path: Path) -> None:
    make, options = KINDS[kind]
    y = native_program(make(tmp_path), **options)(X)
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "engine"),
    [(".onnx", "onnx"), ("nn.Module", "torch"), ("IR", None), (".mlir", "none")],
)
def test_a_model_is_verified_against_its_own_engine(
    kind: str, engine: str | None, tmp_path: Path
) -> None:
    rows = verify_module(KINDS[kind][0](tmp_path), [X], ["onnx"])
    assert all(row.agrees for row in rows)
    assert [row.target for row in rows if row.target == "source"] == ["source"] * bool(engine)
    assert rows[0].engine.startswith(engine or "onnxruntime")


def test_conversion_takes_a_pytorch_module() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.ReLU(), torch.nn.Linear(20, 3))
    samples = RNG.random((64, 6)).astype(np.float32)
    (y,) = run_spiking(convert_to_snn(net, samples, 64), [samples]).results
    with torch.no_grad():
        np.testing.assert_allclose(y, net(torch.from_numpy(samples)), atol=0.1)


def test_a_simulator_takes_a_file(tmp_path: Path) -> None:
    """Integrate and fire with weight 1: a spike at each step with input, none without."""
    path = tmp_path / "network.tri"
    path.write_text(
        "layer L { param w: Tensor[3, 3]\n"
        "fn forward(s: SpikeTensor[T, N, 3]) -> SpikeTensor[T, N, 3] "
        "{ return integrate_fire(s @ w) } }"
    )
    train = RNG.random((10, 2, 3)) < 0.4
    module = import_model(path, weights={"w": np.eye(3, dtype=np.float32)})
    save_module(module, tmp_path / "network.mlir")
    np.testing.assert_array_equal(simulator(tmp_path / "network.mlir")(train), train)


def test_compile_model_takes_nir_graphs(tmp_path: Path) -> None:
    """A leaky integrator of the NIR paper, τ v' = (v_leak - v) + r i, by Euler in float64."""
    nir: Any = pytest.importorskip("nir")
    tau, r, leak, dt = 0.02, 1.5, 0.1, 1e-4
    node = nir.LI(*(np.full(3, value) for value in (tau, r, leak)))
    nir.write(tmp_path / "graph.nir", nir.NIRGraph.from_list(nir.Linear(WEIGHTS.T), node))
    made = compile_model(tmp_path / "graph.nir", "onnx")
    x = RNG.standard_normal((20, 4, 6)).astype(np.float32)
    (content,) = made.artifact.files.values()
    (y,) = run_onnx(content, [x])
    v = np.zeros((4, 3))
    for step, current in enumerate(x.astype(np.float64) @ WEIGHTS):
        v = v + dt / tau * (leak - v + r * current)
        np.testing.assert_allclose(y[step], v, rtol=1e-4, atol=1e-5)


def test_ir_that_is_given_stays_as_it_is() -> None:
    module = import_tri(SOURCE)
    before = str(module)
    made = compile_model(module, "onnx", weights={"w": WEIGHTS})
    assert str(module) == before
    (y,) = run_onnx(next(iter(made.artifact.files.values())), [X])
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-5, atol=1e-5)
    assert import_model(module) is module
    module.body.block.first_op.detach()  # pyright: ignore[reportOptionalMemberAccess]
    assert "func.func" in str(made.module)


def test_options_that_a_model_does_not_take(tmp_path: Path) -> None:
    layer = torch_module(tmp_path)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (
            onnx_file(tmp_path),
            {"weights": {}},
            "its own weights and layers, and takes no",
        ),
        (ir(), {"layer": "Dense"}, "IR takes no 'layer'; a .tri program does"),
        (ir_file(tmp_path), {"trainable": True}, "takes no 'trainable'"),
        (ir(), {"input_shape": (1, 6)}, "belong to a PyTorch module; IR is a program"),
        (tri_file(tmp_path), {"example_inputs": X}, "belong to a PyTorch module"),
        (onnx_file(tmp_path), {"rounding": "xnnpack"}, "'rounding'; a .tflite file does"),
        (layer, {"layer": "Dense"}, "a PyTorch module has its own weights and layers"),
        (layer, {}, "needs input_shape or example_inputs"),
        (7, {"input_shape": (1, 6)}, "expected a path, IR or an nn.Module as the model, got int"),
    ]
    for model, options, message in cases:
        with pytest.raises(OptionError, match=message):
            import_model(model, **options)
    with pytest.raises(ParameterError):
        import_model(ir(), weights={"other": WEIGHTS})


def test_every_door_tells_which_files_it_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(b"")
    suffixes = ".tri, .gguf, .mlir, .nir, .net, .onnx, .pt2, .tflite or .tpk"
    message = f"unknown kind of file; expected {suffixes}"
    with pytest.raises(SourceError, match=message):
        compile_model(path)
    assert triton(["info", str(path)]) == 1
    assert triton_translate([str(path), "--import"]) == 1
    assert capsys.readouterr().err.count(message) == 2


@pytest.fixture
def matrices() -> Iterator[str]:
    """A front end of a program's own: matrices in `.csv` files, as layers."""

    def read(path: Path, *, weights: Path | None = None) -> ModuleOp:
        assert weights is None
        matrix = np.loadtxt(path, delimiter=",", dtype=np.float32, ndmin=2)
        return import_tri(SOURCE, weights={"w": matrix})

    register_front_end(".csv", FrontEnd(read, frozenset({"weights"})))
    yield ".csv"
    frontends._registered.clear()  # pyright: ignore[reportPrivateUsage]


def test_a_registered_front_end_is_known_everywhere(
    matrices: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"dense{matrices}"
    np.savetxt(path, WEIGHTS, delimiter=",", fmt="%.9g")
    (y,) = run_module(import_model(path), [X])
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-5, atol=1e-5)
    assert compile_model(path, "onnx").artifact.main_file == "Dense.onnx"
    for command in (
        lambda: triton(["run", str(path), "--json"]),
        lambda: triton_opt([str(path)]),
        lambda: triton_translate([str(path), "--import"]),
    ):
        assert command() == 0
    assert capsys.readouterr().out.count("tensor.matmul") == 2
    with pytest.raises(OptionError, match="takes no 'layer'"):
        import_model(path, layer="Dense")


@pytest.mark.parametrize("suffix", [".onnx", "csv"])
def test_a_front_end_cannot_take_the_suffix_of_another(suffix: str) -> None:
    with pytest.raises(OptionError, match="is no suffix that a front end can be added for"):
        register_front_end(suffix, FrontEnd(import_model))


def test_a_plugin_that_does_not_load_is_told_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from importlib.metadata import EntryPoint

    for value, message in (("no_such_package:X", "does not load"), ("math:pi", "is no FrontEnd")):
        point = EntryPoint("abc", value, frontends.ENTRY_POINTS)
        monkeypatch.setattr(frontends, "plug_ins", lambda group, point=point: [point])
        with pytest.raises(BackendError, match=f"front end plug-in 'abc'.*{message}"):
            import_model(tmp_path / "x.abc")
    assert str(import_model(ir_file(tmp_path))).count("tensor.matmul") == 1  # needs no plug-in


def test_ir_comes_from_standard_input_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Stdin:
        buffer = io.BytesIO(str(import_tri(SOURCE)).encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert "tensor.matmul" in str(import_model("-"))


@pytest.mark.parametrize(("frontend", "code"), [("tri", 0), ("mlir", 0), ("onnx", 2)])
def test_triton_opt_reads_text_alone_from_standard_input(
    frontend: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Stdin:
        buffer = io.BytesIO((SOURCE if frontend == "tri" else str(import_tri(SOURCE))).encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert triton_opt(["--frontend", frontend]) == code
    said = capsys.readouterr()
    assert "tensor.matmul" in said.out if code == 0 else "not from standard input" in said.err
