"""Random integer programs on spike trains, as text with the values of their parameters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class TrainProgram:
    """A program while it is being written: each method adds an op to the newest value.

    Attributes:
        steps: T.
        size: the neurons of the newest train or current.
        name: its SSA name.
        values: of the parameters.
    """

    def __init__(self, seed: int, steps: int, size: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.steps, self.size, self.name = steps, size, "x"
        self.values: dict[str, Array] = {}
        self._argument = self.train()
        self._first = self.places()
        self._lines: list[str] = []
        self._results: list[tuple[str, str]] = []
        self._count = 0

    def places(self) -> tuple[int, ...]:
        """The shape of a step of the newest value, without the batch."""
        return (self.size,)

    def row(self) -> str:
        """That shape in a type."""
        return "x".join(map(str, self.places()))

    def train(self) -> str:
        """The type of a train of the newest value's neurons."""
        return f"!spike.train<{self.steps}x?x{self.row()}>"

    def current(self) -> str:
        """The type of its currents."""
        return f"tensor<{self.steps}x?x{self.row()}xi32>"

    def text(self) -> str:
        """The program, which gives all that `result` named."""
        body = "\n".join(f"  {line}" for line in self._lines)
        types = ", ".join(type for _, type in self._results)
        names = ", ".join(f"%{name}" for name, _ in self._results)
        return (
            "builtin.module @net {\n"
            f"func.func @forward(%x: {self._argument}) -> ({types}) {{\n"
            f"{body}\n  func.return {names} : {types}\n}}\n}}"
        )

    def inputs(self, samples: int) -> Array:
        """Random trains; the first sample silent, the second one with every spike."""
        x = self.rng.random((self.steps, samples, *self._first)) < 0.4
        x[:, 0], x[:, 1] = False, True
        return x

    def linear(self, outputs: int, weights: str, *, bias: bool) -> None:
        """A synapse with random weights, `i8` or `!ternary.trit`."""
        key = self._new("fc")
        shape = f"tensor<{self.size}x{outputs}x{weights}>"
        dialect, high = ("tensor", 9) if weights == "i8" else ("ternary", 1)
        self.values[f"{key}.weight"] = self.rng.integers(-high, high + 1, (self.size, outputs))
        self._put(f'%w_{key} = {dialect}.parameter "{key}.weight" : {shape}')
        more = ""
        if bias:
            self.values[f"{key}.bias"] = self.rng.integers(-4, 5, outputs)
            self._put(f'%b_{key} = tensor.parameter "{key}.bias" : tensor<{outputs}xi32>')
            more = f"bias(%b_{key} : tensor<{outputs}xi32>) "
        line = f"spike.linear %{self.name}, %w_{key} {more}: {self.train()}, {shape} -> "
        self.size = outputs
        self._result(key, line + self.current())

    def neurons(
        self,
        decay: int | None,
        reset: str,
        compare: str,
        *,
        each: bool,
        membrane: bool = False,
        period: int | None = None,
    ) -> None:
        """Neurons with a decay of eighths, or without; `each` has parameters of its own.

        They rest for some steps after a spike where there is a `period`.
        """
        key = self._new("neurons")
        model = "integrate_fire" if decay is None else "integer_lif"
        left = "decay"
        if period is not None:
            model, left, decay = "refractory_lif", "beta", 8 if decay is None else decay
        entries = [f'reset = "{reset}"', f'compare = "{compare}"']
        entries += [] if decay is None else ["shift = 3 : i64"]
        operands = ""
        names = ["threshold", "gain"] + (["v_reset"] if reset == "to_value" else [])
        names += [] if decay is None else [left]
        names += [] if period is None else ["period"]
        vector = f"tensor<{self.size}xi32>"
        low = {"threshold": 1, "gain": -1, "v_reset": -3, left: 0, "period": 0}
        high = {"threshold": 20, "gain": 3, "v_reset": 4, left: 8, "period": 3}
        if each:
            start = f"tensor<1x{self.size}xi32>"
            self.values[f"{key}.first"] = self.rng.integers(-5, 6, (1, self.size))
            self._put(f'%first_{key} = tensor.parameter "{key}.first" : {start}')
            first, types = f"%first_{key}", start
            if period is not None:
                self.values[f"{key}.rest"] = self.rng.integers(0, 3, (1, self.size))
                self._put(f'%rest_{key} = tensor.parameter "{key}.rest" : {start}')
                first, types = f"{first}, %rest_{key}", f"{start}, {start}"
            operands += f"initial({first} : {types}) "
        order = [left, "period", "gain", "threshold", "v_reset"]
        for name in sorted(names, key=order.index):
            if each:
                found = self.rng.integers(low[name], high[name] + 1, self.size)
                self.values[f"{key}.{name}"] = found
                self._put(f'%{name}_{key} = tensor.parameter "{key}.{name}" : {vector}')
                operands += f"{name}(%{name}_{key} : {vector}) "
            else:
                known = {left: decay, "period": period}
                drawn = None if name in known else self.rng.integers(low[name], high[name] + 1)
                value = known.get(name, drawn)
                entries.append(f"{name} = {value}.0 : f64")
        states = 1 if period is None else 2
        final = f", tensor<?x{self.size}xi32>" * states if membrane else ""
        line = (
            f"spike.{model} %{self.name} {operands}{{{', '.join(entries)}}} : "
            f"({self.current()}) -> ({self.train()}{final})"
        )
        if membrane:
            rest = "" if period is None else f", %n_{key}"
            self._put(f"%{key}, %v_{key}{rest} = {line}")
            self.name = key
        else:
            self._result(key, line)

    def feedback(
        self, weights: str, late: int, decay: int | None, reset: str, period: int | None = None
    ) -> None:
        """Neurons that also get their own spikes of `late` steps before the last."""
        key = self._new("loop")
        shape = f"tensor<{self.size}x{self.size}x{weights}>"
        dialect, high = ("tensor", 5) if weights == "i8" else ("ternary", 1)
        self.values[f"{key}.weight"] = self.rng.integers(-high, high + 1, (self.size,) * 2)
        self._put(f'%w_{key} = {dialect}.parameter "{key}.weight" : {shape}')
        model = "integrate_fire" if decay is None else "integer_lif"
        leak = "" if decay is None else f"decay = {decay}.0 : f64, shift = 3 : i64, "
        if period is not None:
            model, leak = "refractory_lif", leak.replace("decay", "beta") or "beta = 1.0 : f64, "
            leak += f"period = {period}.0 : f64, "
        entries = f'{leak}reset = "{reset}", threshold = {self.rng.integers(1, 12)}.0 : f64'
        train, current = self.train(), self.current()
        held = f"%last {{steps = {late} : i64}} : ({train}) -> {train}"
        before = f"%before = spike.delay {held}" if late else ""
        self._put(f"""%{key} = spike.recurrent %{self.name}, %w_{key}
       : ({current}, {shape}) -> {train} {{
  ^bb0(%i: {current}, %w: {shape}, %last: {train}):
    {before}
    %f = spike.linear {"%before" if late else "%last"}, %w : {train}, {shape} -> {current}
    %k = tensor.add %i, %f : ({current}, {current}) -> {current}
    %s = spike.{model} %k {{{entries}}} : ({current}) -> {train}
    spike.yield %s : {train}
  }}""")
        self.name = key

    def delay(self, steps: int) -> None:
        """A train some steps late."""
        line = f"spike.delay %{self.name} {{steps = {steps} : i64}} : ({self.train()}) -> "
        self._result(self._new("late"), line + self.train())

    def result(self, kind: str) -> None:
        """Read out: `train`, `count`, `rate`, `last` (step), or the `membrane` of neurons."""
        row = f"tensor<?x{self.row()}"
        if kind == "train":
            self._results.append((self.name, self.train()))
        elif kind == "membrane":
            self._results.append((f"v_{self.name}", f"{row}xi32>"))
        elif kind == "rate":
            key = self._new("rate")
            self._put(
                f'%{key} = spike.decode %{self.name} {{scheme = "rate"}} : ({self.train()}) '
                f"-> {row}xf32>"
            )
            self._results.append((key, f"{row}xf32>"))
        else:
            key = self._new(kind)
            self._put(
                f"%d_{key} = spike.to_tensor %{self.name} : ({self.train()}) -> {self.current()}"
            )
            if kind == "count":
                self._put(
                    f"%{key} = tensor.reduce_sum %d_{key} {{axes = array<i64: 0>, "
                    f"keepdims = false}} : ({self.current()}) -> {row}xi32>"
                )
            else:
                cut = f"tensor<1x?x{self.size}xi32>"
                end = 2**63 - 1
                self._put(
                    f"%c_{key} = tensor.slice %d_{key} {{starts = array<i64: -1, 0, 0>, "
                    f"ends = array<i64: {end}, {end}, {end}>, steps = array<i64: 1, 1, 1>}} "
                    f": ({self.current()}) -> {cut}"
                )
                self._put(
                    f"%{key} = tensor.squeeze %c_{key} {{axes = array<i64: 0>}} : ({cut}) "
                    f"-> {row}xi32>"
                )
            self._results.append((key, f"{row}xi32>"))

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _put(self, line: str) -> None:
        self._lines.append(line)

    def _result(self, name: str, line: str) -> None:
        self.name = name
        self._put(f"%{name} = {line}")
