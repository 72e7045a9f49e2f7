"""Operators of ATen, family by family, against PyTorch at two batch sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from triton_dsl import from_torch

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "add_alpha": lambda x, y: torch.add(x, y, alpha=0.5),
    "add_number": lambda x, y: x + 3,
    "sub_alpha": lambda x, y: torch.sub(x, y, alpha=2),
    "rsub": lambda x, y: 3 - x + torch.rsub(x, y, alpha=2),
    "mul": lambda x, y: x * y * 2,
    "div": lambda x, y: x / (y.abs() + 1),
    "div_number": lambda x, y: 2 / (x.abs() + 1),
    "div_trunc": lambda x, y: torch.div(x * 8, 3, rounding_mode="trunc"),
    "div_floor": lambda x, y: x * 8 // 3,
    "remainder": lambda x, y: (x * 8) % 3,
    "pow": lambda x, y: x**2 + x**3 + x.abs() ** 0.5 + x.abs() ** 1.7 + (x.abs() + 1) ** -1,
    "pow_tensor": lambda x, y: (x.abs() + 1) ** y,
    "number_pow": lambda x, y: 2**x,
    "unary": lambda x, y: x.abs() + x.neg() + x.exp() + x.sign() + x.square() + x.erf(),
    "logarithms": lambda x, y: (
        (x.abs() + 1).log() + x.abs().log1p() + (x.abs() + 1).log2() + (x.abs() + 1).log10()
    ),
    "roots": lambda x, y: (x.abs() + 1).sqrt() + (x.abs() + 1).rsqrt() + (x.abs() + 1).reciprocal(),
    "expm1": lambda x, y: x.expm1(),
    "rounding": lambda x, y: (x * 4).floor() + (x * 4).ceil() + (x * 4).round() + (x * 4).trunc(),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5) + x.clamp(min=0) + x.clamp_max(1),
    "clamp_tensor": lambda x, y: x.clamp(min=y),
    "extremes": lambda x, y: torch.maximum(x, y) + torch.minimum(x, y) + torch.max(x, y),
    "compare": lambda x, y: (x > y).float() + (x >= 0) + (x < y) + (x <= 0.5) + (x == y) + (x != 0),
    "logic": lambda x, y: ((x > 0) & (y > 0)) | ~(x > 1) ^ (y > 1),
    "logic_words": lambda x, y: torch.logical_and(x > 0, y > 0).logical_not(),
    "where": lambda x, y: torch.where(x > 0, x, y) + torch.where(x > 0, 1.0, 0.0),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, -1.0),
    "broadcast": lambda x, y: x + y[:, :1] * y[:1],
    "convert": lambda x, y: (x * 4).to(torch.int32) + (y > 0).to(torch.int64),
    "promote": lambda x, y: (x * 4).to(torch.int32) + 0.5,
    "int_division": lambda x, y: (x * 8).to(torch.int32) / 3,
    "int_floor": lambda x, y: (x * 8).to(torch.int32) // 3 + (x * 8).to(torch.int32) % 3,
    "isnan": lambda x, y: torch.isnan((x / 0).where(x > 0, x)),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "in_place": lambda x, y: (x + 0).mul_(2).add_(y).relu_(),
}

ACTIVATIONS: list[nn.Module] = [
    nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.2), nn.ELU(0.7), nn.SELU(), nn.CELU(1.3), nn.GELU(),
    nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Sigmoid(), nn.Tanh(), nn.Hardtanh(-2, 0.5),
    nn.Hardtanh(), nn.Hardswish(), nn.Hardsigmoid(), nn.Softplus(), nn.Softplus(2.0, 3.0),
    nn.Softsign(), nn.Softshrink(0.3), nn.Hardshrink(0.3), nn.Tanhshrink(), nn.LogSigmoid(),
    nn.Threshold(0.1, -5.0), nn.PReLU(), nn.PReLU(6), nn.Softmax(-1), nn.LogSoftmax(1),
    nn.Softmin(1), nn.GLU(1), nn.Identity(), nn.Dropout(), nn.RReLU(),
]  # fmt: skip


class Each(nn.Module):
    """Each module on its own input."""

    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(part(x) for part, x in zip(self.parts, inputs, strict=True))


def pair(batch: int, *shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, *shape), torch.randn(batch, *shape)


def test_elementwise(check: Any) -> None:
    check.all_same(ELEMENTWISE, pair(2, 6, 5), pair(3, 6, 5))


def test_what_is_changed_in_place_is_seen_elsewhere(check: Any) -> None:
    def rectified(x: Tensor, y: Tensor) -> Tensor:
        z = x + y
        flat = z.view(-1)
        z.relu_()
        return flat + z.reshape(-1)

    check.same(rectified, pair(2, 3), pair(4, 3))


def test_activations(check: Any) -> None:
    check.same(Each(ACTIVATIONS), *[(3 * torch.randn(n, 6, 5),) * len(ACTIVATIONS) for n in (2, 4)])


SHAPES: dict[str, Callable[[Tensor], Any]] = {
    "view": lambda x: x.view(x.shape[0], 12, -1),
    "flatten": lambda x: (x.flatten(1), x.flatten(0, 1), x.flatten()),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "merge_and_part": lambda x: x.flatten(0, 1).unflatten(0, (x.shape[0], 4)),
    "permute": lambda x: x.permute(2, 0, 3, 1).transpose(0, 1).mT,
    "movedim": lambda x: (x.movedim(1, -1), x.moveaxis((0, 3), (2, 0)), x.swapdims(1, 2)),
    "other names": lambda x: (
        torch.concat([x, x.clip(0, 1)], 1),
        x[:, :1].broadcast_to(x.shape).reshape_as(x),
        x.transpose(1, 2).contiguous().view_as(x),
    ),
    "squeeze": lambda x: x[:, :1].squeeze(1) + x[:, :, :1].squeeze().sum(),
    "unsqueeze": lambda x: x.unsqueeze(-1)[:, None],
    "expand": lambda x: (
        x[:, :1].expand(-1, 7, -1, -1) + x[:, 0].expand(2, *x[:, 0].shape)[0, :, None]
    ),
    "repeat": lambda x: x.repeat(1, 2, 1, 3),
    "repeat_more": lambda x: x[:, 0].repeat(2, 1, 1, 1),
    "repeat_interleave": lambda x: (
        x.repeat_interleave(3, 1),
        x.repeat_interleave(2, -1),
        x.repeat_interleave(2),
        x.repeat_interleave(1, 2),
    ),
    "diff": lambda x: (
        x.diff(),
        x.diff(n=2, dim=1),
        x.diff(dim=2, prepend=x[:, :, :1], append=x),
        (x > 0).diff(),
    ),
    "fill": lambda x: x.clone().fill_(2.5) + torch.fill(x, x.sum()),
    "slice": lambda x: (x[:, 1:3, ::2, -2:], x[:, -1], x[:, 1:-1]),
    "select": lambda x: x[:, 2] + x.select(1, -1),
    "narrow": lambda x: x.narrow(2, 1, 3),
    "cat": lambda x: torch.cat([x, x * 2, x[:, :1]], 1),
    "cat_types": lambda x: torch.cat([x, (x > 0).int()], 2),
    "cat_batch": lambda x: torch.cat([x, x], 0),
    "stack": lambda x: torch.stack([x, -x], 2),
    "split": lambda x: (*x.split(3, 1), *x.split([1, 3], 1), *x.chunk(2, -1)),
    "unbind": lambda x: x.unbind(1),
    "pad": lambda x: functional.pad(x, (1, 2, 0, 1), value=0.5),
    "pad_negative": lambda x: functional.pad(x, (-1, 2, 1, -2)),
    "reflect": lambda x: functional.pad(x, (2, 1, 1, 3), mode="reflect"),
    "replicate": lambda x: functional.pad(x, (2, 1, 1, 3), mode="replicate"),
    "circular": lambda x: functional.pad(x, (2, 1, 1, 3), mode="circular"),
    "cut_and_repeated": lambda x: [
        functional.pad(x, pads, mode=mode)
        for mode in ("reflect", "replicate", "circular")
        for pads in ((-1, 2, 1, -2), (2, -1, -1, -1))
    ],
    "flip": lambda x: x.flip(1, 3),
    "roll": lambda x: x.roll((1, -2), (1, 2)),
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 0, 0])),
    "index": lambda x: (x[:, torch.tensor([1, -1])], x[:, :, torch.tensor([0, 2])]),
    "index_by_matrix": lambda x: (
        x[:, torch.tensor([[1, -1, 0], [2, 2, 1]])],
        x[:, :, torch.tensor([[0], [2]])],
    ),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x, 2),
    "nearest": lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
    "zeros": lambda x: torch.zeros(x.shape[0], 3) + torch.ones_like(x)[:, 0, 0, :3],
    "zeros_alone": lambda x: torch.full((x.shape[0], 2), 1.5),
    "arange": lambda x: x + torch.arange(6),
    "tril": lambda x: x + torch.tril(torch.ones(6, 6)),
    "new_zeros": lambda x: torch.cat([x.new_zeros(x.shape[0], 1, 6, 6), x], 1),
    "kept_state": lambda x: x.clone().contiguous().detach(),
}


def test_shapes(check: Any) -> None:
    check.all_same(SHAPES, (torch.randn(2, 4, 6, 6),), (torch.randn(5, 4, 6, 6),))


def test_linear_layers_with_one_output_without_an_axis(check: Any) -> None:
    weight, bias = torch.randn(6), torch.tensor(2.0)
    functions = {
        "known": lambda x: functional.linear(x, weight, bias),
        "computed": lambda x: functional.linear(x, x[0, 0]),
    }
    check.all_same(functions, (torch.randn(2, 4, 6),), (torch.randn(3, 4, 6),))


def written(x: Tensor) -> Tensor:
    """Slices that are changed in place."""
    y = x.clone()
    y[:, 1:3] = y[:, 0:2] * 2
    y[..., ::2] = x[..., 1::2]
    y[:, 0] += 1
    y[:, -1, 2] = 7
    y[y > 1.5] = 0
    y[:, torch.tensor([2, 0]), torch.tensor([1, -1])] = x[:, 0, :2]
    y[:, torch.tensor([[1]]), :, torch.tensor([0, 2])] = 4
    return y


def summed(x: Tensor) -> Tensor:
    """Rows that are added to others, some twice."""
    return torch.index_add(x, 1, torch.tensor([2, 2, 0]), torch.ones(x.shape[0], 3, 6, 6))


INDEXING: dict[str, Callable[[Tensor], Any]] = {
    "written": written,
    "arange": lambda x: x + torch.arange(1, 2 * x.shape[0] + 1, 2)[:, None, None, None],
    "pairs": lambda x: x[:, torch.tensor([0, -2]), torch.tensor([1, 3])],
    "apart": lambda x: x[:, torch.tensor([[0], [2]]), :, torch.tensor([1, -3])],
    "computed": lambda x: x[:, x[0, 0, 0].argsort()[:3] - 3, x[0, 0, 1].argsort()[:3] - 6],
    "summed": summed,
    "unfold": lambda x: (x.unfold(2, 3, 2), functional.unfold(x, 3, dilation=2, padding=1)),
    "fold windows that overlap": lambda x: functional.fold(
        functional.unfold(x, (3, 2), 2, (1, 0), (2, 1)), (6, 6), (3, 2), 2, (1, 0), (2, 1)
    ),
    "fold": lambda x: functional.fold(x.reshape(-1, 16, 9), (6, 6), 2, stride=2),
    "diagonal": lambda x: (x.diagonal(1, 2, 3), x.diagonal(-2, 1, 3), torch.diag_embed(x)),
    "kth": lambda x: (*x.kthvalue(2, 1), *x.kthvalue(3, -1, keepdim=True)),
}  # fmt: skip


def test_indexing(check: Any) -> None:
    check.all_same(INDEXING, (torch.randn(2, 4, 6, 6),), (torch.randn(5, 4, 6, 6),))


def resized(*sizes: int, **options: Any) -> Callable[[Tensor], Tensor]:
    """New sizes, or scales."""
    if sizes:
        return lambda x: functional.interpolate(x, sizes, **options)
    return lambda x: functional.interpolate(x, **options)


RESIZES: dict[str, Callable[[Tensor], Tensor]] = {
    f"{mode}_{index}": resized(*sizes, mode=mode, **options)
    for mode, index, sizes, options in [
        ("nearest", 0, (13, 5), {}), ("nearest", 1, (), {"scale_factor": 1.37}),
        ("nearest-exact", 0, (13, 5), {}), ("nearest-exact", 1, (4, 11), {}),
        ("bilinear", 0, (13, 5), {}), ("bilinear", 1, (), {"scale_factor": 1.55}),
        ("bilinear", 2, (1, 9), {"align_corners": True}),
        ("bilinear", 3, (4, 3), {"antialias": True}),
        ("bicubic", 0, (13, 5), {}), ("bicubic", 1, (), {"scale_factor": (0.7, 1.3)}),
        ("bicubic", 2, (13, 5), {"align_corners": True}),
        ("bicubic", 3, (4, 3), {"antialias": True}),
        ("area", 0, (3, 4), {}),
    ]
}  # fmt: skip


def test_resizes(check: Any) -> None:
    check.all_same(RESIZES, (torch.randn(2, 3, 8, 7),), (torch.randn(5, 3, 8, 7),))


def test_whole_multiples_are_repeated_without_a_gather() -> None:
    made = from_torch(nn.Upsample(scale_factor=(2, 3)), torch.randn(2, 3, 4, 5))
    assert "tensor.expand" in str(made) and "gather" not in str(made)


def grid(x: Tensor) -> Tensor:
    """Places of which some lie outside."""
    return (x[:, :2] * 0.8).permute(0, 2, 3, 1)[:, :5]


GRIDS: dict[str, Callable[[Tensor], Tensor]] = {
    f"{mode}_{padding}_{corners}": lambda x, mode=mode, padding=padding, corners=corners: (
        functional.grid_sample(x, grid(x), mode, padding, align_corners=corners)
    )
    for mode, padding, corners in [
        ("bilinear", "zeros", False),
        ("bilinear", "reflection", True),
        ("nearest", "border", False),
        ("nearest", "zeros", True),
        ("bicubic", "zeros", True),
        ("bicubic", "reflection", False),
        ("bicubic", "border", False),
    ]
}


def test_images_read_at_computed_places(check: Any) -> None:
    check.all_same(GRIDS, (torch.randn(2, 3, 8, 7),), (torch.randn(3, 3, 8, 7),))


def test_volumes_read_at_computed_places(check: Any) -> None:
    kinds = (("bilinear", "zeros"), ("bilinear", "reflection"), ("nearest", "border"))
    volumes: dict[str, Callable[[Tensor], Tensor]] = {
        f"{mode} {padding}": lambda x, mode=mode, padding=padding: functional.grid_sample(
            x, x[:, :3, :2, :3].permute(0, 2, 3, 4, 1) * 0.8, mode, padding, align_corners=False
        )
        for mode, padding in kinds
    }
    check.all_same(volumes, (torch.randn(2, 3, 4, 5, 6),), (torch.randn(3, 3, 4, 5, 6),))


DEEP: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Conv3d(3, 4, 3, 2, 1), (3, 5, 6, 7)), (nn.Conv3d(4, 4, (1, 2, 3), groups=2), (4, 5, 6, 7)),
    (nn.ConvTranspose3d(3, 4, 3, 2, 1, 1), (3, 3, 3, 4)), (nn.MaxPool3d(2), (3, 5, 6, 7)),
    (nn.MaxPool3d(3, 2, 1, ceil_mode=True), (3, 5, 6, 7)), (nn.AvgPool3d(2), (3, 5, 6, 7)),
    (nn.AvgPool3d(3, 2, 1, count_include_pad=False), (3, 5, 6, 7)),
    (nn.AvgPool3d(3, 2, 1, divisor_override=4), (3, 5, 6, 7)),
    (nn.AdaptiveAvgPool3d(1), (3, 5, 6, 7)), (nn.AdaptiveAvgPool3d((2, 3, 1)), (3, 5, 6, 7)),
    (nn.MaxPool2d(2, dilation=2), (3, 8, 7)),
    (nn.Upsample(scale_factor=2, mode="trilinear"), (3, 2, 3, 4)),
    (nn.Upsample(scale_factor=2), (3, 2, 3, 4)), (nn.Upsample(size=9, mode="linear"), (3, 5)),
    (nn.LocalResponseNorm(2), (3, 5, 6)),
]  # fmt: skip


def test_three_spatial_axes(check: Any) -> None:
    module = Each([randomized(layer) for layer, _ in DEEP])
    check.same(module, *[[torch.randn(n, *shape) for _, shape in DEEP] for n in (2, 3)])


RECURRENT: list[nn.Module] = [
    nn.LSTM(5, 4, batch_first=True), nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True),
    nn.GRU(5, 4, batch_first=True),
    nn.GRU(5, 4, 2, bias=False, batch_first=True, bidirectional=True),
    nn.RNN(5, 4, batch_first=True), nn.RNN(5, 4, nonlinearity="relu", batch_first=True),
    nn.LSTM(5, 4, proj_size=2, bias=False, batch_first=True),
]  # fmt: skip

CELLS: list[nn.Module] = [nn.LSTMCell(5, 4), nn.GRUCell(5, 4), nn.RNNCell(5, 4)]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_recurrent_layers(check: Any) -> None:
    module = Each([*RECURRENT, *CELLS])
    shapes = [(3, 5)] * len(RECURRENT) + [(5,)] * len(CELLS)
    check.same(module, *[[torch.randn(n, *shape) for shape in shapes] for n in (2, 3)])


def test_weights_of_both_directions_are_called_as_in_pytorch() -> None:
    made = str(from_torch(nn.LSTM(48, 8, bidirectional=True), torch.zeros(2, 1, 48), dynamic={}))
    assert '"weight_ih_l0"' in made
    assert '"weight_ih_l0_reverse"' in made


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_different_lengths(check: Any, mode: str) -> None:
    """Offsets are an input; rows may pad, bags be empty, and the last offset be the end."""

    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = nn.EmbeddingBag(9, 4, mode=mode, padding_idx=2)
            self.ended = nn.EmbeddingBag(9, 4, mode=mode, include_last_offset=True)

        def forward(self, indices: Tensor, offsets: Tensor, ends: Tensor) -> Any:
            table = torch.stack([indices, indices.flip(0)])
            return self.plain(indices, offsets), self.ended(indices, ends), self.plain(table)

    indices = torch.tensor([1, 2, 2, 8, 2, 5, 7, 0])
    offsets, ends = torch.tensor([0, 1, 3, 3]), torch.tensor([0, 6, 6, 8])
    batch = (indices, offsets, ends)
    module, more = Bags(), (indices, torch.tensor([0, 0, 7, 8]), torch.tensor([0, 1, 2, 8]))
    made = check.same(module, batch, more, dynamic={})
    check.same_in_onnx(module, made, more)


def test_bags(check: Any) -> None:
    module = Each([nn.EmbeddingBag(9, 4, mode=mode) for mode in ("sum", "mean", "max")])
    check.same(module, *[[torch.randint(9, (n, 5))] * 3 for n in (2, 3)])


REDUCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((1, 2), keepdim=True), (x > 0).sum(1)),
    "mean": lambda x: (x.mean(), x.mean(-1), x.mean((0, 2))),
    "extremes": lambda x: (x.amax(1), x.amin((1, 2)), x.max(), x.min()),
    "max_pair": lambda x: (*x.max(1), *x.min(2, keepdim=True)),
    "argmax": lambda x: (x.argmax(1), x.argmin(-1, keepdim=True), x.argmax()),
    "var": lambda x: (x.var(1), x.var(2, unbiased=False), x.std((1, 2), keepdim=True)),
    "var_mean": lambda x: torch.var_mean(x, 1),
    "norm": lambda x: (x.norm(dim=1), torch.linalg.vector_norm(x, 1, dim=2), x.norm(dim=(1, 2))),
    "normalize": lambda x: functional.normalize(x, dim=1),
    "logsumexp": lambda x: x.logsumexp(1),
    "truth": lambda x: ((x > 1).any(1), (x > -1).all(2, keepdim=True), (x > 0).any()),
    "cumsum": lambda x: x.cumsum(1),
    "cosine": lambda x: functional.cosine_similarity(x, x + 1, dim=1),
}


def test_reductions(check: Any) -> None:
    check.all_same(REDUCTIONS, (torch.randn(2, 6, 5),), (torch.randn(5, 6, 5),))


def randomized(module: nn.Module) -> nn.Module:
    """Parameters and statistics that are no ones and zeros."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.2, 1.2)
    return module.eval()


