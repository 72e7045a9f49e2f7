"""Random inputs that a program can take: ordinary ones, and ones at the ends of their types.

What a program leaves undefined is not asked of it: rows outside a table, shifts out of range, and
products of trits with what is not finite. Nor are integers divided by 0 or the least one by -1,
which end the process in engines that run a source. Not here: inputs from files (`inputs`), the
values themselves (`runtime.random_values`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FunctionType, StringAttr

from ..dialects import tensor, ternary
from ..dialects.interpret import run_module
from ..dialects.shapes import is_integer
from ..dialects.spike.types import dense_type
from ..ir.arrays import Array
from ..ir.errors import BackendError, TritonError
from ..ir.interpreter import entry_function
from ..lowering.from_onnx.formats import FORMAT_ATTRIBUTE, FORMATS
from ..lowering.sources.source import Source
from ..passes.analysis.time_axis import has_time_first
from ..runtime.random_values import Make, edge_array, random_array, random_inputs, special_array

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation


ORDINARY, EDGE, SPECIAL = "ordinary", "edge", "special"
"""The kinds of inputs: see `random_array`, `edge_array`, `special_array`."""

_BOUND = 16
"""Wide integers of ordinary inputs are below this."""

_PARTIAL = (tensor.DivOp, tensor.GatherRowsOp, tensor.ModOp, tensor.RequantizeOp)
"""Ops that are undefined for some integers, or that engines of sources cannot run on them."""

_PRODUCTS = (ternary.MatmulOp, ternary.LinearOp, ternary.ConvOp, ternary.AdderGraphOp)
"""Ops that are undefined for NaN and infinities."""


TIMESTEPS = 16
"""The steps of random inputs that have time first, where the program does not say how many."""


def draw(
    module: ModuleOp,
    kind: str,
    samples: int,
    seed: int,
    timesteps: int = TIMESTEPS,
    source: Source | None = None,
) -> list[Array] | None:
    """Seeded inputs of `@forward`; `None` where the program is undefined on all that were tried.

    Args:
        module: the program.
        kind: `ORDINARY`, `EDGE` or `SPECIAL`.
        samples: what dynamic dimensions are, but for time.
        seed: of the values.
        timesteps: what a dynamic dimension of time is.
        source: what the program was imported from; inputs that it takes too go before others.
    """
    floats: Make = {ORDINARY: random_array, EDGE: edge_array, SPECIAL: special_array}[kind]
    ends = (edge_array, partial(edge_array, divisor=True)) if kind == EDGE else ()
    first = None
    for integers in (*ends, partial(random_array, bound=_BOUND), _positive, _small):
        make = partial(_made, floats, integers)
        arrays = random_arrays(module, samples, seed, timesteps, make)
        if _is_defined(module, arrays):
            if source is None or _is_taken(source, arrays):
                return arrays
            first = first or arrays
    return first


def _made(
    floats: Make, integers: Make, element: Attribute, shape: Sequence[int], rng: np.random.Generator
) -> Array:
    return (floats if isinstance(element, AnyFloat) else integers)(element, shape, rng)


def _positive(element: Attribute, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Ordinary values, integers above 0."""
    values = random_array(element, shape, rng, _BOUND)
    return np.maximum(values, 1) if values.dtype.kind in "iu" else values


def _small(element: Attribute, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Ordinary values, integers 0 or 1."""
    values = random_array(element, shape, rng, _BOUND)
    return values % 2 if values.dtype.kind in "iu" else values


def _is_taken(source: Source, arrays: Sequence[Array]) -> bool:
    """Whether the engine of a source takes inputs; those without integers are not asked about."""
    if not any(array.dtype.kind in "iu" for array in arrays):
        return True
    try:
        source.run(arrays)
    except BackendError:
        return False
    return True


def _is_defined(module: ModuleOp, arrays: Sequence[Array]) -> bool:
    """Whether the program has a meaning on inputs; costs a run where it may not."""
    arguments = entry_function(module, "forward").body.block.args
    whole = any(is_integer(dense_type(argument)) for argument in arguments)
    wild = any(_is_wild(array) for array in arrays)
    watched = (*(_PARTIAL if whole else ()), *(_PRODUCTS if wild else ()))
    if not any(isinstance(op, watched) for op in module.walk()):
        return True
    undefined = False

    def observe(op: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        nonlocal undefined
        if isinstance(op, _PRODUCTS):
            undefined = undefined or _is_wild(operands[0])
        elif isinstance(op, tensor.DivOp | tensor.ModOp):
            x, y = np.broadcast_arrays(*operands)
            if y.dtype.kind in "iu":
                least = np.iinfo(x.dtype).min
                overflow = (x == least) & (y == -1) if x.dtype.kind == "i" else False
                undefined = undefined or bool(((y == 0) | overflow).any())

    try:
        run_module(module, arrays, observer=observe)
    except TritonError:
        return False
    return not undefined


def _is_wild(array: Array) -> bool:
    """Whether an array holds NaN or an infinity."""
    return array.dtype.kind not in "iub" and not bool(np.isfinite(array).all())


def random_arrays(
    module: ModuleOp,
    samples: int,
    seed: int,
    timesteps: int = TIMESTEPS,
    make: int | Make = 16,
) -> list[Array]:
    """Seeded inputs of the types of `@forward`'s arguments; for `make` see `random_inputs`.

    Dynamic dimensions take `samples`, but for time: the first one of trains, and of what goes to
    neurons or synapses of spikes, takes `timesteps`.
    """
    generator = np.random.default_rng(seed)
    arrays: list[Array] = []
    for argument in entry_function(module, "forward").body.block.args:
        sizes = [timesteps, samples] if has_time_first(argument) else [samples]
        type = FunctionType.from_lists([argument.type], [])
        arrays += random_inputs(type, generator, sizes, make)
    return [_within(*pair) for pair in zip(_bits(module), arrays, strict=True)]


def _bits(module: ModuleOp) -> list[int | None]:
    """For each argument how many bits of its bytes are used, where it says that not all are."""
    function = entry_function(module, "forward")
    bits = {format.shown: format.bits for format in FORMATS.values()}
    attributes = (
        [None] * len(function.args) if function.arg_attrs is None else function.arg_attrs.data
    )
    named = [None if entry is None else entry.data.get(FORMAT_ATTRIBUTE) for entry in attributes]
    return [bits.get(name.data) if isinstance(name, StringAttr) else None for name in named]


def _within(bits: int | None, array: Array) -> Array:
    """Bytes of fewer bits, the lowest ones of each."""
    if bits is None or bits == 8:
        return array
    spare = 8 - bits
    return (array << spare) >> spare
