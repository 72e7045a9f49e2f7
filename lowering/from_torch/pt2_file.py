"""`from_pt2`: a file of `torch.export.save` as IR, read without running what it may carry.

`torch.export.load` unpickles objects, loads libraries, evaluates the text of sizes, resolves the
names of operators by attribute and writes those of arguments into functions that it makes. So an
archive is read here first, record by record, and only what cannot do harm is handed on: tensors as
bytes, and a graph of ATen operators.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.export import ExportedProgram
from xdsl.dialects.builtin import ModuleOp

from ...ir.errors import SourceError, first_line
from .calls import nodes_of
from .exporting import Exported, errors_alone
from .free_sizes import BATCH
from .importer import program_of
from .sizes import is_free, sizes_of

_RECORDS = re.compile(
    r"models/model\.json|data/weights/(weight_\d+|model_weights_config\.json)|"
    r"data/constants/(tensor_\d+|model_constants_config\.json)|data/sample_inputs/model\.pt|"
    r"archive_format|archive_version|byteorder|\.data/(version|serialization_id)"
)
_TARGETS = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed)\.(?!from_file)\w+\.\w+|torch\.sym_\w+|"
    r"torch\.ops\.higher_order\.(cond|scan|wrap_with_set_grad_enabled)|"
    r"_operator\.(add|and_|eq|floordiv|ge|getitem|gt|le|lt|mod|mul|ne|neg|or_|pow|sub|truediv)|"
    r"math\.(ceil|floor|sqrt|trunc)"
)
_FUNCTIONS = re.compile(
    r"Abs|Add|And|CleanDiv|CeilToInt|Eq|Float|FloorDiv|FloorToInt|Ge|Gt|IntTrueDiv|Integer|Le|Lt|"
    r"Max|Min|Mod|ModularIndexing|Mul|Ne|Not|Or|Pow|PythonMod|Rational|Symbol|TrueDiv|Where|"
    r"ceiling|floor"
)
_NAME = re.compile(r"-?[\w.]*")  # -Infinity, too
_WORDS = re.compile(r"[\w.:/ +-]*")
_NAMES: Mapping[str, re.Pattern[str]] = dict.fromkeys(
    ("parameter_name", "buffer_name", "tensor_constant_name", "fqn", "torch_version", "spec"),
    _WORDS,
)
"""What texts are under some keys; no code can be made of them."""
_PLACES = ("stack_trace", "nn_module_stack")
"""What is read of the metadata of nodes."""
_SYMBOLS = re.compile(r"z?[su]\d+|z?[uf]+\d+|oo|int_oo")
_SIZES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Name, ast.Constant,
    ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
LONGEST_SIZE = 1000
"""The text of a size has at most this many characters."""


def from_pt2(source: Path | str, *, recognize_ternary: bool = True) -> ModuleOp:
    """A program that `torch.export.save` wrote, as IR.

    Sizes that were free there are free here: along axis 0 of the first argument `N`, others named
    by argument and axis. All else is as in `from_torch`.

    Args:
        source: a path.
        recognize_ternary: turn weights whose values are -s, 0 and +s into trits with a scale.

    Raises:
        SourceError: the file is broken, or holds what could run code: pickled objects, libraries,
            operators that are not PyTorch's own.
        LoweringError: PyTorch cannot decompose the program, or it changes its buffers.
        UnsupportedError: names every operator without a meaning in the IR, by module and line.
    """
    path = Path(source)
    program = read_pt2(path)
    exported = Exported(program, _names(program), is_decomposed=False)
    return program_of(exported, path.stem, recognize_ternary)


def read_pt2(path: Path) -> ExportedProgram:
    """The program in a file, of which every part was checked.

    Raises:
        SourceError: as `from_pt2`.
    """
    import_module("torch.ao.quantization.fx._decomposed")  # defines quantized_decomposed
    try:
        with errors_alone("torch.export"):  # it logs the traceback of what it tries first
            return torch.export.load(_archive(_records(path)))
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # what PyTorch raises for broken files is of every kind
        raise SourceError(f"{path}: no program of torch.export: {first_line(error)}") from None


def _records(path: Path) -> dict[str, bytes]:
    """The records of an archive, each of them checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = {entry.filename.partition("/")[2]: entry for entry in entries}
            if len(names) != len(entries) or "models/model.json" not in names:
                raise SourceError(f"{path}: no archive of torch.export.save with one model")
            for name, entry in names.items():
                if not _RECORDS.fullmatch(name) or entry.compress_type != zipfile.ZIP_STORED:
                    raise SourceError(
                        f"{path}: it holds '{name}', which could run code; save the program "
                        "of one model without libraries and objects of its own"
                    )
            records = {name: archive.read(entry) for name, entry in names.items()}
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise SourceError(f"{path}: no archive of torch.export.save: {error}") from None
    for folder in ("weights", "constants"):
        _check_payloads(path, records, f"data/{folder}/")
    _check_inputs(path, records)
    model: dict[str, Any] = json.loads(records["models/model.json"])
    model["guards_code"] = []
    records["models/model.json"] = json.dumps(_checked(path, model)).encode()
    return records


