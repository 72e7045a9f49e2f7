"""Type rules of the spiking functions: encoders, decoders and neurons.

Time is the first axis of a spike train and of every current or membrane trace.
"""

from __future__ import annotations

from .dims import Dim
from .signatures import Builtin, Parameter, Result, Rule, RuleCall
from .types import TensorType


def encode(call: RuleCall) -> Result:
    """A spike train of `timesteps` steps; `delta` reads time from the first axis of `x`."""
    found = call.floating("x")
    steps = call.attributes["timesteps"]
    if isinstance(steps, int) and steps < 1:
        call.fail(f"'timesteps' must be at least 1, found {steps}", "timesteps")
    time = Dim.lift(steps)
    if call.number("scheme") == "delta":
        if not found.rank or not call.same(found.shape[0], time):
            call.fail(f'scheme "delta" needs x of shape [{time}, ..], found {found}', "x")
        return TensorType("spike", "bool", found.shape)
    return TensorType("spike", "bool", (time, *found.shape))


def decode(call: RuleCall) -> Result:
    """Numbers from a train; `membrane` reads the trace of a leaky integrator."""
    found = call.types["s"]
    scheme = call.number("scheme")
    if scheme == "membrane":
        found = found if found.kind == "spike" else call.floating("s")
    elif found.kind != "spike":
        call.fail(f"needs a SpikeTensor, found {found}", "s", "make one with encode(…) or lif(…)")
    if not found.rank:
        call.fail("needs a time axis", "x")
    element = found.element if found.is_float else "float32"
    return TensorType("dense", element, found.shape[1:])


def _driven(call: RuleCall) -> TensorType:
    found = call.types["x"]
    if found.kind == "spike":
        return found
    found = call.floating("x")
    if not found.rank:
        call.fail(f"needs a current with time as its first axis, found {found}", "x")
    return found


def _settings(call: RuleCall, found: TensorType, *names: str) -> None:
    for name in names:
        if name in call.types:
            given = call.floating(name)
            shape = call.broadcast(found.shape[1:], given.shape)
            if len(shape) != found.rank - 1:
                call.fail(f"'{name}' ({given}) has more axes than a step of {found}", name)
            continue
        value = call.attributes[name]
        if isinstance(value, float) and value <= 0:
            call.fail(f"'{name}' must be positive, found {value}", name)


def _initial(call: RuleCall, found: TensorType) -> None:
    if "initial" not in call.types:
        return
    given = call.floating("initial")
    step = found.shape[1:]
    if given.rank != len(step) or not all(
        call.same(a, b) for a, b in zip(given.shape, step, strict=True)
    ):
        wanted = ", ".join(str(d) for d in step)
        call.fail(f"needs 'initial' of shape [{wanted}], found {given}", "initial")


def _fires(*settings: str) -> Rule:
    def rule(call: RuleCall) -> Result:
        found = _driven(call)
        _settings(call, found, *settings)
        _initial(call, found)
        return TensorType("spike", "bool", found.shape)

    return rule


def leaky_integrator(call: RuleCall) -> Result:
    """The membrane trace of a neuron that never fires."""
    found = _driven(call)
    _settings(call, found, "tau")
    _initial(call, found)
    element = found.element if found.is_float else "float32"
    return TensorType("dense", element, found.shape)


def spiking_attention(call: RuleCall) -> Result:
    """Trains of shape [T, N, tokens, channels]."""
    trains = [call.types[name] for name in ("query", "key", "value")]
    for name, found in zip(("query", "key", "value"), trains, strict=True):
        if found.kind != "spike" or found.rank != 4:
            call.fail(f"needs '{name}' of the form SpikeTensor[T, N, L, D], found {found}", name)
    query, key, value = trains
    for other in (key, value):
        if not all(call.same(a, b) for a, b in zip(query.shape[:2], other.shape[:2], strict=True)):
            call.fail(f"needs equal time and batch, found {query} and {other}")
    if not call.same(query.shape[3], key.shape[3]) or not call.same(key.shape[2], value.shape[2]):
        call.fail(f"needs matching tokens and channels, found {query}, {key} and {value}")
    heads = call.attributes["heads"]
    if isinstance(heads, int):
        for size in (query.shape[3], value.shape[3]):
            known = size.constant()
            if heads < 1 or (known is not None and known % heads):
                call.fail(f"{size} channels do not split into {heads} heads", "heads")
    _settings(call, query, "tau", "threshold")
    return query.with_shape((*query.shape[:3], value.shape[3]))


