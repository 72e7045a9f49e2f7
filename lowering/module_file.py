"""A module and its parameters on disk: the text, and the safetensors file that it names.

Passes add entries to a module's parameter store in memory; here they are saved beside the text, and
the module's `tensor.parameters` names the file with its hash. Parameter files that another module
may need are never overwritten. Reading is the business of `registry`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType

from xdsl.dialects.builtin import ModuleOp

from ..dialects.parameters import parameter_keys
from ..dialects.tensor.storage import STORE_ATTRIBUTE, StoreAttr
from ..ir.printing import module_text
from ..ir.safe_write import PendingFiles, check_writable
from ..ir.store import ParameterStore, StoreReference, file_sha256

SEPARATOR = "// -----\n"
"""What stands between modules of one file."""


def save_module(
    module: ModuleOp, path: Path, to_text: Callable[[ModuleOp], str] = module_text
) -> None:
    """Write `module` to `path`, and its parameters beside it when the text alone would lose them.

    Raises:
        ParameterError: parameters that are to be saved cannot be read.
        OSError: a file cannot be written. Then no file is.
    """
    with ModuleFile(path) as file:
        file.add(module, to_text)


def unsaved_entries(module: ModuleOp) -> list[str]:
    """The parameters of the module whose values are in memory alone, sorted."""
    store = _store(module)
    if store is None or not store.added_names:
        return []
    return sorted(_used(module) & set(store.added_names))


class ModuleFile:
    """An IR file in the making: written, with its parameter files, when its `with` block ends well.

    `m.mlir` gets `m.safetensors` beside it if the module uses entries that are in memory alone, or
    a copy of the parameter file it names if that is out of reach from the new place. A name that is
    taken by a file of other content gets a number (`m.1.safetensors`), unless that is what the
    replaced `m.mlir` referred to.

    Raises:
        OSError: `path` cannot be written.
    """

    def __init__(self, path: Path) -> None:
        check_writable(path)
        self.path = path
        self._pending = PendingFiles()
        self._texts: list[str] = []
        self._placed: set[str] = set()

    def __enter__(self) -> ModuleFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # No `with`: that takes memory before it begins, and what is staged must go without any.
        try:
            if error is None:
                self._pending.add(self.path, SEPARATOR.join(self._texts).encode())
        except BaseException as failed:
            error = failed
            raise
        finally:
            self._pending.__exit__(kind, error, trace)

    def add(self, module: ModuleOp, to_text: Callable[[ModuleOp], str] = module_text) -> None:
        """Append a module, unchanged afterwards; modules are separated by `// -----`.

        Raises:
            ParameterError: parameters that are to be saved cannot be read.
            OSError: they cannot be written.
        """
        attribute = module.attributes.get(STORE_ATTRIBUTE)
        reference = self._new_reference(module)
        if reference is None:
            self._texts.append(to_text(module))
            return
        assert attribute is not None
        try:
            module.attributes[STORE_ATTRIBUTE] = StoreAttr(ParameterStore(reference))
            self._texts.append(to_text(module))
        finally:
            module.attributes[STORE_ATTRIBUTE] = attribute

    def add_text(self, text: str) -> None:
        """Append what is not a module."""
        self._texts.append(text)

    def _new_reference(self, module: ModuleOp) -> StoreReference | None:
        """The file that the text must name, made if need be; `None` to leave it as it is."""
        store = _store(module)
        if store is None or (self.path.exists() and not self.path.is_file()):
            return None
        if unsaved_entries(module):
            names = sorted(_used(module) & set(store.names()))
            place = self.path.with_suffix(".safetensors")
            return self._place(place, store.reference, lambda to: store.save(to, names))
        source = store.reference
        if source is None or not source.location.is_file():
            return None
        if _is_same_file(self.path.parent / source.path, source.location):
            return None
        inside = os.path.relpath(source.location.resolve(), self.path.parent.resolve())
        if not inside.startswith(os.pardir):
            return StoreReference(Path(inside).as_posix(), source.sha256, source.location)
        place = self.path.parent / source.location.name
        return self._place(place, source, lambda to: shutil.copyfile(source.location, to))

    def _place(
        self, place: Path, source: StoreReference | None, write: Callable[[Path], object]
    ) -> StoreReference:
        """Write a parameter file at `place`, or at a numbered name if `place` is another's."""
        temporary = self._pending.stage(place, write)
        digest = file_sha256(temporary)
        for number in count():
            path = place if number == 0 else place.with_suffix(f".{number}.safetensors")
            name = str(path)
            if name in self._placed or (
                source is not None and _is_same_file(path, source.location)
            ):
                continue
            if path.is_file() and file_sha256(path) == digest:
                break
            if not path.exists() or self._replaced_text_names(path):
                self._pending.place(temporary, path)
                break
        else:
            raise AssertionError
        self._placed.add(name)
        return StoreReference(path.name, digest, path)

    def _replaced_text_names(self, path: Path) -> bool:
        """Whether the file that is about to be replaced refers to `path`, by name and hash."""
        if not (self.path.is_file() and path.is_file()):
            return False
        text = self.path.read_bytes()
        return f'"{path.name}"'.encode() in text and file_sha256(path).encode() in text


def _store(module: ModuleOp) -> ParameterStore | None:
    attribute = module.attributes.get(STORE_ATTRIBUTE)
    return attribute.data if isinstance(attribute, StoreAttr) else None


def _used(module: ModuleOp) -> set[str]:
    return parameter_keys(module)


def _is_same_file(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False
