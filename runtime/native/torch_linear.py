"""Products of PyTorch's tensors with packed ternary weights, by native kernels.

`product` is what runs behind the operator `triton_dsl::ternary_linear` on processors. The panels
that kernels read are made once for each tensor of weights, and kept as long as it (`held`). Not
here: the operator (`runtime.operators`), layers, convolutions (`torch_conv`), other devices.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from struct import Struct
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ...ir.arrays import Array
from ...ir.errors import OptionError
from .abi.linear import (
    KIND_NAMED,
    LINEAR_ARGUMENTS,
    MAX_INS,
    PANEL,
    PRECISIONS,
    Activations,
    Precision,
    scratch_bytes,
)
from .abi.parallel import CALL, PART
from .columns import Bytes, panels_of_columns
from .held import Contents, Held, digest_of
from .memory import Memory
from .provider import LINEAR
from .ternary_linear import Provider
from .threads import WORTH_A_MEMBER, default_threads, with_pytorch

_MOST_SHAPES = 256
"""Shapes of activations for which weights remember what to do."""

_pack = Struct(f"{len(LINEAR_ARGUMENTS)}q").pack


class _Kernels:
    """The functions for one kind of activations."""

    def __init__(self, provider: Provider, activations: Activations) -> None:
        kind = KIND_NAMED[activations]
        self.digits = kind.digits
        library = provider("panels", kind)
        self.call = library.function(CALL, [ctypes.c_char_p])
        self.part = library.function(PART, [ctypes.c_char_p, *[ctypes.c_int64] * 4])


class _Engine:
    """Which kernels products use; replaced as a whole when the precision changes."""

    def __init__(self, precision: Precision) -> None:
        self.precision: Precision = precision
        self._known: dict[torch.dtype, _Kernels | None] = {}

    def kernels(self, dtype: torch.dtype) -> _Kernels | None:
        """The kernels for activations of a type, or `None` where there are none."""
        if dtype not in self._known:
            provider = LINEAR.get()
            activations = "i8" if dtype is torch.int8 else PRECISIONS[self.precision]
            kernels_of_type = None if provider is None else _Kernels(provider, activations)
            self._known[dtype] = kernels_of_type
        return self._known[dtype]


class _Weights:
    """The panels of one matrix, and what to do for each shape of activations."""

    def __init__(self, panels: Bytes, ins: int, outs: int) -> None:
        self.panels = panels
        self.address: int = panels.ctypes.data
        self.ins, self.outs = ins, outs
        self._ones, self._zeros = np.ones(outs, np.float32), np.zeros(outs, np.float32)
        self.ones: int = self._ones.ctypes.data
        self.zeros: int = self._zeros.ctypes.data
        self.plans: dict[torch.Size, _Plan] = {}
        self._integer_plans: dict[torch.Size, _Plan] = {}

    def plan(self, shape: torch.Size, dtype: torch.dtype) -> _Plan | None:
        """What to do for activations of a shape; `None` where there are no kernels."""
        engine = _CURRENT[0]
        plans = self.plans if dtype is _FLOAT else self._integer_plans
        plan = plans.get(shape)
        if plan is None or plan.engine is not engine:
            kernels = engine.kernels(dtype)
            if kernels is None:
                return None
            plan = _Plan(engine, kernels, self, shape)
            with _LOCK:
                if len(plans) >= _MOST_SHAPES:
                    plans.clear()
                plans[shape] = plan
        return plan


class _Plan:
    """A call with activations of a certain shape."""

    __slots__ = ("call", "engine", "flat", "part", "parts", "result", "rows", "size", "things")

    def __init__(
        self, engine: _Engine, kernels: _Kernels, weights: _Weights, shape: torch.Size
    ) -> None:
        ins, outs = weights.ins, weights.outs
        self.engine = engine
        self.call: Callable[[bytes], None] = kernels.call
        self.part = kernels.part
        self.rows = shape[:-1].numel()
        self.result = (*shape[:-1], outs)
        self.flat = len(shape) == 2
        self.size = scratch_bytes(self.rows, ins, outs, kernels.digits)
        self.things = self.rows, -(-outs // PANEL)
        self.parts = self.rows * ins * outs * kernels.digits // WORTH_A_MEMBER


class _Held(Held[_Weights]):
    """The weights of a tensor; also the scale and bias of the last call, which were checked."""

    __slots__ = ("bias", "offsets", "outs", "plans", "scale", "scales", "weights")

    def __init__(self, tensor: Tensor, digest: int, weights: _Weights) -> None:
        super().__init__(tensor, digest, weights, _HELD)
        self.weights = weights
        self.outs = weights.outs
        self.plans = weights.plans
        self.scale: Tensor | None = None
        self.bias: Tensor | None = None
        self.scales, self.offsets = weights.ones, weights.zeros


_HELD: dict[int, _Held] = {}
"""By the identity of the tensor."""


_CONTENTS: Contents[_Weights] = Contents()
_MEMORY = Memory()
_LOCK = threading.RLock()
_ENGINES: dict[Precision, _Engine] = {}
_CURRENT: list[_Engine] = [_Engine("float32")]


def precision() -> Precision:
    """How float activations are multiplied, see `set_precision`."""
    return _CURRENT[0].precision


def set_precision(value: Precision) -> None:
    """Choose the kernels for float activations, see `runtime.operators.set_precision`."""
    if value not in PRECISIONS:
        raise OptionError(f"precision is one of {', '.join(sorted(PRECISIONS))}, not '{value}'")
    with _LOCK:
        if value not in _ENGINES:
            _ENGINES[value] = _Engine(value)
        _CURRENT[0] = _ENGINES[value]


def product(
    x: Tensor, weight: Tensor, outs: int, scale: Tensor | None, bias: Tensor | None
) -> Tensor | None:
    """y = (x · W) · scale + bias; `None` where no kernel can do it.

    Nothing is checked: all arguments are ordinary tensors in main memory, of matching shapes.

    Args:
        x: float32 or int8 `[..., ins]`. int8 gives int32, without scale and bias.
        weight: uint8, W `[ins, outs]` packed row-major.
        outs: the columns of W.
        scale: floats `[outs]`.
        bias: floats `[outs]`.
    """
    ins = x.shape[-1]
    held = _HELD.get(id(weight))
    weights = held.weights if held is not None and held.holds(weight) else None
    if weights is None or (weights.ins, weights.outs) != (ins, outs):
        weights = _find(weight, ins, outs)
        if weights is None:
            return None
    plan = weights.plan(x.shape, x.dtype)
    if plan is None:
        return None
    # The vectors are named here, so that they outlive the call.
    scale = None if scale is None else float_vector(scale)
    bias = None if bias is None else float_vector(bias)
    scales = weights.ones if scale is None else scale.data_ptr()
    return _run(weights, plan, x, scales, weights.zeros if bias is None else bias.data_ptr())


def remember(weight: Tensor, scale: Tensor | None, bias: Tensor | None) -> None:
    """Note which scale and bias go with weights that were multiplied, for `quick_product`.

    They were checked: floats in main memory, one for each output.
    """
    held = _HELD.get(id(weight))
    if held is None or not all(
        vector is None or (vector.__class__ in _PLAIN and float_vector(vector) is vector)
        for vector in (scale, bias)
    ):
        return
    held.scale, held.bias = scale, bias
    held.scales = held.weights.ones if scale is None else scale.data_ptr()
    held.offsets = held.weights.zeros if bias is None else bias.data_ptr()


_PLAIN = (Tensor, torch.nn.Parameter)
_FLOAT = torch.float32
_is_differentiated: Callable[[], bool] = torch.is_grad_enabled


def _watcher(path: str) -> Callable[[], Any]:
    """A function inside PyTorch that gives nothing, or 0, as long as nothing is watched.

    Where a version of PyTorch has it no more, something always seems to be.
    """
    function: Any = torch
    for name in path.split("."):
        function = getattr(function, name, None)
    return function if function is not None else lambda: True


_function_modes = _watcher("_C._len_torch_function_stack")
_dispatch_modes = _watcher("_C._len_torch_dispatch_stack")
_transforms = _watcher("_C._functorch.peek_interpreter_stack")
_tracing = _watcher("_C._get_tracing_state")
is_cast = _watcher("_C._is_any_autocast_enabled")
_is_profiled = _watcher("_C._autograd._profiler_enabled")
_forward_levels: Any = forward_ad


def is_unseen(*tensors: Tensor | None) -> bool:
    """Whether what is done with these tensors may pass PyTorch's dispatcher by.

    It may where they are ordinary ones in main memory, and nothing is differentiated, cast, traced,
    transformed or profiled.
    """
    if (
        _function_modes()
        or _dispatch_modes()
        or _transforms()
        or _tracing()
        or is_cast()
        or _is_profiled()
        or _forward_levels._current_level >= 0
    ):
        return False
    differentiated = _is_differentiated()
    return all(
        tensor is None
        or (
            tensor.__class__ in _PLAIN
            and tensor.is_cpu
            and tensor.layout is torch.strided
            and not tensor.is_neg()
            and not (differentiated and tensor.requires_grad)
        )
        for tensor in tensors
    )


def quick_product(
    x: Tensor, weight: Tensor, outs: int, scale: Tensor | None, bias: Tensor | None
) -> Tensor | None:
    """`product` without PyTorch's dispatcher; `None` where that could make a difference.

    It makes none where x is an ordinary float32 tensor, nothing is differentiated, cast, traced,
    transformed or profiled, and a call with the same weights, scale, bias and shape of x went
    before (`remember`).
    """
    held = _HELD.get(id(weight))
    if (
        held is None
        or x.__class__ is not Tensor
        or x.dtype is not _FLOAT
        or held.scale is not scale
        or held.bias is not bias
        or held.outs != outs
        or not x.is_cpu
        or x.is_neg()
        or _function_modes()
        or _dispatch_modes()
        or _transforms()
        or _tracing()
        or is_cast()
        or _is_profiled()
        or _forward_levels._current_level >= 0
    ):
        return None
    plan = held.plans.get(x.shape)
    if plan is None or plan.engine is not _CURRENT[0]:
        return None
    differentiated = _is_differentiated()
    if differentiated and x.requires_grad:
        return None
    if scale is not None and (
        scale.data_ptr() != held.scales or (differentiated and scale.requires_grad)
    ):
        return None
    if bias is not None and (
        bias.data_ptr() != held.offsets or (differentiated and bias.requires_grad)
    ):
        return None
    if not held.holds(weight):
        return None
    return _run(held.weights, plan, x, held.scales, held.offsets)


def _run(weights: _Weights, plan: _Plan, x: Tensor, scales: int, offsets: int) -> Tensor:
    if x.dtype is not _FLOAT:
        y = torch.empty(plan.result, dtype=torch.int32, device=x.device)
    elif plan.flat:
        # Separate sizes are quicker than a tuple.
        y = x.new_empty(plan.rows, weights.outs)
    else:
        y = x.new_empty(plan.result)
    if plan.rows == 0:
        return y
    if not x.is_contiguous():
        x = x.contiguous()
    memory = _MEMORY
    if memory.size < plan.size:
        memory.hold(plan.size)
    arguments = _pack(
        x.data_ptr(),
        weights.address,
        y.data_ptr(),
        memory.address,
        scales,
        offsets,
        0,
        0,
        plan.rows,
        weights.ins,
        weights.outs,
    )
    if plan.parts > 1:
        threads = min(plan.parts, default_threads())
        if threads > 1:
            with_pytorch(plan.part, arguments, threads, plan.things)
            return y
    plan.call(arguments)
    return y


def float_vector(values: Tensor) -> Tensor:
    if values.dtype is _FLOAT and values.is_contiguous() and not values.is_neg():
        return values
    return values.detach().to(_FLOAT).resolve_neg().contiguous()


def _find(tensor: Tensor, ins: int, outs: int) -> _Weights | None:
    if not 0 < ins <= MAX_INS or outs == 0 or LINEAR.get() is None:
        return None
    with _LOCK:
        digest = digest_of(tensor)
        weights = _CONTENTS.find(tensor, digest, (ins, outs), lambda: _panels(tensor, ins, outs))
        _HELD[id(tensor)] = _Held(tensor, digest, weights)
        return weights


def _panels(tensor: Tensor, ins: int, outs: int) -> _Weights:
    packed: Array = tensor.contiguous().numpy()
    return _Weights(panels_of_columns(packed, ins, outs), ins, outs)
