"""Other frameworks read the files that we write, and give the same spikes as the interpreter."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nir as nir_package
import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.targets import compile_to_target

torch = pytest.importorskip("torch")
nir: Any = nir_package
Array = NDArray[np.float32]
Run = Callable[[Path, Any], Any]
"""What a peer makes of a file and currents [T, N, …]."""
DT, STEPS, BATCH = 1e-4, 40, 3

pytestmark = pytest.mark.filterwarnings("ignore")
"""What other libraries warn of is not ours."""


def peer(name: str) -> Any:
    """A module of another framework; the test is skipped where it is not installed."""
    package = name.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install {package}")
    return importlib.import_module(name)


def snntorch(path: Path, currents: Any) -> Any:
    read = peer("snntorch.import_nir").import_from_nir
    return each_alone(lambda: read(nir.read(path)), currents)


def norse(path: Path, currents: Any) -> Any:
    read = peer("norse.torch").from_nir
    return each_alone(lambda: read(nir.read(path), ignore_warnings=True, dt=DT), currents)


def spikingjelly(path: Path, currents: Any) -> Any:
    package = peer("spikingjelly.activation_based.nir_exchange")
    return run(package.import_from_nir(nir.read(path), dt=DT), currents)


def run(module: Any, currents: Any) -> Any:
    """What a module gives at each step, from rest."""
    state, outputs = None, list[Any]()
    for current in currents:
        output, state = module(current, state)
        outputs.append(output)
    return torch.stack(outputs)


def each_alone(make: Callable[[], Any], currents: Any) -> Any:
    """The same where a Flatten would join the samples, or modules keep their state."""
    return torch.stack([run(make(), sample) for sample in currents.unbind(1)], 1)


def lif(shape: tuple[int, ...], tau: float) -> Any:
    """Neurons as all of them have them: their input resistance is 1, they rest and reset at 0."""
    return nir.LIF(
        tau=np.full(shape, tau, np.float32),
        r=np.ones(shape, np.float32),
        v_leak=np.zeros(shape, np.float32),
        v_threshold=np.full(shape, 0.1, np.float32),
        v_reset=np.zeros(shape, np.float32),
    )


def dense(rng: np.random.Generator) -> tuple[Any, tuple[int, ...]]:
    """Two layers of neurons."""
    nodes = [
        nir.Affine(*(rng.uniform(-0.3, 0.7, s).astype(np.float32) for s in ((16, 8), (16,)))),
        lif((16,), 2e-3),
        nir.Linear(rng.uniform(-0.5, 2, (5, 16)).astype(np.float32)),
        lif((5,), 1e-3),
    ]
    return nir.NIRGraph.from_list(nodes), (8,)


def convolutional(rng: np.random.Generator) -> tuple[Any, tuple[int, ...]]:
    """A convolution, neurons, and a layer of all."""
    conv = nir.Conv2d(
        input_shape=(6, 6),
        weight=rng.uniform(-0.2, 0.6, (3, 2, 3, 3)).astype(np.float32),
        stride=(2, 2),
        padding=(1, 1),
        dilation=(1, 1),
        groups=1,
        bias=rng.uniform(-0.1, 0.1, 3).astype(np.float32),
    )
    nodes = [
        conv,
        lif((3, 3, 3), 2e-3),
        nir.Flatten({"input": np.array([3, 3, 3])}, start_dim=0),
        nir.Linear(rng.uniform(-1.2, 1, (4, 27)).astype(np.float32)),
        lif((4,), 1e-3),
    ]
    return nir.NIRGraph.from_list(nodes), (2, 6, 6)


@pytest.mark.parametrize("read", [snntorch, norse, spikingjelly])
@pytest.mark.parametrize("make", [dense, convolutional])
def test_a_peer_gives_the_same_spikes(
    make: Callable[[np.random.Generator], tuple[Any, tuple[int, ...]]],
    read: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = np.random.default_rng(5)
    graph, shape = make(rng)
    module = import_nir(graph, dt=DT, integration="euler")
    path = tmp_path / "ours.nir"
    (data,) = compile_to_target(module, "nir").files.values()
    path.write_bytes(data)
    currents = rng.uniform(0, 1, (STEPS, BATCH, *shape)).astype(np.float32)
    (wanted,) = run_module(module, [currents])

    with torch.no_grad():
        found = read(path, torch.from_numpy(currents))
    capsys.readouterr()
    assert 0.05 < np.mean(wanted) < 0.95
    np.testing.assert_array_equal(found.numpy(), wanted)
