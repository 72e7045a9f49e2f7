"""Which parts a program falls into, and which values go from part to part.

Ops that work on one position of an image at a time, or on one vector, form *arithmetic* parts; what
mixes positions stands between them. An op joins the newest part among those of its operands, so
that beats go from older parts to newer ones alone. Not here: the stages of the parts (`building`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from .....dialects import tensor
from .....dialects.inference import tensor_type
from .....dialects.shapes import DYNAMIC
from .....passes.analysis.compile_time import is_literal, literal_value
from .....passes.analysis.layers import input_of
from ..arrays import Reduction
from ..folding.forms import has_form
from ..folding.layers import ProductOp, absorbed
from .positions import Spatial, broadcasts, carried, is_uniform
from .products import WindowOp, absorbed_padding

Kind = Literal[
    "input", "window", "gather", "scatter", "accumulate", "arithmetic", "product", "output"
]


@dataclass(eq=False)
class Part:
    """One part of a program.

    Attributes:
        kind: what it does.
        spatial: the axes of its result that positions run over, counted from the last one, -1;
            none where a beat is all of a frame.
        grid: how many positions on each of them.
        sources: the values that it takes, and from which part.
        ops: of an arithmetic part, in order; the op of a window or an accumulation; a product
            that takes several cycles a beat and the ops that its stage computes besides.
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


