"""Native ternary layers: the generator of kernels joined with what compiles and runs them.

`ternary_linear(trits)` gives a layer for a matrix [outs, ins] with values -1, 0, 1; called on int8
activations it gives exact int32, on float32 activations float32.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..ir.native_abi import Kind, Layout
from ..ir.processor import host_features
from ..lowering.to_native.object_code import compile_object
from ..passes.ternary_kernels.kernel import fingerprint, kernel_module
from ..passes.ternary_kernels.recipes import Recipe, best_recipe, recipe_named
from ..runtime.native.cache import ObjectCache
from ..runtime.native.jit import Library, load
from ..runtime.native.packed import PackedWeights
from ..runtime.native.ternary_linear import Precision, Provider, TernaryLinear


def kernel_provider(recipe: str | None = None, *, cache_folder: Path | None = None) -> Provider:
    """What gives `TernaryLinear` its kernels; each is loaded once in a process.

    Args:
        recipe: name of a SIMD recipe that this processor can run; the best one when not given.
        cache_folder: where compiled kernels are kept; the user's cache folder when not given.

    Raises:
        OptionError: an unknown recipe, or one that this processor cannot run.
        BackendError: llvmlite is missing.
    """
    if recipe is None:
        chosen = best_recipe(host_features())
    else:
        chosen = recipe_named(recipe, host_features())
    return _provider(chosen, cache_folder)


@cache
def _provider(recipe: Recipe, cache_folder: Path | None) -> Provider:
    kept = None if cache_folder is None else ObjectCache(cache_folder)

    @cache
    def provide(layout: Layout, kind: Kind) -> Library:
        def generate() -> bytes:
            return compile_object(kernel_module(recipe, layout, kind))

        return load(fingerprint(recipe, layout, kind), generate, cache=kept)

    return provide


def ternary_linear(
    weights: NDArray[np.generic] | PackedWeights,
    *,
    scale: NDArray[np.float32] | float | None = None,
    bias: NDArray[np.float32] | None = None,
    precision: Precision = "dynamic-int8",
    threads: int = 1,
    recipe: str | None = None,
    layout: Layout = "panels",
) -> TernaryLinear:
    """A callable ternary layer for this processor.

    Args:
        weights: [outs, ins] with values -1, 0, 1, or already packed.
        scale: a number, or one for each output, for float activations.
        bias: one for each output, for float activations.
        precision: what is done with float activations, see `TernaryLinear`.
        threads: most threads that a call uses.
        recipe: name of a SIMD recipe; the best one when not given.
        layout: of the weights, see `TernaryLinear`.

    Raises:
        ParameterError: weights that are no matrix of trits.
        OptionError: a wrong option.
        BackendError: llvmlite is missing.
    """
    packed = weights if isinstance(weights, PackedWeights) else PackedWeights.of(weights)
    return TernaryLinear(
        packed,
        kernel_provider(recipe),
        scale=scale,
        bias=bias,
        precision=precision,
        threads=threads,
        layout=layout,
    )
