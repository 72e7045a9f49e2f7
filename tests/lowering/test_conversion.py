"""`convert_to_snn` from the outside, and the code of `docs/conversion.md`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.conversion import convert_to_snn, run_spiking
from triton_dsl.lowering.module_file import save_module
from triton_dsl.passes.convert_ann_to_snn import ArchitectureValidator

TEXT = """
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x3xf32> {
  %w = tensor.parameter "w" : tensor<4x20xf32>
  %g = tensor.parameter "g" : tensor<20xf32>
  %v = tensor.parameter "v" : tensor<20x3xf32>
  %z = tensor.matmul %x, %w : (tensor<?x4xf32>, tensor<4x20xf32>) -> tensor<?x20xf32>
  %n = tensor.mul %z, %g : (tensor<?x20xf32>, tensor<20xf32>) -> tensor<?x20xf32>
  %h = tensor.relu %n : (tensor<?x20xf32>) -> tensor<?x20xf32>
  %y = tensor.matmul %h, %v : (tensor<?x20xf32>, tensor<20x3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
"""


def program() -> Any:
    rng = np.random.default_rng(0)
    module = parse_module(TEXT)
    shapes = {"w": (4, 20), "g": (20,), "v": (20, 3)}
    arrays = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    attach_store(module, ParameterStore.of(arrays))
    return module


def samples(seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(size=(300, 4)).astype(np.float32)


def test_it_comes_nearer_with_more_steps_and_leaves_the_program_alone() -> None:
    module = program()
    before, fresh = str(module), samples(2)
    (expected,) = run_module(module, [fresh])
    errors: list[float] = []
    for timesteps in (2, 8, 32):
        spiking = convert_to_snn(module, samples(1), timesteps, price=0, pools="before")
        run = run_spiking(spiking, [fresh], batch=70)
        errors.append(float(((run.results[0] - expected) ** 2).mean()))
        (direct,) = run_module(spiking, [fresh])
        np.testing.assert_allclose(run.results[0], direct, rtol=1e-5, atol=1e-5)
        assert len(run.spikes) == 1 and run.total.shape == (300,)
        assert run.total.max() <= 20 * timesteps
    assert errors[0] > 4 * errors[1] > 16 * errors[2]
    assert str(module) == before


def test_fitted_weights_are_nearer_than_biases_at_the_same_spikes() -> None:
    module, fresh = program(), samples(2)
    (expected,) = run_module(module, [fresh])
    found: list[float] = []
    spikes: list[int] = []
    for correct in ("weights", "bias"):
        run = run_spiking(convert_to_snn(module, samples(1), 4, correct=correct), [fresh])
        found.append(float(((run.results[0] - expected) ** 2).mean()))
        spikes.append(int(run.total.sum()))
    assert spikes[0] == spikes[1] and found[0] < 0.9 * found[1]


def test_a_batch_of_known_size_is_corrected_like_any() -> None:
    fixed = parse_module(TEXT.replace("?x", "1x"))
    fixed.attributes.update(program().attributes)
    one = convert_to_snn(fixed, samples(1), 4)
    found = [run_module(one, [row[None]])[0][0] for row in samples(2)[:20]]
    (expected,) = run_module(convert_to_snn(program(), samples(1), 4), [samples(2)[:20]])
    np.testing.assert_allclose(np.stack(found), expected, rtol=1e-3, atol=1e-3)


def test_a_spiking_program_runs_from_its_file(tmp_path: Path) -> None:
    spiking = convert_to_snn(program(), samples(1), 4)
    save_module(spiking, tmp_path / "spiking.mlir")
    run = run_spiking(tmp_path / "spiking.mlir", [samples(2)])
    np.testing.assert_array_equal(run.results[0], run_spiking(spiking, [samples(2)]).results[0])


def test_a_price_makes_fewer_spikes() -> None:
    totals = [
        int(
            run_spiking(convert_to_snn(program(), samples(1), 8, price=p), [samples(2)]).total.sum()
        )
        for p in (0.0, 0.8, 80.0, 8000.0)
    ]
    assert totals[0] > totals[1] > totals[2] > totals[3] == 0


def test_samples_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OptionError, match="expected samples of shape"):
        convert_to_snn(program(), samples(1)[:, :3])
    with pytest.raises(OptionError, match="by the names of its arguments"):
        convert_to_snn(program(), [samples(1), samples(2)])
    with pytest.raises(OptionError, match="timesteps of at least 1"):
        convert_to_snn(program(), {"x": samples(1)}, timesteps=0)


def test_the_code_of_the_guide_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    scope = run_guide("docs/conversion.md")
    assert scope["agreement"] > 0.95
    assert 0 < scope["spikes"] < 8 * 48
    findings = ArchitectureValidator().compare(scope["program"], scope["finer"])
    assert all(finding.ok for finding in findings)
    assert scope["losses"][-1] < scope["losses"][0] and len(scope["thetas"]) == 2
