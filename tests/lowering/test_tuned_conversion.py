"""Training with staircases and conversion in one call."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.conversion import convert_to_snn, run_spiking

torch = pytest.importorskip("torch")

from triton_dsl.lowering.from_torch import from_torch  # noqa: E402
from triton_dsl.lowering.tuned_conversion import fine_tune_to_snn  # noqa: E402


def test_it_is_better_at_two_steps_and_the_same_again() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x = rng.random((1200, 8)).astype(np.float32)
    y = (10 * np.abs(x[:, :4] - x[:, 4:]).sum(1)).astype(np.int64) % 3
    network = torch.nn.Sequential(
        torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32), torch.nn.ReLU(),
        torch.nn.Linear(32, 3),
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(300):
        loss = torch.nn.functional.cross_entropy(
            network(torch.from_numpy(x[:1000])), torch.from_numpy(y[:1000])
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    before = copy.deepcopy(network.state_dict())
    state = torch.random.get_rng_state()
    seen, right = x[:1000], y[:1000]
    program = from_torch(network.eval(), torch.from_numpy(x[:2]))
    plain = convert_to_snn(program, seen, 2, pools="before")  # one neuron a value
    untrained = fine_tune_to_snn(network, seen, right, 2, epochs=0)
    tuned = [fine_tune_to_snn(network, seen, right, 2, epochs=60, rate=5e-3) for _ in range(2)]
    modules = (untrained, *tuned, plain)
    results = [run_spiking(module, [seen]).results[0] for module in modules]
    shares = [float((result.argmax(1) == right).mean()) for result in results]
    assert shares[1] > shares[0] + 0.1 and shares[1] > shares[3]
    np.testing.assert_array_equal(results[1], results[2])
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())


def test_labels_that_do_not_fit_are_refused() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    x = np.zeros((5, 4), np.float32)
    for labels in (np.zeros(5), np.zeros(4, int), np.zeros((5, 1), int)):
        with pytest.raises(OptionError, match="expected 5 labels as whole numbers"):
            fine_tune_to_snn(network, x, labels)
    with pytest.raises(OptionError, match="expects ReLU modules"):
        fine_tune_to_snn(torch.nn.Linear(4, 4), x, np.zeros(5, int))
