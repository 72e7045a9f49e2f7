"""Long runs of compiled spiking programs: in slices, with saved state, by the quickest engine.

A simulator knows which axes of a program's arrays are time and batch, hands the state from slice to
slice, and shares samples among threads. Where sums are exact, engines give the same bits, and the
one that took least time for so many spikes and samples is taken. Not here: compiling the programs
(`lowering.simulator` joins the two).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError, OptionError, ParameterError, refuse
from ...ir.store import ParameterStore, save_arrays
from ..native.program import NativeProgram
from ..native.threads import share, split

Engine = Literal["auto", "event", "dense"]
ENGINES: tuple[Engine, ...] = ("auto", "event", "dense")

_ROWS = 1024
"""Samples times steps of a call: what passes between layers shall stay in a near cache."""
_PARTS = 2
"""Parts of the samples for each thread."""
_MOST_LENGTHS = 4
"""Numbers of steps for which programs for many samples are compiled."""
_DENSE_FROM = 0.1
"""Activity of the inputs below which the engine that multiplies by everything is not tried."""


@dataclass(frozen=True)
class Port:
    """An array that goes into a program or comes out.

    Attributes:
        name: what the program calls it.
        time, batch: the axes of the steps and of the samples, `None` where there is none.
    """

    name: str
    time: int | None
    batch: int | None


@dataclass(frozen=True)
class Signature:
    """What a simulator must know of a program with its states as last arguments and results.

    Attributes:
        inputs, outputs: without the states.
        states: their arrays have no axis of time.
        steps: of a call, where the program fixes them.
        free: whether programs can be had for one sample and any steps, or for some number of steps
            and any samples; else there is one program.
        exact: whether all engines give the same bits.
        apart: whether samples can be computed in parts; random codes depend on a sample's number.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...]
    steps: int | None
    free: bool
    exact: bool
    apart: bool = True


Make = Callable[[int | None], NativeProgram]
"""Gives the program for so many steps and any samples; `None`: for one sample and any steps, or the
only one that there is."""


@dataclass
class _Times:
    """Seconds of a sample and step, the least so far, by engine."""

    best: dict[str, float] = field(default_factory=dict[str, float])

    def note(self, engine: str, seconds: float) -> None:
        """Take a measurement into account."""
        self.best[engine] = min(seconds, self.best.get(engine, seconds))


