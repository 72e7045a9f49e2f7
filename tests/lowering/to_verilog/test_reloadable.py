"""A circuit with the weights of another model gives what the interpreter gives for that one."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.artifact import Artifact, write_artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.boards import BAUD
from triton_dsl.runtime.verilog import simulate

from .conftest import SMALL
from .images import ImageProgram
from .test_boards import LINE
from .test_verilog_target import network, random_values

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

FOLDED = "fc1:pe=4,simd=3;fc2:pe=2,simd=4"


def small(program: Program, seed: int) -> ModuleOp:
    """Thresholds of which some are out of reach, and a class."""
    rng = np.random.default_rng(seed)
    return program(
        SMALL,
        {
            "fc1.weight": rng.integers(-1, 2, (12, 8)),
            "fc2.weight": rng.integers(-1, 2, (8, 4)),
            "fc1.bias": rng.integers(-20, 20, 8),
            "fc1.thresholds": np.sort(rng.integers(-900 + 300 * seed, 300, (8, 5)), axis=1),
        },
    )


def rescaled(program: Program, seed: int) -> ModuleOp:
    """Biases, rescaling, sums at the end."""
    sizes = [9, 6, 5]
    values = random_values(np.random.default_rng(seed), sizes)
    return program(network(sizes, "i8", "none", False), values)


def convolution(program: Program, seed: int) -> ModuleOp:
    """Trits, bias, relu and rescaling."""
    written = ImageProgram(seed, 2, 4, 4, "ui8")
    written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    return program(written.text(), written.values)


def digits(program: Program, seed: int) -> ModuleOp:
    """Weights of several bits, of which both models have the widest."""
    written = ImageProgram(seed, 2, 3, 3, "i32")
    written.conv(3, (2, 2), digits=4)
    written.values["conv1.weight"].flat[0] = -15
    return program(written.text(), written.values)


CASES: dict[str, tuple[Callable[[Program, int], ModuleOp], dict[str, Any]]] = {
    "small": (small, {"folding": FOLDED, "stream_width": 32}),
    "some layers": (rescaled, {"folding": "fc1:pe=6,simd=9;fc2:pe=1,simd=2", "stream_width": 16}),
    "convolution": (convolution, {"folding": "conv1:pe=3,simd=2", "stream_width": 64}),
    "digits": (digits, {"folding": "conv1:pe=2,simd=4", "stream_width": 8, "input_bits": 3}),
}

BENCH = """\
module bench;
  reg aclk = 0, aresetn = 0;
  reg [{bits}-1:0] pieces [0:{pieces}-1];
  reg [{width}-1:0] words [0:{sent}-1];
  reg [{bits}-1:0] load_data = 0;
  reg load_valid = 0, load_restart = 0, ready = 0;
  wire valid, takes, last, load_ready, load_part;
  wire [{width}-1:0] data;
  reg [15:0] random = 16'hace1;
  integer piece = 0, word = 0, out = 0, results, early = 0;
  net dut (.aclk(aclk), .aresetn(aresetn), .s_axis_tdata(words[word]),
    .s_axis_tvalid(aresetn && word < {sent} && piece > 0),
    .s_axis_tlast(1'b1), .s_axis_tready(takes), .s_axis_tkeep({{{width}/8{{1'b1}}}}),
    .m_axis_tready(ready), .m_axis_tdata(data), .m_axis_tvalid(valid), .m_axis_tlast(last),
    .m_axis_tkeep(), .load_data(load_data), .load_valid(load_valid),
    .load_restart(load_restart), .load_ready(load_ready), .load_part(load_part));
  always #5 aclk = ~aclk;
  initial begin
    $readmemh("pieces.mem", pieces);
    $readmemh("words.mem", words);
    results = $fopen("results.txt");
    #42 aresetn = 1;
    #100000000 $finish;
  end
  always @(posedge aclk) if (aresetn) begin
    random <= {{random[14:0], random[15] ^ random[13] ^ random[12] ^ random[10]}};
    load_restart <= piece == 0 && !load_restart && !load_valid;
    load_valid <= 0;
    if ((load_restart || piece > 0) && piece < {pieces} && random[0]) begin
      load_valid <= 1;
      load_data <= pieces[piece];
      piece <= piece + 1;
    end
    ready <= random[3];
    if (word > 0 && piece < {pieces}) early = 1;
    if (aresetn && word < {sent} && piece > 0 && takes) word <= word + 1;
    if (valid && ready) begin
      $fdisplay(results, "%h", data);
      out <= out + 1;
      if (out == {received} - 1) begin
        if (early) $fdisplay(results, "a word came in within the load");
        $finish;
      end
    end
  end
