"""xDSL's `tensor` dialect, extended: the upstream ops stay, ours share the namespace.

Each file holds one family of ops: `storage`, `elementwise`, `bits`, `functions`, `trigonometry`,
`activation`, `linear`, `attention`, `shape`, `reduction`, `ordering`, `normalization`,
`quantization`; each op says what it computes, and `formula` is what decompositions are written
with. Upstream's own ops are imported from `xdsl.dialects.tensor`.
"""

from xdsl.dialects.tensor import Tensor as UpstreamTensor
from xdsl.ir import Dialect, Operation

from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .bits import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .functions import *  # noqa: F403
from .linear import *  # noqa: F403
from .normalization import *  # noqa: F403
from .ordering import *  # noqa: F403
from .quantization import *  # noqa: F403
from .reduction import *  # noqa: F403
from .shape import *  # noqa: F403
from .storage import *  # noqa: F403
from .storage import StoreAttr
from .trigonometry import *  # noqa: F403

OPERATIONS: list[type[Operation]] = [
    value
    for value in list(globals().values())
    if isinstance(value, type)
    and value.__module__.startswith(f"{__name__}.")
    and hasattr(value, "name")
    and Operation in value.__mro__  # `issubclass` asks all classes of ops
]
"""The ops this project adds: what the files above define."""

Tensor = Dialect(
    "tensor",
    [*UpstreamTensor.operations, *OPERATIONS],
    [*UpstreamTensor.attributes, StoreAttr],
)
