"""The model-local function `spike.threefry`: random words from counters, as `spike.encode` draws.

Threefry-2x32-20; see `dialects.spike.threefry`. Words that are added stand as INT32, words that are
rotated as UINT32: ONNX Runtime's kernels are for those.
"""

from __future__ import annotations

from typing import Any

from ...dialects.spike.threefry import PARITY, ROTATIONS, ROUNDS

LEAST_OPSET = 18
"""BitwiseXor came with this version."""


def threefry_nodes(onnx: Any) -> list[Any]:
    """The nodes from the INT64 counters `t` and `j` and the attribute `key` to `words`, UINT32."""
    writer = _Writer(onnx)
    i32, i64, u32 = (getattr(onnx.TensorProto, name) for name in ("INT32", "INT64", "UINT32"))
    key = onnx.helper.make_node("Constant", [], ["key_words"])
    reference = onnx.AttributeProto(
        name="value_ints", ref_attr_name="key", type=onnx.AttributeProto.INTS
    )
    key.attribute.append(reference)
    writer.nodes.append(key)
    wrapped = writer.cast(writer.cast("key_words", u32), i32)
    parts = [writer.add("Gather", wrapped, writer.number(index, i64)) for index in (0, 1)]
    mixed = writer.add("BitwiseXor", *parts)
    schedule = [*parts, writer.add("BitwiseXor", mixed, writer.number(PARITY, i32))]
    x, y = (
        writer.add("Add", writer.cast(writer.cast(counter, u32), i32), word)
        for counter, word in zip(("t", "j"), schedule, strict=False)
    )
    for round in range(ROUNDS):
        x = writer.add("Add", x, y)
        word, rotation = writer.cast(y, u32), ROTATIONS[round % 8]
        turned = writer.add(
            "BitwiseOr",
            writer.shift(word, rotation, "LEFT"),
            writer.shift(word, 32 - rotation, "RIGHT"),
        )
        y = writer.add("BitwiseXor", writer.cast(turned, i32), x)
        if round % 4 == 3:
            injection = round // 4 + 1
            x = writer.add("Add", x, schedule[injection % 3])
            y = writer.add("Add", y, schedule[(injection + 1) % 3])
            y = writer.add("Add", y, writer.number(injection, i32))
    writer.cast(x, u32, "words")
    return writer.nodes


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
        made = self.onnx.helper.make_tensor("value", kind, [], [value])
        return self.add("Constant", value=made)

    def shift(self, word: str, by: int, direction: str) -> str:
        amount = self.number(by, self.onnx.TensorProto.UINT32)
        return self.add("BitShift", word, amount, direction=direction)
