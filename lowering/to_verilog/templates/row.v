
`ifndef TRITON_BITS
`ifdef TRITON_CARRY8
`define TRITON_BITS 8
`elsif TRITON_CARRY4
`define TRITON_BITS 4
`endif
`endif

/* verilator lint_off DECLFILENAME */
// Look-up tables of six inputs and two outputs before a carry chain. y: the sums, the last carry,
// and the last site's second output.
module <name> #(
  parameter SITES = 1,
  parameter [64*SITES-1:0] TABLES = 0,
  parameter [SITES-1:0] DIRECT = 0,
  parameter [SITES-1:0] LINKED = 0,
  parameter CHAIN = 1
) (
  input wire [6*SITES-1:0] x,
  input wire c,
  output wire [SITES+1:0] y
);
  wire [SITES-1:0] propagated, generated;
  genvar k;
  generate
    for (k = 0; k < SITES; k = k + 1) begin : site
      wire [5:0] i;
      wire second, lower;
      if (k == 0) begin : first
        assign lower = 1'b0;
      end else begin : link
        assign lower = site[k-1].second;
      end
      assign i[3:0] = x[6*k +: 4];
      assign i[4] = (LINKED[k] && DIRECT[k]) ? lower : x[6*k+4];
      assign i[5] = (LINKED[k] && !DIRECT[k]) ? lower : x[6*k+5];
`ifdef TRITON_BITS
      LUT6_2 #(.INIT(TABLES[64*k +: 64])) lut (
        .I0(i[0]), .I1(i[1]), .I2(i[2]), .I3(i[3]), .I4(i[4]), .I5(i[5]),
        .O6(propagated[k]), .O5(second)
      );
`else
      wire [63:0] lut;
      assign lut = TABLES[64*k +: 64];
      assign propagated[k] = lut[i];
      assign second = lut[{1'b0, i[4:0]}];
`endif
      assign generated[k] = DIRECT[k] ? i[4] : second;
    end
  endgenerate
  assign y[SITES+1] = site[SITES-1].second;
`ifdef TRITON_BITS
  generate
    if (CHAIN) begin : chain
      wire [SITES+7:0] s, d, o;
      wire [SITES+8:0] carry;
      assign s = {8'b0, propagated};
      assign d = {8'b0, generated};
      assign carry[0] = c;
      for (k = 0; k < SITES; k = k + `TRITON_BITS) begin : block
`ifdef TRITON_CARRY8
        CARRY8 bits (
          .CI(carry[k]), .CI_TOP(1'b0), .S(s[k +: 8]), .DI(d[k +: 8]),
          .O(o[k +: 8]), .CO(carry[k+1 +: 8])
        );
`else
        CARRY4 bits (
          .CI(k == 0 ? 1'b0 : carry[k]), .CYINIT(k == 0 ? c : 1'b0),
          .S(s[k +: 4]), .DI(d[k +: 4]), .O(o[k +: 4]), .CO(carry[k+1 +: 4])
        );
`endif
      end
      assign y[SITES:0] = {carry[SITES], o[SITES-1:0]};
    end else begin : alone
      assign y[SITES:0] = {1'b0, propagated};
    end
  endgenerate
`else
  // The carry comes in at a place below, so that this is one adder.
  wire enters, unused;
  assign enters = c && CHAIN;
  assign {y[SITES:0], unused} =
    {1'b0, propagated ^ generated, enters} + {1'b0, generated, enters};
`endif
endmodule
