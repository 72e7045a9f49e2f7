"""Run a module in PyTorch and its IR in the interpreter and in ONNX Runtime, at several batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.targets import compile_to_target

TOLERANCE = 1e-5
"""Of the largest value of a result."""


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any], **parameters: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, *inputs: torch.Tensor) -> Any:
        """What the function gives; parameters come after the inputs."""
        return self.function(*inputs, *self.parameters())


def expected(module: nn.Module, inputs: Sequence[torch.Tensor]) -> list[NDArray[Any]]:
    """What PyTorch computes, results in order."""
    with torch.no_grad():
        results = pytree.tree_leaves(copy.deepcopy(module).eval()(*inputs))
    return [result.numpy() for result in results]


def close(
    found: NDArray[Any], wanted: NDArray[Any], tolerance: float = TOLERANCE, name: str = ""
) -> None:
    """Equal in shape and type, and values within `tolerance` of the largest."""
    assert found.shape == wanted.shape, name
    assert found.dtype == wanted.dtype, name
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted, err_msg=name)
        return
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(
        found, wanted, rtol=tolerance, atol=tolerance * max(largest, 1e-3), err_msg=name
    )


class Checker:
    """Compares the importer with PyTorch."""

    def all_same(
        self, functions: Mapping[str, Callable[..., Any]], *batches: Sequence[torch.Tensor]
    ) -> None:
        """All functions of the same inputs, in one module; a message names the one that differs."""

        def every(*inputs: torch.Tensor) -> dict[str, Any]:
            return {name: function(*inputs) for name, function in functions.items()}

        module = Function(every)
        made = from_torch(module, batches[0])
        for batch in batches:
            found = iter(run_module(made, [value.numpy() for value in batch]))
            with torch.no_grad():
                for name, results in every(*batch).items():
                    for wanted in pytree.tree_leaves(results):
                        close(next(found), wanted.numpy(), name=name)

    def same(
        self,
        module: nn.Module | Callable[..., Any],
        *batches: Sequence[torch.Tensor],
        dynamic: Mapping[str, Mapping[int, str]] | None = None,
        tolerance: float = TOLERANCE,
    ) -> ModuleOp:
        """Import with the first batch as example; the interpreter agrees with PyTorch on all."""
        module = module if isinstance(module, nn.Module) else Function(module)
        made = from_torch(module, batches[0], dynamic=dynamic)
        for batch in batches:
            wanted = expected(module, batch)
            found = run_module(made, [value.numpy() for value in batch])
            assert len(found) == len(wanted)
            for a, b in zip(found, wanted, strict=True):
                close(a, b, tolerance)
        return made

    def same_in_onnx(
        self,
        module: nn.Module,
        made: ModuleOp,
        batch: Sequence[torch.Tensor],
        tolerance: float = TOLERANCE,
    ) -> None:
        """ONNX Runtime on the exported program agrees with PyTorch."""
        import onnxruntime

        artifact = compile_to_target(made, "onnx")
        (data,) = [data for path, data in artifact.files.items() if path.endswith(".onnx")]
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        arrays = [value.numpy() for value in batch]
        results: Any = session.run(None, dict(zip(names, arrays, strict=True)))
        for found, wanted in zip(results, expected(module, batch), strict=True):
            close(np.asarray(found), wanted, tolerance)


@pytest.fixture
def check() -> Checker:
    """Comparisons with PyTorch."""
    return Checker()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same random numbers in every run."""
    torch.manual_seed(0)
