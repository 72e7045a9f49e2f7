"""A test bench that checks itself: vectors in, results against those of the interpreter.

The first half of the vectors goes through without waiting, which shows the latency; then sender and
receiver wait at random.
"""

from __future__ import annotations

from collections.abc import Sequence

from .interface import Interface

TEMPLATE = """\
// Test of {name}: sends {beats} vectors and compares the results. Prints PASS or FAIL.
module {name}_tb;
  localparam BEATS = {beats};
  localparam LATENCY = {latency};

  reg aclk, aresetn;
  reg [{in_top}:0] s_axis_tdata;
  reg s_axis_tvalid, s_axis_tlast, m_axis_tready;
  wire s_axis_tready, m_axis_tvalid, m_axis_tlast;
  wire [{out_top}:0] m_axis_tdata;

  {name} dut (
    .aclk(aclk), .aresetn(aresetn),
    .s_axis_tdata(s_axis_tdata), .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_axis_tready), .s_axis_tlast(s_axis_tlast),
    .m_axis_tdata(m_axis_tdata), .m_axis_tvalid(m_axis_tvalid),
    .m_axis_tready(m_axis_tready), .m_axis_tlast(m_axis_tlast)
  );

  reg [{in_top}:0] inputs [0:BEATS-1];
  reg [{out_top}:0] expected [0:BEATS-1];
  reg [15:0] random;
  integer sent, received, errors, cycle, first_in, first_out, results;

  initial begin
    $readmemh("{name}_inputs.mem", inputs);
    $readmemh("{name}_expected.mem", expected);
    results = $fopen("{name}_results.mem");
    aclk = 0; aresetn = 0; random = 16'hace1;
    s_axis_tdata = 0; s_axis_tvalid = 0; s_axis_tlast = 0; m_axis_tready = 0;
    sent = 0; received = 0; errors = 0; cycle = 0; first_in = -1; first_out = -1;
    #42 aresetn = 1;
  end

  always #5 aclk = ~aclk;

  always @(posedge aclk) begin
    cycle <= cycle + 1;
    random <= {{random[14:0], random[15] ^ random[13] ^ random[12] ^ random[10]}};
    if (aresetn) begin
      if (!s_axis_tvalid || s_axis_tready) begin
        if (sent < BEATS && (sent < BEATS / 2 || random[0])) begin
          s_axis_tvalid <= 1;
          s_axis_tdata <= inputs[sent];
          s_axis_tlast <= sent == BEATS - 1;
          sent <= sent + 1;
        end else
          s_axis_tvalid <= 0;
      end
      m_axis_tready <= received < BEATS / 2 || random[3];
      if (s_axis_tvalid && s_axis_tready && first_in < 0) first_in = cycle;
      if (m_axis_tvalid && m_axis_tready) begin
        if (first_out < 0) first_out = cycle;
        $fdisplay(results, "%h", m_axis_tdata);
        if (m_axis_tdata !== expected[received]) begin
          errors = errors + 1;
          $display("vector %0d: got %h, expected %h", received, m_axis_tdata, expected[received]);
        end
        if (m_axis_tlast !== (received == BEATS - 1)) begin
          errors = errors + 1;
          $display("vector %0d: tlast is %b", received, m_axis_tlast);
        end
        received <= received + 1;
        if (received == BEATS - 1) begin
          if (first_out - first_in != LATENCY) begin
            errors = errors + 1;
            $display("latency is %0d, expected %0d", first_out - first_in, LATENCY);
          end
          if (errors == 0) $display("PASS: %0d vectors, latency %0d", BEATS, LATENCY);
          else $display("FAIL: %0d errors", errors);
          $fclose(results);
          $finish;
        end
      end
      if (cycle > 1000 + LATENCY + 40 * BEATS) begin
        $display("FAIL: only %0d of %0d results came", received, BEATS);
        $finish;
      end
    end
  end
endmodule
"""


def testbench(interface: Interface, beats: int) -> str:
    """The test bench for so many vectors, in the files NAME_inputs.mem and NAME_expected.mem."""
    return TEMPLATE.format(
        name=interface.name,
        beats=beats,
        latency=interface.latency,
        in_top=interface.input_width - 1,
        out_top=interface.output_width - 1,
    )


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
        f"{name}_tb.v": testbench(interface, len(inputs)),
        f"{name}_inputs.mem": memory(inputs, interface.input_width),
        f"{name}_expected.mem": memory(expected, interface.output_width),
    }
