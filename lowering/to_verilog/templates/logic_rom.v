// ROM of <depth> words of <width> bits, in logic; a word comes one cycle after its address.
module <name> (
  input wire clock,
  input wire enable,
  input wire <address>address,
  <register_style>output reg <word>data
);
  always @(posedge clock)
    if (enable)
      <case_style>case (address)
<cases>
      endcase
endmodule
