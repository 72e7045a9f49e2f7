"""Spiking functions of the language: the ops they become, and what these give.

Expected values come from the modules of PyTorch and from NumPy. Weights are multiples of 2^-6, so
that every sum of currents is exact in any order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, i1
from xdsl.dialects.func import FuncOp

from triton_dsl.dialects import spike, tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.spike.types import TIME_STEP
from triton_dsl.ir.errors import LoweringError
from triton_dsl.ir.language.builtins import BUILTINS
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.tri_builtins import RULES
from triton_dsl.lowering.tri_spiking import SPIKING_RULES
from triton_dsl.runtime.spiking import coding, neurons

Array = NDArray[Any]

EXAMPLE = """
layer SpikingMLP {
    param w1: TernaryTensor[784, 256]
    param w2: TernaryTensor[256, 10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        let s = encode(x, timesteps=32, scheme="rate")            # SpikeTensor[32, N, 784]
        let h = lif(s @ w1, tau=2.0, threshold=1.0, reset="subtract")
        let o = lif(h @ w2, tau=2.0, threshold=1.0)
        return decode(o, scheme="rate")                            # Tensor[N, 10]
    }
}
"""


def compiled(body: str, signature: str, members: str = "", **weights: Any) -> ModuleOp:
    """`fn forward(signature) { return body }`."""
    source = f"layer L {{\n{members}\nfn forward({signature}) {{ return {body} }}\n}}"
    module = import_tri(source, weights=weights or None)
    module.verify()
    return module


def evaluate(body: str, signature: str, *arrays: Array, members: str = "", **weights: Any) -> Array:
    return run_module(compiled(body, signature, members, **weights), arrays)[0]


def names(module: ModuleOp) -> list[str]:
    """The ops of the function, in order."""
    return [op.name for op in module.walk() if op.name.startswith(("spike.", "tensor."))]


def current(seed: int, *shape: int) -> Array:
    values = np.random.default_rng(seed).integers(-64, 129, shape) / 64
    return values.astype(np.float32)


def train(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).random(shape) < 0.4


def test_every_built_in_has_a_rule() -> None:
    written_by_the_elaborator = {"add", "sub", "mul", "div", "mod", "neg", "not", "and", "or"}
    written_by_the_elaborator |= {"compare", "cast", "slice", "squeeze", "unsqueeze", "matmul"}
    assert RULES.keys() | SPIKING_RULES.keys() == BUILTINS.keys() | written_by_the_elaborator


def test_the_example_of_the_language() -> None:
    rng = np.random.default_rng(1)
    trits = [rng.integers(-1, 2, shape).astype(np.int8) for shape in ((784, 256), (256, 10))]
    module = import_tri(EXAMPLE, weights=dict(zip(("w1", "w2"), trits, strict=True)))
    module.verify()
    x = rng.random((2, 784)).astype(np.float32)
    hidden = coding.encode(torch.from_numpy(x), "rate", 32, seed=0)
    for weight in trits:
        sums = hidden @ torch.from_numpy(weight.astype(np.float32))
        hidden, _ = neurons.LifNeuron(math.exp(-1 / 2))(sums)
    expected = coding.decode(hidden, "rate")
    assert expected.sum() > 0
    np.testing.assert_array_equal(run_module(module, [x])[0], expected.detach().numpy())


UNIT = st.floats(0, 1, width=32)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["rate", "regular", "latency", "phase", "delta", "direct"]),
    st.integers(1, 9),
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(1, 31),
    st.none() | UNIT,
    st.integers(0, 99),
)
def test_encoders(
    scheme: str,
    steps: int,
    seed: int,
    period: int | None,
    threshold: float | None,
    data: int,
) -> None:
    period = period if scheme in ("latency", "phase") else None
    threshold = threshold if scheme in ("latency", "delta") else None
    options = f", seed={seed}" if scheme == "rate" else ""
    options += "" if period is None else f", period={period}"
    options += "" if threshold is None else f", threshold={threshold!r}"
    shape = (steps, 3) if scheme == "delta" else (2, 3)
    x = np.random.default_rng(data).random(shape).astype(np.float32)
    signature = f"x: Tensor[{steps}, 3]" if scheme == "delta" else "x: Tensor[N, 3]"
    found = evaluate(f'encode(x, {steps}, "{scheme}"{options})', signature, x)
    if scheme == "delta" and threshold is None:
        threshold = 0.1
    expected = coding.encode(
        torch.from_numpy(x),
        scheme,
        None if scheme == "delta" else steps,
        seed=seed if scheme == "rate" else None,
        period=period,
        threshold=threshold,
    ).numpy()
    assert found.dtype == (np.float32 if scheme == "direct" else np.bool_)
    np.testing.assert_array_equal(found.astype(np.float32), expected)


def test_truth_values_repeated_are_a_train() -> None:
    x = train(0, 2, 3)
    module = compiled('encode(x, 4, "direct")', "x: Tensor<bool>[N, 3]")
    (encode,) = [op for op in module.walk() if isinstance(op, spike.EncodeOp)]
    assert isinstance(encode.result.type, spike.TrainType)
    np.testing.assert_array_equal(run_module(module, [x])[0], np.broadcast_to(x, (4, 2, 3)))


@pytest.mark.parametrize("scheme", ["rate", "first_spike"])
def test_decoders(scheme: str) -> None:
    s = train(2, 5, 2, 3)
    expected = coding.decode(torch.from_numpy(s.astype(np.float32)), scheme).numpy()
    found = evaluate(f'decode(s, "{scheme}")', "s: SpikeTensor[T, N, 3]", s)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("readout", ["last", "max", "mean"])
def test_membrane_readouts_of_traces_and_trains(readout: str) -> None:
    trace, s = current(3, 4, 2, 3), train(3, 4, 2, 3)
    body = f'decode(x, "membrane", "{readout}")'
    reduce = {"last": lambda x: x[-1], "max": lambda x: x.max(0), "mean": lambda x: x.mean(0)}
    expected = reduce[readout]
    found = evaluate(body, "x: Tensor[T, N, 3]", trace)
    np.testing.assert_allclose(found, expected(trace), rtol=1e-6)
    found = evaluate(body, "x: SpikeTensor[T, N, 3]", s)
    np.testing.assert_array_equal(found, expected(s.astype(np.float32)))


SETTINGS = {
    "reset": st.sampled_from(["subtract", "to_value", "none"]),
    "compare": st.sampled_from([">=", ">"]),
    "gain": st.sampled_from([1.0, 0.5, -0.25]),
    "threshold": st.floats(0.125, 3),
}
LEAKY = {"v_leak": st.sampled_from([0.0, 0.25, -0.5]), "decay": st.sampled_from(["exact", "euler"])}
TAU = st.floats(1, 30)
MODELS: dict[str, tuple[Any, dict[str, Any], dict[str, str]]] = {
    "lif": (neurons.LifNeuron, {**SETTINGS, **LEAKY, "tau": TAU}, {"beta": "tau"}),
    "integrate_fire": (neurons.IntegrateFireNeuron, SETTINGS, {}),
    "cuba_lif": (
        neurons.CubaLifNeuron,
        {**SETTINGS, **LEAKY, "tau_syn": TAU, "tau_mem": TAU, "w_in": SETTINGS["gain"]},
        {"alpha": "tau_syn", "beta": "tau_mem"},
    ),
    "adaptive_lif": (
        neurons.AdaptiveLifNeuron,
        {**SETTINGS, **LEAKY, "tau": TAU, "tau_adaptation": TAU, "kappa": st.floats(0, 2)},
        {"beta": "tau", "rho": "tau_adaptation"},
    ),
    "leaky_integrator": (
        neurons.LeakyIntegrator,
        {"gain": SETTINGS["gain"], **LEAKY, "tau": TAU},
        {"beta": "tau"},
    ),
    "sigma_delta": (
        neurons.SigmaDeltaNeuron,
        {
            "threshold": SETTINGS["threshold"],
            "gain": SETTINGS["gain"],
            "compare": SETTINGS["compare"],
            "activation": st.sampled_from(["relu", "none"]),
            "cumulative": st.booleans(),
            "bias": LEAKY["v_leak"],
        },
        {},
    ),
    "refractory_lif": (
        neurons.RefractoryLifNeuron,
        {**SETTINGS, **LEAKY, "tau": TAU, "period": st.sampled_from([0.0, 1.0, 3.0])},
        {"beta": "tau"},
    ),
    "izhikevich": (
        neurons.IzhikevichNeuron,
        {"a": st.floats(0.01, 0.1), "d": st.floats(0, 8), "gain": st.sampled_from([10.0, 40.0])},
        {},
    ),
    "adaptive_exponential": (
        neurons.AdaptiveExponentialNeuron,
        {"b": st.floats(0, 80), "gain": st.sampled_from([300.0, 900.0]), "dt": st.just(0.5)},
        {},
    ),
}


def written(value: object) -> str:
    """A setting as the language writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def torch_neuron(function: str, chosen: dict[str, Any]) -> Any:
    """The module that the settings of the language describe."""
    kind, _, decays = MODELS[function]
    is_exact = chosen.get("decay", "exact") == "exact"
    options = {k: v for k, v in chosen.items() if k not in (*decays.values(), "decay")}
    for decay, tau in decays.items():
        steps = chosen[tau]
        options[decay] = math.exp(-1 / steps) if is_exact else 1 - 1 / steps
    if "compare" in options:
        options["compare"] = {">=": "ge", ">": "gt"}[options["compare"]]
    return kind(**options)


