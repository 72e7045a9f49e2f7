"""The NIR nodes of one population or projection."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, IntegerAttr, StringAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.parameters import constant_value
from ...dialects.spike import PopulationOp, ProjectionOp
from ...dialects.spike.models import FIRING_MODELS
from ...dialects.spike.models import MODELS as PARAMETERS
from ...ir.arrays import Array
from ...ir.errors import LoweringError
from ..from_nir.graph import FIELDS, MODELS, RESET, Node, Value
from ..from_nir.network import NODE
from ..from_nir.shapes import named_padding
from ..from_nir.values import block_diagonal, blocks

KINDS = {model: kind for kind, model in MODELS.items()}
"""The primitive of each neuron model that NIR has."""


class Inexpressible(Exception):
    """NIR has no node for this; the message says why, and what to write instead."""


def values_of(value: SSAValue) -> Array:
    """The numbers of a parameter or constant.

    Raises:
        ParameterError: it has no values.
        LoweringError: it is something else.
    """
    known = constant_value(value.owner) if isinstance(value.owner, Operation) else None
    if known is None:
        raise LoweringError("a NIR file holds numbers, and a weight is computed; fold it first")
    return known


def neuron(op: PopulationOp, other_resets: bool) -> Node:
    """The node of a population; with `other_resets` its metadata says what NIR cannot.

    Raises:
        Inexpressible: no such model, comparison or reset.
    """
    model, name = op.model.data, op.sym_name.data
    if model not in KINDS:
        raise Inexpressible(
            f"@{name}: NIR has no '{model}'; use one of {', '.join(KINDS)}, trained again for that"
        )
    if model in (*FIRING_MODELS, "threshold") and op.compare.data != "gt":
        raise Inexpressible(
            f'@{name}: NIR fires above the threshold; write compare "gt" and the next lower '
            "number as threshold"
        )
    resets = model in FIRING_MODELS and op.reset.data != "to_value"
    if resets and not other_resets:
        raise Inexpressible(
            f"@{name}: NIR resets to v_reset alone, not by '{op.reset.data}'; train with reset "
            "\"to_value\", or write 'nir{resets=nodes}' or 'nir{resets=metadata}'"
        )
    each, shape = op.values_by_name(), op.shape.get_values()
    values: dict[str, Value] = {}
    for key in FIELDS[KINDS[model]]:
        number = op.parameters.data.get(key)
        default = np.float64(PARAMETERS[model][key].default or 0.0)
        numbers = values_of(each[key]) if key in each else default
        if isinstance(number, FloatAttr):
            numbers = np.float64(number.value.data)
        values[key] = np.array(np.broadcast_to(numbers, shape))
    return Node(KINDS[model], values, {RESET: op.reset.data} if resets else {})


def marks(op: ProjectionOp) -> dict[str, Attribute]:
    """What the importer noted of the node that a projection was."""
    stated = op.attributes.get(NODE)
    return dict(stated.data) if isinstance(stated, DictionaryAttr) else {}


def own_steps(op: ProjectionOp) -> int:
    """The steps of a projection that a Delay node of NIR stood for."""
    steps = marks(op).get("steps")
    return steps.value.data if isinstance(steps, IntegerAttr) else 0


def plain(op: ProjectionOp) -> bool:
    """Whether a projection hands on what it gets: an edge of NIR, but for its delay."""
    return (
        op.connection.data == "one_to_one"
        and op.weights is None
        and op.scale is None
        and op.bias is None
        and op.ends()[0].shape == op.ends()[1].shape
        and marks(op).get("kind") != StringAttr("Flatten")
    )


def delay(op: ProjectionOp, steps: int, dt: float) -> Node:
    """The Delay of a projection that takes `steps` and what its `delays` add.

    Times are the closest numbers to the decimal product, as people write them.
    """
    shape = op.ends()[0].shape.get_values()
    more = np.zeros((), np.int64) if op.delays is None else values_of(op.delays).astype(np.int64)
    unique, places = np.unique(np.broadcast_to(more + steps, shape), return_inverse=True)
    times = np.array([float(Decimal(repr(dt)) * int(n)) for n in unique])
    single = marks(op).get("type") == f32
    values = times.astype(np.float32 if single else np.float64)[places.reshape(-1)]
    return Node("Delay", {"delay": values.reshape(shape)})


def synapses(op: ProjectionOp) -> list[Node]:
    """The nodes of a projection in their order, without its delay.

    Raises:
        Inexpressible: NIR has no such nodes.
    """
    connection = op.connection.data
    if connection == "linear":
        return _linear(op)
    if connection == "one_to_one":
        return _one_to_one(op)
    return [_window(op)]


def _weights(op: ProjectionOp, channel_axis: int) -> Array:
    """The weights with the scale in them; trits as f32."""
    assert op.weights is not None
    values = values_of(op.weights)
    exact = str(op.weights.type).endswith("xi8>") and op.scale is None
    if values.dtype == np.int8 and not exact:
        values = values.astype(np.float32)
    if op.scale is not None:
        scale = values_of(op.scale)
        axes = [1] * values.ndim
        axes[channel_axis] = -1
        values = values * (scale if scale.ndim == 0 else scale.reshape(axes))
    return values


def _linear(op: ProjectionOp) -> list[Node]:
    source, target = (tuple(end.shape.get_values()) for end in op.ends())
    weight = np.ascontiguousarray(_weights(op, 1).T)
    more = source[:-1]
    if "kind" in marks(op) and more == target[:-1]:
        parted = blocks(weight, more)
        if np.array_equal(block_diagonal(parted, op.sym_name.data), weight, equal_nan=True):
            if op.bias is None:
                return [Node("Linear", {"weight": parted})]
            bias = values_of(op.bias).reshape(target)
            return [Node("Affine", {"weight": parted, "bias": bias})]
    if target != (len(weight),):
        raise Inexpressible(
            f"@{op.sym_name.data}: Linear gives [{len(weight)}], and NIR cannot make "
            f"{list(target)} of that; give the population that shape"
        )
    nodes = [] if len(source) == 1 else [_flatten(source, 0, len(source) - 1)]
    if op.bias is None:
        return [*nodes, Node("Linear", {"weight": weight})]
    return [*nodes, Node("Affine", {"weight": weight, "bias": values_of(op.bias)})]


def _one_to_one(op: ProjectionOp) -> list[Node]:
    source, target = (tuple(end.shape.get_values()) for end in op.ends())
    name, nodes = op.sym_name.data, list[Node]()
    if op.bias is not None:
        raise Inexpressible(f"@{name}: Scale has no bias; write a linear projection with a bias")
    if op.weights is not None or op.scale is not None:
        values: Array = np.ones((), np.float32) if op.weights is None else values_of(op.weights)
        stays = op.weights is not None and op.scale is None
        if values.dtype == np.int8 and not (stays and str(op.weights.type).endswith("xi8>")):  # pyright: ignore[reportOptionalMemberAccess]
            values = values.astype(np.float32)
        if op.scale is not None:
            scale = values_of(op.scale)
            values = values * (
                scale if scale.ndim == 0 else scale.reshape(-1, *[1] * (len(source) - 1))
            )
        nodes.append(Node("Scale", {"scale": np.array(np.broadcast_to(values, source))}))
    marked = marks(op)
    if marked.get("kind") == StringAttr("Flatten"):
        start, end = (cast("IntegerAttr", marked[key]).value.data for key in ("start", "end"))
        nodes.append(_flatten(source, start, end))
    elif source != target:
        for start in range(len(source)):
            for end in range(start, len(source)):
                joined = int(np.prod(source[start : end + 1]))
                if (*source[:start], joined, *source[end + 1 :]) == target:
                    return [*nodes, _flatten(source, start, end)]
        raise Inexpressible(
            f"@{name}: NIR joins neighbouring axes, it cannot make {list(target)} of "
            f"{list(source)}; give both populations one shape"
        )
    return nodes


def _flatten(source: tuple[int, ...], start: int, end: int) -> Node:
    values = {"input_type": source, "start_dim": start, "end_dim": end}
    return Node("Flatten", {key: np.array(value, np.int64) for key, value in values.items()})


def _window(op: ProjectionOp) -> Node:
    source = tuple(op.ends()[0].shape.get_values())
    strides, padding, dilation = (tuple(part) for part in op.window())
    axes = len(source) - 1
    alike = padding[:axes] == padding[axes:]
    if op.connection.data != "conv":
        if not alike:
            raise Inexpressible(
                f"@{op.sym_name.data}: NIR pads pools alike on both sides; make {list(padding)} so"
            )
        assert op.kernel is not None
        kind = "AvgPool2d" if op.connection.data == "avg_pool" else "SumPool2d"
        if axes != 2:
            raise Inexpressible(
                f"@{op.sym_name.data}: NIR pools two axes; write the one of {list(source)} as two"
            )
        sizes = {"kernel_size": op.kernel.get_values(), "stride": strides}
        values = {**sizes, "padding": padding[:axes]}
        return Node(kind, {key: np.array(value, np.int64) for key, value in values.items()})
    weight = _weights(op, 0)
    named = marks(op).get("padding")
    pads: tuple[int, ...] | str = padding[:axes]
    for name in (named.data,) if isinstance(named, StringAttr) else () if alike else ("same",):
        size = tuple(weight.shape[2:])
        if named_padding(name, source[1:], size, strides, dilation, "") == padding:
            pads = name
    if not alike and pads != "same":
        raise Inexpressible(
            f"@{op.sym_name.data}: NIR pads alike on both sides or as 'same'; make "
            f"{list(padding)} so"
        )
    one = axes == 1
    numbers = {"input_shape": source[1:], "stride": strides, "dilation": dilation}
    parameters: dict[str, Value] = {key: np.array(v[0] if one else v) for key, v in numbers.items()}
    parameters["padding"] = pads if isinstance(pads, str) else np.array(pads[0] if one else pads)
    zeros = np.zeros(len(weight), weight.dtype if weight.dtype.kind == "f" else np.float32)
    bias = zeros if op.bias is None else values_of(op.bias)
    parameters |= {"weight": weight, "groups": np.array(op.group_count()), "bias": bias}
    kind = "Conv1d" if one else "Conv2d"
    return Node(kind, {key: parameters[key] for key in FIELDS[kind]})
