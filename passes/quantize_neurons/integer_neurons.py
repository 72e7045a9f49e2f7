"""Integrate-and-fire neurons on the exact sums of a synapse: everything in whole units.

A synapse of i8 weights or trits gives scale·k + bias with a whole k. Potentials, thresholds and the
rest in units of gain·scale are then whole numbers too, if the threshold is one; or if it is only
compared, since k ≥ θ is k ≥ ⌈θ⌉.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, module_of
from ...dialects.shapes import is_float
from ...dialects.spike.rebuild import rebuilt
from ...dialects.spike.types import is_train, number
from ...dialects.ternary.types import is_trit
from ..analysis.compile_time import has_value, is_literal, literal, literal_value
from ..analysis.layers import Synapse, channel_axis, channel_count
from ..analysis.replacement import erase, insert_before, replace

TOLERANCE = 1e-6
"""How far, relatively, a number of f32 may be from a whole one that it stands for."""


@dataclass(frozen=True)
class IntegerNeuron:
    """`spike.integrate_fire` that alone uses a synapse, with its numbers for each channel.

    Attributes:
        synapse: the synapse.
        op: the neurons.
        gain: of each channel, in f64, as are the others.
        threshold: of each channel.
        v_reset: of each channel.
    """

    synapse: Synapse
    op: spike.IntegrateFireOp
    gain: Array
    threshold: Array
    v_reset: Array

    @staticmethod
    def of(synapse: Synapse) -> IntegerNeuron | None:
        """The neurons on a synapse, if there are and all their numbers are known."""
        op = synapse.result.get_user_of_unique_use()
        if (
            not isinstance(op, spike.IntegrateFireOp)
            or op.input is not synapse.result
            or op.parent is not synapse.parent
            or isinstance(op.parent_op(), spike.LayerOp)
            or len(op.results) != 1
            or not is_float(tensor_type(op.input))
        ):
            return None
        others = [value.owner for value in op.operands[1:]]
        if not all(is_literal(owner) and has_value(owner) for owner in others):
            return None
        parameters = [_per_channel(synapse, op.parameter(name)) for name in op.PARAMETERS]
        known = [values for values in parameters if values is not None]
        if len(known) != len(parameters) or not (known[0] > 0).all():
            return None
        return IntegerNeuron(synapse, op, *known)

    def fitted(self, units: Array) -> Array:
        """`units` made larger, so that gain·units divides the threshold; where it can be."""
        counts = np.floor(self.threshold / (self.gain * units) + TOLERANCE)
        fits = counts >= 1
        return np.where(fits, self.threshold / (self.gain * np.where(fits, counts, 1)), units)

    def take_units(self) -> None:
        """Drop the scale of the synapse: put everything in its units, if it is whole there."""
        synapse = self.synapse
        scale = None if synapse.scale is None else literal_value(synapse.scale)
        if scale is None or not is_train(synapse.input) or not (scale > 0).all():
            return
        bias = np.zeros(()) if synapse.bias is None else literal_value(synapse.bias)
        threshold = self._threshold(scale.astype(np.float64))
        if bias is None or threshold is None:
            return
        units = scale.astype(np.float64)
        column = self._column(np.broadcast_to(self.gain * units, self.gain.shape))
        initial = [literal_value(value) for value in self.op.initial]
        wanted = [bias / units, self.v_reset / (self.gain * units)]
        wanted += [value / column for value in initial if value is not None]
        # Weights of 8 bits are rounded anyway, and a unit is small; that of trits is not.
        loose = not is_trit(tensor_type(synapse.weight))
        whole = [_whole(value, loose and index != 1) for index, value in enumerate(wanted)]
        known = [value for value in whole if value is not None]
        if len(known) == len(wanted):
            self._replace(threshold, known[0], known[1], known[2:])

    def _threshold(self, units: Array) -> Array | None:
        """The thresholds in units; `None` if they are not whole, and are subtracted."""
        ratio = self.threshold / (self.gain * units)
        whole = _whole(ratio, loose=False)
        if whole is not None:
            return whole
        if self.op.reset.data == "subtract":
            return None
        near = np.abs(ratio - np.rint(ratio)) <= TOLERANCE * np.abs(ratio)
        rounded = np.floor(ratio) if self.op.compare.data == "gt" else np.ceil(ratio)
        return _whole(np.where(near, np.rint(ratio), rounded), loose=False)

    def _replace(self, threshold: Array, bias: Array, v_reset: Array, initial: list[Array]) -> None:
        synapse, op = self.synapse, self.op
        vectors = {"bias": bias} if synapse.bias is not None else {}
        parameters = {n: [new_value(synapse, n, v, i32)] for n, v in vectors.items()}
        shape = tensor_type(synapse.result).get_shape()
        new = rebuilt(
            synapse,
            {"scale": [], "bias": [], **parameters},
            {"result": [TensorType(i32, shape)]},
        )
        insert_before(op, new, synapse)
        operands: dict[str, list[SSAValue]] = {
            "input": [new.result],
            "initial": [new_value(op, "initial", value, i32) for value in initial],
            "gain_values": [],
        }
        properties: dict[str, Attribute | None] = {"gain": None}
        for name, values in (("threshold", threshold), ("v_reset", v_reset)):
            same = bool((values == values.reshape(-1)[0]).all())
            value = self._column(np.broadcast_to(values, self.gain.shape))
            operands[f"{name}_values"] = [] if same else [new_value(op, name, value, i32)]
            properties[name] = number(float(values.reshape(-1)[0])) if same else None
        if op.reset.data != "to_value":
            operands["v_reset_values"], properties["v_reset"] = [], None
        replace(op, rebuilt(op, operands, properties=properties))
        erase(synapse)

    def _column(self, values: Array) -> Array:
        """One value a channel in a shape that broadcasts to a step of the current."""
        rank = tensor_type(self.synapse.result).get_num_dims()
        return values.reshape(-1, *[1] * (rank - channel_axis(self.synapse) - 1))


def _per_channel(synapse: Synapse, value: float | SSAValue) -> Array | None:
    """A parameter of neurons as one f64 for each channel; `None` if it differs within one."""
    channels = channel_count(synapse)
    if not isinstance(value, SSAValue):
        # A number is rounded to the type of the current.
        return np.full(channels, np.float32(value).astype(np.float64))
    array = literal_value(value)
    if array is None:
        return None
    tail = tensor_type(synapse.result).get_num_dims() - channel_axis(synapse)
    shape = (1,) * (tail - array.ndim) + array.shape
    axis = len(shape) - tail
    others = [size for a, size in enumerate(shape) if a != axis]
    if set(others) - {1} or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (channels,)).copy()


def _whole(values: Array, loose: bool) -> Array | None:
    """`values` rounded to i32; `None` if one is out of range, or not near, unless `loose`."""
    rounded = np.rint(values)
    near = loose or bool((np.abs(values - rounded) <= TOLERANCE * np.abs(values)).all())
    return rounded.astype(np.int32) if near and (np.abs(rounded) < 2**31).all() else None


def new_value(op: Operation, name: str, array: Array, element: Attribute) -> SSAValue:
    """A literal before `op`, named after the weight of the synapse that it belongs to."""
    synapse = op if isinstance(op, Synapse) else op.operands[0].owner
    owner = synapse.weight.owner if isinstance(synapse, Synapse) else None
    base = owner.key.data if isinstance(owner, tensor.ParameterOp) else "constant"
    constant = literal(module_of(op), f"{base}.{name}", array, TensorType(element, array.shape))
    insert_before(op, constant, op)
    return constant.result
