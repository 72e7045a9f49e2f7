"""Products with packed trits, of numbers and of spikes: what they read, and their code.

Five trits stand in a byte, in base 3; the functions that read them are in `library.c`. A product
of a row leaves its sums in memory; a convolution goes through the places of its result one by one,
and what follows it is computed there (`fusion`). Not here: other ops (`to_native.program`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, Signedness, f32
from xdsl.ir import Attribute, Operation

from ...dialects import spike, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.ternary.types import is_trit
from ...ir.arrays import Array
from ...passes.analysis.compile_time import defining_literal
from ...runtime.native.abi.sizes import ZERO, Size, product
from ..to_native.linalg.linalg_builder import LinalgBuilder
from ..to_native.program.nests import RefusedError
from ..to_native.program.program import Planner, Program, Step
from ..to_native.program.structured import packed
from ..to_native.program.views import View
from ..to_native.ternary_products import kind_of, window_is_known
from .expressions import c_type
from .library import Library
from .nests import number
from .steps import Behind

TRITS_A_BYTE = 5
_CHUNK = 20
"""Bytes of weights that have tables at once, in products of windows."""
_MANY = 86
"""Outputs from which on a table of all sums of five inputs pays."""
_BYTE, _WORD = (IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 32))
_BASES = {"int8_t": 5 * 128, "uint8_t": 5 * 255}
"""What keeps sums of five bytes from being negative."""
_INPUTS = {"i8": "int8_t", "u8": "uint8_t", "i16": "int16_t", "i32": "int32_t"}
"""Types of inputs by the name of their kind; others are floats."""


def pack(trits: Array) -> NDArray[np.uint8]:
    """Trits [n, k] with five rows in a byte [⌈n / 5⌉, k], the first lowest; 0 behind the end."""
    missing = -len(trits) % TRITS_A_BYTE
    codes = np.pad(trits.astype(np.int64), ((0, missing), (0, 0))) + 1
    powers = 3 ** np.arange(TRITS_A_BYTE)
    groups = codes.reshape(-1, TRITS_A_BYTE, trits.shape[1])
    return np.einsum("gik,i->gk", groups, powers).astype(np.uint8)


class Kernel(NamedTuple):
    """The function of a product: what it takes."""

    name: str
    input: str
    ins: int
    outs: int
    table: Attribute
    entries: int
    types: tuple[tuple[str, str], ...]

    @property
    def places(self) -> int:
        """How many windows it takes at once."""
        return 2 if "pair" in self.name else 1

    def call(self, library: Library, weights: str, x: str, table: str, *sums: str) -> str:
        """The statement that multiplies one row, or windows of as many places as there are sums."""
        name = library.need(self.name, **dict(self.types))
        sizes = f"{self.ins}, {self.outs}"
        return f"{name}({', '.join([weights, x, sizes, table, *sums])});"


def kernel_for(input: str, ins: int, outs: int, *, window: bool = False) -> Kernel:
    """The function for rows of inputs of a type of C, or for windows."""
    base = _BASES.get(input)
    if base is None:
        floats = input == "float"
        table, sums = ("float", "float") if floats else ("uint32_t", "int32_t")
        types = (("INPUT", input), ("TABLE", table), ("SUM", sums))
        kind = f32 if floats else _WORD
        return Kernel("product_wide_INPUT", input, ins, outs, kind, 243, types)
    types = (("INPUT", input), ("BASE", str(base)))
    if window:
        entries = 36 * min(-(-ins // TRITS_A_BYTE), _CHUNK)
        return Kernel("product_pair_INPUT", input, ins, outs, _WORD, entries, types)
    if outs < _MANY:
        return Kernel("product_few_INPUT", input, ins, outs, _WORD, 36, types)
    return Kernel("product_INPUT", input, ins, outs, _WORD, 243, types)


PLACE, IMAGE = "place", "image"
"""The loops of a convolution: over the places of a result, and over images."""


@dataclass
class ProductStep(Step):
    """Products of rows of a matrix with packed trits, or of windows of images.

    Attributes:
        kernel: for a row or a window of a group.
        x: contiguous inputs.
        weights: packed, those of groups one after the other.
        y: the sums; where loops follow, of one place alone.
        table: scratch memory.
        window: of a convolution.
        behind: the loops that follow it.
    """

    kernel: Kernel
    x: View
    weights: View
    y: View
    table: View
    window: Window | None = None
    behind: Behind | None = None

    @property
    def reads(self) -> Sequence[View]:
        """Inputs, weights, and what the loops behind it read."""
        views = [self.x, self.weights]
        if self.behind is not None:
            views += [v for v in self.behind.step.reads if v.buffer is not self.y.buffer]
        return views

    @property
    def writes(self) -> Sequence[View]:
        """The sums, scratch memory, and results."""
        views = [self.y, self.table]
        if self.window is not None:
            views.append(self.window.patch)
        return views if self.behind is None else [*views, *self.behind.step.writes]


@dataclass
class Window:
    """The window of a convolution: [images, groups, channels, height, width] as [rows, columns].

    Attributes:
        patch: scratch memory for the windows of the places that are taken at once.
        image: batch, groups, channels of a group, height, width.
        taps: rows and columns of the window.
        strides, dilation: down and across.
        before: rows and columns of zeros around the image, above and to the left.
        places: rows and columns of the result.
    """

    patch: View
    image: tuple[int, int, int, int, int]
    taps: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    places: tuple[int, int]


def _weights(op: ternary.FusedOp | ternary.MatmulOp | spike.LinearOp) -> Array:
    literal = defining_literal(op.weight)
    values = None if literal is None else constant_value(literal)
    if values is None:
        raise RefusedError("has weights that are computed")
    return values


def _input_type(op: ternary.FusedOp | ternary.MatmulOp) -> str:
    kind = kind_of(tensor_type(op.input).element_type)
    if kind is None:
        raise RefusedError(f"has inputs of {tensor_type(op.input).element_type}")
    return _INPUTS.get(kind.activations, "float")


def linear(program: Program, op: ternary.LinearOp | ternary.MatmulOp) -> None:
    """`ternary.linear` and `ternary.matmul`, with nothing behind the product."""
    trits = _weights(op)
    ins, outs = trits.shape
    x = packed(program, program.view(op.input))
    kernel = kernel_for(_input_type(op), ins, outs)
    element = LinalgBuilder.signless(tensor_type(op.result).element_type)
    y = program.new(element, (*x.sizes[:-1], Size.of(outs)) if x.rank else ())
    program.views[op.result] = y
    if product(y.sizes) == ZERO:
        return
    weights = program.constant(pack(trits), _BYTE)
    table = program.new(kernel.table, [Size.of(kernel.entries)])
    program.steps.append(ProductStep(kernel, x, weights, y, table))


def conv(program: Program, op: ternary.ConvOp) -> None:
    """`ternary.conv`, with nothing behind the product."""
    trits = _weights(op)
    if not window_is_known(op):
        raise RefusedError("has windows that are too large or not known")
    x = packed(program, program.view(op.input))
    groups = op.groups.value.data
    outs, channels, *taps = trits.shape
    batch, _, *image = (number(size) for size in x.sizes)
    places = tensor_type(op.result).get_shape()[2:]
    kernel = kernel_for(_input_type(op), trits[0].size, outs // groups, window=True)
    packed_rows = [pack(rows.T) for rows in trits.reshape(groups, outs // groups, -1)]
    if kernel.places > 1:
        packed_rows = [_by_output(rows) for rows in packed_rows]
    weights = program.constant(np.stack(packed_rows), _BYTE)
    element = LinalgBuilder.signless(tensor_type(op.result).element_type)
    y = program.new(element, [Size.of(n) for n in (batch, outs, *places)])
    program.views[op.result] = y
    if product(y.sizes) == ZERO:
        return
    window = Window(
        program.new(x.element, [Size.of(kernel.places * kernel.ins)]),
        (batch, groups, channels, *_two(image)),
        _two(taps),
        _two(op.strides.get_values()),
        _two(op.dilation.get_values()),
        _two(op.padding.get_values()[: len(taps)], 0),
        _two(places),
    )
    table = program.new(kernel.table, [Size.of(kernel.entries)])
    program.steps.append(ProductStep(kernel, x, weights, y, table, window))


def _by_output(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Packed weights [bytes, outs] in chunks of as many bytes as have tables at once, in which
    those of an output follow each other."""
    chunks = [packed[i : i + _CHUNK].T.reshape(-1) for i in range(0, len(packed), _CHUNK)]
    return np.concatenate(chunks)


