// RAM of <depth> words of <width> bits<begins>; a word comes one cycle after its address, the
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
  <style>reg <word>words [0:<last>];
<initial>  always @(posedge clock) begin
    if (write_enable) words[write_address] <= write_data;
    if (read_enable) read_data <= words[read_address];
  end
endmodule
