"""All valid IR of tests/filecheck as modules, and when two modules are the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import TritonError
from triton_dsl.ir.printing import PrintOptions, module_text
from triton_dsl.passes.universe import everything

FILECHECK = Path(__file__).resolve().parent / "filecheck"
SEPARATOR = "// -----\n"
NOT_UPSTREAMS = {"convert_vector_to_llvm_errors.mlir"}
"""Files whose IR upstream's verifier refuses: <minsi> of floats."""


def context() -> Context:
    """All dialects; ops of others are kept as they are."""
    known = Context(allow_unregistered=True)
    for name, dialect in everything().all_dialects.items():
        known.register_dialect(name, dialect)
    return known


@cache
def modules() -> list[ModuleOp]:
    """All IR of tests/filecheck that is valid, for upstream too."""
    known, read = context(), list[ModuleOp]()
    for path in sorted(FILECHECK.rglob("*.mlir")):
        if path.name in NOT_UPSTREAMS:
            continue
        for part in path.read_text(encoding="utf-8").split(SEPARATOR):
            try:
                read.append(parse_module(part, str(path), known))
            except TritonError:
                continue
    return read


def ordered(attribute: Attribute) -> Attribute:
    """The same with the keys of dictionaries in order: `mlir-opt` sorts them."""
    match attribute:
        case DictionaryAttr():
            return DictionaryAttr({k: ordered(v) for k, v in sorted(attribute.data.items())})
        case ArrayAttr():
            return ArrayAttr([ordered(entry) for entry in attribute.data])
        case _:
            return attribute


def canonical(module: ModuleOp) -> str:
    """A module as text that hangs on neither names of values nor the order of attributes."""
    module = module.clone()
    for op in module.walk():
        for holder in (op.attributes, op.properties):
            entries = sorted((key, ordered(value)) for key, value in holder.items())
            holder.clear()
            holder.update(entries)
        arguments = [a for region in op.regions for block in region.blocks for a in block.args]
        for value in (*op.results, *arguments):
            value.name_hint = None
    return module_text(module, PrintOptions(generic=True))
