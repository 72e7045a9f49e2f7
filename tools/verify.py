"""The same inputs through what a program came from, the interpreter, and the engine of each target.

`verify_module` is the library face of `triton verify`. Not here: engines for sources (`sources`),
inputs (`draws`), and where a difference begins (`tracing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.rewriter import Rewriter

from ..dialects import spike, tensor
from ..dialects.interpret import run_module
from ..dialects.shapes import is_float
from ..dialects.spike.types import dense_type
from ..dialects.traits import BitExact, has
from ..ir.arrays import Array
from ..ir.errors import BackendError, LoweringError, PassError, TritonError
from ..ir.interpreter import entry_function
from ..ir.progress import tracked
from ..ir.value_names import result_names
from ..lowering.comparison import computed_types, has_steps
from ..lowering.engine import engine_of, fit_steps
from ..lowering.models import Model, import_for
from ..lowering.options import parse_target_spec
from ..lowering.sources.choice import source_of
from ..lowering.sources.source import Source
from ..lowering.stages import apply_passes, run_stages
from ..lowering.targets import get_all_targets, get_target, read_options
from .rounding import Carried, carried
from .tracing import FirstDifference, against_source, form, gaps, on_target

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


RTOL, ATOL = 1e-4, 1e-5
"""Tolerance for float programs, |a - b| ≤ ATOL + RTOL · max|a| over one output: sums of a few
thousand f32 products in any order stay within. A sum whose terms cancel errs in proportion to the
terms, hence the largest value of the output and not each value by itself, as in
`runtime.equivalence.Tolerance`; where 16-bit floats are computed, 8 units in their last place."""

SOURCE, INTERPRETER = "source", "interpreter"
"""What rows are called that are no target."""

NO_ENGINE = "none"
"""The engine of a source that nothing can run."""


@dataclass(frozen=True)
class Comparison:
    """One engine against the expected values.

    Attributes:
        target: target and options, `SOURCE` or `INTERPRETER`.
        engine: what ran it.
        max_abs: largest absolute difference over all outputs.
        max_rel: largest difference relative to the expected value, where that is not 0.
        argmax_agreement: share of rows with the same argmax on the last axis; `None` for outputs
            of rank 0.
        bit_exact: whether every output is equal bit for bit.
        exact_required: whether the program is integer, so that anything but equal values is a
            failure.
        agrees: the verdict; of a source true, as others are compared with it.
        bytes: size of the artefact, or of the source's file; `None` where there is none.
        note: what there is to say, such as why a source has no engine.
        first_difference: where a difference begins; `None` where there is none, or nobody can tell.
    """

    target: str
    engine: str
    max_abs: float
    max_rel: float
    argmax_agreement: float | None
    bit_exact: bool
    exact_required: bool
    agrees: bool
    bytes: int | None
    note: str = ""
    first_difference: FirstDifference | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dictionary."""
        return asdict(self)


def default_targets() -> tuple[str, ...]:
    """The targets that are verified when none is named: those whose engine is installed."""
    packages = {name: target().engine_package for name, target in get_all_targets().items()}
    return tuple(name for name, package in packages.items() if package and find_spec(package))


def verify_module(
    model: Model,
    inputs: Sequence[Array],
    targets: Sequence[str] | None = None,
    *,
    source: Any = None,
    more_inputs: Sequence[Sequence[Array]] = (),
    rtol: float = RTOL,
    atol: float = ATOL,
    trace: bool = True,
    on_refusal: Callable[[str, TritonError], None] | None = None,
) -> list[Comparison]:
    """Compile a model to each target, run it there and compare.

    With a source its values are the expected ones, rows for it and for the interpreter come first,
    and a fault of the importer is a difference. Without one, or where nothing can run it, the
    interpreter's values are.

    Args:
        model: IR, or what it is imported from, see `models.import_model`.
        inputs: of `@forward`, in order.
        targets: with their options; `default_targets` when not given.
        source: what IR was imported from, see `sources.choice.source_of`; by default the model,
            where that is none.
        more_inputs: other ones, each compared by itself, so that large values in one do not widen
            what another one allows.
        rtol: relative tolerance of float programs.
        atol: absolute tolerance of float programs.
        trace: whether a difference is followed to the first op, which takes further runs.
        on_refusal: told of each default target that cannot express the program, and why; without
            it, of a target that was asked for, or where none can, the error is raised.

    Raises:
        OptionError: a target without an engine here.
        TritonError: the program does not compile or run.
    """
    module = import_for(model, inputs)
    if source is None and module is not model:
        source = model
    judge = _Judge(module, [inputs, *more_inputs], rtol, atol, trace)
    rows: list[Comparison] = [] if source is None else judge.anchored(source_of(source))
    refusals: list[TritonError] = []
    compared = 0
    chosen = default_targets() if targets is None else targets
    for target in tracked(chosen, "Engine of", shown=False, name=str):
        try:
            rows.append(judge.of_target(target))
        except (LoweringError, PassError) as error:
            if targets is not None or on_refusal is None:
                raise
            refusals.append(error)
            on_refusal(target, error)
            continue
        compared += 1
    if refusals and not compared:
        raise refusals[0]
    return rows


