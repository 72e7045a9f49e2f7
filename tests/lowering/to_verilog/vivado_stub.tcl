# Vivado's commands as UG835 and UG1118 have them: each takes the options listed, and no other. Pins
# and properties of cells are those of PG021 (axi_dma), PG164 (proc_sys_reset), PG247 (smartconnect),
# PG082 (processing_system7) and PG201 (zynq_ultra_ps_e). tclsh vivado_stub.tcl SCRIPT [ARGUMENTS]
proc fail {text} { puts stderr "stub: $text"; exit 1 }
proc checked {name flags values most given} {
  # Options without and with a value, and the most further arguments; those are returned.
  set rest {}
  for {set i 0} {$i < [llength $given]} {incr i} {
    set word [lindex $given $i]
    if {[string match -* $word] && ![string is double -strict $word]} {
      if {$word in $flags} continue
      if {$word in $values} { incr i; continue }
      fail "$name has no option $word"
    }
    lappend rest $word
  }
  if {[llength $rest] > $most} { fail "$name takes at most $most arguments, got $rest" }
  puts "$name $given"
  return $rest
}
proc command {name flags values most {result {}}} {
  proc $name args "checked $name [list $flags] [list $values] $most \$args; return [list $result]"
}
command create_project {-force -in_memory -ip -quiet -verbose} {-part} 2 project
command add_files {-norecurse -copy_to -force -quiet} {-fileset -scan_for_includes} 1
command current_fileset {-constrset -simset -blockset -quiet} {} 1 sources_1
command current_project {-quiet} {} 1 project
command update_ip_catalog {-rebuild -quiet} {-add_ip -delete_ip -repo_path} 0
command create_bd_design {-quiet -boundary_type} {-dir -cell} 1
command apply_bd_automation {-quiet} {-rule -config -dict} 1
command assign_bd_address {-boundary -external -import_from_file} {-target_address_space -offset -range} 1
command validate_bd_design {-force -quiet} {-design -include_pfm} 1
command save_bd_design {-quiet} {} 1
command get_files {-quiet -all} {-of_objects -filter -compile_order -used_in} 1 design.bd
command make_wrapper {-top -testbench -inst_template -fileset -import -force} {-files} 0
command launch_runs {-force -scripts_only -pre_launch_script} {-jobs -to_step -dir -next_step} 1
command wait_on_runs {} {-timeout} 1
command read_verilog {-sv -quiet} {-library} 1
command read_xdc {-quiet_diff -unmanaged -no_add -quiet} {-cells -ref -mode} 1
command synth_design {-rtl -no_lc -quiet} {-name -part -constrset -top -include_dirs -generic
  -verilog_define -flatten_hierarchy -directive -bufg -fanout_limit -shreg_min_size -mode} 0
command write_checkpoint {-force -quiet} {-cell} 1
command report_utilization {-append -hierarchical -return_string -quiet} {-file -cells -hierarchical_depth} 0
foreach step {opt_design place_design phys_opt_design route_design} { command $step {-quiet} {-directive} 0 }
command report_timing_summary {-setup -hold -append -quiet} {-file -max_paths -nworst -delay_type} 0
command get_timing_paths {-setup -hold -quiet} {-max_paths -nworst -from -to -delay_type} 0 path
command get_property {-min -max -quiet} {} 2 0.5
namespace eval ipx {}
command ipx::open_ipxact_file {} {} 1
command ipx::current_core {} {} 0 core
command ipx::update_checksums {} {} 1
command ipx::check_integrity {-quiet -xrt} {-kernel} 1
command ipx::save_core {} {} 1
proc create_bd_cell args {
  checked create_bd_cell {-quiet} {-type -vlnv -reference} 1 $args
  set ::cells([lindex $args end]) [dict get [lrange $args 0 end-1] -vlnv]
}
set axi {S00_AXI S01_AXI M00_AXI M01_AXI}
array set interfaces [list \
  axi_dma {M_AXIS_MM2S S_AXIS_S2MM S_AXI_LITE M_AXI_MM2S M_AXI_S2MM} \
  smartconnect $axi processing_system7 {M_AXI_GP0 S_AXI_HP0} \
  zynq_ultra_ps_e {M_AXI_HPM0_FPD S_AXI_HP0_FPD} proc_sys_reset {}]
