"""A test for cocotb on the AXI models of `cocotbext-axi`: the same vectors as the test bench.

Not here: the vectors (`testbench`). The files need cocotb 2, `cocotbext-axi` and a simulator,
nothing of ours.
"""

from __future__ import annotations

from .circuit.interface import Interface
from .templates import filled


def cocotb_files(interface: Interface, *, registers: bool) -> dict[str, str]:
    """The test and its makefile, by name; they stand beside the files of vectors.

    Args:
        interface: of the circuit.
        registers: whether the module with AXI4-Lite registers is tested, with the circuit in it.
    """
    name = interface.name
    top = f"{name}_axi" if registers else name
    channels = {"m_axis_t": ["data", *(["keep"] if interface.word else []), "last"]}
    if registers:
        channels |= {"s_axi_b": ["resp"], "s_axi_r": ["data", "resp"]}
    test = filled("test.py.txt", of=interface, top=top, channels=channels, registers=registers)
    if registers:
        test += filled("test_registers.py.txt")
        test += filled("test_loads.py.txt") if interface.loads else ""
    return {f"test_{name}.py": test, "cocotb.mk": filled("cocotb.mk", name=name, top=top)}
