"""The forms that were chosen for layers, for a report.

Not here: the choice (`to_verilog.circuit.folding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp

from ...ir.attribute_data import data_of
from .choose_folding import FOLDING


class ProductForm(TypedDict):
    """The form of a product: `unrolled`, `folded` on `pe` · `simd`, or `serial` by `digit` bits."""

    layer: str
    form: str
    inputs: int
    outputs: int
    pe: int
    simd: int
    digit: int
    cycles: int
    luts: int
    flip_flops: int
    block_memories: int


class Folding(TypedDict):
    """A choice: MHz, the forms, the cycles a frame that were allowed and those of the circuit."""

    clock: float
    layers: list[ProductForm]
    cycles: NotRequired[int]
    interval: NotRequired[int]


COLUMNS = ("layer", "form", "PE", "SIMD", "cycles a frame", "LUT", "FF", "BRAM18")


def noted_folding(module: ModuleOp) -> Folding | None:
    """The choice that `choose-folding` noted on a module, as JSON data; `None` if there is none."""
    noted = module.attributes.get(FOLDING)
    return data_of(noted) if isinstance(noted, DictionaryAttr) else None


def folding_text(forms: Sequence[ProductForm]) -> str:
    """Forms as the option `folding` takes them."""
    words = {"folded": "pe={pe},simd={simd}", "serial": "digit={digit}", "unrolled": "unrolled"}
    return ";".join(f"{form['layer']}:{words[form['form']].format(**form)}" for form in forms)


def folding_rows(folding: Folding) -> list[tuple[object, ...]]:
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


def folding_title(folding: Folding) -> str:
    """What was asked and what comes of it, in a line."""
    slowest = max((layer["cycles"] for layer in folding["layers"]), default=1)
    interval = folding.get("interval", slowest)
    rate = f"{folding['clock'] * 1e6 / interval:,.0f} frames/s at {folding['clock']:g} MHz"
    asked = f"; {folding['cycles']:,} cycles a frame allowed" if "cycles" in folding else ""
    return f"Folding: {rate}{asked}"


def folding_markdown(folding: Folding | None) -> str:
    """A section of the report."""
    if folding is None:
        return ""
    rows = [
        [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row]
        for row in (COLUMNS, ["---"] * len(COLUMNS), *folding_rows(folding))
    ]
    lines = ["", f"## {folding_title(folding)}", "", "Areas are those that the choice was made by."]
    return "\n".join([*lines, "", *(f"| {' | '.join(cells)} |" for cells in rows), ""])
