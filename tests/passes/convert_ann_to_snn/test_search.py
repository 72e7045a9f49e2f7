"""Thresholds by simulation: neurons against the interpreter, importance against gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike, tensor
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.ir.errors import OptionError, PassError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.passes.convert_ann_to_snn import ConvertAnnToSnnPass, convert
from triton_dsl.passes.convert_ann_to_snn.search import search, simulate
from triton_dsl.passes.convert_ann_to_snn.sensitivity import information, sensitivity
from triton_dsl.passes.convert_ann_to_snn.trial import Trial

Filled = Callable[..., ModuleOp]
Array = NDArray[Any]


@pytest.mark.parametrize("reset", ["subtract", "to_value"])
def test_simulated_counts_are_those_of_the_neurons(reset: str) -> None:
    rng = np.random.default_rng(0)
    current = rng.normal(0.3, 1, (7, 5, 3)).astype(np.float32)
    module = parse_module(f"""
    func.func @forward(%i: tensor<7x5x3xf32>, %v: tensor<5x3xf32>) -> !spike.train<7x5x3> {{
      %t = tensor.constant dense<[0.5, 1.0, 2.0]> : tensor<3xf32>
      %s = spike.integrate_fire %i initial(%v : tensor<5x3xf32>) threshold(%t : tensor<3xf32>)
          {{reset = "{reset}"}} : (tensor<7x5x3xf32>) -> !spike.train<7x5x3>
      func.return %s : !spike.train<7x5x3>
    }}""")
    theta = np.array([0.5, 1.0, 2.0])
    start = np.broadcast_to((0.25 * theta).astype(np.float32), (5, 3)).copy()
    (spikes,) = run_module(module, [current, start])
    counts = simulate(current, theta, np.array(0.25), subtracts=reset == "subtract")
    np.testing.assert_array_equal(counts, spikes.sum(0))


HEAD = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x4xf32> {
  %w = tensor.parameter "w" : tensor<6x4xf32>
  %h = tensor.relu %x : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %y = tensor.matmul %h, %w : (tensor<?x6xf32>, tensor<6x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""


def test_importance_follows_the_gradients_of_the_log_probabilities(filled: Filled) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(6, 4)) * np.array([0.1, 0.2, 0.5, 1, 2, 0])[:, None]).astype(np.float32)
    module = filled(HEAD, values={"w": w})
    x = np.abs(rng.normal(0.2, 0.1, (256, 6))).astype(np.float32)
    block = entry_function(module, "forward").body.block
    (relu,) = (op for op in block.ops if isinstance(op, tensor.ReluOp))
    found = sensitivity(Trial(block, [(x,)]), relu.result, 1)
    # The Fisher information of each input: the mean squared gradient of log p(class).
    h = torch.tensor(x, dtype=torch.double, requires_grad=True)
    logs = (h @ torch.tensor(w, dtype=torch.double)).log_softmax(1)
    fisher = torch.zeros(6, dtype=torch.double)
    for index in range(4):
        (gradient,) = torch.autograd.grad(logs[:, index].sum(), h, retain_graph=True)
        fisher += (logs[:, index].exp().detach()[:, None] * gradient**2).mean(0)
    expected = fisher.numpy()
    assert found[5] == 0
    assert np.corrcoef(np.log(found[:5]), np.log(expected[:5]))[0, 1] > 0.95
    np.testing.assert_allclose(found.sum(), expected.sum(), rtol=0.5)


SEARCHED = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x4xf32> {
  %w = tensor.parameter "w" : tensor<6x4xf32>
  %i = spike.encode %x {scheme = "direct", timesteps = 1 : i64}
      : (tensor<?x6xf32>) -> tensor<1x?x6xf32>
  %h = tensor.relu %x : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %y = tensor.matmul %h, %w : (tensor<?x6xf32>, tensor<6x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""


@pytest.mark.parametrize("price", [1e-5, 1e-3, 1e-2])
def test_a_search_finds_nearly_the_least(filled: Filled, price: float) -> None:
    """Staircases in float64 (Bu et al. 2022) at thresholds twice as dense cost little less."""
    rng = np.random.default_rng(1)
    w = rng.normal(size=(6, 4)).astype(np.float32)
    block = entry_function(filled(SEARCHED, values={"w": w}), "forward").body.block
    named = {op.name: op.results[0] for op in block.ops if op.results}
    current, value = named["spike.encode"], named["tensor.relu"]
    x = rng.gamma(0.7, 1.0, (800, 6)).astype(np.float32)
    trial = Trial(block, [(x,)])
    half = np.array(0.5)
    found = search(
        trial, value, current, 1, initial=half, price=price, bound=None, copies=16, live=[]
    )
    importance = sensitivity(trial, value, 1)

    def cost(channel: int, theta: float, number: int) -> float:
        y = x[:, channel].astype(np.float64)
        s = np.clip(np.floor(y * number / theta + 0.5), 0, number)
        left = np.mean((y - np.polyval(np.polyfit(s, y, 1), s)) ** 2) if s.std() > 0 else y.var()
        return float(0.5 * importance[channel] * left + price * s.mean())

    for channel in range(6):
        thetas = np.quantile(x[:, channel], 0.998) * np.geomspace(0.15, 2.2, 24)
        tried = [cost(channel, theta, n) for theta in thetas for n in (1, 2, 4, 8, 16)]
        silent = 0.5 * importance[channel] * float(x[:, channel].var())
        theta, number = (float(a.reshape(-1)[channel]) for a in (found.threshold, found.copies))
        assert cost(channel, theta, int(number)) < 1.2 * min(*tried, silent)


def test_information_is_that_of_sample_and_class() -> None:
    module = parse_module("""
    func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %y = tensor.softmax %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
      func.return %y : tensor<?x4xf32>
    }""")
    block = entry_function(module, "forward").body.block
    # Each sample is sure of its class, and classes are equally many: log 4.
    sure = 100 * np.eye(4, dtype=np.float32)[np.arange(40) % 4]
    assert information(Trial(block, [(sure,)])) == pytest.approx(np.log(4))
    assert information(Trial(block, [(0 * sure,)])) == pytest.approx(0, abs=1e-9)


IMAGES = """
func.func @forward(%x: tensor<?x1x8x8xf32>) -> tensor<?x3xf32> {
  %k = tensor.parameter "k" : tensor<4x1x3x3xf32>
  %j = tensor.parameter "j" : tensor<5x4x3x3xf32>
  %w = tensor.parameter "w" : tensor<20x3xf32>
  %a = tensor.conv %x, %k {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
      dilation = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<?x1x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<?x4x8x8xf32>
  %b = tensor.relu %a : (tensor<?x4x8x8xf32>) -> tensor<?x4x8x8xf32>
  %c = tensor.avg_pool %b {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      padding = array<i64: 0, 0, 0, 0>} : (tensor<?x4x8x8xf32>) -> tensor<?x4x4x4xf32>
  %d = tensor.conv %c, %j {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
      dilation = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<?x4x4x4xf32>, tensor<5x4x3x3xf32>) -> tensor<?x5x4x4xf32>
  %e = tensor.relu %d : (tensor<?x5x4x4xf32>) -> tensor<?x5x4x4xf32>
  %f = tensor.POOL_pool %e {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      padding = array<i64: 0, 0, 0, 0>} : (tensor<?x5x4x4xf32>) -> tensor<?x5x2x2xf32>
  %g = tensor.flatten %f : (tensor<?x5x2x2xf32>) -> tensor<?x20xf32>
  %y = tensor.matmul %g, %w : (tensor<?x20xf32>, tensor<20x3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
"""


def neurons(module: ModuleOp) -> list[tuple[int, ...]]:
    """The shapes of the populations, without time and batch."""
    ops = [op for op in module.walk() if isinstance(op, spike.IntegrateFireOp)]
    return [tuple(tensor_type(op.input).get_shape()[2:]) for op in ops]


@pytest.mark.parametrize("pool", ["avg", "max"])
@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        ("before", [(4, 8, 8), (5, 4, 4)]),
        ("first", [(4, 4, 4), (5, 4, 4)]),
        ("all", [(4, 4, 4), (5, 2, 2)]),
    ],
)
def test_neurons_stand_where_they_are_asked_to(
    filled: Filled, pool: str, pools: str, expected: list[tuple[int, ...]]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((40, 1, 8, 8)).astype(np.float32)
    text = IMAGES.replace("POOL", pool)
    (wanted,) = run_module(filled(text), [x])
    module = filled(text)
    options = ConvertAnnToSnnPass(timesteps=64, pools=pools, price=0)
    convert(module, options, [(x[:25],), (x[25:],)])
    verify_module(module)
    assert neurons(module) == expected
    (found,) = run_module(module, [x])
    assert np.sqrt(((found - wanted) ** 2).mean()) < 0.1 * wanted.std()


@pytest.mark.parametrize("timesteps", [1, 3])
def test_the_maximum_of_trains_needs_one_neuron_a_value(filled: Filled, timesteps: int) -> None:
    x = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32)
    module = filled(IMAGES.replace("POOL", "max"))
    convert(module, ConvertAnnToSnnPass(timesteps=timesteps, pools="first", price=0), [(x,)])
    verify_module(module)
    assert neurons(module) == [(4, 4, 4), (5, 4, 4)]


def test_the_same_samples_give_the_same_bytes(filled: Filled) -> None:
    x = np.random.default_rng(0).random((30, 1, 8, 8)).astype(np.float32)
    texts = set[str]()
    for _ in range(2):
        module = filled(IMAGES.replace("POOL", "avg"))
        convert(module, ConvertAnnToSnnPass(timesteps=2), [(x,)])
        (y,) = run_module(module, [x])
        texts.add(str(module) + y.tobytes().hex())
    assert len(texts) == 1


def test_what_tells_nothing_is_silent(filled: Filled) -> None:
    # The second channel is large and read by nobody.
    rng = np.random.default_rng(0)
    x = rng.random((50, 6)).astype(np.float32) * np.array([1, 9, 1, 1, 1, 1], np.float32)
    w = rng.normal(size=(6, 4)).astype(np.float32)
    w[1] = 0
    module = filled(HEAD, values={"w": w})
    convert(module, ConvertAnnToSnnPass(timesteps=4), [(x,)])
    (op,) = (op for op in module.walk() if isinstance(op, spike.IntegrateFireOp))
    fired: list[Array] = []
    run_module(module, [x], observer=lambda o, _, r: fired.append(r[0]) if o is op else None)
    spikes = fired[0].sum((0, 1))
    assert spikes[1] == 0 and (spikes[[0, 2, 3, 4, 5]] > 0).all()


def test_bad_options_and_samples_are_refused(filled: Filled) -> None:
    wrong: list[dict[str, Any]] = [{"price": -1.0}, {"pools": "last"}, {"correct": "all"}]
    for given in wrong:
        with pytest.raises(OptionError, match=f"expects .*{next(iter(given))}"):
            ConvertAnnToSnnPass(**given)
    x = np.full((3, 6), np.inf, np.float32)
    with pytest.raises(PassError, match="NaN or infinite"):
        convert(filled(HEAD), ConvertAnnToSnnPass(timesteps=4), [(x,)])
    with pytest.raises(PassError, match="at least one sample"):
        convert(filled(HEAD), ConvertAnnToSnnPass(timesteps=4), [])


def test_steps_count_for_the_result_as_much_as_fits_best(filled: Filled) -> None:
    rng = np.random.default_rng(0)
    x = np.abs(rng.normal(0.5, 0.5, (400, 6))).astype(np.float32)
    w = rng.normal(size=(6, 4)).astype(np.float32)
    (wanted,) = run_module(filled(HEAD, values={"w": w}), [x])
    errors: list[float] = []
    for pools in ("before", "all"):
        module = filled(HEAD, values={"w": w})
        convert(module, ConvertAnnToSnnPass(timesteps=4, pools=pools), [(x[:200],), (x[200:],)])
        seen: dict[type[Any], list[Array]] = {}

        def see(op: Any, operands: Any, _: Any, seen: dict[Any, Any] = seen) -> None:
            seen[type(op)] = list(operands)

        (found,) = run_module(module, [x], observer=see)
        errors.append(float(((found - wanted) ** 2).mean()))
        (current,) = seen[spike.DecodeOp]
        np.testing.assert_allclose(found, current.mean(0), rtol=1e-5, atol=1e-5)
    assert errors[1] < 0.95 * errors[0]
    # The shares are the least squares of the currents of steps before they count differently.
    currents, shares = seen[tensor.MulOp]
    c = (currents - currents.mean(1, keepdims=True)).reshape(4, -1).astype(np.float64)
    best = np.linalg.lstsq(c.T, (wanted - wanted.mean(0)).reshape(-1), rcond=None)[0]
    assert shares.mean() == pytest.approx(1) and shares[0] > shares[-1]
    np.testing.assert_allclose(shares.reshape(-1), best / best.mean(), atol=0.1)
