"""Each published file through every target by the command line, run on the target's own engine.

What the file gives in ONNX Runtime or LiteRT is the reference: no code of ours has part in it. For
LiteRT these are its reference kernels, since XNNPACK rounds integers in its own way.
Digits go in where the model reads digits; for the others noise, smooth in time for spoken words.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import triton_context
from triton_dsl.ir.errors import PassError
from triton_dsl.lowering.engine import run_artifact
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.passes.network.build_network import BuildNetworkPass
from triton_dsl.runtime.native.loading import load_shared
from triton_dsl.tools.translate import main as translate

Array = NDArray[Any]
Run = Callable[[Array], Array]


@dataclass(frozen=True)
class Model:
    """A published file.

    Attributes:
        pixel: what a pixel is worth where it reads digits.
        percent: its accuracy on all test digits.
    """

    pixel: float | None = None
    percent: float | None = None


MODELS = {
    "mnist-conv-opset8.onnx": Model(1.0, 98.91),
    "TFC_1W1A.onnx": Model(1 / 255, 92.96),
    "dense_big_keras.onnx": Model(),
    "three_layer_pytorch.onnx": Model(),
    "kws_ref_model.tflite": Model(),
    "kws_ref_model_float32.tflite": Model(),
}

FOREIGN = "TFC_1W1A.onnx"
"""A file with operators that ONNX Runtime lacks: the interpreter is its reference."""


@dataclass(frozen=True)
class Emitter:
    """A way out of the compiler.

    Attributes:
        spec: what `-t` gets; `{data}` is a file of samples.
        suffix: of the file that it writes.
        narrow: whether it rounds more than the program does.
    """

    spec: str
    suffix: str
    narrow: bool = False


EMITTERS = {
    "pytorch": Emitter("pytorch", ".py"),
    "onnx": Emitter("onnx", ".onnx"),
    "onnx-int8": Emitter('onnx{precision=int8 calibration="{data}"}', ".onnx", narrow=True),
    "tflite": Emitter("tflite", ".tflite"),
    "tflite-float16": Emitter("tflite{precision=float16}", ".tflite", narrow=True),
    "tflite-dynamic": Emitter("tflite{precision=dynamic-int8}", ".tflite", narrow=True),
    "tflite-int8": Emitter('tflite{precision=int8 calibration="{data}"}', ".tflite", narrow=True),
    "native": Emitter("native{name=model}", ".so"),
}

ROUNDING = "kws_ref_model_float32.tflite"
"""The file that rounds activations to 8 bits while it runs: a last bit decides over a step."""

INTEGERS = "kws_ref_model.tflite"
"""The file that gives integers: every target is within a step of them."""


def source(shared: Any, name: str) -> Path:
    return shared.path("models", name.rpartition(".")[2], name)


def samples(shared: Any, name: str, count: int, part: str = "t10k") -> Array:
    """Inputs [count, …] of a file, of its test or training part."""
    pixel = MODELS[name].pixel
    if pixel is not None:
        return np.rint(shared.digits(part)[:count] * 255).astype(np.float32) * np.float32(pixel)
    rng = np.random.default_rng(5 if part == "t10k" else 6)
    if "kws" not in name:
        return rng.standard_normal((count, 16)).astype(np.float32)
    walks = np.cumsum(rng.standard_normal((count, 49, 10, 1)), axis=1) / 3
    spectra = 30 * walks / np.arange(1, 11).reshape(10, 1) - 30 * np.eye(10)[0].reshape(10, 1)
    if name == INTEGERS:
        return np.clip(np.rint(spectra / 0.5847029) + 83, -128, 127).astype(np.int8)
    return spectra.astype(np.float32)


def onnx_engine(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session: Any = onnxruntime.InferenceSession(str(path), options)
    (port,) = session.get_inputs()
    (first, *rest), count = port.shape, 1
    if isinstance(first, int):
        count = first

    def run(x: Array) -> Array:
        x = x.reshape(len(x), *rest)
        if not isinstance(first, int):
            return session.run(None, {port.name: x})[0]
        padded = np.concatenate([x, np.zeros((-len(x) % count, *rest), x.dtype)])
        parts = [
            session.run(None, {port.name: part})[0]
            for part in np.split(padded, len(padded) // count)
        ]
        return np.concatenate(parts)[: len(x)]

    return run


def tflite_engine(path: Path, *, reference: bool = False) -> Run:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolvers: Any = OpResolverType
    kernels = resolvers.BUILTIN_REF if reference else resolvers.AUTO
    interpreter: Any = Interpreter(model_path=str(path), experimental_op_resolver_type=kernels)
    (port,), (out,) = interpreter.get_input_details(), interpreter.get_output_details()
    size = port["shape"]
    free = port["shape_signature"][0] == -1

    def run(x: Array) -> Array:
        made: list[Array] = []
        x = x.reshape(-1, *size[1:])
        interpreter.resize_tensor_input(port["index"], [len(x) if free else size[0], *size[1:]])
        interpreter.allocate_tensors()
        for part in [x] if free else np.split(x, len(x)):
            interpreter.set_tensor(port["index"], part)
            interpreter.invoke()
            made.append(interpreter.get_tensor(out["index"]))
        return np.concatenate(made)

    return run


def torch_engine(path: Path) -> Run:
    spec = importlib.util.spec_from_file_location("emitted", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.load()

    def run(x: Array) -> Array:
        with torch.no_grad():
            return model(torch.from_numpy(x)).numpy()

    return run


def native_engine(path: Path) -> Run:
    program = load_shared(path, "model")
    return lambda x: program.run([x])[0]


ENGINES = {
    ".py": torch_engine,
    ".onnx": onnx_engine,
    ".tflite": tflite_engine,
    ".so": native_engine,
}


@dataclass(frozen=True)
class Agreement:
    """What an emitted file gives, beside the published one.

    Attributes:
        error: the largest difference, as a share of the largest result.
        steps: the largest difference.
        same: the share of samples with the same prediction.
        decided: the same among those whose reference leads by more than `LEAD`.
        percent: the accuracy, where there are classes.
    """

    error: float
    steps: float
    same: float
    decided: float
    percent: float | None


LEAD = 0.02
"""The lead of the best result over the next that no rounding may turn over, as a share of the
largest result: a few steps of 8 bits."""


class Bench:
    """Emits each file once and runs it."""

    def __init__(self, shared: Any, folder: Path) -> None:
        self.shared, self.folder = shared, folder

    def emitted(self, name: str, emitter: str) -> Path:
        """The file that the command line writes."""
        how = EMITTERS[emitter]
        data = self.folder / f"{name}.npy"
        if "{data}" in how.spec and not data.exists():
            np.save(data, samples(self.shared, name, 200, "train"))
        path = self.folder / re.sub(r"\W", "_", f"{name}_{emitter}")
        path = path.with_suffix(how.suffix)
        if not path.exists():
            spec = how.spec.replace("{data}", str(data))
            given = [str(source(self.shared, name)), "-p", "free-batch", "-t", spec]
            assert translate([*given, "-o", str(path)]) == 0
        return path

    def reference(self, name: str, x: Array) -> Array:
        """What the published file gives."""
        path = source(self.shared, name)
        if name == FOREIGN:
            module = from_onnx(path, shapes={"0": ("N", 1, 28, 28)})
            return run_module(module, [x])[0]
        run = tflite_engine(path, reference=True) if path.suffix == ".tflite" else onnx_engine(path)
        return run(x)

    def agreement(self, name: str, emitter: str, count: int) -> Agreement:
        """Both on `count` samples."""
        x = samples(self.shared, name, count)
        want = self.reference(name, x)
        path = self.emitted(name, emitter)
        run = ENGINES[path.suffix](path)
        if path.suffix == ".tflite" and name.endswith(".tflite"):
            run = tflite_engine(path, reference=True)
        got = run(x)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        wide, most = want.astype(np.float64), float(np.abs(want.astype(np.float64)).max())
        steps = float(np.abs(got - wide).max())
        same = got.argmax(axis=1) == want.argmax(axis=1)
        second, first = np.sort(wide, axis=1)[:, -2:].T
        decided = same[first - second > LEAD * most]
        percent = None
        if MODELS[name].percent is not None:
            right = got.argmax(axis=1) == self.shared.labels("t10k")[:count]
            percent = round(100 * float(right.mean()), 2)
        share = float(decided.mean()) if len(decided) else 1.0
        return Agreement(steps / most, steps, float(same.mean()), share, percent)


@pytest.fixture(scope="module")
def bench(shared_data: Any, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(shared_data, tmp_path_factory.mktemp("published"))


QUICK = {
    *(("dense_big_keras.onnx", emitter) for emitter in EMITTERS if emitter != "native"),
    ("mnist-conv-opset8.onnx", "onnx"),
}
"""What is emitted and run in a second or two."""


def cases() -> list[Any]:
    """Every model with every emitter."""
    return [
        pytest.param(name, emitter, marks=[] if (name, emitter) in QUICK else pytest.mark.slow)
        for name in MODELS
        for emitter in EMITTERS
    ]


@pytest.mark.parametrize(("name", "emitter"), cases())
def test_predictions_stay(name: str, emitter: str, bench: Bench) -> None:
    found = bench.agreement(name, emitter, 300)
    if EMITTERS[emitter].narrow:
        assert found.decided >= (0.9 if name == ROUNDING else 0.95)
        return
    assert found.same == 1.0
    if name == INTEGERS:
        assert found.steps <= 1
    else:
        assert found.error < (0.02 if name == ROUNDING else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.percent])
def test_accuracy_on_all_digits(name: str, emitter: str, bench: Bench) -> None:
    """What the file reaches, from the file that we make of it."""
    found, percent = bench.agreement(name, emitter, 10_000).percent, MODELS[name].percent
    assert found is not None and percent is not None
    assert abs(found - percent) <= (0.75 if EMITTERS[emitter].narrow else 0)


TIMESTEPS = 16

NETWORKS = {
    "dense_big_keras.onnx": 1.0,
    "three_layer_pytorch.onnx": 0.9,
    "mnist-conv-opset8.onnx": 0.97,
}
"""Float networks that become spiking ones, and the share of predictions that must stay."""


@pytest.mark.parametrize("name", [n for n in MODELS if n != ROUNDING])
def test_nir_says_how_a_float_program_becomes_a_network(
    name: str, shared_data: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(source(shared_data, name))
    assert translate([path, "-t", "nir", "-o", str(tmp_path / "a.nir")]) == 1
    told = capsys.readouterr().err
    assert "a NIR file holds a spike.network and nothing beside it" in told
    assert "hint: a float program becomes a network by the passes 'free-batch," in told


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if "mnist" in n else []) for n in NETWORKS]
)
def test_the_advice_of_nir_works(
    name: str, bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The passes of the hint, word for word but for the file; the spikes of what was written."""
    path, made, data = source(bench.shared, name), tmp_path / "net.nir", tmp_path / "x.npy"
    np.save(data, samples(bench.shared, name, 300, "train"))
    assert translate([str(path), "-t", "nir", "-o", str(made)]) == 1
    hint = re.search(r"by the passes '(.+)' \(-p", capsys.readouterr().err)
    assert hint is not None
    passes = hint[1].replace("samples.npy", str(data))
    assert f"timesteps={TIMESTEPS}" in passes
    assert translate([str(path), "-p", passes, "-t", "nir", "-o", str(made)]) == 0
    x = samples(bench.shared, name, 100)
    want = bench.reference(name, x)
    steps = x.reshape(1, len(x), *(x.shape[1:] if x.ndim == 2 else (1, 28, 28)))
    currents = np.broadcast_to(steps, (TIMESTEPS, *steps.shape[1:]))
    (out,) = run_module(import_nir(made), [currents])
    assert (out.mean(axis=0).argmax(axis=1) == want.argmax(axis=1)).mean() >= NETWORKS[name]


