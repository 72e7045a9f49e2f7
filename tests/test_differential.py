"""Random programs: the interpreter and every engine agree, also after optimisation.

`Writer` writes a `.tri` program of random operations. Functions that jump (rounding, comparisons)
only meet values that every engine computes exactly, so that a difference is always a defect.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import ternary
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import parameters
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.weights import attach_weights
from triton_dsl.tools.verify import verify_module

PIPELINES = (
    "canonicalize,cse,dce",
    "fold-constants,fuse-linear,fold-constants",
    "canonicalize,fold-constants,fuse-linear,skip-zeros,canonicalize,cse,dce",
)
ENGINES = ("pytorch", "onnx", "native")
BATCH = 3
WIDEST = 4096
"""The most elements of a sample: random expansions stop there."""


@dataclass(frozen=True)
class Value:
    """A variable of the program.

    Attributes:
        name: in the program.
        shape: without the leading batch.
        element: of the language.
        exact: every engine computes it bit for bit.
    """

    name: str
    shape: tuple[int, ...]
    element: str = "float32"
    exact: bool = True

    @property
    def rank(self) -> int:
        """With the batch."""
        return len(self.shape) + 1


Rule = Callable[["Writer"], None]


class Writer:
    """Writes one random program."""

    def __init__(self, seed: int, element: str, rules: Sequence[Rule]) -> None:
        self.random = random.Random(seed)
        self.element = element
        self.rules = rules
        self.declarations: list[str] = []
        self.lines: list[str] = []
        shape = self.random.choice(
            [(6,), (2, 6, 5), (4, 5, 5), (4, 6)][: 3 if rules is NETWORK_RULES else 4]
        )
        self.inputs = [Value("x", shape, element), Value("y", shape, element)]
        self.values = list(self.inputs)

    def program(self, steps: int) -> str:
        """The text of a program with about that many operations."""
        while len(self.lines) < steps:
            self.random.choice(self.rules)(self)
        result = self.values[-1]
        arguments = ", ".join(f"{v.name}: {self.type(v)}" for v in self.inputs)
        body = "\n".join(f"        {line}" for line in self.lines)
        declared = "".join(f"    {line}\n" for line in self.declarations)
        return (
            f"layer Random {{\n{declared}"
            f"    fn forward({arguments}) -> {self.type(result)} {{\n{body}\n"
            f"        return {result.name}\n    }}\n}}\n"
        )

    def type(self, value: Value) -> str:
        """The type of a value in the language."""
        return f"Tensor<{value.element}>[{', '.join(map(str, ('N', *value.shape)))}]"

    def pick(self, *ranks: int, exact: bool = False) -> Value | None:
        """A value of such a rank (any without one), sooner a late one."""
        fitting = [
            v for v in self.values if (not ranks or v.rank in ranks) and (v.exact or not exact)
        ]
        if not fitting:
            return None
        return fitting[-1] if self.random.random() < 0.7 else self.random.choice(fitting)

    def let(
        self, expression: str, shape: tuple[int, ...], element: str = "", exact: bool = False
    ) -> None:
        """A new variable."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"let {name} = {expression}")
        if int(np.prod(shape)) <= WIDEST:
            self.values.append(Value(name, shape, element or self.element, exact))

    def parameter(self, shape: tuple[int, ...], kind: str = "") -> str:
        """A new parameter; its name says what its values must be."""
        prefix = {"ternary": "t", "positive": "var"}.get(kind, "w")
        name = f"{prefix}{len(self.declarations)}"
        sizes = ", ".join(map(str, shape))
        type = "TernaryTensor" if kind == "ternary" else f"Tensor<{self.element}>"
        self.declarations.append(f"param {name}: {type}[{sizes}]")
        return name

    def weight(self, shape: tuple[int, ...]) -> str:
        """A parameter, more often than not ternary."""
        return self.parameter(shape, "ternary" if self.random.random() < 0.6 else "")


