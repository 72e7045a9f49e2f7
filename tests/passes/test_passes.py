"""What holds for every pass of the table: names, options, documentation."""

import dataclasses
import re
from pathlib import Path

import pytest
from xdsl.passes import ModulePass

from triton_dsl.passes.universe import UNIVERSE

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
PASSES = sorted(UNIVERSE.all_passes)


def sections() -> dict[str, str]:
    """The text under each heading of the document."""
    parts = re.split(r"^## (.+)$", DOCUMENT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_goes_by_the_name_of_its_file(name: str) -> None:
    kind = UNIVERSE.all_passes[name]()
    assert issubclass(kind, ModulePass) and dataclasses.is_dataclass(kind)
    assert kind.name == name
    _, top, *rooms = kind.__module__.split(".")
    # A target names its conversions for what they lead to: `to_native.llvm.convert_arith`.
    assert rooms[-1] == name.replace("-", "_") or top == "lowering"
    # Capitals may go on: LLVM.
    assert kind.__name__.endswith("Pass") and kind.__name__[0].isupper()
    assert kind.__name__.lower() == name.replace("-", "") + "pass"


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_shows_what_it_does(name: str) -> None:
    kind = UNIVERSE.all_passes[name]()
    assert kind.__doc__ is not None and "becomes" in kind.__doc__
    assert (ROOT / "tests" / "filecheck" / "passes" / f"{name.replace('-', '_')}.mlir").exists()


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_and_its_options_are_documented(name: str) -> None:
    kind = UNIVERSE.all_passes[name]()
    text = sections()[name]
    options = [field.name.replace("_", "-") for field in dataclasses.fields(kind)]
    assert [option for option in options if f"`{option}`" not in text] == []


def test_plain_xdsl_opt_gets_the_passes() -> None:
    assert set(UNIVERSE.all_passes) == set(PASSES)
    assert "ternary" in UNIVERSE.all_dialects and "tensor" not in UNIVERSE.all_dialects
