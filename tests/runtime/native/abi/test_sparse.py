"""The layout without blocks of zeros: what stands in it, and when it is chosen."""

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.dialects.ternary.sparsity import DEFAULT_BLOCK, measure_sparsity
from triton_dsl.runtime.native.abi.sparse import kept_blocks, sparse_panels, worthwhile


def matrix(outs: int, ins: int, share: float) -> NDArray[np.int8]:
    rng = np.random.default_rng(outs + ins)
    trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
    dead = rng.random((-(-outs // 256), -(-ins // 4))) < share
    return np.where(np.kron(dead, np.ones((256, 4), np.bool_))[:outs, :ins], 0, trits)


@pytest.mark.parametrize(("outs", "ins"), [(1, 1), (256, 4), (257, 5), (600, 37), (300, 64)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_trit_is_found_where_it_should_stand(outs: int, ins: int, share: float) -> None:
    trits = matrix(outs, ins, share)
    content = sparse_panels(trits)
    groups = -(-outs // 256)
    starts = content[: 4 * (groups + 1)].view(np.int32)
    at = -(-starts.nbytes // 64) * 64
    offsets = content[at : at + 4 * int(starts[-1])].view(np.int32)
    at += -(-offsets.nbytes // 64) * 64
    assert content.size == at + 256 * len(offsets)
    found = np.zeros((outs, ins), np.int8)
    for n in range(outs):
        group, within = divmod(n, 256)
        blocks = int(starts[group + 1] - starts[group])
        panel, row = divmod(within, 64)
        p, r = divmod(row, 16)
        first = at + 256 * int(starts[group]) + 64 * panel * blocks
        for b in range(blocks):
            offset = int(offsets[starts[group] + b])
            for t in range(min(4, ins - offset)):
                byte = int(content[first + 64 * b + 4 * r + t])
                found[n, offset + t] = (byte >> 2 * p & 3) - 1
    assert np.array_equal(found, trits)


@pytest.mark.parametrize(("outs", "ins"), [(256, 4), (257, 5), (600, 37)])
def test_blocks_are_those_of_the_facts_about_sparsity(outs: int, ins: int) -> None:
    trits = matrix(outs, ins, 0.5)
    facts = measure_sparsity(trits.T, DEFAULT_BLOCK)
    zero = int(facts.zero_blocks.data, 16)
    kept = kept_blocks(trits).T.reshape(-1)
    assert [not zero >> i & 1 for i in range(kept.size)] == kept.tolist()


def test_is_chosen_where_enough_is_zero() -> None:
    assert worthwhile(matrix(512, 512, 0.5))
    assert not worthwhile(matrix(512, 512, 0.0))
    assert not worthwhile(matrix(64, 64, 0.9))
    assert not worthwhile(np.zeros((0, 5), np.int8))
