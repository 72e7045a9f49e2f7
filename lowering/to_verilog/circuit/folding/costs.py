"""What each form of a product takes, by closed formulas: for a search over thousands of them.

`to_verilog.estimate` counts a finished circuit more exactly. Not here: the choice, and what a bit
of an adder or of a memory takes (`estimate.areas`).
"""

from __future__ import annotations

from math import e, log2

import numpy as np

from .....passes.adder_graph.graph import width_of
from .....passes.adder_graph.integers import digit_planes
from .....passes.requantize.division import Division
from ...estimate.areas import Areas, Cost
from ..heaps.plan import FEWEST_BITS, MOST_BITS
from .channel_functions import Bounded, Staircase
from .product import Array, FoldedProduct, Product

ADDERS_PER_DIGIT = 0.52
"""Of a signed digit that is not 0, in products with integers whose sums are shared: from 0.50 to
0.59 on random matrices from 25×8 to 64×64 with 8 bits."""

LUTS_OF_A_RESCALING = 9
"""Of a bit of a sum that is multiplied by a constant and shifted: what staircases of many steps
become in ordinary arithmetic."""

_ROWS_OF_ADDERS, _ROWS_OF_BIT = 0.61, 0.48
"""Rows of look-up tables take this share of what shared adders take, and so much of each bit that
is summed, at most: from 0.60 to 0.68, and 0.35 to 0.48, of 32×16 to 128×64 with 1 to 8 bits."""

_CONTROL = 12
"""LUTs of the flags of a stage."""


