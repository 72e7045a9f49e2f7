"""Accuracy against timesteps: how soon the answer of a spiking program is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import InputError
from ...ir.samples import check_labels
from .figure import panels, plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def accuracy_by_step(answers: Array, labels: Array) -> Array:
    """The share of right answers after each step, [T].

    Args:
        answers: [T, N, classes], such as `runtime.spiking.anytime.answers` gives.
        labels: [N], the classes as whole numbers from 0.

    Raises:
        InputError: shapes that do not fit, or labels that are no classes.
    """
    if answers.ndim != 3:
        raise InputError(
            f"accuracy needs an output [samples, classes], got one of {answers.ndim - 1} axes"
        )
    check_labels(labels, *answers.shape[1:])
    return (answers.argmax(axis=2) == labels).mean(axis=1)


def accuracy(shares: Array) -> Figure:
    """The curve of shares of right answers [T] after 1, 2, … T steps.

    Raises:
        BackendError: matplotlib is missing.
    """
    figure, (axis,) = panels(1, 3.0)
    with plain_style():
        steps = np.arange(1, len(shares) + 1)
        (line,) = axis.plot(steps, shares, marker="o", markersize=3)
        line.set_gid("accuracy")
        axis.set_xlabel("timesteps")
        axis.set_ylabel("accuracy")
        axis.set_ylim(-0.02, 1.02)
        last = f"{shares[-1]:.3g}" if len(shares) else "-"
        axis.set_title(f"{last} after {len(shares)} steps", loc="left")
    return figure
