// ROM of <memory.depth> words of <memory.width> bits, in logic; a word comes one cycle after its address.
module <name> (
  input wire clock,
  input wire enable,
  input wire <address>address,
  <register_style>output reg <word>data
);
  always @(posedge clock)
    if (enable)
      <case_style>case (address)
<% for word in memory.contents %>
        <|"default" if loop.last else "%d'd%d" % (memory.address_width, loop.index0)|>: data <= <memory.width>'h<|"%x" % word|>;
<% endfor %>
      endcase
endmodule
