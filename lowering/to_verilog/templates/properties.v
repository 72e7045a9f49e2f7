// What holds at the ports of <top>: `bind <top> <name> checks (.*);`, or see <name>_harness.
module <name> (
<ports>
);
`ifdef FORMAL
  reg [1:0] started = 0;
  always @(posedge aclk) started <= {started[0], 1'b1};
  always @* assume (aresetn == started[1]);  // two cycles of reset
<body>`endif
endmodule

module <name>_harness (
<given>
);
<wires>  <top> circuit (<all>);
  <name> checks (<all>);
endmodule
