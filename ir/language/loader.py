"""Programs and what they import: files to modules.

An import names a file relative to the importing one, or to a search path. It must stay inside the
folder of the main file or a search path. Every problem is a diagnostic at the import.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .diagnostics import DiagnosticBag, suggest
from .nodes import Const, ErrorDeclaration, FunctionDef, Import, LayerDef, Let, Program
from .parser import TritonParser

Definition = Const | Let | FunctionDef | LayerDef

PRELUDE_FILE = Path(__file__).with_name("prelude.tri")
MAX_FILE_BYTES = 16 * 2**20
MAX_MODULES = 1000


@dataclass(eq=False)
class Module:
    """A parsed file.

    Attributes:
        program: its syntax tree.
        own: its definitions by name, the first where one is repeated.
        imported: names that its imports bring in, with the module that defines each.
        broken: names of definitions with a syntax error, here and in what it imports.
        is_prelude: whether it is the file of standard layers.
    """

    program: Program
    own: dict[str, Definition] = field(default_factory=dict[str, Definition])
    imported: dict[str, tuple[Module, Definition]] = field(
        default_factory=dict[str, tuple["Module", Definition]]
    )
    broken: set[str] = field(default_factory=set[str])
    is_prelude: bool = False

    def find(self, name: str) -> tuple[Module, Definition] | None:
        """The definition that `name` means in this file: its own, an import's, the prelude's."""
        if name in self.own:
            return self, self.own[name]
        if name in self.imported:
            return self.imported[name]
        if not self.is_prelude and name in prelude_names():
            return prelude().find(name)
        return None

    def names(self) -> set[str]:
        """Every name that `find` knows."""
        known = {*self.own, *self.imported}
        return known if self.is_prelude else known | prelude_names()


@cache
def prelude_names() -> frozenset[str]:
    """The names of the standard layers; they are parsed when one of them is looked up."""
    text = PRELUDE_FILE.read_text(encoding="utf-8")
    return frozenset(re.findall(r"^layer (\w+)", text, re.MULTILINE))


@cache
def prelude() -> Module:
    """The standard layers."""
    program = TritonParser().parse(PRELUDE_FILE.read_text(encoding="utf-8"), PRELUDE_FILE)
    return Module(program, definitions(program), is_prelude=True)


def definitions(program: Program) -> dict[str, Definition]:
    """The definitions of a program by name; the first of a name counts."""
    own: dict[str, Definition] = {}
    for declaration in program.declarations:
        if not isinstance(declaration, Import | ErrorDeclaration):
            own.setdefault(declaration.name, declaration)
    return own


class _UnusableImportError(Exception):
    """Why an import leads nowhere, and what to write instead."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


class Loader:
    """Loads a program with everything it imports.

    Args:
        search_paths: folders in which imports are looked up after the importing file's own.
        bag: takes the diagnostics.
    """

    def __init__(self, search_paths: Sequence[Path], bag: DiagnosticBag) -> None:
        self.search_paths = [Path(p) for p in search_paths]
        self.bag = bag
        self.modules: list[Module] = []
        self.sources: dict[str, str] = {}
        self._by_path: dict[Path, Module] = {}
        self._stack: list[Path] = []

    def load(self, program: Program) -> Module:
        """The module of the main program."""
        root = program.path
        self._roots = [p.resolve() for p in self.search_paths]
        if root is not None:
            self._roots.insert(0, root.resolve().parent)
        self.sources[program.span.file] = program.source
        return self._module(program, root)

    def _module(self, program: Program, path: Path | None) -> Module:
        module = Module(program, definitions(program))
        for declaration in program.declarations:
            if isinstance(declaration, ErrorDeclaration):
                module.broken.update(declaration.names)
        self.modules.append(module)
        if path is not None:
            self._by_path[path.resolve()] = module
            self._stack.append(path)
        for declaration in program.declarations:
            if isinstance(declaration, Import):
                self._import(module, declaration)
        if path is not None:
            self._stack.pop()
        return module

    def _import(self, module: Module, declaration: Import) -> None:
        try:
            imported = self._imported(module, declaration.path)
        except _UnusableImportError as error:
            self.bag.error(str(error), declaration.span, suggestion=error.suggestion)
            return
        module.broken |= imported.broken
        for name, definition in imported.own.items():
            known = module.imported.get(name)
            if known is not None and known[1] is not definition:
                self.bag.error(
                    f"'{name}' is imported from two files",
                    declaration.span,
                    notes=[(f"'{name}' is first declared here", known[1].name_span)],
                )
            elif name not in module.own:
                module.imported[name] = (imported, definition)

    def _imported(self, module: Module, text: str) -> Module:
        """What an import of a module names."""
        path = self._locate(module, text)
        resolved = path.resolve()
        if any(p.resolve() == resolved for p in self._stack):
            start = next(i for i, p in enumerate(self._stack) if p.resolve() == resolved)
            cycle = " -> ".join(p.name for p in [*self._stack[start:], path])
            raise _UnusableImportError(f"imports form a cycle: {cycle}")
        return self._by_path.get(resolved) or self._read(path)

    def _locate(self, module: Module, text: str) -> Path:
        if not text or "\0" in text:
            raise _UnusableImportError("an import needs the path of a .tri file")
        wanted = Path(text)
        if wanted.is_absolute() or text.startswith(("/", "\\")):
            raise _UnusableImportError(
                f"an import must be a relative path, found '{text}'",
                "write the path relative to this file",
            )
        own = module.program.path
        folders = [*([own.parent] if own is not None else []), *self.search_paths]
        if not folders:
            raise _UnusableImportError(
                f"cannot import '{text}': this program was not read from a file",
                "give the folder as a search path",
            )
        outside = False
        try:
            for folder in folders:
                candidate = folder / wanted
                if not any(candidate.resolve().is_relative_to(root) for root in self._roots):
                    outside = True
                elif candidate.is_file():
                    return candidate
        except (OSError, ValueError, RuntimeError):
            raise _UnusableImportError(f"cannot import '{text}': the path is not usable") from None
        if outside:
            raise _UnusableImportError(
                f"cannot import '{text}': it lies outside the folder of the main file"
            )
        raise _UnusableImportError(
            f"cannot import '{text}': no such file",
            self._near(wanted, folders),
        )

    def _near(self, wanted: Path, folders: Sequence[Path]) -> str | None:
        for folder in folders:
            try:
                names = [p.name for p in (folder / wanted).parent.glob("*.tri")]
            except (OSError, ValueError):
                continue
            nearest = suggest(wanted.name, names)
            if nearest is not None:
                return nearest
        return None

    def _read(self, path: Path) -> Module:
        if len(self.modules) >= MAX_MODULES:
            raise _UnusableImportError(f"the program imports more than {MAX_MODULES} files")
        if len(self._stack) >= 100:
            raise _UnusableImportError("imports are nested too deeply")
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise _UnusableImportError(f"cannot import '{path}': the file is too large")
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise _UnusableImportError(f"cannot import '{path}': {reason}") from None
        program, diagnostics = TritonParser().parse_with_recovery(source, path)
        self.sources[program.span.file] = source
        self.bag.extend(diagnostics)
        return self._module(program, path)
