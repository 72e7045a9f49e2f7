"""Between numbers and spikes: `encode`, `decode`, and trains as dense tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import (
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)

from ...ir.arrays import Array
from ...ir.definition import irdl_op_definition
from ..elements import numpy_dtype
from ..inference import Value, fail, tensor_type
from ..shapes import (
    AnyTensor,
    check_element,
    compatible,
    integer,
    is_float,
    with_element,
    with_shape,
)
from ..traits import BitExact, CanonicalizableOp, TakesSteps
from .threefry import uniform
from .types import SpikeOp, TrainType, time_first

ENCODINGS = ("rate", "regular", "latency", "direct", "delta", "phase")
DECODINGS = ("rate", "first_spike", "membrane")
READOUTS = ("last", "max", "mean")

MAX_PERIOD = 31
"""The most steps in a period of the phase code: its digits are those of a 32-bit integer."""


@irdl_op_definition
class EncodeOp(SpikeOp):
    """Numbers x as `timesteps` steps of spikes; step t counts from `start`, so that runs resume.

    The optional operand `elapsed`, a scalar i64, is added to `start`: the steps of earlier runs.

    - `rate`: s = [u < x], u = h/2^32 with h the first word of Threefry-2x32-20 (Salmon et al. 2011)
      for the key (seed mod 2^32, ⌊seed/2^32⌋) and the counter (t, j), j the row-major index of the
      element in x, both mod 2^32: independent spikes with probability x, the same everywhere.
    - `regular`: s = ⌊(t+1)·x⌋ - ⌊t·x⌋ in f64, x clipped to [0, 1]: evenly spaced, ⌊T·x⌋ in all, as
      an integrator of a constant current fires (Rueckauer et al. 2017).
    - `latency`: one spike, at t = round((P-1)·(1-x)) in f64, halves to even, x clipped to [0, 1]:
      larger is earlier (snnTorch and SpikingJelly, linear); below `threshold`, if given, none.
      P is `period`, by default `timesteps`.
    - `phase`: s = bit P-1-(t mod P) of ⌊x·2^P⌋, clipped to P bits: binary digits, largest first,
      repeated each `period` P ≤ 31 (Kim et al. 2018, weighted spikes).
    - `direct`: x itself at every step: a dense tensor (a constant current); truth values give a
      train.
    - `delta`: x has time first; s = [x[t] - x[t-1] ≥ `threshold`], before the first step `previous`
      or zeros (snnTorch's delta, events of rising values). No `timesteps`, no `start`.

        %s = spike.encode %x {scheme = "rate", timesteps = 32 : i64, seed = 7 : i64}
             : (tensor<?x784xf32>) -> !spike.train<32x?x784>
    """

    name = "spike.encode"

    operand = operand_def(TensorType)
    previous = opt_operand_def(TensorType)
    elapsed = opt_operand_def(TensorType)
    scheme = prop_def(StringAttr)
    timesteps = opt_prop_def(IntegerAttr[IntegerType])
    start = prop_def(IntegerAttr[IntegerType], default_value=integer(0))
    period = opt_prop_def(IntegerAttr[IntegerType])
    threshold = opt_prop_def(FloatAttr[Float64Type])
    seed = opt_prop_def(IntegerAttr[IntegerType])
    result = result_def(BaseAttr(TrainType) | BaseAttr(TensorType))

    traits = traits_def(BitExact())
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$operand (`,` $previous^)? (`elapsed` `(` $elapsed^ `:` type($elapsed) `)`)? attr-dict "
        "`:` `(` type($operand) (`,` type($previous)^)? `)` `->` type($result)"
    )

    def infer(self) -> Sequence[Attribute]:
        type, scheme = tensor_type(self.operand), self.scheme.data
        if scheme not in ENCODINGS:
            fail(f"expects scheme one of {', '.join(ENCODINGS)}, got '{scheme}'")
        if scheme != "direct" and not is_float(type):
            fail(f"expects floats to encode by '{scheme}', got {type}")
        check_element(type)
        self._check_properties(scheme)
        if self.elapsed is not None and tensor_type(self.elapsed) != TensorType(i64, []):
            fail(f"expects elapsed as tensor<i64>, got {self.elapsed.type}")
        if scheme == "delta":
            return [self._infer_delta(type)]
        if self.previous is not None:
            fail("expects previous values with the scheme 'delta' alone")
        if self.timesteps is None or self.timesteps.value.data < 1:
            fail("expects at least 1 timesteps")
        shape = (self.timesteps.value.data, *type.get_shape())
        if scheme == "direct" and type.element_type != i1:
            return [with_shape(type, shape)]
        return [TrainType(shape)]

    def _infer_delta(self, type: AnyTensor) -> Attribute:
        time_first(self.operand)
        step = with_shape(type, type.get_shape()[1:])
        if self.previous is not None and not compatible(self.previous.type, step):
            fail(f"expects previous values as {step}, got {self.previous.type}")
        return TrainType(type.get_shape())

    def _check_properties(self, scheme: str) -> None:
        for name, schemes in (
            ("elapsed", tuple(s for s in ENCODINGS if s not in ("delta", "direct"))),
            ("seed", ("rate",)),
            ("period", ("latency", "phase")),
            ("timesteps", tuple(s for s in ENCODINGS if s != "delta")),
        ):
            if getattr(self, name) is not None and scheme not in schemes:
                fail(f"expects {name} with the scheme {' or '.join(schemes)}, got '{scheme}'")
        if self.threshold is not None and scheme not in ("latency", "delta"):
            fail(f"expects threshold with the scheme latency or delta, got '{scheme}'")
        if scheme == "delta" and self.threshold is None:
            fail("expects a threshold with the scheme 'delta'")
        if self.start.value.data < 0 or (scheme == "delta" and self.start.value.data):
            fail(f"expects start of at least 0, and none with 'delta', got {self.start.value.data}")
        if scheme == "rate" and (self.seed is None or not 0 <= self.seed.value.data < 2**63):
            fail("expects a seed of at least 0 with the scheme 'rate'")
        if self.period is not None and self.period.value.data < 1:
            fail(f"expects a period of at least 1, got {self.period.value.data}")
        if scheme == "phase" and (self.steps_in_period() or 1) > MAX_PERIOD:
            fail(f"expects a period of at most {MAX_PERIOD}, got {self.steps_in_period()}")

    def steps_in_period(self) -> int | None:
        """P: the period, by default the number of steps."""
        period = self.timesteps if self.period is None else self.period
        return None if period is None else period.value.data

    def compute(self, x: Array, *others: Array) -> Array:
        scheme = self.scheme.data
        if scheme == "delta":
            return self._delta(x, *others)
        assert self.timesteps is not None
        start = self.start.value.data + sum(int(elapsed) for elapsed in others)
        steps = range(start, start + self.timesteps.value.data)
        if scheme == "direct":
            return np.broadcast_to(x, (len(steps), *x.shape))
        if scheme == "rate":
            assert self.seed is not None
            draws = uniform(self.seed.value.data, steps, x.size).reshape(len(steps), *x.shape)
            return draws < x.astype(np.float64)
        clipped = np.clip(x.astype(np.float64), 0.0, 1.0)
        t = np.asarray(steps, np.int64).reshape(-1, *[1] * x.ndim)
        if scheme == "regular":
            return np.floor((t + 1) * clipped) - np.floor(t * clipped) > 0
        period = self.steps_in_period()
        assert period is not None
        if scheme == "phase":
            levels = 2**period
            digits = np.minimum(np.floor(np.nan_to_num(clipped) * levels), levels - 1)
            return (digits.astype(np.int64) >> (period - 1 - t % period)) & 1 == 1
        spikes = t == np.rint((period - 1) * (1 - clipped))
        return spikes if self.threshold is None else spikes & (x >= self.threshold.value.data)

    def _delta(self, x: Array, *previous: Array) -> Array:
        assert self.threshold is not None
        before = previous[0] if previous else np.zeros(x.shape[1:], x.dtype)
        rises = np.diff(x, axis=0, prepend=before[None])
        return rises >= x.dtype.type(self.threshold.value.data)


@irdl_op_definition
class DecodeOp(SpikeOp, CanonicalizableOp):
    """T steps as one number for each neuron.

    - `rate`: the number of spikes / T, in f32.
    - `first_spike`: (T - t)/T in f32 with t the first step that has a spike, 0 where none has: the
      earliest is the largest (time to first spike, as read out by snnTorch's temporal losses).
    - `membrane`: of a dense trace over time, `readout`: its `last` step, its `max` or its `mean`.

        %y = spike.decode %s {scheme = "rate"} : (!spike.train<32x?x10>) -> tensor<?x10xf32>
    """

    name = "spike.decode"

    operand = operand_def(BaseAttr(TrainType) | BaseAttr(TensorType))
    scheme = prop_def(StringAttr)
    readout = opt_prop_def(StringAttr)
    result = result_def(TensorType)

    def infer(self) -> Sequence[Attribute]:
        type, scheme = time_first(self.operand), self.scheme.data
        if scheme not in DECODINGS:
            fail(f"expects scheme one of {', '.join(DECODINGS)}, got '{scheme}'")
        if (scheme == "membrane") != (self.readout is not None):
            fail("expects a readout with the scheme 'membrane', and only there")
        if self.readout is not None and self.readout.data not in READOUTS:
            fail(f"expects readout one of {', '.join(READOUTS)}, got '{self.readout.data}'")
        if type.get_shape()[0] == 0:
            fail(f"expects at least one step, got {self.operand.type}")
        step = with_shape(type, type.get_shape()[1:])
        if scheme == "membrane":
            if not is_float(type):
                fail(f"expects a trace of floats for 'membrane', got {self.operand.type}")
            return [step]
        if not isinstance(self.operand.type, TrainType):
            fail(f"expects a spike train for '{scheme}', got {self.operand.type}")
        return [with_element(step, f32)]

    def compute(self, x: Array) -> Array:
        steps = x.shape[0]
        if steps == 0:
            raise ValueError("expects at least one step to decode")
        if self.scheme.data == "rate":
            return x.sum(axis=0, dtype=np.float32) / np.float32(steps)
        if self.scheme.data == "first_spike":
            left = steps - np.argmax(x, axis=0)
            return np.where(x.any(axis=0), left, 0).astype(np.float32) / np.float32(steps)
        assert self.readout is not None
        if self.readout.data == "last":
            return x[-1]
        return x.max(axis=0) if self.readout.data == "max" else x.mean(axis=0)


@irdl_op_definition
class ToTensorOp(SpikeOp, CanonicalizableOp):
    """A train as a dense tensor: 1 where there is a spike, else 0; any element type.

    %x = spike.to_tensor %s : (!spike.train<32x?x10>) -> tensor<32x?x10xf32>
    """

    name = "spike.to_tensor"

    operand = operand_def(TrainType)
    result = result_def(TensorType)

    traits = traits_def(BitExact(), TakesSteps())

    def __init__(self, operand: Value, element: Attribute = f32) -> None:
        shape = time_first(SSAValue.get(operand)).get_shape()
        IRDLOperation.__init__(self, operands=[operand], result_types=[TensorType(element, shape)])

    def infer(self) -> Sequence[Attribute]:
        result = tensor_type(self.result)
        check_element(result)
        return [with_shape(result, time_first(self.operand).get_shape())]

    def compute(self, s: Array) -> Array:
        return s.astype(numpy_dtype(tensor_type(self.result).element_type))


@irdl_op_definition
class FromTensorOp(SpikeOp, CanonicalizableOp):
    """A dense time-first tensor as a train: a spike wherever the element is not zero.

    %s = spike.from_tensor %x : (tensor<32x?x10xf32>) -> !spike.train<32x?x10>
    """

    name = "spike.from_tensor"

    operand = operand_def(TensorType)
    result = result_def(TrainType)

    traits = traits_def(BitExact(), TakesSteps())

    def infer(self) -> Sequence[Attribute]:
        type = time_first(self.operand)
        check_element(type)
        return [TrainType(type.get_shape())]

    def compute(self, x: Array) -> Array:
        return x != 0
