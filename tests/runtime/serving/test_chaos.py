"""Servers that are killed, connections that are cut, a disk that is full: no request is lost.

Each request is answered rightly, or with an error that says why; none hangs and none is wrong.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pytest

from triton_dsl.ir.errors import BackendError
from triton_dsl.runtime.serving.client import Client, Retries

from .chaos_server import MATRIX
from .test_client import free_port

SERVER = Path(__file__).parent / "chaos_server.py"
HAPROXY = Path(__file__).resolve().parents[3] / "examples" / "operations" / "haproxy.cfg"
SUPERVISOR = """
import asyncio, sys
from triton_dsl.runtime.serving.supervisor import supervise
commands = [[sys.executable, sys.argv[1], port, sys.argv[2]] for port in sys.argv[3:]]
asyncio.run(supervise(commands, lambda text: print(text, file=sys.stderr, flush=True)))
"""


@dataclass
class Tally:
    """What became of the requests, and what was done to the servers."""

    counts: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    slowest: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        total = self.counts.total()
        done = ", ".join(f"{count} {what}" for what, count in self.faults.items())
        return (
            f"{total} requests in {self.seconds:.0f} s ({total / self.seconds:.0f}/s), {done}; "
            f"right {self.counts['right']}, errors {self.counts['error']}, "
            f"lost {self.counts['lost']}, wrong {self.counts['wrong']}; "
            f"slowest {self.slowest:.2f} s"
        )


@contextmanager
def supervised(folder: Path, count: int) -> Generator[tuple[psutil.Process, list[int]]]:
    """Servers that a supervisor starts anew, and their ports; it ends as a signal ends it."""
    ports = [free_port() for _ in range(count)]
    arguments = [SERVER, folder / "disk", *map(str, ports)]
    with (folder / "supervisor.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, *map(str, arguments)], stderr=log
        )
        supervisor = psutil.Process(process.pid)
        try:
            yield supervisor, ports
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def load(
    servers: list[str], seconds: float, workers: int, tally: Tally, deadline: float
) -> list[threading.Thread]:
    """Threads that ask until the time is over, each answer compared."""
    end, lock = time.monotonic() + seconds, threading.Lock()

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        with Client(servers, Retries(deadline=deadline, timeout=2)) as client:
            while (start := time.monotonic()) < end:
                x = rng.normal(size=(1 + seed % 3, 3)).astype(np.float32)
                outcome = "lost"
                try:
                    y = client.infer("net", {"x": x})["y"]
                    is_right = y.shape == (len(x), 2) and np.allclose(y, x @ MATRIX, rtol=1e-5)
                    outcome = "right" if is_right else "wrong"
                except BackendError:
                    outcome = "error"
                finally:
                    with lock:
                        tally.counts[outcome] += 1
                        tally.slowest = max(tally.slowest, time.monotonic() - start)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(workers)]
    for thread in threads:
        thread.start()
    return threads


def kill_one(supervisor: psutil.Process, tally: Tally) -> None:
    """Kill a server without a warning."""
    with suppress(psutil.NoSuchProcess):
        if children := supervisor.children():
            random.choice(children).kill()
            tally.faults["servers killed"] += 1


def cut_connections(port: int, tally: Tally) -> None:
    """Begin requests and hang up in the middle of the head, of the body, and before the answer."""
    head = b"POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n"
    for part in (head[:20], head + b'{"inputs"', head + b" " * 90):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as opened:
            opened.sendall(part)
            tally.faults["connections cut"] += 1


def finished(threads: list[threading.Thread], deadline: float) -> None:
    for thread in threads:
        thread.join(deadline + 30)
        assert not thread.is_alive(), "a request hangs"


def test_a_server_that_is_killed_costs_no_request(tmp_path: Path) -> None:
    """The short form: two servers, one killed, connections cut."""
    tally, deadline = Tally(), 60.0
    with supervised(tmp_path, 2) as (supervisor, ports):
        servers = [f"http://127.0.0.1:{port}" for port in ports]
        with Client(servers, Retries(deadline=60)) as client:
            client.infer("net", {"x": np.ones((1, 3), np.float32)})
        start = time.monotonic()
        threads = load(servers, 2.0, 3, tally, deadline)
        time.sleep(0.3)
        kill_one(supervisor, tally)
        for port in ports:
            cut_connections(port, tally)
        finished(threads, deadline)
        tally.seconds = time.monotonic() - start
    print(tally)
    assert tally.faults["servers killed"] == 1 and tally.faults["connections cut"] >= 3
    assert tally.counts["right"] >= 3
    assert tally.counts["error"] == tally.counts["lost"] == tally.counts["wrong"] == 0
    assert "ended with -9; again in 0.2 s" in (tmp_path / "supervisor.log").read_text()


@contextmanager
def small_disk(folder: Path) -> Generator[Path]:
    """A disk of 1 MB, or a skip where none may be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "full").open("wb") as file:
        while True:
            file.write(bytes(65536))
            file.flush()


