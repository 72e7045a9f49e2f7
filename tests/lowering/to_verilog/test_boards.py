"""A circuit behind a serial port answers as the interpreter does, and becomes a bitstream file."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.lowering.artifact import Artifact, write_artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog import bitstream
from triton_dsl.lowering.to_verilog.boards import BAUD
from triton_dsl.runtime.verilog import simulate

RequireTool = Callable[[str, str], str]

LINE = """\
`timescale 1ns/1ps
module bench;
  localparam BIT = {ticks} * 10;
  reg clk = 0, rx = 1;
  wire tx;
  reg [7:0] bytes [0:{sent}-1];
  reg [7:0] got;
  integer results, index, bit_of, count = 0;
  net_serial dut (.clk(clk), .rx(rx), .tx(tx));
  always #5 clk = ~clk;
  initial begin
    $readmemh("net_inputs.mem", bytes);
    results = $fopen("results.txt");
    #(3 * BIT) rx = 0;
    #(25 * BIT) rx = 1;  // a break
    #(3 * BIT);
    for (index = 0; index < {sent}; index = index + 1) begin
      rx = 0; #(BIT + {skew});
      for (bit_of = 0; bit_of < 8; bit_of = bit_of + 1) begin
        rx = bytes[index][bit_of]; #(BIT + {skew});
      end
      rx = 1; #BIT;
      if (index % {frame} == {frame} - 1) begin
        while (count < (index + 1) / {frame} * {results}) #BIT;
        #({pause} * BIT);
      end
    end
    #(20 * BIT) $finish;
  end
  always @(negedge tx) begin
    #(BIT * 1.5);
    for (integer k = 0; k < 8; k = k + 1) begin got[k] = tx; #BIT; end
    if (tx !== 1) $fdisplay(results, "no stop bit");
    $fdisplay(results, "%h", got);
    count = count + 1;
  end
  initial #({limit} * BIT) $finish;
endmodule
"""


def compiled(module: ModuleOp, **options: Any) -> Artifact:
    return compile_to_target(module, "verilog", {"vectors": 4, "time_budget": 0.02, **options})


@pytest.mark.usefixtures("iverilog")
@pytest.mark.parametrize(("pins", "skew"), [("MHz=3", 0), ("MHz=2,clk=J3", 3)])
def test_bytes_on_the_line(small: ModuleOp, tmp_path: Path, pins: str, skew: int) -> None:
    """Also from a sender whose bits are nearly 2 % too long."""
    artifact = compiled(small, device="hx8k", board="hx8k-breakout", pins=pins)
    report = json.loads(artifact.text("report.json"))
    inputs = artifact.text("test/net_inputs.mem")
    mhz = float(re.findall(r"MHz=(\d+)", pins)[0])
    bench = LINE.format(
        ticks=round(mhz * 1e6 / BAUD),
        sent=len(inputs.split()),
        frame=report["words_in"],
        results=report["words_out"],
        pause=3,
        skew=skew,
        limit=40 * len(inputs.split()) + 500,
    )
    files = {Path(name).name: artifact.text(name) for name in artifact.files if "rtl/" in name}
    files |= {"bench.v": bench, "net_inputs.mem": inputs}
    files["net_serial.v"] = artifact.text("impl/net_serial.v")
    simulate(files, "bench", tmp_path, "iverilog")
    found = (tmp_path / "results.txt").read_text().split()
    assert found == artifact.text("test/net_expected.mem").split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "unpack", "cells"),
    [("hx8k-breakout", "iceunpack", "ICESTORM_LC"), ("ulx3s-25", "ecpunpack", "TRELLIS_COMB")],
)
def test_one_command_makes_a_bitstream(
    require_tool: RequireTool, small: ModuleOp, tmp_path: Path, board: str, unpack: str, cells: str
) -> None:
    for tool in ("yosys", "nextpnr-ice40" if "hx" in board else "nextpnr-ecp5"):
        if bitstream._found(tool) is None:  # pyright: ignore[reportPrivateUsage]
            require_tool(tool, f"pip install yowasp-{tool}")
    artifact = compiled(small, board=board, bitstream=True)
    placed = json.loads(artifact.text("report.json"))["placed"]
    assert placed["clock_mhz"] > placed["wanted_mhz"]
    assert placed["cells"][cells]["used"] > placed["flip_flops"] > 100
    assert f"- bitstream: {placed['bitstream']}, {placed['luts']:,} LUTs" in artifact.text(
        "report.md"
    )
    write_artifact(artifact, tmp_path)
    image = tmp_path / placed["bitstream"]
    assert image.stat().st_size > 10_000
    unpacker = bitstream._found(unpack)  # pyright: ignore[reportPrivateUsage]
    assert unpacker is not None
    subprocess.run([unpacker, image.name, "unpacked"], cwd=tmp_path, check=True)
    assert (tmp_path / "unpacked").stat().st_size > 10_000


def test_pins_stand_in_constraints(small: ModuleOp) -> None:
    artifact = compiled(small, board="icebreaker", pins="tx=10")
    assert artifact.text("constraints/net.pcf").splitlines() == [
        "set_frequency clk 12.00", "set_io clk 35", "set_io rx 6", "set_io tx 10",
    ]  # fmt: skip
    artifact = compiled(small, board="ulx3s-25")
    assert 'LOCATE COMP "rx" SITE "M1";' in artifact.text("constraints/net.lpf")
    assert "ecppack" in artifact.text("Makefile")


def test_what_cannot_be_is_said(small: ModuleOp, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, message in (
        ({"bitstream": True}, "give board=NAME or device=NAME"),
        ({"bitstream": True, "device": "xcvu9p"}, "no open route to a bitstream of xcvu9p"),
        ({"board": "icebraker"}, "unknown board 'icebraker'; did you mean 'icebreaker'"),
        ({"board": "icebreaker", "device": "hx8k"}, "has the device ice40-up5k"),
        ({"board": "icebreaker", "pins": "led=3"}, "pins expects clk=PLACE.*, got 'led=3'"),
        ({"board": "icebreaker", "pins": "MHz=0"}, "MHz from 1 to 1000"),
        ({"board": "icebreaker", "stream_width": 32}, "words of 8 bits, and stream-width=32"),
        ({"pins": "clk=3"}, "pins are those of a board"),
    ):
        with pytest.raises(OptionError, match=message):
            compiled(small, **options)
    monkeypatch.setattr(bitstream, "_found", lambda tool: None)
    with pytest.raises(BackendError, match="needs yosys, nextpnr-ice40, icepack: 'pip install"):
        compiled(small, board="icebreaker", bitstream=True)
