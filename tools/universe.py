"""Everything the project adds to xDSL, by name; each getter imports on call: start-up is short.

Plain `xdsl-opt` finds `UNIVERSE` through the entry point of the same name in pyproject.toml.
"""

from xdsl.universe import Universe

UNIVERSE = Universe()
