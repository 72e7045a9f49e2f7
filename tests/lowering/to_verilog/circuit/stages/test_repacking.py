"""Converters of widths, buffers and queues: proofs by Yosys of what their handshakes promise.

By induction, for ever: what is offered stays as it is until it is taken, if the sender does the
same. From reset on, for every pressure of some cycles: each piece comes once and in order.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from triton_dsl.lowering.to_verilog.circuit.circuit import Search
from triton_dsl.lowering.to_verilog.circuit.framing import Framing
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.circuit.pipeline import Pipeline
from triton_dsl.lowering.to_verilog.circuit.ports import Port
from triton_dsl.lowering.to_verilog.circuit.signals import Signal
from triton_dsl.lowering.to_verilog.circuit.stages.credits import credit_stage
from triton_dsl.lowering.to_verilog.circuit.stages.links import fifo_stage, turns_stage
from triton_dsl.lowering.to_verilog.circuit.stages.repacking import (
    collect_stage,
    raw,
    spread_stage,
)
from triton_dsl.lowering.to_verilog.circuit.stages.stage import Layout, Stage

from ..folding.stage_bench import texts

RequireTool = Callable[[str, str], str]

HARNESS = """\
module proof (input clock, input reset, input {in_range} in_data, input in_valid, input out_ready);
  wire in_ready, out_valid;
  wire {out_range} out_data;
  dut dut (.clock(clock), .reset(reset), .in_data(in_data), .in_valid(in_valid),
    .out_ready(out_ready), .in_ready(in_ready), .out_data(out_data), .out_valid(out_valid));
  reg first = 1, given = 0, offered = 0;
  reg {in_range} in_before = 0;
  reg {out_range} out_before = 0;
  always @(posedge clock) begin
    first <= 0;
    given <= !reset && in_valid && !in_ready;
    offered <= !reset && out_valid && !out_ready;
    in_before <= in_data;
    out_before <= out_data;
  end
  always @* begin
    assume (reset == first);
    assume (!given || (in_valid && in_data == in_before));
    {check}
  end
{order}
endmodule
"""

FOR_EVER = "-tempinduct -maxsteps 6"
FROM_RESET = "-tempinduct -tempinduct-baseonly -maxsteps {steps}"

STAYS = "assert (reset || !offered || (out_valid && out_data == out_before));"

ORDER = """\
  // Pieces of frames of TOTAL, numbered as they come and go; blocks of COUNT on one side.
  localparam COUNT = {count}, TOTAL = {total}, COLLECTS = {collects}, SPREADS = {spreads};
  reg [63:0] came = 0;
  reg [5:0] sent = 0, got = 0, sent_of_frame = 0, got_of_frame = 0;
  wire [5:0] sends = SPREADS && TOTAL - sent_of_frame < COUNT ? TOTAL - sent_of_frame
    : SPREADS ? COUNT : 1;
  wire [5:0] gets = COLLECTS && TOTAL - got_of_frame < COUNT ? TOTAL - got_of_frame
    : COLLECTS ? COUNT : 1;
  // What waits at the input may go through in the same cycle.
  wire [5:0] offers = in_valid ? sent + sends : sent;
  reg [63:0] known;
  integer k;
  always @* begin
    known = came;
    for (k = 0; k < COUNT; k = k + 1) if (in_valid && k < sends) known[sent + k] = in_data[k];
  end
  always @(posedge clock) begin
    if (!reset && in_valid && in_ready) begin
      came <= known;
      sent <= sent + sends;
      sent_of_frame <= sent_of_frame + sends == TOTAL ? 0 : sent_of_frame + sends;
    end
    if (!reset && out_valid && out_ready) begin
      got <= got + gets;
      got_of_frame <= got_of_frame + gets == TOTAL ? 0 : got_of_frame + gets;
    end
  end
  always @* begin
    if (!reset && out_valid) begin
      assert (got + gets <= offers);
      for (k = 0; k < COUNT; k = k + 1) if (k < gets) assert (out_data[k] == known[got + k]);
    end
  end
"""


VECTORS = """\
  // Words of one bit with a mark each: vectors of SENDS of them, results of GIVES. Word k of a
  // result is that of its vector, going round; the last one has the mark of the vector's last one.
  localparam SENDS = {sends}, GIVES = {gives};
  reg [15:0] came = 0, marks = 0;
  reg [3:0] sent = 0, word = 0, place = 0, from = 0;
  wire last = word == GIVES - 1;
  always @(posedge clock) begin
    if (!reset && in_valid && in_ready) begin
      came[sent] <= in_data[0];
      marks[sent] <= in_data[1];
      sent <= sent + 1;
    end
    if (!reset && out_valid && out_ready) begin
      word <= last ? 0 : word + 1;
      place <= last || place == SENDS - 1 ? 0 : place + 1;
      from <= last ? from + SENDS : from;
    end
  end
  always @* begin
    if (!reset && out_valid) begin
      assert (from + SENDS <= sent);
      assert (out_data[0] == came[from + place]);
      assert (out_data[1] == (last && marks[from + SENDS - 1]));
    end
  end
