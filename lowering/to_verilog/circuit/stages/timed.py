"""Which parts a program of trains falls into: a beat is a step, a frame the steps of a sample.

Time is the axis that positions run over; for images of spikes a beat is a position of a step, step
by step. Neurons, delays, loops, the last step and repetitions are parts of their own; all else is
as in `partition`.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from .....dialects import spike, tensor
from .....dialects.inference import tensor_type
from .....dialects.spike.types import dense_type
from .....dialects.tensor.shape import SLICE_END
from .....passes.expose_trains import TIMED
from .neuron_rules import neuron_rules
from .partition import Part, Partition
from .positions import Spatial
from .products import ImageOp


def is_timed(function: func.FuncOp, index: int) -> bool:
    """Whether the first axis of an argument is time, as `expose-trains` noted."""
    attributes = function.arg_attrs
    if not isinstance(attributes, ArrayAttr):
        return False
    return TIMED in attributes.data[index].data


def takes_last_step(op: Operation) -> bool:
    """Whether an op cuts out the last step of a run, and all of that."""
    if not isinstance(op, tensor.SliceOp):
        return False
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


class TimedPartition(Partition):
    """The parts of a function with trains, each after those that it takes values from."""

    def _arguments(self, function: func.FuncOp) -> None:
        self._steps: dict[SSAValue, Part] = {}
        images = any(isinstance(op, ImageOp) for op in function.body.block.ops)
        part = self._new("arithmetic", (), ())
        for index, argument in enumerate(function.args):
            if is_timed(function, index):
                over = over_images if images and holds_images(argument) else over_steps
                part.spatial, part.grid = over(argument)
            self._home[argument] = part
            part.take(self._input, argument)
            if not part.spatial:
                self._whole[argument] = part
        self._input.spatial, self._input.grid = part.spatial, part.grid

    def _place(self, op: Operation) -> None:
        match op:
            case spike.NeuronOp():
                self._neurons(op)
            case spike.ScanOp():
                self._loop(op)
            case spike.ConvOp() | spike.MaxPoolOp():
                self._windows(op)
            case spike.ToTensorOp() if op.result in self._home:
                pass
            case spike.ToTensorOp() if op.operand in self._home:
                self._append(op, self._home[op.operand], [op.operand], self._home)
            case spike.FromTensorOp():
                pass  # loops read what it is made of
            case spike.DelayOp():
                home = self._on_steps(op.input)
                self._alone(op, home, op.input, op.output, home.spatial, home.grid)
            case spike.EncodeOp():
                self._gathered(op.operand)
                home = self._whole[op.operand]
                self._alone(op, home, op.operand, op.result, *over_steps(op.result))
            case tensor.MatmulOp() if op.lhs in self._home and -1 not in self._home[op.lhs].spatial:
                self._append(op, self._home[op.lhs], [op.lhs], self._home)
            case tensor.SliceOp() if op.operand in self._home and takes_last_step(op):
                home = self._home[op.operand]
                if home.spatial != over_steps(op.operand)[0] or not home.spatial:
                    super()._place(op)
                else:
                    self._alone(op, home, op.operand, op.result, (), ())
            case tensor.FlattenOp() | tensor.ReshapeToOp() if self._keeps_steps(op):
                self._by_step(op)
            case tensor.ReduceSumOp() if self._sums_steps(op):
                self._by_step(op)
            case _:
                super()._place(op)

    def _keeps_steps(self, op: tensor.FlattenOp | tensor.ReshapeToOp) -> bool:
        """Whether an op moves positions of an image that is there position by position."""
        if isinstance(op, tensor.FlattenOp):
            keeps = op.start.value.data >= 2
        else:
            keeps = op.shape.get_values()[:2] == (-2, -3)
        home = self._home.get(op.operand)
        return keeps and home is not None and len(home.spatial) > 1

    def _sums_steps(self, op: tensor.ReduceSumOp) -> bool:
        """Whether an op adds the steps of an image that is there position by position."""
        home = self._home.get(op.operand)
        rank = dense_type(op.operand).get_num_dims()
        axes = {axis % rank for axis in op.axes.get_values()}
        return home is not None and len(home.spatial) > 1 and axes == {0}

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

    def _windows(self, op: ImageOp) -> None:
        """What looks at several positions of a step around each."""
        value = read_as(op.operands[0])
        home = self._on_positions(value)
        part = self._new("window", *over_images(op.result))
        part.ops.append(op)
        part.take(home, value)
        over = self._over(part, op.result)
        over.ops.append(op)
        self._home[op.result] = over

    def _neurons(self, op: spike.NeuronOp) -> None:
        """Neurons whose spikes are read, and those whose last potentials are."""
        read_last = any(value.first_use is not None for value in op.final)
        home = self._home[op.input]
        if read_last or len(home.spatial) < 2 or not is_shared(op):
            home = self._on_steps(op.input)
        read = [op.output] if op.output.first_use is not None else []
        for value in truth_values(op.output) or read:
            self._alone(op, home, op.input, value, home.spatial, home.grid)
        for value in op.final:
            if value.first_use is not None:
                self._alone(op, home, op.input, value, (), ())

    def _loop(self, op: spike.ScanOp) -> None:
        """A loop over steps takes runs step by step, and gives some."""
        runs = [read_as(value) for value in op.runs]
        homes = [self._on_steps(value) for value in runs]
        part = self._new("accumulate", *over_steps(op.runs[0]))
        part.ops.append(op)
        for home, value in zip(homes, runs, strict=True):
            part.take(home, value)
        for output in op.outputs:
            for value in truth_values(output) or [output]:
                self._home[value] = self._over(part, value)

    def _alone(
        self,
        op: Operation,
        home: Part,
        value: SSAValue,
        result: SSAValue,
        spatial: Spatial,
        grid: tuple[int, ...],
    ) -> None:
        """A part of one op, which takes one value and gives one."""
        part = self._new("accumulate", spatial, grid)
        part.ops.append(op)
        part.take(home, value)
        over = self._over(part, result)
        self._home[result] = over
        if not spatial:
            self._whole[result] = over

    def _on_steps(self, value: SSAValue) -> Part:
        """A part that has a value step by step."""
        spatial, grid = over_steps(value)
        home = self._home[value]
        if spatial and len(home.spatial) > 1:
            if value not in self._steps:
                part = self._new("gather", spatial, grid)
                part.take(home, value)
                self._steps[value] = self._over(part, value)
            return self._steps[value]
        if home.spatial != spatial:
            self._gathered(value)
            if spatial:
                scatter = self._new("scatter", spatial, grid)
                scatter.take(self._whole[value], value)
                self._home[value] = self._over(scatter, value)
            else:
                self._home[value] = self._whole[value]
        return self._home[value]

    def _on_positions(self, value: SSAValue) -> Part:
        """A part that has the images of a train position by position."""
        spatial, grid = over_images(value)
        if self._home[value].spatial != spatial:
            steps = self._on_steps(value)
            scatter = self._new("scatter", spatial, grid)
            scatter.take(steps, value)
            self._home[value] = self._over(scatter, value)
        return self._home[value]


def holds_images(value: SSAValue) -> bool:
    """Whether a step has axes behind that of channels."""
    return dense_type(value).get_num_dims() > 3


def over_images(value: SSAValue) -> tuple[Spatial, tuple[int, ...]]:
    """Time and the axes behind the channels, and how many positions they have."""
    shape = dense_type(value).get_shape()
    rank = len(shape)
    return (-rank, *range(3 - rank, 0)), (shape[0], *shape[3:])


def is_shared(op: spike.NeuronOp) -> bool:
    """Whether the neurons of a channel are the same at all positions."""
    channels = dense_type(op.input).get_shape()[2]
    rules = neuron_rules(op)
    positions = len(rules) // channels
    return all(
        len(set(rules[start : start + positions])) == 1 for start in range(0, len(rules), positions)
    )


def over_steps(value: SSAValue) -> tuple[Spatial, tuple[int, ...]]:
    """The axis of a run that positions run over, and how many; none for a single step."""
    type = dense_type(value)
    steps = type.get_shape()[0]
    return ((), ()) if steps == 1 else ((-type.get_num_dims(),), (steps,))


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
