"""The checker: rules of the language, recovery, suggestions, imports and limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language import TritonParser, TypeChecker
from triton_dsl.ir.language.checker import TypedProgram
from triton_dsl.ir.language.session import Limits


def check(source: str) -> TypedProgram:
    """The checked program of a text."""
    return TypeChecker().check(TritonParser().parse(source))


def failure(source: str, limits: Limits | None = None) -> CompilationError:
    """The error of a text."""
    with pytest.raises(CompilationError) as caught:
        program, diagnostics = TritonParser().parse_with_recovery(source, None)
        TypeChecker(limits=limits).check(program, diagnostics)
    return caught.value


def in_layer(body: str, argument: str = "x: Tensor[N, 4]", result: str = "") -> str:
    """A layer around the body of forward; the body begins in line 4."""
    header = f"layer L {{\nparam w: TernaryTensor[4, 3]\nfn forward({argument}) {result} {{"
    return f"{header}\n{body}\n}}\n}}"


def test_the_diagnostic_of_the_specification() -> None:
    error = failure("""layer LinearClassifier {
    param weights: TernaryTensor[748, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {

        return x @ weights + bias
    }
}
""")
    assert str(error).splitlines() == [
        "<string>:7:16: error: '@' needs equal inner dimensions: "
        "Tensor[N, 784] @ TernaryTensor[748, 10] [E0501]",
        "    7 |         return x @ weights + bias",
        "      |                ^^^^^^^^^^^",
        "help: the right side needs 784 where it has 748",
        "note: 'weights' is declared here: <string>:2:5",
        "    2 |     param weights: TernaryTensor[748, 10]",
        "      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
    assert (error.line, error.column) == (7, 16)


def test_a_misspelt_name() -> None:
    error = failure(in_layer("return x @ ww"))
    assert error.suggestion == "did you mean 'w'?"
    assert (error.line, error.column) == (4, 12)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("let t: trit = 2", "a trit is -1, 0 or 1, found 2"),
        ("let t: TernaryTensor[2] = [1, 3]", "a trit is -1, 0 or 1, found 3"),
        (in_layer("let t = trit(2)\nreturn x"), "a trit is -1, 0 or 1, found 2"),
        (in_layer("let z: TernaryTensor[N, 4] = x * 2.0\nreturn z"), "only through ternarize(…)"),
        (
            in_layer("let z = ternarize(x)\nlet y: TernaryTensor[N, 4] = z\ny = x\nreturn y"),
            "only through ternarize(…)",
        ),
        (in_layer("return x", result="-> TernaryTensor[N, 4]"), "only through ternarize(…)"),
        (in_layer("return x @ x"), "'@' needs equal inner dimensions"),
        (in_layer("return s + 1.0", "s: SpikeTensor[T, N]"), "only through decode(…)"),
        (in_layer("return s", "s: SpikeTensor[T, N]", "-> Tensor[T, N]"), "only through decode(…)"),
        (in_layer("if x > 0.0 { return x }\nreturn w"), "where(condition, a, b)"),
        (in_layer("for i in x { return x }\nreturn x"), "'for' runs over a range(…) or a list"),
        (in_layer("return x", result="-> Tensor[N, 5]"), "(axis 1 is 4, not 5)"),
        (in_layer("return x", result="-> Tensor[N, M]"), "unknown name 'M'"),
        (in_layer("let y = x"), "can end without 'return'"),
        (in_layer("relu(x)\nreturn x"), "this expression has no effect"),
        (in_layer("y = x\nreturn x"), "'y' is not declared"),
        (in_layer("let y = x\nlet y = x\nreturn y"), "'y' is declared twice"),
        (in_layer("let c = Linear(4, 4)\nreturn x"), "made in a 'let' of a layer"),
        (in_layer("return relu"), "cannot return the built-in function relu"),
        (in_layer("return x * true"), "cannot mix a bool"),
        (in_layer("let k: int = 2.5\nreturn x"), "'k' needs int, found a float"),
        (in_layer("let k: int8 = 300\nreturn x"), "300 does not fit int8"),
        (in_layer("return x", "x: Tensro[N]"), "did you mean 'Tensor'?"),
        (in_layer("return x", "x: Tensor<flot32>[N]"), "did you mean 'float32'?"),
        (in_layer("return x", "x: Tensor[0]"), "at least 1, found 0"),
        (in_layer("return x", "x: Tensor[7 / 2]"), "7 is not divisible by 2"),
        (in_layer("return x", "x: Tensor"), "needs dimensions"),
        (in_layer("return x", "x: Tensor[N], x: Tensor[N]"), "'x' is declared twice"),
        ("layer L { param w: int }", "compile-time type int"),
        ("layer L { param w: Tensor[N] }", "unknown name 'N'"),
        ("layer L { param w: Tensor[?] }", "must be known"),
        ("layer L { param w: SpikeTensor[3] }", "cannot be a SpikeTensor"),
        ("layer L(n: Tensor[3]) { }", "a generic argument is one of"),
        ("layer L(n: int, n: int) { }", "'n' is declared twice"),
        ("layer L { let a = Linear }", "without its arguments"),
        ("layer L { let a = Linear(4) }", "needs 'out_features'"),
        ("layer L { let a = Linear(4, 4, bais=true) }", "did you mean 'bias'?"),
        ("layer L { let a = Linear(4, 4, bias=1) }", "needs bool, found an int"),
        ("layer A { let b = B() }\nlayer B { let a = A() }", "A -> B -> A"),
        ("const A: int = B\nconst B: int = A", "is defined by itself"),
        ("const A: int = 9223372036854775807 + 1", "64 bits"),
        ("const A: float = 1.0 / 0.0", "division by zero"),
        ("const A: int = 10 / 4", "'/' of ints is exact"),
        ("const A = relu", "a constant cannot be"),
        ("const A: int = 1\nconst A: int = 2", "'A' is declared twice"),
        ("fn f(x: Tensor[N]) { return g(x) }\nfn g(x: Tensor[N]) { return f(x) }", "calls itself"),
    ],
)
def test_rules(source: str, message: str) -> None:
    assert message in str(failure(source))


@pytest.mark.parametrize(
    "source",
    [
        "",
        "layer Empty { }",
        in_layer("let y = x; y = y @ w; return y"),
        in_layer("return x", "x: Tensor<int8, [N, ?]>", "-> Tensor<int8>[N, ?]"),
        "layer L(a: int, b: int) -> Tensor[N, b] { param w: Tensor[a, b]\n"
        "fn forward(x: Tensor[N, a]) { return x @ w } }",
        "layer L(n: int) { fn forward(x: Tensor[N]) { for i in range(n) { x = x + i }\n"
        "return x } }",
        "layer L(n: int) { let c = Conv2d(4, 4, n, padding=(n - 1) / 2)\n"
        "fn forward(x: Tensor[N, 4, H, W]) { return x + c(x) } }",
        "layer L(s: int) { let c = Conv2d(4, 4, 3, stride=s, padding=1)\n"
        "fn forward(x: Tensor[N, 4, H, W]) -> Tensor[N, 4, H / s, W / s] "
        "{ let y = c(x); if s == 1 { return x + y }; return y } }",
        "layer L(mode: string, rate: float) { fn forward(x: Tensor[N]) "
        '{ if mode == "double" && rate > 0.5 { return x * rate } else { return x } } }',
        "layer Linear(n: int) { fn forward(x: Tensor[n]) { return x } }",
    ],
)
def test_valid_programs(source: str) -> None:
    check(source)


def test_generic_layers_are_checked_without_arguments() -> None:
    error = failure(
        "layer L(n: int, m: int) { param w: Tensor[n, m]\n"
        "fn forward(x: Tensor[N, m]) { return x @ w } }"
    )
    assert "Tensor[N, m] @ Tensor[n, m]" in str(error)


def test_both_branches_of_an_open_condition_are_checked() -> None:
    error = failure(
        "layer L(deep: bool) { fn forward(x: Tensor[N, 4]) {\n"
        "if deep { return x @ x }\nreturn relu(x, 1) } }"
    )
    assert [d.span.line for d in error.diagnostics] == [2, 3]  # pyright: ignore


def test_errors_in_an_instance_name_its_call() -> None:
    error = failure("""
layer Half(n: int) { fn forward(x: Tensor[N, n]) { return reshape(x, [N, 2, n / 2]) } }
layer Net {
    let half = Half(7)
    fn forward(x: Tensor[N, 7]) { return half(x) }
}""")
    assert "7 is not divisible by 2" in str(error)
    assert "in Half, called here: <string>:5:42" in str(error)


def test_errors_in_standard_layers_point_at_the_user() -> None:
    error = failure("""
layer Net {
    let attention = MultiHeadAttention(10, 3)
    fn forward(x: Tensor[N, T, 10]) { return attention(x) }
}""")
    assert (error.line, error.column) == (3, 21)
    assert "in MultiHeadAttention: 10 is not divisible by 3" in str(error)


def test_every_error_of_a_file_in_one_run() -> None:
    body = "\n".join(f"let y{i} = unknown{i}(x)\nlet z{i} = y{i} + 1" for i in range(30))
    error = failure(in_layer(body + "\nreturn x"))
    assert len([d for d in error.diagnostics if d.severity == "error"]) == 20  # pyright: ignore


def test_syntax_and_type_errors_together() -> None:
    error = failure("layer A { param w: = 3 }\n" + in_layer("let y = (x\nreturn x @ x"))
    assert error.diagnostics
    assert "inner dimensions" in str(error) or "expected" in str(error)


def test_warnings() -> None:
    typed = check("""
layer L {
    param spare: Tensor[3]
    fn forward(x: Tensor[N]) {
        let _ignored = x
        let unused = x
        for i in range(2) { let x = x + i }
        return x
        let late = x
    }
}""")
    texts = [w.message for w in typed.warnings]
    assert "'spare' is never used" in texts
    assert "'unused' is never used" in texts
    assert "this statement is never reached" in texts
    assert not any("_ignored" in text for text in texts)


def test_layers_of_the_program() -> None:
    typed = check("layer A { }\nlayer B { fn forward(x: Tensor[N]) { return x } }\nlayer C { }")
    assert [layer.name for layer in typed.layers] == ["A", "B", "C"]
    entry = typed.entry()
    assert entry is not None
    assert entry.name == "B"


class TestImports:
    """Imports of other files."""

    def load(self, main: Path, search_paths: tuple[Path, ...] = ()) -> TypedProgram:
        """The checked program of a file."""
        program = TritonParser().parse(main.read_text(), main)
        return TypeChecker(search_paths).check(program)

    def fails(self, main: Path) -> str:
        """The error of a file."""
        with pytest.raises(CompilationError) as caught:
            self.load(main)
        return str(caught.value)

    def test_names_of_another_file(self, tmp_path: Path) -> None:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "sizes.tri").write_text("const WIDTH: int = 4\n")
        (tmp_path / "lib" / "blocks.tri").write_text(
            'import "sizes.tri"\nlayer Block { let l = Linear(WIDTH, WIDTH)\n'
            "fn forward(x: Tensor[N, WIDTH]) { return l(x) } }\n"
        )
        main = tmp_path / "main.tri"
        main.write_text(
            'import "lib/blocks.tri"\nlayer Net { let block = Block()\n'
            "fn forward(x: Tensor[N, 4]) { return block(x) } }\n"
        )
        graph = self.load(main).elaborate()
        assert [p.path for p in graph.parameters] == ["block.l.weight", "block.l.bias"]

    def test_search_paths(self, tmp_path: Path) -> None:
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared" / "sizes.tri").write_text("const WIDTH: int = 4\n")
        (tmp_path / "own").mkdir()
        main = tmp_path / "own" / "main.tri"
        main.write_text('import "sizes.tri"\nconst DOUBLE: int = WIDTH * 2\n')
        assert self.load(main, (tmp_path / "shared",)).layers == []
        assert "no such file" in self.fails(main)

    def test_errors_of_an_imported_file_stand_there(self, tmp_path: Path) -> None:
        (tmp_path / "bad.tri").write_text("const A: int = 1.5\nlayer {")
        main = tmp_path / "main.tri"
        main.write_text('import "bad.tri"\n')
        text = self.fails(main)
        assert f"{tmp_path / 'bad.tri'}:1:16: error: 'A' needs int" in text
        assert "    1 | const A: int = 1.5" in text

    def test_cycle(self, tmp_path: Path) -> None:
        (tmp_path / "a.tri").write_text('import "b.tri"\n')
        (tmp_path / "b.tri").write_text('import "a.tri"\n')
        assert "a.tri -> b.tri -> a.tri" in self.fails(tmp_path / "a.tri")

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("../outside.tri", "outside the folder of the main file"),
            ("/etc/passwd", "relative path"),
            ("blcks.tri", "did you mean 'blocks.tri'?"),
            ("", "needs the path"),
            (".", "no such file"),
            ("latin.tri", "not UTF-8"),
            ("a" * 5000, "cannot import"),
        ],
    )
    def test_refused(self, tmp_path: Path, path: str, message: str) -> None:
        (tmp_path / "outside.tri").write_text("")
        inner = tmp_path / "inner"
        inner.mkdir()
        (inner / "blocks.tri").write_text("")
        (inner / "latin.tri").write_bytes(b"# caf\xe9\n")
        main = inner / "main.tri"
        main.write_text(f'import "{path}"\n')
        text = self.fails(main)
        assert message in text
        assert ":1:1" in text

    def test_a_link_out_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "outside.tri").write_text("")
        inner = tmp_path / "inner"
        inner.mkdir()
        (inner / "link.tri").symlink_to(tmp_path / "outside.tri")
        (inner / "main.tri").write_text('import "link.tri"\n')
        assert "outside the folder" in self.fails(inner / "main.tri")

    def test_text_without_a_file(self) -> None:
        assert "not read from a file" in str(failure('import "a.tri"'))


SMALL = Limits(iterations=100, steps=5_000, operations=200)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            in_layer("for i in range(1000) { x = x + i }\nreturn x"),
            "loops take more than 100 passes",
        ),
        (
            in_layer("for i in range(90) { x = ((x + i) * 2) / 3 }\nreturn x"),
            "more than 200 operations",
        ),
        (in_layer("for i in range(50) { x = concat([x, x], axis=1) }\nreturn x"), "2^48 elements"),
        ("layer L { param w: Tensor[100000000, 100000000] }", "2^48 elements"),
        (
            "fn f0(x: Tensor[N]) { return x }\n"
            + "\n".join(
                f"fn f{i}(x: Tensor[N]) {{ let a = f{i - 1}(x); return f{i - 1}(a) }}"
                for i in range(1, 30)
            ),
            "more than 5,000 steps",
        ),
        (
            "layer L0 { param w: Tensor[3] }\n"
            + "\n".join(f"layer L{i} {{ let s = [L{i - 1}(), L{i - 1}()] }}" for i in range(1, 30)),
            "more than 5,000 steps",
        ),
        (
            "layer L0 { param w: Tensor[3] }\n"
            + "\n".join(f"layer L{i} {{ let s = L{i - 1}() }}" for i in range(1, 200)),
            "nested too deeply",
        ),
        (in_layer("return " + "-" * 150 + "x"), "nested too deeply"),
    ],
)
def test_limits(source: str, message: str) -> None:
    limits = SMALL if "deeply" not in message else Limits()
    assert message in str(failure(source, limits))


def test_stack_overflow_is_a_diagnostic() -> None:
    limits = Limits(depth=100_000)
    source = "layer L0 { param w: Tensor[3] }\n" + "\n".join(
        f"layer L{i} {{ let s = L{i - 1}() }}" for i in range(1, 400)
    )
    assert "nested too deeply" in str(failure(source, limits))


@pytest.mark.parametrize("second", ["stride: int = 1", "stride: float", 'stride: string = "a"'])
def test_a_generic_argument_given_twice_is_an_error(second: str) -> None:
    source = (
        f"layer Block(stride: int, {second}) {{\n"
        "    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return x }\n"
        "}\n"
        "layer Net {\n"
        "    let b = Block(64)\n"
        "    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return b(x) }\n"
        "}\n"
    )
    with pytest.raises(CompilationError, match="'stride'") as caught:
        TypeChecker().check(TritonParser().parse(source))
    assert caught.value.line == 1
