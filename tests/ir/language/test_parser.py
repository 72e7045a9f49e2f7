"""The grammar, the places of nodes, syntax errors and recovery."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triton_dsl.ir.errors import CompilationError, SourceError
from triton_dsl.ir.language import nodes
from triton_dsl.ir.language.parser import (
    MAX_DEPTH,
    MAX_SOURCE_BYTES,
    TritonParser,
    read_source,
)

LINEAR = """layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""


def parse(source: str) -> nodes.Program:
    return TritonParser().parse(source)


def value(text: str) -> nodes.Expression:
    declaration = parse(f"let v = {text}").declarations[0]
    assert isinstance(declaration, nodes.Let)
    return declaration.value


def grouped(text: str) -> str:
    """The expression with every operation in parentheses."""

    def show(node: nodes.Expression) -> str:
        match node:
            case nodes.Binary():
                return f"({show(node.left)} {node.operator} {show(node.right)})"
            case nodes.Unary():
                return f"({node.operator}{show(node.operand)})"
            case nodes.Name():
                return node.identifier
            case nodes.Call():
                return f"{show(node.callee)}()"
            case nodes.Attribute():
                return f"{show(node.base)}.{node.name}"
            case _:
                raise AssertionError(node)

    return show(value(text))


def body(text: str) -> tuple[nodes.Statement, ...]:
    declaration = parse("fn f() {\n" + text + "\n}").declarations[0]
    assert isinstance(declaration, nodes.FunctionDef)
    return declaration.body


def slice_of(source: str, span: nodes.Span) -> str:
    lines = source.split("\n")
    assert span.line == span.end_line
    return lines[span.line - 1][span.column - 1 : span.end_column - 1]


# Grammar


def test_linear_classifier():
    (layer,) = parse(LINEAR).layers
    assert [(p.name, p.param_type, p.shape) for p in layer.params] == [
        ("weights", "TernaryTensor", (784, 10)),
        ("bias", "Tensor", (10,)),
    ]
    (forward,) = layer.functions
    assert [a.name for a in forward.arguments] == ["x"]
    (result,) = forward.body
    assert isinstance(result, nodes.Return)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a || b && c == d < e + f * -g", "(a || (b && (c == (d < (e + (f * (-g)))))))"),
        ("a * b + c < d == e && f || g", "((((((a * b) + c) < d) == e) && f) || g)"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c % d @ e", "((((a / b) * c) % d) @ e)"),
        ("a < b < c", "((a < b) < c)"),
        ("a == b != c", "((a == b) != c)"),
        ("a <= b >= c", "((a <= b) >= c)"),
        ("a && b && c", "((a && b) && c)"),
        ("!a == b", "((!a) == b)"),
        ("!-!a", "(!(-(!a)))"),
        ("-a.b()", "(-a.b())"),
        ("-a @ b", "((-a) @ b)"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a - (b - c)", "(a - (b - c))"),
        ("a--b", "(a - (-b))"),
    ],
)
def test_precedence(text: str, expected: str):
    assert grouped(text) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("42", 42),
        ("0x2A", 42),
        ("0b101010", 42),
        ("0XfF", 255),
        ("1.5", 1.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("2.5E-3", 0.0025),
        ("9223372036854775808", 2**63),
    ],
)
def test_numbers(text: str, number: float):
    node = value(text)
    assert isinstance(node, nodes.IntegerLiteral | nodes.FloatLiteral)
    assert (node.value, type(node.value), node.text) == (number, type(number), text)


def test_other_literals():
    assert value("true") == nodes.BoolLiteral(True, span=value("1").span)
    assert value(r'"a\n\t\"\\\x41\u00e9é # // /*"') == nodes.StringLiteral(
        'a\n\t"\\Aéé # // /*', span=value("1").span
    )
    trit = value("trit(-1)")
    assert isinstance(trit, nodes.TritLiteral)
    assert isinstance(trit.value, nodes.Unary)
    empty, nested = value("[]"), value("[[1], [2, 3],]")
    assert isinstance(empty, nodes.ListLiteral)
    assert isinstance(nested, nodes.ListLiteral)
    assert (len(empty.elements), len(nested.elements)) == (0, 2)


