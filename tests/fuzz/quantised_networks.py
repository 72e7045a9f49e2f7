"""Random quantised networks as qonnx writes them, and what they compute, in NumPy's float64.

A network is a tree of plain values, so that it can be made smaller part by part; its weights follow
from the seed and from the numbers of its parts. Not here: what is done with them (`circuits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Sizes = tuple[int, ...]

QONNX = "qonnx.custom_op.general"


@dataclass(frozen=True)
class Quant:
    """qonnx's `Quant`: (rint(clip(x / scale + zero, low, high)) - zero) · scale.

    With one bit and a sign it is `BipolarQuant`: scale where x ≥ 0, else -scale.
    """

    bits: int
    signed: bool = True
    narrow: bool = False
    scale: float = 1.0
    zero: float = 0.0

    @property
    def bipolar(self) -> bool:
        """Whether it only keeps the sign."""
        return self.signed and self.bits == 1

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number of steps."""
        if self.bipolar:
            return -1, 1
        if self.signed:
            return -(2.0 ** (self.bits - 1)) + self.narrow, 2.0 ** (self.bits - 1) - 1
        return 0, 2.0**self.bits - 1 - self.narrow

    def __call__(self, x: Array, scale: Array | float | None = None) -> Array:
        """The quantised numbers, float64."""
        scale = self.scale if scale is None else scale
        steps = x / scale + self.zero
        if self.bipolar:
            return np.where(steps >= 0, 1.0, -1.0) * scale
        return (np.rint(np.clip(steps, *self.ends)) - self.zero) * scale

    def margin(self, x: Array) -> Array:
        """How far each number is from where its result jumps, in steps."""
        steps = x / self.scale + self.zero
        if self.bipolar:
            return np.abs(steps)
        inner = np.clip(steps, *self.ends)
        return np.where(inner == steps, np.abs(steps - np.floor(steps) - 0.5), 0.5)


@dataclass(frozen=True)
class Product:
    """A convolution or a dense layer, and what follows it up to the next quantiser.

    Attributes:
        id: weights follow from it.
        name: of the weight.
        outputs: channels.
        kernel: sizes; empty for a dense layer.
        pads: as ONNX has them, those before first.
        weight: how weights are quantised.
        each: whether each output has a scale of its own.
        norm: a normalisation, a product and a sum of powers of two, a bias alone, or nothing.
        act: the quantiser; none at the end of a network.
        pool: kernel and stride of a max pooling behind it.
    """

    id: int
    name: str
    outputs: int
    kernel: Sizes = ()
    strides: Sizes = ()
    pads: Sizes = ()
    dilations: Sizes = ()
    groups: int = 1
    weight: Quant = Quant(2, narrow=True)
    each: bool = False
    norm: Literal["none", "bias", "scale", "batch"] = "none"
    relu: bool = False
    act: Quant | None = None


@dataclass(frozen=True)
class Pool:
    """Max pooling."""

    kernel: Sizes
    strides: Sizes
    pads: Sizes


@dataclass(frozen=True)
class Mean:
    """The mean of all positions, as a vector."""


@dataclass(frozen=True)
class Flatten:
    """An image as a vector."""


@dataclass(frozen=True)
class Branches:
    """Two ways that meet again; an empty one hands on what comes in.

    Attributes:
        act: the quantiser behind the sum; none behind a concatenation.
    """

    ways: tuple[tuple[Product, ...], tuple[Product, ...]]
    join: Literal["add", "concat"]
    relu: bool = False
    act: Quant | None = None


Block = Product | Pool | Mean | Flatten | Branches


@dataclass(frozen=True)
class Network:
    """A network.

    Attributes:
        seed: of its weights and samples.
        form: floats with quantisers between, or integers alone: products of 8-bit integers,
            whose sums are bounded; then every scale is 1.
        names: of the graph, its input and its output.
        shape: of a sample, channels first.
        batch: a free one, or its size.
        source: how the input is quantised.
        tail: what is done with the last sums.
    """

    seed: int
    names: tuple[str, str, str]
    shape: Sizes
    batch: int | None
    source: Quant
    blocks: tuple[Block, ...]
    form: Literal["quantisers", "integers"] = "quantisers"
    tail: Literal["none", "scale", "argmax"] = "none"

    @property
    def exact(self) -> bool:
        """Whether floats hold every number of it, so that ties are ties."""
        parts = [*products(self.blocks), *(b for b in self.blocks if not isinstance(b, Product))]
        quants = [self.source, *(getattr(part, "act", None) for part in parts)]
        quants += [part.weight for part in parts if isinstance(part, Product)]
        dyadic = all(np.log2(q.scale).is_integer() for q in quants if q is not None)
        vague = any(
            isinstance(part, Mean) or (isinstance(part, Product) and part.norm == "batch")
            for part in parts
        )
        return dyadic and not vague

    def size(self) -> int:
        """Products, poolings and sums."""
        return len(self.blocks) + sum(
            len(way) for b in self.blocks if isinstance(b, Branches) for way in b.ways
        )


