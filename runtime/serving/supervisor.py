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


async def supervise(commands: Sequence[Sequence[str]], told: Callable[[str], None]) -> None:
    """Keep a process of each command running until SIGTERM or SIGINT; `told` of each death."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await asyncio.gather(*(_keep(command, stop, told) for command in commands))


async def _keep(command: Sequence[str], stop: asyncio.Event, told: Callable[[str], None]) -> None:
    starts = 0
    while not stop.is_set():
        began = time.monotonic()
        try:
            process = await asyncio.create_subprocess_exec(*command)
        except OSError as error:  # the system may have what it takes again
            said = f"'{command[0]}' does not start: {error.strerror}"
        else:
            ender = asyncio.create_task(_end(process, stop))
            said = f"process {process.pid} ended with {await process.wait()}"
            ender.cancel()
        if stop.is_set():
            return
        starts = 0 if time.monotonic() - began > STEADY else starts + 1
        pause = min(FIRST_PAUSE * 2.0 ** min(max(starts - 1, 0), 16), LONGEST_PAUSE)
        told(f"{said}; again in {pause:.1f} s")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def _end(process: asyncio.subprocess.Process, stop: asyncio.Event) -> None:
    """End a process when it is time to, if it must be by force."""
    await stop.wait()
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        await asyncio.sleep(PATIENCE)
        process.kill()
