"""Stages on their own in Icarus Verilog: words in, words out, with a sender and a receiver that
wait at random in the second half; the first half shows latency and cycles a beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import hw
from xdsl.ir import Operation

from triton_dsl.lowering.to_verilog.circuit.memories import memory_of
from triton_dsl.lowering.to_verilog.circuit.stages.handshake import Cycle, Handshake
from triton_dsl.lowering.to_verilog.circuit.stages.stage import Stage
from triton_dsl.lowering.to_verilog.printer import verilog
from triton_dsl.lowering.to_verilog.tools import TOOLS, memory_text
from triton_dsl.passes.adder_graph.graph import width_of
from triton_dsl.runtime.verilog import simulate

Bounds = tuple[int, int]

BENCH = """\
module bench;
  reg clock, reset, in_valid, out_ready;
  reg [{in_top}:0] in_data;
  wire in_ready, out_valid;
  wire [{out_top}:0] out_data;
  {name} dut (.clock(clock), .reset(reset), .in_data(in_data), .in_valid(in_valid),
    .out_ready(out_ready), .in_ready(in_ready), .out_data(out_data), .out_valid(out_valid));
  reg [{in_top}:0] words [0:{beats}-1];
  reg [31:0] random;
  integer sent, got, cycle, results, moves;
  initial begin
    $readmemh("words.mem", words);
    results = $fopen("results.txt");
    moves = $fopen("moves.txt");
    clock = 0; reset = 1; in_valid = 0; out_ready = 0; in_data = 0;
    random = {seed}; sent = 0; got = 0; cycle = 0;
    #42 reset = 0;
  end
  always #5 clock = ~clock;
  always @(posedge clock) begin
    cycle <= cycle + 1;
    random <= random * 32'd1664525 + 32'd1013904223;
    if (!reset) begin
      if (!in_valid || in_ready) begin
        if (sent < {beats} && (sent < {beats} / 2 || random[31:30] == 0)) begin
          in_valid <= 1; in_data <= words[sent]; sent <= sent + 1;
        end else begin
          in_valid <= 0; in_data <= {{{in_bits}{{1'bx}}}};
        end
      end
      out_ready <= got < {beats} / 2 || random[29:28] == 0;
      $fdisplay(moves, "%b %b %b %b", in_valid, in_ready, out_valid, out_ready);
      if (out_valid && out_ready) begin
        $fdisplay(results, "%h", out_data);
        got <= got + 1;
        if (got == {beats} - 1) begin $finish; end
      end
      if (cycle > {limit}) begin $finish; end
    end
  end
endmodule
"""


@dataclass(frozen=True)
class Run:
    """What a stage gave.

    Attributes:
        rows: a row of numbers a beat.
        moves: of each cycle after reset: in_valid, in_ready, out_valid, out_ready.
    """

    rows: NDArray[np.int64]
    moves: list[tuple[bool, ...]]

    def sent(self) -> list[int]:
        """The cycles in which beats were taken."""
        return [i for i, (valid, ready, _, _) in enumerate(self.moves) if valid and ready]

    def got(self) -> list[int]:
        """The cycles in which results left."""
        return [i for i, (_, _, valid, ready) in enumerate(self.moves) if valid and ready]


class Running:
    """A handshake from reset on, cycle by cycle."""

    def __init__(self, handshake: Handshake) -> None:
        self.handshake = handshake
        self.state, self.positions = handshake.first, [0] * len(handshake.tables)

    def valid(self, inputs: Sequence[bool]) -> tuple[bool, ...]:
        """`out_valid` of each output in this cycle."""
        return self.handshake.valid(self.state, self._seen(), tuple(inputs))

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Cycle:
        """This cycle, with the clock edge after it."""
        cycle = self.handshake.cycle(self.state, self._seen(), tuple(inputs), tuple(outputs))
        self.state = cycle.after
        moved = zip(self.positions, cycle.moved, strict=True)
        self.positions = [position + moves for position, moves in moved]
        return cycle

    def _seen(self) -> tuple[int, ...]:
        pairs = zip(self.handshake.tables, self.positions, strict=True)
        return tuple(table[position % len(table)] for table, position in pairs)


def modelled(stage: Stage, moves: Sequence[tuple[bool, ...]]) -> list[tuple[bool, ...]]:
    """The same cycles by the stage's handshake, told when sender and receiver are there."""
    model = Running(stage.handshake)
    found: list[tuple[bool, ...]] = []
    for in_valid, _, _, out_ready in moves:
        cycle = model.step([in_valid], [out_ready])
        (out_valid,), (in_ready,) = cycle.valid, cycle.ready
        found.append((in_valid, in_ready, out_valid, out_ready))
    return found


def texts(modules: Sequence[Operation]) -> dict[str, str]:
    """The files of hardware modules and memories."""
    files: dict[str, str] = {}
    for op in modules:
        if isinstance(op, hw.HWModuleOp):
            files[f"{op.sym_name.data}.v"] = verilog(op)
        else:
            assert isinstance(op, hw.HWModuleExternOp)
            memory = memory_of(op)
            assert memory is not None
            files[f"{memory.symbol}.v"] = memory_text(memory, memory.symbol, TOOLS["yosys"])
    return files


def packed(row: Sequence[int], bounds: Sequence[Bounds]) -> int:
    word = place = 0
    for value, ends in zip(row, bounds, strict=True):
        width = width_of(*ends)
        word |= (int(value) % (1 << width)) << place
        place += width
    return word


def unpacked(word: int, bounds: Sequence[Bounds]) -> list[int]:
    row: list[int] = []
    for ends in bounds:
        width = width_of(*ends)
        value = word % (1 << width)
        word >>= width
        row.append(value - (1 << width) if ends[0] < 0 and value >> (width - 1) else value)
    return row


def run_stage(
    stage: Stage, rows: NDArray[np.int64], cycles: int, folder: Path, seed: int = 1
) -> Run:
    """Send rows through a stage that takes so many cycles a beat."""
    ((inputs,), (outputs,)) = stage.inputs, stage.outputs
    bench = BENCH.format(
        name=stage.module.sym_name.data,
        in_top=inputs.width - 1,
        in_bits=inputs.width,
        out_top=outputs.width - 1,
        beats=len(rows),
        limit=1000 + len(rows) * (cycles + 40) * 8,
        seed=seed,
    )
    words = "".join(f"{packed(row.tolist(), inputs.bounds):x}\n" for row in rows)
    files = {"bench.v": bench, "words.mem": words, **texts([*stage.parts, stage.module])}
    simulate(files, "bench", folder, "iverilog")
    lines = (folder / "results.txt").read_text().split()
    found = [unpacked(int(word, 16), outputs.bounds) for word in lines]
    moves = [
        tuple(bit == "1" for bit in line.split())
        for line in (folder / "moves.txt").read_text().splitlines()
    ]
    return Run(np.array(found, np.int64).reshape(-1, len(outputs.bounds)), moves)
