"""The formatter: what it changes, what it keeps."""

import pytest

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language.format import WIDTH, format_source
from triton_dsl.ir.language.parser import TritonParser


def check(source: str, expected: str) -> None:
    formatted = format_source(source)
    assert formatted == expected
    assert format_source(formatted) == formatted
    assert TritonParser().parse(formatted) == TritonParser().parse(source)


def test_spaces():
    check(
        "let  a=-1+2*( b-c )@d [ 0,1 : 2,: :2 ] . e ( x , k = - 3 , ) ;const C:int=0x1F\n",
        "let a = -1 + 2 * (b - c) @ d[0, 1:2, ::2].e(x, k=-3)\nconst C: int = 0x1F\n",
    )
    check("let a = ! b&&- - c<-d", "let a = !b && --c < -d\n")
    check("let a = 1 .x + trit( - 1 ) + 1. .y", "let a = 1 .x + trit(-1) + 1. .y\n")


def test_types_keep_their_form():
    check(
        "let a:Tensor < int8 > [ N , ? ]=b<c;let d:TernaryTensor<trit,[ a*2 ]> =e>f",
        "let a: Tensor<int8>[N, ?] = b < c\nlet d: TernaryTensor<trit, [a * 2]> = e > f\n",
    )
    check(
        "layer L(a:int=1,b:Tensor[ 2 ])->SpikeTensor[T,a/2]{ }",
        "layer L(a: int = 1, b: Tensor[2]) -> SpikeTensor[T, a / 2] {}\n",
    )


def test_literals_keep_their_spelling():
    source = 'let a = [0x1f, 0B11, 1e-3, 2.50, 1., "\\x41\\u00e9\\n", true]\n'
    check(source, source)


def test_blocks():
    check(
        "fn f(){if a{b}else if c{d}else{e};for i in range(3){x=x+i};return x}",
        """fn f() {
    if a {
        b
    } else if c {
        d
    } else {
        e
    }
    for i in range(3) {
        x = x + i
    }
    return x
}
""",
    )


def test_blank_lines():
    check(
        """


import "a.tri"


import "b.tri"
const A = 1
layer L {

    param a: T
    param b: T


    param c: T
    fn f() {

        return 1

    }
    let d = 1
}
# about B
layer B {}
let c = 1
""",
        """import "a.tri"

import "b.tri"
const A = 1

layer L {
    param a: T
    param b: T

    param c: T

    fn f() {
        return 1
    }

    let d = 1
}

# about B
layer B {}

let c = 1
""",
    )


def test_a_call_that_is_too_long_is_wrapped():
    names = ", ".join(f"argument_number_{i}" for i in range(6))
    lines = ",\n".join(f"    argument_number_{i}" for i in range(6))
    check(f"let a = f({names})", f"let a = f(\n{lines},\n)\n")
    check(f"let a = [{names},]", f"let a = [\n{lines},\n]\n")


def test_the_outer_bracket_breaks_first():
    inner = "g(" + ", ".join(["value"] * 10) + ")"
    check(
        f"let a = f({inner}, {inner})",
        f"let a = f(\n    {inner},\n    {inner},\n)\n",
    )


def test_a_long_sum_in_parentheses_breaks_at_its_loosest_operators():
    term = "first_factor * second_factor_of_the_term"
    check(
        f"let a = ({term} + {term} - {term})",
        f"let a = (\n    {term}\n    + {term}\n    - {term}\n)\n",
    )


def test_a_long_signature_is_wrapped():
    arguments = [f"argument{i}: Tensor[N, 784]" for i in range(5)]
    wrapped = "".join(f"    {a},\n" for a in arguments)
    check(
        f"fn f({', '.join(arguments)}) -> Tensor[N, 10] {{ return 1 }}",
        f"fn f(\n{wrapped}) -> Tensor[N, 10] {{\n    return 1\n}}\n",
    )


def test_lines_that_fit_exactly_are_left_alone():
    stem = "let a = f(b, "
    source = stem + "x" * (WIDTH - len(stem) - 1) + ")\n"
    assert len(source) == WIDTH + 1
    check(source, source)
    assert format_source(source.replace("xx", "xxx", 1)).count("\n") == 4


def test_comments_of_every_style_stay_where_they_are():
    source = """// head
# head 2

/* about L */
layer L {  # opens
    param w: T  // trailing

    # above b
    /* and a block */
    param b: T /* c */
    fn f(a: T) /* result */ {  // body
        # only
    }
    # last of L
}  # closes

# end
"""
    check(source, source.replace("/* c */\n    fn", "/* c */\n\n    fn"))


def test_comments_inside_brackets():
    check(
        """let a = f( # first
  b, // of b
  # above c
  c=/* in */1 # of c
  , d # of d
  # end
)
let e = f(/* one */ g, /* two */)
let h = f( # none
)
let i = (a + # why
b)
""",
        """let a = f(  # first
    b,  // of b
    # above c
    c= /* in */ 1,  # of c
    d,  # of d
    # end
)
let e = f(/* one */ g /* two */)
let h = f(
    # none
)
let i = (
    a
    +  # why
    b
)
""",
    )


def test_comments_before_else_and_brace():
    check(
        """fn f() {
    if a { } /* same */ else { }
    if a {
        b
    }  # of b
    # about else
    else { }
    if c # why
    { d }
}
""",
        """fn f() {
    if a {} /* same */ else {}
    if a {
        b
    }  # of b
    # about else
    else {}
    if c  # why
    {
        d
    }
}
""",
    )


def test_block_comments_keep_their_lines():
    check("let a = 1 /* x\n      y */\nlet b = 2", "let a = 1 /* x\n      y */\nlet b = 2\n")


@pytest.mark.parametrize("source", ["", "\n\n  \n", ";;"])
def test_nothing(source: str):
    check(source, "")


def test_only_comments():
    check("\n\n# a\n\n\n/* b */ // c\n", "# a\n\n/* b */ // c\n")


def test_windows_newlines_become_plain():
    check("let a = 1 # c\r\n\r\n\r\nlet b = 2\r\n", "let a = 1  # c\n\nlet b = 2\n")


def test_syntax_errors_are_refused():
    with pytest.raises(CompilationError, match="expected an expression"):
        format_source("let a = ")
