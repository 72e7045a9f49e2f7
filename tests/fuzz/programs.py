"""Programs in `.tri`, each statement beside a PyTorch function that means the same.

A statement is made of a text and a function of tensors, from the names that it uses. PyTorch
computes floats in float64 and everything else in its own type. What statements there are say
`program_rules`, `networks` and `spiking`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.from_tri import import_tri

from . import cases, oracle
from .cases import Case, Expected, checks_of

Array = NDArray[Any]
Compute = Callable[..., Tensor]

WIDEST = 2000
"""The most elements of a value: random expansions stop there."""

TORCH = {
    **{name: torch.float64 for name in ("float16", "bfloat16", "float32", "float64", "spike")},
    **{name: getattr(torch, name) for name in ("int8", "int16", "int32", "int64", "bool")},
}
"""What the oracle holds an element type in."""

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64")


@dataclass(frozen=True)
class Value:
    """A variable of a program: its name, its shape with the batch, its element type."""

    name: str
    shape: tuple[int, ...]
    element: str


@dataclass(frozen=True)
class Parameter:
    """A parameter of the layer and its value; trits are int8."""

    name: str
    element: str
    array: Array

    def declaration(self) -> str:
        """Its line in the program."""
        sizes = ", ".join(map(str, self.array.shape))
        type = "TernaryTensor" if self.element == "trit" else f"Tensor<{self.element}>"
        return f"param {self.name}: {type}[{sizes}]"


@dataclass(frozen=True)
class Statement:
    """`let result = text`, where `{0}`, `{1}`, … stand for the names that are used."""

    result: Value
    text: str
    uses: tuple[str, ...]
    compute: Compute

    def line(self) -> str:
        """It as the program has it."""
        return f"let {self.result.name} = {self.text.format(*self.uses)}"


def numpy_type(element: str) -> np.dtype[Any]:
    """The dtype of an element type of the language."""
    if element == "spike":
        return np.dtype(np.bool_)
    return np.dtype(ml_dtypes.bfloat16) if element == "bfloat16" else np.dtype(element)


@dataclass(frozen=True)
class Program(Case):
    """A layer of statements.

    Attributes:
        arguments: of `forward`; their first axis is the batch.
        data: of the arguments.
        results: names of what is returned.
    """

    KIND: ClassVar[str] = "tri"
    arguments: tuple[Value, ...]
    data: tuple[Array, ...]
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]

    def text(self) -> str:
        """The source of the program."""
        declared = "".join(f"    {p.declaration()}\n" for p in self.parameters)
        given = ", ".join(f"{v.name}: {_type(v)}" for v in self.arguments)
        body = "".join(f"        {s.line()}\n" for s in self.statements)
        listed = ", ".join(self.results)
        result = listed if len(self.results) == 1 else f"[{listed}]"
        return (
            f"layer Random {{\n{declared}    fn forward({given}) {{\n{body}"
            f"        return {result}\n    }}\n}}\n"
        )

    def inputs(self) -> list[Array]:
        return list(self.data)

    def names(self) -> list[str]:
        return [value.name for value in self.arguments]

    def module(self) -> ModuleOp:
        return import_tri(self.text(), weights={p.name: p.array for p in self.parameters})

    def expected(self) -> Expected:
        elements = {v.name: v.element for v in self.arguments}
        elements |= {s.result.name: s.result.element for s in self.statements}
        dtypes = [elements[name] for name in self.results]
        return oracle.bounded(
            lambda: [self.values()[name] for name in self.results],
            dtypes,
            list(elements.values()),
            self.seed,
        )

    def values(self) -> dict[str, Tensor]:
        """Every variable, as PyTorch computes it."""
        env = {p.name: _tensor(p.array, p.element) for p in self.parameters}
        for value, array in zip(self.arguments, self.data, strict=True):
            env[value.name] = _tensor(array, value.element)
        for statement in self.statements:
            env[statement.result.name] = statement.compute(*(env[n] for n in statement.uses))
        return env

    def size(self) -> int:
        return len(self.statements)

    def building(self) -> tuple[list[str], list[str]]:
        weights = [f"{p.name!r}: {cases.array_source(p.array)}" for p in self.parameters]
        lines = ['source = """', *self.text().splitlines(), '"""']
        return (
            ["from triton_dsl.lowering.from_tri import import_tri"],
            [*lines, f"module = import_tri(source, weights={{{', '.join(weights)}}})"],
        )

    def reductions(self) -> Iterator[Self]:
        if len(self.results) > 1:
            for name in self.results:
                yield self.cut((name,))
        for statement in self.statements[:-1]:
            yield self.cut((statement.result.name,))
        values = [*self.arguments, *(s.result for s in self.statements)]
        for index, statement in enumerate(self.statements):
            known = {v.name for v in values[: len(self.arguments) + index]}
            for name in statement.uses:
                source = next((v for v in values if v.name == name and name in known), None)
                if source is not None and (source.shape, source.element) == (
                    statement.result.shape,
                    statement.result.element,
                ):
                    yield self.without(index, name)
        try:
            with torch.no_grad():
                computed = self.values()
        except Exception:
            computed = {}
        for index, statement in enumerate(self.statements):
            if statement.result.name in computed and statement.uses != (statement.result.name,):
                yield self.given(index, computed[statement.result.name])
        for check in self.checks:
            for pipeline in _shorter(check.pipeline):
                yield self.only(replace(check, pipeline=pipeline))
        for index, array in enumerate(self.data):
            for simpler in _simpler(array):
                data = (*self.data[:index], simpler, *self.data[index + 1 :])
                yield replace(self, data=data)
        for index, parameter in enumerate(self.parameters):
            for simpler in _simpler(parameter.array):
                changed = replace(parameter, array=simpler)
                rest = (*self.parameters[:index], changed, *self.parameters[index + 1 :])
                yield replace(self, parameters=rest)

    def cut(self, results: tuple[str, ...]) -> Self:
        """The program that returns these, without what they do not need."""
        needed = set(results)
        kept: list[Statement] = []
        for statement in reversed(self.statements):
            if statement.result.name in needed:
                kept.insert(0, statement)
                needed |= set(statement.uses)
        used = [i for i, v in enumerate(self.arguments) if v.name in needed] or [0]
        return replace(
            self,
            results=results,
            statements=tuple(kept),
            parameters=tuple(p for p in self.parameters if p.name in needed),
            arguments=tuple(self.arguments[i] for i in used),
            data=tuple(self.data[i] for i in used),
        )

    def without(self, index: int, name: str) -> Self:
        """The program with the variable `name` in the place of a statement."""
        old = self.statements[index].result.name
        rest = (*self.statements[:index], *self.statements[index + 1 :])

        def renamed(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(name if n == old else n for n in names)

        changed = tuple(replace(s, uses=renamed(s.uses)) for s in rest)
        results = tuple(dict.fromkeys(renamed(self.results)))
        return replace(self, statements=changed).cut(results)

    def given(self, index: int, computed: Tensor) -> Self:
        """The program with an argument in the place of a statement."""
        value = self.statements[index].result
        array = computed.numpy().astype(numpy_type(value.element))
        rest = (*self.statements[:index], *self.statements[index + 1 :])
        whole = replace(
            self,
            statements=rest,
            arguments=(*self.arguments, value),
            data=(*self.data, array),
        )
        return whole.cut(self.results)


def _type(value: Value) -> str:
    if value.element == "spike":
        steps, _, *sizes = value.shape
        return f"SpikeTensor[{', '.join(map(str, (steps, 'N', *sizes)))}]"
    return f"Tensor<{value.element}>[{', '.join(map(str, ('N', *value.shape[1:])))}]"


def _tensor(array: Array, element: str) -> Tensor:
    """An array as the oracle holds it; trits as float64, their products cast them as needed."""
    held = torch.float64 if element == "trit" else TORCH[element]
    wide = array.astype(np.float64) if held is torch.float64 else array
    return torch.tensor(wide).to(held)


def _shorter(pipeline: str) -> Iterator[str]:
    passes = pipeline.split(",")
    if len(passes) > 1:
        for index in range(len(passes)):
            yield ",".join((*passes[:index], *passes[index + 1 :]))


def _simpler(array: Array) -> Iterator[Array]:
    """Arrays with plainer numbers; each is plainer by a count that cannot fall forever."""
    if array.size == 0 or array.dtype.kind == "b":
        return
    candidates = [np.zeros_like(array), np.ones_like(array)]
    if array.dtype.kind == "f":
        candidates.append(np.round(array))
        candidates.append((np.round(array.astype(np.float64) * 8) / 8).astype(array.dtype))
    for candidate in candidates:
        if _plainness(candidate) < _plainness(array):
            yield candidate


def _plainness(array: Array) -> int:
    return sum(len(f"{float(v):.9g}") for v in array.ravel()) + 2 * int((array != 0).sum())


RANKS = (0, 1, 1, 2, 2, 3, 3, 4)
"""Of arguments, without the batch."""

Rule = Callable[["Writer"], None]


class Writer:
    """Writes one random program."""

    def __init__(self, seed: int, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.sizes = self.random.choice([(1, 2, 3, 4, 5), (1, 1, 2), (1, 3, 8, 9), (4, 5, 7)])
        self.batch = self.random.choice([1, 2, 3])
        self.element = self.random.choice(
            ["float32"] * 6 + ["float64", "float16", "int8", "int16", "int32", "int64"]
        )
        self.parameters: list[Parameter] = []
        self.statements: list[Statement] = []
        self.arguments: list[Value] = []
        for index in range(self.random.choice([1, 1, 2, 3])):
            sizes = [self.random.choice(self.sizes) for _ in range(self.random.choice(RANKS))]
            element = self.element
            if self.random.random() < 0.1:
                element = self.random.choice([*FLOATS, *INTEGERS, "bool"])
            self.arguments.append(Value(f"x{index}", (self.batch, *sizes), element))
        self.values = list(self.arguments)

    def program(self, seed: int, steps: int) -> Program:
        """A program of about so many statements."""
        self.write(steps)
        data = tuple(self.array(v.shape, v.element) for v in self.arguments)
        results = [self.values[-1].name]
        if len(self.values) > 2 and self.random.random() < 0.25:
            results.append(self.random.choice(self.values[:-1]).name)
        return Program(
            seed,
            checks_of(self.random),
            tuple(self.arguments),
            data,
            tuple(self.parameters),
            tuple(self.statements),
            tuple(results),
        )

    def write(self, steps: int) -> None:
        """Add about so many statements."""
        for _ in range(20 * steps):
            if len(self.statements) >= steps:
                break
            self.random.choice(self.rules)(self)

    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value that fits, sooner a late one."""
        fitting = [v for v in self.values if fits(v)]
        if not fitting:
            return None
        return fitting[-1] if self.random.random() < 0.65 else self.random.choice(fitting)

    def like(self, value: Value) -> Value:
        """A value of the same type; it may be the same one."""
        found = self.pick(lambda v: (v.shape, v.element) == (value.shape, value.element))
        return found or value

    def let(
        self,
        text: str,
        uses: Sequence[Value | Parameter | None],
        compute: Compute,
        shape: Sequence[int],
        element: str,
    ) -> None:
        """A new variable, unless it would be too large."""
        if int(np.prod(shape)) > WIDEST:
            return
        value = Value(f"v{len(self.statements)}", tuple(shape), element)
        names = tuple(u.name for u in uses if u is not None)
        self.statements.append(Statement(value, text, names, compute))
        self.values.append(value)

    def parameter(self, shape: Sequence[int], element: str, positive: bool = False) -> Parameter:
        """A new parameter with values."""
        if element == "trit":
            array = self.numbers.integers(-1, 2, shape).astype(np.int8)
            kind = self.random.random()
            if kind < 0.2:
                array[...] = (0, 1, -1)[int(kind * 15)]
        else:
            array = self.array(shape, element)
            if positive:
                array = (np.abs(array.astype(np.float64)) + 0.5).astype(array.dtype)
        parameter = Parameter(f"p{len(self.parameters)}", element, array)
        self.parameters.append(parameter)
        return parameter

    def array(self, shape: Sequence[int], element: str) -> Array:
        """Random numbers; floats are often multiples of one half, so that ties occur."""
        if element == "bool":
            return self.numbers.random(shape) < 0.5
        if element in INTEGERS:
            numbers = np.asarray(self.numbers.integers(-9, 10, shape))
            if self.numbers.random() < 0.15:
                info = np.iinfo(element)
                ends = self.numbers.choice([info.min, info.max, info.min + 1], shape)
                numbers = np.where(self.numbers.random(shape) < 0.2, ends, numbers)
            return numbers.astype(element)
        numbers = self.numbers.standard_normal(shape)
        if self.numbers.random() < 0.4:
            numbers = np.round(numbers * 2) / 2
        return np.asarray(numbers).astype(numpy_type(element))
