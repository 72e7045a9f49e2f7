"""Tokens a second of a BitNet of random weights: our native session and llama.cpp, one thread each.

    python benchmarks/language.py [--layers 30] [--vocabulary 128256] [--head Q6_K] [--prompt 512]
        [--tokens 32] [--rounds 3] [--engine native] [--peer PYTHON] [--keep FILE] [--json]

Both read the same GGUF file: matrices of the shapes of BitNet b1.58 2B4T in TQ2_0, token
embeddings, which logits are products with too, in `--head`, as `llama-quantize` makes Q6_K of them.
Engines take turns on one processor; figures are medians of its time. Memory allows a token for each
reading of the file at the speed of NumPy's maximum. `--peer` is a Python with `llama-cpp-python`,
built with its native flags (`pip install llama-cpp-python`); without one ours is measured alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from measure.telling import load_average, print_table
from rich.table import Table

FEATURES, HIDDEN, HEADS, GROUPS, WIDTH = 2560, 6912, 20, 5, 128

MATRICES = {
    "attn_q": (HEADS * WIDTH, FEATURES),
    "attn_k": (GROUPS * WIDTH, FEATURES),
    "attn_v": (GROUPS * WIDTH, FEATURES),
    "attn_output": (FEATURES, HEADS * WIDTH),
    "ffn_gate": (HIDDEN, FEATURES),
    "ffn_up": (HIDDEN, FEATURES),
    "ffn_down": (FEATURES, HIDDEN),
}
"""[outs, ins] of each matrix of a block."""

FOURS = np.array(
    [a | b << 2 | c << 4 | d << 6 for a, b, c, d in product(range(3), repeat=4)], np.uint8
)
"""Bytes of TQ2_0: four codes each."""

VECTORS = {
    "attn_norm": FEATURES,
    "ffn_norm": FEATURES,
    "attn_sub_norm": HEADS * WIDTH,
    "ffn_sub_norm": HIDDEN,
}

PEER = """
import sys, time
from llama_cpp import Llama
path, prompt, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = Llama(path, n_ctx=prompt + tokens + 64, n_threads=1, n_threads_batch=1, verbose=False)
print("ready", flush=True)
for line in sys.stdin:
    model.reset()
    start = time.process_time()
    model.eval([3 + (7 * i) % 1000 for i in range(prompt)])
    told = time.process_time()
    for i in range(tokens):
        model.eval([3 + i])
    memory = next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]
    print(told - start, time.process_time() - told, memory, flush=True)