@contextmanager
def proxy(folder: Path, ports: list[int], program: str) -> Generator[int]:
    """HAProxy by the configuration of the examples, in front of servers; its port."""
    front, text = free_port(), HAPROXY.read_text()
    servers = "".join(
        f"    server s{index} 127.0.0.1:{port} check\n" for index, port in enumerate(ports)
    )
    kept = [line for line in text.splitlines() if not line.strip().startswith("server ")]
    text = "\n".join(kept).replace("bind :8000", f"bind 127.0.0.1:{front}")
    text = text.replace("bind :8404", f"bind 127.0.0.1:{free_port()}")
    assert f":{front}" in text
    marker = "    # The servers"
    assert text.count(marker) == 1
    configuration = folder / "haproxy.cfg"
    configuration.write_text(text.replace(marker, servers + marker) + "\n")
    subprocess.run([program, "-c", "-f", configuration], check=True, capture_output=True)
    process = subprocess.Popen([program, "-db", "-f", configuration])
    try:
        yield front
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_a_minute_of_chaos(tmp_path: Path, require_tool: Callable[[str, str], str]) -> None:
    """Three servers behind HAProxy: kills, cuts and a full disk for a minute."""
    program, tally, deadline = require_tool("haproxy", "apt-get install haproxy"), Tally(), 40.0
    random.seed(0)
    with (
        small_disk(tmp_path / "disk") as disk,
        supervised(tmp_path, 3) as (supervisor, ports),
        proxy(tmp_path, ports, program) as front,
    ):
        servers = [f"http://127.0.0.1:{front}"]
        with Client(servers, Retries(deadline=60)) as client:
            client.infer("net", {"x": np.ones((1, 3), np.float32)})
        start = time.monotonic()
        threads = load(servers, 60.0, 6, tally, deadline)
        while time.monotonic() < start + 58:
            time.sleep(random.uniform(0.5, 1.5))
            random.choice([kill_one_of(supervisor), cut_of(front), full(disk)])(tally)
        finished(threads, deadline)
        tally.seconds = time.monotonic() - start
    print(tally)
    assert min(tally.faults.values()) >= 5 and len(tally.faults) == 3
    assert tally.counts["right"] > 1000
    assert tally.counts["lost"] == tally.counts["wrong"] == 0
    assert tally.counts["error"] <= tally.counts["right"] / 100


def kill_one_of(supervisor: psutil.Process) -> Callable[[Tally], None]:
    return lambda tally: kill_one(supervisor, tally)


def cut_of(port: int) -> Callable[[Tally], None]:
    return lambda tally: cut_connections(port, tally)


def full(disk: Path) -> Callable[[Tally], None]:
    """Half a second in which a target finds no room."""

    def fault(tally: Tally) -> None:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:  # answers that are kept anew give room back
            fill(disk)
            time.sleep(0.01)
        with pytest.raises(OSError, match="No space left"), (disk / "more").open("wb") as file:
            file.write(bytes(1 << 20))
            file.flush()
        tally.faults["full disks"] += 1
        for name in ("full", "more"):
            (disk / name).unlink()

    return fault
