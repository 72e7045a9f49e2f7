"""What all neuron ops share: parameters as numbers or per neuron, and states that can be resumed.

The neurons themselves stand in `neurons` and `adaptive`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import (
    BoolAttr,
    Float64Type,
    FloatAttr,
    StringAttr,
    TensorType,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    ParsePropInAttrDict,
    PropertyDef,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from ...ir.definition import irdl_op_definition
from ..inference import Value, fail, tensor_type
from ..neuron_equations import GENERAL_STEPS, Step, model_of
from ..shapes import (
    AnyTensor,
    ShapeError,
    broadcasts_to,
    compatible,
    integer,
    is_float,
    show_shape,
)
from ..traits import CanonicalizableOp, HasSteps
from .types import SpikeOp, TrainType, number, time_first

COMPARISONS = ("gt", "ge")
RESETS = ("subtract", "to_value", "none")

Parameter: TypeAlias = float | Value
"""A parameter of a neuron: one number for all, or a value with one for each neuron."""


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter of a neuron model.

    Attributes:
        default: its value where none is given; `None` if it must be given.
        low: the least number allowed.
        high: the greatest number allowed.
    """

    default: float | None = None
    low: float = float("-inf")
    high: float = float("inf")


DECAY = ParameterSpec(None, 0.0, 1.0)
GAIN = ParameterSpec(1.0)
LEVEL = ParameterSpec(0.0)
THRESHOLD = ParameterSpec(1.0)


class NeuronOp(SpikeOp, CanonicalizableOp, ABC):
    """A population of neurons that runs over all steps of its input current [T, …].

    A parameter is one number for all neurons (a property) or a tensor with one for each (an operand
    in parentheses after its name), which broadcasts to the shape of a step by NumPy's rules. The
    states before the first step are `initial`, zeros by default; the states after the last step
    are results on request, so that a run that is cut in two and resumed gives the same bits.
    Numbers are rounded to the element type, equations are computed from left to right; f16 and
    bf16 compute a step in f32 and round the states after it.
    """

    PARAMETERS: ClassVar[Mapping[str, ParameterSpec]]
    """The parameters, in the order of their operands."""

    STATES: ClassVar[tuple[str, ...]]
    """The states, in the order of `initial` and `final`."""

    ON_INTEGERS: ClassVar[bool] = False
    """Whether the neuron is defined on integers too."""

    input = operand_def(TensorType)
    initial = var_operand_def(TensorType)
    output = result_def(BaseAttr(TrainType) | BaseAttr(TensorType))
    final = var_result_def(TensorType)

    traits = traits_def(Pure(), HasSteps())
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))

    def __init__(
        self,
        input: Value,
        *required: Parameter,
        initial: Sequence[Value] = (),
        final: bool = False,
        **others: Parameter | str | None,
    ) -> None:
        """A neuron on a current.

        Args:
            input: the current [T, …].
            required: the parameters without a default, in order.
            initial: the states before the first step; zeros by default.
            final: whether the states after the last step are results too.
            others: parameters and options by name; `None` stands for the default.

        Raises:
            TypeError: names that the neuron does not have, or too many parameters.
        """
        names = [name for name, spec in self.PARAMETERS.items() if spec.default is None]
        given = {**dict(zip(names, required, strict=False)), **others}
        defined = self.get_irdl_definition().properties
        if len(required) > len(names) or not given.keys() <= defined.keys():
            raise TypeError(
                f"{self.name} takes {', '.join(names) or 'none'} by position and "
                f"{', '.join(defined)} by name, got {len(required)} and {', '.join(others)}"
            )
        values = [given.get(name) for name in self.PARAMETERS]
        options = {name: spec for name, spec in defined.items() if name not in self.PARAMETERS}
        self.build_inferred(
            [input, initial, *map(_operand, values)],
            {
                **{name: _option(given.get(name), spec) for name, spec in options.items()},
                **dict(zip(self.PARAMETERS, map(_number, values), strict=True)),
            },
            results=[1, len(self.STATES) if final else 0],
        )

    def parameter(self, name: str) -> float | SSAValue:
        """A parameter by name: its value for each neuron, or its number or default."""
        values = getattr(self, f"{name}_values")
        if values is not None:
            return values
        attribute = getattr(self, name)
        if attribute is not None:
            return attribute.value.data
        default = self.PARAMETERS[name].default
        assert default is not None
        return default

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.input)
        time_first(self.input)
        if not is_float(type) and not (self.ON_INTEGERS and is_plain_integer(type)):
            wanted = "floats or i8, i16, i32 or i64" if self.ON_INTEGERS else "floats"
            fail(f"expects a current of {wanted}, got {type}")
        step = TensorType(type.element_type, type.get_shape()[1:])
        for name, spec in self.PARAMETERS.items():
            self._check_parameter(name, spec, step)
        if len(self.initial) not in (0, len(self.STATES)):
            fail(
                f"expects {len(self.STATES)} initial state(s), {', '.join(self.STATES)}, "
                f"got {len(self.initial)}"
            )
        for name, value in zip(self.STATES, self.initial, strict=False):
            if not compatible(value.type, step):
                fail(f"expects the initial state {name} as {step}, got {value.type}")
        states = [step] * len(self.STATES) if self.final else []
        return [self.output_type(type), *states]

    def output_type(self, input: AnyTensor) -> Attribute:
        """The type of the main result."""
        return TrainType(input.get_shape())

    def _check_parameter(self, name: str, spec: ParameterSpec, step: AnyTensor) -> None:
        attribute, values = getattr(self, name), getattr(self, f"{name}_values")
        if attribute is not None and values is not None:
            fail(f"expects {name} as a number or for each neuron, got both")
        if attribute is None and values is None and spec.default is None:
            fail(f"expects {name} as a number or for each neuron, got neither")
        if attribute is not None:
            constant = attribute.value.data
            if not (isfinite(constant) and spec.low <= constant <= spec.high):
                bounds = "" if spec.high == float("inf") else f" from {spec.low} to {spec.high}"
                fail(f"expects {name} as a finite number{bounds}, got {constant}")
            if not is_float(step) and constant != int(constant):
                fail(f"expects {name} as a whole number for {step}, got {constant}")
        if values is not None:
            type = tensor_type(values)
            if type.element_type != step.element_type:
                fail(f"expects {name} of {step.element_type}, got {type}")
            if not broadcasts_to(type.get_shape(), step.get_shape()):
                fail(
                    f"expects {name} that broadcasts to {show_shape(step.get_shape())}, got {type}"
                )