endmodule
"""


def compiled(module: ModuleOp, **options: Any) -> Artifact:
    return compile_to_target(
        module, "verilog", {"vectors": 6, "time_budget": 0.02, "reloadable": "true", **options}
    )


def rtl(artifact: Artifact) -> dict[str, str]:
    return {Path(n).name: artifact.text(n) for n in artifact.files if n.startswith("rtl/")}


def pieces(artifact: Artifact) -> list[str]:
    size = json.loads(artifact.text("host/weights.json"))["piece_bits"] // 8
    content = artifact.files["host/weights.bin"]
    starts = range(0, len(content), size)
    return [content[start : start + size][::-1].hex() for start in starts]


@pytest.mark.usefixtures("iverilog")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n == "convolution" else []) for n in CASES],
)
def test_another_model_in_the_same_circuit(name: str, program: Program, tmp_path: Path) -> None:
    make, options = CASES[name]
    one, other = (compiled(make(program, seed), **options) for seed in (1, 2))
    about = [json.loads(each.text("host/weights.json")) for each in (one, other)]
    assert about[0]["layout"] == about[1]["layout"] and about[0]["sha256"] != about[1]["sha256"]
    report = json.loads(other.text("report.json"))
    words = other.text("test/net_inputs.mem")
    expected = other.text("test/net_expected.mem").split()
    assert expected != one.text("test/net_expected.mem").split()
    bench = BENCH.format(
        bits=about[0]["piece_bits"],
        width=report["stream_width"],
        pieces=about[0]["pieces"],
        sent=len(words.split()),
        received=len(expected),
    )
    files = {**rtl(one), "bench.v": bench, "words.mem": words}
    simulate({**files, "pieces.mem": "\n".join(pieces(other))}, "bench", tmp_path, "iverilog")
    assert (tmp_path / "results.txt").read_text().split() == expected


@pytest.mark.usefixtures("iverilog")
def test_a_load_on_the_line(program: Program, tmp_path: Path) -> None:
    options = {"folding": FOLDED, "board": "hx8k-breakout", "pins": "MHz=1"}
    one, other = (compiled(small(program, seed), **options) for seed in (1, 2))
    report = json.loads(other.text("report.json"))
    words = other.text("test/net_inputs.mem").split()
    load = pieces(other)
    sent = ["01", *load, "00", *words]
    # The answer to the load counts as the results of a frame; the byte behind it begins frames.
    assert report["words_out"] == 1
    frame, before = report["words_in"], len(load) + 1
    bench = LINE.format(
        ticks=round(1e6 / BAUD), sent=len(sent), frame=frame, results=1, pause=3, skew=0,
        limit=40 * len(sent) + 500,
    ).replace(
        f"index % {frame} == {frame} - 1",
        f"index == {before - 1} || (index > {before} && (index - {before}) % {frame} == 0)",
    ).replace(
        f"(index + 1) / {frame} * 1", f"1 + (index - {before} + {frame}) / {frame} - 1"
    )  # fmt: skip
    files = {**rtl(one), "bench.v": bench, "net_inputs.mem": "\n".join(sent)}
    files["net_serial.v"] = one.text("impl/net_serial.v")
    simulate(files, "bench", tmp_path, "iverilog")
    answer, *results = (tmp_path / "results.txt").read_text().split()
    assert answer == "06" and results == other.text("test/net_expected.mem").split()


@pytest.mark.slow
@pytest.mark.usefixtures("iverilog")
def test_registers_take_a_load(program: Program, tmp_path: Path) -> None:
    """The test that a folder has, with the other model's weights and vectors."""
    one, other = (compiled(small(program, seed), folding=FOLDED, ip=True) for seed in (1, 2))
    write_artifact(one, tmp_path)
    for name in ("host/weights.bin", "host/weights.json", "test/net_inputs.mem"):
        (tmp_path / name).write_bytes(other.files[name])
    (tmp_path / "test/net_expected.mem").write_bytes(other.files["test/net_expected.mem"])
    bin_folder = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["make", "-f", "cocotb.mk", "COCOTB_TEST_FILTER=load"],
        cwd=tmp_path / "test", capture_output=True, text=True, check=False,
        env={"PATH": f"{bin_folder}:/usr/bin:/bin", "COCOTB_TEST_FILTER": "load"},
    )  # fmt: skip
    assert "TESTS=2 PASS=2 FAIL=0" in done.stdout, done.stdout + done.stderr


