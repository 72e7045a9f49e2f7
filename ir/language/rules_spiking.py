"""Type rules of the spiking functions: encoders, decoders, attention, normalisation, delays.

Time is the first axis of a spike train and of every current or membrane trace. Neurons stand in
`rules_neurons`.
"""

from __future__ import annotations

from .dims import Dim
from .rules_neurons import check_positive, driven
from .signatures import Functions, Result, RuleCall
from .types import TensorType

MAX_PHASE_PERIOD = 31
"""The most binary digits of the phase code."""

RISE = 0.1
"""The threshold of the delta code where none is given."""


MOST_STEPS = 1 << 20
"""Steps of an encoder or a delay: far more than networks take, and memory holds them."""


def _check_count(call: RuleCall, name: str, least: int) -> None:
    """Refuse a whole number out of range, and a size that only the run knows."""
    value = call.attributes[name]
    if isinstance(value, Dim) and not (
        value.is_unknown or value.symbols() & call.assumptions.generics
    ):
        call.fail(f"'{name}' must be known while compiling, found the size {value}", name)
    if isinstance(value, int) and value < least:
        call.fail(f"'{name}' must be at least {least}, found {value}", name)
    if isinstance(value, int) and value > MOST_STEPS:
        call.fail(f"'{name}' must be at most {MOST_STEPS}, found {value}", name)


def encode(call: RuleCall) -> Result:
    """A train of `timesteps` steps, or a constant current; `delta` reads time from `x`."""
    _check_count(call, "timesteps", 1)
    scheme = call.number("scheme")
    _check_encoding(call, scheme)
    time = Dim.lift(call.attributes["timesteps"])
    if scheme == "direct" and call.types["x"].element == "bool":
        return TensorType("spike", "bool", (time, *call.dense("x").shape))
    x = call.floating("x")
    if scheme == "delta":
        if not x.rank or not call.same(x.shape[0], time):
            call.fail(f'scheme "delta" needs x of shape [{time}, ..], found {x}', "x")
        return TensorType("spike", "bool", x.shape)
    if scheme == "direct":
        return TensorType("dense", x.element, (time, *x.shape))
    return TensorType("spike", "bool", (time, *x.shape))


def _check_encoding(call: RuleCall, scheme: str) -> None:
    values = call.attributes
    for name, schemes in (("period", ("latency", "phase")), ("threshold", ("latency", "delta"))):
        if values[name] is not None and scheme not in schemes:
            wanted = " or ".join(f'"{s}"' for s in schemes)
            call.fail(f"'{name}' needs the scheme {wanted}, found \"{scheme}\"", name)
    if scheme == "delta" and values["threshold"] is None:
        values["threshold"] = RISE
    if values["period"] is not None:
        _check_count(call, "period", 1)
    name = "timesteps" if values["period"] is None else "period"
    steps = values[name]
    if scheme == "phase" and isinstance(steps, int) and steps > MAX_PHASE_PERIOD:
        hint = None if name == "period" else "give a shorter period=…"
        limit = f'scheme "phase" has at most {MAX_PHASE_PERIOD} steps in a period'
        call.fail(f"{limit}, found {steps}", name, hint)
    call.check_seed()
    if isinstance(values["dt"], float) and values["dt"] <= 0:
        call.fail(f"'dt' must be positive, found {values['dt']}", "dt")


def decode(call: RuleCall) -> Result:
    """Numbers from a train; `membrane` reads the trace of a leaky integrator."""
    s = call.types["s"]
    scheme = call.number("scheme")
    if scheme == "membrane":
        s = s if s.kind == "spike" else call.floating("s")
    elif call.attributes["readout"] not in (None, "last"):
        call.fail(f'\'readout\' needs the scheme "membrane", found "{scheme}"', "readout")
    elif s.kind != "spike":
        call.fail(f"needs a SpikeTensor, found {s}", "s", "make one with encode(…) or lif(…)")
    if not s.rank:
        call.fail("needs a time axis", "s")
    element = s.element if s.is_float else "float32"
    return TensorType("dense", element, s.shape[1:])


