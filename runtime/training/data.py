"""Batches of training data in an order that can be taken up again, shared out among processes.

The order of an epoch is a function of the seed and the number of the epoch, so that a run can go on
from any batch of it. Every process has its rows of each batch. Not here: augmentation, which is the
dataset's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from ...ir.errors import OptionError, refuse

Data = Any
"""A pair of arrays or tensors (inputs, targets), a `Dataset` of such pairs, or a `DataLoader`."""


@dataclass(frozen=True)
class Batch:
    """The rows of one process in a batch.

    Attributes:
        inputs: [rows, …].
        targets: [rows, …].
        first: the place of the first row in the batch.
        total: the rows of the batch in all processes.
    """

    inputs: Tensor
    targets: Tensor
    first: int
    total: int


def derived_seed(seed: int, *path: int) -> int:
    """A seed from 0 to 2^63 - 1 for one use of `seed`, which the numbers of `path` name."""
    text = ",".join(map(str, (seed, *path))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


class Batches:
    """The batches of a source of data, epoch by epoch.

    Args:
        data: a pair of arrays or tensors (inputs, targets) of equally many rows; a `Dataset` with a
            length whose items are such pairs; or a `DataLoader`, of which the dataset, the sampler
            (its random numbers drawn from `seed`), the collation and the workers are taken.
        batch_size: of arrays and datasets, in all processes together.
        shuffle: arrays and datasets, in each epoch.
        drop_last: of arrays and datasets: leave out a smaller last batch.
        poisson: of arrays and datasets: each row is in a batch by chance, which of them no other
            row tells; batches have `batch_size` rows on average, and may have none.
        seed: of the order.
        rank: the number of this process.
        world: how many processes there are.

    Raises:
        OptionError: anything else, or data without a batch.
    """

    def __init__(
        self,
        data: Data,
        batch_size: int,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        poisson: bool = False,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.seed, self.rank, self.world = seed, rank, world
        self._poisson = poisson
        self._size, self._shuffle, self._drop_last = batch_size, shuffle, drop_last
        self._arrays: tuple[Tensor, Tensor] | None = None
        self._dataset: Dataset[Any] | None = None
        self._loader: DataLoader[Any] | None = None
        if isinstance(data, DataLoader):
            loader = cast("DataLoader[Any]", data)
            _check_loader(loader)
            self._loader, self._dataset = loader, loader.dataset
        elif isinstance(data, Dataset) and not isinstance(data, IterableDataset):
            self._dataset = cast("Dataset[Any]", data)
        else:
            self._arrays = _pair_of_arrays(data)
        self.rows = len(cast(Any, self._dataset) if self._arrays is None else self._arrays[0])
        refuse(len(self) == 0, f"the data has no batch: {self.rows} rows")

    def __len__(self) -> int:
        """The batches of an epoch."""
        if self._loader is not None:
            return len(cast(Any, self._loader.batch_sampler))
        whole, rest = divmod(self.rows, self._size)
        return whole + (rest > 0 and not self._drop_last)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of epoch `number` from batch `start`: this process's rows of each.

        The batch at which it starts costs nothing to reach.
        """
        plan = self._plan(number)[start:]
        shares = [_share(len(rows), self.rank, self.world) for rows in plan]
        # A process without rows gets none of the shape that rows have: it reads one and drops it.
        wanted = [
            rows[first:last] if last > first else rows[:1] if len(rows) else [0]
            for rows, (first, last) in zip(plan, shares, strict=True)
        ]
        loaded = self._load(wanted, derived_seed(self.seed, 2, number, self.rank))
        for rows, (first, last), (inputs, targets) in zip(plan, shares, loaded, strict=True):
            if len(inputs) != len(targets):
                raise OptionError(f"got {len(inputs)} rows of inputs and {len(targets)} of targets")
            count = last - first
            yield Batch(inputs[:count], targets[:count], first, len(rows))

    def _plan(self, epoch: int) -> Sequence[Sequence[int]]:
        """The rows of each batch."""
        seed = derived_seed(self.seed, 1, epoch)
        if self._loader is not None:
            return _drawn(self._loader, seed)
        generator = torch.Generator().manual_seed(seed)
        if self._poisson:
            batches: list[Any] = []
            for _ in range(len(self)):
                chances = torch.rand(self.rows, generator=generator)
                batches.append((chances * len(self) < 1).nonzero()[:, 0].tolist())
            return batches
        order = torch.arange(self.rows)
        if self._shuffle:
            order = torch.randperm(self.rows, generator=generator)
        chunks: list[Any] = [*cast(Any, order).split(self._size)][: len(self)]
        return chunks if self._arrays else [chunk.tolist() for chunk in chunks]

    def _load(self, plan: Sequence[Any], seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        if self._arrays is not None:
            for rows in plan:
                yield self._arrays[0][rows], self._arrays[1][rows]
            return
        assert self._dataset is not None
        options: dict[str, Any] = {}
        if self._loader is not None:
            source: Any = self._loader
            names = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn",
                     "multiprocessing_context")  # fmt: skip
            options = {name: getattr(source, name) for name in names}
            if source.num_workers:
                options["prefetch_factor"] = source.prefetch_factor
        # Its own generator: without one it would draw from PyTorch's, when resumed once more.
        generator = torch.Generator().manual_seed(seed)
        loader: Any = DataLoader(
            self._dataset, batch_sampler=cast(Any, plan), generator=generator, **options
        )
        for item in loader:
            parts: Any = cast(Any, item) if isinstance(item, tuple | list) else ()
            if len(parts) != 2:
                raise OptionError(
                    f"expected batches of inputs and targets, got {type(cast(Any, item)).__name__}"
                )
            yield parts[0], parts[1]


