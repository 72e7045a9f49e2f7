"""What a circuit is and how large: JSON and Markdown, from the circuit alone, without synthesis.

Not here: the estimate itself (`to_verilog.estimate`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ...dialects.shapes import bit_width
from .circuit.circuit import COMMENT
from .circuit.interface import Interface, Record
from .estimate.devices import Device, needs
from .estimate.elaborate import Part, parts_of
from .estimate.estimate import Estimate, Resources
from .templates import filled

COUNTS = ("adders", "adder_bits", "comparators", "comparator_bits", "mux_bits")
"""What is counted of the ops of each layer; a register that waits is no selection."""

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
        "modules": {name: _size(size, SIZES) for name, size in estimated.modules().items()},
        "control": _size(sum(rest, Resources()), SIZES),
        "device": None if device is None else _device(device, estimated.total),
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
    kind = type(op)
    if kind is comb.AddOp or kind is comb.SubOp:
        counts["adders"] += 1
        counts["adder_bits"] += bit_width(op.results[0].type) or 1
    elif kind is comb.ICmpOp:
        counts["comparators"] += 1
        counts["comparator_bits"] += bit_width(op.operands[0].type) or 1
    elif kind is comb.MuxOp:
        register = op.operands[2].owner
        if type(register) is not seq.CompRegOp or register.operands[0] is not op.results[0]:
            counts["mux_bits"] += bit_width(op.results[0].type) or 1


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


def _device(device: Device, total: Resources) -> Record:
    return {
        "name": device.name,
        "part": device.part,
        "family": device.family,
        "resources": [
            {"name": need.resource, "needs": need.needs, "has": need.has}
            for need in needs(total, device)
        ],
    }


def json_text(data: Record) -> str:
    """The report as JSON."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def markdown(data: Record) -> str:
    """The report as a page to read."""
    # What the receiver does with the results, behind the integers.
    left = zip(data["outputs"], data.get("left_out") or [], strict=False)
    words = data | {"left_out": [pair for pair in left if pair[1]], "sizes": SIZES}
    return filled("report.md", **words, shown=(*COUNTS, "luts", "flip_flops", "block_memories"))
