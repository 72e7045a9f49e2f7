"""Back ends: the results of the reference interpreter, whatever falls out; nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, LoweringError, OptionError, TritonError
from triton_dsl.lowering import compile_model
from triton_dsl.lowering.compile_model import CompiledModel, register_backend
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.neuromorphic.backend import (
    FallbackWarning,
    NeuromorphicBackend,
    Run,
    get_neuromorphic_backend,
    interpreted,
)
from triton_dsl.lowering.neuromorphic.machines import (
    EdgeBackend,
    Loihi2Backend,
    SpiNNakerBackend,
)
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.runtime.spiking.activity import record
from triton_dsl.runtime.spiking.config import SpikingConfig

Array = NDArray[Any]

LOIHI = """
func.func @forward(%x: !spike.train<?x?x{inputs}>) -> !spike.train<?x?x{neurons}> {{
  %w = tensor.constant dense<{weight}> : tensor<{inputs}x{neurons}xi8>
  %d = spike.delay %x {{steps = 1 : i64}}
       : (!spike.train<?x?x{inputs}>) -> !spike.train<?x?x{inputs}>
  %i = spike.linear %d, %w
       : !spike.train<?x?x{inputs}>, tensor<{inputs}x{neurons}xi8> -> tensor<?x?x{neurons}xi32>
  %s = spike.loihi_lif %i {{du = 4095.0 : f64, dv = 0.0 : f64, threshold = 100.0 : f64}}
       : (tensor<?x?x{neurons}xi32>) -> !spike.train<?x?x{neurons}>
  func.return %s : !spike.train<?x?x{neurons}>
}}
"""
NETWORK = """
spike.network @net dt = 1.0e-3 {
  %w = tensor.constant dense<0.5> : tensor<4x3xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @h {model = "lif", shape = array<i64: 3>,
      parameters = {tau = 1.0e-2 : f64, r = 10.0 : f64}}
  spike.projection @fc @x -> @h weights(%w : tensor<4x3xf32>)
  spike.probe @hs @h
}
func.func @forward(%x: !spike.train<?x?x4>) -> !spike.train<?x?x3> {
  %hs = spike.simulate @net(%x) : (!spike.train<?x?x4>) -> !spike.train<?x?x3>
  func.return %hs : !spike.train<?x?x3>
}
"""


def loihi(inputs: int = 4, neurons: int = 3, weight: int = 24) -> ModuleOp:
    return parse_module(LOIHI.format(inputs=inputs, neurons=neurons, weight=weight))


def trains(*shape: int) -> Array:
    return np.random.default_rng(0).random(shape) < 0.4


@pytest.fixture(autouse=True)
def nothing_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Lava nor sPyNNaker nor NEST, whatever this machine has."""
    for name in ("TRITON_LAVA_PYTHON", "TRITON_SPYNNAKER", "TRITON_NEST"):
        monkeypatch.setenv(name, "/no/such/python")


def test_loihi_falls_back_to_the_simulator_and_tells_why() -> None:
    backend, x = Loihi2Backend(), trains(20, 5, 4)
    compiled = backend.compile(loihi())
    assert compiled.target == "loihi2" and "network.py" in compiled.artifact.files
    with pytest.warns(FallbackWarning, match="simulator of Loihi 2 runs the program; Lava: no Py"):
        deployed = backend.deploy(compiled)
    results = backend.execute(deployed, x)
    np.testing.assert_array_equal(results.outputs[0], run_module(loihi(), [x])[0])
    assert results.outputs[0].any() and results.lost == 0 and len(results.failures) == 2
    metrics = backend.profile(results)
    assert metrics.device.name == "loihi2" and metrics.total[0] > 0
    assert metrics.events["synapse"].sum() * 5 == 3 * np.count_nonzero(x)


def test_without_fallback_the_reason_is_the_error() -> None:
    backend = Loihi2Backend(fallback=False)
    with pytest.raises(BackendError, match=r"nothing runs the program.*Lava: no Python has it"):
        backend.deploy(backend.compile(loihi()))


def test_spinnaker_falls_back_twice() -> None:
    backend, x = SpiNNakerBackend(device="spinnaker1"), trains(20, 2, 4)
    module = parse_module(NETWORK)
    compiled = backend.compile(module)
    with pytest.warns(FallbackWarning, match="reference interpreter runs the program; NEST: "):
        results = backend.execute(backend.deploy(compiled), [x])
    np.testing.assert_array_equal(results.outputs[0], run_module(module, [x])[0])
    assert [text.partition(":")[0] for text in results.failures] == ["sPyNNaker"] * 2 + ["NEST"] * 2
    metrics = backend.profile(results)
    assert metrics.device.name == "spinnaker1" and metrics.keeps_up


