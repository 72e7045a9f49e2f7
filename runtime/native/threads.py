"""One piece of work in several threads, which are kept waiting between calls.

Native functions run without Python's lock, so Python's own threads suffice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    # Threads do not survive a fork: a new process gets new ones.
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix=f"native-{process}")


def split(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` things in at most `parts` ranges that differ by one at most; none is empty."""
    parts = min(parts, count)
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def share(work: Callable[[int, int], None], ranges: Sequence[tuple[int, int]]) -> None:
    """Do `work` on every range, the first in this thread; ends when all are done."""
    if not ranges:
        return
    others = [_pool(os.getpid()).submit(work, *bounds) for bounds in ranges[1:]]
    try:
        work(*ranges[0])
    finally:
        for other in others:
            other.result()
