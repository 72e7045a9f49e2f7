"""What a circuit is and how large: JSON and Markdown, from the circuit alone, without synthesis.

Not here: the estimate itself (`to_verilog.estimate`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from ...ir.attribute_data import data_of
from .choose_folding import FOLDING
from .circuit.circuit import COMMENT
from .circuit.interface import Interface, Record
from .estimate.devices import Device, needs
from .estimate.elaborate import Part, parts_of
from .estimate.estimate import Estimate, Resources
from .expressions import width
from .templates import filled

COUNTS = ("adders", "adder_bits", "comparators", "comparator_bits", "mux_bits")
"""What is counted of the ops of each layer; a register that waits is no selection."""

COLUMNS = ("layer", "form", "PE", "SIMD", "cycles a frame", "LUT", "FF", "BRAM18")
"""What is told of the forms that were chosen."""

_KEYS = ("layer", "form", "pe", "simd", "cycles", "luts", "flip_flops", "block_memories")
"""Of a layer, for each of those."""

Folding = Record
"""A choice of forms as JSON data: `clock` in MHz, `layers`, where asked for the `cycles` a frame
that were allowed, where known the `interval` of the circuit. A layer has the name `layer`, `inputs`
and `outputs`, a `form` (`unrolled`, `folded` on `pe` · `simd`, or `serial` by `digit` bits), and
takes `cycles`, `luts`, `flip_flops` and `block_memories`."""

SIZES = ("luts", "shift_luts", "memory_luts", "flip_flops", "carries", "block_memories")
"""What is told of each layer; the total has the rest of `Resources` too."""


def report(
    interface: Interface,
    hardware: Sequence[Operation],
    estimated: Estimate,
    device: Device | None,
    clock: float | None = None,
) -> Record:
    """The interface, sums over the layers, and the estimated size and speed.

    What stands between layers, in a module by itself, is a row among them; all of a module of one
    layer is that layer.

    Args:
        interface: of the circuit.
        hardware: its modules.
        estimated: its estimate, for the family of the device.
        device: that it was made for, if any.
        clock: in MHz, that was asked for.
    """
    titles, counts = _counted(interface.name, hardware)
    found = [_layer(title, counts[title], titles, estimated) for title in counts]
    layers = [layer for layer in found if any(layer[name] for name in (*COUNTS, *SIZES))]
    rest = [size for part, size in estimated.parts.items() if part not in titles]
    return {
        **interface.to_dict(),
        "layers": layers,
        "totals": {name: sum(layer[name] for layer in layers) for name in COUNTS},
        "estimate": {
            **_size(estimated.total, (*SIZES, "carry_bits", "cells")),
            "memory_kbits": estimated.total.block_memories * estimated.family.block_bits // 1024,
            "family": estimated.family.name,
            "period_ns": round(estimated.period, 2),
            "clock_mhz": round(estimated.frequency),
            "slowest": _slowest(estimated),
            "clock_goal_mhz": clock,
            "clock_reached": clock is None or estimated.frequency >= clock or not estimated.period,
        },
        "modules": {name: _size(size, SIZES) for name, size in estimated.sums("module").items()},
        "control": _size(sum(rest, Resources()), SIZES),
        "device": None
        if device is None
        else {
            **{name: getattr(device, name) for name in ("name", "part", "family")},
            "resources": [asdict(need) for need in needs(estimated.total, device)],
        },
    }


def _counted(
    top: str, hardware: Sequence[Operation]
) -> tuple[dict[Part, str], dict[str, Counter[str]]]:
    """The name and the op of each part, in words, and what each of those has."""
    titles: dict[Part, str] = {}
    counts: dict[str, Counter[str]] = {}
    for module in hardware:
        if not isinstance(module, hw.HWModuleOp):
            continue
        name, comment = module.sym_name.data, module.attributes.get(COMMENT)
        runs = parts_of(module)
        layers = {part.layer for part, _ in runs if part.layer}
        if not layers and name != top and isinstance(comment, StringAttr):
            layers = {f"{name}: {comment.data}"}
        own = layers.pop() if len(layers) == 1 else ""
        for part, ops in runs:
            title = part.layer or own
            if title:
                titles[part] = title
                here = counts.setdefault(title, Counter())
                for op in ops:
                    _count(op, here)
    return titles, counts


def _count(op: Operation, counts: Counter[str]) -> None:
    bits = width(op.operands[-1].type) if op.operands else 0
    if (kind := _KINDS.get(type(op))) is not None:
        counts[f"{kind}s"] += 1
        counts[f"{kind}_bits"] += bits
    elif type(op) is comb.MuxOp:
        register = op.operands[2].owner
        if type(register) is not seq.CompRegOp or register.operands[0] is not op.results[0]:
            counts["mux_bits"] += bits


_KINDS: dict[type[Operation], str] = {
    comb.AddOp: "adder",
    comb.SubOp: "adder",
    comb.ICmpOp: "comparator",
}


def _layer(
    title: str, counts: Counter[str], titles: Mapping[Part, str], estimated: Estimate
) -> Record:
    name, _, source = title.partition(": ")
    size = sum((s for part, s in estimated.parts.items() if titles.get(part) == title), Resources())
    times = [time for part, time in estimated.periods.items() if titles.get(part) == title]
    period = max(times, default=0.0)
    clock = round(1e3 / period) if period else None
    sizes = {name: counts[name] for name in COUNTS} | _size(size, SIZES)
    return {"name": name, "source": source, **sizes, "clock_mhz": clock}


def _size(size: Resources, names: tuple[str, ...]) -> dict[str, int]:
    return {name: getattr(size, name) for name in names}


def _slowest(size: Estimate) -> str:
    """The layer, or else the module, that the longest path ends in."""
    if not size.periods:
        return ""
    part: Part = max(size.periods, key=lambda part: size.periods[part])
    return part.layer.partition(":")[0] or part.module


def json_text(data: Record) -> str:
    """The report as JSON."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def markdown(data: Record) -> str:
    """The report as a page to read."""
    # What the receiver does with the results, behind the integers.
    left = zip(data["outputs"], data.get("left_out") or [], strict=False)
    words = data | {"left_out": [pair for pair in left if pair[1]], "sizes": SIZES}
    if folding := data.get("folding"):
        words["forms"] = (folding_title(folding), COLUMNS, folding_rows(folding))
    return filled("report.md", **words, shown=(*COUNTS, "luts", "flip_flops", "block_memories"))


