"""Assertions in Verilog, proved for all time or some cycles, beside ones that fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from triton_dsl.runtime.verilog_properties import prove_assertions

LONG = """
module top(input clk, input up);
  reg [31:0] n = 0;
  always @(posedge clk) begin
    n <= n + up;
    assert (n != 32'hFFFFFFFF);
  end
endmodule
"""
COUNTER = """
module top(input clk);
  reg [3:0] n = 0;
  always @(posedge clk) begin
    n <= n == 9 ? 0 : n + 1;
    assert (n != LIMIT);
  end
endmodule
"""


@pytest.fixture(autouse=True)
def yosys(require_tool: Callable[[str, str], str]) -> None:
    require_tool("yosys-abc", "apt-get install yosys")


@pytest.mark.parametrize(
    ("limit", "cycles", "holds"),
    [(12, None, True), (9, None, False), (12, 40, True), (9, 6, True), (9, 40, False)],
)
def test_what_a_counter_reaches(
    limit: int, cycles: int | None, holds: bool, tmp_path: Path
) -> None:
    files = {"top.v": COUNTER.replace("LIMIT", str(limit))}
    found = prove_assertions(files, "top", tmp_path, seconds=60, cycles=cycles)
    assert found.holds is holds


def test_time_that_is_over_proves_nothing(tmp_path: Path) -> None:
    """A few cycles of the many asked for are looked at, and ABC says how many."""
    found = prove_assertions({"top.v": LONG}, "top", tmp_path, seconds=2, cycles=1_000_000)
    assert found.holds is None
