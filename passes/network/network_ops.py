"""Populations and projections of a network as ops on whole runs, for `lower-network`.

Each gives the numbers that `spike.simulate` computes, in the same order of operations. How the
populations hang together is the business of `lower_network`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypedDict

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import LocationAttr, ModuleOp, TensorType, UnknownLoc, f32, i1, i8, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, dense_constant
from ...dialects.spike.interpret_network import network_value, population_parameters
from ...dialects.spike.models import discrete
from ...dialects.spike.types import dense_type, is_train
from ...dialects.tensor.shape import SLICE_END
from ...dialects.ternary.types import is_trit
from ...ir.errors import PassError
from ...ir.locations import error_at
from ..analysis.compile_time import literal


class _Options(TypedDict):
    """The optional operands of a synapse."""

    scale: SSAValue | None
    bias: SSAValue | None


Constants = dict[str, float | SSAValue]

"""The numbers of a neuron op by name: for all neurons, or one for each."""

NEURONS: dict[str, type[spike.NeuronOp]] = {
    "lif": spike.LifOp,
    "integrate_fire": spike.IntegrateFireOp,
    "cuba_lif": spike.CubaLifOp,
    "adaptive_lif": spike.AdaptiveLifOp,
    "leaky_integrator": spike.LeakyIntegratorOp,
    "integrator": spike.LeakyIntegratorOp,
    "cuba_integrator": spike.LeakyIntegratorOp,
    "sigma_delta": spike.SigmaDeltaOp,
}
"""The neuron op of each model that has one; `cuba_integrator` is two integrators in a row."""


class NetworkOps:
    """Writes ops at one place of a program: before an op, or at the end of a block."""

    def __init__(self, module: ModuleOp, point: InsertPoint, location: LocationAttr) -> None:
        self.module = module
        self.location = location
        self._builder = Builder(point)
        self._literals: dict[SSAValue, SSAValue] = {}

    @staticmethod
    def inside(block: Block, outer: NetworkOps) -> NetworkOps:
        """Ops at the end of `block`, the body of an op that `outer` will insert."""
        return NetworkOps(outer.module, InsertPoint.at_end(block), outer.location)

    def add(self, op: Operation, source: Operation | None = None) -> SSAValue:
        """Insert `op`, which comes from `source`; its first result."""
        known = source is not None and not isinstance(source.location, UnknownLoc)
        op.location = source.location if source is not None and known else self.location
        return self._builder.insert(op).results[0]

    def literal(self, value: SSAValue) -> SSAValue:
        """A parameter or constant of the network, once in this place."""
        if value not in self._literals:
            owner = value.owner
            assert isinstance(owner, Operation)
            copy = self.add(owner.clone(), owner)
            copy.name_hint = value.name_hint
            self._literals[value] = copy
        return self._literals[value]

    def as_float(self, value: SSAValue) -> SSAValue:
        """A literal of the network in f32."""
        constant = self.literal(value)
        type = tensor_type(constant)
        if type.element_type == f32:
            return constant
        if is_trit(type):
            return self.add(ternary.DequantizeOp(constant))
        return self.add(tensor.ConvertOp(constant, f32))

    def number(self, value: float) -> SSAValue:
        """A scalar of f32."""
        return self.add(dense_constant(np.asarray(value, np.float32), f32))

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A run [T, N, …] with each step [N, *shape]; a train stays one."""
        if dense_type(value).get_shape()[2:] == tuple(shape):
            return value
        dense = self.dense(value, i1)
        result = self.add(tensor.ReshapeToOp(dense, [-2, -3, *shape]))
        return self.add(spike.FromTensorOp(result)) if is_train(value) else result

    def dense(self, value: SSAValue, element: Attribute = f32) -> SSAValue:
        """A train as a tensor of `element`; a tensor as it is."""
        return self.add(spike.ToTensorOp(value, element)) if is_train(value) else value

    def nothing(self, like: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Zeros [T, N, *shape], T and N as in `like`."""
        places = prod(dense_type(like).get_shape()[2:])
        spikes = like if is_train(like) else self.add(spike.FromTensorOp(like))
        weight = self.add(dense_constant(np.zeros((places, prod(shape)), np.float32), f32))
        return self.reshaped(
            self.add(spike.LinearOp(self.reshaped(spikes, [places]), weight)), shape
        )

    def sum(self, values: Sequence[SSAValue]) -> SSAValue:
        """The sum from left to right."""
        total = values[0]
        for value in values[1:]:
            total = self.add(tensor.AddOp(total, value))
        return total

    # Projections.

    def arriving(self, op: spike.ProjectionOp, output: SSAValue, before: int = 0) -> SSAValue:
        """What a projection brings, for the output of its source, which `before` steps delayed."""
        source, target = op.ends()
        late = self._delayed(op, output, op.delay.value.data - before)
        current = self._connection(op, late, tuple(source.shape.get_values()))
        return self.reshaped(current, target.shape.get_values())

    def _delayed(self, op: spike.ProjectionOp, value: SSAValue, delay: int) -> SSAValue:
        if op.delays is None:
            return self.add(spike.DelayOp(value, delay), op) if delay else value
        extra = network_value(op.delays).astype(np.int64)
        if extra.size and extra.min() < 0:
            raise PassError(error_at(op, f"@{op.sym_name.data} expects delays of at least 0"))
        total = extra + delay
        steps = int(total.max()) if total.size else 0
        if steps == 0:
            return value
        delays = literal(
            self.module, f"{op.sym_name.data}.delays", total, TensorType(i64, total.shape)
        )
        return self.add(spike.DelayOp(value, steps, delays=self.add(delays, op)), op)

    def _connection(
        self, op: spike.ProjectionOp, value: SSAValue, shape: tuple[int, ...]
    ) -> SSAValue:
        connection = op.connection.data
        if connection == "one_to_one":
            return self._one_to_one(op, self.dense(value))
        if connection in ("avg_pool", "sum_pool"):
            return self._pool(op, value, connection == "avg_pool")
        weight, options = self._weighted(op, value)
        if connection == "conv":
            strides, padding, dilation = op.window()
            conv = spike.ConvOp(
                value,
                weight,
                **options,
                strides=strides,
                padding=padding,
                dilation=dilation,
                groups=op.group_count(),
            )
            return self.add(conv, op)
        flat = self.reshaped(value, [prod(shape)])
        return self.add(spike.LinearOp(flat, weight, **options), op)

    def _weighted(self, op: spike.ProjectionOp, value: SSAValue) -> tuple[SSAValue, _Options]:
        """The weight of a synapse on `value`, and its scale and bias: such that it gives f32."""
        assert op.weights is not None
        type = tensor_type(op.weights)
        exact = is_train(value) and (is_trit(type) or type.element_type == i8)
        direct = exact or is_trit(type)
        weight = self.literal(op.weights) if direct else self.as_float(op.weights)
        scale = None if op.scale is None else self.as_float(op.scale)
        bias = None if op.bias is None else self.as_float(op.bias)
        if exact and scale is None:
            scale = self.number(1.0)
        return weight, _Options(scale=scale, bias=bias)

    def _one_to_one(self, op: spike.ProjectionOp, value: SSAValue) -> SSAValue:
        rank = tensor_type(value).get_num_dims()
        if op.weights is not None:
            value = self.add(tensor.MulOp(value, self.as_float(op.weights)), op)
        if op.scale is not None:
            value = self.add(tensor.MulOp(value, self._per_channel(op.scale, rank)), op)
        if op.bias is not None:
            value = self.add(tensor.AddOp(value, self._per_channel(op.bias, rank)), op)
        return value

    def _per_channel(self, vector: SSAValue, rank: int) -> SSAValue:
        """`vector`, a scalar or one value a channel, along axis 2 of [T, N, C, …]."""
        floats = self.as_float(vector)
        shape = tensor_type(floats).get_shape()
        if not shape or rank == 3:
            return floats
        return self.add(tensor.ReshapeToOp(floats, [*shape, *[1] * (rank - 3)]))

    def _pool(self, op: spike.ProjectionOp, value: SSAValue, mean: bool) -> SSAValue:
        assert op.kernel is not None
        kernel = op.kernel.get_values()
        strides, padding, _ = op.window()
        if not mean:
            return self._sum_pool(op, value, kernel)
        if any(padding[a] * 2 > kernel[a % len(kernel)] for a in range(len(padding))):
            value, padding = self._padded(value, padding), [0] * len(padding)
        return self.add(spike.AvgPoolOp(value, kernel, strides, padding), op)

    def _sum_pool(self, op: spike.ProjectionOp, value: SSAValue, kernel: Sequence[int]) -> SSAValue:
        """A convolution of each channel by itself with ones."""
        strides, padding, dilation = op.window()
        channels = dense_type(value).get_shape()[2]
        ones = np.ones((channels, 1, *kernel), np.int8)
        key = f"{op.sym_name.data}.ones"
        weight = self.add(literal(self.module, key, ones, TensorType(ternary.trit, ones.shape)))
        scale = self.number(1.0) if is_train(value) else None
        conv = spike.ConvOp(
            value,
            weight,
            scale=scale,
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=channels,
        )
        return self.add(conv, op)

    def _padded(self, value: SSAValue, padding: Sequence[int]) -> SSAValue:
        """Zeros around the places of [T, N, C, …]."""
        half = len(padding) // 2
        dense = self.dense(value)
        padded = tensor.PadToOp(dense, [0, 0, 0, *padding[:half]], [0, 0, 0, *padding[half:]])
        return self.add(padded)

    # Populations.

    def constants(self, op: spike.PopulationOp, network: spike.NetworkOp) -> Constants:
        """The numbers of a population's model: for all neurons, or f32 with one for each."""
        dt, integration = network.dt.value.data, network.integration.data
        try:
            parameters = population_parameters(op)
        except ValueError as error:
            raise PassError(error_at(op, f"@{op.sym_name.data} {error}")) from None
        discretized = discrete(op.model.data, parameters, dt, integration)
        return {name: self._constant(op, name, values) for name, values in discretized.items()}

    def _constant(self, op: spike.PopulationOp, name: str, values: Array) -> float | SSAValue:
        if values.ndim == 0:
            return float(values)
        array = values.astype(np.float32)
        key = f"{op.sym_name.data}.{name}"
        return self.add(literal(self.module, key, array, TensorType(f32, array.shape)), op)

    def population(
        self, op: spike.PopulationOp, current: SSAValue, network: spike.NetworkOp
    ) -> SSAValue:
        """What a population gives for the sum of what it receives."""
        model, p = op.model.data, self.constants(op, network)
        if model == "relay":
            return current
        if model == "threshold":
            return self._threshold(op, current, p["threshold"])
        if model == "cuba_integrator":
            inner = spike.LeakyIntegratorOp(current, p["alpha"], gain=p["w_in"])
            current = self.add(inner, op)
        return named(self.add(neuron(op, current, p), op), op)

    def _threshold(
        self, op: spike.PopulationOp, current: SSAValue, level: float | SSAValue
    ) -> SSAValue:
        threshold = level if isinstance(level, SSAValue) else self.number(level)
        above = self.add(tensor.CompareOp(current, threshold, op.compare.data), op)
        return self.add(spike.FromTensorOp(above), op)

    def potential(
        self, op: spike.PopulationOp, current: SSAValue, network: spike.NetworkOp
    ) -> SSAValue:
        """v after each step of a population that fires.

        The states after each step, side by side on the last axis, are fed back: the neurons of all
        steps make one step each, from what the step before left.
        """
        type = tensor_type(current)
        shape = type.get_shape()
        names = NEURONS[op.model.data].STATES
        states = len(names)
        fed = TensorType(f32, (*shape[:-1], shape[-1] * states))
        block = Block(arg_types=[type, fed])
        inside = NetworkOps.inside(block, self)
        before = inside.parts(block.args[1], [shape[-1]] * states)
        step = inside.add(tensor.UnsqueezeOp(block.args[0], [0]))
        firing = neuron(op, step, inside.constants(op, network), before)
        inside.add(firing, op)
        after = list(firing.final)
        inside.add_end([after[0] if states == 1 else inside.add(tensor.ConcatenateOp(after, -1))])
        run = self.add(spike.RecurrentOp([current], block), op)
        return self.parts(run, [shape[-1]] * states)[names.index("v")]

    def parts(self, value: SSAValue, sizes: Sequence[int]) -> list[SSAValue]:
        """Pieces of the last axis."""
        if len(sizes) == 1:
            return [value]
        rank = tensor_type(value).get_num_dims()
        ends = np.cumsum(sizes).tolist()
        return [
            self.add(
                tensor.SliceOp(
                    value,
                    [*[0] * (rank - 1), end - size],
                    [*[SLICE_END] * (rank - 1), end],
                    [1] * rank,
                )
            )
            for size, end in zip(sizes, ends, strict=True)
        ]

    def add_end(self, values: Sequence[SSAValue]) -> None:
        """End a body."""
        end = spike.YieldOp(*values)
        end.location = self.location
        self._builder.insert(end)


def named(value: SSAValue, op: spike.PopulationOp) -> SSAValue:
    """`value`, called as the population is where that is a name for a value."""
    if SSAValue.is_valid_name(op.sym_name.data):
        value.name_hint = op.sym_name.data
    return value


def neuron(
    op: spike.PopulationOp,
    current: SSAValue,
    p: Constants,
    initial: Sequence[SSAValue] = (),
) -> spike.NeuronOp:
    """The neuron op of a population, not inserted; with `initial` it gives the final states too."""
    kind = NEURONS[op.model.data]
    options: dict[str, Any] = {name: p[name] for name in kind.PARAMETERS if name in p}
    if issubclass(kind, spike.FiringOp):
        options |= {"compare": op.compare.data, "reset": op.reset.data}
        if op.reset.data != "to_value":
            options.pop("v_reset", None)
    build: Any = kind
    return build(current, **options, initial=initial, final=bool(initial))