class FiringOp(NeuronOp, ABC):
    """A neuron that fires: it compares its potential with a threshold, and is reset where it fired.

    `compare`: `gt` fires above the threshold, `ge` at it too. `reset`: `subtract` takes the
    threshold off the potential, `to_value` sets it to `v_reset`, `none` leaves it.
    """

    compare = prop_def(StringAttr, default_value=StringAttr("ge"))
    reset = prop_def(StringAttr, default_value=StringAttr("subtract"))

    def infer(self) -> Sequence[Attribute]:
        check_firing(self.compare.data, self.reset.data)
        if self.reset.data != "to_value" and (
            getattr(self, "v_reset", None) is not None
            or getattr(self, "v_reset_values", None) is not None
        ):
            fail(f"expects v_reset with the reset 'to_value' alone, got '{self.reset.data}'")
        return super().infer()


def check_firing(compare: str, reset: str) -> None:
    """Refuse an unknown comparison or reset (`ShapeError`)."""
    for what, value, allowed in (("compare", compare, COMPARISONS), ("reset", reset, RESETS)):
        if value not in allowed:
            raise ShapeError(f"expects {what} one of {', '.join(allowed)}, got '{value}'")


def is_plain_integer(type: AnyTensor) -> bool:
    """Whether the elements are signed integers of 8 to 64 bits."""
    return type.element_type in (i8, i16, i32, i64)


NeuronT = TypeVar("NeuronT", bound=NeuronOp)


NEURONS: dict[str, type[NeuronOp]] = {}
"""The op of each model, in the order in which they are defined."""


def neuron_definition(cls: type[NeuronT]) -> type[NeuronT]:
    """Define a neuron: an operand and a property for each of its `PARAMETERS`, and its text.

    A class may have its own `STEP`, a step as in `dialects.neuron_equations`.
    """
    fields: dict[str, Any] = {
        "input": operand_def(TensorType),
        "initial": var_operand_def(TensorType),
        **{f"{name}_values": opt_operand_def(TensorType) for name in cls.PARAMETERS},
        **{name: opt_prop_def(FloatAttr[Float64Type]) for name in cls.PARAMETERS},
    }
    for name, field in fields.items():
        setattr(cls, name, field)
    cls.assembly_format = neuron_format(*cls.PARAMETERS)
    step: Step | None = getattr(cls, "STEP", None)
    defined = irdl_op_definition(cls)
    if step is not None:
        GENERAL_STEPS[model_of(defined)] = step
    NEURONS[model_of(defined)] = defined
    return defined


def _operand(value: Any) -> Value | None:
    return cast("Value", value) if isinstance(value, Operation | SSAValue) else None


def _number(value: Any) -> Attribute | None:
    return None if isinstance(value, Operation | SSAValue) else number(value)


def _option(value: Any, spec: PropertyDef) -> Attribute | None:
    if value is None:
        return spec.default_value
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    return integer(value) if isinstance(value, int) else StringAttr(value)


def groups(*names: str) -> str:
    """The assembly of optional operands, each as `name(%v : type)`, for parameters `names`."""
    return " ".join(
        f"(`{name}` `(` ${name}_values^ `:` type(${name}_values) `)`)?" for name in names
    )


def neuron_format(*names: str) -> str:
    """The assembly format of a neuron with the parameters `names`."""
    return (
        "$input (`initial` `(` $initial^ `:` type($initial) `)`)? "
        f"{groups(*names)} attr-dict `:` functional-type($input, results)"
    )