def driver(folder: Path) -> Any:
    """The driver of a folder as a module."""
    spec = spec_from_file_location("circuit_driver", folder / "host" / "circuit_driver.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Line:
    """A serial port that answers each write from a list."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers, self.sent, self.timeout = answers, bytearray(), 0.0

    def write(self, data: bytes) -> None:
        self.sent += data

    def read(self, count: int) -> bytes:
        return self.answers.pop(0)[:count]

    def send_break(self, seconds: float) -> None:
        self.sent += b"|"

    def reset_input_buffer(self) -> None:
        pass


def test_the_driver_loads_by_a_serial_port(program: Program, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other", tmp_path / "alien"]
    options = {"folding": FOLDED, "board": "hx8k-breakout"}
    one, other = (compiled(small(program, seed), **options) for seed in (1, 2))
    alien = compiled(small(program, 1), **options | {"folding": "fc1:pe=2,simd=3;fc2:pe=2,simd=4"})
    for artifact, folder in zip((one, other, alien), folders, strict=True):
        write_artifact(artifact, folder)
    line = Line([b"\6", b"\6", b"\3"])
    circuit = driver(folders[0]).SerialCircuit("port", open_port=lambda *a, **k: line)
    circuit.load(folders[1])
    content = other.files["host/weights.bin"]
    assert bytes(line.sent) == b"|\0|\1" + content + b"\0"
    with pytest.raises(ValueError, match="is of another circuit"):
        circuit.load(folders[2])
    (folders[1] / "host" / "weights.bin").write_bytes(content[:-1])
    with pytest.raises(ValueError, match="not those that it was compiled with"):
        circuit.load(folders[1])
    circuit.load(folders[0])
    with pytest.raises(TimeoutError, match="not answered"):
        circuit.load(folders[0])


class Core:
    """Registers that take a load as the hardware does."""

    def __init__(self, registers: list[dict[str, Any]], weights: dict[str, Any]) -> None:
        self.at = {entry["offset"]: entry["name"] for entry in registers}
        self.values = dict.fromkeys(self.at.values(), 0)
        self.values |= {"layout": int(weights["layout"][:8], 16), "control": 1}
        self.pieces = weights["pieces"]
        self.taken: list[int] = []

    def read(self, address: int) -> int:
        name = self.at[address]
        if name == "load":
            return len(self.taken)
        part = 0 < len(self.taken) < self.pieces
        return part << 2 if name == "status" else self.values[name]

    def write(self, address: int, value: int) -> None:
        match self.at[address]:
            case "load":
                assert not self.values["control"] & 1
                self.taken = []
            case "load_data":
                self.taken.append(value)
            case name:
                self.values[name] = value


def test_the_driver_loads_by_registers(program: Program, tmp_path: Path) -> None:
    one, other = (compiled(small(program, seed), folding=FOLDED, ip=True) for seed in (1, 2))
    write_artifact(one, tmp_path / "one")
    write_artifact(other, tmp_path / "other")
    weights = json.loads(one.text("host/weights.json"))
    core = Core(json.loads(one.text("ip/registers.json")), weights)
    given = driver(tmp_path / "one")
    registers = given.Registers(core.read, core.write)
    content, report = given.load_of(tmp_path / "other")
    registers.load(content, report["load_bits"], weights, 1.0)
    assert [f"{piece:08x}" for piece in core.taken] == pieces(other)
    assert core.values["control"] == 1
    with pytest.raises(RuntimeError, match="pieces came in"):
        registers.load(content[:-4], 32, weights, 1.0)
    core.values["layout"] += 1
    with pytest.raises(ValueError, match="not that of this folder"):
        registers.load(content, 32, weights, 1.0)


def test_what_cannot_be_loaded_is_said(program: Program) -> None:
    for options, message in (
        ({"stream_width": 32}, "of any layer are not in a memory.*no layer is folded so"),
        ({"folding": "fc1:digit=1", "stream_width": 32}, "no layer is folded so|fc1"),
        (
            {"folding": FOLDED, "stream_width": 32, "reloadable": "fc1;fc3"},
            "of 'fc3' are not in a memory.*those of fc1, fc2",
        ),
        ({"folding": FOLDED}, "give stream-width, ip or board too"),
        (
            {"folding": FOLDED, "stream_width": 32, "form": "file"},
            "reloadable wants a folder: leave out form=file",
        ),
    ):
        with pytest.raises(OptionError, match=message):
            compiled(small(program, 1), **options)


def test_the_name_of_the_program_may_differ(program: Program) -> None:
    rng, layouts = np.random.default_rng(4), set[str]()
    values = {
        "fc1.weight": rng.integers(-1, 2, (12, 8)),
        "fc2.weight": rng.integers(-1, 2, (8, 4)),
        "fc1.bias": rng.integers(-20, 20, 8),
        "fc1.thresholds": np.sort(rng.integers(-300, 300, (8, 5)), axis=1),
    }
    for name in ("net", "a", "network_2"):
        module = program(SMALL.replace("@net", f"@{name}"), values)
        artifact = compiled(module, folding=FOLDED, stream_width=32)
        layouts.add(json.loads(artifact.text("host/weights.json"))["layout"])
    assert len(layouts) == 1


def test_one_layer_alone(program: Program) -> None:
    one, other = (
        compiled(small(program, seed), folding=FOLDED, stream_width=32, reloadable="fc2")
        for seed in (1, 2)
    )
    about = json.loads(one.text("host/weights.json"))
    assert all("fc2" in memory["name"] for memory in about["memories"])
    assert about["layout"] != json.loads(other.text("host/weights.json"))["layout"]
