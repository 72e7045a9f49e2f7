"""What a program came from, with an engine for it. Not here: which engine (`choice`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import FileLineColLoc, NameLoc
from xdsl.ir import Attribute

from ...ir.arrays import Array
from ...ir.errors import BackendError

Place = tuple[str, int]
"""Where an op comes from: the name of its location, and the line."""

Values = dict[Place, list[Array]]
"""What an engine computes at each place, in its order."""


class Source(ABC):
    """What a caller gave, and an engine that runs it.

    Attributes:
        engine: its name and version; known after a run.
        size: of what was given in bytes; `None` where it is no file.
    """

    engine: str
    size: int | None = None

    @abstractmethod
    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, as the program that was imported gives them, for its inputs.

        Raises:
            BackendError: no engine is installed, or it refuses what was given.
        """

    def values(self, inputs: Sequence[Array]) -> Values:
        """What is computed on the way to the results.

        Raises:
            BackendError: the engine does not tell.
        """
        raise BackendError(f"{self.engine} does not tell what it computes on the way")


class NoEngine(Source):
    """What nobody but us can run."""

    def __init__(self, reason: str) -> None:
        self.engine = "none"
        self.reason = reason

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Never gives results."""
        raise BackendError(self.reason)


def place_of(location: Attribute) -> Place | None:
    """Where a location says that an op comes from."""
    name = ""
    if isinstance(location, NameLoc):
        name, location = location.desc.data, location.location
    if not isinstance(location, FileLineColLoc):
        return None
    return name, location.line.data
