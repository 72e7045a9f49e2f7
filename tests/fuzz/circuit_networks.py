"""Which quantised networks are tried as circuits, from a seed, and smaller forms of one.

Not here: what a network is and computes (`quantised_networks`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from .quantised_networks import (
    Block,
    Branches,
    Flatten,
    Mean,
    Network,
    Pool,
    Product,
    Quant,
    Sizes,
)

PREFIXED = ("weight", *(f"weight_{n}" for n in range(1, 12)))
"""What importers call the weights of a network, the names of stages among them."""

ODD = (
    "weight_2", "weight_core", "weight", "weight_window", "weight_window_2", "weight_2_core",
    "Weight", "WEIGHT_1", "module", "reg", "always_ff", "forward", "stages", "stages_buffer_1",
    "gather", "gather_2", "fork", "join", "join_fifo_1", "combine", "core", "tb", "pins", "clock",
    "x", "in_data", "unused", "a.b", "a_b", "a/b", "1st", "größe", "ram_3x8", "add", "max_pool",
    "weight.weight", "fc1.weight", "s_axis_tdata", "_", "w" * 90,
)  # fmt: skip
"""Names that meet those of stages, of Verilog, or each other."""

GRAPHS = ("net", "triton", "module", "weight", "forward", "x", "core", "inputs", "9lives", "n" * 90)

_DEVICES = ("xcvu9p", "ecp5-85", "xczu3eg")


def random_network(seed: int) -> Network:
    """The network of a seed."""
    return _Choice(seed).network()


def random_options(seed: int, network: Network) -> str:
    """The target with options: registers, searches, folding."""
    rng = random.Random(f"options {seed}")
    words = ["time-budget=0.02", "vectors=4"]
    if network.form == "integers" and network.source.bits < 8:
        words.append(f"input-bits={network.source.bits}")
    if rng.random() < 0.5:
        words.append(f"pipeline={rng.choice([0, 1, 2, 3, 5])}")
    if rng.random() < 0.3:
        words.append(f"cost={rng.choice(['adders', 'depth'])}")
    if rng.random() < 0.15:
        words.append(f"max-depth={rng.choice([3, 4, 6])}")
    if rng.random() < 0.15:
        words.append(f"device={rng.choice(_DEVICES)}")
    clock = rng.random() < 0.25
    if clock:
        words.append(f"clock={rng.choice([50, 150, 300, 600])}")
    match rng.choice("nnnnbbbff"):
        case "b":
            words.append(f"lut-budget={rng.choice([250, 500, 700, 900, 1500, 3000])}")
        case "f":
            words.append(f"target-fps={rng.choice(['1e4', '1e5', '1e6', '1e7'])}")
            words += [] if clock else ["clock=100"]
        case _:
            pass
    return f"verilog{{{' '.join(words)}}}"


class _Choice:
    """A network while it is chosen."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.ids = count(1)
        names = self.rng.choice([PREFIXED, PREFIXED, ODD])
        self.integers = self.rng.random() < 0.4
        self.names = list(names)
        if names is ODD:
            self.rng.shuffle(self.names)
        self.scaled = not self.integers and self.rng.random() < 0.3
        self.shape: Sizes = ()
        self.act = Quant(2)

    def network(self) -> Network:
        rng = self.rng
        kind = rng.choice(["dense", "image", "image", "image", "image", "row"])
        if kind == "dense":
            self.shape = (rng.randint(2, 9),)
        elif kind == "row":
            self.shape = (rng.randint(1, 3), rng.randint(3, 9))
        else:
            self.shape = (rng.randint(1, 3), rng.randint(2, 6), rng.randint(2, 6))
        shape = self.shape
        self.act = source = self.quant(input=True)
        blocks: list[Block] = []
        for _ in range(rng.randint(1, 4)):
            blocks += self.image_blocks() if len(self.shape) > 1 else [self.product(())]
        if len(self.shape) > 1 and rng.random() < 0.5:
            blocks += self.to_vector()
            for _ in range(rng.randint(1, 2)):
                blocks.append(self.product(()))
        last = blocks[-1]
        tail: Any = rng.choice(["none", "none", "none" if self.integers else "scale", "argmax"])
        if isinstance(last, Product) and rng.random() < 0.7:
            blocks[-1] = replace(last, act=None)
        names = rng.choice(GRAPHS), rng.choice(["x", "input", "reg", "clock", "weight"]), "y"
        batch = rng.choice([None, None, None, 1]) if len(shape) > 1 else rng.choice([None, 1, 3])
        form: Any = "integers" if self.integers else "quantisers"
        return Network(self.seed, names, shape, batch, source, tuple(blocks), form, tail)

    def quant(self, *, input: bool = False, vague: bool = False) -> Quant:
        rng = self.rng
        bits = rng.choice([1, 2, 2, 3, 4, 4, 8] if input else [1, 2, 2, 3, 4])
        signed = rng.random() < 0.5
        if self.integers:
            bits = rng.choice([1, 2, 3, 4, 8] if not input else [2, 4, 7, 8, 8])
            return Quant(bits, signed and bits > 1)
        scale = 2.0 ** rng.randint(-3, 1)
        if vague or (self.scaled and rng.random() < 0.5):
            scale *= rng.uniform(0.6, 1.4)
        zero = float(rng.randint(1, 2)) if not signed and bits > 2 and rng.random() < 0.1 else 0.0
        return Quant(bits, signed, rng.random() < 0.3 and bits > 1, scale, zero)

    def weight(self) -> Quant:
        rng = self.rng
        if self.integers:
            return Quant(rng.choice([1, 2, 3, 4, 8]), True, rng.random() < 0.5)
        return Quant(rng.choice([1, 2, 2, 3, 4, 8]), True, True, 2.0 ** rng.randint(-3, 0))

    def window(self, least: int = 1) -> tuple[Sizes, Sizes, Sizes]:
        """Kernel, strides and pads that fit the image."""
        rng = self.rng
        kernel = tuple(rng.randint(least, min(3, n)) if n >= least else 1 for n in self.shape[1:])
        strides = tuple(rng.choice([1, 1, 1, 2, 3]) for _ in kernel)
        before, after = ([rng.randint(0, k - 1) if rng.random() < 0.6 else 0 for k in kernel]
                         for _ in range(2))  # fmt: skip
        return kernel, strides, (*before, *after)

    def product(self, kernel: Sizes | None = None, *, outputs: int | None = None) -> Product:
        """One that fits what comes in; a dense layer for an empty kernel."""
        rng = self.rng
        norms = ["none", "bias"] if self.integers else ["none", "bias", "scale", "batch", "batch"]
        norm: Any = rng.choice(norms)
        relu, each = rng.random() < 0.3, not self.integers and rng.random() < 0.2
        act = self.quant()
        while relu and act.bipolar:
            act = self.quant()
        own = next(self.ids)
        name = self.names.pop(0)
        made = Product(
            own, name, outputs or rng.randint(1, 5), weight=self.weight(), each=each, norm=norm,
            relu=relu, act=act,
        )  # fmt: skip
        self.act = act
        if not self.integers and (channels := self.shape[0]) == 1:
            made = replace(made, outputs=max(2, made.outputs))
        if kernel == ():
            self.shape = (made.outputs,)
            return made
        kernel, strides, pads = self.window()
        groups, channels = 1, self.shape[0]
        if outputs is None and rng.random() < 0.4:
            groups = rng.choice([n for n in range(1, channels + 1) if channels % n == 0])
            made = replace(made, outputs=groups * rng.randint(1, 2))
        dilations = tuple(
            rng.choice([1, 1, 2]) if 2 * (k - 1) < n else 1
            for k, n in zip(kernel, self.shape[1:], strict=True)
        )
        if outputs is not None:  # a way of a sum keeps the size
            strides, dilations = (1,) * len(kernel), (1,) * len(kernel)
            pads = (*((k - 1) // 2 for k in kernel), *(k // 2 for k in kernel))
        made = replace(
            made, kernel=kernel, strides=strides, pads=pads, dilations=dilations, groups=groups
        )
        self.shape = (made.outputs, *_sizes(self.shape[1:], kernel, strides, pads, dilations))
        return made

    def image_blocks(self) -> list[Block]:
        rng = self.rng
        match rng.choice("ccccppbb"):
            case "p" if max(self.shape[1:]) > 1:
                kernel, strides, pads = self.window(2)
                pads = tuple(min(p, k // 2) for p, k in zip(pads, kernel * 2, strict=True))
                ones = (1,) * len(kernel)
                self.shape = (self.shape[0], *_sizes(self.shape[1:], kernel, strides, pads, ones))
                return [Pool(kernel, strides, pads)]
            case "b":
                return [self.branches()]
            case _:
                return [self.product()]

    def branches(self) -> Branches:
        rng = self.rng
        shape, act = self.shape, self.act
        join: Any = rng.choice(["add", "concat"] if self.integers else ["add"])
        outputs = shape[0] if join == "add" else rng.randint(1, 3)
        ways: list[tuple[Product, ...]] = []
        for longest in (2, rng.choice([0, 0, 1])):
            self.shape, self.act = shape, act
            way = [
                self.product(outputs=outputs) for _ in range(rng.randint(min(1, longest), longest))
            ]
            ways.append(tuple(way))
        # Sums need one scale on both ways; the first follows the second.
        kept = ways[1][-1].act if ways[1] else act
        first = ways[0][-1]
        assert first.act is not None and kept is not None
        bits = max(2, first.act.bits) if kept.signed else first.act.bits
        same = replace(first.act, scale=kept.scale, zero=0.0)
        if self.integers:
            same = replace(same, bits=bits, signed=kept.signed)
        ways[0] = (*ways[0][:-1], replace(first, act=same))
        if join == "concat":
            self.shape = (sum((w[-1].outputs if w else shape[0]) for w in ways), *shape[1:])
            return Branches((ways[0], ways[1]), "concat")
        self.shape, self.act = shape, self.quant()
        relu = not self.act.bipolar and rng.random() < 0.3
        return Branches((ways[0], ways[1]), "add", relu, self.act)

    def to_vector(self) -> list[Block]:
        if not self.integers and self.rng.random() < 0.3:
            self.shape = self.shape[:1]
            return [Mean()]
        total = 1
        for n in self.shape:
            total *= n
        self.shape = (total,)
        return [Flatten()]


def _sizes(
    size: Sizes, kernel: Sizes, strides: Sizes, pads: Sizes, dilations: Sizes
) -> tuple[int, ...]:
    rank = len(kernel)
    return tuple(
        (n + pads[a] + pads[a + rank] - (kernel[a] - 1) * dilations[a] - 1) // strides[a] + 1
        for a, n in enumerate(size)
    )


def smaller_networks(network: Network) -> Iterator[Network]:
    """Smaller networks, the boldest first; many of them do not fit together."""
    blocks = network.blocks
    for index in range(len(blocks)):
        if len(blocks) > 1:
            yield replace(network, blocks=(*blocks[:index], *blocks[index + 1 :]))
    for index, block in enumerate(blocks):
        for other in _smaller_blocks(block):
            yield replace(network, blocks=(*blocks[:index], *other, *blocks[index + 1 :]))
    if network.tail != "none":
        yield replace(network, tail="none")
    if network.batch not in (None, 1):
        yield replace(network, batch=1)
    if network.names != ("net", "x", "y"):
        yield replace(network, names=("net", "x", "y"))
    for axis, n in enumerate(network.shape):
        for less in sorted({1, n // 2, n - 1} - {0, n}):
            yield replace(network, shape=(*network.shape[:axis], less, *network.shape[axis + 1 :]))
    for quant in _smaller_quants(network.source):
        yield replace(network, source=quant)


def _smaller_blocks(block: Block) -> Iterator[tuple[Block, ...]]:
    if isinstance(block, Branches):
        yield block.ways[0]
        yield block.ways[1]
        for side, way in enumerate(block.ways):
            for index, part in enumerate(way):
                shorter = (*way[:index], *way[index + 1 :])
                for new in (shorter, *((*way[:index], p, *way[index + 1 :]) for (p,) in
                                       _smaller_blocks(part))):  # fmt: skip
                    ways = (new, block.ways[1]) if side == 0 else (block.ways[0], new)
                    yield (replace(block, ways=ways),)
        if block.relu:
            yield (replace(block, relu=False),)
        for quant in _smaller_quants(block.act):
            yield (replace(block, act=quant),)
    elif isinstance(block, Pool):
        yield from ((replace(block, **{key: of}),) for key, of in _smaller_windows(block))
    elif isinstance(block, Product):
        if block.norm != "none":
            yield (replace(block, norm="none"),)
        if block.norm == "batch":
            yield (replace(block, norm="scale"),)
        if block.relu:
            yield (replace(block, relu=False),)
        if block.each:
            yield (replace(block, each=False),)
        if block.groups > 1:
            yield (replace(block, groups=1),)
        for less in sorted({1, block.outputs // 2, block.outputs - 1} - {0, block.outputs}):
            yield (replace(block, outputs=less),)
        if block.kernel:
            yield from ((replace(block, **{key: of}),) for key, of in _smaller_windows(block))
        for quant in _smaller_quants(block.weight):
            yield (replace(block, weight=quant),)
        for quant in _smaller_quants(block.act):
            yield (replace(block, act=quant),)


def _smaller_windows(block: Product | Pool) -> Iterator[tuple[str, Sizes]]:
    for key, least in (("kernel", 1), ("strides", 1), ("pads", 0), ("dilations", 1)):
        sizes: Sizes = getattr(block, key, ())
        for axis, n in enumerate(sizes):
            if n > least:
                yield key, (*sizes[:axis], n - 1, *sizes[axis + 1 :])


def _smaller_quants(quant: Quant | None) -> Iterator[Quant]:
    if quant is None:
        return
    if quant.zero:
        yield replace(quant, zero=0.0)
    if quant.scale != 1:
        yield replace(quant, scale=1.0)
    if quant.narrow:
        yield replace(quant, narrow=False)
    if quant.bits > 1:
        yield replace(quant, bits=quant.bits - 1, narrow=quant.narrow and quant.bits > 2)
    if not quant.signed and quant.bits > 1:
        yield replace(quant, signed=True)
