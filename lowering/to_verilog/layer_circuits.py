"""The circuit of each layer of a program, made as the whole program's circuit is.

Bounds go from layer to layer: what interval analysis states for the results of one is noted on the
arguments of the next. Layers take and give plain numbers: where the whole circuit leaves a sign or
a constant to the layer behind, a layer by itself adds it. Not here: where layers begin (`layers`),
and whether the circuits are right (`tools.layer_verification`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, is_float
from ...ir.errors import UnsupportedError
from ...ir.interpreter import entry_function
from ...passes.adder_graph import InputRange
from ...passes.adder_graph.optimize_adder_graph import input_range
from ...passes.analysis.argument_bounds import ArgumentBounds, note_bounds
from ..stages import run_stages
from .circuit.folding.measuring import conversion_pass
from .circuit.interface import Interface, Port, noted_interface
from .circuit.structure import check_structure
from .layers import Layer, cut_layers
from .options import VerilogOptions
from .printer import check_printable, modules, verilog
from .stages import circuit_options, circuit_stage, integer_stages


@dataclass(frozen=True)
class LayerCircuit:
    """A layer and its circuit.

    Attributes:
        layer: as a program.
        interface: of the circuit.
        rtl: its Verilog, by file name.
        hardware: the same as `hw`, `comb` and `seq`.
    """

    layer: Layer
    interface: Interface
    rtl: Mapping[str, str]
    hardware: ModuleOp


class LayerCircuits:
    """The circuits of a program's layers.

    Args:
        module: the program; it stays as it is.
        options: of the target; those about the whole (device, test bench) have no effect here.
        whole: whether the program is one layer.

    Attributes:
        layers: in order.
        inputs: the program's arguments, as streams carry them.
        results: the numbers of the values that the program returns.

    Raises:
        OptionError: an option is out of its range.
        UnsupportedError: ops that cannot become hardware, those of all layers.
        PassError: a pass refuses.
    """

    def __init__(self, module: ModuleOp, options: VerilogOptions, *, whole: bool = False) -> None:
        work, options = module.clone(), replace(options, reloadable=None)
        run_stages(work, integer_stages(options))
        cut = cut_layers(work, whole=whole)
        self.layers, self.results = cut.layers, cut.results
        self._options = replace(options, input_bits=None, stream_width=None)
        self._ranges = [_range(value) for value in cut.values]
        self._bounds = {
            number: ArgumentBounds(
                integers, np.full(size, integers.low), np.full(size, integers.high)
            )
            for number, integers in enumerate(self._ranges)
            if integers is not None and (size := _size(cut.values[number]))
        }
        self._modules = [layer.module.clone() for layer in self.layers]
        self._check()
        conversion = conversion_pass(circuit_options(options)).conversion(work)
        count = len(entry_function(work, "forward").args)
        self.inputs = tuple(map(conversion.input_port, range(count)))
        for number, port in enumerate(self.inputs):
            self._note(number, port)

    def _check(self) -> None:
        """Refuse what cannot become hardware, in all layers."""
        conversion = conversion_pass(circuit_options(self._options))
        problems: list[tuple[str, str, str]] = []
        for layer, work in zip(self.layers, self._modules, strict=True):
            self._give_bounds(layer, work)
            try:
                conversion.conversion(work).check()
            except UnsupportedError as error:
                problems += error.problems
        if problems:
            raise UnsupportedError("verilog", problems)

    def _give_bounds(self, layer: Layer, work: ModuleOp) -> None:
        function = entry_function(work, "forward")
        for index, number in enumerate(layer.takes):
            if number in self._bounds:
                note_bounds(function, index, self._bounds[number])

    def _note(self, number: int, port: Port) -> None:
        integers = self._ranges[number]
        assert integers is not None
        self._bounds[number] = ArgumentBounds(integers, *port.frame_bounds())

    def __iter__(self) -> Iterator[LayerCircuit]:
        """The circuits, made one after another.

        Raises:
            UnsupportedError: a number would wrap around in its type.
        """
        hardware = circuit_stage(self._options)
        for layer, work in zip(self.layers, self._modules, strict=True):
            hardware_module = work.clone()
            self._give_bounds(layer, hardware_module)
            run_stages(hardware_module, [hardware])
            interface = noted_interface(hardware_module)
            for number, port in zip(layer.gives, interface.outputs, strict=True):
                self._note(number, port)
            parts = modules(hardware_module)
            check_printable(parts)
            check_structure(hardware_module, interface.name, interface.streams)
            rtl = {f"{m.sym_name.data}.v": verilog(m) for m in parts}
            yield LayerCircuit(layer, interface, rtl, hardware_module)


def _range(value: SSAValue) -> InputRange | None:
    """The integers that a value can hold by who made it; `None` for other values."""
    if not isinstance(value.type, TensorType) or is_float(tensor_type(value)):
        return None
    return input_range(value)


def _size(value: SSAValue) -> int:
    """The elements of a frame."""
    return prod(1 if n == DYNAMIC else n for n in tensor_type(value).get_shape())
