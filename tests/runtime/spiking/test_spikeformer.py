"""SpikeFormer: shapes, slices in time, spikes between blocks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.spikeformer import SpikeFormer, SpikingPatchEmbedding
from triton_dsl.runtime.spiking.training import run_in_chunks


def former(**options: Any) -> SpikeFormer:
    torch.manual_seed(0)
    given: dict[str, Any] = {"inputs": 2, "channels": 8, "heads": 2, **options}
    network = SpikeFormer((4, 6), 2, 3, **given)
    for name, parameter in network.named_parameters():
        if "norm" in name and name.endswith("bias"):  # so that the untrained network fires
            torch.nn.init.uniform_(parameter, 0.0, 1.5)
    return network.eval()


def images(steps: int = 5) -> torch.Tensor:
    return torch.rand(steps, 3, 2, 4, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
@pytest.mark.parametrize("model", ["LIF", "CubaLIF"])
def test_a_run_in_slices(kind: str, model: str) -> None:
    """On eighths, whose sums are exact: libraries sum other batches in another order."""
    network, x = former(kind=kind, config=SpikingConfig(4, neuron_model=model)), images()
    with torch.no_grad():
        for tensor in (x, *network.parameters()):
            tensor.copy_((tensor * 8).round() / 8)
    whole, last = network(x)
    assert whole.shape == (5, 3, 3) and len(last[1]) == 2
    first, state = network(x[:2])
    second, end = network(x[2:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)  # of means of tokens
    assert torch.equal(end[0][0], last[0][0]) and torch.equal(
        end[1][1][1][0][0], last[1][1][1][0][0]
    )
    mean, _ = run_in_chunks(network, x, chunk=2, reduce="mean")
    torch.testing.assert_close(mean, whole.mean(0))


def test_tokens_are_patches() -> None:
    """In the order of rows, each a product with the pixels of its patch."""
    embedding = SpikingPatchEmbedding((4, 6), 2, 2, 8, SpikingConfig()).eval()
    current: list[torch.Tensor] = []
    embedding.norm.register_forward_pre_hook(lambda layer, given: current.append(given[0]))
    x = images()
    spikes, _ = embedding(x)
    patches = functional.unfold(x.flatten(0, 1), 2, stride=2).transpose(1, 2)
    expected = patches @ embedding.patches.weight.flatten(1).T + embedding.position
    torch.testing.assert_close(current[0].flatten(0, 1), expected)
    assert spikes.shape == (5, 3, 6, 8) and set(spikes.unique().tolist()) <= {0.0, 1.0}


def test_blocks_add_spikes() -> None:
    network, sums = former(), list[torch.Tensor]()
    for block in network.blocks:
        block.register_forward_hook(lambda layer, given, result: sums.append(result[0]))
    network(images())
    for index, found in enumerate(sums):
        numbers = set(found.unique().tolist())
        assert numbers <= set(range(2 * index + 4)) and len(numbers) > 1


def test_every_parameter_is_trained() -> None:
    network = former().train()
    network(images())[0].square().sum().backward()
    without = [n for n, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []
    assert network.embedding.neuron.extra_repr().startswith("beta=0.5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch": 3}, "patches of 3x3 do not divide 4x6"),
        ({"patch": 0}, "patches of 0x0"),
        ({"classes": 0}, "classes: expected at least 1"),
        ({"depth": 0}, "depth: expected at least 1"),
        ({"heads": 3}, "3 heads do not divide 8 channels"),
        ({"kind": "softmax"}, "kind: expected one of ssa, sdsa"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"patch": 2, "classes": 3, "channels": 8, **options}
    with pytest.raises(OptionError, match=message):
        SpikeFormer((4, 6), **given)


def test_inputs_that_do_not_fit() -> None:
    network = former()
    with pytest.raises(OptionError, match=r"expected images \[T, N, 2, 4, 6\], got \[5, 3, 2, 4\]"):
        network(images()[..., 0])
    state = network(images())[1]
    with pytest.raises(OptionError, match="expected the states of 2 blocks, got 1"):
        network(images(), (state[0], state[1][:1]))
