"""Nodes, casts, constants and shapes of the tensors of an ONNX graph.

`NodeWriter.apply` keeps to the element types that have kernels. Not here: values of the IR
(`onnx_writer`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from ...dialects.elements import nearest
from ...dialects.shapes import DYNAMIC, Shape, axes_behind
from ..emission import Inexpressible
from .graph import Array, AttributeValue, Element, Graph
from .kernels import compute_type


class NodeWriter:
    """Writes nodes into a graph, or into the body of another node.

    Attributes:
        graph: what has been written.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._root = graph
        self._truncated: set[str] = set()  # integers that a Cast made of floats
        self._origins: dict[str, str] = {}  # of what holds the same numbers in another type
        self._sums: dict[str, str] = {}  # of integers, the floats in which they were summed
        self._exact: set[str] = set()  # products in which floats sum integers
        self._lifted: dict[str, str] = {}  # of what has an axis in front of it, what it was before
        self._hint = "value"

    @property
    def hint(self) -> str:
        """What the op being written is called; the stem of names."""
        return self._hint

    @property
    def opset(self) -> int:
        """The version of the default operator set."""
        return self.graph.opset

    # Bodies.

    @property
    def in_body(self) -> bool:
        """Whether nodes go into the body of another node."""
        return self.graph is not self._root

    @contextmanager
    def writing(self, graph: Graph) -> Generator[None]:
        """Write nodes into `graph`."""
        before, self.graph = self.graph, graph
        try:
            yield
        finally:
            self.graph = before

    # Nodes.

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        element: Element,
        **attributes: AttributeValue,
    ) -> str:
        """One standard node with one output of type `element`, as it is."""
        return self.call("", op_type, inputs, element, attributes)

    def call(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[str],
        element: Element,
        attributes: Mapping[str, AttributeValue],
    ) -> str:
        """One node of any domain with one output of type `element`."""
        name = f"{self._hint}.{op_type.rpartition('.')[2].lower()}"
        return self.graph.add_node(op_type, inputs, [element], [name], attributes, domain)[0]

    def apply(
        self,
        op_type: str,
        inputs: Sequence[str],
        *,
        rest: Sequence[str] = (),
        result: Element | None = None,
        **attributes: AttributeValue,
    ) -> str:
        """One operator on inputs of one element type, computed where it has a kernel.

        Args:
            inputs: of one type, which is also the result's unless `result` says otherwise.
            rest: further inputs of their own types.

        Raises:
            Inexpressible: there is no kernel for the type and no wider one either.
        """
        element = self.element(inputs[0])
        wide = compute_type(op_type, element)
        if wide is None:
            raise Inexpressible(
                f"ONNX Runtime has no {op_type} kernel for {element.name}; convert to float32"
            )
        inside = [self.cast(name, wide) for name in inputs]
        out = self.node(op_type, [*inside, *rest], result or wide, **attributes)
        return out if result is not None else self.cast(out, element)

    def element(self, name: str) -> Element:
        """The element type of a tensor."""
        return self.graph.elements[name]

    def cast(self, name: str, element: Element) -> str:
        """`name` as another element type; integers wrap around, anything to BOOL is x ≠ 0."""
        source = self.element(name)
        if source is element:
            return name
        origin = self._origins.get(name)
        if origin is not None and self.element(origin) in (element, Element.BOOL):
            return self.cast(origin, element)
        if name in self._truncated and not _holds(element, source):
            # ONNX Runtime would join both casts to one, which does not wrap around.
            name = self.cast(name, Element.INT64) if source is Element.UINT32 else name
            name = self.apply("Neg", [self.apply("Neg", [name])])
        result = self.node("Cast", [name], element, to=int(element))
        if source.is_float and not element.is_float:
            self._truncated.add(result)
        if source is Element.BOOL:
            self._origins[result] = name
        return result

    def same(self, name: str, element: Element) -> str:
        """Numbers, each of which `element` holds too, as that; casting them back costs nothing."""
        result = self.cast(name, element)
        if result not in (name, self._origins.get(name)):
            self._origins[result] = name
        return result

    def product(self, name: str, element: Element) -> str:
        """A matrix product in which floats sum integers, as integers; see `factor`."""
        self._exact.add(name)
        return self.same(name, element)

    def factor(self, name: str, product: str, width: int) -> str:
        """A number that multiplies such a product, for each column: ONNX Runtime would put a scalar
        into the product, which then rounds in between."""
        if product not in self._exact or name in self._exact or width == DYNAMIC:
            return name
        values = self.graph.initializers.get(name)
        if values is None or values.size != 1:
            return name
        return self.constant(np.broadcast_to(values.reshape(-1), (width,)), f"{name}.each")

    def whole(self, name: str, element: Element) -> str:
        """Floats that are exact sums, as integers.

        Casting them back takes a Cast: without one ONNX Runtime joins the product and what follows
        it, and rounds otherwise. Where elements move in between it cannot, see `moved`.
        """
        result = self.cast(name, element)
        self._sums[result] = name
        return result

    def origin(self, name: str) -> str:
        """What `name` was before it was cast to a type that holds the same numbers."""
        return self._origins.get(name, name)

    def floats(self, name: str) -> str:
        """Truth values as FLOAT where this body has them so already, else as they are."""
        known = (r for r, o in self._origins.items() if o == name and self.graph.makes(r))
        return next((r for r in known if self.element(r) is Element.FLOAT), name)

    def moved(self, name: str, move: Callable[[str], str]) -> str:
        """`name` with its elements moved: truth values and sums as what they were before."""
        if name in self._sums:
            return self.same(move(self._sums[name]), self.element(name))
        if name not in self._origins or not self.is_truth(name):
            return move(name)
        return self.same(self.moved(self._origins[name], move), self.element(name))

    def is_truth(self, name: str) -> bool:
        """Whether a tensor holds zeros and ones, made of truth values."""
        return Element.BOOL in (self.element(name), self.element(self.origin(name)))

    def constant(self, array: Array, hint: str = "constant") -> str:
        """Stored values."""
        return self.graph.add_constant(array, hint)

    def scalar(self, value: float, element: Element) -> str:
        """One stored number."""
        text = f"{value:g}".replace("-", "minus_")
        return self.constant(nearest(value, element.dtype), f"{element.name.lower()}_{text}")

    def indices(self, values: Sequence[int], hint: str = "sizes") -> str:
        """Stored INT64 numbers: axes, sizes, positions."""
        return self.constant(np.array(values, dtype=np.int64).reshape(-1), hint)

    # Shapes.

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """`name` in another shape; one size may be -1."""
        return self.reshape_to(name, self.indices(shape, "shape"), literal_zero=0 in shape)

    def reshape_to(self, name: str, sizes: str, *, literal_zero: bool = False) -> str:
        """`name` in the shape that the INT64 vector `sizes` holds.

        A size of 0 keeps the operand's axis, unless `literal_zero` (from opset 14 on).
        """
        element = self.element(name)
        if literal_zero and self.opset >= 14:
            return self.node("Reshape", [name, sizes], element, allowzero=1)
        return self.node("Reshape", [name, sizes], element)

    def reshape_with_copies(self, name: str, shape: Sequence[int]) -> str:
        """`name` in another shape; sizes of -2 and below keep the axis they stand on.

        Where such sizes occur, no size may be 0.
        """
        if min(shape, default=0) >= -1:
            return self.reshape(name, shape)
        sizes = self.indices([0 if size <= -2 else size for size in shape], "shape")
        return self.reshape_to(name, sizes)

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        """`name` with axes of size 1 inserted."""
        if not axes:
            return name
        result = self.node("Unsqueeze", [name, self.indices(axes, "axes")], self.element(name))
        if list(axes) == [0]:
            self._lifted[result] = name
        return result

    def squeeze(self, name: str, axes: Sequence[int]) -> str:
        """`name` without some axes of size 1."""
        if list(axes) == [0] and name in self._lifted:
            return self._lifted[name]
        return self.apply("Squeeze", [name], rest=[self.indices(axes, "axes")])

    def slice_axes(
        self,
        name: str,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int],
    ) -> str:
        """`name` cut along some axes."""
        rest = [self.indices(values, "slice") for values in (starts, ends, axes, steps)]
        return self.apply("Slice", [name], rest=rest)

    def along_axis(self, name: str, type: Shape, axis: int, rank: int) -> str:
        """A vector (or scalar) laid along `axis` of a tensor of `rank`, ready to broadcast."""
        behind = axes_behind(axis, rank) if type else 0
        return self.unsqueeze(name, list(range(1, behind + 1))) if behind else name

    def dimension(self, name: str, axis: int, size: int) -> str:
        """The size of an axis as an INT64 vector of one element, known or not."""
        if size != DYNAMIC:
            return self.indices([size])
        if self.opset >= 15:
            return self.node("Shape", [name], Element.INT64, start=axis, end=axis + 1)
        shape = self.node("Shape", [name], Element.INT64)
        return self.node("Gather", [shape, self.indices([axis], "axes")], Element.INT64, axis=0)


def _holds(wide: Element, narrow: Element) -> bool:
    """Whether a type has every value of an integer type, or is none of integers."""
    if wide.is_float or Element.BOOL in (wide, narrow):
        return True
    return np.can_cast(narrow.dtype, wide.dtype)
