"""Modules with random weights, passes applied to them, and what they compute before and after."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.passes import PassPipeline

from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.parameters import attach_store, parameters
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.dialects.ternary import TritType
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.passes.universe import UNIVERSE

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]
Samples = Callable[..., list[Array]]


def random_array(rng: np.random.Generator, type: TensorType[Any], batch: int = 3) -> Array:
    """Values of `type`, `?` being `batch`: normal floats, integers in [-100, 100]."""
    shape = [batch if n < 0 else n for n in type.get_shape()]
    dtype = numpy_dtype(type.element_type)
    if isinstance(type.element_type, TritType):
        return rng.integers(-1, 2, shape).astype(np.int8)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        return rng.integers(-100, 101, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


@pytest.fixture(scope="session")
def filled() -> Filled:
    """`filled(text, seed=0, **values)`: the module, every parameter given a value.

    Values that are not given are random; those of keys that end in `var` are positive.
    """

    def fill(text: str, seed: int = 0, values: dict[str, Array] | None = None) -> ModuleOp:
        module = parse_module(text)
        rng = np.random.default_rng(seed)
        arrays: dict[str, Array] = {}
        for op in parameters(module):
            key, type = op.key.data, op.result.type
            assert isinstance(type, TensorType)
            array = random_array(rng, type)
            if key.endswith("var"):
                array = (np.abs(array) + 0.1).astype(array.dtype)
            array = (values or {}).get(key, array)
            trits = isinstance(type.element_type, TritType)
            arrays[key] = pack_trits(array) if trits else array
        if arrays:
            attach_store(module, ParameterStore.of(arrays))
        return module

    return fill


@pytest.fixture(scope="session")
def apply_passes() -> ApplyPasses:
    """`apply_passes(module, pipeline)`: run our passes and verify; the module's text afterwards."""

    def run(module: ModuleOp, pipeline: str) -> str:
        PassPipeline.parse_spec(UNIVERSE.all_passes, pipeline).apply(triton_context(), module)
        verify_module(module)
        return str(module)

    return run


@pytest.fixture(scope="session")
def samples() -> Samples:
    """`samples(module, seed=0)`: random inputs of `forward`."""

    def draw(module: ModuleOp, seed: int = 0, batch: int = 3) -> list[Array]:
        rng = np.random.default_rng(seed + 1_000_000)
        types = entry_function(module, "forward").function_type.inputs
        return [random_array(rng, t, batch) for t in types if isinstance(t, TensorType)]

    return draw
