"""`triton explain`: what the code of a message means, with an example and the same put right."""

from __future__ import annotations

from textwrap import indent

from ...ir.errors import OptionError, did_you_mean
from ...ir.language.codes import explanations
from ..console import print_json, show, table
from .options.programs import Explain


def explain(options: Explain) -> None:
    """Print one explanation, or the list of codes."""
    rows = explanations()
    code = None if options.code is None else options.code.strip("[]").upper()
    if code is not None and code not in rows:
        near = did_you_mean(code, rows) or "; without a code all are listed"
        raise OptionError(f"there is no code '{options.code}'{near}")
    if options.json:
        chosen = rows.values() if code is None else [rows[code]]
        names = ("code", "title", "why", "wrong", "right")
        print_json([{name: getattr(row, name) for name in names} for row in chosen])
    elif code is None:
        show(table("messages", ["code", "what"], [(r.code, r.title) for r in rows.values()]))
    else:
        row = rows[code]
        print(f"{row.code}: {row.title}\n\n{row.why}\n")
        print(
            f"Wrong:\n\n{indent(row.wrong, '    ')}\nRight:\n\n{indent(row.right, '    ')}", end=""
        )
