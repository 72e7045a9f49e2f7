"""Recorded runs: trains of torch's neurons, potentials step by step, additions counted apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.runtime.spiking import coding, neurons
from triton_dsl.runtime.spiking.activity import Activity, record
from triton_dsl.runtime.spiking.anytime import answers

Array = NDArray[Any]
RNG = np.random.default_rng(3)

SOURCE = """
layer Net {
    let fc1 = SpikingLinear(6, 9, bias=false, tau=3.0)
    param out: Tensor[9, 4]

    fn forward(x: Tensor[N, 6]) -> Tensor[N, 4] {
        let s = encode(x, timesteps=STEPS, seed=5, dt=0.002)
        return decode(leaky_integrator(fc1(s) @ out, tau=4.0), "membrane", "mean")
    }
}
"""
WEIGHT = (RNG.integers(-64, 129, (6, 9)) / 64).astype(np.float32)
OUT = (RNG.integers(-64, 65, (9, 4)) / 64).astype(np.float32)
X = RNG.random((3, 6)).astype(np.float32)


def net(steps: int = 12) -> ModuleOp:
    weights = {"fc1.weight": WEIGHT, "out": OUT}
    return import_tri(SOURCE.replace("STEPS", str(steps)), weights=weights)


def spikes(*shape: int) -> Array:
    return RNG.random(shape) < 0.4


def test_layers_hold_what_the_neurons_of_torch_give() -> None:
    found = record(net(), [X])
    s = coding.encode(torch.from_numpy(X), "rate", 12, seed=5)
    neuron = neurons.LifNeuron(math.exp(-1 / 3.0))
    currents = s @ torch.from_numpy(WEIGHT)
    hidden, _ = neuron(currents)
    trace, _ = neurons.LeakyIntegrator(math.exp(-1 / 4.0))(hidden @ torch.from_numpy(OUT))
    state, potential = None, list[Any]()
    for current in currents:
        _, state = neuron.step(current, state)
        potential.append(state[0].detach().numpy())

    encoded, first, last = found.layers
    assert [layer.name for layer in found.layers] == ["x", "fc1", "out"]
    assert [layer.fires for layer in found.layers] == [True, True, False]
    assert [layer.is_input for layer in found.layers] == [True, False, False]
    np.testing.assert_array_equal(encoded.output, s.numpy() > 0)
    np.testing.assert_array_equal(first.output, hidden.detach().numpy() > 0)
    assert first.potential is not None
    np.testing.assert_array_equal(first.potential, np.stack(potential))
    np.testing.assert_allclose(last.output, trace.numpy(), rtol=1e-6)
    assert (first.neurons, first.steps, first.threshold) == (9, 12, 1.0)
    assert first.spikes == int(hidden.sum()) == found.spikes
    assert first.rate == pytest.approx(float(hidden.mean()))
    assert found.dt == 0.002
    np.testing.assert_array_equal(found.outputs[0], run_module(net(), [X])[0])


def test_potentials_only_on_request() -> None:
    found = record(net(), [X], potentials=False)
    assert all(layer.potential is None for layer in found.layers)


def activity(text: str, *arrays: Array) -> Activity:
    module = parse_module(text)
    module.verify()
    return record(module, arrays)


def test_additions_of_products() -> None:
    found = record(net(), [X])
    s, hidden = found.layers[0].output, found.layers[1].output
    for synapse, train, weight in zip(found.synapses, (s, hidden), (WEIGHT, OUT), strict=True):
        by_hand = sum(
            int((weight[i] != 0).sum())
            for t in range(12)
            for n in range(3)
            for i in range(weight.shape[0])
            if train[t, n, i]
        )
        assert (synapse.additions, synapse.dense) == (by_hand, 12 * 3 * weight.size)
    assert [synapse.name for synapse in found.synapses] == ["fc1", "out"]
    assert found.additions == sum(synapse.additions for synapse in found.synapses)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 2), st.integers(0, 1), st.sampled_from([1, 2]))
def test_additions_of_convolutions(stride: int, padding: int, groups: int) -> None:
    s = spikes(4, 2, 4, 6, 6)
    weight = RNG.integers(-1, 2, (6, 4 // groups, 3, 3)).astype(np.float32)
    size = (6 + 2 * padding - 3) // stride + 1
    pads = ", ".join([str(padding)] * 4)
    found = activity(
        f"""func.func @forward(%s: !spike.train<4x?x4x6x6>, %w: tensor<6x{4 // groups}x3x3xf32>)
             -> tensor<4x?x6x{size}x{size}xf32> {{
          %i = spike.conv %s, %w {{strides = array<i64: {stride}, {stride}>,
            padding = array<i64: {pads}>, dilation = array<i64: 1, 1>, groups = {groups} : i64}}
            : !spike.train<4x?x4x6x6>, tensor<6x{4 // groups}x3x3xf32>
            -> tensor<4x?x6x{size}x{size}xf32>
          func.return %i : tensor<4x?x6x{size}x{size}xf32>
        }}""",
        s,
        weight,
    )
    image, mask = torch.from_numpy(s).flatten(0, 1).double(), torch.from_numpy(weight != 0).double()
    options: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups}
    (synapse,) = found.synapses
    assert synapse.additions == int(F.conv2d(image, mask, **options).sum())
    ones = F.conv2d(torch.ones_like(image), torch.ones_like(mask), **options)
    assert synapse.dense == int(ones.sum())
    assert [layer.op for layer in found.layers] == ["argument"]


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
def test_additions_of_attention(kind: str) -> None:
    q, k, v = (spikes(3, 2, 5, 4) for _ in range(3))
    type = "!spike.train<3x2x5x4>"
    found = activity(
        f"""func.func @forward(%q: {type}, %k: {type}, %v: {type}) -> {type} {{
          %o = spike.attention %q, %k, %v {{kind = "{kind}", heads = 2 : i64}}
            : ({type}, {type}, {type}) -> {type}
          func.return %o : {type}
        }}""",
        q, k, v,
    )  # fmt: skip
    count = 0
    for t, n in np.ndindex(3, 2):
        if kind == "sdsa":
            count += int((k[t, n] & v[t, n]).sum())
            continue
        for head in (slice(0, 2), slice(2, 4)):
            for row, other in np.ndindex(5, 5):
                score = int((q[t, n, row, head] & k[t, n, other, head]).sum())
                count += score + (int(v[t, n, other, head].sum()) if score else 0)
    (synapse,) = found.synapses
    assert (synapse.name, synapse.additions) == ("attention", count)
    assert [layer.op for layer in found.layers][3:] == ["spike.attention"]


BODY = """
      %f = spike.linear %last, %r : !spike.train<5x?x4>, tensor<4x4xf32> -> tensor<5x?x4xf32>
      %c = tensor.add %x, %f : (tensor<5x?x4xf32>, tensor<5x?x4xf32>) -> tensor<5x?x4xf32>
      %s = spike.lif %c {beta = 0.9 : f64} : (tensor<5x?x4xf32>) -> !spike.train<5x?x4>
"""


def test_neurons_inside_feedback() -> None:
    current = (RNG.integers(0, 65, (5, 2, 4)) / 32).astype(np.float32)
    feedback = (RNG.integers(-64, 65, (4, 4)) / 64).astype(np.float32)
    found = activity(
        f"""func.func @forward(%i: tensor<5x?x4xf32>, %w: tensor<4x4xf32>)
             -> !spike.train<5x?x4> {{
          %y = spike.recurrent %i, %w
            : (tensor<5x?x4xf32>, tensor<4x4xf32>) -> !spike.train<5x?x4> {{
          ^bb0(%x: tensor<5x?x4xf32>, %r: tensor<4x4xf32>, %last: !spike.train<5x?x4>):
            {BODY}
            spike.yield %s : !spike.train<5x?x4>
          }}
          func.return %y : !spike.train<5x?x4>
        }}""",
        current,
        feedback,
    )
    v, last = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32)
    sent, potential, additions = list[Any](), list[Any](), 0
    for step in current:
        additions += int((last @ (feedback != 0)).sum())
        v = np.float32(0.9) * v + (step + last @ feedback)
        last = (v >= 1).astype(np.float32)
        v = v - last
        sent.append(last > 0)
        potential.append(v)
    (layer,), (synapse,) = found.layers, found.synapses
    assert np.any(sent) and layer.potential is not None
    np.testing.assert_array_equal(layer.output, np.stack(sent))
    np.testing.assert_array_equal(layer.potential, np.stack(potential))
    assert synapse.additions == additions


def test_neurons_inside_layers() -> None:
    s = spikes(5, 2, 6)
    weight = (RNG.integers(-64, 129, (6, 4)) / 64).astype(np.float32)
    inner = """%i = spike.linear %a, %b
              : !spike.train<5x?x6>, tensor<6x4xf32> -> tensor<5x?x4xf32>
            %o = spike.lif %i {beta = 0.9 : f64} : (tensor<5x?x4xf32>) -> !spike.train<5x?x4>"""
    head = "(%a: !spike.train<5x?x6>, %b: tensor<6x4xf32>)"
    plain = f"""func.func @forward{head} -> !spike.train<5x?x4> {{
            {inner}
            func.return %o : !spike.train<5x?x4>
        }}"""
    fused = f"""func.func @forward(%s: !spike.train<5x?x6>, %w: tensor<6x4xf32>)
             -> !spike.train<5x?x4> {{
          %y = spike.layer %s, %w
            : (!spike.train<5x?x6>, tensor<6x4xf32>) -> !spike.train<5x?x4> {{
          ^bb0{head}:
            {inner}
            spike.yield %o : !spike.train<5x?x4>
          }}
          func.return %y : !spike.train<5x?x4>
        }}"""
    expected, found = activity(plain, s, weight), activity(fused, s, weight)
    assert [layer.op for layer in found.layers] == ["argument", "spike.lif"]
    for a, b in zip(expected.layers, found.layers, strict=True):
        np.testing.assert_array_equal(a.output, b.output)
    assert found.additions == expected.additions > 0


def test_names_are_paths_of_weights_and_differ() -> None:
    source = """
    layer Net {
        let block = SpikeFormerBlock(4, 2, hidden=6)
        fn forward(s: SpikeTensor[T, N, L, 4]) { return lif(lif(block(leaky_integrator(s)))) }
    }
    """
    rng = np.random.default_rng(0)
    names = [f"block.attn.{n}" for n in ("query", "key", "value", "proj")]
    sizes = {**dict.fromkeys(names, (4, 4)), "block.mlp.fc1": (4, 6), "block.mlp.fc2": (6, 4)}
    weights: dict[str, Array] = {}
    for name, size in sizes.items():
        weights[f"{name}.weight"] = rng.standard_normal(size).astype(np.float32)
        weights[f"{name}.bias"] = rng.standard_normal(size[1]).astype(np.float32)
    found = record(import_tri(source, weights=weights), [spikes(3, 2, 5, 4)])
    assert [layer.name for layer in found.layers] == [
        "s",
        "leaky_integrator",
        "lif",
        *names[:3],
        "block.attn.attention",
        "block.attn.proj",
        "block.mlp.fc1",
        "block.mlp.fc2",
        "lif 2",
    ]


def test_answers_are_those_of_shorter_runs() -> None:
    found = answers(net(12), [X])
    assert found.shape == (12, 3, 4)
    for steps in (1, 2, 7, 12):
        np.testing.assert_array_equal(found[steps - 1], run_module(net(steps), [X])[0])


@pytest.mark.parametrize("scheme", ["rate", "first_spike"])
def test_answers_go_on_after_the_decoder(scheme: str) -> None:
    source = f"""
    layer Net {{
        param w: Tensor[4, 3]
        fn forward(s: SpikeTensor[T, N, 4]) {{ return relu(decode(s, "{scheme}") @ w) }}
    }}
    """
    module, s = import_tri(source, weights={"w": OUT[:4, :3]}), spikes(5, 2, 4)
    for steps, answer in enumerate(answers(module, [s]), 1):
        np.testing.assert_array_equal(answer, run_module(module, [s[:steps]])[0])


def test_answers_of_trains_and_traces() -> None:
    s = spikes(5, 2, 3)
    train = import_tri("layer L { fn forward(s: SpikeTensor[T, N, 3]) { return delay(s, 0) } }")
    expected = np.stack([s[: t + 1].mean(axis=0) for t in range(5)])
    np.testing.assert_allclose(answers(train, [s]), expected)
    trace = import_tri(
        "layer L { fn forward(s: SpikeTensor[T, N, 3]) { return leaky_integrator(s) } }"
    )
    np.testing.assert_array_equal(answers(trace, [s]), run_module(trace, [s])[0])


def test_a_call_after_the_decoder_is_refused() -> None:
    module = parse_module("""
    func.func @f(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
      func.return %x : tensor<?x3xf32>
    }
    func.func @forward(%s: !spike.train<5x?x3>) -> tensor<?x3xf32> {
      %d = spike.decode %s {scheme = "rate"} : (!spike.train<5x?x3>) -> tensor<?x3xf32>
      %y = func.call @f(%d) : (tensor<?x3xf32>) -> tensor<?x3xf32>
      func.return %y : tensor<?x3xf32>
    }""")
    with pytest.raises(OptionError, match="need the call inlined"):
        answers(module, [spikes(5, 2, 3)])
