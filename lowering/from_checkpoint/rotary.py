"""Frequencies of rotary position embeddings, with the scalings that published models have.

A frequency is θ_i = base^(-2i / head_dim) radians a token (Su et al. 2021). `linear` divides all by
a factor; `llama3` (that of Llama 3.1) those of long wavelengths, with a ramp to the short ones;
`yarn` (Peng et al. 2023) ramps over the number of turns in the original context, and scales cosines
and sines.
"""

from __future__ import annotations

import math
from reprlib import repr

import numpy as np

from ...ir.arrays import Array
from ...ir.settings import Settings

_PLACES, _TURNS = (1, 1e12), (1e-6, 1e6)
"""Of a context that a model was made for, and turns within it."""


def frequencies(head_dim: int, config: Settings) -> tuple[Array, float]:
    """The frequencies, float32 [head_dim / 2], and the factor of cosines and sines.

    Args:
        head_dim: even.
        config: in the words of Hugging Face's, old ones or those of Transformers 5.

    Raises:
        SourceError: a scaling that is not known, or broken numbers.
    """
    is_old = not config.values.get("rope_parameters")
    scaling = config.part("rope_scaling" if is_old else "rope_parameters")
    stated = scaling if "rope_theta" in scaling.values else config
    base = stated.number("rope_theta", 10000.0)
    if base <= 1:
        scaling.refuse(f"'rope_theta' is {base}, expected a number above 1")
    plain = 1.0 / base ** (np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if scaling.number("partial_rotary_factor", 1.0) != 1.0:
        scaling.refuse("rotary embedding of a part of each head is not supported")
    factor = 1.0
    match scaling.values.get("rope_type", scaling.values.get("type", "default")):
        case "default":
            pass
        case "linear":
            plain = plain / scaling.number("factor")
        case "llama3":
            plain = _llama3(plain, scaling)
        case "yarn":
            plain, factor = _yarn(plain, base, scaling)
        case kind:
            known = "default, linear, llama3, yarn"
            scaling.refuse(f"rotary embedding of type {repr(kind)}; known are {known}")
    return plain.astype(np.float32), factor


def _llama3(plain: Array, scaling: Settings) -> Array:
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    factor, low, high, context = map(scaling.number, names)
    if high <= low:
        scaling.refuse(f"high_freq_factor {high} must be above low_freq_factor {low}")
    turns = context * plain / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return plain * (share + (1 - share) / factor)


def _yarn(plain: Array, base: float, scaling: Settings) -> tuple[Array, float]:
    factor = scaling.number("factor")
    context = scaling.number("original_max_position_embeddings", bounds=_PLACES)
    fast, slow = (
        scaling.number(name, turns, _TURNS)
        for name, turns in (("beta_fast", 32.0), ("beta_slow", 1.0))
    )
    count = 2 * plain.size

    def place(turns: float) -> float:
        """Which pair turns so often in the context."""
        return count * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = place(fast), place(slow)
    if scaling.values.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, count - 1)
    ramp = np.clip((np.arange(plain.size) - first) / max(last - first, 0.001), 0, 1)
    return plain * (1 - ramp) + plain / factor * ramp, _yarn_scale(scaling, factor)


def _yarn_scale(scaling: Settings, factor: float) -> float:
    """The attention factor: stated, or 0.1·m·ln(factor) + 1."""
    if scaling.values.get("attention_factor") is not None:
        return scaling.number("attention_factor")

    def scale(m: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1.0

    m, of_all = (scaling.values.get(name) for name in ("mscale", "mscale_all_dim"))
    if not m or not of_all:
        return scale(1.0)
    return scale(scaling.number("mscale")) / scale(scaling.number("mscale_all_dim"))