NORMS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.BatchNorm1d(6), (6,)), (nn.BatchNorm1d(6), (6, 5)), (nn.BatchNorm2d(6), (6, 5, 4)),
    (nn.BatchNorm2d(6, affine=False), (6, 5, 4)), (nn.LayerNorm(5), (6, 5)),
    (nn.LayerNorm([6, 5], bias=False), (6, 5)),
    (nn.LayerNorm(5, elementwise_affine=False), (6, 5)), (nn.GroupNorm(3, 6), (6, 5, 4)),
    (nn.GroupNorm(2, 6, affine=False), (6, 5)), (nn.RMSNorm(5), (6, 5)),
    (nn.RMSNorm([6, 5], eps=1e-3), (6, 5)), (nn.InstanceNorm1d(6), (6, 5)),
    (nn.InstanceNorm2d(6, affine=True), (6, 5, 4)),
    (nn.InstanceNorm2d(6, track_running_stats=True), (6, 5, 4)),
]  # fmt: skip


def test_normalisations(check: Any) -> None:
    module = Each([randomized(norm) for norm, _ in NORMS])
    check.same(module, *[[torch.randn(n, *shape) for _, shape in NORMS] for n in (2, 3)])


def test_statistics_of_a_batch_are_not_used(check: Any) -> None:
    """A module in training mode is imported as in evaluation, and stays in training mode."""
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Dropout(0.5))
    module[0].eval()
    check.same(module, (torch.randn(2, 2, 5, 5),))
    assert [part.training for part in module] == [False, True, True]


