"""Whatever the program, the checker gives a result or a `CompilationError`."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language import TritonParser, TypeChecker
from triton_dsl.ir.language.builtins import BUILTINS
from triton_dsl.ir.language.session import Limits

LIMITS = Limits(iterations=200, steps=20_000, operations=2_000)

VALID = [
    """
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
""",
    """
const CLASSES: int = 10
let unit: trit = 1
const TABLE: Tensor[2, 2] = [[1.0, 2.0], [3.0, 4.0]]
fn twice(x: Tensor[N, M], k: int) -> Tensor[N, M] { return x * k + TABLE[0, 1:2] }
layer Block(channels: int, stride: int = 1) {
    let conv = TernaryConv2d(channels, channels, kernel=3, stride=stride, padding=1, bias=false)
    let norm = BatchNorm2d(channels)
    if stride == 2 { param gain: Tensor[channels, 1, 1] }
    fn forward(x: Tensor[N, channels, H, W]) -> Tensor[N, channels, H / stride, W / stride] {
        let y = relu(norm(conv(x)))
        if stride == 1 && channels > 2 { return x + y }
        else { for i in range(0, 4, 2) { y = y * (i + 1) / 2.0 } }
        return y
    }
}
layer Net {
    let stem = TernaryConv2d(3, 64, kernel=3, padding=1)
    let blocks = [Block(64), Block(64), Block(64, stride=2)]
    let head = TernaryLinear(64, CLASSES, with_scale=true)
    fn forward(x: Tensor[N, 3, 32, 32]) -> Tensor[N, CLASSES] {
        let h = stem(x)
        for block in blocks { h = block(h) }
        return twice(head(flatten(global_avg_pool2d(h))), 3)
    }
}
""",
    """
layer Spiking(hidden: int, tau: float) {
    param w1: TernaryTensor[784, hidden]
    param w2: TernaryTensor[hidden, 10]
    let block = SpikeFormerBlock(32, 4)
    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        let s = encode(x, timesteps=32, scheme="rate")
        let h = lif(s @ w1, tau=tau, threshold=1.0, reset="subtract")
        return decode(lif(h @ w2, tau=2.0, threshold=1.0), scheme="rate")
    }
}
layer Attention(dim: int = 16, heads: int = 4) {
    let attention = TransformerBlock(dim, heads)
    let table = Embedding(100, dim)
    buffer offset: Tensor<int8>[dim]
    fn forward(tokens: Tensor<int64>[N, T]) -> Tensor[N, T, dim] {
        let parts = split(attention(table(tokens)), 2, axis=2)
        let joined = concat([parts[1], parts[0]], axis=-1)
        let t = ternarize(joined, 0.5) @ transpose(ternarize(joined))
        return where(joined > 0.0, joined, 0.0) + offset
    }
}
""",
]

WORDS = [
    *[
        "layer",
        "fn",
        "let",
        "const",
        "param",
        "buffer",
        "if",
        "else",
        "for",
        "in",
        "return",
        "import",
        "range",
        "trit",
        "true",
        "false",
    ],
    *[
        "Tensor",
        "TernaryTensor",
        "SpikeTensor",
        "int",
        "float",
        "bool",
        "string",
        "int8",
        "int64",
        "float16",
    ],
    *[
        "Linear",
        "Conv2d",
        "BatchNorm1d",
        "LayerNorm",
        "LIF",
        "Embedding",
        "MultiHeadAttention",
        "Block",
        "Net",
    ],
    *[
        "x",
        "y",
        "h",
        "weights",
        "bias",
        "channels",
        "stride",
        "N",
        "H",
        "W",
        "_batch",
        "hidden",
        "block",
        "blocks",
        "stem",
    ],
    *["0", "1", "2", "3", "-1", "10", "784", "0.5", "1e30", "9223372036854775807"],
    *[
        '"rate"',
        '"subtract"',
        '"channel"',
        "?",
        ":",
        ",",
        ".",
        ";",
        "=",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "@",
        "&&",
        "||",
        "!",
        "->",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
    ],
    *BUILTINS,
]

TOKEN = re.compile(r'"[^"]*"|\w+(?:\.\d+)?|->|[=!<>]=|&&|\|\||\n|\S')


def outcome(source: str) -> None:
    """Check a program and elaborate what can be; only `CompilationError` may come out."""
    try:
        program, diagnostics = TritonParser().parse_with_recovery(source, None)
        typed = TypeChecker(limits=LIMITS).check(program, diagnostics)
        typed.elaborate()
    except CompilationError as error:
        assert str(error)
        assert error.diagnostics


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A valid program with a few tokens replaced, removed, doubled or swapped."""
    tokens = TOKEN.findall(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 4))):
        index = draw(st.integers(0, len(tokens) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                tokens[index] = draw(st.sampled_from(WORDS))
            case 1:
                del tokens[index]
            case 2:
                tokens.insert(index, draw(st.sampled_from(WORDS)))
            case 3:
                other = draw(st.integers(0, len(tokens) - 1))
                tokens[index], tokens[other] = tokens[other], tokens[index]
            case _:
                tokens[index] = draw(st.sampled_from(tokens))
    return " ".join(tokens)


NAMES = st.sampled_from(["x", "y", "w", "b", "n", "f", "sub", "subs", "N", "K", "i"])
NUMBERS = st.sampled_from(
    ["0", "1", "2", "3", "-1", "8", "0.5", "1e300", "9223372036854775807", "true", '"rate"']
)
OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "@", "==", "!=", "<", ">=", "&&", "||"])


