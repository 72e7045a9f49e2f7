"""A function, op by op, as a circuit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np
from xdsl.dialects import func, hw, seq
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue, TypeAttribute

from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.shapes import DYNAMIC, AnyTensor
from ....ir.errors import OptionError, UnsupportedError
from ....ir.locations import location_text
from ....ir.printing import value_name
from ....ir.value_names import argument_names
from ....passes.adder_graph import InputRange
from ....passes.adder_graph.graph import width_of
from ....passes.adder_graph.optimize_adder_graph import input_range
from ....passes.analysis.argument_bounds import noted_bounds
from ....passes.analysis.compile_time import is_literal, literal_value
from ....passes.quantize_activations.expose_integers import QUANTIZED
from ....passes.streamline.streamline import STAYS
from .arithmetic import end_of, packed, plain, unpacked
from .arrays import array_of
from .circuit import Circuit
from .circuit_rules import FLOATS, FLOATS_HINT, Signals, holds_integers, refusal
from .evaluation import LayerNames, check_batch, evaluate, identifier, literal_signals
from .framing import Framing
from .module_names import ModuleNames
from .modules import hw_module
from .pacing import Pacing
from .ports import Port
from .signals import Signal
from .stream import stream_module

NAME = "tensor.name"


class Conversion:
    """Makes the modules of one function.

    Args:
        module: holds the function.
        function: integer, of one block.
        input_bits: of inputs of integer type; by default those of the type.
        pacing: where registers are wanted.

    Attributes:
        modules: the names of the circuit's modules.
        name: of the module with the streams.
        latency: cycles from the first beat of a frame to the last one of its result.
        interval: cycles from frame to frame.
        beats: of a frame, coming in and going out.
        framings: how they come and go in words; none where a word is a beat.
    """

    def __init__(
        self,
        module: ModuleOp,
        function: func.FuncOp,
        input_bits: int | None,
        pacing: Pacing,
    ) -> None:
        self.function = function
        self.input_bits = input_bits
        self.pacing = pacing
        self.modules = ModuleNames(module)
        self.name = self.modules.top
        self.values: dict[SSAValue, Signals] = {}
        self.latency = 0
        self.interval = 1
        self.beats = (1, 1)
        self.framings: tuple[Framing, ...] = ()

    def check(self) -> None:
        """Refuse what cannot become hardware, everything at once.

        Raises:
            UnsupportedError: names each op and why.
        """
        problems: list[tuple[str, str, str]] = []
        between: list[tuple[str, str, str]] = []
        for op in self.function.body.walk():
            if is_literal(op) or isinstance(op, func.ReturnOp):
                continue
            reason = self.refusal(op)
            if reason is not None:
                why = op.attributes.get(STAYS)
                if reason == FLOATS and isinstance(why, StringAttr):
                    problems.append((op.name, location_text(op), f"{FLOATS}: {why.data}"))
                else:
                    listed = between if reason == FLOATS else problems
                    listed.append((op.name, location_text(op), reason))
        floats = bool(between) or any(reason.startswith(f"{FLOATS}:") for _, _, reason in problems)
        # Where it is known which ops have no integer form, the others follow from them.
        problems = problems or between
        for name, argument in zip(argument_names(self.function), self.function.args, strict=True):
            reason = self._misfit(argument)
            if reason is not None:
                problems.append(("func.func", location_text(self.function), f"'{name}': {reason}"))
        if problems:
            raise UnsupportedError("verilog", problems, hint=FLOATS_HINT if floats else "")

    def refusal(self, op: Operation) -> str | None:
        """Why an op cannot become hardware; `None` if it can."""
        return refusal(op, is_known)

    def _misfit(self, argument: SSAValue) -> str | None:
        type = argument.type
        if not isinstance(type, TensorType):
            return f"an argument is {type}, not a tensor"
        type = tensor_type(argument)
        if not holds_integers(argument):
            return f"an argument is {type}; hardware takes integers: quantise it"
        narrowed = self.input_bits is not None or noted_bounds(argument) is not None
        if numpy_dtype(type.element_type) == np.uint64 and not narrowed:
            return f"an argument is {type}; bounds have 64 bits with the sign: give input-bits"
        if DYNAMIC in type.get_shape()[1:]:
            return f"an argument is {type}; only the leading axis may be free"
        return None

    def convert(self) -> list[Operation]:
        """The modules: arithmetic, stream."""
        inputs = [self.input_port(i) for i in range(len(self.function.args))]
        inputs = distinct(inputs, {"clock", "enable"})
        types: list[tuple[str, TypeAttribute]] = [("clock", seq.clock), ("enable", i1)]
        types += [(port.name, IntegerType(sum(port.widths))) for port in inputs]
        block = Block(arg_types=[type for _, type in types])
        for argument, (name, _) in zip(block.args, types, strict=True):
            argument.name_hint = value_name(name)
        circuit = Circuit(block, block.args[0], block.args[1], self.pacing)
        names = [port.name for port in inputs]
        self.layer_names = LayerNames(dict(zip(self.function.args, names, strict=True)))
        self._unpack(circuit, inputs, block.args[2:])
        returned = self._body(circuit)
        outputs = self._outputs(circuit, returned)
        core, sides = (
            self.modules.new(f"{self.name}_core"),
            (self._sides(inputs), self._sides(outputs)),
        )
        results: list[tuple[str, TypeAttribute]] = [(n, IntegerType(w)) for n, w in sides[1]]
        arithmetic = hw_module(core, (types, results), block)
        stream = stream_module(self.name, core, *sides, self.latency)
        self.inputs, self.outputs, self.layers = inputs, outputs, circuit.layers
        return [arithmetic, stream]

    @staticmethod
    def _sides(ports: list[Port]) -> list[tuple[str, int]]:
        return [(port.name, sum(port.widths)) for port in ports]

    def input_port(self, index: int) -> Port:
        """What comes in for an argument, all of it in one beat."""
        argument = self.function.args[index]
        attributes = _attributes(self.function.arg_attrs, index)
        quantized = attributes.get(QUANTIZED)
        noted = noted_bounds(argument)
        is_quantized = isinstance(quantized, DictionaryAttr)
        range = quantized_range(quantized) if is_quantized else input_range(argument)
        if self.input_bits is not None and not is_quantized and noted is None:
            type = tensor_type(argument).element_type
            if self.input_bits > width_of(range.low, range.high):
                raise OptionError(
                    f"convert-ternary-to-hw expects input-bits of at most "
                    f"{width_of(range.low, range.high)} for elements {type}, got {self.input_bits}"
                )
            range = InputRange.of_bits(self.input_bits, signed=range.low < 0)
        name = _name(attributes) or argument.name_hint or (f"x{index}" if index else "x")
        shape, free = _beat(tensor_type(argument))
        bounds = ((range.low, range.high),) * int(np.prod(shape))
        if noted is not None:
            bounds = noted.pairs
        return Port(
            identifier(name),
            shape,
            free,
            bounds,
            tensor_type(argument).element_type,
            quantized if is_quantized else None,
            frame_axis=_frame_axis(tensor_type(argument)),
        )

    def _unpack(self, circuit: Circuit, ports: list[Port], buses: Iterable[SSAValue]) -> None:
        for port, bus, argument in zip(ports, buses, self.function.args, strict=True):
            circuit.begin(port.name, f"input {port.name}")
            flat = unpacked(circuit, bus, port.bounds, port.name)
            self.values[argument] = array_of(flat, port.shape)
        circuit.layers.clear()

    def _body(self, circuit: Circuit) -> func.ReturnOp:
        for op in self.function.body.block.ops:
            if isinstance(op, func.ReturnOp):
                return op
            if is_literal(op):
                continue
            operands = [self._signals(value) for value in op.operands]
            results = evaluate(circuit, op, operands, self.layer_names)
            for value, signals in zip(op.results, results, strict=True):
                check_batch(op, value, signals)
                self.values[value] = signals
        raise AssertionError("a function ends with func.return")

    def _signals(self, value: SSAValue) -> Signals:
        if value not in self.values:
            self.values[value] = literal_signals(value)
        return self.values[value]

    def _outputs(self, circuit: Circuit, returned: func.ReturnOp) -> list[Port]:
        ports: list[Port] = []
        signals: list[list[Signal]] = []
        for index, value in enumerate(returned.operands):
            array = self._signals(value)
            name = self.output_name(index)
            circuit.begin(name, f"output {name}")
            with circuit.element(None):
                flat = [plain(circuit, s) for s in array.reshape(-1)]
            signals.append(flat)
            bounds = tuple(signal.bounds for signal in flat)
            ports.append(self.output_port(index, value, bounds))
        names = {identifier(str(argument.name_hint)) for argument in circuit.block.args}
        ports = distinct(ports, names)
        wires = [s.wire for flat in signals for s in flat if s.wire is not None]
        self.latency = end_of(circuit, wires)
        results = [
            packed(circuit, flat, port.widths, self.latency)
            for port, flat in zip(ports, signals, strict=True)
        ]
        circuit.block.add_op(hw.OutputOp(results))
        return ports

    def output_name(self, index: int) -> str:
        """What a result is called."""
        attributes = _attributes(self.function.res_attrs, index)
        return identifier(_name(attributes) or (f"y{index}" if index else "y"))

    def output_port(self, index: int, value: SSAValue, bounds: tuple[tuple[int, int], ...]) -> Port:
        """What goes out for a result, given the bounds of a beat's elements."""
        quantized = _attributes(self.function.res_attrs, index).get(QUANTIZED)
        shape, free = _beat(tensor_type(value))
        return Port(
            self.output_name(index),
            shape,
            free,
            bounds,
            tensor_type(value).element_type,
            quantized if isinstance(quantized, DictionaryAttr) else None,
            frame_axis=_frame_axis(tensor_type(value)),
        )


