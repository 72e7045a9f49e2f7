"""Small modules of one op or a few, and their run in ONNX Runtime beside the interpreter."""

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
from triton_dsl.lowering.to_onnx.target import OnnxOptions, OnnxTarget

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


def onnx_bytes(module: ModuleOp, **options: Any) -> bytes:
    """The model as the emitter alone makes it, without any pass."""
    artifact = OnnxTarget().emit(module, OnnxOptions(**options))
    return artifact.files["model.onnx"]


def run_onnx(data: bytes, inputs: Sequence[Array], *, optimize: bool = True) -> list[Array]:
    """The outputs of a model in ONNX Runtime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    results: list[Any] = list(session.run(None, dict(zip(names, inputs, strict=True))))
    return results


def assert_same(actual: Iterable[Array], expected: Iterable[Array], scale: float = 1.0) -> None:
    """Integers bit for bit, floats within a few steps of their type."""
    for got, want in zip(actual, expected, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            tolerance = scale * {"float16": 2e-3, "float64": 1e-12}.get(want.dtype.name, 2e-5)
            np.testing.assert_allclose(
                got.astype(np.float64), want.astype(np.float64), tolerance, tolerance
            )


def check(module: ModuleOp, inputs: Sequence[Array], opset: int = 21, scale: float = 1.0) -> bytes:
    """Emit, run in ONNX Runtime and compare with the interpreter; the model's bytes."""
    data = onnx_bytes(module, opset=opset)
    assert_same(run_onnx(data, inputs), run_module(module, inputs), scale)
    return data


class Bench:
    """What the tests of this folder build, run and compare models with."""

    build = staticmethod(build)
    bytes_of = staticmethod(onnx_bytes)
    run = staticmethod(run_onnx)
    check = staticmethod(check)
    same = staticmethod(assert_same)


@pytest.fixture
def bench() -> Bench:
    """The functions above; a fixture because tests cannot import this file."""
    return Bench()


OPSETS = [
    opset if opset in (13, 18, 21) else pytest.param(opset, marks=pytest.mark.slow)
    for opset in range(13, 24)
]


@pytest.fixture(params=OPSETS)
def opset(request: pytest.FixtureRequest) -> int:
    """Each opset; all but three under `slow`."""
    return request.param
