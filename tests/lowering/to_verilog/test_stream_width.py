"""Streams of words: frames come and go in them whatever the pressure, with the right marks."""

import json
from collections.abc import Callable
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.circuit.framing import STREAM_WIDTHS, Framing
from triton_dsl.lowering.to_verilog.circuit.interface import Interface, Port
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.runtime.verilog import simulate

from .designs import DESIGNS, source

Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

PRESSURE = """\
module bench;
  reg aclk, aresetn;
  reg [{top}:0] s_axis_tdata;
  reg s_axis_tvalid, s_axis_tlast, m_axis_tready;
  wire s_axis_tready, m_axis_tvalid, m_axis_tlast;
  wire [{top}:0] m_axis_tdata;
  wire [{lanes}-1:0] m_axis_tkeep;
  net dut (
    .aclk(aclk), .aresetn(aresetn), .s_axis_tdata(s_axis_tdata), .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_axis_tready), .s_axis_tlast(s_axis_tlast), .s_axis_tkeep({{{lanes}{{1'b1}}}}),
    .m_axis_tdata(m_axis_tdata), .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready),
    .m_axis_tlast(m_axis_tlast), .m_axis_tkeep(m_axis_tkeep)
  );
  reg [{top}+1:0] words [0:{words}-1];
  reg [31:0] random;
  reg waited;
  reg [{top}+{lanes}+1:0] offered;
  integer sent, got, cycle, results;
  initial begin
    $readmemh("words.mem", words);
    results = $fopen("results.txt");
    aclk = 0; aresetn = 0; random = {seed}; sent = 0; got = 0; cycle = 0; waited = 0; offered = 0;
    s_axis_tdata = 0; s_axis_tvalid = 0; s_axis_tlast = 0; m_axis_tready = 0;
    #42 aresetn = 1;
  end
  always #5 aclk = ~aclk;
  always @(posedge aclk) begin
    cycle <= cycle + 1;
    random <= random * 32'd1664525 + 32'd1013904223;
    if (aresetn) begin
      if (waited && !(m_axis_tvalid && offered == {{m_axis_tlast, m_axis_tkeep, m_axis_tdata}}))
        $fdisplay(results, "a word that was offered is another");
      waited <= m_axis_tvalid && !m_axis_tready;
      offered <= {{m_axis_tlast, m_axis_tkeep, m_axis_tdata}};
      if (!s_axis_tvalid || s_axis_tready) begin
        if (sent < {words} && random[31:24] < {send}) begin
          s_axis_tvalid <= 1; {{s_axis_tlast, s_axis_tdata}} <= words[sent]; sent <= sent + 1;
        end else begin
          s_axis_tvalid <= 0;
        end
      end
      if (m_axis_tvalid && m_axis_tready) begin
        $fdisplay(results, "%b %h %h", m_axis_tlast, m_axis_tkeep, m_axis_tdata);
        got <= got + 1;
        if (got == {wanted} - 1) $finish;
      end
      m_axis_tready <= random[23:16] < {take};
      if (cycle > {limit}) $finish;
    end
  end
endmodule
"""


def compiled(program: Program, name: str, word: int) -> tuple[ModuleOp, Artifact, Interface]:
    module, options = source(program, name)
    artifact = compile_to_target(module, "verilog", {**options, "stream_width": word})
    return module, artifact, Interface.from_dict(json.loads(artifact.text("report.json")))


def rtl(artifact: Artifact) -> dict[str, str]:
    return {Path(n).name: artifact.text(n) for n in artifact.files if n.startswith("rtl/")}


def memory(artifact: Artifact, name: str) -> list[int]:
    """What the interpreter gave, word by word."""
    return [int(word, 16) for word in artifact.text(f"test/net_{name}.mem").split()]


QUICK = ("conv", "folded", "spiking")
CASES = [
    pytest.param(name, word, marks=[] if name in QUICK and word == 16 else pytest.mark.slow)
    for name in DESIGNS
    if "words" not in name
    for word in (16, 64)
]


