"""The options of the target `verilog`, and the device, board and tool that they name.

Not here: what is done with them (`stages`, `target`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.errors import OptionError
from ..options import TargetOptions, option
from .boards import Board, find_board
from .estimate.devices import Device, find_device
from .tools import ToolName


@dataclass(frozen=True)
class VerilogOptions(TargetOptions):
    """Options of the target `verilog`."""

    pipeline: int = option(1, "a register after so many levels of adders; 0 for none")
    input_bits: int | None = option(None, "bits of integer inputs; by default those of their type")
    cost: Literal["bits", "adders", "depth"] = option(
        "bits", "what to make small in products: bits of adders, adders, or levels"
    )
    max_depth: int | None = option(None, "the most levels of adders in a product")
    time_budget: float = option(1.0, "about how many seconds to search adders for a layer")
    vectors: int | None = option(
        None, "frames of the test bench; by default 64, of large images fewer"
    )
    seed: int = option(0, "of those vectors")
    fold: Literal["none", "auto"] | None = option(
        None, "choose cycles a layer; auto where target-fps or lut-budget is given"
    )
    target_fps: float | None = option(None, "frames a second that the circuit must take")
    lut_budget: int | None = option(None, "LUTs that the circuit may take, by the estimate")
    folding: str = option("", "forms of layers, as fc1:pe=8,simd=16;fc2:digit=2;fc3:unrolled")
    clock: float | None = option(
        None, "in MHz: of target-fps (100 where not given), and where registers are needed"
    )
    device: str | None = option(None, "what it must fit on, as xcvu9p; chooses the scripts")
    calibration: str | None = option(
        None,
        "samples of the inputs of a float network, which make it one of integers: .npy, .npz or "
        ".safetensors, by argument name",
    )
    bits: int | None = option(None, "of activations, with `calibration`: 2 to 8, by default 8")
    weight_bits: int | None = option(
        None, "of float weights, with `calibration`: 2 to 8, by default 8"
    )
    observer: Literal["minmax", "percentile", "entropy", "mse"] | None = option(
        None, "how ranges follow from `calibration`, by default minmax; see the pass `calibrate`"
    )
    precision: str | None = option(
        None, "other bits for layers, with `calibration`: conv1:bits=4,weights=3;fc:weights=6"
    )
    inputs: str | None = option(
        None,
        "what float inputs without a quantiser hold: NAME:TYPE*SCALE, several with `;` between; "
        "int2 to int8, uint1 to uint8 or bipolar",
    )
    timesteps: int | None = option(
        None, "steps of a sample, where a spiking program does not say how many"
    )
    stream_width: int | None = option(
        None, "bits of a word of the streams, 8 to 1024; by default a word is a beat"
    )
    tool: Literal["vivado", "quartus", "yosys", "lattice", "none"] | None = option(
        None, "whose attributes and forms of sums it has; by default that for the device"
    )
    board: str | None = option(
        None, "where it goes with a serial port: ulx3s-25, ulx3s-85, icebreaker, hx8k-breakout"
    )
    pins: str | None = option(None, "of a board: clk=PLACE,rx=PLACE,tx=PLACE,MHz=NUMBER")
    bitstream: bool = option(
        False, "make one by Yosys and nextpnr, with a serial port, for a board or a device"
    )
    reloadable: str | None = option(
        None, "folded layers whose weights can be loaded at run time: true, or fc1;fc2"
    )
    formal: bool = option(
        False, "properties of the ports for provers, as modules to bind, and SymbiYosys' scripts"
    )
    ip: bool = option(
        False, "an IP core with AXI4-Lite registers, for Vivado and PYNQ; words of 32 bits"
    )
    form: Literal["folder", "file"] | None = option(
        None, "a folder with test bench and report, or all modules in one file"
    )


def device_of(options: VerilogOptions) -> Device | None:
    board = board_of(options)
    if board is not None:
        return board.device
    return None if options.device is None else find_device(options.device)


def tool_for(options: VerilogOptions) -> ToolName:
    """Whose attributes and forms of sums the Verilog has.

    Raises:
        OptionError: they are words that the tools of the device refuse.
    """
    device = device_of(options)
    if options.tool == "quartus" and device is not None:
        raise OptionError(
            f"tool=quartus asks in words that no tool of '{device.name}' knows; leave it out"
        )
    if options.tool is not None:
        return options.tool
    of_amd = device is not None and device.family in ("ultrascale+", "7-series")
    return "vivado" if of_amd else "yosys"


def board_of(options: VerilogOptions) -> Board | None:
    """The board that a circuit goes on with a serial port, if any.

    Raises:
        OptionError: there is no such board, or other options contradict it.
    """
    if options.board is None and not options.bitstream:
        if options.pins is not None:
            raise OptionError("pins are those of a board: give bitstream=true or board=NAME too")
        return None
    if options.stream_width not in (None, 8):
        raise OptionError(
            f"a serial port has words of 8 bits, and stream-width={options.stream_width} is given"
        )
    device = None if options.device is None else find_device(options.device)
    return find_board(options.board, device, options.pins)


def is_reloadable(options: VerilogOptions) -> bool:
    """Whether weights can be loaded."""
    return options.reloadable not in (None, "", "false")
