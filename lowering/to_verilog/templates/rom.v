// ROM of <memory.depth> words of <memory.width> bits; a word comes one cycle after its address.
module <name> (
  input wire clock,
  input wire enable,
  input wire <address>address,
  output reg <word>data
);
  <style>reg <word>words [0:<|memory.depth - 1|>];
  initial begin
<% for word in memory.contents %>
    words[<loop.index0>] = <memory.width>'h<|"%x" % word|>;
<% endfor %>
  end
  always @(posedge clock) if (enable) data <= words[address];
endmodule
