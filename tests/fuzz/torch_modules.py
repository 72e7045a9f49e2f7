"""Random PyTorch modules: layers, functions, views and strides, beside eager PyTorch in float64.

A module is a list of statements in Python, so that a failing one is its own test. Whether an
expression fits a tensor is found by trying.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.tools.reduction import plainer

from . import cases, oracle
from .cases import Case, Expected, checks_of

Array = NDArray[Any]
WIDEST = 2000


@dataclass(frozen=True)
class Statement:
    """`name = text`, where `{0}`, `{1}` stand for the names that are used."""

    name: str
    text: str
    uses: tuple[str, ...]

    def line(self) -> str:
        """It as the module has it."""
        return f"{self.name} = {self.text.format(*self.uses)}"


@dataclass(frozen=True)
class Layer:
    """A submodule: its name, the expression that makes it, its parameters and buffers."""

    name: str
    text: str
    state: tuple[tuple[str, Array], ...]


@dataclass(frozen=True)
class Module(Case):
    """A module of statements.

    Attributes:
        arguments: names and values; strides are those of the arrays.
        result: the name of what is returned.
    """

    KIND: ClassVar[str] = "torch"
    arguments: tuple[tuple[str, Array], ...]
    layers: tuple[Layer, ...]
    statements: tuple[Statement, ...]
    result: str

    def text(self) -> str:
        """The class."""
        names = ", ".join(name for name, _ in self.arguments)
        made = "".join(f"\n        self.{layer.name} = {layer.text}" for layer in self.layers)
        body = "".join(f"\n        {s.line()}" for s in self.statements)
        return (
            f"class Random(nn.Module):\n    def __init__(self):\n        super().__init__(){made}\n"
            f"\n    def forward(self, {names}):{body}\n        return {self.result}\n"
        )

    def network(self) -> nn.Module:
        """The module with its weights, in evaluation mode."""
        space = scope()
        exec(self.text(), space)
        network: nn.Module = space["Random"]()
        state = {
            f"{layer.name}.{key}": torch.tensor(a)
            for layer in self.layers
            for key, a in layer.state
        }
        if any(a.dtype == np.float64 for a in self.inputs()):
            network = network.double()
        network.load_state_dict(state)
        return network.eval()

    def inputs(self) -> list[Array]:
        return [array for _, array in self.arguments]

    def module(self) -> ModuleOp:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return from_torch(self.network(), tuple(map(torch.tensor, self.inputs())))

    def expected(self) -> Expected:
        eager = self.network()
        with torch.no_grad():
            plain = eager(*map(torch.tensor, self.inputs()))
        dtype = plain.numpy().dtype.name
        network = self.network().double()
        wide = [
            torch.tensor(a.astype(np.float64) if a.dtype.kind == "f" else a) for a in self.inputs()
        ]
        units = {a.dtype.name for a in self.inputs()} | {"float32"}
        return oracle.bounded(lambda: [network(*wide)], [dtype], sorted(units), self.seed)

    def size(self) -> int:
        return len(self.statements)

    def building(self) -> tuple[list[str], list[str]]:
        state = [
            f"'{layer.name}.{key}': torch.tensor({cases.array_source(array)})"
            for layer in self.layers
            for key, array in layer.state
        ]
        given = "".join(f"torch.tensor({cases.array_source(a)}), " for a in self.inputs())
        double = any(a.dtype == np.float64 for a in self.inputs())
        made = "network = Random()" + (".double()" if double else "")
        lines = [*self.text().splitlines(), "", made]
        lines.append(f"network.load_state_dict({{{', '.join(state)}}})")
        lines.append(f"module = from_torch(network.eval(), ({given}))")
        imports = ["import torch", "import torch.nn.functional as F", "from torch import nn"]
        return [*imports, "from triton_dsl.lowering.from_torch import from_torch"], lines

    def reductions(self) -> Iterator[Self]:
        for statement in self.statements[:-1]:
            yield self.cut(statement.name)
        for index, statement in enumerate(self.statements):
            for name in statement.uses:
                yield self.without(index, name)
        for index, array in enumerate(self.inputs()):
            if (check := self.checks[0]).pipeline and "," in check.pipeline:
                passes = check.pipeline.split(",")
                for i in range(len(passes)):
                    shorter = ",".join((*passes[:i], *passes[i + 1 :]))
                    yield self.only(replace(check, pipeline=shorter))
            for plain in plainer(array):
                given = list(self.arguments)
                given[index] = (given[index][0], plain)
                yield replace(self, arguments=tuple(given))
        for index, layer in enumerate(self.layers):
            for number, (key, array) in enumerate(layer.state):
                for plain in plainer(array):
                    state = list(layer.state)
                    state[number] = (key, plain)
                    layers = list(self.layers)
                    layers[index] = replace(layer, state=tuple(state))
                    yield replace(self, layers=tuple(layers))

    def cut(self, result: str) -> Self:
        """The module that returns this, without what it does not need."""
        needed = {result}
        kept: list[Statement] = []
        for statement in reversed(self.statements):
            if statement.name in needed:
                kept.insert(0, statement)
                needed |= set(statement.uses)
        text = " ".join(s.text for s in kept)
        arguments = tuple(a for a in self.arguments if a[0] in needed) or self.arguments[:1]
        layers = tuple(layer for layer in self.layers if f"self.{layer.name}(" in text)
        return replace(
            self, statements=tuple(kept), result=result, arguments=arguments, layers=layers
        )

    def without(self, index: int, name: str) -> Self:
        """The module with the variable `name` in the place of a statement."""
        old = self.statements[index].name
        rest = [s for i, s in enumerate(self.statements) if i != index]
        changed = [replace(s, uses=tuple(name if u == old else u for u in s.uses)) for s in rest]
        result = name if self.result == old else self.result
        return replace(self, statements=tuple(changed)).cut(result)


def scope() -> dict[str, Any]:
    """What statements may name."""
    return {"torch": torch, "nn": nn, "F": torch.nn.functional}


ANY = (
    *("{0}.transpose({i}, {j})", "{0}.flip({i})", "{0}.roll(2, {i})", "{0}.cumsum({i})"),
    *("{0}.select({i}, -1)", "{0}.unbind({i})[0]", "{0}.repeat_interleave(2, {i})"),
    *("torch.chunk({0}, 2, {i})[-1]", "{0}.sum({i}, keepdim=True)", "{0}.amax({i})"),
    *("{0}.amin({i}, keepdim=True)", "{0}.mean({i})", "{0}.unfold({i}, min(2, {n}), 1)"),
    *("torch.diff({0}, dim={i})", "torch.cat([{0}, {0} * 2], {i})", "{0}[..., ::2]"),
    *("torch.stack([{0}, {0} + 1], {i})", "{0}[None, ..., -1:]", "{0}.reshape(-1)"),
    *("{0}.sort({i})[0]", "{0}.topk(1, {i})[0]", "{0}.argmin({i}).to({0}.dtype)"),
    *("{0}.cumprod({i})", "{0}.logsumexp({i})", "{0}.std({i}, unbiased=False)"),
    *("{0}.var({i}, keepdim=True)", "{0}.norm(dim={i})", "{0}.prod({i})", "{0}.softmax({i})"),
    *("F.normalize({0}, dim={i})", "{0}.movedim({i}, 0)", "{0}.swapaxes({i}, 0)"),
    *("{0}.gather({i}, {0}.argsort({i}))", "{0}.masked_fill({0} > 0, 0.5)", "{0}.median({i})[0]"),
    *("torch.where({0} > 0, {0}, -{0} * 2)", "({0} > 0).any({i}).to({0}.dtype)", "{0}.tile((2,))"),
    *("({0} > 0).all({i}).to({0}.dtype)", "{0}.expand(2, *[-1] * {d})", "{0}.unsqueeze({i})"),
    *("{0}.narrow({i}, {n} // 2, {n} - {n} // 2)", "{0}.squeeze()", "{0}.squeeze({i})"),
    *("{0}.index_select({i}, torch.tensor([0, {n} - 1, 0]))", "{0}.log_softmax({i})"),
    "{0}.scatter({i}, torch.zeros_like({0}, dtype=torch.long).narrow({i}, 0, 1), "
    "{0}.narrow({i}, 0, 1) * 3)",
)
"""Expressions of a tensor with axes `i` and `j`, `n` the size of axis `i`, `d` the rank."""

ELEMENTWISE = (
    *("neg", "abs", "sin", "cos", "tanh", "sigmoid", "floor", "ceil", "round", "trunc", "frac"),
    *("sign", "square", "relu", "erf", "atan", "sinh", "exp", "expm1"),
)
ACTIVATIONS = (
    *("gelu", "silu", "hardswish", "hardsigmoid", "hardtanh", "elu", "selu", "celu", "softplus"),
    *("mish", "leaky_relu", "relu6", "softsign", "logsigmoid", "tanhshrink", "hardshrink"),
    "softshrink",
)
SCALARS = (
    *("{0} % 1.5", "torch.fmod({0}, 1.5)", "{0} // 0.75", "torch.remainder({0}, -1.5)", "{0} ** 2"),
    *("2.0 ** {0}", "({0}.abs() + 0.5) ** 0.5", "torch.atan2({0}, {0} + 1)", "{0} * 0.5 + 1"),
    *("torch.lerp({0}, {0} * 2, 0.25)", "torch.addcmul({0}, {0}, {0}, value=0.5)", "1 - {0}"),
    *("{0}.clamp(-0.5, 0.75)", "torch.hypot({0}, {0} + 1)", "{0}.to(torch.int32).to({0}.dtype)"),
    *(
        "({0} * 50).clamp(-128, 127).to(torch.int8).to({0}.dtype)",
        "({0} > 0).to({0}.dtype)",
        "{0} / 3.0",
    ),
    *("({0} * 4).int().bitwise_and(3).to({0}.dtype)", "(({0} * 4).int() // 3).to({0}.dtype)"),
    *("(({0} * 4).int() % -3).to({0}.dtype)", "(({0} * 4).int() >> 1).to({0}.dtype)"),
    "torch.div(({0} * 4).int(), 3, rounding_mode='trunc').to({0}.dtype)",
    *("({0}.abs() + 0.5).log()", "({0}.abs() + 0.5).rsqrt()", "({0}.abs() + 0.5).log1p()"),
    *("({0}.abs() + 0.5).reciprocal()", "{0}.round(decimals=1)"),
)
PAIRS = (
    *("{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "torch.minimum({0}, {1})"),
    *("torch.cat([{0}, {1}], {i})", "{0} @ {1}.mT", "torch.where({0} < {1}, {0}, {1} + 1)"),
    *("{0} / ({1}.abs() + 0.5)", "({0} >= {1}).to({0}.dtype)"),
)
MATRICES = (
    *("{0} @ {0}.transpose(-1, -2)", "F.layer_norm({0}, [{l}])", "F.pad({0}, (1, 2))", "{0}.mT"),
    *("F.pad({0}, (-1, 2), value=3.0)", "{0}.triu(1)", "torch.tril({0})", "{0}.flatten(0, 1)"),
    *("{0}.diagonal(0, -2, -1)", "{0}.rot90(1, (0, 1))", "{0}.unflatten(0, (1, -1))"),
    *("F.cosine_similarity({0}, {0} + 1, dim=-1)", "torch.outer({0}.flatten()[:3], "
      "{0}.flatten()[:2])", "F.rms_norm({0}, [{l}])"),
)  # fmt: skip
IMAGES = (
    *(
        "F.interpolate({0}, scale_factor=1.5, mode='bilinear')",
        "F.adaptive_avg_pool2d({0}, (2, 3))",
    ),
    *("F.interpolate({0}, size=(3, 5), mode='nearest')", "F.adaptive_max_pool2d({0}, (1, 2))"),
    *("F.avg_pool2d({0}, 2, ceil_mode=True, padding=1, count_include_pad=False)",),
    *("F.max_pool2d({0}, 2, 2, padding=1, ceil_mode=True)", "F.unfold({0}, 2, padding=1)"),
    *("F.max_pool2d({0}, 3, 1, padding=1)", "F.avg_pool2d({0}, 2)"),
    *("F.pad({0}, (1, 0, 0, 1), mode='replicate')", "F.pad({0}, (1, 1, 1, 1), mode='circular')"),
    *("F.instance_norm({0})", "F.local_response_norm({0}, 2)", "F.pixel_unshuffle({0}, 2)"),
    *("F.avg_pool2d({0}, 2, divisor_override=3)", "F.pad({0}, (1, 1, 0, 1))"),
)


class Writer:
    """Writes one random module; every statement is tried at once."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        rank = self.random.choice([1, 2, 2, 3, 4, 4])
        sizes = self.random.choice([(1, 2, 3, 4, 5), (2, 3), (4, 5, 7)])
        shape = [self.random.choice(sizes) for _ in range(rank)]
        self.element = "float64" if self.random.random() < 0.1 else "float32"
        self.arguments = [("x", self.array(shape))]
        if self.random.random() < 0.3:
            self.arguments.append(("y", self.array(shape)))
        self.values = {name: torch.tensor(array) for name, array in self.arguments}
        self.layers: list[Layer] = []
        self.statements: list[Statement] = []

    def array(self, shape: Sequence[int]) -> Array:
        """Random numbers, often multiples of one half."""
        numbers = self.numbers.standard_normal(shape)
        if self.numbers.random() < 0.4:
            numbers = np.round(numbers * 2) / 2
        return np.asarray(numbers).astype(self.element)

    def layer(self, x: Tensor) -> tuple[Layer, str] | None:
        """A layer that may fit a tensor, and its call."""
        rank, shape = x.ndim, list(x.shape)
        texts: list[str] = []
        if rank >= 2:
            texts += [f"nn.Linear({shape[-1]}, 3)", f"nn.Linear({shape[-1]}, 2, bias=False)"]
        if rank in (2, 3, 4):
            name = {2: "BatchNorm1d", 3: "BatchNorm1d", 4: "BatchNorm2d"}[rank]
            texts += [f"nn.{name}({shape[1]})", f"nn.LayerNorm({shape[-1]})"]
        if rank in (3, 4):
            c, axes = shape[1], rank - 2
            kernel, stride = self.random.choice([1, 2, 3]), self.random.choice([1, 2])
            padding, groups = self.random.choice([0, 1]), self.random.choice([1, c])
            mode = self.random.choice(["zeros", "zeros", "reflect", "replicate", "circular"])
            texts += [
                f"nn.Conv{axes}d({c}, {2 * groups}, {kernel}, stride={stride}, padding={padding}, "
                f"groups={groups}, padding_mode='{mode}')"
            ] * 3
            texts.append(f"nn.ConvTranspose{axes}d({c}, 2, 2, stride={stride})")
            texts.append(f"nn.GroupNorm(1, {c})")
            texts.append(f"nn.PReLU({c})")
        if not texts:
            return None
        text = self.random.choice(texts)
        made: nn.Module = eval(text, scope())
        state: list[tuple[str, Array]] = []
        trits = self.random.random() < 0.5
        for key, value in made.state_dict().items():
            if not value.is_floating_point():
                state.append((key, value.numpy()))
                continue
            array = self.array(tuple(value.shape))
            if key == "weight" and value.ndim >= 2 and trits:
                array = self.numbers.integers(-1, 2, array.shape).astype(self.element)
            if "var" in key:
                array = (np.abs(array) + 0.5).astype(self.element)
            state.append((key, array))
        name = f"layer{len(self.layers)}"
        return Layer(name, text, tuple(state)), f"self.{name}({{0}})"

    def step(self) -> None:
        """Try one statement more."""
        name = self.random.choice(list(self.values)[-3:])
        x = self.values[name]
        rank = x.ndim
        if self.random.random() < 0.2:
            found = self.layer(x)
            if found is not None:
                self.attempt(found[1], (name,), found[0])
            return
        groups: list[Sequence[str]] = [SCALARS]
        groups.append([f"torch.{f}({{0}})" for f in ELEMENTWISE])
        groups.append([f"F.{f}({{0}})" for f in ACTIVATIONS])
        uses: tuple[str, ...] = (name,)
        if rank:
            groups += [ANY, ANY]
        if rank >= 2:
            groups += [MATRICES]
        if rank == 4:
            groups += [IMAGES, IMAGES]
        alike = [n for n, v in self.values.items() if v.shape == x.shape and n != name]
        if alike and rank:
            groups += [PAIRS]
        group = self.random.choice(groups)
        if group is PAIRS:
            uses = (name, self.random.choice(alike))
        text = self.random.choice(list(group))
        if rank:
            i, j = (self.random.randrange(-rank, rank) for _ in range(2))
            for key, value in {
                "i": i,
                "j": j,
                "n": x.shape[i],
                "d": rank,
                "l": x.shape[-1],
            }.items():
                text = text.replace(f"{{{key}}}", str(value))
        elif any(f"{{{key}}}" in text for key in "ijndl"):
            return
        self.attempt(text, uses)

    def attempt(self, text: str, uses: tuple[str, ...], layer: Layer | None = None) -> None:
        """Keep the statement if PyTorch can run it, and its result is plain."""
        statement = Statement(f"v{len(self.statements)}", text, uses)
        layers = (*self.layers, layer) if layer else tuple(self.layers)
        trial = Module(
            0, (), tuple(self.arguments), layers, (*self.statements, statement), statement.name
        )
        if text == "{0}.squeeze()" and 1 in (a.shape[0] for _, a in self.arguments):
            return  # a free size counts as more than 1
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = trial.network()(*map(torch.tensor, trial.inputs()))
        except Exception:
            return
        if not isinstance(result, Tensor) or not 0 < result.numel() <= WIDEST:
            return
        if result.is_floating_point() and not bool(torch.isfinite(result).all()):
            return
        self.values[statement.name] = result
        self.layers = list(layers)
        self.statements.append(statement)

    def module(self, seed: int, steps: int) -> Module:
        """A module of about so many statements."""
        for _ in range(20 * steps):
            if len(self.statements) >= steps:
                break
            self.step()
        result = f"v{len(self.statements) - 1}" if self.statements else "x"
        whole = Module(
            seed,
            checks_of(self.random),
            tuple(self.arguments),
            tuple(self.layers),
            tuple(self.statements),
            result,
        )
        return whole.cut(result)


def generate(seed: int) -> Case:
    """The module of a seed."""
    return Writer(seed).module(seed, random.Random(seed).choice([1, 1, 2, 3, 5]))
