"""Every op of `comb` means in Verilog what it means in Python; what has no Verilog is refused."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.to_verilog.printer import LINE, modules, verilog
from triton_dsl.runtime.verilog import simulate


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, w: a + b,
    "sub": lambda a, b, w: a - b,
    "mul": lambda a, b, w: a * b,
    "and": lambda a, b, w: a & b,
    "or": lambda a, b, w: a | b,
    "xor": lambda a, b, w: a ^ b,
    "shl": lambda a, b, w: a << b,
    "shru": lambda a, b, w: a >> b,
    "shrs": lambda a, b, w: signed(a, w) >> b,
}
COMPARE: dict[str, Callable[[int, int, int], bool]] = {
    "eq": lambda a, b, w: a == b,
    "ne": lambda a, b, w: a != b,
    "slt": lambda a, b, w: signed(a, w) < signed(b, w),
    "sle": lambda a, b, w: signed(a, w) <= signed(b, w),
    "sgt": lambda a, b, w: signed(a, w) > signed(b, w),
    "sge": lambda a, b, w: signed(a, w) >= signed(b, w),
    "ult": lambda a, b, w: a < b,
    "ule": lambda a, b, w: a <= b,
    "ugt": lambda a, b, w: a > b,
    "uge": lambda a, b, w: a >= b,
}


def random_program(rng: random.Random) -> tuple[str, list[int], int, list[list[int]], list[int]]:
    """A module of random ops: its text, widths in and out, inputs, and outputs by Python."""
    widths = [rng.randint(1, 9) for _ in range(3)]
    vectors = [[rng.getrandbits(w) for w in widths] for _ in range(8)]
    values = [(f"%x{i}", w, [v[i] for v in vectors]) for i, w in enumerate(widths)]
    lines: list[str] = []

    def make(text: str, width: int, results: list[int]) -> None:
        name = f"%v{len(lines)}"
        lines.append(f"    {name} = {text}")
        values.append((name, width, [r % (1 << width) for r in results]))

    for _ in range(rng.randint(3, 14)):
        name, w, xs = rng.choice(values)
        others = [v for v in values if v[1] == w]
        other, _, ys = rng.choice(others)
        bit, _, bits = rng.choice([v for v in values if v[1] == 1] or [("", 0, [])])
        match rng.randrange(7):
            case 0 | 1:
                op = rng.choice(list(BINARY))
                results = [BINARY[op](x, y, w) for x, y in zip(xs, ys, strict=True)]
                make(f"comb.{op} {name}, {other} : i{w}", w, results)
            case 2:
                op = rng.choice(list(COMPARE))
                results = [int(COMPARE[op](x, y, w)) for x, y in zip(xs, ys, strict=True)]
                make(f"comb.icmp {op} {name}, {other} : i{w}", 1, results)
            case 3:
                low = rng.randrange(w)
                n = rng.randint(1, w - low)
                make(f"comb.extract {name} from {low} : (i{w}) -> i{n}", n, [x >> low for x in xs])
            case 4 if w < 12:
                name2, w2, zs = rng.choice(values)
                joined = [x << w2 | z for x, z in zip(xs, zs, strict=True)]
                make(f"comb.concat {name}, {name2} : i{w}, i{w2}", w + w2, joined)
            case 5 if w < 6:
                make(f"comb.replicate {name} : (i{w}) -> i{2 * w}", 2 * w, [x << w | x for x in xs])
            case _ if bit:
                chosen = [x if b else y for b, x, y in zip(bits, xs, ys, strict=True)]
                make(f"comb.mux {bit}, {name}, {other} : i{w}", w, chosen)
            case _:
                number = rng.getrandbits(w)
                shown = f"{signed(number, w)} : i{w}" if w > 1 else ("false", "true")[number]
                make(f"hw.constant {shown}", w, [number] * len(vectors))
    name, width, results = values[-1]
    ports = ", ".join(f"in %x{i} : i{w}" for i, w in enumerate(widths))
    text = (
        f"hw.module @dut({ports}, out y : i{width}) {{\n"
        + "\n".join(lines)
        + f"\n    hw.output {name} : i{width}\n}}"
    )
    return text, widths, width, vectors, results


TESTBENCH = """\
module tb;
  {regs}
  wire [{top}:0] y;
  dut dut_i ({ports}, .y(y));
  initial begin
{steps}
  end
