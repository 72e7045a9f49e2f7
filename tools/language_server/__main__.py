"""`triton-lsp`: starts the server on standard input and output, as editors do."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pkgutil import resolve_name

from ...ir.collection import usual_collection
from ...ir.errors import BackendError, OptionError
from ...ir.extras import install
from ..console import guarded

USAGE = """Usage: triton-lsp

The language server of .tri programs and of IR (.mlir), on standard input and output.
docs/editors.md says how editors start it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until the editor ends it; the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return guarded("triton-lsp", lambda: _serve(arguments))


def _serve(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if arguments not in ([], ["--stdio"]):
        raise OptionError(f"unknown argument '{arguments[0]}'; triton-lsp takes none")
    try:
        server = resolve_name(f"{__package__}.server:server")
    except ImportError as error:
        raise BackendError(f"the language server needs pygls: {install('lsp')}") from error
    # Its own streams: pygls closes what it is given.
    with open(os.dup(0), "rb") as stdin, open(os.dup(1), "wb") as stdout, usual_collection():
        server.start_io(stdin, stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
