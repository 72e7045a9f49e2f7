"""The text that a program came from, for the lines that places name.

A file is shown if it is the model itself, or a text of `.py` or `.tri` in the folder of the model
or below the current one: places of a model of others may name any file of this machine. Not here:
places (`stage`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...lowering.from_onnx.reading import read_model

if TYPE_CHECKING:
    import onnx

_TEXTS = frozenset({".py", ".tri", ".mlir"})
_MOST_BYTES = 4_000_000


def source_text(name: str, model: Path | None) -> list[str]:
    """The lines of a file that places are in; none where it is not shown.

    Of an ONNX model, whose places count nodes, a line is a node.
    """
    path = Path(name)
    try:
        is_model = model is not None and path.resolve() == model.resolve()
        near = [Path.cwd(), *([model.resolve().parent] if model is not None else [])]
        allowed = is_model or any(path.resolve().is_relative_to(folder) for folder in near)
        if not allowed or not path.is_file() or path.stat().st_size > 64 * _MOST_BYTES:
            return []
        if path.suffix in _TEXTS and path.stat().st_size <= _MOST_BYTES:
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
        if path.suffix == ".onnx" and is_model:
            return [_node_text(node) for node in read_model(path)[0].graph.node]
    except OSError:
        pass
    return []


def _node_text(node: onnx.NodeProto) -> str:
    attributes = ", ".join(f"{a.name}={_attribute_text(a)}" for a in node.attribute)
    given = f"{{{attributes}}}" if attributes else ""
    takes, gives = ", ".join(node.input), ", ".join(node.output)
    name = f"  # {node.name}" if node.name else ""
    return f"{gives} = {node.op_type}({takes}){given}{name}"


def _attribute_text(attribute: Any) -> str:
    from onnx.helper import get_attribute_value

    value = get_attribute_value(attribute)
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "replace"))
    text = str(value).replace("\n", " ")
    return text if len(text) <= 80 else f"{text[:79]}…"
