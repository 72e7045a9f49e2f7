"""An ONNX graph in the making: element types, nodes, initialisers and names.

Plain Python, without the `onnx` package, so that rules can be written and read without it; `model`
turns the graph into a `ModelProto`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from xdsl.ir import Attribute

from ...dialects.elements import numpy_dtype
from ...ir.arrays import Array
from ..stored_elements import StoredElement

AttributeValue: TypeAlias = int | float | str | Sequence[int]
Attributes: TypeAlias = dict[str, AttributeValue]

Int8Weights: TypeAlias = Literal["asked", "safe", "always"]

DOMAIN = "triton_dsl"
"""The domain of our model-local functions."""

FOREIGN_DOMAIN = "com.microsoft"
"""The domain of ONNX Runtime's own operators, used by the form `fast` alone."""


class Element(StoredElement):
    """Element types by their number in `TensorProto.DataType`."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    BFLOAT16 = 16


_BY_DTYPE = {element.dtype_name: element for element in Element}


def element_type(element: Attribute) -> Element:
    """The ONNX type of an IR element type; trits travel as INT8."""
    return _BY_DTYPE[numpy_dtype(element).name]


def element_of_array(array: Array) -> Element:
    """The ONNX type of an array."""
    return _BY_DTYPE[array.dtype.name]


@dataclass
class Node:
    """One operator: names of inputs (empty where absent) and outputs; `body` is that of a Scan."""

    op_type: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, AttributeValue]
    domain: str = ""
    body: Graph | None = None

    def reads(self) -> set[str]:
        """The values it reads, those that its body takes from around it too."""
        names = set(self.inputs)
        if self.body is not None:
            names.update(*(node.reads() for node in self.body.nodes))
        return names

    def rename(self, old: str, new: str) -> None:
        """Call the value `old` `new` wherever it stands."""
        self.inputs = [new if name == old else name for name in self.inputs]
        self.outputs = [new if name == old else name for name in self.outputs]
        for node in () if self.body is None else self.body.nodes:
            node.rename(old, new)


@dataclass
class Port:
    """A graph input or output: dimensions are sizes or symbolic names, `None` where unknown."""

    name: str
    element: Element
    shape: tuple[int | str | None, ...] | None


@dataclass
class Graph:
    """Nodes in order, initialisers by name, and the element type of every value.

    Attributes:
        opset: the version of the default operator set.
        int8_weights: where weights are INT8, see `byte_weights`.
    """

    opset: int
    int8_weights: Int8Weights = "asked"
    nodes: list[Node] = field(default_factory=list[Node])
    initializers: dict[str, Array] = field(default_factory=dict[str, Array])
    inputs: list[Port] = field(default_factory=list[Port])
    outputs: list[Port] = field(default_factory=list[Port])
    elements: dict[str, Element] = field(default_factory=dict[str, Element])
    _uses: Counter[str] = field(default_factory=Counter[str])
    _names: Counter[str] = field(default_factory=Counter[str])
    _constants: dict[tuple[str, tuple[int, ...], bytes], str] = field(
        default_factory=dict[tuple[str, tuple[int, ...], bytes], str]
    )

    def child(self) -> Graph:
        """An empty body of one of the nodes: it sees the values of this graph, and shares names."""
        return Graph(
            self.opset,
            self.int8_weights,
            initializers=self.initializers,
            elements=self.elements,
            _uses=self._uses,
            _names=self._names,
            _constants=self._constants,
        )

    def new_name(self, wish: str) -> str:
        """A free value name: `wish`, else with a number behind."""
        name = wish
        while name in self._names:
            self._names[wish] += 1
            name = f"{wish}_{self._names[wish] - 1}"
        self._names[name] += 1
        return name

    def add_node(
        self,
        op_type: str,
        inputs: Sequence[str],
        elements: Sequence[Element],
        names: Sequence[str],
        attributes: Mapping[str, AttributeValue],
        domain: str = "",
        body: Graph | None = None,
    ) -> list[str]:
        """Append a node with outputs named after `names`; the names they got."""
        outputs = [self.new_name(name) for name in names]
        self.nodes.append(Node(op_type, list(inputs), outputs, dict(attributes), domain, body))
        self._uses.update(inputs)
        self.elements.update(zip(outputs, elements, strict=True))
        return outputs

    def add_input(
        self, wish: str, element: Element, shape: tuple[int | str, ...] | None = None
    ) -> str:
        """A new graph input."""
        name = self.new_name(wish)
        self.inputs.append(Port(name, element, shape))
        self.elements[name] = element
        return name

    def add_initializer(self, wish: str, array: Array) -> str:
        """Stored values under a name."""
        name = self.new_name(wish)
        self.set_initializer(name, array)
        return name

    def set_initializer(self, name: str, array: Array) -> None:
        """Stored values under a name that has been given out already."""
        self.initializers[name] = array
        self.elements[name] = element_of_array(array)

    def add_constant(self, array: Array, wish: str) -> str:
        """Stored values; equal constants share one initialiser."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.add_initializer(wish, array)
        return self._constants[key]

    def add_output(self, name: str, port: Port) -> str:
        """Make a value the output `port`, whose name has been given out already.

        The value takes that name; a copy does where it is no node's result or an output already.
        Gives the name that the value has now.
        """
        self.outputs.append(port)
        if not any(name in node.outputs for node in self.nodes) or any(
            other.name == name for other in self.outputs
        ):
            self.nodes.append(Node("Identity", [name], [port.name], {}))
            self.elements[port.name] = port.element
            return name
        for node in self.nodes:
            node.rename(name, port.name)
        self.elements[port.name] = self.elements.pop(name)
        return port.name

    @property
    def functions(self) -> set[str]:
        """The model-local functions that nodes call, and those which these call."""
        called = {node.op_type for node in self.all_nodes() if node.domain == DOMAIN}
        return called | {"ternary.unpack"} if "ternary.matmul" in called else called

    def makes(self, name: str) -> bool:
        """Whether a value is an input of this graph, or what a node here gives."""
        ports = any(port.name == name for port in self.inputs)
        return ports or any(name in node.outputs for node in self.nodes)

    def all_nodes(self) -> Iterator[Node]:
        """The nodes, also of bodies."""
        for node in self.nodes:
            yield node
            if node.body is not None:
                yield from node.body.all_nodes()

    def drop_unused(self) -> None:
        """Remove nodes that lead to no output, then initialisers that no node reads."""
        used = {port.name for port in self.outputs}
        live: list[Node] = []
        for node in reversed(self.nodes):
            if not used.isdisjoint(node.outputs):
                live.append(node)
                used.update(node.reads())
        self.nodes = live[::-1]
        self.initializers = {n: array for n, array in self.initializers.items() if n in used}

    def rename_last(self, name: str, wish: str) -> str:
        """Give an output of the last node a better name while nothing reads it yet."""
        if not self.nodes or name not in self.nodes[-1].outputs or self._uses[name]:
            return name
        outputs = self.nodes[-1].outputs
        new = self.new_name(wish)
        outputs[outputs.index(name)] = new
        self.elements[new] = self.elements.pop(name)
        del self._names[name]
        return new
