"""Signed spikes whose worth halves from step to step: neurons that tell a value coarse to fine.

Each is made of plain neurons that run one step: those that fire where a half of the quantum or more
is left to say, and those that take back where too much was said. Not here: thresholds (`search`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.tensor.shape import SLICE_END
from .signals import Conversion

MOST_STEPS = 16
"""The last of more quanta would be lost in the rounding of f32."""


def quanta(timesteps: int) -> Array:
    """What a spike of each step is worth beside one of the first."""
    return 2.0 ** -np.arange(timesteps)


def worth_of(threshold: Array, timesteps: int) -> Array:
    """What a first spike is worth where all spikes together reach the threshold in the mean."""
    return threshold * (timesteps / quanta(timesteps).sum())


def simulate_signed(current: Array, threshold: Array) -> tuple[Array, Array]:
    """What signed neurons say on a current [T, N, …], in first spikes; how many spikes that takes.

    v = Σ i - y; s = [v ≥ q/2] - [min(-v, y) ≥ q/2]; y ← y + q·s; then q halves.
    """
    worth = worth_of(threshold, len(current)).astype(current.dtype)
    total, said = np.zeros_like(current[0]), np.zeros_like(current[0])
    spikes = np.zeros_like(current[0])
    for step, quantum in zip(current, quanta(len(current)).astype(current.dtype), strict=True):
        total += step
        left, half = total - said * worth, worth * quantum / 2
        plus, minus = left >= half, np.minimum(-left, said * worth) >= half
        said += quantum * plus
        said -= quantum * minus
        spikes += plus
        spikes += minus
    return said, spikes


def fire_signed(state: Conversion, current: SSAValue, threshold: Array) -> SSAValue:
    """The steps [T, …] that signed neurons give, ±1, ±½, ±¼, …, in first spikes."""
    type = tensor_type(current)
    element, rank = type.element_type, type.get_num_dims()
    worth = worth_of(threshold, state.timesteps)
    factor = state.constant(worth, element, "worth")
    total = state.add(spike.LeakyIntegratorOp(current, 1.0))
    said: SSAValue | None = None
    steps: list[SSAValue] = []

    def fired(potential: SSAValue, quantum: float) -> SSAValue:
        level = state.level(worth * (quantum / 2), element)
        train = state.add(spike.IntegrateFireOp(potential, threshold=level))
        return state.add(spike.ToTensorOp(train, element))

    for t, quantum in enumerate(quanta(state.timesteps).tolist()):
        starts, ends = [t, *[0] * (rank - 1)], [t + 1, *[SLICE_END] * (rank - 1)]
        now = state.add(tensor.SliceOp(total, starts, ends, [1] * rank))
        if said is None:
            step = fired(now, quantum)
        else:
            left = state.add(tensor.SubOp(now, said))
            over = state.add(tensor.MinimumOp(state.add(tensor.SubOp(said, now)), said))
            signs = tensor.SubOp(fired(left, quantum), fired(over, quantum))
            step = state.add(tensor.MulOp(state.add(signs), state.number(quantum, element)))
        steps.append(step)
        more = state.add(tensor.MulOp(step, factor))
        said = more if said is None else state.add(tensor.AddOp(said, more))
    return state.add(tensor.ConcatenateOp(steps, 0))
