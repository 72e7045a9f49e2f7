"""Gradients of all steps of a neuron at once, from the step that its model declares.

Autograd would keep a graph of every operation of every step. Here the step runs once on symbols,
which gives the functions that it is made of, and the chain rule on those a step backward; a run is
one function with a gradient, and what does not depend on the step before or after is computed for
all steps in one call. What runs often becomes native code where there are kernels (`native_steps`).
The numbers are those of autograd, up to the order of sums. Not here: steps of models
(`ir.neurons`), what they are on tensors (`steps`), and how gradients follow (`symbols`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from ...ir.neurons.arithmetic import Options, Step
from ..native.torch_scan import NativeScan
from .native_steps import scan_code
from .steps import State, TensorArithmetic, run_steps, wide_type
from .surrogate import SurrogateGradient
from .symbols import Symbol, fire, gradients, ordered, rounded_to, used

_Call = tuple[Callable[..., Any], tuple[int, ...], int]
"""A function, the places of its arguments and that of its value."""


class _Scan:
    """A run over steps: what is computed once, for all steps in one call, and step by step."""

    def __init__(
        self,
        rows: Sequence[Symbol],
        carried: Sequence[Symbol],
        after: Sequence[Symbol],
        results: Sequence[Symbol],
        spikes: Callable[..., Any] = fire,
    ) -> None:
        """How to run.

        Args:
            rows: what is given for each step; not what it is made of.
            carried: what comes from the step before, or the one after.
            after: what goes to the next one.
            results: what is wanted of all steps.
            spikes: what `fire` stands for.
        """
        varies, tied = set(rows), set(carried)
        order = ordered([*carried, *after, *results], varies)
        made = [symbol for symbol in order if symbol.function is not None and symbol not in varies]
        for symbol in made:
            if used([symbol]) & tied:
                tied.add(symbol)
            elif used([symbol]) & varies:
                varies.add(symbol)
        inside = tied.intersection(ordered(after, varies)).union(carried)
        self.places = {symbol: place for place, symbol in enumerate(order)}
        self.blank: list[Any] = [None] * len(order)
        calls = {symbol: self._call(symbol, spikes) for symbol in made}
        self.once = [calls[s] for s in made if s not in tied and s not in varies]
        self.whole = [calls[s] for s in made if s in varies]
        self.steps = [calls[s] for s in made if s in inside]
        self.late = [calls[s] for s in made if s in tied - inside]
        looped, later = [s for s in made if s in inside], [s for s in made if s in tied - inside]
        self.taken = [self.places[s] for s in order if s in varies & used(looped, after)]
        self.kept = [self.places[s] for s in order if s in inside & used(later, results)]
        self.carried, self.after, self.results = (
            [self.places[symbol] for symbol in symbols] for symbols in (carried, after, results)
        )
        given = [symbol for symbol in rows if symbol in self.places]
        fixed = [symbol for symbol in order if symbol not in tied and symbol not in varies]
        changing = [symbol for symbol in made if symbol in tied or symbol in varies]
        self.given, self.fixed = ([self.places[s] for s in group] for group in (given, fixed))
        code = None
        if spikes is fire and set(results) <= tied | varies:
            code = scan_code((given, carried, fixed), changing, after, results)
        self.native = None if code is None else NativeScan(code)

    def _call(self, symbol: Symbol, spikes: Callable[..., Any]) -> _Call:
        places: list[int] = []
        for argument in symbol.arguments:
            if isinstance(argument, Symbol):
                places.append(self.places[argument])
            else:
                places.append(len(self.blank))
                self.blank.append(argument)
        function = spikes if symbol.function is fire else symbol.function
        assert function is not None
        return function, tuple(places), self.places[symbol]

    def run(
        self, values: Mapping[Symbol, Tensor], state: Sequence[Tensor], steps: range
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The results [T, …] and the state after the last step.

        Args:
            values: what is given, rows [T, …] among it.
            state: before the first step.
            steps: the numbers of the steps, from 0 to T - 1 or back.
        """
        known = list(self.blank)
        for symbol, value in values.items():
            if symbol in self.places:
                known[self.places[symbol]] = value
        _compute(self.once, known)
        if self.native is not None:
            rows, numbers = ([known[p] for p in places] for places in (self.given, self.fixed))
            found = self.native(rows, state, numbers, forward=steps.step > 0)
            if found is not None:
                return found
        _compute(self.whole, known)
        rows = [(place, known[place].unbind(0)) for place in self.taken]
        kept = [(place, list[Tensor]()) for place in self.kept]
        row, after = list(known), list(state)
        for step in steps:
            for place, of in rows:
                row[place] = of[step]
            for place, value in zip(self.carried, after, strict=True):
                row[place] = value
            _compute(self.steps, row)
            after = [row[place] for place in self.after]
            for place, found in kept:
                found.append(row[place])
        for place, found in kept:
            known[place] = torch.stack(found if steps.step > 0 else found[::-1])
        _compute(self.late, known)
        return [known[place] for place in self.results], after