def spiking_attention(call: RuleCall) -> Result:
    """Trains of shape [T, N, tokens, channels]; keys and values may have other tokens (`ssa`)."""
    trains = [call.types[name] for name in ("query", "key", "value")]
    for name, train in zip(("query", "key", "value"), trains, strict=True):
        if train.kind != "spike" or train.rank != 4:
            call.fail(f"needs '{name}' of the form SpikeTensor[T, N, L, D], found {train}", name)
    query, key, value = trains
    for other in (key, value):
        if not call.same_shape(query.shape[:2], other.shape[:2]):
            call.fail(f"needs equal time and batch, found {query} and {other}")
    matching = call.same_shape(key.shape[2:], value.shape[2:])
    if not matching or not call.same(query.shape[3], key.shape[3]):
        call.fail(f"needs matching tokens and channels, found {query}, {key} and {value}")
    if call.number("kind") == "sdsa" and not call.same(query.shape[2], key.shape[2]):
        call.fail(f'kind "sdsa" needs equally many tokens, found {query} and {key}')
    heads, channels = call.attributes["heads"], query.shape[3].constant()
    if isinstance(heads, int) and (heads < 1 or (channels is not None and channels % heads)):
        call.fail(f"{query.shape[3]} channels do not split into {heads} heads", "heads")
    tau = call.attributes["tau"]
    if isinstance(tau, float) and tau < 1:
        call.fail(f"'tau' must be at least 1 step, found {tau}", "tau")
    check_positive(call, "threshold")
    return query


def temporal_batch_norm(call: RuleCall) -> Result:
    """Statistics shared over batch and time; a train is normalised as numbers."""
    x = driven(call)
    axis = call.axis("axis", x.rank)
    if axis == 0:
        call.fail("needs the channels on another axis than time", "axis")
    for name in ("running_mean", "running_var", "weight", "bias"):
        call.shaped(name, (x.shape[axis],), "one per channel")
    check_positive(call, "threshold", "alpha", "eps")
    return TensorType("dense", x.element if x.is_float else "float32", x.shape)


def delay(call: RuleCall) -> Result:
    """The train or trace, later by whole steps."""
    x = call.types["x"]
    if x.kind == "ternary" or not x.rank:
        call.fail(f"needs a spike train or a trace with time first, found {x}", "x")
    _check_count(call, "steps", 0)
    return x


SPIKING: Functions = {
    "spiking": {
        (
            "encode(x, timesteps: int, scheme: rate|regular|latency|direct|delta|phase = rate, "
            "seed: int = 0, period: int = none, threshold: float = none, dt: float = none): "
            "A spike train from numbers in [0, 1]; of `direct`, a constant current."
        ): encode,
        (
            "decode(s, scheme: rate|first_spike|membrane = rate, "
            "readout: last|max|mean = last): Numbers from a spike train or, by `membrane`, "
            "from a membrane trace."
        ): decode,
        (
            "spiking_attention(query, key, value, heads: int = 1, scale: float = 0.125, "
            "tau: float = 2.0, threshold: float = 0.5, kind: ssa|sdsa = ssa, "
            "reset: subtract|to_value|none = to_value, compare: >=|> = >=): "
            "Spiking self-attention without softmax: neurons driven by (Q Kᵀ V) * scale."
        ): spiking_attention,
        (
            "temporal_batch_norm(x, running_mean, running_var, weight = none, bias = none, "
            "threshold: float = 1.0, alpha: float = 1.0, eps: float = 1e-5, axis: int = 2): "
            "Threshold-dependent batch normalisation (tdBN) of currents, time first."
        ): temporal_batch_norm,
        "delay(x, steps: int = 1): Later by whole steps.": delay,
    },
}
