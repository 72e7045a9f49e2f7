"""`--load FILE.py`: passes from a file, for one call of `triton-opt`, without a package.

The file is run as a module of its own. Passes for every call come by an entry point, see
docs/plugins.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from xdsl.passes import ModulePass

from ..ir.errors import InputError, PassError, first_line


def loaded_files(arguments: Sequence[str]) -> list[Path]:
    """The files that the arguments name: they are needed before the arguments are parsed."""
    files: list[Path] = []
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in ("--load", "-load"):
            following = arguments[index + 1 : index + 2]
            files += [Path(value)] if equals else [Path(text) for text in following]
    return files


def passes_of(path: Path, taken: Collection[str]) -> dict[str, Callable[[], type[ModulePass]]]:
    """The passes that a file defines, by name.

    Raises:
        OptionError: there is no such file, it defines no pass, or one whose name is taken.
        PassError: the file raised an exception.
    """
    name = f"triton_opt_load_{path.stem}"
    spec = spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InputError(f"--load {path}: expected a file of Python, such as passes.py")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PassError(f"--load {path}: {type(error).__name__}: {first_line(error)}") from error
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ModulePass)
        and value.__module__ == name
        and isinstance(getattr(value, "name", None), str)
    ]
    if not found:
        wanted = "a class derived from xdsl.passes.ModulePass, with a 'name'"
        raise InputError(f"--load {path}: the file defines no pass: {wanted}")
    for cls in found:
        if cls.name in taken:
            raise InputError(f"--load {path}: there is a pass '{cls.name}' already")
    return {cls.name: lambda cls=cls: cls for cls in found}