def _check_payloads(path: Path, records: Mapping[str, bytes], folder: str) -> None:
    """That tensors are bytes, no pickled objects, and hold as many elements as they state."""
    kind = folder.split("/")[1]
    table = json.loads(records[f"{folder}model_{kind}_config.json"])["config"]
    for name, payload in table.items():
        if payload["use_pickle"]:
            raise SourceError(f"{path}: '{name}' is a pickled object, which could run code")
        held = len(records[folder + payload["path_name"]])
        sizes = [size["as_int"] for size in payload["tensor_meta"]["sizes"]]
        if math.prod(sizes) > held:
            raise SourceError(f"{path}: '{name}' has fewer elements than its sizes {sizes} state")


def _check_inputs(path: Path, records: Mapping[str, bytes]) -> None:
    """That the example inputs are tensors alone: PyTorch would unpickle anything else."""
    try:
        torch.load(io.BytesIO(records["data/sample_inputs/model.pt"]), weights_only=True)
    except Exception:
        raise SourceError(
            f"{path}: its example inputs are pickled objects, which could run code"
        ) from None


def _checked(path: Path, value: Any, key: str = "") -> Any:
    """A part of a graph without what it does not need, each of its texts checked.

    PyTorch evaluates, resolves or writes texts into Python code that it runs, names of arguments
    among them. So a text is what the `key` that it stands under says, and else a name.
    """
    if isinstance(value, str):
        _check_text(path, key, value)
        return value
    if isinstance(value, list):
        return [_checked(path, part, key) for part in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    parts = cast("dict[str, Any]", value)
    if key == "metadata":
        return {name: text for name in _PLACES if isinstance(text := parts.get(name), str)}
    for name in parts:
        _check_text(path, "expr_str" if key == "range_constraints" else "", name)
    return {name: _checked(path, part, name) for name, part in parts.items()}


def _check_text(path: Path, kind: str, text: str) -> None:
    match kind:
        case "expr_str" if not _is_size(text):
            raise SourceError(f"{path}: '{text[:200]}' is no size")
        case "target" | "as_operator" if not _TARGETS.fullmatch(text):
            raise SourceError(f"{path}: its operator '{text[:200]}' is not one of PyTorch's own")
        case "in_spec" | "out_spec" | "context" if text:
            if "__enum__" in text or "defaultdict" in text:
                raise SourceError(f"{path}: its arguments are of types that it would import")
            _checked(path, _parsed(path, text), "spec")
        case "expr_str" | "target" | "as_operator" | "as_string" | "as_strings":
            pass
        case _ if not _NAMES.get(kind, _NAME).fullmatch(text):
            raise SourceError(f"{path}: '{text[:200]}' is no name")
        case _:
            pass


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise SourceError(f"{path}: '{text[:200]}' is no form of arguments") from None


def _is_size(text: str) -> bool:
    """Whether a text is arithmetic of symbols and numbers."""
    if len(text) > LONGEST_SIZE:
        return False
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(map(_is_arithmetic, ast.walk(tree)))


def _is_arithmetic(node: ast.AST) -> bool:
    match node:
        case ast.Call():
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            return bool(_FUNCTIONS.fullmatch(name)) and (
                name != "Pow" or (len(node.args) == 2 and _is_small(node.args[1]))
            )
        case ast.BinOp(op=ast.Pow()):
            return _is_small(node.right)
        case ast.Name():
            return bool(_SYMBOLS.fullmatch(node.id) or _FUNCTIONS.fullmatch(node.id))
        case ast.Constant(value=str(text)):
            return bool(_SYMBOLS.fullmatch(text))
        case ast.Constant(value=number):
            return isinstance(number, int | float)
        case _:
            return isinstance(node, _SIZES)


def _is_small(node: ast.AST) -> bool:
    """Whether an exponent is a small number."""
    return bool(re.fullmatch(r"-?[0-4]|Integer\(-?[0-4]\)", ast.unparse(node)))


def _archive(records: Mapping[str, bytes]) -> io.BytesIO:
    """What was checked, as an archive of its own: PyTorch reads no other bytes."""
    from torch.export.pt2_archive._package import (  # pyright: ignore[reportMissingTypeStubs]
        PT2ArchiveWriter,
    )

    written = io.BytesIO()
    with PT2ArchiveWriter(cast(Any, written)) as writer:
        for name, data in records.items():
            if name.startswith(("models/", "data/")):
                writer.write_bytes(name, data)
    written.seek(0)
    return written


def _names(program: ExportedProgram) -> dict[tuple[str, int], str]:
    """Names for free sizes by placeholder and axis; a file keeps none."""
    names: dict[tuple[str, int], str] = {}
    taken: dict[object, str] = {}
    inputs = set(map(str, program.graph_signature.user_inputs))
    for node in nodes_of(program):
        value: Tensor | None = node.meta.get("val")
        if node.name not in inputs or not hasattr(value, "shape"):
            continue
        for axis, size in enumerate(sizes_of(cast("Tensor", value).shape)):
            if is_free(size):
                default = BATCH if axis == 0 and not taken else f"{node.name}_{axis}"
                names[node.name, axis] = taken.setdefault(size, default)
    return names
