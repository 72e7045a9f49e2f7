<% set bits = (ticks - 1).bit_length() %>
<% set quiet = 22 * ticks %>
<% set low_bits = (quiet - 1).bit_length() %>
// Serial port around <name>: 8N1, <ticks> cycles a bit; a break resets
module <name>_serial (
  input  wire clk,
  input  wire rx,
  output wire tx
);
  reg rx_first, line;
  always @(posedge clk) {line, rx_first} <= {rx_first, rx};

  // A break: the line is low for more than two bytes. One cycle in which it is high ends it.
  reg reset;
  reg [<|low_bits - 1|>:0] low;
  wire broken = low == <low_bits>'d<|quiet - 1|>;
  always @(posedge clk) begin
    reset <= broken;
    low <= line ? <low_bits>'d0 : broken ? low : low + <low_bits>'d1;
  end

  // A byte that comes in: a start bit, eight of data and a stop bit, looked at in their middles.
  reg receives;
  reg [<|bits - 1|>:0] received_left;
  reg [3:0] received_bit;
  reg [7:0] received_byte;
  wire begins = !receives && !line;
  wire received_over = receives && received_left == <bits>'d0;
  wire at_start = received_bit == 4'd0;
  wire at_stop = received_bit == 4'd9;
  wire has_byte = received_over && at_stop && line;
  always @(posedge clk) begin
    received_left <= begins ? <bits>'d<|ticks // 2 - 1|>
      : received_over ? <bits>'d<|ticks - 1|> : received_left - <bits>'d1;
    if (begins || received_over) received_bit <= begins ? 4'd0 : received_bit + 4'd1;
    if (received_over && !at_start && !at_stop) received_byte <= {line, received_byte[7:1]};
    if (reset) receives <= 1'd0;
    else receives <= begins || receives && !(received_over && (at_stop || at_start && line));
  end

  wire in_ready, out_valid;
  wire [7:0] out_data;
  reg sends;
<% if loadable %>

  // The first byte after a break or a load says what follows: 1 a load, any other frames. A load
  // is answered by a byte when it is whole.
  reg loading, in_frames, part_before, load_answer;
  wire load_ready, load_part;
  wire chooses = has_byte && !loading && !in_frames;
  wire load_begins = chooses && received_byte == 8'd1;
  wire load_over = part_before && !load_part;
  always @(posedge clk)
    if (reset) {in_frames, loading, part_before, load_answer} <= 4'd0;
    else begin
      in_frames <= in_frames || chooses && !load_begins;
      loading <= load_begins || loading && !load_over;
      part_before <= load_part;
      load_answer <= load_over || load_answer && sends;
    end
  wire frame_byte = has_byte && in_frames;
  wire has_answer = out_valid || load_answer;
  wire [7:0] answer = load_answer ? 8'd<|loaded|> : out_data;
<% else %>
  wire frame_byte = has_byte;
  wire has_answer = out_valid;
  wire [7:0] answer = out_data;
<% endif %>

  // Nothing tells the sender to wait: a byte is lost that comes while the one before is not taken.
  reg waits;
  reg [7:0] word;
  always @(posedge clk) begin
    if (reset) waits <= 1'd0;
    else waits <= frame_byte || waits && !in_ready;
    if (frame_byte) word <= received_byte;
  end

  wire unused_last, unused_keep;
  <name> circuit_i (
    .aclk(clk), .aresetn(!reset),
    .s_axis_tdata(word), .s_axis_tvalid(waits), .s_axis_tready(in_ready),
    .s_axis_tlast(1'd1), .s_axis_tkeep(1'd1),
    .m_axis_tdata(out_data), .m_axis_tvalid(out_valid), .m_axis_tready(!sends),
    .m_axis_tlast(unused_last), .m_axis_tkeep(unused_keep)<| ',' if loadable |>
<% if loadable %>
    .load_data(received_byte), .load_valid(has_byte && loading), .load_restart(load_begins),
    .load_ready(load_ready), .load_part(load_part)
<% endif %>
  );

  // A byte that goes out.
  reg tx_line;
  reg [<|bits - 1|>:0] sent_left;
  reg [3:0] sent_bit;
  reg [9:0] sent_bits;
  wire send = !sends && has_answer;
  wire sent_over = sends && sent_left == <bits>'d0;
  always @(posedge clk) begin
    if (reset) {sends, tx_line} <= 2'd1;
    else begin
      sends <= send || sends && !(sent_over && sent_bit == 4'd9);
      tx_line <= !sends || sent_bits[0];
    end
    sent_left <= send || sent_over ? <bits>'d<|ticks - 1|> : sent_left - <bits>'d1;
    if (send || sent_over) begin
      sent_bit <= send ? 4'd0 : sent_bit + 4'd1;
      sent_bits <= send ? {1'd1, answer, 1'd0} : {1'd1, sent_bits[9:1]};
    end
  end
  assign tx = tx_line;

  wire unused = &{1'b0, unused_last, unused_keep<| ', load_ready' if loadable |>};
endmodule
