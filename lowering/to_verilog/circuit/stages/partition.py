"""Which parts a program falls into, and which values go from part to part.

Ops that work on one position of an image, one step or one vector at a time form *arithmetic* parts;
what mixes positions or steps stands between them. An op joins the newest part among those of its
operands, so that beats go from older parts to newer ones alone. In a program with trains time is an
axis that positions run over: a frame is the steps of a sample. Not here: the stages of the parts
(`building`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from .....dialects import spike, tensor
from .....dialects.spike.types import dense_type
from .....passes.analysis.compile_time import is_literal, literal_value
from .....passes.analysis.layers import input_of
from .....passes.expose_trains import TIMED
from ..arrays import Reduction
from ..folding.forms import has_form
from ..folding.layers import ProductOp, absorbed
from .parts import (
    Kind,
    Part,
    image_values,
    is_pointwise,
    is_shared,
    over_image,
    over_images,
    over_steps,
    read_as,
    reduced_axes,
    shortened,
    takes_last_step,
    truth_values,
)
from .positions import Spatial, broadcasts, carried, is_uniform
from .products import ImageOp, WindowOp, absorbed_padding

Place = tuple[Spatial, tuple[int, ...]]
"""The axes that positions run over, and how many there are on each."""

_WHOLE: Place = (), ()
"""All of a frame in one beat."""


def is_timed(function: func.FuncOp, index: int) -> bool:
    """Whether the first axis of an argument is time, as `expose-trains` noted."""
    attributes = function.arg_attrs
    return isinstance(attributes, ArrayAttr) and TIMED in attributes.data[index].data


def has_trains(function: func.FuncOp) -> bool:
    """Whether a program has ops of `spike`, or steps that come one by one."""
    timed = any(is_timed(function, index) for index in range(len(function.args)))
    return timed or any(op.name.startswith("spike.") for op in function.body.walk())


class Partition:
    """The parts of a function, each after those that it takes values from.

    Attributes:
        parts: the first one is the input, the last one the output.
        timed: whether the program has trains.
    """

    def __init__(self, function: func.FuncOp) -> None:
        self.parts: list[Part] = []
        self.timed = has_trains(function)
        self._home: dict[SSAValue, Part] = {}
        self._whole: dict[SSAValue, Part] = {}
        self._steps: dict[SSAValue, Part] = {}
        self._absorbed: set[Operation] = set()
        self._input = self._new("input", _WHOLE)
        self._arguments(function)
        for op in function.body.block.ops:
            if isinstance(op, func.ReturnOp):
                self._return(op)
            elif not is_literal(op) and op not in self._absorbed and not self._stepwise(op):
                self._place(op)
        self.parts = shortened(self.parts)

    @property
    def is_one_piece(self) -> bool:
        """Whether a frame is a beat, with nothing but arithmetic between input and output."""
        return all(
            part.beats == 1 and part.kind in ("input", "arithmetic", "output")
            for part in self.parts
        )

    def _arguments(self, function: func.FuncOp) -> None:
        images = set[SSAValue]() if self.timed else image_values(function)
        looked_at = any(isinstance(op, ImageOp) for op in function.body.block.ops)
        part = self._new("arithmetic", _WHOLE)
        for index, argument in enumerate(function.args):
            place = over_image(argument) if argument in images else _WHOLE
            if is_timed(function, index):
                of_images = looked_at and dense_type(argument).get_num_dims() > 3
                place = over_images(argument) if of_images else over_steps(argument)
            elif prod(place[1]) == 1:
                place = _WHOLE
            part.spatial, part.grid = self._input.spatial, self._input.grid = place
            self._home[argument] = part
            part.take(self._input, argument)

    def _new(self, kind: Kind, place: Place) -> Part:
        part = Part(kind, *place)
        self.parts.append(part)
        return part

    def _over(self, part: Part, value: SSAValue) -> Part:
        """An arithmetic part that takes a value from a part of another kind."""
        home = self._new("arithmetic", (part.spatial, part.grid))
        home.take(part, value)
        return home

    def _via(
        self,
        kind: Kind,
        home: Part,
        value: SSAValue,
        place: Place,
        op: Operation | None = None,
    ) -> Part:
        """An arithmetic part behind one of another kind that takes a value.

        It has the result of the op; without an op, the value.
        """
        part = self._new(kind, place)
        part.take(home, value)
        if op is None:
            return self._over(part, value)
        part.ops.append(op)
        result = op.results[0]
        self._home[result] = self._over(part, result)
        return self._home[result]

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
        spatial = homes[0].spatial
        if isinstance(op, Reduction) and spatial and reduced_axes(op) == set(spatial):
            self._accumulate(op)
            return
        if len({(home.spatial, home.grid) for home in homes}) == 1:
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

    def _stepwise(self, op: Operation) -> bool:
        """Place an op on trains, or one that takes steps one by one; whether it is one."""
        home = self._home.get(op.operands[0]) if self.timed and op.operands else None
        of_images = home is not None and len(home.spatial) > 1
        match op:
            case spike.NeuronOp():
                self._neurons(op)
            case spike.ScanOp():
                self._loop(op)
            case spike.ConvOp() | spike.MaxPoolOp():
                value = read_as(op.operands[0])
                place = over_images(op.result)
                self._via("window", self._on_positions(value), value, place, op).ops.append(op)
            case spike.FromTensorOp():
                pass  # loops read what it is made of
            case spike.ToTensorOp():
                if op.result not in self._home and home is not None:
                    self._append(op, home, [op.operand], self._home)
            case spike.DelayOp():
                home = self._on_steps(op.input)
                self._via("stepwise", home, op.input, (home.spatial, home.grid), op)
            case spike.EncodeOp():
                home = self._gathered(op.operand)
                self._via("stepwise", home, op.operand, over_steps(op.result), op)
            case tensor.SliceOp() if home is not None and home.spatial and takes_last_step(op):
                if home.spatial != over_steps(op.operand)[0]:
                    return False
                self._via("stepwise", home, op.operand, _WHOLE, op)
            case tensor.FlattenOp() if of_images and op.start.value.data >= 2:
                self._by_step(op)
            case tensor.ReshapeToOp() if of_images and op.shape.get_values()[:2] == (-2, -3):
                self._by_step(op)
            case tensor.ReduceSumOp() if of_images and reduced_axes(op) == {
                -dense_type(op.operand).get_num_dims()
            }:
                self._by_step(op)
            case _:
                return False
        return True

    def _by_step(self, op: tensor.FlattenOp | tensor.ReshapeToOp | tensor.ReduceSumOp) -> None:
        """An op that takes all positions of a step at once."""
        steps = self._on_steps(op.operand)
        home, self._home[op.operand] = self._home[op.operand], steps
        if isinstance(op, tensor.ReduceSumOp) and steps.spatial:
            self._accumulate(op)
        else:
            self._append(op, steps, [op.operand], self._home)
            if steps.spatial:
                self._moved(op, steps, over_steps(op.result)[0])
        self._home[op.operand] = home

    def _neurons(self, op: spike.NeuronOp) -> None:
        """Neurons whose spikes are read, and those whose last potentials are."""
        read_last = any(value.first_use is not None for value in op.final)
        home = self._home[op.input]
        if read_last or len(home.spatial) < 2 or not is_shared(op):
            home = self._on_steps(op.input)
        read = [op.output] if op.output.first_use is not None else []
        for value in truth_values(op.output) or read:
            self._alone(op, home, value, (home.spatial, home.grid))
        for value in op.final:
            if value.first_use is not None:
                self._alone(op, home, value, _WHOLE)

    def _alone(self, op: spike.NeuronOp, home: Part, result: SSAValue, place: Place) -> None:
        """Neurons of which one result is read."""
        part = self._new("stepwise", place)
        part.ops.append(op)
        part.take(home, op.input)
        self._home[result] = self._over(part, result)

    def _loop(self, op: spike.ScanOp) -> None:
        """A loop over steps takes runs step by step, and gives some."""
        runs = [read_as(value) for value in op.runs]
        homes = [self._on_steps(value) for value in runs]
        part = self._new("stepwise", over_steps(op.runs[0]))
        part.ops.append(op)
        for home, value in zip(homes, runs, strict=True):
            part.take(home, value)
        for output in op.outputs:
            for value in truth_values(output) or [output]:
                self._home[value] = self._over(part, value)

    def _on_steps(self, value: SSAValue) -> Part:
        """A part that has a value step by step."""
        place, home = over_steps(value), self._home[value]
        if place[0] and len(home.spatial) > 1:
            if value not in self._steps:
                self._steps[value] = self._via("gather", home, value, place)
            return self._steps[value]
        if home.spatial != place[0]:
            home = self._gathered(value)
            self._home[value] = self._via("scatter", home, value, place) if place[0] else home
        return self._home[value]

    def _on_positions(self, value: SSAValue) -> Part:
        """A part that has the images of a train position by position."""
        place = over_images(value)
        if self._home[value].spatial != place[0]:
            self._home[value] = self._via("scatter", self._on_steps(value), value, place)
        return self._home[value]

    def _needs_window(self, op: WindowOp) -> bool:
        """Whether an op is not one of each position by itself, as it is there."""
        if absorbed_padding(op) is not None:
            return True
        return not is_pointwise(op) or self._is_misplaced(op.operands[0])

    @staticmethod
    def _is_absorbed(op: Operation) -> bool:
        """Whether the op's only user pads by itself."""
        users = [use.operation for result in op.results for use in result.uses]
        return any(isinstance(u, WindowOp) and absorbed_padding(u) is op for u in users)

    def _is_misplaced(self, value: SSAValue) -> bool:
        """Whether an image is not there position by position."""
        spatial, grid = over_image(value)
        return self._home[value].spatial != spatial and prod(grid) > 1

    def _moved(self, op: Operation, home: Part, after: Spatial) -> None:
        """The results of an op lie on other axes: they are in a part of their own."""
        for result in op.results:
            other = self._new("arithmetic", (after, home.grid))
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

    def _gathered(self, value: SSAValue) -> Part:
        """A part that has a value with all its positions in one beat."""
        if value not in self._whole:
            home = self._home[value]
            self._whole[value] = self._via("gather", home, value, _WHOLE) if home.spatial else home
        return self._whole[value]

    def _window(self, op: WindowOp) -> None:
        pad = absorbed_padding(op)
        value = op.operands[0] if pad is None else pad.operands[0]
        place = over_image(value)
        if self._is_misplaced(value):
            self._home[value] = self._via("scatter", self._gathered(value), value, place)
        grid = over_image(op.results[0])[1]
        after = _WHOLE if prod(grid) == 1 else (place[0], grid)
        self._via("window", self._home[value], value, after, op).ops.append(op)

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
            home = self._home[value] if isinstance(op, WindowOp) else self._gathered(value)
            part = self._new("product", (home.spatial, home.grid))
            part.take(home, value)
            part.ops = ops
        (result,) = ops[-1].results
        self._home[result] = self._over(part, result)

    def _accumulate(self, op: Reduction) -> None:
        self._via("accumulate", self._home[op.operands[0]], op.operands[0], _WHOLE, op)

    def _return(self, op: func.ReturnOp) -> None:
        placed = [value for value in op.operands if value in self._home]
        if len({self._home[value].grid for value in placed}) > 1:
            for value in placed:
                self._home[value] = self._gathered(value)
        first = self._home[placed[0]] if placed else self._input
        part = self._new("output", (first.spatial, first.grid))
        for value in placed:
            part.take(self._home[value], value)
