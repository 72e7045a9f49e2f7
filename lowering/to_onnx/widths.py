"""Channels of convolutions of bytes, in the multiples that ONNX Runtime has its quick kernels for.

`MlasConvSym` reads images without copying every window first, and its depthwise kernel takes whole
vectors, where a pixel has a multiple of 4 channels in front and of 16 behind; else a convolution
takes up to twice as long. So tensors between convolutions with INT8 weights get channels of zero
weights: each holds its zero point, which nobody reads with another weight than 0. Results are the
same. Not here: layouts, which the runtime chooses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .graph import DOMAIN, Element, Graph, Node

BEHIND, BEFORE = 16, 4
"""Multiples of channels that a convolution gives and takes."""

LEAST = 8
"""So many channels at least are widened where no depthwise convolution gains by it."""

MOST_GROWTH = 16
"""Weights of the file may grow by their part of this, or by `ALLOWED` bytes."""

ALLOWED = 4096

KERNELS = {("", "QLinearConv"): 8, (DOMAIN, "int8.conv"): 7}
"""Operators, and where their bias stands."""


@dataclass(frozen=True)
class _Conv:
    """A convolution with INT8 weights that the file holds."""

    graph: Graph
    node: Node

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weights, [out, in of a group, …]."""
        return self.graph.initializers[self.node.inputs[3]].shape

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is a group."""
        return self.node.attributes["group"] == self.shape[0] > 1 == self.shape[1]

    @property
    def is_window(self) -> bool:
        """Whether it sees more than a pixel."""
        return self.shape[2:] != (1, 1)

    def widen(self, axis: int, size: int) -> None:
        """Append channels of zeros that it gives (axis 0) or takes (axis 1)."""
        more = size - self.shape[axis]
        self._append(3, axis, more, 0)
        if axis:
            return
        self._append(4, 0, more, 1)
        if len(self.node.inputs) > (bias := KERNELS[self.node.domain, self.node.op_type]):
            self._append(bias, 0, more, 0)
        if self.node.attributes["group"] != 1:
            self.node.attributes["group"] = size

    def _append(self, index: int, axis: int, more: int, value: int) -> None:
        array = self.graph.initializers.get(self.node.inputs[index])
        if array is not None and array.ndim > axis:
            widths = [(0, more if a == axis else 0) for a in range(array.ndim)]
            wide = np.pad(array, widths, constant_values=value)
            self.node.inputs[index] = self.graph.add_constant(wide, self.node.inputs[index])


def widen_channels(graph: Graph) -> None:
    """Widen what gains by it; initialisers that nobody reads any more are left."""
    convs = {
        node.outputs[0]: _Conv(graph, node)
        for node in graph.nodes
        if (node.domain, node.op_type) in KERNELS
        and (weight := graph.initializers.get(node.inputs[3])) is not None
        and weight.dtype == np.int8
    }
    stored = sum(array.nbytes for array in graph.initializers.values())
    most = max(stored // MOST_GROWTH, ALLOWED)
    for name, conv in convs.items():
        channels = conv.shape[0]
        if conv.node.attributes["group"] != 1 or channels % BEHIND == 0:
            continue
        if (reached := _reached(graph, name, convs)) is None:
            continue
        wider = -(-channels // BEHIND) * BEHIND
        deep = [reader for reader in reached if reader.is_depthwise]
        more = sum(int(np.prod(reader.shape)) for reader in (conv, *reached)) // channels
        more *= wider - channels
        if more <= most and (deep or (conv.is_window and channels >= LEAST)):
            most -= more
            conv.widen(0, wider)
            for reader in reached:
                reader.widen(0 if reader.is_depthwise else 1, wider)
    for conv in convs.values():
        channels = conv.shape[1]
        wider = -(-channels // BEFORE) * BEFORE
        plain = conv.node.attributes["group"] == 1 and conv.shape[0] % BEHIND == 0
        if not plain or not conv.is_window or channels == wider:
            continue
        if _comes_so(graph, conv.node.inputs[0]):
            _pad(graph, conv, wider - channels)
        elif channels > 1 and (turned := _turned(graph, conv.node.inputs[0])):
            _multiply(graph, conv, turned, wider)


def _reached(graph: Graph, name: str, convs: dict[str, _Conv]) -> list[_Conv] | None:
    """The convolutions that read a tensor, behind depthwise ones too; None if others do."""
    found: list[_Conv] = []
    if any(port.name == name for port in graph.outputs):
        return None
    for node in (node for node in graph.nodes if name in node.reads()):
        if node.op_type == "Clip":
            behind = _reached(graph, node.outputs[0], convs)
        elif (conv := convs.get(node.outputs[0])) is None or name in node.inputs[1:]:
            return None
        elif conv.is_depthwise:
            behind = _reached(graph, node.outputs[0], convs)
            found.append(conv)
        elif conv.node.attributes["group"] == 1:
            behind = []
            found.append(conv)
        else:
            return None
        if behind is None:
            return None
        found += behind
    return found


def _comes_so(graph: Graph, name: str) -> bool:
    """Whether an image is an argument of the graph, quantised at most: channels lie apart."""
    if any(port.name == name for port in graph.inputs):
        return True
    makers = [node for node in graph.nodes if name in node.outputs]
    return all(n.op_type in ("QuantizeLinear", "Cast") for n in makers) and any(
        _comes_so(graph, node.inputs[0]) for node in makers
    )


_LAST_FIRST = (0, 3, 1, 2)
"""The permutation of an image whose channels lie together."""


def _turned(graph: Graph, name: str) -> list[Node]:
    """Transpose, Cast to floats, QuantizeLinear: how an argument of bytes comes; else nothing."""
    found: list[Node] = []
    for kind in ("QuantizeLinear", "Cast", "Transpose"):
        maker = next((node for node in graph.nodes if name in node.outputs), None)
        if maker is None or maker.op_type != kind:
            return []
        found.insert(0, maker)
        name = maker.inputs[0]
    is_bytes = graph.elements[name] in (Element.INT8, Element.UINT8)
    return found if is_bytes and found[0].attributes["perm"] == _LAST_FIRST else []


def _multiply(graph: Graph, conv: _Conv, turned: list[Node], channels: int) -> None:
    """Append channels to pixels by a product with a matrix of ones and zeros.

    Moving bytes takes ONNX Runtime five times as long where channels lie together.
    """
    transpose, cast, quantize = turned
    matrix = graph.add_constant(np.eye(conv.shape[1], channels, dtype=np.float32), "widen")
    floats, wide, image, levels = (
        graph.new_name(f"{conv.node.inputs[0]}.{part}")
        for part in ("floats", "wide", "image", "levels")
    )
    nodes = [
        Node("Cast", [transpose.inputs[0]], [floats], dict(cast.attributes)),
        Node("MatMul", [floats, matrix], [wide], {}),
        Node("Transpose", [wide], [image], dict(transpose.attributes)),
        Node("QuantizeLinear", [image, *quantize.inputs[1:]], [levels], dict(quantize.attributes)),
    ]
    place = graph.nodes.index(conv.node)
    graph.nodes[place:place] = nodes
    graph.elements.update(dict.fromkeys((floats, wide, image), Element.FLOAT))
    graph.elements[levels] = Element.UINT8
    conv.node.inputs[0] = levels
    conv.widen(1, channels)


def _pad(graph: Graph, conv: _Conv, more: int) -> None:
    """Append channels of any value to the image."""
    name = graph.new_name(f"{conv.node.inputs[0]}.wide")
    rank = len(conv.shape)
    pads = graph.add_constant(np.where(np.arange(2 * rank) == rank + 1, more, 0), "pads")
    node = Node("Pad", [conv.node.inputs[0], pads], [name], {})
    graph.nodes.insert(graph.nodes.index(conv.node), node)
    graph.elements[name] = Element.UINT8
    conv.node.inputs[0] = name
    conv.widen(1, conv.shape[1] + more)