def windows(kind: Any, **fixed: Any) -> list[nn.Module]:
    """Pooling with strides, pads, and sizes rounded up."""
    return [
        kind(2, **fixed), kind(3, 2, **fixed), kind(3, 2, 1, **fixed), kind(2, 1, 1, **fixed),
        kind(3, 2, 1, ceil_mode=True, **fixed), kind(2, 3, ceil_mode=True, **fixed),
        kind(3, 3, 1, ceil_mode=True, **fixed), kind(4, 4, 2, ceil_mode=True, **fixed),
    ]  # fmt: skip


POOLS: list[nn.Module] = [
    *windows(nn.MaxPool2d), *windows(nn.AvgPool2d), *windows(nn.AvgPool2d, count_include_pad=False),
    nn.MaxPool2d((3, 2), (2, 1), (1, 0)), nn.AvgPool2d(3, 2, 1, divisor_override=4),
    nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d((None, 2)), nn.AdaptiveAvgPool2d((5, 3)),
    nn.AdaptiveMaxPool2d(1), nn.AdaptiveMaxPool2d((5, 3)),
]  # fmt: skip

POOLS_1D: list[nn.Module] = [
    *windows(nn.MaxPool1d),
    *windows(nn.AvgPool1d),
    nn.AdaptiveAvgPool1d(3),
    nn.AdaptiveMaxPool1d(4),
]


