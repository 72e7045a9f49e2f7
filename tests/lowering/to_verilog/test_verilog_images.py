"""Circuits that work on images give what the interpreter gives, at any pace of sender and receiver.

The test benches let sender and receiver wait at random in the second half of the frames, and
compare latency and interval with what the report says.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.artifact import write_artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog

from .images import ImageProgram

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]
OPTIONS = {"time_budget": 0.001, "vectors": 2}
FRAMES = 8


def checked(
    program: Program, written: ImageProgram, frames: int = FRAMES, **options: Any
) -> dict[str, Any]:
    """The report of a program's circuit, whose results are those of the interpreter."""
    module = program(written.text(), written.values)
    x = written.inputs(frames)
    (expected,) = run_module(module, [x])
    artifact = compile_to_target(module, "verilog", {**OPTIONS, **options})
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, expected)
    return json.loads(artifact.text("report.json"))


PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=20)
@given(
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    kernel=PAIRS,
    strides=PAIRS,
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    groups=st.sampled_from([(2, 3, 1), (2, 4, 2), (3, 3, 3)]),
    fused=st.booleans(),
    pipeline=st.integers(0, 2),
    seed=st.integers(0, 1000),
)
def test_convolutions_of_any_geometry(
    iverilog: str,
    program: Program,
    sizes: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    groups: tuple[int, int, int],
    fused: bool,
    pipeline: int,
    seed: int,
) -> None:
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = tuple(  # pyright: ignore[reportAssignmentType]
        max(n, e - low - high)
        for n, e, low, high in zip(sizes, extents, padding[:2], padding[2:], strict=True)
    )
    written = ImageProgram(seed, groups[0], *sizes, "i8" if seed % 2 else "ui8")
    written.conv(groups[1], kernel, strides, padding, dilation, groups[2], fused=fused)
    checked(program, written, pipeline=pipeline)


def test_a_pixel_goes_in_every_cycle(iverilog: str, program: Program) -> None:
    written = ImageProgram(0, 2, 6, 5, "i8")
    written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    written.conv(2, (3, 3), padding=(1, 1, 1, 1))
    report = checked(program, written)
    assert report["initiation_interval"] == report["beats_in"] == report["beats_out"] == 30
    assert report["latency_cycles"] > 30 + 2 * (5 + 1)


