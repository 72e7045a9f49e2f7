"""Runs in chunks of time: equal gradients, and memory that does not grow with the steps."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.attention import SpikingSelfAttention
from triton_dsl.runtime.spiking.coding import encode
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.mlp import SpikingMLP
from triton_dsl.runtime.spiking.neurons import LifNeuron
from triton_dsl.runtime.spiking.training import REDUCTIONS, run_in_chunks

REDUCED: dict[str, Callable[[Tensor], Tensor]] = {
    "stack": lambda y: y,
    "sum": lambda y: y.sum(0),
    "mean": lambda y: y.mean(0),
    "last": lambda y: y[-1],
}


def network(model: str = "LIF", readout: str = "spikes") -> SpikingMLP:
    torch.manual_seed(0)
    config = SpikingConfig(neuron_model=model, threshold=0.4, surrogate_gradient="arctan")
    return SpikingMLP([6, 10, 3], config, readout=readout).double()


def pixels() -> Tensor:
    return torch.rand(4, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def gradients(loss: Tensor, wanted: Sequence[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, wanted))


@pytest.mark.parametrize("model", ["LIF", "IF", "CubaLIF"])
@pytest.mark.parametrize("chunk", [None, 1, 4, 13, 100])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_outputs_states_and_gradients_are_those_of_one_run(
    model: str, chunk: int | None, reduce: str
) -> None:
    mlp = network(model, "membrane")
    x = encode(pixels(), "rate", 13, seed=4).requires_grad_()
    wanted = [x, *mlp.parameters()]
    whole, last = mlp(x)
    expected = REDUCED[reduce](whole)
    weights = torch.randn(expected.shape, dtype=x.dtype)
    found, state = run_in_chunks(mlp, x, chunk=chunk, reduce=reduce)
    torch.testing.assert_close(found, expected)
    for mine, theirs in zip(state, last, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    loss = (expected * weights).sum() + sum(part[-1].sum() for part in last)
    chunked = (found * weights).sum() + sum(part[-1].sum() for part in state)
    for mine, theirs in zip(gradients(chunked, wanted), gradients(loss, wanted), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert theirs.any()


def test_inputs_from_a_function_and_given_states() -> None:
    mlp, image = network(), pixels()
    with torch.no_grad():
        _, state = mlp(encode(image, "rate", 3, seed=9))
    x = encode(image, "rate", 11, seed=4)
    expected, last = mlp(x, state)
    found, end = run_in_chunks(
        mlp, lambda start, steps: encode(image, "rate", steps, start=start, seed=4), 11, state=state
    )
    assert torch.equal(found, expected) and torch.equal(end[1][0], last[1][0])
    wanted = list(mlp.parameters())
    for mine, theirs in zip(
        gradients(found.sum(), wanted), gradients(expected.sum(), wanted), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


def test_attention_and_dropout_in_chunks() -> None:
    torch.manual_seed(0)
    layer = SpikingSelfAttention(8, 2).eval()
    dropout = nn.Dropout(0.5).train()
    x = encode(torch.rand(2, 5, 8), "rate", 9, seed=1).requires_grad_()

    def run(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return layer(dropout(x), state)

    found: list[Tensor] = []
    for checkpoint in (True, False):
        torch.manual_seed(3)
        output, _ = run_in_chunks(run, x, chunk=4, checkpoint=checkpoint)
        found.append(torch.autograd.grad((output * torch.arange(8)).sum(), x)[0])
    torch.testing.assert_close(found[0], found[1])
    assert found[0].any()


class LiveBytes(TorchDispatchMode):
    """The most bytes of tensors that are alive at once, of those made in the block."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: list[tuple[StorageWeakRef, int]] = []
        self.most = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {reference.cdata for reference, _ in self.alive}
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                reference = StorageWeakRef(storage)
                if reference.cdata not in known:
                    self.alive.append((reference, storage.nbytes()))
                    known.add(reference.cdata)
        self.alive = [entry for entry in self.alive if not entry[0].expired()]
        self.most = max(self.most, sum(size for _, size in self.alive))
        return result


IMAGE = torch.rand(8, 6, generator=torch.Generator().manual_seed(2))


def run_long(steps: int, checkpoint: bool) -> tuple[SpikingMLP, Tensor]:
    torch.manual_seed(0)
    mlp = SpikingMLP([6, 32, 3], SpikingConfig(threshold=0.4))
    output, _ = run_in_chunks(
        mlp,
        lambda start, count: encode(IMAGE, "regular", count, start=start),
        steps,
        reduce="sum",
        checkpoint=checkpoint,
    )
    return mlp, output


def test_memory_grows_like_the_root_of_the_steps() -> None:
    """The most that is alive in a forward and backward pass, for 16 and for 144 steps."""
    most: dict[tuple[int, bool], int] = {}
    for steps in (16, 144):
        for checkpoint in (True, False):
            gc.collect()
            with LiveBytes() as live:
                mlp, output = run_long(steps, checkpoint)
                output.sum().backward()
            assert all(p.grad is not None for p in mlp.parameters())
            most[steps, checkpoint] = live.most
    assert most[144, True] / most[16, True] < 4
    assert most[144, False] / most[16, False] > 6
    assert most[144, True] < most[144, False] / 3


def test_without_gradients_nothing_is_kept() -> None:
    with torch.no_grad():
        mlp, output = run_long(20, True)
    whole, _ = mlp(encode(IMAGE, "regular", 20))
    assert not output.requires_grad and torch.equal(output, whole.sum(0))


def test_default_chunks_are_roots() -> None:
    lengths: list[int] = []

    def note(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        lengths.append(len(x))
        return x, state

    for total in (1, 2, 9, 10, 100):
        lengths.clear()
        output, _ = run_in_chunks(note, torch.arange(float(total)), checkpoint=False)
        assert torch.equal(output, torch.arange(float(total)))
        assert max(lengths) == math.ceil(math.sqrt(total)) and sum(lengths) == total


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda n, x: run_in_chunks(n, x, 4), "timesteps belongs to inputs that are a function"),
        (lambda n, x: run_in_chunks(n, lambda a, b: x), "timesteps: expected at least 1, got None"),
        (lambda n, x: run_in_chunks(n, x[:0]), "timesteps: expected at least 1, got 0"),
        (lambda n, x: run_in_chunks(n, x, chunk=0), "chunk: expected at least 1 step"),
        (lambda n, x: run_in_chunks(n, x, reduce="max"), "reduce: expected one of stack"),
        (
            lambda n, x: run_in_chunks(SpikingMLP([6, 3], normalize=True), x),
            "'norms.0' normalises by statistics over all steps",
        ),
    ],
)
def test_refusals(make: Callable[[Any, Tensor], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make(LifNeuron(0.9), torch.ones(4, 2, 6))
