"""A test bench that checks itself: frames in, results against those of the interpreter.

The first half of the frames goes through without waiting, which shows the latency and the interval
from frame to frame; then sender and receiver wait at random. A vector is a frame of one beat.
"""

from __future__ import annotations

from collections.abc import Sequence

from .circuit.framing import Framing
from .interface import Interface

TEMPLATE = """\
// Test of {of.name}: sends {frames} frames and compares the results. Prints PASS or FAIL.
module {of.name}_tb;
  localparam FRAMES = {frames};
  localparam FREE = {free};  // frames that nobody waits in
  localparam SHOWN = {shown};  // frames until the interval is looked at
  localparam IN = {of.words_in};  // beats of a frame
  localparam OUT = {of.words_out};
  localparam LATENCY = {of.latency};
  localparam INTERVAL = {of.interval};

  reg aclk, aresetn;
  reg [{in_top}:0] s_axis_tdata;
  reg s_axis_tvalid, s_axis_tlast, m_axis_tready;
  wire s_axis_tready, m_axis_tvalid, m_axis_tlast;
  wire [{out_top}:0] m_axis_tdata;
{keep_wire}
  {of.name} dut (
    .aclk(aclk), .aresetn(aresetn),
    .s_axis_tdata(s_axis_tdata), .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_axis_tready), .s_axis_tlast(s_axis_tlast),
    .m_axis_tdata(m_axis_tdata), .m_axis_tvalid(m_axis_tvalid),
    .m_axis_tready(m_axis_tready), .m_axis_tlast(m_axis_tlast){keep_ports}{load_ports}
  );

  reg [{in_top}:0] inputs [0:FRAMES*IN-1];
  reg [{out_top}:0] expected [0:FRAMES*OUT-1];
  reg [15:0] random;
  integer sent, received, errors, cycle, quiet, first_in, first_out, earlier, results;

  initial begin
    $readmemh("{of.name}_inputs.mem", inputs);
    $readmemh("{of.name}_expected.mem", expected);
    results = $fopen("{of.name}_results.mem");
    aclk = 0; aresetn = 0; random = 16'hace1;
    s_axis_tdata = 0; s_axis_tvalid = 0; s_axis_tlast = 0; m_axis_tready = 0;
    sent = 0; received = 0; errors = 0; cycle = 0; quiet = 0;
    first_in = -1; first_out = -1; earlier = -1;
    #42 aresetn = 1;
  end

  always #5 aclk = ~aclk;

  always @(posedge aclk) begin
    cycle <= cycle + 1;
    quiet <= m_axis_tvalid && m_axis_tready ? 0 : quiet + 1;
    random <= {{random[14:0], random[15] ^ random[13] ^ random[12] ^ random[10]}};
    if (aresetn) begin
      if (!s_axis_tvalid || s_axis_tready) begin
        if (sent < FRAMES * IN && (sent < FREE * IN || random[0])) begin
          s_axis_tvalid <= 1;
          s_axis_tdata <= inputs[sent];
          s_axis_tlast <= {sent_last};
          sent <= sent + 1;
        end else
          s_axis_tvalid <= 0;
      end
      m_axis_tready <= received < FREE * OUT || random[3];
      if (s_axis_tvalid && s_axis_tready && first_in < 0) first_in = cycle;
      if (m_axis_tvalid && m_axis_tready) begin
        if (received == OUT - 1) first_out = cycle;
        if (received % OUT == OUT - 1) begin
          if ({steady} && received == SHOWN * OUT - 1 && cycle - earlier != INTERVAL) begin
            errors = errors + 1;
            $display("interval is %0d, expected %0d", cycle - earlier, INTERVAL);
          end
          earlier = cycle;
        end
        $fdisplay(results, "{digits}", {result});
        if (m_axis_tdata !== expected[received]) begin
          errors = errors + 1;
          $display("beat %0d: got {digits}, expected {digits}", received, {result}, {wanted});
        end
        if (m_axis_tlast !== ({received_last})) begin
          errors = errors + 1;
          $display("beat %0d: tlast is %b", received, m_axis_tlast);
        end
{keep_check}        received <= received + 1;
        if (received == FRAMES * OUT - 1) begin
          if (first_out - first_in != LATENCY) begin
            errors = errors + 1;
            $display("latency is %0d, expected %0d", first_out - first_in, LATENCY);
          end
          if (errors == 0) $display("PASS: %0d frames, latency %0d", FRAMES, LATENCY);
          else $display("FAIL: %0d errors", errors);
          $fclose(results);
          $finish;
        end
      end
      if (quiet > 1000 + LATENCY + 40 * (INTERVAL + OUT)) begin
        $display("FAIL: only %0d of %0d beats came", received, FRAMES * OUT);
        $finish;
      end
    end
  end
endmodule
"""


