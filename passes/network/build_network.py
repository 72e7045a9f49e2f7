"""The pass `build-network`: what a program does with spikes, as a network that it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import spike
from ...dialects.spike.types import dense_type, is_train, time_step
from ...ir.errors import PassError, UnsupportedError
from ...ir.interpreter import entry_function
from ...ir.locations import location_text
from ...ir.value_names import NAME_ATTRIBUTE
from ..analysis.compile_time import is_literal
from ..analysis.replacement import erase_unused_except, insert_before
from ..analysis.time_axis import has_time_first
from .network_neurons import NETWORK_RULES
from .network_parts import Node, Parts, Unfit
from .network_writer import NetworkWriter

DEFAULT_DT = 1e-4
"""Seconds in a step where the program does not say; that of nirtorch and snnTorch."""

REMARK = "spike.remark"


@dataclass(frozen=True)
class BuildNetworkPass(ModulePass):
    """Make the neurons and synapses of a program one `spike.network`, which the program runs.

    The reverse of `lower-network`, for targets that hold networks, as NIR. Neurons become
    populations; products, pools, sums and delays between them projections. What comes before a
    `spike.encode{direct}` becomes a part of the network where it can, which then gets the input of
    the program at every step. A neuron that subtracts its threshold becomes an `integrator`, a
    `threshold` and a synapse back; what it starts with lowers threshold and reset. A max pool of
    `convert-ann-to-snn` becomes integrators of what each place is ahead of the window. `lif`,
    `integrate_fire` and `leaky_integrator` are neurons that networks here are built of.

        %i = spike.linear %x, %w : !spike.train<8x?x4>, tensor<4x2xf32> -> tensor<8x?x2xf32>
        %s = spike.integrate_fire %i : (tensor<8x?x2xf32>) -> !spike.train<8x?x2>
        // becomes
        spike.network @net dt = 1.000000e-04 {
          %w = tensor.parameter "w" : tensor<4x2xf32>
          spike.input @x {shape = array<i64: 4>}
          spike.population @s_v {model = "integrator", shape = array<i64: 2>, …}
          spike.population @s {model = "threshold", shape = array<i64: 2>, …}
          spike.projection @x_s_v @x -> @s_v weights(%w : tensor<4x2xf32>)
          spike.projection @s_v_s @s_v -> @s {connection = "one_to_one"}
          spike.projection @s_s_v @s -> @s_v weights(…) {delay = 1 : i64, …}
          spike.probe @s_out @s
        }
        %s = spike.simulate @net(%x) : (!spike.train<8x?x4>) -> !spike.train<8x?x2>

    Results are the same but for the roundings of potentials and currents. With `expose` the program
    is the network alone.

    Raises:
        PassError: the program has no neurons, or a network already.
        UnsupportedError: neurons that cannot be part of it, and with `expose` also ops before it;
            the module stays as it was.
    """

    name = "build-network"

    expose: bool = False
    """Let the caller do what stands around the network: arguments are its inputs at each step,
    results what it gives at each step. `spike.remark` of the function lists what that is."""

    function: str = "forward"
    """The function to change."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, self.function)
        if any(isinstance(inner, spike.NetworkOp) for inner in op.body.block.ops):
            raise PassError(f"{self.name}: the module has a network already")
        if len(function.body.blocks) != 1:
            raise PassError(f"{self.name} expects a function of one block")
        _Builder(op, function, self).run()


