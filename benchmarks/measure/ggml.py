"""ggml and bitnet.cpp as engines: through ggml's C functions, from a folder with its libraries.

`libggml-base.so` and `libggml-cpu.so` (bitnet.cpp: its fork of them) are looked for in the folder.
Weights are quantised by ggml itself.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from ctypes import c_bool, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from .peers import Floats, Make, Trits
from .rounds import Run

TQ2_0 = 35
"""ggml: ternary weights in blocks of 256, 2 bits each, one scale a block."""
I2_S = 36
"""bitnet.cpp's fork: ternary weights, 2 bits each, one scale."""
_F32 = 0


class _Parameters(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("buffer", c_void_p), ("no_alloc", c_bool))


def _library(folder: Path) -> dict[str, Any]:
    """The functions needed, with their types."""
    found = [
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        for name in ("libggml-base.so", "libggml-cpu.so", "libggml.so")
        if (path := folder / name).is_file()
    ]
    if not found:
        sys.exit(f"benchmark: error: no libggml*.so in '{folder}'")
    pointer = c_void_p
    types: dict[str, tuple[Any, list[Any]]] = {
        "ggml_init": (pointer, [_Parameters]),
        "ggml_new_tensor_2d": (pointer, [pointer, c_int, c_int64, c_int64]),
        "ggml_get_data": (pointer, [pointer]),
        "ggml_mul_mat": (pointer, [pointer, pointer, pointer]),
        "ggml_relu": (pointer, [pointer, pointer]),
        "ggml_new_graph": (pointer, [pointer]),
        "ggml_build_forward_expand": (None, [pointer, pointer]),
        "ggml_graph_compute_with_ctx": (c_int, [pointer, pointer, c_int]),
        "ggml_quantize_chunk": (
            c_size_t,
            [c_int, pointer, pointer, c_int64, c_int64, c_int64, pointer],
        ),
        "ggml_row_size": (c_size_t, [c_int, c_int64]),
    }
    functions: dict[str, Any] = {}
    for name, (result, arguments) in types.items():
        for library in found:
            if hasattr(library, name):
                function: Any = getattr(library, name)
                function.restype, function.argtypes = result, arguments
                functions[name] = function
    missing = sorted(types.keys() - functions.keys())
    if missing:
        sys.exit(f"benchmark: error: '{folder}' has no {', '.join(missing)}")
    return functions


def ggml(folder: Path, kind: int) -> Make:
    """The engine whose libraries are in `folder`, with weights of the type `kind`."""
    functions = _library(folder)

    def make(layers: Sequence[Trits], x: Floats, threads: int) -> Run:
        widest = max(max(trits.shape) for trits in layers)
        size = sum(trits.size for trits in layers) * 2 + len(x) * widest * 64 + (64 << 20)
        context = functions["ggml_init"](_Parameters(size, None, False))
        given = functions["ggml_new_tensor_2d"](context, _F32, layers[0].shape[1], len(x))
        ctypes.memmove(functions["ggml_get_data"](given), x.ctypes.data, x.nbytes)
        value = given
        for i, trits in enumerate(layers):
            outs, ins = trits.shape
            weight = functions["ggml_new_tensor_2d"](context, kind, ins, outs)
            floats = np.ascontiguousarray(trits.astype(np.float32))
            place = functions["ggml_get_data"](weight)
            functions["ggml_quantize_chunk"](kind, floats.ctypes.data, place, 0, outs, ins, None)
            value = functions["ggml_mul_mat"](context, weight, value)
            if i + 1 < len(layers):
                value = functions["ggml_relu"](context, value)
        graph = functions["ggml_new_graph"](context)
        functions["ggml_build_forward_expand"](graph, value)
        shape = (len(x), len(layers[-1]))

        def run() -> Floats:
            functions["ggml_graph_compute_with_ctx"](context, graph, threads)
            address = functions["ggml_get_data"](value)
            buffer: Any = (c_float * (shape[0] * shape[1])).from_address(address)
            return np.frombuffer(buffer, np.float32).reshape(shape)

        return run

    return make
