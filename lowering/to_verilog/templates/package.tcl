# vivado -mode batch -source ip/package.tcl, in the folder of report.json: lets Vivado check and
# renew component.xml. The folder is an IP repository without that too.
create_project -in_memory -part <part>
add_files -norecurse [list <sources>]
set_property top <top> [current_fileset]
ipx::open_ipxact_file component.xml
set core [ipx::current_core]
set_property display_name "<name>" $core
set_property supported_families {zynq Production zynquplus Production artix7 Production} $core
ipx::update_checksums $core
ipx::check_integrity $core
ipx::save_core $core
