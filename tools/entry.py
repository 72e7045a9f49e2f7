"""Where the command lines begin: Ctrl-C while they load, or end, is the exit code 130 as ever.

A command line takes tenths of a second to load, and some to end. Python would answer Ctrl-C there
with a traceback. Nothing that takes long to load is imported by this file, nor on the way to it.
Not here: what is done about Ctrl-C in between, which `console.guarded` says.
"""

from __future__ import annotations

import gc
import os
import signal
from pkgutil import resolve_name

from ..ir.collection import rare_collection


def triton() -> int:
    """The command `triton`; its exit code."""
    return _run("triton", "cli")


def triton_lsp() -> int:
    """The command `triton-lsp`; its exit code."""
    return _run("triton-lsp", "language_server.__main__")


def triton_opt() -> int:
    """The command `triton-opt`; its exit code."""
    return _run("triton-opt", "opt")


def triton_reduce() -> int:
    """The command `triton-reduce`; its exit code."""
    return _run("triton-reduce", "reduce")


def triton_translate() -> int:
    """The command `triton-translate`; its exit code."""
    return _run("triton-translate", "translate")


def _run(tool: str, module: str) -> int:
    """Load a command line and run it."""
    with rare_collection():
        code = _interruptible(tool, module)
        # The end of the process is the end of all objects: looking through them takes a second.
        gc.freeze()
    return code


def _interruptible(tool: str, module: str) -> int:
    def stop(*_: object) -> None:
        os.write(2, f"{tool}: error: interrupted\n".encode())
        os._exit(130)

    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:  # who started us wants Ctrl-C to be ignored
        return resolve_name(f"{__package__}.{module}:main")()
    signal.signal(signal.SIGINT, stop)
    main = resolve_name(f"{__package__}.{module}:main")
    try:
        signal.signal(signal.SIGINT, usual)
        code = main()
        signal.signal(signal.SIGINT, stop)
    except KeyboardInterrupt:  # before or behind what `guarded` guards
        stop()
        raise
    return code
