"""`NeuromorphicBackend`: a program compiled for a machine, deployed, run and measured there.

A back end has ways to run what its target makes, best first: the machine itself, other simulators,
ours. One that is not there or fails is tried again, then the next one takes its place, with a
warning and the reason. Samples that a failure interrupts are run again: none is lost.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ...dialects.interpret import check_inputs, run_module
from ...ir.arrays import Array
from ...ir.errors import BackendError, LoweringError, OptionError, UnsupportedError, first_line
from ...ir.interpreter import entry_function
from ...passes.analysis.time_axis import has_time_first
from ..compile_model import CompiledModel, get_all_backends
from ..models import Model, import_model
from ..placement import device_text, place
from ..placement.drive import drive_of
from ..placement.energy import EnergyMetrics, energy_of
from ..placement.run import Drive
from ..targets import compile_to_target, driver, get_all_targets, get_target

if TYPE_CHECKING:
    from ...runtime.spiking.config import SpikingConfig

SpikingModel = Model
"""What is compiled: IR, or what it is imported from."""

Run = Callable[[Sequence[Array]], list[Array]]
T = TypeVar("T")


class FallbackWarning(UserWarning):
    """Something else runs a program than was asked for; says why."""


@dataclass(frozen=True, eq=False)
class DeployedModel:
    """A program where it runs.

    Attributes:
        compiled: the program and its files.
        engine: what runs it.
        run: that, on inputs of `@forward`.
        failures: what was tried before, and why it is not used.
    """

    compiled: CompiledModel
    engine: str
    run: Run
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Results:
    """What a deployed program gave.

    Attributes:
        outputs: of `@forward`, in order, all samples.
        engine: what ran it, at the end.
        inputs: that it was given.
        deployed: where it runs now.
        batch: most samples that went through at once.
        seconds: of this process.
        failures: of the deployment and the run.
        lost: samples that were not computed: 0.
    """

    outputs: tuple[Array, ...]
    engine: str
    inputs: tuple[Array, ...]
    deployed: DeployedModel
    batch: int
    seconds: float
    failures: tuple[str, ...]
    lost: int = 0


class NeuromorphicBackend(ABC):
    """A kind of machine.

    Args:
        config: whose `hardware_constraints` say what there is: `device`, `batch` (most samples at a
            time), and any number of `placement.device.NUMBERS`.
        device: the machine; by default the first of `machines` that a program fits on.
        retries: how often what fails is tried again.
        fallback: whether something else may run a program.

    Attributes:
        target: that compiles for it.
        machines: devices, the smallest first.
    """

    target: ClassVar[str]
    machines: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        config: SpikingConfig | None = None,
        *,
        device: str | None = None,
        retries: int = 1,
        fallback: bool = True,
    ) -> None:
        limits = dict((config and config.hardware_constraints) or {})
        self.most: int | None = limits.pop("batch", None)
        if self.most is not None and (type(self.most) is not int or self.most < 1):
            raise OptionError(f"hardware_constraints: batch expects 1 or more, got {self.most!r}")
        named = device or limits.pop("device", None)
        machines = (str(named),) if named else self.machines
        self.devices = tuple(device_text(machine, limits) for machine in machines)
        self.retries, self.fallback = retries, fallback

    @abstractmethod
    def ways(self, compiled: CompiledModel) -> Sequence[tuple[str, Callable[[], Run]]]:
        """What can run a program, best first: its name, and what starts it or raises
        `BackendError` with the reason why it cannot."""

    def options(self, device: str) -> dict[str, object]:
        """The options of the target for a machine."""
        return {"device": device}

    def compile(self, model: SpikingModel) -> CompiledModel:
        """The files of a program for the first machine that it fits on.

        Raises:
            UnsupportedError: ops that the target has no form for.
            LoweringError: it fits on none; with the arithmetic.
        """
        module = import_model(model)

        def files(device: str) -> CompiledModel:
            options = self.options(device)
            artifact = compile_to_target(module, self.target, options)
            return CompiledModel(self.target, module.clone(), artifact, options)

        return self._fitting(self.devices, files)

    def deploy(self, compiled_model: CompiledModel) -> DeployedModel:
        """The program where it runs: the first way that starts.

        Raises:
            BackendError: none does, or the first does not and `fallback` is off.
        """
        return self._next(compiled_model, [])

    def execute(
        self, deployed_model: DeployedModel, input_data: Array | Sequence[Array]
    ) -> Results:
        """Run samples, as many at a time as the machine takes.

        Raises:
            TritonError: they do not fit the program.
            BackendError: nothing runs them.
        """
        inputs = [input_data] if isinstance(input_data, np.ndarray) else list(input_data)
        begun, failures = perf_counter(), list(deployed_model.failures)
        parts: list[list[Array]] = []
        batches = list(self._batches(deployed_model.compiled, inputs))
        for batch in batches:
            check_inputs(entry_function(deployed_model.compiled.module, "forward"), batch)
            tries = 0
            while True:
                try:
                    parts.append(deployed_model.run(batch))
                    break
                except BackendError as error:
                    tries += 1
                    failures.append(f"{deployed_model.engine}: {error}")
                    if tries > self.retries:
                        deployed_model = self._next(deployed_model.compiled, failures)
                        tries = 0
        axes = [
            0 if self._rows_first(deployed_model.compiled, k) else 1 for k in range(len(parts[0]))
        ]
        outputs = tuple(
            np.concatenate([part[k] for part in parts], axis) if len(parts) > 1 else parts[0][k]
            for k, axis in enumerate(axes)
        )
        seconds = perf_counter() - begun
        return Results(
            outputs,
            deployed_model.engine,
            tuple(inputs),
            deployed_model,
            self.most or len(batches),
            seconds,
            tuple(failures),
        )

    def profile(self, execution_context: Results | Drive) -> EnergyMetrics:
        """What a sample takes on the machine that the program was compiled for, where its neurons
        stand as its files say; of another run, on the first machine that it fits on.

        Args:
            execution_context: what `execute` gave.
        """
        drive, devices = execution_context, self.devices
        if isinstance(drive, Results):
            compiled = drive.deployed.compiled
            devices = (str(compiled.options.get("device", devices[0])),)
            run = driver(compiled.module, compiled.target, compiled.options)
            drive = (run or partial(drive_of, compiled.module))(drive.inputs)
        work = drive.workload
        return energy_of(drive, self._fitting(devices, lambda device: place(work, device)))

    def _fitting(self, devices: Sequence[str], make: Callable[[str], T]) -> T:
        """What is made for the first machine on which it fits."""
        for device in devices:
            try:
                return make(device)
            except UnsupportedError:
                raise
            except LoweringError as error:
                if device == devices[-1]:
                    raise
                reason = first_line(error)
                warnings.warn(f"a larger machine is taken: {reason}", FallbackWarning, 4)
        raise AssertionError

    def _next(self, compiled: CompiledModel, failures: list[str]) -> DeployedModel:
        """The first way that starts and has not failed."""
        ways = self.ways(compiled)
        failed = {text.partition(": ")[0] for text in failures}
        for name, start in ways[: None if self.fallback else 1]:
            for _ in range(1 + self.retries if name not in failed else 0):
                try:
                    run = start()
                except BackendError as error:
                    failures.append(f"{name}: {error}")
                else:
                    if name != ways[0][0]:
                        last = failures[-1]
                        warnings.warn(f"{name} runs the program; {last}", FallbackWarning, 3)
                    return DeployedModel(compiled, name, run, tuple(failures))
        told = "; ".join(dict.fromkeys(failures))
        raise BackendError(f"nothing runs the program of target '{self.target}': {told}")

    def _batches(
        self, compiled: CompiledModel, inputs: Sequence[Array]
    ) -> Iterator[Sequence[Array]]:
        """Inputs of as many samples as go through at once."""
        arguments = entry_function(compiled.module, "forward").args
        if len(inputs) != len(arguments):
            raise OptionError(f"the program takes {len(arguments)} inputs, got {len(inputs)}")
        axes = [1 if has_time_first(value) else 0 for value in arguments]
        count = inputs[0].shape[axes[0]] if inputs else 1
        size = self.most or max(1, count)
        for first in range(0, max(1, count), size):
            yield [
                x.take(range(first, min(first + size, count)), axis)
                for x, axis in zip(inputs, axes, strict=True)
            ]

    def _rows_first(self, compiled: CompiledModel, index: int) -> bool:
        """Whether a result has samples on its first axis."""
        end = entry_function(compiled.module, "forward").body.block.last_op
        assert end is not None
        return not has_time_first(end.operands[index])


def interpreted(compiled: CompiledModel) -> tuple[str, Callable[[], Run]]:
    """The way that is always there: the reference interpreter."""
    return (
        "the reference interpreter",
        lambda: lambda inputs: list(run_module(compiled.module, inputs)),
    )


def get_neuromorphic_backend(name: str) -> type[NeuromorphicBackend]:
    """A back end by its name: one that `register_backend` or an entry point of
    `triton_dsl.backends` has, or that of a target.

    Raises:
        OptionError: there is none.
    """
    found: object = get_all_backends().get(name)
    if found is None and name in get_all_targets():
        home = get_target(name).backend
        found = resolve_name(home) if isinstance(home, str) else home
    if not (isinstance(found, type) and issubclass(found, NeuromorphicBackend)):
        raise OptionError(
            f"no neuromorphic back end is named '{name}'; there are loihi2, spinnaker, c"
        )
    return found