def expressions() -> st.SearchStrategy[str]:
    """Well-formed expressions, most of them without a meaning."""

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        arguments = st.lists(
            st.one_of(
                inner, st.tuples(st.sampled_from(["axis", "scale", "shape"]), inner).map("=".join)
            ),
            max_size=3,
        ).map(", ".join)
        callee = st.one_of(
            st.sampled_from([*BUILTINS, "range", "Linear", "Block", "helper"]), NAMES
        )
        return st.one_of(
            st.tuples(inner, OPERATORS, inner).map(lambda t: f"({' '.join(t)})"),
            st.tuples(callee, arguments).map(lambda t: f"{t[0]}({t[1]})"),
            st.tuples(inner, inner, inner).map(lambda t: f"{t[0]}[{t[1]}, :{t[2]}]"),
            st.tuples(inner, inner).map(lambda t: f"{t[0]}[{t[1]}]"),
            st.tuples(st.sampled_from("-!"), inner).map(lambda t: f"{t[0]}{t[1]}"),
            st.lists(inner, max_size=3).map(lambda t: f"[{', '.join(t)}]"),
            inner.map(lambda t: f"trit({t})"),
            inner.map(lambda t: f"sub.{t}" if t.isidentifier() else t),
        )

    return st.recursive(st.one_of(NAMES, NUMBERS), grow, max_leaves=8)


EXPRESSIONS = expressions()
DIMS = st.one_of(
    st.sampled_from(["?", "N", "K", "n", "n / 2", "N * 2", "3", "0", "_b", "N - 1", "n / K", "i"]),
    EXPRESSIONS,
)
TYPES = st.one_of(
    st.tuples(
        st.sampled_from(["Tensor", "TernaryTensor", "SpikeTensor", "Tensor<int8>", "Tensor<bool>"]),
        st.lists(DIMS, max_size=4),
    ).map(lambda t: f"{t[0]}[{', '.join(t[1])}]"),
    st.sampled_from(["int", "float", "trit", "float32", "bool", "string", "Nonsense"]),
)


def statements() -> st.SearchStrategy[str]:
    """Well-formed statements."""
    simple = st.one_of(
        st.tuples(NAMES, EXPRESSIONS).map(lambda t: f"let {t[0]} = {t[1]}"),
        st.tuples(NAMES, TYPES, EXPRESSIONS).map(lambda t: f"let {t[0]}: {t[1]} = {t[2]}"),
        st.tuples(NAMES, EXPRESSIONS).map(lambda t: f"{t[0]} = {t[1]}"),
        EXPRESSIONS.map(lambda t: f"return {t}"),
        EXPRESSIONS,
    )

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        block = st.lists(inner, max_size=3).map("; ".join)
        return st.one_of(
            st.tuples(EXPRESSIONS, block, block).map(
                lambda t: f"if {t[0]} {{ {t[1]} }} else {{ {t[2]} }}"
            ),
            st.tuples(NAMES, EXPRESSIONS, block).map(
                lambda t: f"for {t[0]} in {t[1]} {{ {t[2]} }}"
            ),
        )

    return st.recursive(simple, grow, max_leaves=6)


STATEMENTS = statements()


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A well-formed program of two layers, a function and a constant."""
    body = st.lists(STATEMENTS, max_size=4).map("\n".join)
    generic = draw(st.sampled_from(["", "n: int", "n: int = 4", "n: float = 2.0, b: bool"]))
    result = draw(st.one_of(st.just(""), TYPES.map(lambda t: f"-> {t}")))
    return f"""
const K: {draw(TYPES)} = {draw(EXPRESSIONS)}
fn helper(x: {draw(TYPES)}, n: {draw(TYPES)}) {result} {{
{draw(body)}
}}
layer Block({generic}) {{
    param w: {draw(TYPES)}
    fn f(x: {draw(TYPES)}) {{ return {draw(EXPRESSIONS)} }}
    fn forward(x: {draw(TYPES)}) -> {draw(TYPES)} {{
{draw(body)}
    }}
}}
layer Net(n: int = 3) {{
    let sub = {draw(EXPRESSIONS)}
    let subs = [Block(2), Block()]
    if n == {draw(NUMBERS)} {{ param b: {draw(TYPES)} }}
    fn forward(x: {draw(TYPES)}, y: {draw(TYPES)}) {{
{draw(body)}
    return {draw(EXPRESSIONS)}
    }}
}}
"""


QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
THOROUGH = settings(QUICK, max_examples=5_000)


@QUICK
@given(mutations())
def test_mutated_programs(source: str) -> None:
    outcome(source)


@QUICK
@given(programs())
def test_generated_programs(source: str) -> None:
    outcome(source)


@pytest.mark.slow
@THOROUGH
@given(mutations())
def test_many_mutated_programs(source: str) -> None:
    outcome(source)


@pytest.mark.slow
@THOROUGH
@given(programs())
def test_many_generated_programs(source: str) -> None:
    outcome(source)


@pytest.mark.parametrize("source", VALID)
def test_seeds_are_valid(source: str) -> None:
    TypeChecker().check(TritonParser().parse(source))
