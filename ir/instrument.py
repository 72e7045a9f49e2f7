"""Running passes with observers: what happens before, after and when a pass fails.

An `Instrument` sees each pass; `run_passes` drives them. Instruments that only need text and time
stand here; the one that compares what a module computes is `runtime.equivalence`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from time import perf_counter
from typing import TextIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, ShrinkException

from .errors import PassError, TritonError
from .pipeline import pipeline_text
from .printing import PrintOptions, module_text
from .progress import tracked


class Instrument:
    """An observer of a pipeline; every method does nothing by default.

    An exception that a method raises ends the pipeline. `rest` are the passes from the one in
    question to the last.
    """

    def start(self, module: ModuleOp) -> None:
        """Before the first pass."""

    def before(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        """Before the pass `rest[0]`."""

    def after(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        """After the pass `rest[0]`."""

    def failed(self, module: ModuleOp, rest: Sequence[ModulePass], error: BaseException) -> None:
        """When the pass `rest[0]`, or an instrument after it, raised `error`."""

    def finish(self, module: ModuleOp) -> None:
        """After the last pass."""


def run_passes(
    ctx: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    instruments: Sequence[Instrument] = (),
) -> None:
    """Apply `passes` in order, calling `instruments` around each.

    `before` is called in the order of the instruments, `after` and `failed` in the opposite order.

    Raises:
        TritonError: what a pass or an instrument refused, with the name of the pass.
        PassError: a pass failed in any other way.
    """
    for instrument in instruments:
        instrument.start(module)
    for index, current in enumerate(tracked(passes, "Pass", shown=False, name=lambda p: p.name)):
        rest = passes[index:]
        try:
            for instrument in instruments:
                instrument.before(module, rest)
            _apply(ctx, module, current)
            for instrument in reversed(instruments):
                instrument.after(module, rest)
        except Exception as error:
            for instrument in reversed(instruments):
                instrument.failed(module, rest, error)
            raise
    for instrument in instruments:
        instrument.finish(module)


def _apply(ctx: Context, module: ModuleOp, current: ModulePass) -> None:
    try:
        current.apply(ctx, module)
    except ShrinkException:
        raise
    except TritonError as error:
        error.args = (f"pass '{current.name}': {error}", *error.args[1:])
        raise
    except DiagnosticException as error:
        raise PassError(f"pass '{current.name}': {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise PassError(f"pass '{current.name}': the module nests too deeply") from error
    except Exception as error:
        reason = " ".join(str(error).split())
        raise PassError(
            f"pass '{current.name}' crashed: {type(error).__name__}: {reason}"
        ) from error


class VerifyEach(Instrument):
    """Verifies the module after each pass, or after the last one alone."""

    def __init__(self, verify: Callable[[ModuleOp], None], *, each: bool = True) -> None:
        self._verify = verify
        self._each = each

    def after(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        if not self._each and len(rest) > 1:
            return
        try:
            self._verify(module)
        except TritonError as error:
            error.args = (f"{error} (after pass '{rest[0].name}')", *error.args[1:])
            raise


class PrintIR(Instrument):
    """Prints the module around passes, under MLIR's headings.

    Args:
        before: names of passes before which to print; `None` for all.
        after: names of passes after which to print; `None` for all.
        on_change: print after a pass only if the text changed.
        on_failure: print after a pass that failed.
        options: how to print.
        stream: where to; standard error by default.
        folder: where to instead, in files `builtin_module_NAME/INDEX_PASS.mlir`.
    """

    def __init__(
        self,
        *,
        before: Collection[str] | None = (),
        after: Collection[str] | None = (),
        on_change: bool = False,
        on_failure: bool = False,
        options: PrintOptions | None = None,
        stream: TextIO | None = None,
        folder: Path | None = None,
    ) -> None:
        self._before = before
        self._after = after
        self._on_change = on_change
        self._options = options
        self._on_failure = on_failure
        self._stream = stream
        self._folder = folder
        self._index = -1
        self._last = ""

    def start(self, module: ModuleOp) -> None:
        name = "no-symbol-name" if module.sym_name is None else module.sym_name.data
        self._module = re.sub(r"[^\w.-]", "_", name)
        self._index = -1
        self._last = module_text(module, self._options) if self._on_change else ""

    def before(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self._index += 1
        if self._before is None or rest[0].name in self._before:
            self._print("Before", rest[0], module_text(module, self._options))

    def after(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        if not (self._after is None or rest[0].name in self._after or self._on_change):
            return
        text = module_text(module, self._options)
        if not self._on_change or text != self._last:
            self._print("After", rest[0], text)
        self._last = text

    def failed(self, module: ModuleOp, rest: Sequence[ModulePass], error: BaseException) -> None:
        if self._on_failure or self._after is None or rest[0].name in self._after:
            self._print("After", rest[0], module_text(module, self._options), " Failed")

    def _print(self, when: str, current: ModulePass, text: str, suffix: str = "") -> None:
        heading = f"// -----// IR Dump {when} {type(current).__name__}{suffix} ({current.name})"
        if self._folder is None:
            print(f"{heading} //----- //\n{text}", file=self._stream or sys.stderr)
            return
        folder = self._folder / f"builtin_module_{self._module}"
        folder.mkdir(parents=True, exist_ok=True)
        mark = {"Before": ".before", "After": ""}[when] + suffix.strip().lower()
        path = folder / f"{self._index}_{current.name}{mark}.mlir"
        path.write_text(f"{heading} //----- //\n{text}", encoding="utf-8")


class Timing(Instrument):
    """Wall-clock seconds of each pass and of what else is `record`ed, as MLIR reports them."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float]] = []
        self._start = 0.0

    def record(self, name: str, seconds: float) -> None:
        """Count `seconds` for a step that is not a pass."""
        self.rows.append((name, seconds))

    def before(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self._start = perf_counter()

    def after(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self.record(rest[0].name, perf_counter() - self._start)

    def report(self, total: float, *, as_json: bool = False) -> str:
        """The table, or MLIR's JSON; `total` seconds include what no row names."""
        rows = [*self.rows, ("Rest", max(total - sum(s for _, s in self.rows), 0.0))]
        if as_json:
            entries = [
                {"wall": {"duration": s, "percentage": 100 * s / total if total else 0.0},
                 "name": name}
                for name, s in [*rows, ("Total", total)]
            ]  # fmt: skip
            return json.dumps(entries, indent=1)
        rule = f"===-{'-' * 72}-==="
        lines = [rule, "... Execution time report ...".center(80).rstrip(), rule]
        lines += [f"  Total Execution Time: {total:.4f} seconds", ""]
        lines.append("  ----Wall Time----  ----Name----")
        for name, seconds in [*rows, ("Total", total)]:
            share = 100 * seconds / total if total else 0.0
            lines.append(f"  {seconds:8.4f} ({share:5.1f}%)  {name}")
        return "\n".join(lines)


class Statistics(Instrument):
    """Counts the ops before and after each pass, by name."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int, dict[str, int]]] = []
        """For each pass: its name, ops before, ops after, and the differences by op name."""
        self._counts = Counter[str]()

    def before(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self._counts = Counter(op.name for op in module.walk())

    def after(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        counts = Counter(op.name for op in module.walk())
        names = sorted({*counts, *self._counts})
        changes = {n: d for n in names if (d := counts[n] - self._counts[n])}
        self.rows.append((rest[0].name, self._counts.total(), counts.total(), changes))

    def report(self) -> str:
        """The table."""
        rule = f"===-{'-' * 72}-==="
        lines = [rule, "... Pass statistics report ...".center(80).rstrip(), rule]
        for name, before, after, changes in self.rows:
            lines.append(f"{name}\n  (S) {before} ops before, {after} after ({after - before:+d})")
            lines += [f"  (S) {change:+d} {op}" for op, change in changes.items()]
        return "\n".join(lines)


class CrashReproducer(Instrument):
    """Saves the module as it was before a failing pass, with the pipeline that is left.

    Args:
        path: the file to write.
        save: writes a module and its parameters: `save(module, path, to_text)`.
        local: keep the failing pass alone of the pipeline.
        always: write before the first pass too, so that there is a file without a failure.
    """

    def __init__(
        self,
        path: Path,
        save: Callable[[ModuleOp, Path, Callable[[ModuleOp], str]], None],
        *,
        verify_each: bool = True,
        local: bool = False,
        always: bool = False,
    ) -> None:
        self._local = local
        self._always = always
        self.path = path
        self.outcome = ""
        """What became of the file, for the user; empty while no pass has failed."""
        self._save = save
        self._verify_each = verify_each
        self._module: ModuleOp | None = None

    def before(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        if not self._always:
            self._module = module.clone()
        elif not self.outcome:
            self._write(module, rest)

    def failed(self, module: ModuleOp, rest: Sequence[ModulePass], error: BaseException) -> None:
        if self._module is not None:
            self._write(self._module, rest[:1] if self._local else rest)

    def _write(self, module: ModuleOp, passes: Sequence[ModulePass]) -> None:
        resources = reproducer_text(passes, verify_each=self._verify_each)
        options = PrintOptions(generic=True)
        try:
            self._save(module, self.path, lambda m: module_text(m, options) + resources)
        except (OSError, TritonError) as problem:
            self.outcome = f"no reproducer was written: {problem}"
        else:
            self.outcome = f"reproducer: triton-opt {self.path} --run-reproducer"


def reproducer_text(passes: Sequence[ModulePass], *, verify_each: bool = True) -> str:
    """MLIR's external resource that holds the pipeline of a reproducer."""
    pipeline = pipeline_text(passes).replace("\\", "\\\\").replace('"', '\\"')
    return (
        "\n{-#\n  external_resources: {\n    mlir_reproducer: {\n"
        f'      pipeline: "{pipeline}",\n'
        "      disable_threading: true,\n"
        f"      verify_each: {str(verify_each).lower()}\n    }}\n  }}\n#-}}\n"
    )