@settings(max_examples=6)
@given(
    kernel=st.sampled_from([(2, 2), (3, 3), (1, 2)]),
    strides=PAIRS,
    padded=st.booleans(),
    element=st.sampled_from(["i8", "ui8"]),
    seed=st.integers(0, 100),
)
def test_maximum_pooling(
    iverilog: str,
    program: Program,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padded: bool,
    element: str,
    seed: int,
) -> None:
    written = ImageProgram(seed, 2, 5, 6, element)
    pads = [k // 2 if padded else 0 for k in kernel]
    written.pool(kernel, strides, (*pads, *pads))
    checked(program, written)


@settings(max_examples=8)
@given(
    kernels=st.lists(st.sampled_from([1, 3]), min_size=1, max_size=3),
    shortcut=st.sampled_from(["none", "conv", "narrow"]),
    joined=st.sampled_from(["add", "concatenate"]),
    end=st.sampled_from(["image", "sum", "flatten"]),
    seed=st.integers(0, 1000),
)
def test_ways_that_meet_again(
    iverilog: str,
    program: Program,
    kernels: list[int],
    shortcut: str,
    joined: str,
    end: str,
    seed: int,
) -> None:
    written = ImageProgram(seed, 2, 5, 4, "i8")
    written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    start = written.mark()
    for kernel in kernels:
        p = kernel // 2
        written.conv(3, (kernel, kernel), padding=(p, p, p, p), fused=True)
    way = written.mark()
    written.back(start)
    if shortcut != "none":
        written.conv(
            3,
            (1, 1) if shortcut == "narrow" else (3, 1),
            fused=True,
            padding=((0, 0, 0, 0) if shortcut == "narrow" else (1, 0, 1, 0)),
        )
    written.unary("convert", "i32")
    other = written.mark()
    written.back(way)
    written.unary("convert", "i32")
    written.binary(joined, other, "{axis = 1 : i64}" if joined == "concatenate" else "")
    if end == "sum":
        attr = "{axes = array<i64: 2, 3>, keepdims = false}"
        written.unary("reduce_sum", shape=written.shape[:1], attr=attr)
    if end == "flatten":
        written.unary("flatten", shape=(int(np.prod(written.shape)),))
        written.matmul(3)
    checked(program, written)


def test_weights_of_several_bits(iverilog: str, program: Program) -> None:
    written = ImageProgram(3, 2, 4, 4, "i8")
    written.unary("convert", "i32")
    written.conv(3, (2, 2), digits=3)
    checked(program, written)


def test_more_channels_than_a_text_holds(iverilog: str, program: Program) -> None:
    written = ImageProgram(6, 1, 3, 3, "i8")
    written.conv(65, (2, 2), fused=True)
    checked(program, written, folding="conv1:pe=13,simd=2")


def test_a_sum_of_all_positions_that_could_wrap_is_refused(program: Program) -> None:
    written = ImageProgram(7, 1, 6, 6, "i8")
    written.conv(2, (1, 1), fused=True)
    written.unary("reduce_sum", shape=(2,), attr="{axes = array<i64: 2, 3>}")
    module = program(written.text(), written.values)
    with pytest.raises(UnsupportedError, match=r"may reach \[\d+, 252\] and wrap around in i8"):
        compile_to_target(module, "verilog", OPTIONS)


def test_constant_padding_between_positions(iverilog: str, program: Program) -> None:
    written = ImageProgram(4, 2, 3, 4, "i8")
    written.pad((2, 1), (0, 3), -5)
    written.conv(2, (3, 3), padding=(1, 1, 1, 1))
    checked(program, written)


@pytest.mark.parametrize("around", [0, 1])
def test_padding_of_channels(iverilog: str, program: Program, around: int) -> None:
    """Alone, as a shortcut to more channels has it, and with positions."""
    written = ImageProgram(5, 2, 3, 4, "i8")
    written.pad((0, around), (around, 0), 3, channels=(1, 2))
    written.conv(2, (2, 2))
    written.unary("reduce_max", shape=(2,), attr="{axes = array<i64: 2, 3>}")
    written.pad((), (), -2, channels=(0, 1))
    checked(program, written)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_largest_number_of_a_frame(iverilog: str, program: Program, kind: str) -> None:
    written = ImageProgram(5, 3, 3, 3, "i8")
    written.conv(2, (2, 2))
    attr = "{axes = array<i64: 2, 3>, keepdims = true}"
    written.unary(f"reduce_{kind}", shape=(2, 1, 1), attr=attr)
    report = checked(program, written)
    assert report["beats_out"] == 1


def test_classes_of_positions(iverilog: str, program: Program) -> None:
    written = ImageProgram(6, 1, 4, 3, "ui8")
    written.conv(4, (3, 3), padding=(1, 1, 1, 1))
    written.unary("argmax", "i64", (4, 3), "{axis = 1 : i64}")
    checked(program, written)


def test_vectors_become_images(iverilog: str, program: Program) -> None:
    written = ImageProgram(7, 1, 4, 4, "i8")
    written.unary("flatten", shape=(16,))
    written.unary("reshape_to", shape=(2, 2, 4), attr="{shape = array<i64: -1, 2, 2, 4>}")
    written.conv(2, (2, 2), fused=True)
    checked(program, written)


def test_padding_of_one_value_costs_no_stage(iverilog: str, program: Program) -> None:
    written = ImageProgram(8, 2, 4, 5, "i8")
    written.pad((1, 1), (1, 1), 9)
    written.conv(2, (3, 3), fused=True)
    report = checked(program, written)
    assert report["initiation_interval"] == 20


def test_an_image_beside_one_that_nothing_reads(iverilog: str, program: Program) -> None:
    written = ImageProgram(12, 2, 3, 4, "i8")
    written.conv(3, (2, 2))
    text = written.text()
    both = text.replace("(%x:", "(%unread: tensor<?x2x3x4xi8>, %x:")
    unread, x = written.inputs(FRAMES)[::-1], written.inputs(FRAMES)
    (expected,) = run_module(program(text, written.values), [x])
    artifact = compile_to_target(program(both, written.values), "verilog", OPTIONS)
    _, (actual,) = run_verilog(artifact, [unread, x], "iverilog")
    assert np.array_equal(actual, expected)


def test_an_image_that_is_returned_twice(iverilog: str, program: Program) -> None:
    written = ImageProgram(13, 2, 3, 4, "i8")
    written.conv(3, (2, 2))
    text, type, value = written.text(), written.type(), f"%{written.name}"
    twice = text.replace(f"-> {type} {{", f"-> ({type}, {type}) {{").replace(
        f"func.return {value} : {type}", f"func.return {value}, {value} : {type}, {type}"
    )
    x = written.inputs(FRAMES)
    (expected,) = run_module(program(text, written.values), [x])
    artifact = compile_to_target(program(twice, written.values), "verilog", OPTIONS)
    _, both = run_verilog(artifact, [x], "iverilog")
    assert len(both) == 2 and all(np.array_equal(actual, expected) for actual in both)


def branches() -> ImageProgram:
    """Windows, a fork, a FIFO, a join, pooling, and a frame gathered at the end."""
    written = ImageProgram(9, 2, 5, 4, "i8")
    written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    start = written.mark()
    written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    written.binary("concatenate", start, "{axis = 1 : i64}")
    written.pool((2, 2), (2, 2), (0, 0, 0, 0))
    written.unary("flatten", shape=(int(np.prod(written.shape)),))
    written.matmul(3)
    return written


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        ("iverilog", "iverilog -g2001 -Wall -o out rtl/*.v"),
        ("verilator", "verilator --lint-only -Wall --top net rtl/*.v"),
        ("yosys", "yosys -q -p 'hierarchy -check -top net; proc; check -assert' rtl/*.v"),
    ],
)
def test_no_tool_warns(
    tool: str, command: str, program: Program, tmp_path: Path, require_tool: RequireTool
) -> None:
    require_tool(tool, f"apt-get install {tool}")
    written = branches()
    artifact = compile_to_target(program(written.text(), written.values), "verilog", OPTIONS)
    write_artifact(artifact, tmp_path)
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_fifos_are_as_deep_as_they_get(iverilog: str, program: Program) -> None:
    report = checked(program, branches())
    fifos = [layer["source"] for layer in report["layers"] if "FIFO" in layer["source"]]
    # a way through a 3x3 window is a row and a pixel longer, and its pipeline
    assert len(fifos) == 1
    assert int(fifos[0].split()[2]) > 4 + 1