def products(blocks: Sequence[Block]) -> Iterator[Product]:
    """All products, in order."""
    for block in blocks:
        if isinstance(block, Product):
            yield block
        elif isinstance(block, Branches):
            for way in block.ways:
                yield from way


def values_of(network: Network, part: Product, inputs: int) -> dict[str, Array]:
    """The float32 constants of a product of so many input channels or elements."""
    rng = np.random.default_rng([network.seed, part.id])
    shape = (part.outputs, inputs // part.groups, *part.kernel)
    if not part.kernel:
        shape = (inputs, part.outputs)
    low, high = part.weight.ends
    levels = rng.integers(int(low), int(high) + 1, shape).astype(np.float64)
    if part.weight.bipolar:
        levels = rng.choice([-1.0, 1.0], shape)
    scale = np.full(1, part.weight.scale)
    if part.each:
        scale = part.weight.scale * 2.0 ** rng.integers(-1, 2, part.outputs)
        along = (-1, *[1] * (1 + len(part.kernel))) if part.kernel else (1, -1)
        scale = scale.reshape(along)
    found = {"weight": (levels + rng.uniform(-0.3, 0.3, shape)) * scale, "scale": scale}
    spread = np.sqrt(np.prod(shape) / part.outputs) * part.weight.scale * max(high, 1)
    count = part.outputs
    if part.norm == "batch":
        found |= {
            "gamma": rng.uniform(0.5, 1.5, count) * rng.choice([-1, 1, 1], count),
            "beta": rng.normal(0, 0.4, count),
            "mean": rng.normal(0, spread / 2, count),
            "var": spread**2 * rng.uniform(0.4, 1.6, count) + 0.1,
        }
    elif part.norm == "scale":
        found["factor"] = 2.0 ** rng.integers(-2, 2, count) * rng.choice([-1, 1, 1], count)
    if network.form == "integers":
        found["weight"] = levels
    if part.norm in ("bias", "scale"):
        found["bias"] = rng.integers(-9, 10, count) * (2.0**-2 if network.form != "integers" else 1)
    return {key: np.asarray(value, np.float32) for key, value in found.items()}


@dataclass
class _Run:
    """A network being computed; `margin` has for each sample the nearest jump, in steps."""

    network: Network
    margin: Array = field(default_factory=lambda: np.zeros(0))

    def quant(self, quant: Quant, x: Array) -> Array:
        rows = quant.margin(x).reshape(len(x), -1)
        self.margin = np.minimum(self.margin, rows.min(axis=1, initial=0.5))
        return quant(x)

    def product(self, part: Product, x: Array) -> Array:
        of = {
            key: value.astype(np.float64)
            for key, value in values_of(self.network, part, x.shape[1]).items()
        }
        weight = part.weight(of["weight"], of["scale"])
        x = _convolved(part, x, weight) if part.kernel else x @ weight
        rows = (1, -1, *[1] * (x.ndim - 2))
        of = {key: v.reshape(rows) for key, v in of.items() if key not in ("weight", "scale")}
        if part.norm == "batch":
            x = (x - of["mean"]) / np.sqrt(of["var"] + 1e-5) * of["gamma"] + of["beta"]
        if part.norm == "scale":
            x = x * of["factor"]
        if "bias" in of:
            x = x + of["bias"]
        x = np.maximum(x, 0) if part.relu else x
        return x if part.act is None else self.quant(part.act, x)

    def block(self, block: Block, x: Array) -> Array:
        match block:
            case Product():
                return self.product(block, x)
            case Pool():
                return _pooled(block, x)
            case Mean():
                return x.reshape(*x.shape[:2], -1).mean(axis=2)
            case Flatten():
                return x.reshape(len(x), -1)
            case Branches():
                found: list[Array] = []
                for way in block.ways:
                    y = x
                    for part in way:
                        y = self.product(part, y)
                    found.append(y)
                if block.join == "concat":
                    return np.concatenate(found, axis=1)
                y = found[0] + found[1]
                y = np.maximum(y, 0) if block.relu else y
                return y if block.act is None else self.quant(block.act, y)


def computed(network: Network, x: Array) -> tuple[Array, Array]:
    """What a network gives for samples, and for each of them how near a jump is, in steps.

    Results are float64, or int64 where they are places.
    """
    run = _Run(network, np.full(len(x), 0.5))
    y = run.quant(network.source, x.astype(np.float64))
    for block in network.blocks:
        y = run.block(block, y)
    if network.tail == "scale":
        y = y * 0.375 - 0.25
    if network.tail == "argmax":
        ends = np.sort(y.reshape(len(y), y.shape[1], -1), axis=1)
        if ends.shape[1] > 1:
            gap = (ends[:, -1] - ends[:, -2]).min(axis=1)
            run.margin = np.minimum(run.margin, gap)
        y = y.argmax(axis=1)
    return y, run.margin


def _patches(
    x: Array, kernel: Sizes, strides: Sizes, pads: Sizes, dilations: Sizes, fill: float
) -> Array:
    """All windows [batch, channels, window, positions...]."""
    rank = len(kernel)
    around = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    x = np.pad(x, around, constant_values=fill)
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
    ]
    if min(sizes) < 1:
        raise ValueError("a window is larger than its image")
    rows: list[Array] = []
    for place in np.ndindex(*kernel):
        taken = tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilations, sizes, strides, strict=True)
        )
        rows.append(x[(slice(None), slice(None), *taken)])
    return np.stack(rows, axis=2)


