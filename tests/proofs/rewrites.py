"""The rewrites that act on integers, found in the code, and which proof covers each.

A rewrite is a name such as `canonicalize: NeutralElement of tensor.add`. `found_rewrites` makes the
list from the passes themselves, so that a new pattern, rule or op in a table of a pass is a name
that nobody has proven, and `test_rewrites` fails. A proof says with `@proves` what it covers.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_args

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.tensor.elementwise import UnaryOp
from triton_dsl.dialects.traits import Affine, SelectsElements
from triton_dsl.passes import fuse_linear
from triton_dsl.passes.analysis import layers
from triton_dsl.passes.requantize import (
    integer_forms,
    merge_rescaling,
    requantize,
    requantize_fusion,
)
from triton_dsl.passes.requantize.integer_builder import IntegerBuilder
from triton_dsl.passes.skip_zeros import channel_paths
from triton_dsl.passes.streamline import level_grids, level_rules, streamline

Test = TypeVar("Test", bound=Callable[..., Any])

PROOFS: dict[str, tuple[str, str]] = {}
"""The proof of each rewrite, as `file.py::test`, and how: filled when the tests are imported."""

OPERATIONS: tuple[type[Operation], ...] = (
    *tensor.OPERATIONS,
    *ternary.Ternary.operations,
    *spike.Spike.operations,
)


def proves(names: Iterable[str], by: str = "SMT") -> Callable[[Test], Test]:
    """Say that a test proves some rewrites, and how: `SMT`, `enumeration` or both."""

    def mark(test: Test) -> Test:
        file = test.__module__.rpartition(".")[2]
        for name in names:
            PROOFS[name] = f"{file}.py::{test.__name__}", by
        return test

    return mark


def _is_float_only(op: str) -> bool:
    (kind,) = [each for each in OPERATIONS if each.name == op]
    return bool(getattr(kind, "FLOAT_ONLY", False))


ON_FLOATS = "it is defined on floats"
"""Why a rewrite of an op that takes floats alone is none of integers."""

NOT_INTEGER: dict[str, str] = {
    "canonicalize: (FactorIntoGain|GainIntoSynapse|ScaleIntoWeights) of .*": (
        "moves floats alone; `test_canonicalize.py` shows that neurons of integers stay"
    ),
    "canonicalize: (NoLeak|NoMemoryOfCurrent|NoAdaptation) of .*": (
        "for `spike.lif`, `cuba_lif` and `adaptive_lif`, which are defined on floats"
    ),
    "canonicalize: UnitWindows of spike.avg_pool": "gives floats",
    "fuse-linear: tensor.(mul|div|batch_norm|relu6)": (
        "into a product of floats alone; `test_fuse_linear.py` shows that integers stay"
    ),
    "skip-zeros: channels through tensor.(batch_norm|avg_pool|global_avg_pool)": "gives floats",
    "skip-zeros: channels through spike.avg_pool": "gives floats",
    "skip-zeros: channels through spike.max_pool": (
        "follows synapses alone, and so is of `skip-silent`"
    ),
}
"""Rewrites that are none of integers, by pattern, and why: tested, in floats."""


def reason(name: str) -> str | None:
    """Why a rewrite is none of integers; `None` if it is one."""
    op = name.rpartition(" ")[2]
    if name.startswith(("canonicalize: ", "skip-zeros: channels through ")) and _is_float_only(op):
        return ON_FLOATS
    found = [why for pattern, why in NOT_INTEGER.items() if re.fullmatch(pattern, name)]
    return found[0] if found else None


def table() -> str:
    """The rewrites of each pass, what proves them, and those that are no matter of integers."""
    lines: list[str] = []
    names = sorted(found_rewrites())
    proven = [name for name in names if name in PROOFS]
    integer = [name for name in names if reason(name) is None]
    lines += [f"{len(proven)} of {len(integer)} rewrites of integers are proven."]
    lines += ["A name with `_` or without a dot is that of the rule in the source.", ""]
    lines += ["| pass | rewrite | by | proof |", "| --- | --- | --- | --- |"]
    for rewrite, of in _grouped(proven, lambda name: PROOFS[name]):
        test, by = of
        lines.append(f"| {rewrite} | {by} | `{test}` |")
    lines += ["", "No matter of integers, and tested in floats:", ""]
    lines += ["| pass | rewrite | why |", "| --- | --- | --- |"]
    others = [name for name in names if name not in PROOFS]
    lines += [f"| {each} | {why} |" for each, why in _grouped(others, reason)]
    return "\n".join(lines) + "\n"


def _grouped(names: list[str], by: Callable[[str], Any]) -> list[tuple[str, Any]]:
    """Cells for the pass and the rewrites, one row for all of a pass that share what `by` says."""
    groups: dict[tuple[str, str, Any], dict[str, None]] = {}
    for name in names:
        what, _, rest = name.partition(": ")
        kind, _, op = rest.rpartition(" ")
        shown = "each op of floats alone" if by(name) == ON_FLOATS else f"`{op}`"
        shown = "neurons" if op.removeprefix("spike.") in spike.NEURONS else shown
        groups.setdefault((what, kind, by(name)), {})[shown] = None
    return [
        (f"`{what}` | {f'{kind} '.lstrip() + ', '.join(ops)}", said)
        for (what, kind, said), ops in groups.items()
    ]


def canonicalisations() -> dict[str, tuple[type[Operation], RewritePattern]]:
    """Every canonicalisation pattern of every op, by name."""
    found: dict[str, tuple[type[Operation], RewritePattern]] = {}
    for kind in OPERATIONS:
        patterns: Any = getattr(kind, "get_canonicalization_patterns", tuple)
        for pattern in patterns():
            found[f"canonicalize: {type(pattern).__name__} of {kind.name}"] = kind, pattern
    return found


def matching(*patterns: str) -> list[str]:
    """The names of canonicalisations by the name of their pattern."""
    return [name for name in canonicalisations() if name.split()[1] in patterns]


def apply_pattern(name: str) -> Callable[[ModuleOp], bool]:
    """One canonicalisation pattern alone, wherever it matches; whether it changed anything."""
    kind, pattern = canonicalisations()[name]

    class OnlyOn(RewritePattern):
        """The pattern, on the op that it is registered for."""

        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
            if type(op) is kind:
                pattern.match_and_rewrite(op, rewriter)

    return PatternRewriteWalker(OnlyOn()).rewrite_module


def rewrites_of(name: str) -> list[str]:
    """The names of the rewrites of one pass."""
    return [rewrite for rewrite in found_rewrites() if rewrite.startswith(f"{name}: ")]


def found_rewrites() -> list[str]:
    """The names of all rewrites of the passes that keep integers."""
    return [
        *canonicalisations(),
        *(f"fuse-linear: {op}" for op in fusion_rules()),
        *(f"skip-zeros: channels of {op.name}" for op in get_args(layers.Layer)),
        *(f"skip-zeros: channels through {op.name}" for op in path_ops()),
        *(f"merge-rescaling: {op.name}" for op in chain_steps()),
        *(f"requantize: {name}" for name in _requantize()),
        *(f"streamline: {name}" for name in _streamline()),
    ]


def fusion_rules() -> list[str]:
    """The ops that `fuse-linear` has a rule for."""
    return [op.name for op in vars(fuse_linear)["_Fusion"](set(), False).rules]


def path_ops() -> list[type[Operation]]:
    """The ops that `skip-zeros` may look through for channels: those that the file speaks of."""
    named = {f"{m}.{name}" for m, name in re.findall(
        r"\b(tensor|spike)\.(\w+Op)\b", inspect.getsource(channel_paths)
    )}  # fmt: skip
    return [
        op
        for op in OPERATIONS
        if f"{op.__module__.split('.')[2]}.{op.__name__}" in named
        or issubclass(op, UnaryOp | tensor.ConvertOp)
    ]


def chain_steps() -> list[type[Operation]]:
    """The ops on integers that `merge-rescaling` follows."""
    return [op for op in OPERATIONS if merge_rescaling.is_step(op) and not _is_float_only(op.name)]


def selecting() -> list[type[Operation]]:
    """The ops whose results hold elements of their operands."""
    return [op for op in OPERATIONS if op.has_trait(SelectsElements)]


def _requantize() -> list[str]:
    affine = [op for op in OPERATIONS if op.has_trait(Affine)]
    moves = (*selecting(), tensor.PadToOp)
    ops = (*affine, *moves, *get_args(integer_forms.Mean), *_limits())
    fusions = _functions(requantize_fusion)
    rules = _methods(vars(requantize)["_Requantizing"]) + _methods(IntegerBuilder)
    return [*(op.name for op in ops), *rules, *fusions]


def _limits() -> list[type[Operation]]:
    """The ops that `requantize` makes bounds of."""
    named = re.findall(r"\btensor\.(\w+Op)\b", inspect.getsource(integer_forms.limits))
    return [op for op in tensor.OPERATIONS if op.__name__ in named]


def _streamline() -> list[str]:
    return [
        *(op.name for op in (*selecting(), tensor.PadToOp) if op is not tensor.ConcatenateOp),
        *_methods(vars(streamline)["_Streamlining"]),
        *_methods(level_grids.LevelGrids),
        *(name for name in _own_functions(level_rules) if name not in NO_REWRITES),
        "by_channel",
        "integer_result",
    ]


def _methods(kind: type) -> list[str]:
    """The methods of a class, but for those that are listed as no rewrites."""
    found = [name for name, value in vars(kind).items() if inspect.isfunction(value)]
    return [name for name in found if name not in NO_REWRITES]


def _own_functions(module: Any) -> list[str]:
    """The functions that a module defines itself."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [name for name, value in found if value.__module__ == module.__name__]


def _functions(module: Any) -> list[str]:
    """The functions of a module that change programs."""
    found = [n for n, v in vars(module).items() if inspect.isfunction(v) and n.startswith("_fuse")]
    return [name for name in found if name not in NO_REWRITES]


NO_REWRITES = {
    "__init__",
    # `requantize`: which rule a value gets, and what it is made of.
    *("run", "_try", "integers", "_integers", "combination", "_combination", "_same_shape"),
    *("plus", "literal", "reach", "_reach"),
    # `streamline`: which rule an op gets; ops and notes about values.
    *("_floats", "_visit", "_rule", "_integers", "add", "constant", "wide", "of_element"),
    *("enter", "grid", "move_to", "_note_undecided", "note_rounded", "_quantized_by"),
    *("_with_operand", "_real_weight"),
}
"""Methods that only choose a rule, take notes or insert an op that they are given."""
