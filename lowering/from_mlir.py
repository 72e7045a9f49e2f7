"""Textual IR from a file or standard input. Not here: its parser (`dialects.registry`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..dialects.registry import parse_module
from ..ir.errors import SourceError
from ..ir.safe_read import accessing
from .frontends import STDIN
from .weights import Weights, attach_weights

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


_PROGRAM = re.compile(r"(?:\s|#.*\n|//.*\n)*(?:layer|fn|const|let|import)\b")
"""How a program of the language begins, and no IR."""


def import_mlir(path: Path, *, weights: Weights | None = None) -> ModuleOp:
    """Textual IR of a file, or of standard input for `-`.

    Raises:
        SourceError: no such file, or no IR, such as a program of the language.
        VerifyError: IR that breaks an invariant.
        ParameterError: the weights do not fit.
    """
    is_stdin = str(path) == STDIN
    with accessing(str(path), SourceError):
        text = (sys.stdin.buffer.read() if is_stdin else path.read_bytes()).decode("utf-8")
    if is_stdin and _PROGRAM.match(text):
        raise SourceError("standard input is read as IR; save a program of the language as .tri")
    module = parse_module(text, "<stdin>" if is_stdin else str(path))
    if weights is not None:
        attach_weights(module, weights)
    return module
