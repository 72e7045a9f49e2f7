"""Running one op of the dialect `spike` on torch tensors, and comparing with what torch gives."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from triton_dsl.dialects.elements import element_of
from triton_dsl.dialects.interpret import evaluate
from triton_dsl.dialects.spike import TrainType

Array = NDArray[Any]
RunOp = Callable[..., tuple[torch.Tensor, ...]]


def to_numpy(value: torch.Tensor) -> Array:
    value = value.detach()
    if value.dtype == torch.bfloat16:
        return value.to(torch.float32).numpy().astype(ml_dtypes.bfloat16)
    return value.numpy()


def to_torch(value: Array) -> torch.Tensor:
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(value))


@pytest.fixture(scope="session")
def run_op() -> RunOp:
    """`run_op(build, *tensors)`: what the reference interpreter gives for the op `build(*values)`.

    Truth values are spike trains.
    """

    def run(build: Callable[..., Operation], *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        arrays = [to_numpy(tensor) for tensor in tensors]
        types = [
            TrainType(a.shape) if a.dtype == np.bool_ else TensorType(element_of(a.dtype), a.shape)
            for a in arrays
        ]
        values = Block(arg_types=types).args
        op = build(*values)
        op.verify()
        given: dict[SSAValue, Array] = dict(zip(values, arrays, strict=True))
        results = evaluate(op, [given[operand] for operand in op.operands])
        return tuple(to_torch(result) for result in results)

    return run
