"""Sequences of free length, computed with their sizes, and caches that grow: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import LoweringError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import TorchWarning, from_torch

SIZES = {"x": {0: "N", 1: "L"}}


class Function(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def grid(x: Tensor) -> Tensor:
    """What masks are made of: elements at all pairs of places along two axes."""
    batch, place = torch.arange(x.shape[0]), torch.arange(x.shape[1])
    marks = (x[..., 0] > 0).cumsum(-1)
    rows = marks[batch[:, None, None, None], place[None, None, :, None]]
    columns = marks[batch[:, None, None, None], place[None, None, None, :]]
    return (rows == columns) & (place[:, None] >= place)


def picked(x: Tensor) -> Tensor:
    """Places that depend on values, in two free axes."""
    last = x[..., 0].argmax(-1)
    return x[torch.arange(x.shape[0]), last] + x[torch.arange(x.shape[0]), -1 - last]


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "grid": grid,
    "picked": picked,
    "differences": lambda x: x - torch.cat([x[:, :1], x], 1)[:, : x.shape[1]],
    "last": lambda x: x[:, -1] * x[:, x.shape[1] - 2],
    "sizes": lambda x: x * x.shape[1] + x.shape[0],
    "counted": lambda x: x[..., 0] + torch.arange(2, x.shape[1] + 2) * 0.5,
    "rows of a table": lambda x: x + torch.arange(60.0).reshape(20, 3)[: x.shape[1]],
    "rows from a place": lambda x: x + torch.arange(90.0).reshape(30, 3)[7 : 7 + x.shape[1]],
    "repeated": lambda x: torch.ones(3, 2, 1).repeat(x.shape[0], 1, x.shape[1]) * x[0, 0, 0],
    "as another": lambda x: x[:1].expand_as(x) * (x > 0).type_as(x),
    "marked": lambda x: torch.zeros(x.shape[0] * x.shape[1], 3).scatter(
        1, x.flatten(0, 1).argmax(-1, keepdim=True), 1.5
    ),
    "added to rows": lambda x: x.scatter_add(1, (x > 0).long(), x),
    "triangle": lambda x: (x @ x.transpose(1, 2)).tril(),
    "numbered": lambda x: torch.arange(x.shape[0] * x.shape[1]).sum() + x,
    "few places": lambda x: x[:, torch.arange(x.shape[1]).bool().long()],
    "where a mask holds": lambda x: x.masked_scatter(x > 0, x.flip(1) * 2),
    "turned": lambda x: x.flip(1) - x.flip(0, 2),
    "beside": lambda x: torch.arange(x.shape[1] + 2) + x.sum((1, 2))[:, None],
}


BOUNDS = {"rows of a table": "L up to 20", "rows from a place": "L up to 23"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_free_sizes(name: str) -> None:
    """Also of one element, which PyTorch counts as a size of its own."""
    bound = BOUNDS.get(name)
    with pytest.warns(TorchWarning, match=bound) if bound else nullcontext():
        module = from_torch(Function(FUNCTIONS[name]), torch.randn(2, 5, 3), dynamic=SIZES)
    for batch, length in ((2, 5), (3, 9), (1, 2)):
        x = torch.randn(batch, length, 3)
        wanted = FUNCTIONS[name](x).numpy()
        (found,) = run_module(module, [x.numpy()])
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


class Messages(nn.Module):
    """A graph network: nodes add up what arrives along edges, and take the greatest of it."""

    def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, ...]:
        source, target = edges
        messages = x[source]
        nothing = torch.zeros(x.shape[0], 3)
        return (
            nothing.index_add(0, target, messages),
            nothing.index_put((target,), messages, accumulate=True),
            nothing.index_reduce(0, target, messages, "amax"),
            torch.zeros(x.shape[0]).scatter_add(0, target, torch.ones(target.shape[0])),
            x.gather(0, source[:, None].expand(-1, 3)) > 0,
        )


@pytest.mark.parametrize("target", ["onnx", "pytorch", "tflite", "native"])
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_graphs_of_any_size(target: str) -> None:
    """Free are the nodes for the interpreter alone, and the edges for each engine."""
    x, edges = torch.randn(5, 3), torch.tensor([[0, 1, 2, 4], [1, 1, 0, 3]])
    module = from_torch(Messages(), (x, edges), dynamic={"edges": {1: "E"}})
    wholly = from_torch(Messages(), (x, edges), dynamic={"x": {0: "V"}, "edges": {1: "E"}})
    edges = torch.tensor([[0, 1, 2, 4, 3, 3], [1, 1, 0, 3, 4, 1]])
    wanted = Messages()(x, edges)
    _, found, _ = run_target(module, target, [x.numpy(), edges.numpy()])
    for results in (found, run_module(wholly, [x.numpy(), edges.numpy()])):
        for result, expected in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, expected.numpy(), 1e-6)
    x = torch.randn(7, 3)
    expected = Messages()(x, edges)[0].numpy()
    np.testing.assert_allclose(run_module(wholly, [x.numpy(), edges.numpy()])[0], expected, 1e-6)


def test_whole_axes_are_no_gathers() -> None:
    module = from_torch(Function(grid), torch.randn(2, 5, 3), dynamic=SIZES)
    assert "gather" not in str(module)


def masked(x: Tensor) -> Tensor:
    """What masks of transformers are made of: statements, tensors of one value, differences."""
    place = torch.arange(x.shape[1]).to(torch.int32)
    starts = place.diff(prepend=place[:1] - 1) != 1
    groups = torch.ones(x.shape[:2], dtype=torch.long) * starts.cumsum(0)
    same = groups[:, :, None] == groups[:, None]
    inside = place[:, None].ge(place).__and__(same).repeat_interleave(2, 0)
    return inside.to(x.dtype) + torch.zeros(x.shape[1]).detach_()


def test_masks_are_read_as_they_are_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking a graph apart costs more than all the rest."""

    def refuse(*_arguments: object) -> None:
        raise AssertionError("the graph is taken apart")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)
    module = from_torch(Function(masked), torch.randn(2, 5, 3), dynamic=SIZES)
    x = torch.randn(3, 4, 3)
    (found,) = run_module(module, [x.numpy()])
    np.testing.assert_array_equal(found, masked(x).numpy())


