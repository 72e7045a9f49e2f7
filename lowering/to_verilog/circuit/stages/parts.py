"""A part of a program, and where the positions of its values are.

Axes that positions run over are counted from the last one, -1. Of an image they are those behind
the channels; of a run of steps it is time, the first one; of a run of images both. Not here: which
parts a program falls into (`partition`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from .....dialects import spike, tensor
from .....dialects.inference import tensor_type
from .....dialects.shapes import DYNAMIC
from .....dialects.spike.types import dense_type
from .....dialects.tensor.shape import SLICE_END
from ..arrays import Reduction
from .neuron_rules import neuron_rules
from .positions import Spatial
from .products import WindowOp

Kind = Literal[
    "input", "window", "gather", "scatter", "accumulate", "stepwise", "arithmetic", "product",
    "output",
]  # fmt: skip


@dataclass(eq=False)
class Part:
    """One part of a program.

    Attributes:
        kind: what it does. `stepwise` are neurons, delays, loops, the last step and repetitions.
        spatial: the axes of its result that positions run over, counted from the last one, -1;
            none where a beat is all of a frame.
        grid: how many positions on each of them.
        sources: the values that it takes, and from which part.
        ops: of an arithmetic part, in order; the op of any other; a product that takes several
            cycles a beat and the ops that its stage computes besides.
        exports: the values that it gives to other parts. A window gives the result of its op.
    """

    kind: Kind
    spatial: Spatial
    grid: tuple[int, ...]
    sources: list[tuple[Part, SSAValue]] = field(default_factory=list["tuple[Part, SSAValue]"])
    ops: list[Operation] = field(default_factory=list[Operation])
    exports: list[SSAValue] = field(default_factory=list[SSAValue])

    @property
    def beats(self) -> int:
        """Of a frame."""
        return prod(self.grid)

    def take(self, part: Part, value: SSAValue) -> None:
        """Take a value of another part."""
        if (part, value) not in self.sources:
            self.sources.append((part, value))
        if value not in part.exports:
            part.exports.append(value)


def shortened(parts: list[Part]) -> list[Part]:
    """Without the arithmetic parts that do nothing and take from one part."""
    needed: list[Part] = []
    for part in parts:
        for index, (source, value) in enumerate(list(part.sources)):
            if source.kind == "arithmetic" and source not in needed:
                ((maker, _),) = [s for s in source.sources if s[1] is value]
                part.sources[index] = (maker, value)
                if value not in maker.exports:
                    maker.exports.append(value)
        makers = {source for source, _ in part.sources}
        if part.kind != "arithmetic" or part.ops or len(makers) > 1:
            needed.append(part)
            continue
        for source, value in part.sources:
            if value not in part.exports:
                source.exports.remove(value)
    return needed


def image_values(function: func.FuncOp) -> set[SSAValue]:
    """Values that windows are made of, and what they are made of position by position."""
    images: set[SSAValue] = set()
    for op in reversed(list(function.body.block.ops)):
        if isinstance(op, WindowOp):
            images.add(op.operands[0])
        for result in op.results:
            if result in images and not isinstance(op, WindowOp):
                rank = tensor_type(result).get_num_dims()
                images.update(v for v in op.operands if tensor_type(v).get_num_dims() == rank)
    ranks = {tensor_type(value).get_num_dims() for value in images}
    for argument in function.args:
        if tensor_type(argument).get_num_dims() == 4 and 4 in ranks:
            images.add(argument)
    return images


def is_pointwise(op: WindowOp) -> bool:
    """Whether an op looks at each position alone."""
    if isinstance(op, tensor.PadToOp):
        return not any((*op.low.get_values()[2:], *op.high.get_values()[2:]))
    kernel = (
        op.kernel.get_values()
        if isinstance(op, tensor.MaxPoolOp)
        else tensor_type(op.weight).get_shape()[2:]
    )
    ones = (*kernel, *op.strides.get_values())
    return all(n == 1 for n in ones) and not any(op.padding.get_values())


def over_image(value: SSAValue) -> tuple[Spatial, tuple[int, ...]]:
    """The axes of an image behind the channels, and how many positions they have."""
    shape = tensor_type(value).get_shape()
    spatial = tuple(range(2 - len(shape), 0)) if len(shape) > 2 else ()
    return spatial, tuple(shape[axis] if shape[axis] != DYNAMIC else 1 for axis in spatial)


def over_images(value: SSAValue) -> tuple[Spatial, tuple[int, ...]]:
    """Time and the axes behind the channels, and how many positions they have."""
    shape = dense_type(value).get_shape()
    rank = len(shape)
    return (-rank, *range(3 - rank, 0)), (shape[0], *shape[3:])


def over_steps(value: SSAValue) -> tuple[Spatial, tuple[int, ...]]:
    """The axis of a run that positions run over, and how many; none for a single step."""
    type = dense_type(value)
    steps = type.get_shape()[0]
    return ((), ()) if steps == 1 else ((-type.get_num_dims(),), (steps,))


def reduced_axes(op: Reduction) -> set[int]:
    """The axes of a reduction, counted from the last one."""
    rank = tensor_type(op.operands[0]).get_num_dims()
    return {axis % rank - rank for axis in op.axes.get_values()}


def takes_last_step(op: tensor.SliceOp) -> bool:
    """Whether an op cuts out the last step of a run, and all of that."""
    shape = tensor_type(op.operand).get_shape()
    cuts = zip(
        shape, op.starts.get_values(), op.ends.get_values(), op.steps.get_values(), strict=True
    )
    (steps, start, end, stride), *rest = cuts
    whole = all(cut[0] == 0 and cut[1] in (SLICE_END, size) for size, *cut in rest)
    strides = all(by == 1 for by in op.steps.get_values())
    return (
        whole and strides and stride == 1 and start in (-1, steps - 1) and end in (SLICE_END, steps)
    )


def is_shared(op: spike.NeuronOp) -> bool:
    """Whether the neurons of a channel are the same at all positions."""
    channels = dense_type(op.input).get_shape()[2]
    rules = neuron_rules(op)
    positions = len(rules) // channels
    return all(
        len(set(rules[start : start + positions])) == 1 for start in range(0, len(rules), positions)
    )


def read_as(value: SSAValue) -> SSAValue:
    """What takes the place of a train or a tensor."""
    if isinstance(value.owner, spike.FromTensorOp):
        return value.owner.operand
    if isinstance(value.owner, spike.MaxPoolOp):
        return value
    return next(iter(truth_values(value)), value)


def truth_values(train: SSAValue) -> list[SSAValue]:
    """What a train of neurons, or a run that a loop gives, is read as."""
    readers = [use.operation for use in train.uses]
    return [reader.results[0] for reader in readers if isinstance(reader, spike.ToTensorOp)]
