"""An integer program cut into layers, each a program `@forward` of its own, and their circuits.

A layer begins where a product or a pooling takes the one value that crosses: behind the thresholds
or the requantisation of the layer before. Where more than one value crosses (a residual sum,
branches that meet again) nothing is cut, so that such a block is one layer.

The circuit of a layer is made as the whole program's is. Bounds go from layer to layer: what
interval analysis states for the results of one is noted on the arguments of the next. Layers take
and give plain numbers: where the whole circuit leaves a sign or a constant to the layer behind, a
layer by itself adds it. Not here: whether the circuits are right (`tools.layer_verification`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, is_float
from ...dialects.spike.types import dense_type
from ...dialects.traits import MovesElements, has
from ...ir.errors import UnsupportedError
from ...ir.identifiers import free_name
from ...ir.interpreter import entry_function
from ...ir.value_names import NAME_ATTRIBUTE
from ...passes.adder_graph import InputRange
from ...passes.adder_graph.optimize_adder_graph import WEIGHT_ATTRIBUTE, input_range
from ...passes.analysis.argument_bounds import ArgumentBounds, note_bounds
from ...passes.analysis.compile_time import is_literal, literal_value
from ...passes.analysis.layers import is_layer, layer_name, weight_of
from ...passes.expose_trains import TIMED
from ..stages import run_stages
from .circuit.circuit_rules import holds_integers
from .circuit.evaluation import identifier, layer_identifier
from .circuit.folding.measuring import conversion_pass
from .circuit.interface import Interface, Port, noted_interface
from .circuit.stages.partition import is_timed
from .circuit.structure import check_structure
from .options import VerilogOptions
from .printer import check_printable, modules, verilog
from .stages import circuit_options, circuit_stage, integer_stages


@dataclass(frozen=True)
class Layer:
    """One layer of a program.

    Attributes:
        name: from its weights, as in the circuit; of several products joined by `+`.
        ops: what it does, in order, without the names of dialects.
        module: the program, `@forward` from `takes` to `gives`.
        takes: the numbers of the values that it takes; the program's arguments come first.
        gives: of those that it gives.
    """

    name: str
    ops: tuple[str, ...]
    module: ModuleOp
    takes: tuple[int, ...]
    gives: tuple[int, ...]


@dataclass(frozen=True)
class Layers:
    """A program as a chain of layers.

    Attributes:
        layers: each after those that it takes values from.
        results: the numbers of the values that the program returns.
        values: of the program, by number.
    """

    layers: tuple[Layer, ...]
    results: tuple[int, ...]
    values: tuple[SSAValue, ...]


def cut_layers(module: ModuleOp, *, whole: bool = False) -> Layers:
    """The layers of the function `@forward`, of one block; the module stays as it is.

    Args:
        module: the program.
        whole: whether it is to be one layer, as it is where there is no place to cut.
    """
    cutting = _Cutting(module)
    ops = cutting.ops
    cuts = [] if whole else [index for index in range(1, len(ops)) if _is_cut(ops, index)]
    ends = zip([0, *cuts], [*cuts, len(ops)], strict=True)
    layers = tuple(cutting.layer(ops[first:last]) for first, last in ends)
    numbers = cutting.numbers
    results = tuple(numbers[value] for value in cutting.returned if value in numbers)
    return Layers(layers, results, tuple(numbers))


def _is_cut(ops: Sequence[Operation], index: int) -> bool:
    """Whether a layer begins with the op at an index."""
    op = ops[index]
    begins = is_layer(op) or isinstance(op, tensor.MaxPoolOp | tensor.PadToOp)
    if not begins or not any(is_layer(earlier) for earlier in ops[:index]):
        return False
    before = op.operands[0].owner
    if isinstance(before, tensor.PadToOp) and not isinstance(op, tensor.PadToOp):
        return False  # the padding begins the layer
    crossing = _crossing(ops, index)
    return (
        crossing == {op.operands[0]}
        and isinstance(op.operands[0].type, TensorType)
        and holds_integers(op.operands[0])
    )


def _crossing(ops: Sequence[Operation], index: int) -> set[SSAValue]:
    """The values from before an op that it or later ones take."""
    later = set(ops[index:])
    return {value for op in later for value in _taken(op) if value.owner not in later}


def _taken(op: Operation) -> list[SSAValue]:
    """The values that an op and those in its regions take from around it; no literals."""
    return [value for value in _captured(op) if not is_literal(value.owner)]


def _captured(op: Operation) -> list[SSAValue]:
    """The values that an op and those in its regions take from around it."""
    values = [value for inner in op.walk() for value in inner.operands]
    return [value for value in values if not op.is_ancestor(value.owner)]


def _timed_values(function: FuncOp, ops: Sequence[Operation]) -> set[SSAValue]:
    """The values whose first axis is time, from the arguments that `expose-trains` marked."""
    values = set[SSAValue](x for x in function.args if is_timed(function, x.index))
    for op in ops:
        if isinstance(op, spike.NeuronOp):
            values.add(op.output)
        elif isinstance(op, spike.EncodeOp):
            values.add(op.result)
        else:
            taken = [value for value in op.operands if value in values]
            values.update(result for result in op.results if _keeps_time(taken, result))
    return values


def _keeps_time(operands: Sequence[SSAValue], result: SSAValue) -> bool:
    """Whether a result runs over the steps of an operand."""
    shape = dense_type(result).get_shape() if operands else ()
    shapes = [dense_type(value).get_shape() for value in operands]
    return any(len(each) == len(shape) and each[:1] == shape[:1] for each in shapes)


class _Cutting:
    """Makes layers of the ops of a program, one after another."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.function = entry_function(module, "forward")
        *self.ops, last = (op for op in self.function.body.block.ops if not is_literal(op))
        assert isinstance(last, ReturnOp)
        self.returned = list(last.operands)
        self.numbers: dict[SSAValue, int] = {}
        self.numbers |= {value: number for number, value in enumerate(self.function.args)}
        self.names: set[str] = set()
        self.timed = _timed_values(self.function, self.ops)

    def layer(self, ops: Sequence[Operation]) -> Layer:
        """The layer of some ops; its name is like no other one."""
        inside = set(ops)
        taken = (value for op in ops for value in _taken(op) if value.owner not in inside)
        takes = list(dict.fromkeys(taken))
        holder = self.function.body.block.find_ancestor_op_in_block
        gives = [
            value
            for op in ops
            for value in op.results
            if any(holder(use.operation) not in inside for use in value.uses)
        ]
        for value in gives:
            self.numbers[value] = len(self.numbers)
        self.names.add(name := free_name(_name(ops), self.names, first=2))
        return Layer(
            name,
            tuple(word for op in ops for word in _words(op)),
            self._module(identifier(name), ops, takes, gives),
            tuple(self.numbers[value] for value in takes),
            tuple(self.numbers[value] for value in gives),
        )

    def _module(
        self,
        name: str,
        ops: Sequence[Operation],
        takes: Sequence[SSAValue],
        gives: Sequence[SSAValue],
    ) -> ModuleOp:
        block = Block(arg_types=[value.type for value in takes])
        mapped: dict[SSAValue, SSAValue] = dict(zip(takes, block.args, strict=True))
        for old, new in zip(takes, block.args, strict=True):
            new.name_hint = old.name_hint
        for op in ops:
            for value in _captured(op):
                literal = value.owner
                if value not in mapped and is_literal(literal):
                    block.add_op(literal.clone(mapped))
            block.add_op(op.clone(mapped))
        block.add_op(ReturnOp(*(mapped[value] for value in gives)))
        types = [value.type for value in takes], [value.type for value in gives]
        function = FuncOp("forward", types, Region(block))
        function.arg_attrs = ArrayAttr([self._attributes(value) for value in takes])
        function.res_attrs = ArrayAttr([self._attributes(value) for value in gives])
        whole = self.module.sym_name.data if self.module.sym_name else "network"
        return ModuleOp(
            [function],
            attributes=dict(self.module.attributes),
            sym_name=StringAttr(f"{whole}_{name}"),
        )

    def _attributes(self, value: SSAValue) -> DictionaryAttr:
        """Of a value at the edge of a layer: those of the program's edge, and whether it runs."""
        entries: dict[str, Attribute] = {}
        if isinstance(value, BlockArgument) and self.function.arg_attrs is not None:
            entries |= self.function.arg_attrs.data[value.index].data
        elif value in self.returned and self.function.res_attrs is not None:
            index = self.returned.index(value)
            entries |= self.function.res_attrs.data[index].data
        if NAME_ATTRIBUTE not in entries and value.name_hint is not None:
            entries[NAME_ATTRIBUTE] = StringAttr(value.name_hint)
        if value in self.timed:
            entries[TIMED] = UnitAttr()
        return DictionaryAttr(entries)


