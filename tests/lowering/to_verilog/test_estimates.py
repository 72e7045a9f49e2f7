"""The estimate of circuits against what Yosys makes of them."""

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.artifact import Artifact, write_artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.estimate.devices import find_device

from .images import ImageProgram

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]


TABLES = {"RAM32M16": 8, "RAM64M8": 8, "RAM32M": 4, "RAM64M": 4}
"""Look-up tables in a cell that has several."""

CELLS = {
    "xcvu9p": (r"LUT[1-6](_2)?|INV|SRL16E|SRLC32E|RAM\d.*", r"FD.*", "CARRY4"),
    "ecp5-85": (r"LUT4", r"TRELLIS_FF", "CCU2C"),
    "ice40-hx8k": (r"SB_LUT4", r"SB_DFF.*", "SB_CARRY"),
}


def layers(sizes: Sequence[int], element: str, after: str) -> str:
    """Layers `fc1`, …; between two of them thresholds, or a requantisation to 4 bits."""
    lines: list[str] = []
    value = "x"
    for i, (k, n) in enumerate(pairwise(sizes)):
        acc = f"tensor<?x{n}xi32>"
        lines.append(f"""
  %w{i} = ternary.parameter "fc{i + 1}.weight" : tensor<{k}x{n}x!ternary.trit>
  %p{i} = ternary.matmul %{value}, %w{i}
       : tensor<?x{k}x{element}>, tensor<{k}x{n}x!ternary.trit> -> {acc}""")
        value, element = f"p{i}", "i32"
        if i == len(sizes) - 2:
            break
        if after == "thresholds":
            lines.append(f"""
  %t{i} = tensor.parameter "t{i}" : tensor<{n}x5xi32>
  %q{i} = tensor.multi_threshold %{value}, %t{i}
       : ({acc}, tensor<{n}x5xi32>) -> tensor<?x{n}xi8>""")
        else:
            lines.append(f"""
  %m{i} = tensor.parameter "m{i}" : tensor<{n}xi32>
  %s{i} = tensor.parameter "s{i}" : tensor<{n}xi32>
  %z{i} = tensor.constant dense<-1> : tensor<i8>
  %r{i} = tensor.relu %{value} : ({acc}) -> {acc}
  %q{i} = tensor.requantize %r{i}, %m{i}, %s{i}, %z{i} {{low = -8 : i64, high = 7 : i64}}
       : ({acc}, tensor<{n}xi32>, tensor<{n}xi32>, tensor<i8>) -> tensor<?x{n}xi8>""")
        value, element = f"q{i}", "i8"
    result = f"tensor<?x{sizes[-1]}x{element}>"
    source = re.search(r"matmul %x, %w0\s+: (tensor<[^>]*>)", lines[0])
    assert source is not None
    body = "\n".join(lines)
    return f"""builtin.module @net {{
func.func @forward(%x: {source.group(1)}) -> {result} {{
{body}
  func.return %{value} : {result}
}}
}}"""


def network(program: Program, sizes: Sequence[int], element: str, after: str) -> ModuleOp:
    rng = np.random.default_rng(1)
    values: dict[str, Array] = {}
    for i, (k, n) in enumerate(pairwise(sizes)):
        values[f"fc{i + 1}.weight"] = rng.integers(-1, 2, (k, n))
        spread = int(3 * k**0.5)
        values[f"t{i}"] = np.sort(rng.integers(-spread, spread, (n, 5)), axis=1)
        values[f"m{i}"] = rng.integers(1 << 29, 1 << 30, n)
        values[f"s{i}"] = rng.integers(32, 34, n)
    return program(layers(sizes, element, after), values)


def compare(
    require_tool: RequireTool, folder: Path, artifact: Artifact, device: str, bound: float
) -> None:
    """Look-up tables and registers of the estimate within `bound` of what Yosys gives."""
    yosys = require_tool("yosys", "apt-get install yosys")
    write_artifact(artifact, folder)
    reading = "read_verilog" + (" -DTRITON_CARRY8" if device == "xcvu9p" else "")
    reads = "; ".join(f"{reading} {path}" for path in sorted(folder.glob("rtl/*.v")))
    script = (
        f"{reads}; {find_device(device).built_from.synthesis} -top net; tee -o stat.json stat -json"
    )
    subprocess.run([yosys, "-q", "-p", script], cwd=folder, check=True, capture_output=True)
    cells = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    tables, registers, carries = (
        sum(
            count * TABLES.get(cell, 1)
            for cell, count in cells.items()
            if re.fullmatch(pattern, cell)
        )
        for pattern in CELLS[device]
    )
    if device == "ecp5-85":
        tables += 2 * carries
    size = json.loads(artifact.text("report.json"))["estimate"]
    assert size["luts"] == pytest.approx(tables, rel=bound)
    assert size["flip_flops"] == pytest.approx(registers, rel=bound)
    if device == "xcvu9p":
        shifts = cells.get("SRL16E", 0) + cells.get("SRLC32E", 0)
        assert size["shift_luts"] == pytest.approx(shifts, rel=bound, abs=2)


@pytest.mark.parametrize(
    ("element", "bits", "after"),
    [
        pytest.param("i8", 4, "thresholds", marks=pytest.mark.slow),
        ("ui8", 1, "requantize"),
    ],
)
def test_small_networks(
    require_tool: RequireTool,
    program: Program,
    tmp_path: Path,
    element: str,
    bits: int,
    after: str,
) -> None:
    module = network(program, [24, 12, 6], element, after)
    options = {"input_bits": bits, "device": "xcvu9p", "vectors": 2}
    artifact = compile_to_target(module, "verilog", options)
    compare(require_tool, tmp_path, artifact, "xcvu9p", 0.05)


