"""Federated training: owners of data train copies, and only their mean leaves them.

Flower carries the parameters, masks them (SecAgg+, Bell et al. 2020: the server sees the sum of
the owners that stayed and no single one) and takes the mean; what is here makes its two apps of a
`Trainer`. PyTorch is loaded where networks are, since Flower starts a process for each message, of
which most carry keys. Not here: those processes (`flower-superlink`, `flower-supernode`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ...ir.arrays import Array
from ...ir.errors import BackendError, refuse
from ...ir.extras import needed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .trainer import Trainer

MakePart = Callable[[int, int], tuple["Trainer", Any]]
"""What an owner has: a trainer, made anew for each round, and data; for its number, of so many."""


@dataclass(frozen=True)
class Rounds:
    """How the owners' networks come together.

    Attributes:
        count: how often.
        owners: how many the first round waits for.
        least: owners that a round needs; fewer leave the parameters as they were.
        rows: the most that an owner has: its parameters weigh so many of these.
        clip: the largest parameter: they are rounded to 2^22 steps up to it.
        timeout: seconds that a round waits for owners that may have died, in each of its stages.
        patience: seconds that the first round waits for all.

    Raises:
        OptionError: numbers that do not fit.
    """

    count: int
    owners: int
    least: int = 3
    rows: int = 1000
    clip: float = 8.0
    timeout: float = 60.0
    patience: float = 600.0

    def __post_init__(self) -> None:
        said = "rounds: expected a count from 1, and at least 3 of the owners: "
        is_wrong = self.count < 1 or not 3 <= self.least <= self.owners
        refuse(is_wrong, f"{said}where two are summed, each knows the other's part")


def owner_app(make: MakePart) -> Any:
    """Flower's `ClientApp` of an owner: it trains for `epochs` of its trainer's settings a round.

    The number of an owner and how many there are come from `--node-config` of `flower-supernode`:
    `partition-id=0 num-partitions=5`.

    Raises:
        BackendError: Flower is missing.
    """
    client, mod = _flower("client"), _flower("client.mod")

    def client_of(context: Any) -> Any:
        node = context.node_config

        class Owner(client.NumPyClient):
            def fit(self, parameters: Sequence[Array], config: Any) -> tuple[list[Array], int, Any]:
                trainer, data = make(int(node["partition-id"]), int(node["num-partitions"]))
                fill(trainer.module, parameters)
                figures = {k: float(v) for k, v in trainer.fit(data).records[-1].items()}
                rows = len(cast("Any", data[0]) if isinstance(data, tuple) else data)
                return shared_arrays(trainer.module), rows, figures

        return Owner().to_client()

    return client.ClientApp(client_of, mods=[mod.secaggplus_mod])


def coordinator_app(
    make: Callable[[], nn.Module], rounds: Rounds, done: Callable[[nn.Module], None]
) -> Any:
    """Flower's `ServerApp`: begins with a module's parameters, and gives it the mean of all rounds.

    `make` gives a module of the owners' kind, `done` is told after each round.

    Raises:
        BackendError: Flower is missing.
    """
    server, common = _flower("server"), _flower("common")
    app = server.ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        module = make()

        def evaluate(number: int, arrays: Sequence[Array], config: Any) -> None:
            if number:
                fill(module, arrays)
                done(module)

        end = time.monotonic() + rounds.patience
        while len(there := [*grid.get_node_ids()]) < rounds.owners:
            if time.monotonic() > end:
                raise BackendError(f"{len(there)} of {rounds.owners} owners came")
            time.sleep(1)
        first = common.ndarrays_to_parameters(shared_arrays(module))
        needs = {"min_fit_clients": rounds.least, "min_available_clients": rounds.least}
        strategy = server.strategy.FedAvg(
            fraction_evaluate=0.0, initial_parameters=first, evaluate_fn=evaluate, **needs
        )
        config = server.ServerConfig(num_rounds=rounds.count, round_timeout=rounds.timeout)
        limits = {"clipping_range": rounds.clip, "max_weight": rounds.rows}
        flows = server.workflow
        masked = flows.SecAggPlusWorkflow(1.0, rounds.least, timeout=rounds.timeout, **limits)
        workflow = flows.DefaultWorkflow(fit_workflow=masked)
        workflow(grid, server.LegacyContext(context=context, config=config, strategy=strategy))

    return app


def _flower(part: str) -> Any:
    return needed(f"flwr.{part}", "Flower (flwr)", "federated")


def shared_arrays(module: nn.Module) -> list[Array]:
    """The floats of a module's parameters and buffers, in their order: latents where trits are."""
    return [value.detach().cpu().numpy().copy() for value in _shared(module)]


def fill(module: nn.Module, arrays: Sequence[Array]) -> None:
    """Give a module the floats that `shared_arrays` gave.

    Raises:
        OptionError: they are of another module.
    """
    import torch

    tensors = _shared(module)
    are_its = [tuple(value.shape) for value in tensors] == [array.shape for array in arrays]
    refuse(not are_its, "the parameters of the round are of another module")
    with torch.no_grad():
        for value, array in zip(tensors, arrays, strict=True):
            value.copy_(torch.from_numpy(array))


def _shared(module: nn.Module) -> list[Tensor]:
    """All floats but the masks of pruned weights, which every owner keeps as they are."""
    state = module.state_dict()
    return [v for k, v in state.items() if v.is_floating_point() and not k.endswith(".mask")]
