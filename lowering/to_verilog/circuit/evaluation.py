"""One op of a program as a part of a circuit: which rule, which name, which checks.

Not here: the rules (`circuit_rules`), and which circuit an op belongs to (`conversion`, `stages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from ....dialects import spike, tensor, ternary
from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.shapes import DYNAMIC
from ....dialects.spike.types import dense_type
from ....dialects.traits import MovesElements, has
from ....ir.errors import UnsupportedError
from ....ir.locations import location_name, location_text
from ....passes.adder_graph.optimize_adder_graph import WEIGHT_ATTRIBUTE, Product
from ....passes.analysis.compile_time import literal_value
from .circuit import Circuit
from .circuit_rules import RULES, Signals, moved, numbers
from .stages.positions import at_one_position
from .words import KEYWORDS

_PRODUCTS = Product | ternary.AdderGraphOp | ternary.ConvOp | tensor.ConvOp
"""What begins a layer."""


class LayerNames:
    """What the layers of a program are called: by their weights or places, or by whom they follow.

    Args:
        inputs: the names of the program's arguments, which are no layers.
    """

    def __init__(self, inputs: dict[SSAValue, str]) -> None:
        self._of = dict(inputs)
        self._inputs = set(inputs.values())

    def of(self, op: Operation) -> str:
        """The name of the layer that an op belongs to."""
        weight = op.attributes.get(WEIGHT_ATTRIBUTE)
        if isinstance(weight, StringAttr):
            return layer_identifier(weight.data)
        owner = op.weight.owner if isinstance(op, spike.ConvOp) else None
        if isinstance(owner, tensor.ParameterOp | ternary.ParameterOp):
            return layer_identifier(owner.key.data)
        if isinstance(op, _PRODUCTS) and location_name(op):
            return layer_identifier(location_name(op))
        known = [self._of[value] for value in op.operands if value in self._of]
        named = [name for name in known if name not in self._inputs]
        own = op.results[0].name_hint or op.name.rpartition(".")[2]
        return named[0] if named else identifier(own)

    def note(self, op: Operation, name: str) -> None:
        """Let what follows an op belong to its layer."""
        for result in op.results:
            self._of[result] = name


def literal_signals(value: SSAValue, spatial: Sequence[int] = ()) -> Signals:
    """A value known before the program runs, as constants; at one position of axes of positions."""
    array = literal_value(value)
    assert array is not None
    return numbers(at_one_position(array.astype(np.int64), tuple(spatial)))


def evaluate(
    circuit: Circuit, op: Operation, operands: Sequence[Signals], names: LayerNames
) -> Sequence[Signals]:
    """The results of an op that has a rule, or only moves elements.

    Raises:
        UnsupportedError: a result would wrap around in its type.
    """
    name = names.of(op)
    names.note(op, name)
    if has(op, MovesElements):
        results = moved(op, operands)
    else:
        circuit.begin(name, words(op))
        results = [RULES[type(op)](circuit, op, operands)]
    for value, signals in zip(op.results, results, strict=True):
        check_range(op, value, (x.bounds for x in signals.reshape(-1)))
    return results


def type_bounds(value: SSAValue) -> tuple[int, int]:
    """The least and the largest number of the type of a value's elements."""
    dtype = numpy_dtype(dense_type(value).element_type)
    if dtype.kind == "b":
        return 0, 1
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def check_range(op: Operation, value: SSAValue, bounds: Iterable[tuple[int, int]]) -> None:
    """Refuse a result that would wrap around in its type, which the circuit does not."""
    least, most = type_bounds(value)
    for low, high in bounds:
        if low < least or high > most:
            reason = (
                f"its result may reach [{low}, {high}] and wrap around in "
                f"{dense_type(value).element_type}; narrow the inputs with input-bits"
            )
            raise UnsupportedError("verilog", [(op.name, location_text(op), reason)])


def check_batch(op: Operation, value: SSAValue, signals: Signals) -> None:
    """Refuse what mixes vectors of the batch, which go through one after another."""
    if not any(DYNAMIC in tensor_type(operand).get_shape() for operand in op.operands):
        return
    shape = tensor_type(value).get_shape()
    apart = shape.count(DYNAMIC) == 1 and signals.shape[shape.index(DYNAMIC)] == 1
    if isinstance(op, tensor.SliceOp) and apart:
        bounds = (op.starts, op.ends, op.steps)
        of_batch = tuple(bound.get_values()[shape.index(DYNAMIC)] for bound in bounds)
        apart = of_batch == (0, tensor.SLICE_END, 1)
    if not apart:
        reason = (
            f"its result {tensor_type(value)} does not keep the vectors of the batch apart; "
            "fix the batch with infer-shapes{batch=N}, which makes it one beat"
        )
        raise UnsupportedError("verilog", [(op.name, location_text(op), reason)])


def identifier(text: str) -> str:
    """A name that Verilog takes."""
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text) or "_"
    if name[0].isdigit():
        return f"_{name}"
    return f"{name}_" if name in KEYWORDS else name


LONGEST_NAME = 64
"""Longer names of layers are cut, with a hash of all of it behind."""


def layer_identifier(key: str) -> str:
    """The name of the layer whose weights have that key: `fc1` of `fc1.weight.trits`."""
    for suffix in (".signed", ".levels", ".integers", ".trits", ".weights", ".weight"):
        key = key.removesuffix(suffix)
    return shortened(identifier(key), LONGEST_NAME)


def shortened(name: str, most: int) -> str:
    """A name of so many characters at most: names of files are made of it."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9]}_{sha256(name.encode()).hexdigest()[:8]}"


def words(op: Operation) -> str:
    """An op, its place and its sizes, for people."""
    (result,) = op.results
    place = location_text(op)
    sizes = "x".join("?" if n == DYNAMIC else str(n) for n in dense_type(result).get_shape())
    return f"{op.name} to {sizes}" + ("" if place == "unknown" else f", {place}")
