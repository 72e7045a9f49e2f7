"""Modules compiled to machine code and called on arrays that forbidden pages follow."""

import ctypes
import mmap
import sys
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int64, c_void_p
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser

from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import triton_context, verify_module
from triton_dsl.dialects.ternary import TritType
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.to_native.export import program_constants
from triton_dsl.lowering.to_native.kernels.recipes import best_recipe
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.lowering.to_native.target import native_stages
from triton_dsl.runtime.native.abi.interface import FORWARD, WORKSPACE_BYTES
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.processor import host_features

Array = NDArray[Any]
Case = tuple[Callable[..., Operation], str]
"""An op's builder, and the types of its operands, separated by semicolons."""


def guarded(content: Array) -> Array:
    """A copy whose last byte is the last before a forbidden page."""
    if sys.platform != "linux":
        return content.copy()
    page = mmap.PAGESIZE
    whole = -(-max(content.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, whole + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(c_void_p(start + whole), page, 0) == 0
    copy = np.frombuffer(memory, content.dtype, content.size, whole - content.nbytes)
    copy = copy.reshape(content.shape)
    copy[...] = content
    return copy


class Program:
    """A module as machine code."""

    def __init__(self, module: ModuleOp, recipe: str, precision: str = "float32") -> None:
        self.module = module
        work = module.clone()
        run_stages(work, native_stages(f"recipe={recipe} precision={precision}"))
        self.lowered = work
        self._library = Library(compile_object(work, (FORWARD, WORKSPACE_BYTES)))
        self._constants = guarded(program_constants(work))
        self._size = self._library.function(WORKSPACE_BYTES, [c_int64], c_int64)

    def __call__(self, inputs: Sequence[Array], results: Sequence[Array], batch: int) -> None:
        """Fill `results`; memory beside the buffers is out of bounds, inputs stay as they are."""
        given = [guarded(np.ascontiguousarray(array)) for array in inputs]
        places = [guarded(np.zeros_like(array)) for array in results]
        workspace = guarded(np.full(self._size(batch), 0xA5, np.uint8))
        buffers = [*given, *places, self._constants, workspace]
        function = self._library.function(FORWARD, [c_void_p] * len(buffers) + [c_int64])
        function(*(buffer.__array_interface__["data"][0] for buffer in buffers), batch)
        for before, after in zip(inputs, given, strict=True):
            assert before.tobytes() == after.tobytes(), "an input was changed"
        for result, place in zip(results, places, strict=True):
            result[...] = place

    def check(self, inputs: Sequence[Array], batch: int, rtol: float = 2e-5) -> list[Array]:
        """Compare with the reference interpreter: integers exactly; what the machine computed."""
        with np.errstate(all="ignore"):
            expected = run_module(self.module, inputs)
        results = [np.empty_like(array) for array in expected]
        self(inputs, results, batch)
        for number, (have, want) in enumerate(zip(results, expected, strict=True)):
            name = f"result {number}, batch {batch}"
            if want.dtype.kind in "iub":
                np.testing.assert_array_equal(have, want, err_msg=name)
                continue
            wide = want.astype(np.float64)
            size = np.abs(wide[np.isfinite(wide)]).max(initial=1.0)
            digits = 1e-2 if want.dtype.itemsize == 2 else rtol
            np.testing.assert_allclose(
                have.astype(np.float64), wide, rtol=digits, atol=digits * size, err_msg=name
            )
        return results


class Cases(Program):
    """One function with the operands and results of all cases."""

    def __init__(self, cases: Mapping[str, Case], recipe: str) -> None:
        context: Context = triton_context()
        types = {
            name: [Parser(context, text).parse_type() for text in words.split(";")]
            for name, (_, words) in cases.items()
        }
        block = Block(arg_types=[type for group in types.values() for type in group])
        arguments = iter(block.args)
        results: list[SSAValue] = []
        for name, (build, _) in cases.items():
            op = build(*(next(arguments) for _ in types[name]))
            block.add_op(op)
            results += op.results
        block.add_op(ReturnOp(*results))
        self.types = [argument.type for argument in block.args]
        function = FuncOp(FORWARD, (self.types, [value.type for value in results]), Region(block))
        module = ModuleOp([function])
        verify_module(module)
        super().__init__(module, recipe)

    def inputs(self, batch: int, seed: int = 0) -> list[Array]:
        """Random operands of all cases."""
        rng = np.random.default_rng(seed)
        return [random_values(rng, t, batch) for t in self.types if isinstance(t, TensorType)]


def random_values(rng: np.random.Generator, type: TensorType[Any], batch: int) -> Array:
    """Values of `type`: floats normal, times 2; integers 1 to 100 in size, of either sign."""
    shape = [batch if n < 0 else n for n in type.get_shape()]
    dtype = numpy_dtype(type.element_type)
    if isinstance(type.element_type, TritType):
        return rng.integers(-1, 2, shape).astype(np.int8)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        sign = 1 if dtype.kind == "u" else rng.choice([-1, 1], shape)
        return (rng.integers(1, 101, shape) * sign).astype(dtype)
    return (2 * rng.normal(size=shape)).astype(dtype)


@pytest.fixture(scope="module", params=["best", pytest.param("generic", marks=pytest.mark.slow)])
def recipe(request: pytest.FixtureRequest) -> str:
    """The best instruction set of this processor, and the one that all have.

    The latter without the slow tests where a test of all ops asks for both.
    """
    pytest.importorskip("llvmlite")
    best = best_recipe(host_features()).name
    if request.param == "best" and best != "generic":
        return best
    if request.param == "best":
        pytest.skip("this processor has none but the generic instruction set")
    return "generic"


@pytest.fixture(scope="session")
def compile_cases() -> Callable[[Mapping[str, Case], str], Cases]:
    """`compile_cases(cases, recipe)`: named cases, ready to be checked."""
    return Cases


@pytest.fixture(scope="session")
def compile_module() -> Callable[..., Program]:
    """`compile_module(module, recipe)`: a module, ready to be called."""
    return Program
