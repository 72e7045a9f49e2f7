"""Buffers cut every chain of ready that is too long, and no other."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.lowering.to_verilog.circuit.stages.ready_paths import Hop, buffered_channels


def longest(hops: list[Hop], cut: set[int]) -> int:
    """The most stages that ready passes through, by following it from every channel."""
    users = {channel: hop for hop in hops for channel in hop.inputs}

    def below(channel: int) -> int:
        hop = users.get(channel)
        if hop is None or not hop.passes or channel in cut:
            return 0
        return 1 + max(below(c) for c in hop.outputs)

    # From the maker's side: a cut channel is ready by a register.
    starts = {c for hop in hops for c in hop.inputs}
    found = 0
    for channel in starts:
        hop = users[channel]
        if hop.passes:
            found = max(found, 1 + max(below(c) for c in hop.outputs))
    return found


def network(seed: int, count: int) -> list[Hop]:
    """Stages one after another; some are forks whose ways a join brings together again."""
    rng = np.random.default_rng(seed)
    hops: list[Hop] = []
    end, channels = 0, 1

    def stage(channel: int) -> int:
        nonlocal channels
        hops.append(Hop(bool(rng.random() < 0.85), (channel,), (channels,)))
        channels += 1
        return channels - 1

    for _ in range(count):
        if rng.random() < 0.7:
            end = stage(end)
            continue
        ways = [channels, channels + 1]
        hops.append(Hop(True, (end,), (ways[0], ways[1])))
        channels += 2
        for index, length in enumerate(rng.integers(0, 4, 2)):
            for _ in range(length):
                ways[index] = stage(ways[index])
        hops.append(Hop(True, (ways[0], ways[1]), (channels,)))
        end = channels
        channels += 1
    return hops


@settings(max_examples=200)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 7))
def test_no_chain_is_longer(seed: int, count: int, most: int) -> None:
    hops = network(seed, count)
    channels = {c for hop in hops for c in (*hop.inputs, *hop.outputs)}
    rng = np.random.default_rng(seed)
    widths = {channel: int(rng.integers(1, 50)) for channel in channels}
    cut = set(buffered_channels(hops, widths, most))
    assert longest(hops, cut) <= most
    if longest(hops, set()) <= most:
        assert not cut


def test_the_narrow_channel_is_cut() -> None:
    hops = [Hop(True, (i,), (i + 1,)) for i in range(8)]
    widths = dict.fromkeys(range(9), 90) | {3: 8}
    assert buffered_channels(hops, widths, 6) == [3]
