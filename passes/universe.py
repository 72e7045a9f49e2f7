"""Every dialect and pass by name; each getter imports on call, so that start-up is short.

Plain `xdsl-opt` finds `UNIVERSE` through the entry point of the same name in pyproject.toml. The
extended `tensor` dialect is not in it, as xDSL refuses a second `tensor`: `everything` puts ours in
the place of xDSL's.
"""

from __future__ import annotations

import sys
from functools import cache, partial
from pkgutil import resolve_name

from xdsl.universe import Universe

from ..dialects.registry import get_all_dialects
from ..ir.extras import plug_ins
from . import PASSES

_ROOT = __name__.removesuffix(".passes.universe")

UNIVERSE = Universe(
    all_dialects={name: get_all_dialects()[name] for name in ("ternary", "spike")},
    all_passes={name: partial(resolve_name, f"{_ROOT}.{home}") for name, home in PASSES.items()},
)


@cache
def everything() -> Universe:
    """Ours, xDSL's and what installed packages add by entry points of the group `xdsl.universe`.

    A package that fails to load, or offers a name that is taken, costs a warning and no more.
    """
    from xdsl.universe import XDSL_UNIVERSE

    merged = Universe(
        all_dialects=get_all_dialects(),
        all_passes={**XDSL_UNIVERSE.all_passes, **UNIVERSE.all_passes},
        all_targets={**XDSL_UNIVERSE.all_targets},
    )
    for entry in plug_ins("xdsl.universe"):
        try:
            universe: object = entry.load()
        except Exception as error:
            _warn(f"'{entry.value}' cannot be loaded: {type(error).__name__}: {error}")
            continue
        if not isinstance(universe, Universe):
            _warn(f"'{entry.value}' is not a xdsl.universe.Universe")
        elif universe is not XDSL_UNIVERSE and universe is not UNIVERSE:
            _merge(entry.name, universe, merged)
    return merged


def _merge(plugin: str, added: Universe, merged: Universe) -> None:
    for kind, names, known in (
        ("dialect", added.all_dialects, merged.all_dialects),
        ("pass", added.all_passes, merged.all_passes),
        ("target", added.all_targets, merged.all_targets),
    ):
        for name in names:
            if name in known:
                _warn(f"'{plugin}' offers a {kind} '{name}', a name that is taken")
    merged.all_dialects.update(
        {n: d for n, d in added.all_dialects.items() if n not in merged.all_dialects}
    )
    merged.all_passes.update(
        {n: p for n, p in added.all_passes.items() if n not in merged.all_passes}
    )
    merged.all_targets.update(
        {n: t for n, t in added.all_targets.items() if n not in merged.all_targets}
    )


def _warn(problem: str) -> None:
    print(f"warning: plug-in {problem}", file=sys.stderr)
