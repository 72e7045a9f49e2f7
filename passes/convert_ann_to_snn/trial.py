"""What values of a function are on samples while it is converted, float ones and spiking ones.

Both stand in one block until the conversion ends. Values are computed when they are asked for,
batch by batch; trains and float values that later ops read stay, all else is computed again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import interpret, tensor
from ...dialects.parameters import Array
from ...dialects.spike.types import is_train
from ...ir.errors import PassError
from ..analysis.compile_time import compile_time_values

THREADS = min(os.cpu_count() or 1, 8)
"""Batches that are run at a time."""


class Trial:
    """The values of a block on samples.

    Attributes:
        ops: those of the float program.
        position: where each of them stands.
        known: values that depend on parameters and constants alone.
        sizes: the samples in each batch.

    Args:
        block: the float program.
        batches: samples, each with one array an argument of the block.

    Raises:
        PassError: there are no samples.
    """

    def __init__(self, block: Block, batches: Sequence[Sequence[Array]]) -> None:
        if not batches:
            raise PassError("calibration needs at least one sample")
        self.ops = list(block.ops)
        self.position = {op: index for index, op in enumerate(self.ops)}
        self.known = compile_time_values(self.ops)
        self.sizes = [len(batch[0]) for batch in batches]
        self.constants: dict[SSAValue, Array] = {}
        self.caches = [dict[SSAValue, Array](zip(block.args, b, strict=True)) for b in batches]

    def value(self, value: SSAValue, batch: int) -> Array:
        """What `value` is on a batch."""
        cache, waiting = self.caches[batch], [value]
        while waiting:
            wanted = waiting[-1]
            op = wanted.owner
            if wanted in cache or wanted in self.constants:
                waiting.pop()
                continue
            assert isinstance(op, Operation)
            missing = [v for v in op.operands if v not in cache and v not in self.constants]
            if missing:
                waiting.extend(missing)
                continue
            known = all(v in self.constants for v in op.operands)
            operands = [self.constants[v] if v in self.constants else cache[v] for v in op.operands]
            results = interpret.evaluate(op, operands)
            (self.constants if known else cache).update(zip(op.results, results, strict=True))
        return self.constants[value] if value in self.constants else cache[value]

    def batches(self, live: Collection[SSAValue], *ahead: SSAValue) -> Iterator[int]:
        """The numbers of the batches; when the next one is asked for, what is not live is gone.

        What values are `ahead` is computed on other threads meanwhile.
        """

        def compute(number: int) -> None:
            for value in ahead:
                self.value(value, number)

        waiting: deque[tuple[int, Future[None]]] = deque()
        with ThreadPoolExecutor(THREADS) as threads:
            for number in range(len(self.caches) + THREADS):
                if number < len(self.caches):
                    waiting.append((number, threads.submit(compute, number)))
                if number >= THREADS and waiting:
                    first, done = waiting.popleft()
                    done.result()
                    yield first
                    self.release(first, live)

    def release(self, number: int, live: Collection[SSAValue]) -> None:
        """Forget what live values of a batch can do without; currents are computed again."""
        cache, waiting, seen = self.caches[number], list(live), set(live)
        kept = {value: array for value, array in cache.items() if isinstance(value.owner, Block)}
        while waiting:
            value = waiting.pop()
            op = value.owner
            if value in cache and (op in self.position or is_train(value)):
                kept[value] = cache[value]
            elif isinstance(op, Operation) and value not in self.constants:
                waiting.extend(set(op.operands) - seen)
                seen.update(op.operands)
        self.caches[number] = kept

    def some(self, most: int) -> list[int]:
        """The first batches that have so many samples; one at least."""
        ends = np.cumsum(self.sizes)
        return [i for i, end in enumerate(ends) if i == 0 or end <= most]

    def results(self, changed: Mapping[SSAValue, Array], batch: int) -> Array:
        """The first result of the float program where some of its values are others.

        Of a softmax at the end its operand.
        """
        result = self.ops[-1].operands[0]
        if isinstance(result.owner, tensor.SoftmaxOp | tensor.LogSoftmaxOp):
            result = result.owner.operands[0]
        values = dict(changed)
        for op in self.ops[:-1]:
            if not any(v in values for v in op.operands) or any(r in values for r in op.results):
                continue
            operands = [values[v] if v in values else self.value(v, batch) for v in op.operands]
            values.update(zip(op.results, interpret.evaluate(op, operands), strict=True))
        return values[result] if result in values else self.value(result, batch)
