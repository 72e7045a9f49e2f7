"""The stages of the parts of a program with trains, connected.

Not here: which parts there are (`timed`), what is refused (`spiking`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from .....dialects import spike, tensor, ternary
from .....dialects.shapes import DYNAMIC
from .....dialects.spike.types import dense_type
from .....passes.analysis.compile_time import literal_value
from ..arrays import array_of
from ..circuit_rules import Signals
from ..evaluation import check_range, layer_identifier, words
from ..signals import Signal
from .arithmetic import ArithmeticStage
from .building import Building, Elements
from .neuron_rules import neuron_rules
from .neurons import membrane_stage, neuron_stage
from .partition import Part
from .products import ImageOp, convolved, largest, times_matrix
from .recurrence import scan_stage
from .stage import Layout, Stage
from .steps import delay_stage, last_stage, repeat_stage
from .timed import read_as, truth_values
from .train_images import (
    gathered_step,
    image_neuron_stage,
    step_gather_stage,
    step_positions,
    step_scatter_stage,
    step_window_stage,
)


class TimedBuilding(Building):
    """Makes the network of a partition with neurons."""

    def _stage(self, part: Part, layout: Layout, elements: Elements) -> tuple[Stage, Elements]:
        if part.kind == "window" and isinstance(part.ops[0], ImageOp):
            op = part.ops[0]
            name = self._unique(f"{self._layer(op)}_window")
            stage = step_window_stage(name, op, layout, self.options.pacing)
            return stage, {op.result: list(range(len(stage.outputs[0].bounds)))}
        (source, value), *_ = part.sources
        if part.kind == "gather" and part.spatial:
            stage = step_gather_stage(self._unique("gather"), layout, part.beats)
            return stage, {value: gathered_step(value, elements[value], len(layout.bounds))}
        if part.kind == "scatter" and source.spatial:
            places = step_positions(value, elements[value])
            stage = step_scatter_stage(self._unique("scatter"), layout, places)
            return stage, {value: list(range(len(places[0])))}
        if part.kind == "accumulate" and isinstance(part.ops[0], spike.ScanOp):
            return self._loop(part, part.ops[0], layout, elements)
        if part.kind != "accumulate" or not isinstance(part.ops[0], _STEPWISE):
            stage, places_of = super()._stage(part, layout, elements)
            if part.kind == "accumulate":
                places_of = dict.fromkeys(places_of, elements[value])
            return stage, places_of
        (op,), ((_, value),) = part.ops, part.sources
        (result,) = part.exports
        layer = self.names.of(op)
        self.names.note(op, layer)
        self.names.note(result.owner if isinstance(result.owner, Operation) else op, layer)
        places = elements[value]
        own = list(range(len(places)))
        source = f"{op.name} of {len(places)}"
        match op:
            case spike.NeuronOp() if len(part.spatial) > 1:
                name = self._unique(f"{layer}_neurons")
                stage = self._image_neurons(name, layer, op, part, layout, places)
            case spike.NeuronOp() if result in op.final:
                name = self._unique(f"{layer}_membrane")
                state = next(k for k, value in enumerate(op.final) if value is result)
                rules = neuron_rules(op)
                stage = membrane_stage(name, layer, source, layout, places, rules, state)
            case spike.NeuronOp():
                name = self._unique(f"{layer}_neurons")
                stage = neuron_stage(name, layer, source, layout, places, neuron_rules(op))
            case spike.DelayOp():
                name = self._unique(f"{layer}_delay")
                stage = delay_stage(name, layer, layout, places, _delays(op))
            case spike.EncodeOp():
                assert op.timesteps is not None
                name = self._unique(f"{layer}_repeat")
                stage, own = repeat_stage(name, layout, op.timesteps.value.data), places
            case _:
                stage, own = last_stage(self._unique(f"{layer}_last"), layout), places
        return stage, {result: own}

    def _layer(self, op: Operation) -> str:
        """The name of the layer of an op on images: that of its weights."""
        owner = op.weight.owner if isinstance(op, spike.ConvOp) else None
        if isinstance(owner, tensor.ParameterOp | ternary.ParameterOp):
            return layer_identifier(owner.key.data)
        return self.names.of(op)

    def _image_neurons(
        self,
        name: str,
        layer: str,
        op: spike.NeuronOp,
        part: Part,
        layout: Layout,
        places: Sequence[int],
    ) -> Stage:
        """Neurons that are the same at all positions; at a single one there is no RAM."""
        steps = part.grid[0]
        rules = neuron_rules(op)[:: layout.beats // steps]
        source = f"{op.name} of {len(places)} at {layout.beats // steps} positions"
        if layout.beats == steps:
            return neuron_stage(name, layer, source, layout, places, rules)
        return image_neuron_stage(name, layer, source, layout, places, rules, steps)

    def _on_window(self, writer: ArithmeticStage, op: ImageOp, window: Sequence[Signal]) -> Signals:
        """An op on images at one position."""
        layer = self._layer(op)
        self.names.note(op, layer)
        writer.circuit.begin(layer, f"{op.name} of {len(window)} elements")
        channels = dense_type(op.result).get_shape()[2]
        if isinstance(op, spike.MaxPoolOp):
            flat = largest(writer.circuit, window, channels)
        else:
            flat = convolved(writer.circuit, op, window, self.options.search)
            bias = None if op.bias is None else literal_value(op.bias)
            offsets = np.broadcast_to(np.zeros(1) if bias is None else bias, channels)
            flat = [x.plus(int(offset)) for x, offset in zip(flat, offsets, strict=True)]
        rank = dense_type(op.result).get_num_dims()
        result = array_of(flat, (1, 1, channels, *[1] * (rank - 3)))
        if isinstance(op, spike.ConvOp):
            check_range(op, op.result, result)
        return result

    def _loop(
        self, part: Part, op: spike.ScanOp, layout: Layout, elements: Elements
    ) -> tuple[Stage, Elements]:
        """A loop over steps; its results are read as tensors, or as trains by other loops."""
        layer = self.names.of(op)
        self.names.note(op, layer)
        runs = [elements[read_as(value)] for value in op.runs]
        stage, places = scan_stage(
            self._unique(f"{layer}_loop"), op, layout, runs, self.names, self.options.search
        )
        every: Elements = {}
        for value, own in zip(op.outputs, places, strict=True):
            every |= dict.fromkeys((value, *truth_values(value)), own)
        for value in every:
            if isinstance(value.owner, Operation):
                self.names.note(value.owner, layer)
        return stage, {value: every[value] for value in part.exports}

    def _evaluated(
        self,
        writer: ArithmeticStage,
        op: Operation,
        values: dict[SSAValue, Signals],
        windows: dict[Operation, list[Signal]],
        part: Part,
    ) -> Sequence[Signals]:
        if isinstance(op, ImageOp):
            return [self._on_window(writer, op, windows[op])]
        if isinstance(op, tensor.ConvertOp | spike.ToTensorOp):
            name = self.names.of(op)
            self.names.note(op, name)
            check_range(op, op.result, values[op.operand])
            return [values[op.operand]]
        if not isinstance(op, tensor.MatmulOp):
            return super()._evaluated(writer, op, values, windows, part)
        name = self.names.of(op)
        self.names.note(op, name)
        writer.circuit.begin(name, words(op))
        x, matrix = values[op.lhs], literal_value(op.rhs)
        assert matrix is not None
        rows = [
            times_matrix(writer.circuit, list(row), matrix.astype(np.int64), self.options.search)
            for row in x.reshape(-1, x.shape[-1])
        ]
        flat = [signal for row in rows for signal in row]
        result = array_of(flat, (*x.shape[:-1], matrix.shape[1]))
        check_range(op, op.result, result)
        return [result]


_STEPWISE = spike.NeuronOp | spike.DelayOp | spike.EncodeOp | tensor.SliceOp


def _delays(op: spike.DelayOp) -> list[int]:
    """The steps by which each element of a step is late."""
    shape = [1 if n == DYNAMIC else n for n in dense_type(op.input).get_shape()[1:]]
    steps = op.steps.value.data
    delays = np.asarray(steps) if op.delays is None else literal_value(op.delays)
    assert delays is not None
    return [int(n) for n in np.broadcast_to(delays, shape).reshape(-1)]
