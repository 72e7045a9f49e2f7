"""How large a circuit is: JSON and Markdown, from the circuit alone, without synthesis."""

from __future__ import annotations

import json
from typing import Any

from ...passes.convert_ternary_to_hw.products import LUT_PER_ADDER_BIT
from .interface import Interface

COUNTS = (
    "adders",
    "adder_bits",
    "comparators",
    "comparator_bits",
    "mux_bits",
    "compressor_bits",
    "register_bits",
)


def report(interface: Interface) -> dict[str, Any]:
    """The interface, sums over the layers, and an estimate of LUTs and flip-flops.

    LUTs: 0.85 a bit of an adder, half of one a bit of a comparison, one a selected bit or
    an output of a compressor. Flip-flops:
    the bits of all registers, of which synthesis may make shift registers in LUTs.
    """
    totals = {name: sum(layer[name] for layer in interface.layers) for name in COUNTS}
    control = 2 * interface.latency
    luts = (
        LUT_PER_ADDER_BIT * totals["adder_bits"]
        + totals["comparator_bits"] / 2
        + totals["mux_bits"]
        + totals["compressor_bits"]
    )
    return {
        **interface.to_dict(),
        "totals": totals,
        "estimate": {"luts": round(luts), "flip_flops": totals["register_bits"] + control},
    }


def json_text(data: dict[str, Any]) -> str:
    """The report as JSON."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def markdown(data: dict[str, Any]) -> str:
    """The report as a page to read."""
    lines = [
        f"# {data['name']}",
        "",
        f"- latency: {data['latency_cycles']} cycles; a new vector every "
        f"{data['initiation_interval']} cycle",
        f"- estimate: {data['estimate']['luts']} LUTs, {data['estimate']['flip_flops']} flip-flops",
        f"- streams: s_axis_tdata {data['s_axis_tdata_bits']} bits, "
        f"m_axis_tdata {data['m_axis_tdata_bits']} bits",
        "",
        "| tensor | shape | values | bits | all bits | integers stand for |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for side in ("inputs", "outputs"):
        lines += [_port_row(port, side) for port in data[side]]
    head = ["layer", "op", *(name.replace("_", " ") for name in COUNTS)]
    lines += ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for layer in data["layers"]:
        cells = [layer["name"], layer["source"], *(f"{layer[name]:,}" for name in COUNTS)]
        lines.append(f"| {' | '.join(cells)} |")
    cells = ["all", "", *(f"{data['totals'][name]:,}" for name in COUNTS)]
    lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _port_row(port: dict[str, Any], side: str) -> str:
    shape = "×".join(str(n) for n in port["shape"]) or "scalar"
    widths = sorted(set(port["widths"]))
    bits = str(widths[0]) if len(widths) == 1 else f"{widths[0]} to {widths[-1]}"
    quantized = port["quantized"]
    meaning = "themselves"
    if quantized is not None:
        scale, zero = (_short(quantized[key]) for key in ("scale", "zero_point"))
        meaning = f"(q - {zero}) · {scale}"
    values = f"{min(port['low'])} to {max(port['high'])}"
    name = f"{port['name']} ({side[:-1]})"
    return f"| {name} | {shape} | {values} | {bits} | {sum(port['widths'])} | {meaning} |"


def _short(value: Any) -> str:
    return "one a channel" if isinstance(value, list) else f"{value:g}"
