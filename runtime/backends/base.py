"""What every backend does: place, prepare, optimise and wait, over the device module of PyTorch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from types import ModuleType
from typing import Any, ClassVar, Self, cast, overload

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]
from torch.utils._pytree import tree_map

from ...ir.errors import BackendError
from ..devices import DeviceInfo
from .optimizers import BaseOptimizer
from .options import KernelPyTorchConfig, OptimizationLevel
from .prepared import PreparedModel, Sample, arguments, checked
from .strategies import Inapplicable

_MOVABLE = (torch.Tensor, nn.Module)


class BaseBackend(ABC):
    """One kind of device: it can be made where there is none, and is refused when it is used.

    As a context it ends by waiting for the device and freeing its cache.

    Args:
        config: how models are prepared.
    """

    BACKEND_NAME: ClassVar[str] = "base"
    DEVICE_TYPE: ClassVar[str] = "cpu"
    OPTIMIZER: ClassVar[type[BaseOptimizer]] = BaseOptimizer

    def __init__(self, config: KernelPyTorchConfig | None = None) -> None:
        self.config = config or KernelPyTorchConfig()
        self._device_id = self.config.device_id
        if self.is_available:
            self.set_device(self._device_id)
            self._setup_environment()

    # What a kind of device says of itself.

    @abstractmethod
    def _setup_environment(self) -> None:
        """Set PyTorch up for the device; called where there is one."""

    @abstractmethod
    def _get_device_info(self, device_id: int = 0) -> DeviceInfo:
        """The device of this index, where there is one."""

    def _missing(self) -> str | None:
        """Why there is no such device, with what to do; `None` where there is one."""
        return None

    # What holds for all of them.

    def _check_availability(self) -> bool:
        """Whether there is such a device."""
        return self._missing() is None

    @cached_property
    def missing(self) -> str | None:
        """Why this backend cannot be used; `None` where it can."""
        return None if self._check_availability() else self._missing() or "no such device"

    @property
    def is_available(self) -> bool:
        """Whether there is such a device, and PyTorch reaches it."""
        return self.missing is None

    @property
    def device(self) -> torch.device:
        """The device in use.

        Raises:
            BackendError: there is none.
        """
        self._require()
        if self.DEVICE_TYPE == "cpu":
            return torch.device("cpu")
        return torch.device(self.DEVICE_TYPE, self._device_id)

    @property
    def device_count(self) -> int:
        """How many devices of this kind there are."""
        return int(self._module().device_count()) if self.is_available else 0

    @property
    def optimizer(self) -> BaseOptimizer:
        """What makes models faster on the device in use; it is refused when a model comes."""
        return self.OPTIMIZER(lambda: self.device, self.synchronize, self.config.without)

    def get_device_info(self, device_id: int = 0) -> DeviceInfo:
        """The device of this index; where there is none, one that says why.

        Raises:
            BackendError: the index is beyond the devices that there are.
        """
        if self.missing is not None:
            return DeviceInfo(
                self.BACKEND_NAME, self.DEVICE_TYPE, device_id, "none", None, 0, None, False,
                {"reason": self.missing},
            )  # fmt: skip
        self._check_index(device_id)
        return self._get_device_info(device_id)

    def get_device_info_dict(self, device_id: int = 0) -> dict[str, Any]:
        """`get_device_info` as a dictionary."""
        return self.get_device_info(device_id).to_dict()

    def prepare_model(
        self, model: nn.Module, optimization_level: OptimizationLevel | str | None = None
    ) -> nn.Module:
        """`model` on the device, ready to run and to train at a level.

        The model moves in place, so that optimizers keep its parameters. O1 adds mixed precision,
        where the device gains by it, O2 channels last and `torch.compile`; what changes weights
        comes with `optimize_for_inference`, which knows the level from here.

        Args:
            model: a module, or what this gave.
            optimization_level: that of the configuration where none is given.

        Raises:
            BackendError: there is no device, or an unknown level.
        """
        level = OptimizationLevel.of(optimization_level or self.config.optimization_level)
        base = model.module if isinstance(model, PreparedModel) else model
        prepared = PreparedModel(self._placed(base), level, self.DEVICE_TYPE)
        prepared.train(base.training)
        for strategy in self.OPTIMIZER.STRATEGIES:
            if strategy.trains and level in strategy.applicable_levels:
                if strategy.name in self.config.without:
                    continue
                try:
                    prepared = strategy.apply(prepared)
                except Inapplicable:
                    continue
        return prepared

    def optimize_for_inference(
        self,
        model: nn.Module,
        sample_input: Sample | None = None,
        dtype: torch.dtype | None = None,
    ) -> nn.Module:
        """A copy of `model` in evaluation mode, with all that its level allows.

        Args:
            model: at the level that `prepare_model` had, else at that of the configuration.
            sample_input: a tensor or the arguments of a call: strategies stay where they gain.
            dtype: of weights and inputs, such as `torch.bfloat16`; that of the model where none.

        Raises:
            BackendError: there is no device.
        """
        level = model.level if isinstance(model, PreparedModel) else self.config.optimization_level
        base = model.module if isinstance(model, PreparedModel) else model
        placed = self._placed(base)
        if dtype is not None:
            placed = self.optimizer.optimize(placed, OptimizationLevel.O0)[0].to(dtype)
        sample = None if sample_input is None else self.to_device(arguments(sample_input))
        if dtype is not None:
            sample = tree_map(partial(_in_precision, dtype), sample)
        return self.optimizer.optimize(placed, level, sample)[0]

    @overload
    def optimize_for_training(
        self, model: nn.Module, optimizer: None = None, dtype: torch.dtype | None = None
    ) -> nn.Module: ...

    @overload
    def optimize_for_training(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        dtype: torch.dtype | None = None,
    ) -> tuple[nn.Module, torch.optim.Optimizer]: ...

    def optimize_for_training(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        dtype: torch.dtype | None = None,
    ) -> nn.Module | tuple[nn.Module, torch.optim.Optimizer]:
        """`model` in training mode on the device; from O2 on, blocks recompute their activations.

        Blocks are the items of `nn.Sequential` and `nn.ModuleList` that hold further layers with
        parameters (residual blocks, Transformer layers); recomputing them saves their memory.

        Args:
            model: as `prepare_model` gives it, else prepared at the level of the configuration.
            optimizer: over the parameters of the model; what it remembers moves to the device.
            dtype: of products, by autocast; losses in `torch.float16` need a
                `torch.amp.GradScaler`.

        Returns:
            The model, with the optimizer where one was given.

        Raises:
            BackendError: there is no device.
        """
        prepared = model if isinstance(model, PreparedModel) else self.prepare_model(model)
        assert isinstance(prepared, PreparedModel)
        prepared = prepared.having(dtype=dtype).train()
        if prepared.level.rank >= OptimizationLevel.O2.rank:
            _recompute_blocks(prepared.module)
        if optimizer is None:
            return prepared
        for state in optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    state[key] = value.to(self.device)
        return prepared, optimizer

    def to_device(self, tensor: Any) -> Any:
        """A tensor or module on the device, or what dictionaries, lists and tuples hold of them.

        Raises:
            BackendError: there is no device.
        """
        device = self.device

        def moved(value: Any) -> Any:
            return value.to(device) if isinstance(value, _MOVABLE) else value

        return tree_map(moved, tensor)

    def synchronize(self) -> None:
        """Wait until the device has done all that it was given.

        Raises:
            BackendError: there is no device.
        """
        self._require()
        self._module().synchronize()

    def empty_cache(self) -> None:
        """Give memory that PyTorch keeps for later back to the device; processors keep none."""
        self._require()
        getattr(self._module(), "empty_cache", lambda: None)()

    def set_device(self, device_id: int) -> None:
        """Use the device of this index from now on.

        Raises:
            BackendError: there is no such device.
        """
        self._require()
        self._check_index(device_id)
        self._device_id = device_id
        self._module().set_device(device_id if self.DEVICE_TYPE != "cpu" else "cpu")

    def __enter__(self) -> Self:
        """The backend itself."""
        self._require()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the device and free its cache."""
        self.synchronize()
        self.empty_cache()

    def _module(self) -> ModuleType:
        """PyTorch's module of this kind of device."""
        return torch.get_device_module(self.DEVICE_TYPE)

    def _placed(self, model: nn.Module) -> nn.Module:
        device = self.device
        return checked(model).to(device)

    def _require(self) -> None:
        if self.missing is not None:
            raise BackendError(f"the backend {self.BACKEND_NAME} has no device: {self.missing}")

    def _check_index(self, device_id: int) -> None:
        if cast("object", device_id) not in range(self.device_count):
            raise BackendError(
                f"the backend {self.BACKEND_NAME} has {self.device_count} devices, "
                f"got the index {device_id}"
            )


def _in_precision(dtype: torch.dtype, value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if is_float else value


def _recompute_blocks(model: nn.Module) -> None:
    """Let blocks compute their activations again in the backward pass, in place.

    What batch norms remember of their batches counts each batch once.
    """
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper

    library: Any = checkpoint_wrapper
    blocks = {
        id(block)
        for parent in model.modules()
        if isinstance(parent, nn.Sequential | nn.ModuleList)
        for block in parent
        if sum(bool(list(layer.parameters(recurse=False))) for layer in block.modules()) > 1
        and not isinstance(block, library.CheckpointWrapper)
    }
    norms = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]

    @contextmanager
    def again() -> Generator[None]:
        kept = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
        for norm in norms:
            norm.momentum, norm.num_batches_tracked = 0.0, None
        try:
            yield
        finally:
            for norm, momentum, count in kept:
                norm.momentum, norm.num_batches_tracked = momentum, count

    def wrapped(block: nn.Module) -> Any:
        return library.checkpoint_wrapper(block, context_fn=lambda: (nullcontext(), again()))

    def is_block(layer: nn.Module) -> bool:
        return id(layer) in blocks

    library.apply_activation_checkpointing(model, checkpoint_wrapper_fn=wrapped, check_fn=is_block)
