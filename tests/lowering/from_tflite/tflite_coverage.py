"""The table of operators in `docs/tflite_import.md`: what is read, in which arithmetic.

python -m tests.lowering.from_tflite.tflite_coverage docs/tflite_import.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from triton_dsl.lowering.from_tflite import rules_pads, rules_shape
from triton_dsl.lowering.from_tflite.schema import OPERATORS
from triton_dsl.lowering.from_tflite.tflite_operators import INTEGER, REFUSED, RULES

from ..from_onnx.onnx_coverage import written

TABULATED = frozenset(
    {"ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "LOGISTIC", "NEG",
     "RELU_0_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH"}
)  # fmt: skip
"""Functions of one number: integers of 8 bits by a table of all values."""


def arithmetic(kind: str) -> str:
    """In what arithmetic an operator on integers that stand for real numbers is imported."""
    if kind in TABULATED:
        return "table of 256 values"
    if kind in rules_shape.RULES or kind in rules_pads.RULES:
        return "moved as they are"
    return "integers" if kind in INTEGER else "through floats"


def table() -> str:
    """The Markdown that the document has between its marks."""
    groups: dict[str, list[str]] = {}
    for kind in sorted(RULES):
        groups.setdefault(arithmetic(kind), []).append(f"`{kind}`")
    lines = [
        f"{len(RULES)} of the {len(OPERATORS)} operators of the schema have a meaning; on integers "
        "that stand for real numbers:",
        "",
        "| arithmetic | operators |",
        "| --- | --- |",
        *(f"| {name} | {', '.join(kinds)} |" for name, kinds in sorted(groups.items())),
    ]
    reasons: dict[str, list[str]] = {}
    for kind, reason in sorted(REFUSED.items()):
        reasons.setdefault(reason, []).append(f"`{kind}`")
    lines += ["", "| refused | because |", "| --- | --- |"]
    lines += [f"| {', '.join(kinds)} | {reason} |" for reason, kinds in sorted(reasons.items())]
    others = sorted(set(OPERATORS) - set(RULES) - set(REFUSED) - {"CUSTOM", "DELEGATE"})
    plain = [f"`{kind}`" for kind in others if not kind.startswith(("STABLEHLO", "PLACEHOLDER"))]
    lines.append(f"| {', '.join(plain)}, `STABLEHLO_*`, custom operators | they are not known |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Write the table into the document that the command line names."""
    path = Path(arguments[0])
    path.write_text(written(path.read_text("utf-8"), table()), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
