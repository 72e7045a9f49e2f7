"""How results show themselves in a notebook: plain tables and rasters, in the colours of its page.

The page that says everything is `tools.explorer`. Not here: pictures (`tools.pictures`), and tables
of the command line (`tools.console`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from .arrays import Array
from .locations import location_text


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], most: int = 50
) -> str:
    """A table as HTML; numbers to the right, all text escaped, rows beyond `most` counted."""
    from html import escape  # with its table of entities, when something is shown

    cells = [list(row) for row in rows]
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in cells[:most])
    left = len(cells) - most
    more = f'<tr><td colspan="{len(columns)}">… and {left:,} more</td></tr>' if left > 0 else ""
    caption = f'<caption style="text-align:left">{escape(title)}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
        return f'<td style="text-align:right">{text}</td>'
    from html import escape

    return f"<td>{escape('' if value is None else str(value))}</td>"


def module_html(module: ModuleOp, most: int = 50) -> str:
    """The ops of a module: what each gives, and where it comes from."""
    ops = [op for op in module.walk() if op.results]
    rows = [
        (op.name, ", ".join(str(result.type) for result in op.results), location_text(op))
        for op in ops
    ]
    name = "a module" if module.sym_name is None else module.sym_name.data
    return html_table(f"{name}: {len(ops):,} ops", ["op", "gives", "from"], rows, most)


def show_modules() -> None:
    """Let a notebook that runs show modules as tables; xDSL's class shows all of its text."""
    python: Any = sys.modules.get("IPython")
    shell: Any = None if python is None else python.get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(ModuleOp, module_html)


def raster_html(title: str, fired: Array) -> str:
    """Spikes [steps, neurons] as marks, time to the right; at most 2,048 steps and 256 neurons."""
    from html import escape

    shown = fired[:2048, :256]
    steps, neurons = shown.shape
    marks = "".join(f"M{t} {n}h.8" for t, n in zip(*np.nonzero(shown), strict=True))
    height = min(160, max(24, 3 * neurons))
    return (
        f"<div>{escape(title)}</div>"
        f'<svg viewBox="0 -.5 {steps} {neurons}" preserveAspectRatio="none" width="480" '
        f'height="{height}"><path d="{marks}" stroke="currentColor" stroke-width=".7"/></svg>'
    )
