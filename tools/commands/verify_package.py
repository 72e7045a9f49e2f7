"""`triton verify-package`: whether files are what was written, and who vouches for them."""

from __future__ import annotations

from pathlib import Path

from ...ir.errors import IntegrityError, refuse
from ...ir.seal import check_file
from ...lowering.packages.archive import from_folder
from ...lowering.packages.package import load_package
from ...runtime.security.encryption import Key, key_from
from ...runtime.security.signing import verify_signature
from ..console import print_json, show, table
from .options.packages import VerifyPackage


def verify_package(options: VerifyPackage) -> None:
    """Check each file; the first that is wrong ends it.

    Raises:
        IntegrityError: a file is not what was written, carries no SHA-256, or is not signed so.
        OptionError: a signature for several files, or without a key.
    """
    signer, signature = options.public_key or options.authority, options.signature
    refuse(signer and not signature, "a key or an authority goes with --signature FILE")
    refuse(signature and len(options.files) != 1, "--signature goes with one file")
    if signature is not None:
        by, authorities = options.public_key, options.authority or ()
        verify_signature(options.files[0], signature, public_key=by, authorities=authorities)
    key = None if options.key is None else key_from(options.key)
    rows = [(str(file), _verified(file, key)) for file in options.files]
    if options.json:
        print_json([{"file": file, "said": said, "signed": bool(signature)} for file, said in rows])
    else:
        show(table("verified", ["file", ""], rows))


def _verified(file: Path, key: Key | None) -> str:
    if file.is_dir() or file.suffix == ".tpk":
        made = from_folder(file) if file.is_dir() else load_package(file, key)
        return f"{len(made.files)} files are as its manifest says"
    if not file.is_file():
        raise IntegrityError(f"'{file}': no such file")
    if not check_file(file):
        raise IntegrityError(f"'{file}' carries no SHA-256: nothing says what it should be")
    return "is as the SHA-256 that it carries says"
