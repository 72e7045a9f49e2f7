"""Everything the project adds to xDSL, by name; each getter imports on call, to keep start-up short.

Plain `xdsl-opt` finds `UNIVERSE` through the entry point of the same name in pyproject.toml.
"""

from xdsl.universe import Universe

UNIVERSE = Universe()