def _convolved(part: Product, x: Array, weight: Array) -> Array:
    if x.shape[1] % part.groups or part.outputs % part.groups:
        raise ValueError("groups do not divide the channels")
    patches = _patches(x, part.kernel, part.strides, part.pads, part.dilations, 0.0)
    flat = weight.reshape(*weight.shape[:2], -1)
    own, outputs = x.shape[1] // part.groups, part.outputs // part.groups
    parts = [
        np.einsum(
            "ncw...,ocw->no...",
            patches[:, g * own : (g + 1) * own],
            flat[g * outputs : (g + 1) * outputs],
        )
        for g in range(part.groups)
    ]
    return np.concatenate(parts, axis=1)


def _pooled(pool: Pool, x: Array) -> Array:
    ones = (1,) * len(pool.kernel)
    found = _patches(x, pool.kernel, pool.strides, pool.pads, ones, -np.inf).max(axis=2)
    if not np.isfinite(found).all():
        raise ValueError("a window of padding alone")
    return found


class _Writer:
    """An ONNX graph while it is being written."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.taken = set(network.names[1:])
        self.kind = input_type(network)

    def name(self, wish: str) -> str:
        name, number = wish, 0
        while name in self.taken:
            number += 1
            name = f"{wish}.{number}"
        self.taken.add(name)
        return name

    def node(self, op: str, *inputs: str, result: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        domain = QONNX if op in ("Quant", "BipolarQuant") else ""
        result = result or self.name(f"v{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, list(inputs), [result], domain=domain, **attributes))
        return result

    def constant(self, value: Any, name: str | None = None) -> str:
        array = np.asarray(value)
        name = self.name(name or f"k{len(self.constants)}")
        self.constants[name] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return name

    @property
    def integers(self) -> bool:
        """Whether it is written in integers."""
        return self.network.form == "integers"

    def bounded(self, quant: Quant, x: str) -> str:
        """The nearest number that so many bits hold, as an 8-bit integer."""
        from onnx import TensorProto

        low, high = (self.constant(np.array(int(end), np.int32)) for end in quant.ends)
        self.kind = np.dtype(np.int8 if quant.signed else np.uint8)
        to = TensorProto.INT8 if quant.signed else TensorProto.UINT8
        return self.node("Cast", self.node("Clip", x, low, high), to=to)

    def summed(self, op: str, x: str, y: str) -> str:
        """An op on 32-bit integers."""
        from onnx import TensorProto

        self.kind = np.dtype(np.int32)
        wide = [self.node("Cast", value, to=TensorProto.INT32) for value in (x, y)]
        return self.node(op, *wide)

    def quant(self, quant: Quant, x: str, scale: Array | None = None) -> str:
        if self.integers:
            return self.bounded(quant, x)
        factor = self.constant(np.array(quant.scale) if scale is None else scale)
        if quant.bipolar:
            return self.node("BipolarQuant", x, factor)
        return self.node(
            "Quant", x, factor, self.constant(quant.zero), self.constant(float(quant.bits)),
            signed=int(quant.signed), narrow=int(quant.narrow), rounding_mode="ROUND",
        )  # fmt: skip

    def product(self, part: Product, x: str, inputs: int) -> str:
        of = values_of(self.network, part, inputs)
        scale = of["scale"] if part.each else None
        self.kind = np.dtype(np.int32) if self.integers else self.kind
        rank = len(part.kernel)
        if self.integers:
            weight = self.constant(of["weight"].astype(np.int8), part.name)
        else:
            weight = self.quant(part.weight, self.constant(of["weight"], part.name), scale)
        floats = part.norm == "bias" and part.kernel and not self.integers
        bias = [self.constant(of["bias"])] if floats else []
        if part.kernel:
            x = self.node(
                f"Conv{'Integer' * self.integers}", x, weight, *bias, kernel_shape=part.kernel,
                strides=part.strides, pads=part.pads, dilations=part.dilations, group=part.groups,
            )  # fmt: skip
        else:
            x = self.node(f"MatMul{'Integer' * self.integers}", x, weight)
        if part.norm == "batch":
            keys = ("gamma", "beta", "mean", "var")
            given = [self.constant(of[key]) for key in keys]
            x = self.node("BatchNormalization", x, *given, epsilon=1e-5)
        along = (1, -1, *[1] * rank) if part.kernel else (-1,)
        if part.norm == "scale":
            x = self.node("Mul", x, self.constant(of["factor"].reshape(along)))
        if "bias" in of and not bias:
            offset = of["bias"].reshape(along)
            kept = offset.astype(np.int32) if self.integers else offset
            x = self.node("Add", x, self.constant(kept))
        x = self.node("Relu", x) if part.relu else x
        return x if part.act is None else self.quant(part.act, x)

    def block(self, block: Block, x: str, channels: int) -> str:
        match block:
            case Product():
                return self.product(block, x, channels)
            case Pool():
                return self.node(
                    "MaxPool", x, kernel_shape=block.kernel, strides=block.strides,
                    pads=block.pads,
                )  # fmt: skip
            case Mean():
                return self.node("Flatten", self.node("GlobalAveragePool", x), axis=1)
            case Flatten():
                return self.node("Flatten", x, axis=1)
            case Branches():
                found: list[str] = []
                for way in block.ways:
                    y, inputs = x, channels
                    for part in way:
                        y, inputs = self.product(part, y, inputs), part.outputs
                    found.append(y)
                if block.join == "concat":
                    return self.node("Concat", *found, axis=1)
                y = self.summed("Add", *found) if self.integers else self.node("Add", *found)
                y = self.node("Relu", y) if block.relu else y
                return y if block.act is None else self.quant(block.act, y)


def _written(network: Network) -> tuple[_Writer, str]:
    """The graph up to the tail, and its newest value."""
    writer, x = _Writer(network), network.names[1]
    run = _Run(network, np.full(1, 0.5))
    y: Array = np.zeros((1, *network.shape))
    if network.form == "quantisers":
        x = writer.quant(network.source, x)
    for block in network.blocks:
        x, y = writer.block(block, x, y.shape[1]), run.block(block, y)
    return writer, x


def result_type(network: Network) -> np.dtype[Any]:
    """The type of what the last block gives."""
    return _written(network)[0].kind


def onnx_model(network: Network) -> Any:
    """The network as an ONNX model.

    Raises:
        ValueError: its parts do not fit.
    """
    from onnx import TensorProto, helper

    writer, x = _written(network)
    if network.tail == "scale":
        x = writer.node("Mul", x, writer.constant(np.array([0.375])))
        x = writer.node("Add", x, writer.constant(np.array([-0.25])))
    if network.tail == "argmax":
        writer.node("ArgMax", x, result=network.names[2], axis=1, keepdims=0)
    else:
        writer.node("Identity", x, result=network.names[2])
    batch = "N" if network.batch is None else network.batch
    given = helper.np_dtype_to_tensor_dtype(input_type(network))
    kind = helper.np_dtype_to_tensor_dtype(writer.kind)
    kind = TensorProto.INT64 if network.tail == "argmax" else kind
    inputs = [helper.make_tensor_value_info(network.names[1], given, [batch, *network.shape])]
    outputs = [helper.make_tensor_value_info(network.names[2], kind, None)]
    tensors = [
        helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.ravel())
        for n, a in writer.constants.items()
    ]
    graph = helper.make_graph(writer.nodes, network.names[0], inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid(QONNX, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def input_type(network: Network) -> np.dtype[Any]:
    """The type of the input."""
    if network.form == "quantisers":
        return np.dtype(np.float32)
    return np.dtype(np.int8 if network.source.signed else np.uint8)


def samples_of(network: Network, count: int) -> Array:
    """Inputs [samples, ...], those of the ends first; none near a jump of a network that rounds.

    Raises:
        ValueError: there are too few of them.
    """
    rng = np.random.default_rng([network.seed, 1 << 20])
    kind = input_type(network)
    low, high = network.source.ends
    if kind.kind == "f":
        low, high = (
            (1.2 * e - network.source.zero) * network.source.scale for e in network.source.ends
        )
    wanted = count if network.batch is None else network.batch
    found = [np.full(network.shape, end) for end in (low, high)]
    for _ in range(40 * wanted):
        tries = np.stack([*found, rng.uniform(low, high, network.shape)]).astype(kind)
        sharp = computed(network, tries)[1] > 2e-4
        found = [x for x, keep in zip(tries, sharp, strict=True) if keep or network.exact]
        if len(found) >= wanted:
            return np.stack(found[:wanted])
    raise ValueError("too few samples away from where results jump")