def test_calls_and_indices():
    call = value("f(a, kernel=3, *)".replace(", *", ","))
    assert isinstance(call, nodes.Call)
    assert [a.name for a in call.arguments] == [None, "kernel"]
    index = value("x[i, a:b, :, ::2, 1:]")
    assert isinstance(index, nodes.Index)
    parts = [
        (s.start is not None, s.stop is not None, s.step is not None)
        for s in index.indices
        if isinstance(s, nodes.Slice)
    ]
    assert parts == [
        (True, True, False),
        (False, False, False),
        (False, False, True),
        (True, False, False),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", ("int",)),
        ("Tensor[N, ?]", ("Tensor", None, 2, False)),
        ("Tensor[]", ("Tensor", None, 0, False)),
        ("Tensor<int8>[H / 2 + 1]", ("Tensor", "int8", 1, False)),
        ("Tensor<int8, [a, b,]>", ("Tensor", "int8", 2, True)),
        ("TernaryTensor<trit, [3]>", ("TernaryTensor", "trit", 1, True)),
        ("SpikeTensor[T, N, 784]", ("SpikeTensor", None, 3, False)),
    ],
)
def test_types(text: str, expected: tuple[object, ...]):
    declaration = parse(f"let v: {text} = 1").declarations[0]
    assert isinstance(declaration, nodes.Let)
    match declaration.type:
        case nodes.TensorTypeNode() as node:
            found = (node.kind, node.element, len(node.dimensions), node.long_form)
        case nodes.ScalarTypeNode() as node:
            found = (node.name,)
        case _:
            found = ()
    assert found == expected


def test_layer_header_and_members():
    (layer,) = parse(
        """layer L(a: int, b: float = 0.5,) -> Tensor[N, a] {
            if b > 0 { param scale: Tensor[a] } else if a == 1 { buffer mode: int8 } else { }
            let inner = [L(1), L(2)]
            buffer count: Tensor<int32>[1]
        }"""
    ).layers
    assert [(g.name, g.default is None) for g in layer.generics] == [("a", True), ("b", False)]
    assert layer.result is not None
    first, second, third = layer.members
    assert isinstance(first, nodes.MemberIf)
    (nested,) = first.otherwise
    assert isinstance(nested, nodes.MemberIf)
    assert isinstance(nested.then[0], nodes.ParamDef)
    assert nested.then[0].is_buffer
    assert nested.otherwise == ()
    assert isinstance(second, nodes.Let)
    assert isinstance(third, nodes.ParamDef)
    assert [p.name for p in layer.params] == ["count"]


def test_names_that_look_like_keywords():
    assert len(body("let scale = 1; let mode = 2; let layers = in_ + format; let trit = fn_")) == 4


def test_newlines_and_semicolons():
    assert len(body("a; b;; c\n\n;\nd")) == 4
    assert len(body("f(\n a\n,\n b\n)\n[\n1\n]")) == 2
    assert len(body("{ return x }".strip("{}"))) == 1
    assert parse("fn f() { return x }") == parse("fn f()\n{\nreturn x\n}\n")
    one_line = parse("fn f() { if a { b } else if c { d } else { e }; g }")
    lines = "fn f()\n{\nif a\n{\nb\n}\n\nelse if c { d } # c\n /* d */\nelse\n{ e }\ng\n}"
    assert parse(lines) == one_line


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_newline(newline: str):
    assert parse(LINEAR.replace("\n", newline)) == parse(LINEAR)


def test_comments_mean_nothing():
    text = LINEAR.replace("\n", ' # it\'s a "comment" /*\n').replace("784", "/* a\n b */ 784 //\n")
    assert parse("\ufeff/**/" + text) == parse(LINEAR)


@pytest.mark.parametrize("source", ["", "\n\n", "# nothing", "/* nothing */", ";;", "\ufeff"])
def test_empty_programs(source: str):
    assert parse(source).declarations == ()


# Places


def test_spans():
    source = "fn f(x: T) -> U {\n    let y = (a + b) * -g(x, k=1)[0].c  # end\n    z = y\n}"
    (function,) = parse(source).declarations
    assert isinstance(function, nodes.FunctionDef)
    assert str(function.span) == "<string>:1:1"
    assert (function.span.end_line, function.span.end_column) == (4, 2)
    assert slice_of(source, function.name_span) == "f"
    assert slice_of(source, function.arguments[0].span) == "x: T"
    let, assign = function.body
    assert isinstance(let, nodes.Let)
    assert isinstance(assign, nodes.Assign)
    assert slice_of(source, let.span) == "let y = (a + b) * -g(x, k=1)[0].c"
    assert slice_of(source, assign.name_span) == "z"
    product = let.value
    assert isinstance(product, nodes.Binary)
    assert slice_of(source, product.span) == "(a + b) * -g(x, k=1)[0].c"
    assert slice_of(source, product.operator_span) == "*"
    assert slice_of(source, product.left.span) == "(a + b)"
    assert isinstance(product.right, nodes.Unary)
    assert slice_of(source, product.right.operand.span) == "g(x, k=1)[0].c"