array set pins {
  axi_dma {s_axi_lite_aclk m_axi_mm2s_aclk m_axi_s2mm_aclk axi_resetn}
  smartconnect {aclk aresetn} proc_sys_reset {slowest_sync_clk ext_reset_in peripheral_aresetn}
  processing_system7 {FCLK_CLK0 FCLK_RESET0_N M_AXI_GP0_ACLK S_AXI_HP0_ACLK}
  zynq_ultra_ps_e {pl_clk0 pl_resetn0 maxihpm0_fpd_aclk saxihp0_fpd_aclk}
}
array set settings {
  axi_dma {c_include_sg c_sg_length_width c_m_axis_mm2s_tdata_width c_s_axis_s2mm_tdata_width
    c_m_axi_mm2s_data_width c_m_axi_s2mm_data_width}
  smartconnect {NUM_SI NUM_MI}
  processing_system7 {PCW_USE_S_AXI_HP0 PCW_FPGA0_PERIPHERAL_FREQMHZ}
  zynq_ultra_ps_e {PSU__USE__S_AXI_GP2 PSU__USE__M_AXI_GP0 PSU__USE__M_AXI_GP1
    PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ}
}
proc kind {cell} {
  if {![info exists ::cells($cell)]} { fail "there is no cell $cell" }
  return [lindex [split $::cells($cell) :] 2]
}
proc get_bd_cells args { set n [checked get_bd_cells {-quiet} {-of_objects} 1 $args]; kind $n; return $n }
proc pin {name table args} {
  set path [checked $name {-quiet} {-of_objects -filter} 1 $args]
  lassign [split $path /] cell port
  upvar #0 $table known
  if {$port ni $known([kind $cell])} { fail "[kind $cell] has no $port" }
  return $path
}
proc get_bd_pins args { pin get_bd_pins pins {*}$args }
proc get_bd_intf_pins args { pin get_bd_intf_pins interfaces {*}$args }
proc connect_bd_net args {
  foreach path [checked connect_bd_net {} {-net} 99 $args] { incr ::connected($path) }
}
proc connect_bd_intf_net args {
  foreach path [checked connect_bd_intf_net {} {-intf_net} 2 $args] {
    if {[incr ::connected($path)] > 1} { fail "$path is connected twice" }
  }
}
proc set_property args {
  set rest [checked set_property {-quiet} {-dict} 3 $args]
  if {[lindex $args 0] ne "-dict"} {
    set known {top verilog_define board_part ip_repo_paths display_name supported_families}
    if {[lindex $rest 0] ni $known} { fail "no property [lindex $rest 0]" }
    return
  }
  foreach {key value} [lindex $args 1] {
    set name [string range $key 7 end]
    if {![string match CONFIG.* $key] || $name ni $::settings([kind [lindex $args 2]])} {
      fail "[kind [lindex $args 2]] has no $key"
    }
    if {![string is integer -strict $value]} { fail "$key is $value" }
  }
}
rename file real_file
proc file {verb args} {
  if {$verb eq "copy"} { puts "file copy $args"; return }
  real_file $verb {*}$args
}
proc glob args { return [list [lindex $args end]] }
rename unknown real_unknown
proc unknown args { fail "there is no command [lindex $args 0]" }
set script [lindex $argv 0]
set argv [lrange $argv 1 end]
set argc [llength $argv]
if {[info exists env(NETWORK_CORE)]} {
  set interfaces($env(NETWORK_CORE)) {s_axis m_axis s_axi}
  set pins($env(NETWORK_CORE)) {aclk aresetn}
}
source $script
foreach name [array names cells] {
  foreach {table} {interfaces} {
    upvar #0 $table known
    foreach port $known([kind $name]) {
      if {[kind $name] in {axi_dma} && ![info exists connected($name/$port)]} {
        fail "$name/$port is not connected"
      }
    }
  }
}
puts DONE