def delay(call: RuleCall) -> Result:
    """The train or trace, later by whole steps."""
    found = call.types["x"]
    if found.kind == "ternary" or not found.rank:
        call.fail(f"needs a spike train or a trace with time first, found {found}", "x")
    steps = call.attributes["steps"]
    if isinstance(steps, int) and steps < 0:
        call.fail(f"'steps' must not be negative, found {steps}", "steps")
    return found


_X = Parameter("x")
_THRESHOLD = Parameter("threshold", "setting", 1.0)
_TAU = Parameter("tau", "setting", 2.0)
_RESET = (
    Parameter("reset", "string", "subtract", ("subtract", "to_value", "none")),
    Parameter("v_reset", "float", 0.0),
)
_COMPARE = Parameter("compare", "string", ">=", (">=", ">"))
_GAIN = Parameter("gain", "float", 1.0)
_LEAK = Parameter("v_leak", "float", 0.0)
_DECAY = Parameter("decay", "string", "exact", ("exact", "euler"))
_INITIAL = Parameter("initial", default=None)
_SEED = Parameter("seed", "int", 0)

_SCHEMES = ("rate", "regular", "latency", "direct", "delta", "phase")

SPIKING = (
    Builtin(
        "encode",
        "spiking",
        (
            _X,
            Parameter("timesteps", "int"),
            Parameter("scheme", "string", "rate", _SCHEMES),
            _SEED,
        ),
        encode,
        "A spike train from numbers in [0, 1].",
    ),
    Builtin(
        "decode",
        "spiking",
        (
            Parameter("s"),
            Parameter("scheme", "string", "rate", ("rate", "first_spike", "membrane")),
        ),
        decode,
        "Numbers from a spike train or a membrane trace.",
    ),
    Builtin(
        "lif",
        "spiking",
        (_X, _TAU, _THRESHOLD, *_RESET, _COMPARE, _GAIN, _LEAK, _DECAY, _INITIAL),
        _fires("tau", "threshold"),
        "Leaky integrate-and-fire neurons; tau in steps.",
    ),
    Builtin(
        "integrate_fire",
        "spiking",
        (_X, _THRESHOLD, *_RESET, _COMPARE, _GAIN, _INITIAL),
        _fires("threshold"),
        "Integrate-and-fire neurons without leak.",
    ),
    Builtin(
        "cuba_lif",
        "spiking",
        (
            _X,
            Parameter("tau_syn", "setting", 2.0),
            Parameter("tau_mem", "setting", 2.0),
            _THRESHOLD,
            *_RESET,
            _COMPARE,
            _GAIN,
            _LEAK,
            _DECAY,
            _INITIAL,
        ),
        _fires("tau_syn", "tau_mem", "threshold"),
        "Current-based leaky integrate-and-fire neurons.",
    ),
    Builtin(
        "leaky_integrator",
        "spiking",
        (_X, _TAU, _GAIN, _LEAK, _DECAY, _INITIAL),
        leaky_integrator,
        "The membrane trace of leaky neurons that never fire.",
    ),
    Builtin(
        "spiking_attention",
        "spiking",
        (
            Parameter("query"),
            Parameter("key"),
            Parameter("value"),
            Parameter("heads", "int", 1),
            Parameter("scale", "float", 0.125),
            _TAU,
            Parameter("threshold", "setting", 0.5),
        ),
        spiking_attention,
        "Spiking self-attention without softmax: neurons driven by (Q Kᵀ V) * scale.",
    ),
    Builtin("delay", "spiking", (_X, Parameter("steps", "int", 1)), delay, "Later by whole steps."),
)
