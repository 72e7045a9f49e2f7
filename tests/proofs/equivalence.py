"""Translation validation: a program before and after a real rewrite, on all inputs.

`prove` asks the SMT solver for inputs (and weights that the rewrite does not read) on which results
differ; `prove_by_levels` and `prove_near` ask in whole numbers where products are too large for bit
vectors. `enumerate_all` runs both programs on every member of a finite set of inputs. Each gives a
`CounterexampleError` with the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import z3
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.registry import verify_module
from triton_dsl.passes.analysis.compile_time import has_value

from .algebra import BOOL, Terms, Whole, Words
from .meaning import Meaning, Value, dtype_of, filled

TIME_LIMIT = 60_000
"""Milliseconds that the solver has for one query."""


class CounterexampleError(AssertionError):
    """Inputs on which two programs differ."""


class NoAnswerError(AssertionError):
    """The solver ran out of time: no proof."""


@dataclass
class Symbols:
    """Variables for the arguments and the unknown parameters of a program, and what holds of them.

    Floats are finite.

    Attributes:
        sizes: what each `?` in an argument's type is, in their order; 2 where the list ends.
    """

    sizes: Sequence[int] = ()
    assumptions: list[Any] = field(default_factory=list)
    algebra: Terms | Whole = field(default_factory=Terms)

    def tensor(self, name: str, type: Attribute) -> Value:
        """A tensor of variables."""
        declared: Any = type
        free = iter(self.sizes)
        shape = [next(free, 2) if size < 0 else size for size in declared.get_shape()]
        dtype = dtype_of(type)

        def variable(index: tuple[int, ...]) -> Any:
            made = self.algebra.variable(f"{name}{list(index)}", dtype)
            if isinstance(declared, TensorType):
                self._limit(made, declared.element_type)
            return made

        return Value(dtype, filled(shape, variable))

    def _limit(self, made: Any, element: Any) -> None:
        if isinstance(element, ternary.TritType):
            self.assumptions += [made >= -1, made <= 1]
        elif isinstance(made, z3.FPRef):
            self.assumptions += [z3.Not(z3.fpIsNaN(made)), z3.Not(z3.fpIsInf(made))]


def arguments_of(module: ModuleOp) -> list[Attribute]:
    """The types of the arguments of the only function."""
    (function,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    return list(function.function_type.inputs)


def unknown_parameters(module: ModuleOp) -> dict[str, Attribute]:
    """The types of the parameters without values, by key."""
    return {
        op.key.data: op.result.type
        for op in module.walk()
        if isinstance(op, tensor.ParameterOp | ternary.ParameterOp) and not has_value(op)
    }


def changed(module: ModuleOp, rewrite: Callable[[ModuleOp], Any]) -> ModuleOp:
    """A copy of a module after a rewrite, verified."""
    verify_module(module)
    after = module.clone()
    rewrite(after)
    verify_module(after)
    return after


def prove(
    before: ModuleOp,
    after: ModuleOp,
    *,
    sizes: Sequence[int] = (),
    assume: Callable[[Mapping[str, Value]], Sequence[Any]] | None = None,
    within: int = 0,
    signed_zeros: bool = True,
) -> None:
    """Prove that two programs have the same results for all inputs.

    Args:
        before: a module of one function.
        after: one with the same arguments.
        sizes: what each `?` of an argument is.
        assume: conditions on the unknown parameters and the arguments (`argument 0`, …).
        within: how far integer results may lie apart.
        signed_zeros: whether 0 and -0 are two numbers.

    Raises:
        CounterexampleError: they differ.
        NoAnswerError: the solver ran out of time.
    """
    symbols = Symbols(sizes)
    unknown = {**unknown_parameters(before), **unknown_parameters(after)}
    parameters = {key: symbols.tensor(key, type) for key, type in unknown.items()}
    types = arguments_of(before)
    assert types == arguments_of(after)
    arguments = [symbols.tensor(f"argument {i}", type) for i, type in enumerate(types)]
    named = {**parameters, **{f"argument {i}": value for i, value in enumerate(arguments)}}
    conditions = [*symbols.assumptions, *(assume(named) if assume else ())]
    meaning = Meaning(symbols.algebra, parameters)
    results = [meaning.run(module, arguments) for module in (before, after)]
    differences: list[Any] = []
    for old, new in zip(*results, strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape), (old.shape, new.shape)
        pairs = zip(old.elements.reshape(-1), new.elements.reshape(-1), strict=True)
        differences += [_differ(a, b, within, signed_zeros) for a, b in pairs]
    check_never(z3.Or(*differences), conditions, named)


def check_never(
    fault: Any,
    conditions: Sequence[Any],
    named: Mapping[str, Value],
    solver: Any = None,
) -> None:
    """Ask the solver for a case of `fault` under the conditions; see `prove`."""
    fault = z3.simplify(fault)
    if z3.is_false(fault):
        return
    # The solver for bit vectors alone would take floats for unknown symbols.
    solver = z3.SolverFor("QF_BVFP") if solver is None else solver
    solver.set("timeout", TIME_LIMIT)
    solver.add(*conditions, fault)
    answer = solver.check()
    if answer == z3.sat:
        model = solver.model()
        found = {name: _numbers(model, value) for name, value in named.items()}
        raise CounterexampleError(f"they differ for {found}")
    if answer != z3.unsat:
        raise NoAnswerError(f"no answer in {TIME_LIMIT} ms: {solver.reason_unknown()}")


class _OverWholeNumbers:
    """Two programs of integers for which linear arithmetic decides."""

    def __init__(self, before: ModuleOp, after: ModuleOp) -> None:
        algebra = Whole()
        symbols = Symbols((1,), algebra=algebra)
        types = enumerate(arguments_of(before))
        arguments = [symbols.tensor(f"argument {i}", type) for i, type in types]
        self.named = {f"argument {i}": value for i, value in enumerate(arguments)}
        self.known = [
            algebra.held(element, value.dtype)
            for value in arguments
            for element in value.elements.reshape(-1)
        ]
        meaning = Meaning(algebra)
        results = [meaning.run(module, arguments) for module in (before, after)]
        self.pairs = [
            pair
            for old, new in zip(*results, strict=True)
            for pair in zip(old.elements.reshape(-1), new.elements.reshape(-1), strict=True)
        ]
        for bound in {bound.get_id(): bound for bound in algebra.bounds}.values():
            self.never(z3.Not(bound))

    def never(self, fault: Any) -> None:
        """Prove that there is no case of a fault."""
        check_never(fault, self.known, self.named, solver=z3.Solver())


def prove_by_levels(before: ModuleOp, after: ModuleOp, levels: Sequence[int]) -> None:
    """Prove that two programs have the same integers for all inputs.

    Over whole numbers: no step wraps around, no result lies beyond the levels, and for each level
    both results reach it or neither does.

    Raises:
        CounterexampleError: they differ.
        NoAnswerError: the solver ran out of time.
    """
    case = _OverWholeNumbers(before, after)
    for a, b in case.pairs:
        for end in (a, b):
            case.never(z3.Or(end < levels[0], end > levels[-1]))
        for level in levels[1:]:
            case.never((a >= level) != (b >= level))


def prove_near(before: ModuleOp, after: ModuleOp, steps: float = 1.0) -> None:
    """Prove that integers lie within so many steps of what a program of floats gives.

    The floats are real numbers, and `before` ends with a quantisation: what it would round to an
    integer is left as it is.

    Raises:
        CounterexampleError: they lie farther apart.
        NoAnswerError: the solver ran out of time.
    """
    case = _OverWholeNumbers(before, after)
    for real, whole in case.pairs:
        apart = z3.ToReal(whole) - real
        case.never(z3.Or(apart > steps, apart < -steps))


def _differ(a: Any, b: Any, within: int, signed_zeros: bool) -> Any:
    if isinstance(a, z3.FPRef):
        # `==` is to the bit: NaN is itself.
        zeros = z3.And(z3.fpIsZero(a), z3.fpIsZero(b), not signed_zeros)
        return z3.Not(z3.Or(a == b, zeros))
    if not within:
        return a != b
    more = z3.SignExt(1, a) - z3.SignExt(1, b)
    return z3.Or(more > within, more < -within)


def _numbers(model: Any, value: Value) -> Any:
    def number(element: Any) -> Any:
        held = model.eval(element, model_completion=True)
        if isinstance(held, z3.BitVecNumRef):
            return held.as_signed_long() if value.dtype.kind == "i" else held.as_long()
        if isinstance(held, z3.IntNumRef):
            return held.as_long()
        return z3.is_true(held) if value.dtype == BOOL else str(held)

    return filled(value.shape, lambda i: number(value.elements[i])).tolist()


def all_values(*ranges: Sequence[int]) -> NDArray[np.int64]:
    """Every combination, [combinations, len(ranges)]."""
    grids = np.meshgrid(*(np.asarray(r, np.int64) for r in ranges), indexing="ij")
    return np.stack([g.reshape(-1) for g in grids], axis=1)


def results_on(module: ModuleOp, arguments: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The results for an enumeration: arguments [cases, …] to results [cases, …]."""
    values: list[Value] = []
    for array, type in zip(arguments, arguments_of(module), strict=True):
        dtype = dtype_of(type)
        held = array.astype(dtype)
        assert (held == array).all()
        values.append(
            Value(dtype, filled(array.shape[1:], lambda i, held=held: held[(slice(None), *i)]))
        )
    cases = len(arguments[0])
    results = Meaning(Words()).run(module, values)
    return [_stacked(value, cases) for value in results]


def _stacked(value: Value, cases: int) -> NDArray[Any]:
    result = np.empty((cases, *value.shape), value.dtype)
    for index in np.ndindex(*value.shape):
        result[(slice(None), *index)] = value.elements[index]
    return result


def enumerate_all(
    before: ModuleOp, after: ModuleOp, arguments: Sequence[NDArray[Any]], *, within: int = 0
) -> None:
    """Check that two programs agree on every case of an enumeration.

    Raises:
        CounterexampleError: they differ.
    """
    results = [results_on(module, arguments) for module in (before, after)]
    for old, new in zip(*results, strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        kind = np.int64 if old.dtype.kind in "iub" else old.dtype
        apart = np.abs(old.astype(kind) - new.astype(kind)) > within
        if apart.any():
            case = int(np.argwhere(apart)[0][0])
            found = [array[case].tolist() for array in arguments]
            raise CounterexampleError(f"they differ for {found}: {old[case]} and {new[case]}")