endmodule
"""


@settings(max_examples=40)
@given(st.integers(0, 1_000_000))
def test_random_circuits(
    iverilog: str, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    text, widths, width, vectors, expected = random_program(random.Random(seed))
    (module,) = modules(parse_module(text))
    steps = "\n".join(
        "    " + " ".join(f"x{i} = {value};" for i, value in enumerate(vector)) + " #1"
        ' $display("%0d", y);'
        for vector in vectors
    )
    bench = TESTBENCH.format(
        regs=" ".join(f"reg [{w - 1}:0] x{i};" for i, w in enumerate(widths)),
        top=width - 1,
        ports=", ".join(f".x{i}(x{i})" for i in range(3)),
        steps=steps,
    )
    folder = tmp_path_factory.mktemp("circuit")
    run = simulate({"dut.v": verilog(module), "tb.v": bench}, "tb", folder, "iverilog")
    assert [int(line) for line in run.output.split()] == expected


REGISTERS = """
hw.module @dut(in %clock : !seq.clock, in %reset : i1, in %go : i1, in %a : i4, out y : i4) {
  %zero = hw.constant 0 : i4
  %next = comb.add %y, %a : i4
  %kept = comb.mux %go, %next, %y : i4
  %y = seq.compreg %kept, %clock reset %reset, %zero : i4
  hw.output %y : i4
}"""


def test_a_register_with_enable_and_reset(iverilog: str, tmp_path: Path) -> None:
    (module,) = modules(parse_module(REGISTERS))
    text = verilog(module)
    assert "if (go) y_1 <= y_1 + a;" in text and "if (reset) y_1 <= 4'd0;" in text
    bench = """
module tb;
  reg clock, reset, go; reg [3:0] a; wire [3:0] y;
  dut d (.clock(clock), .reset(reset), .go(go), .a(a), .y(y));
  initial begin
    clock = 0; reset = 1; go = 1; a = 7;
    #1 clock = 1; #1 clock = 0; reset = 0; $display("%0d", y);
    #1 clock = 1; #1 clock = 0; go = 0; $display("%0d", y);
    #1 clock = 1; #1 clock = 0; go = 1; $display("%0d", y);
    #1 clock = 1; #1 clock = 0; $display("%0d", y);
  end
endmodule"""
    run = simulate({"dut.v": text, "tb.v": bench}, "tb", tmp_path, "iverilog")
    assert run.output.split() == ["0", "7", "7", "14"]


def test_ops_without_verilog_are_named() -> None:
    (module,) = modules(
        parse_module(
            """hw.module @dut(in %a : i4, in %b : i4, out y : !hw.array<2xi4>) {
  %y = hw.array_create %a, %b : i4
  hw.output %y : !hw.array<2xi4>
}"""
        )
    )
    with pytest.raises(UnsupportedError, match=r"hw\.array_create"):
        verilog(module)


def test_comments_cannot_end_early() -> None:
    module = parse_module(
        r"""hw.module @dut(in %a : i4, out y : i4) attributes {verilog.comment = "a\0Amodule x"} {
  hw.output %a : i4
}"""
    )
    assert verilog(modules(module)[0]).splitlines()[0] == "// a?module x"


def test_a_long_sum_that_begins_with_braces(iverilog: str, tmp_path: Path) -> None:
    name = "a_name_that_is_so_long_that_the_line_has_to_be_broken"
    (module,) = modules(
        parse_module(
            f"""hw.module @dut(in %{name} : i4, out y : i5) {{
  %sign = comb.extract %{name} from 3 : (i4) -> i1
  %five = hw.constant 5 : i5
  %wide = comb.concat %sign, %{name} : i1, i4
  %total = comb.add %wide, %five : i5
  %square = comb.mul %total, %total : i5
  hw.output %square : i5
}}"""
        )
    )
    text = verilog(module)
    assert len(max(text.splitlines(), key=len)) > LINE
    bench = f"""
module tb;
  wire [4:0] y;
  dut d (.{name}(4'd9), .y(y));
  initial #1 $display("%0d", y);
endmodule"""
    run = simulate({"dut.v": text, "tb.v": bench}, "tb", tmp_path, "iverilog")
    assert run.output.split() == [str((25 + 5) ** 2 % 32)]
