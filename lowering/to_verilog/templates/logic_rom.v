// ROM of <memory.depth> words of <memory.width> bits, in logic; a word comes one cycle after its address.
<% if tables %>

`ifdef TRITON_CARRY8
`define TRITON_TABLES
`elsif TRITON_CARRY4
`define TRITON_TABLES
`endif
<% endif %>
module <name> (
  input wire clock,
  input wire enable,
  input wire <address>address,
  <register_style>output reg <word>data
);
<% if tables %>
`ifdef TRITON_TABLES
  wire [<|tables | length - 1|>:0] t;
<% for table in tables %>
  <table>
<% endfor %>
  always @(posedge clock)
    if (enable)
      data <= {<|bits | join(", ")|>};
`else
<% endif %>
  always @(posedge clock)
    if (enable)
      <case_style>case (address)
<% for word in memory.contents %>
        <|"default" if loop.last else "%d'd%d" % (memory.address_width, loop.index0)|>: data <= <memory.width>'h<|"%x" % word|>;
<% endfor %>
      endcase
<% if tables %>
`endif
<% endif %>
endmodule