class Simulator:
    """Runs a spiking program in slices; the state goes on from call to call.

    Attributes:
        signature: of the program.
        engine: what was asked for.
        used: the engine of the last call.
        steps: that were run since the state was zero.
        state: the state after them by name, empty before the first call.
    """

    def __init__(
        self,
        signature: Signature,
        programs: Mapping[str, Make],
        *,
        engine: Engine = "auto",
        threads: int = 1,
    ) -> None:
        """Make a simulator; `lowering.simulator.simulator` does.

        Args:
            signature: of the program.
            programs: gives the program of each engine, compiled when first asked for.
            engine: `event` adds up weights of inputs that fire, `dense` multiplies by all, `auto`
                takes what was quicker.
            threads: most threads among which samples are shared.

        Raises:
            OptionError: an unknown engine, or a wrong number of threads.
        """
        refuse(engine not in ENGINES, f"expected engine {', '.join(ENGINES)}, got '{engine}'")
        refuse(threads < 1, f"threads must be at least 1, not {threads}")
        self.signature = signature
        self.engine: Engine = engine
        self.used = ""
        self.steps = 0
        self.state: dict[str, Array] = {}
        self._threads = threads
        self._make = dict(programs)
        self._programs: dict[tuple[str, int | None], NativeProgram] = {}
        self._times: dict[tuple[int, int], _Times] = {}

    def __call__(self, *inputs: Array) -> Any:
        """Run a slice: the output, or a list of several."""
        outputs = self.run(inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Sequence[Array], slice_steps: int | None = None) -> list[Array]:
        """Run the program on from the state, over all steps of the inputs; every output.

        Args:
            inputs: in the order of the program, with their steps and samples.
            slice_steps: most steps of one call of the program, which bounds its memory; by default
                all, or what the program fixes. The bits do not depend on it.

        Raises:
            BackendError: inputs of a wrong number, shape or dtype; another number of samples than
                the state has; steps that are no multiple of what the program fixes.
            OptionError: `slice_steps` below 1.
        """
        if slice_steps is not None and slice_steps < 1:
            raise OptionError(f"slice_steps must be at least 1, not {slice_steps}")
        ports = self.signature.inputs
        if len(inputs) != len(ports):
            raise BackendError(f"the program takes {len(ports)} input(s), got {len(inputs)}")
        steps, batch = self._size("time", inputs), self._size("batch", inputs)
        steps = self.signature.steps if steps is None else steps
        if not self.state:
            self.state = self._zeros(1 if batch is None else batch)
        stored = self._state_batch()
        if batch is not None and stored is not None and batch != stored:
            raise BackendError(
                f"the state is of {stored} sample(s), the inputs of {batch}; reset()"
            )
        parts: list[list[Array]] = []
        for first, end in self._slices(steps, slice_steps):
            cut = [_cut(x, port.time, first, end) for x, port in zip(inputs, ports, strict=True)]
            parts.append(self._slice(cut, batch, end - first))
        self.steps += steps or 0
        return [self._joined(port, [p[i] for p in parts]) for i, port in enumerate(self._outputs)]

    def reset(self) -> None:
        """Start from zero again, with any number of samples."""
        self.state, self.steps = {}, 0

    def save(self, path: Path) -> None:
        """Write the state to a safetensors file."""
        save_arrays(path, {**self.state, "steps": np.asarray(self.steps, np.int64)})

    def load(self, path: Path) -> None:
        """Go on from a state that was saved.

        Raises:
            ParameterError: the file cannot be read, or holds another state.
        """
        store = ParameterStore.open(path)
        names = [port.name for port in self.signature.states]
        if set(store.names()) != {*names, "steps"}:
            raise ParameterError(f"'{path}' holds {store.names()}, expected {[*names, 'steps']}")
        states = {name: np.array(store.read(name)) for name in names}
        ports = zip(self.signature.states, states.values(), strict=True)
        sizes = {x.shape[p.batch] for p, x in ports if p.batch is not None and x.ndim > p.batch}
        wanted = self._zeros(next(iter(sizes), 1))
        for name, array in states.items():
            like = wanted[name]
            if (array.shape, array.dtype) != (like.shape, like.dtype):
                raise ParameterError(
                    f"'{path}' holds '{name}' as {array.dtype} {list(array.shape)}, expected "
                    f"{like.dtype} {list(like.shape)}"
                )
        self.state, self.steps = states, int(store.read("steps"))

    # Shapes

    @property
    def _outputs(self) -> tuple[Port, ...]:
        return self.signature.outputs

    def _size(self, axis: Literal["time", "batch"], inputs: Sequence[Array]) -> int | None:
        """The size of an axis that inputs share."""
        sizes: set[int] = set()
        for x, port in zip(inputs, self.signature.inputs, strict=True):
            place: int | None = getattr(port, axis)
            if place is not None:
                if x.ndim <= place:
                    raise BackendError(f"input '{port.name}' has no axis {place}")
                sizes.add(x.shape[place])
        if len(sizes) > 1:
            raise BackendError(f"inputs differ in their {axis}: {sorted(sizes)}")
        return next(iter(sizes), None)

    def _state_batch(self) -> int | None:
        for port in self.signature.states:
            if port.batch is not None:
                return self.state[port.name].shape[port.batch]
        return None

    def _zeros(self, batch: int) -> dict[str, Array]:
        """The state before the first step."""
        program = self._program(self._named(None))
        count = len(self.signature.states)
        inputs = program.interface.inputs
        zeros: dict[str, Array] = {}
        for port, tensor in zip(self.signature.states, inputs[len(inputs) - count :], strict=True):
            shape = list(tensor.sizes(batch))
            if port.batch is not None:
                shape[port.batch] = batch
            zeros[port.name] = np.zeros(shape, tensor.dtype)
        return zeros

    def _slices(self, steps: int | None, most: int | None) -> list[tuple[int, int]]:
        fixed = self.signature.steps
        if steps is None:
            return [(0, 0)]
        if fixed is not None and (steps % fixed or not steps):
            raise BackendError(f"the program runs {fixed} steps a call, got {steps}")
        length = fixed or most or max(steps, 1)
        bounds = [(at, min(at + length, steps)) for at in range(0, steps, length)] or [(0, 0)]
        if len(bounds) > 1 and any(port.time is None for port in self._outputs):
            names = [port.name for port in self._outputs if port.time is None]
            raise BackendError(
                f"outputs {', '.join(names)} are over all steps of a call, so that {steps} steps "
                "cannot be cut; run them in one call"
            )
        return bounds

    def _joined(self, port: Port, parts: Sequence[Array]) -> Array:
        if len(parts) == 1 or port.time is None:
            return parts[-1]
        return np.concatenate(parts, axis=port.time)

    # Running

    def _program(self, engine: str, steps: int | None = None) -> NativeProgram:
        """The program of an engine for so many steps, see `Make`."""
        known = self._programs.get((engine, steps))
        if known is None:
            known = self._programs[engine, steps] = self._make[engine](steps)
        return known

    def _length(self, engine: str, steps: int, samples: int) -> int | None:
        """The steps of the program to take, see `Make`."""
        if not self.signature.free or samples == 1 or not 0 < 2 * steps <= _ROWS:
            return None
        lengths = {length for name, length in self._programs if name == engine and length}
        return steps if steps in lengths or len(lengths) < _MOST_LENGTHS else None

    def _named(self, times: _Times | None, activity: float = 0.0) -> str:
        """The engine to take."""
        known = list(self._make)
        if self.engine != "auto":
            return self.engine if self.engine in known else known[0]
        if not self.signature.exact or len(known) == 1 or times is None:
            return known[0]
        tried = [e for e in known if e == known[0] or activity >= _DENSE_FROM]
        for engine in tried:
            if engine not in times.best:
                return engine
        return min(tried, key=lambda engine: times.best[engine])

    def _slice(self, inputs: Sequence[Array], batch: int | None, steps: int) -> list[Array]:
        samples = 1 if batch is None else batch
        activity = self._activity(inputs)
        times = self._times.setdefault((round(10 * activity), samples.bit_length()), _Times())
        self.used = self._named(times, activity)
        length = self._length(self.used, steps, samples)
        program = self._program(self.used, length)
        start = perf_counter()
        outputs = self._shared(program, length, inputs, samples, steps)
        if steps and samples:
            times.note(self.used, (perf_counter() - start) / (steps * samples))
        return outputs

    def _activity(self, inputs: Sequence[Array]) -> float:
        """The share of spikes in the inputs that are trains."""
        trains = [x for x in inputs if x.dtype == np.bool_ and x.size]
        if not trains or self.engine != "auto" or len(self._make) == 1:
            return 0.0
        return sum(int(np.count_nonzero(x)) for x in trains) / sum(x.size for x in trains)

    def _shared(
        self,
        program: NativeProgram,
        length: int | None,
        inputs: Sequence[Array],
        samples: int,
        steps: int,
    ) -> list[Array]:
        """Run a slice of all samples, some in each thread, and keep the state after it."""
        ports = (*self.signature.inputs, *self.signature.states)
        arrays = [*inputs, *(self.state[port.name] for port in self.signature.states)]
        together = not self.signature.apart or all(port.batch is None for port in ports)
        if together or samples <= 1:
            results = program.run(arrays)
            return self._kept(results)
        after = (*self._outputs, *self.signature.states)
        single = self.signature.free and length is None
        size = steps if single else samples
        results: list[Array] = []
        for port, tensor in zip(after, program.interface.outputs, strict=True):
            shape = list(tensor.sizes(size))
            if port.batch is not None:
                shape[port.batch] = samples
            results.append(np.empty(shape, tensor.dtype))
        most = 1 if single else max(1, _ROWS // max(1, steps))
        count = max(-(-samples // most), min(samples, self._threads * _PARTS))
        parts = iter(split(samples, count if self._threads > 1 else -(-samples // most)))

        def work(_: int, __: int) -> None:
            # Whoever is ready takes the next part: threads may get unequal shares of a processor.
            for at, stop in parts:
                cut = [_cut(x, p.batch, at, stop) for x, p in zip(arrays, ports, strict=True)]
                for port, part, whole in zip(after, program.run(cut), results, strict=True):
                    if port.batch is not None:
                        _part(whole, port.batch, at, stop)[...] = part
                    elif at == 0:
                        whole[...] = part

        share(work, split(min(self._threads, samples), self._threads))
        return self._kept(results)

    def _kept(self, results: Sequence[Array]) -> list[Array]:
        count = len(self._outputs)
        for port, value in zip(self.signature.states, results[count:], strict=True):
            self.state[port.name] = value
        return list(results[:count])


def _part(x: Array, axis: int, first: int, end: int) -> Array:
    return x[(slice(None),) * axis + (slice(first, end),)]


def _cut(x: Array, axis: int | None, first: int, end: int) -> Array:
    """Part of an array along an axis, contiguous; all of it for no axis."""
    return x if axis is None else np.ascontiguousarray(_part(x, axis, first, end))
