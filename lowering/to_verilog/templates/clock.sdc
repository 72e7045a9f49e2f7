create_clock -name aclk -period <period> [get_ports aclk]
derive_clock_uncertainty
set_false_path -from [get_ports {s_axis_* m_axis_tready aresetn}]
set_false_path -to [get_ports {m_axis_t* s_axis_tready}]
