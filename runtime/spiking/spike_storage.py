"""How a `SpikeTensor` is stored: checks of its facts, row-major indices, and bits in files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from ...ir.errors import OptionError, ParameterError, refuse

AXES = ("batch", "time", "channels", "height", "width")


def check_shape(shape: Any) -> torch.Size:
    """`shape` as five sizes; `ParameterError` if it is none."""
    sizes: list[Any] = list(cast(Any, shape)) if isinstance(shape, Sequence) else []
    if len(sizes) != len(AXES) or any(type(size) is not int or size < 0 for size in sizes):
        raise ParameterError(f"expected five sizes [{', '.join(AXES)}], got {shape!r}")
    return torch.Size(sizes)


def check_dt(dt: Any) -> float:
    """`dt` as seconds above 0; `OptionError` if it is none."""
    is_number = isinstance(dt, int | float) and not isinstance(dt, bool)
    refuse(not is_number or not 0 < dt < math.inf, f"dt: expected seconds above 0, got {dt!r}")
    return float(dt)


def text_of(metadata: Mapping[str, Any] | None) -> str:
    """The metadata as JSON with names in order; `OptionError` if JSON would not keep it."""
    facts: Any = {} if metadata is None else metadata
    try:
        text = json.dumps(dict(facts), sort_keys=True, allow_nan=False)
        is_kept = json.loads(text) == dict(facts)
    except (TypeError, ValueError):
        text, is_kept = "", False
    if not is_kept:
        raise OptionError(
            "metadata: expected a dictionary of what JSON has (names, finite numbers, texts, "
            f"lists), got {metadata!r}"
        )
    return text


def strides(shape: Sequence[int]) -> list[int]:
    """How far apart in row-major order neighbours on each axis are."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def event_at(index: int, shape: Sequence[int]) -> list[int]:
    """The place of a row-major index."""
    return [index // stride % size for stride, size in zip(strides(shape), shape, strict=True)]


def pack(data: Tensor) -> Tensor:
    """Eight truth values a byte, the first in the lowest bit, the last byte padded with zeros."""
    flat = torch.nn.functional.pad(data.flatten().to(torch.uint8), (0, -data.numel() % 8))
    shifts = torch.arange(8, dtype=torch.uint8)
    return (flat.reshape(-1, 8) << shifts).sum(1, dtype=torch.uint8)


def unpack(bits: Tensor, shape: torch.Size) -> Tensor:
    """The truth values that `pack` packed; `ParameterError` if it packed none of this shape."""
    count = shape.numel()
    if bits.dtype != torch.uint8 or bits.shape != (-(-count // 8),):
        raise ParameterError(
            f"expected uint8[{-(-count // 8)}] for {count} places, got {bits.dtype}"
            f"{list(bits.shape)}"
        )
    shifts = torch.arange(8, dtype=torch.uint8, device=bits.device)
    flat = (bits.unsqueeze(1) >> shifts & 1).flatten()
    if bool(flat[count:].any()):
        raise ParameterError("padding bits of the last byte are not zero; the file is corrupt")
    return flat[:count].to(torch.bool).reshape(shape)
