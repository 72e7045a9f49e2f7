"""Native runs of neurons over time: what generates kernels joined with what compiles and loads.

The entry point `scan` of the group `triton_dsl.kernels`. What was compiled once is loaded without
the compiler's modules, which take longer to import than a few hundred runs. Not here: what calls
the kernels (`runtime.native.torch_scan`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ...runtime.native.abi.scan import SCAN_CALL, SCAN_PART, ScanCode
from ...runtime.native.jit import Library
from ...runtime.native.processor import host_features
from .object_code import compiled_library
from .source_digest import KERNELS, source_digest

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ...runtime.native.torch_scan import ScanProvider


@cache
def scan_provider() -> ScanProvider:
    """What gives runs over time their kernels; each is loaded once.

    Raises:
        BackendError: llvmlite is missing.
    """
    host_features()

    @cache
    def provide(scan: ScanCode, bits: int, *, forward: bool) -> Library:
        def build() -> ModuleOp:
            from xdsl.dialects.builtin import f32, f64

            from .kernels.scan import scan_module

            element = f64 if bits == 64 else f32
            return scan_module(scan, element, forward=forward)

        key = f"scan {source_digest(*KERNELS).hex()} {scan} {bits} {forward}"
        return compiled_library(key, build, (SCAN_CALL, SCAN_PART))

    return provide
