"""The native functions for one recipe, layout and kind, and the fingerprint to keep them under.

The functions take the shape at run time: one compilation serves every layer of every model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import SSAValue

from ...ir.native_abi import VERSION, Kind, Layout, order_of
from .activations import write_prepare
from .code import POINTER, Code, function
from .epilogue import write_epilogue
from .gemv import write_rows
from .panel import write_panels, write_tiles
from .recipes import Recipe
from .scratch import Scratch


def kernel_module(recipe: Recipe, layout: Layout, kind: Kind) -> ModuleOp:
    """The functions `linear`, `prepare` and `compute` of `ir.native_abi`."""
    functions = write_tiles(recipe) if layout == "panels" else []
    functions.append(write_prepare(recipe, kind, order_of(layout)))
    functions.append(_write_compute(recipe, kind, layout))
    functions.append(_write_linear())
    return ModuleOp(list(functions))


def _write_compute(recipe: Recipe, kind: Kind, layout: Layout) -> llvm.FuncOp:
    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        weights, y, memory, scale, bias, rows, ins, outs, n0, n1 = arguments
        scratch = Scratch(code, memory, rows, ins, kind.digits)
        bounds = (n0, n1)
        if layout == "panels":
            write_panels(code, recipe, scratch, weights, ins, outs, bounds)
        else:
            stored = layout == "stored"
            write_rows(code, recipe, scratch, weights, ins, outs, bounds, stored=stored)
        write_epilogue(code, recipe, kind, scratch, y, scale, bias, rows, outs, bounds)

    return function("compute", [POINTER] * 5 + [i64] * 5, body)


def _write_linear() -> llvm.FuncOp:
    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        x, weights, y, scratch, scale, bias, rows, ins, outs = arguments
        zero = code.constant(0)
        code.call("prepare", x, scratch, rows, ins, zero, rows)
        code.call("compute", weights, y, scratch, scale, bias, rows, ins, outs, zero, outs)

    return function("linear", [POINTER] * 6 + [i64] * 3, body)


@cache
def fingerprint(recipe: Recipe, layout: Layout, kind: Kind) -> str:
    """SHA-256 of all that decides what `kernel_module` gives: the generator's own source and xDSL.

    Much quicker than to generate the module and hash that.
    """
    digest = hashlib.sha256(_source_digest())
    digest.update(f"{VERSION} {recipe.name} {layout} {kind.activations} {version('xdsl')}".encode())
    return digest.hexdigest()


@cache
def _source_digest() -> bytes:
    digest = hashlib.sha256()
    package = files(__package__ or "")
    sources = [*package.iterdir(), files("triton_dsl.ir") / "native_abi.py"]
    for source in sorted(sources, key=lambda entry: entry.name):
        if source.name.endswith(".py"):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.digest()