def converted(reset: str) -> tuple[ModuleOp, Array]:
    """A perceptron that is converted, and its inputs."""
    source = """layer Net {
        let fc = Linear(9, 7)
        let head = Linear(7, 4)
        fn forward(x: Tensor[N, 9]) -> Tensor[N, 4] { return head(relu(fc(x))) }
    }"""
    x = np.random.default_rng(0).random((30, 9), np.float32)
    module = fill_parameters(import_tri(source), 3)
    return convert_to_snn(module, x, 4, pools="before", reset=reset), x[:5]


def profiled(backend: NeuromorphicBackend, reset: str) -> tuple[Any, Any, Array]:
    """What a sample takes, the slices of the artefact, and the inputs."""
    module, x = converted(reset)
    compiled = backend.compile(module)
    with pytest.warns(FallbackWarning):
        results = backend.execute(backend.deploy(compiled), x)
    files = compiled.artifact.files
    placed = json.loads(files.get("cores.json") or files["placement.json"])
    return backend.profile(results), placed["slices"], x


def test_energy_is_that_of_the_slices_of_loihi() -> None:
    """Numbers enter the chip at each step, and biases in the window of each layer."""
    metrics, slices, x = profiled(Loihi2Backend(), "subtract")
    assert [part["population"] for part in slices] == ["layer0", "readout"]
    assert metrics.cores[metrics.cores >= 0].tolist() == [part["core"] for part in slices]
    parts = dict(zip(metrics.populations, metrics.events["message"], strict=True))
    numbers = np.count_nonzero(np.rint(x * 255)) / len(x)
    assert parts["x"] == pytest.approx(6 * numbers)  # 4 steps, and one for each of two layers
    assert parts["steps1"] == 2 * 4 and metrics.events["step"].sum() == 6 * (7 + 4)
    assert metrics.host.tolist() == [0, 0]


def test_energy_is_that_of_the_slices_of_spinnaker() -> None:
    """The host adds up numbers; a source of constants fires in all steps."""
    metrics, slices, x = profiled(SpiNNakerBackend(), "to_value")
    assert [part["population"] for part in slices] == ["neurons", "sum", "constants"]
    assert metrics.cores.tolist() == [part["core"] for part in slices]
    spikes = record(converted("to_value")[0], [x]).spikes / len(x)
    parts = dict(zip(metrics.populations, metrics.events["message"], strict=True))
    assert parts["neurons"] == pytest.approx(spikes) and parts["sum"] == 0
    assert parts["constants"] == 2 * 4
    assert metrics.host[1] == pytest.approx(9 * 7 * 8.6e-9)


def test_edge_runs_c() -> None:
    source = """layer Net {
        param w: TernaryTensor[6, 3]
        fn forward(x: Tensor[N, 6]) -> Tensor[N, 3] {
            return decode(lif(encode(x, timesteps=8, scheme="regular") @ w, tau=4.0))
        }
    }"""
    module = fill_parameters(import_tri(source), 1)
    x = np.random.default_rng(0).random((3, 6), np.float32)
    backend = EdgeBackend(board="no-board")
    with pytest.raises(OptionError, match="no board is named 'no-board'"):
        backend.deploy(backend.compile(module))
    for board in ("cortex-m4", "riscv32"):
        backend = EdgeBackend(board=board)
        results = backend.execute(backend.deploy(backend.compile(module)), x)
        np.testing.assert_allclose(results.outputs[0], run_module(module, [x])[0], rtol=1e-5)
        assert results.batch == 1 and board in results.engine


class Flaky(NeuromorphicBackend):
    """A machine that fails as often as is said."""

    target: ClassVar[str] = "loihi2"
    machines: ClassVar[tuple[str, ...]] = ("loihi2",)
    starts: ClassVar[Iterator[bool]]
    runs: ClassVar[Iterator[bool]]
    seen: ClassVar[list[int]]

    def ways(self, compiled: CompiledModel) -> Sequence[tuple[str, Callable[[], Run]]]:
        def start() -> Run:
            if not next(self.starts):
                raise BackendError("the board does not answer")
            return run

        def run(inputs: Sequence[Array]) -> list[Array]:
            if not next(self.runs):
                raise BackendError("the board stopped")
            self.seen.append(inputs[0].shape[1])
            return list(run_module(compiled.module, inputs))

        return ("a board", start), interpreted(compiled)


