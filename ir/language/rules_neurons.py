"""Type rules of the neurons, which turn currents into spike trains or traces.

A function derives from the declaration of its model (`ir.neurons`), with time constants in steps
where that has decays. Time is the first axis of every current. Not here: encoders and attention, in
`rules_spiking`.
"""

from __future__ import annotations

from functools import partial

from ..neurons import MODELS
from ..neurons.arithmetic import RESETS, Options
from ..neurons.model import GAIN, LEVEL, THRESHOLD, NeuronModel, ParameterSpec
from .signatures import Builtin, Parameter, RuleCall
from .types import TensorType


def driven(call: RuleCall) -> TensorType:
    """The type of `x`, a train or a current with time as its first axis."""
    x = call.types["x"]
    if x.kind == "spike":
        return x
    x = call.floating("x")
    if not x.rank:
        call.fail(f"needs a current with time as its first axis, found {x}", "x")
    return x


def check_positive(call: RuleCall, *names: str) -> None:
    """Refuse numbers of 0 or below."""
    for name in names:
        value = call.attributes.get(name)
        if isinstance(value, float) and value <= 0:
            call.fail(f"'{name}' must be positive, found {value}", name)


def _check_setting(call: RuleCall, x: TensorType, name: str, spec: ParameterSpec) -> None:
    """Check a setting: a number within its bounds, or a tensor that fits a step."""
    if name in call.types:
        setting = call.floating(name)
        shape = call.broadcast(x.shape[1:], setting.shape)
        if not call.same_shape(shape, x.shape[1:]):
            call.fail(f"'{name}' ({setting}) does not fit a step of {x}", name)
        return
    value = call.attributes[name]
    if not isinstance(value, float):
        return
    if spec.tau or spec is THRESHOLD:
        check_positive(call, name)
    elif value < 0 and (spec.default is None or spec.low == 0):
        call.fail(f"'{name}' must not be negative, found {value}", name)
    if value < 1 and spec.tau and call.attributes["decay"] == "euler":
        call.fail(f"'{name}' must be at least 1 step for decay=\"euler\", found {value}", name)


def _reset(call: RuleCall) -> None:
    reset, value = call.attributes["reset"], call.attributes["v_reset"]
    if isinstance(reset, str) and reset != "to_value" and value != 0.0:
        call.fail(
            f'\'v_reset\' needs reset="to_value", found "{reset}"',
            "v_reset",
            'write reset="to_value"',
        )


def _rule(model: NeuronModel, call: RuleCall) -> TensorType:
    """What a call of a model gives: spikes, or numbers of the current's type."""
    x = driven(call)
    for name, spec in model.parameters.items():
        if name != "v_reset" or "reset" not in model.options:
            _check_setting(call, x, spec.tau or name, spec)
    call.shaped("initial", x.shape[1:])
    if "reset" in model.options:
        _reset(call)
    if model.spikes:
        return TensorType("spike", "bool", x.shape)
    return TensorType("dense", x.element if x.is_float else "float32", x.shape)


X = Parameter("x")
COMPARE = Parameter("compare", "string", ">=", (">=", ">"))
_WORDS = {
    "reset": Parameter("reset", "string", Options.reset, RESETS),
    "activation": Parameter("activation", "string", Options.activation, ("relu", "none")),
    "cumulative": Parameter("cumulative", "bool", Options.cumulative),
    "compare": COMPARE,
}


def _parameters(model: NeuronModel) -> tuple[Parameter, ...]:
    """First what a model cannot do without, then its options, then what changes nothing."""
    settings = {
        spec.tau or name: Parameter(
            spec.tau or name, "setting", spec.usual if spec.default is None else spec.default
        )
        for name, spec in model.parameters.items()
    }
    quiet = sorted(n for n, spec in model.parameters.items() if spec is GAIN or spec is LEVEL)
    fires = [settings["v_reset"]] if "reset" in model.options else []
    words = [_WORDS[name] for name in model.options if name in _WORDS]
    decays = any(spec.tau for spec in model.parameters.values())
    return (
        X,
        *(setting for name, setting in settings.items() if name not in quiet),
        *words[:1],
        *fires,
        *words[1:],
        *(settings[name] for name in quiet if settings[name] not in fires),
        *([Parameter("decay", "string", "exact", ("exact", "euler"))] if decays else []),
        *([Parameter("initial", default=None)] if "v" in model.states else []),
    )


NEURONS = tuple(
    Builtin(name, "spiking", _parameters(model), partial(_rule, model), model.summary)
    for name, model in MODELS.items()
    if model.on_floats
)