def test_verilator_simulates_frames(require_tool: RequireTool, program: Program) -> None:
    require_tool("verilator", "apt-get install verilator")
    written = branches()
    module = program(written.text(), written.values)
    x = written.inputs(FRAMES)
    artifact = compile_to_target(module, "verilog", OPTIONS)
    _, (actual,) = run_verilog(artifact, [x], "verilator")
    assert np.array_equal(actual, run_module(module, [x])[0])


@pytest.mark.parametrize(
    "simulator", ["iverilog", pytest.param("verilator", marks=pytest.mark.slow)]
)
def test_beats_wider_than_verilator_shows(
    require_tool: RequireTool, program: Program, simulator: str
) -> None:
    require_tool(simulator, f"apt-get install {simulator}")
    module = program(
        """func.func @forward(%x: tensor<?x261xi32>) -> tensor<?x261xi32> {
  %y = tensor.relu %x : (tensor<?x261xi32>) -> tensor<?x261xi32>
  func.return %y : tensor<?x261xi32>
}""",
        {},
    )
    x = np.random.default_rng(3).integers(-(2**31), 2**31, (3, 261)).astype(np.int32)
    artifact = compile_to_target(module, "verilog", OPTIONS)
    _, (actual,) = run_verilog(artifact, [x], simulator)
    assert np.array_equal(actual, np.maximum(x, 0))


FIXED = """func.func @forward(%x: tensor<2x1x3x3xi8>) -> tensor<{size}x1x2x2xi8> {{
  %y = tensor.max_pool %x {{kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>,
       padding = array<i64: 0, 0, 0, 0>}} : (tensor<2x1x3x3xi8>) -> tensor<2x1x2x2xi8>
  %r = {last} : (tensor<2x1x2x2xi8>) -> tensor<{size}x1x2x2xi8>
  func.return %r : tensor<{size}x1x2x2xi8>
}}"""


def test_a_fixed_batch_comes_sample_by_sample(iverilog: str, program: Program) -> None:
    module = program(FIXED.format(last="tensor.relu %y", size=2), {})
    x = np.arange(-9, 9, dtype=np.int8).reshape(2, 1, 3, 3)
    artifact = compile_to_target(module, "verilog", OPTIONS)
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, np.maximum(x[..., 1:, 1:], 0))
    assert json.loads(artifact.text("report.json"))["beats_in"] == 9