BOUNDS = {
    ("xcvu9p", 0): 0.05,
    ("xcvu9p", 1): 0.05,
    ("xcvu9p", 2): 0.05,
    ("ecp5-85", 0): 0.05,
    ("ecp5-85", 1): 0.05,
    ("ecp5-85", 2): 0.05,
    ("ice40-hx8k", 0): 0.1,
    ("ice40-hx8k", 1): 0.05,
    ("ice40-hx8k", 2): 0.07,
}
"""By device and levels between registers; long paths of logic are mapped less alike."""


@pytest.mark.slow
@pytest.mark.parametrize(("device", "pipeline"), BOUNDS)
def test_networks_on_every_family(
    require_tool: RequireTool, program: Program, tmp_path: Path, device: str, pipeline: int
) -> None:
    module = network(program, [32, 24, 10], "i8", "thresholds")
    options = {"input_bits": 4, "pipeline": pipeline, "device": device, "vectors": 2}
    artifact = compile_to_target(module, "verilog", options)
    compare(require_tool, tmp_path, artifact, device, BOUNDS[device, pipeline])


LARGE = {
    "r64x64, 4 bits": ("r64x64_s50.npy", "i8", 4),
    "r64x64, 1 bit": ("r64x64_s50.npy", "ui8", 1),
    "r256x64, 4 bits": ("r256x64_s50.npy", "i8", 4),
    "VGG-7 conv1, 8 bits": ("conv1_weights.csv", "i8", 8),
    "VGG-7 conv2, 4 bits": ("conv2_weights.csv", "i8", 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_matrices(
    require_tool: RequireTool, program: Program, tmp_path: Path, shared_data: Any, name: str
) -> None:
    file, element, bits = LARGE[name]
    folder = ("models", "vgg7_ternary") if file.endswith("csv") else ("matrices",)
    path = shared_data.path(*folder, file)
    matrix = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",")
    k, n = matrix.shape
    module = program(layers([k, n], element, ""), {"fc1.weight": matrix.astype(np.int8)})
    options = {"input_bits": bits, "device": "xcvu9p", "vectors": 2}
    artifact = compile_to_target(module, "verilog", options)
    compare(require_tool, tmp_path, artifact, "xcvu9p", 0.05)


def matrix(rows: int, columns: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(-1, 2, (rows, columns))


def images() -> tuple[str, dict[str, Array]]:
    found = ImageProgram(5, 2, 8, 8, "i8")
    found.conv(4, (3, 3), padding=(1, 1, 1, 1), fused=True)
    found.conv(6, (3, 3), strides=(2, 2), padding=(1, 1, 1, 1), fused=True)
    found.unary("flatten", shape=(96,))
    found.matmul(5)
    return found.text(), found.values


def two_digits() -> tuple[str, dict[str, Array]]:
    found = ImageProgram(15, 3, 8, 8, "i8")
    for _ in range(2):
        found.conv(8, (3, 3), padding=(1, 1, 1, 1), fused=True)
    return found.text(), found.values


def depthwise() -> tuple[str, dict[str, Array]]:
    found = ImageProgram(13, 2, 10, 8, "i8")
    found.conv(8, (3, 3), strides=(2, 2), padding=(1, 1, 1, 1), fused=True)
    found.conv(8, (3, 3), padding=(1, 1, 1, 1), groups=8, fused=True)
    found.conv(12, (1, 1), fused=True)
    return found.text(), found.values


HELD_OUT = (
    *("48x40, 2 bits", "96x32, 3 bits", "three layers"),
    *("folded", "selections", "images", "digit-serial", "depthwise"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD_OUT)
def test_circuits_that_nothing_was_fitted_to(
    require_tool: RequireTool, program: Program, tmp_path: Path, name: str
) -> None:
    options: dict[str, Any] = {"input_bits": 4, "device": "xcvu9p", "vectors": 2}
    match name:
        case "48x40, 2 bits":
            module = program(layers([48, 40], "i8", ""), {"fc1.weight": matrix(48, 40, 101)})
            options["input_bits"] = 2
        case "96x32, 3 bits":
            module = program(layers([96, 32], "i8", ""), {"fc1.weight": matrix(96, 32, 102)})
            options["input_bits"] = 3
        case "three layers":
            module = network(program, [40, 24, 16, 6], "i8", "thresholds")
        case "folded":
            module = network(program, [32, 24, 10], "i8", "thresholds")
            options["folding"] = "fc1:pe=4,simd=8;fc2:pe=2,simd=8"
        case "selections":
            module = program(layers([72, 12], "i8", ""), {"fc1.weight": matrix(72, 12, 103)})
            options |= {"input_bits": 3, "folding": "fc1:pe=2,simd=3"}
        case "digit-serial":
            module = program(*two_digits())
            options |= {"folding": "conv1:pe=2,simd=9;conv2:digit=2", "time_budget": 0.0}
        case "depthwise":
            module = program(*depthwise())
            options["folding"] = "conv1:pe=2,simd=6;conv2:pe=1,simd=3;conv3:pe=3,simd=4"
        case _:
            module = program(*images())
    artifact = compile_to_target(module, "verilog", options)
    compare(require_tool, tmp_path, artifact, "xcvu9p", 0.07 if name == "selections" else 0.05)