def verify_neurons(
    model: Model,
    inputs: Sequence[Array],
    target: str,
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
) -> list[Comparison]:
    """Compare what each layer of neurons sends on a target with what it sends in the interpreter.

    The neurons are those that the target runs: of one with neurons of its own those behind its
    stages. They give their spikes beside the results of the program, in one run.

    Args:
        model: IR, or what it is imported from, see `models.import_model`.
        inputs: of `@forward`, in order.
        target: with its options.
        rtol: relative tolerance of float programs.
        atol: absolute tolerance of float programs.

    Returns:
        A row for each layer, in the order of the program, then for each result; `target` is its
        name.

    Raises:
        OptionError: a target without an engine here.
        LoweringError: the program has no neurons outside of recurrences.
        TritonError: the program does not compile or run.
    """
    spec = parse_target_spec(target)
    found = get_target(spec.name)
    module = fit_steps(import_for(model, inputs), target, inputs)
    work = module.clone()
    run_stages(work, found.stages(read_options(found, spec.options)))
    if not any(isinstance(op, spike.NeuronOp) for op in work.walk()):
        work = module.clone()
    apply_passes(work, "lower-network,inline-spike-layers,canonicalize,cse,dce")
    function = entry_function(work, "forward")
    own = len(function.function_type.outputs)
    names = _give_spikes(function)
    rows = _Judge(work, [inputs], rtol, atol, trace=False).of_results(target, names)
    return [*rows[own:], *rows[:own]]


def _give_spikes(function: FuncOp) -> list[str]:
    """Let a function give what its neurons send too; the names of all results then."""
    block, names = function.body.block, result_names(function)
    end = block.last_op
    assert isinstance(end, ReturnOp)
    sent = [op.output for op in block.ops if isinstance(op, spike.NeuronOp)]
    if not sent:
        raise LoweringError(
            "@forward has no layers of neurons outside of recurrences; layers without neurons are "
            "compared as circuits, with the target verilog"
        )
    more = [value for value in sent if value not in end.operands]
    hints = [value.name_hint or "neurons" for value in more]
    names += [f"{hint} ({index})" for index, hint in enumerate(hints, 1)]
    if function.res_attrs is not None:
        named = [*function.res_attrs.data, *(DictionaryAttr({}) for _ in more)]
        function.res_attrs = ArrayAttr(named)
    Rewriter.replace_op(end, ReturnOp(*end.operands, *more))
    function.update_function_type()
    return names