def test_a_fixed_batch_of_vectors_comes_vector_by_vector(iverilog: str, program: Program) -> None:
    text = """func.func @forward(%x: tensor<5x8xi8>) -> tensor<5x8xi8> {
  %y = tensor.relu %x : (tensor<5x8xi8>) -> tensor<5x8xi8>
  func.return %y : tensor<5x8xi8>
}"""
    artifact = compile_to_target(program(text, {}), "verilog", {**OPTIONS, "stream_width": 32})
    x = np.random.default_rng(0).integers(-128, 128, (5, 8)).astype(np.int8)
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, np.maximum(x, 0))
    assert json.loads(artifact.text("report.json"))["words_in"] == 2


def test_a_fixed_batch_that_is_mixed_is_refused(program: Program) -> None:
    mixed = FIXED.format(
        last="tensor.reduce_max %y {axes = array<i64: 0>, keepdims = true}", size=1
    )
    with pytest.raises(UnsupportedError, match=r"its batch is fixed.*see free-batch"):
        compile_to_target(program(mixed, {}), "verilog", OPTIONS)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((100_000, 100_000), "a frame of 20,000,000,000 numbers has no circuit, only one of 16,"),
        ((800, 800), "takes all positions of a frame at once, which are 10,240,000 bits in"),
    ],
)
def test_sizes_without_a_circuit_are_refused_at_once(
    program: Program, size: tuple[int, int], message: str
) -> None:
    image = "x".join(map(str, (2, *size)))
    count = 2 * size[0] * size[1]
    text = f"""func.func @forward(%x: tensor<?x{image}xi8>) -> tensor<?x{count}xi8> {{
  %p = tensor.max_pool %x {{kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>,
       padding = array<i64: 0, 0, 0, 0>}} : (tensor<?x{image}xi8>) -> tensor<?x{image}xi8>
  %y = tensor.flatten %p : (tensor<?x{image}xi8>) -> tensor<?x{count}xi8>
  func.return %y : tensor<?x{count}xi8>
}}"""
    with pytest.raises(UnsupportedError, match=message):
        compile_to_target(program(text, {}), "verilog", OPTIONS)


def test_an_argument_without_a_number_is_refused(program: Program) -> None:
    text = """func.func @forward(%x: tensor<?x0xi8>) -> tensor<?x0xi8> {
  %y = tensor.relu %x : (tensor<?x0xi8>) -> tensor<?x0xi8>
  func.return %y : tensor<?x0xi8>
}"""
    message = "'x': an argument is tensor<.x0xi8>, which holds no number"
    with pytest.raises(UnsupportedError, match=message):
        compile_to_target(program(text, {}), "verilog", OPTIONS)


def test_a_sum_of_the_images_of_a_batch_is_refused(program: Program) -> None:
    text = """func.func @forward(%x: tensor<?x2x3x3xi8>) -> tensor<1x2x3x3xi32> {
  %p = tensor.max_pool %x {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>,
       padding = array<i64: 0, 0, 0, 0>} : (tensor<?x2x3x3xi8>) -> tensor<?x2x3x3xi8>
  %c = tensor.convert %p : (tensor<?x2x3x3xi8>) -> tensor<?x2x3x3xi32>
  %y = tensor.reduce_sum %c {axes = array<i64: 0>, keepdims = true}
       : (tensor<?x2x3x3xi32>) -> tensor<1x2x3x3xi32>
  func.return %y : tensor<1x2x3x3xi32>
}"""
    with pytest.raises(UnsupportedError, match="does not keep the vectors of the batch apart"):
        compile_to_target(program(text, {}), "verilog", OPTIONS)


def test_ready_is_cut_where_it_passes_through_many_stages(iverilog: str, program: Program) -> None:
    written = ImageProgram(2, 2, 5, 6, "i8")
    for _ in range(6):
        written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    # The first half of the frames, at full pace, is longer than the latency.
    report = checked(program, written, 24)
    buffers = [layer for layer in report["layers"] if layer["source"] == "buffer of 2 beats"]
    assert len(buffers) == 2
    assert report["initiation_interval"] == 30
    paced = checked(program, written, 24, clock=400)
    assert paced["initiation_interval"] == 30
    assert paced["estimate"]["clock_mhz"] > report["estimate"]["clock_mhz"]
