"""Signed spikes whose worth halves from step to step: neurons that tell a value coarse to fine.

Each is made of plain neurons that run one step: those that fire where a half of the quantum or more
is left to say, and those that take back where too much was said. Not here: thresholds (`search`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.tensor.shape import SLICE_END
from .signals import Conversion, compact

MOST_STEPS = 16
"""The last of more quanta would be lost in the rounding of f32."""


def quanta(timesteps: int) -> Array:
    """What a spike of each step is worth beside one of the first."""
    return 2.0 ** -np.arange(timesteps)


def worth_of(threshold: Array, timesteps: int) -> Array:
    """What a first spike is worth where all spikes together reach the threshold in the mean."""
    return threshold * (timesteps / quanta(timesteps).sum())


def margins(timesteps: int, last: Array) -> Iterator[Array]:
    """How much more than a half of the quantum must be left at each step, in quanta of the first.

    A spike of the quantum q takes r² - (r-q)² off the square of what is left: so much pays for it
    from r = q/2 + c/q on, where c is half of what a spike costs.

    Args:
        timesteps: T.
        last: at the last step, as a share of its quantum.
    """
    quantum = quanta(timesteps)
    for now in quantum.tolist():
        yield last * (quantum[-1] ** 2 / now)


def simulate_signed(
    current: Array, threshold: Array, share: float = 0.5, margin: float = 0.0
) -> tuple[Array, Array]:
    """What signed neurons say on a current [T, N, …], in first spikes; how many spikes that takes.

    v = Σ i - y; s = [v ≥ (1-a)·q + m] - [min(-v, y) ≥ a·q + m]; y ← y + q·s; then q halves, and m,
    see `margins`, doubles. a is `share`.
    """
    worth = worth_of(threshold, len(current)).astype(current.dtype)
    total, said = np.zeros_like(current[0]), np.zeros_like(current[0])
    spikes = np.zeros_like(current[0])
    more = margins(len(current), np.array(margin, current.dtype))
    steps = zip(current, quanta(len(current)).astype(current.dtype), more, strict=True)
    for step, quantum, extra in steps:
        total += step
        left, told = total - said * worth, said * worth
        plus = left >= worth * ((1 - share) * quantum + extra).astype(current.dtype)
        least = worth * (share * quantum + extra).astype(current.dtype)
        minus = np.minimum(-left, told) >= least
        said += quantum * plus
        said -= quantum * minus
        spikes += plus
        spikes += minus
    return said, spikes


def sums_of_steps(state: Conversion, current: SSAValue) -> list[SSAValue]:
    """What a current [T, …] has summed up to at each step, [1, …] each."""
    rank = tensor_type(current).get_num_dims()
    total = state.add(spike.LeakyIntegratorOp(current, 1.0))
    sums: list[SSAValue] = []
    for t in range(state.timesteps):
        starts, ends = [t, *[0] * (rank - 1)], [t + 1, *[SLICE_END] * (rank - 1)]
        sums.append(state.add(tensor.SliceOp(total, starts, ends, [1] * rank)))
    return sums


def fire_signed(
    state: Conversion, sums: Sequence[SSAValue], threshold: Array, share: Array, margin: Array
) -> SSAValue:
    """The steps [T, …] that signed neurons give, ±1, ±½, ±¼, …, in first spikes.

    See `simulate_signed`.
    """
    element = tensor_type(sums[0]).element_type
    worth = worth_of(threshold, state.timesteps)
    factor = state.constant(worth, element, "worth")
    said: SSAValue | None = None
    steps: list[SSAValue] = []

    def fired(potential: SSAValue, least: Array) -> SSAValue:
        level = state.level(compact(worth * least), element)
        train = state.add(spike.IntegrateFireOp(potential, threshold=level))
        return state.add(spike.ToTensorOp(train, element))

    more = margins(state.timesteps, margin)
    for now, quantum, extra in zip(sums, quanta(state.timesteps).tolist(), more, strict=True):
        upper, lower = (1 - share) * quantum + extra, share * quantum + extra
        if said is None:
            step = fired(now, upper)
        else:
            left = state.add(tensor.SubOp(now, said))
            over = state.add(tensor.MinimumOp(state.add(tensor.SubOp(said, now)), said))
            signs = tensor.SubOp(fired(left, upper), fired(over, lower))
            step = state.add(tensor.MulOp(state.add(signs), state.number(quantum, element)))
        steps.append(step)
        more = state.add(tensor.MulOp(step, factor))
        said = more if said is None else state.add(tensor.AddOp(said, more))
    return state.add(tensor.ConcatenateOp(steps, 0))
