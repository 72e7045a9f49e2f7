"""Converted networks on Loihi 2: near the program of floats, and bit by bit what Lava gives."""

from __future__ import annotations

import importlib.util
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.models import import_model
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.targets import compile_to_target, get_target
from triton_dsl.lowering.to_loihi2.engine import Loihi2Engine
from triton_dsl.runtime.random_values import fill_parameters

RECORDED = Path(__file__).parents[2] / "lava_peer" / "recorded"
"""What Lava gave for programs as they were converted once: other processors sum floats in another
order, and convert to others."""
PASSES = "fuse-pools,canonicalize,cse,dce,convert-spike-to-loihi,canonicalize,cse,dce"
SHOWN = 3
"""Samples that Lava ran."""


def load(name: str) -> Any:
    """A file beside this one, which is in no package."""
    path = Path(__file__).parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"loihi2_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NETWORKS = load("converted")
CASES = [(name, reset) for name in NETWORKS.SHAPES for reset in ("subtract", "to_value")]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[str, ModuleOp, ModuleOp, Any]:
    """Name, program of floats, program in fixed point, and inputs."""
    name, reset = request.param
    module = NETWORKS.converted(name, reset=reset)
    work = module.clone()
    apply_passes(work, PASSES)
    return f"{name}.{reset}", module, work, NETWORKS.samples(name)


def test_results_are_near(case: tuple[str, ModuleOp, ModuleOp, Any]) -> None:
    name, module, work, x = case
    (wanted,), (found,) = run_module(module, [x]), run_module(work, [x])
    error = np.sqrt(np.square(found - wanted).mean())
    # Neurons that lose all of their potential share a threshold, so that some weights are coarse.
    assert error < (0.25 if "subtract" in name else 1.0) * wanted.std(axis=0).mean() + 0.01
    assert error < 0.1 * wanted.std()
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()


def test_neurons_fire_in_their_windows(case: tuple[str, ModuleOp, ModuleOp, Any]) -> None:
    """Each layer says what it said, a step later than the layer before."""
    name, *modules, x = case
    trains: list[list[Any]] = []
    for module in modules:
        said: list[Any] = []

        def take(op: Any, _: Any, values: Any, said: list[Any] = said) -> None:
            if isinstance(op, spike.NeuronOp):
                said.append(np.asarray(values[0]))

        run_module(module, [x], "forward", take)
        trains.append(said)
    floats, whole = trains
    assert len(whole) == len(floats) + 1 and not whole[-1].any()
    for level, (wanted, found) in enumerate(zip(floats, whole, strict=False), 1):
        assert not found[:level].any()
        window = found[level : level + len(wanted)]
        assert (window != wanted).mean() < (0.1 if "subtract" in name else 0.2)
        assert abs(window.mean() - wanted.mean()) < (0.02 if "subtract" in name else 0.05)


@pytest.mark.parametrize(("name", "reset"), CASES)
def test_what_lava_gave(name: str, reset: str) -> None:
    work = import_model(RECORDED / f"{name.lower()}_{reset}.mlir").clone()
    apply_passes(work, PASSES)
    with np.load(RECORDED / "converted.npz") as recorded:
        wanted = recorded[f"{name}.{reset}"]
    np.testing.assert_array_equal(run_module(work, [NETWORKS.samples(name)[:SHOWN]])[0], wanted)


BRANCHES = """layer Branches {
    let left = Conv2d(1, 3, 1)
    let right = Conv2d(1, 2, 3, padding=1)
    let conv = Conv2d(5, 6, 3, padding=1)
    let head = Linear(WIDE, 5)

    fn forward(x: Tensor[N, 1, 6, 6]) -> Tensor[N, 5] {
        let h = concat([relu(left(x)), relu(right(x))], axis=1)
        return head(flatten(JOINED))
    }
}"""


@pytest.mark.parametrize("joined", ["h", "global_avg_pool2d(relu(conv(h)))"])
def test_branches_and_means_of_images(joined: str) -> None:
    """Of two trains side by side, and of a whole image, the weights behind them know."""
    text = BRANCHES.replace("JOINED", joined).replace("WIDE", "180" if joined == "h" else "6")
    if joined == "h":
        text = text.replace("    let conv = Conv2d(5, 6, 3, padding=1)\n", "")
    program = fill_parameters(import_tri(text), 3)
    x = np.random.default_rng(0).random((60, 1, 6, 6), np.float32)
    module = convert_to_snn(program, x, 6, pools="before")
    engine = Loihi2Engine.of(module, get_target("loihi2"), {})
    (wanted,), (found,) = run_module(module, [x]), engine.simulated([x])
    assert np.sqrt(np.square(found - wanted).mean()) < 0.1 * wanted.std()


