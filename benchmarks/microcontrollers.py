"""Ternary networks in C on an emulated microcontroller, beside plain C of 8 bits.

    python benchmarks/microcontrollers.py --models FOLDER --data FOLDER [--images 10000]
        [--boards cortex-m4,riscv32] [--board-images 20] [--json]

The networks are those of `conversion.py`, ternarised and quantised on 1000 training images without
their labels. All `--images` test images run on this machine, whose outputs must be those of the
interpreter; some run on the board, whose outputs must be the same. The peer is the same network
with a byte for each weight (`measure/plain_int8.c`). Instructions are those that QEMU counts for an
image; flash is the whole image with what starts it, RAM static memory and stack, without the input.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from conversion import LAYERS, program
from measure.digits import read_digits
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import constant_value
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.ir.store import read_arrays
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_c.engine import LoadedC
from triton_dsl.passes.analysis.compile_time import defining_literal
from triton_dsl.passes.quantize_activations.integer_pipeline import integer_pipeline
from triton_dsl.runtime.boards.boards import Port, run_on_board

Array = NDArray[Any]
CALIBRATION = 1000


@dataclass(frozen=True)
class Figure:
    """One row.

    Attributes:
        network, code: what ran.
        board, optimize: where, and how the compiler optimised.
        instructions: for an image, the mean.
        flash, ram, stack: bytes.
        accuracy: in percent of all images; those that the interpreter gives, 0 for the peer.
    """

    network: str
    code: str
    board: str
    optimize: str
    instructions: float
    flash: int
    ram: int
    stack: int
    accuracy: float


def integer_network(name: str, models: Path, images: Array) -> ModuleOp:
    """The ternary network on integers."""
    module = program(LAYERS[name], read_arrays(models / f"{name}.safetensors"))
    entry_function(module, "forward").args[0].name_hint = "x"
    with TemporaryDirectory() as folder:
        samples = Path(folder, "samples.npz")
        np.savez(samples, x=images[:CALIBRATION, None] / np.float32(255))
        ternarize = f'ternarize{{method=gptq data="{samples}"}}'
        apply_passes(module, f"{ternarize},fuse-linear,fold-constants,canonicalize")
        apply_passes(module, integer_pipeline(str(samples)))
    return module


class Peer:
    """The plain C of a network: each layer becomes a call."""

    def __init__(self, module: ModuleOp) -> None:
        self._arrays: list[str] = []
        self._calls: list[str] = []
        self._names: dict[SSAValue, tuple[str, int, int]] = {}
        self._buffers = 0
        self._held = ""
        for op in entry_function(module, "forward").body.block.ops:
            match op:
                case tensor.QuantizeOp():
                    self._names[op.result] = "x", 1, 28
                case tensor.FlattenOp() | tensor.PadToOp():
                    known = self._names.get(op.operands[0])
                    if known is not None:
                        self._names[op.results[0]] = known
                case ternary.ConvOp():
                    self._conv(op)
                case ternary.LinearOp():
                    self._linear(op)
                case tensor.AddOp():
                    self._held += f", {self._array(self._values(op.rhs), 'int32_t')}"
                case tensor.RequantizeOp():
                    self._requantize(op)
                case _:
                    pass

    def _values(self, value: SSAValue) -> Array:
        literal = defining_literal(value)
        assert literal is not None
        values = constant_value(literal)
        assert values is not None
        return values

    def _array(self, values: Array, type: str) -> str:
        name = f"w{len(self._arrays)}"
        words = ", ".join(map(str, values.reshape(-1).tolist()))
        self._arrays.append(f"static const {type} {name}[] = {{{words}}};")
        return name

    def _tables(self, op: ternary.FusedOp) -> list[str]:
        outs = np.zeros(self._values(op.weight).shape[-op.CHANNEL_AXIS - 1], np.int32)
        values = [op.multiplier, op.shift]
        biases = outs if op.bias is None else self._values(op.bias)
        arrays = [biases, *(self._values(v) for v in values if v is not None)]
        return [self._array(array, "int32_t") for array in arrays]

    def _buffer(self, size: int) -> str:
        self._buffers += 1
        self._arrays.append(f"static int8_t t{self._buffers}[{size}];")
        return f"t{self._buffers}"

    def _conv(self, op: ternary.ConvOp) -> None:
        x, channels, size = self._names[op.input]
        weights = self._values(op.weight)
        outs, tables = len(weights), self._tables(op)
        if op.groups.value.data > 1:
            y, size_after = self._buffer(outs * size * size // 4), size // 2
            call = f"pool({x}, {', '.join(tables)}, {outs}, {size}, {y});"
        else:
            w = self._array(weights, "int8_t")
            y, size_after = self._buffer(outs * size * size), size
            scratch = self._buffer(channels * (size + 2) ** 2)
            sizes = f"{channels}, {size}, {outs}, {scratch}"
            call = f"convolution({x}, {w}, {', '.join(tables)}, {sizes}, {y});"
        self._names[op.result] = y, outs, size_after
        self._calls.append(call)

    def _linear(self, op: ternary.LinearOp) -> None:
        x, _, _ = self._names.get(op.input, ("x", 1, 28))
        weights = self._values(op.weight).T
        outs, ins = weights.shape
        tables = self._tables(op)
        if op.bias is None:
            w = self._array(np.ascontiguousarray(weights), "int8_t")
            scales = ", ".join(tables[1:])
            self._held = f"linear_scaled_first({x}, {w}, {scales}, {ins}, {outs}"
            return
        w = self._array(np.ascontiguousarray(weights), "int8_t")
        last = op.multiplier is None
        y = "y" if last else self._buffer(outs)
        name = "sums" if last else "linear"
        self._calls.append(f"{name}({x}, {w}, {', '.join(tables)}, {ins}, {outs}, {y});")
        self._names[op.result] = y, outs, 1

    def _requantize(self, op: tensor.RequantizeOp) -> None:
        values = [self._values(value) for value in (op.multiplier, op.shift)]
        tables = [self._array(array, "int32_t") for array in values]
        y = self._buffer(tensor_type(op.result).get_shape()[-1])
        self._calls.append(f"{self._held}, {', '.join(tables)}, {y});")
        self._names[op.result] = y, 1, 1

    def files(self) -> dict[str, bytes]:
        """Header and code."""
        head = "void peer(const int8_t *x, int32_t *y)"
        functions = Path(__file__).parent / "measure" / "plain_int8.c"
        lines = [functions.read_text(encoding="utf-8"), *self._arrays, f"{head}\n{{"]
        text = "\n".join([*lines, *self._calls, "}", ""])
        return {"peer.h": f"#include <stdint.h>\n{head};\n".encode(), "peer.c": text.encode()}


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """All rows."""
    digits = read_digits(options.data)
    images = digits.test_images[: options.images, None]
    few = (images[: options.board_images].astype(np.int16) - 128).astype(np.int8)
    for name in options.networks.split(","):
        module = integer_network(name, options.models, digits.train_images)
        labels = predictions(module, images)
        right = 100.0 * float((labels == digits.test_labels[: len(labels)]).mean())
        artifact = compile_to_target(module, "c{ports=quantized}")
        ours = {n: data for n, data in artifact.files.items() if n[-2:] in (".c", ".h")}
        codes: Mapping[str, tuple[dict[str, bytes], str, float]] = {
            "ternary": (ours, artifact.name, right),
            "plain int8": (Peer(module).files(), "peer", 0.0),
        }
        expected = LoadedC(artifact)
        scores = np.concatenate([expected(x[None])[0] for x in few])
        for board in options.boards.split(","):
            for optimize in ("-O2", "-Os"):
                for code, (files, function, accuracy) in codes.items():
                    ports = [Port("int8", 784)], [Port("int32", 10)]
                    run = run_on_board(board, files, function, *ports, [few], optimize=optimize)
                    np.testing.assert_array_equal(run.outputs[0], scores)
                    mean = float(np.mean(run.instructions))
                    sizes = run.flash, run.ram, run.stack
                    yield Figure(name, code, board, optimize, mean, *sizes, accuracy)


def predictions(module: ModuleOp, images: Array) -> Array:
    """What the interpreter and C on this machine say; both must give the same bits."""
    loaded = LoadedC(compile_to_target(module, "c"))
    labels: list[Array] = []
    for start in range(0, len(images), 500):
        x = (images[start : start + 500] / np.float32(255)).astype(np.float32)
        (want,) = run_module(module, [x])
        got = np.concatenate([loaded(row[None])[0] for row in x])
        np.testing.assert_array_equal(got, want)
        labels.append(got.argmax(1))
    return np.concatenate(labels)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--networks", default="mnist_mlp,mnist_cnn")
    parser.add_argument("--boards", default="cortex-m4,riscv32")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--board-images", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for figure in figures(options):
        if options.json:
            print(json.dumps(asdict(figure)))
        else:
            print(
                f"{figure.network:10} {figure.code:11} {figure.board:10} {figure.optimize} "
                f"{figure.instructions:11,.0f} instructions {figure.flash:7} flash "
                f"{figure.ram + figure.stack:6} RAM {figure.accuracy or '':>6}"
            )


if __name__ == "__main__":
    main()
