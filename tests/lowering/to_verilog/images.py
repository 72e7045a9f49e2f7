"""Random integer programs on images, as text with the values of their parameters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class ImageProgram:
    """A program while it is being written: each method adds an op to the newest value.

    Attributes:
        shape: of the newest value, without the batch.
        element: its element type.
        name: its SSA name.
        values: of the parameters.
    """

    def __init__(self, seed: int, channels: int, height: int, width: int, element: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape: tuple[int, ...] = (channels, height, width)
        self.element = element
        self.name = "x"
        self.values: dict[str, Array] = {}
        self._argument = self.type()
        self._first = self.shape, element
        self._lines: list[str] = []
        self._count = 0

    def type(self) -> str:
        """Of the newest value."""
        return f"tensor<?x{'x'.join(map(str, self.shape))}x{self.element}>"

    def text(self) -> str:
        """The program, which gives the newest value."""
        body = "\n".join(self._lines)
        return (
            "builtin.module @net {\n"
            f"func.func @forward(%x: {self._argument}) -> {self.type()} {{\n"
            f"{body}\n  func.return %{self.name} : {self.type()}\n}}\n}}"
        )

    def mark(self) -> tuple[str, tuple[int, ...], str]:
        """The newest value, to come back to."""
        return self.name, self.shape, self.element

    def back(self, mark: tuple[str, tuple[int, ...], str]) -> None:
        """Go on from another value."""
        self.name, self.shape, self.element = mark

    def conv(
        self,
        channels: int,
        kernel: tuple[int, int],
        strides: tuple[int, int] = (1, 1),
        padding: tuple[int, int, int, int] = (0, 0, 0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        *,
        fused: bool = False,
        digits: int = 1,
    ) -> None:
        """A convolution; `fused` with bias, relu and requantisation to 4 bits."""
        weight = (channels, self.shape[0] // groups, *kernel)
        high = (1 << digits) - 1
        values = self.rng.integers(-high, high + 1, weight)
        sizes = [
            (n + padding[a] + padding[a + 2] - (kernel[a] - 1) * dilation[a] - 1) // strides[a] + 1
            for a, n in enumerate(self.shape[1:])
        ]
        shape = (channels, *sizes)
        key = self._new("conv")
        self.values[f"{key}.weight"] = values
        geometry = (
            f"strides = array<i64: {strides[0]}, {strides[1]}>, "
            f"padding = array<i64: {', '.join(map(str, padding))}>, "
            f"dilation = array<i64: {dilation[0]}, {dilation[1]}>, groups = {groups} : i64"
        )
        if digits > 1:
            assert not fused
            types = f"({self.type()}, tensor<{'x'.join(map(str, weight))}x{self.element}>)"
            self._put(
                f'%w_{key} = tensor.parameter "{key}.weight" : '
                f"tensor<{'x'.join(map(str, weight))}x{self.element}>"
            )
            line = f"tensor.conv %{self.name}, %w_{key} {{{geometry}}} : {types} -> "
            self._result(key, line, shape, self.element)
            return
        trits = f"tensor<{'x'.join(map(str, weight))}x!ternary.trit>"
        self._put(f'%w_{key} = ternary.parameter "{key}.weight" : {trits}')
        if not fused:
            line = (
                f"ternary.conv %{self.name}, %w_{key} {{{geometry}}} : {self.type()}, {trits} -> "
            )
            self._result(key, line, shape, "i32")
            return
        vector = f"tensor<{channels}xi32>"
        for kind, value in (
            ("bias", self.rng.integers(-20, 21, channels)),
            ("multiplier", self.rng.integers(-200, 400, channels)),
            ("shift", self.rng.integers(6, 11, channels)),
        ):
            self.values[f"{key}.{kind}"] = value
            self._put(f'%{kind}_{key} = tensor.parameter "{key}.{kind}" : {vector}')
        self._put(f"%zero_{key} = tensor.constant dense<1> : tensor<i8>")
        line = (
            f"ternary.conv %{self.name}, %w_{key} bias(%bias_{key} : {vector}) "
            f"multiplier(%multiplier_{key} : {vector}) shift(%shift_{key} : {vector}) "
            f'zero_point(%zero_{key} : tensor<i8>) {{activation = "relu", low = -8 : i64, '
            f"high = 7 : i64, {geometry}}} : {self.type()}, {trits} -> "
        )
        self._result(key, line, shape, "i8")

    def pool(
        self, kernel: tuple[int, int], strides: tuple[int, int], padding: tuple[int, ...]
    ) -> None:
        """Maximum pooling."""
        sizes = [
            (n + padding[a] + padding[a + 2] - kernel[a]) // strides[a] + 1
            for a, n in enumerate(self.shape[1:])
        ]
        line = (
            f"tensor.max_pool %{self.name} {{kernel = array<i64: {kernel[0]}, {kernel[1]}>, "
            f"strides = array<i64: {strides[0]}, {strides[1]}>, "
            f"padding = array<i64: {', '.join(map(str, padding))}>}} : ({self.type()}) -> "
        )
        self._result(self._new("pool"), line, (self.shape[0], *sizes), self.element)

    def pad(
        self,
        low: tuple[int, ...],
        high: tuple[int, ...],
        value: int,
        channels: tuple[int, int] = (0, 0),
    ) -> None:
        """Constant padding, also by whole channels."""
        sides = (channels[0], *low), (channels[1], *high)
        shape = tuple(n + a + b for n, a, b in zip(self.shape, *sides, strict=True))
        below, above = (", ".join(map(str, (0, *side))) for side in sides)
        line = (
            f"tensor.pad_to %{self.name} {{low = array<i64: {below}>, "
            f"high = array<i64: {above}>, value = {value}.0 : f64}} : ({self.type()}) -> "
        )
        self._result(self._new("pad"), line, shape, self.element)

    def unary(self, op: str, element: str | None = None, shape: Any = None, attr: str = "") -> None:
        """An op of one operand."""
        line = f"tensor.{op} %{self.name} {attr} : ({self.type()}) -> "
        key = self._new(op)
        self._result(key, line, self.shape if shape is None else shape, element or self.element)

    def binary(self, op: str, mark: tuple[str, tuple[int, ...], str], attr: str = "") -> None:
        """An op of the newest and another value: `add`, or `concatenate` along the channels."""
        name, shape, element = mark
        other = f"tensor<?x{'x'.join(map(str, shape))}x{element}>"
        line = f"tensor.{op} %{self.name}, %{name} {attr} : ({self.type()}, {other}) -> "
        result = self.shape
        if op == "concatenate":
            result = (self.shape[0] + shape[0], *self.shape[1:])
        self._result(self._new(op), line, result, self.element)

    def matmul(self, outputs: int) -> None:
        """A product with random trits."""
        key = self._new("fc")
        weight = f"tensor<{self.shape[0]}x{outputs}x!ternary.trit>"
        self.values[f"{key}.weight"] = self.rng.integers(-1, 2, (self.shape[0], outputs))
        self._put(f'%w_{key} = ternary.parameter "{key}.weight" : {weight}')
        line = f"ternary.matmul %{self.name}, %w_{key} : {self.type()}, {weight} -> "
        self._result(key, line, (outputs,), "i32")

    def inputs(self, count: int) -> Array:
        """Random images, the first two of the least and the largest numbers."""
        shape, element = self._first
        low, high = {"i8": (-128, 127), "ui8": (0, 255)}[element]
        x = self.rng.integers(low, high + 1, (count, *shape))
        x[0], x[1] = low, high
        return x.astype(np.int8 if low else np.uint8)

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _put(self, line: str) -> None:
        self._lines.append(f"  {line}")

    def _result(self, name: str, line: str, shape: tuple[int, ...], element: str) -> None:
        self.name, self.shape, self.element = name, shape, element
        self._put(f"%{name} = {line}{self.type()}")
