
  // Frames are counted: none is invented, and none is lost while nobody waits.
  localparam WORDS_IN = <words_in>, WORDS_OUT = <words_out>;  // of a frame
  localparam LATENCY = <latency>, INTERVAL = <interval>;
  reg [<in_bits>-1:0] word_in = 0;
  reg [<out_bits>-1:0] word_out = 0;
  reg [<wait_bits>-1:0] still = 0;
  reg [7:0] inside = 0;
  wire takes = s_axis_tvalid && s_axis_tready;
  wire leaves = m_axis_tvalid && m_axis_tready;
  wire came = takes && word_in == WORDS_IN - 1;
  wire left = leaves && word_out == WORDS_OUT - 1;
  wire waits = inside != 0 && word_in == 0 && !s_axis_tvalid && m_axis_tready && !leaves;
  always @(posedge aclk) if (aresetn) begin
    if (takes) word_in <= came ? 0 : word_in + 1;
    if (leaves) word_out <= left ? 0 : word_out + 1;
    if (came != left) inside <= came ? inside + 1 : inside - 1;
    still <= waits ? still + 1 : 0;
  end
  always @* if (aresetn) begin
    if (m_axis_tvalid) assert (inside != 0 || word_in != 0);
    assert (still <= LATENCY + INTERVAL);
<marks>  end
