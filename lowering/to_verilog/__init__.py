"""The target `verilog`: a program as synthesisable Verilog-2001, with a test bench and a report.

`circuit` makes a program a circuit, `estimate` counts its LUTs and delays. `printer` writes modules
of `hw`, `comb` and `seq`, `expressions` the right sides, `interface` reads what goes in and out and
packs numbers for simulation, `testbench` writes the test, `report` the sizes, `target` puts the
files together, `simulation` runs a program on them. Texts of files that depend on the circuit in a
few words alone stand in `templates`. Not here: running simulators (`runtime`).
"""
