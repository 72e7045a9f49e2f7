"""`Trainer`: trains and evaluates a module of floats, trits or spikes.

Not here: what it is made of (the other files of this folder), converting networks first (`hybrid`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ...ir.errors import OptionError, refuse
from ..device_choice import configure_torch_backend
from ..fake_quantize import FakeQuantize, quantize_aware
from ..pruning import add_masks
from .adversarial import Attack
from .config import TrainingConfig
from .data import Batches, Data
from .distributed import join_processes
from .engine import Engine
from .objectives import Loss, Metric, Objective, evaluating, make_objective
from .optimizers import make_optimizer, make_scheduler
from .privacy import Privacy, PrivateRun
from .random_state import seeded, set_random_state
from .run import CHECKPOINT, TrainingRun
from .spiking_run import SpikingRun
from .tracking import History, Progress, tracking

MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]
MakeScheduler = Callable[[torch.optim.Optimizer, int], torch.optim.lr_scheduler.LRScheduler]


class Trainer:
    """Trains `module` by the settings of `config`, in this process or in all that `torchrun` began.

    The module is moved to the device. Random numbers of a run follow from the seed, and those of
    the caller are as before when it ends. A run that is resumed from a checkpoint gives the bits of
    one that went through, on devices whose operators give the same bits each time. In several
    processes batches, batch normalisation and rate coding are those of one process, up to the
    rounding of sums; dropout draws other numbers in each.

    Args:
        module: gives outputs [N, …] for inputs [N, …]; with `spiking`, trains and states.
        config: by default `TrainingConfig()`.
        spiking: how a spiking network is run; none for a module that takes a batch as it is.
        loss: a function of outputs and targets that gives the mean over rows, or an `Objective`; by
            default cross-entropy.
        metrics: functions of outputs and targets that give means over rows, by name; by default
            `accuracy`, where targets are classes.
        optimizer: makes the optimizer, in the place of the one that `config` names.
        scheduler: makes the scheduler from the optimizer and the number of all steps, in the place
            of the one that `config` names; it is told of each step.
        privacy: train so that single rows do not show, with `epsilon` in the history. What the
            history says of the training rows is not private; without validation no epoch is best.
        adversary: train on what this attack makes of each batch of inputs from 0 to 1; targets are
            classes.

    Raises:
        OptionError: a value that is not allowed.
        BackendError: the device is missing, or the processes cannot be joined.
    """

    def __init__(
        self,
        module: nn.Module,
        config: TrainingConfig | None = None,
        *,
        spiking: SpikingRun | None = None,
        loss: Objective | Loss | None = None,
        metrics: Mapping[str, Metric] | None = None,
        optimizer: MakeOptimizer | None = None,
        scheduler: MakeScheduler | None = None,
        privacy: Privacy | None = None,
        adversary: Attack | None = None,
    ) -> None:
        self.config = TrainingConfig() if config is None else config
        self.processes = join_processes(self.config.device)
        configure_torch_backend(self.config.device, self.processes.device, verbose=False)
        self.module = module.to(self.processes.device)
        self._compress(spiking)
        objective = make_objective(loss, self.config.label_smoothing)
        objective.to(self.processes.device)
        self._engine = Engine(
            self.module,
            self.processes,
            objective,
            spiking,
            metrics,
            self.config.precision,
            self.config.seed,
        )
        self._make_optimizer, self._make_scheduler = optimizer, scheduler
        self._privacy, self._adversary = privacy, adversary
        said = "{} does not go with privacy, which clips, draws and stops by itself"
        own = {"clip_norm": True, "drop_last": True}
        own["patience"] = self.config.monitor in (None, "loss")
        for name, is_own in own.items():
            refuse(privacy and is_own and getattr(self.config, name), said.format(name))
        refuse(
            privacy and adversary, "an adversary needs gradients that privacy does not account for"
        )
        self._run: TrainingRun | None = None

    @property
    def history(self) -> History:
        """The numbers of the epochs of the last run."""
        return History() if self._run is None else self._run.history

    @property
    def best_epoch(self) -> int | None:
        """The best epoch of the last run, from 1; `None` before there is one."""
        return None if self._run is None else self._run.position.best_epoch

    def fit(
        self,
        train: Data,
        validation: Data | None = None,
        *,
        resume: str | Path | bool | None = None,
        max_steps: int | None = None,
    ) -> History:
        """Train, and give the numbers of each epoch.

        Args:
            train: a pair of arrays (inputs, targets), a `Dataset` of such pairs with a length, or a
                `DataLoader`.
            validation: the same; evaluated after each epoch.
            resume: a checkpoint of the same run to go on from, with the same data; true for that of
                the settings' folder, or for a start where there is none yet: a script that is
                started again, as `torchrun` does after a process died, then goes on.
            max_steps: stop after so many steps of the optimizer, with a checkpoint where there is a
                folder for it; the module then has the weights of the last step.

        Raises:
            OptionError: data or values that do not fit.
            ParameterError: a checkpoint that is damaged, or of another module.
            BackendError: a tracker is missing.
        """
        if max_steps is not None and max_steps < 1:
            raise OptionError(f"max_steps: expected at least 1, got {max_steps}")
        config, processes = self.config, self.processes
        if resume is True:
            if config.checkpoint_folder is None:
                raise OptionError("resume needs a checkpoint_folder, or a checkpoint")
            file = Path(config.checkpoint_folder) / CHECKPOINT
            resume = file if file.exists() else None
        held_out = None if validation is None else self._batches(validation)
        run = self._start(self._training_batches(train))
        if resume:
            run.restore(resume)
        processes.share(self.module)
        names = config.log_to if processes.is_first else ()
        steps = config.epochs * len(run.batches)
        last = None if max_steps is None else run.position.total + max_steps
        with ExitStack() as stack:
            stack.enter_context(seeded(config.seed, processes.rank, processes.device))
            stack.enter_context(self._engine.objective.watching(self.module))
            trackers = stack.enter_context(tracking(names, config.log_folder, config.to_dict()))
            shown = config.progress and processes.is_first
            bar = stack.enter_context(Progress(steps, run.position.total, shown))
            self._fit_grids(run)
            if run.random is not None:
                set_random_state(run.random, processes.device)
            while not run.is_over and run.train_epoch(bar, last):
                measured = None if held_out is None else self._engine.evaluate(held_out)
                record = run.end_epoch(measured)
                bar.describe(record)
                for tracker in trackers:
                    tracker.log(record, run.position.total)
        if run.is_over and run.best is not None:
            self.module.load_state_dict(run.best)
        return run.history

    def evaluate(self, data: Data) -> dict[str, float]:
        """`loss` and the metrics of the module on `data`, which is given as to `fit`.

        Raises:
            OptionError: data that does not fit.
        """
        return self._engine.evaluate(self._batches(data))

    def predict(self, inputs: Tensor) -> Tensor:
        """What the module gives for `inputs` in evaluation, [N, …], on the processor.

        Each process computes all of it.
        """
        return self._engine.predict(inputs, self.config.batch_size)

    def _compress(self, spiking: SpikingRun | None) -> None:
        """Put masks and grids into the module, as the settings ask for."""
        config = self.config
        if spiking is not None and config.activation_bits is not None:
            raise OptionError("activation_bits: what spiking networks pass on are spikes, of 1 bit")
        if config.final_sparsity:
            add_masks(self.module, method=config.pruning)
        if config.weight_bits is not None or config.activation_bits is not None:
            bits = {"weight_bits": config.weight_bits, "activation_bits": config.activation_bits}
            quantize_aware(self.module, **bits)

    def _fit_grids(self, run: TrainingRun) -> None:
        """Let grids of activations that have seen none see the first batch, without learning."""
        grids = [part for part in self.module.modules() if isinstance(part, FakeQuantize)]
        new = [grid for grid in grids if not grid.is_fitted]
        if not new:
            return
        batch = next(run.batches.epoch(0))
        with torch.no_grad(), evaluating(self.module), self._engine.autocast():
            for grid in new:
                grid.train()
            self._engine.forward(self._engine.moved(batch)[0], 0, batch.first)
        self.processes.share(self.module)
        for grid in grids:
            grid.read_bounds()

    def _start(self, batches: Batches) -> TrainingRun:
        config = self.config
        if self._make_optimizer is None:
            optimizer = make_optimizer(config, self.module)
        else:
            optimizer = self._make_optimizer(self.module)
        steps, privacy = config.epochs * len(batches), self._privacy
        if self._make_scheduler is None:
            scheduler = make_scheduler(config, optimizer, steps)
        else:
            scheduler = self._make_scheduler(optimizer, steps)
        private = privacy and PrivateRun(privacy, self._engine, batches, config.epochs)
        engine, adversary = self._engine, self._adversary
        self._run = TrainingRun(engine, config, batches, optimizer, scheduler, private, adversary)
        return self._run

    def _training_batches(self, data: Data) -> Batches:
        if self._privacy is None:
            return self._batches(data, self.config.shuffle, self.config.drop_last)
        if isinstance(data, DataLoader):
            said = "privacy draws its rows by chance: give the dataset, not a DataLoader"
            raise OptionError(said)
        return Batches(data, self.config.batch_size, poisson=True, seed=self._privacy.seed or 0)

    def _batches(self, data: Data, shuffle: bool = False, drop_last: bool = False) -> Batches:
        return Batches(
            data,
            self.config.batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            seed=self.config.seed,
            rank=self.processes.rank,
            world=self.processes.world,
        )
