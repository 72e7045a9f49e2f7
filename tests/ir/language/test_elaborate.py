"""Elaboration: the graph of a layer, its parameters, sharing, unrolling and places."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language import TritonParser, TypeChecker
from triton_dsl.ir.language.elaborated import (
    ConstantValue,
    Elaborated,
    Operation,
    ParameterValue,
    Projection,
)

BLOCKS = """
const CLASSES: int = 10

layer Block(channels: int, stride: int = 1) {
    let conv = TernaryConv2d(channels, channels, kernel=3, stride=stride, padding=1, bias=false)
    let norm = BatchNorm2d(channels)

    fn forward(x: Tensor[N, channels, H, W]) -> Tensor[N, channels, H / stride, W / stride] {
        let y = relu(norm(conv(x)))
        if stride == 1 { return x + y }
        return y
    }
}

layer Net {
    let stem = TernaryConv2d(3, 64, kernel=3, padding=1)
    let blocks = [Block(64), Block(64), Block(64, stride=2)]
    let head = TernaryLinear(64, CLASSES)

    fn forward(x: Tensor[N, 3, 32, 32]) -> Tensor[N, CLASSES] {
        let h = stem(x)
        for block in blocks { h = block(h) }
        return head(flatten(global_avg_pool2d(h)))
    }
}
"""


def elaborate(
    source: str,
    layer: str | None = None,
    generics: Mapping[str, bool | int | float | str] | None = None,
) -> Elaborated:
    """The graph of a layer of a program."""
    return TypeChecker().check(TritonParser().parse(source)).elaborate(layer, generics)


def functions(graph: Elaborated) -> list[str]:
    """The functions of a graph's operations."""
    return [operation.function for operation in graph.operations()]


def test_linear_classifier() -> None:
    graph = elaborate("""
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
""")
    assert graph.name == "LinearClassifier"
    assert graph.dimensions == ("N",)
    assert [(i.name, str(i.type)) for i in graph.inputs] == [("x", "Tensor[N, 784]")]
    assert [(p.path, str(p.type)) for p in graph.parameters] == [
        ("weights", "TernaryTensor[784, 10]"),
        ("bias", "Tensor[10]"),
    ]
    add, matmul = graph.outputs[0], next(iter(graph.operations()))
    assert isinstance(add, Operation)
    assert add.function == "add"
    assert add.operands == (matmul, graph.parameters[1])
    assert matmul.operands == (graph.inputs[0], graph.parameters[0])
    assert (matmul.span.line, matmul.span.column, matmul.span.end_column) == (7, 16, 27)


def test_composition() -> None:
    graph = elaborate(BLOCKS)
    paths = [p.path for p in graph.parameters]
    assert paths[:4] == ["stem.weight", "stem.bias", "blocks.0.conv.weight", "blocks.0.norm.weight"]
    assert "blocks.2.norm.running_var" in paths
    assert functions(graph).count("conv2d") == 4
    assert functions(graph).count("add") == 2
    assert str(graph.outputs[0].type) == "Tensor[N, 10]"


def test_any_layer_with_any_arguments() -> None:
    graph = elaborate(BLOCKS, "Block", {"channels": 8, "stride": 2})
    assert str(graph.inputs[0].type) == "Tensor[N, 8, H, W]"
    assert graph.dimensions == ("N", "H", "W")
    assert "add" not in functions(graph)
    assert "add" in functions(elaborate(BLOCKS, "Block", {"channels": 8}))


