"""How much of the standard's own tests the importer passes, as the table of a document.

`python -m tests.lowering.from_onnx.onnx_coverage docs/onnx_import.md` runs all of them and writes
what it finds between the two marks of the document.
"""

from __future__ import annotations

import sys
import unittest
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from re import sub
from typing import Any

from triton_dsl.ir.errors import UnsupportedError, refuse
from triton_dsl.lowering.from_onnx import rules_selection
from triton_dsl.lowering.from_onnx.onnx_backend import Prepared, reference_backend

BEGIN = "<!-- begin of what the tests write -->"
END = "<!-- end of what the tests write -->"

NODES = "one node"
GROUPS = {
    "OnnxBackendNodeModelTest": NODES,
    "OnnxBackendSimpleModelTest": "simple models",
    "OnnxBackendPyTorchConvertedModelTest": "models converted from PyTorch",
    "OnnxBackendPyTorchOperatorModelTest": "operators of PyTorch",
}

_ATTENTION = (
    "2 of 192 elements differ by 2 steps of f16, which is 0.12 %, and the test allows 0.1 %; the "
    "expected values were rounded to f16 after every step, and lie further from the exact ones"
)
_TRANSFORM = (
    "10 of 200 elements are 0, exactly; the test expects the 0.0000002 that a transform in f32 "
    "left there, within 0.0000001"
)
OTHER_VALUES = {
    "test_attention_4d_causal_fp16": _ATTENTION,
    "test_attention_4d_causal_fp16_expanded": _ATTENTION,
    "test_dft_inverse": _TRANSFORM,
    "test_dft_inverse_opset19": _TRANSFORM,
    "test_loop16_seq_none": (
        "the values are the expected ones; the test takes the scalar in their list for a list, and "
        "fails whatever it gets"
    ),
}
"""Tests whose expected values the reference interpreter does not give, and why."""


@dataclass
class Coverage:
    """What running the tests gave.

    Attributes:
        passed: names of tests by group.
        failed: names of tests that gave other values, with the message.
        refused: names of tests by group, with the first refusal: operator and reason.
        known: passed tests of one node with inputs that became constants, and whether all did.
    """

    passed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, dict[str, tuple[str, str]]] = field(
        default_factory=dict[str, dict[str, tuple[str, str]]]
    )
    known: dict[str, bool] = field(default_factory=dict[str, bool])


def standard_tests(backend: Any) -> Iterator[tuple[str, str, Any]]:
    """Every test of the standard for the CPU: its group, its name, and a function that runs it."""
    from onnx.backend.test import BackendTest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = BackendTest(backend, __name__).test_cases
    for name, group in GROUPS.items():
        case: Any = cases[name]
        for test in unittest.TestLoader().getTestCaseNames(case):
            if test.endswith("_cpu"):
                yield group, test.removesuffix("_cpu"), getattr(case(test), test)


def measure() -> Coverage:
    """Run all tests of the standard but the large models, which it downloads."""
    coverage, prepared = Coverage(), list[Prepared]()
    plain = reference_backend()

    class Watched(plain):
        """Keeps what was prepared last."""

        @classmethod
        def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Any:
            """See `ReferenceBackend`."""
            prepared[:] = [plain.prepare(model, device, **kwargs)]
            return prepared[0]

    for group, name, test in standard_tests(Watched):
        passed = coverage.passed.setdefault(group, [])
        refused = coverage.refused.setdefault(group, {})
        prepared.clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                test()
        except UnsupportedError as error:
            operator, _, reason = error.problems[0]
            refused[name] = (operator, reason)
        except (AssertionError, TypeError) as error:
            coverage.failed[name] = str(error)
        else:
            passed.append(name)
            if group == NODES and prepared and prepared[0].known:
                coverage.known[name] = len(prepared[0].known) == len(prepared[0].inputs)
    return coverage


