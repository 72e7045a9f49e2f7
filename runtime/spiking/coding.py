"""Encoders and decoders: numbers as spikes and back, as `spike.encode` and `spike.decode` do it."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ir.errors import OptionError
from .config import ENCODINGS
from .recording import is_recorded, record_decode, record_encode
from .steps import wide_type
from .threefry import random_words

DECODINGS = ("rate", "first_spike", "membrane")
READOUTS = ("last", "max", "mean")

MAX_PERIOD = 31
"""The most steps in a period of the phase code."""

WORDS_AT_ONCE = 1 << 20
"""The most random words that are held at a time."""


def encode(
    x: Tensor,
    scheme: str,
    timesteps: int | None = None,
    *,
    start: int = 0,
    period: int | None = None,
    threshold: float | None = None,
    seed: int | None = None,
    previous: Tensor | None = None,
    first: int = 0,
) -> Tensor:
    """x as `timesteps` steps of spikes, [timesteps, *x.shape] of x's type.

    Step t counts from `start`, so that runs can be cut. Only `direct` has a gradient.

    - `rate`: s = [u < x] with u = h/2^32, h the first word of Threefry-2x32-20 for the key `seed`
      and the counter (t, j), j the row-major index of the element: the bits of `spike.encode`.
      j counts from `first`, so that a part of a larger batch gets its bits.
    - `regular`: s = ⌊(t+1)·x⌋ - ⌊t·x⌋, x clipped to [0, 1]: evenly spaced.
    - `latency`: one spike at t = round((P-1)·(1-x)), halves to even, x clipped; none below
      `threshold`, if given.
    - `phase`: s = bit P-1-(t mod P) of ⌊x·2^P⌋, clipped to P bits, P ≤ 31.
    - `direct`: x at every step.
    - `delta`: x has time first; s = [x[t] - x[t-1] ≥ `threshold`], before the first step `previous`
      or zeros. No `timesteps`, no `start`.

    Args:
        x: floats; `direct` takes anything.
        scheme: see above.
        timesteps: at least 1.
        start: at least 0.
        period: P of `latency` and `phase`, by default `timesteps`.
        threshold: of `latency` and `delta`.
        seed: of `rate`, from 0 to 2^63 - 1.
        previous: of `delta`, like a step of `x`.
        first: of `rate`, the index of the first element, from 0.

    Raises:
        OptionError: a value that is missing, not allowed, or of no use to the scheme.
    """
    _check_encoding(x, scheme, timesteps, start, period, threshold, seed, previous, first)
    if is_recorded() and not first:
        return record_encode(
            x, previous, scheme=scheme, timesteps=timesteps, start=start, period=period,
            threshold=threshold, seed=seed,
        )  # fmt: skip
    if scheme == "delta":
        assert threshold is not None
        return _delta(x, threshold, previous)
    assert timesteps is not None
    if scheme == "direct":
        return x.expand(timesteps, *x.shape)
    with torch.no_grad():
        if scheme == "rate":
            assert seed is not None
            return _rate(x, timesteps, start, seed, first)
        clipped = x.to(torch.float64).clamp(0, 1)
        t = torch.arange(start, start + timesteps, device=x.device).reshape(-1, *[1] * x.dim())
        steps = timesteps if period is None else period
        if scheme == "regular":
            spikes = ((t + 1) * clipped).floor() - (t * clipped).floor() > 0
        elif scheme == "phase":
            levels = 2**steps
            digits = (clipped.nan_to_num() * levels).floor().clamp(max=levels - 1).to(torch.int64)
            spikes = digits >> (steps - 1 - t % steps) & 1 == 1
        else:
            spikes = t == ((steps - 1) * (1 - clipped)).round()
            if threshold is not None:
                spikes = spikes & _reaches(x, threshold)
        return spikes.to(x.dtype)


def _rate(x: Tensor, timesteps: int, start: int, seed: int, element: int) -> Tensor:
    # h/2^32 < x where h < ⌈x·2^32⌉: exact in whole numbers, on devices without float64 too.
    limits = (x.to(wide_type(x.dtype)) * 2.0**32).ceil().nan_to_num(0, 2.0**32, 0)
    limits = limits.clamp(0, 2.0**32).to(torch.int64).flatten()
    spikes = x.new_empty((timesteps, limits.numel()))
    many = max(1, WORDS_AT_ONCE // max(1, limits.numel()))
    for first in range(0, timesteps, many):
        steps = min(many, timesteps - first)
        words = random_words(seed, start + first, steps, limits.numel(), x.device, first=element)
        spikes[first : first + steps] = words < limits
    return spikes.reshape(timesteps, *x.shape)


def _delta(x: Tensor, threshold: float, previous: Tensor | None) -> Tensor:
    with torch.no_grad():
        wide = x.to(wide_type(x.dtype))
        before = x.new_zeros(x.shape[1:]) if previous is None else previous
        rises = torch.diff(wide, dim=0, prepend=before.to(wide.dtype)[None])
        return _reaches(rises, threshold).to(x.dtype)


def _reaches(x: Tensor, threshold: float) -> Tensor:
    wide = x.to(wide_type(x.dtype))
    return wide >= torch.full((), threshold, dtype=wide.dtype, device=x.device)


def _check_encoding(
    x: Tensor,
    scheme: str,
    timesteps: int | None,
    start: int,
    period: int | None,
    threshold: float | None,
    seed: int | None,
    previous: Tensor | None,
    first: int,
) -> None:
    if scheme not in ENCODINGS:
        raise OptionError(f"expected an encoding of {', '.join(ENCODINGS)}, got {scheme!r}")
    if scheme != "direct" and not x.is_floating_point():
        raise OptionError(f"expected floats to encode by '{scheme}', got {x.dtype}")
    for name, value, schemes in (
        ("seed", seed, ("rate",)),
        ("period", period, ("latency", "phase")),
        ("threshold", threshold, ("latency", "delta")),
        ("previous", previous, ("delta",)),
        ("timesteps", timesteps, tuple(name for name in ENCODINGS if name != "delta")),
    ):
        if value is not None and scheme not in schemes:
            raise OptionError(f"{name} belongs to {' and '.join(schemes)}, not to '{scheme}'")
    if first < 0 or (first and scheme != "rate"):
        raise OptionError(f"first belongs to 'rate', from 0, got {first} with '{scheme}'")
    if scheme == "delta":
        if threshold is None:
            raise OptionError("expected a threshold with 'delta'")
        if start or x.dim() < 1:
            raise OptionError("'delta' takes time first, and no start")
        if previous is not None and previous.shape != x.shape[1:]:
            raise OptionError(f"previous: expected {list(x.shape[1:])}, got {list(previous.shape)}")
        return
    if timesteps is None or timesteps < 1 or start < 0:
        raise OptionError(f"expected timesteps from 1 and a start from 0, got {timesteps}, {start}")
    if scheme == "rate" and (seed is None or not 0 <= seed < 2**63):
        raise OptionError(f"expected a seed from 0 to 2^63 - 1 with 'rate', got {seed}")
    steps = timesteps if period is None else period
    if steps < 1 or (scheme == "phase" and steps > MAX_PERIOD):
        bound = f" to {MAX_PERIOD}" if scheme == "phase" else ""
        raise OptionError(f"expected a period from 1{bound}, got {steps}")


def decode(train: Tensor, scheme: str = "rate", readout: str | None = None) -> Tensor:
    """T steps as one number for each neuron, [T, …] to […].

    - `rate`: the number of spikes / T, float32.
    - `first_spike`: (T - t)/T with t the first step that has a spike, 0 where none has; float32,
      without a gradient.
    - `membrane`: of a trace of floats, its `last` step, its `max` or its `mean`, of its type.

    Args:
        train: spikes as zeros and ones of any type, or the trace.
        scheme: see above.
        readout: of `membrane`.

    Raises:
        OptionError: no step, or a scheme or readout that is not allowed.
    """
    if scheme not in DECODINGS:
        raise OptionError(f"expected a decoding of {', '.join(DECODINGS)}, got {scheme!r}")
    if (scheme == "membrane") != (readout is not None) or readout not in (None, *READOUTS):
        raise OptionError(
            f"expected a readout of {', '.join(READOUTS)} with 'membrane' and only there, "
            f"got {readout!r} with '{scheme}'"
        )
    if train.dim() < 1 or train.shape[0] == 0:
        raise OptionError(f"expected at least one step [T, …], got {list(train.shape)}")
    if scheme == "membrane" and not train.is_floating_point():
        raise OptionError(f"expected a trace of floats for 'membrane', got {train.dtype}")
    if is_recorded():
        return record_decode(train, scheme=scheme, readout=readout)
    if scheme == "rate":
        return train.to(torch.float32).sum(0) / _steps(train)
    if scheme == "first_spike":
        left = (train != 0).to(torch.uint8).cummax(0).values.sum(0)
        return left.to(torch.float32) / _steps(train)
    if readout == "last":
        return train[-1]
    return train.amax(0) if readout == "max" else train.mean(0)


def _steps(train: Tensor) -> Tensor:
    # A GPU multiplies by the rounded inverse of a plain number, but divides by a tensor of its own.
    return torch.full((), train.shape[0], dtype=torch.float32, device=train.device)
