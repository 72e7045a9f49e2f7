"""An engine of its own for lowered modules: `mlir-opt`, then LLVM's compiler.

Nothing of this project takes part after the pass under test: `mlir-opt` bufferises and lowers,
`mlir-translate` writes LLVM IR, and the LLVM library that those tools load compiles it into this
process, where functions are called with NumPy arrays.
"""

import ctypes
import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from ctypes.util import find_library
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region
from xdsl.parser import Parser

from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import triton_context, verify_module
from triton_dsl.dialects.ternary import TritType
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.to_native.linalg import ConvertTensorToLinalgPass
from triton_dsl.lowering.to_native.target import native_stages

Array = NDArray[Any]
Case = tuple[Callable[..., Operation], str]
"""An op's builder, and the types of its operands, separated by semicolons."""
RequireTool = Callable[[str, str], str]

HINT = "apt-get install mlir-19-tools"

TO_LLVM = (
    "--one-shot-bufferize=bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map",
    "--convert-linalg-to-loops",
    "--expand-strided-metadata",
    "--lower-affine",
    "--convert-scf-to-cf",
    "--convert-math-to-llvm",
    "--convert-math-to-libm",
    "--arith-expand=include-bf16=true",
    "--finalize-memref-to-llvm",
    "--convert-arith-to-llvm",
    "--convert-func-to-llvm",
    "--convert-cf-to-llvm",
    "--convert-index-to-llvm",
    "--reconcile-unrealized-casts",
)

BACKENDS = {"x86_64": "X86", "AMD64": "X86", "aarch64": "AArch64", "arm64": "AArch64"}


def run_tool(command: Sequence[str], text: bytes) -> bytes:
    """What a program makes of `text`."""
    done = subprocess.run(list(command), input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    return done.stdout


@ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
def memref_copy(size: int, source: int, target: int) -> None:
    """`memrefCopy` of MLIR's runner library: one strided memref into another, any element type."""

    def view(unranked: int) -> Array:
        rank = ctypes.c_int64.from_address(unranked).value
        place = ctypes.c_void_p.from_address(unranked + 8).value
        assert place is not None
        return descriptor_view(place, rank, np.dtype((np.void, size)))

    view(target)[...] = view(source)


def descriptor_view(place: int, rank: int, dtype: np.dtype[Any]) -> Array:
    """The array that the memref descriptor at address `place` describes."""
    words = (ctypes.c_int64 * (3 + 2 * rank)).from_address(place)
    start = words[1] + words[2] * dtype.itemsize
    shape, strides = list(words[3 : 3 + rank]), list(words[3 + rank :])
    if 0 in shape:
        return np.empty(shape, dtype)
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    memory = (ctypes.c_char * (last * dtype.itemsize)).from_address(start)
    flat = np.frombuffer(memoryview(memory), dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in strides])


