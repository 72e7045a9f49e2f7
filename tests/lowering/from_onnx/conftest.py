"""Small ONNX models, and their run in ONNX Runtime beside that of the IR made of them.

Products of UINT8 and INT8 saturate in ONNX Runtime on processors without VNNI: these are compared
with the reference evaluator of the standard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_onnx import from_onnx

Array = np.ndarray[Any, Any]
Shape = Sequence[int | str]


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[Any, Shape]],
    outputs: Sequence[str],
    initializers: Mapping[str, Array] | None = None,
    *,
    opset: int = 21,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = (),
) -> Any:
    """A model; inputs are given by dtype and shape, outputs have no stated type."""
    graph = helper.make_graph(
        nodes,
        "model",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape)
            )
            for name, (dtype, shape) in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(a, name) for name, a in (initializers or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made = helper.make_model(graph, opset_imports=opsets, functions=functions)
    made.ir_version = 10
    return made


def run_onnx(source: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model in ONNX Runtime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    data = source if isinstance(source, bytes | str) else source.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    results: list[Any] = list(session.run(None, dict(inputs)))
    return results


def run_standard(source: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model in the reference evaluator of the standard."""
    from onnx.reference import ReferenceEvaluator

    results: Any = ReferenceEvaluator(source).run(None, dict(inputs))
    return list(results)


def op_names(module: ModuleOp) -> list[str]:
    """The ops of `@forward` in order, without constants and the end."""
    names = [op.name for op in module.walk()]
    skipped = ("builtin.module", "func.func", "func.return", "tensor.constant")
    return [name for name in names if name not in skipped and not name.endswith(".parameter")]


def check(
    source: Any,
    inputs: Mapping[str, Array],
    tolerance: float = 2e-5,
    engine: Callable[[Any, Mapping[str, Array]], list[Array]] = run_onnx,
) -> ModuleOp:
    """Import, run both, compare: integers bit for bit, floats within `tolerance`."""
    module = from_onnx(source)
    expected = engine(source, inputs)
    actual = run_module(module, [*inputs.values()])
    for got, want in zip(actual, expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, tolerance, tolerance)
    return module


class Bench:
    """What the tests of this folder build, run and compare models with."""

    model = staticmethod(model)
    run = staticmethod(run_onnx)
    run_standard = staticmethod(run_standard)
    check = staticmethod(check)
    ops = staticmethod(op_names)


@pytest.fixture
def bench() -> Bench:
    """The functions above; a fixture because tests cannot import this file."""
    return Bench()
