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


OUTSIDE_CORE = {
    "text": "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "lists and optional values": (
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
        "SplitToSequence"
    ),
    "control flow": "If Loop Scan",
    "random numbers": (
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
    ),
    "results whose size depends on values": "Compress NonMaxSuppression NonZero Unique",
    "regions of images, compressed images": "DeformConv ImageDecoder MaxRoiPool RoiAlign",
    "spectra": "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
    "bits and matrices": "BitCast Det",
}
"""Operators of the standard's own domain that networks for inference are not made of, by kind."""

NUMBERS = frozenset(
    {
        *("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "BOOL"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    }
)
"""Element types of the core: those that arrays of the IR have."""


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


def core_tests() -> dict[str, frozenset[str]]:
    """The tests of one node that are made of the core alone, with their operators.

    The core is the standard's own domain without `OUTSIDE_CORE`, on elements of `NUMBERS`.
    """
    import onnx
    from onnx.backend.test.loader import load_model_tests

    outside = {name for names in OUTSIDE_CORE.values() for name in names.split()}
    found: dict[str, frozenset[str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for case in cases:
        model: Any = case.model
        if model is None:
            assert case.model_dir is not None
            model = onnx.ModelProto()
            model.ParseFromString((Path(case.model_dir) / "model.onnx").read_bytes())
        operators = {(node.domain, node.op_type) for node in model.graph.node}
        names = frozenset(name for _, name in operators)
        standard = all(domain in ("", "ai.onnx") for domain, _ in operators)
        values = (*model.graph.input, *model.graph.output)
        if standard and not names & outside and all(map(_is_number, values)):
            found[case.name] = names
    return found


def _is_number(value: Any) -> bool:
    from onnx import TensorProto

    if value.type.WhichOneof("value") != "tensor_type":
        return False
    return TensorProto.DataType.Name(value.type.tensor_type.elem_type) in NUMBERS


def _core_lines(coverage: Coverage) -> list[str]:
    core = core_tests()
    passed = set(coverage.passed["one node"])
    operators = frozenset[str]().union(*core.values())
    refused = coverage.refused["one node"]
    left = {
        name: refused[name][1] if name in refused else "other values"
        for name in sorted(core)
        if name not in passed
    }
    whole = [op for op in operators if not any(op in core[name] for name in left)]
    lines = [
        f"The core: {len(operators)} operators of the standard's own domain, on floats of 16 to 64 "
        f"bits, integers of 8 to 64 and truth values; without "
        f"{'; '.join(sorted(OUTSIDE_CORE))}. Of its {len(core)} tests of one node, "
        f"{len(core) - len(left)} pass; {len(whole)} operators pass all of theirs.",
    ]
    if left:
        lines += ["", "| left of the core | because |", "| --- | --- |"]
        lines += [f"| `{name}` | {reason} |" for name, reason in left.items()]
    return lines


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
    lines += ["", *_core_lines(coverage)]
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
