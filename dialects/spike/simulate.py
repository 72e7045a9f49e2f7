"""`spike.simulate`: a network as a function, from its inputs to what its probes record."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, SymbolRefAttr, TensorType, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from ...ir.definition import irdl_op_definition
from ..inference import Value, fail
from ..shapes import DYNAMIC, Shape, compatible, merge_dim
from .network import InputOp, NetworkOp
from .network_graph import nodes, probes
from .population import ProbeOp
from .synapses import SIGNAL
from .types import SpikeOp, TrainType, time_first, time_step


@irdl_op_definition
class SimulateOp(SpikeOp):
    """Run a network from rest: one operand an input, one result a probe, both in their order.

    Operands are [T, N, shape…]: trains for inputs of spikes, f32 tensors for currents. Results are
    alike: trains for the output of spiking models, else f32. At each step every population, after
    those that reach it without delay, adds up what its projections bring, in their order, and
    makes one step of its model (`models.discrete` gives the numbers of the neuron op). All in f32;
    sums of i8 and trit weights over spikes are exact.

        %o = spike.simulate @net(%x) : (!spike.train<32x?x784>) -> !spike.train<32x?x10>
    """

    name = "spike.simulate"

    inputs = var_operand_def(SIGNAL)
    network = prop_def(FlatSymbolRefAttrConstr)
    outputs = var_result_def(SIGNAL)

    assembly_format = "$network `(` $inputs `)` attr-dict `:` functional-type(operands, results)"

    def __init__(self, network: NetworkOp, inputs: Sequence[Value]) -> None:
        values = [SSAValue.get(value) for value in inputs]
        IRDLOperation.__init__(
            self,
            operands=[values],
            result_types=[_results(network, values)],
            properties={"network": SymbolRefAttr(network.sym_name.data)},
        )

    def find_network(self) -> NetworkOp:
        """The network that it runs.

        Raises:
            VerifyException: the module has none of that name.
        """
        root = self.get_toplevel_object()
        network = None
        if isinstance(root, IRDLOperation) and root.has_trait(SymbolTable):
            network = SymbolTable.lookup_symbol(root, self.network)
        if not isinstance(network, NetworkOp):
            raise VerifyException(f"'{self.name}' finds no network {self.network}")
        return network

    def infer(self) -> Sequence[Attribute]:
        root = self.get_toplevel_object()
        if not (isinstance(root, IRDLOperation) and root.has_trait(SymbolTable)):
            return [result.type for result in self.outputs]  # not yet part of a module
        network = self.find_network()
        around, own = time_step(self), network.dt.value.data
        if around not in (None, own):
            fail(f"runs {self.network} in steps of {own:g} s, the function states {around:g} s")
        return _results(network, self.inputs)


def _results(network: NetworkOp, inputs: Sequence[SSAValue]) -> list[Attribute]:
    """The result types for `inputs`, which are checked."""
    sources = [op for op in nodes(network).values() if isinstance(op, InputOp)]
    if not sources:
        fail(f"expects a network with an input, @{network.sym_name.data} has none")
    if len(inputs) != len(sources):
        fail(f"expects {len(sources)} inputs, got {len(inputs)}")
    steps, batch = DYNAMIC, DYNAMIC
    for value, source in zip(inputs, sources, strict=True):
        shape: Shape = (DYNAMIC, DYNAMIC, *source.shape.get_values())
        wanted = TrainType(shape) if source.spikes() else TensorType(f32, shape)
        if not compatible(value.type, wanted):
            fail(f"expects {wanted} for @{source.sym_name.data}, got {value.type}")
        sizes = time_first(value).get_shape()
        steps, batch = merge_dim(steps, sizes[0], "steps"), merge_dim(batch, sizes[1], "batches")
    return [_recorded(probe, (steps, batch)) for probe in probes(network)]


def _recorded(probe: ProbeOp, leading: Shape) -> Attribute:
    population = probe.population()
    shape = (*leading, *population.shape.get_values())
    spikes = probe.variable.data == "output" and population.spikes()
    return TrainType(shape) if spikes else TensorType(f32, shape)