def unary(w: Writer) -> None:
    v = w.pick()
    assert v is not None
    f = w.random.choice(
        [
            "abs({})",
            "tanh({})",
            "relu({})",
            "relu6({})",
            "leaky_relu({})",
            "gelu({})",
            "silu({})",
            "sigmoid({})",
            "hard_swish({})",
            "hard_tanh({})",
            "sqrt(abs({}) + 0.5)",
            "log(abs({}) + 0.5)",
            "exp(-abs({}))",
            "-{}",
            'gelu({}|approximate="tanh")',
            "clamp({}|min=-0.5|max=0.75)",
            "leaky_relu({}|0.3)",
        ]
    ).replace("|", ", ")
    w.let(f.format(v.name), v.shape, exact=v.exact and f.startswith(("abs", "relu", "-", "clamp")))


def jump(w: Writer) -> None:
    v = w.pick(exact=True)
    if v is None:
        return
    f = w.random.choice(
        ["round({0})", "floor({0})", "cast(sign({0}), dtype='{1}')",
         "cast({0} > 0.25, dtype='{1}')", "where({0} <= 0.1, {0}, -{0})",
         "cast(cast({0}, dtype='int32'), dtype='{1}')"]
    )  # fmt: skip
    w.let(f.format(v.name, v.element).replace("'", '"'), v.shape, exact=True)


def binary(w: Writer) -> None:
    a = w.pick()
    assert a is not None
    others = [v for v in w.values if v.shape == a.shape]
    b = w.random.choice(others)
    f = w.random.choice(
        ["{} + {}", "{} - {}", "{} * {}", "maximum({}, {})", "minimum({}, {})",
         "{} / (abs({}) + 1.0)"]
    )  # fmt: skip
    w.let(f.format(a.name, b.name), a.shape, exact=a.exact and b.exact and "/" not in f)


def with_parameter(w: Writer) -> None:
    v = w.pick()
    assert v is not None
    shape = tuple(1 if w.random.random() < 0.3 else n for n in v.shape)
    shape = shape[w.random.randrange(len(shape)) :]
    f = w.random.choice(["{} + {}", "{} - {}", "{} * {}", "{1} - {0}", "maximum({}, {})"])
    w.let(f.format(v.name, w.parameter(shape)), v.shape)


def with_number(w: Writer) -> None:
    v = w.pick()
    assert v is not None
    f = w.random.choice(["{} * 0.5", "{} + 0.25", "1.5 - {}", "{} / 3.0", "2.0 / (abs({}) + 1.0)"])
    w.let(f.format(v.name), v.shape)


def product(w: Writer) -> None:
    v = w.pick(2, 3)
    if v is None:
        return
    wide = w.random.choice([3, 4, 6])
    weight = w.weight((v.shape[-1], wide))
    if w.random.random() < 0.3:
        w.let(f"linear({v.name}, {weight}, {w.parameter((wide,))})", (*v.shape[:-1], wide))
    else:
        bias = f" + {w.parameter((wide,))}" if w.random.random() < 0.5 else ""
        w.let(f"{v.name} @ {weight}{bias}", (*v.shape[:-1], wide))
    if w.random.random() < 0.5:
        w.let(
            f"{w.random.choice(['relu', 'sigmoid', 'relu6'])}({w.values[-1].name})",
            w.values[-1].shape,
        )


def batched_product(w: Writer) -> None:
    v = w.pick(3)
    if v is not None:
        rows = v.shape[0]
        w.let(f"softmax({v.name} @ transpose({v.name}, 1, 2) * 0.1) @ {v.name}", (rows, v.shape[1]))


