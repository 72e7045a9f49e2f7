<% if device.family == "7-series" %>
<% set system = "processing_system7" %>
<% set rule = '-config {make_external "FIXED_IO, DDR" apply_board_preset "1"}' %>
<% set properties = "CONFIG.PCW_USE_S_AXI_HP0 1 CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $mhz" %>
<% set clock, reset = "FCLK_CLK0", "FCLK_RESET0_N" %>
<% set control, control_clock = "M_AXI_GP0", "M_AXI_GP0_ACLK" %>
<% set memory, memory_clock = "S_AXI_HP0", "S_AXI_HP0_ACLK" %>
<% else %>
<% set system = "zynq_ultra_ps_e" %>
<% set rule = '-config {apply_board_preset "1"}' %>
<% set properties = "CONFIG.PSU__USE__S_AXI_GP2 1 CONFIG.PSU__USE__M_AXI_GP0 1 CONFIG.PSU__USE__M_AXI_GP1 0 CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $mhz" %>
<% set clock, reset = "pl_clk0", "pl_resetn0" %>
<% set control, control_clock = "M_AXI_HPM0_FPD", "maxihpm0_fpd_aclk" %>
<% set memory, memory_clock = "S_AXI_HP0_FPD", "saxihp0_fpd_aclk" %>
<% endif %>
# vivado -mode batch -source ip/block_design.tcl, in the folder of report.json: a processor, a DMA
# and the network, up to a bitstream and <name>.hwh for PYNQ. Arguments: part, board part.
set part [expr {$argc > 0 ? [lindex $argv 0] : "<part>"}]
set mhz <mhz>
create_project <name>_board build/<name>_board -part $part -force
if {$argc > 1} { set_property board_part [lindex $argv 1] [current_project] }
set_property ip_repo_paths [list [pwd]] [current_project]
update_ip_catalog
create_bd_design <name>_design
create_bd_cell -type ip -vlnv xilinx.com:ip:<system> system
if {$argc > 1} {
  apply_bd_automation -rule xilinx.com:bd_rule:<system> \
    <rule> [get_bd_cells system]
}
set_property -dict [list <properties>] [get_bd_cells system]
create_bd_cell -type ip -vlnv <vlnv> network
create_bd_cell -type ip -vlnv xilinx.com:ip:axi_dma dma
set_property -dict [list CONFIG.c_include_sg 0 CONFIG.c_sg_length_width 26 \
  CONFIG.c_m_axis_mm2s_tdata_width <width> CONFIG.c_s_axis_s2mm_tdata_width <width> \
  CONFIG.c_m_axi_mm2s_data_width <data_width> \
  CONFIG.c_m_axi_s2mm_data_width <data_width>] [get_bd_cells dma]
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset resets
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control
set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI 2] [get_bd_cells control]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory
set_property -dict [list CONFIG.NUM_SI 2 CONFIG.NUM_MI 1] [get_bd_cells memory]

connect_bd_intf_net [get_bd_intf_pins dma/M_AXIS_MM2S] [get_bd_intf_pins network/s_axis]
connect_bd_intf_net [get_bd_intf_pins network/m_axis] [get_bd_intf_pins dma/S_AXIS_S2MM]
connect_bd_intf_net [get_bd_intf_pins system/<control>] [get_bd_intf_pins control/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control/M00_AXI] [get_bd_intf_pins dma/S_AXI_LITE]
connect_bd_intf_net [get_bd_intf_pins control/M01_AXI] [get_bd_intf_pins network/s_axi]
connect_bd_intf_net [get_bd_intf_pins dma/M_AXI_MM2S] [get_bd_intf_pins memory/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins dma/M_AXI_S2MM] [get_bd_intf_pins memory/S01_AXI]
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [get_bd_intf_pins system/<memory>]

set clock [get_bd_pins system/<clock>]
connect_bd_net $clock [get_bd_pins system/<control_clock>] [get_bd_pins system/<memory_clock>] \
  [get_bd_pins resets/slowest_sync_clk] [get_bd_pins control/aclk] [get_bd_pins memory/aclk] \
  [get_bd_pins network/aclk] [get_bd_pins dma/s_axi_lite_aclk] \
  [get_bd_pins dma/m_axi_mm2s_aclk] [get_bd_pins dma/m_axi_s2mm_aclk]
connect_bd_net [get_bd_pins system/<reset>] [get_bd_pins resets/ext_reset_in]
connect_bd_net [get_bd_pins resets/peripheral_aresetn] [get_bd_pins control/aresetn] \
  [get_bd_pins memory/aresetn] [get_bd_pins network/aresetn] [get_bd_pins dma/axi_resetn]
assign_bd_address
validate_bd_design
save_bd_design

make_wrapper -files [get_files <name>_design.bd] -top -import
set_property top <name>_design_wrapper [current_fileset]
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_runs impl_1
file copy -force [lindex [glob build/<name>_board/*.runs/impl_1/*.bit] 0] <name>.bit
file copy -force [lindex [glob build/<name>_board/*.gen/sources_1/bd/*/hw_handoff/*.hwh] 0] \
  <name>.hwh
