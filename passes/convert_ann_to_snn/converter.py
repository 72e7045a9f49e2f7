"""`LayerConverter`: the rule for each kind of op, and the walk that applies them to a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ...dialects.inference import tensor_type
from ...ir.errors import PassError, UnsupportedError
from ...ir.interpreter import entry_function
from ...ir.locations import error_at, location_text
from ..analysis.compile_time import is_literal
from ..analysis.replacement import erase_unused_except, unused_ops
from ..fold_constants import fold
from . import neurons, shapes, synapses
from .attention import Attention, attend, attentions
from .correction import Correction
from .neurons import is_activation
from .signals import Conversion, NotConvertible, Signal

Rule: TypeAlias = Callable[[Conversion, Any], Sequence[Signal]]
"""What an op becomes: writes ops with the `Conversion` and gives a signal for each result. Raises
`NotConvertible`, with the reason, where the op cannot be converted."""

RULES: dict[type[Operation], Rule] = {**neurons.RULES, **synapses.RULES, **shapes.RULES}
"""The rules that every converter starts with."""

NO_RULE = "no neurons or synapses stand for it"

REMARK = "spike.remark"
"""The attribute of the converted function that tells what is only approximate."""


@dataclass(frozen=True)
class Converted:
    """What a conversion tells about its result.

    Attributes:
        remarks: what is only approximate, as `(op name, location, remark)`.
        neurons: the number of populations.
    """

    remarks: tuple[tuple[str, str, str], ...]
    neurons: int


class LayerConverter:
    """Converts the layers of a float program; more rules can be added.

        converter = LayerConverter()

        @converter.register(tensor.AbsOp)
        def _(state: Conversion, op: tensor.AbsOp) -> Sequence[Signal]: …

    A rule sees an op when one of its operands changes over time (activations always), and what
    its operands became in `Conversion.signals`. An op without a rule, after which no neurons come,
    is applied to the mean over time of its operands.

    Args:
        rules: the rules instead of `RULES`.
    """

    def __init__(self, rules: Mapping[type[Operation], Rule] | None = None) -> None:
        self.rules: dict[type[Operation], Rule] = dict(RULES if rules is None else rules)

    def register(self, kind: type[Operation]) -> Callable[[Rule], Rule]:
        """A decorator: use this rule for ops of the class `kind`."""

        def add(rule: Rule) -> Rule:
            self.rules[kind] = rule
            return rule

        return add

    def convert(
        self,
        module: ModuleOp,
        timesteps: int,
        *,
        threshold: float | None = None,
        correction: Correction | None = None,
        reset: str = "subtract",
        function: str = "forward",
    ) -> Converted:
        """Convert a function in place.

        Args:
            module: the program, thresholds noted on its activations.
            timesteps: T.
            threshold: the threshold of activations on which none is noted.
            correction: what is done with samples; its trial is of this function.
            reset: of neurons that fire, `subtract` or `to_value`.
            function: the function to convert.

        Raises:
            UnsupportedError: ops that cannot be converted, all of them; the module is as it was.
            PassError: the function has several blocks, or a noted threshold is malformed.
        """
        entry = entry_function(module, function)
        if len(entry.body.blocks) != 1:
            raise PassError(error_at(entry, "expects a function of one block"))
        state = Conversion(
            module, list(entry.body.block.ops), timesteps, threshold, correction, reset
        )
        return _Walk(self.rules, entry, state).run()


class _Walk:
    """One conversion of one function."""

    def __init__(
        self,
        rules: Mapping[type[Operation], Rule],
        function: FuncOp,
        state: Conversion,
    ) -> None:
        self.rules = rules
        self.function = function
        self.block: Block = function.body.block
        self.ops = list(self.block.ops)
        self.state = state
        self.problems: list[tuple[str, str, str]] = []
        self.broken: set[SSAValue] = set()
        self.attentions: dict[Operation, Attention] = {}
        self.inner: set[Operation] = set()
        self.behind: dict[Operation, Operation] = {}
        for attention in attentions(self.ops):
            self.attentions[attention.op] = attention
            self.inner.update(attention.inner)
        self.before_neurons = state.before_neurons = self._before_neurons()

    def run(self) -> Converted:
        """Convert, or undo what was written and say why not."""
        try:
            for op in self.ops[:-1]:
                self._visit(op)
            end = self.ops[-1]
            assert isinstance(end, ReturnOp)
            self.state.source = end
            if self.problems:
                raise UnsupportedError("spike", self.problems)
            results = [self.state.decoded(value) for value in end.operands]
        except (PassError, UnsupportedError):
            for op in reversed(self.state.added):
                self.block.erase_op(op)
            raise
        unused = unused_ops(self.block)
        for index, value in enumerate(results):
            end.operands[index] = value
        erase_unused_except(self.block, unused)
        added = set(self.state.added)
        fold([op for op in self.block.ops if op in added or is_literal(op)])
        if self.state.remarks:
            texts = [f"{name} at {place}: {text}" for name, place, text in self.state.remarks]
            self.function.attributes[REMARK] = ArrayAttr(map(StringAttr, texts))
        return Converted(tuple(self.state.remarks), self.state.populations)

    def _visit(self, op: Operation) -> None:
        state = self.state
        state.source = op
        if op in self.inner:
            return
        if any(value in self.broken for value in op.operands):
            self._skip(op)
            return
        dynamic = any(state.is_dynamic(value) for value in op.operands)
        pool = neurons.stands_behind(state, op)
        if pool is not None:
            self.behind[pool] = op
            return
        attention = self.attentions.get(op)
        if any(value in state.means for value in op.operands):
            self._apply_to_means(op)
            return
        if attention is not None:
            operands = (attention.query, attention.key, attention.value)
            dynamic = True
            if any(value in self.broken for value in operands):
                self._skip(op)
                return
        elif not dynamic and not self._starts(op) and op not in self.behind:
            return
        try:
            signals = self._signals(op, attention)
        except NotConvertible as error:
            self.problems.append((op.name, location_text(op), str(error)))
            self.broken.update(op.results)
            return
        state.signals.update(zip(op.results, signals, strict=False))

    def _skip(self, op: Operation) -> None:
        """Pass over an op that reads what could not be converted; it may have a problem itself."""
        self.broken.update(op.results)
        if op in self.before_neurons and op not in self.attentions and self._rule(op) is None:
            self.problems.append((op.name, location_text(op), NO_RULE))

    def _rule(self, op: Operation) -> Rule | None:
        rule = self.rules.get(type(op))
        return rule if type(op) not in neurons.RULES or is_activation(op) else None

    def _starts(self, op: Operation) -> bool:
        """Whether an op on what does not change over time becomes neurons."""
        return is_activation(op) and not all(v in self.state.known for v in op.operands)

    def _signals(self, op: Operation, attention: Attention | None) -> Sequence[Signal]:
        if attention is not None:
            return attend(self.state, attention)
        if isinstance(op, neurons.Pool) and op in self.behind:
            return [neurons.fire_behind(self.state, self.behind[op], op)]
        rule = self._rule(op)
        if rule is not None and tensor_type(op.results[0]).get_num_dims() < 2:
            raise NotConvertible("its values have no axis of channels behind that of the samples")
        if rule is not None:
            return rule(self.state, op)
        if op in self.before_neurons:
            raise NotConvertible(NO_RULE)
        self._apply_to_means(op)
        return []

    def _apply_to_means(self, op: Operation) -> None:
        """Put the op behind the decoders: its results do not change over time."""
        clone = op.clone({v: self.state.decoded(v) for v in op.operands})
        self.state.add(clone)
        self.state.means.update(zip(op.results, clone.results, strict=True))

    def _before_neurons(self) -> set[Operation]:
        """The ops after which neurons come."""
        before: set[Operation] = set()
        for op in reversed(self.ops):
            users = {use.operation for result in op.results for use in result.uses}
            if any(u in before or is_activation(u) or u in self.attentions for u in users):
                before.add(op)
        return before
