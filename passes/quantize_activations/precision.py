"""Bits by the names of layers: `conv1:bits=4,weights=3;fc:weights=6`.

A layer is called as its weight is, with `.weight` behind or without. Not here: what is done with so
many bits (`quantize_activations`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...ir.errors import OptionError
from ...ir.pipeline import did_you_mean

WIDTHS = ("bits", "weights")

Widths = Mapping[str, int]
"""`bits` of the activation that a layer takes and bits of its `weights`, where they are said."""


def parsed_precision(text: str) -> dict[str, Widths]:
    """The widths that a text states, by layer.

    Raises:
        OptionError: it is no such text, a layer stands twice, or a width is not 2 to 8.
    """
    found: dict[str, Widths] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, given = part.rpartition(":")
        pairs = [re.fullmatch(r"\s*(bits|weights)=([2-8])\s*", pair) for pair in given.split(",")]
        if not name or not all(pairs):
            raise OptionError(
                f"precision expects LAYER:bits=N,weights=N with N from 2 to 8 and ';' between "
                f"layers, got '{part}'"
            )
        if name in found:
            raise OptionError(f"precision states the layer '{name}' twice")
        found[name] = {pair[1]: int(pair[2]) for pair in pairs if pair}
    return found


def width(stated: Mapping[str, Widths], name: str, what: str, otherwise: int) -> int:
    """The bits of a layer's activation or weights, for the name of its weight."""
    for called in (name, name.removesuffix(".weight")):
        if what in stated.get(called, {}):
            return stated[called][what]
    return otherwise


def check_layers(text: str, names: Sequence[str]) -> None:
    """Refuse layers that are none of those with weights of these names.

    Raises:
        OptionError: says which, and what is near.
    """
    short = [name.removesuffix(".weight") for name in names]
    for layer in parsed_precision(text):
        if layer not in names and layer not in short:
            raise OptionError(
                f"precision: no layer is called '{layer}'{did_you_mean(layer, short)}"
            )
