"""What a circuit costs and how fast it may run, without synthesis; and which devices there are.

Not here: the circuit (`to_verilog.circuit`), files for tools (`lowering.to_verilog`).
"""
