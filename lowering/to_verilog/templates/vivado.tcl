# vivado -mode batch -source vivado.tcl: synthesis, placement and routing, out of context.
set part [expr {$argc > 0 ? [lindex $argv 0] : "<part>"}]
file mkdir build
read_verilog [list <sources>]
read_xdc -mode out_of_context constraints/<name>.xdc
set_property verilog_define <macro> [current_fileset]
synth_design -top <name> -part $part -mode out_of_context -flatten_hierarchy rebuilt
write_checkpoint -force build/<name>_synth.dcp
report_utilization -file build/utilization_synth.txt
opt_design
place_design
phys_opt_design
route_design
write_checkpoint -force build/<name>.dcp
report_utilization -hierarchical -file build/utilization.txt
report_timing_summary -file build/timing.txt
set slack [get_property SLACK [get_timing_paths -max_paths 1 -setup]]
puts [format "<name>: %.1f MHz" [expr {1000.0 / (<period> - $slack)}]]
