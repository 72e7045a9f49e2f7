"""Frequencies of rotary position embeddings, with the scalings that published models have.

A frequency is θ_i = base^(-2i / turned) radians a token (Su et al. 2021). `linear` divides all by
a factor; `llama3` (that of Llama 3.1) those of long wavelengths, with a ramp to the short ones;
`yarn` (Peng et al. 2023) ramps over the number of turns in the original context, and scales cosines
and sines; so does `longrope` (Ding et al. 2024), by the factors of texts no longer than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from reprlib import repr
from typing import Any, NamedTuple, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.settings import Settings

_PLACES, _TURNS = (1, 1e12), (1e-6, 1e6)
"""Of a context that a model was made for, and turns within it."""


class Rotation(NamedTuple):
    """How heads turn: so many first values of each, by frequencies of each block, float32
    [turned / 2]; the factor of cosines and sines, and the most tokens that this holds for."""

    turned: int
    frequencies: Sequence[Array]
    scaling: float
    limit: int | None


def rotation(head_dim: int, config: Settings, windows: Sequence[int], is_partial: bool) -> Rotation:
    """What a configuration says of rotary embeddings.

    Args:
        head_dim: even.
        config: in the words of Hugging Face's, old ones or those of Transformers 5.
        windows: of each block, 0 for those that see all.
        is_partial: whether a part of each head may turn.

    Raises:
        SourceError: a scaling that is not known, or broken numbers.
    """
    values, kinds = config.values, ("full_attention", "sliding_attention")
    stated = {**config.part("rope_parameters").values}
    nested = {kind: stated.pop(kind) for kind in kinds if stated.get(kind) is not None}
    local = values.get("rope_local_base_freq")
    if nested and local is None:
        config.refuse("'rope_parameters' differ by attention, which this type of model has not")
    old = config.part("rope_scaling").values
    if old and (stated or nested):
        config.refuse("'rope_scaling' and 'rope_parameters' are both there")
    if local is not None and (stated or (old and "rope_type" not in old)):
        config.refuse("'rope_parameters' are not told for each kind of attention")
    if local is not None and kinds[1] not in nested:
        nested[kinds[1]] = {"rope_theta": local}
    each: list[tuple[int, Array, float, int | None]] = []
    for kind in kinds:
        own = nested.get(kind)
        changed = {"rope_parameters": own, "rope_scaling": None} if own is not None else {}
        each.append(_frequencies(head_dim, replace(config, values={**values, **changed})))
    (turned, *_, limit), (other, *_) = each
    chosen = [each[window > 0] for window in windows]
    scalings = {scaling for _, _, scaling, _ in chosen}
    if turned != head_dim and not is_partial and values.get("rotary_dim") is None:
        config.refuse("'partial_rotary_factor' is not computed for this type of model")
    if turned != other or len(scalings) != 1:
        config.refuse("'rope_parameters' of windows turn by other numbers of values or scales")
    each_block = [angles for _, angles, _, _ in chosen]
    turning = _turning(config, len(windows))
    if not all(turning) and scalings != {1.0}:
        config.refuse("rotary embeddings with a factor, where some blocks have none")
    for place, turns in enumerate(turning):
        each_block[place] = each_block[place] * np.float32(turns)
    return Rotation(turned, each_block, scalings.pop(), limit)


def _turning(config: Settings, layers: int) -> Sequence[bool]:
    """Which blocks have rotary embeddings (SmolLM3 has some without)."""
    every, stated = config.values.get("no_rope_layer_interval"), config.values.get("no_rope_layers")
    if not stated:
        step = config.whole("no_rope_layer_interval") if every is not None else layers + 1
        return [(layer + 1) % step != 0 for layer in range(layers)]
    found = cast("list[object]", stated if isinstance(stated, list) else [])
    if len(found) != layers or not all(turns in (0, 1) for turns in found):
        config.refuse(f"'no_rope_layers' is not 0 or 1 for each of {layers} blocks")
    return [turns == 1 for turns in found]


def _frequencies(head_dim: int, config: Settings) -> tuple[int, Array, float, int | None]:
    is_old = not config.values.get("rope_parameters")
    scaling = config.part("rope_scaling" if is_old else "rope_parameters")
    if unknown := scaling.values.keys() - _WORDS:
        scaling.refuse(f"'{min(unknown)}' of rotary embeddings is not known")
    stated = scaling if "rope_theta" in scaling.values else config
    base = stated.number("rope_theta", 10000.0)
    if base <= 1:
        scaling.refuse(f"'rope_theta' is {base}, expected a number above 1")
    word, part = "partial_rotary_factor", 1.0
    if config.values.get("rotary_dim") is None:
        part = config.number(word, 1.0, (0, 1))
        part = scaling.number(word, part, (0, 1))
    turned = config.whole("rotary_dim", int(head_dim * part), low=2, high=head_dim)
    if turned % 2 or turned < 2:
        config.refuse(f"rotary embedding of {turned} of {head_dim} values of a head")
    plain = 1.0 / base ** (np.arange(0, turned, 2, dtype=np.float64) / turned)
    factor, limit = 1.0, None
    form = scaling.values.get("rope_type", scaling.values.get("type", "default"))
    if "short_factor" in scaling.values and form not in ("longrope", "su"):
        scaling.refuse(f"'short_factor' is not for rotary embedding of type {repr(form)}")
    match form:
        case "default":
            pass
        case "linear":
            plain = plain / scaling.number("factor")
        case "llama3":
            plain = _llama3(plain, scaling)
        case "yarn":
            plain, factor = _yarn(plain, base, config, scaling)
        case "longrope" | "su":
            plain, factor, limit = _longrope(plain, config, scaling)
        case "factors":
            plain = plain / _factors("factors", plain.size, scaling)
        case kind:
            known = "default, linear, llama3, yarn, longrope"
            scaling.refuse(f"rotary embedding of type {repr(kind)}; known are {known}")
    return turned, plain.astype(np.float32), factor, limit


_WORDS = {
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "truncate",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "finetuned",
    "short_factor",
    "long_factor",
    "factors",
}


def _longrope(plain: Array, config: Settings, scaling: Settings) -> tuple[Array, float, int]:
    """The factors of texts within the context that the model was made for first."""
    name = "original_max_position_embeddings"
    context = (config if config.values.get(name) is not None else scaling).whole(name, low=2)
    ratio = config.number("max_position_embeddings") / context
    factor = scaling.number("factor", ratio)
    wanted = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(context))
    factors = _factors("short_factor", plain.size, scaling)
    return plain / factors, scaling.number("attention_factor", wanted), context


def _factors(name: str, count: int, scaling: Settings) -> Array:
    given = scaling.values.get(name)
    factors = cast("list[Any]", given if isinstance(given, list) else [])
    fits = all(type(x) in (int, float) and 1e-6 < x < 1e6 for x in factors)
    if len(factors) != count or not fits:
        scaling.refuse(f"'{name}' is no list of {count} numbers")
    return np.asarray(factors, np.float64)


def _llama3(plain: Array, scaling: Settings) -> Array:
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    factor, low, high, context = map(scaling.number, names)
    if high <= low:
        scaling.refuse(f"high_freq_factor {high} must be above low_freq_factor {low}")
    turns = context * plain / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return plain * (share + (1 - share) / factor)


def _yarn(plain: Array, base: float, config: Settings, scaling: Settings) -> tuple[Array, float]:
    """For the context that is told, as Transformers does: else the one of the configuration."""
    factor, name = scaling.number("factor"), "original_max_position_embeddings"
    if scaling.values.get(name) is not None:
        context = scaling.number(name, bounds=_PLACES)
    else:
        context = config.number("max_position_embeddings", bounds=_PLACES)
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
