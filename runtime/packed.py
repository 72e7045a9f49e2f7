"""Layers that hold packed trits alone, and whole models in that form: for use, not for training.

Keys and layouts are those of the standard layers of the `.tri` language, so that the state of a
packed model is a weights file for a program of the same structure (`tri_state_dict`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..ir.errors import ParameterError
from ..ir.trits import packed_size
from .native.held import promise_constant
from .operators import ternary_conv2d, ternary_linear
from .packing import check_packed, unpack_unchecked
from .ternary_tensor import TernaryTensor


class PackedLayer(nn.Module):
    """Buffers `weight` (packed bytes), `scale` and `bias`; state that is no trits is refused.

    `TERNARY_SHAPES` gives the logical shape of `weight`, as in generated modules.
    """

    weight: Tensor
    scale: Tensor | None

    def __init__(self, shape: tuple[int, ...], channels: int, bias: bool, scale: bool) -> None:
        super().__init__()
        self.TERNARY_SHAPES: Mapping[str, tuple[int, ...]] = {"weight": shape}
        self.register_buffer("weight", torch.zeros(packed_size(shape), dtype=torch.uint8))
        self.register_buffer("scale", torch.ones(channels) if scale else None)
        self.bias: nn.Parameter | None
        self.register_parameter(
            "bias", nn.Parameter(torch.zeros(channels), requires_grad=False) if bias else None
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape of the weight."""
        return self.TERNARY_SHAPES["weight"]

    def fill(self, weight: Tensor, scale: Tensor | None, bias: Tensor | None) -> Self:
        """Take these values, bytes and floats, as they are; the layer itself."""
        self.weight = weight
        self.scale = None if scale is None else scale.detach()
        self.bias = (
            None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)
        )
        return self

    def to_ternary_tensor(self) -> TernaryTensor:
        """The trits of the weight, without scale."""
        return TernaryTensor.from_packed(self.weight, self.shape)

    def get_ternary_weights(self) -> Tensor:
        """The trits as float32, in the logical shape."""
        return unpack_unchecked(self.weight, self.shape, torch.float32)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **named: Any
    ) -> None:
        value = state_dict.get(f"{prefix}weight")
        if value is not None:
            try:
                check_packed(value, self.shape)
            except ParameterError as error:
                # The last argument of this hook of PyTorch is the list of error messages.
                rest[-1].append(f"{prefix}weight: {error}")
                state_dict = {**state_dict, f"{prefix}weight": self.weight}
        super()._load_from_state_dict(state_dict, prefix, *rest, **named)


class PackedTernaryLinear(PackedLayer):
    """y = (x · W) · scale + bias for x `[..., in_features]`, W `[in_features, out_features]`."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, scale: bool = True
    ) -> None:
        super().__init__((in_features, out_features), out_features, bias, scale)
        self.in_features, self.out_features = in_features, out_features

    def forward(self, x: Tensor) -> Tensor:
        """x `[..., in_features]` to `[..., out_features]`."""
        # From the tables: `nn.Module` looks attributes up there too, but takes longer.
        buffers = self._buffers
        weight, scale, bias = buffers["weight"], buffers["scale"], self._parameters["bias"]
        assert weight is not None
        return ternary_linear(x, weight, self.out_features, scale, bias)

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class PackedTernaryConv2d(PackedLayer):
    """y = conv(x, W) · scale + bias for x `[N, C, H, W]`, W `[out, in / groups, height, width]`."""

    def __init__(
        self,
        shape: tuple[int, ...],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        scale: bool = True,
    ) -> None:
        super().__init__(shape, shape[0], bias, scale)
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """x `[N, in_channels, H, W]` to `[N, out_channels, H', W']`."""
        return ternary_conv2d(
            x,
            self.weight,
            self.shape,
            self.scale,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return (
            f"{self.shape}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, groups={self.groups}, bias={self.bias is not None}"
        )


def named_layers(
    model: nn.Module, *, remove_duplicate: bool = True
) -> Iterator[tuple[str, nn.Module]]:
    """`model.named_modules`, with the types that it declares."""
    dynamic: Any = model
    return dynamic.named_modules(remove_duplicate=remove_duplicate)


def pack_model(model: nn.Module) -> nn.Module:
    """A copy of `model` in evaluation mode whose ternary layers hold packed trits alone.

    It computes what `model` computes in evaluation, takes a sixteenth of the memory for ternary
    weights, and goes through `torch.compile` and `torch.export`. `model` stays as it is.
    """
    packed = copy.deepcopy(model)
    replacements: dict[int, nn.Module] = {}
    # A list: layers are replaced on the way.
    for name, layer in list(named_layers(packed, remove_duplicate=False)):
        to_packed: Any = getattr(layer, "to_packed", None)
        if to_packed is None:
            continue
        # A layer used at two places stays one layer.
        replacement = replacements.setdefault(id(layer), to_packed())
        if not name:
            return replacement.eval()
        parent, _, own = name.rpartition(".")
        setattr(packed.get_submodule(parent), own, replacement)
    return packed.eval()


def freeze(model: nn.Module) -> nn.Module:
    """Promise that the packed weights of a model change no more, and save reading them for that.

    Kernels compare the bytes of a weight in each call with those that they have in a layout of
    their own. With this promise they compare PyTorch's count of changes and the address alone:
    operations in place and `load_state_dict` are noticed still, writes through `weight.data` and
    through arrays that share the memory are not.

    Args:
        model: with packed layers, or a generated module; nothing else of it is touched.

    Returns:
        `model` itself.
    """
    for layer in model.modules():
        names: Mapping[str, tuple[int, ...]] = getattr(layer, "TERNARY_SHAPES", {})
        for name, buffer in layer.named_buffers(recurse=False):
            if name in names:
                promise_constant(buffer)
    return model


def tri_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Weights of `model` for the `.tri` program of the same structure, trits packed.

    The state of `pack_model(model)`, with `nn.Linear` weights turned to `[in, out]`, as the
    language's `Linear` has them. Give it to `compile_model(…, weights=…)`.
    """
    packed = pack_model(model)
    state: dict[str, Tensor] = dict(packed.state_dict())
    for name, layer in named_layers(packed):
        if isinstance(layer, nn.Linear):
            key = f"{name}.weight" if name else "weight"
            state[key] = state[key].T.contiguous()
    return {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
