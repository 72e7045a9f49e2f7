"""What is exchanged with other frameworks, and what they gave for it.

    python -m nir_peers.cases FOLDER    # in tests/: runs all frameworks, writes recorded/*.npz

FOLDER has the published graphs.

`READS` are graphs that we write and a framework runs, `WRITES` networks that a framework writes
and runs itself. A recording has files as bytes, so that nothing but numbers is in it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nir as nir_package
import numpy as np
from numpy.typing import NDArray

from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.targets import compile_to_target

from .environments import ENVIRONMENTS, python_of

nir: Any = nir_package
Array = NDArray[Any]
RECORDED = Path(__file__).parent / "recorded"
STEPS, DT = 24, 1e-4


def same(node: Any, size: int, **values: float) -> Any:
    """Neurons with the same numbers."""
    return node(**{key: np.full(size, value, np.float32) for key, value in values.items()})


def dense(neurons: Callable[[int], Any], low: float = -0.3, high: float = 0.7) -> Any:
    """Two layers of neurons behind a layer with a bias and one without."""
    rng = np.random.default_rng(4)
    weights = [rng.uniform(low, high, shape).astype(np.float32) for shape in ((5, 6), (5,), (4, 5))]
    layers = [nir.Affine(*weights[:2]), neurons(5), nir.Linear(weights[2]), neurons(4)]
    return nir.NIRGraph.from_list(layers)


def integrate_fire(size: int) -> Any:
    return same(nir.IF, size, r=1, v_threshold=0.9, v_reset=0)


def lif(size: int) -> Any:
    return same(nir.LIF, size, tau=5e-4, r=1, v_leak=0, v_threshold=0.25, v_reset=0)


def cuba(size: int) -> Any:
    """Currents and potentials whose inputs have the weight 1 in a step."""
    times = {"tau_syn": 5e-4, "tau_mem": 1e-3, "w_in": 5, "r": 10}
    return same(nir.CubaLIF, size, **times, v_leak=0, v_threshold=4, v_reset=0)


def rockpool_cuba(size: int) -> Any:
    """With r = τ/dt - 1, by which Rockpool finds dt; its own equation has neither r nor w_in."""
    times = {"tau_syn": 0.01, "tau_mem": 0.02, "w_in": 1, "r": 19}
    return same(nir.CubaLIF, size, **times, v_leak=0, v_threshold=20, v_reset=0)


def convolutional(neurons: Callable[[int], Any], *, pool: bool = False, low: float = -0.2) -> Any:
    """A convolution, neurons, and a layer of all."""
    rng = np.random.default_rng(5)
    weight = rng.uniform(low, 0.6, (3, 2, 3, 3)).astype(np.float32)
    bias = rng.uniform(max(low, -0.1), 0.1, 3).astype(np.float32)
    conv = nir.Conv2d((6, 6), weight, (1, 1), (1, 1), (1, 1), 1, bias)
    maps = neurons(3 * 6 * 6)
    for key, value in vars(maps).items():
        if isinstance(value, np.ndarray):
            setattr(maps, key, value.reshape(3, 6, 6))
    maps.__post_init__()
    two, none = np.array([2, 2]), np.array([0, 0])
    pools = [nir.SumPool2d(two, two, none)] if pool else []
    size = 27 if pool else 108
    last = nir.Linear(rng.uniform(5 * low, 1, (4, size)).astype(np.float32) / (size / 27))
    shape = np.array((3, 3, 3) if pool else (3, 6, 6))
    return nir.NIRGraph.from_list([conv, maps, *pools, nir.Flatten({"input": shape}, 0), last,
                                   neurons(4)])  # fmt: skip


def sparse() -> Any:
    """A convolution with positive weights, which gives at most a spike a step."""
    graph = convolutional(integrate_fire, pool=True, low=0)
    for node in graph.nodes.values():
        if hasattr(node, "weight"):
            node.weight = node.weight / np.float32(8 if node.weight.ndim == 4 else 64)
    return graph


def recurrent() -> Any:
    """A layer of neurons with feedback, which takes a step."""
    rng = np.random.default_rng(6)
    nodes = {
        "input": nir.Input(np.array([6])),
        "fc": nir.Linear(rng.uniform(-0.3, 0.9, (5, 6)).astype(np.float32)),
        "lif": lif(5),
        "back": nir.Linear(rng.uniform(-0.6, 0.4, (5, 5)).astype(np.float32)),
        "output": nir.Output(np.array([5])),
    }
    edges = [("input", "fc"), ("fc", "lif"), ("lif", "back"), ("back", "lif"), ("lif", "output")]
    return nir.NIRGraph(nodes, edges)


def biased(graph: Any) -> Any:
    """A graph without Linear, which Sinabs passes over in silence."""
    for name, node in graph.nodes.items():
        if isinstance(node, nir.Linear):
            graph.nodes[name] = nir.Affine(node.weight, np.zeros(len(node.weight), np.float32))
    return graph


@dataclass(frozen=True)
class Case:
    """A graph that a framework reads, or a network that it writes.

    Attributes:
        peer: the framework.
        name: of the case, or of the network as `run_peer` knows it.
        graph: makes the graph that is read; `None` for a network that is written.
        options: of `import_nir`.
        target: of the target `nir`.
        change: what the framework's own equations need otherwise in a graph.
    """

    peer: str
    name: str
    graph: Callable[[], Any] | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    target: dict[str, Any] = field(default_factory=dict[str, Any])
    change: Callable[[Any, float], None] | None = None

    def __str__(self) -> str:
        return f"{self.peer}-{'writes' if self.graph is None else 'reads'}-{self.name}"

    def currents(self) -> Array:
        """Inputs [T, …] of a graph that is read."""
        assert self.graph is not None
        (node,) = self.graph().inputs.values()
        rng = np.random.default_rng(7)
        return rng.uniform(0, 1, (STEPS, *node.input_type["input"])).astype(np.float32)

    def file(self) -> bytes:
        """What we write of a graph that is read."""
        assert self.graph is not None
        module = import_nir(self.graph(), **self.options)
        (data,) = compile_to_target(module, "nir", self.target).files.values()
        return data


def by_rockpools_equation(graph: Any, dt: float) -> None:
    """i' = β(i + x) and v' = αv + i', where NIR's exact step is βi + w(1-β)x and αv + r(1-α)i."""
    for node in graph.nodes.values():
        if isinstance(node, nir.CubaLIF):
            node.r = (1 / (1 - np.exp(-dt / node.tau_mem))).astype(np.float32)
            kept = np.exp(-dt / node.tau_syn)
            node.w_in = (kept / (1 - kept)).astype(np.float32)


SUBTRACT: dict[str, Any] = {"reset": "subtract"}
OLD: dict[str, Any] = {"v_reset": False, "resets": "metadata"}
"""What reads files of `nir` 1.0.4 and resets by subtraction."""

ROCKPOOL: dict[str, Any] = {"reset": "subtract", "integration": "exact", "dt": 1e-3}

READS = [
    Case("norse", "if", lambda: dense(integrate_fire)),
    Case("norse", "lif", lambda: dense(lif)),
    Case("norse", "cuba", lambda: dense(cuba)),
    Case("norse", "pool", lambda: convolutional(integrate_fire, pool=True)),
    Case("norse", "recurrent", recurrent),
    Case("snntorch", "lif", lambda: dense(lif)),
    Case("snntorch", "cuba", lambda: dense(cuba)),
    Case("snntorch", "conv", lambda: convolutional(lif)),
    Case("spikingjelly", "if", lambda: dense(integrate_fire), target={"dt": DT}),
    Case("spikingjelly", "cuba", lambda: dense(cuba)),
    Case("spikingjelly", "conv", lambda: convolutional(lif)),
    Case("spikingjelly", "recurrent", recurrent),
    Case("sinabs", "if", lambda: biased(dense(integrate_fire, 0, 0.2)), SUBTRACT, OLD),
    Case("sinabs", "pool", lambda: biased(sparse()), SUBTRACT, OLD),
    Case("rockpool", "cuba", lambda: dense(rockpool_cuba), ROCKPOOL, OLD, by_rockpools_equation),
    Case("nirtorch", "lif", lambda: dense(lif)),
    Case("nirtorch", "recurrent", recurrent),
    Case("nirtorch", "subtract", lambda: dense(lif), SUBTRACT, {"resets": "nodes"}),
]

PUBLISHED = {
    "braille_noDelay_bias_zero.nir": 0.2,
    "lif_norse.nir": 1.0,
    "two_lif_neurons.nir": 1.0,
}
"""Graphs of the NIR paper that the tests have where they are, and the density of their currents."""


def published_currents(path: Path) -> Array:
    """Currents [T, …] of a published graph."""
    (node,) = nir.read(path).inputs.values()
    rng = np.random.default_rng(8)
    shape = (4 * STEPS, *node.input_type["input"])
    return ((rng.random(shape) < PUBLISHED[path.name]) * rng.uniform(0, 3, shape)).astype(
        np.float32
    )


WRITES = [
    Case("norse", "if"),
    Case("norse", "lif", options={"dt": 1e-3}),
    Case("snntorch", "lif"),
    Case("snntorch", "cuba"),
    Case("snntorch", "recurrent"),
    Case("spikingjelly", "if"),
    Case("spikingjelly", "cuba"),
    Case("spikingjelly", "conv"),
    Case("sinabs", "if", options=SUBTRACT),
    Case("sinabs", "lif", options={**SUBTRACT, "dt": 1.0, "integration": "exact"}),
    Case("rockpool", "cuba", options=ROCKPOOL, change=by_rockpools_equation),
    Case("nirtorch", "lif"),
]


def run(case: Case, folder: Path) -> tuple[bytes, Array, Array]:
    """Run a framework: the file that was read or written, currents [T, …], outputs [T, …].

    Raises:
        RuntimeError: the framework ends with an error.
    """
    path = folder / "graph.nir"
    if case.graph is None:
        _run(case.peer, "write", case.name, str(folder))
        return path.read_bytes(), *(np.load(folder / f"{n}.npy") for n in ("currents", "outputs"))
    path.write_bytes(case.file())
    return path.read_bytes(), case.currents(), read(case.peer, path, case.currents(), folder)


def read(peer: str, path: Path, currents: Array, folder: Path) -> Array:
    """What a framework gives for a file and currents [T, …].

    Raises:
        RuntimeError: it ends with an error.
    """
    inputs, outputs = folder / "inputs.npy", folder / "read.npy"
    np.save(inputs, currents)
    _run(peer, "read", str(path), str(inputs), str(DT), str(outputs))
    return np.load(outputs)


def _run(peer: str, *arguments: str) -> None:
    script = Path(__file__).with_name("run_peer.py")
    command = [str(python_of(peer)), "-I", str(script), peer, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{peer} {arguments[0]}: {done.stderr[-2000:]}")


def recorded(case: Case) -> tuple[bytes, Array, Array]:
    """What `run` gave when it was recorded; the files and currents that we make are made anew."""
    with np.load(RECORDED / f"{case.peer}.npz") as file:
        outputs = file[f"{case}.outputs"]
        if case.graph is not None:
            return case.file(), case.currents(), outputs
        return file[f"{case}.graph"].tobytes(), file[f"{case}.currents"], outputs


def record(peer: str, folder: Path | None) -> None:
    """Write what a framework gives now; `folder` has the published graphs, which Norse reads."""
    arrays: dict[str, Array] = {}
    if peer == "norse" and folder is not None:
        for graph in PUBLISHED:
            path = folder / graph
            with TemporaryDirectory() as place:
                outputs = read(peer, path, published_currents(path), Path(place))
            arrays[graph] = outputs.astype(np.uint8)
    for case in [*READS, *WRITES]:
        if case.peer != peer:
            continue
        with TemporaryDirectory() as place:
            data, currents, outputs = run(case, Path(place))
        arrays[f"{case}.outputs"] = outputs.astype(np.uint8)
        assert (arrays[f"{case}.outputs"] == outputs).all()
        if case.graph is None:
            arrays[f"{case}.graph"] = np.frombuffer(data, np.uint8)
            arrays[f"{case}.currents"] = currents
    RECORDED.mkdir(exist_ok=True)
    np.savez_compressed(RECORDED / f"{peer}.npz", **arrays)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    for framework in ENVIRONMENTS:
        record(framework, Path(sys.argv[1]) if len(sys.argv) > 1 else None)
