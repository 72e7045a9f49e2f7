"""Names that load on first use: what the public faces of this package are made of.

A face is a module that holds no code, such as `triton_dsl.spiking`: a table says in which module
each of its names lives. Type checkers see the same names imported under `if TYPE_CHECKING`. Not
here: the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from .collection import rare_collection
from .errors import BackendError

Homes = Mapping[str, str]
"""Names, with spaces between them, by the module that they live in: `runtime.layers`."""


def lazy_names(
    face: str, *tables: Homes, modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a face assigns to `__getattr__`, `__dir__` and `__all__`.

    Args:
        face: `__name__` of the face.
        tables: where its names live.
        modules: modules below the face that are names of it too.

    `__getattr__` raises AttributeError for other names, and BackendError where PyTorch is missing
    that a name needs.
    """
    root = face.partition(".")[0]
    homes = {name: f"{root}.{home}" for t in tables for home in t for name in t[home].split()}
    names = sorted({*homes, *modules})

    def elsewhere(name: str) -> str:
        """Which of the modules below has the name; private names are asked for by tools."""
        if name.startswith("_") or "." in face:
            return ""
        faces = {module: import_module(f"{face}.{module}") for module in modules}
        found = [module for module, below in faces.items() if name in below.__all__]
        return f"; it is in {face}.{found[0]}" if found else ""

    def load(name: str) -> Any:
        if name in modules:
            return import_module(f"{face}.{name}")
        if name not in homes:
            raise AttributeError(f"module {face!r} has no attribute {name!r}{elsewhere(name)}")
        try:
            with rare_collection():
                value = getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            from .extras import install

            raise BackendError(f"{name} needs PyTorch: {install('torch')}") from None
        setattr(sys.modules[face], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[face]), *names})

    return load, listed, names
