"""Random networks in `.tri` as quantisation likes them, put on integers in random ways.

The float network has PyTorch for its oracle. A quantised one computes something else; its engines
must agree with the interpreter of the quantised program, to the bit where that is all integers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .cases import ENGINES, EXACT_PASSES, INTERPRETER, SAMPLES, Case, Check
from .programs import Program, Rule, Value, Writer


class Network(Program):
    """A program of layers."""

    KIND: ClassVar[str] = "networks"


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu({})": F.relu,
    "relu6({})": F.relu6,
    "clamp({}, min=-1.0, max=2.0)": lambda x: torch.clamp(x, -1.0, 2.0),
    "{}": lambda x: x,
}


def residual(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) in (2, 4))
    assert v is not None
    w.let("relu({0} + {1})", [v, w.like(v)], lambda x, y: F.relu(x + y), v.shape, v.element)


def dense(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) == 2)
    if v is None:
        return
    wide = w.random.choice([3, 5, 8])
    p = w.parameter((v.shape[1], wide), w.random.choice(["trit", "trit", v.element]))
    b = w.parameter((wide,), v.element) if w.random.random() < 0.6 else None
    text = w.random.choice(list(ACTIVATIONS))
    function = ACTIVATIONS[text]
    w.let(
        text.format("{0} @ {1}" + (" + {2}" if b else "")),
        [v, p, b],
        lambda x, weight, bias=None: function(x @ weight if bias is None else x @ weight + bias),
        (v.shape[0], wide),
        v.element,
    )


def image(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) == 4)
    if v is None:
        return
    kind = w.random.random()
    if kind < 0.2 or min(v.shape[2:]) < 3:
        shape = (v.shape[0], int(np.prod(v.shape[1:])))
        w.let("flatten({0})", [v], lambda x: x.flatten(1), shape, v.element)
    elif kind < 0.4:
        size = [(n - 2) // 2 + 1 for n in v.shape[2:]]
        name = w.random.choice(["max", "avg"])
        function = F.max_pool2d if name == "max" else F.avg_pool2d
        w.let(
            f"{name}_pool2d({{0}}, 2, stride=2)",
            [v],
            lambda x: function(x, 2, 2),
            (*v.shape[:2], *size),
            v.element,
        )
    else:
        convolution(w, v)


def convolution(w: Writer, v: Value) -> None:
    """A convolution, sometimes with batch normalisation behind it."""
    padding, wide = w.random.choice([0, 1]), w.random.choice([2, 3, 5])
    p = w.parameter((wide, v.shape[1], 3, 3), w.random.choice(["trit", "trit", v.element]))
    shape = (v.shape[0], wide, *(n + 2 * padding - 2 for n in v.shape[2:]))
    text = w.random.choice(list(ACTIVATIONS))
    function = ACTIVATIONS[text]
    w.let(
        text.format(f"conv2d({{0}}, {{1}}, padding={padding})"),
        [v, p],
        lambda x, weight: function(F.conv2d(x, weight, padding=padding)),
        shape,
        v.element,
    )
    if w.random.random() < 0.5:
        given = [w.parameter((wide,), v.element, positive=i == 1) for i in range(4)]

        def normalised(x: Tensor, *parameters: Tensor) -> Tensor:
            mean, variance, scale, bias = (p.reshape(-1, 1, 1) for p in parameters)
            return F.relu((x - mean) * (variance + 1e-5).rsqrt() * scale + bias)

        last = w.values[-1]
        w.let(
            "relu(batch_norm({0}, {1}, {2}, {3}, {4}))",
            [last, *given],
            normalised,
            shape,
            v.element,
        )


RULES: tuple[Rule, ...] = (dense, dense, dense, image, image, image, residual)


def quantisation(rng: random.Random) -> str:
    """A pipeline that makes a float network one of integers, or nearly so."""
    options = [f"data={SAMPLES}"]
    for option, share in (
        ("bits=4", 0.3),
        ("symmetric=false", 0.2),
        ("signed=false", 0.2),
        ("dense=true", 0.2),
        ("weights=8", 0.2),
        ("correct-bias=true", 0.15),
        ("keep-first=true", 0.15),
        ("keep-last=true", 0.15),
    ):
        if rng.random() < share:
            options.append(option)
    whole = f"fold-constants,fuse-linear,quantize-activations{{{' '.join(options)}}}"
    return whole + rng.choice(["", ",requantize", ",requantize", ",requantize,merge-rescaling"])


def checks_of(rng: random.Random) -> tuple[Check, ...]:
    """The float network in the interpreter, then quantised ones, further rewritten or not."""
    checks = [Check("", INTERPRETER)]
    for _ in range(2):
        approximate = quantisation(rng)
        passes = [rng.choice(EXACT_PASSES) for _ in range(rng.choice([1, 2, 4]))]
        checks.append(Check(",".join(passes), INTERPRETER, approximate))
        checks += [Check("", engine, approximate) for engine in rng.sample(ENGINES, 2)]
        checks.append(Check(",".join(passes), rng.choice(ENGINES), approximate))
    return tuple(checks)


def generate(seed: int) -> Case:
    """The network of a seed."""
    rng = random.Random(seed)
    writer = Writer(seed, RULES)
    shape = rng.choice([(6,), (2, 6, 5), (3, 5, 5)])
    writer.arguments = [Value(f"x{i}", (3, *shape), "float32") for i in range(rng.choice([1, 2]))]
    writer.values = list(writer.arguments)
    made = writer.program(seed, rng.choice([2, 3, 4, 6]))
    network = Network(
        seed,
        checks_of(rng),
        made.arguments,
        made.data,
        made.parameters,
        made.statements,
        made.results[:1],
    )
    return network.cut(network.results)
