"""Which folding makes a circuit fit on a device that it is too large for.

The choice is made by formulas (`to_verilog.circuit.folding`), and then built and
estimated as any circuit, so that what is advised fits by the same measure. Not here: options and
stages of the target (`target`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.errors import OptionError
from .circuit.areas import LUTS_OF_A_BLOCK
from .estimate.devices import Device, needs
from .estimate.estimate import Estimate
from .folding import ProductForm

_TRIES = 4
_MARGIN = 0.9
"""Of what the formulas leave: they are not exact."""

Choose = Callable[[int | None], Sequence[ProductForm]]
"""From LUTs for all products (all unrolled where `None`) to their forms."""

Build = Callable[[str], Estimate]
"""From forms as the option `folding` takes them to the size of the circuit."""


def folding_advice(choose: Choose, build: Build, estimate: Estimate, device: Device) -> str:
    """What to do with a circuit that does not fit: a folding that does, or that there is none.

    Args:
        choose: the forms for a budget; raises `OptionError` where none is small enough.
        build: the size with given forms.
        found: the size that does not fit.
        device: that it does not fit on.
    """
    budget = _area(choose(None))
    size, tried = estimate, ""
    for _ in range(_TRIES):
        budget = int(budget * _MARGIN / _excess(size, device))
        try:
            forms = choose(budget)
        except OptionError:
            return "no folding of its products fits either; narrow the numbers, or take another one"
        text = folding_text(forms)
        if text == tried:
            continue
        size, tried = build(text), text
        if _excess(size, device) <= 1:
            cycles = max(layer["cycles"] for layer in forms)
            shown = ", ".join(
                f"{need.needs:,} {need.resource}" for need in needs(size.total, device)
            )
            return f'it fits with folding="{text}": {shown}, {cycles:,} cycles a frame'
    return f"no folding that fits was found in {_TRIES} tries; set one with folding, or lut-budget"


def folding_text(forms: Sequence[ProductForm]) -> str:
    """Forms as the option `folding` takes them."""
    parts: list[str] = []
    for layer in forms:
        match layer["form"]:
            case "folded":
                form = f"pe={layer['pe']},simd={layer['simd']}"
            case "serial":
                form = f"digit={layer['digit']}"
            case _:
                form = "unrolled"
        parts.append(f"{layer['layer']}:{form}")
    return ";".join(parts)


def _area(forms: Sequence[ProductForm]) -> int:
    return sum(layer["luts"] + LUTS_OF_A_BLOCK * layer["block_memories"] for layer in forms)


def _excess(size: Estimate, device: Device) -> float:
    """How often the device would be filled by what it has least of."""
    return max(need.share for need in needs(size.total, device))
