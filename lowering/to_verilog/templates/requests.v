
  // Each request has one answer, and has it soon.
  reg [2:0] addresses = 0, words = 0, reads = 0, write_waits = 0, read_waits = 0;
  wire writes = s_axi_bvalid && s_axi_bready, answers = s_axi_rvalid && s_axi_rready;
  wire to_write = s_axi_awvalid && s_axi_wvalid && !s_axi_awready && s_axi_bready;
  wire to_read = s_axi_arvalid && !s_axi_arready && s_axi_rready;
  always @(posedge aclk) if (aresetn) begin
    addresses <= addresses + (s_axi_awvalid && s_axi_awready) - writes;
    words <= words + (s_axi_wvalid && s_axi_wready) - writes;
    reads <= reads + (s_axi_arvalid && s_axi_arready) - answers;
    write_waits <= to_write ? write_waits + 1 : 0;
    read_waits <= to_read ? read_waits + 1 : 0;
  end
  always @* if (aresetn) begin
    if (s_axi_bvalid) assert (addresses != 0 && words != 0);
    if (s_axi_rvalid) assert (reads != 0);
    assert (write_waits <= <most> && read_waits <= <most>);
  end
