"""Encoders and decoders against the reference interpreter, bit for bit, and their statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from triton_dsl.dialects import spike
from triton_dsl.dialects.spike import threefry as reference
from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking import coding
from triton_dsl.runtime.spiking.coding import decode, encode
from triton_dsl.runtime.spiking.threefry import draw_words, random_words

RunOp = Callable[..., tuple[Tensor, ...]]

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def values(dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers in and around [0, 1], its ends, halves and what is no number."""
    special = [0.0, 1.0, 0.5, -0.25, 1.5, 2.0**-20, torch.nan, torch.inf, -torch.inf, 0.75]
    generator = torch.Generator().manual_seed(6)
    drawn = torch.rand(30, generator=generator, dtype=torch.float64)
    return torch.cat([torch.tensor(special).double(), drawn]).reshape(4, 10).to(dtype)


SCHEMES: list[dict[str, Any]] = [
    {"scheme": "rate", "timesteps": 12, "seed": 7},
    {"scheme": "rate", "timesteps": 3, "seed": 2**63 - 1, "start": 5},
    {"scheme": "rate", "timesteps": 4, "seed": 2**32, "start": 2**32 - 2},
    {"scheme": "regular", "timesteps": 12},
    {"scheme": "regular", "timesteps": 5, "start": 1000},
    {"scheme": "latency", "timesteps": 12},
    {"scheme": "latency", "timesteps": 6, "start": 2, "period": 9, "threshold": 0.3},
    {"scheme": "latency", "timesteps": 1},
    {"scheme": "phase", "timesteps": 8},
    {"scheme": "phase", "timesteps": 40, "start": 3, "period": 31},
    {"scheme": "direct", "timesteps": 3},
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", SCHEMES, ids=lambda o: "-".join(map(str, o.values())))
def test_encoders(options: dict[str, Any], dtype: torch.dtype, run_op: RunOp) -> None:
    x = values(dtype)
    found = encode(x, **options)
    (expected,) = run_op(lambda v: spike.EncodeOp(v, **options), x)
    assert found.dtype == dtype
    assert torch.equal(found.nan_to_num(9), expected.to(dtype).nan_to_num(9))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("first", [False, True])
def test_delta(dtype: torch.dtype, first: bool, run_op: RunOp) -> None:
    x = torch.randn(20, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    given = [x, torch.ones(6, dtype=dtype)] if first else [x]
    found = encode(x, "delta", threshold=0.3, previous=given[1] if first else None)
    (expected,) = run_op(
        lambda v, *p: spike.EncodeOp(v, "delta", threshold=0.3, previous=p[0] if p else None),
        *given,
    )
    assert torch.equal(found, expected.to(dtype)) and found.any()


def test_direct_takes_spikes() -> None:
    spikes = torch.tensor([True, False])
    assert encode(spikes, "direct", 2).tolist() == [[True, False]] * 2


@given(
    seed=st.integers(0, 2**64 - 1),
    start=st.integers(0, 2**33),
    steps=st.integers(1, 4),
    count=st.integers(0, 9),
)
def test_random_words_are_those_of_the_dialect(
    seed: int, start: int, steps: int, count: int
) -> None:
    words = random_words(seed, start, steps, count)
    expected = reference.uniform(seed, range(start, start + steps), count)
    assert torch.equal(words.to(torch.float64) * 2.0**-32, torch.from_numpy(expected))


@given(first=st.integers(0, 2**33), count=st.integers(1, 9), cut=st.integers(0, 8))
def test_words_of_a_part(first: int, count: int, cut: int) -> None:
    """Counted from any element, past 2^32 too, they are those of the whole."""
    whole = random_words(7, 3, 2, count, first=first)
    part = random_words(7, 3, 2, count - min(cut, count), first=first + min(cut, count))
    assert torch.equal(part, whole[:, min(cut, count) :])


def test_a_part_of_a_batch() -> None:
    x = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
    whole = encode(x, "rate", 8, seed=3)
    assert torch.equal(encode(x[2:], "rate", 8, seed=3, first=10), whole[:, 2:])
    for scheme, first in (("rate", -1), ("regular", 5)):
        seed: dict[str, Any] = {"seed": 3} if scheme == "rate" else {}
        with pytest.raises(OptionError, match="first belongs to 'rate', from 0"):
            encode(x, scheme, 8, first=first, **seed)


def test_threefry_gives_the_published_words() -> None:
    """The known answers of Random123 for threefry2x32-20."""
    ones = 2**32 - 1
    for key, counter, answer in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ones, ones), (ones, ones), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        x, y = draw_words(key[0] + (key[1] << 32), *(torch.tensor([word]) for word in counter))
        assert (x.item(), y.item()) == answer


def test_long_runs_are_drawn_in_parts() -> None:
    x = torch.rand(coding.WORDS_AT_ONCE // 3, generator=torch.Generator().manual_seed(0))
    whole = encode(x, "rate", 5, seed=3)
    for t in range(5):
        assert torch.equal(encode(x, "rate", 1, start=t, seed=3)[0], whole[t])


@pytest.mark.parametrize("scheme", ["rate", "regular", "latency", "phase"])
def test_runs_can_be_cut(scheme: str) -> None:
    x = torch.rand(9, generator=torch.Generator().manual_seed(0))
    options: dict[str, Any] = {"seed": 1} if scheme == "rate" else {}
    if scheme in ("latency", "phase"):
        options["period"] = 10
    parts = [encode(x, scheme, n, start=s, **options) for s, n in ((0, 3), (3, 1), (4, 6))]
    assert torch.equal(torch.cat(parts), encode(x, scheme, 10, **options))


def test_rates_are_the_values() -> None:
    """20,000 draws: the mean is within five standard deviations; elements are independent."""
    x = torch.tensor([0.0, 0.1, 0.5, 0.9, 1.0])
    train = encode(x, "rate", 20_000, seed=11)
    deviation = (x * (1 - x) / 20_000).sqrt()
    assert bool(((decode(train) - x).abs() <= 5 * deviation).all())
    a, b = train[:, 1] - 0.1, train[:, 2] - 0.5
    correlation = (a * b).mean() / (0.09 * 0.25) ** 0.5
    assert abs(float(correlation)) < 5 / 20_000**0.5


def test_what_is_encoded_can_be_read_back() -> None:
    x = torch.arange(32) / 32
    assert torch.equal(decode(encode(x, "regular", 32)), x)
    bits = encode(x, "phase", 5)
    weights = 2.0 ** -torch.arange(1, 6)
    assert torch.equal((bits * weights[:, None]).sum(0), x)
    first = decode(encode(x, "latency", 33), "first_spike")
    torch.testing.assert_close(first, (32 * x + 1) / 33)


@pytest.mark.parametrize("scheme", ["rate", "first_spike"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.bfloat16])
def test_decoders_of_trains(scheme: str, dtype: torch.dtype, run_op: RunOp) -> None:
    train = torch.rand(7, 5, 4, generator=torch.Generator().manual_seed(2)) < 0.2
    (expected,) = run_op(lambda s: spike.DecodeOp(s, scheme), train)
    found = decode(train.to(dtype), scheme)
    assert found.dtype == torch.float32 and torch.equal(found, expected)
    assert float(found.max()) > 0 and float(found.min()) == 0


@pytest.mark.parametrize("readout", ["last", "max", "mean"])
def test_decoders_of_traces(readout: str, run_op: RunOp) -> None:
    trace = torch.randn(7, 5, generator=torch.Generator().manual_seed(2))
    (expected,) = run_op(lambda v: spike.DecodeOp(v, "membrane", readout), trace)
    found = decode(trace, "membrane", readout)
    if readout == "mean":
        torch.testing.assert_close(found, expected)
    else:
        assert torch.equal(found, expected)


def test_gradients_of_decoders() -> None:
    train = torch.rand(4, 3).requires_grad_()
    decode(train).sum().backward()
    torch.testing.assert_close(train.grad, torch.full((4, 3), 0.25))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: encode(x, "burst", 3), "expected an encoding of rate, regular"),
        (lambda x: encode(x.long(), "rate", 3, seed=1), "expected floats to encode by 'rate'"),
        (lambda x: encode(x, "rate", 3), "expected a seed from 0"),
        (lambda x: encode(x, "rate", 3, seed=2**63), "expected a seed from 0"),
        (lambda x: encode(x, "regular", 3, seed=1), "seed belongs to rate, not to 'regular'"),
        (lambda x: encode(x, "rate", seed=1), "expected timesteps from 1"),
        (lambda x: encode(x, "regular", 3, start=-1), "a start from 0"),
        (lambda x: encode(x, "phase", 32), "expected a period from 1 to 31, got 32"),
        (lambda x: encode(x, "latency", 3, period=0), "expected a period from 1, got 0"),
        (lambda x: encode(x, "regular", 3, period=2), "period belongs to latency and phase"),
        (lambda x: encode(x, "phase", 3, threshold=0.1), "threshold belongs to latency and delta"),
        (lambda x: encode(x, "delta"), "expected a threshold"),
        (lambda x: encode(x, "delta", 3, threshold=0.1), "timesteps belongs to"),
        (lambda x: encode(x, "delta", threshold=0.1, start=1), "no start"),
        (lambda x: encode(x, "delta", threshold=0.1, previous=x), "previous: expected"),
        (lambda x: decode(x, "count"), "expected a decoding of rate"),
        (lambda x: decode(x, "membrane"), "expected a readout of last, max, mean"),
        (lambda x: decode(x, "rate", "last"), "only there"),
        (lambda x: decode(x[:0]), "at least one step"),
        (lambda x: decode(x > 0, "membrane", "max"), "expected a trace of floats"),
    ],
)
def test_refusals(make: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make(torch.rand(4, 3))