class Partition:
    """The parts of a function, each after those that it takes values from."""

    def __init__(self, function: func.FuncOp) -> None:
        self.parts: list[Part] = []
        self._home: dict[SSAValue, Part] = {}
        self._whole: dict[SSAValue, Part] = {}
        self._absorbed: set[Operation] = set()
        self._images = _image_values(function)
        self._input = Part("input", (), ())
        self.parts.append(self._input)
        self._arguments(function)
        for op in function.body.block.ops:
            if isinstance(op, func.ReturnOp):
                self._return(op)
            elif not is_literal(op) and op not in self._absorbed:
                self._place(op)
        self.parts = _shortened(self.parts)

    def _arguments(self, function: func.FuncOp) -> None:
        part = self._new("arithmetic", (), ())
        for argument in function.args:
            spatial = _spatial(argument) if argument in self._images else ()
            grid = _grid(argument, spatial)
            if prod(grid) == 1:
                spatial, grid = (), ()
            part.spatial, part.grid = self._input.spatial, self._input.grid = spatial, grid
            self._home[argument] = part
            part.take(self._input, argument)

    def _new(self, kind: Kind, spatial: Spatial, grid: tuple[int, ...]) -> Part:
        part = Part(kind, spatial, grid)
        self.parts.append(part)
        return part

    def _over(self, part: Part, value: SSAValue) -> Part:
        """An arithmetic part that takes a value from a part of another kind."""
        home = self._new("arithmetic", part.spatial, part.grid)
        home.take(part, value)
        return home

    def _place(self, op: Operation) -> None:
        placed = [value for value in op.operands if value in self._home]
        if not placed:
            return
        if self._is_absorbed(op):
            self._home[op.results[0]] = self._home[placed[0]]
            return
        if has_form(op):
            self._product(op)
            return
        if isinstance(op, WindowOp) and self._needs_window(op):
            self._window(op)
            return
        homes = [self._home[value] for value in placed]
        spatials = {home.spatial for home in homes}
        grids = {home.grid for home in homes}
        spatial = homes[0].spatial
        if isinstance(op, Reduction) and spatial and _reduces(op) == set(spatial):
            self._accumulate(op)
            return
        if len(spatials) == 1 and len(grids) == 1:
            after = carried(op, spatial)
            if after is not None and self._fits(op, spatial):
                home = max(homes, key=self.parts.index)
                self._append(op, home, placed, self._home)
                if after != spatial:
                    self._moved(op, home, after)
                return
        for value in placed:
            self._gathered(value)
        home = max((self._whole[value] for value in placed), key=self.parts.index)
        self._append(op, home, placed, self._whole)

    def _needs_window(self, op: WindowOp) -> bool:
        """Whether an op is not one of each position by itself, as it is there."""
        if absorbed_padding(op) is not None:
            return True
        return not _is_pointwise(op) or self._is_misplaced(op.operands[0])

    @staticmethod
    def _is_absorbed(op: Operation) -> bool:
        """Whether the op's only user pads by itself."""
        users = [use.operation for result in op.results for use in result.uses]
        return any(isinstance(u, WindowOp) and absorbed_padding(u) is op for u in users)

    def _is_misplaced(self, value: SSAValue) -> bool:
        """Whether an image is not there position by position."""
        spatial = _spatial(value)
        return self._home[value].spatial != spatial and prod(_grid(value, spatial)) > 1

    def _moved(self, op: Operation, home: Part, after: Spatial) -> None:
        """The results of an op lie on other axes: they are in a part of their own."""
        for result in op.results:
            other = self._new("arithmetic", after, home.grid)
            other.take(home, result)
            self._home[result] = other

    def _fits(self, op: Operation, spatial: Spatial) -> bool:
        """Whether the known operands of an op are the same at all positions."""
        if not broadcasts(op):
            return True
        known = [value for value in op.operands if value not in self._home]
        return all(is_uniform(literal_value(value), spatial) for value in known)

    def _append(
        self, op: Operation, home: Part, placed: Sequence[SSAValue], at: dict[SSAValue, Part]
    ) -> None:
        for value in placed:
            if at[value] is not home:
                home.take(at[value], value)
        home.ops.append(op)
        for result in op.results:
            self._home[result] = home
            if not home.spatial:
                self._whole[result] = home

    def _gathered(self, value: SSAValue) -> None:
        """See to it that a value is there with all its positions in one beat."""
        home = self._home[value]
        if value in self._whole:
            return
        if not home.spatial:
            self._whole[value] = home
            return
        part = self._new("gather", (), ())
        part.take(home, value)
        self._whole[value] = self._over(part, value)

    def _window(self, op: WindowOp) -> None:
        pad = absorbed_padding(op)
        value = op.operands[0] if pad is None else pad.operands[0]
        home = self._home[value]
        spatial = _spatial(value)
        if self._is_misplaced(value):
            self._gathered(value)
            scatter = self._new("scatter", spatial, _grid(value, spatial))
            scatter.take(self._whole[value], value)
            self._home[value] = home = self._over(scatter, value)
        (result,) = op.results
        grid = _grid(result, _spatial(result))
        after, grid = ((), ()) if prod(grid) == 1 else (spatial, grid)
        part = self._new("window", after, grid)
        part.ops.append(op)
        part.take(home, value)
        over = self._over(part, result)
        over.ops.append(op)
        self._home[result] = over

    def _product(self, op: ProductOp) -> None:
        """A product that takes several cycles a beat, and what its stage computes besides."""
        ops: list[Operation] = [op, *absorbed(op)]
        self._absorbed.update(ops[1:])
        if isinstance(op, WindowOp) and self._needs_window(op):
            self._window(op)
            part = self._home[op.result]
            part.kind, part.ops = "product", ops
        else:
            value = input_of(op)
            if not isinstance(op, WindowOp):
                self._gathered(value)
            home = (self._home if isinstance(op, WindowOp) else self._whole)[value]
            part = self._new("product", home.spatial, home.grid)
            part.take(home, value)
            part.ops = ops
        (result,) = ops[-1].results
        self._home[result] = self._over(part, result)
        if not part.spatial:
            self._whole[result] = self._home[result]

    def _accumulate(self, op: Reduction) -> None:
        (value,), (result,) = op.operands, op.results
        part = self._new("accumulate", (), ())
        part.ops.append(op)
        part.take(self._home[value], value)
        self._home[result] = self._over(part, result)

    def _return(self, op: func.ReturnOp) -> None:
        forms = {self._home[v].grid for v in op.operands if v in self._home}
        if len(forms) > 1:
            for value in op.operands:
                self._gathered(value)
                self._home[value] = self._whole[value]
        first = self._home[op.operands[0]]
        part = self._new("output", first.spatial, first.grid)
        for value in op.operands:
            part.take(self._home[value], value)


def _shortened(parts: list[Part]) -> list[Part]:
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


def _image_values(function: func.FuncOp) -> set[SSAValue]:
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


def _is_pointwise(op: WindowOp) -> bool:
    """Whether an op looks at each position alone."""
    if isinstance(op, tensor.PadToOp):
        return not any((*op.low.get_values(), *op.high.get_values()))
    kernel = (
        op.kernel.get_values()
        if isinstance(op, tensor.MaxPoolOp)
        else tensor_type(op.weight).get_shape()[2:]
    )
    ones = (*kernel, *op.strides.get_values())
    return all(n == 1 for n in ones) and not any(op.padding.get_values())


def _spatial(value: SSAValue) -> Spatial:
    rank = tensor_type(value).get_num_dims()
    return tuple(range(2 - rank, 0)) if rank > 2 else ()


def _grid(value: SSAValue, spatial: Spatial) -> tuple[int, ...]:
    shape = tensor_type(value).get_shape()
    return tuple(shape[axis] if shape[axis] != DYNAMIC else 1 for axis in spatial)


def _reduces(op: Reduction) -> set[int]:
    rank = tensor_type(op.operands[0]).get_num_dims()
    return {axis % rank - rank for axis in op.axes.get_values()}