class _Judge:
    """Compares engines on the same inputs of one program."""

    def __init__(
        self,
        module: ModuleOp,
        draws: Sequence[Sequence[Array]],
        rtol: float,
        atol: float,
        trace: bool,
    ) -> None:
        self.module, self.draws, self.trace = module, draws, trace
        self.rtol, self.atol = max(rtol, 8 * _coarsest(module)), atol
        self.exact = is_integer_program(module)
        self.interpreted = [list(run_module(module, inputs)) for inputs in draws]
        self.expected, self.expected_by = self.interpreted, INTERPRETER
        self.import_fault: FirstDifference | None = None
        self._carried: dict[int, list[Carried]] = {}

    def anchored(self, source: Source) -> list[Comparison]:
        """Rows of the source and of the interpreter; the source's values are expected then."""
        try:
            from_source = [source.run(inputs) for inputs in self.draws]
        except BackendError as error:
            nan = float("nan")
            return [Comparison(SOURCE, NO_ENGINE, nan, nan, None, False, self.exact, True,
                               source.size, str(error))]  # fmt: skip
        self.expected = [
            [_as_spikes(value, like) for value, like in zip(g, i, strict=True)]
            if len(g) == len(i)
            else g
            for g, i in zip(from_source, self.interpreted, strict=True)
        ]
        self.expected_by = source.engine
        itself = self._compared(SOURCE, source.engine, self.expected, source.size)
        row = self._compared(INTERPRETER, "NumPy", self.interpreted, None)
        if not row.agrees and self.trace:
            inputs = self.draws[self._first_off(self.expected, self.interpreted)]
            try:
                self.import_fault = against_source(
                    self.module, source, inputs, self._close, INTERPRETER
                )
            except TritonError as error:
                row = replace(row, note=f"not traced: {error}")
            row = replace(row, first_difference=self.import_fault)
        return [itself, row]

    def of_target(self, target: str) -> Comparison:
        """The row of a target."""
        module = fit_steps(self.module, target, self.draws[0])
        engine = engine_of(module, target)
        actual = [engine.run(self.draws[0])]
        note = "" if module is self.module else "compiled for the steps of the inputs"
        for inputs in self.draws[1:]:
            fits = module is self.module or len(inputs[0]) == len(self.draws[0][0])
            try:
                fitting = (
                    engine if fits else engine_of(fit_steps(self.module, target, inputs), target)
                )
                actual.append(fitting.run(inputs))
            except LoweringError as error:  # outside the range that a circuit was asked for
                note = f"not run on all inputs: {error}"
                break
        row = self._compared(target, engine.name, actual, engine.size)
        row = replace(row, note=note or row.note)
        if row.agrees or not self.trace:
            return row
        if self._compared(target, engine.name, actual, 0, self.interpreted).agrees:
            return replace(row, first_difference=self.import_fault)
        inputs = self.draws[self._first_off(self.interpreted, actual)]
        difference = on_target(
            module,
            lambda part, values: engine_of(part, target).run(values),
            inputs,
            self._close,
            (INTERPRETER, engine.name),
        )
        return replace(row, first_difference=difference)

    def of_results(self, target: str, names: Sequence[str]) -> list[Comparison]:
        """A row for each result on a target."""
        engine = engine_of(self.module, target)
        actual = engine.run(self.draws[0])
        return [
            self._compared(
                name, engine.name, [actual[n : n + 1]], None, [self.expected[0][n : n + 1]], n
            )
            for n, name in enumerate(names)
        ]

    def _compared(
        self,
        target: str,
        engine: str,
        actual: Sequence[Sequence[Array]],
        size: int | None,
        expected: Sequence[Sequence[Array]] | None = None,
        first: int = 0,
    ) -> Comparison:
        """A row; `first` is the number of the first result that is among `actual`."""
        rows = [
            compare(target, engine, want, got, self.exact, size, rtol=self.rtol, atol=self.atol)
            for want, got in zip(expected or self.expected, actual, strict=False)
        ]
        for number, row in enumerate(rows):
            if not row.agrees and self._is_rounding(number, actual[number], row, expected, first):
                rows[number] = replace(row, agrees=True, note=_STEPS)
        shares = [r.argmax_agreement for r in rows if r.argmax_agreement is not None]
        return replace(
            rows[0],
            max_abs=float(np.max([row.max_abs for row in rows])),
            max_rel=float(np.max([row.max_rel for row in rows])),
            argmax_agreement=float(np.mean(shares)) if shares else None,
            bit_exact=all(row.bit_exact for row in rows),
            agrees=all(row.agrees for row in rows),
            note=next((row.note for row in rows if row.note), ""),
        )

    def _is_rounding(
        self,
        number: int,
        actual: Sequence[Array],
        row: Comparison,
        expected: Sequence[Sequence[Array]] | None,
        first: int,
    ) -> bool:
        """Whether a draw differs by no more than what roundings before steps change."""
        if self.exact or np.isnan(row.max_abs) or not has_steps(self.module):
            return False
        want = (expected or self.expected)[number]
        if number not in self._carried:
            results = self.interpreted[number]
            whole = want if len(want) == len(results) else results
            bounds = [self.atol + self.rtol * _largest(e) for e in whole]
            self._carried[number] = carried(self.module, self.draws[number], results, bounds)
        carries = self._carried[number][first:]
        for e, a, known in zip(want, actual, carries, strict=False):
            gap, bound = gaps(e, a), self.atol + self.rtol * _largest(e)
            off = gap > bound
            few = off.sum() <= max(1.0, _MORE * known.share * off.size)
            if off.any() and not (few and gap.max() <= _MORE * known.largest):
                return False
        return True

    def _first_off(
        self, expected: Sequence[Sequence[Array]], actual: Sequence[Sequence[Array]]
    ) -> int:
        """The first draw that differs."""
        for number, (want, got) in enumerate(zip(expected, actual, strict=False)):
            row = compare("", "", want, got, self.exact, 0, rtol=self.rtol, atol=self.atol)
            if not row.agrees:
                return number
        return 0

    def _close(self, part: ModuleOp, expected: Array, actual: Array) -> bool:
        exact = is_integer_program(part)
        row = compare("", "", [expected], [actual], exact, 0, rtol=self.rtol, atol=self.atol)
        if row.agrees or exact or not has_steps(part):
            return row.agrees
        off = gaps(expected, actual) > self.atol + self.rtol * _largest(expected)
        return bool(off.mean() <= STRAY)


