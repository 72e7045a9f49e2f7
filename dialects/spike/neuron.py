"""What all neuron ops share: parameters as numbers or per neuron, and states that can be resumed.

The models are declared in `ir.neurons`; ops that others name by their class stand in `neurons`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import (
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
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
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)

from ...ir.definition import irdl_op_definition
from ...ir.neurons import MODELS
from ...ir.neurons.arithmetic import CHOICES, Options
from ...ir.neurons.model import NeuronModel, ParameterSpec
from ..inference import Value, fail, tensor_type
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
from .types import SpikeOp, TrainType, time_first

MOST_SHIFT = {i8: 6, i16: 14, i32: 15}
"""The most places that a decay is shifted by: the decay fits the type, its products an i64."""

Parameter: TypeAlias = float | Value
"""A parameter of a neuron: one number for all, or a value with one for each neuron."""


class NeuronOp(SpikeOp, CanonicalizableOp, ABC):
    """A population of neurons that runs over all steps of its input current [T, …].

    A parameter is one number for all neurons (a property) or a tensor with one for each (an operand
    in parentheses after its name), which broadcasts to the shape of a step by NumPy's rules. The
    states before the first step are `initial`, zeros by default; the states after the last step
    are results on request, so that a run that is cut in two and resumed gives the same bits.
    Numbers are rounded to the element type, equations are computed from left to right; f16 and
    bf16 compute a step in f32 and round the states after it.
    """

    MODEL: ClassVar[NeuronModel]
    """What it is."""

    PARAMETERS: ClassVar[Mapping[str, ParameterSpec]]
    """The parameters, in the order of their operands."""

    STATES: ClassVar[tuple[str, ...]]
    """The states, in the order of `initial` and `final`."""

    input = operand_def(TensorType)
    initial = var_operand_def(TensorType)
    output = result_def(BaseAttr(TrainType) | BaseAttr(TensorType))
    final = var_result_def(TensorType)

    traits = traits_def(HasSteps())
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
        each = {name for name, value in given.items() if isinstance(value, Operation | SSAValue)}
        fields = {f"{n}_values" if n in each else n: value for n, value in given.items()}
        states = len(self.STATES) if final else 0
        super().__init__(input, initial=initial, final=states, **fields)

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

    def options(self) -> Options:
        """What it has besides numbers."""
        attributes: dict[str, Any] = {name: getattr(self, name) for name in self.MODEL.options}
        return Options(**{name: getattr(a, "value", a).data for name, a in attributes.items()})

    def infer(self) -> Sequence[Attribute]:
        for name in self.MODEL.options:
            check_choice(name, getattr(self.options(), name))
        type = tensor_type(self.input)
        self._check_shift(type)
        time_first(self.input)
        on_integers = self.MODEL.on_integers
        if not is_float(type) and not (on_integers and is_plain_integer(type)):
            wanted = "floats or i8, i16, i32 or i64" if on_integers else "floats"
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
        return TrainType(input.get_shape()) if self.MODEL.spikes else input

    def _check_shift(self, type: AnyTensor) -> None:
        """Check by how many places decays are shifted, of integers."""
        shift, level = self.options().shift, "v_leak" in self.PARAMETERS
        most = next((n for element, n in MOST_SHIFT.items() if element == type.element_type), 0)
        if not 0 <= shift <= most:
            fail(f"expects a shift from 0 to {most} for {type}, got {shift}")
        if shift and level and self.parameter("v_leak") != 0.0:
            fail("expects v_leak 0 with a shift")

    def _check_parameter(self, name: str, spec: ParameterSpec, step: AnyTensor) -> None:
        attribute, values = getattr(self, name), getattr(self, f"{name}_values")
        if attribute is not None and values is not None:
            fail(f"expects {name} as a number or for each neuron, got both")
        if attribute is None and values is None and spec.default is None:
            fail(f"expects {name} as a number or for each neuron, got neither")
        if attribute is not None:
            constant, high = attribute.value.data, self.MODEL.highest(spec, self.options())
            if not (isfinite(constant) and spec.low <= constant <= high):
                bounds = "" if high == float("inf") else f" from {spec.low} to {high}"
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
        check_choice("reset", self.reset.data)
        if self.reset.data != "to_value" and (
            getattr(self, "v_reset", None) is not None
            or getattr(self, "v_reset_values", None) is not None
        ):
            fail(f"expects v_reset with the reset 'to_value' alone, got '{self.reset.data}'")
        return super().infer()


def check_choice(option: str, value: object) -> None:
    """Refuse an unknown word for an option of neurons (`ShapeError`)."""
    allowed = CHOICES.get(option)
    if allowed is not None and value not in allowed:
        raise ShapeError(f"expects {option} one of {', '.join(allowed)}, got '{value}'")


def is_plain_integer(type: AnyTensor) -> bool:
    """Whether the elements are signed integers of 8 to 64 bits."""
    return type.element_type in (i8, i16, i32, i64)


NeuronT = TypeVar("NeuronT", bound=NeuronOp)


NEURONS: dict[str, type[NeuronOp]] = {}
"""The op of each model, in the order in which they are defined."""


def neuron_definition(model: NeuronModel) -> Callable[[type[NeuronT]], type[NeuronT]]:
    """Define the op of a model: an operand and a property for each of its parameters."""

    def define(cls: type[NeuronT]) -> type[NeuronT]:
        fields: dict[str, Any] = {
            "name": f"spike.{model.name}",
            "input": operand_def(TensorType),
            "initial": var_operand_def(TensorType),
            **{f"{name}_values": opt_operand_def(TensorType) for name in model.parameters},
            **{name: opt_prop_def(FloatAttr[Float64Type]) for name in model.parameters},
            "assembly_format": neuron_format(*model.parameters),
        }
        if "shift" in model.options and not hasattr(cls, "shift"):
            fields["shift"] = prop_def(IntegerAttr[IntegerType], default_value=integer(0))
        for name, field in fields.items():
            setattr(cls, name, field)
        NEURONS[model.name] = defined = irdl_op_definition(cls)
        defined.MODEL, defined.PARAMETERS, defined.STATES = model, model.parameters, model.states
        return defined

    return define


def define_models() -> None:
    """Define the ops of all models that have no class."""
    for model in MODELS.values():
        if model.name not in NEURONS:
            base: type[NeuronOp] = FiringOp if "reset" in model.options else NeuronOp
            fields = {"__doc__": model.doc, "__module__": __name__}
            cls = type(f"{model.title}Op", (base,), fields)
            neuron_definition(model)(cast("type[NeuronOp]", cls))


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
