# Vivado, out of context: the clock; delays of ports are those of the design around.
create_clock -period <period> -name aclk [get_ports aclk]
set_property HD.CLK_SRC BUFGCTRL_X0Y0 [get_ports aclk]