def test_the_file_of_a_span_is_the_path_as_given(tmp_path: Path):
    program = TritonParser().parse("let a = 1", Path("sub/../m.tri"))
    assert program.declarations[0].span.file == str(Path("sub/../m.tri"))
    assert program.path == Path("sub/../m.tri")


def test_a_tab_is_one_column():
    (let,) = body("\tlet x = 1")
    assert let.span.column == 2


# Syntax errors


def errors(source: str) -> list[tuple[int, int, str, str | None]]:
    """Line, column, message and suggestion of every syntax error."""
    _, diagnostics = TritonParser().parse_with_recovery(source)
    return [(d.span.line, d.span.column, d.message, d.suggestion) for d in diagnostics if d.span]


END = "the end of the line"


@pytest.mark.parametrize(
    ("source", "column", "message", "suggestion"),
    [
        ("let x 1", 7, "expected '=' or ':', found '1'", None),
        ("let = 1", 5, "expected a name, found '='", None),
        ("let x = f(a b)", 13, "a ',' is missing before 'b'", "write a, b"),
        ("let x = f(a\nlet y = 1", 12, f"expected ')' to close the call, found {END}",
         "write ) here"),
        ("let x = [1, 2", 14, "expected ']' to close the list, found the end of the file",
         "write ] here"),
        ("let x = (1 + 2]", 15, "expected ')' to close the '(', found ']'", "did you mean ')'?"),
        ("let x = f(a))", 13, "unmatched ')': nothing is open that it could close", "leave it out"),
        ("let x: T[3 = 1", 12, "expected ']' to close the shape, found '='", None),
        ("let x = y[1:2\nlet z = 1", 14, f"expected ']' to close the index, found {END}",
         "write ] here"),
        ("fn f(x: T -> U {}", 11, "expected ')' to close the arguments of 'f', found '->'", None),
        ("layer L(a int) {}", 11, "a type stands behind ':'", "write a: int"),
        ("layer {}", 7, "expected a name for the layer, found '{'", None),
        ("fn f() return 1", 8, "expected '{' to open the body of the function, found 'return'",
         None),
        ("fn f() -> {}", 11, "expected a type after '->', found '{'", None),
        ("import blocks", 1, "'import' reads .tri files: layers and functions are there without it",
         "leave the line out"),
        ("x = 1", 1, "expected a declaration (import, const, let, fn or layer), found 'x'", None),
        ("layer L { return 1 }", 11, "'return' is out of place: it belongs in a function", None),
        ("fn f() { param w: T }", 10, "'param' is out of place: it belongs in a layer", None),
        ("fn f() { else { } }", 10, "'else' without an 'if' before it", None),
        ("layr L { }", 1, "unknown keyword 'layr'", "did you mean 'layer'?"),
        ("layer L { parm w: T }", 11, "unknown keyword 'parm'", "did you mean 'param'?"),
        ("fn f() { retrun x }", 10, "unknown keyword 'retrun'", "did you mean 'return'?"),
        ("def f() { }", 1, "unknown keyword 'def'", "did you mean 'fn'?"),
        ("fn f() { if a { } elif b { } }", 19, "there is no 'elif'", "write else if"),
        ("fn f() { if a { } esle { } }", 19, "unknown keyword 'esle'", "did you mean 'else'?"),
        ("fn f() { x += 1 }", 12, "there is no operator '+='", "write x = x + 1"),
        ("fn f() { if x = 1 { } }", 15, "'=' gives a value, '==' compares", "did you mean '=='?"),
        ("let x = a and b", 11, "there is no operator 'and'", "did you mean '&&'?"),
        ("let x = a & b", 11, "unexpected character '&'", "did you mean '&&'?"),
        ("let x = 1 − 2", 11, "unexpected character '−' (U+2212)", "did you mean '-'?"),
        ("let x = 'a'", 9, "a string stands in double quotes", "did you mean '\"a\"'?"),
        ('let x = "a', 9, "this string has no closing '\"'", "did you mean '\"a\"'?"),
        ("let x = 1 /* a", 11, "this comment has no closing '*/'", "write */ where it ends"),
        ("let x = 1_000", 9, "'1_000' is not a number", "did you mean '1000'?"),
        ("let x = 007", 9, "the integer '007' begins with 0", "did you mean '7'?"),
        ("let x = 1e999", 9, "'1e999' is too large for a float", None),
        ("let x = .5", 9, "a number begins with a digit", "did you mean '0.5'?"),
        ("let x = y.0", 11, "expected a name after '.', found '0'",
         "write '[0]' for an element of a list"),
        ("let é = 1", 5, "'é' is no name: names have ASCII letters, digits and '_'", None),
        ("let x = \0", 9, "unexpected character U+0000", None),
        ("let x = 1 +\n  2\nlet y = 3", 12, f"expected an expression after '+', found {END}",
         "to go on in the next line, put the expression in parentheses"),
        ("let x = 9223372036854775809", 9,
         "the integer '9223372036854775809' does not fit in 64 bits", None),
        ("fn f(a: T; b: T) { }", 10, "expected ',' in the arguments of 'f', found ';'",
         "did you mean ','?"),
    ],
)  # fmt: skip
def test_one_error_one_message(source: str, column: int, message: str, suggestion: str | None):
    assert errors(source) == [(1, column, message, suggestion)]


