"""Options of the target: resets that NIR lacks, steps of another length, files for old readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import nir as nir_package
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.spike import NetworkOp, ProjectionOp
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.targets import compile_to_target

nir: Any = nir_package
DT = 2.0**-10
"""Powers of two, so that no order of a sum rounds."""

NEURONS = {
    "integrate_fire": {"r": 1 / DT, "v_threshold": 0.75},
    "lif": {"tau": 4 * DT, "r": 4.0, "v_threshold": 0.5, "v_leak": 0.25},
    "cuba_lif": {"tau_syn": 2 * DT, "tau_mem": 4 * DT, "r": 4.0, "w_in": 2.0, "v_threshold": 0.5},
}


def network(model: str, reset: str, recurrent: bool = False) -> ModuleOp:
    """Two neurons on currents of their own, and on each other where they are recurrent."""
    fields = ", ".join(f"{key} = {value:e} : f64" for key, value in NEURONS[model].items())
    back = (
        "%w = tensor.constant dense<[[0.0, -0.25], [0.5, 0.0]]> : tensor<2x2xf32>\n"
        'spike.projection @back @n -> @n weights(%w : tensor<2x2xf32>) {connection = "linear", '
        "delay = 1}"
    )
    return parse_module(f"""
spike.network @net dt = {DT:e} {{
  spike.input @x {{shape = array<i64: 2>, signal = "current"}}
  spike.population @n {{model = "{model}", shape = array<i64: 2>, reset = "{reset}",
    parameters = {{{fields}}}}}
  spike.projection @in @x -> @n {{connection = "one_to_one"}}
  {back if recurrent else ""}
  spike.probe @y @n
}}
func.func @forward(%x: tensor<?x?x2xf32>) -> !spike.train<?x?x2> {{
  %y = spike.simulate @net(%x) : (tensor<?x?x2xf32>) -> !spike.train<?x?x2>
  func.return %y : !spike.train<?x?x2>
}}""")


def written(module: ModuleOp, path: Path, **options: object) -> Path:
    (data,) = compile_to_target(module, "nir", options).files.values()
    path.write_bytes(data)
    return path


def currents(low: float = 0.0) -> Any:
    values = np.random.default_rng(0).integers(int(4 * low), 5, (40, 3, 2)) / 4
    return values.astype(np.float32)


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("reset", ["subtract", "none"])
@pytest.mark.parametrize("model", NEURONS)
def test_other_resets_as_nodes_and_as_metadata(
    model: str, reset: str, recurrent: bool, tmp_path: Path
) -> None:
    """By nodes alone, any reader of NIR's equations gives the spikes; by metadata, we do."""
    module, x = network(model, reset, recurrent), currents(-0.5)
    (wanted,) = run_module(module, [x])
    assert 0.05 < wanted.mean() < 0.95
    with pytest.raises(UnsupportedError, match=f"not by '{reset}'.*resets=nodes"):
        compile_to_target(module, "nir")
    path = written(module, tmp_path / "nodes.nir", resets="nodes")
    graph = nir.read(path)
    assert not {"IF", "LIF", "CubaLIF"} & {type(node).__name__ for node in graph.nodes.values()}
    np.testing.assert_array_equal(run_module(import_nir(path), [x])[0], wanted)
    path = written(module, tmp_path / "metadata.nir", resets="metadata")
    assert nir.read(path).nodes["n"].metadata["reset"] in (reset, reset.encode())
    again = import_nir(path)
    np.testing.assert_array_equal(run_module(again, [x])[0], wanted)
    np.testing.assert_array_equal(run_module(import_nir(nir.read(path)), [x])[0], wanted)
    (back,) = compile_to_target(again, "nir", {"resets": "metadata"}).files.values()
    assert back == path.read_bytes()
    (plain,) = run_module(import_nir(path, reset="to_value"), [x])
    assert (plain != wanted).any()


@pytest.mark.parametrize("model", NEURONS)
def test_steps_of_another_length_do_the_same(model: str, tmp_path: Path) -> None:
    module, x = network(model, "to_value"), currents()
    path = written(module, tmp_path / "slow.nir", dt=8 * DT)
    again = import_nir(path)
    (op,) = (op for op in again.walk() if isinstance(op, NetworkOp))
    assert op.dt.value.data == 8 * DT
    np.testing.assert_array_equal(run_module(again, [x])[0], run_module(module, [x])[0])
    taus = {key: 8 * value for key, value in NEURONS[model].items() if key.startswith("tau")}
    node = nir.read(path).nodes["n"]
    assert all((getattr(node, key) == value).all() for key, value in taus.items())
    with pytest.raises(OptionError, match="dt expects seconds above 0"):
        compile_to_target(module, "nir", {"dt": -1.0})


def test_delays_keep_their_steps(tmp_path: Path) -> None:
    nodes = {"i": nir.Input(np.array([1])), "d": nir.Delay(np.array([3e-4]))}
    nodes["o"] = nir.Output(np.array([1]))
    module = import_nir(nir.NIRGraph(nodes, [("i", "d"), ("d", "o")]))
    again = import_nir(written(module, tmp_path / "d.nir", dt=1e-3))
    assert [op.delay.value.data for op in again.walk() if isinstance(op, ProjectionOp)] == [3]


def test_a_zero_v_reset_is_left_out(tmp_path: Path) -> None:
    module = network("integrate_fire", "to_value")
    for stated in (True, False):
        path = written(module, tmp_path / "old.nir", v_reset=stated)
        with h5py.File(path) as file:
            assert ("v_reset" in file["node/nodes/n"]) == stated  # pyright: ignore
    graph = nir.NIRGraph.from_list(
        nir.IF(r=np.ones(2), v_threshold=np.ones(2), v_reset=np.array([0.0, 0.5]))
    )
    path = written(import_nir(graph), tmp_path / "new.nir", v_reset=False)
    with h5py.File(path) as file:
        assert "v_reset" in file["node/nodes/if"]  # pyright: ignore
