"""Encoders and decoders: their definitions, their statistics, and runs that are cut in two."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, f16, f32, i1, i8
from xdsl.ir import Block

from triton_dsl.dialects import spike
from triton_dsl.dialects.elements import element_of
from triton_dsl.dialects.interpret import evaluate
from triton_dsl.dialects.spike.threefry import draw, uniform

Array = NDArray[Any]
RunOp = Callable[..., tuple[Array, ...]]

RNG = np.random.default_rng(6)


def encode(x: Array, scheme: str, steps: int | None = None, **options: Any) -> Array:
    (value,) = Block(arg_types=[TensorType(element_of(x.dtype), x.shape)]).args
    op = spike.EncodeOp(value, scheme, steps, **options)
    op.verify()
    return evaluate(op, [x])[0]


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_known_answers(
    key: tuple[int, int], counter: tuple[int, int], words: tuple[int, int]
) -> None:
    """The vectors of the Random123 library for threefry2x32 with 20 rounds."""
    first, second = draw(key[0] + (key[1] << 32), *(np.array([word]) for word in counter))
    assert (int(first[0]), int(second[0])) == words


def scalar_threefry(key: tuple[int, int], counter: tuple[int, int]) -> int:
    """The first word, on Python's integers."""
    keys = (*key, 0x1BD11BDA ^ key[0] ^ key[1])
    x, y = ((c + k) % 2**32 for c, k in zip(counter, keys, strict=False))
    for i in range(20):
        r = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = (x + y) % 2**32
        y = (y << r | y >> (32 - r)) % 2**32 ^ x
        if i % 4 == 3:
            j = i // 4 + 1
            x, y = (x + keys[j % 3]) % 2**32, (y + keys[(j + 1) % 3] + j) % 2**32
    return x


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**34))
def test_rate_code_draws_by_seed_step_and_element(seed: int, start: int) -> None:
    x = np.array([[0.3, 0.9], [0.5, 0.1]], np.float32)
    spikes = encode(x, "rate", 3, seed=seed, start=start)
    for t, j in np.ndindex(3, 4):
        word = scalar_threefry((seed % 2**32, seed >> 32), ((start + t) % 2**32, j))
        assert spikes[t].ravel()[j] == (Fraction(word, 2**32) < Fraction(float(x.ravel()[j])))


def test_rate_code_has_the_right_rate() -> None:
    x = np.linspace(0, 1, 21, dtype=np.float32)
    rates = encode(x, "rate", 20000, seed=3).mean(axis=0)
    spread = np.sqrt(x * (1 - x) / 20000)
    assert (np.abs(rates - x) <= 5 * spread).all()
    assert rates[0] == 0 and rates[-1] == 1
    # Draws of neighbours in time, in space and between seeds are independent.
    draws = uniform(1, range(400), 400)
    for shifted in (draws[1:, :].ravel(), uniform(2, range(400), 400)[1:].ravel()):
        correlation = np.corrcoef(draws[:-1].ravel(), shifted)[0, 1]
        assert abs(correlation) < 5 / np.sqrt(shifted.size)
    neighbours = np.corrcoef(draws[:, 1:].ravel(), draws[:, :-1].ravel())[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(draws.size)
    counts, _ = np.histogram(draws, 64, (0, 1))
    expected = draws.size / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * np.sqrt(2 * 63)


def test_rate_code_clips_and_ignores_nan() -> None:
    spikes = encode(np.array([-1.0, 2.0, np.nan, 1.0, 0.0], np.float32), "rate", 50, seed=0)
    np.testing.assert_array_equal(spikes.mean(axis=0), [0, 1, 0, 1, 0])


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=4), st.integers(1, 60))
def test_regular_code_is_an_integrator_of_a_constant_current(x: list[float], steps: int) -> None:
    spikes = encode(np.array(x, np.float32), "regular", steps)
    for j, value in enumerate(x):
        potential = Fraction(0)
        for t in range(steps):
            potential += Fraction(value)
            assert spikes[t, j] == (potential >= 1)
            potential -= potential >= 1


def test_latency_code() -> None:
    x = np.array([1.0, 0.5, 0.26, 0.0, -1.0, 3.0], np.float32)
    spikes = encode(x, "latency", 9)
    assert (spikes.sum(axis=0) == 1).all()
    assert spikes.argmax(axis=0).tolist() == [0, 4, 6, 8, 8, 0]
    clipped = encode(x, "latency", 9, threshold=0.27)
    assert clipped.sum(axis=0).tolist() == [1, 1, 0, 0, 0, 1]
    early = encode(x, "latency", 9, period=3)
    assert early.argmax(axis=0).tolist() == [0, 1, 1, 2, 2, 0]


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=4), st.integers(1, 12))
def test_phase_code_holds_the_binary_digits(x: list[float], period: int) -> None:
    spikes = encode(np.array(x, np.float32), "phase", 2 * period, period=period)
    np.testing.assert_array_equal(spikes[:period], spikes[period:])
    weights = [Fraction(1, 2 ** (1 + t)) for t in range(period)]
    for j, value in enumerate(x):
        coded = sum(w for w, s in zip(weights, spikes[:, j], strict=False) if s)
        if value == 1:
            assert coded == 1 - Fraction(1, 2**period)
        else:
            assert 0 <= Fraction(value) - coded < Fraction(1, 2**period)


