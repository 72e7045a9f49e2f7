"""How results show themselves in a notebook: one plain table, in the colours of its page.

Not here: pictures (`tools.pictures`), and tables of the command line (`tools.console`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
