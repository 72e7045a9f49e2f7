"""The functions that generated modules call, as they are copied into generated files.

This file is read as text: a generated module carries those functions it uses and imports torch by
itself. Nothing calls them here. Trits are packed as in `ir.trits`.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F

    ternary_linear: Callable[..., torch.Tensor] | None = None
    """The product of Triton DSL, which generated files import where it is installed."""
    ternary_conv2d: Callable[..., torch.Tensor] | None = None
    """The convolution, in the same way."""


def unpack_ternary(
    packed: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The trits in packed bytes, 2 bits each: 00 = 0, 01 = +1, 10 = -1; float32 by default."""
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=packed.device)
    codes = (packed.unsqueeze(1) >> shifts) & 3
    trits = (codes & 1).to(torch.int8) - (codes >> 1).to(torch.int8)
    return trits.flatten()[: math.prod(shape)].reshape(shape).to(dtype or torch.float32)


UNPACKED: dict[int, tuple[Any, ...]] = {}


def unpack_once(
    packed: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype | None = None
) -> torch.Tensor:
    """`unpack_ternary`, kept for as long as the packed bytes stay as they are."""
    if torch.compiler.is_compiling() or type(packed) is not torch.Tensor or packed.is_inference():
        return unpack_ternary(packed, shape, dtype)
    key, state = id(packed), (packed._version, packed.data_ptr(), dtype)
    known = UNPACKED.get(key)
    if known is None or known[0]() is not packed or known[1] != state:
        with torch.inference_mode(False):
            trits = unpack_ternary(packed, shape, dtype)
        known = (weakref.ref(packed, lambda _: UNPACKED.pop(key, None)), state, trits)
        UNPACKED[key] = known
    return known[2]


