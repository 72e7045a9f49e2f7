"""The operations and types of the IR, one dialect a file or folder.

Each dialect has its definitions, its verification and, in a file beside them, what its operations
compute. `traits` says what is true of all ops of a class, `canonicalization_patterns` which
identities hold for them. Rewrites that serve one purpose of the compiler are `passes`; translations
to another dialect or to a target are `lowering`.

The names that users need load on first use, from where the imports say.
"""

from typing import TYPE_CHECKING

from ..ir.lazy import lazy_names

if TYPE_CHECKING:
    from . import spike as spike
    from . import tensor as tensor
    from . import ternary as ternary
    from .interpret import run_module as run_module
    from .parameters import attach_store as attach_store
    from .parameters import store_of as store_of
    from .registry import parse_module as parse_module
    from .registry import triton_context as triton_context
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
