"""What a target returns, and the one way in which it reaches the disk.

An `Artifact` is bytes in memory: one file, a file with siblings (`model.py` and
`model.safetensors`), or a folder. `write_artifact` writes everything to a temporary place first and
moves it when whole, so that no failure leaves a half-written result. Nothing here knows a target.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import cast

from ..ir.errors import InputError, LoweringError, OptionError
from ..ir.safe_write import PendingFiles
from ..ir.seal import sealed


@dataclass(frozen=True)
class Artifact:
    """The files of a compiled program.

    Attributes:
        name: a short name: the stem of files, the name of the folder's manifest.
        files: relative POSIX path to content.
        manifest: what the artefact was made from; JSON data, no timestamps. `compile_to_target`
            fills it, a target may leave it empty.
        primary: the file that an output path names; the others stand beside it, under the same
            stem where they share the primary's. `None` with several files makes a folder.
    """

    name: str
    files: Mapping[str, bytes]
    manifest: Mapping[str, object] = field(default_factory=dict[str, object])
    primary: str | None = None

    def __post_init__(self) -> None:
        if not self.files:
            raise LoweringError(f"artefact '{self.name}' holds no file")
        for path in self.files:
            pure = PurePosixPath(path)
            is_plain = path == pure.as_posix() != "." and path.isprintable()
            if not is_plain or pure.is_absolute() or ".." in pure.parts or set("\\:") & set(path):
                raise LoweringError(f"artefact '{self.name}': {path!r} is no relative path")
        if self.primary is not None and self.primary not in self.files:
            raise LoweringError(f"artefact '{self.name}' has no file '{self.primary}'")

    @property
    def main_file(self) -> str | None:
        """The file an output path names: the primary or the only one; `None` for a folder."""
        if self.primary is None and len(self.files) == 1:
            return next(iter(self.files))
        return self.primary

    def text(self, path: str | None = None) -> str:
        """One file as text; the main file by default."""
        path = path or self.main_file
        if path is None or path not in self.files:
            raise LoweringError(f"artefact '{self.name}' has no file '{path}'")
        return self.files[path].decode()

    def with_seals(self) -> Artifact:
        """A copy whose files carry their SHA-256 where their kind can (`ir.seal`)."""
        files = {
            path: sealed(PurePosixPath(path).suffix, data) for path, data in self.files.items()
        }
        return replace(self, files=files)

    def with_manifest(self, **entries: object) -> Artifact:
        """A copy whose manifest also holds `entries` and the size and SHA-256 of each file."""
        files = {
            path: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in sorted(self.files.items())
        }
        return replace(self, manifest={**self.manifest, **entries, "files": files})


def write_artifact(
    artifact: Artifact,
    path: str | Path,
    *,
    force: bool = True,
    manifest: bool | None = None,
    sources: Sequence[Path | None] = (),
) -> list[Path]:
    """Write an artefact; the written paths, the main file first.

    An artefact with a main file is written to `path` itself, its siblings beside it; into `path`
    when that is a folder or ends with a separator. Any other artefact makes `path` a folder.
    An artefact written into its folder again takes the place of the earlier one; files in it
    that no artefact of ours put there stay.

    Args:
        path: where to; only a string can end with a separator.
        force: whether existing files may be replaced.
        manifest: whether to write `NAME.manifest.json` too; by default only into folders.
        sources: what the artefact was made from: the program, weights. It is never overwritten.

    Raises:
        OptionError: a file is in the way and `force` is off, a source is in the way, or the place
            cannot be written.
    """
    into_folder = artifact.main_file is None or str(path).endswith(os.sep) or Path(path).is_dir()
    path = Path(path)
    folder, names = (path, {f: f for f in artifact.files})
    if not into_folder:
        folder, names = path.parent, _beside(artifact, path)
    contents = {names[file]: data for file, data in artifact.files.items()}
    stem = artifact.name if into_folder else path.stem
    if manifest if manifest is not None else artifact.main_file is None:
        contents[f"{stem}.manifest.json"] = manifest_bytes(artifact.manifest)
    order = sorted(contents, key=lambda name: name != names.get(artifact.main_file or ""))
    for name, data in contents.items():
        _keep_sources(folder / name, data, sources)
    try:
        return _place(folder, {name: contents[name] for name in order}, stem, force)
    except OSError as error:
        raise InputError(f"cannot write '{path}': {error.strerror or error}") from None


def manifest_bytes(manifest: Mapping[str, object]) -> bytes:
    """A manifest as JSON text, sealed, keys sorted: the same artefact gives the same bytes."""
    text = json.dumps(manifest, indent=2, sort_keys=True, default=str) + "\n"
    return sealed("manifest", text.encode())


def _beside(artifact: Artifact, path: Path) -> dict[str, str]:
    """File name on disk of each file when the main one is called `path.name`."""
    assert artifact.main_file is not None
    stem = PurePosixPath(artifact.main_file).stem
    names: dict[str, str] = {}
    for file in artifact.files:
        pure = PurePosixPath(file)
        same_stem = len(pure.parts) == 1 and pure.stem == stem
        names[file] = f"{path.stem}{pure.suffix}" if same_stem else file
    names[artifact.main_file] = path.name
    if len(set(names.values())) != len(names):
        raise OptionError(f"'{path}' would overwrite its own sibling; choose another file name")
    return names


def _keep_sources(target: Path, data: bytes, sources: Sequence[Path | None]) -> None:
    for source in sources:
        if source is None or not (source.is_file() and target.is_file()):
            continue
        if target.samefile(source) and target.read_bytes() != data:
            raise OptionError(
                f"'{target}' would be overwritten, and the model was made from it; "
                "choose another output with -o"
            )


def _place(folder: Path, contents: Mapping[str, bytes], stem: str, force: bool) -> list[Path]:
    targets = [folder / name for name in contents]
    if not force:
        for target in targets:
            if target.exists():
                raise InputError(f"'{target}' exists already")
    for target in targets:
        if target.is_dir():
            raise InputError(f"cannot write '{target}': it is a folder")
    stale = _listed(folder / f"{stem}.manifest.json") - contents.keys()
    with PendingFiles() as pending:
        pending.make_folder(folder)
        # What names other files comes after them: the main file, and last of all the manifest.
        main, manifest = next(iter(contents)), f"{stem}.manifest.json"
        for name in sorted(contents, key=lambda name: (name == manifest, name == main)):
            target = folder / name
            pending.make_folder(target.parent)
            pending.add(target, contents[name])
    for name in stale:
        (folder / name).unlink(missing_ok=True)
    return targets


def _listed(manifest: Path) -> set[str]:
    """The files that an earlier manifest says are its own; only plain relative paths count."""
    try:
        data: object = json.loads(manifest.read_bytes())
    except (OSError, ValueError):
        return set()
    files = cast("dict[str, object]", data).get("files") if isinstance(data, dict) else None
    if not isinstance(files, dict):
        return set()
    names = cast("dict[str, object]", files)
    return {n for n in names if not PurePosixPath(n).is_absolute() and ".." not in n.split("/")}
