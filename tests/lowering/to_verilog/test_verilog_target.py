"""Circuits give what NumPy gives on 64-bit integers, for random layers, widths and pipelines."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, LoweringError, OptionError, UnsupportedError
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

SOURCES = ("i8", "ui8", "!ternary.trit")


def network(sizes: Sequence[int], source: str, after: str, argmax: bool) -> str:
    """Layers `fc1`, `fc2`, … of those sizes; `after` each but the last stands what makes an i8."""
    lines: list[str] = []
    value, element = "x", source
    last = len(sizes) - 2
    for i, (k, n) in enumerate(pairwise(sizes)):
        acc = f"tensor<?x{n}xi32>"
        lines.append(f"""
  %w{i} = ternary.parameter "fc{i + 1}.weight" : tensor<{k}x{n}x!ternary.trit>
  %b{i} = tensor.parameter "fc{i + 1}.bias" : tensor<{n}xi32>
  %p{i} = ternary.matmul %{value}, %w{i}
       : tensor<?x{k}x{element}>, tensor<{k}x{n}x!ternary.trit> -> {acc}
  %a{i} = tensor.add %p{i}, %b{i} : ({acc}, tensor<{n}xi32>) -> {acc}""")
        value, element = f"a{i}", "i32"
        if after.startswith("relu"):
            lines.append(f"  %r{i} = tensor.relu %{value} : ({acc}) -> {acc}")
            value = f"r{i}"
        if after.endswith("thresholds") and i < last:
            lines.append(f"""
  %t{i} = tensor.parameter "t{i}" : tensor<{n}x5xi32>
  %q{i} = tensor.multi_threshold %{value}, %t{i}
       : ({acc}, tensor<{n}x5xi32>) -> tensor<?x{n}xi8>""")
            value, element = f"q{i}", "i8"
        elif i < last:
            lines.append(f"""
  %m{i} = tensor.parameter "m{i}" : tensor<{n}xi32>
  %s{i} = tensor.parameter "s{i}" : tensor<{n}xi32>
  %z{i} = tensor.constant dense<-1> : tensor<i8>
  %q{i} = tensor.requantize %{value}, %m{i}, %s{i}, %z{i} {{low = -9 : i64, high = 6 : i64}}
       : ({acc}, tensor<{n}xi32>, tensor<{n}xi32>, tensor<i8>) -> tensor<?x{n}xi8>""")
            value, element = f"q{i}", "i8"
    result = f"tensor<?x{sizes[-1]}x{element}>"
    if argmax:
        lines.append(f"  %best = tensor.argmax %{value} : ({result}) -> tensor<?xi64>")
        value, result = "best", "tensor<?xi64>"
    body = "\n".join(lines)
    return f"""builtin.module @net {{
func.func @forward(%x: tensor<?x{sizes[0]}x{source}>) -> {result} {{
{body}
  func.return %{value} : {result}
}}
}}"""


def random_values(rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, Array]:
    values: dict[str, Array] = {}
    for i, (k, n) in enumerate(pairwise(sizes)):
        values[f"fc{i + 1}.weight"] = rng.integers(-1, 2, (k, n)).astype(np.int8)
        values[f"fc{i + 1}.bias"] = rng.integers(-20, 20, n)
        values[f"t{i}"] = np.sort(rng.integers(-40, 40, (n, 5)), axis=1)
        values[f"s{i}"] = rng.integers(1, 40, n)
        near_one = 2.0 ** values[f"s{i}"] * rng.uniform(-0.7, 0.7, n)
        values[f"m{i}"] = np.clip(near_one, -(2**31) + 1, 2**31 - 1).astype(np.int64)
    return values


def by_numpy(x: Array, values: dict[str, Array], layers: int, after: str, argmax: bool) -> Array:
    """What `network` means, on 64-bit integers."""
    h = x.astype(np.int64)
    for i in range(layers):
        h = h @ values[f"fc{i + 1}.weight"].astype(np.int64) + values[f"fc{i + 1}.bias"]
        if after.startswith("relu"):
            h = np.maximum(h, 0)
        if i == layers - 1:
            break
        if after.endswith("thresholds"):
            h = (h[:, :, None] >= values[f"t{i}"]).sum(-1)
        else:
            shift = values[f"s{i}"].astype(np.int64)
            half = np.int64(1) << (shift - 1)
            h = np.clip(((h * values[f"m{i}"] + half) >> shift) - 1, -9, 6)
    return h.argmax(-1) if argmax else h


def random_inputs(rng: np.random.Generator, source: str, bits: int, k: int) -> Array:
    low, high = {
        "i8": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        "ui8": (0, (1 << bits) - 1),
        "!ternary.trit": (-1, 1),
    }[source]
    x = rng.integers(low, high + 1, (9, k))
    x[0], x[1] = low, high
    return x.astype(np.uint8 if source == "ui8" else np.int8)


@settings(max_examples=40)
@example(sizes=[3, 2], source="i8", after="none", argmax=True, pipeline=0, bits=8, seed=0)
@example(sizes=[6, 5, 4], source="ui8", after="relu", argmax=False, pipeline=2, bits=1, seed=1)
@given(
    sizes=st.lists(st.integers(1, 8), min_size=2, max_size=4),
    source=st.sampled_from(SOURCES),
    after=st.sampled_from(["none", "relu", "relu thresholds", "thresholds"]),
    argmax=st.booleans(),
    pipeline=st.integers(0, 4),
    bits=st.integers(1, 8),
    seed=st.integers(0, 10_000),
)
def test_the_circuit_computes_what_numpy_does(
    iverilog: str,
    program: Program,
    sizes: list[int],
    source: str,
    after: str,
    argmax: bool,
    pipeline: int,
    bits: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    values = random_values(rng, sizes)
    module = program(network(sizes, source, after, argmax), values)
    options = {"pipeline": pipeline, "vectors": 2, "time_budget": 0.001}
    if source != "!ternary.trit":
        options["input_bits"] = bits
    artifact = compile_to_target(module, "verilog", options)
    x = random_inputs(rng, source, bits, sizes[0])
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    expected = by_numpy(x, values, len(sizes) - 1, after, argmax)
    assert np.array_equal(actual, expected)
    assert actual.dtype == (np.int64 if argmax else np.int32)


@pytest.mark.parametrize("pipeline", [0, 1, 2])
@pytest.mark.parametrize("after", ["none", "relu thresholds"])
@pytest.mark.parametrize("inputs", [3, 13, 40])
def test_sums_of_bits_are_compressed(
    iverilog: str, program: Program, inputs: int, after: str, pipeline: int
) -> None:
    sizes = [inputs, 12, 5]
    values = random_values(np.random.default_rng(inputs), sizes)
    module = program(network(sizes, "ui8", after, False), values)
    options = {"pipeline": pipeline, "input_bits": 1, "vectors": 2, "time_budget": 0.001}
    artifact = compile_to_target(module, "verilog", options)
    x = np.random.default_rng(0).integers(0, 2, (50, inputs)).astype(np.uint8)
    x[0], x[1] = 0, 1
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, by_numpy(x, values, 2, after, False))
    counts = re.search(r"\bfc\d+_xor", artifact.text("rtl/net_core.v"))
    assert counts or (inputs == 3 and after != "none"), "more than three bits are counted"


ELEMENTWISE = {
    "clamp": "%y = tensor.clamp %x {min = -5.0 : f64, max = 3.0 : f64} : (T) -> T",
    "neg": "%y = tensor.neg %x : (T) -> T",
    "mul": "%y = tensor.mul %x, %c : (T, tensor<4xi32>) -> T",
    "sub": "%y = tensor.sub %c, %x : (tensor<4xi32>, T) -> T",
    "maximum": "%y = tensor.maximum %x, %n : (T, T) -> T",
    "minimum": "%y = tensor.minimum %x, %c : (T, tensor<4xi32>) -> T",
    "add": "%y = tensor.add %x, %n : (T, T) -> T",
    "nothing": "%y = tensor.sub %x, %x : (T, T) -> T",
    "compare ge": (
        '%b = tensor.compare %x, %c {predicate = "ge"} : (T, tensor<4xi32>) -> tensor<?x4xi1>\n'
        "%y = tensor.convert %b : (tensor<?x4xi1>) -> T"
    ),
    "compare lt": (
        '%b = tensor.compare %x, %n {predicate = "lt"} : (T, T) -> tensor<?x4xi1>\n'
        "%y = tensor.convert %b : (tensor<?x4xi1>) -> T"
    ),
    "compare ne": (
        '%b = tensor.compare %x, %n {predicate = "ne"} : (T, T) -> tensor<?x4xi1>\n'
        "%y = tensor.convert %b : (tensor<?x4xi1>) -> T"
    ),
    "compare a constant": (
        '%b = tensor.compare %c, %x {predicate = "gt"} : (tensor<4xi32>, T) -> tensor<?x4xi1>\n'
        "%y = tensor.convert %b : (tensor<?x4xi1>) -> T"
    ),
    "reduce": (
        "%s = tensor.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (T) -> tensor<?x1xi32>"
        "\n%m = tensor.reduce_max %x {axes = array<i64: 1>, keepdims = true} "
        ": (T) -> tensor<?x1xi32>\n"
        "%y = tensor.concatenate %s, %m, %s, %m {axis = 1 : i64} : "
        "(tensor<?x1xi32>, tensor<?x1xi32>, tensor<?x1xi32>, tensor<?x1xi32>) -> T"
    ),
    "moves": (
        "%s = tensor.reshape_to %x {shape = array<i64: -1, 2, 2>} : (T) -> tensor<?x2x2xi32>\n"
        "%p = tensor.permute %s {perm = array<i64: 0, 2, 1>} "
        ": (tensor<?x2x2xi32>) -> tensor<?x2x2xi32>\n"
        "%y = tensor.flatten %p {start = 1 : i64, end = 2 : i64} : (tensor<?x2x2xi32>) -> T"
    ),
}


@pytest.mark.parametrize("pipeline", [0, 1, 3])
@pytest.mark.parametrize("what", ELEMENTWISE)
def test_operations(iverilog: str, program: Program, what: str, pipeline: int) -> None:
    body = re.sub(r"\bT\b", "tensor<?x4xi32>", ELEMENTWISE[what])
    module = program(
        f"""func.func @forward(%x: tensor<?x4xi32>, %n: tensor<?x4xi32>) -> tensor<?x4xi32> {{
  %c = tensor.constant dense<[3, -7, 0, 11]> : tensor<4xi32>
  {body}
  func.return %y : tensor<?x4xi32>
}}""",
        {},
    )
    rng = np.random.default_rng(len(what))
    inputs = [rng.integers(-16, 16, (40, 4)).astype(np.int32) for _ in range(2)]
    inputs[1][::3] = inputs[0][::3]
    options = {"pipeline": pipeline, "input_bits": 5, "vectors": 2}
    _, (actual,) = run_verilog(compile_to_target(module, "verilog", options), inputs, "iverilog")
    assert np.array_equal(actual, run_module(module, inputs)[0])


CHOICES = """
func.func @forward(%x: tensor<?x4xi8>, %y: tensor<?x4xi8>)
    -> (tensor<?x4xi8>, tensor<?x4xi1>, tensor<?x4xi1>, tensor<?x4xi8>, tensor<?x4xi8>) {
  %two = tensor.constant dense<2> : tensor<i8>
  %a = tensor.compare %x, %y {predicate = "gt"} : (tensor<?x4xi8>, tensor<?x4xi8>) -> tensor<?x4xi1>
  %b = tensor.compare %x, %two {predicate = "lt"} : (tensor<?x4xi8>, tensor<i8>) -> tensor<?x4xi1>
  %c = tensor.convert %y : (tensor<?x4xi8>) -> tensor<?x4xi1>
  %n = tensor.not %b : (tensor<?x4xi1>) -> tensor<?x4xi1>
  %both = tensor.and %a, %n : (tensor<?x4xi1>, tensor<?x4xi1>) -> tensor<?x4xi1>
  %either = tensor.or %both, %c : (tensor<?x4xi1>, tensor<?x4xi1>) -> tensor<?x4xi1>
  %m = tensor.not %a : (tensor<?x4xi1>) -> tensor<?x4xi1>
  %none = tensor.and %m, %n : (tensor<?x4xi1>, tensor<?x4xi1>) -> tensor<?x4xi1>
  %differ = tensor.xor %none, %either : (tensor<?x4xi1>, tensor<?x4xi1>) -> tensor<?x4xi1>
  %abs = tensor.abs %x : (tensor<?x4xi8>) -> tensor<?x4xi8>
  %sign = tensor.sign %y : (tensor<?x4xi8>) -> tensor<?x4xi8>
  %least = tensor.not %y : (tensor<?x4xi8>) -> tensor<?x4xi8>
  %first = tensor.where %either, %abs, %least
       : (tensor<?x4xi1>, tensor<?x4xi8>, tensor<?x4xi8>) -> tensor<?x4xi8>
  %second = tensor.where %m, %two, %sign
       : (tensor<?x4xi1>, tensor<i8>, tensor<?x4xi8>) -> tensor<?x4xi8>
  func.return %first, %either, %differ, %second, %sign
       : tensor<?x4xi8>, tensor<?x4xi1>, tensor<?x4xi1>, tensor<?x4xi8>, tensor<?x4xi8>
}"""


@pytest.mark.parametrize("pipeline", [0, 2])
def test_choices_and_truth_values(iverilog: str, program: Program, pipeline: int) -> None:
    every = np.stack(np.meshgrid(np.arange(-4, 4), np.arange(-4, 4)), -1).reshape(-1, 2)
    x, y = (np.repeat(every[:, i : i + 1], 4, axis=1).astype(np.int8) for i in range(2))
    options = {"pipeline": pipeline, "input_bits": 3}
    artifact = compile_to_target(program(CHOICES, {}), "verilog", options)
    _, got = run_verilog(artifact, [x, y], "iverilog")
    either = ((x > y) & (x >= 2)) | (y != 0)
    expected = [
        np.where(either, np.abs(x), ~y),
        either,
        ((x <= y) & (x >= 2)) ^ either,
        np.where(x <= y, 2, np.sign(y)),
        np.sign(y),
    ]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bits_of_integers_are_refused(program: Program) -> None:
    text = """
