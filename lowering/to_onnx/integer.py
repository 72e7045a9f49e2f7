"""Integer products that are exact in ONNX Runtime, on kernels for floats and bytes.

float32 holds every integer up to 2^24: where no sum can exceed that, a float kernel is exact in any
order of summation. Greater operands are cut into pieces of fewer bits; the sums of the pieces are
put together in integers, which wrap around as the IR says.
"""

from __future__ import annotations

from collections.abc import Callable

from .graph import Element
from .onnx_writer import Inexpressible, Writer

FLOAT_EXACT = 1 << 24
"""Up to here float32 holds every integer."""

DOUBLE_EXACT = 1 << 53
"""Up to here float64 holds every integer. A bound that was rounded may be one less: stay below."""


def exact_product(
    e: Writer,
    x: tuple[str, int],
    w: tuple[str, int],
    terms: int,
    accumulator: Element,
    product: Callable[[str, str], str],
) -> str:
    """A product of integers by a float32 kernel, in `accumulator`, wrapping around.

    Args:
        x, w: the operands, each with the bound of its absolute values.
        terms: how many products each sum has.
        product: writes the float32 kernel.

    Raises:
        Inexpressible: too many terms for even one bit of each operand.
    """
    (x_name, x_bound), (w_name, w_bound) = x, w
    if terms * x_bound * w_bound <= FLOAT_EXACT:
        out = product(e.cast(x_name, Element.FLOAT), e.cast(w_name, Element.FLOAT))
        return e.whole(out, accumulator)
    bits = (FLOAT_EXACT // max(terms, 1)).bit_length() - 1
    w_bits = w_bound.bit_length()
    if w_bits > bits - 4:
        w_bits = bits // 2
    if w_bits < 1 or bits - w_bits < 1:
        raise Inexpressible(f"sums of {terms} integer products are not exact in float32")
    total: str | None = None
    w_pieces = _pieces(e, w_name, w_bound, w_bits, accumulator)
    for x_piece, x_shift in _pieces(e, x_name, x_bound, bits - w_bits, accumulator):
        for w_piece, w_shift in w_pieces:
            shift = x_shift + w_shift
            width = 64 if accumulator is Element.INT64 else 32
            if shift >= width:
                continue
            part = e.cast(product(x_piece, w_piece), accumulator)
            if shift:
                factor = 1 << shift if shift < width - 1 else -(1 << shift)
                part = e.apply("Mul", [part, e.scalar(factor, accumulator)])
            total = part if total is None else e.apply("Add", [total, part])
    assert total is not None
    return total


def _pieces(
    e: Writer, name: str, bound: int, bits: int, accumulator: Element
) -> list[tuple[str, int]]:
    """x = Σ piece·2^shift with |piece| ≤ 2^bits, the pieces as float32."""
    rest = name
    pieces: list[tuple[str, int]] = []
    shift = 0
    while bound > 1 << bits:
        rest = e.cast(rest, accumulator)
        base = e.scalar(1 << bits, accumulator)
        low = e.apply("Mod", [rest, base])
        pieces.append((e.cast(low, Element.FLOAT), shift))
        rest = e.apply("Div", [e.apply("Sub", [rest, low]), base])
        bound = -(-bound >> bits)
        shift += bits
    return [*pieces, (e.cast(rest, Element.FLOAT), shift)]
