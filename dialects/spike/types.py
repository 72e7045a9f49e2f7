"""The type of spike trains, and what the ops of the dialect share: time-first shapes and dt."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from xdsl.dialects.builtin import (
    ArrayAttr,
    Float64Type,
    FloatAttr,
    IntAttr,
    TensorType,
    f64,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ..inference import InferredOp, fail, tensor_type
from ..shapes import DYNAMIC, AnyTensor, Shape, SizedType, show_shape

TIME_STEP = "spike.dt"
"""The attribute of a function that states the length of a time step in seconds, an f64."""


@irdl_attr_definition
class TrainType(ParametrizedAttribute, TypeAttribute, SizedType):
    """A binary spike train: at each step and each place a spike or none; the first axis is time.

    `!spike.train<32x?x784>` has 32 steps of a batch of 784 neurons each. In memory a train is a
    row-major array of truth values. Batch, time, channels, height and width of the SpikeTensor of
    other tools are the axes (T, N, C, H, W) here.
    """

    name = "spike.train"

    shape: ArrayAttr[IntAttr]

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__(ArrayAttr([IntAttr(size) for size in shape]))

    def verify(self) -> None:
        shape = self.get_shape()
        if not shape or any(size < 0 and size != DYNAMIC for size in shape):
            raise VerifyException(f"'{self.name}' expects a time axis and sizes of at least 0")

    def get_num_dims(self) -> int:
        return len(self.shape.data)

    def get_shape(self) -> tuple[int, ...]:
        return tuple(size.data for size in self.shape)

    def with_shape(self, shape: Sequence[int]) -> TrainType:
        return TrainType(shape)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = parser.parse_dimension_list()
        return [ArrayAttr([IntAttr(size) for size in shape])]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(show_shape(self.get_shape()))


def train(*shape: int) -> TrainType:
    """`!spike.train<shape>`."""
    return TrainType(shape)


def is_train(value: SSAValue) -> bool:
    """Whether `value` is a spike train."""
    return isinstance(value.type, TrainType)


def dense_type(value: SSAValue) -> AnyTensor:
    """The tensor that holds `value` in memory: a train is one of `i1`.

    Raises:
        ShapeError: `value` is neither a tensor nor a train.
    """
    if isinstance(value.type, TrainType):
        return TensorType(i1, value.type.get_shape())
    if not isinstance(value.type, TensorType):
        fail(f"expects a tensor or a spike train, got {value.type}")
    return tensor_type(value)


def time_first(value: SSAValue, rank: int = 1) -> AnyTensor:
    """`dense_type` of a value with time as its first axis, and `rank` axes at least."""
    type = dense_type(value)
    if type.get_num_dims() < rank:
        fail(f"expects time first and rank {rank} or more, got {value.type}")
    return type


def like(value: SSAValue, shape: Shape) -> Attribute:
    """The type of `value` with another shape."""
    if isinstance(value.type, TrainType):
        return TrainType(shape)
    return TensorType(tensor_type(value).element_type, shape)


def number(value: float | None) -> FloatAttr[Float64Type] | None:
    """`value : f64`; `None` stays."""
    return None if value is None else FloatAttr(value, f64)


def time_step(op: Operation) -> float | None:
    """dt in seconds as the function or network around `op` states it; `None` if it does not.

    Raises:
        VerifyException: it states something other than a positive number.
    """
    around: Operation | None = op
    while around is not None and not isinstance(around, FuncOp):
        around = around.parent_op()
    if around is None or TIME_STEP not in around.attributes:
        return None
    return positive_seconds(around, around.attributes[TIME_STEP])


def positive_seconds(op: Operation, dt: Attribute, name: str = TIME_STEP) -> float:
    """The number of seconds that `dt`, the attribute `name` of `op`, states.

    Raises:
        VerifyException: it is no positive f64.
    """
    value = dt.value.data if isinstance(dt, FloatAttr) and dt.type == f64 else None
    if value is None or not (value > 0 and isfinite(value)):
        raise VerifyException(
            f"'{op.name}' expects '{name}' as a positive number of seconds of f64, got {dt}"
        )
    return value


class SpikeOp(InferredOp):
    """An op on spike trains, which runs in steps of the enclosing function's `spike.dt`."""

    def verify_(self) -> None:
        time_step(self)
        super().verify_()