@pytest.mark.parametrize(
    ("layer", "generics", "message"),
    [
        ("Blok", {}, "did you mean 'Block'?"),
        ("Block", {}, "needs a value for 'channels'"),
        ("Block", {"channel": 8}, "did you mean 'channels'?"),
        ("Block", {"channels": 8.5}, "needs int, found a float"),
        ("Block", {"channels": 0}, "at least 1"),
    ],
)
def test_wrong_requests(layer: str, generics: dict[str, float], message: str) -> None:
    with pytest.raises(CompilationError) as caught:
        elaborate(BLOCKS, layer, generics)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "place", "message"),
    [
        ("", (1, 1), "no layer has a fn forward"),
        ("const A: int = 3\n", (1, 1), "no layer has a fn forward"),
        ("\nlayer A { fn f(x: Tensor[N]) { return x } }", (2, 7), "no layer has a fn forward"),
        (
            "layer A { fn foward(x: Tensor[N]) { return x }; fn g(x: Tensor[N]) { return x } }",
            (1, 14),
            "no layer has a fn forward",
        ),
        (
            "layer B(m: int) { fn forward(x: Tensor[m]) { return x } }\n"
            "layer A(k: int = 2, n: int) { fn forward(x: Tensor[k, n]) { return x } }\n"
            "layer C { fn f(x: Tensor[N]) { return x } }",
            (2, 21),
            "no layer can be the main one: A has no default for 'n'",
        ),
    ],
)
def test_no_layer_is_the_main_one(source: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(CompilationError) as caught:
        TypeChecker().check_source(source).elaborate()
    assert (caught.value.line, caught.value.column) == place
    assert f": error: {message} [E0405]" in str(caught.value)


def test_a_misspelt_forward_is_put_right() -> None:
    source = "layer A { fn foward(x: Tensor[N]) { return x } }"
    with pytest.raises(CompilationError, match=r"did you mean 'forward'\?"):
        TypeChecker().check_source(source).elaborate()


def test_a_layer_used_twice_shares_its_parameters() -> None:
    graph = elaborate("""
layer Twice {
    let inner = Linear(4, 4, bias=false)
    let same = inner
    fn forward(x: Tensor[N, 4]) { return same(inner(inner(x))) }
}""")
    assert [p.path for p in graph.parameters] == ["inner.weight"]
    weights = {id(operation.operands[1]) for operation in graph.operations()}
    assert weights == {id(graph.parameters[0])}


def test_members_functions_and_lists() -> None:
    graph = elaborate("""
fn scaled(x: Tensor[N, M], factor: int) -> Tensor[N, M] { return x * factor }
layer Inner {
    let deep = [[Linear(4, 4, bias=false)], [Linear(4, 4, bias=false)]]
    fn first(x: Tensor[N, 4]) -> Tensor[N, 4] { return deep[0][0](x) }
    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return first(x) @ deep[1][0].weight }
}
layer Outer {
    let inner = Inner()
    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return scaled(inner.first(inner(x)), 2 + 1) }
}""")
    assert [p.path for p in graph.parameters] == ["inner.deep.0.0.weight", "inner.deep.1.0.weight"]
    assert functions(graph) == ["linear", "matmul", "linear", "mul"]
    product = graph.outputs[0]
    assert isinstance(product, Operation)
    factor = product.operands[1]
    assert isinstance(factor, ConstantValue)
    assert factor.value == 3.0
    assert str(factor.type) == "float32"


def test_loops_and_conditions_are_expanded() -> None:
    graph = elaborate("""
layer L(depth: int = 3, deep: bool = true) {
    fn forward(x: Tensor[N]) {
        for i in range(depth) {
            if i % 2 == 0 && deep { x = x + i } else { x = x * (i / 1) }
        }
        return x
    }
}""")
    assert functions(graph) == ["add", "mul", "add"]


def test_several_results() -> None:
    graph = elaborate(
        "layer L { fn forward(x: Tensor[N, 6]) { let p = split(x, [2, 4], axis=1)\n"
        "return [p[1], p[0]] } }"
    )
    first, second = graph.outputs
    assert isinstance(first, Projection)
    assert isinstance(second, Projection)
    assert (first.index, second.index) == (1, 0)
    assert first.source is second.source
    assert [str(t) for t in first.source.result_types] == ["Tensor[N, 2]", "Tensor[N, 4]"]


def test_constants_in_lists() -> None:
    graph = elaborate("""
let TABLE: TernaryTensor[2, 2] = [[1, -1], [trit(0), 1]]
layer L { fn forward(x: Tensor[N, 2]) { return x @ TABLE } }""")
    constant = next(iter(graph.operations())).operands[1]
    assert isinstance(constant, ConstantValue)
    assert constant.value == ((1, -1), (0, 1))


def test_a_generic_and_a_parameter_of_one_name() -> None:
    source = """
layer L(bias: bool = true) {
    if bias { param bias: Tensor[4] }
    fn forward(x: Tensor[N, 4]) { if bias { return x + bias }; return x }
}"""
    assert [p.path for p in elaborate(source).parameters] == ["bias"]
    assert elaborate(source, None, {"bias": False}).parameters == ()


def test_unused_parameters_are_kept() -> None:
    graph = elaborate("layer L { param w: Tensor[3]\n fn forward(x: Tensor[N]) { return x } }")
    assert [type(p) for p in graph.parameters] == [ParameterValue]


def test_symbolic_sizes_meet_after_declared_division() -> None:
    graph = elaborate("""
layer Down {
    let conv = Conv2d(4, 4, kernel=3, stride=2, padding=1)
    fn forward(x: Tensor[N, 4, H, W]) -> Tensor[N, 4, H / 2, W / 2] { return conv(x) }
}
layer Net {
    let down = Down()
    fn forward(x: Tensor[N, 4, H, W]) -> Tensor[N, 4, H / 2, W / 2] {
        return down(x) + max_pool2d(x, 2)
    }
}""")
    assert str(graph.outputs[0].type) == "Tensor[N, 4, H/2, W/2]"


def test_dimensions_known_from_arithmetic() -> None:
    graph = elaborate("""
fn halves(x: Tensor[2 * M]) -> Tensor[M] { return x[:M] + x[M:2 * M] }
layer L { fn forward(x: Tensor[10]) { return halves(x) } }""")
    assert str(graph.outputs[0].type) == "Tensor[5]"
