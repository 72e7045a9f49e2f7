"""`fuse-steps`: networks in one loop over the steps give the bits that they gave layer by layer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_c.engine import LoadedC
from triton_dsl.passes.fuse_steps import FuseStepsPass

Array = NDArray[Any]
RNG = np.random.default_rng(5)
WEIGHTS = {"w": (RNG.integers(-8, 9, (4, 4)) / 8).astype(np.float32)}

SLOW = pytest.mark.slow
FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")

NEURONS = (
    "lif {{beta = 0.75 : f64}}",
    "integrate_fire {{threshold = 0.5 : f64}}",
    "cuba_lif {{alpha = 0.5 : f64, beta = 0.75 : f64}}",
    "adaptive_lif {{beta = 0.5 : f64, rho = 0.5 : f64, kappa = 0.5 : f64}}",
)


class Written:
    """A random program on runs of `steps`, whose values a loop computes, or some other op whole."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.steps, self.batch = self.random.choice([2, 3, 4]), self.random.choice([1, 2, 4])
        self.lines = ['%w = tensor.parameter "w" : tensor<4x4xf32>']
        self.count = 0
        self.run = f"tensor<{self.steps}x{self.batch}x4xf32>"
        self.train = f"!spike.train<{self.steps}x{self.batch}x4>"
        self.step = f"tensor<{self.batch}x4xf32>"
        self.runs, self.trains, self.results = ["%x"], list[str](), list[tuple[str, str]]()
        for _ in range(self.random.randint(2, 12)):
            rules = (self.neuron, self.neuron, self.synapse, self.sum, self.scaled, self.whole,
                     self.running, self.coded, self.merged, self.counted, self.across, self.last,
                     self.delayed, self.padded)  # fmt: skip
            self.random.choice(rules)()
        self.results.append((self.runs[-1], self.run))
        if self.trains:
            self.results.append((self.trains[-1], self.train))

    def add(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def neuron(self) -> None:
        x, states = self.random.choice(self.runs), ""
        name, _, options = self.random.choice(NEURONS).format().partition(" ")
        if name == "integrate_fire" and self.random.random() < 0.5:
            ends = ", ".join(["9223372036854775807"] * 2)
            cut = self.add(
                f"tensor.slice {x} {{starts = array<i64: 0, 0, 0>, ends = array<i64: 1, {ends}>, "
                f"steps = array<i64: 1, 1, 1>}} : ({self.run}) -> tensor<1x{self.batch}x4xf32>"
            )
            first = self.add(
                f"tensor.squeeze {cut} {{axes = array<i64: 0>}} "
                f": (tensor<1x{self.batch}x4xf32>) -> {self.step}"
            )
            level = self.add(
                f"tensor.clamp {first} {{min = 0.25 : f64, max = 0.25 : f64}} "
                f": ({self.step}) -> {self.step}"
            )
            states = f" initial({level} : {self.step})"
        train = self.add(f"spike.{name} {x}{states} {options} : ({self.run}) -> {self.train}")
        self.trains.append(train)
        self.runs.append(self.add(f"spike.to_tensor {train} : ({self.train}) -> {self.run}"))

    def synapse(self) -> None:
        if self.trains:
            s = self.random.choice(self.trains)
            types = f"{self.train}, tensor<4x4xf32> -> {self.run}"
            self.runs.append(self.add(f"spike.linear {s}, %w : {types}"))

    def sum(self) -> None:
        a, b = self.random.choice(self.runs), self.random.choice(self.runs)
        self.runs.append(self.add(f"tensor.add {a}, {b} : ({self.run}, {self.run}) -> {self.run}"))

    def scaled(self) -> None:
        """By a number for each step, or for each neuron."""
        by_step = self.random.random() < 0.5
        numbers = [self.random.randint(-4, 4) / 4 for _ in range(self.steps if by_step else 4)]
        type = f"tensor<{self.steps}x1x1xf32>" if by_step else "tensor<4xf32>"
        values = ", ".join(f"[[{n}]]" if by_step else str(n) for n in numbers)
        c = self.add(f"tensor.constant dense<[{values}]> : {type}")
        x = self.random.choice(self.runs)
        self.runs.append(self.add(f"tensor.mul {x}, {c} : ({self.run}, {type}) -> {self.run}"))

    def whole(self) -> None:
        """What no step can say."""
        x = self.random.choice(self.runs)
        softmax = f"tensor.softmax {x} {{axis = 0 : i64}} : ({self.run}) -> {self.run}"
        self.runs.append(self.add(softmax))

    def running(self) -> None:
        """Sums and products of the steps so far, or of the neurons."""
        x, axis = self.random.choice(self.runs), self.random.choice([0, 0, 2])
        kind = self.random.choice(["cumsum", "cumprod"])
        text = f"tensor.{kind} {x} {{axis = {axis} : i64}} : ({self.run}) -> {self.run}"
        self.runs.append(self.add(text))

    def coded(self) -> None:
        """Numbers as spikes."""
        scheme = self.random.choice(['"rate", seed = 3 : i64', '"regular"', '"phase"', '"latency"'])
        start = self.random.choice(["", ", start = 2 : i64"])
        text = f"{{scheme = {scheme}{start}, timesteps = {self.steps} : i64}}"
        self.trains.append(self.add(f"spike.encode %c {text} : ({self.step}) -> {self.train}"))

    def merged(self) -> None:
        """Steps and samples as rows of one product."""
        rows = f"tensor<{self.steps * self.batch}x4xf32>"
        x, there = self.random.choice(self.runs), f"array<i64: {self.steps * self.batch}, 4>"
        flat = self.add(f"tensor.reshape_to {x} {{shape = {there}}} : ({self.run}) -> {rows}")
        y = self.add(f"tensor.matmul {flat}, %w : ({rows}, tensor<4x4xf32>) -> {rows}")
        back = f"array<i64: {self.steps}, {self.batch}, 4>"
        text = f"tensor.reshape_to {y} {{shape = {back}}} : ({rows}) -> {self.run}"
        self.runs.append(self.add(text))

    def counted(self) -> None:
        x = self.random.choice(self.runs)
        kind = self.random.choice(["sum", "mean", "max"])
        keep = self.random.choice(["true", "false"])
        type = f"tensor<1x{self.batch}x4xf32>" if keep == "true" else self.step
        text = f"tensor.reduce_{kind} {x} {{axes = array<i64: 0>, keepdims = {keep}}}"
        self.results.append((self.add(f"{text} : ({self.run}) -> {type}"), type))

    def delayed(self) -> None:
        late, spikes = self.random.randint(1, 5), self.trains and self.random.random() < 0.5
        x, type = (self.trains, self.train) if spikes else (self.runs, self.run)
        y = f"spike.delay {self.random.choice(x)} {{steps = {late} : i64}} : ({type}) -> {type}"
        x.append(self.add(y))

    def padded(self) -> None:
        """A delay as `convert-ann-to-snn` writes it."""
        x, late = self.random.choice(self.runs), self.random.randint(1, 2)
        type = f"tensor<{self.steps + late}x{self.batch}x4xf32>"
        pads = f"{{low = array<i64: {late}, 0, 0>, high = array<i64: 0, 0, 0>}}"
        y = self.add(f"tensor.pad_to {x} {pads} : ({self.run}) -> {type}")
        big = 9223372036854775807
        cut = f"{{starts = array<i64: 0, 0, 0>, ends = array<i64: -{late}, {big}, {big}>, "
        cut += "steps = array<i64: 1, 1, 1>}"
        self.runs.append(self.add(f"tensor.slice {y} {cut} : ({type}) -> {self.run}"))

    def across(self) -> None:
        """What is left of the neurons, for each step."""
        x = self.random.choice(self.runs)
        type = f"tensor<{self.steps}x{self.batch}x1xf32>"
        text = f"tensor.reduce_max {x} {{axes = array<i64: 2>, keepdims = true}}"
        y = self.add(f"{text} : ({self.run}) -> {type}")
        self.runs.append(self.add(f"tensor.sub {x}, {y} : ({self.run}, {type}) -> {self.run}"))

    def last(self) -> None:
        start = self.random.choice([-1, self.steps - 1, 0])
        end = 1 if start == 0 else 9223372036854775807
        big = 9223372036854775807
        type = f"tensor<1x{self.batch}x4xf32>"
        text = (
            f"tensor.slice {self.random.choice(self.runs)} {{starts = array<i64: {start}, 0, 0>, "
            f"ends = array<i64: {end}, {big}, {big}>, steps = array<i64: 1, 1, 1>}}"
        )
        self.results.append((self.add(f"{text} : ({self.run}) -> {type}"), type))

    def module(self) -> ModuleOp:
        values = ", ".join(value for value, _ in self.results)
        types = ", ".join(type for _, type in self.results)
        body = "\n  ".join([*self.lines, f"func.return {values} : {types}"])
        arguments = f"%x: {self.run}, %c: {self.step}"
        module = parse_module(f"func.func @forward({arguments}) -> ({types}) {{\n  {body}\n}}")
        attach_store(module, ParameterStore.of(WEIGHTS))
        return module

    def inputs(self, seed: int) -> list[Array]:
        rng = np.random.default_rng(seed)
        x = (rng.integers(-8, 13, (self.steps, self.batch, 4)) / 8).astype(np.float32)
        if seed % 8 == 0:
            x[rng.random(x.shape) < 0.1] = rng.choice([np.nan, np.inf, -0.0])
        return [x, rng.random((self.batch, 4)).astype(np.float32)]


def fused(module: ModuleOp) -> ModuleOp:
    work = module.clone()
    FuseStepsPass().apply(triton_context(), work)
    verify_module(work)
    return work


def neurons_outside(module: ModuleOp) -> list[str]:
    around = ((op, op.parent_op()) for op in module.walk() if isinstance(op, spike.NeuronOp))
    return [op.name for op, parent in around if not isinstance(parent, spike.ScanOp)]


@settings(max_examples=150)
@given(seed=st.integers(0, 10**6))
@example(seed=2841)
@example(seed=7930)
def test_a_loop_is_the_layers(seed: int) -> None:
    written = Written(seed)
    module = written.module()
    inputs, work = written.inputs(seed), fused(module)
    assert not neurons_outside(work)
    for have, want in zip(run_module(work, inputs), run_module(module, inputs), strict=True):
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(have, want)
        np.testing.assert_array_equal(np.signbit(have), np.signbit(want))


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(n, marks=SLOW) for n in range(5, 60))])
def test_a_loop_in_c_is_the_layers(seed: int, require_tool: Callable[[str, str], str]) -> None:
    """States in their places, what is needed at different times in one place."""
    require_tool("cc", "apt-get install gcc")
    written = Written(seed)
    module, inputs = written.module(), written.inputs(seed)
    c = LoadedC(compile_to_target(module, "c"), [*FLAGS, "-fPIC"])
    digits = 2e-6 if "softmax" in str(module) else 0  # by the exponentials of the C library
    for have, want in zip(c(*inputs), run_module(module, inputs), strict=True):
        np.testing.assert_allclose(have.astype(np.float32), want.astype(np.float32), digits)