def folded_cost(areas: Areas, folded: FoldedProduct) -> Cost:
    """What `folded_stage` makes."""
    product, folding = folded.product, folded.folding
    groups = folded.folds[1]
    width, cells = product.width, folding.pe * folding.simd
    selections, chosen = folded.selections.shape
    total = Cost(_CONTROL + 3 * folded.cycles.bit_length())
    total += Cost(0, product.beat_width)
    total += Cost(round(chosen * width * areas.selection(selections)), chosen * width)
    total += areas.rom(folded.cycles, folded.weight_bits * cells)
    tree, levels = _tree(areas, folding.simd, width)
    luts, registers = folding.pe * tree[0], folding.pe * tree[1]
    sums = folding.pe * product.sum_width
    total += Cost(luts + sums, registers + sums + 2 * levels)
    if product.digits > 1:
        # The bits that come in between digits, and inputs inverted for the highest.
        total += Cost(folding.pe * (product.digits // 3) + chosen * width // 2)
    total += areas.rom(groups, sums)
    total += _after(areas, folded)
    out = sum(width_of(*bounds) for bounds in product.outputs)
    return total + Cost(0, out)


def _tree(areas: Areas, count: int, width: int) -> tuple[tuple[int, int], int]:
    """LUTs and registers of the cells of a column and of their sum, and its levels."""
    if width == 1:
        counted = round(areas.family.counted_luts * (count - 1))
        return (count + counted, counted), 2
    luts, registers, levels = count * width, 0, 0
    while count > 1:
        pairs = count // 2
        # The cells of two inputs and their adder share LUTs, if adders have some of their own.
        alone = levels or areas.family.own_adder
        luts += pairs * (width + 1) if alone else pairs
        registers += (pairs + count % 2) * (width + 1)
        count, width, levels = pairs + count % 2, width + 1, levels + 1
    return (luts, registers), levels


def _after(areas: Areas, folded: FoldedProduct) -> Cost:
    product, pe = folded.product, folded.folding.pe
    function = product.function
    width = product.sum_width
    if isinstance(function, Bounded):
        bounds = (function.low is not None) + (function.high is not None)
        return Cost(pe * bounds * (width + width // 2))
    divided = _divided(areas, folded)
    total = _searched(areas, folded) if divided is None else divided
    return total + (Cost(4 * pe) if function.base else Cost())


def chosen_division(areas: Areas, folded: FoldedProduct) -> Division | None:
    """The division by which a staircase is computed; `None` where a search takes less."""
    return None if _divided(areas, folded) is None else folded.product.division


def _searched(areas: Areas, folded: FoldedProduct) -> Cost:
    """A staircase as comparisons with thresholds from memories."""
    function, width, pe = folded.product.function, folded.product.sum_width, folded.folding.pe
    assert isinstance(function, Staircase)
    total = Cost()
    for place in range(function.steps.bit_length()):
        total += areas.rom(folded.folds[1] << place, width) * pe
        total += Cost(pe * width, pe * (width + place) if place else 0)
    return total


def _divided(areas: Areas, folded: FoldedProduct) -> Cost | None:
    """A staircase as a division, where it is one that takes less than a search."""
    known = folded.product.division
    if known is None:
        return None
    places, divisor = known.most.bit_length(), max(known.divisors).bit_length()
    width = folded.product.sum_width + known.fraction + 1
    adders = places * width - places * (places - 1) // 2
    words = areas.rom(folded.folds[1], divisor + width)
    each = words + Cost(adders, adders + places * divisor)
    total = each * folded.folding.pe
    searched = _searched(areas, folded)
    return total if total.area < searched.area else None


def _graph_sizes(product: Product) -> tuple[int, int]:
    """About how many adders the shared graphs of all groups take, and their bits."""
    if not product.is_ternary:
        return _integer_size(product)
    adders, bits = zip(*(graph_size(m, product.width) for m in product.matrices), strict=True)
    return sum(adders), sum(bits)


def _integer_size(product: Product) -> tuple[int, int]:
    """The same for weights of several bits, by the nonzeros of their signed digits."""
    nonzeros = sum(int(np.count_nonzero(plane)) for plane in digit_planes(product.matrix))
    adders = round(ADDERS_PER_DIGIT * nonzeros)
    return adders, round(adders * (product.width + 3.3))


def graph_size(matrix: Array, width: int) -> tuple[int, int]:
    """About how many adders the shared graph of a matrix takes, and their bits, without a search.

    Almost all matrices with that share of zeros need n adders with n·log2((K + n)²·e / n) at least
    the bits that tell such matrices apart; the graphs found have about 1.9 times as many.
    """
    k = len(matrix)
    nonzeros = int(np.count_nonzero(matrix))
    naive = max(nonzeros - int(np.count_nonzero(matrix.any(axis=0))), 0)
    share = nonzeros / matrix.size if matrix.size else 0.0
    if not share > 0:
        return 0, 0
    zeros = 0.0 if share == 1 else -(1 - share) * log2(1 - share)
    told = matrix.size * (zeros - share * log2(share) + share)
    least = max(told / 12, 1.0)
    for _ in range(20):
        least = told / (2 * log2(k + least) - log2(least) + log2(e))
    # Every row that counts has to be added to something, but one for each column.
    joined = int(np.count_nonzero(matrix.any(axis=1))) - matrix.shape[1]
    adders = min(naive, max(round(1.9 * least), joined))
    return adders, round(adders * (width + 2.6))


def serial_cost(areas: Areas, product: Product, digit: int, cycles: int) -> Cost:
    """What `serial_stage` makes with digits of so many bits, in so many cycles a beat."""
    adders, _ = _graph_sizes(product)
    total = Cost(_CONTROL + 2 * cycles.bit_length())
    total += Cost(0, product.beat_width)
    inputs = len(product.inputs)
    digits = min(cycles, -(-product.width // digit) + 1)
    total += Cost(round(inputs * digit * (areas.selection(digits) + 0.7)), inputs * digit)
    # Two bits and a carry are functions of five.
    adder = digit + 1 if digit < 2 or (digit == 2 and areas.is_large) else digit + 2
    # About one value in eight waits a cycle for the one that it is added to.
    total += Cost(adders * adder, round(adders * (1.1 * digit + 1)))
    if isinstance(product.function, Staircase):
        asked = sum(len(set(row)) for row in product.function.thresholds)
        each = 1 if digit + cycles.bit_length() < 6 else digit
        return total + Cost(round(asked * (each + 0.7)) + len(product.outputs), asked)
    outputs = len(product.outputs)
    total += Cost(outputs * adder // 2, outputs * cycles * digit)
    return total + _after_unrolled(areas, product)


def unrolled_cost(areas: Areas, product: Product) -> Cost:
    """What the product and its function take as an ordinary circuit, with a register a level."""
    family, (_, bits) = areas.family, _graph_sizes(product)
    summed = sum(int(np.count_nonzero(plane)) for plane in digit_planes(product.matrix))
    luts = family.adder_luts * bits
    if product.width == 1 and not product.signed:
        columns = {column.tobytes(): int((column != 0).sum()) for column in product.matrix.T}
        counted = sum(count - 1 for count in columns.values() if count)
        luts = min(luts, family.counted_luts * counted)
    if family.macro and FEWEST_BITS <= summed * product.width <= MOST_BITS:
        luts = min(
            luts, _ROWS_OF_ADDERS * family.adder_luts * bits, _ROWS_OF_BIT * summed * product.width
        )
    return Cost(round(luts), round(1.3 * bits)) + _after_unrolled(areas, product)


def _after_unrolled(areas: Areas, product: Product) -> Cost:
    function, width = product.function, product.sum_width
    outputs = sum(width_of(*bounds) for bounds in product.outputs)
    if isinstance(function, Bounded):
        bounds = (function.low is not None) + (function.high is not None)
        adders = sum(map(bool, function.offsets))
        count = len(product.outputs)
        return Cost(round(width * (adders + bounds * count * 1.5)), outputs)
    each = [
        min(len(set(row)) * areas.comparison(width), LUTS_OF_A_RESCALING * width)
        for row in function.thresholds
    ]
    return Cost(round(sum(each)), outputs)
