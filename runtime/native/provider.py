"""Where native kernels come from: entry points, so that `runtime` needs no compiler.

The group is `triton_dsl.kernels`. Each entry is a function without arguments; a missing module or
a `BackendError` says that there are none, as in this package's own where llvmlite is missing.
Programs may set others. Not here: kernels, or what calls them.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from ...ir.errors import BackendError
from ...ir.extras import plug_ins

if TYPE_CHECKING:
    from .bitplanes import BitplaneKernels
    from .ternary_linear import Provider
    from .torch_conv import ConvProvider
    from .torch_scan import ScanProvider

GROUP = "triton_dsl.kernels"
_T = TypeVar("_T")


class KernelSource(Generic[_T]):
    """Kernels of one kind, looked for when they are first wanted.

    Attributes:
        name: of the entry point.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = Lock()
        self._known: list[_T | None] = []

    def get(self) -> _T | None:
        """The kernels, or `None` where there are none; looked for once in a process."""
        if not self._known:
            with self._lock:
                if not self._known:
                    self._known.append(self._found())
        return self._known[0]

    def set(self, kernels: _T | None) -> None:
        """Take these kernels from now on; `None` does without.

        Call it before the first product: layers that ran keep the kernels that they have.
        """
        with self._lock:
            self._known = [kernels]

    def _found(self) -> _T | None:
        for entry in plug_ins(GROUP, self.name):
            try:
                return entry.load()()
            except (ModuleNotFoundError, BackendError):
                continue
        return None


LINEAR: KernelSource[Provider] = KernelSource("linear")
"""Activations by ternary weights."""
CONV: KernelSource[ConvProvider] = KernelSource("conv")
"""Convolutions with ternary weights."""
BITPLANES: KernelSource[BitplaneKernels] = KernelSource("bitplanes")
"""Trits by trits."""
SCAN: KernelSource[ScanProvider] = KernelSource("scan")
"""Runs of neurons over time."""
