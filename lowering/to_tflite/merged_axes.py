"""Neighbouring axes as one, for kernels that take few axes.

XNNPACK refuses a whole file whose sums, maxima, means, joints or softmax have more than 6 axes, and
LiteRT pads 5. Not here: in which order axes are stored (`layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Protocol

from ...dialects.shapes import DYNAMIC, Shape
from ..emission import Inexpressible
from .graph import Tensor

MOST_AXES = 6
"""Of operands of XNNPACK's kernels."""


class Reshapes(Protocol):
    """What writes a RESHAPE."""

    def reshape(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """`tensor` in another shape, of which one size may be `DYNAMIC`."""
        ...


def on_merged_axes(
    e: Reshapes,
    tensors: Sequence[Tensor],
    shape: Shape,
    axes: Collection[int],
    kernel: Callable[[list[Tensor], list[list[int]]], Tensor],
    *,
    together: bool = False,
) -> Tensor:
    """What a kernel gives for tensors in which neighbouring axes outside of `axes` are one.

    Args:
        tensors: of one rank.
        shape: of the result.
        axes: that the kernel works on; each stays alone, or neighbours are one if `together`.
        kernel: takes the tensors and which axes each of theirs is made of.

    Raises:
        Inexpressible: more than `MOST_AXES` are left, or several sizes that are not known.
    """
    runs: list[list[int]] = []
    for axis in range(tensors[0].rank):
        works = axis in axes
        if runs and works == (runs[-1][0] in axes) and (together or not works):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    merged = [merged_sizes(tensor.shape, runs) for tensor in tensors]
    frees = [sizes.count(DYNAMIC) for sizes in (shape, *merged)]
    if len(runs) > MOST_AXES or max(frees) > 1:
        rank = tensors[0].rank
        raise Inexpressible(
            f"LiteRT has no kernel for {rank} axes, and they are not {MOST_AXES} with one free size"
        )
    flat = [e.reshape(tensor, sizes) for tensor, sizes in zip(tensors, merged, strict=True)]
    return e.reshape(kernel(flat, runs), shape)


def merged_sizes(shape: Shape, runs: Sequence[Sequence[int]]) -> Shape:
    """The size of each run of axes."""
    groups = [[shape[axis] for axis in run] for run in runs]
    return tuple(DYNAMIC if DYNAMIC in sizes else prod(sizes) for sizes in groups)
