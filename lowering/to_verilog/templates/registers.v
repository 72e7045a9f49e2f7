// AXI4-Lite registers and AXI4-Streams around <name>
module <name>_axi (
  input  wire aclk,
  input  wire aresetn,
  input  wire [<|width - 1|>:0] s_axis_tdata,
  input  wire [<|width // 8 - 1|>:0] s_axis_tkeep,
  input  wire s_axis_tvalid,
  input  wire s_axis_tlast,
  input  wire m_axis_tready,
  input  wire [<|address_bits - 1|>:0] s_axi_awaddr,
  input  wire [2:0] s_axi_awprot,
  input  wire s_axi_awvalid,
  input  wire [31:0] s_axi_wdata,
  input  wire [3:0] s_axi_wstrb,
  input  wire s_axi_wvalid,
  input  wire s_axi_bready,
  input  wire [<|address_bits - 1|>:0] s_axi_araddr,
  input  wire [2:0] s_axi_arprot,
  input  wire s_axi_arvalid,
  input  wire s_axi_rready,
  output wire s_axis_tready,
  output wire [<|width - 1|>:0] m_axis_tdata,
  output wire [<|width // 8 - 1|>:0] m_axis_tkeep,
  output wire m_axis_tvalid,
  output wire m_axis_tlast,
  output wire s_axi_awready,
  output wire s_axi_wready,
  output wire [1:0] s_axi_bresp,
  output wire s_axi_bvalid,
  output wire s_axi_arready,
  output wire [31:0] s_axi_rdata,
  output wire [1:0] s_axi_rresp,
  output wire s_axi_rvalid
);
  localparam [<|address_bits - 3|>:0]
<% for register in registers %>
    <|register.name.upper()|> = <|address_bits - 2|>'d<|register.offset // 4|><| ';' if loop.last else ',' |>
<% endfor %>
  localparam [1:0] OKAY = 2'd0, SLVERR = 2'd2;  // the slave was reached, and has no such register

  // One transfer at a time each way; everything goes out from registers.
  reg writes, w_answers, reads, r_answers;
  always @(posedge aclk)
    if (!aresetn) {writes, w_answers, reads, r_answers} <= 4'd0;
    else begin
      writes <= s_axi_awvalid && s_axi_wvalid && !writes && !w_answers;
      w_answers <= writes || w_answers && !s_axi_bready;
      reads <= s_axi_arvalid && !reads && !r_answers;
      r_answers <= reads || r_answers && !s_axi_rready;
    end
  assign s_axi_awready = writes;
  assign s_axi_wready = writes;
  assign s_axi_bvalid = w_answers;
  assign s_axi_arready = reads;
  assign s_axi_rvalid = r_answers;

  reg run, again;
  wire [<|address_bits - 3|>:0] write_at = s_axi_awaddr[<|address_bits - 1|>:2];
  wire writes_control = writes && s_axi_wstrb[0] && write_at == CONTROL;
  wire cleared = !aresetn || writes_control && s_axi_wdata[1] || again;
  always @(posedge aclk)
    if (!aresetn) {again, run} <= 2'd1;
    else if (writes_control) {again, run} <= {s_axi_wdata[2], s_axi_wdata[0]};
<% if loads %>

  // A load: pieces are whole words of the bus, and refused while a frame is inside.
  reg [31:0] load_taken;
  wire load_ready, load_part;
  wire load_valid = writes && s_axi_wstrb == 4'd15 && write_at == LOAD_DATA;
  wire load_restart = writes && s_axi_wstrb[0] && write_at == LOAD;
  wire load_goes = load_valid && load_ready;
  wire load_begins = load_restart && load_ready;
  always @(posedge aclk)
    if (!aresetn || again || load_begins) load_taken <= 32'd0;
    else if (load_goes) load_taken <= load_taken + 32'd1;
<% endif %>

  wire circuit_ready;
  assign s_axis_tready = circuit_ready && run;
  <name> circuit_i (
    .aclk(aclk), .aresetn(aresetn && !again),
    .s_axis_tdata(s_axis_tdata), .s_axis_tvalid(s_axis_tvalid && run),
    .s_axis_tready(circuit_ready), .s_axis_tlast(s_axis_tlast), .s_axis_tkeep(s_axis_tkeep),
    .m_axis_tdata(m_axis_tdata), .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready),
    .m_axis_tlast(m_axis_tlast), .m_axis_tkeep(m_axis_tkeep)<| ',' if loads |>
<% if loads %>
    .load_data(s_axi_wdata[<|loads.bits - 1|>:0]), .load_valid(load_valid),
    .load_restart(load_restart), .load_ready(load_ready), .load_part(load_part)
<% endif %>
  );

  wire takes = s_axis_tvalid && s_axis_tready;
  wire leaves = m_axis_tvalid && m_axis_tready;
<% for way, count, step in (("in", words_in, "takes"), ("out", words_out, "leaves")) %>
<% if count == 1 %>
  wire last_<way> = 1'd1;
<% else %>
<% set bits = (count - 1).bit_length() %>
  reg [<|bits - 1|>:0] word_<way>;
  wire last_<way> = word_<way> == <bits>'d<|count - 1|>;
  always @(posedge aclk)
    if (cleared) word_<way> <= <bits>'d0;
    else if (<step>) word_<way> <= last_<way> ? <bits>'d0 : word_<way> + <bits>'d1;
<% endif %>
  reg [31:0] frames_<way>;
  always @(posedge aclk)
    if (cleared) frames_<way> <= 32'd0;
    else if (<step> && last_<way>) frames_<way> <= frames_<way> + 32'd1;
<% endfor %>

  reg busy, misplaced;
  reg [31:0] cycles;
  always @(posedge aclk)
    if (cleared) begin
      {busy, misplaced} <= 2'd0;
      cycles <= 32'd0;
    end else begin
      busy <= <| '|word_in || ' if words_in > 1 |>frames_in != frames_out;
      misplaced <= misplaced || takes && s_axis_tlast && !last_in;
      if (busy) cycles <= cycles + 32'd1;
    end

  reg [1:0] bresp, rresp;
  reg [31:0] rdata;
  wire known = write_at == CONTROL<| ' || load_goes || load_begins' if loads |>;
  always @(posedge aclk) begin
    if (writes) bresp <= known ? OKAY : SLVERR;
    if (reads) begin
      rresp <= OKAY;
      case (s_axi_araddr[<|address_bits - 1|>:2])
        VERSION: rdata <= 32'd<version>;
        CONTROL: rdata <= {29'd0, again, 1'd0, run};
        STATUS: rdata <= {29'd0, <| 'load_part' if loads else "1'd0" |>, misplaced, busy};
        CYCLES: rdata <= cycles;
        FRAMES_IN: rdata <= frames_in;
        FRAMES_OUT: rdata <= frames_out;
        WORDS_IN: rdata <= 32'd<words_in>;
        WORDS_OUT: rdata <= 32'd<words_out>;
<% if loads %>
        LOAD: rdata <= load_taken;
        LOAD_DATA: rdata <= 32'd0;
        LOAD_PIECES: rdata <= 32'd<loads.pieces>;
        LAYOUT: rdata <= 32'h<layout>;
<% endif %>
        default: begin
          rdata <= 32'd0;
          rresp <= SLVERR;
        end
      endcase
    end
  end
  assign s_axi_bresp = bresp;
  assign s_axi_rdata = rdata;
  assign s_axi_rresp = rresp;

  wire unused = &{
    1'b0, s_axi_awaddr[1:0], s_axi_awprot, s_axi_araddr[1:0], s_axi_arprot, s_axi_wdata, s_axi_wstrb
  };
endmodule
