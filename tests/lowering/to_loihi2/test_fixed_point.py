"""Neurons of floats in Loihi's fixed point: as often as before, a step later a layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, f32
from xdsl.ir import Block, Region

from triton_dsl.dialects import spike, tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import store_of
from triton_dsl.dialects.registry import verify_module
from triton_dsl.dialects.shapes import DYNAMIC as FREE
from triton_dsl.dialects.spike import train
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.ir_builder import Builder
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.targets import compile_to_target


def network(matrices: list[Any], kind: Any, skip: Any = None, **options: Any) -> ModuleOp:
    """Dense layers of one kind of neurons; `skip` leads from the input to the last one."""
    block = Block(arg_types=[train(FREE, FREE, len(matrices[0]))])
    module = ModuleOp([])
    builder = Builder(block, store_of(module))
    value: Any = block.args[0]
    for index, matrix in enumerate(matrices):
        weight = builder.numbers(np.asarray(matrix, np.float32), f32, f"w{index}")
        current = builder.add(spike.LinearOp(value, weight))
        if skip is not None and index == len(matrices) - 1:
            past = builder.numbers(np.asarray(skip, np.float32), f32, "skip")
            more = builder.add(spike.LinearOp(block.args[0], past))
            current = builder.add(tensor.AddOp(current, more))
        value = builder.add(kind(current, **options))
    builder.end(func.ReturnOp(value))
    types = FunctionType.from_lists([block.args[0].type], [value.type])
    module.body.block.add_op(func.FuncOp("forward", types, Region(block)))
    verify_module(module)
    return module


def converted(module: ModuleOp, options: str = "") -> ModuleOp:
    work = module.clone()
    apply_passes(work, f"convert-spike-to-loihi{{{options}}},canonicalize,cse,dce")
    return work


def test_a_neuron_of_the_nir_paper_spikes_when_loihi_does(shared_data: Any) -> None:
    module = import_nir(shared_data.path("models", "nir", "lif_norse.nir"))
    x, _, s = np.loadtxt(shared_data.path("reference", "lif_lava_loihi_fixed.csv"), delimiter=",").T
    apply_passes(module, "lower-network,convert-spike-to-loihi{spikes=true},canonicalize")
    fired = run_module(module, [(x > 0)[:, None, None]])[0]
    assert np.flatnonzero(fired).tolist() == np.flatnonzero(s).tolist() == [461, 511, 711, 761]


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1 << 16),
    threshold=st.integers(3, 6),
    compare=st.sampled_from(["ge", "gt"]),
    reset=st.sampled_from(["subtract", "to_value"]),
    skips=st.booleans(),
)
def test_whole_numbers_stay_exact(
    seed: int, threshold: int, compare: str, reset: str, skips: bool
) -> None:
    """Without leaks and with weights of few bits the spikes are the same, two steps later."""
    rng = np.random.default_rng(seed)
    matrices = [rng.integers(-3, 4, (6, 5)), rng.integers(-3, 4, (5, 4))]
    for matrix in matrices:
        matrix[0, 0] = 4  # a power of two as the largest, so that units are whole
    skip = rng.integers(-3, 4, (6, 4)) if skips else None
    options: dict[str, Any] = {"threshold": threshold, "compare": compare, "reset": reset}
    module = network(matrices, spike.IntegrateFireOp, skip, **options)
    x = rng.random((10, 2, 6)) < 0.5
    expected = run_module(module, [x])[0]
    got = run_module(converted(module), [np.concatenate([x, x[:2]])])[0]
    assert not got[:2].any()
    np.testing.assert_array_equal(got[2:], expected)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (spike.LifOp, {"beta": 0.9, "threshold": 0.7, "reset": "to_value"}),
        (spike.LifOp, {"beta": 0.8, "v_leak": 0.3, "gain": 0.5, "reset": "subtract"}),
        (spike.CubaLifOp, {"alpha": 0.7, "beta": 0.9, "threshold": 2.0, "reset": "to_value"}),
        (spike.IntegrateFireOp, {"threshold": 1.3}),
    ],
)
def test_layers_fire_as_often(kind: Any, options: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    matrices = [rng.normal(0.02, 0.2, (60, 40)), rng.normal(0.05, 0.3, (40, 20))]
    module = network(matrices, kind, **options)
    x = rng.random((100, 8, 60)) < 0.2
    expected = run_module(module, [x])[0]
    assert 0.01 < expected.mean() < 0.9
    np.save(tmp_path / "x.npy", x.swapaxes(0, 1))
    shares: list[float] = []
    for text in ("", f'data="{tmp_path / "x.npy"}"'):
        got = run_module(converted(module, text), [x])[0]
        counts = [np.asarray(s, np.int64).sum(axis=0) for s in (got[2:], expected[:-2])]
        shares.append(float(np.abs(counts[0] - counts[1]).sum() / counts[1].sum()))
    assert max(shares) < 0.05


def test_what_loihi_lacks_is_named() -> None:
    module = network([np.eye(3)], spike.LifOp, beta=0.5, reset="none")
    with pytest.raises(UnsupportedError, match="does not start again at 0"):
        converted(module)


def test_the_target_converts_by_itself() -> None:
    rng = np.random.default_rng(2)
    module = network([rng.normal(size=(6, 5))], spike.LifOp, beta=0.5, reset="to_value")
    artifact = compile_to_target(module, "loihi2")
    assert {"network.py", "cores.json"} <= set(artifact.files)
    assert '"network": "network"' in artifact.text("cores.json")