def network(steps: int) -> ModuleOp:
    """Two layers and the mean of the last currents."""
    run, train = f"tensor<{steps}x1x4xf32>", f"!spike.train<{steps}x1x4>"
    module = parse_module(f"""
func.func @forward(%x: {run}) -> tensor<1x4xf32> {{
  %w = tensor.parameter "w" : tensor<4x4xf32>
  %s = spike.lif %x {{beta = 0.75 : f64}} : ({run}) -> {train}
  %i = spike.linear %s, %w : {train}, tensor<4x4xf32> -> {run}
  %t = spike.integrate_fire %i {{threshold = 0.5 : f64}} : ({run}) -> {train}
  %d = spike.delay %t {{steps = 2 : i64}} : ({train}) -> {train}
  %j = spike.linear %d, %w : {train}, tensor<4x4xf32> -> {run}
  %y = tensor.reduce_mean %j {{axes = array<i64: 0>}} : ({run}) -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}}
""")
    attach_store(module, ParameterStore.of(WEIGHTS))
    return module


def test_one_loop_leaves_no_run() -> None:
    (scan,) = (op for op in fused(network(8)).walk() if isinstance(op, spike.ScanOp))
    assert not scan.outputs and len(scan.final) == 5


def test_a_layer_more_needs_its_state_alone() -> None:
    """What a step computes is forgotten behind it, and states are no copies."""
    run, train = "tensor<6x1x100xf32>", "!spike.train<6x1x100>"
    memory: list[int] = []
    for layers in (2, 5):
        text = "".join(
            f"%s{n} = spike.lif %x{n} {{beta = 0.75 : f64}} : ({run}) -> {train}\n"
            f"%x{n + 1} = spike.to_tensor %s{n} : ({train}) -> {run}\n"
            for n in range(layers)
        )
        report: Any = compile_to_target(
            parse_module(
                f"func.func @forward(%x0: {run}) -> tensor<1x100xf32> {{\n{text}"
                f"%y = tensor.reduce_sum %x{layers} {{axes = array<i64: 0>}} : ({run}) -> "
                "tensor<1x100xf32>\nfunc.return %y : tensor<1x100xf32>\n}"
            ),
            "c",
        ).manifest["report"]
        memory.append(report["ram"]["memory"])
    assert memory[1] - memory[0] == 3 * 400


