"""The program that a model given from Python means: IR as it is, or a PyTorch module imported.

What the export functions of several targets start with. Not here: the import (`from_torch`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ..ir.errors import OptionError

DynamicSizes = Mapping[str, Mapping[int, str]]
"""For an argument of `forward` the names of its free sizes, by axis."""


def program_of(
    model: Any,
    input_shape: Sequence[int] | None = None,
    example_inputs: Any = None,
    dynamic: DynamicSizes | None = None,
) -> ModuleOp:
    """The program that `model` means.

    Args:
        model: a program as IR, which is given back, or an `nn.Module`.
        input_shape: of the one input of a module, of floats.
        example_inputs: in its place (see `lowering.from_torch.from_torch`).
        dynamic: the free sizes of a module; by default the first axis, the batch.

    Raises:
        OptionError: a module without either.
        UnsupportedError: operators without a meaning in the IR.
        BackendError: PyTorch is missing.
    """
    if isinstance(model, ModuleOp):
        return model
    if example_inputs is None:
        if input_shape is None:
            raise OptionError("a PyTorch module needs input_shape or example_inputs")
        import torch

        example_inputs = (torch.zeros([int(size) for size in input_shape]),)
    from .from_torch import from_torch

    return from_torch(model, example_inputs, dynamic=dynamic)