class _Builder:
    """Finds the network of a function, then writes it."""

    def __init__(self, module: ModuleOp, function: FuncOp, options: BuildNetworkPass) -> None:
        self.module, self.function, self.options = module, function, options
        dt = time_step(function.body.block.last_op or function)
        self.dt = DEFAULT_DT if dt is None else dt
        self.parts = Parts(self.dt, NETWORK_RULES)

    def run(self) -> None:
        block = self.function.body.block
        for argument in block.args:
            try:
                self.parts.enter(_entry(argument), has_time_first(argument))
            except Unfit as reason:
                self.parts.reasons[argument] = (self.function, f"{argument.type} {reason}")
        for op in block.ops:
            if not (op.results and op.results[0] in self.parts.signals):
                self.parts.visit(op)
        end = block.last_op
        assert isinstance(end, ReturnOp)
        recorded = self._recorded(end)
        signals = {value: self.parts.signals[value] for value in recorded}
        writer = NetworkWriter(self.module, self.dt)
        probes = {value: writer.probe(signal, value) for value, signal in signals.items()}
        if not any(not node.is_input and node.model != "relay" for node in writer.names):
            raise PassError(
                f"{self.options.name}: @{self.function.sym_name.data} has no spiking neurons; "
                "run convert-ann-to-snn before"
            )
        sources = [node for node in writer.names if node.is_input]
        if self.options.expose:
            self._refuse_before(sources)
        self._simulate(writer.network(), sources, probes)
        if self.options.expose:
            self._expose()

    def _recorded(self, end: Operation) -> list[SSAValue]:
        """The values of the network that something else takes, in program order."""
        recorded: set[SSAValue] = set()
        problems: dict[Operation, str] = {}
        pending, seen = list(end.operands), set[SSAValue]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if not isinstance(value.owner, Operation):
                continue  # arguments are there without the network
            known = self.parts.signals.get(value)
            if known is not None and known.timed:
                recorded.add(value)
            else:
                if isinstance(value.owner, spike.NeuronOp | spike.AttentionOp):
                    op, reason = self.parts.reasons.get(value, (value.owner, "has several results"))
                    problems[op] = reason
                pending += value.owner.operands
        if problems:
            listed = [(op.name, location_text(op), why) for op, why in problems.items()]
            raise UnsupportedError("spike.network", listed)
        results = (result for op in self.function.body.block.ops for result in op.results)
        return [value for value in results if value in recorded]

    def _refuse_before(self, sources: Iterable[Node]) -> None:
        """With `expose`, the inputs must be what the caller knows."""
        problems: dict[Operation, str] = {}
        for node in sources:
            if isinstance(node.origin, SSAValue) and isinstance(node.origin.owner, Operation):
                origin = node.origin.owner
                if isinstance(origin, spike.FromTensorOp):
                    continue  # truth values of an argument
                op, reason = self.parts.reasons.get(origin.operands[0], (origin, "encodes"))
                problems[op] = f"{reason}, and nothing may come before it"
        if problems:
            listed = [(op.name, location_text(op), why) for op, why in problems.items()]
            raise UnsupportedError("spike.network", listed)

    def _simulate(
        self, network: spike.NetworkOp, sources: list[Node], probes: dict[SSAValue, str]
    ) -> None:
        """Run the network in the place of what became its parts."""
        block = self.function.body.block
        inputs = [self._entering(node.origin) for node in sources]
        anchor = _after_all(inputs, block)
        run = spike.SimulateOp(network, inputs)
        insert_before(anchor, run)
        names = dict.fromkeys(probes.values())
        outputs = dict(zip(names, run.outputs, strict=True))
        for value, name in probes.items():
            value.replace_all_uses_with(_like(outputs[name], value, anchor))
        erase_unused_except(block, ())
        self.function.update_function_type()

    def _entering(self, value: Any) -> SSAValue:
        """What enters the network for `value`: itself, or the same at every step."""
        block = self.function.body.block
        if self.parts.signals[value].timed:
            return value
        assert self.parts.timesteps is not None and block.first_op is not None
        encode = spike.EncodeOp(value, "direct", timesteps=self.parts.timesteps)
        insert_before(block.first_op, encode)
        return encode.result

    def _expose(self) -> None:
        """Let the function be the network alone."""
        function, ops = self.function, list(self.function.body.block.ops)
        (run,) = (op for op in ops if isinstance(op, spike.SimulateOp))
        place = ops.index(run)
        left = [
            ", ".join(op.name for op in part if not is_literal(op))
            for part in (ops[:place], ops[place + 1 : -1])
        ]
        block = Block(arg_types=[value.type for value in run.inputs])
        new_run = run.clone(dict(zip(run.inputs, block.args, strict=True)))
        block.add_ops([new_run, ReturnOp(*new_run.outputs)])
        attributes = function.arg_attrs
        named = [_named(v, new, attributes) for v, new in zip(run.inputs, block.args, strict=True)]
        function.body.detach_block(0)
        function.body.add_block(block)
        function.arg_attrs, function.res_attrs = ArrayAttr(named), None
        function.update_function_type()
        told = [
            f"left to the caller {where} the network: {text}"
            for text, where in zip(left, ("before", "after"), strict=True)
            if text
        ]
        noted = function.attributes.get(REMARK)
        others = cast("tuple[Attribute, ...]", noted.data) if isinstance(noted, ArrayAttr) else ()
        if told:
            function.attributes[REMARK] = ArrayAttr([*others, *map(StringAttr, told)])


def _entry(argument: BlockArgument) -> SSAValue:
    """The train that an argument of truth values becomes, if it is nothing else, or itself."""
    users = [use.operation for use in argument.uses]
    if len(users) == 1 and isinstance(users[0], spike.FromTensorOp):
        return users[0].result
    return argument


def _named(
    value: SSAValue, new: SSAValue, attributes: ArrayAttr[DictionaryAttr] | None
) -> DictionaryAttr:
    """The attributes of the argument `new`, which stands for `value` or what it was made of."""
    source = value.owner.operands[0] if isinstance(value.owner, Operation) else value
    new.name_hint = source.name_hint
    if attributes is None or not isinstance(source, BlockArgument):
        return DictionaryAttr({})
    known = attributes.data[source.index].data
    return DictionaryAttr(
        {NAME_ATTRIBUTE: known[NAME_ATTRIBUTE]} if NAME_ATTRIBUTE in known else {}
    )


def _after_all(values: Sequence[SSAValue], block: Block) -> Operation:
    """The first op of `block` before which all of `values` are there."""
    ops = list(block.ops)
    places = [ops.index(v.owner) for v in values if isinstance(v.owner, Operation)]
    return ops[max(places, default=-1) + 1]


def _like(output: SSAValue, value: SSAValue, anchor: Operation) -> SSAValue:
    """What a probe recorded as the program had it: spikes, or numbers."""
    if is_train(value) == is_train(output):
        new_op = None
    elif is_train(value):
        new_op = spike.FromTensorOp(output)
    else:
        new_op = spike.ToTensorOp(output, dense_type(value).element_type)
    if new_op is None:
        return output
    insert_before(anchor, new_op)
    return new_op.results[0]
