"""A test for cocotb on the AXI models of `cocotbext-axi`: the same vectors as the test bench.

Not here: the vectors (`testbench`). The files need cocotb 2, `cocotbext-axi` and a simulator,
nothing of ours.
"""

from __future__ import annotations

from .interface import Interface

_BENCH = '''\
"""{top} in cocotb, on the AXI models of cocotbext-axi: frames, packets, protocol, registers.

make -f cocotb.mk      needs cocotb 2, cocotbext-axi and Icarus Verilog; SIM=verilator for Verilator
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
WORDS = {{"inputs": {of.words_in}, "expected": {of.words_out}}}  # of a frame
BYTES = {{"inputs": {bytes_in}, "expected": {bytes_out}}}  # of a word
LAST = {last}  # bytes of the last word of a packet
CHANNELS = {channels}


def frames(side):
    """The bytes of each frame of a file of vectors."""
    lines = (HERE / f"{name}_{{side}}.mem").read_text().split()
    data = b"".join(int(line, 16).to_bytes(BYTES[side], "little") for line in lines)
    size = WORDS[side] * BYTES[side]
    return [data[start : start + size] for start in range(0, len(data), size)]


async def checked(dut, name):
    """What AXI asks of a sender: what it offers stays as it is until it is taken."""
    handles = [getattr(dut, name + signal) for signal in CHANNELS[name]]
    valid, ready = getattr(dut, f"{{name}}valid"), getattr(dut, f"{{name}}ready")
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
        sides = [AxiStreamBus.from_prefix(dut, name) for name in ("s_axis", "m_axis")]
        sizes = [{{}} if hasattr(bus, "tkeep") else {{"byte_size": 8}} for bus in sides]
        self.source = AxiStreamSource(sides[0], **given, **sizes[0])
        self.sink = AxiStreamSink(sides[1], **given, **sizes[1])
        self.models = [self.source, self.sink]{registers}
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

    def wait_at_random(self, models, pace):
        rng = random.Random(1)
        for model in models:
            model.set_pause_generator(iter(lambda: rng.random() >= pace, None))

    async def packets(self, sizes):
        """Send so many frames a packet, and compare the packets of results."""
        inputs, expected = frames("inputs"), frames("expected")
        start = 0
        for size in sizes:
            await self.source.send(AxiStreamFrame(b"".join(inputs[start : start + size])))
            start += size
        start = 0
        for size in sizes:
            packet = await self.sink.recv()
            wanted = b"".join(expected[start : start + size])
            wanted = wanted[: len(wanted) - BYTES["expected"] + LAST]
            assert bytes(packet.tdata) == wanted, f"packet of frames {{start}} to {{start + size}}"
            start += size
        return start
'''
_STREAM_TESTS = """

@cocotb.test()
async def nobody_waits(dut):
    bench = Bench(dut)
    await bench.reset()
    await bench.packets([1] * len(frames("inputs")))


@cocotb.test()
async def both_wait(dut):
    bench = Bench(dut)
    await bench.reset()
    bench.wait_at_random(bench.models, 0.5)
    await bench.packets([1] * len(frames("inputs")))


@cocotb.test()
async def the_receiver_is_slow(dut):
    bench = Bench(dut)
    await bench.reset()
    bench.wait_at_random([bench.sink], 0.2)
    await bench.packets([1] * len(frames("inputs")))
"""

_BUS = """
        self.bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), **given)
        self.models += [self.bus.write_if.b_channel, self.bus.read_if.r_channel]"""

_REGISTERS = """

sys.path.insert(0, str(HERE.parent / "host"))
from circuit_driver import find  # noqa: E402

OFFSETS = {entry["name"]: entry["offset"] for entry in find("registers.json")}

"""

_REGISTER_TESTS = """
@cocotb.test()
async def registers_count(dut):
    bench = Bench(dut)
    await bench.reset()
    assert await bench.read("words_in") == WORDS["inputs"]
    assert await bench.read("words_out") == WORDS["expected"]
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
async def both_wait_at_registers(dut):
    bench = Bench(dut)
    await bench.reset()
    bench.wait_at_random(bench.models, 0.5)
    task = cocotb.start_soon(bench.packets([2, 1, 1]))
    for _ in range(20):
        assert await bench.read("words_out") == WORDS["expected"]
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
    if WORDS["inputs"] == 1:
        return
    bench = Bench(dut)
    await bench.reset()
    await bench.source.send(AxiStreamFrame(bytes(BYTES["inputs"])))
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
"""


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


_MAKEFILE = """\
# make -f cocotb.mk: the test in test_{name}.py by cocotb 2; SIM=verilator for Verilator.
SIM ?= icarus
TOPLEVEL_LANG = verilog
VERILOG_SOURCES = $(wildcard $(CURDIR)/../rtl/*.v $(CURDIR)/../ip/*.v)
COCOTB_TOPLEVEL = {top}
COCOTB_TEST_MODULES = test_{name}

include $(shell cocotb-config --makefiles)/Makefile.sim
"""

_NO_LOAD = """
        for port in (dut.load_data, dut.load_valid, dut.load_restart):
            port.value = 0"""


def cocotb_files(interface: Interface, *, registers: bool) -> dict[str, str]:
    """The test and its makefile, by name; they stand beside the files of vectors.

    Args:
        interface: of the circuit.
        registers: whether the module with AXI4-Lite registers is tested, with the circuit in it.
    """
    name, framing = interface.name, interface.framing_out
    top = f"{name}_axi" if registers else name
    keep = [] if framing is None else ["keep"]
    channels = {"m_axis_t": ["data", *keep, "last"]}
    if registers:
        channels |= {"s_axi_b": ["resp"], "s_axi_r": ["data", "resp"]}
    setting = _BUS if registers else _NO_LOAD if interface.loads else ""
    test = _BENCH.format(
        top=top,
        name=name,
        of=interface,
        bytes_in=interface.input_width // 8,
        bytes_out=interface.output_width // 8,
        last=framing.last_bytes if framing else interface.output_width // 8,
        channels=channels,
        registers=setting,
    )
    test += _STREAM_TESTS
    if registers:
        test += _REGISTERS + _REGISTER_TESTS.lstrip("\n") + (_LOAD_TEST if interface.loads else "")
    return {f"test_{name}.py": test, "cocotb.mk": _MAKEFILE.format(name=name, top=top)}
