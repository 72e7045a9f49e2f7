"""A function as a circuit: stages, and AXI4-Streams around them.

A program that is one piece of arithmetic is a single stage, of which only the pipeline is needed.
Not here: which parts there are (`stages.partition`), what is refused (`refusals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....dialects.inference import tensor_type
from ....ir.errors import OptionError
from .evaluation import LayerNames
from .folding.forms import has_form
from .framing import Framing
from .interface import Interface
from .loading import Loads
from .module_names import ModuleNames
from .modules import AnyModule
from .pipeline import Core
from .ports import Port, argument_port, distinct, result_port
from .refusals import check_frames, check_program
from .stages.building import Bounds, Building, BuildOptions
from .stages.credits import credit_stage
from .stages.partition import Partition, has_trains
from .stages.products import WindowOp
from .stages.schedule import Node, Schedule, schedule
from .stream import frame_stream_module, stream_module, word_stream_module

_Made = tuple[Sequence[AnyModule], Schedule, tuple[Port, ...], tuple[Port, ...]]
"""Modules, their timing, and what goes in and out."""

_PIECE = 32
"""Bits of what is loaded at once, but where words of streams are bytes."""


@dataclass
class Conversion:
    """Makes the modules of one function.

    Args:
        input_bits: of inputs of integer type; by default those of the type.

    Attributes:
        name: of the module with the streams.
        loads: what can be loaded into it, if anything.
    """

    module: ModuleOp
    function: func.FuncOp
    input_bits: int | None
    options: BuildOptions
    loads: Loads | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.modules = ModuleNames(self.module)
        self.name = self.modules.top

    def check(self) -> None:
        """Refuse what cannot become hardware, everything at once.

        Raises:
            UnsupportedError: names each op and why.
        """
        check_program(self.function, self.input_bits)

    def input_port(self, index: int) -> Port:
        """What comes in for an argument, all of it in one beat."""
        return argument_port(self.function, index, self.input_bits)

    def convert(self) -> tuple[Sequence[AnyModule], Interface]:
        """The modules, the last with the streams around all others, and what they are outside."""
        function, word = self.function, self.options.word
        _erase_unused(function)
        if word or _has_frames(function):
            check_frames(function)
        partition = Partition(function)
        first, last = partition.parts[0], partition.parts[-1]
        ports = [self.input_port(index) for index in range(len(function.args))]
        ports = [port.over(first.spatial, first.beats) for port in ports]
        names = LayerNames({a: p.name for a, p in zip(function.args, ports, strict=True)})
        bounds: dict[SSAValue, Bounds] = {
            a: p.bounds for a, p in zip(function.args, ports, strict=True)
        }
        returned = function.body.block.last_op
        assert isinstance(returned, func.ReturnOp)
        building = Building(self.modules, partition, bounds, names, self.options)
        whole = partition.is_one_piece
        made = self._pipeline if whole else self._network
        modules, timing, inputs, outputs = made(building, ports, returned)
        interface = Interface(
            self.name,
            timing.latency,
            timing.interval,
            first.beats,
            last.beats,
            bool(word) or not whole,
            self.options.pacing.levels,
            word,
            inputs,
            outputs,
            self.loads.bits if self.loads else 0,
        )
        return modules, interface

    def _pipeline(self, building: Building, ports: list[Port], returned: func.ReturnOp) -> _Made:
        """A pipeline, and the streams around it."""
        results = [
            result_port(self.function, index, value, ())
            for index, value in enumerate(returned.operands)
        ]
        inputs, results = _named(ports, results, {"clock", "enable"})
        core = building.core(
            dict(zip((port.name for port in inputs), self.function.args, strict=True)),
            dict(zip((port.name for port in results), returned.operands, strict=True)),
            self.modules.new(f"{self.name}_core"),
        )
        outputs = tuple(port.within(core.outputs[port.name].bounds) for port in results)
        if self.options.word:
            return *self._in_words(core, inputs, outputs), inputs, outputs
        modules = [core.module, stream_module(self.name, core, inputs)]
        return modules, Schedule(core.latency, 1), inputs, outputs

    def _in_words(
        self, core: Core, inputs: Sequence[Port], outputs: Sequence[Port]
    ) -> tuple[list[AnyModule], Schedule]:
        """The streams of words around a pipeline."""
        bits = [sum(sum(port.widths) for port in of) for of in (inputs, outputs)]
        given, taken = (Framing(self.options.word, size, 1) for size in bits)
        name = self.modules.new(f"{self.name}_words")
        stage = credit_stage(name, core, inputs, (given, taken))
        timing = schedule([Node(stage.handshake, (0,), (1,))], 0, 1, taken.words)
        around = word_stream_module(self.name, stage.module, (given, taken), timing)
        return [*stage.parts, stage.module, around], timing

    def _network(self, building: Building, ports: list[Port], returned: func.ReturnOp) -> _Made:
        """The stages, the network, the streams around it."""
        network, timing, elements = building.build(returned.operands)
        outputs: list[Port] = []
        order: list[int] = []
        for index, (value, places) in enumerate(zip(returned.operands, elements, strict=True)):
            order += places
            ends = [building.results.bounds[place] for place in places]
            rank = tensor_type(value).get_num_dims()
            axes = tuple(axis + rank for axis in building.parts[-1].spatial)
            outputs.append(replace(result_port(self.function, index, value, ends), axes=axes))
        if building.framings:
            if network.loads:
                self.loads = Loads(network.loads, 8 if self.options.word == 8 else _PIECE)
            top = word_stream_module(
                self.name, network.module, building.framings, timing, self.loads
            )
        elif network.loads:
            raise OptionError(
                "weights are loaded into circuits with words: give stream-width, ip or board too"
            )
        else:
            top = frame_stream_module(self.name, network, timing, order)
        return [*network.parts, network.module, top], timing, *_named(ports, outputs, set())


def _named(
    inputs: Sequence[Port], outputs: Sequence[Port], taken: set[str]
) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Ports each of which has a name of its own."""
    named = distinct([*inputs, *outputs], taken)
    return tuple(named[: len(inputs)]), tuple(named[len(inputs) :])


def _has_frames(function: func.FuncOp) -> bool:
    """Whether a frame may come in several beats, or take several cycles."""
    staged = any(isinstance(op, WindowOp) or has_form(op) for op in function.body.walk())
    return staged or has_trains(function)


def _erase_unused(function: func.FuncOp) -> None:
    for op in reversed(list(function.body.block.ops)):
        if op.results and not any(result.first_use for result in op.results):
            function.body.block.erase_op(op)