_NO_LOAD = """,
    .load_data({}'d0), .load_valid(1'b0), .load_restart(1'b0), .load_ready(), .load_part()"""

_SHOWN = 8192
"""Bits that Verilator shows of one argument."""

_STEADY = 4
"""So many frames without waiting, and those within the latency, show the interval."""


def testbench(interface: Interface, frames: int) -> str:
    """The test bench for so many frames, in the files NAME_inputs.mem and NAME_expected.mem.

    A network of stages marks the last beat of every frame; a single circuit passes the sender's
    mark on, which stands on the last vector here.
    """
    free = max(2, frames // 2)
    # Later results leave together with frames that the sender waits with.
    late = max(1, interface.latency // interface.interval) if interface.staged else 1
    shown = max(1, free - late)
    keep = _keep_texts(interface.framing_out)
    results, wanted = (
        _parts(signal, interface.output_width) for signal in ("m_axis_tdata", "expected[received]")
    )
    return TEMPLATE.format(
        **keep,
        digits="%h" * len(results),
        result=", ".join(results),
        wanted=", ".join(wanted),
        load_ports=_NO_LOAD.format(interface.loads) if interface.loads else "",
        of=interface,
        frames=frames,
        in_top=interface.input_width - 1,
        out_top=interface.output_width - 1,
        free=free,
        shown=shown,
        steady=int(shown >= _STEADY - 1),
        sent_last="sent % IN == IN - 1" if interface.staged else "sent == FRAMES * IN - 1",
        received_last="received % OUT == OUT - 1"
        if interface.staged
        else "received == FRAMES * OUT - 1",
    )


def _keep_texts(framing: Framing | None) -> dict[str, str]:
    """What the test bench says of the bytes in words, by the places in its text."""
    if framing is None:
        return dict.fromkeys(("keep_ports", "keep_check", "keep_wire"), "")
    lanes = framing.width // 8
    every, last = (1 << lanes) - 1, (1 << framing.last_bytes) - 1
    return {
        "keep_ports": f",\n    .s_axis_tkeep({{{lanes}{{1'b1}}}}), .m_axis_tkeep(m_axis_tkeep)",
        "keep_wire": f"  wire [{lanes - 1}:0] m_axis_tkeep;\n",
        "keep_check": f"""\
        if (m_axis_tkeep !==
            (received % OUT == OUT - 1 ? {lanes}'h{last:x} : {lanes}'h{every:x})) begin
          errors = errors + 1;
          $display("beat %0d: tkeep is %b", received, m_axis_tkeep);
        end
""",
    }


def _parts(signal: str, width: int) -> list[str]:
    """A signal in parts that are shown one after the other, the highest bits first."""
    if width <= _SHOWN:
        return [signal]
    starts = reversed(range(0, width, _SHOWN))
    return [f"{signal}[{min(start + _SHOWN, width) - 1}:{start}]" for start in starts]


def memory(words: Sequence[int], bits: int) -> str:
    """Words as a file for `$readmemh`."""
    digits = -(-bits // 4)
    return "".join(f"{word:0{digits}x}\n" for word in words)


def vector_files(
    interface: Interface, inputs: Sequence[int], expected: Sequence[int]
) -> dict[str, str]:
    """The test bench and its two files of vectors, by name."""
    name = interface.name
    return {
        f"{name}_tb.v": testbench(interface, len(inputs) // interface.words_in),
        f"{name}_inputs.mem": memory(inputs, interface.input_width),
        f"{name}_expected.mem": memory(expected, interface.output_width),
    }
