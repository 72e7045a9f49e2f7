"""`triton serve` with batches and without, asked by many clients on loopback.

    python benchmarks/serving.py [--width 4096] [--layers 3] [--clients 32] [--requests 4000]
        [--rounds 3] [--target native] [--json]
    python benchmarks/serving.py --load 100000 [--seconds 300] [--width 256] …

A perceptron of random ternary layers, native code on one thread, in a server process of its own for
each way; clients keep their connections and send one row of binary float32 at a time. Every answer
is compared with the interpreter's; then 200 malformed requests must be refused, and the memory of
the server is read before and after. A figure is the median of the rounds, which take turns.

With `--load`, one server answers so many requests, or what it can in so many seconds: every answer
is compared, the server's own count must be that of the clients, and its memory is read ten times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.models import import_model

Array = NDArray[Any]
ROWS = 64
"""Different rows that are asked for."""


def program(folder: Path, width: int, layers: int) -> tuple[Path, Path]:
    """A perceptron in the language, and a file of its weights."""
    lines = [
        f"    let l{i} = TernaryLinear({width}, {width}, bias=false, with_scale=true)"
        for i in range(layers)
    ]
    steps = [f"        let h{i + 1} = relu(l{i}(h{i}))" for i in range(layers)]
    text = "\n".join([
        "layer Wide {", *lines,
        f"    fn forward(x: Tensor[N, {width}]) -> Tensor[N, {width}] {{", "        let h0 = x",
        *steps, f"        return h{layers}", "    }", "}", "",
    ])  # fmt: skip
    path, weights = folder / "wide.tri", folder / "wide.npz"
    path.write_text(text, encoding="utf-8")
    rng = np.random.default_rng(0)
    trits = rng.integers(-1, 2, (layers, width, width)).astype(np.int8)
    scale = np.full(width, width**-0.5, np.float32)
    arrays: dict[str, Any] = {}
    for i in range(layers):
        arrays |= {f"l{i}.weight": pack_trits(trits[i]).data, f"l{i}.scale": scale}
    np.savez(weights, **arrays)
    return path, weights


def start(
    path: Path, weights: Path, target: str, batch: int
) -> tuple[subprocess.Popen[bytes], int]:
    """A server that answers, and its port."""
    command = ["serve", str(path), "-w", str(weights), "-t", target, "--batch", str(batch)]
    command += ["--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "triton_dsl.tools.cli", *command], stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    told = re.search(rb":(\d+)/v2", process.stderr.readline())
    port = int(told[1]) if told else sys.exit("benchmarks/serving.py: error: no server")
    while True:
        try:
            if b" 200 " in asyncio.run(_once(port, b"GET /v2/health/ready HTTP/1.1\r\n")):
                return process, port
        except OSError:
            pass
        if process.poll() is not None:
            sys.exit("benchmarks/serving.py: error: the server did not start")
        time.sleep(0.1)


async def _once(port: int, head: bytes, body: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    line = head + b"Host: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    writer.write(line + body)
    answer = await reader.read()
    writer.close()
    return answer


def request(row: Array) -> bytes:
    """The bytes of one request."""
    tensor: dict[str, Any] = {"name": "x", "shape": [1, row.size], "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": row.nbytes}
    asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    text = json.dumps(asked).encode()
    return (
        b"POST /v2/models/wide/infer HTTP/1.1\r\nHost: x\r\n"
        b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
        % (len(text), len(text) + row.nbytes)
    ) + text + row.tobytes()  # fmt: skip


async def load(
    port: int,
    bodies: Sequence[bytes],
    expected: Array,
    clients: int,
    count: int,
    until: float = float("inf"),
) -> list[float]:
    """Seconds of each of `count` requests, each answer compared; none begins after `until`."""
    times: list[float] = []
    todo = iter(range(count))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for index in todo:
            begin = time.perf_counter()
            if begin > until:
                break
            writer.write(bodies[index % ROWS])
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            content = await reader.readexactly(int(fields[b"content-length"]))
            times.append(time.perf_counter() - begin)
            values = content[int(fields[b"inference-header-content-length"]) :]
            found = np.frombuffer(values, np.float32)
            np.testing.assert_allclose(found, expected[index % ROWS], rtol=1e-3, atol=1e-3)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return times


def memory(process: subprocess.Popen[bytes]) -> int:
    """Resident bytes of a process, where Linux tells."""
    path = Path(f"/proc/{process.pid}/statm")
    return (
        int(path.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0
    )


def endure(options: Any, path: Path, weights: Path, bodies: list[bytes], expected: Array) -> Any:
    """What a server did under `options.load` requests: a report."""
    process, port = start(path, weights, options.target, 64)
    begin, times, sizes = time.perf_counter(), list[float](), list[int]()
    parts = 10
    try:
        for part in range(parts):
            count = options.load * (part + 1) // parts - options.load * part // parts
            until = begin + options.seconds
            times += asyncio.run(load(port, bodies, expected, options.clients, count, until))
            sizes.append(memory(process))
        seconds = time.perf_counter() - begin
        figures = asyncio.run(_once(port, b"GET /metrics HTTP/1.1\r\n"))
    finally:
        process.terminate()
        process.wait()
    counted = re.findall(
        rb'^triton_requests_total\{.*status="(\d+)"\} (\S+)', figures, re.MULTILINE
    )
    answered = {status.decode(): int(float(number)) for status, number in counted}
    assert answered == {"200": len(times)}, f"clients got {len(times)}, the server says {answered}"
    return {
        "answered, all right": len(times),
        "of": options.load,
        "seconds": round(seconds, 1),
        "requests per second": round(len(times) / seconds, 1),
        "p99 ms": round(1000 * float(np.quantile(times, 0.99)), 2),
        "memory MiB": [round(size / 2**20, 1) for size in sizes],
    }


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in {
        "width": 4096, "layers": 3, "clients": 32, "requests": 4000, "rounds": 3,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--load", type=int, default=0, help="requests to one server, and no more")
    parser.add_argument("--seconds", type=float, default=300, help="that --load takes at most")
    parser.add_argument("--target", default="native", help="with its options")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args(line)
    with tempfile.TemporaryDirectory() as folder:
        path, weights = program(Path(folder), options.width, options.layers)
        rng = np.random.default_rng(1)
        rows = rng.normal(size=(ROWS, options.width)).astype(np.float32)
        (expected,) = run_module(import_model(path, weights=weights), [rows])
        bodies = [request(row) for row in rows]
        if options.load:
            print(json.dumps(endure(options, path, weights, bodies, expected), indent=2))
            return
        servers = {
            "batches": start(path, weights, options.target, 64),
            "one by one": start(path, weights, options.target, 1),
        }
        rates: dict[str, list[float]] = {name: [] for name in servers}
        tails: dict[str, list[float]] = {name: [] for name in servers}
        before = {name: memory(process) for name, (process, _) in servers.items()}
        try:
            for _ in range(options.rounds):
                for name, (_, port) in servers.items():
                    begin = time.perf_counter()
                    run = load(port, bodies, expected, options.clients, options.requests)
                    times = asyncio.run(run)
                    rates[name].append(len(times) / (time.perf_counter() - begin))
                    tails[name].append(float(np.quantile(times, 0.99)))
            head = b"POST /v2/models/wide/infer HTTP/1.1\r\n"
            port = servers["batches"][1]
            bodies = [bytes([65 + i % 26]) * i for i in range(200)]
            refused = sum(b" 400 " in asyncio.run(_once(port, head, body)) for body in bodies)
            grown = {name: memory(process) - before[name] for name, (process, _) in servers.items()}
        finally:
            for process, _ in servers.values():
                process.terminate()
                process.wait()
    report = {
        name: {
            "requests per second": round(statistics.median(rates[name]), 1),
            "p99 ms": round(1000 * statistics.median(tails[name]), 2),
            "memory grown MiB": round(grown[name] / 2**20, 1),
        }
        for name in servers
    }
    report["malformed"] = {"sent": 200, "refused": refused}
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for name, figures in report.items():
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures.items()))
    ratio = statistics.median(rates["batches"]) / statistics.median(rates["one by one"])
    print(f"batches answer {ratio:.2f} times as many requests; every answer was right")


if __name__ == "__main__":
    main()