@pytest.mark.parametrize(("name", "word"), CASES)
def test_the_results_are_the_interpreters(
    name: str, word: int, program: Program, iverilog: str, tmp_path: Path
) -> None:
    """The test bench compares latency, interval, tlast and tkeep too, and waits at random."""
    _, artifact, interface = compiled(program, name, word)
    sources = [n for n in artifact.files if Path(n).suffix in (".v", ".sv", ".hex", ".mem")]
    files = {Path(n).name: artifact.text(n) for n in sources}
    assert "PASS" in simulate(files, "net_tb", tmp_path, "iverilog").output
    module, options = source(program, name)
    plain = json.loads(compile_to_target(module, "verilog", options).text("report.json"))
    needed = (plain["initiation_interval"], interface.words_in, interface.words_out)
    assert interface.interval == max(needed)


@pytest.mark.parametrize(
    "simulator", ["iverilog", pytest.param("verilator", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("name", "word", "send", "take"),
    [
        ("dense", 8, 256, 40),
        ("dense", 32, 256, 256),
        ("rescaled", 16, 30, 256),
        ("conv", 32, 200, 60),
        ("memories", 64, 100, 100),
        ("residual", 32, 60, 200),
        ("folded", 8, 128, 128),
    ],
)
def test_any_pressure(
    name: str,
    word: int,
    send: int,
    take: int,
    simulator: str,
    program: Program,
    require_tool: RequireTool,
    tmp_path: Path,
) -> None:
    """Packets of one to four frames; what is offered stays until it is taken."""
    if simulator == "verilator" and name not in ("dense", "conv"):
        pytest.skip("compiling takes long")
    require_tool(simulator, f"apt-get install {simulator}")
    _, artifact, interface = compiled(program, name, word)
    words, expected = memory(artifact, "inputs"), memory(artifact, "expected")
    frames, lanes = len(words) // interface.words_in, word // 8
    rng = np.random.default_rng(word)
    marked = rng.integers(0, 2, frames).astype(bool)
    ends = np.repeat(marked, interface.words_in)
    ends &= np.arange(len(words)) % interface.words_in == interface.words_in - 1
    bench = PRESSURE.format(
        top=word - 1,
        lanes=lanes,
        words=len(words),
        wanted=len(expected),
        seed=int(rng.integers(1 << 30)),
        send=send,
        take=take,
        limit=2000 + 300 * (len(words) + len(expected)) + 40 * frames * interface.interval,
    )
    lines = [f"{int(end) << word | value:x}" for end, value in zip(ends, words, strict=True)]
    files = {"bench.v": bench, "words.mem": "\n".join(lines) + "\n", **rtl(artifact)}
    simulate(files, "bench", tmp_path, simulator)
    found = (tmp_path / "results.txt").read_text().splitlines()
    size = sum(sum(port.widths) for port in interface.outputs)
    framing = Framing(word, size, interface.beats_out)
    bytes_of_last = framing.beats * framing.beat_bytes - (interface.words_out - 1) * lanes
    wanted: list[str] = []
    for index, value in enumerate(expected):
        last = index % interface.words_out == interface.words_out - 1
        mark = int(last and marked[index // interface.words_out])
        keep = (1 << (bytes_of_last if mark else lanes)) - 1
        wanted.append(f"{mark} {keep:0{-(-lanes // 4)}x} {value:0{word // 4}x}")
    assert found == wanted


@pytest.mark.usefixtures("iverilog")
def test_bits_are_packed_as_numpy_does(program: Program) -> None:
    """The bytes of a frame do not depend on the width of words."""
    module, options = source(program, "bits")
    interfaces = [
        Interface.from_dict(
            json.loads(
                compile_to_target(module.clone(), "verilog", {**options, **given}).text(
                    "report.json"
                )
            )
        )
        for given in ({"stream_width": 8}, {"stream_width": 32})
    ]
    x = np.random.default_rng(0).integers(0, 2, (5, 6))
    packed = np.packbits(x.astype(bool), axis=1, bitorder="little")
    for interface in interfaces:
        assert interface.sent([x]) == packed[:, 0].tolist()


def test_ready_and_valid_come_from_registers(
    program: Program, iverilog: str, tmp_path: Path
) -> None:
    """Nothing that comes in is seen at an output before the next edge."""
    del iverilog
    _, artifact, _ = compiled(program, "residual", 32)
    bench = """
module bench;
  reg aclk = 0, aresetn = 0, valid = 0, ready = 0, last = 0, seen;
  reg [31:0] data = 0, random = 1;
  wire [31:0] out;
  wire [3:0] keep;
  wire s_ready, m_valid, m_last;
  integer cycle = 0, moved = 0, changes = 0;
  net dut (.aclk(aclk), .aresetn(aresetn), .s_axis_tdata(data), .s_axis_tvalid(valid),
    .s_axis_tready(s_ready), .s_axis_tlast(last), .s_axis_tkeep(4'hf), .m_axis_tdata(out),
    .m_axis_tvalid(m_valid), .m_axis_tready(ready), .m_axis_tlast(m_last), .m_axis_tkeep(keep));
  reg [38:0] before;
  initial repeat (2000) begin
    #5 aclk = 1;
    cycle = cycle + 1;
    if (aresetn && m_valid && ready) moved = moved + 1;
    #1 random = random * 32'd1664525 + 32'd1013904223;
    #1 before = {out, keep, s_ready, m_valid, m_last};
    {valid, ready, last} = random[31:29]; data = random;
    #1 if (before !== {out, keep, s_ready, m_valid, m_last}) changes = changes + 1;
    aresetn = cycle > 4;
    #2 aclk = 0;
    if (cycle == 2000) begin
      $display("%0d moved, %0d changes", moved, changes);
      $finish;
    end
  end
endmodule
"""
    output = simulate({"bench.v": bench, **rtl(artifact)}, "bench", tmp_path, "iverilog").output
    moved, changes = (int(word) for word in output.split() if word.isdigit())
    assert moved > 100
    assert changes == 0


@given(
    width=st.sampled_from(STREAM_WIDTHS),
    widths=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    beats=st.integers(1, 40),
    frames=st.integers(1, 3),
    negative=st.booleans(),
)
def test_beats_lie_in_bytes(
    width: int, widths: list[int], beats: int, frames: int, negative: bool
) -> None:
    """Numbers of the widths, in two's complement, by sums of powers of two."""
    low = [-(1 << (bits - 1)) if negative else 0 for bits in widths]
    high = [least + (1 << bits) - 1 for least, bits in zip(low, widths, strict=True)]
    shape = len(widths), beats
    port = Port("x", shape, True, tuple(low), tuple(high), "int64", None, (1,))
    interface = Interface("net", 1, 1, beats, beats, True, 1, width, (port,), (port,))
    rng = np.random.default_rng(beats)
    values = rng.integers(
        np.array(low)[:, None], np.array(high)[:, None], (frames, *shape), endpoint=True
    )
    words = interface.sent([values.reshape(frames, -1)])
    assert words == interface.given([values.reshape(frames, -1)])
    (back,) = interface.taken(words)
    np.testing.assert_array_equal(back.reshape(frames, *shape), values)
    framing = interface.framing_in
    assert framing is not None
    size, lanes = framing.beat_bytes, width // 8
    assert size * 8 >= sum(widths)
    assert lcm(size, lanes) <= 4 * max(size, lanes) or beats == 1
    text = b"".join(word.to_bytes(lanes, "little") for word in words[: framing.words])
    firsts = [sum(widths[:k]) for k in range(len(widths))]
    numbers = [
        sum(int(values[0, k, beat]) % (1 << widths[k]) << firsts[k] for k in range(len(widths)))
        for beat in range(beats)
    ]
    wanted: bytes = b"".join(number.to_bytes(size, "little") for number in numbers)
    assert text == wanted.ljust(len(text), b"\0")
    assert len(wanted) == (framing.words - 1) * lanes + framing.last_bytes


def test_other_widths_are_refused(program: Program) -> None:
    module, options = source(program, "dense")
    with pytest.raises(OptionError, match=r"expects stream-width of 8, 16, 32, .*, got 24"):
        compile_to_target(module, "verilog", {**options, "stream_width": 24})


def test_a_program_is_verified_in_words(program: Program, iverilog: str) -> None:
    del iverilog
    module, artifact, interface = compiled(program, "conv", 32)
    (port,) = interface.inputs
    x: NDArray[Any] = np.random.default_rng(3).integers(0, 4, (3, *port.shape[1:])).astype(np.uint8)
    _, (found,) = run_verilog(artifact, [x])
    np.testing.assert_array_equal(found, run_module(module, [x])[0])
