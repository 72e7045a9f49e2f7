"""Small modules of one op or a few, and their run in LiteRT beside the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.options import parse_options
from triton_dsl.lowering.to_tflite.engine import run_tflite
from triton_dsl.lowering.to_tflite.target import TFLiteOptions, TFLiteTarget

Array = np.ndarray[Any, Any]
Body = Callable[..., Any]


def build(
    types: Sequence[Attribute], body: Body, store: dict[str, Array] | None = None
) -> ModuleOp:
    """A module whose `@forward` has arguments of `types`; `body(add, *arguments)` makes results.

    `add(op)` inserts an op and gives its result, or the list of its results.
    """
    block = Block(arg_types=types)

    def add(op: Operation) -> Any:
        block.add_op(op)
        return op.results[0] if len(op.results) == 1 else list(op.results)

    made = body(add, *block.args)
    results: list[SSAValue] = list(made) if isinstance(made, list | tuple) else [made]
    block.add_op(ReturnOp(*results))
    type = FunctionType.from_lists(list(types), [value.type for value in results])
    module = ModuleOp([FuncOp("forward", type, Region(block))])
    attach_store(module, ParameterStore.of(store or {}))
    module.verify()
    return module


def tflite_bytes(module: ModuleOp, **options: Any) -> bytes:
    """The file as the emitter alone makes it, without any pass and without its own check."""
    given = parse_options(TFLiteOptions, "tflite", {"self_check": False, **options})
    return TFLiteTarget().emit(module, given).files["model.tflite"]


def assert_same(actual: Iterable[Array], expected: Iterable[Array], scale: float = 1.0) -> None:
    """Integers bit for bit, floats within a few steps of their type."""
    for got, want in zip(actual, expected, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            tolerance = scale * {"float16": 2e-3}.get(want.dtype.name, 2e-5)
            np.testing.assert_allclose(
                got.astype(np.float64), want.astype(np.float64), tolerance, tolerance
            )


def check(module: ModuleOp, inputs: Sequence[Array], scale: float = 1.0, **options: Any) -> bytes:
    """Emit, run in LiteRT and compare with the interpreter; the file's bytes."""
    data = tflite_bytes(module, **options)
    assert_same(run_tflite(data, inputs), run_module(module, inputs), scale)
    return data


def read(data: bytes) -> Any:
    """The model as objects of the schema."""
    import ai_edge_litert.schema_py_generated as schema

    return schema.ModelT.InitFromPackedBuf(data)


def kinds(data: bytes) -> list[str]:
    """The names of the operators of a file, in order."""
    import ai_edge_litert.schema_py_generated as schema

    names = {number: name for name, number in vars(schema.BuiltinOperator).items()}
    model = read(data)
    codes = [names[code.builtinCode] for code in model.operatorCodes]
    return [codes[op.opcodeIndex] for op in model.subgraphs[0].operators]


class Bench:
    """What the tests of this folder build, run and compare models with."""

    build = staticmethod(build)
    bytes_of = staticmethod(tflite_bytes)
    run = staticmethod(run_tflite)
    check = staticmethod(check)
    same = staticmethod(assert_same)
    read = staticmethod(read)
    kinds = staticmethod(kinds)


@pytest.fixture
def bench() -> Bench:
    """The functions above; a fixture because tests cannot import this file."""
    return Bench()