@pytest.mark.parametrize("steps", ["?", "1"])
def test_unknown_and_single_steps_stay(steps: str) -> None:
    run, train = f"tensor<{steps}x1x4xf32>", f"!spike.train<{steps}x1x4>"
    module = parse_module(f"""
func.func @forward(%x: {run}) -> {train} {{
  %s = spike.lif %x {{beta = 0.5 : f64}} : ({run}) -> {train}
  func.return %s : {train}
}}
""")
    assert str(fused(module)) == str(module)


WHOLE = {
    "a mean": """
  %m = tensor.reduce_mean %i {axes = array<i64: 0>, keepdims = true} : (RUN) -> tensor<1x3x4xf32>
  %d = tensor.sub %i, %m : (RUN, tensor<1x3x4xf32>) -> RUN""",
    "a softmax": "%d = tensor.softmax %i {axis = 0 : i64} : (RUN) -> RUN",
    "steps as rows": """
  %f = tensor.reshape_to %i {shape = array<i64: 6, 4>} : (RUN) -> tensor<6x4xf32>
  %p = tensor.matmul %f, %w : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %d = tensor.reshape_to %p {shape = array<i64: 2, 3, 4>} : (tensor<6x4xf32>) -> RUN""",
}


@pytest.mark.parametrize("whole", WHOLE)
def test_what_is_wanted_whole_before_a_neuron_runs_before_the_loop(whole: str) -> None:
    """Synapses with no neuron before them: one loop has all neurons behind them."""
    module = parse_module(
        f"""
func.func @forward(%x: STEP, %y: RUN) -> (TRAIN, TRAIN) {{
  %w = tensor.parameter "w" : tensor<4x4xf32>
  %c = spike.encode %x {{scheme = "latency", timesteps = 2 : i64}} : (STEP) -> TRAIN
  %i = spike.linear %c, %w : TRAIN, tensor<4x4xf32> -> RUN
  {WHOLE[whole]}
  %s = spike.lif %d {{beta = 0.75 : f64}} : (RUN) -> TRAIN
  %a = tensor.add %i, %y : (RUN, RUN) -> RUN
  %t = spike.lif %a {{beta = 0.5 : f64}} : (RUN) -> TRAIN
  func.return %s, %t : TRAIN, TRAIN
}}
""".replace("RUN", "tensor<2x3x4xf32>")
        .replace("STEP", "tensor<3x4xf32>")
        .replace("TRAIN", "!spike.train<2x3x4>")
    )
    attach_store(module, ParameterStore.of(WEIGHTS))
    work = fused(module)
    (scan,) = (op for op in work.walk() if isinstance(op, spike.ScanOp))
    assert not neurons_outside(work)
    assert not any(isinstance(op, spike.LinearOp) for op in scan.walk())
    x = [RNG.random((3, 4), np.float32), RNG.random((2, 3, 4), np.float32)]
    for have, want in zip(run_module(work, x), run_module(module, x), strict=True):
        np.testing.assert_array_equal(have, want)


