"""Running passes with observers."""

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException, ShrinkException

from triton_dsl.ir.errors import OptionError, ParameterError, PassError, VerifyError
from triton_dsl.ir.instrument import (
    CrashReproducer,
    Instrument,
    PrintIR,
    Statistics,
    Timing,
    VerifyEach,
    reproducer_text,
    run_passes,
)


@dataclass(frozen=True)
class Grow(ModulePass):
    name = "grow"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.body.block.add_op(test.TestOp())


@dataclass(frozen=True)
class Keep(ModulePass):
    name = "keep"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


def failing(error: BaseException) -> ModulePass:
    @dataclass(frozen=True)
    class Fail(ModulePass):
        name = "fail"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            op.attributes["touched"] = StringAttr("yes")
            raise error

    return Fail()


class Log(Instrument):
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def start(self, module: ModuleOp) -> None:
        self.log.append(f"{self.name} start")

    def before(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self.log.append(f"{self.name} before {rest[0].name} of {len(rest)}")

    def after(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self.log.append(f"{self.name} after {rest[0].name}")

    def failed(self, module: ModuleOp, rest: Sequence[ModulePass], error: BaseException) -> None:
        self.log.append(f"{self.name} failed {rest[0].name}: {type(error).__name__}")

    def finish(self, module: ModuleOp) -> None:
        self.log.append(f"{self.name} finish")


def run(*passes: ModulePass, instruments: Sequence[Instrument] = ()) -> ModuleOp:
    module = ModuleOp([])
    run_passes(Context(), module, passes, instruments)
    return module


def test_instruments_nest() -> None:
    log: list[str] = []
    run(Grow(), Keep(), instruments=[Log("a", log), Log("b", log)])
    assert log == [
        "a start", "b start",
        "a before grow of 2", "b before grow of 2", "b after grow", "a after grow",
        "a before keep of 1", "b before keep of 1", "b after keep", "a after keep",
        "a finish", "b finish",
    ]  # fmt: skip


def test_a_failing_pass_ends_the_pipeline() -> None:
    log: list[str] = []
    with pytest.raises(PassError):
        run(failing(KeyError("x")), Grow(), instruments=[Log("a", log)])
    assert log == ["a start", "a before fail of 2", "a failed fail: PassError"]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (PassFailedException("no\nway"), PassError, "pass 'fail': no way"),
        (KeyError("x"), PassError, "pass 'fail' crashed: KeyError: 'x'"),
        (AssertionError(), PassError, "pass 'fail' crashed: AssertionError: "),
        (RecursionError(), PassError, "pass 'fail': the module nests too deeply"),
        (ParameterError("no file"), ParameterError, "pass 'fail': no file"),
        (OptionError("no such rule"), OptionError, "pass 'fail': no such rule"),
        (ShrinkException("x"), ShrinkException, "x"),
    ],
)
def test_errors_name_the_pass(error: BaseException, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        run(failing(error))
    assert str(caught.value) == message


@pytest.mark.parametrize(("each", "calls"), [(True, 3), (False, 1)])
def test_verification(each: bool, calls: int) -> None:
    verified: list[int] = []
    verify: Callable[[ModuleOp], None] = lambda m: verified.append(len(m.ops))  # noqa: E731
    run(Grow(), Grow(), Grow(), instruments=[VerifyEach(verify, each=each)])
    assert len(verified) == calls
    assert verified[-1] == 3


def test_failed_verification_names_the_pass() -> None:
    def verify(module: ModuleOp) -> None:
        raise VerifyError("bad")

    with pytest.raises(VerifyError, match=r"^bad \(after pass 'grow'\)$"):
        run(Grow(), instruments=[VerifyEach(verify)])


def printed(*passes: ModulePass, **options: object) -> list[str]:
    stream = io.StringIO()
    printer = PrintIR(stream=stream, **options)  # pyright: ignore[reportArgumentType]
    with contextlib.suppress(PassError):
        run(*passes, instruments=[printer])
    return [
        line.removeprefix("// -----// IR Dump ").removesuffix(" //----- //")
        for line in stream.getvalue().splitlines()
        if line.startswith("// -----//")
    ]


def test_printing() -> None:
    passes = (Keep(), Grow(), Keep())
    assert printed(*passes) == []
    assert printed(*passes, before=["grow"]) == ["Before Grow (grow)"]
    assert printed(*passes, after=["keep"]) == ["After Keep (keep)"] * 2
    assert printed(*passes, before=None) == [
        "Before Keep (keep)", "Before Grow (grow)", "Before Keep (keep)"
    ]  # fmt: skip
    assert printed(*passes, after=None) == [
        "After Keep (keep)", "After Grow (grow)", "After Keep (keep)"
    ]  # fmt: skip
    assert printed(*passes, on_change=True) == ["After Grow (grow)"]
    assert printed(failing(KeyError("x")), after=None) == ["After Fail Failed (fail)"]


def test_timing() -> None:
    timing = Timing()
    timing.record("Parser", 0.25)
    run(Keep(), Grow(), instruments=[timing])
    assert [name for name, _ in timing.rows] == ["Parser", "keep", "grow"]
    lines = timing.report(1.0).splitlines()
    assert "    0.2500 ( 25.0%)  Parser" in lines
    assert lines[-1] == "    1.0000 (100.0%)  Total"


def test_statistics() -> None:
    statistics = Statistics()
    run(Keep(), Grow(), instruments=[statistics])
    assert statistics.rows == [("keep", 1, 1, {}), ("grow", 1, 2, {"test.op": 1})]
    assert "grow\n  (S) 1 ops before, 2 after (+1)\n  (S) +1 test.op" in statistics.report()


def save(module: ModuleOp, path: Path, to_text: Callable[[ModuleOp], str]) -> None:
    path.write_text(to_text(module))


def test_a_reproducer_holds_the_module_before_the_failing_pass(tmp_path: Path) -> None:
    path = tmp_path / "r.mlir"
    reproducer = CrashReproducer(path, save)
    with pytest.raises(PassError):
        run(Grow(), failing(KeyError("x")), Keep(), instruments=[reproducer])
    text = path.read_text()
    assert "test.op" in text
    assert "touched" not in text
    assert 'pipeline: "builtin.module(fail,keep)"' in text
    assert reproducer.outcome == f"reproducer: triton-opt {path} --run-reproducer"


def test_a_reproducer_that_cannot_be_written_hides_no_error(tmp_path: Path) -> None:
    reproducer = CrashReproducer(tmp_path / "absent" / "r.mlir", save)
    with pytest.raises(PassError, match="crashed: KeyError"):
        run(failing(KeyError("x")), instruments=[reproducer])
    assert reproducer.outcome.startswith("no reproducer was written: ")


def test_no_reproducer_without_a_failure(tmp_path: Path) -> None:
    reproducer = CrashReproducer(tmp_path / "r.mlir", save)
    run(Grow(), instruments=[reproducer])
    assert list(tmp_path.iterdir()) == []
    assert reproducer.outcome == ""


def test_quotes_in_a_reproducer_are_escaped() -> None:
    @dataclass(frozen=True)
    class Text(Keep):
        name = "text"
        value: str = ""

    text = reproducer_text([Text('a "b" \\')])
    assert r'pipeline: "builtin.module(text{value=\"a \\\"b\\\" \\\\\"})"' in text
