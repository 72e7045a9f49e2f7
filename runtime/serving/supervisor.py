"""Servers as processes that are started anew when they die, after a pause that grows.

What an engine does to its process then costs one server its requests, which a client or a proxy
sends to another. Not here: sharing requests out (a proxy in front), other machines (an
orchestrator restarts there).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Sequence

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
"""Seconds before a start."""
STEADY = 30.0
"""Seconds after which a process that dies is started after the first pause again."""
PATIENCE = 30.0
"""Seconds that processes have to end when they are told to."""


def pause_before(starts: int) -> float:
    """Seconds before the next start, after so many that did not last."""
    return min(FIRST_PAUSE * 2.0 ** min(starts, 16), LONGEST_PAUSE)


async def supervise(commands: Sequence[Sequence[str]], told: Callable[[str], None]) -> None:
    """Keep a process of each command running until SIGTERM or SIGINT, which end all of them.

    Args:
        commands: program and arguments of each.
        told: is told of each death.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    keepers = [asyncio.create_task(_keep(command, stop, told)) for command in commands]
    try:
        await asyncio.gather(*keepers)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _keep(command: Sequence[str], stop: asyncio.Event, told: Callable[[str], None]) -> None:
    starts = 0
    while not stop.is_set():
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(*command)
        ended, stopped = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
        await asyncio.wait([ended, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if stop.is_set():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await asyncio.wait([ended], timeout=PATIENCE)
            if not ended.done():
                process.kill()
            await ended
            return
        starts = 0 if time.monotonic() - began > STEADY else starts + 1
        pause = pause_before(starts - 1 if starts else 0)
        told(f"process {process.pid} ended with {ended.result()}; again in {pause:.1f} s")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
