"""Dialects and passes by name, from us, from xDSL and from plug-ins."""

import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

from triton_dsl.passes import universe
from triton_dsl.passes.universe import UNIVERSE, everything


@dataclass(frozen=True)
class Added(ModulePass):
    name = "added"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


PLUG_IN = Universe(all_passes={"added": lambda: Added, "cse": lambda: Added})
NOT_A_UNIVERSE = 3


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[importlib.metadata.EntryPoint]]:
    """The entry points that are found instead of those of installed packages."""
    found: list[importlib.metadata.EntryPoint] = []

    def plug_ins(_: str) -> list[importlib.metadata.EntryPoint]:
        return sorted(found, key=lambda point: point.name)

    monkeypatch.setattr(universe, "plug_ins", plug_ins)
    everything.cache_clear()
    yield found
    everything.cache_clear()


class Entry(importlib.metadata.EntryPoint):
    def load(self) -> object:
        if self.value == "broken":
            raise ImportError("no module named broken")
        return {"good": PLUG_IN, "bad": NOT_A_UNIVERSE, "xdsl": XDSL_UNIVERSE}[self.value]


def entry(value: str) -> importlib.metadata.EntryPoint:
    return Entry(value, value, "xdsl.universe")


def test_our_names_clash_with_none_of_xdsl() -> None:
    assert not UNIVERSE.all_dialects.keys() & XDSL_UNIVERSE.all_dialects.keys()
    assert not UNIVERSE.all_passes.keys() & XDSL_UNIVERSE.all_passes.keys()


def test_plain_xdsl_finds_ours() -> None:
    multiverse = Universe.get_multiverse()
    assert multiverse.all_dialects["ternary"]().name == "ternary"
    assert UNIVERSE.all_passes.keys() <= multiverse.all_passes.keys()


def test_every_pass_of_ours_loads_under_its_name() -> None:
    for name, getter in UNIVERSE.all_passes.items():
        assert getter().name == name


@pytest.mark.usefixtures("plug_ins")
def test_ours_are_there_without_any_entry_point() -> None:
    merged = everything()
    assert {"ternary", "tensor", "func"} <= merged.all_dialects.keys()
    assert {"canonicalize", *UNIVERSE.all_passes} <= merged.all_passes.keys()
    names = [op.name for op in merged.all_dialects["tensor"]().operations]
    assert "tensor.relu" in names


def test_a_plug_in_adds_names(
    plug_ins: list[importlib.metadata.EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    plug_ins += [entry("good"), entry("xdsl")]
    merged = everything()
    assert merged.all_passes["added"]() is Added
    assert merged.all_passes["cse"]() is not Added
    assert capsys.readouterr().err == (
        "warning: plug-in 'good' offers a pass 'cse', a name that is taken\n"
    )


def test_a_broken_plug_in_costs_a_warning(
    plug_ins: list[importlib.metadata.EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    plug_ins += [entry("bad"), entry("broken")]
    assert "cse" in everything().all_passes
    assert capsys.readouterr().err == (
        "warning: plug-in 'bad' is not a xdsl.universe.Universe\n"
        "warning: plug-in 'broken' cannot be loaded: ImportError: no module named broken\n"
    )
