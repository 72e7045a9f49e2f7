"""Folded networks give what the interpreter gives, at any pace, and keep to what was asked.

The test benches let sender and receiver wait at random in the second half of the frames, and
compare latency and interval with what the report says.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.report import folding_text
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.tools.compilation import folding_table

from .images import ImageProgram
from .test_estimates import compare
from .test_verilog_target import by_numpy, network, random_inputs, random_values

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]
OPTIONS = {"time_budget": 0.001, "vectors": 2}

FORMS = st.one_of(
    st.just("unrolled"),
    st.integers(1, 4).map(lambda digit: f"digit={digit}"),
    st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda f: f"pe={f[0]},simd={f[1]}"),
)


def fitted(form: str, k: int, n: int) -> str:
    """The form, with no more columns and inputs than there are."""
    if not form.startswith("pe"):
        return form
    pe, simd = (int(word.partition("=")[2]) for word in form.split(","))
    return f"pe={min(pe, n)},simd={min(simd, k)}"


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
@example(
    sizes=[6, 5, 4], forms=["pe=2,simd=3", "digit=1", "unrolled"], after="thresholds",
    argmax=True, pipeline=1, seed=0,
)  # fmt: skip
@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    forms=st.lists(FORMS, min_size=3, max_size=3),
    after=st.sampled_from(["none", "relu", "relu thresholds", "thresholds"]),
    argmax=st.booleans(),
    pipeline=st.integers(0, 2),
    seed=st.integers(0, 10_000),
)
def test_folded_perceptrons(
    iverilog: str,
    program: Program,
    sizes: list[int],
    forms: list[str],
    after: str,
    argmax: bool,
    pipeline: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    values = random_values(rng, sizes)
    module = program(network(sizes, "i8", after, argmax), values)
    folding = ";".join(
        f"fc{i}:{fitted(form, k, n)}"
        for i, (form, k, n) in enumerate(zip(forms, sizes[:-1], sizes[1:], strict=False), 1)
    )
    options = {**OPTIONS, "input_bits": 4, "folding": folding, "pipeline": pipeline}
    artifact = compile_to_target(module, "verilog", options)
    x = random_inputs(rng, "i8", 4, sizes[0])
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, by_numpy(x, values, len(sizes) - 1, after, argmax))
    report = json.loads(artifact.text("report.json"))
    slowest = max(layer["cycles"] for layer in report["folding"]["layers"])
    # Digits of numbers that turn out narrower than their makers' types take fewer cycles.
    assert report["initiation_interval"] <= slowest
    if "digit" not in folding:
        assert report["initiation_interval"] == slowest


@settings(max_examples=5, phases=[Phase.explicit, Phase.generate])
@given(
    first=FORMS,
    second=FORMS,
    padding=st.sampled_from([0, 1]),
    stride=st.integers(1, 2),
    fused=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_folded_convolutions(
    iverilog: str,
    program: Program,
    first: str,
    second: str,
    padding: int,
    stride: int,
    fused: bool,
    seed: int,
) -> None:
    written = ImageProgram(seed, 2, 6, 5, "i8" if seed % 2 else "ui8")
    written.conv(4, (3, 3), (stride, stride), (padding, padding, padding, padding), fused=fused)
    if not fused:
        written.unary("clamp", attr="{min = -8.0 : f64, max = 7.0 : f64}")
        written.unary("convert", element="i8")
    written.conv(3, (1, 1), fused=True)
    size = written.shape[0] * written.shape[1] * written.shape[2]
    written.unary("flatten", shape=(size,), attr="{start = 1 : i64, end = 3 : i64}")
    written.matmul(5)
    layers = [line for line in written.values if line.endswith(".weight")]
    forms = [fitted(first, 18, 4), fitted(second, 4, 3), fitted(first, size, 5)]
    folding = ";".join(
        f"{key.removesuffix('.weight')}:{form}" for key, form in zip(layers, forms, strict=True)
    )
    module = program(written.text(), written.values)
    x = written.inputs(6)
    (expected,) = run_module(module, [x])
    artifact = compile_to_target(module, "verilog", {**OPTIONS, "folding": folding})
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, expected)


@settings(max_examples=2, phases=[Phase.explicit, Phase.generate])
@example(first="pe=4,simd=9", second="pe=3,simd=2", multiplier=1, fused=True, seed=0)
@example(first="digit=1", second="digit=2", multiplier=2, fused=True, seed=1)
@example(first="pe=1,simd=3", second="pe=1,simd=1", multiplier=2, fused=False, seed=2)
@given(
    first=st.sampled_from(["digit=2", "pe=1,simd=9", "pe=4,simd=4", "pe=8,simd=9"]),
    second=st.sampled_from(["digit=1", "pe=2,simd=3"]),
    multiplier=st.sampled_from([1, 2, 4]),
    fused=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_folded_depthwise_convolutions(
    iverilog: str,
    program: Program,
    first: str,
    second: str,
    multiplier: int,
    fused: bool,
    seed: int,
) -> None:
    """A depthwise convolution, one of each position, and one of each position in groups."""
    written = ImageProgram(seed, 4, 6, 5, "i8" if seed % 2 else "ui8")
    written.conv(4 * multiplier, (3, 3), (2, 1), (1, 1, 1, 1), groups=4, fused=fused)
    if not fused:
        written.unary("clamp", attr="{min = -8.0 : f64, max = 7.0 : f64}")
        written.unary("convert", element="i8")
    written.conv(6, (1, 1), fused=True)
    written.conv(4, (1, 1), groups=2)
    layers = [key.removesuffix(".weight") for key in written.values if key.endswith(".weight")]
    folding = f"{layers[0]}:{first};{layers[1]}:{second};{layers[2]}:pe=2,simd=2"
    module = program(written.text(), written.values)
    x = written.inputs(6)
    (expected,) = run_module(module, [x])
    artifact = compile_to_target(module, "verilog", {**OPTIONS, "folding": folding})
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, expected)


def spotting(channels: int, blocks: int) -> ImageProgram:
    """A network like DS-CNN for keywords: a convolution, then depthwise and pointwise ones."""
    written = ImageProgram(3, 1, 12, 8, "i8")
    written.conv(channels, (5, 4), (2, 2), (2, 1, 2, 1), fused=True)
    for _ in range(blocks):
        written.conv(channels, (3, 3), padding=(1, 1, 1, 1), groups=channels, fused=True)
        written.conv(channels, (1, 1), fused=True)
    written.unary("convert", "i32")
    attr = "{axes = array<i64: 2, 3>, keepdims = false}"
    written.unary("reduce_sum", shape=(channels,), attr=attr)
    written.matmul(5)
    return written


@pytest.mark.slow
def test_depthwise_networks_fold_to_a_goal(iverilog: str, program: Program) -> None:
    written = spotting(32, 2)
    module = program(written.text(), written.values)
    x = written.inputs(4)
    (expected,) = run_module(module, [x])
    unrolled = compile_to_target(module, "verilog", OPTIONS)
    artifact = compile_to_target(module, "verilog", {**OPTIONS, "target_fps": 1e5})
    report, whole = (json.loads(a.text("report.json")) for a in (artifact, unrolled))
    assert report["initiation_interval"] <= 1000
    forms = {layer["layer"]: layer["form"] for layer in report["folding"]["layers"]}
    assert "unrolled" not in forms.values()
    assert report["estimate"]["luts"] < 0.75 * whole["estimate"]["luts"]
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("form", ["pe=2,simd=18", "pe=4,simd=9"])
def test_bursts_behind_pooling_do_not_stall(iverilog: str, program: Program, form: str) -> None:
    """Pooling gives a row of pixels in two rows' time: the product behind has that time."""
    written = ImageProgram(0, 2, 16, 16, "i8")
    written.conv(4, (3, 3), padding=(1, 1, 1, 1), fused=True)
    written.pool((2, 2), (2, 2), (0, 0, 0, 0))
    written.conv(4, (3, 3), padding=(1, 1, 1, 1), fused=True)
    module = program(written.text(), written.values)
    x = written.inputs(4)
    (expected,) = run_module(module, [x])
    artifact = compile_to_target(module, "verilog", {**OPTIONS, "folding": f"conv3:{form}"})
    report = json.loads(artifact.text("report.json"))
    assert report["initiation_interval"] == 16 * 16
    assert any("FIFO" in layer["source"] for layer in report["layers"])
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, expected)