class Layer(nn.Module):
    """Attention that adds to keys and values of earlier tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(30, 8), nn.Embedding(40, 8)
        self.project, self.head = nn.Linear(8, 24), nn.Linear(8, 30)

    def forward(self, tokens: Tensor, cache: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        past, new = cache[0].shape[2], tokens.shape[1]
        here = torch.arange(past, past + new)
        x = self.table(tokens) + self.places(here)
        flat = torch.addmm(self.project.bias, x.view(-1, 8), self.project.weight.t())
        parts = flat.view(*x.shape[:-1], 3, 2, 4).permute(2, 0, 3, 1, 4)
        keys, values = (
            torch.cat([old, part], 2) for old, part in zip(cache, parts[1:], strict=True)
        )
        mask = torch.arange(past + new) <= here[:, None]
        y = F.scaled_dot_product_attention(parts[0], keys, values, mask)
        return self.head(y.transpose(1, 2).flatten(2)), keys, values


def test_caches_go_in_and_come_out() -> None:
    layer = Layer().eval()

    def example(batch: int, new: int, past: int) -> tuple[Tensor, list[Tensor]]:
        return torch.randint(30, (batch, new)), [torch.randn(batch, 2, past, 4) for _ in "kv"]

    dynamic = {"tokens": {0: "N", 1: "L"}, "cache": {0: "N", 2: "P"}}
    module = from_torch(layer, example(2, 4, 5), dynamic=dynamic)
    for sizes in ((2, 4, 5), (3, 1, 7), (1, 6, 1)):
        tokens, cache = example(*sizes)
        with torch.no_grad():
            wanted = layer(tokens, cache)
        arrays = [tokens.numpy(), *(part.numpy() for part in cache)]
        _, ran, _ = run_target(module, "onnx", arrays)
        for found, again, want in zip(run_module(module, arrays), ran, wanted, strict=True):
            assert found.shape == want.shape
            np.testing.assert_allclose(found, want.numpy(), 1e-5, 1e-5)
            np.testing.assert_allclose(np.asarray(again), want.numpy(), 1e-5, 1e-5)


class Rewritten(nn.Module):
    """A buffer that each call writes before it reads it, as rotary embeddings of two lengths do."""

    def __init__(self, *, reads_first: bool = False) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(4))
        self.reads_first = reads_first

    def forward(self, x: Tensor) -> Tensor:
        scale = self.get_buffer("scale")
        before = scale * 2 if self.reads_first else x
        scale.copy_(torch.where(x.sum() > 1, x.mean(0), torch.tensor(3.0)))
        return x * scale + before


def test_a_buffer_that_each_call_writes_first() -> None:
    module = from_torch(Rewritten(), torch.ones(2, 4))
    for x in (torch.randn(3, 4).abs(), -torch.ones(2, 4), torch.ones(1, 4)):
        (found,) = run_module(module, [x.numpy()])
        np.testing.assert_allclose(found, Rewritten()(x).numpy(), 1e-6)
    with pytest.raises(LoweringError, match="changes scale when it runs"):
        from_torch(Rewritten(reads_first=True), torch.ones(2, 4))


class Experts(nn.Module):
    """What transformers' mixtures of experts have: two forms, of which the configuration picks."""

    def __init__(self) -> None:
        super().__init__()
        self.config: Any = type("Config", (), {"_experts_implementation_internal": "grouped_mm"})()
        self.weight = nn.Parameter(torch.randn(4, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        chosen = x.argmax(-1)
        if self.config._experts_implementation_internal == "batched_mm":
            return torch.bmm(self.weight[chosen], x.unsqueeze(-1)).squeeze(-1)
        rows = torch.cat([x[chosen == expert] @ self.weight[expert].t() for expert in range(4)])
        return rows[chosen.argsort(stable=True).argsort()]


def test_mixtures_of_experts_gather_weights() -> None:
    experts = Experts().eval()
    module = from_torch(experts, torch.randn(6, 3))
    assert experts.config._experts_implementation_internal == "grouped_mm"
    x = torch.randn(9, 3)
    with torch.no_grad():
        wanted = experts(x)
    np.testing.assert_allclose(run_module(module, [x.numpy()])[0], wanted.numpy(), 1e-5, 1e-5)


RECURRENT: dict[str, nn.RNNBase] = {
    "lstm": nn.LSTM(4, 6, batch_first=True),
    "projected": nn.LSTM(4, 6, proj_size=3, num_layers=2, bidirectional=True),
    "gru": nn.GRU(4, 5, bidirectional=True, bias=False),
    "rnn": nn.RNN(4, 5, nonlinearity="relu", batch_first=True),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_over_free_lengths(name: str) -> None:
    """A loop over the steps, in engines too; with a free batch beside, or a fixed one."""
    layer = RECURRENT[name].eval()
    axis = 1 if layer.batch_first else 0

    def sequence(steps: int) -> Tensor:
        return torch.randn(*((2, steps) if axis else (steps, 2)), 4)

    for sizes in ({axis: "T", 1 - axis: "N"}, {axis: "T"}):
        module = from_torch(layer, sequence(5), dynamic={"input": sizes})
        assert "spike.scan" in str(module)
        engines = ("onnx", "pytorch") if len(sizes) > 1 else ("onnx", "pytorch", "native")
        for steps in (1, 7):
            x = sequence(steps)
            y, state = layer(x)
            wanted = [y, *state] if isinstance(state, tuple) else [y, state]
            results = [run_module(module, [x.numpy()])]
            results += [run_target(module, engine, [x.numpy()])[1] for engine in engines]
            for found in results:
                for result, value in zip(found, wanted, strict=True):
                    np.testing.assert_allclose(result, value.detach().numpy(), 1e-5, 1e-6)


class UNet(nn.Module):
    """Images of any height and width that halve and double."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.inner = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 3, 2, 1)
        self.up, self.wide = nn.ConvTranspose2d(6, 4, 2, 2), nn.Upsample(scale_factor=2)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a = self.norm(self.down(x))
        b = self.inner(F.max_pool2d(a, 2))
        c = torch.cat([F.avg_pool2d(a, 2), self.up(b)], 1)
        wide = F.interpolate(c, scale_factor=3, mode="bilinear", align_corners=True)
        return self.wide(b), wide, F.interpolate(c, x.shape[2:], mode="bilinear")


def test_images_of_any_size() -> None:
    """What sizes must be for images to fit each other, a warning says."""
    module = UNet().eval()
    free = {"x": {0: "N", 2: "H", 3: "W"}}
    with pytest.warns(TorchWarning, match=r"UNet is read for .* == \(H // 2\) and "):
        program = from_torch(module, torch.randn(2, 3, 8, 16), dynamic=free)
    for shape in ((2, 3, 8, 16), (1, 3, 20, 12)):
        x = torch.randn(shape)
        wanted = module(x)
        for found in (
            run_module(program, [x.numpy()]),
            run_target(program, "onnx", [x.numpy()])[1],
        ):
            for result, value in zip(found, wanted, strict=True):
                np.testing.assert_allclose(result, value.detach().numpy(), 1e-5, 1e-5)


class Pyramid(nn.Module):
    """Features of several sizes made one size again, attended to, and scaled by a half more."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a = self.first(x)
        b = self.second(a)
        rows = b.flatten(2)
        b = b + (rows @ (rows.mT @ rows)).reshape(b.shape)
        joined = a + F.interpolate(b, a.shape[2:], mode="nearest")
        pooled = F.interpolate(F.adaptive_avg_pool2d(b, 1), b.shape[2:], mode="bilinear")
        wide = F.interpolate(a, scale_factor=1.5, mode="bilinear")
        corners = F.interpolate(a, scale_factor=1.5, mode="bilinear", align_corners=True)
        return joined, pooled, wide, corners, F.interpolate(a, scale_factor=(0.75, 2.5))


def test_pyramids_of_any_size() -> None:
    module = Pyramid().eval()
    free = {"x": {2: "H", 3: "W"}}
    with pytest.warns(TorchWarning, match="Pyramid is read for"):
        program = from_torch(module, torch.randn(2, 3, 16, 24), dynamic=free)
    for shape in ((2, 3, 16, 24), (2, 3, 21, 13)):
        x = torch.randn(shape)
        wanted = module(x)
        for found in (
            run_module(program, [x.numpy()]),
            run_target(program, "onnx", [x.numpy()])[1],
        ):
            for result, value in zip(found, wanted, strict=True):
                np.testing.assert_allclose(result, value.detach().numpy(), 1e-5, 1e-5)


def test_nearest_elements_as_its_rounding_picks_them() -> None:
    """Places beside whole numbers, where f32 and exact arithmetic differ."""

    def resized(x: Tensor) -> tuple[Tensor, ...]:
        exact = F.interpolate(x, size=123, mode="nearest-exact")
        return F.interpolate(x, size=122), exact, F.interpolate(x, scale_factor=0.7)

    x = torch.arange(128.0).reshape(1, 1, 128)
    program = from_torch(Function(resized), x, dynamic={})
    for result, value in zip(run_module(program, [x.numpy()]), resized(x), strict=True):
        np.testing.assert_array_equal(result, value.numpy())


def test_counts_of_numbers_below_a_bound() -> None:
    """How many numbers `bincount` counts hangs on values, but for what it is told."""

    def counted(x: Tensor) -> Tensor:
        return torch.bincount(x[:, 0].abs().long(), x[:, 1], minlength=4) / x.shape[0]

    x = torch.tensor([[0.0, 2], [3, 4], [3, 5], [1, -1]])
    with pytest.warns(TorchWarning, match="read for integers below 4, the 'minlength'"):
        program = from_torch(Function(counted), x)
    for given in (x, x[:3]):
        np.testing.assert_allclose(run_module(program, [given.numpy()])[0], counted(given).numpy())
    with pytest.raises(LoweringError, match="give it a 'minlength'"):
        from_torch(Function(lambda x: torch.bincount(x[:, 0].long())), x)


def test_a_state_goes_into_a_loop() -> None:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(4, 3)

        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
            return self.cell(x, (h, c))[0]

    module, inputs = (
        Step().eval(),
        (torch.randn(5, 2, 4), torch.randn(1, 2, 3), torch.randn(1, 2, 3)),
    )
    free = {"x": {0: "T", 1: "N"}, "h": {1: "N"}, "c": {1: "N"}}
    program = from_torch(module, inputs, dynamic=free)
    for batch, steps in ((2, 5), (4, 3)):
        x, h, c = torch.randn(steps, batch, 4), torch.randn(1, batch, 3), torch.randn(1, batch, 3)
        (found,) = run_module(program, [value.numpy() for value in (x, h, c)])
        np.testing.assert_allclose(found, module(x, h, c).detach().numpy(), 1e-5, 1e-6)
