"""What a float value becomes over time, and the writer that the rules of the conversion build with.

A `Signal` stands for a value of the float program: steps [T, …] and what a step is worth. Which op
becomes what is the business of `neurons`, `synapses`, `shapes` and `attention`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, dense_constant
from ...dialects.shapes import DYNAMIC, AnyTensor, Shape
from ...dialects.spike.types import is_train
from ...ir.errors import PassError
from ...ir.locations import location_text
from ..analysis.compile_time import compile_time_values, literal
from ..analysis.replacement import insert_before

if TYPE_CHECKING:
    from .correction import Correction


class NotConvertible(PassError):
    """An op that cannot be converted where it stands; the message is the reason."""


@dataclass(frozen=True)
class Signal:
    """What stands for a float value: the mean over time of `worth`·`steps`.

    Attributes:
        steps: a train or a dense tensor [T, …], the value's shape after time.
        worth: how much a step counts, f64: one number, or an array that broadcasts to the value's
            shape without its first axis.
        type: the type of the float value.
    """

    steps: SSAValue
    worth: Array
    type: AnyTensor

    @property
    def uniform(self) -> bool:
        """Whether all places are worth the same."""
        return self.worth.ndim == 0


ONE = np.array(1.0)


def compact(worth: Array) -> Array:
    """`worth` with size 1 on each axis along which it does not change; one number if none does."""
    for axis in range(worth.ndim):
        first = worth.take([0], axis) if worth.shape[axis] else worth
        if worth.shape[axis] > 1 and bool((worth == first).all()):
            worth = first
    return worth.reshape(()) if worth.size == 1 else worth


class Conversion:
    """The conversion of one function: what each value has become, and where new ops go.

    Attributes:
        module: the program; its store takes new constants.
        timesteps: T.
        correction: what is done with samples, if there are some.
        reset: of neurons that fire.
        signals: what has a signal; all other values do not change over time.
        means: what stands for values that were computed from means over time.
        known: values that depend on parameters and constants alone.
        exact: currents that have the mean of the float program.
        populations: how many ops of neurons there are.
        remarks: what is only approximate, as `(op name, location, remark)`.
        before_neurons: ops of the float program after which neurons come.
        added: all ops written so far.
    """

    def __init__(
        self,
        module: ModuleOp,
        ops: Sequence[Operation],
        timesteps: int,
        threshold: float | None,
        correction: Correction | None = None,
        reset: str = "subtract",
    ) -> None:
        self.module = module
        self.timesteps = timesteps
        self.default_threshold = threshold
        self.correction = correction
        self.reset = reset
        self.known = compile_time_values(ops)
        self.signals: dict[SSAValue, Signal] = {}
        self.means: dict[SSAValue, SSAValue] = {}
        self.exact: set[SSAValue] = set()
        self.populations = 0
        self.remarks: list[tuple[str, str, str]] = []
        self.added: list[Operation] = []
        self.source = ops[0]
        self.before_neurons: Collection[Operation] = ()

    # Writing ops.

    def add(self, op: Operation) -> SSAValue:
        """Insert `op` where the op under conversion stands; its first result."""
        insert_before(self.source, op)
        self.added.append(op)
        result = op.results[0]
        if isinstance(op, tensor.ConstantOp | tensor.ParameterOp):
            self.known.add(result)
        elif op.operands and all(value in self.known for value in op.operands):
            self.known.update(op.results)
        return result

    def number(self, value: float, element: Attribute) -> SSAValue:
        """A scalar constant."""
        return self.add(dense_constant(np.array(value), element))

    def constant(self, values: Array, element: Attribute, name: str) -> SSAValue:
        """A constant array; a large one becomes the parameter `name` of the store."""
        array = np.asarray(values, dtype=numpy_dtype(element), order="C")
        type = TensorType(element, array.shape)
        return self.add(literal(self.module, name, array, type, buffer=True))

    def plus(self, value: SSAValue, numbers: Array, name: str) -> SSAValue:
        """`value` and a constant array that broadcasts to it."""
        element = tensor_type(value).element_type
        return self.add(tensor.AddOp(value, self.constant(numbers, element, name)))

    def level(self, values: Array, element: Attribute) -> Any:
        """A parameter of neurons: a number, or a constant with one for each."""
        return float(values) if values.ndim == 0 else self.constant(values, element, "threshold")

    def offset(self, current: SSAValue, numbers: Array, name: str) -> SSAValue:
        """A current [T, …] with a constant more in the mean, which broadcasts to a step.

        Signed spikes have it whole at the first step.
        """
        if self.signed:
            numbers = self.at_first(tensor_type(current).get_num_dims()) * numbers
        return self.plus(current, numbers, name)

    def at_first(self, rank: int) -> Array:
        """What makes of a constant all its steps at the first one."""
        return np.array([float(self.timesteps), *[0.0] * (self.timesteps - 1)]).reshape(
            -1, *[1] * (rank - 1)
        )

    @property
    def signed(self) -> bool:
        """Whether neurons give signed spikes."""
        return self.correction is not None and self.correction.signed

    def remark(self, op: Operation, text: str) -> None:
        """Say that what `op` has become is only approximate."""
        self.remarks.append((op.name, location_text(op), text))

    # Reading signals.

    def is_last(self, op: Operation) -> bool:
        """Whether no neurons come after an op of the float program."""
        return op not in self.before_neurons

    def is_dynamic(self, value: SSAValue) -> bool:
        """Whether `value` has become a signal."""
        return value in self.signals

    def signal(self, value: SSAValue) -> Signal:
        """The signal of `value`; of one that does not change, a constant current."""
        known = self.signals.get(value)
        if known is None:
            type = tensor_type(value)
            steps = self.add(spike.EncodeOp(value, "direct", self.timesteps))
            if self.signed:
                whole = self.at_first(type.get_num_dims() + 1)
                factor = self.constant(whole, type.element_type, "first")
                steps = self.add(tensor.MulOp(steps, factor))
            self.exact.add(steps)
            known = Signal(steps, ONE, type)
        return known

    def dense(self, signal: Signal) -> SSAValue:
        """The steps of a signal as a tensor [T, …] that is worth 1."""
        element = signal.type.element_type
        steps = signal.steps
        if is_train(steps):
            steps = self.add(spike.ToTensorOp(steps, element))
        if signal.uniform and float(signal.worth) == 1.0:
            return steps
        return self.add(tensor.MulOp(steps, self.constant(signal.worth, element, "worth")))

    def current(self, value: SSAValue) -> Signal:
        """The signal of `value`, dense and worth 1."""
        signal = self.signal(value)
        return Signal(self.dense(signal), ONE, signal.type)

    def floats(self, signal: Signal) -> SSAValue:
        """The steps as floats of the value's type, not yet times their worth."""
        if is_train(signal.steps):
            return self.add(spike.ToTensorOp(signal.steps, signal.type.element_type))
        return signal.steps

    def decoded(self, value: SSAValue) -> SSAValue:
        """The mean over time of what `value` has become: a value of its own type."""
        if value not in self.signals:
            return self.means.get(value, value)
        signal = self.signals[value]
        current = self.dense(signal)
        if self.correction is not None:
            current = self.correction.shifted(self, value, current)
        return self.add(spike.DecodeOp(current, "membrane", "mean"))


def step_shape(type: AnyTensor) -> Shape | None:
    """The shape of a value without its first axis; `None` if a size is not known."""
    shape = type.get_shape()[1:]
    return None if DYNAMIC in shape else shape
