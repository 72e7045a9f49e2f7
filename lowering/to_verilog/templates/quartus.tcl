# quartus_sh -t quartus.tcl [FAMILY [DEVICE]]: all ports are virtual pins.
package require ::quartus::project
package require ::quartus::flow
set family [expr {[llength $quartus(args)] > 0 ? [lindex $quartus(args) 0] : "Cyclone V"}]
set device [expr {[llength $quartus(args)] > 1 ? [lindex $quartus(args) 1] : "AUTO"}]
project_new <name> -overwrite
set_global_assignment -name FAMILY $family
set_global_assignment -name DEVICE $device
set_global_assignment -name TOP_LEVEL_ENTITY <name>
set_global_assignment -name PROJECT_OUTPUT_DIRECTORY build
<% for source in files %>
set_global_assignment -name VERILOG_FILE <source>
<% endfor %>
set_global_assignment -name SDC_FILE constraints/<name>.sdc
foreach port {aresetn s_axis_* m_axis_*} {
  set_instance_assignment -name VIRTUAL_PIN ON -to $port
}
execute_flow -compile
project_close
