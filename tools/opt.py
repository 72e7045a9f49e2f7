"""`triton-opt`: read IR, run a pass pipeline, check it, print it.

An xDSL driver with the options of `mlir-opt` that matter to the author of a pass. What an option
does stands in `ir.instrument`, `ir.expectations`, `runtime.equivalence` and
`lowering.module_file`; here they are put together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from pkgutil import resolve_name
from time import perf_counter
from typing import IO, TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import ShrinkException
from xdsl.xdsl_opt_main import xDSLOptMain

from ..dialects.registry import parse_module, verify_module
from ..ir.errors import OptionError, PassError, SourceError, TritonError, VerifyError, did_you_mean
from ..ir.instrument import (
    CrashReproducer,
    Instrument,
    PrintIR,
    Statistics,
    Timing,
    VerifyEach,
    run_passes,
)
from ..ir.pipeline import parse_pipeline, pipeline_text
from ..ir.printing import PrintOptions, module_text
from ..lowering.frontends import BUILT_IN, FrontEnd, get_plugin_front_ends
from ..passes.universe import everything
from .console import error as print_error
from .console import guarded, warn_unsaved
from .opt_arguments import add_arguments, normalise
from .opt_loading import loaded_files, passes_of
from .opt_reading import (
    check_roundtrip,
    decode,
    is_comment,
    with_hint,
    with_source_line,
    without_reproducer,
)

if TYPE_CHECKING:
    from ..lowering.module_file import ModuleFile
    from ..runtime.equivalence import SemanticsCheck

TOOL = "triton-opt"
SEPARATOR = "// -----\n"


class TritonOptMain(xDSLOptMain):
    """xDSL's driver with our dialects, options and messages."""

    version_format: ClassVar[str] = "triton-opt of triton-dsl, built on xdsl {xdsl_version}"

    def __init__(self, arguments: Sequence[str]) -> None:
        self.exit_code = 0
        self._arguments = list(arguments)
        self._first_line = 1
        self._text = ""
        self._timing = Timing()
        self._statistics = Statistics()
        super().__init__("Run passes on IR, check them and print the result.", self._arguments)

    def register_all_dialects(self) -> None:
        for name, getter in everything().all_dialects.items():
            self.ctx.register_dialect(name, getter)

    def register_all_passes(self) -> None:
        self.available_passes.update(everything().all_passes)
        for path in loaded_files(self._arguments):
            self.available_passes.update(passes_of(path, self.available_passes))

    def register_all_targets(self) -> None:
        self.available_targets.update(everything().all_targets)
        self.available_targets["dot"] = lambda: resolve_name(f"{__package__}.explorer.formats:Dot")

    def register_all_frontends(self) -> None:
        self._add_front_ends(BUILT_IN)
        self.available_frontends["mlir"] = self._read_ir

    def _add_front_ends(self, front_ends: Mapping[str, FrontEnd]) -> None:
        for suffix, front_end in front_ends.items():
            self.available_frontends[suffix[1:]] = partial(self._read_model, front_end)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        add_arguments(arg_parser)
        options = arg_parser._option_string_actions  # pyright: ignore[reportPrivateUsage]
        self._arguments[:] = normalise(self._arguments, options, self.available_passes)

    def setup_pipeline(self) -> None:
        self._use_pipeline(self.args.passes)

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        if self.args.input_file == "-":
            self.args.input_file = None
        stream, extension = super().get_input_stream()
        if self.args.frontend is None and extension not in self.available_frontends:
            self._add_front_ends(get_plugin_front_ends())
        return stream, extension if extension in self.available_frontends else "mlir"

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        self._first_line = start_offset + 1
        return super().parse_chunk(chunk, file_extension, start_offset)

    def apply_passes(self, prog: ModuleOp) -> None:
        """Run the pipeline under the instruments that the options ask for."""
        semantics = self._semantics_check()
        reproducer = self._reproducer()
        whole = self._whole_reproducer()
        asked = [whole, reproducer, *self._printers(), semantics, self._verifier()]
        instruments = [instrument for instrument in asked if instrument is not None]
        if self.args.mlir_pass_statistics:
            instruments.append(self._statistics)
        if self.args.time_passes:
            instruments.append(self._timing)
        try:
            run_passes(self.ctx, prog, self.pipeline.passes, instruments)
        finally:
            for written in (whole, reproducer):
                if written is not None and written.outcome:
                    print(f"{TOOL}: note: {written.outcome}", file=sys.stderr)
        if semantics is not None:
            self._report_semantics(semantics)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        if self.args.target == "mlir" and not self.args.syntax_highlight:
            return module_text(prog, self._print_options(), self.ctx.loaded_dialects)
        return super().output_resulting_program(prog)

    def run(self) -> None:
        """Do what the arguments ask for; sets `exit_code`.

        Raises:
            TritonError: anything a user can have caused; nothing has been written to `-o` then.
            OSError: a file cannot be read or written.
        """
        if self._inform():
            return
        if self.args.dump_pass_pipeline:
            count = len(self.pipeline.passes)
            text = pipeline_text(self.pipeline.passes)
            print(f"Pass Manager with {count} passes:\n{text}", file=sys.stderr)
        start = perf_counter()
        try:
            if self.args.output_file is None:
                problems = self._process(None)
                sys.stdout.flush()
            else:
                from ..lowering.module_file import ModuleFile

                with ModuleFile(Path(self.args.output_file)) as output:
                    problems = self._process(output)
        except ShrinkException:
            if not self.args.shrink:
                raise
            print("Success, can shrink")
            return
        finally:
            if self.args.mlir_pass_statistics:
                print(self._statistics.report(), file=sys.stderr)
            if self.args.time_passes:
                as_json = self.args.mlir_output_format == "json"
                report = self._timing.report(perf_counter() - start, as_json=as_json)
                print(report, file=sys.stderr)
        for problem in problems:
            print_error(TOOL, problem)
        if self.args.shrink:
            print("Failure, can't shrink")
        self.exit_code = int(bool(problems) or self.args.shrink)

    def _inform(self) -> bool:
        """Print the information that was asked for, if any."""
        args = self.args
        if not (
            args.list_passes
            or args.show_dialects
            or args.describe_pass is not None
            or args.describe_dialect is not None
        ):
            return False
        from xdsl.universe import Universe

        from . import opt_describe

        # With the passes of --load.
        universe = Universe(
            all_dialects=everything().all_dialects, all_passes=dict(self.available_passes)
        )
        if args.list_passes:
            opt_describe.list_passes(universe, json=args.json)
        elif args.show_dialects:
            opt_describe.show_dialects(universe, json=args.json)
        elif args.describe_pass is not None:
            opt_describe.describe_pass(universe, args.describe_pass, json=args.json)
        else:
            opt_describe.describe_dialect(universe, args.describe_dialect, json=args.json)
        return True

    def _process(self, output: ModuleFile | None) -> list[str]:
        """Parse, transform and print each part of the input; what `--verify-diagnostics` found."""
        chunks, extension = self.prepare_input()
        problems: list[str] = []
        failed = 0
        for index, (chunk, offset) in enumerate(chunks):
            if index and output is None:
                sys.stdout.write(SEPARATOR)
            with chunk:
                if self.args.verify_diagnostics:
                    problems += self._process_checked(chunk, extension, offset, output)
                    continue
                try:
                    self._process_chunk(chunk, extension, offset, output)
                except TritonError as error:
                    if not self.args.split_input_file:
                        raise
                    failed += 1
                    print_error(TOOL, str(error))
        if failed:
            unwritten = "" if output is None else "; nothing is written"
            raise SourceError(f"{failed} part(s) of the input failed{unwritten}")
        return problems

    def _process_chunk(
        self, chunk: IO[bytes], extension: str, offset: int, output: ModuleFile | None
    ) -> None:
        try:
            module = self.parse_chunk(chunk, extension, offset)
        except SourceError as error:
            if not self.args.parsing_diagnostics:
                raise
            module = None
            print(error)
        if module is None:
            if output is not None:
                output.add_text("")
            return
        if not self.args.disable_verify:
            try:
                verify_module(module)
            except VerifyError as error:
                place = (self.get_input_name(), self._text, self._first_line)
                raise VerifyError(with_source_line(str(error), *place)) from None
        if self.args.weights is not None:
            from ..lowering.weights import attach_weights

            attach_weights(module, Path(self.args.weights))
        if self.args.verify_roundtrip:
            with self._timed("Round trip"):
                check_roundtrip(module, self._parse, self.ctx)
        self.apply_passes(module)
        with self._timed("Output"):
            if output is not None:
                output.add(module, self.output_resulting_program)
                return
            text = self.output_resulting_program(module)
        sys.stdout.write(text)
        self._warn_about_unsaved(module)

    def _process_checked(
        self, chunk: IO[bytes], extension: str, offset: int, output: ModuleFile | None
    ) -> list[str]:
        from ..ir.expectations import Reported, check, expectations

        content = chunk.read()
        text = content.decode("utf-8", "replace")
        expected = expectations(text, first_line=offset + 1)
        reported: list[Reported] = []
        try:
            self._process_chunk(BytesIO(content), extension, offset, output)
        except TritonError as error:
            reported.append(Reported.of(str(error)))
        return check(expected, reported, self.get_input_name())

    def _read_ir(self, stream: IO[bytes]) -> ModuleOp:
        text = decode(stream.read(), self.get_input_name(), self._first_line)
        text, pipeline = without_reproducer(text)
        if self.args.run_reproducer:
            if pipeline is None:
                raise SourceError(f"{self.get_input_name()}: error: the file holds no reproducer")
            self._use_pipeline(pipeline)
        self._text = text
        if is_comment(text):
            return ModuleOp([])
        with self._timed("Parser"):
            try:
                return self._parse(text)
            except SourceError as error:
                raise SourceError(with_hint(str(error), self.ctx)) from None

    def _parse(self, text: str) -> ModuleOp:
        return parse_module(
            text,
            self.get_input_name(),
            self.ctx,
            verify=False,
            first_line=self._first_line,
            implicit_module=not self.args.no_implicit_module,
        )

    def _read_model(self, front_end: FrontEnd, stream: IO[bytes]) -> ModuleOp:
        with self._timed("Frontend"):
            if self.args.input_file:
                return front_end.reader()(Path(self.args.input_file))
            if not front_end.reads_text:
                raise OptionError("such a file is read by its path, not from standard input")
            text = decode(stream.read(), self.get_input_name(), self._first_line)
            return front_end.reader()(text)

    def _use_pipeline(self, text: str) -> None:
        passes = parse_pipeline(text, self.available_passes)
        self.pipeline = PassPipeline(passes[: self._passes_to_run([p.name for p in passes])])

    def _passes_to_run(self, names: Sequence[str]) -> int | None:
        last: str | None = self.args.stop_after
        if last is None:
            return None
        if last.isascii() and last.isdigit():
            if int(last[:9]) > len(names):
                raise OptionError(f"--stop-after {last}: the pipeline has {len(names)} passes")
            return int(last)
        if last not in names:
            hint = did_you_mean(last, names)
            raise OptionError(f"--stop-after {last}: no such pass in the pipeline{hint}")
        return names.index(last) + 1

    def _print_options(self) -> PrintOptions:
        return PrintOptions(
            generic=self.args.print_op_generic,
            locations=self.args.print_debuginfo,
            properties_as_attributes=self.args.print_no_properties,
            elide_above=self.args.mlir_elide_elementsattrs_if_larger,
            upstream_names=self.args.upstream_names,
        )

    def _printers(self) -> list[PrintIR]:
        args, options = self.args, self._print_options()
        for name in (*args.mlir_print_ir_before, *args.mlir_print_ir_after):
            if name not in self.available_passes:
                raise OptionError(
                    f"unknown pass '{name}'{did_you_mean(name, everything().all_passes)}"
                )
        every_after = args.mlir_print_ir_after_all or args.print_between_passes
        before = None if args.mlir_print_ir_before_all else args.mlir_print_ir_before
        after = None if every_after else args.mlir_print_ir_after
        changed, failure = args.mlir_print_ir_after_change, args.mlir_print_ir_after_failure
        tree = args.mlir_print_ir_tree_dir
        if before == [] and after == [] and not changed and not failure:
            if tree is None:
                return []
            after = None
        folder = None if tree is None else Path(tree)
        return [PrintIR(before=before, after=after, on_change=changed, on_failure=failure,
                        options=options, folder=folder)]  # fmt: skip

    def _verifier(self) -> Instrument | None:
        if self.args.disable_verify:
            return None
        return VerifyEach(verify_module, each=self.args.verify_each)

    def _reproducer(self) -> CrashReproducer | None:
        if self.args.pass_pipeline_crash_reproducer is None:
            return None
        from ..lowering.module_file import save_module

        path = Path(self.args.pass_pipeline_crash_reproducer)
        local = self.args.local_reproducer
        return CrashReproducer(path, save_module, verify_each=self.args.verify_each, local=local)

    def _whole_reproducer(self) -> CrashReproducer | None:
        if self.args.generate_reproducer is None:
            return None
        from ..lowering.module_file import save_module

        path = Path(self.args.generate_reproducer)
        return CrashReproducer(path, save_module, verify_each=self.args.verify_each, always=True)

    def _semantics_check(self) -> SemanticsCheck | None:
        if self.args.verify_semantics is None:
            return None
        from ..runtime.equivalence import SemanticsCheck, Tolerance

        loose: float | None = self.args.approximate_tolerance
        return SemanticsCheck(
            samples=self.args.verify_semantics,
            seed=self.args.semantics_seed,
            tolerance=Tolerance(self.args.semantics_tolerance),
            approximate_within=None if loose is None else Tolerance(loose),
        )

    def _report_semantics(self, semantics: SemanticsCheck) -> None:
        for name, reason in semantics.skipped.items():
            print(f"{TOOL}: warning: semantics of '{name}' not checked: {reason}", file=sys.stderr)
        for note in semantics.notes:
            print(f"{TOOL}: note: {note}", file=sys.stderr)
        if self.pipeline.passes and not semantics.checked:
            raise PassError("--verify-semantics could not run any function of the module")

    def _warn_about_unsaved(self, module: ModuleOp) -> None:
        if "tensor.parameters" not in module.attributes:
            return
        from ..lowering.module_file import unsaved_entries

        warn_unsaved(TOOL, len(unsaved_entries(module)))

    @contextmanager
    def _timed(self, name: str) -> Generator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self._timing.record(name, perf_counter() - start)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one message, never a traceback."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    with _restored_globals():
        return guarded(
            TOOL,
            lambda: _run(arguments),
            debug="--debug" in arguments,
            as_json="--json" in arguments,
        )


def _run(arguments: list[str]) -> int:
    try:
        driver = TritonOptMain(arguments)
    except SystemExit as done:  # how argparse ends: help, version, wrong usage
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    driver.run()
    return driver.exit_code


@contextmanager
def _restored_globals() -> Generator[None]:
    """Undo what xDSL's options change for the whole process."""
    from xdsl.ir import Attribute
    from xdsl.utils.diagnostic import Diagnostic

    verify: Callable[[Attribute], None] = Attribute.__post_init__
    colored = Diagnostic.colored
    try:
        yield
    finally:
        Attribute.__post_init__ = verify
        Diagnostic.colored = colored


if __name__ == "__main__":
    sys.exit(main())