def test_what_is_no_float_network_is_refused_with_every_op(shared_data: Any) -> None:
    """Signs are no activations that neurons could stand for: no network comes of them."""
    with pytest.raises(PassError, match="has no spiking neurons"):
        module = from_onnx(source(shared_data, FOREIGN))
        BuildNetworkPass().apply(triton_context(), module)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "native", "-o", "a.native"], "or give the form, as in 'native{form=object}'"),
        (["-t", "tflite{precision=int8}", "-o", "a.tflite"], "give calibration=FILE"),
        (["-t", "onnx{precision=int8}", "-o", "a.onnx"], "give calibration=FILE"),
    ],
)
def test_messages_say_what_to_do(
    arguments: list[str], message: str, shared_data: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = source(shared_data, "dense_big_keras.onnx")
    assert translate([str(path), *arguments]) != 0
    assert message in capsys.readouterr().err


def test_a_batch_of_a_whole_data_set_can_be_freed(shared_data: Any, tmp_path: Path) -> None:
    path = str(source(shared_data, "three_layer_pytorch.onnx"))
    made = tmp_path / "net.mlir"
    assert translate([path, "-p", "free-batch", "--import", "-o", str(made)]) == 0
    assert "tensor<?x16xf32>" in made.read_text() and "789444" not in made.read_text()


@pytest.mark.slow
def test_circuits_predict_the_same(bench: Bench, require_tool: Callable[[str, str], str]) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    module = from_onnx(source(bench.shared, FOREIGN), shapes={"0": ("N", 1, 28, 28)})
    artifact = compile_to_target(module, "verilog")
    x = samples(bench.shared, FOREIGN, 3)
    (got,) = run_artifact("verilog", artifact, [x.reshape(-1, 1, 28, 28)])[1]
    np.testing.assert_allclose(got, bench.reference(FOREIGN, x), atol=1e-4)
