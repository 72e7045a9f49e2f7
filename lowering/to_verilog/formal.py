"""Properties of a circuit's ports, for provers: modules to bind, harnesses, scripts of SymbiYosys.

What AXI asks of a sender is assumed of the one around a circuit and asserted of the circuit itself;
frames are counted: none is invented, and none is lost while nobody waits. Assertions are immediate
ones of SystemVerilog, which Yosys reads; a harness has the circuit beside its properties, for tools
without `bind`. Not here: how they are proved (`runtime.verilog_properties`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .interface import Interface

Port = tuple[str, bool, int]
"""Name, whether it is an input, bits."""

STREAMS = "streams"
"""What the properties of the streams are called by, in the names of modules and files."""

_MODULE = """\
// What holds at the ports of {top}: `bind {top} {name} checks (.*);`, or see {name}_harness.
module {name} (
{ports}
);
`ifdef FORMAL
  reg [1:0] started = 0;
  always @(posedge aclk) started <= {{started[0], 1'b1}};
  always @* assume (aresetn == started[1]);  // two cycles of reset
{body}`endif
endmodule

module {name}_harness (
{given}
);
{wires}  {top} circuit ({all});
  {name} checks ({all});
endmodule
"""

_KEPT = """
  // What {side} offers stays as it is until it is taken.
  reg {side}_waits = 0;
  reg [{high}:0] {side}_before = 0;
  wire [{high}:0] {side}_now = {{{payload}}};
  always @(posedge aclk) begin
    {side}_waits <= aresetn && {valid} && !{ready};
    {side}_before <= {side}_now;
  end
  always @* if (aresetn && {side}_waits) begin
    {verb} ({valid});
`ifndef CONTROL_ALONE
    {verb} ({side}_now == {side}_before);
`endif
  end
"""

_FRAMES = """
  // Frames are counted: none is invented, and none is lost while nobody waits.
  localparam WORDS_IN = {of.words_in}, WORDS_OUT = {of.words_out};  // of a frame
  localparam LATENCY = {of.latency}, INTERVAL = {of.interval};
  reg [{in_bits}-1:0] word_in = 0;
  reg [{out_bits}-1:0] word_out = 0;
  reg [{wait_bits}-1:0] still = 0;
  reg [7:0] inside = 0;
  wire takes = s_axis_tvalid && s_axis_tready;
  wire leaves = m_axis_tvalid && m_axis_tready;
  wire came = takes && word_in == WORDS_IN - 1;
  wire left = leaves && word_out == WORDS_OUT - 1;
  wire waits = inside != 0 && word_in == 0 && !s_axis_tvalid && m_axis_tready && !leaves;
  always @(posedge aclk) if (aresetn) begin
    if (takes) word_in <= came ? 0 : word_in + 1;
    if (leaves) word_out <= left ? 0 : word_out + 1;
    if (came != left) inside <= came ? inside + 1 : inside - 1;
    still <= waits ? still + 1 : 0;
  end
  always @* if (aresetn) begin
    if (m_axis_tvalid) assert (inside != 0 || word_in != 0);
    assert (still <= LATENCY + INTERVAL);
{marks}  end
"""

_LITE = """
  // Each request has one answer, and has it soon.
  reg [2:0] addresses = 0, words = 0, reads = 0, write_waits = 0, read_waits = 0;
  wire writes = s_axi_bvalid && s_axi_bready, answers = s_axi_rvalid && s_axi_rready;
  wire to_write = s_axi_awvalid && s_axi_wvalid && !s_axi_awready && s_axi_bready;
  wire to_read = s_axi_arvalid && !s_axi_arready && s_axi_rready;
  always @(posedge aclk) if (aresetn) begin
    addresses <= addresses + (s_axi_awvalid && s_axi_awready) - writes;
    words <= words + (s_axi_wvalid && s_axi_wready) - writes;
    reads <= reads + (s_axi_arvalid && s_axi_arready) - answers;
    write_waits <= to_write ? write_waits + 1 : 0;
    read_waits <= to_read ? read_waits + 1 : 0;
  end
  always @* if (aresetn) begin
    if (s_axi_bvalid) assert (addresses != 0 && words != 0);
    if (s_axi_rvalid) assert (reads != 0);
    assert (write_waits <= {most} && read_waits <= {most});
  end
