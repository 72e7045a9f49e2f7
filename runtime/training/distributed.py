"""Data-parallel processes started by `torchrun`: who they are, and sums over all of them.

Each process computes its rows of a batch; gradients are summed over processes in one collective a
step, and every process then takes the same step. Losses are weighted by rows, so that the sum is
the gradient of the whole batch's mean. Not here: sharing out rows (`data`), batch normalisation
(`global_batch_norm`).
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ...ir.errors import BackendError
from ..device_choice import resolve_torch_device


@dataclass(frozen=True)
class Processes:
    """This process among those that train together.

    Attributes:
        rank: its number; 0 is the one that writes.
        world: how many there are.
        device: where it computes.
    """

    rank: int
    world: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes; in place."""
        if self.world > 1:
            _library().all_reduce(values)
        return values

    def gather(self, values: Tensor) -> list[Tensor]:
        """The tensors of all processes, of one shape, in order of ranks; on the processor."""
        if self.world == 1:
            return [values]
        mine = values.to(self.device)
        parts = [torch.empty_like(mine) for _ in range(self.world)]
        _library().all_gather(parts, mine)
        return [value.cpu() for value in parts]

    def share(self, module: nn.Module) -> None:
        """Give all processes the parameters and buffers of the first one."""
        if self.world > 1:
            for tensor in (*module.parameters(), *module.buffers()):
                _library().broadcast(tensor.detach(), 0)

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            _library().barrier()

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its sum over processes.

        A parameter that has a gradient in no process keeps none, as in a run of one process: its
        weights must not decay either.
        """
        if self.world == 1:
            return
        by_type: dict[torch.dtype, list[nn.Parameter]] = {}
        for parameter in parameters:
            if parameter.requires_grad:
                by_type.setdefault(parameter.dtype, []).append(parameter)
        for dtype, group in by_type.items():
            has_one = [0.0 if p.grad is None else 1.0 for p in group]
            parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in group]
            marks = torch.tensor(has_one, dtype=dtype, device=self.device)
            flat = self.sum(torch.cat([*(part.reshape(-1) for part in parts), marks]))
            sizes = [part.numel() for part in parts]
            split: list[Any] = [*cast(Any, flat).split([*sizes, len(group)])]
            marked: list[float] = split.pop().tolist()
            for parameter, total, mark in zip(group, split, marked, strict=True):
                parameter.grad = total.reshape(parameter.shape) if mark else None


def join_processes(device: str, environment: Mapping[str, str] | None = None) -> Processes:
    """This process and its device, in the group that `torchrun` started, or alone.

    A group that exists is used. Else one is made where the variables of `torchrun` say so, `nccl`
    between GPUs and `gloo` between processors, and ended when the program ends.

    Args:
        device: a backend of `resolve_torch_device`; each process takes the GPU of its local rank.
        environment: the variables, by default those of the process.

    Raises:
        BackendError: no such device, or the group cannot be made.
    """
    variables = os.environ if environment is None else environment
    place = resolve_torch_device(device)
    library = _library()
    is_group = bool(library.is_available()) and bool(library.is_initialized())
    try:
        world, local = int(variables.get("WORLD_SIZE", "1")), int(variables.get("LOCAL_RANK", "0"))
    except ValueError as error:
        raise BackendError(f"WORLD_SIZE and LOCAL_RANK have to be numbers: {error}") from None
    if world == 1 and not is_group:
        return Processes(0, 1, place)
    if place.type == "cuda":
        if local >= torch.cuda.device_count():
            raise BackendError(
                f"local rank {local} has no GPU of its own: there are {torch.cuda.device_count()}; "
                "start fewer processes, or train on the processor"
            )
        place = torch.device("cuda", local)
        torch.cuda.set_device(place)
    if not is_group:
        try:
            library.init_process_group("nccl" if place.type == "cuda" else "gloo")
        except (RuntimeError, ValueError) as error:
            raise BackendError(f"the processes cannot be joined: {error}") from error
        atexit.register(_leave)
    return Processes(int(library.get_rank()), int(library.get_world_size()), place)


def _leave() -> None:
    if _library().is_initialized():
        _library().destroy_process_group()


def _library() -> Any:
    import torch.distributed as library

    return library