def test_maxima_are_refused_where_they_stand() -> None:
    text = BRANCHES.replace("JOINED", "max_pool2d(relu(conv(h)), 6)").replace("WIDE", "6")
    x = np.random.default_rng(0).random((60, 1, 6, 6), np.float32)
    module = convert_to_snn(fill_parameters(import_tri(text), 3), x, 6, pools="before")
    with pytest.raises(UnsupportedError, match="stands between neurons"):
        Loihi2Engine.of(module, get_target("loihi2"), {})


@pytest.mark.slow
@pytest.mark.usefixtures("lava_here")
def test_what_lava_gives(case: tuple[str, ModuleOp, ModuleOp, Any]) -> None:
    _, module, work, x = case
    name, (found,), _ = run_target(module, "loihi2", [x[:SHOWN]])
    assert name == "lava-nc 0.10.0 (fixed_pt)"
    np.testing.assert_array_equal(found, run_module(work, [x[:SHOWN]])[0])


def test_the_files() -> None:
    artifact = compile_to_target(NETWORKS.converted("Images"), "loihi2")
    text = artifact.text("network.py")
    compile(text, "network.py", "exec")
    assert "x [samples, 1, 8, 8]" in text and "readout.mean [samples, 5]" in text
    assert artifact.files == compile_to_target(NETWORKS.converted("Images"), "loihi2").files
    with pytest.raises(UnsupportedError, match="netx has one input, of spikes"):
        compile_to_target(NETWORKS.converted("Images"), "loihi2{form=netx}")


def test_neurons_are_placed_by_what_they_did_on_samples(tmp_path: Path) -> None:
    """On as many cores as neurons, what the cores send is what the neurons fired."""
    module, x = NETWORKS.converted("Perceptron"), NETWORKS.samples("Perceptron", 8)
    x[:, ::2] = 0
    np.save(tmp_path / "x.npy", x)
    options = {"data": str(tmp_path / "x.npy"), "device": "loihi2{neurons_per_core=1}"}
    cores = json.loads(compile_to_target(module, "loihi2", options).files["cores.json"])
    work = module.clone()
    apply_passes(work, PASSES.replace("to-loihi", f'to-loihi{{data="{tmp_path / "x.npy"}"}}'))
    fired: list[Any] = []

    def take(op: Any, _: Any, values: Any) -> None:
        if isinstance(op, spike.NeuronOp):
            fired.append(np.asarray(values[0]).mean(axis=(0, 1)))

    run_module(work, [x], "forward", take)
    # Each neuron of a layer reaches all of the next one, but for weights of 0.
    most = sum(a.sum() * b.size for a, b in pairwise(fired))
    assert 0.9 * most < cores["traffic"]["between_cores"] <= most
    # Half of the inputs say nothing; a constant current comes from two places at most.
    assert 0.9 * 18 * 20 < cores["traffic"]["from_inputs"] <= 18 * 20 + 2 * (20 + 12 + 5)


def test_inputs_beyond_the_peak() -> None:
    """Inputs up to 4 keep their size where the option or samples say so."""
    module = NETWORKS.converted("Perceptron")
    x = NETWORKS.samples("Perceptron") * 4
    (wanted,) = run_module(module, [x])
    errors: list[float] = []
    for options in ("", "peak=4.0"):
        work = module.clone()
        apply_passes(work, PASSES.replace("to-loihi", f"to-loihi{{{options}}}"))
        errors.append(float(np.abs(run_module(work, [x])[0] - wanted).mean()))
    assert errors[1] < 0.2 * errors[0]


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="pools=before"):
        compile_to_target(NETWORKS.converted("Images", pools="first"), "loihi2")


def record() -> None:
    """Run Lava and keep what it gave: `TRITON_LAVA_PYTHON=… python …/test_converted.py`."""
    results: dict[str, Any] = {}
    for name, reset in CASES:
        x = NETWORKS.samples(name)[:SHOWN]
        engine, (found,), _ = run_target(NETWORKS.converted(name, reset=reset), "loihi2", [x])
        assert engine.startswith("lava-nc")
        results[f"{name}.{reset}"] = found
    np.savez_compressed(RECORDED, allow_pickle=False, **results)


if __name__ == "__main__":
    record()
