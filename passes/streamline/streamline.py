"""The pass `streamline`: float steps between products of few-bit values become thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...dialects.traits import SelectsElements, has
from ...ir.attribute_data import data_of, dictionary_of
from ...ir.errors import OptionError
from ...ir.interpreter import entry_function
from ..analysis.compile_time import is_literal, literal_value
from ..analysis.layers import is_layer
from ..analysis.replacement import erase_unused
from . import level_rules
from .level_functions import LevelFunction, NoFunctionError, is_step
from .level_grids import LevelGrids, plain
from .level_results import integer_result
from .stated_inputs import StatedInput, stated_inputs

STAYS = "streamline.stays"
"""The attribute of an op that stays on floats: why."""

UNDECIDED = "streamline.undecided"
"""The attribute of a module with sums that roundings decide: `name`, `undecided`, `sums`."""


def undecided_sums(module: ModuleOp) -> list[dict[str, Any]]:
    """Products and means of which some sums lie so near a level that floats decide by roundings.

    Returns:
        For each the `name` of its op, at how many of its `sums` they are `undecided`.
    """
    noted = module.attributes.get(UNDECIDED)
    return [] if noted is None else data_of(noted)


@dataclass(frozen=True)
class StreamlinePass(ModulePass):
    """Compute a network of few-bit activations in integers alone.

    Networks trained with quantisers in float (qonnx's `Quant` and `BipolarQuant`, Brevitas) have a
    few values an activation, and weights of at most 8 bits. Between two products, whatever leads
    element by element from the sums to these values (scales, biases, normalisations, activations,
    rounding) is a function of one integer for each channel. It is evaluated at every integer that a
    sum can be, by the reference interpreter, and becomes a `tensor.multi_threshold` (Umuroglu and
    Jahre 2017, arXiv 1709.04060; FINN). Channels whose values decrease get the negated weights;
    where one rises and falls, all are differences of two counts.

        %y = ternary.linear %x, %w : tensor<?x4xf32>, … -> tensor<?x8xf32>      // %x of -1 and 1
        %n = tensor.batch_norm %y, … : …
        %c = tensor.compare %n, %zero {predicate = "ge"} : …
        %a = tensor.where %c, %one, %minus_one : …
        // becomes
        %s = ternary.linear %q, %w2 : tensor<?x4xi8>, … -> tensor<?x8xi32>      // %q of 0 and 1
        %a = tensor.multi_threshold %s, %t : (tensor<?x8xi32>, tensor<8x1xi32>) -> tensor<?x8xi8>

    Weights that are a scale times trits become trits, others i32. Products of integers whose sums
    are rescaled in float are taken as those of floats. Sums, concatenations and means of
    activations on different grids are those of a grid that holds both. An argument that is only
    quantised becomes a `tensor.quantize`, of its `tensor.sign` where the only step is at 0, or a
    `tensor.multi_threshold` where it rounds in another way; results that are sums become a
    `tensor.dequantize`. An offset that is no fraction of a step, with a divisor of at most 256, is
    rounded to 2^-17 of a step.
    A depthwise convolution takes activations with a scale a channel. Channels that a product sums
    need a common step, at most 256 times finer than each; their weights become as many times
    larger.
    Values between are the same, but where float sums themselves were rounded (scales that are no
    powers of two).

    An op that has no such form stays on floats, between a `tensor.dequantize` and the next
    quantiser, and its attribute `streamline.stays` says why. Weights must be literals with values;
    run `fold-constants` before.

    Raises:
        OptionError: `inputs` names no argument, or says no type; `input-bits` is out of its range.
    """

    name = "streamline"
    approximate: ClassVar[bool] = True

    inputs: str | None = None
    """What float arguments hold, where no quantiser says it: `x:int8*0.5`, several with `;`
    between. A type is `int2` to `int8`, `uint1` to `uint8`, or `bipolar` for -1 and 1; behind `*`
    stands the scale, 1 by default. Other values are rounded to the nearest of these."""

    input_bits: int | None = None
    """The width of arguments of integer type, where it is less than that of their type."""

    def __post_init__(self) -> None:
        if self.input_bits is not None and not 1 <= self.input_bits <= 32:
            raise OptionError(f"{self.name} expects input-bits in [1, 32], got {self.input_bits}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        stated = stated_inputs(self.inputs, function)
        if len(function.body.blocks) == 1:
            levels = LevelGrids(op, next(iter(function.body.block.ops)), self.input_bits)
            _Streamlining(function.body.block, levels, stated).run()


class _Streamlining:
    """Which rule each op gets, and what of the program stays."""

    def __init__(
        self, block: Block, levels: LevelGrids, stated: dict[SSAValue, StatedInput]
    ) -> None:
        self.block = block
        self.levels = levels
        self.stated = stated
        self.reasons: dict[Operation, str] = {}
        """Of ops without a rule; empty where that follows from another."""
        self.unmade: dict[SSAValue, str] = {}
        """Why values are no integers and scale."""

    def run(self) -> None:
        """Compute what has an integer form in integers."""
        before = list(self.block.ops)
        if not isinstance(before[-1], ReturnOp) or not any(map(_computes_in_floats, before)):
            return
        for argument in self.block.args:
            if argument in self.stated:
                self.levels.stated(argument, self.stated[argument])
            else:
                self._floats(argument)
        for op in before[:-1]:
            self.levels.anchor = op
            if not is_literal(op):
                self._visit(op)
        self._replace(before)
        self._note_undecided()
        erase_unused([op for op in self.block.ops if op is not before[-1]])

    def _note_undecided(self) -> None:
        undecided = self.levels.undecided.items()
        if undecided:
            self.levels.module.attributes[UNDECIDED] = ArrayAttr(
                [
                    dictionary_of({"name": name, "undecided": number, "sums": sums})
                    for name, (number, sums) in undecided
                ]
            )

    def _floats(self, value: SSAValue) -> None:
        """A value of which nothing is known: what comes of it may be quantised."""
        if isinstance(value.type, TensorType) and value.type.element_type == f32:
            rank = value.type.get_num_dims()
            self.levels.functions[value] = plain(value, value, None, rank)

    def _visit(self, op: Operation) -> None:
        try:
            self._rule(op)
        except NoFunctionError as error:
            self.reasons[op] = str(error)
            for result in op.results:
                self._floats(result)

    def _rule(self, op: Operation) -> None:
        levels = self.levels
        known = [value for value in op.operands if value in levels.functions]
        if isinstance(op, tensor.DequantizeOp) and not known:
            level_rules.dequantized(levels, op)
        elif isinstance(op, tensor.ConvertOp) and not known:
            level_rules.converted(levels, op)
        elif isinstance(op, tensor.ConvertOp) and levels.is_same(op):
            levels.enter(op.result, levels.entered[op.operand])
        elif not known:
            raise NoFunctionError("it computes with values that are no floats of few levels")
        elif is_layer(op):
            level_rules.product(levels, op)
        elif isinstance(op, tensor.ConcatenateOp):
            level_rules.joined(levels, op)
        elif _moves(op):
            level_rules.moved(levels, op)
        elif isinstance(op, level_rules.Reduction):
            level_rules.reduced(levels, op)
        elif isinstance(op, tensor.AvgPoolOp):
            level_rules.pooled(levels, op)
        elif isinstance(op, tensor.ArgmaxOp):
            level_rules.largest(levels, op)
        elif is_step(op):
            self._step(op, known)
        else:
            raise NoFunctionError("it has no form on integers")

    def _step(self, op: Operation, known: list[SSAValue]) -> None:
        functions = [self.levels.functions[value] for value in known]
        if any(v not in known and literal_value(v) is None for v in op.operands):
            raise NoFunctionError("an operand is no float of few levels, nor known")
        if len({function.root for function in functions}) == 1:
            made = functions[0].then(op, functions[1:])
            if made.bounds is None and _many_channels(made):
                functions = [self._quantised(value) for value in known]
                made = functions[0].then(op, functions[1:])
            self.levels.functions[op.results[0]] = made
        elif isinstance(op, tensor.AddOp | tensor.SubOp):
            level_rules.added(self.levels, op)
        else:
            raise NoFunctionError("it combines values that change, other than by a sum")

    def _quantised(self, value: SSAValue) -> LevelFunction:
        """A function of a float argument as one of the integers that it is quantised to.

        Raises:
            NoFunctionError: it is no quantiser; the reason is that of who takes it.
        """
        try:
            self.levels.enter(value, self.levels.grid(value))
        except NoFunctionError:
            raise NoFunctionError("") from None
        return self.levels.functions[value]

    def _replace(self, before: list[Operation]) -> None:
        """Let what is returned, and what stays on floats for it, take integers where there are."""
        given = set(before)
        needed: set[SSAValue] = set()
        for op in reversed(before):
            if not (isinstance(op, ReturnOp) or any(result in needed for result in op.results)):
                continue
            reason = self.reasons.get(op)
            if reason and is_float_op(op):
                op.attributes[STAYS] = StringAttr(reason)
            elif reason:
                for value in op.operands:
                    if isinstance(value.owner, Operation):
                        self.reasons.setdefault(value.owner, reason)
            self.levels.move_to(op)
            for index, value in enumerate(op.operands):
                integers = self._integers(value)
                if integers is not None:
                    op.operands[index] = integers
                elif isinstance(op, ReturnOp) and isinstance(value.owner, Operation):
                    why = "as a result it is no integer and scale"
                    if value in self.unmade:
                        why += f": {self.unmade[value]}"
                    self.reasons.setdefault(value.owner, why)
                needed.update(_sources(op.operands[index], given))

    def _integers(self, value: SSAValue) -> SSAValue | None:
        if value in self.levels.results:
            return self.levels.results[value]
        function = self.levels.functions.get(value)
        if isinstance(value.owner, tensor.DequantizeOp) and (
            function is None or function.root is value.owner.input
        ):
            return None
        try:
            return integer_result(self.levels, value)
        except NoFunctionError as error:
            self.unmade[value] = str(error)
            return None


def _moves(op: Operation) -> bool:
    """Whether results are elements of the first operand, and pads, at places that are known."""
    if isinstance(op, tensor.GatherRowsOp):
        return literal_value(op.indices) is not None
    return len(op.operands) == 1 and (has(op, SelectsElements) or isinstance(op, tensor.PadToOp))


def _sources(value: SSAValue, given: set[Operation]) -> set[SSAValue]:
    """The values of the program that a value is made of by ops that were added."""
    found: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, Operation) and owner not in given:
            waiting += owner.operands
        else:
            found.add(value)
    return found


def _many_channels(function: LevelFunction) -> bool:
    """Whether floats are taken to other values in each channel, so that no one quantiser does."""
    try:
        return function.at(np.zeros(1, np.float32)).size != 1
    except NoFunctionError:
        return True


def _computes_in_floats(op: Operation) -> bool:
    """Whether an op is a layer of floats, rounds floats, makes integers of what the program
    computes, or floats of integers."""
    if isinstance(op, ternary.TernarizeOp | tensor.RoundOp | tensor.FloorOp | tensor.CeilOp):
        return True
    if isinstance(op, tensor.ConvertOp) and not is_float(tensor_type(op.operand)):
        return is_float(tensor_type(op.result)) and not is_literal(op.operand.owner)
    if isinstance(op, tensor.QuantizeOp | tensor.ConvertOp) and is_float(
        tensor_type(op.operands[0])
    ):
        made = op.operands[0].owner
        while (
            isinstance(made, Operation) and has(made, SelectsElements) and len(made.operands) == 1
        ):
            made = made.operands[0].owner
        return isinstance(made, Operation) and not is_float(tensor_type(op.result))
    return is_layer(op) and is_float(tensor_type(op.results[0]))


def is_float_op(op: Operation) -> bool:
    """Whether an op takes or gives a tensor of floats."""
    types = [value.type for value in (*op.operands, *op.results)]
    return any(isa(type, TensorType) and is_float(type) for type in types)
