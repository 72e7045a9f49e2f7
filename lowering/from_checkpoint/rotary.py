"""Frequencies of rotary position embeddings, with the scalings that published models have.

A frequency is θ_i = base^(-2i / head_dim) radians a token (Su et al. 2021). `linear` divides all by
a factor; `llama3` (that of Llama 3.1) those of long wavelengths, with a ramp to the short ones;
`yarn` (Peng et al. 2023) ramps over the number of turns in the original context, and scales cosines
and sines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ...ir.arrays import Array
from .problems import number_of, refuse


def frequencies(
    head_dim: int, base: float, scaling: Mapping[str, object], what: str
) -> tuple[Array, float]:
    """The frequencies, float32 [head_dim / 2], and the factor of cosines and sines.

    Args:
        head_dim: even.
        base: θ.
        scaling: in the words of `rope_parameters` of Hugging Face's configurations.
        what: for errors.

    Raises:
        SourceError: a scaling that is not known, or broken numbers.
    """
    plain = 1.0 / base ** (np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    scale = _SCALINGS.get(kind) if isinstance(kind, str) else None
    if scale is None:
        refuse(f"{what}: rotary embedding of type {kind!r}; known are {', '.join(_SCALINGS)}")
    if number_of(scaling, "partial_rotary_factor", what, 1.0) != 1.0:
        refuse(f"{what}: rotary embedding of a part of each head is not supported")
    scaled, factor = scale(plain, scaling, base, what)
    return scaled.astype(np.float32), factor


_Scaled = tuple[Array, float]


def _default(plain: Array, scaling: Mapping[str, object], base: float, what: str) -> _Scaled:
    return plain, 1.0


def _linear(plain: Array, scaling: Mapping[str, object], base: float, what: str) -> _Scaled:
    return plain / number_of(scaling, "factor", what), 1.0


def _llama3(plain: Array, scaling: Mapping[str, object], base: float, what: str) -> _Scaled:
    factor, low, high, context = (
        number_of(scaling, name, what)
        for name in (
            "factor",
            "low_freq_factor",
            "high_freq_factor",
            "original_max_position_embeddings",
        )
    )
    if high <= low:
        refuse(f"{what}: high_freq_factor {high} must be above low_freq_factor {low}")
    turns = context * plain / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return plain * (share + (1 - share) / factor), 1.0


def _yarn(plain: Array, scaling: Mapping[str, object], base: float, what: str) -> _Scaled:
    factor = number_of(scaling, "factor", what)
    context = number_of(scaling, "original_max_position_embeddings", what)
    fast, slow = (
        number_of(scaling, name, what, default)
        for name, default in (("beta_fast", 32.0), ("beta_slow", 1.0))
    )
    count = 2 * plain.size

    def place(turns: float) -> float:
        """Which pair turns so often in the context."""
        return count * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = place(fast), place(slow)
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, count - 1)
    ramp = np.clip((np.arange(plain.size) - first) / max(last - first, 0.001), 0, 1)
    return plain * (1 - ramp) + plain / factor * ramp, _yarn_scale(scaling, factor, what)


def _yarn_scale(scaling: Mapping[str, object], factor: float, what: str) -> float:
    """The attention factor: stated, or 0.1·m·ln(factor) + 1."""
    if scaling.get("attention_factor") is not None:
        return number_of(scaling, "attention_factor", what)

    def scale(m: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1.0

    m, of_all = (number_of(scaling, name, what, 0.0) for name in ("mscale", "mscale_all_dim"))
    return scale(m) / scale(of_all) if m and of_all else scale(1.0)


_SCALINGS: dict[str, Callable[[Array, Mapping[str, object], float, str], _Scaled]] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