def convolution(w: Writer) -> None:
    v = w.pick(4)
    if v is None or min(v.shape[1:]) < 3:
        return
    channels, *size = v.shape
    groups = w.random.choice([1, 1, channels])
    out = groups * w.random.choice([1, 2])
    stride, padding, dilation = w.random.choice([1, 2]), w.random.choice([0, 1]), 1
    kernel = w.random.choice([1, 2, 3])
    weight = w.weight((out, channels // groups, kernel, kernel))
    bias = f", {w.parameter((out,))}" if w.random.random() < 0.5 else ""
    shape = tuple((n + 2 * padding - kernel) // stride + 1 for n in size)
    w.let(
        f"conv2d({v.name}, {weight}{bias}, stride={stride}, padding={padding}, "
        f"dilation={dilation}, groups={groups})",
        (out, *shape),
    )


def convolution_1d(w: Writer) -> None:
    v = w.pick(3)
    if v is None or v.shape[1] < 3:
        return
    out, padding = w.random.choice([2, 4]), w.random.choice([0, 1])
    weight = w.weight((out, v.shape[0], 3))
    w.let(f"conv1d({v.name}, {weight}, padding={padding})", (out, v.shape[1] + 2 * padding - 2))


def norm(w: Writer) -> None:
    v = w.pick()
    assert v is not None
    kind = w.random.choice(["batch", "layer", "rms"])
    if kind == "batch":
        n = (v.shape[0],)
        arguments = [w.parameter(n), w.parameter(n, "positive"), w.parameter(n), w.parameter(n)]
    else:
        n = (v.shape[-1],)
        arguments = [w.parameter(n) for _ in range(2 if kind == "layer" else 1)]
    w.let(f"{kind}_norm({', '.join([v.name, *arguments])})", v.shape)


def pooling(w: Writer) -> None:
    v = w.pick(4)
    if v is None or min(v.shape[1:]) < 2:
        return
    channels, *size = v.shape
    kind = w.random.choice(["max", "avg"])
    stride, padding = w.random.choice([1, 2]), w.random.choice([0, 1])
    shape = tuple((n + 2 * padding - 2) // stride + 1 for n in size)
    if kind == "max" or w.random.random() < 0.5:
        w.let(
            f"{kind}_pool2d({v.name}, 2, stride={stride}, padding={padding})",
            (channels, *shape),
            exact=v.exact and kind == "max",
        )
    else:
        w.let(f"global_avg_pool2d({v.name})", (channels, 1, 1))


def reduction(w: Writer) -> None:
    v = w.pick(3, 4)
    if v is None:
        return
    axis = w.random.randrange(1, v.rank)
    keep = w.random.random() < 0.5
    f = w.random.choice(["sum", "mean", "max", "min"])
    shape = list(v.shape)
    if keep:
        shape[axis - 1] = 1
    else:
        del shape[axis - 1]
    axis = axis if w.random.random() < 0.5 else axis - v.rank
    w.let(
        f"{f}({v.name}, axis={axis}, keepdims={str(keep).lower()})",
        tuple(shape),
        exact=v.exact and f in ("max", "min"),
    )


def movement(w: Writer) -> None:
    v = w.pick()
    assert v is not None
    shape, n = v.shape, v.shape[-1]
    choices: list[tuple[str, tuple[int, ...]]] = [
        (f"flatten({v.name})", (int(np.prod(shape)),)),
        (f"unsqueeze({v.name}, -1)", (*shape, 1)),
        (f"concat([{v.name}, {v.name}], axis=-1)", (*shape[:-1], 2 * n)),
        (f"stack([{v.name}, {v.name}], axis=1)", (2, *shape)),
    ]
    if n > 2:
        index = f"{v.name}[{', '.join([':'] * len(shape))}, 1:{n - 1}]"
        choices.append((index, (*shape[:-1], n - 2)))
        choices.append((f"split({v.name}, [1, {n - 1}], axis=-1)[1]", (*shape[:-1], n - 1)))
    if len(shape) == 2:
        choices.append((f"transpose({v.name}, 1, 2)", (n, shape[0])))
        choices.append((f"pad({v.name}, [2, 1, 1, 0])", (shape[0] + 1, n + 3)))
    if len(shape) == 1 and n % 2 == 0:
        choices.append((f"reshape({v.name}, [N, 2, {n // 2}])", (2, n // 2)))
    if len(shape) == 3:
        choices.append((f"permute({v.name}, [0, 2, 3, 1])", (*shape[1:], shape[0])))
    expression, result = w.random.choice(choices)
    if len(result) <= 3:
        w.let(expression, result, v.element, exact=v.exact)


def soft(w: Writer) -> None:
    v = w.pick(2, 3)
    if v is not None:
        f = w.random.choice(["softmax", "log_softmax"])
        w.let(f"{f}({v.name}, axis={w.random.choice([-1, v.rank - 1, 1])})", v.shape)


def integer_unary(w: Writer) -> None:
    v = w.pick()
    assert v is not None
    f = w.random.choice(
        ["abs({})", "relu({})", "-{}", "clamp({}, min=-5, max=9)", "{} * 3", "{} + 7"]
    )
    f = (
        f
        if v.element == w.element
        else 'cast(clamp({}, min=-99, max=99), dtype="' + w.element + '")'
    )
    w.let(f.format(v.name), v.shape, exact=True)


def integer_binary(w: Writer) -> None:
    a = w.pick()
    assert a is not None
    b = w.random.choice([v for v in w.values if (v.shape, v.element) == (a.shape, a.element)])
    f = w.random.choice(
        ["{} + {}", "{} - {}", "{} * {}", "maximum({}, {})", "where({0} > {1}, {0}, {1})"]
    )
    w.let(f.format(a.name, b.name), a.shape, a.element, exact=True)


def integer_product(w: Writer) -> None:
    v = w.pick(2, 3)
    if v is None or v.element == "int64":
        return
    wide = w.random.choice([3, 4])
    w.let(
        f"{v.name} @ {w.parameter((v.shape[-1], wide), 'ternary')}",
        (*v.shape[:-1], wide),
        "int32",
        exact=True,
    )


FLOAT_RULES: list[Rule] = [
    unary, unary, jump, binary, binary, with_parameter, with_parameter, with_number, product,
    product, batched_product, convolution, convolution, convolution_1d, norm, norm, pooling,
    reduction, movement, movement, soft,
]  # fmt: skip
INTEGER_RULES: list[Rule] = [
    integer_unary, integer_unary, integer_binary, integer_product, integer_product, movement,
]  # fmt: skip


def binary_sum(w: Writer) -> None:
    """A residual connection."""
    a = w.pick()
    assert a is not None
    b = w.random.choice([v for v in w.values if v.shape == a.shape])
    w.let(f"relu({a.name} + {b.name})", a.shape)


def ternary_network(w: Writer) -> None:
    """A block of a network as `quantize-activations` likes it."""
    v = w.pick(2, 4)
    assert v is not None
    f = w.random.choice(["relu({})", "relu6({})", "clamp({}, min=-1.0, max=2.0)", "{}"])
    wide = w.random.choice([3, 5, 8])
    bias = f" + {w.parameter((wide,))}" if w.random.random() < 0.6 else ""
    if v.rank == 2:
        weight = w.parameter((v.shape[0], wide), "ternary")
        w.let(f.format(f"{v.name} @ {weight}{bias}"), (wide,))
    elif w.random.random() < 0.3 or min(v.shape[1:]) < 3:
        w.let(f"flatten({v.name})", (int(np.prod(v.shape)),))
    elif w.random.random() < 0.3:
        shape = (v.shape[0], *((n - 2) // 2 + 1 for n in v.shape[1:]))
        w.let(f"max_pool2d({v.name}, 2, stride=2)", shape)
    else:
        padding = w.random.choice([0, 1])
        weight = w.parameter((wide, v.shape[0], 3, 3), "ternary")
        shape = (wide, *(n + 2 * padding - 2 for n in v.shape[1:]))
        w.let(f.format(f"conv2d({v.name}, {weight}, padding={padding})"), shape)
        if w.random.random() < 0.5:
            norm_of = w.values[-1]
            n = (wide,)
            arguments = [w.parameter(n), w.parameter(n, "positive"), w.parameter(n), w.parameter(n)]
            w.let(f"relu(batch_norm({', '.join([norm_of.name, *arguments])}))", shape)


NETWORK_RULES: list[Rule] = [ternary_network, ternary_network, ternary_network, binary_sum]


def made(
    seed: int, element: str, rules: Sequence[Rule], steps: int
) -> tuple[str, ModuleOp, list[Any]]:
    """A program, its module with weights, and inputs."""
    writer = Writer(seed, element, rules)
    text = writer.program(steps)
    module = import_tri(text)
    rng = np.random.default_rng(seed)
    weights: dict[str, Any] = {}
    for op in parameters(module):
        type = tensor_type(op.result)
        shape = type.get_shape()
        if isinstance(op, ternary.ParameterOp):
            weights[op.key.data] = rng.integers(-1, 2, shape).astype(np.int8)
            continue
        dtype = numpy_dtype(type.element_type)
        values = rng.standard_normal(shape) * (3 if dtype.kind == "i" else 1)
        positive = op.key.data.startswith("var")
        weights[op.key.data] = (np.abs(values) + 0.5 if positive else values).astype(dtype)
    attach_weights(module, weights)
    dtypes = {"float32": np.float32, "float64": np.float64}
    inputs = [
        rng.integers(-9, 9, (BATCH, *v.shape)).astype(element)
        if element.startswith("int")
        else rng.standard_normal((BATCH, *v.shape)).astype(dtypes[element])
        for v in writer.inputs
    ]
    return text, module, inputs


def check(seed: int, element: str = "float32", steps: int = 8) -> None:
    """Fails with the program where anything disagrees."""
    rules = INTEGER_RULES if element.startswith("int") else FLOAT_RULES
    text, module, inputs = made(seed, element, rules, steps)
    expected = run_module(module, inputs)
    for pipeline in ("", *PIPELINES):
        work = module.clone()
        if pipeline:
            run_stages(work, [Stage("optimise", pipeline)])
            for before, after in zip(expected, run_module(work, inputs), strict=True):
                assert before.dtype == after.dtype and before.shape == after.shape, text
                np.testing.assert_allclose(
                    after, before, rtol=1e-3, atol=1e-4, err_msg=f"{pipeline}\n{text}"
                )
        # The native target runs what is in these pipelines itself.
        compare(work, inputs, f"after '{pipeline}'\n{text}", ENGINES[: 2 if pipeline else 3])


def compare(
    module: ModuleOp, inputs: list[Any], about: str, targets: Sequence[str] = ENGINES
) -> None:
    """Fails where an engine disagrees; ONNX Runtime lacks kernels for some types."""
    for target in targets:
        try:
            rows = verify_module(module, inputs, [target], rtol=1e-3, atol=1e-4)
        except UnsupportedError as error:
            assert target == "onnx" and "ONNX Runtime has no" in str(error), about
            continue
        assert rows[0].agrees, f"{rows[0]}\n{about}"


def check_quantised(seed: int, data: Path, steps: int = 6) -> None:
    """Fails where a quantised network differs between engines: not at all where it is integer."""
    text, module, inputs = made(seed, "float32", NETWORK_RULES, steps)
    names = dict(zip("xy", inputs, strict=True))
    np.savez(data, **names)
    pipeline = f"fold-constants,fuse-linear,quantize-activations{{data={data}}}"
    for more in ("", ",requantize", ",requantize,skip-zeros,canonicalize,cse,dce"):
        work = module.clone()
        run_stages(work, [Stage("quantise", pipeline + more)])
        compare(work, inputs, f"after '{pipeline}{more}'\n{text}")


@pytest.mark.parametrize("seed", range(10))
def test_float_programs(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("element", ["int8", "int32", "float64"])
@pytest.mark.parametrize("seed", range(2))
def test_programs_of_other_types(seed: int, element: str) -> None:
    check(seed, element)


@pytest.mark.parametrize("seed", range(10))
def test_quantised_networks(seed: int, tmp_path: Path) -> None:
    check_quantised(seed, tmp_path / "samples.npz")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_longer_programs(seed: int, tmp_path: Path) -> None:
    check(seed, steps=12)
    check(seed, "int8")
    check_quantised(seed, tmp_path / "samples.npz")
