<% set keep = of.framing_out %>
<% set lanes = keep.width // 8 if keep else 0 %>
// Test of <of.name>: sends <frames> frames and compares the results. Prints PASS or FAIL.
module <of.name>_tb;
  localparam FRAMES = <frames>;
  localparam FREE = <free>;  // frames that nobody waits in
  localparam SHOWN = <shown>;  // frames until the interval is looked at
  localparam IN = <of.words_in>;  // beats of a frame
  localparam OUT = <of.words_out>;
  localparam LATENCY = <of.latency>;
  localparam INTERVAL = <of.interval>;

  reg aclk, aresetn;
  reg [<|of.input_width - 1|>:0] s_axis_tdata;
  reg s_axis_tvalid, s_axis_tlast, m_axis_tready;
  wire s_axis_tready, m_axis_tvalid, m_axis_tlast;
  wire [<|of.output_width - 1|>:0] m_axis_tdata;
<% if keep %>
  wire [<|lanes - 1|>:0] m_axis_tkeep;
<% endif %>

  <of.name> dut (
    .aclk(aclk), .aresetn(aresetn),
    .s_axis_tdata(s_axis_tdata), .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_axis_tready), .s_axis_tlast(s_axis_tlast),
    .m_axis_tdata(m_axis_tdata), .m_axis_tvalid(m_axis_tvalid),
    .m_axis_tready(m_axis_tready), .m_axis_tlast(m_axis_tlast)<| "," if keep |>
<% if keep %>
    .s_axis_tkeep({<lanes>{1'b1}}), .m_axis_tkeep(m_axis_tkeep)<| "," if of.loads |>
<% endif %>
<% if of.loads %>
    .load_data(<of.loads>'d0), .load_valid(1'b0), .load_restart(1'b0), .load_ready(), .load_part()
<% endif %>
  );

  reg [<|of.input_width - 1|>:0] inputs [0:FRAMES*IN-1];
  reg [<|of.output_width - 1|>:0] expected [0:FRAMES*OUT-1];
  reg [15:0] random;
  integer sent, received, errors, cycle, quiet, first_in, first_out, earlier, results;

  initial begin
    $readmemh("<of.name>_inputs.mem", inputs);
    $readmemh("<of.name>_expected.mem", expected);
    results = $fopen("<of.name>_results.mem");
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
    random <= {random[14:0], random[15] ^ random[13] ^ random[12] ^ random[10]};
    if (aresetn) begin
      if (!s_axis_tvalid || s_axis_tready) begin
        if (sent < FRAMES * IN && (sent < FREE * IN || random[0])) begin
          s_axis_tvalid <= 1;
          s_axis_tdata <= inputs[sent];
          s_axis_tlast <= <|"sent % IN == IN - 1" if of.staged else "sent == FRAMES * IN - 1"|>;
          sent <= sent + 1;
        end else
          s_axis_tvalid <= 0;
      end
      m_axis_tready <= received < FREE * OUT || random[3];
      if (s_axis_tvalid && s_axis_tready && first_in < 0) first_in = cycle;
      if (m_axis_tvalid && m_axis_tready) begin
        if (received == OUT - 1) first_out = cycle;
        if (received % OUT == OUT - 1) begin
          if (<steady> && received == SHOWN * OUT - 1 && cycle - earlier != INTERVAL) begin
            errors = errors + 1;
            $display("interval is %0d, expected %0d", cycle - earlier, INTERVAL);
          end
          earlier = cycle;
        end
        $fdisplay(results, "<digits>", <result>);
        if (m_axis_tdata !== expected[received]) begin
          errors = errors + 1;
          $display("beat %0d: got <digits>, expected <digits>", received, <result>, <wanted>);
        end
        if (m_axis_tlast !== (<|"received % OUT == OUT - 1" if of.staged else "received == FRAMES * OUT - 1"|>)) begin
          errors = errors + 1;
          $display("beat %0d: tlast is %b", received, m_axis_tlast);
        end
<% if keep %>
        if (m_axis_tkeep !==
            (received % OUT == OUT - 1 ? <lanes>'h<|"%x" % (2 ** keep.last_bytes - 1)|> : <lanes>'h<|"%x" % (2 ** lanes - 1)|>)) begin
          errors = errors + 1;
          $display("beat %0d: tkeep is %b", received, m_axis_tkeep);
        end
<% endif %>
        received <= received + 1;
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
