# make synth: size by Yosys; make test: simulation by Icarus Verilog.

.PHONY: synth test clean

YOSYS ?= yosys

synth: <sources>
	$(YOSYS) -l synth.log synth.ys

test:
	cd test && iverilog -o run <| files|map("replace", "rtl/", "../rtl/")|join(" ") |> <name>_tb.v && vvp run

<% if board %>
.PHONY: bitstream

<% for step in steps %>
<% set variable = step.tool.partition("-")[0].upper() %>
<% if step.tool != "yosys" %>
<variable> ?= <step.tool>

<% endif %>
<step.writes>: <|step.reads|join(" ")|>
	$(<variable>) <|step.arguments|join(" ")|>

<% endfor %>
bitstream: <|steps[-1].writes|>

<% elif kind %>
.PHONY: implement

NEXTPNR ?= nextpnr-<device.family>

<name>.json: <sources> synth.ys
	$(YOSYS) -q synth.ys

implement: <name>.json
	$(NEXTPNR) <|device.flags|join(" ")|> --json <name>.json --<kind> constraints/<name>.<kind> --<kind>-allow-unconstrained <| "--asc %s.asc" % name if kind == "pcf" else "--out-of-context --write %s_routed.json" % name |> --timing-allow-fail

<% if kind == "pcf" %>
<name>.bin: implement
	icepack <name>.asc <name>.bin

<% endif %>
<% elif device %>
.PHONY: implement

implement:
	vivado -mode batch -source vivado.tcl

<% endif %>
clean:
	rm -rf synth.log test/run<% if device %> build<% for file in (".json", "_routed.json", ".asc", ".bit", ".bin", ".config", "_placed.json") %> <name><file><% endfor %><% endif %>

