# make -f cocotb.mk: the test in test_<name>.py by cocotb 2; SIM=verilator for Verilator.
SIM ?= icarus
TOPLEVEL_LANG = verilog
VERILOG_SOURCES = $(wildcard $(CURDIR)/../rtl/*.v $(CURDIR)/../ip/*.v)
COCOTB_TOPLEVEL = <top>
COCOTB_TEST_MODULES = test_<name>

include $(shell cocotb-config --makefiles)/Makefile.sim
