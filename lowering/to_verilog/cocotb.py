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
    dut.m_axis_tready.value = 0{no_load}
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

_NO_LOAD = """
    for port in (dut.load_data, dut.load_valid, dut.load_restart):
        port.value = 0"""

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
        no_load=_NO_LOAD if interface.loads else "",
    )
    return {
        f"test_{interface.name}.py": test,
        "cocotb.mk": _MAKEFILE.format(name=interface.name),
    }


_AXI_TEST = '''\
"""{name}_axi in cocotb, on the AXI models of cocotbext-axi: registers, packets, protocol.

make -f cocotb_axi.mk        needs cocotb 2, cocotbext-axi and Icarus Verilog
"""

import random
import sys
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from cocotbext.axi import (
    AxiLiteBus, AxiLiteMaster, AxiResp, AxiStreamBus, AxiStreamFrame, AxiStreamSink,
    AxiStreamSource,
)

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "host"))
from circuit_driver import find  # noqa: E402

WIDTH, WORDS_IN, WORDS_OUT, LAST = {width}, {words_in}, {words_out}, {last}
OFFSETS = {{entry["name"]: entry["offset"] for entry in find("registers.json")}}
CHANNELS = {{
    "m_axis": ("t", ("tdata", "tkeep", "tlast")),
    "s_axi_b": ("", ("resp",)),
    "s_axi_r": ("", ("data", "resp")),
}}


def frames(name, words):
    """The bytes of each frame of a file of vectors."""
    lines = [int(line, 16) for line in (HERE / name).read_text().split()]
    data = b"".join(word.to_bytes(WIDTH // 8, "little") for word in lines)
    size = words * WIDTH // 8
    return [data[start : start + size] for start in range(0, len(data), size)]


async def checked(dut, name):
    """What AXI asks of a sender: what it offers stays as it is until it is taken."""
    prefix, signals = CHANNELS[name]
    handles = [getattr(dut, f"{{name}}_{{s}}" if prefix else f"{{name}}{{s}}") for s in signals]
    valid = getattr(dut, f"{{name}}_{{prefix}}valid" if prefix else f"{{name}}valid")
    ready = getattr(dut, f"{{name}}_{{prefix}}ready" if prefix else f"{{name}}ready")
    offered = None
    while True:
        await FallingEdge(dut.aclk)
        if not int(dut.aresetn.value):
            offered = None
            continue
        now = [str(handle.value) for handle in handles]
        is_valid, is_ready = str(valid.value), str(ready.value)
        assert is_valid in "01" and is_ready in "01", f"{{name}}: a handshake is undefined"
        if offered is not None:
            assert is_valid == "1", f"{{name}}: valid fell before ready"
            assert now == offered, f"{{name}}: what was offered is another"
        offered = now if is_valid == "1" and is_ready == "0" else None


class Bench:
    """The circuit and its masters."""

    def __init__(self, dut):
        self.dut = dut
        cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
        given = dict(clock=dut.aclk, reset=dut.aresetn, reset_active_level=False)
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), **given)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), **given)
        self.bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), **given)
        for name in CHANNELS:
            cocotb.start_soon(checked(dut, name))

    async def reset(self):
        self.dut.aresetn.value = 0
        for _ in range(4):
            await RisingEdge(self.dut.aclk)
        self.dut.aresetn.value = 1
        await RisingEdge(self.dut.aclk)

    async def read(self, name):
        return await self.bus.read_dword(OFFSETS[name])

    def wait_at_random(self, seed, pace):
        rng = random.Random(seed)
        answers = self.bus.write_if.b_channel, self.bus.read_if.r_channel
        for model in (self.source, self.sink, *answers):
            model.set_pause_generator(iter(lambda: rng.random() >= pace, None))

    async def packets(self, sizes):
        """Send so many frames a packet, and compare the packets of results."""
        inputs = frames("{name}_inputs.mem", WORDS_IN)
        expected = frames("{name}_expected.mem", WORDS_OUT)
        start = 0
        for size in sizes:
            await self.source.send(AxiStreamFrame(b"".join(inputs[start : start + size])))
            start += size
        start = 0
        for size in sizes:
            packet = await self.sink.recv()
            wanted = b"".join(expected[start : start + size])
            wanted = wanted[: len(wanted) - WIDTH // 8 + LAST]
            assert bytes(packet.tdata) == wanted, f"packet of frames {{start}} to {{start + size}}"
            start += size
        return start


@cocotb.test()
async def registers_count(dut):
    bench = Bench(dut)
    await bench.reset()
    assert await bench.read("words_in") == WORDS_IN
    assert await bench.read("words_out") == WORDS_OUT
    count = await bench.packets([1, 2])
    assert await bench.read("frames_in") == count
    assert await bench.read("frames_out") == count
    cycles = await bench.read("cycles")
    assert cycles > 0
    assert await bench.read("cycles") == cycles, "it counts while the circuit is idle"
    assert await bench.read("status") == 0
    await bench.bus.write_dword(OFFSETS["control"], 3)
    assert await bench.read("frames_in") == 0 == await bench.read("cycles")
    assert await bench.read("control") == 1


@cocotb.test()
async def both_wait(dut):
    bench = Bench(dut)
    await bench.reset()
    bench.wait_at_random(1, 0.5)
    task = cocotb.start_soon(bench.packets([2, 1, 1]))
    for _ in range(20):
        assert await bench.read("words_out") == WORDS_OUT
        await bench.bus.write_dword(OFFSETS["control"], 1)
    await task
    assert await bench.read("frames_out") == 4


@cocotb.test()
async def it_stops_and_starts(dut):
    bench = Bench(dut)
    await bench.reset()
    await bench.bus.write_dword(OFFSETS["control"], 0)
    task = cocotb.start_soon(bench.packets([1, 1]))
    for _ in range(200):
        await RisingEdge(dut.aclk)
    assert await bench.read("frames_in") == 0
    await bench.bus.write_dword(OFFSETS["control"], 1)
    await task


@cocotb.test()
async def a_sender_out_of_step_is_told(dut):
    if WORDS_IN == 1:
        return
    bench = Bench(dut)
    await bench.reset()
    await bench.source.send(AxiStreamFrame(bytes(WIDTH // 8)))
    for _ in range(50):
        await RisingEdge(dut.aclk)
    assert await bench.read("status") == 3
    await bench.bus.write_dword(OFFSETS["control"], 5)
    await bench.bus.write_dword(OFFSETS["control"], 1)
    assert await bench.read("status") == 0
    await bench.packets([2])


@cocotb.test()
async def unknown_addresses_are_errors(dut):
    bench = Bench(dut)
    await bench.reset()
    assert (await bench.bus.read(0x3C, 4)).resp == AxiResp.SLVERR
    assert (await bench.bus.write(OFFSETS["status"], bytes(4))).resp == AxiResp.SLVERR
    assert (await bench.bus.write(OFFSETS["control"], b"\\1\\0\\0\\0")).resp == AxiResp.OKAY
'''


