"""Random spiking programs in `.tri`, each beside loops over time in PyTorch.

A neuron whose membrane comes as near to its threshold as rounding reaches is not determined; most
currents are sums of quarters, so that most neurons are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from . import oracle
from .cases import ENGINES, Case, Expected, checks_of
from .programs import Program, Rule, Value, Writer

SPIKING_PASSES = (
    *("canonicalize", "cse", "dce", "fold-constants", "fuse-spike", "fuse-spike{layers=true}"),
    *(
        "inline-spike-layers",
        "hoist-synapses",
        "lower-recurrent",
        "skip-silent",
        "skip-zeros",
        "fuse-pools",
        "split-synapses",
        "fuse-steps",
    ),
    *("fuse-linear", "infer-shapes", "convert-spike-to-tensor", "build-network,lower-network"),
    *("lower-network", "expose-trains"),
)
"""Passes that keep what a spiking program computes."""


class SpikingProgram(Program):
    """A program on spike trains; their first axis is time."""

    KIND: ClassVar[str] = "spiking"

    def expected(self) -> Expected:
        types = {v.name: v.element for v in (*self.arguments, *(s.result for s in self.statements))}

        def run() -> list[Tensor]:
            values = self.values()
            return [
                values[name] != 0 if types[name] == "spike" else values[name]
                for name in self.results
            ]

        dtypes = ["bool" if types[name] == "spike" else "float32" for name in self.results]
        return oracle.bounded(run, dtypes, ["float32"], self.seed)


def over_time(current: Tensor, step: Callable[..., tuple[Tensor, ...]], states: int) -> Tensor:
    """The outputs of a neuron for each step; its states begin at 0."""
    state = tuple(torch.zeros_like(current[0]) for _ in range(states))
    outputs: list[Tensor] = []
    for now in current:
        output, *rest = step(now, *state)
        state = tuple(rest)
        outputs.append(output)
    return torch.stack(outputs)


def f32(number: float) -> float:
    """A number as float32 holds it."""
    return float(np.float32(number))


def synapses(w: Writer) -> None:
    s = w.pick(lambda v: v.element == "spike")
    if s is None:
        return
    wide = w.random.choice([1, 2, 4])
    p = w.parameter((s.shape[-1], wide), w.random.choice(["trit", "trit", "float32"]))
    b = w.parameter((wide,), "float32") if w.random.random() < 0.4 else None
    scale = w.random.choice([0.5, 2.0, -1.0]) if w.random.random() < 0.3 else 1.0
    text = "{0} @ {1}" + (" + {2}" if b else "")
    if scale != 1:
        text = f"({text}) * ({scale})"

    def compute(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = x @ weight
        return (y if bias is None else y + bias) * scale

    w.let(text, [s, p, b], compute, (*s.shape[:-1], wide), "float32")


def neuron(w: Writer) -> None:
    i = w.pick(lambda v: v.element == "float32" and len(v.shape) == 3)
    if i is None:
        return
    r = w.random
    threshold, gain = r.choice([1.0, 0.5, 0.25, 2.0]), r.choice([1.0, 1.0, 0.5])
    reset, compare = r.choice(["subtract", "to_value", "none"]), r.choice([">=", ">"])
    v_reset = r.choice([0.0, -0.5]) if reset == "to_value" else 0.0
    v_leak = r.choice([0.0, 0.0, 0.25])
    tau, decay = r.choice([2.0, 4.0, 1.5]), r.choice(["exact", "euler"])
    beta = f32(math.exp(-1 / tau) if decay == "exact" else 1 - 1 / tau)

    def fires(v: Tensor, level: Tensor | float) -> Tensor:
        return ((v >= level) if compare == ">=" else (v > level)).to(torch.float64)

    def after(v: Tensor, s: Tensor, level: Tensor | float) -> Tensor:
        if reset == "subtract":
            return v - s * level
        return torch.where(s > 0, torch.full_like(v, v_reset), v) if reset == "to_value" else v

    def leaked(v: Tensor, current: Tensor) -> Tensor:
        return v * beta + (1 - beta) * v_leak + current * gain

    firing = f'threshold={threshold}, reset="{reset}", v_reset={v_reset}, compare="{compare}"'
    leaking = f'tau={tau}, v_leak={v_leak}, decay="{decay}"'
    kind = r.choice(
        ["lif", "lif", "integrate_fire", "leaky_integrator", "cuba_lif", "adaptive_lif"]
    )
    if kind == "integrate_fire":

        def fire(now: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            v = v + now * gain
            s = fires(v, threshold)
            return s, after(v, s, threshold)

        text, step, states = f"integrate_fire({{0}}, {firing}, gain={gain})", fire, 1
    elif kind == "lif":

        def leak(now: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            v = leaked(v, now)
            s = fires(v, threshold)
            return s, after(v, s, threshold)

        text, step, states = f"lif({{0}}, {leaking}, {firing}, gain={gain})", leak, 1
    elif kind == "leaky_integrator":

        def trace(now: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            v = leaked(v, now)
            return v, v

        text, step, states = f"leaky_integrator({{0}}, {leaking}, gain={gain})", trace, 1
    elif kind == "cuba_lif":
        tau_syn = r.choice([2.0, 3.0])
        alpha = f32(math.exp(-1 / tau_syn) if decay == "exact" else 1 - 1 / tau_syn)

        def synaptic(now: Tensor, c: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            c = c * alpha + now
            v = leaked(v, c)
            s = fires(v, threshold)
            return s, c, after(v, s, threshold)

        text = f"cuba_lif({{0}}, tau_syn={tau_syn}, {leaking}, {firing}, gain={gain})"
        text, step, states = text.replace(" tau=", " tau_mem="), synaptic, 2
    else:
        tau_a, kappa = r.choice([4.0, 10.0]), r.choice([0.5, 1.0])
        rho = f32(math.exp(-1 / tau_a) if decay == "exact" else 1 - 1 / tau_a)

        def adaptive(now: Tensor, v: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            v = leaked(v, now)
            level = a * kappa + threshold
            s = fires(v, level)
            return s, after(v, s, level), a * rho + s * (1 - rho)

        text = f"adaptive_lif({{0}}, {leaking}, tau_adaptation={tau_a}, kappa={kappa}, {firing}, "
        text, step, states = f"{text}gain={gain})", adaptive, 2
    element = "float32" if kind == "leaky_integrator" else "spike"
    w.let(text, [i], lambda x: over_time(x, step, states), i.shape, element)


def delay(w: Writer) -> None:
    s = w.pick(lambda v: v.element == "spike")
    if s is None:
        return
    steps = w.random.choice([0, 1, 2, s.shape[0]])

    def later(x: Tensor) -> Tensor:
        zeros = torch.zeros_like(x)[:steps]
        return torch.cat([zeros, x])[: x.shape[0]]

    w.let(f"delay({{0}}, steps={steps})", [s], later, s.shape, "spike")


def decode(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) == 3)
    assert v is not None
    if v.element != "spike":
        readout = w.random.choice(["last", "max", "mean"])
        compute: Callable[[Tensor], Tensor] = {
            "last": lambda x: x[-1],
            "max": lambda x: x.amax(0),
            "mean": lambda x: x.mean(0),
        }[readout]
        text = f'decode({{0}}, scheme="membrane", readout="{readout}")'
    elif w.random.random() < 0.5:
        text, compute = 'decode({0}, scheme="rate")', lambda x: x.mean(0)
    else:

        def earliness(x: Tensor) -> Tensor:
            silent = (x.cumsum(0) == 0).sum(0)
            return (x.shape[0] - silent).to(torch.float64) / x.shape[0]

        text, compute = 'decode({0}, scheme="first_spike")', earliness
    w.let(text, [v], compute, v.shape[1:], "float32")


RULES: tuple[Rule, ...] = (synapses, synapses, neuron, neuron, neuron, delay)


def generate(seed: int) -> Case:
    """The program of a seed."""
    rng = random.Random(seed)
    writer = Writer(seed, RULES)
    shape = (rng.choice([1, 2, 5, 8]), rng.choice([1, 2, 3]), rng.choice([1, 2, 3, 6]))
    writer.arguments = [Value("s", shape, "spike")]
    writer.values = list(writer.arguments)
    writer.write(rng.choice([2, 3, 4, 6]))
    if rng.random() < 0.4 and len(writer.values[-1].shape) == 3:
        decode(writer)
    data = (writer.numbers.random(shape) < rng.choice([0.0, 0.3, 0.6, 1.0]),)
    result = writer.values[-1].name
    program = SpikingProgram(
        seed,
        checks_of(rng, ENGINES, SPIKING_PASSES),
        tuple(writer.arguments),
        data,
        tuple(writer.parameters),
        tuple(writer.statements),
        (result,),
    )
    return program.cut((result,))
