"""Rules of the domain `ai.onnx.ml`: features, thresholds, ensembles of decision trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i1
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ..from_torch.sizes import ProblemError
from .emitter import LARGEST_KNOWN, Call, Emitter, Rule
from .rules_activation import Formula
from .rules_index import wrapped

Array = NDArray[Any]


def _features(e: Emitter, call: Call) -> SSAValue:
    """x[…, places]; of a vector as a matrix of one row."""
    x, rank = call[0], e.rank(call[0])
    places = e.reshape(call[1], [int(np.prod(e.shape(call[1])))])
    front = e.move_axis(x, rank - 1, 0)
    rows = e.add(tensor.GatherRowsOp(front, wrapped(e, places, e.sizes(x)[-1])))
    made = e.move_axis(rows, 0, rank - 1)
    return e.add(tensor.UnsqueezeOp(made, [0])) if rank == 1 else made


def _binarizer(e: Emitter, call: Call) -> SSAValue:
    bound = e.number(call.get("threshold", 0.0), call[0])
    return e.convert(e.add(tensor.CompareOp(call[0], bound, "gt")), call[0])


def _labels(e: Emitter, call: Call) -> SSAValue:
    """The value beside the last key that is equal to an element, else the default."""
    keys, values = (_table(call, name)[::-1] for name in ("keys", "values"))
    x, elements = call[0], tensor_type(call[0]).element_type
    if keys.shape != values.shape or keys.ndim != 1 or keys.size == 0:
        raise ProblemError(f"it has keys {keys.shape} and values {values.shape}")
    if numpy_dtype(elements) != keys.dtype:
        raise ProblemError(f"its keys are {keys.dtype}, its input is {elements}")
    if int(np.prod(e.shape(x))) * keys.size > LARGEST_KNOWN:
        raise ProblemError(f"it compares {e.shape(x)} elements with {keys.size} keys")
    last = e.rank(x)
    x, odd = e.add(tensor.UnsqueezeOp(x, [last])), keys != keys
    same = e.add(tensor.CompareOp(x, e.known(np.where(odd, 0, keys)), "eq"))
    if odd.any():
        none = e.add(tensor.CompareOp(x, x, "ne"))
        same = e.add(tensor.WhereOp(e.known(odd), none, same))
    hits = e.convert(same, f32)
    picked = e.add(tensor.GatherRowsOp(e.known(values), e.add(tensor.ArgmaxOp(hits, last))))
    found = e.convert(e.add(tensor.ReduceMaxOp(hits, [last])), i1)
    kind = "int64" if values.dtype == np.int64 else "float"
    default = call.get("default_tensor", call.get(f"default_{kind}", -1 if kind == "int64" else 0))
    default = e.number(np.asarray(default).reshape(-1)[0], picked)
    return e.add(tensor.WhereOp(found, picked, default))


def _table(call: Call, name: str) -> Array:
    """Keys or values, which are lists of one type or a tensor."""
    if f"{name}_strings" in call.attributes:
        raise ProblemError("it works on text; the IR has numbers alone")
    for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if f"{name}_{kind}" in call.attributes:
            return np.asarray(call.attributes[f"{name}_{kind}"], dtype)
    return np.asarray(call.attributes[f"{name}_tensor"])


# Ensembles of trees.

_COMPARISONS = ("le", "lt", "ge", "gt", "eq", "ne")
_MEMBER = 6


class _Forest:
    """The nodes and leaves of a `TreeEnsemble`.

    A row of features reaches a leaf if all comparisons on the way to it went its way. So every
    node's comparison is made, and each leaf counts those of its way that went another.
    """

    def __init__(self, call: Call) -> None:
        names = ("splits", "featureids", "modes", "truenodeids", "falsenodeids",
                 "trueleafs", "falseleafs")  # fmt: skip
        tables = [np.asarray(call.attributes[f"nodes_{name}"]).reshape(-1) for name in names]
        self.splits, self.features, self.modes, *self.children = tables
        count = self.splits.size
        missing = call.get("nodes_missing_value_tracks_true")
        self.missing = np.zeros(count, np.int64) if missing is None else np.asarray(missing)
        self.weights = np.asarray(call.attributes["leaf_weights"]).reshape(-1)
        self.targets = np.asarray(call.attributes["leaf_targetids"]).reshape(-1)
        lengths = {table.size for table in (*tables, self.missing)}
        if lengths != {count} or count == 0 or self.weights.size != self.targets.size:
            raise ProblemError("its nodes or leaves have attributes of several lengths")
        self.members = self._sets(call)
        self.ways = self._ways(call)

    def _sets(self, call: Call) -> dict[int, Array]:
        """For each node that asks for a set the members."""
        nodes = np.flatnonzero(self.modes == _MEMBER)
        values = np.asarray(call.get("membership_values", np.zeros(0))).reshape(-1)
        ends = np.flatnonzero(np.isnan(values))
        if ends.size != nodes.size:
            raise ProblemError(f"it has {nodes.size} nodes with sets and {ends.size} sets")
        starts = [0, *(ends[:-1] + 1)] if ends.size else []
        return {
            int(node): values[start:end]
            for node, start, end in zip(nodes, starts, ends, strict=True)
        }

    def _ways(self, call: Call) -> list[tuple[int, list[tuple[int, bool]]]]:
        """For each leaf that a root reaches the nodes on the way, and how they must go."""
        found: list[tuple[int, list[tuple[int, bool]]]] = []
        pending: list[tuple[int, list[tuple[int, bool]]]] = [
            (int(root), []) for root in call.attributes["tree_roots"]
        ]
        yes, no, yes_leaf, no_leaf = self.children
        total = 0
        while pending:
            node, way = pending.pop()
            if not 0 <= node < self.splits.size or len(way) > self.splits.size:
                raise ProblemError(f"its trees reach the node {node}, which is none")
            if yes[node] == no[node] and yes_leaf[node] and no_leaf[node]:
                found.append((int(yes[node]), way))
                continue
            for child, leaf, answer in ((yes, yes_leaf, True), (no, no_leaf, False)):
                step = [*way, (node, answer)]
                total += len(step)
                if total > LARGEST_KNOWN:
                    raise ProblemError("its trees are too deep")
                (found if leaf[node] else pending).append((int(child[node]), step))
        if any(not 0 <= leaf < self.weights.size for leaf, _ in found):
            raise ProblemError("its trees reach a leaf that is none")
        return found

    def answers(self, e: Emitter, x: SSAValue) -> SSAValue:
        """What each node says of each row: [rows, nodes]."""
        picked = e.add(tensor.GatherRowsOp(e.permute(x, [1, 0]), e.indices(self.features)))
        values = e.permute(picked, [1, 0])
        dtype = numpy_dtype(tensor_type(x).element_type)
        made: SSAValue | None = None
        for mode in map(int, np.unique(self.modes)):
            if mode == _MEMBER:
                answer = self._is_member(e, values)
            elif mode < _MEMBER:
                splits = e.known(self.splits.astype(dtype))
                answer = e.add(tensor.CompareOp(values, splits, _COMPARISONS[mode]))
            else:
                raise ProblemError(f"its mode {mode} is unknown")
            where = e.known(self.modes == mode)
            made = answer if made is None else e.add(tensor.WhereOp(where, answer, made))
        assert made is not None
        if not self.missing.any():
            return made
        none = e.add(tensor.CompareOp(values, values, "ne"))
        tracked = e.add(tensor.AndOp(none, e.known(self.missing.astype(np.bool_))))
        return e.add(tensor.OrOp(made, tracked))

    def _is_member(self, e: Emitter, values: SSAValue) -> SSAValue:
        """Whether the value of a node is in its set; sets are filled up with a member of theirs."""
        width = max(1, *(len(members) for members in self.members.values()))
        if width * self.splits.size > LARGEST_KNOWN:
            raise ProblemError(f"it asks for sets of up to {width} members")
        table = np.full((self.splits.size, width), np.nan)
        for node, members in self.members.items():
            table[node, : len(members)] = members
            table[node, len(members) :] = members[0] if len(members) else np.inf
        table = np.nan_to_num(table, posinf=np.inf)
        known = e.known(table, tensor_type(values).element_type)
        apart = e.add(tensor.UnsqueezeOp(values, [2]))
        same = e.convert(e.add(tensor.CompareOp(apart, known, "eq")), values)
        return e.convert(e.add(tensor.ReduceMaxOp(same, [2])), i1)


def _tree_ensemble(e: Emitter, call: Call) -> SSAValue:
    """For each target the weights of the leaves that a row [rows, features] reaches."""
    forest, x = _Forest(call), call[0]
    if e.rank(x) != 2 or int(call.get("post_transform", 0)):
        raise ProblemError("it transforms its results or takes no matrix")
    size, leaves = forest.splits.size, len(forest.ways)
    targets = int(call.get("n_targets", 1))
    if size * leaves > LARGEST_KNOWN or not 1 <= targets <= LARGEST_KNOWN // max(leaves, 1):
        raise ProblemError(f"it has {size} nodes, {leaves} leaves and {targets} targets")
    signs, wanted = np.zeros((size, leaves)), np.zeros(leaves)
    values, which = np.zeros(leaves), np.zeros(leaves, np.int64)
    for column, (leaf, way) in enumerate(forest.ways):
        values[column], which[column] = forest.weights[leaf], forest.targets[leaf]
        for node, answer in way:
            signs[node, column] += 1 if answer else -1
            wanted[column] += answer
    if which.min(initial=0) < 0 or which.max(initial=0) >= targets:
        raise ProblemError(f"its leaves name other than {targets} targets")
    element = tensor_type(x).element_type
    answers = e.convert(forest.answers(e, x), element)
    right = e.add(tensor.MatmulOp(answers, e.known(signs, element)))
    reached = e.add(tensor.CompareOp(right, e.known(wanted, element), "eq"))
    return _gathered(e, call, reached, values, np.eye(targets, dtype=np.bool_)[which])


def _gathered(e: Emitter, call: Call, reached: SSAValue, values: Array, belongs: Array) -> SSAValue:
    """The values of the reached leaves [rows, leaves] for each target."""
    like, kind = call[0], int(call.get("aggregate_function", 1))
    element = tensor_type(like).element_type
    if kind in (0, 1):
        table = e.known(values[:, None] * belongs, element)
        made = Formula(e, e.add(tensor.MatmulOp(e.convert(reached, element), table)))
        return (made / len(call.attributes["tree_roots"]) if kind == 0 else made).value
    if kind not in (2, 3):
        raise ProblemError(f"its aggregate_function {kind} is unknown")
    info = np.finfo(numpy_dtype(element))
    none, fold = (info.max, tensor.ReduceMinOp) if kind == 2 else (info.min, tensor.ReduceMaxOp)
    table = e.known(np.where(belongs, values[:, None], none), element)
    apart = e.add(tensor.UnsqueezeOp(reached, [2]))
    chosen = e.add(tensor.WhereOp(apart, table, e.number(float(none), like)))
    return e.add(fold(chosen, [1]))


CLASSIC: dict[str, Rule] = {
    "ArrayFeatureExtractor": _features,
    "Binarizer": _binarizer,
    "LabelEncoder": _labels,
    "TreeEnsemble": _tree_ensemble,
}
"""Operators of the domain `ai.onnx.ml`."""
