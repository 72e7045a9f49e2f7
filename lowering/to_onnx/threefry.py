"""The model-local function `spike.threefry`: random words from counters, as `spike.encode` draws.

Threefry-2x32-20; see `dialects.spike.threefry`. Words that are added stand as INT32, words that are
rotated as UINT32: ONNX Runtime's kernels are for those.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...dialects.spike.threefry import threefry

LEAST_OPSET = 18
"""BitwiseXor came with this version."""


def threefry_nodes(onnx: Any) -> list[Any]:
    """The nodes from the INT64 counters `t` and `j` and the attribute `key` to `words`, UINT32.

    `key` has the three words of `dialects.spike.threefry.key_schedule`.
    """
    e = _Writer(onnx)
    i32, i64, u32 = (getattr(onnx.TensorProto, name) for name in ("INT32", "INT64", "UINT32"))
    key = onnx.helper.make_node("Constant", [], ["key_words"])
    reference = onnx.AttributeProto(
        name="value_ints", ref_attr_name="key", type=onnx.AttributeProto.INTS
    )
    key.attribute.append(reference)
    e.nodes.append(key)
    wrapped, t, j = (e.cast(e.cast(words, u32), i32) for words in ("key_words", "t", "j"))

    def add(x: str, y: str | int) -> str:
        return e.add("Add", x, y if isinstance(y, str) else e.number(y, i32))

    def rotate(x: str, bits: int) -> str:
        word = e.cast(x, u32)
        parts = e.shift(word, bits, "LEFT"), e.shift(word, 32 - bits, "RIGHT")
        return e.cast(e.add("BitwiseOr", *parts), i32)

    schedule = [e.add("Gather", wrapped, e.number(index, i64)) for index in range(3)]
    words, _ = threefry(schedule, (t, j), add, partial(e.add, "BitwiseXor"), rotate)
    e.cast(words, u32, "words")
    return e.nodes


class _Writer:
    """Writes nodes one after the other, each with an output of its own."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []

    def add(self, op_type: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = out or f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def cast(self, x: str, to: int, out: str = "") -> str:
        return self.add("Cast", x, to=to, out=out)

    def number(self, value: int, kind: int) -> str:
        value_tensor = self.onnx.helper.make_tensor("value", kind, [], [value])
        return self.add("Constant", value=value_tensor)

    def shift(self, word: str, by: int, direction: str) -> str:
        amount = self.number(by, self.onnx.TensorProto.UINT32)
        return self.add("BitShift", word, amount, direction=direction)
