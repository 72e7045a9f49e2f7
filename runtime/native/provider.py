"""Where native kernels come from: an entry point, so that `runtime` needs no compiler.

Group `triton_dsl.kernels`, name `native`: a function without arguments that gives a `Provider`.
This package's own is `tools.native.kernel_provider`; it gives none where llvmlite is missing.
Programs may give another with `set_kernel_provider`. Not here: kernels, or what calls them.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from threading import Lock
from typing import TYPE_CHECKING

from ...ir.errors import BackendError

if TYPE_CHECKING:
    from .ternary_linear import Provider

GROUP, NAME = "triton_dsl.kernels", "native"

_LOCK = Lock()
_KNOWN: list[Provider | None] = []
"""Empty until somebody asked; then what was found or set, `None` for nothing."""


def kernel_provider() -> Provider | None:
    """What gives kernels, or `None` where there is nothing; looked for once in a process."""
    if not _KNOWN:
        with _LOCK:
            if not _KNOWN:
                _KNOWN.append(_found())
    return _KNOWN[0]


def set_kernel_provider(provider: Provider | None) -> None:
    """Take kernels from `provider`; `None` does without native kernels.

    Call it before the first product: layers that ran keep the kernels that they have.
    """
    with _LOCK:
        _KNOWN[:] = [provider]


def _found() -> Provider | None:
    for entry in entry_points(group=GROUP, name=NAME):
        try:
            return entry.load()()
        except (ImportError, BackendError):
            continue
    return None
