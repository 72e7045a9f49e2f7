"""Functions of a few ops, converted to the `llvm` dialect, compiled, and called on arrays."""

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.backend.llvm.convert import convert_module
from xdsl.builder import Builder
from xdsl.dialects import arith, cf, func, llvm
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    ModuleOp,
    UnrealizedConversionCastOp,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import PassPipeline
from xdsl.rewriter import InsertPoint

from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.ir.pipeline import parse_pipeline
from triton_dsl.lowering.to_native.machine import machine_of
from triton_dsl.lowering.to_native.object_code import compile_object, compile_text
from triton_dsl.passes.universe import everything
from triton_dsl.runtime.native.jit import Library

Array = NDArray[Any]
Native = Callable[..., Callable[..., Array]]
Undefined = Callable[..., set[str]]

PIPELINE = (
    "convert-vector-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,convert-func-to-llvm"
)
POINTER = llvm.LLVMPointerType()


def wide(type: Attribute, count: int) -> Attribute:
    """The vector of `count` elements."""
    return VectorType(type, [count])


def constant(op: arith.ConstantOp, count: int) -> Operation:
    """The constant in every lane."""
    type = cast("VectorType[Any]", wide(op.result.type, count))
    value = cast(Any, op.value).value.data
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, [value] * count))


def in_lanes(
    function: func.FuncOp, builder: Builder, arguments: Sequence[SSAValue], count: int
) -> SSAValue:
    """The body of a function of scalars, with vectors in their place; its result.

    xDSL's verifier knows many of these ops on scalars only, so they are made without it.
    """
    values: dict[SSAValue, SSAValue] = dict(zip(function.args, arguments, strict=True))
    result = arguments[0]
    for op in function.body.block.ops:
        if isinstance(op, func.ReturnOp):
            return values[op.arguments[0]]
        if isinstance(op, arith.ConstantOp):
            new = constant(op, count)
        else:
            new = type(op).create(
                operands=[values[operand] for operand in op.operands],
                result_types=[wide(value.type, count) for value in op.results],
                properties=dict(op.properties),
            )
        builder.insert(new)
        values |= zip(op.results, new.results, strict=True)
    return result


def add_kernel(module: ModuleOp, count: int) -> None:
    """`kernel(in0, …, out, n)`: the function `f` of the module on n elements, `count` at a time."""
    (scalar,) = (op for op in module.ops if getattr(op, "sym_name", None) and is_f(op))
    assert isinstance(scalar, func.FuncOp)
    inputs = list(scalar.function_type.inputs)
    (output,) = scalar.function_type.outputs
    body = Region([Block(arg_types=[*[POINTER] * (len(inputs) + 1), i64])])
    entry, head, work, after = body.block, Block(arg_types=[i64]), Block(), Block()
    body.add_block([head, work, after])
    builder = Builder(InsertPoint.at_end(entry))
    start, step = (builder.insert(arith.ConstantOp.from_int_and_width(n, i64)) for n in (0, count))
    builder.insert(cf.BranchOp(head, start))
    builder.insertion_point = InsertPoint.at_end(head)
    more = builder.insert(arith.CmpiOp(head.args[0], entry.args[-1], "slt"))
    builder.insert(cf.ConditionalBranchOp(more, work, [], after, []))
    builder.insertion_point = InsertPoint.at_end(work)

    def place(base: SSAValue, type: Attribute) -> SSAValue:
        return builder.insert(llvm.GEPOp.from_mixed_indices(base, [head.args[0]], type)).result

    arguments: list[SSAValue] = []
    for base, type in zip(entry.args, inputs, strict=False):
        stored = i64 if isinstance(type, IndexType) else type
        kind = stored if count == 1 else wide(stored, count)
        loaded = builder.insert(llvm.LoadOp(place(base, stored), kind, alignment=1)).results[0]
        if stored != type:
            loaded = builder.insert(UnrealizedConversionCastOp.get([loaded], [type])).results[0]
        arguments.append(loaded)
    if count == 1:
        result = builder.insert(func.CallOp("f", arguments, [output])).results[0]
    else:
        result = in_lanes(scalar, builder, arguments, count)
    builder.insert(llvm.StoreOp(result, place(entry.args[-2], output), alignment=1))
    following = builder.insert(arith.AddiOp(head.args[0], step))
    builder.insert(cf.BranchOp(head, following))
    builder.insertion_point = InsertPoint.at_end(after)
    builder.insert(func.ReturnOp())
    module.body.block.add_op(
        func.FuncOp("kernel", ([argument.type for argument in entry.args], []), body)
    )