def is_known(value: SSAValue) -> bool:
    """Whether a value is known before the program runs."""
    return literal_value(value) is not None


def distinct(ports: list[Port], taken: set[str]) -> list[Port]:
    """The ports, each with a name of its own that nobody has taken."""
    result: list[Port] = []
    for port in ports:
        name = port.name
        while name in taken:
            name += "_"
        taken.add(name)
        result.append(replace(port, name=name))
    return result


def quantized_range(quantized: DictionaryAttr) -> InputRange:
    """The integers that the caller makes of an argument, as `expose-integers` noted."""
    low, high = (cast("IntegerAttr", quantized.data[key]) for key in ("low", "high"))
    return InputRange(low.value.data, high.value.data)


def _attributes(
    attributes: ArrayAttr[DictionaryAttr] | None, index: int
) -> Mapping[str, Attribute]:
    return {} if attributes is None else attributes.data[index].data


def _name(attributes: Mapping[str, Attribute]) -> str | None:
    name = attributes.get(NAME)
    return name.data if isinstance(name, StringAttr) else None


def _beat(type: AnyTensor) -> tuple[tuple[int, ...], bool]:
    shape = type.get_shape()
    return tuple(1 if n == DYNAMIC else n for n in shape), DYNAMIC in shape


def _frame_axis(type: AnyTensor) -> int:
    """The axis that counts frames, the first one where none is free."""
    shape = list(type.get_shape())
    return shape.index(DYNAMIC) if DYNAMIC in shape else 0