def descriptor(array: Array) -> Any:
    """The memref descriptor of a contiguous array."""
    strides = [s // array.itemsize for s in array.strides]
    words = [array.ctypes.data, array.ctypes.data, 0, *array.shape, *strides]
    return (ctypes.c_int64 * len(words))(*words)


class Native:
    """The functions of a module as machine code."""

    def __init__(self, library: Any, llvm_ir: bytes) -> None:
        self._engine, module, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_char_p()
        context = ctypes.c_void_p(library.LLVMContextCreate())
        buffer = ctypes.c_void_p(
            library.LLVMCreateMemoryBufferWithMemoryRangeCopy(llvm_ir, len(llvm_ir), b"module")
        )
        failed = library.LLVMParseIRInContext(
            context, buffer, ctypes.byref(module), ctypes.byref(error)
        )
        assert not failed, error.value
        failed = library.LLVMCreateMCJITCompilerForModule(
            ctypes.byref(self._engine), module, None, 0, ctypes.byref(error)
        )
        assert not failed, error.value
        self._library = library

    def __call__(self, function: FuncOp, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Call the machine code of `function`, whose types are those before lowering."""
        name = f"_mlir_ciface_{function.sym_name.data}".encode()
        address = self._library.LLVMGetFunctionAddress(self._engine, name)
        assert address, name
        types = [t for t in function.function_type.outputs if isinstance(t, TensorType)]
        ranks = [t.get_num_dims() for t in types]
        results = (ctypes.c_int64 * sum(3 + 2 * rank for rank in ranks))()
        arrays = [np.array(array, order="C") for array in inputs]
        operands = [descriptor(array) for array in arrays]
        pointers = [ctypes.byref(value) for value in (results, *operands)]
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))(address)(*pointers)
        for before, after in zip(inputs, arrays, strict=True):
            assert before.tobytes() == after.tobytes(), "an input was changed"
        values: list[Array] = []
        place = ctypes.addressof(results)
        for type, rank in zip(types, ranks, strict=True):
            values.append(descriptor_view(place, rank, numpy_dtype(type.element_type)).copy())
            place += 8 * (3 + 2 * rank)
        return tuple(values)


PREFIX = "case_"
"""Keeps functions named after ops apart from those of the C library."""


class Cases:
    """One function a case, all lowered and compiled at once."""

    def __init__(self, cases: Mapping[str, Case], compile_text: Callable[[str], Native]) -> None:
        self.module = ModuleOp([build_function(name, *case) for name, case in cases.items()])
        verify_module(self.module)
        functions = [f for f in self.module.ops if isinstance(f, FuncOp)]
        self.functions = dict(zip(cases, functions, strict=True))
        for function in self.functions.values():
            # The pass llvm-request-c-wrappers would wrap functions of the C library too.
            function.attributes["llvm.emit_c_interface"] = UnitAttr()
        lowered = self.module.clone()
        run_stages(lowered, native_stages("")[:1])  # what has no rule is decomposed
        ConvertTensorToLinalgPass(parameters="constants").apply(triton_context(), lowered)
        verify_module(lowered)
        self._native = compile_text(str(lowered))

    def inputs(self, name: str, seed: int = 0, batch: int = 3) -> list[Array]:
        """Random inputs of a case, `?` being `batch`."""
        rng = np.random.default_rng(seed)
        types = self.functions[name].function_type.inputs
        return [random_values(rng, t, batch) for t in types if isinstance(t, TensorType)]

    def check(
        self,
        name: str,
        inputs: Sequence[Array] | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> tuple[Array, ...]:
        """Compare LLVM with the reference interpreter: integers exactly; what LLVM computed."""
        arrays = self.inputs(name) if inputs is None else inputs
        expected = run_module(self.module, arrays, PREFIX + name)
        got = self._native(self.functions[name], arrays)
        for have, want in zip(got, expected, strict=True):
            assert (have.dtype, have.shape) == (want.dtype, want.shape)
            if want.dtype.kind in "iub":
                np.testing.assert_array_equal(have, want)
            else:
                digits = 1e-2 if want.dtype.itemsize == 2 else 2e-5
                np.testing.assert_allclose(
                    have.astype(np.float64),
                    want.astype(np.float64),
                    rtol=digits if rtol is None else rtol,
                    atol=digits / 10 if atol is None else atol,
                )
        return got


def build_function(name: str, build: Callable[..., Operation], types: str) -> FuncOp:
    """A function that returns the results of one op, applied to the arguments."""
    context: Context = triton_context()
    arguments = [Parser(context, text).parse_type() for text in types.split(";")]
    block = Block(arg_types=arguments)
    op = build(*block.args)
    block.add_ops([op, ReturnOp(*op.results)])
    return FuncOp(PREFIX + name, (arguments, op.result_types), Region(block))


def random_values(rng: np.random.Generator, type: TensorType[Any], batch: int) -> Array:
    """Values of `type`: floats normal, times 2; integers below 100 in size."""
    shape = [batch if n < 0 else n for n in type.get_shape()]
    dtype = numpy_dtype(type.element_type)
    if isinstance(type.element_type, TritType):
        return rng.integers(-1, 2, shape).astype(np.int8)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        low, high = (0, 256) if dtype.kind == "u" else (-100, 101)
        return rng.integers(low, high, shape).astype(dtype)
    return (2 * rng.normal(size=shape)).astype(dtype)


@pytest.fixture(scope="session")
def compile_cases(compile_natively: Callable[[str], Native]) -> Callable[..., Cases]:
    """`compile_cases(cases)`: named cases, ready to be checked."""
    return lambda cases: Cases(cases, compile_natively)


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest, compile_cases: Callable[..., Cases]) -> Cases:
    """The cases `CASES` of a file of tests."""
    return compile_cases(request.module.CASES)


@pytest.fixture(scope="session")
def compile_natively(require_tool: RequireTool) -> Callable[[str], Native]:
    """`compile_natively(text)`: the functions of a lowered module, compiled."""
    optimizer = require_tool("mlir-opt-19", HINT)
    translator = require_tool("mlir-translate-19", HINT)
    backend = BACKENDS.get(platform.machine())
    if backend is None:
        pytest.skip(f"no LLVM back end is known for {platform.machine()}")
    library: Any = ctypes.CDLL(llvm_library(optimizer))
    for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter"):
        getattr(library, f"LLVMInitialize{backend}{part}")()
    library.LLVMLinkInMCJIT()
    for name in ("LLVMContextCreate", "LLVMCreateMemoryBufferWithMemoryRangeCopy"):
        getattr(library, name).restype = ctypes.c_void_p
    library.LLVMCreateMemoryBufferWithMemoryRangeCopy.argtypes = (
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
    )
    library.LLVMGetFunctionAddress.restype = ctypes.c_uint64
    library.LLVMAddSymbol(b"memrefCopy", memref_copy)
    for name in ("m", "gcc_s"):  # erff and the like; conversions of f16
        found = find_library(name)
        assert found is not None, f"no library '{name}'"
        ctypes.CDLL(found, mode=ctypes.RTLD_GLOBAL)

    def compile_text(text: str) -> Native:
        lowered = run_tool([optimizer, *TO_LLVM], text.encode())
        return Native(library, run_tool([translator, "--mlir-to-llvmir"], lowered))

    return compile_text


def llvm_library(program: str) -> str:
    """The LLVM library that `program` loads."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = re.search(r"libLLVM\S* => (\S+)", listed)
    assert found is not None, listed
    return found[1]