func.func @forward(%x: tensor<?x4xi8>) -> tensor<?x4xi8> {
  %y = tensor.and %x, %x : (tensor<?x4xi8>, tensor<?x4xi8>) -> tensor<?x4xi8>
  func.return %y : tensor<?x4xi8>
}"""
    with pytest.raises(UnsupportedError, match="bits of integers"):
        compile_to_target(program(text, {}), "verilog")


FLOATS = """builtin.module @quantized {
func.func @forward(%x: tensor<?x1x6xf32>) -> tensor<?x3xf32> {
  %w = ternary.parameter "fc.weight" : tensor<6x3x!ternary.trit>
  %s = tensor.constant dense<0.25> : tensor<f32>
  %z = tensor.constant dense<1> : tensor<i8>
  %t = tensor.constant dense<[0.5, 0.125, 2.0]> : tensor<3xf32>
  %0 = tensor.constant dense<0> : tensor<i32>
  %f = tensor.flatten %x {start = 1 : i64, end = 2 : i64} : (tensor<?x1x6xf32>) -> tensor<?x6xf32>
  %q = tensor.quantize %f, %s, %z {low = -8 : i64, high = 7 : i64}
       : (tensor<?x6xf32>, tensor<f32>, tensor<i8>) -> tensor<?x6xi8>
  %p = ternary.matmul %q, %w : tensor<?x6xi8>, tensor<6x3x!ternary.trit> -> tensor<?x3xi32>
  %y = tensor.dequantize %p, %t, %0 : (tensor<?x3xi32>, tensor<3xf32>, tensor<i32>)
       -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
}"""


def test_the_caller_quantises_and_dequantises(iverilog: str, program: Program) -> None:
    rng = np.random.default_rng(3)
    module = program(FLOATS, {"fc.weight": rng.integers(-1, 2, (6, 3)).astype(np.int8)})
    x = rng.normal(0, 1.5, (20, 1, 6)).astype(np.float32)
    artifact = compile_to_target(module, "verilog")
    report = json.loads(artifact.text("report.json"))
    assert report["s_axis_tdata_bits"] == 24
    assert report["inputs"][0]["quantized"] == {
        "axis": 1, "scale": 0.25, "zero_point": 1, "low": -8, "high": 7
    }  # fmt: skip
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, run_module(module, [x])[0])


def test_names_come_from_the_model(small: ModuleOp) -> None:
    artifact = compile_to_target(small, "verilog", {"form": "file"})
    text = artifact.text()
    assert list(artifact.files) == ["net.v"]
    assert "// fc1: ternary.matmul to ?x8" in text
    assert "fc1_acc_3" in text and "fc2_" in text and "x_11" in text


def test_words_of_verilog_are_no_names(iverilog: str, program: Program, tmp_path: Path) -> None:
    module = program(
        """builtin.module @module {
func.func @forward(%x: tensor<?x2xi8> {tensor.name = "wire"})
    -> (tensor<?x1xi32> {tensor.name = "reg"}) {
  %w = ternary.parameter "always.weight" : tensor<2x1x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x2xi8>, tensor<2x1x!ternary.trit> -> tensor<?x1xi32>
  func.return %y : tensor<?x1xi32>
}
}""",
        {"always.weight": np.array([[1], [-1]])},
    )
    x = np.array([[3, 5], [-7, 100]], np.int8)
    _, (actual,) = run_verilog(compile_to_target(module, "verilog"), [x], "iverilog")
    assert actual.tolist() == [[-2], [-107]]


def test_names_that_are_numbers_leave_stages_that_can_be_copied(
    program: Program, tmp_path: Path
) -> None:
    text = """builtin.module @module {
func.func @forward(%x: tensor<?x2xi8> {tensor.name = "_0"}) -> tensor<?x1xi32> {
  %w = ternary.parameter "w" : tensor<2x1x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x2xi8>, tensor<2x1x!ternary.trit> -> tensor<?x1xi32>
  func.return %y : tensor<?x1xi32>
}
}"""
    module = program(text, {"w": np.array([[1], [-1]])})
    compile_to_target(module, "verilog", dump_stages=tmp_path)
    stages = sorted(tmp_path.glob("*.mlir"))
    assert stages and all(parse_module(path.read_text("utf-8")) for path in stages)


def test_the_same_program_gives_the_same_bytes(small: ModuleOp) -> None:
    first, second = (compile_to_target(small, "verilog") for _ in range(2))
    assert first.files == second.files


def test_everything_unsupported_is_named(program: Program) -> None:
    module = program(
        """
func.func @forward(%x: tensor<?x4xf32>, %i: tensor<?x1x4x4xi8>)
    -> (tensor<?x4xf32>, tensor<?x1x2x2xi8>) {
  %y = tensor.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %z = tensor.tanh %y : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %p = tensor.max_pool %i {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
       padding = array<i64: 0, 0, 0, 0>} : (tensor<?x1x4x4xi8>) -> tensor<?x1x2x2xi8>
  func.return %z, %p : tensor<?x4xf32>, tensor<?x1x2x2xi8>
}""",
        {},
    )
    with pytest.raises(UnsupportedError) as caught:
        compile_to_target(module, "verilog")
    named = [name for name, _, _ in caught.value.problems]
    assert named == ["tensor.exp", "tensor.tanh", "func.func"]


def test_sizes_are_named_among_what_has_no_circuit(program: Program) -> None:
    module = program(
        """
func.func @forward(%x: tensor<?x4xi8>) -> tensor<?x4xi8> {
  %axis = arith.constant 0 : index
  %size = tensor.dim %x, %axis : tensor<?x4xi8>
  %y = tensor.empty(%size) : tensor<?x4xi8>
  func.return %y : tensor<?x4xi8>
}""",
        {},
    )
    with pytest.raises(UnsupportedError) as caught:
        compile_to_target(module, "verilog")
    named = [name for name, _, _ in caught.value.problems]
    assert named == ["arith.constant", "tensor.dim", "tensor.empty"]


def test_a_sum_that_could_wrap_is_refused(program: Program) -> None:
    module = program(
        """func.func @forward(%x: tensor<?x2xi32>) -> tensor<?x1xi32> {
  %w = ternary.parameter "w" : tensor<2x1x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x2xi32>, tensor<2x1x!ternary.trit> -> tensor<?x1xi32>
  func.return %y : tensor<?x1xi32>
}""",
        {"w": np.array([[1], [1]])},
    )
    with pytest.raises(UnsupportedError, match=r"wrap around in i32; .*input-bits"):
        compile_to_target(module, "verilog")
    assert compile_to_target(module, "verilog{input-bits=31}").files


@pytest.mark.parametrize(
    "body",
    [
        "%y = tensor.reduce_sum %x {axes = array<i64: 0>} : (tensor<?x2xi8>) -> tensor<2xi8>",
        "%y = tensor.reshape_to %x {shape = array<i64: -1>} : (tensor<?x2xi8>) -> tensor<?xi8>",
    ],
)
def test_vectors_of_the_batch_stay_apart(program: Program, body: str) -> None:
    result = body.rpartition("-> ")[2]
    module = program(
        f"func.func @forward(%x: tensor<?x2xi8>) -> {result} {{\n{body}\n"
        f"func.return %y : {result}\n}}",
        {},
    )
    with pytest.raises(UnsupportedError, match="batch"):
        compile_to_target(module, "verilog{input-bits=2}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_bits": 9}, "input-bits of at most 8"),
        ({"input_bits": 0}, r"input-bits in \[1, 32\]"),
        ({"pipeline": -1}, "pipeline of 0 or more"),
        ({"vectors": 1}, "vectors of at least 2, got 1"),
        ({"seed": -1}, "seed of at least 0, got -1"),
        ({"time_budget": -1.0}, "time-budget in seconds, got -1"),
        ({"time_budget": float("inf")}, "time-budget in seconds, got inf"),
    ],
)
def test_wrong_options(small: ModuleOp, options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compile_to_target(small, "verilog", options)


def test_the_form_follows_the_output(small: ModuleOp, tmp_path: Path) -> None:
    artifact = compile_to_target(small, "verilog", output=tmp_path / "a.v")
    assert list(artifact.files) == ["net.v"]
    with pytest.raises(OptionError, match="form=folder is given"):
        compile_to_target(small, "verilog{form=folder}", output=tmp_path / "a.v")


def test_inputs_out_of_range_are_refused(small: ModuleOp) -> None:
    artifact: Artifact = compile_to_target(small, "verilog{input-bits=4}")
    with pytest.raises(LoweringError, match="is 8, expected -8 to 7"):
        run_verilog(artifact, [np.full((1, 12), 8, np.int8)])


def test_several_frames_of_a_fixed_batch_are_refused() -> None:
    text = """
func.func @forward(%x: tensor<1x3xi8>) -> tensor<3xi8> {
  %r = tensor.relu %x : (tensor<1x3xi8>) -> tensor<1x3xi8>
  %y = tensor.reshape_to %r {shape = array<i64: 3>} : (tensor<1x3xi8>) -> tensor<3xi8>
  func.return %y : tensor<3xi8>
}
"""
    artifact = compile_to_target(parse_module(text), "verilog")
    with pytest.raises(BackendError, match=r"'x' has the shape \[4, 3\], .* \[1, 3\] alone"):
        run_verilog(artifact, [np.ones((4, 3), np.int8)], "iverilog")


def test_the_report_adds_up(small: ModuleOp) -> None:
    report = json.loads(compile_to_target(small, "verilog").text("report.json"))
    totals = report["totals"]
    assert totals["adders"] == sum(layer["adders"] for layer in report["layers"]) > 0
    assert report["estimate"]["luts"] > 0.8 * totals["adder_bits"]
    assert report["initiation_interval"] == 1
