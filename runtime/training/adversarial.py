"""Adversarial examples: how well a network holds against them, and training with them.

The attacks are those of torchattacks, on networks of floats, of trits (through their latents) and
of spikes (through the surrogate gradients). Not here: proofs that no example exists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ...ir.errors import InputError, OptionError, refuse
from ...ir.extras import needed
from .objectives import evaluating
from .random_state import seeded
from .spiking_run import SpikingRun


@dataclass(frozen=True)
class Attack:
    """An attack of torchattacks on inputs from 0 to 1.

    Attributes:
        name: of its class, as `FGSM`, `PGD`, `Square`; `GN` adds noise, which an attack by
            gradients has to beat.
        options: of it, as `eps`, the farthest that a value moves, `alpha` and `steps`.

    Raises:
        BackendError: torchattacks is missing.
        OptionError: no such attack or option.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        kind: Any = getattr(needed("torchattacks", "torchattacks", "privacy"), self.name, None)
        said = f"torchattacks has no attack {self.name!r}; FGSM and PGD are two"
        refuse(not inspect.isclass(kind), said)
        known = [*inspect.signature(kind).parameters][1:]
        if unknown := sorted(self.options.keys() - set(known)):
            raise OptionError(f"{self.name} has no {', '.join(unknown)}; it has {', '.join(known)}")

    def examples(self, forward: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
        """`x` [N, …] changed so that `forward` answers wrongly; it gives logits [N, classes].

        To train on them (Madry et al. 2018), ask with the network in evaluation.

        Raises:
            InputError: inputs that are not from 0 to 1.
        """
        if not len(x):
            return x
        is_right = bool(((x >= 0) & (x <= 1)).all())
        refuse(not is_right, "attacks change inputs from 0 to 1; scale the data first", InputError)
        library = needed("torchattacks", "torchattacks", "privacy")
        # torchattacks asks for a module, of which a parameter tells the device; its modes are no
        # matter, those of the network are the caller's.
        logits = nn.Module()
        logits.register_parameter("place", nn.Parameter(x.new_zeros(()), requires_grad=False))
        vars(logits)["forward"] = forward
        attack: Any = getattr(library, self.name)(logits, **self.options)
        with torch.enable_grad():
            return attack(x, y.to(torch.int64)).detach()

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value:.4g}" for name, value in self.options.items())
        return f"{self.name}({said})"


@dataclass(frozen=True)
class RobustnessReport:
    """Right answers, as parts of all `rows`: for inputs as they are, and by attack."""

    rows: int
    clean: float
    attacked: Mapping[str, float]

    def __str__(self) -> str:
        lines = [("as they are", self.clean), *self.attacked.items()]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:{width}}  {part:7.2%}" for name, part in lines)


def robustness(
    module: nn.Module,
    data: tuple[Tensor, Tensor],
    attacks: Sequence[Attack],
    *,
    spiking: SpikingRun | None = None,
    batch_size: int = 256,
    seed: int = 0,
) -> RobustnessReport:
    """How many rows a classifier gets right, as they are and after each attack.

    Gradients of spikes and trits stand for slopes that are not there, so that an attack by them may
    miss what there is to find: ask `Square` too, which only looks at answers.

    Args:
        module: gives logits [N, classes]; with `spiking`, trains. It is run in evaluation.
        data: inputs [N, …] from 0 to 1, and classes [N].
        attacks: which.
        spiking: how a spiking network is run.
        batch_size: rows at once.
        seed: of the attacks, and of rate coding.

    Raises:
        InputError: no rows, inputs that are not from 0 to 1, or classes that are none.
    """
    x, y = data
    refuse(not len(x), "an attack needs a row at least", InputError)

    def forward(rows: Tensor) -> Tensor:
        return module(rows) if spiking is None else spiking(module, rows, seed)

    def right(change: Attack | None) -> float:
        count = 0
        for start in range(0, len(x), batch_size):
            rows, classes = x[start : start + batch_size], y[start : start + batch_size]
            with torch.no_grad():
                if change is not None:
                    rows = change.examples(forward, rows, classes)
                logits = forward(rows)
                is_class = (classes >= 0) & (classes < logits.shape[1])
                said = f"expected classes from 0 to {logits.shape[1] - 1}"
                refuse(not bool(is_class.all()), said, InputError)
                count += int((logits.argmax(1) == classes).sum())
        return count / len(x)

    with evaluating(module), seeded(seed, 0, x.device):
        return RobustnessReport(len(x), right(None), {str(each): right(each) for each in attacks})
