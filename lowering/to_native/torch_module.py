"""Modules of PyTorch as machine code that takes and gives tensors.

Not here: the choice of it (`runtime.backends`), single ternary layers (`callables`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree

from ...ir.errors import LoweringError, TritonError
from .callables import native_program

_CLOSE = 1e-3
"""How far results may be from PyTorch's, of the largest."""


def native_module(module: nn.Module, example: Sequence[Any]) -> Callable[..., Any]:
    """The function of a module in evaluation, with the weights that it has now.

    Inputs that the code is not for (of other types, or sizes that are known) are given to `module`.

    Args:
        module: stays as it is.
        example: tensors as it takes them.

    Raises:
        LoweringError: results on the example differ from the module's.
        TritonError: it cannot be imported, or has ops without native code.
        BackendError: llvmlite is missing.
    """
    if not all(isinstance(x, torch.Tensor) for x in example):
        raise LoweringError("native code takes tensors alone")
    threads = torch.get_num_threads()
    run = native_program(module, example_inputs=tuple(example), threads=threads).run
    with torch.no_grad():
        leaves, form = _pytree.tree_flatten(module(*example))
    absent = [leaf is None for leaf in leaves]
    expected = [leaf for leaf in leaves if leaf is not None]

    def call(*inputs: Any) -> Any:
        try:
            found = run([x.detach().contiguous().numpy() for x in inputs])
        except (TritonError, TypeError, AttributeError):
            return module(*inputs)
        tensors = iter([torch.from_numpy(array) for array in found])
        return _pytree.tree_unflatten([None if no else next(tensors) for no in absent], form)

    results = [leaf for leaf in _pytree.tree_leaves(call(*example)) if leaf is not None]
    tensors = len(results) == len(expected) and all(isinstance(x, torch.Tensor) for x in expected)
    if not tensors or not all(map(_agree, results, expected)):
        raise LoweringError("native code gives other results than the module")
    return call


def _agree(found: Tensor, wanted: Tensor) -> bool:
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return False
    a, b = found.double().numpy(), wanted.double().numpy()
    largest = float(np.abs(b).max(initial=0))
    return np.allclose(a, b, _CLOSE, _CLOSE * largest, equal_nan=True)