def pooled(steps: int) -> ModuleOp:
    """What neurons behind an average pool hear: how their running sums change."""
    rows, run = f"tensor<{steps}x1x4x4xf32>", f"tensor<{steps}x1x1x4x4xf32>"
    small, half = f"tensor<{steps}x1x1x2x2xf32>", f"tensor<{steps}x1x2x2xf32>"
    ends, big = ", ".join(["9223372036854775807"] * 4), f"tensor<{steps + 1}x1x1x2x2xf32>"
    return parse_module(
        f"""
func.func @forward(%x: {run}) -> tensor<1x1x2x2xf32> {{
  %sum = spike.leaky_integrator %x {{beta = 1.0 : f64}} : ({run}) -> {run}
  %r = tensor.clamp %sum {{min = 0.0 : f64}} : ({run}) -> {run}
  %f = tensor.flatten %r {{start = 0 : i64, end = 1 : i64}} : ({run}) -> {rows}
  %p = tensor.avg_pool %f {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      padding = array<i64: 0, 0, 0, 0>}} : ({rows}) -> {half}
  %q = tensor.reshape_to %p {{shape = array<i64: {steps}, -1, -3, -4, -4>}} : ({half}) -> {small}
  %l = tensor.pad_to %q {{low = array<i64: 1, 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 0, 0>}}
    : ({small}) -> {big}
  %c = tensor.slice %l {{starts = array<i64: 0, 0, 0, 0, 0>, ends = array<i64: -1, {ends}>,
      steps = array<i64: 1, 1, 1, 1, 1>}} : ({big}) -> {small}
  %i = tensor.sub %q, %c : ({small}, {small}) -> {small}
  %s = spike.integrate_fire %i {{threshold = 0.5 : f64}} : ({small}) -> !spike.train<SIZE>
  %n = spike.to_tensor %s : (!spike.train<SIZE>) -> {small}
  %y = tensor.reduce_mean %n {{axes = array<i64: 0>}} : ({small}) -> tensor<1x1x2x2xf32>
  func.return %y : tensor<1x1x2x2xf32>
}}
""".replace("SIZE", f"{steps}x1x1x2x2")
    )


