"""Properties of a circuit's ports, for provers: modules to bind, harnesses, scripts of SymbiYosys.

What AXI asks of a sender is assumed of the one around a circuit and asserted of the circuit itself;
frames are counted: none is invented, and none is lost while nobody waits. Assertions are immediate
ones of SystemVerilog, which Yosys reads; a harness has the circuit beside its properties, for tools
without `bind`. Not here: how they are proved (`runtime.verilog_properties`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .circuit.interface import Interface
from .templates import filled

Port = tuple[str, bool, int]
"""Name, whether it is an input, bits."""


STREAMS = "streams"
"""What the properties of the streams are called by, in the names of modules and files."""

_MOST_STILL = 3
"""Cycles that a request on AXI4-Lite waits at most while no answer waits."""


def ports_of(text: str) -> list[Port]:
    """The ports of a module by its Verilog."""
    found = re.findall(r"^  (input |output) wire (?:\[(\d+):0\] )?(\w+),?$", text, re.MULTILINE)
    return [(name, side == "input ", int(high or 0) + 1) for side, high, name in found]


@dataclass(frozen=True)
class Properties:
    """Properties of a module's ports.

    Attributes:
        name: of the module that has them.
        text: Verilog of that module and of the harness around the circuit and it.
    """

    name: str
    text: str

    @property
    def harness(self) -> str:
        """The module to prove."""
        return f"{self.name}_harness"


def stream_properties(interface: Interface, ports: Sequence[Port]) -> Properties:
    """Those of the module with the streams."""
    frames = filled("frames.v", of=interface)
    channels = {"s_axis_t": "assume", "m_axis_t": "assert"}
    return _properties(interface.name, STREAMS, ports, channels, frames)


def register_properties(top: str, ports: Sequence[Port]) -> Properties:
    """Those of the AXI4-Lite of a module with registers."""
    asked, answered = ("s_axi_aw", "s_axi_w", "s_axi_ar"), ("s_axi_b", "s_axi_r")
    channels: dict[str, str] = {
        **dict.fromkeys(asked, "assume"),
        **dict.fromkeys(answered, "assert"),
    }
    requests = filled("requests.v", most=_MOST_STILL)
    return _properties(top, "registers", ports, channels, requests)


def formal_files(properties: Properties, sources: Sequence[str]) -> dict[str, str]:
    """The properties and a script of SymbiYosys, by name in the folder.

    Args:
        properties: of a module.
        sources: of the circuit, relative to the folder.
    """
    own = f"{properties.name}.v"
    names = [*(source.rpartition("/")[2] for source in sources), own]
    paths = [*(f"../{source}" for source in sources), own]
    script = filled(
        "prove.sby", name=properties.name, files=" ".join(names), paths="\n".join(paths)
    )
    return {f"formal/{own}": properties.text, f"formal/{properties.name}.sby": script}


def _properties(
    top: str, kind: str, ports: Sequence[Port], channels: Mapping[str, str], counted: str
) -> Properties:
    """Properties of a module.

    Args:
        top: the module.
        kind: what they are of.
        ports: of the module.
        channels: for each beginning of a channel's ports whether that what it offers stays is to
            `assume`, of the one around, or to `assert`, of the circuit.
        counted: Verilog of what holds besides.
    """
    body = ""
    for prefix, verb in channels.items():
        valid, ready = ends = f"{prefix}valid", f"{prefix}ready"
        others = [(n, b) for n, _, b in ports if n.startswith(prefix) and n not in ends]
        body += filled(
            "kept.v",
            side=prefix.removesuffix("_t"),
            verb=verb,
            valid=valid,
            ready=ready,
            payload=", ".join(name for name, _ in others),
            high=sum(bits for _, bits in others) - 1,
        )
    name, every = f"{top}_{kind}", ", ".join(f".{n}({n})" for n, _, _ in ports)
    text = filled("properties.v", top=top, name=name, ports=ports, all=every, body=body + counted)
    return Properties(name, text)
