"""Requests gathered to batches: the more of them wait, the more go through at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ...ir.arrays import Array
from .signature import Signature

Run = Callable[[Sequence[Array]], list[Array]]
"""A model: its results for its inputs. It may be called in several threads at once."""


class Busy(Exception):
    """As many requests wait as may."""


@dataclass(frozen=True)
class Limits:
    """How requests are gathered.

    Attributes:
        samples: the most that go through at once; 1 takes each request by itself.
        delay: seconds that the first request of a batch waits for others while a worker is free.
        waiting: requests that may wait; more are refused.
        workers: batches that run at once.
    """

    samples: int = 64
    delay: float = 0.0
    waiting: int = 1024
    workers: int = 1


@dataclass(frozen=True)
class _Job:
    inputs: Sequence[Array]
    samples: int
    future: asyncio.Future[list[Array]]
    since: float


class Batcher:
    """Runs requests for one model, in the threads of its workers, in the order they come.

    Args:
        run: the model.
        signature: of it.
        limits: how requests are gathered.
        on_batch: is told the samples of each batch that went through.
    """

    def __init__(
        self,
        run: Run,
        signature: Signature,
        limits: Limits,
        on_batch: Callable[[int], None] = lambda samples: None,
    ) -> None:
        self.run = run
        self.signature = signature
        self.limits = limits
        self._on_batch = on_batch
        self._jobs: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._turn = asyncio.Lock()
        self._pool = ThreadPoolExecutor(limits.workers, "triton-serve")
        self._workers = [asyncio.create_task(self._work()) for _ in range(limits.workers)]
        self._running = 0

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._jobs)

    async def submit(self, inputs: Sequence[Array], samples: int) -> list[Array]:
        """The results of one request.

        Raises:
            Busy: too many wait already.
            Exception: whatever the model raises.
        """
        if len(self._jobs) >= self.limits.waiting:
            raise Busy(f"{self.limits.waiting} requests wait; ask again later")
        loop = asyncio.get_running_loop()
        job = _Job(inputs, samples, loop.create_future(), loop.time())
        self._jobs.append(job)
        self._arrived.set()
        return await job.future

    async def close(self) -> None:
        """Answer what waits, and stop."""
        while self._jobs or self._running:
            await asyncio.sleep(0.005)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._pool.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            async with self._turn:
                jobs = await self._gather()
                self._running += 1
            try:
                await loop.run_in_executor(self._pool, self._answer, jobs, loop)
            finally:
                self._running -= 1

    async def _gather(self) -> list[_Job]:
        """The next requests that go through at once: of the same sizes, and not too many."""
        loop = asyncio.get_running_loop()
        while not self._jobs:
            self._arrived.clear()
            await self._arrived.wait()
        end = self._jobs[0].since + self.limits.delay
        while (left := end - loop.time()) > 0 and self._ready() < self.limits.samples:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                break
        jobs = [self._jobs.popleft()]
        total = jobs[0].samples
        while (
            self._jobs
            and self.signature.takes_batches
            and total + self._jobs[0].samples <= self.limits.samples
            and self._sizes(self._jobs[0]) == self._sizes(jobs[0])
        ):
            jobs.append(self._jobs.popleft())
            total += jobs[-1].samples
        return jobs

    def _ready(self) -> int:
        return sum(job.samples for job in self._jobs)

    def _sizes(self, job: _Job) -> list[tuple[int, ...]]:
        """The sizes of inputs but for the number of samples."""
        return [
            tuple(size for axis, size in enumerate(array.shape) if axis != port.batch_axis)
            for port, array in zip(self.signature.inputs, job.inputs, strict=True)
        ]

    def _answer(self, jobs: Sequence[_Job], loop: asyncio.AbstractEventLoop) -> None:
        """In a worker's thread: run a batch, and give each request what is its own."""
        try:
            results = self._together(jobs)
        except Exception as error:  # whatever an engine raises is the answer
            if len(jobs) > 1:
                for job in jobs:
                    self._answer([job], loop)
                return
            loop.call_soon_threadsafe(_settle, jobs[0].future, None, error)
            return
        self._on_batch(sum(job.samples for job in jobs))
        for job, result in zip(jobs, results, strict=True):
            loop.call_soon_threadsafe(_settle, job.future, result, None)

    def _together(self, jobs: Sequence[_Job]) -> list[list[Array]]:
        if len(jobs) == 1:
            return [self.run(jobs[0].inputs)]
        inputs = [
            np.concatenate([job.inputs[index] for job in jobs], axis=port.batch_axis or 0)
            for index, port in enumerate(self.signature.inputs)
        ]
        ends = np.cumsum([job.samples for job in jobs])[:-1]
        parts = [
            np.split(array, ends, axis=port.batch_axis or 0)
            for port, array in zip(self.signature.outputs, self.run(inputs), strict=True)
        ]
        return [list(each) for each in zip(*parts, strict=True)]


def _settle(
    future: asyncio.Future[list[Array]], result: list[Array] | None, error: Exception | None
) -> None:
    if future.done():  # the client has gone
        return
    if error is not None:
        future.set_exception(error)
    else:
        assert result is not None
        future.set_result(result)
