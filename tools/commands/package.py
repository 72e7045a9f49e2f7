"""`triton package`: one file of a model."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...ir.errors import refuse
from ...ir.safe_read import accessing
from ...ir.safe_write import PendingFiles
from ...ir.samples import read_labels, read_samples
from ...lowering.models import import_model
from ...lowering.packages.archive import to_archive
from ...lowering.packages.building import build_package
from ...lowering.packages.package import PASSPHRASE
from ...runtime.security.encryption import encrypt, key_from
from ...runtime.security.signing import sign
from ..console import print_json, progress, show, table
from ..inputs import bind_inputs
from .options.packages import Package

KEY_PASSWORD = "TRITON_KEY_PASSWORD"
"""The variable of the environment with the password of a signing key."""


def package(options: Package) -> None:
    """Make a package, encrypt and sign it if asked to, and list what it holds.

    Raises:
        OptionError: options that do not go together, or a place that cannot be written.
        TritonError: see `build_package`.
    """
    file, output = options.file, options.output or Path(f"{options.file.resolve().stem}.tpk")
    is_same = output.exists() and file.exists() and output.samefile(file)
    refuse(is_same, f"'{output}' is the model; choose another output with -o")
    labelled = [each for each in (options.inputs, options.labels) if each is not None]
    refuse(len(labelled) == 1, "--inputs and --labels go together")
    certified = options.certificate or options.chain
    refuse(options.sign is None and certified, "a certificate goes with --sign KEY")
    said = "a package is encrypted by --key or by --passphrase, not by both"
    refuse(options.key and options.passphrase, said)
    about: dict[str, Any] = {"name": options.name, "license": options.license}
    with accessing(f"card '{options.card}'"):
        about["card"] = None if options.card is None else options.card.read_text(encoding="utf-8")
    with progress() as bar:
        bar.add_task(f"Packaging {file}", total=None)
        samples, weights = _samples(options), options.weights
        made = build_package(file, options.target or [], weights=weights, samples=samples, **about)
        content = to_archive(made)
        if options.key is not None or options.passphrase:
            secret = os.environ.get(PASSPHRASE) if options.passphrase else None
            content = encrypt(content, key_from(options.key, secret))
        with PendingFiles() as pending, TemporaryDirectory() as folder:
            pending.make_folder(output.parent)
            pending.add(output, content)
            if options.sign is not None:
                draft = Path(folder, output.name)  # a signature holds the name
                signature = Path(f"{draft}.sig")
                draft.write_bytes(content)
                password, by = os.environ.get(KEY_PASSWORD), options.certificate
                given: dict[str, Any] = {"password": password, "certificate": by}
                sign(draft, signature, options.sign, **given, chain=options.chain or ())
                pending.add(Path(f"{output}.sig"), signature.read_bytes())
    rows = [(name, len(data)) for name, data in sorted(made.files.items())]
    if options.json:
        files = [{"path": name, "bytes": size} for name, size in rows]
        said = {"package": str(output), "bytes": len(content), "files": files}
        print_json({**said, "accuracy": made.manifest["accuracy"]})
    else:
        show(table(f"{file} → {output}, {len(content):,} bytes", ["file", "bytes"], rows))


def _samples(options: Package) -> Any:
    """The inputs in the order of the program, and their labels; `None` without."""
    if options.inputs is None or options.labels is None:
        return None
    module = import_model(options.file, weights=options.weights)
    return bind_inputs(module, read_samples(options.inputs)), read_labels(options.labels)