def test_pooling(check: Any) -> None:
    module = Each([*POOLS, *POOLS_1D])
    shapes = [(3, 10, 7)] * len(POOLS) + [(3, 10)] * len(POOLS_1D)
    check.same(module, *[[torch.randn(n, *shape) for shape in shapes] for n in (2, 3)])


CONVOLUTIONS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Conv1d(4, 6, 3, 2, 1), (4, 9)), (nn.Conv1d(4, 8, 3, groups=4, bias=False), (4, 9)),
    (nn.Conv1d(4, 6, 4, padding="same", dilation=2), (4, 9)), (nn.Conv2d(4, 6, 3), (4, 9, 8)),
    (nn.Conv2d(4, 6, (3, 5), (2, 1), (1, 2), bias=False), (4, 9, 8)),
    (nn.Conv2d(4, 8, 3, 1, 2, 2, 4), (4, 9, 8)), (nn.Conv2d(4, 6, 3, groups=2), (4, 9, 8)),
    (nn.Conv2d(4, 6, 4, padding="same"), (4, 9, 8)),
    (nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), (4, 9, 8)),
    (nn.Conv2d(4, 6, 3, padding=2, padding_mode="circular"), (4, 9, 8)),
    (nn.ConvTranspose1d(4, 6, 3, 2), (4, 5)), (nn.ConvTranspose2d(4, 6, 3), (4, 5, 6)),
    (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (4, 5, 6)),
    (nn.ConvTranspose2d(4, 6, 2, (3, 2), 1, bias=False), (4, 5, 6)),
    (nn.ConvTranspose2d(4, 6, 3, 2, 3, groups=2, dilation=2), (4, 5, 6)),
]  # fmt: skip

