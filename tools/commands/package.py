"""`triton package`: one file of a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...ir.errors import refuse
from ...ir.safe_read import accessing
from ...ir.safe_write import PendingFiles
from ...ir.samples import read_samples
from ...lowering.models import import_model
from ...lowering.packages.archive import to_archive
from ...lowering.packages.building import build_package
from ...lowering.packages.package import PASSPHRASE
from ...runtime.security.encryption import encrypt, key_from
from ...runtime.security.signing import sign
from ..console import print_json, progress, show, table
from ..inputs import bind_inputs
from .options.packages import Package
from .spiking import read_labels

KEY_PASSWORD = "TRITON_KEY_PASSWORD"
"""The variable of the environment with the password of a signing key."""


def package(options: Package) -> None:
    """Make a package, encrypt and sign it if asked to, and list what it holds.

    Raises:
        OptionError: options that do not go together, or a place that cannot be written.
        TritonError: see `build_package`.
    """
    file, output = options.file, options.output or Path(f"{options.file.resolve().stem}.tpk")
    refuse({
        f"'{output}' is the model; choose another output with -o":
            output.exists() and file.exists() and output.samefile(file),
        "--inputs and --labels go together": (options.inputs is None) != (options.labels is None),
        "a certificate goes with --sign KEY":
            options.sign is None and (options.certificate or options.chain),
        "a package is encrypted by --key or by --passphrase, not by both":
            options.key and options.passphrase,
    })  # fmt: skip
    with accessing(f"card '{options.card}'"):
        card = None if options.card is None else options.card.read_text(encoding="utf-8")
    with progress() as bar:
        bar.add_task(f"Packaging {file}", total=None)
        made = build_package(
            file, options.target or [], name=options.name, weights=options.weights,
            license=options.license, samples=_samples(options), card=card,
        )  # fmt: skip
        content = to_archive(made)
        if options.key is not None or options.passphrase:
            secret = os.environ.get(PASSPHRASE) if options.passphrase else None
            content = encrypt(content, key_from(options.key, secret))
        output.parent.mkdir(parents=True, exist_ok=True)
        with PendingFiles() as pending:
            pending.add(output, content)
        if options.sign is not None:
            sign(
                output, Path(f"{output}.sig"), options.sign, password=os.environ.get(KEY_PASSWORD),
                certificate=options.certificate, chain=options.chain or (),
            )  # fmt: skip
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