@pytest.mark.parametrize("function", list(MODELS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_neurons_of_any_settings(function: str, data: st.DataObject) -> None:
    chosen = {name: data.draw(values, name) for name, values in MODELS[function][1].items()}
    x = current(data.draw(st.integers(0, 99)), 8, 2, 5)
    listed = ", ".join(f"{name}={written(value)}" for name, value in chosen.items())
    found = evaluate(f"{function}(x, {listed})", "x: Tensor[T, N, 5]", x)
    expected, _ = torch_neuron(function, chosen)(torch.from_numpy(x))
    np.testing.assert_array_equal(found.astype(np.float32), expected.detach().numpy())


@pytest.mark.parametrize("period", [None, 2.0])
@pytest.mark.parametrize("decay", ["exact", "euler"])
def test_one_time_constant_a_neuron(decay: str, period: float | None) -> None:
    x, tau, threshold = current(4, 8, 2, 5), current(5, 5) + 3, current(6, 5) / 4 + 1
    function, rest = ("lif", "") if period is None else ("refractory_lif", f"period={period}, ")
    found = evaluate(
        f'{function}(x, tau, {rest}threshold=threshold, decay="{decay}")',
        "x: Tensor[T, N, 5]",
        x,
        members="param tau: Tensor[5]\nparam threshold: Tensor[5]",
        tau=tau,
        threshold=threshold,
    )
    rate = np.float32(1) / tau
    beta = np.exp(-rate) if decay == "exact" else np.float32(1) - rate
    options: dict[str, Any] = {"threshold": torch.from_numpy(threshold)}
    options |= {} if period is None else {"period": period}
    kind = neurons.LifNeuron if period is None else neurons.RefractoryLifNeuron
    expected, _ = kind(torch.from_numpy(beta), **options)(torch.from_numpy(x))
    np.testing.assert_array_equal(found, expected.numpy() > 0)


@pytest.mark.parametrize("function", ["lif", "integrate_fire", "cuba_lif", "adaptive_lif"])
@pytest.mark.parametrize("batch", ["N", "2"])
def test_neurons_start_at_a_given_potential(function: str, batch: str) -> None:
    x, start = current(7, 6, 2, 5), current(8, 2, 5)
    signature = f"x: Tensor[T, {batch}, 5], v: Tensor[{batch}, 5]"
    found = evaluate(f"{function}(x, initial=v)", signature, x, start)
    defaults = {"tau": 2.0, "tau_syn": 2.0, "tau_mem": 2.0, "tau_adaptation": 100.0}
    chosen: dict[str, Any] = {t: defaults[t] for t in MODELS[function][2].values()}
    if function == "adaptive_lif":
        chosen["kappa"] = 1.8
    module = torch_neuron(function, chosen)
    v, zero = torch.from_numpy(start), torch.zeros(2, 5)
    states = tuple(v if name == "v" else zero for name in module.STATES)
    expected, _ = module(torch.from_numpy(x), states)
    np.testing.assert_array_equal(found, expected.detach().numpy() > 0)


@pytest.mark.parametrize(
    ("type", "dtype"),
    [
        ("TernaryTensor", np.int8),
        ("Tensor<int8>", np.int8),
        ("Tensor<int32>", np.int32),
        ("Tensor", np.float32),
        ("Tensor<float16>", np.float16),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_products_of_trains(type: str, dtype: Any, bias: bool) -> None:
    rng = np.random.default_rng(9)
    low, high = (-1, 2) if type == "TernaryTensor" else (-9, 10)
    weight, offset = rng.integers(low, high, (6, 4)).astype(dtype), current(10, 4)
    s = train(9, 5, 2, 6)
    found = evaluate(
        "linear(s, w, b)" if bias else "s @ w",
        "s: SpikeTensor[T, N, 6]",
        s,
        members=f"param w: {type}[6, 4]\n" + ("param b: Tensor[4]" if bias else ""),
        w=weight,
        **({"b": offset} if bias else {}),
    )
    expected = s.astype(np.float64) @ weight.astype(np.float64)
    expected = expected + offset.astype(np.float64) if bias else expected
    assert found.dtype == (np.float16 if dtype == np.float16 else np.float32)
    np.testing.assert_array_equal(found, expected.astype(found.dtype))


def test_products_become_synapses() -> None:
    signature = "s: SpikeTensor[T, N, 6], w: Tensor[6, 4]"
    assert "spike.linear" in names(compiled("s @ w", signature))
    assert "spike.linear" in names(compiled("s @ w", "s: SpikeTensor[T, N, 6], w: Tensor[6]"))
    image = "s: SpikeTensor[T, N, 4, 8, 8], w: Tensor[4, 1, 3, 3]"
    assert "spike.conv" in names(compiled("depthwise_conv2d(s, w)", image))


def test_products_with_vectors_and_stacks_of_matrices() -> None:
    s, vector, stack = train(11, 5, 2, 6), current(11, 6), current(12, 5, 6, 3)
    found = evaluate("s @ w", "s: SpikeTensor[T, N, 6], w: Tensor[6]", s, vector)
    np.testing.assert_array_equal(found, s.astype(np.float32) @ vector)
    found = evaluate("s @ w", "s: SpikeTensor[5, N, 6], w: Tensor[5, 6, 3]", s, stack)
    np.testing.assert_array_equal(found, s.astype(np.float32) @ stack)


def test_scaled_ternary_products() -> None:
    rng = np.random.default_rng(13)
    trits, scale, s = rng.integers(-1, 2, (6, 4)).astype(np.int8), current(13, 4), train(13, 5, 6)
    found = evaluate(
        "ternary_matmul(s, w, c)",
        "s: SpikeTensor[T, 6]",
        s,
        members="param w: TernaryTensor[6, 4]\nparam c: Tensor[4]",
        w=trits,
        c=scale,
    )
    np.testing.assert_array_equal(found, (s.astype(np.float32) @ trits) * scale)


@pytest.mark.parametrize(
    ("body", "op", "expected"),
    [
        ("max_pool2d(s, 2)", "spike.max_pool", lambda x: torch.max_pool2d(x, 2)),
        ("avg_pool2d(s, 2)", "spike.avg_pool", lambda x: torch.nn.functional.avg_pool2d(x, 2)),
        (
            "avg_pool2d(s, 3, 2, 1, count_include_pad=false)",
            "spike.avg_pool",
            lambda x: torch.nn.functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        ),
        ("global_avg_pool2d(s)", "tensor.reduce_mean", lambda x: x.mean((2, 3), keepdim=True)),
    ],
)
def test_pools_of_trains(body: str, op: str, expected: Any) -> None:
    s = train(14, 3, 2, 4, 6, 6)
    module = compiled(body, "s: SpikeTensor[T, N, 4, 6, 6]")
    assert op in names(module)
    pooled = expected(torch.from_numpy(s.astype(np.float32)).flatten(0, 1)).unflatten(0, (3, 2))
    found = run_module(module, [s])[0]
    np.testing.assert_allclose(found.astype(np.float32), pooled.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("reshape(s, [T, N, 12])", lambda s: s.reshape(5, 2, 12)),
        ("flatten(s, start=2)", lambda s: s.reshape(5, 2, 12)),
        ("permute(s, [0, 1, 3, 2])", lambda s: s.transpose(0, 1, 3, 2)),
        ("transpose(s, 1, 2)", lambda s: s.swapaxes(1, 2)),
        ("s[1:, :, 2, ::2]", lambda s: s[1:, :, 2, ::2]),
        ("concat([s, s], axis=2)", lambda s: np.concatenate([s, s], 2)),
        ("stack([s, s], axis=1)", lambda s: np.stack([s, s], 1)),
        ("split(s, 2, axis=3)[1]", lambda s: s[..., 2:]),
        ("squeeze(unsqueeze(s, 2), 2)", lambda s: s),
        ("delay(s, 2)", lambda s: np.concatenate([np.zeros_like(s[:2]), s[:3]])),
    ],
)
def test_shapes_of_trains(body: str, expected: Any) -> None:
    s = train(15, 5, 2, 3, 4)
    found = evaluate(body, "s: SpikeTensor[T, N, 3, 4]", s)
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, expected(s))


def test_gathered_trains() -> None:
    s, index = train(16, 5, 2, 6), np.array([4, 0, 4])
    signature = "s: SpikeTensor[T, N, 6], i: Tensor<int64>[3]"
    np.testing.assert_array_equal(evaluate("gather(s, i, 2)", signature, s, index), s[:, :, index])


NORM = "buffer m: Tensor[3]\nbuffer v: Tensor[3]\nparam w: Tensor[3, 3]"


@pytest.mark.parametrize(
    ("body", "signature", "is_temporal"),
    [
        ("batch_norm(s, m, v, axis=2)", "s: SpikeTensor[T, N, 3]", True),
        ("batch_norm(s @ w + 1.0, m, v, axis=2)", "s: SpikeTensor[T, N, 3]", True),
        ("lif(batch_norm(s, m, v, axis=2) * 2.0)", "s: Tensor[T, N, 3]", True),
        ("batch_norm(decode(s), m, v)", "s: SpikeTensor[T, N, 3]", False),
        ("batch_norm(s, m, v, axis=2)", "s: Tensor[T, N, 3]", False),
    ],
)
def test_which_normalisations_share_time(body: str, signature: str, is_temporal: bool) -> None:
    rng = np.random.default_rng(17)
    mean, variance, weight = (
        current(17, 3),
        rng.uniform(0.5, 2, 3).astype(np.float32),
        current(1, 3, 3),
    )
    module = compiled(body, signature, NORM, m=mean, v=variance, w=weight)
    found = {type(op) for op in module.walk()} & {spike.BatchNormOp, tensor.BatchNormOp}
    assert found == {spike.BatchNormOp if is_temporal else tensor.BatchNormOp}
    if body.startswith("batch_norm(s, m"):
        x = (train(18, 5, 2, 3) if is_temporal else current(18, 5, 2, 3)).astype(np.float64)
        given_x = x > 0 if is_temporal else x.astype(np.float32)
        expected = (x - mean) / np.sqrt(variance.astype(np.float64) + 1e-5)
        np.testing.assert_allclose(run_module(module, [given_x])[0], expected, rtol=1e-5, atol=1e-6)


def test_trains_enter_and_leave_as_truth_values() -> None:
    module = compiled("lif(s)", "s: SpikeTensor[8, N, 3]")
    (function,) = [op for op in module.walk() if isinstance(op, FuncOp)]
    for types in (function.function_type.inputs, function.function_type.outputs):
        (type,) = types.data
        assert isinstance(type, TensorType) and type.element_type == i1
    assert names(module)[0] == "spike.from_tensor" and names(module)[-1] == "spike.to_tensor"


def step_of(module: ModuleOp) -> float | None:
    (function,) = [op for op in module.walk() if isinstance(op, FuncOp)]
    attribute: Any = function.attributes.get(TIME_STEP)
    return None if attribute is None else attribute.value.data


def test_the_length_of_a_step() -> None:
    assert step_of(compiled("encode(x, 4, dt=0.001)", "x: Tensor[N, 3]")) == 0.001
    assert step_of(compiled("encode(x, 4)", "x: Tensor[N, 3]")) is None
    source = "layer L { fn forward(s: SpikeTensor[T, N]) { return lif(s) } }"
    assert step_of(import_tri(source, dt=0.002)) == 0.002
    with pytest.raises(LoweringError, match=r"a step of 0\.002 s here, of 0\.001 s elsewhere"):
        compiled("[encode(x, 4, dt=0.001), encode(x, 4, dt=0.002)]", "x: Tensor[N, 3]")
