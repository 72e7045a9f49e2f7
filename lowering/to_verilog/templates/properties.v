<% macro declared(port) %><|"[%d:0] " % (port[2] - 1) if port[2] > 1|><|port[0]|><% endmacro %>
// What holds at the ports of <top>: `bind <top> <name> checks (.*);`, or see <name>_harness.
module <name> (
<% for port in ports %>
  input wire <|declared(port)|><|"," if not loop.last|>
<% endfor %>
);
`ifdef FORMAL
  reg [1:0] started = 0;
  always @(posedge aclk) started <= {started[0], 1'b1};
  always @* assume (aresetn == started[1]);  // two cycles of reset
<body>`endif
endmodule

module <name>_harness (
<% for port in ports if port[1] %>
  input wire <|declared(port)|><|"," if not loop.last|>
<% endfor %>
);
<% for port in ports if not port[1] %>
  wire <|declared(port)|>;
<% endfor %>
  <top> circuit (<all>);
  <name> checks (<all>);
endmodule
