"""A test for cocotb: the same vectors as the test bench, driven from Python.

Not here: the vectors (`testbench`). The files need cocotb 2 and a simulator, nothing of ours.
"""

from __future__ import annotations

from .interface import Interface

_TEST = '''\
"""{name} in cocotb: frames go in, results are compared, and both sides wait at random.

make -f cocotb.mk        needs cocotb 2 and Icarus Verilog; SIM=verilator for Verilator
"""

import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

HERE = Path(__file__).resolve().parent
BEATS_IN, BEATS_OUT = {beats_in}, {beats_out}  # of a frame


def words(name):
    return [int(line, 16) for line in (HERE / name).read_text().split()]


async def send(dut, frames, pace):
    rng = random.Random(1)
    for index, word in enumerate(frames):
        while rng.random() >= pace:
            await RisingEdge(dut.aclk)
        dut.s_axis_tdata.value = word
        dut.s_axis_tlast.value = int(index % BEATS_IN == BEATS_IN - 1)
        dut.s_axis_tvalid.value = 1
        await ReadOnly()
        while not int(dut.s_axis_tready.value):
            await RisingEdge(dut.aclk)
            await ReadOnly()
        await RisingEdge(dut.aclk)
        dut.s_axis_tvalid.value = 0


async def receive(dut, count, pace):
    rng = random.Random(2)
    taken = []
    while len(taken) < count:
        ready = int(rng.random() < pace)
        dut.m_axis_tready.value = ready
        await ReadOnly()
        if ready and int(dut.m_axis_tvalid.value):
            taken.append((int(dut.m_axis_tdata.value), int(dut.m_axis_tlast.value)))
        await RisingEdge(dut.aclk)
    dut.m_axis_tready.value = 0
    return taken


async def run(dut, send_pace, receive_pace):
    cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
    dut.aresetn.value = 0
    dut.s_axis_tvalid.value = 0
    dut.s_axis_tlast.value = 0
    dut.s_axis_tdata.value = 0
    dut.m_axis_tready.value = 0
    for _ in range(4):
        await RisingEdge(dut.aclk)
    dut.aresetn.value = 1
    await RisingEdge(dut.aclk)
    inputs, expected = words("{name}_inputs.mem"), words("{name}_expected.mem")
    cocotb.start_soon(send(dut, inputs, send_pace))
    taken = await receive(dut, len(expected), receive_pace)
    for beat, ((word, last), wanted) in enumerate(zip(taken, expected)):
        assert word == wanted, f"beat {{beat}}: got {{word:x}}, expected {{wanted:x}}"
        assert last == (beat % BEATS_OUT == BEATS_OUT - 1), f"beat {{beat}}: tlast is {{last}}"


@cocotb.test()
async def nobody_waits(dut):
    await run(dut, 1.0, 1.0)


@cocotb.test()
async def both_wait(dut):
    await run(dut, 0.5, 0.5)


@cocotb.test()
async def the_receiver_is_slow(dut):
    await run(dut, 1.0, 0.2)
'''

_MAKEFILE = """\
# make -f cocotb.mk: the test in test_{name}.py by cocotb 2; SIM=verilator for Verilator.
SIM ?= icarus
TOPLEVEL_LANG = verilog
VERILOG_SOURCES = $(wildcard $(CURDIR)/../rtl/*.v)
COCOTB_TOPLEVEL = {name}
COCOTB_TEST_MODULES = test_{name}

include $(shell cocotb-config --makefiles)/Makefile.sim
"""


def cocotb_files(interface: Interface) -> dict[str, str]:
    """The test and its makefile, by name; they stand beside the files of vectors."""
    test = _TEST.format(
        name=interface.name,
        beats_in=interface.words_in,
        beats_out=interface.words_out,
    )
    return {
        f"test_{interface.name}.py": test,
        "cocotb.mk": _MAKEFILE.format(name=interface.name),
    }
