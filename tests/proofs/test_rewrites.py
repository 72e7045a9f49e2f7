"""Every rewrite of integers that stands in the code has a proof, and the documentation says so."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

from pytest import MonkeyPatch

from triton_dsl.dialects import tensor
from triton_dsl.passes.requantize import requantize, requantize_fusion
from triton_dsl.passes.requantize.integer_builder import IntegerBuilder
from triton_dsl.passes.streamline import level_grids, level_rules, streamline

from . import test_canonicalize, test_fuse_linear, test_merge_rescaling, test_skip_zeros
from . import test_requantize as of_requantize
from . import test_streamline as of_streamline
from . import test_streamline_channels as of_channels
from .rewrites import NO_REWRITES, NOT_INTEGER, PROOFS, found_rewrites, reason, rewrites_of, table

PROVING = (
    test_canonicalize, test_fuse_linear, test_merge_rescaling, of_requantize, test_skip_zeros,
    of_streamline, of_channels,
)  # fmt: skip

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "proofs.md"

BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"


def test_every_rewrite_is_proven_or_none_of_integers() -> None:
    names = found_rewrites()
    assert len(set(names)) == len(names)
    files = {module.__name__.rpartition(".")[2] for module in PROVING}
    assert {test.partition(".py")[0] for test, _ in PROOFS.values()} == files
    unproven = [name for name in names if name not in PROOFS and reason(name) is None]
    assert unproven == []


class Rules:
    """Notes which methods of some classes gave a result."""

    def __init__(self, patch: MonkeyPatch) -> None:
        self.patch = patch
        self.fired: set[str] = set()

    def watch(self, owner: Any, name: str) -> None:
        rule = vars(owner)[name]

        def noted(*given: Any, **named: Any) -> Any:
            result = rule(*given, **named)
            self.fired.add(name)
            return result

        self.patch.setattr(owner, name, noted)

    def missed(self, what: str) -> set[str]:
        """The rules of a pass that did nothing."""
        names = {name.rpartition(": ")[2] for name in rewrites_of(what)}
        return {name for name in names if "." not in name} - self.fired


def test_the_programs_need_every_rule_of_requantize(monkeypatch: MonkeyPatch) -> None:
    rules = Rules(monkeypatch)
    owners = vars(requantize)["_Requantizing"], IntegerBuilder, requantize_fusion
    for owner, name in product(owners, rewrites_of("requantize")):
        if name.rpartition(": ")[2] in vars(owner):
            rules.watch(owner, name.rpartition(": ")[2])
    for body in of_requantize.ELEMENTS.values():
        of_requantize.requantized(of_requantize.on_product(body, 2))
    for body, shapes in (*of_requantize.SHAPES.values(), *of_requantize.MEANS.values()):
        of_requantize.requantized(of_requantize.on_activations(body, *shapes))
    for body in of_requantize.SUMS:
        of_requantize.requantized(of_requantize.on_activations(body, [1, 1], [1, 1]))
    of_requantize.test_bounds_on_the_same_grid_are_exact(of_requantize.op(tensor.ReluOp))
    of_requantize.test_results_are_within_half_a_unit_of_the_accumulator("tensor.add")
    assert rules.missed("requantize") == set()


def test_the_programs_need_every_rule_of_streamline(monkeypatch: MonkeyPatch) -> None:
    rules = Rules(monkeypatch)
    owners = vars(streamline)["_Streamlining"], level_grids.LevelGrids, streamline, level_rules
    for owner, name in product(owners, rewrites_of("streamline")):
        if name.rpartition(": ")[2] in vars(owner):
            rules.watch(owner, name.rpartition(": ")[2])
    of_streamline.test_steps_between_products_are_counted(0.03125, 0.5, 3.0)
    of_streamline.test_channels_that_fall_get_negated_weights()
    of_streamline.test_weights_of_several_bits([0.25, 0.5])
    of_streamline.test_sums_of_two_activations(tensor.AddOp, 0.5)
    of_streamline.test_activations_side_by_side()
    of_streamline.test_the_largest_sum()
    of_streamline.test_means(of_streamline.mean_of_rows, [1, 2])
    of_streamline.test_means(of_streamline.mean_of_windows, [1, 1, 2, 1])
    of_streamline.test_channels_that_are_moved()
    of_streamline.test_largest_of_sums_with_factors_of_their_own()
    of_streamline.test_stated_arguments("uint8")
    of_streamline.test_what_has_no_form_stays_between_integers()
    of_streamline.test_pads_of_convolutions_are_the_number_0(3.0)
    of_streamline.test_integers_that_were_floats_for_a_while()
    of_streamline.test_moves("tensor.flatten")
    of_streamline.test_quantised_arguments("signs")
    of_streamline.test_arguments_that_are_moved_before("halves")
    of_channels.test_activations_with_a_scale_for_each_channel(of_channels.sums_of_levels, [1, 2])
    of_channels.test_quantised_arguments_with_a_scale_for_each_channel("signs")
    assert rules.missed("streamline") == set()


def test_nothing_is_proven_that_is_not_there() -> None:
    names = found_rewrites()
    assert set(PROOFS) <= set(names)
    assert [name for name in PROOFS if reason(name) is not None] == []
    for pattern in NOT_INTEGER:
        assert any(re.fullmatch(pattern, name) for name in names), pattern


def test_the_passes_are_all_there() -> None:
    passes = {name.partition(":")[0] for name in found_rewrites()}
    assert passes == {
        "canonicalize", "fuse-linear", "skip-zeros", "merge-rescaling", "requantize", "streamline",
    }  # fmt: skip
    assert "run" in NO_REWRITES


def test_the_documentation_has_the_table() -> None:
    """To renew it, put what the failure shows between the two marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table().strip()
