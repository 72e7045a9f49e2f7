"""The target `verilog`: a program as synthesisable Verilog-2001, with a test bench and a report.

`printer` writes modules of `hw`, `comb` and `seq`, `expressions` the right sides, `interface` reads
what goes in and out, `vectors` packs numbers for simulation, `testbench` writes the test, `report`
the sizes, `target` puts the files together. Not here: how a program becomes a circuit
(`passes.convert_ternary_to_hw`), and running simulators (`runtime`).
"""
