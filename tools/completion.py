"""Completion of `triton-opt`, `triton-translate` and `triton-reduce` in a shell, by argcomplete.

A pipeline completes name by name, and the options of the pass that it is in; so does a target.
`triton` completes by Typer (`triton --install-completion`). Not here: whether a shell asks
(`console.complete`), and the options themselves.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence

from ..ir.pipeline import option_types
from ..lowering.options import option_infos
from ..lowering.target import Target
from ..lowering.targets import get_all_targets
from ..passes.universe import everything


def answer(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what may follow, and end; nothing without argcomplete."""
    try:
        import argcomplete
    except ImportError:
        return
    known = {"passes": pipelines, "target": targets}
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        # xDSL's targets, of `triton-opt`, have no options that are worth completing.
        if action.dest in known and action.default != "mlir":
            action.completer = known[action.dest]  # pyright: ignore[reportAttributeAccessIssue]
    argcomplete.autocomplete(parser)


def pipelines(prefix: str, **_: object) -> list[str]:
    """The pipelines that begin with a text and are one word longer."""
    passes = everything().all_passes.items()
    return specs(prefix, {name: lambda get=get: list(option_types(get())) for name, get in passes})


def targets(prefix: str, **_: object) -> list[str]:
    """The targets with options that begin with a text and are one word longer."""

    def options(get: Callable[[], Target]) -> list[str]:
        return [option.name for option in option_infos(get().Options)]

    known = get_all_targets().items()
    return specs(prefix, {name: lambda get=get: options(get) for name, get in known})


def specs(prefix: str, known: Mapping[str, Callable[[], Sequence[str]]]) -> list[str]:
    """What may follow a text of names, each with options in braces, divided by commas.

    Args:
        prefix: the text.
        known: the names, and what gives the options of one.
    """
    inside = re.search(r"([\w.-]+)\{([^{}]*)$", prefix)
    if inside is None:
        last = re.search(r"[\w.-]*$", prefix)
        names, word = known.keys(), "" if last is None else last[0]
    else:
        name, given = inside.groups()
        word = re.split(r"\s", given)[-1]
        taken = set(re.findall(r"([\w-]+)=", given))
        options = known[name]() if name in known and "=" not in word else ()
        written = (option.replace("_", "-") for option in options)
        names = [f"{option}=" for option in written if option not in taken]
    head = prefix[: len(prefix) - len(word)]
    return [head + name for name in sorted(names) if name.startswith(word)]