def _compute(calls: Iterable[_Call], known: list[Any]) -> None:
    for function, places, place in calls:
        if len(places) == 2:
            known[place] = function(known[places[0]], known[places[1]])
        else:
            known[place] = function(*[known[of] for of in places])


@dataclass(frozen=True)
class _Neurons:
    """What a run is of, besides tensors.

    Attributes:
        step: of the model.
        options: of the neurons.
        states: how many they have.
        parameters: the names of those given as tensors.
        surrogate: for the slope of spikes.
        detach_reset: whether gradients stay out of resets.
        dtype: of the current.
        wanted: whether a gradient is wanted of the current, of each state and each parameter;
            those of states are computed in any case.
    """

    step: Step
    options: Options
    states: int
    parameters: tuple[str, ...]
    surrogate: SurrogateGradient
    detach_reset: bool
    dtype: torch.dtype
    wanted: tuple[bool, ...]


class _Plan:
    """How a run and its gradients are computed.

    What the gradients need of the run, `met`, is given with its results, and has gradients too, so
    that there are derivatives of any order.
    """

    def __init__(self, neurons: _Neurons) -> None:
        self.neurons, self.x = neurons, Symbol()
        self.states = [Symbol() for _ in range(neurons.states)]
        self.parameters = [Symbol() for _ in neurons.parameters]
        parameters: Any = dict(zip(neurons.parameters, self.parameters, strict=True))
        arithmetic = TensorArithmetic(neurons.options, parameters, fire, neurons.detach_reset)
        step: Any = neurons.step
        output, after = step(arithmetic, self.x, self.states)
        if wide_type(neurons.dtype) != neurons.dtype:
            after = [Symbol(rounded_to, value, neurons.dtype) for value in after]
        self.output, self.after = output, list(after)
        self.varies = {self.x, *self.states}
        for symbol in ordered([output, *after]):
            if used([symbol]) & self.varies:
                self.varies.add(symbol)
        self.met: list[Symbol] = []
        self.backward_of_met = self._backward()
        while set(self.backward_of_met.met) - {self.x, *self.met}:
            self.met = [symbol for symbol in self.backward_of_met.met if symbol is not self.x]
            self.backward_of_met = self._backward()
        met, self.met = self.met, []
        self.backward = self._backward()
        self.met = met
        self.forward = self.scan()

    def _backward(self) -> _Backward:
        """The step backward, with gradients of `met`."""
        to_rows = [Symbol() for _ in (self.output, *self.met)]
        to_after, results = [Symbol() for _ in self.after], dict[Symbol, Symbol]()
        of = (self.output, *self.met, *self.after)
        for value, gradient in zip(of, (*to_rows, *to_after), strict=True):
            results[value] = results[value] + gradient if value in results else gradient
        leaves = [self.x, *self.states, *self.parameters]
        found = gradients(results, leaves, self.neurons.surrogate)
        first = 1 + len(self.states)
        before = [
            Symbol(torch.zeros_like, last) if gradient is None else gradient
            for last, gradient in zip(to_after, found[1:first], strict=True)
        ]
        wanted = [i for i in (0, *range(first, len(leaves))) if self.neurons.wanted[i]]
        sums = {i: gradient for i in wanted if (gradient := found[i]) is not None}
        met = [
            symbol
            for symbol in ordered([*before, *sums.values()], self.varies)
            if symbol in self.varies
        ]
        scan = _Scan([*to_rows, *met], to_after, before, list(sums.values()))
        return _Backward(to_rows, met, list(sums), scan)

    def run(self, scan: _Scan, x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """What all steps give, the states after the last one, and `met`."""
        dtype, wide = self.neurons.dtype, wide_type(self.neurons.dtype)
        states = [value.to(wide) for value in tensors[: len(self.states)]]
        parameters = zip(self.parameters, tensors[len(self.states) :], strict=True)
        values = {self.x: x.to(wide), **dict(parameters)}
        (outputs, *met), after = scan.run(values, states, range(len(x)))
        return (outputs.to(dtype), *(value.to(dtype) for value in after), *met)

    def scan(self, spikes: Any = fire) -> _Scan:
        """The run forward."""
        return _Scan([self.x], self.states, self.after, [self.output, *self.met], spikes)


@dataclass(frozen=True)
class _Backward:
    """A run backward: the gradients given for each step, what it needs of the run forward, the
    leaves whose gradients are its results, and how it is computed."""

    given: list[Symbol]
    met: list[Symbol]
    leaves: list[int]
    scan: _Scan


_plan = lru_cache(_Plan)


class _ThroughTime(torch.autograd.Function):
    @staticmethod
    def forward(plan: _Plan, x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        return plan.run(plan.forward, x, *tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        plan, x, *tensors = inputs
        ctx.plan, ctx.shapes = plan, [tensor.shape for tensor in (x, *tensors)]
        needed = x if plan.x in set(plan.backward_of_met.met) else None
        first = 1 + len(plan.states)
        ctx.save_for_backward(needed, *tensors[len(plan.states) :], *output[first:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        plan, *tensors = args
        scan = plan.scan(plan.neurons.surrogate)  # `fire` writes in place, which vmap cannot
        found = torch.vmap(partial(plan.run, scan), in_dims[1:])(*tensors)
        return found, (0,) * len(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        plan: _Plan = ctx.plan
        states, dtype = len(plan.states), plan.neurons.dtype
        wide, (steps, *step) = wide_type(dtype), ctx.shapes[0]
        x, *saved = ctx.saved_tensors
        like = next((gradient for gradient in gradients if gradient is not None), None)
        if like is None:
            return (None,) * (1 + len(ctx.shapes))
        rows = [gradients[0], *gradients[1 + states :]]
        of_met = any(gradient is not None for gradient in rows[1:])
        backward = plan.backward_of_met if of_met else plan.backward
        values = dict(zip([*plan.parameters, *plan.met], saved, strict=True))
        if x is not None:
            values[plan.x] = x.to(wide)
        for symbol, gradient in zip(backward.given, rows, strict=False):
            missing = gradient is None
            values[symbol] = (
                like.new_zeros((steps, *step), dtype=wide) if missing else gradient.to(wide)
            )
        to_after = [
            like.new_zeros(step, dtype=wide) if gradient is None else gradient.to(wide)
            for gradient in gradients[1 : 1 + states]
        ]
        sums, before = backward.scan.run(values, to_after, range(steps)[::-1])
        found: list[Tensor | None] = [None, *(value.to(dtype) for value in before)]
        found += [None] * len(plan.parameters)
        for index, value in zip(backward.leaves, sums, strict=True):
            found[index] = value.sum_to_size(ctx.shapes[index]).to(value.dtype if index else dtype)
        return (None, *found)


def run_through_time(
    step: Step, arithmetic: TensorArithmetic, x: Tensor, state: State
) -> tuple[Tensor, State]:
    """As `run_steps`, for the step of a model, with the graph of one function where it learns.

    What exports and compilers follow is run by steps, as is what nothing asks a gradient of.
    """
    tensors, surrogate = (x, *state, *arithmetic.parameters.values()), arithmetic.surrogate
    wanted = tuple(tensor.requires_grad for tensor in tensors)
    tracer: Any = torch.jit
    followed = torch.compiler.is_compiling() or tracer.is_tracing()
    learns = torch.is_grad_enabled() and any(wanted) and len(x) > 0
    if followed or not learns or not isinstance(surrogate, SurrogateGradient):
        return run_steps(step, arithmetic, x, state)
    names, detach = tuple(arithmetic.parameters), arithmetic.detach_reset
    options = arithmetic.options
    plan = _plan(_Neurons(step, options, len(state), names, surrogate, detach, x.dtype, wanted))
    function: Any = _ThroughTime
    outputs, *others = function.apply(plan, *tensors)
    return outputs, tuple(others[: len(state)])
