"""The forms that were chosen for layers, for a report.

Not here: the choice (`to_verilog.circuit.folding`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)

from .choose_folding import FOLDING

COLUMNS = ("layer", "form", "PE", "SIMD", "cycles a frame", "LUT", "FF", "BRAM18")


def noted_folding(module: ModuleOp) -> dict[str, Any] | None:
    """The choice that `choose-folding` noted on a module, as JSON data; `None` if there is none."""
    noted = module.attributes.get(FOLDING)
    return _plain(noted) if isinstance(noted, DictionaryAttr) else None


def _plain(value: Any) -> Any:
    match value:
        case StringAttr():
            return value.data
        case IntegerAttr() | FloatAttr():
            return value.value.data
        case ArrayAttr():
            return [_plain(item) for item in cast("ArrayAttr[Any]", value)]
        case DictionaryAttr():
            return {key: _plain(item) for key, item in value.data.items()}
        case _:
            raise TypeError(f"{type(value).__name__} in a choice of forms")


def folding_rows(folding: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """A row of `COLUMNS` a layer, and one for all: the slowest, and sums."""
    layers = folding["layers"]
    rows: list[tuple[object, ...]] = [
        (
            layer["layer"],
            f"{layer['form']}, {layer['digit']} bits" if layer["digit"] else layer["form"],
            layer["pe"],
            layer["simd"],
            layer["cycles"],
            layer["luts"],
            layer["flip_flops"],
            layer["block_memories"],
        )
        for layer in layers
    ]
    sums = (sum(layer[key] for layer in layers) for key in ("luts", "flip_flops", "block_memories"))
    slowest = max((layer["cycles"] for layer in layers), default=0)
    return [*rows, ("all", "", "", "", slowest, *sums)]


def folding_title(folding: Mapping[str, Any]) -> str:
    """What was asked and what comes of it, in a line."""
    slowest = max((layer["cycles"] for layer in folding["layers"]), default=1)
    interval = folding.get("interval", slowest)
    rate = f"{folding['clock'] * 1e6 / interval:,.0f} frames/s at {folding['clock']:g} MHz"
    asked = f"; {folding['cycles']:,} cycles a frame allowed" if "cycles" in folding else ""
    return f"Folding: {rate}{asked}"


def folding_markdown(folding: Mapping[str, Any] | None) -> str:
    """A section of the report."""
    if folding is None:
        return ""
    lines = ["", f"## {folding_title(folding)}", "", "Areas are those that the choice was made by."]
    lines += ["", f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    for row in folding_rows(folding):
        cells = [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