"""


class Bits(Framing):
    """Words of one bit, as proofs are quick of."""

    @property
    def words(self) -> int:
        return self.bits


def pipeline(sends: int, gives: int) -> Stage:
    """A pipeline of two registers that never waits, with words around it."""
    bits = tuple((0, 1) for _ in range(sends))
    writer = Pipeline("core", {"x": Layout(bits)}, Pacing(), Search())
    wires = [signal.wire for signal in writer.elements[0]]
    writer.circuit.begin("x", "x")
    late = [Signal(writer.circuit.at(wire, 2)) for wire in wires if wire is not None]
    core = writer.finish({"y": [late[index % sends] for index in range(gives)]})
    port = Port("x", (sends,), False, (0,) * sends, (1,) * sends, "bool", None)
    return credit_stage("dut", core, [port], (Bits(1, sends, 1), Bits(1, gives, 1)))


STAGES: dict[str, tuple[Callable[[], Stage], int, int]] = {
    "buffer": (lambda: fifo_stage("dut", raw(1, 1), 2), 1, 1),
    "in turns": (lambda: turns_stage("dut", raw(1, 1)), 1, 1),
    "few bits": (lambda: fifo_stage("dut", raw(1, 1), 4), 1, 1),
    "pipeline": (lambda: pipeline(1, 1), 1, 1),
    "pipeline that collects": (lambda: pipeline(3, 1), 3, 1),
    "pipeline that spreads": (lambda: pipeline(1, 3), 1, 3),
    "pipeline of pairs": (lambda: pipeline(2, 2), 2, 2),
    "collect": (lambda: collect_stage("dut", raw(1, 6), raw(3, 2), 3, [0], 1), 3, 6),
    "collect in part": (lambda: collect_stage("dut", raw(1, 5), raw(3, 2), 3, [0], 1), 3, 5),
    "spread": (lambda: spread_stage("dut", raw(3, 2), raw(1, 6), 3, [0], 1), 3, 6),
    "spread in part": (lambda: spread_stage("dut", raw(3, 2), raw(1, 5), 3, [0], 1), 3, 5),
}


def proved(
    stage: Stage,
    check: str,
    order: str,
    options: str,
    folder: Path,
    instead: tuple[str, str] = ("endmodule", "endmodule"),
) -> str:
    """What Yosys says of a stage in the harness, whose text has one thing in place of another."""
    (inputs,), (outputs,) = stage.inputs, stage.outputs
    text = HARNESS.format(
        in_range=f"[{inputs.width - 1}:0]",
        out_range=f"[{outputs.width - 1}:0]",
        check=check,
        order=order,
    )
    own = texts([*stage.parts, stage.module])
    assert instead[0] in own["dut.v"]
    own["dut.v"] = own["dut.v"].replace(*instead)
    files = {"proof.v": text, **own}
    for name, content in files.items():
        (folder / name).write_text(content)
    script = (
        f"read_verilog -formal {' '.join(files)}; prep -top proof -flatten; memory_map; "
        f"async2sync; opt -full; sat {options} -set-assumes -prove-asserts -verify proof"
    )
    done = subprocess.run(
        ["yosys", "-p", script], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout[-6000:] + done.stderr


def places(name: str, count: int, total: int) -> str:
    """What makes it inductive that a block which collects stays: where it is in its frame."""
    if not name.startswith("collect"):
        return ""
    rules = ["at_0 + at_1 + at_2 == 2'd1"]
    if total % count:
        rules += [f"piece < {total}", f"piece_last == (piece == {total - 1})"]
        rules += [f"piece != {at} || at_{at % count}" for at in range(total)]
    return "".join(f"  always @* assert (reset || ({rule}));\n" for rule in rules)


def ordered(name: str, count: int, total: int) -> tuple[str, int]:
    """What is asked of the pieces of a stage, and for how many steps from reset."""
    if "pipeline" in name:
        return VECTORS.format(sends=count, gives=total), 14
    kinds = {f"{kind}s": int(kind in name) for kind in ("collect", "spread")}
    return ORDER.format(count=count, total=total, **kinds), 12


@pytest.mark.parametrize("name", STAGES)
def test_what_is_offered_stays(name: str, require_tool: RequireTool, tmp_path: Path) -> None:
    require_tool("yosys", "apt-get install yosys")
    make, count, total = STAGES[name]
    inside = ("endmodule", places(name, count, total) + "endmodule")
    log = proved(make(), STAYS, "", FOR_EVER, tmp_path, inside)
    assert "Induction step proven: SUCCESS!" in log


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "buffer" else pytest.mark.slow) for n in STAGES]
)
def test_nothing_is_lost_or_changes_places(
    name: str, require_tool: RequireTool, tmp_path: Path
) -> None:
    require_tool("yosys", "apt-get install yosys")
    make, count, total = STAGES[name]
    order, steps = ordered(name, count, total)
    log = proved(make(), "", order, FROM_RESET.format(steps=steps), tmp_path)
    assert f"proved base case for {steps} steps: SUCCESS!" in log, log


@pytest.mark.parametrize(
    ("name", "fault", "check"),
    [
        ("buffer", ("room_0 ? ", "!room_0 ? "), ""),
        ("buffer", ("out_valid_1 <= ", "out_valid_1 <= out_ready & "), STAYS),
        ("pipeline that spreads", ("mark_1 <= ", "mark_1 <= ~"), ""),
        ("pipeline that spreads", ("wire reads = ", "wire reads = ~out_ready | "), STAYS),
    ],
)
def test_a_fault_is_found(
    name: str, fault: tuple[str, str], check: str, require_tool: RequireTool, tmp_path: Path
) -> None:
    require_tool("yosys", "apt-get install yosys")
    make, count, total = STAGES[name]
    order, steps = ("", 0) if check else ordered(name, count, total)
    options = FOR_EVER if check else FROM_RESET.format(steps=steps)
    log = proved(make(), check, order, options, tmp_path, fault)
    assert "proof did fail" in log and "SUCCESS" not in log