def test_an_unclosed_bracket_names_where_it_was_opened():
    with pytest.raises(CompilationError) as caught:
        TritonParser().parse("fn f() {\n    let x = f(\n        a,\n    return x\n}", Path("m.tri"))
    assert str(caught.value) == (
        "m.tri:3:11: error: expected ')' to close the call, found the end of the line [E0102]\n"
        "    3 |         a,\n"
        "      |           ^\n"
        "help: write ) here\n"
        "note: '(' is opened here: m.tri:2:14\n"
        "    2 |     let x = f(\n"
        "      |              ^"
    )


def test_an_unclosed_block_is_noticed_at_the_next_declaration():
    source = "layer A {\n    fn f() {\n        return 1\n    }\n\nlayer B {\n}\n"
    message = "expected '}' to close the layer 'A', found 'layer'"
    assert errors(source) == [(6, 1, message, "write } here")]
    source = "layer A {\n    fn f() {\n        return 1\n\n    fn g() { }\n}\n"
    message = "expected '}' to close the function 'f', found 'fn'"
    assert errors(source) == [(5, 5, message, "write } here")]


def test_one_run_reports_every_error():
    source = """import blocks
layer A {
    parm w: Tensor[3
    param b Tensor[3]
    fn forward(x: Tensor[N, 784] -> Tensor[N, 10] {
        let y = foo(a, b
        retrun y +
        if x = 3 { return x y }
        return y
    }
    let ok = 1
}
fn g() {
    x := 1
}
"""
    assert [(line, column) for line, column, _, _ in errors(source)] == [
        (1, 1),
        (3, 5),
        (3, 21),
        (4, 13),
        (5, 34),
        (6, 25),
        (7, 9),
        (7, 19),
        (8, 14),
        (8, 29),
        (14, 7),
    ]


def test_the_tree_keeps_what_is_right():
    source = """let a = )
layer A {
    param b Tensor[3]
    param c: Tensor[3]
    fn f() {
        let x = 1 +
        y = f(,)
        let z = 3
    }
    fn g(3) { let q = 1 }
}
"""
    program, diagnostics = TritonParser().parse_with_recovery(source)
    assert len(diagnostics) == 5
    first, layer = program.declarations
    assert first == nodes.ErrorDeclaration(("a",), span=first.span)
    assert isinstance(layer, nodes.LayerDef)
    b, c, f, g = layer.members
    assert isinstance(b, nodes.ErrorDeclaration)
    assert b.names == ("b",)
    assert isinstance(c, nodes.ParamDef)
    assert isinstance(f, nodes.FunctionDef)
    x, y, z = f.body
    assert isinstance(x, nodes.ErrorStatement)
    assert isinstance(y, nodes.ErrorStatement)
    assert (x.names, y.names) == (("x",), ("y",))
    assert isinstance(z, nodes.Let)
    assert isinstance(g, nodes.ErrorDeclaration)
    assert "g" in g.names