def coded(steps: int) -> ModuleOp:
    """Random spikes, whose running sums are counted where they reach a level."""
    run, train = f"tensor<{steps}x1x4xf32>", f"!spike.train<{steps}x1x4>"
    module = parse_module(f"""
func.func @forward(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {{
  %w = tensor.parameter "w" : tensor<4x4xf32>
  %s = spike.encode %x {{scheme = "rate", seed = 9 : i64, timesteps = {steps} : i64}}
    : (tensor<1x4xf32>) -> {train}
  %i = spike.linear %s, %w : {train}, tensor<4x4xf32> -> {run}
  %c = tensor.cumsum %i {{axis = 0 : i64}} : ({run}) -> {run}
  %t = spike.lif %c {{beta = 0.5 : f64, threshold = 4.0 : f64}} : ({run}) -> {train}
  %n = spike.to_tensor %t : ({train}) -> {run}
  %y = tensor.reduce_sum %n {{axes = array<i64: 0>}} : ({run}) -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}}
""")
    attach_store(module, ParameterStore.of(WEIGHTS))
    return module


@pytest.mark.parametrize(
    ("of", "shape", "timed"),
    [(network, (1, 4), True), (pooled, (1, 1, 4, 4), True), (coded, (1, 4), False)],
)
def test_memory_in_c_does_not_grow_with_the_steps(
    of: Callable[[int], ModuleOp],
    shape: tuple[int, ...],
    timed: bool,
    require_tool: Callable[[str, str], str],
) -> None:
    require_tool("cc", "apt-get install gcc")
    memory: list[int] = []
    for steps in (4, 32):
        module = of(steps)
        artifact = compile_to_target(module, "c")
        report: Any = artifact.manifest["report"]
        memory.append(report["ram"]["memory"])
        size = (steps, *shape) if timed else shape
        x = (np.random.default_rng(steps).integers(-8, 13, size) / 8).astype(np.float32)
        (found,), (wanted,) = LoadedC(artifact)(x), run_module(module, [x])
        np.testing.assert_array_equal(found, wanted)
    assert memory[0] == memory[1]
