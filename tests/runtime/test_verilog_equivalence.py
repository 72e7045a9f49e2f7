"""Proofs by Yosys and ABC: small modules that are equal, that are not, and that take too long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from triton_dsl.ir.errors import BackendError
from triton_dsl.runtime.verilog_equivalence import Registers, prove_equal

RequireTool = Callable[[str, str], str]

PORTS = "(input clock, input enable, input [7:0] x, output [7:0] y)"


def module(name: str, body: str) -> str:
    return f"module {name} {PORTS};\n{body}\nendmodule\n"


def found(
    folder: Path, one: str, other: str, registers: Registers = "none", seconds: float = 60
) -> bool | None:
    files = {"one.v": module("one", one), "other.v": module("other", other)}
    sides = ("one", "other")
    return prove_equal(files, sides, folder, seconds=seconds, registers=registers).equal


@pytest.fixture(autouse=True)
def tools(require_tool: RequireTool) -> None:
    require_tool("yosys", "apt-get install yosys")
    require_tool("yosys-abc", "apt-get install yosys")


SUM = "  assign y = x[3:0] + x[7:4];"


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ("  assign y = x[7:4] + x[3:0];", True),
        ("  assign y = x[7:4] - ~{4'd0, x[3:0]} - 8'd1;", True),
        ("  assign y = x[7:4] + x[3:0] + (x == 8'd77);", False),
    ],
)
def test_sums(tmp_path: Path, other: str, equal: bool) -> None:
    assert found(tmp_path, SUM, other) is equal


TWO = """\
  reg [7:0] r, s;
  always @(posedge clock) if (enable) r <= x[3:0] + x[7:4];
  always @(posedge clock) if (enable) s <= r;
  assign y = s;"""

ONE = """\
  reg [7:0] s;
  always @(posedge clock) if (enable) s <= x[3:0] + x[7:4];
  assign y = s;"""


def always(body: str) -> str:
    """Enabled all the time."""
    return body.replace("if (enable) ", "")


def test_registers_count_as_wires_or_not(tmp_path: Path) -> None:
    assert found(tmp_path, SUM, always(TWO), "wires") is True
    assert found(tmp_path, always(TWO), always(ONE), "wires") is True
    assert found(tmp_path, TWO, ONE, 4) is False
    assert found(tmp_path, TWO, TWO.replace("x[3:0] + x[7:4]", "x[7:4] + x[3:0]"), 4) is True
    late = TWO.replace("r;\n", "r + (r == 8'd30);\n")
    assert found(tmp_path, TWO, late, 1) is True, "before the first number is out"
    assert found(tmp_path, TWO, late, 4) is False


def test_for_ever(tmp_path: Path) -> None:
    twice = TWO.replace("reg [7:0] r, s;", "reg [7:0] r = 0, s = 0;")
    assert found(tmp_path, twice, twice.replace("x[3:0] + x[7:4]", "x[7:4] + x[3:0]"), "for ever")
    assert found(tmp_path, twice, twice.replace("s <= r", "s <= r + 1"), "for ever") is False


def test_time_that_is_over(tmp_path: Path) -> None:
    """Products of two unknown numbers are hard for every such prover."""
    ports = "(input [27:0] x, output [27:0] y)"
    files = {
        "one.v": f"module one {ports}; assign y = x[13:0] * x[27:14]; endmodule",
        "other.v": f"module other {ports}; assign y = x[27:14] * x[13:0] + 28'd0; endmodule",
    }
    files["other.v"] = files["other.v"].replace(
        "x[27:14] * x[13:0]", "(x[27:14] * x[13:7] << 7) + x[27:14] * x[6:0]"
    )
    verdict = prove_equal(files, ("one", "other"), tmp_path, seconds=3)
    assert verdict.equal is None and verdict.seconds > 2


def test_verilog_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="'yosys' refuses the Verilog"):
        found(tmp_path, "  assign y = ;", SUM)


def test_missing_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="proofs need yosys and yosys-abc"):
        found(tmp_path, SUM, SUM)
