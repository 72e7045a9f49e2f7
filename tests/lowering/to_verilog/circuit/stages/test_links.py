"""FIFOs and buffers give every beat in order, at full pace, as their handshakes say."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from triton_dsl.lowering.to_verilog.circuit.stages.links import fifo_stage
from triton_dsl.lowering.to_verilog.circuit.stages.stage import Layout

from ..folding.stage_bench import modelled, run_stage

RequireTool = Callable[[str, str], str]
BOUNDS = ((0, 15), (-4, 3))


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_fifo_keeps_the_order(
    depth: int, seed: int, require_tool: RequireTool, tmp_path: Path
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    stage = fifo_stage("dut", Layout(BOUNDS), depth)
    low, high = np.array(BOUNDS).T
    rows = np.random.default_rng(seed).integers(low, high + 1, (60, len(BOUNDS)))
    run = run_stage(stage, rows, 1, tmp_path, seed + 1)
    assert np.array_equal(run.rows, rows)
    assert run.moves == modelled(stage, run.moves)
    assert (np.diff(run.sent()[:20]) == 1).all()
    assert not stage.handshake.passes_ready
