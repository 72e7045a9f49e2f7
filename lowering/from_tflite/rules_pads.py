"""TFLite import of pads, and of blocks of an image that become samples."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..from_onnx.rules_shape import check_size, counted, take
from ..from_onnx.sizes import Free, static
from ..ir_builder import padded
from ..problems import ProblemError
from .tflite_builder import Builder, Node, Rule, is_real


def _pad(e: Builder, node: Node) -> SSAValue:
    x = node[0]
    pads = _pads(e, node)
    fill = 0.0
    if node.optional(2) is not None:
        fill = e.array(node[2], "fill").reshape(-1)[0]
    elif not is_real(x) and node.stored[0] is not None and node.stored[0].integers is not None:
        fill = node.scales(0).zero
    return permuted_pads(e, x, [low for low, _ in pads], [high for _, high in pads], fill)


def _pads(e: Builder, node: Node) -> list[tuple[int, int]]:
    flat, rank = e.int_list(node[1], "pads"), e.rank(node[0])
    if len(flat) != 2 * rank or min(flat, default=0) < 0:
        raise ProblemError(f"it has the pads {flat} for {rank} axes")
    check_size([size + 1 for size in flat])
    fixed = [n for n in e.sizes(node[0]) if not isinstance(n, Free)]
    check_size([n + sum(flat) for n in fixed])
    return list(zip(flat[::2], flat[1::2], strict=True))


def permuted_pads(
    e: Builder, x: SSAValue, low: list[int], high: list[int], fill: float
) -> SSAValue:
    """`padded`, before a permutation."""
    if (before := e.permuted(x)) is None:
        return padded(e, x, low, high, fill)
    source, perm = before
    inner = [[sides[perm.index(axis)] for axis in range(len(perm))] for sides in (low, high)]
    return e.permute(padded(e, source, inner[0], inner[1], fill), perm)


def _mirror_pad(e: Builder, node: Node) -> SSAValue:
    mode = ("reflect", "symmetric")[node.integer("mode") & 1]
    x = node[0]
    for axis, (before, behind) in enumerate(_pads(e, node)):
        if before == behind == 0:
            continue
        (size,) = static([e.sizes(x)[axis]], "size along a padded axis")
        if max(before, behind) > size - (mode == "reflect"):
            raise ProblemError(f"it mirrors {before} and {behind} of {size} elements")
        places = np.pad(counted(size), (before, behind), mode)
        x = take(e, x, axis, places)
    return x


def _space_to_batch(e: Builder, node: Node) -> SSAValue:
    """Blocks of an image become samples, their place in the block the outer index."""
    x = node[0]
    blocks, pads = e.int_list(node[1], "blocks"), e.int_list(node[2], "pads")
    count = len(blocks)
    low, high = [0] * e.rank(x), [0] * e.rank(x)
    if len(pads) != 2 * count or min((*pads, *(n - 1 for n in blocks))) < 0:
        raise ProblemError(f"it has blocks {blocks} and pads {pads}")
    low[1 : 1 + count], high[1 : 1 + count] = pads[::2], pads[1::2]
    x = permuted_pads(e, x, low, high, node.scales(0).zero if node.is_quantized else 0)
    batch, *rest = e.sizes(x)
    image = static(rest[:count], "image")
    if any(size % block for size, block in zip(image, blocks, strict=True)):
        raise ProblemError(f"an image of {image} has no blocks of {blocks}")
    apart = [n for s, b in zip(image, blocks, strict=True) for n in (s // b, b)]
    x = e.reshape(x, (batch, *apart, *rest[count:]))
    inner = [2 + 2 * axis for axis in range(count)]
    outer = [1 + 2 * axis for axis in range(count)]
    x = e.permute(x, [*inner, 0, *outer, *range(1 + 2 * count, e.rank(x))])
    wanted = [size // block for size, block in zip(image, blocks, strict=True)]
    return e.reshape(x, (batch * int(np.prod(blocks)), *wanted, *rest[count:]))


def _batch_to_space(e: Builder, node: Node) -> SSAValue:
    """The way back; then `crops` are cut away."""
    x = node[0]
    blocks, crops = e.int_list(node[1], "blocks"), e.int_list(node[2], "crops")
    count, (batch, *rest) = len(blocks), e.sizes(x)
    if len(crops) != 2 * count or min((*crops, *(n - 1 for n in blocks))) < 0:
        raise ProblemError(f"it has blocks {blocks} and crops {crops}")
    each = int(np.prod(blocks))
    if not isinstance(batch, Free) and batch % each:
        raise ProblemError(f"{batch} samples are no blocks of {blocks}")
    samples = batch // each
    x = e.reshape(x, (*blocks, samples, *rest))
    mixed = [n for axis in range(count) for n in (count + 1 + axis, axis)]
    x = e.permute(x, [count, *mixed, *range(2 * count + 1, e.rank(x))])
    image = [size * block for size, block in zip(rest[:count], blocks, strict=True)]
    x = e.reshape(x, (samples, *image, *rest[count:]))
    for axis in range(count):
        low, high = crops[2 * axis : 2 * axis + 2]
        if low or high:
            x = e.cut(x, 1 + axis, low, -high if high else tensor.shape.SLICE_END)
    return x


RULES: dict[str, Rule] = {
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "MIRROR_PAD": _mirror_pad,
    "PAD": _pad,
    "PADV2": _pad,
    "SPACE_TO_BATCH_ND": _space_to_batch,
}
"""By the name of the operator; all move integers on grids as they are."""