def is_f(op: Operation) -> bool:
    """Whether the op is the function named f."""
    return isinstance(op, func.FuncOp) and op.sym_name.data == "f"


def dtype(type: Attribute) -> np.dtype[Any]:
    """What NumPy calls a scalar type."""
    name = str(type)
    return np.dtype("i8" if name == "index" else f"{name[0]}{int(name[1:]) // 8}")


def converted(text: str, count: int, pipeline: str) -> ModuleOp:
    """The module with its kernel, in the `llvm` dialect; it must verify."""
    module = parse_module(text)
    add_kernel(module, count)
    passes = parse_pipeline(pipeline, everything().all_passes)
    PassPipeline(tuple(each for each in passes)).apply(triton_context(), module)
    verify_module(module)
    return module


@pytest.fixture(scope="session")
def native() -> Native:
    """`native(text, lanes=1)(x, …)`: the function `f` of scalars in the text, on arrays.

    With `lanes` above 1 its ops are those of vectors.
    """

    def build(text: str, lanes: int = 1, pipeline: str = PIPELINE) -> Callable[..., Array]:
        scalar = next(op for op in parse_module(text).ops if is_f(op))
        assert isinstance(scalar, func.FuncOp)
        (output,) = scalar.function_type.outputs
        inputs = [dtype(type) for type in scalar.function_type.inputs]
        library = Library(compile_object(converted(text, lanes, pipeline)))
        types = [ctypes.c_void_p] * (len(inputs) + 1) + [ctypes.c_int64]
        function = library.function("kernel", types)

        def call(*arrays: Array) -> Array:
            count = len(arrays[0])
            padded = [
                np.concatenate([array, array[:1].repeat(-count % lanes)]).astype(kind, copy=False)
                for array, kind in zip(arrays, inputs, strict=True)
            ]
            result = np.empty(len(padded[0]), dtype(output))
            addresses = [ctypes.c_void_p(array.ctypes.data) for array in (*padded, result)]
            function(*addresses, len(result))
            return result[:count]

        return call

    return build


@pytest.fixture(scope="session")
def undefined() -> Undefined:
    """`undefined(text, lanes, triple)`: names that the code for the least processor calls."""

    def find(
        text: str,
        lanes: int = 1,
        triple: str = "x86_64-linux-gnu",
        cpu: str | None = None,
        pipeline: str = PIPELINE,
    ) -> set[str]:
        module = convert_module(converted(text, lanes, pipeline), fallback_target_triple=triple)
        assembly = compile_text(str(module), machine_of(triple, cpu)).assembly()
        calls = re.findall(r"^\s+(?:callq?|jmp|bl?)\s+([A-Za-z_]\w*)", assembly, re.MULTILINE)
        return set(calls) - {"f", "kernel"}

    return find


@pytest.fixture(scope="session")
def function() -> Callable[..., str]:
    """`function(body, *types)`: `f` of %x, %y, %z; the last type is that of its result %r."""

    def write(body: str, *types: str) -> str:
        given = zip("xyz", types[:-1], strict=False)
        arguments = ", ".join(f"%{name}: {type}" for name, type in given)
        return (
            f"func.func private @f({arguments}) -> {types[-1]} "
            f"{{\n{body}\nfunc.return %r : {types[-1]}\n}}"
        )

    return write


@pytest.fixture(scope="session")
def edges() -> Callable[[int], Array]:
    """`edges(bits)`: the ends, around zero and powers of two, and random integers of a width."""

    def choose(bits: int) -> Array:
        kind = f"i{bits // 8}"
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        near = [s * (1 << n) + d for n in range(bits) for s in (1, -1) for d in (-1, 0, 1)]
        chosen = np.array(sorted({n for n in near if low <= n <= high}), kind)
        random = np.random.default_rng(0).integers(low, high, 40, kind, endpoint=True)
        return np.concatenate([chosen, random])

    return choose


@pytest.fixture(scope="session")
def pairs() -> Callable[[Array], tuple[Array, Array]]:
    """`pairs(x)`: every element with every other."""

    def pair(x: Array) -> tuple[Array, Array]:
        a, b = np.meshgrid(x, x)
        return a.ravel(), b.ravel()

    return pair


@pytest.fixture(scope="module", autouse=True)
def as_users_have_it(users_code: None) -> None:
    """What LLVM makes of each op is looked at as users have it."""
