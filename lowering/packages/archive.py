"""Artefacts with their manifest as the bytes of one file, and back, whatever the bytes are.

The file is a ZIP archive without compression, its entries sorted, without times: the same artefact
gives the same bytes, any program unpacks it, and nothing in it can grow. Reading takes only the
bytes that writing gives, so that every flipped bit is noticed. Not here: what a package holds.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from ...ir.errors import IntegrityError, LoweringError, OptionError, refuse
from ...ir.safe_read import opened
from ...ir.seal import is_whole
from ..artifact import Artifact, manifest_bytes

SUFFIX = ".manifest.json"
MOST_FILES = 4096
MOST_BYTES = 1 << 32
"""What an archive without the extension ZIP64 holds, and the largest file that is read."""

_MOST_MANIFEST = 64 << 20


def to_archive(artifact: Artifact) -> bytes:
    """An artefact and its manifest as one file.

    Raises:
        OptionError: it is too large for one.
    """
    buffer = io.BytesIO()
    manifest = {f"{artifact.name}{SUFFIX}": manifest_bytes(artifact.manifest)}
    refuse(len(artifact.files) >= MOST_FILES, f"a package holds less than {MOST_FILES} files")
    try:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
            for name, content in [*manifest.items(), *sorted(artifact.files.items())]:
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.create_system, entry.external_attr = 3, 0o100644 << 16
                archive.writestr(entry, content)
    except zipfile.LargeZipFile:
        raise OptionError("a package holds less than 4 GiB") from None
    return buffer.getvalue()


def from_archive(content: bytes, what: str) -> Artifact:
    """The artefact in the bytes of a file from whoever, named `what` in messages; all are checked.

    Raises:
        IntegrityError: it is not what `to_archive` wrote.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_FILES:
                raise ValueError(f"it holds more than {MOST_FILES} files")
            if sum(entry.file_size for entry in entries) > len(content):
                raise ValueError("it is compressed")
            files = {entry.filename: archive.read(entry) for entry in entries}
    except Exception as error:  # zipfile has many, and no base of them
        raise IntegrityError(f"{what} is no package: {error or type(error).__name__}") from None
    names = [name for name in files if name.endswith(SUFFIX) and "/" not in name]
    if len(names) != 1:
        raise IntegrityError(f"{what} is no package: it has no manifest, or several")
    said = _said(names[0], files.pop(names[0]), f"the manifest of {what}")
    artifact = _checked(said, files, what)
    if to_archive(artifact) != content:
        raise IntegrityError(f"{what} is not what was written: it has bytes that no package has")
    return artifact


def from_folder(folder: Path) -> Artifact:
    """The artefact in a folder, as `write_artifact` writes it; other files are left alone.

    Raises:
        IntegrityError: a file is missing or not what the manifest says.
    """
    manifests = sorted(folder.glob(f"*{SUFFIX}"))
    if len(manifests) != 1:
        raise IntegrityError(f"'{folder}' has {len(manifests)} files *{SUFFIX}, and needs one")
    with opened(manifests[0], _MOST_MANIFEST, IntegrityError) as file:
        said = _said(manifests[0].name, file.read(), f"'{manifests[0]}'")
    files = dict(said.files)
    for name in files:
        with opened(folder / name, MOST_BYTES, IntegrityError) as file:
            files[name] = file.read()
    return _checked(said, files, f"'{folder}'")


def _said(name: str, content: bytes, what: str) -> Artifact:
    """The artefact of a manifest that has its name, its seal and its one form; files are empty."""
    if len(content) > _MOST_MANIFEST or not is_whole("manifest", content, what):
        raise IntegrityError(f"{what} is no manifest, or one without its SHA-256")
    try:
        data: Any = json.loads(content)
    except (ValueError, RecursionError):
        raise IntegrityError(f"{what} is no manifest") from None
    data.pop("#sha256", None)
    if not isinstance(data.get("files"), dict):
        raise IntegrityError(f"{what} names no files")
    if manifest_bytes(data) != content or name != f"{data.get('name')}{SUFFIX}":
        raise IntegrityError(f"{what} is not what was written")
    files = dict.fromkeys(data["files"], b"")
    places = [str(place) for name in files for place in PurePosixPath(name).parents]
    taken = Counter(name.casefold() for name in (*files, *set(places)))
    if twice := [name for name, count in taken.items() if count > 1]:
        raise IntegrityError(f"{what} has files that are one on some disks: {sorted(twice)[:3]}")
    try:
        return Artifact(str(data["name"]), files, data)
    except LoweringError as error:
        raise IntegrityError(f"{what}: {error}") from None


def _checked(said: Artifact, files: Mapping[str, bytes], what: str) -> Artifact:
    """The artefact of files that are those of a manifest."""
    artifact = replace(said, files=files)
    stated: Any = said.manifest["files"]
    found: Any = artifact.with_manifest().manifest["files"]
    wrong = [name for name in stated.keys() | found.keys() if stated.get(name) != found.get(name)]
    if wrong:
        raise IntegrityError(f"{what}: files are not those of its manifest: {sorted(wrong)[:3]}")
    return artifact