def multiply_ternary(
    x: torch.Tensor,
    packed: torch.Tensor,
    shape: tuple[int, int],
    scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """x · W times scale plus bias, W in packed bytes, by Triton DSL's kernels where it is there."""
    if ternary_linear is not None:
        return ternary_linear(x, packed, shape[1], scale, bias)
    product = torch.matmul(x, unpack_once(packed, shape, dtype=x.dtype))
    product = product if scale is None else product * scale
    return product if bias is None else product + bias


def multiply_ternary_integers(
    x: torch.Tensor, packed: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """x · W for integers as `matmul_integers`, W in packed bytes."""
    if ternary_linear is not None and x.dtype == torch.int8:
        return ternary_linear(x, packed, shape[1])
    dtype = torch.int64 if x.dtype == torch.int64 else torch.float64
    return matmul_integers(x, unpack_once(packed, shape, dtype=dtype))


def convolve_ternary(
    x: torch.Tensor,
    packed: torch.Tensor,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """A convolution with packed trits, times scale plus bias. Low pads first, then high."""
    if ternary_conv2d is not None:
        window = (stride, padding, dilation, groups)
        return convolve_by_kernel(x, packed, shape, *window, scale, bias)
    spatial = len(shape) - 2
    low, high = padding[:spatial], padding[spatial:]
    if low != high:
        x = F.pad(x, [p for a in reversed(range(spatial)) for p in (low[a], high[a])])
        low = (0,) * spatial
    weight = unpack_once(packed, shape, dtype=x.dtype)
    conv = F.conv2d if spatial == 2 else F.conv1d
    product = conv(x, weight, None, stride, low, dilation, groups)
    product = product if scale is None else product * scale.reshape(-1, *[1] * spatial)
    return product if bias is None else product + bias.reshape(-1, *[1] * spatial)


def convolve_ternary_integers(
    x: torch.Tensor,
    packed: torch.Tensor,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> torch.Tensor:
    """A convolution of integers with packed trits: int64 modulo 2^64, the others exact int32.

    Low pads first, then high.
    """
    window = (stride, padding, dilation, groups)
    if ternary_conv2d is not None and x.dtype == torch.int8:
        return convolve_by_kernel(x, packed, shape, *window)
    if x.dtype == torch.int64:
        return convolve_wrapping(x, unpack_once(packed, shape, dtype=torch.int64), *window)
    weight = unpack_once(packed, shape, dtype=torch.float64)
    return convolve_integers(x, weight, *window, torch.int32)


def convolve_by_kernel(
    x: torch.Tensor,
    packed: torch.Tensor,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """A convolution by Triton DSL; a signal is an image of one row."""
    assert ternary_conv2d is not None
    is_signal = len(shape) == 3
    if is_signal:
        x, shape = x.unsqueeze(2), (*shape[:2], 1, shape[2])
        stride, dilation = (1, *stride), (1, *dilation)
        padding = (0, padding[0], 0, padding[1])
    window = {"stride": stride, "padding": padding, "dilation": dilation}
    result = ternary_conv2d(x, packed, shape, scale, bias, groups=groups, **window)
    return result.squeeze(2) if is_signal else result


def pack_ternary(trits: torch.Tensor) -> torch.Tensor:
    """Values in {-1, 0, 1} as packed bytes; the inverse of `unpack_ternary`."""
    flat = trits.flatten().to(torch.int8)
    codes = torch.where(flat < 0, 2, flat).to(torch.uint8)
    codes = F.pad(codes, (0, -flat.numel() % 4)).reshape(-1, 4)
    return codes[:, 0] | (codes[:, 1] << 2) | (codes[:, 2] << 4) | (codes[:, 3] << 6)


def pack_ternary_entries(
    state_dict: dict[str, Any],
    prefix: str,
    shapes: Mapping[str, tuple[int, ...]],
    error_msgs: list[str],
) -> None:
    """Pack the entries that hold plain trits, and check those that are packed already."""
    for name, shape in shapes.items():
        value = state_dict.get(prefix + name)
        if value is None:
            continue
        if value.dtype == torch.uint8 and value.dim() == 1:
            if bool((value & (value >> 1) & 0x55).any()):
                error_msgs.append(f"{prefix}{name}: reserved trit code 0b11, the data is corrupt")
        elif tuple(value.shape) != shape:
            error_msgs.append(
                f"{prefix}{name}: expected packed uint8 or trits of shape {list(shape)}, "
                f"got {value.dtype} of shape {list(value.shape)}"
            )
        elif not bool(((value == 0) | (value.abs() == 1)).all()):
            error_msgs.append(
                f"{prefix}{name}: expected values in {{-1, 0, 1}}; ternarize it first"
            )
        else:
            state_dict[prefix + name] = pack_ternary(value)


def mean_magnitude(latent: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    """The mean of |latent|, or that of each position on `axis`, in float64."""
    magnitude = latent.detach().abs().double()
    rest = [a for a in range(latent.dim()) if axis is None or a != axis % latent.dim()]
    return magnitude.mean(dim=rest, keepdim=True) if rest else magnitude


def ternarize(latent: torch.Tensor, threshold: torch.Tensor | float) -> torch.Tensor:
    """0 where |latent| <= threshold, else the sign; the gradient goes straight through."""
    wide = latent.detach().to(torch.promote_types(latent.dtype, torch.float32))
    limit = torch.as_tensor(threshold, dtype=wide.dtype, device=wide.device)
    trits = torch.where(wide.abs() > limit, wide.sign(), 0.0).to(latent.dtype)
    return trits + (latent - latent.detach()) if latent.requires_grad else trits


def ternarize_absmean(latent: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """clip(round(latent / mean), -1, 1); the gradient goes straight through."""
    wide = latent.detach().to(torch.promote_types(latent.dtype, torch.float32))
    ratio = torch.where(mean > 0, wide / mean.to(wide.dtype), 0.0)
    trits = ratio.round().clamp(-1, 1).to(latent.dtype)
    return trits + (latent - latent.detach()) if latent.requires_grad else trits


def ternary_scale(
    latent: torch.Tensor, trits: torch.Tensor, axis: int | None = None
) -> torch.Tensor:
    """The mean of |latent| where the trit is not 0, or that of each position on `axis`."""
    kept = trits.detach().abs().double()
    rest = [a for a in range(latent.dim()) if axis is None or a != axis % latent.dim()]
    total = latent.abs().double() * kept
    if rest:
        total = total.sum(dim=rest) / kept.sum(dim=rest).clamp(min=1)
    return total.to(latent.dtype)


def matmul_integers(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Integers times trits: int64 modulo 2^64, the others as int32 by float64, exact as it is."""
    if x.dtype == torch.int64:
        return torch.matmul(x, weights.to(torch.int64))
    product = torch.matmul(x.to(torch.int32).double(), weights.double())
    return product.to(torch.int64).to(torch.int32)


def convolve_integers(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """A convolution of integers, exactly: float64 holds every sum. Low pads first, then high."""
    spatial = x.dim() - 2
    pads = [p for a in reversed(range(spatial)) for p in (padding[a], padding[spatial + a])]
    conv = F.conv2d if spatial == 2 else F.conv1d
    image = F.pad(x.double(), pads)
    total = conv(
        image, weight.double(), stride=list(stride), dilation=list(dilation), groups=groups
    )
    return total.to(torch.int64).to(dtype)


def convolve_wrapping(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """A convolution of wide integers that wraps around: one product a kernel position."""
    spatial = x.dim() - 2
    pads = [p for a in reversed(range(spatial)) for p in (padding[a], padding[spatial + a])]
    image: torch.Tensor = F.pad(x, pads)[:, None]
    image = image.reshape(x.shape[0], groups, x.shape[1] // groups, *image.shape[3:])
    kernel = weight.reshape(groups, -1, *weight.shape[1:])
    spans = [dilation[a] * (kernel.shape[3 + a] - 1) for a in range(spatial)]
    total: torch.Tensor | None = None
    for place in itertools.product(*(range(size) for size in kernel.shape[3:])):
        window = image
        for a, offset in enumerate(place):
            start = offset * dilation[a]
            stop = start + image.shape[3 + a] - spans[a]
            window = window[(slice(None),) * (3 + a) + (slice(start, stop, stride[a]),)]
        product = torch.einsum("ngc...,goc->ngo...", window, kernel[(..., *place)])
        total = product if total is None else total + product
    assert total is not None
    return total.flatten(1, 2)


def quantize(
    x: torch.Tensor,
    scale: torch.Tensor | float,
    zero_point: torch.Tensor | int,
    low: int,
    high: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """clamp(round(x / scale) + zero_point, low, high), halves to even."""
    steps = torch.nan_to_num((torch.round(x / scale) + zero_point).double(), nan=0.0)
    return torch.clamp(steps, low, high).to(dtype)


def requantize(
    x: torch.Tensor,
    multiplier: torch.Tensor | int,
    shift: torch.Tensor | int,
    zero_point: torch.Tensor | int,
    low: int,
    high: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """clamp(((x * multiplier + 2**(shift - 1)) >> shift) + zero_point, low, high) in int64."""
    shift = torch.as_tensor(shift, dtype=torch.int64, device=x.device)
    half = torch.ones_like(shift) << (shift - 1)
    rounded = (x.to(torch.int64) * multiplier + half) >> shift
    return torch.clamp(rounded + zero_point, low, high).to(dtype)


def count_thresholds(
    x: torch.Tensor, thresholds: torch.Tensor, axis: int, dtype: torch.dtype
) -> torch.Tensor:
    """The number of thresholds t <= x; one row of `thresholds` a position on `axis`, or one."""
    reached = x.movedim(axis, -1).unsqueeze(-1) >= thresholds
    return reached.sum(dim=-1).to(dtype).movedim(-1, axis)


def convert_to_integer(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Truncate toward zero and saturate; NaN gives 0."""
    limits = torch.iinfo(dtype)
    wide = torch.nan_to_num(x.double(), nan=0.0).trunc()
    inside = (wide >= limits.min) & (wide < float(limits.max) + 1)
    edge = torch.where(wide < 0, limits.min, limits.max)
    return torch.where(inside, torch.where(inside, wide, 0.0).to(torch.int64), edge).to(dtype)


def divide_integers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x / y toward zero; 0 where y is 0, and -x where it is -1: the processor never traps."""
    least = torch.iinfo(y.dtype).min
    minus = (y == -1) if least < 0 else torch.zeros_like(y, dtype=torch.bool)
    quotient = torch.div(x, torch.where((y == 0) | minus, 1, y), rounding_mode="trunc")
    return torch.where(y == 0, 0, torch.where(minus, -x, quotient))


def remainder_of_integers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The remainder with the sign of y; 0 where y is 0."""
    return torch.remainder(x, torch.where(y == 0, 1, y))


def sign_or_nan(x: torch.Tensor) -> torch.Tensor:
    """-1, 0 or 1, and NaN of NaN, for which torch.sign gives 0."""
    return torch.where(x.isnan(), x, torch.sign(x))


def run_adder_graph(
    x: torch.Tensor,
    nodes: Sequence[tuple[int, ...]],
    outputs: Sequence[tuple[int, ...]],
    dtype: torch.dtype,
) -> torch.Tensor:
    """Additions a + sign * (b << shift) over the last axis, then the signed outputs."""
    wide = x if x.is_floating_point() else x.to(torch.int64)
    values = list(wide.unbind(-1))
    for a, b, sign, shift in nodes:
        values.append(values[a] + sign * (values[b] * 2**shift))
    zero = wide.new_zeros(wide.shape[:-1])
    columns = [sign * values[v] if sign else zero for v, sign in outputs]
    return torch.stack(columns, dim=-1).to(dtype) if columns else wide[..., :0].to(dtype)


def parse_numbers(text: str, size: int) -> list[tuple[int, ...]]:
    """Whitespace-separated integers in groups of `size`."""
    numbers = [int(word) for word in text.split()]
    return [tuple(numbers[i : i + size]) for i in range(0, len(numbers), size)]


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Causal scaled dot-product attention with a further mask."""
    scores = torch.matmul(query, key.transpose(-2, -1)) * scale
    length = scores.shape[-2:]
    causal = torch.ones(length, dtype=torch.bool, device=query.device).tril()
    hidden = ~causal
    if mask.dtype == torch.bool:
        hidden = hidden | ~mask
    else:
        scores = scores + mask
    return torch.matmul(torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1), value)


def check_seal(data: bytes) -> None:
    """Refuse a safetensors file that carries another SHA-256 than it has, noughts in its place."""
    frame = b'{"__metadata__":{"triton_dsl.sha256":"'
    at = 8 + len(frame)
    if sum(a == b for a, b in zip(data[8:at], frame, strict=False)) < 0.75 * len(frame):
        return
    digest = hashlib.sha256(data[:at] + b"0" * 64 + data[at + 64 :]).hexdigest()
    if data[8 : at + 65] != frame + digest.encode() + b'"':
        raise ValueError(f"the weights are not what was written: their SHA-256 is {digest}")


def read_safetensors(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, with the safetensors library where there is one."""
    check_seal(data)
    try:
        from safetensors.torch import load as parse
    except ImportError:
        return parse_safetensors(data)
    return parse(data)


def parse_safetensors(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file: a length, a JSON header, then the bytes."""
    names = {"BOOL": "bool", "U8": "uint8", "BF16": "bfloat16"}
    start = 8 + int.from_bytes(data[:8], "little")
    tensors: dict[str, torch.Tensor] = {}
    for key, entry in json.loads(data[8:start]).items():
        if key == "__metadata__":
            continue
        kind = entry["dtype"]
        name = names.get(kind) or f"{'float' if kind[0] == 'F' else 'int'}{kind[1:]}"
        first, end = entry["data_offsets"]
        content = torch.frombuffer(
            bytearray(data[start + first : start + end] or b"\0" * 8), dtype=torch.uint8
        )
        tensors[key] = content[: end - first].view(getattr(torch, name)).reshape(entry["shape"])
    return tensors


def decode_weights(text: str) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file written as base64."""
    return read_safetensors(base64.b64decode(text))
