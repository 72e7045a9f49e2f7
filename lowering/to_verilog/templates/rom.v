// ROM of <depth> words of <width> bits; a word comes one cycle after its address.
module <name> (
  input wire clock,
  input wire enable,
  input wire <address>address,
  output reg <word>data
);
  <style>reg <word>words [0:<last>];
  initial begin
<contents>
  end
  always @(posedge clock) if (enable) data <= words[address];
endmodule
