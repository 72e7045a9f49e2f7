"""What the tests of several targets share: small modules, comparison, real networks.

Fixtures, because test files cannot import each other.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.ir.store import ParameterStore

Array = np.ndarray[Any, Any]
Body = Callable[..., Any]

TOLERANCES = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}
"""Of values that two engines compute, relative and absolute, by their type."""


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


def same(actual: Iterable[Array], expected: Iterable[Array], scale: float = 1.0) -> None:
    """Integers bit for bit, floats within `scale` times a few steps of their type."""
    for got, want in zip(actual, expected, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            tolerance = scale * TOLERANCES.get(want.dtype.name, 2e-5)
            np.testing.assert_allclose(
                got.astype(np.float64), want.astype(np.float64), tolerance, tolerance
            )


@pytest.fixture(scope="session")
def build_module() -> Callable[..., ModuleOp]:
    """`build`."""
    return build


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """`same`."""
    return same


@pytest.fixture(scope="session")
def real_models() -> ModuleType:
    """The module `real_models.py` beside this file."""
    path = Path(__file__).with_name("real_models.py")
    spec = importlib.util.spec_from_file_location("real_models", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
