"""Names that load on first use: what the public faces of this package are made of.

A face is a module that holds no code, such as `triton_dsl.spiking`. What it imports for type
checkers, under `if TYPE_CHECKING`, says in which module each of its names lives: that part of its
code is read, and nothing of it loaded before it is asked for. Not here: the names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from .collection import rare_collection
from .errors import BackendError


def lazy_names(face: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a face, by its `__name__`, assigns to `__getattr__`, `__dir__` and `__all__`.

    `__getattr__` raises AttributeError for other names, and BackendError where PyTorch is missing
    that a name needs.
    """
    homes, modules = _imported(face)
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


def _imported(face: str) -> tuple[dict[str, str], list[str]]:
    """What a face imports for type checkers: the module of each name, and modules below it."""
    spec: Any = sys.modules[face].__spec__
    homes: dict[str, str] = {}
    modules: list[str] = []

    def noted(module: str, _: object, __: object, names: tuple[str, ...], level: int) -> object:
        """Stands for `__import__`: notes what is imported from this package, and loads nothing."""
        if level and names != (lazy_names.__name__,):
            package = spec.parent.rsplit(".", level - 1)[0]
            if module:
                homes.update(dict.fromkeys(names, f"{package}.{module}"))
            else:
                modules.extend(names)
        return SimpleNamespace(**dict.fromkeys(names, True))  # `TYPE_CHECKING` among them

    # The code that Python loaded: also packages without their source have it.
    exec(spec.loader.get_code(face), {"__builtins__": {"__import__": noted}})
    return homes, modules
