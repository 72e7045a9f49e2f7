// RAM of <memory.depth> words of <memory.width> bits<|", which begin with those below" if memory.contents|>; a word comes one cycle after its address, the
// old one where it is written in that cycle.
module <name> (
  input wire clock,
  input wire write_enable,
  input wire <address>write_address,
  input wire <word>write_data,
  input wire read_enable,
  input wire <address>read_address,
  output reg <word>read_data
);
  <style>reg <word>words [0:<|memory.depth - 1|>];
<% if memory.contents %>
  initial begin
<% for word in memory.contents %>
    words[<loop.index0>] = <memory.width>'h<|"%x" % word|>;
<% endfor %>
  end
<% endif %>
  always @(posedge clock) begin
    if (write_enable) words[write_address] <= write_data;
    if (read_enable) read_data <= words[read_address];
  end
endmodule
