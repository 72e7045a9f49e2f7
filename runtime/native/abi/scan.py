"""Runs over time as native code: what a step computes, and what its kernel takes.

`runtime.spiking.native_steps` says what a step is, `to_native.kernels.scan` generates the kernel,
`runtime.native.torch_scan` calls it.
"""

from __future__ import annotations

from dataclasses import dataclass

SCAN_CALL = "scan_call"
"""Takes the address of `ScanCode.arguments` and runs all neurons over all steps."""

SCAN_PART = "scan_part"
"""A part of the same, see `abi.parallel`: units of `UNIT` neurons, in one phase."""

UNIT = 64
"""Neurons that no two threads share."""

FUNCTIONS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "minimum"), 2),
    **dict.fromkeys(("neg", "abs", "relu", "sign", "copy", "zero", "one"), 1),
    **dict.fromkeys(("eq", "ne", "lt", "gt", "reaches_gt", "reaches_ge"), 2),
    **dict.fromkeys(("isfinite", "number"), 1),
    "where": 3,
}
"""What a step is made of, and how many operands it has. `eq`, `ne`, `lt`, `gt` and `isfinite` give
truth values, which `where` and `number` take; `reaches_gt` and `reaches_ge` give 1.0 or 0.0."""

TRUTHS = ("eq", "ne", "lt", "gt", "isfinite")


@dataclass(frozen=True)
class ScanCode:
    """What a run over time computes, for each neuron alone.

    Values have numbers: rows first, then what is carried from step to step, scalars, and the
    results of the calls in their order.

    Attributes:
        rows: how many values are given for each step.
        carried: how many states are carried.
        scalars: how many numbers are the same for all neurons and steps.
        calls: functions and their operands: the number of a value, or a constant as a float.
        after: the values that are carried to the next step.
        results: the values that are wanted of each step.
    """

    rows: int
    carried: int
    scalars: int
    calls: tuple[tuple[str, tuple[int | float, ...]], ...]
    after: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def arguments(self) -> int:
        """How many arguments a kernel takes, eight bytes each.

        Addresses of rows [T, N], of states [N], which are overwritten by those after the last step,
        of scalars, and of results [T, N]; then the numbers T and N. All are of one element type.
        """
        return self.rows + self.carried + self.scalars + len(self.results) + 2
