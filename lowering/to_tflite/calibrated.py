"""Integers throughout for a finished graph, on the ranges that `calibrate` recorded.

The range of each activation gives its grid: 8 bits, signed, with a zero point, or 16 without.
Weights are symmetric with a scale a channel, biases int32 or int64. Operators stay in float32,
between `DEQUANTIZE` and `QUANTIZE`, where LiteRT has no integer kernel, where they compute integers
on float kernels already, and where no range of an operand or result is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...ir.errors import LoweringError
from ...passes.calibration.grids import Grid
from ...passes.calibration.ranges import Range
from .fusion import PRODUCTS
from .graph import Array, Element, Graph, Operator, Quantization, Tensor
from .precision import BITS_8, Arithmetic, channel_axis, fitting, quantized_weight

MOVES = (
    "RESHAPE",
    "TRANSPOSE",
    "SLICE",
    "STRIDED_SLICE",
    "SQUEEZE",
    "EXPAND_DIMS",
    "PAD",
    "PADV2",
    "MAX_POOL_2D",
    "AVERAGE_POOL_2D",
    "GATHER",
)
"""Operators whose result takes the grid of their first operand."""

COMPUTED = ("ADD", "SUB", "MUL", "MEAN", "RELU", "RELU6", "CONCATENATION")
"""Operators whose result has a grid of its own."""


def to_integers(
    graph: Graph,
    ranges: Mapping[Tensor, Range],
    types: tuple[Element, Element],
    how: Arithmetic = BITS_8,
) -> None:
    """Make the arithmetic of `graph` that of integers, in place.

    Args:
        graph: a finished graph of floats.
        ranges: of the activations, as the pass `calibrate` recorded them. Operators whose operands
            or results have none stay in float.
        types: of inputs and outputs: FLOAT32, the type of activations, or UINT8 for 8 bits.
        how: which integers.

    Raises:
        LoweringError: an input or output that is to be integer has no range.
    """
    _Integers(graph, ranges, how).rewrite(types)


class _Integers:
    """Rewrites operators in order; a tensor has a float form, an integer form, or both."""

    def __init__(self, graph: Graph, ranges: Mapping[Tensor, Range], how: Arithmetic) -> None:
        self.graph = graph
        self.how = how
        self.ranges = ranges
        self.operators: list[Operator] = []
        self.integers: dict[Tensor, Tensor] = {}
        self.floats: dict[Tensor, Tensor] = {}
        self.producers = graph.producers()

    def rewrite(self, types: tuple[Element, Element]) -> None:
        """The whole graph; inputs and outputs of `types`."""
        graph = self.graph
        graph.inputs = [self._input(tensor, types[0]) for tensor in graph.inputs]
        for op in graph.operators:
            if self._has_kernel(op):
                self._integer_operator(op)
            else:
                self._float_operator(op)
        graph.outputs = [self._output(tensor, types[1]) for tensor in graph.outputs]
        graph.operators = self.operators
        graph.drop_unused()

    def _has_kernel(self, op: Operator) -> bool:
        known = (*PRODUCTS, *MOVES, *COMPUTED, *self.how.fixed)
        floats = op.outputs[0].element is Element.FLOAT32 and op.inputs[0] is not None
        if op.exact or op.kind not in known or not floats or not self._has_ranges(op):
            return False
        if op.kind in PRODUCTS:
            return self._constant_product(op)
        first = op.inputs[0]
        assert first is not None
        if op.kind in MOVES:
            return first.data is None and first.element is Element.FLOAT32
        return all(t is not None and t.element is Element.FLOAT32 for t in _operands(op))

    def _has_ranges(self, op: Operator) -> bool:
        """Whether every grid that the operator needs follows from what was recorded."""
        own = op.kind not in (*MOVES, *self.how.fixed, "CONCATENATION")
        needed = [*_operands(op), *(op.outputs if own else ())]
        return all(
            t is None or t.data is not None or t in self.ranges or t in self.integers
            for t in needed
        )

    def _constant_product(self, op: Operator) -> bool:
        x, weight, bias = op.inputs[:3]
        assert x is not None and weight is not None
        grouped = op.kind == "CONV_2D" and x.shape[3] != weight.shape[3]
        source = self.producers.get(weight)
        stored = weight.data is not None or (source is not None and source.kind == "DEQUANTIZE")
        return stored and not grouped and (bias is None or bias.data is not None)

    def _integer_operator(self, op: Operator) -> None:
        output = op.outputs[0]
        if op.kind in PRODUCTS:
            inputs = self._product_inputs(op)
        else:
            operands = _operands(op)
            inputs = [t if t is None or t not in operands else self._integer(t) for t in op.inputs]
        first = inputs[0]
        assert first is not None
        if op.kind in MOVES:
            grid = first.quantization
        elif op.kind in self.how.fixed:
            scale, zero = self.how.fixed[op.kind]
            grid = Quantization(np.array([scale], np.float32), zero)
        elif op.kind == "CONCATENATION":
            parts = [t for t in inputs if t is not None]
            grid = self._joined(output, parts)
            inputs = [self._on(t, grid) if grid is not t.quantization else t for t in parts]
        else:
            grid = self._grid(output)
        if op.kind == "PADV2":
            inputs[2] = self._fill(inputs[2], first)
        options = dict(op.options)
        if op.kind in ("ADD", "SUB") and self.how.element is Element.INT16:
            options["potScaleInt16"] = False
        result = Tensor(output.name, self.how.element, output.shape, None, grid)
        self.operators.append(Operator(op.kind, list(inputs), [result], options))
        self.integers[output] = result

    def _fill(self, value: Tensor | None, padded: Tensor) -> Tensor:
        """A stored number on the grid of `padded`; -inf is the least level."""
        assert value is not None and value.data is not None and padded.quantization is not None
        levels = self._levels(value.data, padded.quantization)
        return Tensor(value.name, self.how.element, value.shape, levels, padded.quantization)

    def _levels(self, values: Array, grid: Quantization) -> Array:
        bounds = np.iinfo(self.how.element.dtype)
        levels = np.rint(values / grid.scale) + grid.zero_point
        return np.clip(levels, bounds.min, bounds.max).astype(bounds.dtype).reshape(values.shape)

    def _product_inputs(self, op: Operator) -> list[Tensor | None]:
        activation, weight, bias = op.inputs
        assert activation is not None and weight is not None
        x, axis = self._integer(activation), channel_axis(op)
        assert x.quantization is not None
        channels = weight.shape[axis]
        values = np.zeros(channels) if bias is None or bias.data is None else bias.data
        # Sums of 16-bit products take 40 bits and more; the kernels add the bias in 64.
        most = 2**31 - 1 if self.how.bias is Element.INT32 else 2**47
        source = self.producers.get(weight)
        if source is not None:
            stored = source.inputs[0]
        else:  # with weights that are next to nothing, the bias would not fit its type
            least = 2 * np.abs(values) / (float(x.quantization.scale[0]) * most)
            stored = quantized_weight(weight, axis, least=least.astype(np.float32))
        assert stored is not None and stored.quantization is not None
        stored = fitting(op.kind, self.how.element, stored)
        assert stored.quantization is not None
        scale = stored.quantization.scale.astype(np.float64) * x.quantization.scale
        levels = np.clip(np.rint(values / scale), -most, most).astype(self.how.bias.dtype)
        how = Quantization(np.broadcast_to(scale, (channels,)).astype(np.float32))
        name = "bias" if bias is None else bias.name
        return [x, stored, Tensor(name, self.how.bias, (channels,), levels, how)]

    def _float_operator(self, op: Operator) -> None:
        op.inputs = [None if t is None else self._float(t) for t in op.inputs]
        self.operators.append(op)
        self.floats |= {output: output for output in op.outputs}

    def _grid(self, tensor: Tensor) -> Quantization:
        if tensor not in self.ranges:
            raise LoweringError(
                f"no range is recorded for '{tensor.name}': run the pass 'calibrate' right before, "
                "or give calibration=FILE"
            )
        return self._grid_of(self.ranges[tensor])

    def _joined(self, output: Tensor, parts: Sequence[Tensor]) -> Quantization | None:
        """The grid of a concatenation: that of its parts if they have one in common."""
        if not any(_differ(part, parts[0]) for part in parts):
            return parts[0].quantization
        if output in self.ranges:
            return self._grid(output)
        bounds = np.iinfo(self.how.element.dtype)
        ends = np.array([bounds.min, bounds.max])
        grids = [part.quantization for part in parts if part.quantization is not None]
        real = np.concatenate([(ends - grid.zero_point) * grid.scale for grid in grids])
        return self._grid_of(Range(float(real.min()), float(real.max())))

    def _grid_of(self, range: Range) -> Quantization:
        grid = Grid(self.how.element.bits, symmetric=self.how.symmetric).quantization(range)
        return Quantization(np.array([grid.scale], np.float32), grid.zero_point)

    def _integer(self, tensor: Tensor) -> Tensor:
        """The integer form of a float tensor."""
        if tensor not in self.integers:
            if tensor.data is not None:
                low, high = float(tensor.data.min(initial=0)), float(tensor.data.max(initial=0))
                grid = self._grid_of(Range(low, high))
                values = self._levels(tensor.data, grid)
                result = Tensor(tensor.name, self.how.element, tensor.shape, values, grid)
            else:
                name = f"{tensor.name}.{self.how.element.name.lower()}"
                result = Tensor(name, self.how.element, tensor.shape)
                result.quantization = self._grid(tensor)
                self.operators.append(Operator("QUANTIZE", [self._float(tensor)], [result]))
            self.integers[tensor] = result
        return self.integers[tensor]

    def _on(self, tensor: Tensor, grid: Quantization | None) -> Tensor:
        """A tensor of integers on another grid."""
        result = Tensor(f"{tensor.name}.regrid", self.how.element, tensor.shape, None, grid)
        self.operators.append(Operator("QUANTIZE", [tensor], [result]))
        return result

    def _float(self, tensor: Tensor) -> Tensor:
        if tensor not in self.floats and tensor in self.integers:
            result = Tensor(f"{tensor.name}.float", Element.FLOAT32, tensor.shape)
            self.operators.append(Operator("DEQUANTIZE", [self.integers[tensor]], [result]))
            self.floats[tensor] = result
        return self.floats.get(tensor, tensor)

    def _input(self, tensor: Tensor, element: Element) -> Tensor:
        if tensor.element is not Element.FLOAT32 or element is Element.FLOAT32:
            return tensor
        grid = self._grid(tensor)
        self.integers[tensor] = Tensor(tensor.name, self.how.element, tensor.shape, None, grid)
        return self._as(self.integers[tensor], element, is_input=True)

    def _output(self, tensor: Tensor, element: Element) -> Tensor:
        if tensor.element is not Element.FLOAT32 or element is Element.FLOAT32:
            return self._float(tensor)
        return self._as(self._integer(tensor), element, is_input=False)

    def _as(self, tensor: Tensor, element: Element, *, is_input: bool) -> Tensor:
        """A port as `element`: uint8 is int8 shifted by 128."""
        if element is self.how.element:
            return tensor
        assert tensor.quantization is not None
        how = Quantization(tensor.quantization.scale, tensor.quantization.zero_point + 128)
        port = Tensor(f"{tensor.name}.uint8", Element.UINT8, tensor.shape, None, how)
        pair = ([port], [tensor]) if is_input else ([tensor], [port])
        self.operators.append(Operator("QUANTIZE", list(pair[0]), pair[1]))
        return port


def _differ(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors of integers stand on different grids."""
    return tensor.quantization is not other.quantization


def _operands(op: Operator) -> list[Tensor | None]:
    """The inputs that hold activations: the first alone, but for arithmetic and concatenation."""
    return op.inputs if op.kind in ("ADD", "SUB", "MUL", "CONCATENATION") else op.inputs[:1]