_STEPS = "differs by no more than roundings change before a float is rounded or compared"

_MORE = 2.0
"""How much more than what roundings change is theirs still."""

STRAY = 0.01
"""The share of elements that a value on the way may have on other steps."""


def _coarsest(module: ModuleOp) -> float:
    """The relative step of the narrowest floats that are computed, of 16 bits; 0 without them."""
    types = {str(element) for element in computed_types(module)}
    steps = {"bf16": 2.0**-8, "f16": 2.0**-11}
    return max((step for name, step in steps.items() if name in types), default=0.0)


def _as_spikes(value: Array, like: Array) -> Array:
    """Zeros and ones as truth values, where the program gives spikes."""
    if like.dtype == np.bool_ and value.dtype.kind == "f" and np.isin(value, (0, 1)).all():
        return value.astype(np.bool_)
    return value


def compare(
    target: str,
    engine: str,
    expected: Sequence[Array],
    actual: Sequence[Array],
    exact: bool,
    size: int | None,
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
) -> Comparison:
    """The differences between two lists of outputs."""
    same_form = len(expected) == len(actual) and all(
        e.shape == a.shape and e.dtype == a.dtype for e, a in zip(expected, actual, strict=True)
    )
    if not same_form:
        nan = float("nan")
        forms = [", ".join(map(form, arrays)) for arrays in (actual, expected)]
        note = f"gives {forms[0]} and not {forms[1]}"
        return Comparison(target, engine, nan, nan, None, False, exact, False, size, note)
    pairs = [(e, a) for e, a in zip(expected, actual, strict=True) if e.size]
    differences = [gaps(e, a) for e, a in pairs]
    max_abs = max((float(gap.max()) for gap in differences), default=0.0)
    max_rel = max((_relative(e, gap) for (e, _), gap in zip(pairs, differences, strict=True)),
                  default=0.0)  # fmt: skip
    bit_exact = all(e.tobytes() == a.tobytes() for e, a in zip(expected, actual, strict=True))
    close = max_abs == 0 or (
        not exact
        and all(
            gap.max() <= atol + rtol * _largest(e)
            for (e, _), gap in zip(pairs, differences, strict=True)
        )
    )
    rows = [(e, a) for e, a in pairs if e.ndim]
    agreement = None
    if rows:
        same = np.concatenate([np.ravel(e.argmax(axis=-1) == a.argmax(axis=-1)) for e, a in rows])
        agreement = float(same.mean())
    return Comparison(target, engine, max_abs, max_rel, agreement, bit_exact, exact, close, size)


def _largest(expected: Array) -> float:
    wide = expected.astype(np.float64)
    return float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))


def _relative(expected: Array, gap: NDArray[np.float64]) -> float:
    scale = np.abs(expected.astype(np.float64))
    nonzero = (scale > 0) & np.isfinite(scale)
    return float((gap[nonzero] / scale[nonzero]).max()) if nonzero.any() else 0.0


def is_integer_program(module: ModuleOp) -> bool:
    """Whether every result is exact by definition: float values are only quantised, dequantised,
    converted, compared or moved, so that all engines must agree bit for bit."""
    for op in module.walk():
        if op.name.split(".")[0] not in ("tensor", "ternary", "spike"):
            continue
        if has(op, BitExact) or isinstance(op, tensor.DequantizeOp):
            continue
        if isinstance(op, spike.AttentionOp | spike.SimulateOp):
            return False  # floats inside
        if any(is_float(dense_type(value)) for value in (*op.operands, *op.results)):
            return False
    return True
