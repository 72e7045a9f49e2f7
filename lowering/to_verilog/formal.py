"""Properties of a circuit's ports, for provers: modules to bind, harnesses, scripts of SymbiYosys.

What AXI asks of a sender is assumed of the one around a circuit and asserted of the circuit itself;
frames are counted: none is invented, and none is lost while nobody waits. Assertions are immediate
ones of SystemVerilog, which Yosys reads; a harness has the circuit beside its properties, for tools
without `bind`. Not here: how they are proved (`runtime.verilog_properties`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .circuit.interface import Interface
from .templates import filled

Port = tuple[str, bool, int]
"""Name, whether it is an input, bits."""

STREAMS = "streams"
"""What the properties of the streams are called by, in the names of modules and files."""

_MOST_STILL = 3
"""Cycles that a request on AXI4-Lite waits at most while no answer waits."""


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
    kept = [
        _kept("s_axis", "assume", "s_axis_t", ports),
        _kept("m_axis", "assert", "m_axis_t", ports),
    ]
    frames = filled("frames.v", of=interface)
    return _properties(interface.name, STREAMS, ports, [*kept, frames])


def register_properties(top: str, ports: Sequence[Port]) -> Properties:
    """Those of the AXI4-Lite of a module with registers."""
    channels = [("aw", "assume"), ("w", "assume"), ("ar", "assume"), ("b", "assert"),
                ("r", "assert")]  # fmt: skip
    kept = [
        _kept(f"s_axi_{channel}", verb, f"s_axi_{channel}", ports) for channel, verb in channels
    ]
    return _properties(top, "registers", ports, [*kept, filled("requests.v", most=_MOST_STILL)])


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


def _kept(side: str, verb: str, prefix: str, ports: Sequence[Port]) -> str:
    """That what a channel offers stays, assumed of the one around or asserted of the circuit."""
    valid, ready = f"{prefix}valid", f"{prefix}ready"
    others = [
        (name, bits)
        for name, _, bits in ports
        if name.startswith(prefix) and name not in (valid, ready)
    ]
    return filled(
        "kept.v",
        side=side,
        verb=verb,
        valid=valid,
        ready=ready,
        payload=", ".join(name for name, _ in others),
        high=sum(bits for _, bits in others) - 1,
    )


def _properties(top: str, kind: str, ports: Sequence[Port], body: Sequence[str]) -> Properties:
    name = f"{top}_{kind}"
    text = filled(
        "properties.v",
        top=top,
        name=name,
        ports=ports,
        all=", ".join(f".{n}({n})" for n, _, _ in ports),
        body="".join(body),
    )
    return Properties(name, text)
