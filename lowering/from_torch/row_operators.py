"""Operators of PyTorch that compute each row of a tensor by itself, by name without overload.

Not here: what is done with them (`chosen_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

EACH = frozenset(f"aten::{name}" for name in (
    "_assert_tensor_metadata", "addmm", "alias", "bmm", "clone", "contiguous", "detach",
    "detach_", "dropout", "elu", "embedding", "empty_like", "expand", "expand_as", "full_like",
    "gelu", "hardsigmoid", "hardswish", "hardtanh", "layer_norm", "leaky_relu", "linear",
    "log_sigmoid", "matmul", "mT", "mish", "mm", "one_hot", "ones_like", "permute", "relu",
    "relu6", "rms_norm", "selu", "sigmoid", "silu", "softplus", "square", "t", "tanh",
    "transpose", "unsqueeze", "zeros_like",
))  # fmt: skip
"""Operators that compute or move rows, each by itself, where the result has them; beside those that
compute each element."""

BESIDE = frozenset(f"aten::{name}" for name in (
    "amax", "amin", "any", "all", "argmax", "argmin", "cat", "chunk", "cumsum", "glu",
    "linalg_vector_norm", "log_softmax", "logsumexp", "max", "mean", "min", "nansum", "norm",
    "prod", "select", "slice", "softmax", "sort", "split", "split_with_sizes", "squeeze",
    "stack", "std", "sum", "topk", "unbind", "var",
))  # fmt: skip
"""Operators that do so where the axis that they go along is another one."""

RESHAPES = frozenset(f"aten::{name}" for name in (
    "flatten", "reshape", "unflatten", "view", "view_as", "_unsafe_view",
))  # fmt: skip

NEUTRAL: dict[str, Callable[[torch.dtype], float]] = {
    "aten::all": lambda _: True,
    "aten::amax": lambda kind: -_largest(kind),
    "aten::amin": lambda kind: _largest(kind),
    "aten::any": lambda _: False,
    "aten::mean": lambda _: 0,
    "aten::nansum": lambda _: 0,
    "aten::prod": lambda _: 1,
    "aten::sum": lambda _: 0,
}
"""What an element is for reductions that leaves the result as it is."""


def _largest(kind: torch.dtype) -> float:
    return math.inf if kind.is_floating_point else torch.iinfo(kind).max


NEW = frozenset(f"aten::{name}" for name in (
    "empty", "full", "new_empty", "new_full", "new_ones", "new_zeros", "ones", "zeros",
))  # fmt: skip
"""Operators that make tensors of given sizes."""

DIVISIONS = frozenset(f"aten::{name}" for name in (
    "div", "floor_divide", "fmod", "remainder",
))  # fmt: skip
"""Operators that no integer of 0 may be the second operand of."""

OF_IMAGES = frozenset(f"aten::{name}" for name in (
    "adaptive_avg_pool2d", "avg_pool2d", "conv1d", "conv2d", "conv3d", "group_norm",
    "max_pool2d",
))  # fmt: skip
"""Operators that compute each image or sequence by itself, where rows are the first axis."""
