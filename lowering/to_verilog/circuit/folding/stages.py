"""The stage of a product that was given a form of several cycles a beat.

Not here: where it stands in a network (`stages.partition`, `stages.building`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from .....passes.adder_graph import InputRange, optimize_matrix
from .....passes.adder_graph.graph import AdderGraph, Node
from ..evaluation import check_range, words
from ..pacing import Pacing
from ..stages.stage import Layout, Stage
from .digit_serial import SerialProduct, serial_stage
from .folded_stage import folded_stage
from .forms import Folded, Serial, noted_form
from .layers import ProductOp, product_of
from .product import FoldedProduct, Product


def product_stage(
    name: str,
    ops: Sequence[Operation],
    layout: Layout,
    places: Sequence[int],
    *,
    pacing: Pacing,
    time_budget: float,
    keep_beat: bool,
) -> Stage:
    """The stage of a product and of the ops behind it.

    Args:
        ops: the product, and what its stage computes besides.
        places: for each input of the product the element of a beat.
        time_budget: to search for adders of a digit-serial product.
        keep_beat: as for `folded_stage`.

    Raises:
        UnsupportedError: a sum would wrap around in its type.
        OptionError: the product cannot take its form.
    """
    op, *after = ops
    assert isinstance(op, ProductOp)
    product, absorbed = product_of(op, layout.bounds, places, len(after))
    assert absorbed == after
    check_range(op, op.results[0], zip(*product.ends, strict=True))
    form = noted_form(op)
    if isinstance(form, Folded):
        folded = FoldedProduct(product, form.folding)
        return folded_stage(
            name, words(op), folded, pacing=pacing, keep_beat=keep_beat, beats=layout.beats
        )
    assert isinstance(form, Serial)
    serial = SerialProduct(product, _graph(product, time_budget), form.digit)
    return serial_stage(name, words(op), serial, keep_beat=keep_beat, beats=layout.beats)


def _graph(product: Product, time_budget: float) -> AdderGraph:
    """The adders of all groups of a product, over the inputs of a beat."""
    inputs = len(product.inputs)
    nodes: list[Node] = []
    outputs: list[tuple[int, int]] = []
    every: list[list[int]] = product.places.tolist()
    for matrix, places in zip(product.matrices, every, strict=True):
        own = [product.inputs[place] for place in places]
        graph = optimize_matrix(
            matrix,
            cost="adders",
            time_budget=time_budget / product.groups,
            inputs=InputRange.around(own),
        )
        first = inputs + len(nodes)
        at = [*places, *range(first, first + len(graph.nodes))]
        nodes += [(at[a], at[b], sign, shift) for a, b, sign, shift in graph.nodes]
        outputs += [(at[value], sign) for value, sign in graph.outputs]
    return AdderGraph(inputs, tuple(nodes), tuple(outputs))