@cache
def node_cases() -> dict[str, Any]:
    """The tests of one node by name, each an `onnx.backend.test.case.TestCase`."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def operators() -> dict[str, frozenset[str]]:
    """The operators of each test of one node."""
    import onnx

    kinds: dict[str, frozenset[str]] = {}
    for case in node_cases().values():
        model: Any = case.model
        if model is None:
            assert case.model_dir is not None
            model = onnx.ModelProto()
            model.ParseFromString((Path(case.model_dir) / "model.onnx").read_bytes())
        kinds[case.name] = frozenset(node.op_type for node in model.graph.node)
    return kinds


def _summary(coverage: Coverage, made_of: dict[str, frozenset[str]]) -> list[str]:
    """What passes, in words."""
    passed = set(coverage.passed[NODES])
    own = {name: next(iter(kinds)) for name, kinds in made_of.items() if len(kinds) == 1}
    whole = {*own.values()} - {kind for name, kind in own.items() if name not in passed}
    sized = ", ".join(f"`{name}`" for name in _sized_by_values(coverage, made_of))
    return [
        f"{len(passed)} of {len(made_of)} tests of one node pass, over all domains and all element "
        f"types of the standard but text. {len({*own.values()})} operators have tests of their "
        f"own; {len(whole)} of them pass all of these. Every operator of the standard's own domain "
        "is read but those of text, random numbers and compressed images, and "
        "`MaxRoiPool` and `TfIdfVectorizer`.",
        "",
        f"In {len(coverage.known)} of the tests that pass, inputs such as axes and sizes must be "
        "known before the program runs, and became constants of it. In "
        f"{sum(coverage.known.values())} all inputs did, so that the result was computed while the "
        f"model was read; {sized} are among these, whose results have sizes that depend on values.",
    ]


def _sized_by_values(coverage: Coverage, made_of: dict[str, frozenset[str]]) -> list[str]:
    known = frozenset[str]().union(*(made_of[n] for n, whole in coverage.known.items() if whole))
    return sorted(known & set(rules_selection.RULES))


def table(coverage: Coverage) -> str:
    """The Markdown that the document has between its marks."""
    import onnx

    made_of = operators()
    lines = [
        f"Tests of the package `onnx` {onnx.__version__}, in the reference interpreter:",
        "",
        "| tests | passed | refused | other values |",
        "| --- | --- | --- | --- |",
    ]
    for group in GROUPS.values():
        passed, refused = coverage.passed[group], coverage.refused[group]
        failed = len(coverage.failed) if group == NODES else 0
        lines.append(f"| {group} | {len(passed)} | {len(refused)} | {failed} |")
    lines += ["", *_summary(coverage, made_of)]
    reasons: dict[str, list[tuple[str, str]]] = {}
    for refused in coverage.refused.values():
        for name, (operator, reason) in refused.items():
            reason = sub(r"the operator \S+ is", "the operator is", reason)
            reasons.setdefault(reason, []).append((name, operator))
    lines += ["", "| refused because | tests | operators |", "| --- | --- | --- |"]
    for reason, tests in sorted(reasons.items()):
        named: set[str] = set()
        for name, operator in tests:
            named |= made_of.get(name, frozenset()) if operator == "input" else {operator}
        lines.append(f"| {reason} | {len(tests)} | {', '.join(sorted(named))} |")
    if coverage.failed:
        lines += ["", "| other values than the test expects | because |", "| --- | --- |"]
        for name in sorted(coverage.failed):
            lines.append(f"| `{name}` | {OTHER_VALUES.get(name, 'not known')} |")
    return "\n".join(lines)


def written(document: str, text: str) -> str:
    """`document` with `text` between its marks.

    Raises:
        OptionError: it has no marks.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, behind = rest.partition(END)
    refuse(not begin or not end, f"the document has no '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{behind}"


def main(arguments: list[str]) -> None:
    """Write the table into the document that the command line names."""
    path = Path(arguments[0])
    path.write_text(written(path.read_text("utf-8"), table(measure())), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