"""

_MOST_STILL = 3
"""Cycles that a request on AXI4-Lite waits at most while no answer waits."""

_SBY = """\
# sby -f {name}.sby: by SymbiYosys; 'abc pdr' proves for all time, 'smtbmc' so many cycles.
[options]
mode prove

[engines]
abc pdr

[script]
read -formal {files}
prep -top {name}_harness

[files]
{paths}
"""


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
    marks = ""
    if interface.staged:
        last = "word_out == WORDS_OUT - 1"
        rule = f"!m_axis_tlast || {last}" if interface.word else f"m_axis_tlast == ({last})"
        marks = f"    if (m_axis_tvalid) assert ({rule});\n"
    if interface.loads:
        marks += "    if (load_part) assert (!s_axis_tready);\n"
    frames = _FRAMES.format(
        of=interface,
        in_bits=_bits(interface.words_in),
        out_bits=_bits(interface.words_out),
        wait_bits=_bits(interface.latency + interface.interval + 2),
        marks=marks,
    )
    return _properties(interface.name, STREAMS, ports, [*kept, frames])


def register_properties(top: str, ports: Sequence[Port]) -> Properties:
    """Those of the AXI4-Lite of a module with registers."""
    channels = [("aw", "assume"), ("w", "assume"), ("ar", "assume"), ("b", "assert"),
                ("r", "assert")]  # fmt: skip
    kept = [
        _kept(f"s_axi_{channel}", verb, f"s_axi_{channel}", ports) for channel, verb in channels
    ]
    return _properties(top, "registers", ports, [*kept, _LITE.format(most=_MOST_STILL)])


def formal_files(properties: Properties, sources: Sequence[str]) -> dict[str, str]:
    """The properties and a script of SymbiYosys, by name in the folder.

    Args:
        properties: of a module.
        sources: of the circuit, relative to the folder.
    """
    own = f"{properties.name}.v"
    names = [*(source.rpartition("/")[2] for source in sources), own]
    paths = [*(f"../{source}" for source in sources), own]
    script = _SBY.format(name=properties.name, files=" ".join(names), paths="\n".join(paths))
    return {f"formal/{own}": properties.text, f"formal/{properties.name}.sby": script}


def _bits(count: int) -> int:
    return max(1, (count - 1).bit_length())


def _kept(side: str, verb: str, prefix: str, ports: Sequence[Port]) -> str:
    """That what a channel offers stays, assumed of the one around or asserted of the circuit."""
    valid, ready = f"{prefix}valid", f"{prefix}ready"
    others = [
        (name, bits)
        for name, _, bits in ports
        if name.startswith(prefix) and name not in (valid, ready)
    ]
    return _KEPT.format(
        side=side,
        verb=verb,
        valid=valid,
        ready=ready,
        payload=", ".join(name for name, _ in others),
        high=sum(bits for _, bits in others) - 1,
    )


def _properties(top: str, kind: str, ports: Sequence[Port], body: Sequence[str]) -> Properties:
    def declared(word: str, names: Sequence[Port]) -> list[str]:
        return [f"  {word} {'' if b == 1 else f'[{b - 1}:0] '}{n}" for n, _, b in names]

    name = f"{top}_{kind}"
    outputs = [port for port in ports if not port[1]]
    text = _MODULE.format(
        top=top,
        name=name,
        ports=",\n".join(declared("input wire", ports)),
        given=",\n".join(declared("input wire", [port for port in ports if port[1]])),
        wires="".join(f"{line};\n" for line in declared("wire", outputs)),
        all=", ".join(f".{n}({n})" for n, _, _ in ports),
        body="".join(body),
    )
    return Properties(name, text)
