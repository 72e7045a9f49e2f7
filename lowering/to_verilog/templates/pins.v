<% set data_in, valid, last, ready = wide - 1, wide, wide + 1, wide + 2 %>
<% set data_out, lower, given = out - 1, out + 1, out + 2 %>
// <name> with few pins, to place and route it alone: its streams go through shift registers.
module <name>_pins (
  input  wire aclk,
  input  wire aresetn,
  input  wire serial_in,
  input  wire load,
  output wire serial_out
);
  reg [<ready>:0] taken;
  reg [<given>:0] given;
  wire [<data_out>:0] data;
  wire ready, valid, last;
  <name> circuit (
    .aclk(aclk),
    .aresetn(aresetn),
    .s_axis_tdata(taken[<data_in>:0]),
    .s_axis_tvalid(taken[<valid>]),
    .s_axis_tlast(taken[<last>]),
    .m_axis_tready(taken[<ready>]),
    .s_axis_tready(ready),
    .m_axis_tdata(data),
    .m_axis_tvalid(valid),
    .m_axis_tlast(last)
  );
  always @(posedge aclk) begin
    taken <= {taken[<last>:0], serial_in};
    given <= load ? {ready, valid, last, data} : {given[<lower>:0], 1'b0};
  end
  assign serial_out = given[<given>];
endmodule