def _words(op: Operation) -> Iterator[str]:
    """What an op does, step by step."""
    yield op.name.partition(".")[2]
    if isinstance(op, tensor.ConvOp | tensor.LinearOp) and op.bias is not None:
        yield "add"
    if isinstance(op, ternary.FusedOp):
        steps = {
            "add": op.bias is not None,
            op.activation.data: op.activation.data != "none",
            "multi_threshold": op.thresholds is not None,
            "requantize": op.multiplier is not None,
        }
        yield from (name for name, there in steps.items() if there)


def _name(ops: Sequence[Operation]) -> str:
    """Of a layer: by its products, or by what it does."""
    names = list(dict.fromkeys(_product_names(ops)))
    if names:
        return "+".join(names)
    doing = [op for op in ops if not has(op, MovesElements)] or ops
    return identifier(doing[0].results[0].name_hint or doing[0].name.rpartition(".")[2])


def _product_names(ops: Sequence[Operation]) -> Iterator[str]:
    for op in ops:
        if not is_layer(op):
            continue
        weight = weight_of(op)
        key = op.attributes.get(WEIGHT_ATTRIBUTE)
        if isinstance(key, StringAttr):
            yield layer_identifier(key.data)
        elif literal_value(weight) is not None:
            yield layer_identifier(layer_name(op) or op.results[0].name_hint or "product")


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