def perceptron(program: Program, sizes: list[int]) -> tuple[ModuleOp, dict[str, Array]]:
    values = random_values(np.random.default_rng(len(sizes)), sizes)
    return program(network(sizes, "ui8", "relu thresholds", True), values), values


@pytest.mark.parametrize(
    ("options", "cycles"),
    [
        ({"target_fps": 1e6}, 100),
        ({"target_fps": 1e6, "clock": 200.0}, 200),
        ({"lut_budget": 600}, None),
        ({"lut_budget": 800, "target_fps": 3e5, "fold": "auto"}, 333),
    ],
)
def test_the_goal_is_reached(
    iverilog: str, program: Program, options: dict[str, Any], cycles: int | None
) -> None:
    sizes = [20, 24, 8]
    module, values = perceptron(program, sizes)
    artifact = compile_to_target(module, "verilog", {**OPTIONS, "input_bits": 2, **options})
    report = json.loads(artifact.text("report.json"))
    if cycles is not None:
        assert report["initiation_interval"] <= cycles
    if "lut_budget" in options:
        assert report["estimate"]["luts"] <= options["lut_budget"]
    x = random_inputs(np.random.default_rng(0), "ui8", 2, sizes[0])
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, by_numpy(x, values, 2, "relu thresholds", True))


