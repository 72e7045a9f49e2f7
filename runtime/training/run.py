"""`TrainingRun`: the state of a run, its steps, and what a checkpoint holds of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ...ir.errors import OptionError, ParameterError, refuse
from ..compression import sparsity_at
from ..pruning import count_gradients, set_masks
from .adversarial import Attack
from .checkpoint import load_tree, save_tree
from .config import TrainingConfig
from .data import Batch, Batches
from .engine import Engine, Sums, added
from .global_batch_norm import GlobalBatchNorm, has_batch_norm
from .objectives import evaluating
from .optimizers import clip_gradients
from .privacy import PrivateRun
from .random_state import get_random_state
from .tracking import History, Progress, Record

CHECKPOINT = "last.safetensors"
PRUNING = 0.5
"""The part of all steps in which the sparsity rises."""
MOMENTS = 20
"""How often masks are chosen in it."""


@dataclass
class Position:
    """How far a run is.

    Attributes:
        epoch: epochs that are over.
        step: batches of the next epoch that are over.
        total: steps of the optimizer that are over.
        best_value: the monitored number of the best epoch.
        best_epoch: that epoch, from 1.
        stale: epochs since it.
    """

    epoch: int = 0
    step: int = 0
    total: int = 0
    best_value: float | None = None
    best_epoch: int | None = None
    stale: int = 0


class TrainingRun:
    """One run of training, from its start or from a checkpoint.

    Args:
        engine: the module.
        config: the settings.
        batches: the training data.
        optimizer: of the module's parameters.
        scheduler: of the optimizer, told of each step.
        private: what makes the steps private.
        adversary: changes each batch.
    """

    def __init__(
        self,
        engine: Engine,
        config: TrainingConfig,
        batches: Batches,
        optimizer: torch.optim.Optimizer,
        scheduler: torch.optim.lr_scheduler.LRScheduler,
        private: PrivateRun | None = None,
        adversary: Attack | None = None,
    ) -> None:
        self.engine, self.config, self.batches = engine, config, batches
        self.optimizer, self.scheduler = optimizer, scheduler
        self._private, self._adversary = private, adversary
        if private is not None:
            self.optimizer = private.optimizer(optimizer)
        _, scales = engine.mixed_precision()
        library: Any = torch.amp
        self.scaler: Any = library.GradScaler(engine.device.type, enabled=scales)
        self.position, self.history = Position(), History()
        self.best: dict[str, Any] | None = None
        self.random: Tensor | None = None
        self._sums: Sums = {}
        self._is_global = engine.processes.world > 1 and has_batch_norm(engine.module)

    @property
    def is_over(self) -> bool:
        """Whether all epochs are over, or too many went by without a better one."""
        patience = self.config.patience
        is_stale = patience is not None and self.position.stale >= patience
        return is_stale or self.position.epoch >= self.config.epochs

    def train_epoch(self, bar: Progress, last: int | None) -> bool:
        """Take the steps of the epoch that are left; whether all are over.

        Args:
            bar: told of each step.
            last: the step of all after which to stop.
        """
        every, position = self.config.checkpoint_steps, self.position
        self.engine.module.train()
        if last is not None and position.total >= last:
            return False
        for batch in self.batches.epoch(position.epoch, position.step):
            self._sums = added(self._sums, self._step(batch))
            position.step += 1
            position.total += 1
            bar.advance()
            # Before the next batch is read, which may draw random numbers.
            is_last = position.total == last and position.step < len(self.batches)
            if is_last or (every is not None and position.total % every == 0):
                self.save()
            if is_last:
                return False
        return True

    def end_epoch(self, validation: Mapping[str, float] | None) -> Record:
        """Count the epoch as over; its numbers."""
        position = self.position
        record: Record = {"epoch": position.epoch + 1, **self.engine.means(self._sums)}
        record["learning_rate"] = float(self.optimizer.param_groups[0]["lr"])
        if self._private is not None:
            record["epsilon"] = self._private.epsilon(position.total)
        record |= {f"val_{name}": value for name, value in (validation or {}).items()}
        self.history.records.append(record)
        self._note_best(record, "loss" if validation is None else "val_loss")
        position.epoch, position.step, self._sums = position.epoch + 1, 0, {}
        self.save()
        return record

    def _step(self, batch: Batch) -> Sums:
        engine, rows = self.engine, len(batch.inputs)
        seed = engine.training_seed(self.position.epoch, self.position.step)
        if self._private is not None:
            self.optimizer.zero_grad(set_to_none=True)
            engine.objective.begin()
            total = self.position.total
            loss, outputs = self._private.differentiate(self.optimizer, batch, seed, total)
            sums = engine.measured(loss, outputs, engine.moved(batch)[1])
            self.optimizer.step()
            self.scheduler.step()
            self._prune()
            return sums
        x, y = engine.moved(batch)
        if self._adversary is not None:
            forward = partial(engine.forward, seed=seed, first=batch.first)
            with evaluating(engine.module):
                x = self._adversary.examples(forward, x, y)
        engine.objective.begin()
        normalise: AbstractContextManager[object] = (
            GlobalBatchNorm(engine.processes) if self._is_global else nullcontext()
        )
        with engine.autocast(), normalise:
            outputs = engine.forward(x, seed, batch.first)
            loss = engine.objective.training_loss(outputs, x, y) if rows else outputs.sum()
        sums = engine.measured(loss, outputs, y)
        # Each process has its part of the mean over the batch, and gradients are summed.
        part = loss if rows == batch.total else loss * (rows / batch.total)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(part).backward()
        parameters = list(engine.module.parameters())
        engine.processes.sum_gradients(parameters)
        if self.config.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            clip_gradients(parameters, self.config.clip_norm)
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        # A smaller scale tells that the gradients overflowed and no step was taken.
        if self.scaler.get_scale() >= before:
            self.scheduler.step()
            self._prune()
        return sums

    @property
    def _pruning_steps(self) -> int:
        """The steps after which the sparsity is the final one."""
        steps = self.config.epochs * len(self.batches)
        return max(1, round(PRUNING * steps)) if self.config.final_sparsity else 0

    def _prune(self) -> None:
        """Choose masks anew after the step that is being taken, where it is time to."""
        config, until, step = self.config, self._pruning_steps, self.position.total + 1
        if step > until:
            return
        if config.pruning == "sensitivity":
            count_gradients(self.engine.module)
        if step * MOMENTS // until > (step - 1) * MOMENTS // until:
            sparsity = sparsity_at(config.final_sparsity, step / until)
            module, pattern = self.engine.module, config.pruning_pattern
            set_masks(module, sparsity, method=config.pruning, pattern=pattern)

    def _note_best(self, record: Record, default: str) -> None:
        name = self.config.monitor or default
        refuse(name not in record, f"monitor: no {name!r}; there is {', '.join(record)}")
        if self.position.total < self._pruning_steps:
            return  # its weights are not as few as they are to be
        if self._private is not None and default == name == "loss":
            return  # choosing by the rows themselves would tell of them
        value, best = record[name], self.position.best_value
        gain = 0.0 if best is None else best - value if name.endswith("loss") else value - best
        is_number = value == value
        if is_number and (best is None or gain > self.config.min_delta):
            self.position.best_value, self.position.stale = value, 0
            self.position.best_epoch = self.position.epoch + 1
            if self.config.keep_best:
                self.best = _copied(self.engine.module.state_dict())
        else:
            self.position.stale += 1

    def save(self) -> None:
        """Write a checkpoint where the settings have a folder; all processes call it."""
        if self.config.checkpoint_folder is None:
            return
        processes = self.engine.processes
        sums = processes.sum(torch.stack(list(self._sums.values()))) if self._sums else None
        tree = {
            "config": self.config.to_dict(),
            "data": {"rows": self.batches.rows, "batches": len(self.batches)},
            "position": dataclasses.asdict(self.position),
            "sums": dict(zip(self._sums, [] if sums is None else sums, strict=True)),
            "history": self.history.records,
            "module": self.engine.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            **self._ways(),
            "best": self.best,
            "random": processes.gather(get_random_state(self.engine.device)),
        }
        if processes.is_first:
            folder = Path(self.config.checkpoint_folder)
            folder.mkdir(parents=True, exist_ok=True)
            save_tree(folder / CHECKPOINT, tree)
        processes.barrier()

    def restore(self, path: str | Path) -> None:
        """Take up the state of a checkpoint of the same run.

        Raises:
            ParameterError: the file is missing or damaged, or is of another module.
            OptionError: it is of other settings or data.
        """
        tree = load_tree(path)
        try:
            self._check_same(path, tree)
            self.engine.module.load_state_dict(tree["module"])
            self.optimizer.load_state_dict(tree["optimizer"])
            self.scheduler.load_state_dict(tree["scheduler"])
            self.scaler.load_state_dict(tree["scaler"])
            self.position = Position(**tree["position"])
            self.history = History([dict(record) for record in tree["history"]])
            self.best = tree["best"]
            self._restore_of_process(tree)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            if isinstance(error, OptionError):
                raise
            raise ParameterError(f"checkpoint '{path}' does not fit: {error}") from error

    def _restore_of_process(self, tree: Mapping[str, Any]) -> None:
        processes = self.engine.processes
        sums = cast("dict[str, Tensor]", tree["sums"])
        # They are sums over all processes: the first one has them, the others start from zero.
        self._sums = {
            name: (value if processes.is_first else value * 0).to(self.engine.device)
            for name, value in sums.items()
        }
        states: list[Tensor] = tree["random"]
        if len(states) == processes.world:
            self.random = states[processes.rank]

    def _ways(self) -> dict[str, Any]:
        """What decides the steps besides the settings, as a checkpoint has it."""
        return {
            "privacy": None if self._private is None else self._private.settings(),
            "adversary": None if self._adversary is None else str(self._adversary),
        }

    def _check_same(self, path: str | Path, tree: Mapping[str, Any]) -> None:
        different = self.config.differences(tree["config"])
        data = {"rows": self.batches.rows, "batches": len(self.batches)}
        if tree["data"] != data:
            different.append("data")
        different += [name for name, way in self._ways().items() if tree.get(name) != way]
        if different:
            raise OptionError(
                f"checkpoint '{path}' is of a run with other {', '.join(different)}; resume it "
                "with the same, or start anew"
            )


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.detach().cpu().clone() if isinstance(value, Tensor) else value
        for name, value in state.items()
    }