"""


def write(path: Path, layers: int, vocabulary: int, head: str) -> None:
    """The file, with random trits and a vocabulary of numbers."""
    import gguf

    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "bitnet")
    writer.add_context_length(4096)
    writer.add_embedding_length(FEATURES)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(layers)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *(f"t{i}" for i in range(3, vocabulary))])
    writer.add_token_scores([0.0] * vocabulary)
    writer.add_token_types([2, 3, 3, *[1] * (vocabulary - 3)])
    kind = getattr(gguf.GGMLQuantizationType, head)
    rows = _sixes(rng, vocabulary) if head == "Q6_K" else _quantized(rng, vocabulary, kind)
    writer.add_tensor("token_embd.weight", rows, raw_dtype=kind)
    writer.add_tensor("output_norm.weight", np.ones(FEATURES, np.float32))
    ternary = gguf.GGMLQuantizationType.TQ2_0
    for layer in range(layers):
        for name, shape in MATRICES.items():
            blocks = np.empty((shape[0], shape[1] // 256, 66), np.uint8)
            blocks[:, :, :64] = FOURS[rng.integers(0, len(FOURS), blocks[:, :, :64].shape)]
            blocks[:, :, 64:] = _half(1 / 32)
            blocks = blocks.reshape(shape[0], -1)
            writer.add_tensor(f"blk.{layer}.{name}.weight", blocks, raw_dtype=ternary)
        for name, size in VECTORS.items():
            ones = np.ones(size, np.float32)
            writer.add_tensor(f"blk.{layer}.{name}.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _half(value: float) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.array([value], np.float16).view(np.uint8)


def _quantized(rng: np.random.Generator, vocabulary: int, kind: Any) -> Any:
    import gguf

    values = rng.standard_normal((vocabulary, FEATURES), np.float32) * np.float32(0.02)
    return gguf.quants.quantize(values, kind)


def _sixes(rng: np.random.Generator, vocabulary: int) -> Any:
    """Blocks of Q6_K, which the package does not make: codes at random, scales alike."""
    blocks = rng.integers(0, 256, (vocabulary, FEATURES // 256, 210), np.uint8)
    blocks[:, :, 192:208] = rng.integers(20, 60, blocks[:, :, 192:208].shape, np.uint8)
    blocks[:, :, 208:] = _half(3e-5)
    return blocks.reshape(vocabulary, -1)


def read_speed(size: int = 1 << 28) -> float:
    """Bytes a second that one thread reads from memory."""
    content, times = np.ones(size // 8, np.int64), list[float]()
    for _ in range(5):
        start = time.process_time()
        content.max()
        times.append(time.process_time() - start)
    return size / statistics.median(times)


class Ours:
    """Our native session in this process."""

    name = "ours"

    def __init__(self, path: Path, engine: str) -> None:
        from triton_dsl.lowering.generation import open_session

        start = time.process_time()
        self.session = open_session(path, engine)
        self.opened = time.process_time() - start

    def round(self, prompt: int, tokens: int) -> tuple[float, float, int]:
        """Seconds for the prompt and for the tokens behind it, and kilobytes in memory."""
        self.session.reset()
        start = time.process_time()
        self.session.feed([3 + (7 * i) % 1000 for i in range(prompt)])
        told = time.process_time()
        for i in range(tokens):
            self.session.feed([3 + i])
        end = time.process_time()
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return told - start, end - told, int(memory.split()[1])


class Peer:
    """llama.cpp in a process of its own."""

    name = "llama.cpp TQ2_0"

    def __init__(self, python: str, path: Path, prompt: int, tokens: int) -> None:
        self.process = subprocess.Popen(
            [python, "-c", PEER, str(path), str(prompt), str(tokens)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._line() != "ready":
            sys.exit(f"benchmarks/language.py: error: '{python}' does not run llama_cpp")

    def round(self, prompt: int, tokens: int) -> tuple[float, float, int]:
        """See `Ours.round`."""
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)
        first, rest, memory = self._line().split()
        return float(first), float(rest), int(memory)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def measured(
    engines: Sequence[Ours | Peer], prompt: int, tokens: int, rounds: int
) -> list[dict[str, Any]]:
    """What each engine does, by medians of rounds that take turns."""
    seen: dict[str, list[tuple[float, float, int]]] = {engine.name: [] for engine in engines}
    for _ in range(rounds):
        for engine in engines:
            seen[engine.name].append(engine.round(prompt, tokens))
    return [
        {
            "engine": name,
            "prompt tokens/s": prompt / statistics.median(first for first, _, _ in figures),
            "tokens/s": tokens / statistics.median(rest for _, rest, _ in figures),
            "memory MB": max(memory for _, _, memory in figures) / 1000,
        }
        for name, figures in seen.items()
    ]


def main() -> None:
    """Write the file, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--vocabulary", type=int, default=128256)
    heads = ["F32", "F16", "BF16", "Q8_0", "Q6_K"]
    parser.add_argument("--head", default="Q6_K", choices=heads)
    parser.add_argument("--engine", default="native")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "bitnet.gguf"
        if not path.exists():
            write(path, options.layers, options.vocabulary, options.head)
        ours = Ours(path, options.engine)
        engines: list[Ours | Peer] = [ours]
        if options.peer:
            engines.append(Peer(options.peer, path, options.prompt, options.tokens))
        rows = measured(engines, options.prompt, options.tokens, options.rounds)
        size = path.stat().st_size / 1e6
        limit = read_speed() / path.stat().st_size
    if options.json:
        facts = {"opened": ours.opened, "file MB": size, "limit": limit, "load": load_average()}
        print(json.dumps({**facts, "engines": rows}, indent=2))
        return
    table = Table(title=f"{options.layers} layers, {size:.0f} MB, opened in {ours.opened:.1f} s")
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*(f"{v:.1f}" if isinstance(v, float) else str(v) for v in row.values()))
    print_table(table, 100)
    print(f"memory allows {limit:.1f} tokens/s; load {load_average()}")


if __name__ == "__main__":
    main()
