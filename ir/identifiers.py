"""Any text as a name: an identifier in Python, ONNX and Verilog."""

from __future__ import annotations

import re
from keyword import iskeyword


def identifier(text: str) -> str:
    """`text` as an identifier: other characters become `_`, keywords get one behind."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", text) or "_"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if iskeyword(name) else name
