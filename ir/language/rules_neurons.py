"""Type rules of the neurons, which turn currents into spike trains or traces.

Time is the first axis of every current. Not here: encoders and attention, in `rules_spiking`.
"""

from __future__ import annotations

from .signatures import Builtin, Parameter, Result, Rule, RuleCall
from .types import TensorType

RESETS = ("subtract", "to_value", "none")


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


def _settings(call: RuleCall, x: TensorType, *names: str) -> None:
    """Check settings: numbers above 0 or, for `kappa`, from 0; tensors that fit a step."""
    for name in names:
        if name in call.types:
            setting = call.floating(name)
            shape = call.broadcast(x.shape[1:], setting.shape)
            if len(shape) != x.rank - 1 or not all(
                call.same(a, b) for a, b in zip(shape, x.shape[1:], strict=True)
            ):
                call.fail(f"'{name}' ({setting}) does not fit a step of {x}", name)
            continue
        value = call.attributes[name]
        if name == "kappa":
            if isinstance(value, float) and value < 0:
                call.fail(f"'kappa' must not be negative, found {value}", name)
        elif isinstance(value, float) and value <= 0:
            call.fail(f"'{name}' must be positive, found {value}", name)
        elif isinstance(value, float) and value < 1 and _is_euler(call, name):
            call.fail(f"'{name}' must be at least 1 step for decay=\"euler\", found {value}", name)


def _is_euler(call: RuleCall, name: str) -> bool:
    return name.startswith("tau") and call.attributes.get("decay") == "euler"


def _initial(call: RuleCall, x: TensorType) -> None:
    if "initial" not in call.types:
        return
    initial = call.floating("initial")
    step = x.shape[1:]
    if initial.rank != len(step) or not all(
        call.same(a, b) for a, b in zip(initial.shape, step, strict=True)
    ):
        wanted = ", ".join(str(d) for d in step)
        call.fail(f"needs 'initial' of shape [{wanted}], found {initial}", "initial")


def _reset(call: RuleCall) -> None:
    reset, value = call.attributes["reset"], call.attributes["v_reset"]
    if isinstance(reset, str) and reset != "to_value" and value != 0.0:
        call.fail(
            f'\'v_reset\' needs reset="to_value", found "{reset}"',
            "v_reset",
            'write reset="to_value"',
        )


def _fires(*settings: str) -> Rule:
    def rule(call: RuleCall) -> Result:
        x = driven(call)
        _settings(call, x, *settings)
        _initial(call, x)
        _reset(call)
        return TensorType("spike", "bool", x.shape)

    return rule


def _trace(*settings: str) -> Rule:
    def rule(call: RuleCall) -> Result:
        x = driven(call)
        _settings(call, x, *settings)
        _initial(call, x)
        return TensorType("dense", x.element if x.is_float else "float32", x.shape)

    return rule


X = Parameter("x")
COMPARE = Parameter("compare", "string", ">=", (">=", ">"))
_THRESHOLD = Parameter("threshold", "setting", 1.0)
_TAU = Parameter("tau", "setting", 2.0)
_RESET = (
    Parameter("reset", "string", "subtract", RESETS),
    Parameter("v_reset", "float", 0.0),
)
_GAIN = Parameter("gain", "float", 1.0)
_LEAK = Parameter("v_leak", "float", 0.0)
_DECAY = Parameter("decay", "string", "exact", ("exact", "euler"))
_INITIAL = Parameter("initial", default=None)

NEURONS = (
    Builtin(
        "lif",
        "spiking",
        (X, _TAU, _THRESHOLD, *_RESET, COMPARE, _GAIN, _LEAK, _DECAY, _INITIAL),
        _fires("tau", "threshold"),
        "Leaky integrate-and-fire neurons; tau in steps.",
    ),
    Builtin(
        "integrate_fire",
        "spiking",
        (X, _THRESHOLD, *_RESET, COMPARE, _GAIN, _INITIAL),
        _fires("threshold"),
        "Integrate-and-fire neurons without leak.",
    ),
    Builtin(
        "cuba_lif",
        "spiking",
        (
            X,
            Parameter("tau_syn", "setting", 2.0),
            Parameter("tau_mem", "setting", 2.0),
            _THRESHOLD,
            *_RESET,
            COMPARE,
            _GAIN,
            _LEAK,
            _DECAY,
            _INITIAL,
        ),
        _fires("tau_syn", "tau_mem", "threshold"),
        "Current-based leaky integrate-and-fire neurons.",
    ),
    Builtin(
        "adaptive_lif",
        "spiking",
        (
            X,
            _TAU,
            Parameter("tau_adaptation", "setting", 100.0),
            Parameter("kappa", "setting", 1.8),
            _THRESHOLD,
            *_RESET,
            COMPARE,
            _GAIN,
            _LEAK,
            _DECAY,
            _INITIAL,
        ),
        _fires("tau", "tau_adaptation", "kappa", "threshold"),
        "Leaky neurons whose threshold rises with their own spikes.",
    ),
    Builtin(
        "leaky_integrator",
        "spiking",
        (X, _TAU, _GAIN, _LEAK, _DECAY, _INITIAL),
        _trace("tau"),
        "The membrane trace of leaky neurons that never fire.",
    ),
    Builtin(
        "sigma_delta",
        "spiking",
        (
            X,
            _THRESHOLD,
            Parameter("activation", "string", "relu", ("relu", "none")),
            Parameter("cumulative", "bool", False),
            COMPARE,
            _GAIN,
        ),
        _trace("threshold"),
        "Graded spikes: sums of what comes in, of which changes alone are sent on.",
    ),
)
