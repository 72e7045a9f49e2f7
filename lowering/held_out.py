"""Samples that judge what became of a program, apart from those that calibrate it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..dialects.interpret import run_module
from ..dialects.parameters import Array
from ..ir.errors import InputError
from ..ir.interpreter import entry_function
from ..ir.samples import check_labels
from ..passes.calibration.observation import bind_samples
from ..passes.convert_ann_to_snn.search import divergence

HELD_OUT = 4
"""One sample in so many, of the last ones, is measured and does not calibrate."""

MOST_MEASURED = 1000
"""The most samples that are measured."""

BATCH = 128
"""Samples run at a time."""


class HeldOut:
    """The last fourth of some samples, with what the float program makes of them.

    Args:
        program: the float program.
        samples: by the names of the arguments, [count, …].
        labels: the class of each sample; without, those of the float program count as right.
        function: the function to judge.

    Attributes:
        entry: the function in the program.
        samples: those that calibrate, by name.
        batches: those that judge.
        results: of the float program, for each batch.
        right: the right class of each sample that judges.

    Raises:
        InputError: samples or labels that do not fit, fewer than 8 samples, or a result that is
            not [samples, classes].
    """

    def __init__(
        self,
        program: ModuleOp,
        samples: Mapping[str, Array],
        labels: Array | None = None,
        function: str = "forward",
    ) -> None:
        self.function = function
        count = min((len(array) if array.ndim else 0 for array in samples.values()), default=0)
        if count < 2 * HELD_OUT:
            raise InputError(f"expected {2 * HELD_OUT} samples or more to measure on, got {count}")
        cut = count - min(count // HELD_OUT, MOST_MEASURED)
        self.entry = entry_function(program, function)
        parts = [
            {k: v[part] for k, v in samples.items()} for part in (slice(cut), slice(cut, None))
        ]
        self.samples = parts[0]
        self.batches = bind_samples(self.entry, parts[1], size=BATCH)
        self.results = [run_module(program, batch, function)[0] for batch in self.batches]
        if self.results[0].ndim != 2:
            raise InputError(
                "accuracy is measured on a result [samples, classes], "
                f"got one of {self.results[0].ndim} axes"
            )
        self.right = np.concatenate(self.results).argmax(axis=1)
        if labels is not None:
            check_labels(labels, count, self.results[0].shape[1])
            self.right = labels[cut : cut + len(self.right)]

    def judged(
        self, run: Callable[[Sequence[Array]], Array], batches: int | None = None
    ) -> tuple[float, float]:
        """What a program that `run` runs is worth.

        Args:
            run: gives the result [samples, classes] of a batch.
            batches: look at the first so many batches only.

        Returns:
            the share of right classes, and the divergence of the results from those of the float
            program in nats a sample.
        """
        right, first, lost = 0, 0, 0.0
        for batch, wanted in list(zip(self.batches, self.results, strict=True))[:batches]:
            found = run(batch)
            right += int((found.argmax(1) == self.right[first : first + len(found)]).sum())
            first += len(found)
            lost += divergence(wanted, found)
        return right / first, lost / first
