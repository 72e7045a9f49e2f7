"""The table of front ends: which files models come in, and what reads them.

Built-in front ends load on first use; other packages add theirs by an entry point of the group
`triton_dsl.frontends` (a suffix without its dot, and a `FrontEnd`), programs by
`register_front_end`. Not here: the readers (`from_*`), and models that are no files (`models`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..ir.errors import BackendError, OptionError, SourceError
from ..ir.extras import plug_ins, resolved

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from .sources.source import Source

ENTRY_POINTS = "triton_dsl.frontends"

STDIN = "-"
"""The path that stands for IR from standard input."""


@dataclass(frozen=True)
class FrontEnd:
    """A kind of file that models come in.

    Attributes:
        read: gives the model in a file as IR; called with its path and with `options` by name. Or
            where it stands: `package.module:function`.
        options: which of `layer`, `weights`, `trainable`, `dt` and `rounding` it takes.
        reads_text: whether `read` takes the text of a file, a `str`, in place of its path too.
        source: an engine that is not ours for such files, called with the path; or where it stands.
            `None` where there is none.
    """

    read: Callable[..., ModuleOp] | str
    options: frozenset[str] = frozenset()
    reads_text: bool = False
    source: Callable[[Path], Source] | str | None = None

    def reader(self) -> Callable[..., ModuleOp]:
        """`read`, loaded."""
        return resolved(self.read, "the file") if isinstance(self.read, str) else self.read


IR = FrontEnd(f"{__package__}.from_mlir:import_mlir", frozenset({"weights"}))
"""Textual IR: the front end of `.mlir` files and of standard input."""

FOLDER = FrontEnd(f"{__package__}.from_checkpoint:import_checkpoint")
"""The front end of folders: language models in the form of Hugging Face."""

BUILT_IN = {
    ".tri": FrontEnd(
        f"{__package__}.from_tri:import_tri",
        frozenset({"layer", "weights", "trainable"}),
        reads_text=True,
    ),
    ".gguf": FrontEnd(f"{__package__}.from_checkpoint:import_checkpoint"),
    ".mlir": IR,
    ".nir": FrontEnd(
        f"{__package__}.from_nir:import_nir",
        frozenset({"dt"}),
        source=f"{__package__}.sources.nir:NIRSource",
    ),
    ".net": FrontEnd(f"{__package__}.from_netx:import_netx"),
    ".onnx": FrontEnd(
        f"{__package__}.from_onnx:from_onnx",
        source=f"{__package__}.sources.onnx:OnnxSource",
    ),
    ".pt2": FrontEnd(
        f"{__package__}.from_torch.pt2_file:from_pt2",
        source=f"{__package__}.sources.torch:ProgramSource",
    ),
    ".tflite": FrontEnd(
        f"{__package__}.from_tflite:from_tflite",
        frozenset({"rounding"}),
        source=f"{__package__}.sources.tflite:TFLiteSource",
    ),
    ".tpk": FrontEnd(f"{__package__}.packages.package:import_package"),
}
"""Our own front ends by suffix; `triton-opt` reads `.mlir` itself, in parts if asked to."""

_registered: dict[str, FrontEnd] = {}


def register_front_end(suffix: str, front_end: FrontEnd) -> None:
    """Read files of a suffix, such as `.csv`, by `front_end`; a later one replaces it.

    Raises:
        OptionError: the suffix has no dot, or is that of a built-in front end.
    """
    if not suffix.startswith(".") or suffix in BUILT_IN:
        raise OptionError(f"'{suffix}' is no suffix that a front end can be added for")
    _registered[suffix] = front_end


def get_plugin_front_ends() -> dict[str, FrontEnd]:
    """The front ends that are not built in, by suffix: of installed packages, and registered.

    Raises:
        BackendError: a plug-in does not load.
    """
    found: dict[str, FrontEnd] = {}
    for point in plug_ins(ENTRY_POINTS):
        try:
            loaded = point.load()
        except Exception as error:
            raise BackendError(
                f"front end plug-in '{point.name}' does not load: {error}"
            ) from error
        if not isinstance(loaded, FrontEnd):
            raise BackendError(f"front end plug-in '{point.name}': '{point.value}' is no FrontEnd")
        found[f".{point.name}"] = loaded
    return {**found, **_registered}


def front_end_of(path: Path) -> FrontEnd:
    """What reads `path`.

    Raises:
        SourceError: no front end reads such files.
        BackendError: a plug-in does not load.
    """
    if str(path) == STDIN:
        return IR
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise SourceError(f"'{path}' is a folder without a config.json, and so no model")
        return FOLDER
    known = BUILT_IN
    if path.suffix not in known:  # plug-ins replace none, so that none need be looked for
        known = {**get_plugin_front_ends(), **BUILT_IN}
    if path.suffix not in known:
        *first, last = known
        raise SourceError(f"{path}: unknown kind of file; expected {', '.join(first)} or {last}")
    return known[path.suffix]