PRODUCTS: list[tuple[Any, list[tuple[int, ...]]]] = [
    (nn.Linear(5, 3), [(5,)]), (nn.Linear(5, 3, bias=False), [(4, 5)]),
    (nn.Bilinear(5, 4, 3), [(5,), (4,)]),
    (nn.MultiheadAttention(6, 2, batch_first=True), [(5, 6)] * 3),
    (nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), [(5, 6)]),
    (nn.TransformerDecoderLayer(6, 2, 8, batch_first=True, norm_first=True), [(5, 6), (4, 6)]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_convolutions(check: Any) -> None:
    module = Each([conv for conv, _ in CONVOLUTIONS])
    shapes = [shape for _, shape in CONVOLUTIONS]
    check.same(module, *[[torch.randn(n, *shape) for shape in shapes] for n in (2, 3)])


class Products(nn.Module):
    """Each layer on its own inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([layer for layer, _ in PRODUCTS])
        self.matrix = nn.Parameter(torch.randn(5, 3))

    def forward(self, *inputs: Tensor) -> list[Any]:
        rest = list(inputs)
        results: list[Any] = []
        for part, (_, shapes) in zip(self.parts, PRODUCTS, strict=True):
            results.append(part(*[rest.pop(0) for _ in shapes]))
        q = rest.pop(0)
        mask = torch.ones(4, 4, dtype=torch.bool).tril()
        attention = functional.scaled_dot_product_attention
        return [
            *results, q @ self.matrix, torch.einsum("bij,jk->bki", q, self.matrix), q @ q.mT,
            torch.baddbmm(q[:, :, :4], q, q.mT, beta=0.5, alpha=-2),
            torch.baddbmm(q[:, :, :4] / 0, q, q.mT, beta=0, alpha=3),
            torch.bmm(q, q.transpose(1, 2)), torch.addmm(self.matrix[0], q[:, 0], self.matrix),
            attention(q, q, q, mask), attention(q, q, q, is_causal=True, scale=0.3),
            attention(q, q, q, torch.zeros(4, 4)), q.matmul(self.matrix[:, 0]),
        ]  # fmt: skip


def test_products(check: Any) -> None:
    shapes = [*[shape for _, shapes in PRODUCTS for shape in shapes], (4, 5)]
    check.same(Products(), *[[torch.randn(n, *shape) for shape in shapes] for n in (2, 3)])
