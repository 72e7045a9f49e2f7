"""Ternary layers of PyTorch: float latents for training, packed trits for use.

`TernaryLinear` and `TernaryConv2d` keep their weights as floats and ternarize them in each forward
pass; the gradient goes straight through to the latents (Bengio et al. 2013; Courbariaux et al.
2015). Their state dictionaries are those of `nn.Linear` and `nn.Conv2d`. `runtime.packed` has the
layers that hold only packed trits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..ir.errors import OptionError, refuse
from .native.held import digest_of
from .packed import PackedTernaryConv2d, PackedTernaryLinear
from .packing import pack_unchecked
from .quantization import check_rule, ternarize, ternarize_largest, ternary_scale
from .ternary_tensor import TernaryTensor

SCALES = ("none", "tensor", "channel")
Pair = int | tuple[int, int]


class TernaryLayer(nn.Module):
    """What both layers share: latents, the rule that makes trits of them, and the scale.

    The scale is taken from the latents: the mean magnitude of those that are kept, one for the
    layer (`tensor`) or one an output channel (`channel`, with thresholds for each channel too).
    The product sees scale · trits; the gradient of that is the latents' gradient.

    With `fan_in` an output channel keeps exactly that many weights, its largest: hardware then
    knows how many inputs each sum has.

    In evaluation without gradients, trits are computed once and kept packed. Any change of the
    latents through PyTorch is noticed, but writing through `weight.data` is not: call `train()`
    and `eval()` after it.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        bias: bool,
        rule: str | None,
        threshold: float | None,
        scale: str,
        fan_in: int | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        refuse(scale not in SCALES, f"unknown scale '{scale}'; expected one of {', '.join(SCALES)}")
        self.rule = check_rule(rule, threshold)
        inputs = math.prod(shape[1:])
        if fan_in is not None and (rule is not None or threshold is not None):
            raise OptionError("fan_in says which weights are kept; leave out rule and threshold")
        if fan_in is not None and not 1 <= fan_in <= inputs:
            raise OptionError(f"fan_in: expected a number from 1 to {inputs}, got {fan_in}")
        self.threshold = threshold
        self.fan_in = fan_in
        self.scale_kind = scale
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.bias: nn.Parameter | None
        if bias:
            self.bias = nn.Parameter(torch.empty(shape[0], device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self._cache: tuple[Tensor, Hashable, nn.Module] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the latents and the bias as `nn.Linear` and `nn.Conv2d` do."""
        bound = 1 / math.sqrt(max(self.weight[0].numel() if len(self.weight) else 0, 1))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def get_ternary_weights(self) -> Tensor:
        """The trits of the weights, in their shape and float type, without gradient."""
        return self._quantize()[0]

    def get_scale(self) -> Tensor | None:
        """The scale of the trits: a scalar, `[out]`, or `None`, without gradient."""
        return self._quantize()[1]

    def _quantize(self) -> tuple[Tensor, Tensor | None]:
        axis = 0 if self.scale_kind == "channel" else None
        latent = self.weight.detach()
        if self.fan_in is None:
            trits = ternarize(latent, self.threshold, rule=self.rule, axis=axis)
        else:
            trits = ternarize_largest(latent, self.fan_in)
        scale = None if self.scale_kind == "none" else ternary_scale(latent, trits, axis)
        return trits, scale

    def to_ternary_tensor(self) -> TernaryTensor:
        """The trits of the weights, packed, without scale."""
        return TernaryTensor(self.get_ternary_weights().to(torch.int8))

    def effective_weight(self) -> Tensor:
        """scale · trits, with the gradient of the latents."""
        values, scale = self._quantize()
        if scale is not None:
            values = values * scale.reshape(-1, *[1] * (values.dim() - 1))
        return values + (self.weight - self.weight.detach())

    def to_packed(self) -> nn.Module:
        """The same layer with packed trits and without latents, for use only."""
        raise NotImplementedError

    def train(self, mode: bool = True) -> Any:
        """See `nn.Module.train`; forgets the packed trits."""
        self._cache = None
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None}

    def _packed(self) -> nn.Module | None:
        """The packed layer, where it gives what the latents would give; else `None`."""
        weight: Any = self.weight
        jit: Any = torch.jit
        if (
            self.training
            or torch.is_grad_enabled()
            or torch.compiler.is_compiling()
            or jit.is_tracing()
            or type(weight) is not nn.Parameter
            or "bias" in getattr(self, "parametrizations", ())
            or weight.is_inference()
        ):
            return None
        # Elsewhere reading all of it would hold the processor up until the device is done.
        state = digest_of(weight) if weight.is_cpu else (weight._version, weight.data_ptr())
        if self._cache is None or self._cache[0] is not weight or self._cache[1] != state:
            self._cache = (weight, state, self.to_packed())
        packed = self._cache[2]
        packed.register_parameter("bias", self.bias)
        return packed

    def _scale_vector(self) -> Tensor | None:
        scale = self.get_scale()
        return None if scale is None else scale.expand(self.weight.shape[0]).clone()

    def _settings(self) -> str:
        rule = self.rule if self.threshold is None else f"fixed, threshold={self.threshold:g}"
        if self.fan_in is not None:
            return f"bias={self.bias is not None}, fan_in={self.fan_in}, scale={self.scale_kind}"
        return f"bias={self.bias is not None}, rule={rule}, scale={self.scale_kind}"


class TernaryLinear(TernaryLayer):
    """y = x · (scale · trits(weight))ᵀ + bias, for x `[..., in_features]`.

    Args:
        in_features: size of the last axis of the input.
        out_features: size of the last axis of the output.
        bias: add a bias, kept in float.
        rule: see `runtime.quantization.ternarize`.
        threshold: of the rule `fixed`, which it selects.
        scale: `none`, `tensor` or `channel`.
        fan_in: keep so many weights of each output, instead of those that a rule chooses; see
            `runtime.quantization.ternarize_largest`.
        device: where the parameters are made.
        dtype: their type.

    Raises:
        OptionError: a wrong rule, threshold, scale or fan-in.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rule: str | None = None,
        threshold: float | None = None,
        scale: str = "channel",
        fan_in: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = (out_features, in_features)
        super().__init__(shape, bias, rule, threshold, scale, fan_in, device, dtype)
        self.in_features, self.out_features = in_features, out_features

    def forward(self, x: Tensor) -> Tensor:
        """x `[..., in_features]` to `[..., out_features]`."""
        packed = self._packed()
        if packed is not None:
            return packed(x)
        return functional.linear(x, self.effective_weight(), self.bias)

    def to_packed(self) -> PackedTernaryLinear:
        """The same layer with packed trits, for use only."""
        packed = PackedTernaryLinear(
            self.in_features,
            self.out_features,
            bias=self.bias is not None,
            scale=self.scale_kind != "none",
        )
        bytes = pack_unchecked(self.get_ternary_weights().T)
        return packed.fill(bytes, self._scale_vector(), self.bias)

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return f"{self.in_features}, {self.out_features}, {self._settings()}"


class TernaryConv2d(TernaryLayer):
    """`nn.Conv2d` with weights scale · trits(weight), for x `[N, C, H, W]`; pads are zeros.

    Args:
        in_channels: C of the input.
        out_channels: C of the output.
        kernel_size: height and width of the kernel.
        stride: step of the kernel.
        padding: zeros around the image.
        dilation: step inside the kernel.
        groups: groups of channels.
        bias: add a bias, kept in float.
        rule: see `runtime.quantization.ternarize`.
        threshold: of the rule `fixed`, which it selects.
        scale: `none`, `tensor` or `channel`.
        fan_in: keep so many weights of each output, instead of those that a rule chooses; see
            `runtime.quantization.ternarize_largest`.
        device: where the parameters are made.
        dtype: their type.

    Raises:
        OptionError: a wrong rule, threshold, scale or fan-in, or groups that do not divide the
            channels.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        rule: str | None = None,
        threshold: float | None = None,
        scale: str = "channel",
        fan_in: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise OptionError(
                f"{groups} groups do not divide {in_channels} input and {out_channels} "
                "output channels"
            )
        kernel = _pair(kernel_size)
        shape = (out_channels, in_channels // groups, *kernel)
        super().__init__(shape, bias, rule, threshold, scale, fan_in, device, dtype)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel
        self.stride, self.padding, self.dilation = _pair(stride), _pair(padding), _pair(dilation)
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """x `[N, in_channels, H, W]` to `[N, out_channels, H', W']`."""
        packed = self._packed()
        if packed is not None:
            return packed(x)
        weight = self.effective_weight()
        return functional.conv2d(
            x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def to_packed(self) -> PackedTernaryConv2d:
        """The same layer with packed trits, for use only."""
        packed = PackedTernaryConv2d(
            tuple(self.weight.shape),
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            bias=self.bias is not None,
            scale=self.scale_kind != "none",
        )
        bytes = pack_unchecked(self.get_ternary_weights())
        return packed.fill(bytes, self._scale_vector(), self.bias)

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"groups={self.groups}, {self._settings()}"
        )


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value
