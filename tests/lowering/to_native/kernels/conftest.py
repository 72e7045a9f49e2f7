"""Convolution kernels compiled and called, every buffer between two forbidden pages."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from ctypes import c_int64, c_void_p
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.to_native.kernels.conv import conv_functions, conv_scratch_bytes
from triton_dsl.lowering.to_native.kernels.epilogue import Epilogue
from triton_dsl.lowering.to_native.kernels.panel import write_tiles
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, recipe_named
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.runtime.native.abi.conv import ConvGeometry, conv_weights
from triton_dsl.runtime.native.abi.linear import Kind
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.processor import host_features

Array = NDArray[Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`host_recipe`: each recipe that this processor can run; `width_recipe`: one of each width."""
    runnable = [recipe for recipe in RECIPES if recipe.features <= host_features()]
    if "host_recipe" in metafunc.fixturenames:
        metafunc.parametrize("host_recipe", [recipe.name for recipe in runnable])
    if "width_recipe" in metafunc.fixturenames:
        names = {recipe.width: recipe.name for recipe in reversed(runnable)}
        metafunc.parametrize("width_recipe", list(names.values()))


@dataclass
class ConvProblem:
    """One call of a convolution: images [batch, channels, height, width], trits, tables.

    `tables` are `scale`, `bias`, `table` and `shift`; the bias is that of the layer, without the
    correction for kinds with an offset.
    """

    geometry: ConvGeometry
    kind: Kind
    x: Array
    trits: NDArray[np.int8]
    epilogue: Epilogue = field(default_factory=Epilogue)
    tables: tuple[Array | None, Array | None, Array | None, Array | None] = (None, None, None, None)

    def convolved(self) -> NDArray[np.float64]:
        """The products in float64, by PyTorch: exact for integers of up to 32 bits."""
        torch = pytest.importorskip("torch")
        g = self.geometry
        pads = (g.before[1], g.after[1], g.before[0], g.after[0])
        padded = torch.nn.functional.pad(torch.from_numpy(self.x.astype(np.float64)), pads)
        weights = torch.from_numpy(self.trits.astype(np.float64))
        options = {"stride": g.strides, "dilation": g.dilation, "groups": g.groups}
        return torch.nn.functional.conv2d(padded, weights, **options).numpy()

    def corrected(self) -> tuple[Array | None, ...]:
        """The tables as the kernel takes them."""
        scale, bias, table, shift = self.tables
        if self.kind.offset and bias is not None:
            sums = self.trits.reshape(len(self.trits), -1).sum(axis=1, dtype=np.int32)
            bias = (bias + self.kind.offset * sums).astype(np.int32)
        return scale, bias, table, shift


class Guarded:
    """A copy of an array whose memory begins, or ends, where a forbidden page ends, or begins."""

    def __init__(self, content: Array, *, at_start: bool) -> None:
        page = mmap.PAGESIZE
        whole = -(-max(content.nbytes, 1) // page) * page
        self._memory = mmap.mmap(-1, whole + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            for forbidden in (start, start + page + whole):
                assert libc.mprotect(c_void_p(forbidden), page, 0) == 0
        offset = page if at_start else page + whole - content.nbytes
        self.address = start + offset
        flat = np.frombuffer(self._memory, content.dtype, content.size, offset)
        self.array = flat.reshape(content.shape)
        self.array[...] = content


RunConvs = Callable[[str, Sequence[ConvProblem]], list[Array]]


def _call(library: Library, name: str, scratch: int, problem: ConvProblem, at_start: bool) -> Array:
    g, kind = problem.geometry, problem.kind
    element = str(problem.epilogue.result(kind))
    dtype = {"f32": "float32"}.get(element, element.replace("i", "int"))
    shape = (len(problem.x), g.outs, g.out_height, g.out_width)

    def guarded(content: Array) -> Guarded:
        return Guarded(np.ascontiguousarray(content), at_start=at_start)

    x, y = guarded(problem.x), guarded(np.zeros(shape, dtype))
    weights = guarded(conv_weights(g, problem.trits))
    # What stood in scratch memory before does not count.
    memory = guarded(np.random.default_rng(0).integers(0, 256, scratch).astype(np.uint8))
    tables = [None if table is None else guarded(table) for table in problem.corrected()]
    addresses = [buffer.address for buffer in (x, weights, y, memory)]
    addresses += [0 if table is None else table.address for table in tables]
    if at_start:
        function = library.function(name, [c_void_p] * 8 + [c_int64])
        function(*addresses, len(problem.x))
        return y.array.copy()
    begin = library.function(f"{name}_begin", [c_void_p])
    image = library.function(f"{name}_image", [c_void_p] * 8 + [c_int64] * 2)
    rng = np.random.default_rng(1)
    for i in rng.permutation(len(problem.x)):
        cuts = sorted(rng.integers(0, g.units + 1, 2))
        bounds = list(pairwise([0, *cuts, g.units]))
        for first, end in (bounds[n] for n in rng.permutation(len(bounds))):
            memory.array[...] = rng.integers(0, 256, scratch)
            begin(memory.address)
            moved = [x.address + i * x.array[0].nbytes, addresses[1]]
            moved += [y.address + i * y.array[0].nbytes, *addresses[3:]]
            image(*map(int, [*moved, first, end]))
    return y.array.copy()


@pytest.fixture(scope="session")
def guarded_copy() -> type[Guarded]:
    """Makes copies of arrays between forbidden pages."""
    return Guarded


@pytest.fixture(scope="session")
def conv_problem() -> type[ConvProblem]:
    """Makes what `run_convs` takes."""
    return ConvProblem


@pytest.fixture(scope="session")
def run_convs() -> RunConvs:
    """Compile several convolutions as one module, as programs have them, and call each twice.

    The second time its units are done apart, in any order, with other content in scratch memory.
    """
    pytest.importorskip("llvmlite")

    def run(recipe: str, problems: Sequence[ConvProblem]) -> list[Array]:
        chosen = recipe_named(recipe, host_features())
        functions = write_tiles(chosen, 1)
        for i, problem in enumerate(problems):
            wanted = (problem.geometry, problem.epilogue, f"conv_{i}")
            functions += conv_functions(chosen, problem.kind, *wanted)
        names = [f"conv_{i}" for i in range(len(problems))]
        exported = [f"{name}{end}" for name in names for end in ("", "_begin", "_image")]
        library = Library(compile_object(ModuleOp(list(functions)), exported))
        results: list[Array] = []
        # Scratch memory is aligned to 64, wherever it ends.
        for name, problem in zip(names, problems, strict=True):
            size = conv_scratch_bytes(chosen, problem.kind, problem.geometry)
            assert size % 64 == 0
            first, second = (_call(library, name, size, problem, at) for at in (True, False))
            assert np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
            results.append(first)
        return results

    return run