def _two(sizes: Sequence[int], missing: int = 1) -> tuple[int, int]:
    """Rows and columns; a signal is an image of one row."""
    rows, columns = (missing, *sizes) if len(sizes) == 1 else sizes
    return rows, columns


@dataclass
class FiredStep(Step):
    """Sums of the weights of inputs that fire, for each row of a train.

    Attributes:
        x: the train, contiguous bytes.
        weights: a row of outputs for each input; five trits in a byte, or numbers.
        y: the sums.
        tables: scratch memory for packed trits.
    """

    x: View
    weights: View
    y: View
    tables: Sequence[View]

    @property
    def reads(self) -> Sequence[View]:
        """Train and weights."""
        return [self.x, self.weights]

    @property
    def writes(self) -> Sequence[View]:
        """Sums and scratch memory."""
        return [self.y, *self.tables]

    def call(self, library: Library, x: str, y: str, weights: str, tables: Sequence[str]) -> str:
        """The statement that adds up one row."""
        ins, outs = number(self.x.sizes[-1]), number(self.y.sizes[-1])
        name = "fired_trits"
        if not tables:
            name = "fired_INPUT"
        types = {"INPUT": c_type(self.weights.element), "SUM": c_type(self.y.element)}
        name = library.need(name, **types)
        return f"{name}({', '.join([weights, x, str(ins), str(outs), *tables, y])});"


def fired(program: Program, op: spike.LinearOp) -> None:
    """`spike.linear` without scale and bias."""
    values = _weights(op)
    outs = values.shape[1]
    x = packed(program, program.view(op.input))
    y = program.new(tensor_type(op.result).element_type, (*x.sizes[:-1], Size.of(outs)))
    program.views[op.result] = y
    if product(y.sizes) == ZERO:
        return
    tables: list[View] = []
    if is_trit(tensor_type(op.weight)):
        weights = program.constant(np.ascontiguousarray(pack(values.T).T), _BYTE)
        entries = (243, -(-outs // TRITS_A_BYTE))
        tables = [program.new(_WORD, [Size.of(n)]) for n in entries]
    else:
        weights = program.constant(values, tensor_type(op.weight).element_type)
    program.steps.append(FiredStep(x, weights, y, tables))


RULES: Mapping[type[Operation], Planner] = {
    ternary.LinearOp: linear,
    ternary.MatmulOp: linear,
    ternary.ConvOp: conv,
    spike.LinearOp: fired,
}
"""For each op the function that plans it."""
