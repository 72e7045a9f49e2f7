"""Packages made of models: the program, what targets make of it, facts, and how it came about.

No times and no machines: the same model gives the same bytes. Not here: who vouches for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import InputError, refuse
from ...ir.samples import check_labels
from ...ir.store import file_sha256
from ..artifact import Artifact
from ..engine import run_artifact
from ..models import ExampleInputs, Model, import_model
from ..module_file import save_module
from ..options import parse_target_spec
from ..targets import compile_to_target
from ..weights import Weights
from .package import FORMAT, PROGRAM, is_name

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
    refuse(not is_name(name), f"a package cannot be named {name!r}")
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
    stated, accuracy = dict[str, dict[str, object]](), dict[str, float]()
    for target in targets:
        artifact = compile_to_target(module, target)
        kind = folder = parse_target_spec(target).name
        if before := sum(other.split("-")[0] == kind for other in stated):
            folder = f"{kind}-{before + 1}"
        # The package's own manifest lists the files.
        facts = {key: value for key, value in artifact.manifest.items() if key != "files"}
        stated[folder] = {**facts, "primary": artifact.primary}
        files.update({f"{folder}/{path}": data for path, data in artifact.files.items()})
        if samples is not None:
            accuracy[folder] = _accuracy(target, artifact, *samples)
    files["provenance.json"] = _provenance(files, stated, source)
    about = {"name": name, "license": license, "card": card, "versions": _versions()}
    found = {"source": source, "targets": stated, "accuracy": accuracy}
    return Artifact(name, files).with_manifest(format=FORMAT, **about, **found)


def _name(model: Model, file: Path | None) -> str:
    if file is not None:
        return file.resolve().stem
    symbol = getattr(model, "sym_name", None)
    return symbol.data if symbol is not None else type(model).__name__


def _accuracy(target: str, artifact: Artifact, inputs: Sequence[Array], labels: Array) -> float:
    scores = run_artifact(target, artifact, inputs)[1][0]
    said = f"accuracy needs results [samples, classes], got {list(scores.shape)}"
    refuse(scores.ndim != 2, said, InputError)
    check_labels(labels, *scores.shape)
    return float(np.count_nonzero(scores.argmax(axis=1) == labels) / len(labels))


def _provenance(
    files: Mapping[str, bytes], targets: Mapping[str, Any], source: Mapping[str, str]
) -> bytes:
    """How files came about: an in-toto statement with the predicate of SLSA, both version 1.

    https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, https://slsa.dev/spec/v1.0/provenance.
    Each target has its manifest, with its pipeline of passes; the source, what the model was made
    from, has `file`, `sha256` and `weights_sha256`.
    """
    subjects = [
        {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
        for name, content in sorted(files.items())
    ]
    keys = {"sha256": source.get("file", ""), "weights_sha256": "weights"}
    made_from = [
        {"name": keys[key], "digest": {"sha256": source[key]}} for key in keys if key in source
    ]
    definition = {
        "buildType": "urn:triton-dsl:package:1",
        "externalParameters": {"targets": {name: t["target"] for name, t in targets.items()}},
        "internalParameters": {"pipelines": {name: t["pipeline"] for name, t in targets.items()}},
        "resolvedDependencies": made_from,
    }
    builder = {"id": "urn:triton-dsl", "version": {"triton-dsl": version("triton-dsl")}}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": definition, "runDetails": {"builder": builder}},
    }
    return (json.dumps(statement, indent=2, sort_keys=True) + "\n").encode()


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in _MADE_BY:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
