"""Packages made of models: the program, what targets make of it, facts, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import OptionError
from ...ir.store import file_sha256
from ..artifact import Artifact
from ..engine import run_artifact
from ..models import ExampleInputs, Model, import_model
from ..module_file import save_module
from ..options import parse_target_spec
from ..targets import compile_to_target
from ..weights import Weights
from .provenance import provenance

FORMAT = "triton-dsl package 1"
PROGRAM = "program"
"""The stem of the program and its weights."""

_MADE_BY = ("triton-dsl", "xdsl", "numpy", "torch", "onnx", "onnxruntime", "llvmlite")


def build_package(
    model: Model,
    targets: Sequence[str] = (),
    *,
    name: str | None = None,
    weights: str | Weights | None = None,
    example_inputs: ExampleInputs | None = None,
    input_shape: Sequence[int] | None = None,
    license: str | None = None,
    card: str | None = None,
    samples: tuple[Sequence[Array], Array] | None = None,
) -> Artifact:
    """A package of a model.

    Args:
        model: what `import_model` takes.
        targets: with their options; each becomes a folder.
        name: of the model; by default that of its file or class.
        weights: of a `.tri` program or IR.
        example_inputs, input_shape: of a PyTorch module.
        license: of the model, as SPDX writes it: `Apache-2.0`.
        card: text about it, in Markdown.
        samples: inputs of `@forward` and labels `[N]`: the manifest then says what share of them
            each target reads rightly.

    Raises:
        TritonError: the model cannot be imported, or a target cannot express it.
    """
    file = Path(model) if isinstance(model, str | Path) else None
    module = import_model(
        model, weights=weights, example_inputs=example_inputs, input_shape=input_shape
    )
    name = name or _name(model, file)
    if not is_name(name):
        raise OptionError(f"a package cannot be named {name!r}")
    files, source = dict[str, bytes](), dict[str, str]()
    with TemporaryDirectory() as folder:
        save_module(module, Path(folder, f"{PROGRAM}.mlir"))
        for path in sorted(Path(folder).iterdir()):
            files[path.name] = path.read_bytes()
    if file is not None and file.is_file():
        source = {"file": file.name, "sha256": file_sha256(file)}
        if file.suffix == ".tri":
            files[f"source/{file.name}"] = file.read_bytes()
    if isinstance(weights, str | Path):
        source["weights_sha256"] = file_sha256(Path(weights))
    made, accuracy = dict[str, Artifact](), dict[str, float]()
    for target in targets:
        artifact = compile_to_target(module, target)
        folder = _folder(parse_target_spec(target).name, made)
        made[folder] = artifact
        files.update({f"{folder}/{path}": data for path, data in artifact.files.items()})
        if samples is not None:
            accuracy[folder] = _accuracy(target, artifact, *samples)
    stated = {folder: _facts(artifact) for folder, artifact in made.items()}
    files["provenance.json"] = provenance(files, stated, source)
    return Artifact(name, files).with_manifest(
        format=FORMAT,
        name=name,
        versions=_versions(),
        license=license,
        card=card,
        source=source,
        targets=stated,
        accuracy=accuracy,
    )


def is_name(name: object) -> bool:
    """Whether a package, or the artefact of a target, can be called so on every disk."""
    return isinstance(name, str) and name.isprintable() and not set(name) & set("/\\:")


def _name(model: Model, file: Path | None) -> str:
    if file is not None:
        return file.resolve().stem
    symbol = getattr(model, "sym_name", None)
    return symbol.data if symbol is not None else type(model).__name__


def _folder(target: str, taken: Mapping[str, Artifact]) -> str:
    """A name for a target's folder that no other has."""
    number = sum(name.split("-")[0] == target for name in taken)
    return f"{target}-{number + 1}" if number else target


def _facts(artifact: Artifact) -> dict[str, object]:
    """The manifest of a target's artefact, without its files, which the package's own lists."""
    kept = {key: value for key, value in artifact.manifest.items() if key != "files"}
    return {**kept, "primary": artifact.primary}


def _accuracy(target: str, artifact: Artifact, inputs: Sequence[Array], labels: Array) -> float:
    scores = run_artifact(target, artifact, inputs)[1][0]
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        raise OptionError(f"labels {list(labels.shape)} do not fit results {list(scores.shape)}")
    return float(np.count_nonzero(scores.argmax(axis=1) == labels) / len(labels))


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in _MADE_BY:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
