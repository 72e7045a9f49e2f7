"""Yosys proves small circuits equal to plain sums of products, for every input.

The other side is Verilog that this file writes from the weights, with numbers that are wide enough
for everything: no shared sums, no widths from intervals, no merged thresholds.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.interface import Interface

from .test_verilog_target import network, random_values

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

WIDE = 24
"""Bits of the numbers of the plain form."""

NAIVE = """\
module naive (input clock, input enable, input [{top}:0] x, output [{out_top}:0] y);
{lines}
{delay}
endmodule
"""

CIRCUIT = """\
module circuit (input clock, input enable, input [{top}:0] x, output [{out_top}:0] y);
  wire [{core_top}:0] core;
  net_core core_i (.clock(clock), .enable(enable), .x(x), .y(core));
{delay}
endmodule
"""


def naive(
    sizes: list[int], values: dict[str, Array], after: str, source: str, bits: int, delay: int
) -> str:
    """What `network` means, an output of `WIDE` bits an element, so many cycles later."""
    lines: list[str] = []
    for k in range(sizes[0]):
        sign = f"x[{(k + 1) * bits - 1}]" if source == "i8" else "1'b0"
        lines.append(_wire(f"h0_{k}", f"{{{{{WIDE - bits}{{{sign}}}}}, x[{k * bits} +: {bits}]}}"))
    for i, count in enumerate(sizes[1:]):
        weight, bias = values[f"fc{i + 1}.weight"], values[f"fc{i + 1}.bias"]
        for n in range(count):
            terms = [f" {'+' if w > 0 else '-'} h{i}_{k}" for k, w in enumerate(weight[:, n]) if w]
            lines.append(_wire(f"a{i}_{n}", _number(bias[n]) + "".join(terms)))
            acc = f"a{i}_{n}"
            if after.startswith("relu"):
                lines.append(_wire(f"r{i}_{n}", f"{acc} > {WIDE}'sd0 ? {acc} : {WIDE}'sd0"))
                acc = f"r{i}_{n}"
            value = acc
            if i < len(sizes) - 2 and after.endswith("thresholds"):
                tests = [
                    f"({acc} >= {_number(t)} ? {WIDE}'sd1 : {WIDE}'sd0)" for t in values[f"t{i}"][n]
                ]
                value = " + ".join(tests)
            elif i < len(sizes) - 2:
                shift, multiplier = int(values[f"s{i}"][n]), values[f"m{i}"][n]
                product = f"{acc} * {_number(multiplier)} + {_number(1 << (shift - 1))}"
                lines.append(_wire(f"q{i}_{n}", f"(({product}) >>> {shift}) - {WIDE}'sd1"))
                q = f"q{i}_{n}"
                value = f"{q} < {_number(-9)} ? {_number(-9)} : {q} > {WIDE}'sd6 ? {WIDE}'sd6 : {q}"
            lines.append(_wire(f"h{i + 1}_{n}", value))
    results = ", ".join(f"h{len(sizes) - 1}_{n}" for n in range(sizes[-1] - 1, -1, -1))
    top, out_top = sizes[0] * bits - 1, WIDE * sizes[-1] - 1
    lines += [f"  wire [{out_top}:0] d0 = {{{results}}};"]
    for cycle in range(1, delay + 1):
        lines.append(f"  reg [{out_top}:0] d{cycle} = 0;")
        lines.append(f"  always @(posedge clock) if (enable) d{cycle} <= d{cycle - 1};")
    filled = _filled(f"d{delay}", delay)
    return NAIVE.format(top=top, out_top=out_top, lines="\n".join(lines), delay=filled)


def _wire(name: str, value: str) -> str:
    return f"  wire signed [{WIDE - 1}:0] {name} = {value};"


def _number(value: int) -> str:
    return f"{WIDE}'sd{value}" if value >= 0 else f"(-{WIDE}'sd{-int(value)})"


def _filled(value: str, cycles: int) -> str:
    """An output that is 0 until so many cycles with an enable have passed."""
    if not cycles:
        return f"  assign y = {value};"
    return f"""\
  reg [{cycles - 1}:0] age = 0;
  always @(posedge clock) if (enable) age <= {{age, 1'b1}};
  assign y = age[{cycles - 1}] ? {value} : 0;"""


def extended(interface: Interface) -> str:
    """The circuit, with every element of its result made `WIDE` bits wide."""
    (x,), (y,) = interface.inputs, interface.outputs
    parts: list[str] = []
    low = 0
    for least, width in zip(y.low, y.widths, strict=True):
        sign = f"core[{low + width - 1}]" if least < 0 else "1'b0"
        parts.append(f"{{{{{WIDE - width}{{{sign}}}}}, core[{low} +: {width}]}}")
        low += width
    return CIRCUIT.format(
        top=sum(x.widths) - 1,
        out_top=WIDE * len(parts) - 1,
        core_top=low - 1,
        delay=_filled(f"{{{', '.join(parts[::-1])}}}", interface.latency),
    )


def proof(
    program: Program,
    folder: Path,
    sizes: list[int],
    after: str,
    source: str = "i8",
    bits: int = 3,
    unbounded: bool = False,
    change: Callable[[dict[str, Array]], None] = lambda values: None,
    **options: Any,
) -> bool:
    """Whether Yosys and ABC find both equal, for every input.

    Without registers that is all. With them it is so over as many cycles as the circuit has
    registers and two more, with a halt in any of them; `unbounded` proves it for ever.
    """
    rng = np.random.default_rng(sum(sizes) + bits)
    values = random_values(rng, sizes)
    for i, n in enumerate(sizes[1:]):  # of few bits, for the plain form's sake
        values[f"s{i}"] = rng.integers(2, 9, n)
        values[f"m{i}"] = (2.0 ** values[f"s{i}"] * rng.uniform(-0.7, 0.7, n)).astype(np.int64)
    module = program(network(sizes, source, after, False), values)
    given = {"input_bits": bits, "time_budget": 0.02, "vectors": 2, **options}
    artifact = compile_to_target(module, "verilog", given)
    interface = Interface.from_dict(json.loads(artifact.text("report.json")))
    change(values)
    text = naive(sizes, values, after, source, bits, interface.latency)
    (folder / "naive.v").write_text(text + extended(interface))
    rtl = [name for name in artifact.files if name.startswith("rtl/")]
    for name in rtl:
        (folder / Path(name).name).write_text(artifact.text(name))
    files = ["naive.v", *(Path(name).name for name in rtl)]
    script = f"read_verilog {' '.join(files)}\nhierarchy -check\nproc\ndesign -save both\n"
    for side in ("naive", "circuit"):
        script += (
            f"design -load both\nhierarchy -top {side}\nflatten\nopt -full\nwreduce\n"
            "setundef -init -zero\ntechmap\ndffunmap\nopt_clean\n"
            f"aigmap\nwrite_aiger -zinit {side}.aig\n"
        )
    (folder / "read.ys").write_text(script)
    subprocess.run(["yosys", "-q", "read.ys"], cwd=folder, check=True)
    names = ["naive.aig", "circuit.aig"]
    if frames := interface.latency + 2 if interface.latency and not unbounded else 0:
        steps = [f"read {name}; frames -i -F {frames}; write {name}" for name in names]
    else:
        steps = []
    prove = "dsec" if unbounded else "cec"
    command = "; ".join([*steps, f"{prove} {' '.join(names)}"])
    done = subprocess.run(
        ["yosys-abc", "-c", command], cwd=folder, capture_output=True, text=True, check=True
    )
    return "Networks are equivalent" in done.stdout


@pytest.fixture(autouse=True)
def tools(require_tool: RequireTool) -> None:
    require_tool("yosys", "apt-get install yosys")
    require_tool("yosys-abc", "apt-get install yosys")


@pytest.mark.parametrize(
    ("sizes", "after", "source", "bits"),
    [
        ([4, 3], "none", "i8", 4),
        pytest.param([16, 8], "relu", "ui8", 1, marks=pytest.mark.slow),
        pytest.param([12, 6], "relu", "i8", 2, marks=pytest.mark.slow),
        ([6, 4, 3], "thresholds", "i8", 3),
        ([6, 4, 3], "relu thresholds", "ui8", 2),
        ([6, 4, 3], "none", "i8", 2),
    ],
)
def test_shared_sums_are_plain_sums(
    program: Program, tmp_path: Path, sizes: list[int], after: str, source: str, bits: int
) -> None:
    assert proof(program, tmp_path, sizes, after, source, bits, pipeline=0)


@pytest.mark.parametrize(
    ("sizes", "after", "pipeline"),
    [([6, 4, 3], "thresholds", 1), ([6, 4, 3], "none", 2), ([5, 4], "relu", 1)],
)
def test_pipelines_are_plain_sums_some_cycles_later(
    program: Program, tmp_path: Path, sizes: list[int], after: str, pipeline: int
) -> None:
    assert proof(program, tmp_path, sizes, after, bits=2, pipeline=pipeline)


@pytest.mark.slow
def test_a_pipeline_is_right_for_ever(program: Program, tmp_path: Path) -> None:
    assert proof(program, tmp_path, [4, 3], "none", bits=2, unbounded=True)


@pytest.mark.parametrize("key", ["fc1.weight", "fc2.bias", "t0", "m0"])
@pytest.mark.parametrize("pipeline", [0, 1])
def test_another_number_is_another_circuit(
    program: Program, tmp_path: Path, key: str, pipeline: int
) -> None:
    def change(values: dict[str, Array]) -> None:
        array = values[key].copy()
        if key == "t0":
            array[:] = 0
        else:
            array.flat[0] += {"fc1.weight": -1 if array.flat[0] > 0 else 1, "m0": 90}.get(key, 1)
        values[key] = array

    after = "thresholds" if key == "t0" else "none"
    sizes = [4, 3, 2]
    assert not proof(program, tmp_path, sizes, after, bits=2, change=change, pipeline=pipeline)