def flaky(starts: str, runs: str, **limits: object) -> Flaky:
    Flaky.starts, Flaky.runs = ((c == "+" for c in text) for text in (starts, runs))
    Flaky.seen = []
    return Flaky(SpikingConfig(hardware_constraints=limits), retries=1)


@pytest.mark.parametrize(
    ("starts", "runs", "engine", "failures", "seen"),
    [
        ("+", "+++", "a board", 0, [2, 2, 1]),
        ("-+", "+++", "a board", 1, [2, 2, 1]),
        ("--", "", "the reference interpreter", 2, []),
        ("+", "+-++", "a board", 1, [2, 2, 1]),
        ("+", "+--", "the reference interpreter", 2, [2]),
    ],
)
def test_failures_lose_nothing(
    starts: str, runs: str, engine: str, failures: int, seen: list[int]
) -> None:
    backend, x = flaky(starts, runs, batch=2), trains(9, 5, 4)
    compiled = backend.compile(loihi())
    if engine == "a board":
        results = backend.execute(backend.deploy(compiled), x)
    else:
        with pytest.warns(FallbackWarning, match="the reference interpreter runs"):
            results = backend.execute(backend.deploy(compiled), x)
    np.testing.assert_array_equal(results.outputs[0], run_module(loihi(), [x])[0])
    assert (results.engine, len(results.failures), results.batch) == (engine, failures, 2)
    assert results.lost == 0 and Flaky.seen == seen


def test_a_network_that_exceeds_a_chip_gets_more_of_them() -> None:
    module, x = loihi(64, 600), trains(6, 3, 64)
    limits = {"core_bytes": 4096, "cores_per_chip": 4, "batch": 1}
    backend = Loihi2Backend(SpikingConfig(hardware_constraints=limits))
    with pytest.warns(FallbackWarning, match="a larger machine is taken: .*'loihi2'.* 11 cores"):
        compiled = backend.compile(module)
    cores = json.loads(compiled.artifact.files["cores.json"])
    assert (cores["device"], cores["cores"]) == ("loihi2-kapohopoint", 11)
    assert max(cores["core_loads"]["core_bytes"]) <= 4096
    with pytest.warns(FallbackWarning, match="simulator"):
        results = backend.execute(backend.deploy(compiled), x)
    metrics = backend.profile(results)
    assert metrics.device.name == "loihi2-kapohopoint" and results.batch == 1
    assert metrics.cores.max() + 1 == cores["cores"]
    np.testing.assert_array_equal(results.outputs[0], run_module(module, [x])[0])
    only = Loihi2Backend(SpikingConfig(hardware_constraints={"device": "loihi2", **limits}))
    with pytest.raises(LoweringError, match="there are 4"):
        only.compile(module)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "takes 1 inputs, got 0"),
        ([trains(4, 2, 4), trains(4, 2, 4)], "takes 1 inputs, got 2"),
        (trains(4, 2, 5), "input 'x': expected"),
    ],
)
def test_inputs_that_do_not_fit_are_tried_on_nothing(inputs: Any, message: str) -> None:
    backend = flaky("+", "")
    deployed = backend.deploy(backend.compile(loihi()))
    with pytest.raises(TritonError, match=message):
        backend.execute(deployed, inputs)


def test_back_ends_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_model, "_backends", {})
    assert get_neuromorphic_backend("loihi2") is Loihi2Backend
    assert get_neuromorphic_backend("spinnaker") is SpiNNakerBackend
    assert get_neuromorphic_backend("c") is EdgeBackend
    register_backend("flaky", Flaky)
    assert get_neuromorphic_backend("flaky") is Flaky
    for name in ("onnx", "loihi3"):
        with pytest.raises(OptionError, match=f"no neuromorphic back end is named '{name}'"):
            get_neuromorphic_backend(name)
    compiled = compile_model.compile_model(loihi(), "flaky")
    assert isinstance(compiled, CompiledModel) and compiled.target == "loihi2"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"batch": 0}, "batch expects 1 or more"),
        ({"device": "loihi3"}, "did you mean 'loihi2'"),
        ({"cores": 4}, "unknown limit 'cores'"),
    ],
)
def test_wrong_constraints(limits: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Loihi2Backend(SpikingConfig(hardware_constraints=limits))
