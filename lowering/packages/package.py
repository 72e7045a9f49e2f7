"""Packages opened: their program as IR, the artefacts of their targets, runs of those.

Everything is checked before it is used, in memory; an encrypted package is never on the disk in
the clear. Not here: making one (`building`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ...ir.arrays import Array
from ...ir.errors import IntegrityError, OptionError
from ...ir.safe_read import opened
from ...ir.store import ParameterStore, parse_arrays
from ...runtime.security.encryption import MAGIC, Key, decrypt, key_from
from ..artifact import Artifact
from .archive import MOST_BYTES, from_archive, from_folder

if TYPE_CHECKING:
    from torch import nn
    from xdsl.dialects.builtin import ModuleOp

FORMAT = "triton-dsl package 1"
PROGRAM = "program"
"""The stem of the program and its weights."""

KEY_FILE, PASSPHRASE = "TRITON_KEY_FILE", "TRITON_PASSPHRASE"
"""Variables of the environment that the key of an encrypted package is taken from."""


class Package(Artifact):
    """A package that was checked, under the name of its model."""

    @property
    def targets(self) -> dict[str, Any]:
        """What the manifest says of each target, by folder."""
        return self.tables("targets")[0]

    def tables(self, *parts: str) -> list[dict[str, Any]]:
        """Parts of the manifest that say things by name: `source`, `versions`, `accuracy`, …"""
        said: Any = self.manifest
        return [said.get(part) or {} for part in parts]

    def target(self, folder: str) -> Artifact:
        """The artefact of a target.

        Raises:
            OptionError: the package has none.
        """
        if folder not in self.targets:
            there = ", ".join(self.targets) or "none"
            raise OptionError(f"package '{self.name}' has no target '{folder}'; it has {there}")
        facts = dict(self.targets[folder])
        primary = facts.pop("primary", None)
        parted = ((path.partition("/"), data) for path, data in self.files.items())
        files = {name: data for (first, _, name), data in parted if name and first == folder}
        return Artifact(str(facts["name"]), files, facts, primary)

    def run(self, inputs: Sequence[Array], target: str) -> list[Array]:
        """The results of a target's engine for inputs of `@forward`, in order.

        Raises:
            OptionError: the package has no such target, or one without an engine for its files.
            BackendError: the engine is missing, or refuses.
        """
        from ..engine import run_artifact

        artifact = self.target(target)
        return run_artifact(str(self.targets[target]["target"]), artifact, inputs)[1]

    def module(self) -> ModuleOp:
        """The program as IR, its weights in memory.

        Raises:
            IntegrityError: the weights are not those that the program names.
        """
        from ...dialects.registry import parse_module
        from ...dialects.tensor.storage import STORE_ATTRIBUTE, StoreAttr

        file = f"{PROGRAM}.mlir"
        if file not in self.files:
            raise IntegrityError(f"package '{self.name}' holds no program")
        text = self.files[file].decode("utf-8", "replace")
        module = parse_module(text, f"{self.name}/{file}")
        attribute = module.attributes.get(STORE_ATTRIBUTE)
        reference = attribute.data.reference if isinstance(attribute, StoreAttr) else None
        if reference is not None:
            data = self.files.get(reference.path, b"")
            if hashlib.sha256(data).hexdigest() != reference.sha256:
                raise IntegrityError(f"package '{self.name}': '{reference.path}' is another's")
            module.attributes[STORE_ATTRIBUTE] = StoreAttr(ParameterStore.of(parse_arrays(data)))
        return module

    def torch_module(self) -> nn.Module:
        """The program as a module of PyTorch, generated and loaded here.

        Raises:
            UnsupportedError: PyTorch cannot express it.
            BackendError: PyTorch is missing.
        """
        from ..targets import compile_to_target
        from ..to_pytorch.load import load_module

        return load_module(compile_to_target(self.module(), "pytorch"))


def is_name(name: object) -> bool:
    """Whether a package, or the artefact of a target, can be called so on every disk."""
    return isinstance(name, str) and name.isprintable() and not set(name) & set("/\\:")


def load_package(path: str | Path, key: Key | None = None) -> Package:
    """Open a package, a file or a folder, and check every byte of it.

    Args:
        path: of a file, or of a folder that a package was unpacked to.
        key: of an encrypted one; by default in the file which `TRITON_KEY_FILE` names, or from the
            passphrase in `TRITON_PASSPHRASE`.

    Raises:
        IntegrityError: it is not what was written, or the key does not open it.
    """
    path, what = Path(path), f"'{path}'"
    if path.is_dir():
        return _package(from_folder(path), what)
    with opened(path, MOST_BYTES, IntegrityError) as file:
        return read_package(file, what, key)


def read_package(file: BinaryIO, what: str, key: Key | None = None) -> Package:
    """Open a package in an open file, named `what` in messages; see `load_package`."""
    is_secret = file.read(len(MAGIC)) == MAGIC
    file.seek(0)
    parts = decrypt(file, key or _environment_key(what), what) if is_secret else [file.read()]
    return _package(from_archive(b"".join(parts), what), what)


def _package(artifact: Artifact, what: str) -> Package:
    package = Package(**vars(artifact))
    parts = ("targets", "accuracy", "versions", "source")
    try:
        targets, accuracy, versions, source = ([*t.values()] for t in package.tables(*parts))
        is_known = (
            artifact.manifest["format"] == FORMAT
            and all(is_name(name) for name in (artifact.name, *(t["name"] for t in targets)))
            and all(isinstance(facts["target"], str) for facts in targets)
            and all(isinstance(share, int | float) for share in accuracy)
            and all(isinstance(text, str) for text in (*versions, *source))
        )
    except (AttributeError, KeyError, TypeError):
        is_known = False
    if not is_known:
        raise IntegrityError(f"{what} is no package of a model, or one of a later form")
    return package


def _environment_key(what: str) -> Key:
    file, passphrase = os.environ.get(KEY_FILE), os.environ.get(PASSPHRASE)
    if not file and not passphrase:
        said = f"{what} is encrypted: name its key file in {KEY_FILE}, or give {PASSPHRASE}"
        raise IntegrityError(said)
    return key_from(Path(file) if file else None, passphrase)


def import_package(path: Path) -> ModuleOp:
    """The program of a package: the front end of `.tpk` files.

    Raises:
        IntegrityError: see `load_package`.
    """
    return load_package(path).module()
