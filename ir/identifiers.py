"""Names: identifiers in Python, ONNX and Verilog of any text, and names that are free."""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import chain, count
from keyword import iskeyword


def identifier(text: str) -> str:
    """`text` as an identifier: other characters become `_`, keywords get one behind."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", text) or "_"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if iskeyword(name) else name


def free_name(wish: str, taken: Container[str], between: str = "_", first: int = 1) -> str:
    """`wish`, or where that is taken the first with a number behind it that is not."""
    numbered = (f"{wish}{between}{number}" for number in count(first))
    return next(name for name in chain([wish], numbered) if name not in taken)
