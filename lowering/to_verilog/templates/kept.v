
  // What <side> offers stays as it is until it is taken.
  reg <side>_waits = 0;
  reg [<high>:0] <side>_before = 0;
  wire [<high>:0] <side>_now = {<payload>};
  always @(posedge aclk) begin
    <side>_waits <= aresetn && <valid> && !<ready>;
    <side>_before <= <side>_now;
  end
  always @* if (aresetn && <side>_waits) begin
    <verb> (<valid>);
`ifndef CONTROL_ALONE
    <verb> (<side>_now == <side>_before);
`endif
  end
