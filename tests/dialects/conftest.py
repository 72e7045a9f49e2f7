"""Running one op on arrays, statically and dynamically shaped."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, ShapedType, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import InsertPoint

from triton_dsl.dialects.elements import element_of
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import verify_module
from triton_dsl.dialects.shapes import DYNAMIC, compatible
from triton_dsl.dialects.spike import TrainType
from triton_dsl.dialects.ternary import trit

Array = NDArray[Any]
RunOp = Callable[..., tuple[Array, ...]]


def type_of(array: Array, *, trits: bool, train: bool, dynamic: bool) -> Attribute:
    shape = [DYNAMIC] * array.ndim if dynamic else array.shape
    if train:
        return TrainType(shape)
    return TensorType(trit if trits else element_of(array.dtype), shape)


def module_with(
    build: Callable[..., Operation],
    arrays: tuple[Array, ...],
    trits: tuple[int, ...],
    trains: tuple[int, ...],
    dynamic: bool,
) -> ModuleOp:
    """A module whose function `forward` applies the op that `build` makes of its arguments."""
    types = [
        type_of(a, trits=index in trits, train=index in trains, dynamic=dynamic and a.ndim > 0)
        for index, a in enumerate(arrays)
    ]
    function = FuncOp("forward", (types, []))
    builder = Builder(InsertPoint.at_end(function.body.block))
    op = builder.insert(build(*function.args))
    builder.insert(ReturnOp(*op.results))
    function.update_function_type()
    module = ModuleOp([function])
    verify_module(module)
    return module


@pytest.fixture(scope="session")
def run_op() -> RunOp:
    """`run_op(build, *arrays, trits=(), trains=(), dynamic=True)`: the results of `build(*values)`.

    `trits` and `trains` list the operands that are trits and spike trains. The op runs with static
    types, whose inferred results must be exact, and (unless `dynamic` is false) with every size
    unknown; both must agree.
    """

    def run(
        build: Callable[..., Operation],
        *arrays: Array,
        trits: tuple[int, ...] = (),
        trains: tuple[int, ...] = (),
        dynamic: bool = True,
    ) -> tuple[Array, ...]:
        arrays = tuple(np.asarray(a) for a in arrays)
        module = module_with(build, arrays, trits, trains, False)
        results = run_module(module, arrays)
        (function,) = (op for op in module.ops if isinstance(op, FuncOp))
        for type, result in zip(function.function_type.outputs.data, results, strict=True):
            assert isinstance(type, ShapedType)
            assert type.get_shape() == result.shape
        if dynamic:
            again = module_with(build, arrays, trits, trains, True)
            (loose,) = (op for op in again.ops if isinstance(op, FuncOp))
            for a, b in zip(
                function.function_type.outputs, loose.function_type.outputs, strict=True
            ):
                assert compatible(a, b)
            for a, b in zip(results, run_module(again, arrays), strict=True):
                np.testing.assert_array_equal(a, b)
        return results

    return run