_LOAD_TEST = '''

async def load(bench):
    """The weights beside the driver, piece by piece, and no word of a frame before the last."""
    content, about = (HERE.parent / "host" / "weights.bin").read_bytes(), find("weights.json")
    size = about["piece_bits"] // 8
    assert await bench.read("load_pieces") == about["pieces"]
    assert await bench.read("layout") == int(about["layout"][:8], 16)
    await bench.bus.write_dword(OFFSETS["load"], 1)
    for start in range(0, len(content), size):
        piece = int.from_bytes(content[start : start + size], "little")
        await bench.bus.write_dword(OFFSETS["load_data"], piece)
    assert await bench.read("load") == about["pieces"]


@cocotb.test()
async def weights_are_loaded(dut):
    bench = Bench(dut)
    await bench.reset()
    await bench.bus.write_dword(OFFSETS["load"], 1)
    task = cocotb.start_soon(bench.packets([1, 2]))
    for _ in range(200):
        await RisingEdge(dut.aclk)
    assert await bench.read("frames_in") == 0, "a frame came in within a load"
    assert await bench.read("status") == 4
    await load(bench)
    await task
    assert await bench.read("status") == 0


@cocotb.test()
async def a_load_within_a_frame_is_refused(dut):
    bench = Bench(dut)
    await bench.reset()
    await load(bench)
    bench.sink.pause = True
    task = cocotb.start_soon(bench.packets([1]))
    while not await bench.read("status"):
        pass
    for register in ("load", "load_data"):
        assert (await bench.bus.write(OFFSETS[register], bytes(4))).resp == AxiResp.SLVERR
    bench.sink.pause = False
    await task
    part = await bench.bus.write(OFFSETS["load_data"], bytes(2))
    assert part.resp == AxiResp.SLVERR, "a piece in part was taken"
    assert await bench.read("load") == find("weights.json")["pieces"]
    await bench.packets([1])
'''


def axi_test_files(interface: Interface) -> dict[str, str]:
    """The test of an IP core on AXI models, by name; it takes the same vectors."""
    framing = interface.framing_out
    assert framing is not None
    name = f"{interface.name}_axi"
    test = _AXI_TEST.format(
        name=interface.name,
        width=interface.word,
        words_in=interface.words_in,
        words_out=interface.words_out,
        last=framing.last_bytes,
    )
    test += _LOAD_TEST if interface.loads else ""
    makefile = _MAKEFILE.format(name=name).replace("cocotb.mk", "cocotb_axi.mk")
    sources = "$(wildcard $(CURDIR)/../rtl/*.v)"
    return {
        f"test/test_{name}.py": test,
        "test/cocotb_axi.mk": makefile.replace(sources, f"{sources} $(CURDIR)/../ip/{name}.v"),
    }
