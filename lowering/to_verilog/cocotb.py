"""A test for cocotb on the AXI models of `cocotbext-axi`: the same vectors as the test bench.

Not here: the vectors (`testbench`). The files need cocotb 2, `cocotbext-axi` and a simulator,
nothing of ours.
"""

from __future__ import annotations

from .interface import Interface
from .templates import filled

_BUS = """
        self.bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), **given)
        self.models += [self.bus.write_if.b_channel, self.bus.read_if.r_channel]"""

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
    test = filled(
        "test.py.txt",
        top=top,
        name=name,
        words_in=interface.words_in,
        words_out=interface.words_out,
        bytes_in=interface.input_width // 8,
        bytes_out=interface.output_width // 8,
        last=framing.last_bytes if framing else interface.output_width // 8,
        channels=channels,
        registers=setting,
    )
    if registers:
        test += filled("test_registers.py.txt")
        test += filled("test_loads.py.txt") if interface.loads else ""
    return {f"test_{name}.py": test, "cocotb.mk": filled("cocotb.mk", name=name, top=top)}