def _share(rows: int, rank: int, world: int) -> tuple[int, int]:
    """The rows of a batch that a process has, as first and last plus one."""
    return rows * rank // world, rows * (rank + 1) // world


def _check_loader(loader: DataLoader[Any]) -> None:
    sampler: Any = cast(Any, loader).batch_sampler
    if isinstance(loader.dataset, IterableDataset) or sampler is None:
        raise OptionError("a DataLoader needs a dataset with a length, and batches")
    if isinstance(loader.sampler, DistributedSampler):
        raise OptionError(
            "the trainer shares batches out among processes by itself; give a DataLoader without "
            "DistributedSampler"
        )
    if not hasattr(sampler, "__len__"):
        raise OptionError("the batch sampler of a DataLoader needs a length")


def _drawn(loader: DataLoader[Any], seed: int) -> list[list[int]]:
    """The batches that the loader's sampler draws, with its random numbers from `seed`."""
    samplers: Any = loader
    for owner in (samplers.batch_sampler, samplers.sampler):
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(seed)
        return [list(rows) for rows in samplers.batch_sampler]


def _pair_of_arrays(data: Any) -> tuple[Tensor, Tensor]:
    arrays: list[Any] = [*cast(Any, data)] if isinstance(data, tuple | list) else []
    if len(arrays) != 2 or not all(isinstance(part, np.ndarray | Tensor) for part in arrays):
        raise OptionError(
            "expected a DataLoader, a Dataset with a length, or a pair of arrays (inputs, "
            f"targets), got {type(cast(Any, data)).__name__}"
        )
    try:
        inputs, targets = (torch.as_tensor(part) for part in arrays)
    except TypeError:
        types = " and ".join(str(part.dtype) for part in arrays)
        raise OptionError(f"expected arrays of numbers, got {types}") from None
    if inputs.dim() < 1 or targets.dim() < 1 or len(inputs) != len(targets):
        raise OptionError(
            f"expected equally many rows, got {list(inputs.shape)} and {list(targets.shape)}"
        )
    return inputs, targets
