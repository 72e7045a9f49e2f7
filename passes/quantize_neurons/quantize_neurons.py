"""The pass `quantize-neurons`: what `quantize-spike` leaves to floats becomes integers too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, module_of
from ...dialects.shapes import DYNAMIC, is_float
from ...dialects.spike.types import dense_type
from ...ir.errors import expect_from
from ...ir.neurons.model import GAIN, LEVEL, THRESHOLD
from ..analysis.compile_time import is_literal, literal, literal_value
from ..analysis.replacement import erase_unused
from ..convert_spike_to_tensor.tensor_builder import Builder
from .integer_currents import Current, current_of

MOST_BITS = 15

INTEGER_FORMS = {
    "lif": "integer_lif",
    "integrate_fire": "integrate_fire",
    "refractory_lif": "refractory_lif",
}
"""The models that become one of integers, and which."""


@dataclass(frozen=True)
class QuantizeNeuronsPass(ModulePass):
    """Neurons, constant currents and readouts on integers, after `quantize-spike`.

    A current is scale·k with whole numbers k where a synapse has i8 weights or trits, and where
    `spike.encode{direct}` repeats a product of dequantised inputs, whose weights become 8 bits
    here. On it

    - `spike.lif` without `v_leak` becomes `spike.integer_lif`, with a decay of `decay-bits` bits;
    - `spike.integrate_fire` becomes one of integers, `spike.refractory_lif` one with such a decay;
    - `spike.decode{membrane}` becomes the sum, the largest or the last of k, dequantised.

    A potential is counted in units of scale·gain / 2^`fraction`; thresholds, biases and what else
    there is are rounded to units.

        %i = spike.linear %x, %w scale(%s : tensor<4xf32>)
             : !spike.train<8x?x8>, tensor<8x4xi8> -> tensor<8x?x4xf32>
        %t = spike.lif %i {beta = 0.9 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
        // becomes, with a scale of 0.1 everywhere
        %i = spike.linear %x, %w : !spike.train<8x?x8>, tensor<8x4xi8> -> tensor<8x?x4xi32>
        %t = spike.integer_lif %i
             {decay = 230.0 : f64, shift = 8 : i64, gain = 16.0 : f64, threshold = 160.0 : f64}
             : (tensor<8x?x4xi32>) -> !spike.train<8x?x4>

    Approximate, by those roundings. For hardware. What is not so stays as it is.

    Raises:
        OptionError: an option is out of its range.
    """

    name = "quantize-neurons"
    approximate: ClassVar[bool] = True

    fraction: int = 4
    """Bits of a potential below the unit of the current, 0 to 15."""

    decay_bits: int = 8
    """Bits of a decay, 1 to 15."""

    def __post_init__(self) -> None:
        expect_from(f"{self.name} expects fraction", self.fraction, 0, MOST_BITS)
        expect_from(f"{self.name} expects decay-bits", self.decay_bits, 1, MOST_BITS)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner.parent_op(), spike.LayerOp):
                continue
            if isinstance(inner, spike.NeuronOp) and inner.MODEL.name in INTEGER_FORMS:
                self._neurons(inner)
            elif isinstance(inner, spike.DecodeOp) and inner.scheme.data == "membrane":
                _readout(inner)
        erase_unused([inner for inner in op.walk() if is_literal(inner)])

    def _neurons(self, op: spike.NeuronOp) -> None:
        current = current_of(op.input) if is_float(tensor_type(op.input)) else None
        parameters = {name: _known(op.parameter(name)) for name in op.PARAMETERS}
        initial = [_known(value) for value in op.initial]
        if current is None or op.final or None in initial or None in parameters.values():
            return
        known = {name: value for name, value in parameters.items() if value is not None}
        if known.get("v_leak", np.zeros(())).any() or not (known["gain"] > 0).all():
            return
        unit = known["gain"] * current.scale / 2.0**self.fraction
        wanted: dict[str, Array] = {}
        for name, spec in op.PARAMETERS.items():
            if spec.tau:
                wanted[name] = known[name] * 2**self.decay_bits
            elif spec is THRESHOLD or (name == "v_reset" and op.options().reset == "to_value"):
                wanted[name] = known[name] / unit
            elif spec is not GAIN and spec is not LEVEL:
                wanted[name] = known[name]
        starts = dict(zip(op.STATES, initial, strict=False))
        states = {n: v / unit if n == "v" else v for n, v in starts.items() if v is not None}
        if any(np.abs(value).max() >= 2**30 for value in (*wanted.values(), *states.values())):
            return
        numbers = {name: np.rint(value).astype(np.int32) for name, value in wanted.items()}
        numbers["threshold"] = np.maximum(numbers["threshold"], 1)
        begin = {name: np.rint(value).astype(np.int32) for name, value in states.items()}
        self._replace(op, current, numbers, begin)

    def _replace(
        self,
        op: spike.NeuronOp,
        current: Current,
        numbers: dict[str, Array],
        states: dict[str, Array],
    ) -> None:
        builder, kind = Builder(op), spike.NEURONS[INTEGER_FORMS[op.MODEL.name]]
        shape = tuple(1 if n == DYNAMIC else n for n in tensor_type(op.input).get_shape()[1:])
        initial: list[SSAValue] = []
        if any(value.any() for value in states.values()):
            initial = [
                _stored(builder, op, f"{current.name}.{key}", np.broadcast_to(value, shape))
                for name, value in states.items()
                for key in ["initial" if name == "v" else f"initial.{name}"]
            ]
        integers = current.integers(builder)
        settings: dict[str, Any] = vars(op.options()) | {"shift": self.decay_bits}
        settings = {name: settings[name] for name in kind.MODEL.options}
        settings["gain"] = float(2**self.fraction)
        for name, value in numbers.items():
            stated = name if name in kind.PARAMETERS else "decay"
            same = (value == value.reshape(-1)[0]).all()
            number = float(value.reshape(-1)[0])
            key = f"{current.name}.{stated}"
            settings[stated] = number if same else _stored(builder, op, key, value)
        current.forget_after(op, builder.add(kind(integers, initial=initial, **settings)))


def _stored(builder: Builder, op: Operation, key: str, value: Array) -> SSAValue:
    array = np.ascontiguousarray(value)
    type: TensorType[Attribute] = TensorType(i32, array.shape)
    return builder.add(literal(module_of(op), key, array, type))


def _known(value: float | SSAValue) -> Array | None:
    """The numbers of a parameter or a first state, in f64; `None` if they are not known."""
    if not isinstance(value, SSAValue):
        return np.asarray(value, np.float64)
    owner = value.owner
    if isinstance(owner, tensor.ClampOp) and owner.min is not None and owner.min == owner.max:
        return np.asarray(owner.min.value.data, np.float64)  # the same number for each element
    array = literal_value(value)
    return None if array is None else array.astype(np.float64)


def _readout(op: spike.DecodeOp) -> None:
    """The mean, the largest or the last current, from sums of integers."""
    current = current_of(op.operand) if is_float(dense_type(op.operand)) else None
    steps, *rest = dense_type(op.operand).get_shape()
    assert op.readout is not None
    if current is None or len(rest) < 1 or (steps == DYNAMIC and op.readout.data == "mean"):
        return
    builder = Builder(op)
    trace = current.integers(builder)
    scale = current.scale
    match op.readout.data:
        case "mean":
            value = builder.add(tensor.ReduceSumOp(trace, [0]))
            scale = scale / steps
        case "max":
            value = builder.add(tensor.ReduceMaxOp(trace, [0]))
        case _:
            value = builder.add(tensor.SqueezeOp(builder.cut(trace, -1, _END), [0]))
    axis = len(rest) - max(1, scale.ndim)
    factors = scale.astype(np.float32).reshape(-1 if scale.ndim else ())
    constant = builder.add(
        literal(module_of(op), f"{current.name}.readout", factors, TensorType(f32, factors.shape))
    )
    zero = builder.constant(np.zeros((), np.int32), i32)
    result = builder.add(tensor.DequantizeOp(value, constant, zero, axis=axis))
    current.forget_after(op, result)


_END = 2**63 - 1
