"""Whole kernels: the functions of one layer or of a program, and a fingerprint to keep them under.

The functions take the shape at run time: one compilation serves every layer of every model.

A program with several products puts into its module, once, `shared_functions` for the kinds and
layouts that it uses, and for each combination of kind, layout and `Epilogue` the functions of
`linear_functions` under a suffix of its own. It then calls, with the arguments of
`abi.linear.LINEAR_ARGUMENTS`,

    linear_<suffix>(x, weights, y, scratch, scale, bias, table, shift, rows, ins, outs)

- `x` [rows, ins] and `y` [rows, outs] are contiguous and of any alignment. `x` has the kind's
  element; `y` has the element that `Epilogue.result` says.
- `weights` are in the layout (`abi.linear`), in memory of any alignment; 64 is quickest.
- `scratch` has `abi.linear.scratch_bytes(rows, ins, outs, kind.digits)` bytes and is aligned to
  64. Nothing is kept in it from call to call.
- `scale` is float32 [outs] or [1], `bias` [outs] float32 or int32, `table` and `shift` as
  `Thresholds` and `Requantize` say; what the epilogue has not is not read and may be null.
- Unsigned bytes and int16 are lowered by 128 to fit signed digits: `bias` must hold
  128 · Σ of the trits of each output (`abi.tables.trit_sums`) besides.
- Trits are activations of the kind `i8`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import (
    ARRAY_DATA,
    ARRAYS,
    COMPUTE_ARGUMENTS,
    LINEAR_ARGUMENTS,
    VERSION,
    Kind,
    Layout,
    Order,
    order_of,
)
from ..source_digest import KERNELS, source_digest
from .activations import prepare_name, write_prepare
from .code import POINTER, Code, Index
from .epilogue import Epilogue, write_finish
from .gemv import write_rows
from .panel import write_panel_tiles, write_panels
from .parallel import loaded
from .recipes import Recipe
from .scratch import Product, Scratch
from .sparse import write_sparse, write_sparse_tiles

LAYER = Epilogue(scale="channel", bias=True)
"""What follows the product in a layer with float activations."""


def layer_epilogue(kind: Kind) -> Epilogue:
    """What follows the product in the functions of `kernel_module`."""
    return LAYER if kind.floating else Epilogue(bias=bool(kind.offset))


def kernel_module(recipe: Recipe, layout: Layout, kind: Kind) -> ModuleOp:
    """The functions `linear`, `linear_arrays`, `prepare` and `compute` of `abi.linear`."""
    order = order_of(layout)
    functions = write_panel_tiles(recipe, kind.digits) if layout == "panels" else []
    if layout == "sparse":
        functions += write_sparse_tiles(recipe)
    functions.append(write_prepare(recipe, kind, order, "prepare"))
    epilogue = layer_epilogue(kind)
    functions.append(write_finish(recipe, kind, epilogue, "finish"))
    functions.append(_write_compute(recipe, kind, layout, epilogue, "compute", "finish"))
    functions.append(_write_linear("linear", "prepare", "compute"))
    functions.append(_write_arrays())
    return ModuleOp(list(functions))


def shared_functions(recipe: Recipe, kinds: Iterable[tuple[Kind, Layout]]) -> list[llvm.FuncOp]:
    """What the functions of `linear_functions` for these kinds and layouts call."""
    wanted = list(kinds)
    digits = [kind.digits for kind, layout in wanted if layout == "panels"]
    functions = write_panel_tiles(recipe, *digits) if digits else []
    if any(layout == "sparse" for _, layout in wanted):
        functions += write_sparse_tiles(recipe)
    orders: dict[tuple[Kind, Order], None] = {}
    for kind, layout in wanted:
        orders[kind, order_of(layout)] = None
    for kind, order in orders:
        functions.append(write_prepare(recipe, kind, order, prepare_name(kind, order)))
    return functions


def linear_functions(
    recipe: Recipe, kind: Kind, epilogue: Epilogue, suffix: str, layout: Layout = "panels"
) -> list[llvm.FuncOp]:
    """`finish_<suffix>`, `compute_<suffix>`, `linear_<suffix>`, for a module of several products.

    Raises:
        OptionError: steps that the sums of the kind do not have.
    """
    finish, compute = f"finish_{suffix}", f"compute_{suffix}"
    prepare = prepare_name(kind, order_of(layout))
    return [
        write_finish(recipe, kind, epilogue, finish),
        _write_compute(recipe, kind, layout, epilogue, compute, finish),
        _write_linear(f"linear_{suffix}", prepare, compute),
    ]


def _write_compute(
    recipe: Recipe, kind: Kind, layout: Layout, epilogue: Epilogue, name: str, finish: str
) -> llvm.FuncOp:
    result_bytes = epilogue.result(kind).size
    pointers = COMPUTE_ARGUMENTS.index("rows")
    kinds = [POINTER] * pointers + [i64] * (len(COMPUTE_ARGUMENTS) - pointers)
    code = Code(name, kinds)
    weights, y, memory, *tables, rows, ins, outs, n0, n1 = code.arguments
    scratch = Scratch(code, memory, rows, ins, kind.digits)

    def write_end(
        m: SSAValue,
        count: Index,
        first: SSAValue,
        end: SSAValue,
        raw: tuple[SSAValue, Index] | None = None,
    ) -> None:
        digit = code.mul(m, kind.digits)
        line = code.at(y, code.mul(m, code.mul(outs, result_bytes)))
        place, stride = raw or (scratch.raw(0), scratch.raw_stride(outs))
        places = (place, line, scratch.sum(digit), scratch.scale(m))
        code.call(finish, *places, *tables, stride, count, outs, first, end)

    product = Product(recipe, kind, scratch, weights, rows, ins, outs, n0, n1, write_end)
    if layout == "panels":
        write_panels(code, product)
    elif layout == "sparse":
        write_sparse(code, product)
    else:
        write_rows(code, product, stored=layout == "stored")
    return code.finish()


def _write_linear(name: str, prepare: str, compute: str) -> llvm.FuncOp:
    code = Code(name, [POINTER] * 8 + [i64] * 3)
    x, weights, y, scratch, *tables, rows, ins, outs = code.arguments
    code.call(prepare, x, scratch, rows, ins, 0, rows)
    code.call(compute, weights, y, scratch, *tables, rows, ins, outs, 0, outs)
    return code.finish()


def _write_arrays() -> llvm.FuncOp:
    code = Code(ARRAYS, [POINTER])
    values = loaded(code, LINEAR_ARGUMENTS)
    for name in ("x", "y"):
        values[name] = code.load(code.at(values[name], ARRAY_DATA), POINTER)
    code.call("linear", *values.values())
    return code.finish()


@cache
def fingerprint(recipe: Recipe, layout: Layout, kind: Kind) -> str:
    """SHA-256 of all that decides what `kernel_module` gives: the generator's own source and xDSL.

    Much quicker than to generate the module and hash that.
    """
    digest = hashlib.sha256(source_digest(*KERNELS))
    asked = f"{VERSION} {recipe.name} {layout} {kind.activations} {version('xdsl')}"
    digest.update(asked.encode())
    return digest.hexdigest()
