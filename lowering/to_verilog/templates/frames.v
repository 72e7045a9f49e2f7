<% macro bits(count) %><|[1, (count - 1).bit_length()]|max|><% endmacro %>

  // Frames are counted: none is invented, and none is lost while nobody waits.
  localparam WORDS_IN = <of.words_in>, WORDS_OUT = <of.words_out>;  // of a frame
  localparam LATENCY = <of.latency>, INTERVAL = <of.interval>;
  reg [<|bits(of.words_in)|>-1:0] word_in = 0;
  reg [<|bits(of.words_out)|>-1:0] word_out = 0;
  reg [<|bits(of.latency + of.interval + 2)|>-1:0] still = 0;
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
<% if of.staged %>
    if (m_axis_tvalid) assert (<|"!m_axis_tlast || word_out == WORDS_OUT - 1" if of.word else "m_axis_tlast == (word_out == WORDS_OUT - 1)"|>);
<% endif %>
<% if of.loads %>
    if (load_part) assert (!s_axis_tready);
<% endif %>
  end
