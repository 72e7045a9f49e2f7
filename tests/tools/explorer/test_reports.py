"""Spikes and costs of a record: those of a loop over time in NumPy, and of the circuit's report."""

from pathlib import Path

import numpy as np

from triton_dsl import explore
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.tools.explorer.reports import circuit_tables

PROGRAM = """layer Net {
    fn forward(x: Tensor[T, N, 3]) -> SpikeTensor[T, N, 3] {
        return lif(x, tau=2.0, threshold=1.0)
    }
}
"""


def test_rasters_are_those_of_a_loop() -> None:
    current = np.random.default_rng(0).random((20, 1, 3)).astype(np.float32)
    v, beta, fired = np.zeros(3, np.float32), np.float32(np.exp(-0.5)), list[list[int]]()
    for x in current[:, 0]:
        v = beta * v + x
        spikes = v >= 1
        v = np.where(spikes, v - 1, v)
        fired.append(np.flatnonzero(spikes).tolist())
    data = explore(import_tri(PROGRAM), [current]).data
    (raster,) = data["rasters"]
    assert raster["fired"] == fired and raster["counts"] == list(map(len, fired))
    assert raster["neurons"] == 3 and raster["steps"] == 20
    assert data["stages"][0]["ops"][raster["op"]]["name"] == "spike.lif"
    assert 5 < raster["spikes"] < 60
    (layers,) = [table for table in data["tables"] if table["title"] == "Spikes of all samples"]
    assert layers["rows"][-1][1:3] == [3, raster["spikes"]]


def test_a_circuit_has_a_row_for_each_layer() -> None:
    layer = {"name": "fc", "source": 'ternary.adder_graph to 1x4, "net/fc"("m.onnx":3:1)',
             "adders": 7, "luts": 40, "flip_flops": 9, "clock_mhz": 400}  # fmt: skip
    report = {
        "layers": [layer],
        "totals": {"adders": 7},
        "estimate": {"luts": 44, "clock_mhz": 400},
    }
    (table,) = circuit_tables(Artifact("net", {"a.v": b"."}, {"report": report}))
    assert table["columns"][:5] == ["layer", "op", "adders", "comparators", "luts"]
    assert table["rows"][0][:5] == ["net/fc", "ternary.adder_graph", 7, None, 40]
    assert table["rows"][1][0] == "the whole circuit" and table["rows"][1][4] == 44
    assert circuit_tables(Artifact("net", {"a.py": b"."}, {})) == []


def test_a_program_without_spikes_has_none(tmp_path: Path) -> None:
    path = tmp_path / "net.tri"
    path.write_text(
        "layer Net { fn forward(x: Tensor[2]) -> Tensor[2] { return relu(x) } }", encoding="utf-8"
    )
    data = explore(path, [np.zeros(2, np.float32)]).data
    assert data["rasters"] == [] and data["tables"] == []