def test_the_choice_is_shown(program: Program) -> None:
    module, _ = perceptron(program, [20, 24, 8])
    artifact = compile_to_target(
        module, "verilog", {**OPTIONS, "folding": "fc1:pe=8,simd=5;fc2:digit=2"}
    )
    page = artifact.text("report.md")
    assert "## Folding: " in page
    assert "| fc1 | folded | 8 | 5 | 12 |" in page
    assert "| fc2 | serial, 2 bits | 8 | 24 |" in page
    forms = folding_table(artifact)
    assert forms is not None and forms.row_count == 3
    unrolled = compile_to_target(module, "verilog", OPTIONS)
    assert folding_table(unrolled) is None
    assert "Folding" not in unrolled.text("report.md")


def test_the_circuit_of_a_choice_is_that_of_the_forms_given_by_hand(program: Program) -> None:
    """The circuit that is compared with the goal is the one that is written."""
    module, _ = perceptron(program, [24, 12, 4])
    for goal in ({"lut_budget": 700}, {"target_fps": 2e6}):
        chosen = compile_to_target(module.clone(), "verilog", {**OPTIONS, **goal})
        layers = json.loads(chosen.text("report.json"))["folding"]["layers"]
        assert {layer["form"] for layer in layers} - {"unrolled"}
        given = compile_to_target(
            module.clone(), "verilog", {**OPTIONS, "folding": folding_text(layers)}
        )
        written = [name for name in chosen.files if name.endswith(".v")]
        assert written == [name for name in given.files if name.endswith(".v")]
        assert all(chosen.files[name] == given.files[name] for name in written)


def test_the_same_program_gives_the_same_bytes(program: Program) -> None:
    module, _ = perceptron(program, [20, 24, 8])
    options = {**OPTIONS, "lut_budget": 800}
    first, second = (compile_to_target(module, "verilog", options).files for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold": "auto"}, "fold=auto expects a goal"),
        ({"fold": "none", "lut_budget": 9}, "fold=none is given together with lut-budget"),
        ({"lut_budget": 9}, "lut-budget=9 is too small: the circuit takes"),
        ({"target_fps": 1e9}, "more than a frame a cycle at 100 MHz"),
        ({"target_fps": 0.0}, "expects target-fps above 0"),
        ({"clock": 0.0, "lut_budget": 900}, "expects clock in MHz above 0"),
        ({"folding": "fc7:digit=1"}, "folding names 'fc7'; the layers are fc1, fc2"),
    ],
)
def test_wrong_options(program: Program, options: dict[str, Any], message: str) -> None:
    module, _ = perceptron(program, [20, 24, 8])
    with pytest.raises(OptionError, match=message):
        compile_to_target(module, "verilog", {**OPTIONS, **options})


def test_a_sum_that_could_wrap_is_refused(program: Program) -> None:
    module = program(
        """func.func @forward(%x: tensor<?x2xi32>) -> tensor<?x1xi32> {
  %w = ternary.parameter "fc.weight" : tensor<2x1x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x2xi32>, tensor<2x1x!ternary.trit> -> tensor<?x1xi32>
  func.return %y : tensor<?x1xi32>
}""",
        {"fc.weight": np.array([[1], [1]])},
    )
    with pytest.raises(UnsupportedError, match=r"wrap around in i32; .*input-bits"):
        compile_to_target(module, "verilog", {"folding": "fc:pe=1,simd=1"})


@pytest.mark.slow
def test_handwritten_digits_in_a_small_circuit(iverilog: str, program: Program) -> None:
    """64-64-10 on images of 4 bits, in a quarter of what it takes unrolled."""
    sizes = [64, 64, 10]
    module, values = perceptron(program, sizes)
    options = {"time_budget": 0.05, "vectors": 16, "input_bits": 4, "lut_budget": 1500}
    artifact = compile_to_target(module, "verilog", options)
    report = json.loads(artifact.text("report.json"))
    assert report["estimate"]["luts"] <= 1500
    x = random_inputs(np.random.default_rng(0), "ui8", 4, 64)
    _, (actual,) = run_verilog(artifact, [x], "iverilog")
    assert np.array_equal(actual, by_numpy(x, values, 2, "relu thresholds", True))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["digit=1", "digit=2", "pe=4,simd=6"])
def test_yosys_gives_registers_no_look_up_table_for_their_enable(
    require_tool: RequireTool, program: Program, tmp_path: Path, form: str
) -> None:
    module = program(
        network([24, 16], "i8", "", False), random_values(np.random.default_rng(4), [24, 16])
    )
    options = {"device": "xcvu9p", "input_bits": 4, "folding": f"fc1:{form}"}
    artifact = compile_to_target(module, "verilog", {**OPTIONS, **options})
    compare(require_tool, tmp_path, artifact, "xcvu9p", 0.15)