def test_phase_code_of_the_paper() -> None:
    """The example of Kim et al. 2018."""
    x = np.array([192, 1, 128, 255], np.float32) / 256
    expected = ["11000000", "00000001", "10000000", "11111111"]
    np.testing.assert_array_equal(
        encode(x, "phase", 8).T, [[c == "1" for c in e] for e in expected]
    )


def test_direct_code_repeats(run_op: RunOp) -> None:
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    (currents,) = run_op(lambda v: spike.EncodeOp(v, "direct", 4), x)
    np.testing.assert_array_equal(currents, np.stack([x] * 4))
    (spikes,) = run_op(lambda v: spike.EncodeOp(v, "direct", 4), x > 0)
    np.testing.assert_array_equal(spikes, np.stack([x > 0] * 4))
    (value,) = Block(arg_types=[TensorType(i1, [2, 3])]).args
    assert spike.EncodeOp(value, "direct", 4).result.type == spike.train(4, 2, 3)


def test_delta_code(run_op: RunOp) -> None:
    """The example of snnTorch's `spikegen.delta`, and what comes before the first step."""
    x = np.array([1, 2, 2.875, 3, 3.875], np.float32)
    (spikes,) = run_op(lambda v: spike.EncodeOp(v, "delta", threshold=1.0), x)
    assert spikes.tolist() == [True, True, False, False, False]
    (spikes,) = run_op(
        lambda v, p: spike.EncodeOp(v, "delta", threshold=1.0, previous=p),
        x,
        np.array(0.5, np.float32),
    )
    assert spikes.tolist() == [False, True, False, False, False]


@given(
    st.sampled_from(["rate", "regular", "latency", "phase", "direct"]),
    st.integers(1, 9),
    st.integers(0, 20),
)
def test_an_encoder_cut_in_two_gives_the_same_spikes(scheme: str, cut: int, start: int) -> None:
    x = np.random.default_rng(start).random((2, 3), np.float32)
    options: dict[str, Any] = {"seed": 4} if scheme == "rate" else {}
    if scheme in ("latency", "phase"):
        options["period"] = 10
    whole = encode(x, scheme, 10, start=start, **options)
    first = encode(x, scheme, cut, start=start, **options)
    second = encode(x, scheme, 10 - cut, start=start + cut, **options) if cut < 10 else whole[:0]
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)


def test_decoders_of_trains(run_op: RunOp) -> None:
    spikes = RNG.random((7, 3, 4)) < 0.2
    spikes[:, 0, 0] = False
    spikes[6, 0, 1] = True
    (rate,) = run_op(lambda v: spike.DecodeOp(v, "rate"), spikes, trains=(0,))
    (first,) = run_op(lambda v: spike.DecodeOp(v, "first_spike"), spikes, trains=(0,))
    for place in np.ndindex(3, 4):
        times = [t for t in range(7) if spikes[(t, *place)]]
        assert rate[place] == np.float32(len(times)) / np.float32(7)
        assert first[place] == (np.float32(7 - times[0]) / np.float32(7) if times else 0)
    assert rate.dtype == first.dtype == np.float32


@pytest.mark.parametrize("readout", ["last", "max", "mean"])
def test_decoder_of_membranes(readout: str, run_op: RunOp) -> None:
    trace = RNG.standard_normal((8, 3, 4))
    (y,) = run_op(lambda v: spike.DecodeOp(v, "membrane", readout), trace)
    expected = {"last": trace[7], "max": np.max(trace, 0), "mean": sum(trace) / 8}[readout]
    np.testing.assert_allclose(y, expected, rtol=1e-14)


def test_latency_code_reads_back_as_first_spike() -> None:
    x = np.arange(9, dtype=np.float32) / 8
    spikes = encode(x, "latency", 9)
    (value,) = Block(arg_types=[spike.train(9, 9)]).args
    (first,) = evaluate(spike.DecodeOp(value, "first_spike"), [spikes])
    np.testing.assert_array_equal(first, (x * 8 + 1) / np.float32(9))


@pytest.mark.parametrize("element", [f32, f16, i8, i1], ids=str)
def test_trains_as_tensors(element: Any, run_op: RunOp) -> None:
    spikes = RNG.random((5, 3)) < 0.5
    (dense,) = run_op(lambda v: spike.ToTensorOp(v, element), spikes, trains=(0,))
    np.testing.assert_array_equal(dense, spikes)
    (back,) = run_op(spike.FromTensorOp, dense)
    np.testing.assert_array_equal(back, spikes)


def test_what_is_not_zero_is_a_spike(run_op: RunOp) -> None:
    x = np.array([0.0, -0.0, 1e-30, -3.0, np.nan, np.inf], np.float32)
    (spikes,) = run_op(spike.FromTensorOp, x)
    assert spikes.tolist() == [False, False, True, True, True, True]