def noted_folding(module: ModuleOp) -> Folding | None:
    """The choice that `choose-folding` noted on a module, as JSON data; `None` if there is none."""
    noted = module.attributes.get(FOLDING)
    return data_of(noted) if isinstance(noted, DictionaryAttr) else None


def folding_text(forms: Sequence[Record]) -> str:
    """Forms as the option `folding` takes them."""
    words = {"folded": "pe={pe},simd={simd}", "serial": "digit={digit}", "unrolled": "unrolled"}
    return ";".join(f"{form['layer']}:{words[form['form']].format(**form)}" for form in forms)


def folding_rows(folding: Folding) -> list[list[object]]:
    """A row of `COLUMNS` a layer, and one for all: the slowest, and sums."""
    layers: list[Record] = folding["layers"]
    rows = [[layer[key] for key in _KEYS] for layer in layers]
    sums = [sum(row[place] for row in rows) for place in range(5, len(_KEYS))]
    slowest = max((layer["cycles"] for layer in layers), default=0)
    for row, layer in zip(rows, layers, strict=True):
        if layer["digit"]:
            row[1] = f"{row[1]}, {layer['digit']} bits"
    return [*rows, ["all", "", "", "", slowest, *sums]]


def folding_title(folding: Folding) -> str:
    """What was asked and what comes of it, in a line."""
    slowest = max((layer["cycles"] for layer in folding["layers"]), default=1)
    interval = folding.get("interval", slowest)
    rate = f"{folding['clock'] * 1e6 / interval:,.0f} frames/s at {folding['clock']:g} MHz"
    asked = f"; {folding['cycles']:,} cycles a frame allowed" if "cycles" in folding else ""
    return f"Folding: {rate}{asked}"
