"""An integer program cut into layers, each a program `@forward` of its own.

A layer begins where a product or a pooling takes the one value that crosses: behind the thresholds
or the requantisation of the layer before. Where more than one value crosses (a residual sum,
branches that meet again) nothing is cut, so that such a block is one layer. Not here: the circuits
of the layers (`layer_circuits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from ...dialects.spike.types import dense_type
from ...dialects.traits import MovesElements, has
from ...ir.identifiers import free_name
from ...ir.interpreter import entry_function
from ...ir.value_names import NAME_ATTRIBUTE
from ...passes.adder_graph.optimize_adder_graph import WEIGHT_ATTRIBUTE
from ...passes.analysis.compile_time import is_literal, literal_value
from ...passes.analysis.layers import is_layer, weight_of
from ...passes.expose_trains import TIMED
from .circuit.circuit_rules import holds_integers
from .circuit.evaluation import identifier, layer_identifier
from .circuit.stages.partition import is_timed


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
    function = entry_function(module, "forward")
    ops = [op for op in function.body.block.ops if not is_literal(op)]
    returned = ops.pop()
    assert isinstance(returned, ReturnOp)
    cuts = [] if whole else [index for index in range(1, len(ops)) if _is_cut(ops, index)]
    values: list[SSAValue] = list(function.args)
    names: set[str] = set()
    layers: list[Layer] = []
    timed = _timed_values(function, ops)
    for first, last in zip([0, *cuts], [*cuts, len(ops)], strict=True):
        part = ops[first:last]
        layer = _Cutting(module, function, part, returned, values, timed).layer(names)
        layers.append(layer)
    numbers = {value: number for number, value in enumerate(values)}
    results = tuple(numbers[value] for value in returned.operands if value in numbers)
    return Layers(tuple(layers), results, tuple(values))


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


@dataclass
class _Cutting:
    """Makes one layer of some ops.

    Attributes:
        module: of the function.
        function: that is cut.
        ops: of the layer, in order.
        returned: the end of the function.
        values: that layers give and take, by their numbers; those of this layer are added.
        timed: those whose first axis is time.
    """

    module: ModuleOp
    function: FuncOp
    ops: Sequence[Operation]
    returned: ReturnOp
    values: list[SSAValue]
    timed: set[SSAValue]

    def layer(self, names: set[str]) -> Layer:
        """The layer; its name is like no other one in `names`, which it joins."""
        inside = set(self.ops)
        taken = (value for op in self.ops for value in _taken(op) if value.owner not in inside)
        takes = list(dict.fromkeys(taken))
        holder = self.function.body.block.find_ancestor_op_in_block
        gives = [
            value
            for op in self.ops
            for value in op.results
            if any(holder(use.operation) not in inside for use in value.uses)
        ]
        self.values += gives
        numbers = {value: number for number, value in enumerate(self.values)}
        names.add(name := free_name(_name(self.ops), names, first=2))
        return Layer(
            name,
            tuple(word for op in self.ops for word in _words(op)),
            self._module(identifier(name), takes, gives),
            tuple(numbers[value] for value in takes),
            tuple(numbers[value] for value in gives),
        )

    def _module(self, name: str, takes: Sequence[SSAValue], gives: Sequence[SSAValue]) -> ModuleOp:
        block = Block(arg_types=[value.type for value in takes])
        mapped: dict[SSAValue, SSAValue] = dict(zip(takes, block.args, strict=True))
        for old, new in zip(takes, block.args, strict=True):
            new.name_hint = old.name_hint
        for op in self.ops:
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
        elif value in self.returned.operands and self.function.res_attrs is not None:
            index = list(self.returned.operands).index(value)
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
        elif isinstance(weight.owner, ternary.ParameterOp | tensor.ParameterOp):
            yield layer_identifier(weight.owner.key.data)
        elif literal_value(weight) is not None:
            yield layer_identifier(weight.name_hint or op.results[0].name_hint or "product")
