"""Everything the project adds to xDSL, by name; each getter imports on call: start-up is short.

Plain `xdsl-opt` finds `UNIVERSE` through the entry point of the same name in pyproject.toml. The
extended `tensor` dialect is not in it: xDSL has a dialect of that name and refuses a second.
"""

from xdsl.ir import Dialect
from xdsl.universe import Universe

from ..passes import get_all_passes


def get_ternary() -> Dialect:
    """The `ternary` dialect."""
    from ..dialects.ternary import Ternary

    return Ternary


UNIVERSE = Universe(all_dialects={"ternary": get_ternary}, all_passes=get_all_passes())
