"""Pass pipelines as text."""

from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.pipeline import MAXIMUM_NESTING, parse_pipeline, pipeline_text


class NoOp(ModulePass):
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


@dataclass(frozen=True)
class Plain(NoOp):
    name = "plain"


@dataclass(frozen=True)
class Options(NoOp):
    name = "options"

    ratio: float = 0.5
    count: int | None = None
    rule: Literal["twn", "fixed"] = "twn"
    text_option: str = ""
    exact: bool = False
    sizes: tuple[int, ...] = ()
    weights: tuple[float, ...] = field(default=(1.0,))


@dataclass(frozen=True)
class Required(NoOp):
    name = "required"

    needed: int


@dataclass(frozen=True)
class Strict(NoOp):
    name = "strict"

    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count must not be negative")


PASSES: dict[str, type[ModulePass]] = {
    "plain": Plain, "options": Options, "required": Required, "strict": Strict
}  # fmt: skip
AVAILABLE = {name: (lambda cls=cls: cls) for name, cls in PASSES.items()}


def parse(text: str) -> tuple[ModulePass, ...]:
    return parse_pipeline(text, AVAILABLE)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", ()),
        ("  ", ()),
        ("plain", (Plain(),)),
        ("plain,plain", (Plain(), Plain())),
        (" plain , plain ", (Plain(), Plain())),
        ("plain{}", (Plain(),)),
        ("plain{ }", (Plain(),)),
        ("builtin.module(plain)", (Plain(),)),
        ("builtin.module()", ()),
        ("builtin.module(plain,func.func(plain,plain),plain)", (Plain(),) * 4),
        ("plain,func.func(plain)", (Plain(), Plain())),
        ("any(plain)", (Plain(),)),
        ("builtin.module( func.func( plain ) , plain )", (Plain(), Plain())),
        ("options{ratio=2}", (Options(ratio=2.0),)),
        ("options{ratio=1e-3}", (Options(ratio=1e-3),)),
        ("options{ratio=.5}", (Options(ratio=0.5),)),
        ("options{count=3}", (Options(count=3),)),
        ("options{count}", (Options(count=None),)),
        ("options{rule=fixed}", (Options(rule="fixed"),)),
        ("options{exact}", (Options(exact=True),)),
        ("options{exact=false}", (Options(exact=False),)),
        ("options{text-option=3}", (Options(text_option="3"),)),
        ("options{text_option=true}", (Options(text_option="true"),)),
        ('options{text-option="a, b} \\" (c)"}', (Options(text_option='a, b} " (c)'),)),
        ("options{sizes=1}", (Options(sizes=(1,)),)),
        ("options{sizes=1,2,3 weights=1,2.5}", (Options(sizes=(1, 2, 3), weights=(1.0, 2.5)),)),
        (
            "builtin.module(options{rule=fixed\n  ratio=1},plain)",
            (Options(rule="fixed", ratio=1.0), Plain()),
        ),
        ("required{needed=-4}", (Required(-4),)),
    ],
)
def test_text_gives_passes(text: str, passes: tuple[ModulePass, ...]) -> None:
    parsed = parse(text)
    assert parsed == passes
    assert [type(p) for p in parsed] == [type(p) for p in passes]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plian", "unknown pass 'plian'; did you mean 'plain'?"),
        ("wholly-unlike", "unknown pass 'wholly-unlike'"),
        ("plain,", "character 7: expected a pass name"),
        (",plain", "character 1: expected a pass name"),
        ("plain plain", "character 7: unexpected 'p'"),
        ("plain{", "character 7: expected an option name or '}'"),
        ("plain{x=}", "character 9: expected a value"),
        ("plain)", "character 6: unexpected ')'"),
        ("builtin.module(plain", "character 21: expected ')'"),
        ("builtin.module(plain))", "character 22: unexpected ')'"),
        ("plain[x", "expected ']'"),
        ('options{text-option="a}', "expected a value"),
        ("plain{x=1}", "pass 'plain' has no option 'x' (it has none)"),
        ("options{ratoi=1}", "pass 'options' has no option 'ratoi'; did you mean 'ratio'?"),
        ("options{zzz=1}", "has no option 'zzz' (options: ratio, count, rule"),
        ("options{count=1 count=2}", "option 'count' is given twice"),
        ("options{count=x}", "option 'count' of pass 'options': expected an integer, got 'x'"),
        ("options{count=1,2}", "expected an integer, got '1,2'"),
        ("options{count=1.5}", "expected an integer, got '1.5'"),
        ("options{exact=maybe}", "expected true or false, got 'maybe'"),
        ("options{rule=other}", "expected one of twn, fixed, got 'other'"),
        ("options{sizes=1,a}", "expected list of an integer, got '1,a'"),
        ("options{ratio}", "pass 'options': "),
        ("required", "pass 'required' needs option 'needed'"),
        ("strict{count=-1}", "pass 'strict': count must not be negative"),
        ("a(" * (MAXIMUM_NESTING + 1), f"anchors nest deeper than {MAXIMUM_NESTING}"),
    ],
)
def test_bad_text_gives_one_message(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_syntax_error_shows_the_place() -> None:
    with pytest.raises(OptionError) as caught:
        parse("plain,{}")
    assert str(caught.value).splitlines()[1:] == ["  plain,{}", "        ^"]


@given(
    st.lists(
        st.builds(
            Options,
            ratio=st.floats(allow_nan=False),
            count=st.none() | st.integers(-(10**9), 10**9),
            rule=st.sampled_from(["twn", "fixed"]),
            text_option=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])),
            exact=st.booleans(),
            sizes=st.lists(st.integers(0, 99), max_size=3).map(tuple),
            weights=st.lists(st.floats(-1, 1), min_size=1, max_size=3).map(tuple),
        )
    )
)
def test_passes_survive_the_way_to_text_and_back(passes: list[Options]) -> None:
    assert list(parse(pipeline_text(passes))) == passes
    assert list(parse(pipeline_text(passes, anchor=False))) == passes


@given(st.text(alphabet='plain,{}()= "\\1.-x[]', max_size=40) | st.text(max_size=20))
def test_any_text_gives_passes_or_an_option_error(text: str) -> None:
    try:
        parse(text)
    except OptionError as error:
        assert str(error)
