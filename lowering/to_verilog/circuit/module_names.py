"""The names of a circuit's modules: one scope, from which every part of a conversion takes its own.

A module's name is that of its file, of the symbol beside the program's functions, and of what is
instantiated. All of them have to be different: also where a file system has no upper and lower
case. Not here: names inside of a module, which the printer gives.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr

from ....ir.errors import LoweringError
from .evaluation import LONGEST_NAME, identifier, shortened
from .memories import MEMORY_PREFIX
from .modules import AnyModule

_BESIDE = ("tb", "pins", "serial", "axi")
"""Modules that are written beside the circuit, NAME_tb and others: no part is called so."""

_LONGEST_MODULE = 160
"""Longer names of modules are cut: file systems bound those of files."""


class ModuleNames:
    """The names of the modules of one circuit.

    Args:
        module: holds the program; none of its symbols is given away.

    Attributes:
        top: of the module with the streams: the name of the program.
    """

    def __init__(self, module: ModuleOp) -> None:
        self._taken: set[str] = set()
        for op in module.body.block.ops:
            symbol = op.properties.get("sym_name", op.attributes.get("sym_name"))
            is_circuit = isinstance(op, AnyModule)
            if isinstance(symbol, StringAttr) and not is_circuit:
                self._taken.add(symbol.data.lower())
        wish = module.sym_name.data if module.sym_name else "network"
        self.top = self.new(shortened(identifier(wish), LONGEST_NAME))
        self._taken.update(f"{self.top}_{word}".lower() for word in _BESIDE)

    def new(self, wish: str) -> str:
        """A name that no other module has: the wish, or that with a number behind."""
        base = shortened(identifier(wish), _LONGEST_MODULE)
        if base.lower().startswith(MEMORY_PREFIX):
            base = f"_{base}"  # memories are called by what they are
        name, number = base, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name.lower())
        return name


def without_copies(modules: Sequence[AnyModule]) -> list[AnyModule]:
    """The modules in order, equal ones once.

    Raises:
        LoweringError: two different ones have one name.
    """
    by_symbol: dict[str, AnyModule] = {}
    for module in modules:
        symbol = module.sym_name.data
        first = by_symbol.setdefault(symbol, module)
        if first is not module and not first.is_structurally_equivalent(module):
            raise LoweringError(f"two different modules of a circuit are called '{symbol}'")
    return list(by_symbol.values())
