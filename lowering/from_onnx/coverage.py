"""How much of the standard's own tests the importer passes, as the table of a document.

`python -m triton_dsl.lowering.from_onnx.coverage docs/onnx_import.md` runs all of them and writes
what it finds between the two marks of the document.
"""

from __future__ import annotations

import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...ir.errors import OptionError, UnsupportedError
from .backend import reference_backend

BEGIN = "<!-- begin of what coverage.py writes -->"
END = "<!-- end of what coverage.py writes -->"

GROUPS = {
    "OnnxBackendNodeModelTest": "one node",
    "OnnxBackendSimpleModelTest": "simple models",
    "OnnxBackendPyTorchConvertedModelTest": "models converted from PyTorch",
    "OnnxBackendPyTorchOperatorModelTest": "operators of PyTorch",
}


@dataclass
class Coverage:
    """What running the tests gave.

    Attributes:
        passed: names of tests by group.
        failed: names of tests that gave other values, with the message.
        refused: names of tests by group, with the first refusal: operator and reason.
    """

    passed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, dict[str, tuple[str, str]]] = field(
        default_factory=dict[str, dict[str, tuple[str, str]]]
    )


def standard_tests() -> Iterator[tuple[str, str, Any]]:
    """Every test of the standard for the CPU: its group, its name, and a function that runs it."""
    from onnx.backend.test import BackendTest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = BackendTest(reference_backend(), __name__).test_cases
    for name, group in GROUPS.items():
        case: Any = cases[name]
        for test in unittest.TestLoader().getTestCaseNames(case):
            if test.endswith("_cpu"):
                yield group, test.removesuffix("_cpu"), getattr(case(test), test)


def measure() -> Coverage:
    """Run all tests of the standard but the large models, which it downloads."""
    coverage = Coverage()
    for group, name, test in standard_tests():
        passed, refused = (t.setdefault(group, type(v)()) for t, v in _tables(coverage))
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
    return coverage


def _tables(coverage: Coverage) -> list[tuple[dict[str, Any], Any]]:
    return [(coverage.passed, list[str]()), (coverage.refused, dict[str, tuple[str, str]]())]


def table(coverage: Coverage) -> str:
    """The Markdown that the document has between its marks."""
    import onnx

    lines = [
        f"Tests of the package `onnx` {onnx.__version__}, in the reference interpreter:",
        "",
        "| tests | passed | refused | other values |",
        "| --- | --- | --- | --- |",
    ]
    for group in GROUPS.values():
        passed, refused = coverage.passed[group], coverage.refused[group]
        failed = len(coverage.failed) if group == "one node" else 0
        lines.append(f"| {group} | {len(passed)} | {len(refused)} | {failed} |")
    found = Counter(why for refused in coverage.refused.values() for why in refused.values())
    lines += ["", "| refused | tests | because |", "| --- | --- | --- |"]
    for (operator, reason), count in sorted(found.items()):
        lines.append(f"| {operator} | {count} | {reason} |")
    if coverage.failed:
        shown = ", ".join(f"`{name}`" for name in sorted(coverage.failed))
        lines += ["", f"Other values than the test expects: {shown}."]
    return "\n".join(lines)


def written(document: str, text: str) -> str:
    """`document` with `text` between its marks.

    Raises:
        OptionError: it has no marks.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise OptionError(f"the document has no '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{behind}"


def main(arguments: list[str]) -> None:
    """Write the table into the document that the command line names."""
    path = Path(arguments[0])
    path.write_text(written(path.read_text("utf-8"), table(measure())), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
