"""Batches: orders that can be taken up again, and shares of processes."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.training.data import Batches, derived_seed

ROWS = torch.arange(23)
PAIR = (ROWS * 10, ROWS)


def targets(batches: Batches, epoch: int, start: int = 0) -> list[list[int]]:
    found = list(batches.epoch(epoch, start))
    assert all(torch.equal(batch.inputs, batch.targets * 10) for batch in found)
    return [batch.targets.tolist() for batch in found]


def sources(shuffle: bool) -> list[Any]:
    dataset = TensorDataset(*PAIR)
    return [
        PAIR,
        tuple(part.numpy() for part in PAIR),
        dataset,
        DataLoader(dataset, 5, shuffle=shuffle),
        DataLoader(dataset, 5, shuffle=shuffle, generator=torch.Generator()),
    ]


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_has_every_row_once(index: int, shuffle: bool) -> None:
    source = sources(shuffle)[index]
    batches = Batches(source, 5, shuffle=shuffle, seed=3)
    first, again, other = (targets(batches, epoch) for epoch in (0, 0, 1))
    assert [len(rows) for rows in first] == [5, 5, 5, 5, 3] and len(batches) == 5
    assert sorted(chain(*first)) == sorted(chain(*other)) == ROWS.tolist()
    assert first == again and (first != other) == shuffle
    assert ([*chain(*first)] != ROWS.tolist()) == shuffle
    assert targets(Batches(source, 5, shuffle=shuffle, seed=3), 1, 2) == other[2:]
    assert (targets(Batches(source, 5, shuffle=shuffle, seed=4), 0) != first) == shuffle


def test_the_callers_random_numbers_stay() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    for source in sources(True):
        targets(Batches(source, 5, shuffle=True), 0)
    assert torch.equal(torch.rand(3), expected)


def test_samplers_of_loaders() -> None:
    dataset = TensorDataset(*PAIR)
    weights = [1.0] * 3 + [0.0] * 20
    few = DataLoader(dataset, 4, sampler=WeightedRandomSampler(weights, 12))
    drawn = [*chain(*targets(Batches(few, 1), 0))]
    assert len(drawn) == 12 and set(drawn) <= {0, 1, 2}
    assert drawn == [*chain(*targets(Batches(few, 1), 0))]
    for sampler in (SequentialSampler(dataset), RandomSampler(dataset)):
        loader = DataLoader(dataset, batch_sampler=BatchSampler(sampler, 6, True))
        assert [len(rows) for rows in targets(Batches(loader, 1), 0)] == [6, 6, 6]


def test_dropping_the_last_batch() -> None:
    for source in (PAIR, TensorDataset(*PAIR)):
        batches = Batches(source, 5, drop_last=True)
        assert len(batches) == 4 and targets(batches, 0)[-1] == [15, 16, 17, 18, 19]


@given(
    rows=st.integers(1, 40),
    size=st.integers(1, 11),
    world=st.integers(1, 5),
    is_dataset=st.booleans(),
    seed=st.integers(0, 9),
)
def test_processes_share_each_batch(
    rows: int, size: int, world: int, is_dataset: bool, seed: int
) -> None:
    pair = (torch.arange(rows) * 10, torch.arange(rows))
    source: Any = TensorDataset(*pair) if is_dataset else pair
    whole = targets(Batches(source, size, shuffle=True, seed=seed), 2)
    shares = [
        list(Batches(source, size, shuffle=True, seed=seed, rank=rank, world=world).epoch(2))
        for rank in range(world)
    ]
    for index, expected in enumerate(whole):
        parts = [share[index] for share in shares]
        assert [*chain(*(part.targets.tolist() for part in parts))] == expected
        assert [part.total for part in parts] == [len(expected)] * world
        firsts = [sum(len(part.targets) for part in parts[:rank]) for rank in range(world)]
        assert [part.first for part in parts] == firsts
        sizes = [len(part.inputs) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_workers_and_collation() -> None:
    def doubled(items: Any) -> tuple[Tensor, Tensor]:
        inputs, labels = zip(*items, strict=True)
        return torch.stack(inputs) * 2, torch.stack(labels)

    loader = DataLoader(TensorDataset(*PAIR), 8, collate_fn=doubled)
    batch = next(iter(Batches(loader, 1).epoch(0)))
    assert torch.equal(batch.inputs, batch.targets * 20)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield from zip(*PAIR, strict=True)


class Triples(Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        return index, index, index


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([PAIR], r"expected a DataLoader, a Dataset with a length, or a pair of arrays"),
        ("digits", "got str"),
        ((PAIR[0], PAIR[1].tolist()), "a pair of arrays"),
        ((PAIR[0], PAIR[1][:4]), r"equally many rows, got \[23\] and \[4\]"),
        ((np.array(["a"] * 23), PAIR[1]), "expected arrays of numbers, got <U1 and torch.int64"),
        ((PAIR[0][:0], PAIR[1][:0]), "no batch: 0 rows"),
        (Stream(), "a Dataset with a length"),
        (DataLoader(Stream()), "needs a dataset with a length, and batches"),
        (DataLoader(TensorDataset(*PAIR), None), "and batches"),
        (
            DataLoader(
                TensorDataset(*PAIR),
                sampler=DistributedSampler(TensorDataset(*PAIR), num_replicas=2, rank=0),
            ),
            "shares batches out among processes by itself",
        ),
    ],
)
def test_refusals(source: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Batches(source, 4)


def test_batches_that_are_no_pairs() -> None:
    with pytest.raises(OptionError, match="expected batches of inputs and targets, got list"):
        next(Batches(Triples(), 4).epoch(0))
    with pytest.raises(OptionError, match="no batch: 3 rows"):
        Batches((np.zeros(3), np.zeros(3)), 4, drop_last=True)


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 99)), min_size=2, unique=True))
def test_seeds_differ(paths: list[tuple[int, int]]) -> None:
    seeds = [derived_seed(*path) for path in paths]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 2**63 for seed in seeds)
