"""Native convolutions: what generates kernels joined with what compiles and loads them.

The entry point `conv` of the group `triton_dsl.kernels`. Not here: matrix products (`native`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...runtime.native.abi.conv import ConvGeometry
from ...runtime.native.abi.linear import Kind
from ...runtime.native.abi.parallel import CONV_CALL, CONV_PART
from ...runtime.native.processor import host_features
from .kernels.conv import conv_scratch_bytes
from .kernels.conv_parallel import conv_module
from .kernels.kernel import conv_fingerprint
from .kernels.recipes import Recipe, recipe_for
from .object_code import compiled_library

if TYPE_CHECKING:
    from ...runtime.native.torch_conv import ConvKernel, ConvProvider


def conv_provider(recipe: str | None = None, *, cache_folder: Path | None = None) -> ConvProvider:
    """What gives the operator `triton_dsl::ternary_conv2d` its kernels; each is loaded once.

    Args:
        recipe: name of a SIMD recipe that this processor can run; the best one when not given.
        cache_folder: where compiled kernels are kept; the user's cache folder when not given.

    Raises:
        OptionError: an unknown recipe, or one that this processor cannot run.
        BackendError: llvmlite is missing.
    """
    return _provider(recipe_for(recipe, host_features()), cache_folder)


@cache
def _provider(recipe: Recipe, cache_folder: Path | None) -> ConvProvider:
    from ...runtime.native.torch_conv import ConvKernel

    @cache
    def provide(geometry: ConvGeometry, kind: Kind) -> ConvKernel:
        library = compiled_library(
            conv_fingerprint(recipe, geometry, kind),
            lambda: conv_module(recipe, kind, geometry),
            (CONV_CALL, CONV_PART),
            cache_folder=cache_folder,
        )
        return ConvKernel(library, conv_scratch_bytes(recipe, kind, geometry))

    return provide
