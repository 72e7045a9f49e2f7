"""A function on images as a network of stages, with AXI streams around it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from .....dialects import tensor, ternary
from .....dialects.inference import tensor_type
from .....dialects.shapes import DYNAMIC
from .....ir.errors import UnsupportedError
from .....ir.locations import location_text
from .....passes.analysis.compile_time import is_literal
from ..circuit_rules import FLOATS, holds_integers
from ..conversion import Conversion, distinct, is_known
from ..evaluation import LayerNames
from ..folding.forms import has_form
from ..pacing import Pacing
from ..ports import Port
from ..stream import frame_stream_module, word_stream_module
from .building import Bounds, Building, BuildOptions
from .partition import Part, Partition, WindowOp
from .products import Search
from .splitting import split_convolutions


def needs_stages(function: func.FuncOp) -> bool:
    """Whether a program looks at several positions of an image around each, or is folded."""
    return any(isinstance(op, WindowOp) or has_form(op) for op in function.body.walk())


class FrameConversion(Conversion):
    """Makes the modules of one function that works on images.

    Args:
        module: holds the function.
        function: integer, of one block.
        input_bits: of inputs of integer type; by default those of the type.
        pacing: where registers are wanted.
        search: how adders are searched for.
        word: bits of a word of the streams; 0 where a word is a beat.
    """

    def __init__(
        self,
        module: ModuleOp,
        function: func.FuncOp,
        input_bits: int | None,
        pacing: Pacing,
        search: Search,
        word: int = 0,
    ) -> None:
        super().__init__(module, function, input_bits, pacing)
        self.options = BuildOptions(pacing, search, word)

    def refusal(self, op: Operation) -> str | None:
        """Why an op cannot become hardware; `None` if it can."""
        if has_form(op) and isinstance(op, ternary.MatmulOp | tensor.MatmulOp):
            return None
        if not isinstance(op, WindowOp):
            return super().refusal(op)
        if not holds_integers(op.operands[0]):
            return FLOATS
        rank = tensor_type(op.operands[0]).get_num_dims()
        if rank not in (3, 4):
            return "only images of one or two axes become streams"
        if isinstance(op, ternary.ConvOp | tensor.ConvOp) and not all(
            is_known(value) for value in op.operands[1:]
        ):
            return "its weights and parameters must be constants with values"
        if isinstance(op, tensor.PadToOp) and any(
            side.get_values()[0] for side in (op.low, op.high)
        ):
            return "padding of the batch"
        return None

    def convert(self) -> list[Operation]:
        """The modules: those of the stages, the network, the streams around it."""
        split_convolutions(self.function)
        _erase_unused(self.function)
        self._check_frames()
        partition = self.partition()
        ports = [self.input_port(index) for index in range(len(self.function.args))]
        first, last = partition.parts[0], partition.parts[-1]
        inputs = [_as_frames(port, first) for port in ports]
        names = LayerNames({a: p.name for a, p in zip(self.function.args, inputs, strict=True)})
        bounds: dict[SSAValue, Bounds] = {
            a: p.bounds for a, p in zip(self.function.args, inputs, strict=True)
        }
        returned = self.function.body.block.last_op
        assert isinstance(returned, func.ReturnOp)
        building = self.building(partition, bounds, names)
        network, elements = building.build(returned.operands)
        outputs: list[Port] = []
        order: list[int] = []
        for index, (value, places) in enumerate(zip(returned.operands, elements, strict=True)):
            order += places
            ends = tuple(building.results.bounds[place] for place in places)
            outputs.append(replace(self.output_port(index, value, ends), axes=_axes(value, last)))
        self.inputs = distinct(inputs, set())
        self.outputs = distinct(outputs, {port.name for port in self.inputs})
        self.layers = list(network.layers)
        self.latency, self.interval = network.schedule.latency, network.schedule.interval
        self.beats = first.beats, last.beats
        channels, inner = (network.input, network.output), network.modules[-1].sym_name.data
        self.framings = building.framings
        if self.framings:
            top = word_stream_module(self.name, inner, self.framings, network.schedule)
        else:
            top = frame_stream_module(self.name, inner, channels, network.schedule, order)
        return [*network.modules, top]

    def partition(self) -> Partition:
        """The parts of the function."""
        return Partition(self.function)

    def building(
        self, partition: Partition, inputs: dict[SSAValue, Bounds], names: LayerNames
    ) -> Building:
        """What makes their stages."""
        return Building(self.modules, partition, inputs, names, self.options)

    def _check_frames(self) -> None:
        """Refuse programs whose images do not come one after another."""
        problems: list[tuple[str, str, str]] = []
        place = location_text(self.function)
        types = [tensor_type(argument) for argument in self.function.args]
        if any(type.get_shape()[:1] not in ((DYNAMIC,), (1,)) for type in types):
            problems.append(("func.func", place, "a batch of images must be free or 1"))
        if len({type.get_shape()[2:] for type in types}) > 1:
            problems.append(
                ("func.func", place, "inputs of different sizes come in different beats")
            )
        returned = self.function.body.block.last_op
        assert returned is not None
        if any(is_literal(value.owner) for value in returned.operands):
            problems.append(("func.return", location_text(returned), "a result is a constant"))
        if problems:
            raise UnsupportedError("verilog", problems)


def _erase_unused(function: func.FuncOp) -> None:
    for op in reversed(list(function.body.block.ops)):
        if op.results and not any(result.first_use for result in op.results):
            function.body.block.erase_op(op)


def _axes(value: SSAValue, part: Part) -> tuple[int, ...]:
    rank = tensor_type(value).get_num_dims()
    return tuple(axis + rank for axis in part.spatial)


def _as_frames(port: Port, part: Part) -> Port:
    """A port whose frame comes in several beats: the bounds are those of a beat."""
    axes = tuple(axis + len(port.shape) for axis in part.spatial)
    ends = np.moveaxis(np.reshape(port.bounds, (*port.shape, 2)), axes, range(len(axes)))
    ends = ends.reshape(part.beats, -1, 2)
    low, high = ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)
    bounds = tuple(zip(low.tolist(), high.tolist(), strict=True))
    return replace(port, axes=axes, bounds=bounds)
