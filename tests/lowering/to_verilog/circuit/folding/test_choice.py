"""Choices are legal, reach their goal or say what can be reached, and are monotone."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_verilog.circuit.folding.channel_functions import Bounded, Staircase
from triton_dsl.lowering.to_verilog.circuit.folding.choice import Choice, FoldableLayer, Goal
from triton_dsl.lowering.to_verilog.circuit.folding.forms import (
    Folded,
    Form,
    Serial,
    Unrolled,
    parsed_forms,
)
from triton_dsl.lowering.to_verilog.circuit.folding.product import FoldedProduct, Folding, Product
from triton_dsl.lowering.to_verilog.circuit.folding.reaching import reached
from triton_dsl.lowering.to_verilog.circuit.pacing import DEVICE
from triton_dsl.lowering.to_verilog.estimate.areas import areas_of


def layer(
    name: str, k: int, n: int, bits: int, steps: int, beats: int, seed: int, groups: int = 1
) -> FoldableLayer:
    rng = np.random.default_rng(seed)
    n *= groups
    matrix = rng.integers(-1, 2, (k, n)).astype(np.int8)
    rows = tuple(tuple(np.sort(rng.integers(-9, 9, steps)).tolist()) for _ in range(n))
    function = Staircase(0, (1,) * n, rows) if steps else Bounded((0,) * n)
    places = np.arange(k * groups).reshape(groups, k)
    inputs = ((0, (1 << bits) - 1),) * (k * groups)
    product = Product(matrix, inputs, function, places)
    return FoldableLayer(name, product, beats, areas_of(DEVICE))


LAYERS = st.builds(
    layer,
    st.just("fc"),
    st.integers(1, 40),
    st.integers(1, 24),
    st.integers(1, 8),
    st.sampled_from([0, 1, 3, 15]),
    st.sampled_from([1, 1, 9, 64]),
    st.integers(0, 99),
    st.sampled_from([1, 1, 1, 2, 6]),
)
NETWORKS = st.lists(LAYERS, min_size=1, max_size=3).map(
    lambda found: [
        FoldableLayer(f"fc{i}", each.product, each.beats, each.areas)
        for i, each in enumerate(found, 1)
    ]
)


def chosen(network: list[FoldableLayer], forms: dict[str, Form], goal: Goal) -> list[Choice]:
    return reached(network, forms, goal)[0]


def pace(choices: list[Choice]) -> int:
    return max(choice.cycles for choice in choices)


def area(choices: list[Choice]) -> int:
    return sum(choice.cost.area for choice in choices)


def assert_legal(layer: FoldableLayer, choice: Choice) -> None:
    k, n = layer.product.shape
    groups = layer.product.groups
    match choice.form:
        case Unrolled():
            assert choice.cycles == layer.beats
        case Serial(digit):
            assert digit >= 1
            assert choice.cycles > layer.beats
        case Folded(folding):
            folded = FoldedProduct(layer.product, folding)
            folds = folded.folds
            assert choice.cycles == layer.beats * folds[0] * folds[1]
            # No smaller unit takes as few cycles: nothing is padded without need.
            assert folding.simd == -(-k // folds[0])
            if folding.pe < n // groups:
                assert folding.pe == -(-n // groups // folded.parts)
            else:
                assert folding.pe == n // groups * -(-groups // folds[1])


@settings(max_examples=40)
@given(network=NETWORKS, cycles=st.integers(1, 5000))
def test_a_pace_is_kept_with_the_least_area(network: list[FoldableLayer], cycles: int) -> None:
    if cycles < max(each.beats for each in network):
        with pytest.raises(OptionError, match=r"cycles, and layer 'fc[123]' takes"):
            chosen(network, {}, Goal(cycles))
        return
    found = chosen(network, {}, Goal(cycles))
    for each, choice in zip(network, found, strict=True):
        assert_legal(each, choice)
        assert choice.cycles <= cycles
        others = (each.choice(Folded(Folding(pe, simd))) for pe, simd in _some(each.product))
        assert all(
            choice.cost.area <= other.cost.area for other in others if other.cycles <= cycles
        )
    assert area(chosen(network, {}, Goal(2 * cycles))) <= area(found)


def _some(product: Product) -> list[tuple[int, int]]:
    k, n = product.shape
    rng = np.random.default_rng(k * n)
    own = n // product.groups
    columns = [*range(1, own), *range(own, n + 1, own)]
    return [(int(rng.choice(columns)), int(rng.integers(1, k + 1))) for _ in range(10)]


@settings(max_examples=40)
@example(network=[layer("fc1", 30, 20, 4, 3, 1, 0)], luts=700)
@given(network=NETWORKS, luts=st.integers(1, 20_000))
def test_a_budget_is_kept_at_the_best_pace(network: list[FoldableLayer], luts: int) -> None:
    try:
        found = chosen(network, {}, Goal(luts=luts))
    except OptionError as error:
        (least,) = re.findall(r"takes ([\d,]+) LUTs at least", str(error))
        needed = int(least.replace(",", ""))
        assert needed > luts
        assert area(chosen(network, {}, Goal(luts=needed))) == needed
        return
    assert area(found) <= luts
    for each, choice in zip(network, found, strict=True):
        assert_legal(each, choice)
    quicker = pace(found) - 1
    if quicker >= max(each.beats for each in network):
        assert area(chosen(network, {}, Goal(quicker))) > luts
    assert pace(chosen(network, {}, Goal(luts=2 * luts))) <= pace(found)


def test_what_cannot_be_reached_is_told_with_numbers() -> None:
    network = [layer("fc1", 30, 20, 4, 3, 1, 0)]
    best = pace(chosen(network, {}, Goal(luts=700)))
    with pytest.raises(OptionError) as caught:
        chosen(network, {}, Goal(best - 1, 700, 50.0))
    rate = f"{50e6 / best:,.0f} frames/s at 50 MHz"
    assert f"lut-budget=700 allows {rate} at best" in str(caught.value)


def test_all_is_unrolled_where_it_fits() -> None:
    network = [layer(f"fc{i}", 30, 20, 4, 3, 1, i) for i in (1, 2)]
    assert [c.form for c in chosen(network, {}, Goal(luts=10**6))] == [Unrolled()] * 2
    assert [c.form for c in chosen(network, {}, Goal())] == [Unrolled()] * 2


def test_given_forms_are_kept() -> None:
    network = [layer(f"fc{i}", 30, 20, 4, 3, 1, i) for i in (1, 2)]
    given_forms: dict[str, Form] = {"fc2": Folded(Folding(3, 7))}
    found = chosen(network, given_forms, Goal(luts=3000))
    assert found[1].form == Folded(Folding(3, 7))
    assert found[1].cycles == 5 * 7
    assert chosen(network, {"fc1": Serial(2)}, Goal())[0].form == Serial(2)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"fc9": Unrolled()}, "names 'fc9'; the layers are fc1"),
        ({"fc1": Folded(Folding(21, 1))}, r"'fc1': a product 30x20 takes pe in \[1, 20\]"),
        ({"fc1": Serial(99)}, r"'fc1': a product takes digits of 1 to \d+ bits here, got 99"),
    ],
)
def test_wrong_forms(form: dict[str, Form], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        chosen([layer("fc1", 30, 20, 4, 3, 1, 0)], form, Goal())


def test_forms_are_read() -> None:
    assert parsed_forms("fc1:pe=8,simd=16; fc2:unrolled;a.b:digit=2;") == {
        "fc1": Folded(Folding(8, 16)),
        "fc2": Unrolled(),
        "a.b": Serial(2),
    }
    assert parsed_forms("") == {}


@settings(max_examples=30)
@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True), st.one_of(
    st.just(Unrolled()),
    st.integers(1, 99).map(Serial),
    st.builds(Folding, st.integers(1, 99), st.integers(1, 99)).map(Folded),
)))  # fmt: skip
def test_forms_are_written_as_they_are_read(forms: dict[str, Form]) -> None:
    assert parsed_forms(";".join(f"{name}:{form}" for name, form in forms.items())) == forms


@pytest.mark.parametrize(
    "text",
    ["fc1", "fc1:pe=8", "fc1:pe=8,simd=0", "fc1:simd=1,simd=2", "fc1:digit=x", "fc1:",
     "a:unrolled;a:unrolled"],
)  # fmt: skip
def test_forms_that_cannot_be_read(text: str) -> None:
    with pytest.raises(OptionError, match="folding expects LAYER:unrolled"):
        parsed_forms(text)
