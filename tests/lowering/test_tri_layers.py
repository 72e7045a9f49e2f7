"""The spiking standard layers against modules of PyTorch with the same weights, spike for spike.

Weights are multiples of 2^-6, so that every sum of currents is exact in any order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.runtime.spiking.attention import SpikingAttention, SpikingSelfAttention
from triton_dsl.runtime.spiking.mlp import SpikingMLP
from triton_dsl.runtime.spiking.neurons import CubaLifNeuron, LifNeuron
from triton_dsl.runtime.spiking.normalization import TemporalBatchNorm

Array = NDArray[Any]
Weights = dict[str, Array]

STEPS, BATCH = 6, 2


def exact(rng: np.random.Generator, *shape: int) -> Array:
    """Multiples of 2^-6 from -1 to 1."""
    return (rng.integers(-64, 65, shape) / 64).astype(np.float32)


def spikes(rng: np.random.Generator, *shape: int) -> Array:
    return rng.random((STEPS, BATCH, *shape)) < 0.4


def run(layer: str, argument: str, x: Array, weights: Weights | None = None) -> Array:
    """What `layer` gives for `x` in the interpreter."""
    source = f"""
layer Outer {{
    let inner = {layer}
    fn forward(x: {argument}) {{ return inner(x) }}
}}"""
    named = {f"inner.{name}": value for name, value in (weights or {}).items()}
    module = import_tri(source, weights=named)
    module.verify()
    return run_module(module, [x])[0]


def as_torch(x: Array) -> Tensor:
    return torch.from_numpy(x.astype(np.float32))


def assert_equal(found: Array, expected: Tensor) -> None:
    assert expected.abs().sum() > 0, "nothing fires: the test shows nothing"
    np.testing.assert_array_equal(found, expected.detach().numpy().astype(found.dtype))


def linear(weight: Array, bias: Array | None) -> nn.Linear:
    made = nn.Linear(*weight.shape, bias=bias is not None)
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(weight).T)
        if bias is not None:
            made.bias.copy_(torch.from_numpy(bias))
    return made


def neuron(tau: float = 2.0, threshold: float = 1.0, reset: str = "subtract") -> LifNeuron:
    return LifNeuron(math.exp(-1 / tau), threshold=threshold, reset=reset)


def projection(weights: Weights, path: str, x: Tensor) -> Tensor:
    return linear(weights[f"{path}.weight"], weights[f"{path}.bias"])(x)


def weights_of(rng: np.random.Generator, sizes: dict[str, tuple[int, int]]) -> Weights:
    made: Weights = {}
    for path, size in sizes.items():
        made[f"{path}.weight"] = exact(rng, *size)
        made[f"{path}.bias"] = exact(rng, size[1])
    return made


RESETS = st.sampled_from(["subtract", "to_value", "none"])


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 999),
    st.floats(0.3, 20),
    st.floats(0.25, 2),
    RESETS,
    st.sampled_from(["exact", "euler"]),
)
def test_lif(seed: int, tau: float, threshold: float, reset: str, decay: str) -> None:
    tau = max(tau, 1.0) if decay == "euler" else tau
    current = exact(np.random.default_rng(seed), STEPS, BATCH, 9) * 4
    beta = math.exp(-1 / tau) if decay == "exact" else 1 - 1 / tau
    expected, _ = LifNeuron(beta, threshold=threshold, reset=reset)(torch.from_numpy(current))
    layer = f'LIF({tau!r}, {threshold!r}, "{reset}", "{decay}")'
    assert_equal(run(layer, "Tensor[T, N, 9]", current), expected)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 999), st.floats(0.3, 20), st.floats(0.3, 20), RESETS)
def test_cuba_lif(seed: int, tau_syn: float, tau_mem: float, reset: str) -> None:
    current = exact(np.random.default_rng(seed), STEPS, BATCH, 9) * 4
    module = CubaLifNeuron(math.exp(-1 / tau_syn), math.exp(-1 / tau_mem), reset=reset)
    expected, _ = module(torch.from_numpy(current))
    layer = f'CubaLIF({tau_syn!r}, {tau_mem!r}, reset="{reset}")'
    assert_equal(run(layer, "Tensor[T, N, 9]", current), expected)


@pytest.mark.parametrize("axis", [2, 3])
def test_temporal_batch_norm(axis: int) -> None:
    rng = np.random.default_rng(axis)
    channels = (5, 6)[axis - 2]
    weights = norm_of(rng, channels)
    module = TemporalBatchNorm(channels, threshold=0.5, alpha=2.0, axis=axis).eval()
    tensors = {name: torch.from_numpy(value) for name, value in weights.items()}
    module.load_state_dict({**tensors, "num_batches_tracked": torch.tensor(0)})
    x = exact(rng, STEPS, BATCH, 5, 6)
    layer = f"TemporalBatchNorm({channels}, 0.5, 2.0, axis={axis})"
    found = run(layer, "Tensor[T, N, 5, 6]", x, weights)
    expected = module(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # roots are rounded apart


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("reset", ["subtract", "to_value"])
def test_spiking_linear(bias: bool, reset: str) -> None:
    rng = np.random.default_rng(3)
    x, weight, offset = spikes(rng, 8), exact(rng, 8, 5), exact(rng, 5)
    expected, _ = neuron(3.0, 0.75, reset)(linear(weight, offset if bias else None)(as_torch(x)))
    layer = f'SpikingLinear(8, 5, {str(bias).lower()}, 3.0, 0.75, "{reset}")'
    weights = {"weight": weight, "bias": offset} if bias else {"weight": weight}
    assert_equal(run(layer, "SpikeTensor[T, N, 8]", x, weights), expected)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("3, padding=1", {"padding": 1}),
        ("3, stride=2, groups=2, bias=false", {"stride": 2, "groups": 2, "bias": False}),
        ("2, dilation=2", {"dilation": 2}),
    ],
)
def test_spiking_conv2d(arguments: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    kernel = int(arguments[0])
    module = nn.Conv2d(4, 6, kernel, **options)
    weights = {name: exact(rng, *value.shape) for name, value in module.state_dict().items()}
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    x = spikes(rng, 4, 7, 7)
    currents = module(as_torch(x).flatten(0, 1)).unflatten(0, (STEPS, BATCH))
    expected, _ = neuron()(currents)
    layer = f"SpikingConv2d(4, 6, {arguments})"
    assert_equal(run(layer, "SpikeTensor[T, N, 4, 7, 7]", x, weights), expected)


def test_spiking_mlp() -> None:
    rng = np.random.default_rng(5)
    weights = weights_of(rng, {"fc1": (8, 12), "fc2": (12, 4)})
    module = SpikingMLP([8, 12, 4], neuron={"beta": math.exp(-1 / 3.0)})
    module.load_state_dict({
        f"layers.{i}.{part}": torch.from_numpy(weights[f"fc{i + 1}.{part}"].T)
        for i in range(2)
        for part in ("weight", "bias")
    })  # fmt: skip
    x = spikes(rng, 8)
    expected, _ = module(as_torch(x))
    assert_equal(run("SpikingMLP(8, 12, 4, 3.0)", "SpikeTensor[T, N, 8]", x, weights), expected)


def norm_of(rng: np.random.Generator, channels: int) -> Weights:
    """Parameters and statistics of a normalisation."""
    return {
        "weight": exact(rng, channels),
        "bias": exact(rng, channels) + 1,
        "running_mean": exact(rng, channels),
        "running_var": exact(rng, channels) ** 2 + 1,
    }


def test_normalised_mlp() -> None:
    rng = np.random.default_rng(8)
    module = SpikingMLP([8, 12, 4], bias=False, normalize=True, neuron={"beta": math.exp(-1 / 3)})
    weights: Weights = {}
    state: dict[str, Tensor] = {}
    for index, (inputs, outputs) in enumerate(((8, 12), (12, 4))):
        weights[f"fc{index + 1}.weight"] = weight = exact(rng, inputs, outputs)
        state[f"layers.{index}.weight"] = torch.from_numpy(weight.T)
        for name, value in norm_of(rng, outputs).items():
            weights[f"fc{index + 1}.norm.{name}"] = value
            state[f"norms.{index}.{name}"] = torch.from_numpy(value)
    module.load_state_dict(state, strict=False)
    x = spikes(rng, 8)
    expected, _ = module.eval()(as_torch(x))
    layer = "SpikingMLP(8, 12, 4, 3.0, bias=false, normalize=true)"
    assert_equal(run(layer, "SpikeTensor[T, N, 8]", x, weights), expected)


def test_normalised_convolution() -> None:
    rng = np.random.default_rng(9)
    weights = {"weight": exact(rng, 6, 4, 3, 3)}
    statistics = norm_of(rng, 6)
    weights.update({f"norm.{name}": value for name, value in statistics.items()})
    norm = TemporalBatchNorm(6, threshold=0.75).eval()
    tensors = {name: torch.from_numpy(value) for name, value in statistics.items()}
    norm.load_state_dict(tensors, strict=False)
    x = spikes(rng, 4, 7, 7)
    images = torch.conv2d(as_torch(x).flatten(0, 1), torch.from_numpy(weights["weight"]))
    expected, _ = neuron(threshold=0.75)(norm(images.unflatten(0, (STEPS, BATCH))))
    layer = "SpikingConv2d(4, 6, 3, bias=false, threshold=0.75, normalize=true)"
    assert_equal(run(layer, "SpikeTensor[T, N, 4, 7, 7]", x, weights), expected)


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
def test_spikformer_attention(kind: str) -> None:
    """`SpikingSelfAttention` of `runtime.spiking` as a whole."""
    rng = np.random.default_rng(10)
    module = SpikingSelfAttention(8, 2, kind, neuron={"beta": math.exp(-1 / 2)}).eval()
    weights: Weights = {}
    state: dict[str, Tensor] = {}
    for ours, theirs in zip(PROJECTIONS, ("query", "key", "value", "output"), strict=True):
        weights[f"{ours}.weight"] = weight = exact(rng, 8, 8)
        state[f"projections.{theirs}.weight"] = torch.from_numpy(weight.T)
        for name, value in norm_of(rng, 8).items():
            weights[f"{ours}.norm.{name}"] = value
            state[f"norms.{theirs}.{name}"] = torch.from_numpy(value)
    assert not module.load_state_dict(state, strict=False).unexpected_keys
    x = spikes(rng, 5, 8)
    expected, _ = module(as_torch(x))
    scale = 0.125 if kind == "ssa" else 1.0
    layer = f'SpikingSelfAttention(8, 2, {scale}, kind="{kind}", bias=false, normalize=true)'
    assert_equal(run(layer, "SpikeTensor[T, N, 5, 8]", x, weights), expected)


PROJECTIONS = ("query", "key", "value", "proj")


def attend(weights: Weights, path: str, x: Tensor, module: SpikingAttention) -> Tensor:
    """The spikes of an attention on the spikes of its projections."""
    trains = [neuron()(projection(weights, f"{path}{name}", x))[0] for name in PROJECTIONS[:3]]
    return module(*trains)[0]


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(
    ("kind", "scale", "reset"),
    [("ssa", 0.125, "to_value"), ("ssa", 0.25, "subtract"), ("sdsa", 1.0, "none")],
)
def test_spiking_self_attention(heads: int, kind: str, scale: float, reset: str) -> None:
    rng = np.random.default_rng(6)
    weights = weights_of(rng, dict.fromkeys(PROJECTIONS, (8, 8)))
    x = spikes(rng, 5, 8)
    module = SpikingAttention(kind, heads, scale=scale, reset=reset)
    mixed = attend(weights, "", as_torch(x), module)
    expected, _ = neuron()(projection(weights, "proj", mixed))
    layer = f'SpikingSelfAttention(8, {heads}, {scale}, kind="{kind}", attention_reset="{reset}")'
    assert_equal(run(layer, "SpikeTensor[T, N, 5, 8]", x, weights), expected)


def test_spikeformer_block() -> None:
    rng = np.random.default_rng(7)
    sizes = {f"attn.{name}": (8, 8) for name in PROJECTIONS}
    weights = weights_of(rng, {**sizes, "mlp.fc1": (8, 12), "mlp.fc2": (12, 8)})
    x = exact(rng, STEPS, BATCH, 5, 8) * 2
    currents = torch.from_numpy(x)
    mixed = attend(weights, "attn.", neuron()(currents)[0], SpikingAttention("ssa", 2))
    attended = currents + projection(weights, "attn.proj", mixed)
    hidden, _ = neuron()(projection(weights, "mlp.fc1", neuron()(attended)[0]))
    expected = attended + projection(weights, "mlp.fc2", hidden)
    found = run("SpikeFormerBlock(8, 2, hidden=12)", "Tensor[T, N, L, 8]", x, weights)
    assert_equal(found, expected)
