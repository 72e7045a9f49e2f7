"""Conversions at several prices: what is measured, which are the best, and bounds that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.conversion import convert_to_snn, run_spiking
from triton_dsl.lowering.conversion_front import Conversion, Front
from triton_dsl.passes.balance_thresholds import ThresholdCalibrator
from triton_dsl.passes.convert_ann_to_snn import ConvertAnnToSnnPass

TEXT = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x4xf32> {
  %w = tensor.parameter "w" : tensor<6x40xf32>
  %v = tensor.parameter "v" : tensor<40x4xf32>
  %z = tensor.matmul %x, %w : (tensor<?x6xf32>, tensor<6x40xf32>) -> tensor<?x40xf32>
  %h = tensor.relu %z : (tensor<?x40xf32>) -> tensor<?x40xf32>
  %y = tensor.matmul %h, %v : (tensor<?x40xf32>, tensor<40x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""
SAMPLES = np.random.default_rng(1).normal(size=(400, 6)).astype(np.float32)


def program() -> ModuleOp:
    rng = np.random.default_rng(0)
    module = parse_module(TEXT)
    arrays = {"w": rng.normal(size=(6, 40)), "v": rng.normal(size=(40, 4))}
    attach_store(module, ParameterStore.of({k: a.astype(np.float32) for k, a in arrays.items()}))
    return module


def test_measures_are_those_of_the_last_fourth_of_the_samples() -> None:
    module = program()
    front = Front(module, {"": SAMPLES})
    tried = front.add(ConvertAnnToSnnPass(timesteps=4, price=0.04))
    fresh = SAMPLES[300:]
    trains: list[NDArray[Any]] = []
    (found,) = run_module(
        tried.module,
        [fresh],
        observer=lambda op, _, results: (
            trains.append(results[0]) if isinstance(op, spike.IntegrateFireOp) else None
        ),
    )
    (wanted,) = run_module(module, [fresh])
    assert tried.accuracy == np.mean(found.argmax(1) == wanted.argmax(1))
    assert tried.spikes == trains[0].sum() / 100
    p, q = (np.exp(y) / np.exp(y).sum(1, keepdims=True) for y in map(np.float64, (wanted, found)))
    np.testing.assert_allclose(tried.divergence, (p * np.log(p / q)).sum(1).mean(), rtol=1e-5)
    # Each spike reaches four sums; weights of neurons that are never heard are zero.
    assert 0.8 * 4 * tried.spikes < tried.additions <= 4 * tried.spikes
    # Labels take the place of the float program's classes.
    labels = np.arange(400) % 4
    other = Front(module, {"x": SAMPLES}, labels).add(ConvertAnnToSnnPass(timesteps=4, price=0.04))
    assert other.accuracy == np.mean(found.argmax(1) == labels[300:])


def test_the_best_are_beaten_by_none() -> None:
    front = Front(program(), {"": SAMPLES})
    points = [(1, 0.9, 50.0), (2, 0.9, 60.0), (2, 0.95, 60.0), (2, 0.95, 70.0), (4, 0.96, 40.0)]
    for timesteps, accuracy, spikes in points:
        front.conversions.append(
            Conversion(timesteps, False, 0.0, accuracy, 1 - accuracy, spikes, 0.0, front.program)
        )
    kept = [(c.timesteps, c.accuracy, c.spikes) for c in front.best()]
    assert kept == [points[0], points[2], points[4]]
    assert front.chosen(accuracy=0.93).spikes == 40
    assert front.chosen(budget=55).accuracy == 0.96
    assert front.chosen(budget=45).timesteps == 4
    with pytest.raises(OptionError, match=r"no conversion fits: .* 0\.9600 at 40 spikes"):
        front.chosen(budget=30)


@pytest.mark.parametrize("signed", [False, True])
def test_a_budget_is_kept_and_used(signed: bool) -> None:
    spikes: list[float] = []
    for budget in (10.0, 25.0):
        spiking = convert_to_snn(program(), SAMPLES, 4, signed=signed, budget=budget)
        spikes.append(float(run_spiking(spiking, [SAMPLES[300:]]).total.mean()))
    assert 5 < spikes[0] <= 10 < spikes[1] <= 25


def test_an_accuracy_is_reached_with_few_spikes() -> None:
    free = convert_to_snn(program(), SAMPLES, 4, price=0)
    cheap = convert_to_snn(program(), SAMPLES, 4, accuracy=0.8)
    (wanted,) = run_module(program(), [SAMPLES[300:]])
    runs = [run_spiking(module, [SAMPLES[300:]]) for module in (free, cheap)]
    shares = [np.mean(r.results[0].argmax(1) == wanted.argmax(1)) for r in runs]
    assert 0.8 <= shares[1] < shares[0]
    assert runs[1].total.mean() < 0.7 * runs[0].total.mean()


def test_what_does_not_fit_is_refused() -> None:
    for given, message in (
        ({"budget": 5.0, "accuracy": 0.5}, "exclude each other"),
        ({"accuracy": 1.5}, "from 0 to 1"),
        ({"budget": -1.0}, "at least 0"),
        ({"budget": float("nan")}, "at least 0"),
        ({"budget": 5.0, "calibrator": ThresholdCalibrator()}, "leave the calibrator out"),
        ({"budget": 5.0, "labels": np.zeros(3, int)}, "expected 400 labels"),
        ({"budget": 5.0, "labels": np.zeros(400)}, "whole numbers"),
    ):
        arguments: dict[str, Any] = dict(given)
        with pytest.raises(OptionError, match=message):
            convert_to_snn(program(), SAMPLES, 2, **arguments)
    with pytest.raises(OptionError, match="expected 8 samples or more"):
        convert_to_snn(program(), SAMPLES[:7], 2, budget=5)
    flat = parse_module("""func.func @forward(%x: tensor<?xf32>) -> tensor<?xf32> {
      %y = tensor.relu %x : (tensor<?xf32>) -> tensor<?xf32>
      func.return %y : tensor<?xf32>
    }""")
    with pytest.raises(UnsupportedError, match="no axis of channels"):
        convert_to_snn(flat, SAMPLES[:, 0], 2, budget=5)


def test_prices_are_searched_by_few_conversions(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[float, int | None]] = []

    class Pretended(Front):
        def add(self, options: ConvertAnnToSnnPass, samples: int | None = None) -> Conversion:
            price = float(options.price)
            tried.append((price, samples))
            # Spikes that level off at 2000, and some more where few samples calibrate.
            spikes = (2000 if samples is None else 2020) / (1 + price / 0.02) ** 0.5
            module = self.program
            self.conversions.append(
                Conversion(2, False, price, 1 / (1 + price), price, spikes, 0.0, module)
            )
            return self.conversions[-1]

    monkeypatch.setattr("triton_dsl.lowering.conversion_front.QUICK", 100)
    for budget in (1900.0, 1000.0, 200.0):
        tried.clear()
        front = Pretended(program(), {"": SAMPLES})
        front.explore(ConvertAnnToSnnPass(timesteps=2), budget=budget)
        assert 0.97 * budget < front.chosen(budget=budget).spikes <= budget
        full = [samples for _, samples in tried].count(None)
        assert full <= 3 and len(tried) <= 9
        assert tried[0] == (pytest.approx(0.04), 100)
    for accuracy in (0.999, 0.95):
        front = Pretended(program(), {"": SAMPLES})
        front.explore(ConvertAnnToSnnPass(timesteps=2), accuracy=accuracy)
        most = 1 / accuracy - 1
        assert most / 1.06 < front.chosen(accuracy=accuracy).price <= most