def test_a_misspelt_keyword_is_put_right_in_the_tree():
    program, _ = TritonParser().parse_with_recovery("layr A {\n parm w: T\n fn f() { retrun 1 }\n}")
    assert program == parse("layer A {\n param w: T\n fn f() { return 1 }\n}")


def test_at_most_twenty_errors():
    source = "let = 1\n" * 30 + "let x = 1"
    with pytest.raises(CompilationError) as caught:
        parse(source)
    assert len(caught.value.diagnostics) == 20
    assert caught.value.line == 1


def test_the_error_carries_place_and_suggestion_of_the_first():
    with pytest.raises(CompilationError) as caught:
        parse("let ok = 1\nlayr A { }\nlet = 2")
    error = caught.value
    assert (error.line, error.column) == (2, 1)
    assert error.suggestion == "did you mean 'layer'?"


# Limits


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "x" + ")" * 5000,
        "[" * 5000,
        "-" * 5000 + "x",
        "x" + " + x" * 5000,
        "x" + ".y" * 5000,
        "f" + "()" * 5000,
        "f(" * 5000,
    ],
)
def test_deep_nesting_is_refused(text: str):
    with pytest.raises(CompilationError, match="deeper than 200 levels"):
        parse("let v = " + text)


def test_deep_blocks_are_refused():
    with pytest.raises(CompilationError, match="deeper than 200 levels"):
        parse("fn f() { " + "if a { " * 300 + "}" * 301)
    with pytest.raises(CompilationError, match="deeper than 200 levels"):
        parse("fn f() { if a { } " + "else if a { } " * 300 + "}")


def test_the_deepest_tree_can_be_compared_and_printed():
    depth = MAX_DEPTH - 2
    source = "let v = " + "-" * depth + "x"
    assert parse(source) == parse(source)
    assert repr(parse(source)).count("Unary") == depth
    with pytest.raises(CompilationError):
        parse("let v = -" + "-" * depth + "x")


def test_a_long_literal_is_refused():
    for text in ("9" * 100_000, "0x" + "f" * 100_000, "1" * 100_000 + ".0"):
        with pytest.raises(CompilationError) as caught:
            parse(f"let v = {text}")
        assert len(str(caught.value)) < 1000


def test_a_source_that_is_too_large_is_refused(tmp_path: Path):
    with pytest.raises(CompilationError, match="larger than 10 MiB"):
        parse("#" * (MAX_SOURCE_BYTES + 1))
    path = tmp_path / "large.tri"
    with path.open("wb") as stream:
        stream.truncate(MAX_SOURCE_BYTES + 1)
    with pytest.raises(SourceError, match=r"large\.tri: is larger than 10 MiB"):
        read_source(path)


# Files


def test_read_source(tmp_path: Path):
    path = tmp_path / "m.tri"
    path.write_bytes(b'\xef\xbb\xbflet a = "\xc3\xa9"\r\n')
    assert read_source(path) == 'let a = "é"\r\n'
    assert TritonParser().parse_file(path).path == path


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(SourceError, match="no such file"):
        read_source(tmp_path / "missing.tri")
    with pytest.raises(SourceError, match="is a directory"):
        read_source(tmp_path)
    with pytest.raises(SourceError, match="cannot be read"):
        read_source("a\0b.tri")
    with pytest.raises(SourceError):
        read_source(tmp_path / ("x" * 5000))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission(tmp_path: Path):
    path = tmp_path / "m.tri"
    path.write_text("let a = 1")
    path.chmod(0)
    with pytest.raises(SourceError, match="Permission denied"):
        read_source(path)


def test_bytes_that_are_not_utf8(tmp_path: Path):
    path = tmp_path / "m.tri"
    path.write_bytes(b'let a = 1\nlet b = "\xe9"\n')
    with pytest.raises(CompilationError) as caught:
        read_source(path)
    assert (caught.value.line, caught.value.column) == (2, 10)
    assert str(caught.value).startswith(
        f"{path}:2:10: error: byte 0xe9 is not UTF-8; save the file as UTF-8 [E0103]\n"
        "    2 | let b = "
    )


# Cost


def test_importing_the_parser_is_cheap():
    code = (
        "import sys, triton_dsl.ir.language.parser; "
        "sys.exit(bool({'lark', 'numpy', 'xdsl', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_errors_far_into_a_large_file_stay_cheap():
    source = LINEAR * 200 + "let = 1\n"
    assert [line for line, *_ in errors(source)] == [source.count("\n")]
