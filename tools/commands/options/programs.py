"""Options of commands that look at programs, or write them in another form."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .common import Json, OfProgram, Rounding, flag, option


# fmt: off
@dataclass(frozen=True)
class Compile(OfProgram):
    """Compile a program to PyTorch, ONNX, native code or another target.

    Example: triton compile model.tri -t onnx -w model.safetensors -o model.onnx
    """

    target: Annotated[str, option("TARGET",
        "Target, with options: 'onnx{opset=17}'. triton-translate --list-targets names all.",
        "--target", "-t")] = "pytorch"
    output: Annotated[str | None, option("PATH", "Where to write. Default: FILE's stem.",
        "--output", "-o")] = None
    rounding: Rounding = None
    trainable: Annotated[bool, flag("--trainable/--no-trainable",
        "Keep float latents of ternary weights, for training.")] = False
    dump_stages: Annotated[Path | None, option("DIR",
        "Write the IR after each stage to this folder.")] = None
    no_self_check: Annotated[bool, flag("--no-self-check",
        "Do not compare the file in its engine before it is written.")] = False
    json: Json = False


@dataclass(frozen=True)
class Check:
    """Check programs and print every error.

    Example: triton check model.tri
    """

    files: Annotated[list[Path], typer.Argument(metavar="FILE",
        help="Programs and models; a .tri program tells all its errors.", show_default=False)]
    json: Json = False


@dataclass(frozen=True)
class Explain:
    """Say what the code of a message means: the rule, an example, and the same put right.

    Example: triton explain E0201
    """

    code: Annotated[str | None, typer.Argument(metavar="CODE",
        help="Such as E0201. Without it, all.", show_default=False)] = None
    json: Json = False


@dataclass(frozen=True)
class Fmt:
    """Format programs in place.

    Example: triton fmt model.tri
    """

    files: Annotated[list[Path], typer.Argument(metavar="FILE",
        help="Programs; '-' reads stdin.", show_default=False)]
    check: Annotated[bool, flag("--check",
        "Change nothing; exit with 1 if a file would change.")] = False
    diff: Annotated[bool, flag("--diff", "Change nothing; print what would.")] = False


@dataclass(frozen=True)
class Info(OfProgram):
    """Show a program's inputs, outputs, parameters, sizes and ops.

    Example: triton info model.tri
    """

    json: Json = False


@dataclass(frozen=True)
class Devices:
    """List processors, GPUs and ONNX Runtime providers."""

    json: Json = False


@dataclass(frozen=True)
class Doctor:
    """Check the installation, and tell which native kernels this processor gets.

    Exits with 1 when something always needed is missing.
    """

    json: Json = False
