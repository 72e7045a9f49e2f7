"""Integers for a finished graph, on ranges from samples: pairs of Quantize and Dequantize.

ONNX Runtime joins an operator between `DequantizeLinear` and `QuantizeLinear` to its integer form
(`QLinearConv`, `MatMulIntegerToFloat`, `QLinearAdd` …). So pairs stand where that is possible, and
nowhere else: in front of products with stored weights, behind convolutions, around what has
integers on all sides already (sums behind convolutions, pools). The rest stays in float.
Activations are UINT8 with a zero point, which the integer kernels of x86 want; weights symmetric,
with a scale a channel, in the type that `byte_weights` chooses; biases INT32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ...passes.calibration.grids import Grid
from ...passes.calibration.ranges import Range
from ..integer_weights import symmetric
from .byte_weights import restore, store
from .graph import Array, AttributeValue, Element, Graph, Node

COMPUTED = ("Add", "Mul", "AveragePool", "GlobalAveragePool", "Concat")
"""Operators with an integer kernel that has a grid for its result."""

MOVES = ("MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice")
"""Operators whose result has the grid of their first operand."""

CLAMPS = ("Relu", "Clip")
"""Operators that the runtime drops in front of a `QuantizeLinear` that clamps as they do."""


def quantize_graph(
    graph: Graph, ranges: Mapping[str, Range], matrices: Collection[str], bits: int
) -> dict[str, str]:
    """Put pairs into `graph`; what results are called now, where that changed.

    Args:
        graph: a finished graph without outputs yet.
        ranges: the range of values, by name.
        matrices: the values that have two axes.
        bits: of weights.
    """
    return _Pairs(graph, ranges, matrices, bits).write()


class _Pairs:
    """Writes the nodes of a graph again, in order."""

    def __init__(
        self, graph: Graph, ranges: Mapping[str, Range], matrices: Collection[str], bits: int
    ) -> None:
        self.graph = graph
        self.ranges = dict(ranges)
        self.matrices = matrices
        self.bits = bits
        self.grids: dict[str, tuple[str, str]] = {}
        self.restored: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.weights: dict[tuple[str, int], str] = {}
        self.clamped: set[str] = set()
        self.products: dict[str, tuple[str, str]] = {}
        self.uses = Counter(name for node in graph.nodes for name in node.inputs)
        self.readers = {name: node for node in graph.nodes for name in node.inputs}
        self.makers = {name: node for node in graph.nodes for name in node.outputs}

    def write(self) -> dict[str, str]:
        nodes, self.graph.nodes = self.graph.nodes, []
        for node in nodes:
            self._node(node)
        return self.results

    def _node(self, node: Node) -> None:
        standard = node.domain == "" and node.body is None and len(node.outputs) == 1
        floats = standard and self.graph.elements[node.outputs[0]] is Element.FLOAT
        if floats and node.op_type == "Conv" and self._is_product(node):
            self._convolution(node)
        elif floats and node.op_type == "MatMul" and self._is_product(node):
            weight = self._weight(node, 1)
            self.products[node.outputs[0]] = (node.inputs[0], weight)
            self._keep(node, [self._pair(node.inputs[0]), weight])
        elif floats and node.op_type == "Add" and self._is_bias(node):
            product, bias = node.inputs
            self._keep(node, [product, self._bias(bias, *self.products[product])])
        elif floats and node.op_type in COMPUTED and self._is_computed(node):
            self._keep(node, [self._pair(name) for name in node.inputs])
            self._behind(node)
        elif floats and node.op_type in MOVES and node.inputs[0] in self.grids:
            self._keep(node, [self._pair(node.inputs[0]), *node.inputs[1:]])
            self.grids[node.outputs[0]] = self.grids[node.inputs[0]]
            self.results[node.outputs[0]] = self._pair(node.outputs[0])
        elif floats and node.op_type in CLAMPS and node.inputs[0] in self.clamped:
            self._keep(node, list(node.inputs))
            self._behind(node)
        else:
            self._keep(node, [self.results.get(name, name) for name in node.inputs])

    def _keep(self, node: Node, inputs: list[str]) -> None:
        for name in node.reads() & self.results.keys() if node.body is not None else ():
            node.rename(name, self.results[name])
        node.inputs = inputs
        self.graph.nodes.append(node)

    # What can be an integer operator.

    def _is_product(self, node: Node) -> bool:
        """Whether a product has an activation with a range, and a weight that is stored."""
        x, weight = node.inputs[:2]
        maker = self.makers.get(weight)
        trits = maker is not None and maker.op_type == "DequantizeLinear"
        stored = weight in self.graph.initializers and self.graph.initializers[weight].ndim >= 2
        return (x in self.grids or x in self.ranges) and (trits or stored) and self._fits(node)

    def _fits(self, node: Node) -> bool:
        """Whether a convolution's result has a range, and its bias is stored."""
        if node.op_type != "Conv":
            return self.graph.initializers.get(node.inputs[1], np.zeros((1, 1))).ndim == 2
        bias = node.inputs[2:]
        return self._clamp(node) is not None and all(n in self.graph.initializers for n in bias)

    def _is_bias(self, node: Node) -> bool:
        """Whether a stored vector is added to a product of matrices, and to nothing else.

        ONNX Runtime makes one `Gemm` of both before it looks for integers.
        """
        product, bias = node.inputs
        stored = self.graph.initializers.get(bias)
        known = product in self.products and self.products[product][0] in self.matrices
        return known and self.uses[product] == 1 and stored is not None and stored.ndim == 1

    def _is_computed(self, node: Node) -> bool:
        """Whether all operands are on grids already, and the result has a range."""
        if not all(name in self.grids for name in node.inputs):
            return False
        out = node.outputs[0]
        if node.op_type.endswith("Pool") and out not in self.ranges:
            if node.inputs[0] not in self.ranges:
                return False
            self.ranges[out] = self.ranges[node.inputs[0]]
        return self._clamp(node) is not None

    def _clamp(self, node: Node) -> str | None:
        """What is quantised behind a node: its result, or that of the clamp that reads it alone."""
        out = node.outputs[0]
        reader = self.readers.get(out)
        if reader is not None and self.uses[out] == 1 and reader.op_type in CLAMPS:
            return reader.outputs[0] if reader.outputs[0] in self.ranges else None
        return out if out in self.ranges else None

    def _behind(self, node: Node) -> None:
        """A pair behind a node, or behind the clamp that follows it."""
        out = node.outputs[0]
        if self._clamp(node) == out:
            self.results[out] = self._pair(out)
        else:
            self.clamped.add(out)

    # The nodes.

    def _convolution(self, node: Node) -> None:
        x = node.inputs[0]
        inputs = [self._pair(x), self._weight(node, 0)]
        if len(node.inputs) > 2:
            inputs.append(self._bias(node.inputs[2], x, inputs[1]))
        self._keep(node, inputs)
        self._behind(node)

    def _pair(self, name: str) -> str:
        """Floats put on their grid and taken back; once for each tensor."""
        if name not in self.restored:
            scale, zero = self._grid(name)
            levels = self._add("QuantizeLinear", [name, scale, zero], Element.UINT8, name, "levels")
            inputs = [levels, scale, zero]
            restored = self._add("DequantizeLinear", inputs, Element.FLOAT, name, "restored")
            self.restored[name] = restored
            self.grids[restored] = self.grids[name]
            self.restored[restored] = restored
        return self.restored[name]

    def _grid(self, name: str) -> tuple[str, str]:
        """The names of scale and zero point."""
        if name not in self.grids:
            grid = Grid(8, symmetric=False).quantization(self.ranges[name])
            zero = np.array(grid.zero_point + 128, np.uint8)
            self.grids[name] = (
                self.graph.add_constant(np.array(grid.scale, np.float32), f"{name}.scale"),
                self.graph.add_constant(zero, f"{name}.zero_point"),
            )
        return self.grids[name]

    def _weight(self, node: Node, axis: int) -> str:
        """A stored weight as integers and their `DequantizeLinear`; trits are that already."""
        name = node.inputs[1]
        if name not in self.graph.initializers:
            return name
        if (name, axis) not in self.weights:
            least = self._least(node)
            levels, scale = symmetric(self.graph.initializers[name], axis, self.bits, least)
            stored = store(self.graph, name, levels, axis)
            factors = (self.graph.add_constant(scale, f"{name}.scale"), scale.shape)
            restored = restore(self.graph, stored, factors, axis, f"{name}.restored")
            self.weights[name, axis] = restored
        return self.weights[name, axis]

    def _least(self, node: Node) -> Array:
        """The scales of weights at which the bias of a product fits INT32.

        ONNX Runtime makes integers of a bias behind a product, and lets them overflow.
        """
        reader = self.readers.get(node.outputs[0])
        added = reader.inputs if reader is not None and reader.op_type == "Add" else []
        known = (self.graph.initializers.get(name) for name in (*node.inputs[2:], *added))
        bias = next((array for array in known if array is not None and array.ndim == 1), None)
        if bias is None:
            return np.zeros((), np.float32)
        step = float(self.graph.initializers[self._grid(node.inputs[0])[0]])
        most = np.iinfo(np.int32).max
        return (2 * np.abs(bias.astype(np.float64)) / (step * most)).astype(np.float32)

    def _bias(self, name: str, x: str, weight: str) -> str:
        """A bias as INT32, with the product of both scales; in floats where it has no room."""
        maker = next(node for node in self.graph.nodes if weight in node.outputs)
        weight_scale = self.graph.initializers[maker.inputs[1]]
        bias: Array = self.graph.initializers[name]
        step = self.graph.initializers[self._grid(x)[0]].astype(np.float64)
        scale = np.broadcast_to(step * weight_scale, bias.shape).astype(np.float32)
        scale = np.where(scale > 0, scale, np.float32(1e-30))
        most = np.iinfo(np.int32).max
        wide = np.rint(bias / scale.astype(np.float64))
        if np.abs(wide).max(initial=0) > most:
            return name
        levels = wide.astype(np.int32)
        inputs = [
            self.graph.add_initializer(f"{name}.levels", levels),
            self.graph.add_constant(scale, f"{name}.scale"),
            self.graph.add_constant(np.zeros(bias.shape, np.int32), "bias_zero_points"),
        ]
        return self._add("DequantizeLinear", inputs, Element.FLOAT, name, "restored", axis=0)

    def _add(
        self,
        op_type: str,
        inputs: Sequence[str],
        element: Element,
        name: str,
        what: str,
        **attributes: AttributeValue,
    ) -> str:
        wish = f"{name}.{what}"
        return self.graph.add_node(op_type, inputs, [element], [wish], attributes)[0]
