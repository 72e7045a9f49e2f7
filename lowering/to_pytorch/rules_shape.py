"""PyTorch forms of shape changes."""

from __future__ import annotations

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, is_float
from ...dialects.tensor.shape import SLICE_END
from .expressions import Expr, call, sequence
from .forward import Forward, dtype_of
from .literals import number


def reshape(op: tensor.ReshapeToOp, e: Forward) -> Expr:
    """The same elements in another shape; copied dynamic sizes are read from the operand."""
    target = op.shape.get_values()
    known = tensor_type(op.result).get_shape()
    free = list(target).count(-1)
    sizes: list[str] = []
    for size, result in zip(target, known, strict=True):
        if result != DYNAMIC:
            sizes.append(str(result))
        elif size == -1 or (not free and known.count(DYNAMIC) == 1):
            sizes.append("-1")
        else:
            sizes.append(e.size(op.operand, -2 - size))
    return e.value(op.operand).method("reshape", *(sizes or ["()"]))


def flatten(op: tensor.FlattenOp, e: Forward) -> Expr:
    """Merge neighbouring axes."""
    start, end = op.start.value.data, op.end.value.data
    last = end in (-1, tensor_type(op.operand).get_num_dims() - 1)
    return call("torch.flatten", e.value(op.operand), start, *([] if last else [end]))


def unflatten(op: tensor.UnflattenOp, e: Forward) -> Expr:
    """Split the first axis by the sizes of another tensor."""
    sizes = f"{e.local(op.like)}.shape[:{op.count.value.data}]"
    return e.value(op.operand).method("unflatten", 0, sizes)


def permute(op: tensor.PermuteOp, e: Forward) -> Expr:
    """Reorder axes."""
    perm = op.perm.get_values()
    return e.value(op.operand).method("permute", *(perm or ["()"]))


def concatenate(op: tensor.ConcatenateOp, e: Forward) -> Expr:
    """Join along an axis."""
    parts = ", ".join(str(e.value(value)) for value in op.inputs)
    return call("torch.cat", f"[{parts}]", dim=op.axis.value.data)


def split(op: tensor.SplitOp, e: Forward) -> Expr | list[Expr]:
    """Cut along an axis; the results are unpacked from one call."""
    sizes = ", ".join(map(str, op.sizes.get_values()))
    pieces = call("torch.split", e.value(op.operand), f"[{sizes}]", dim=op.axis.value.data)
    return pieces if len(op.pieces) > 1 else [pieces.index("0")]


def slice_(op: tensor.SliceOp, e: Forward) -> Expr:
    """Python's slices."""
    bounds = zip(op.starts.get_values(), op.ends.get_values(), op.steps.get_values(), strict=True)
    parts = [_slice(*three) for three in bounds]
    return e.value(op.operand).index(", ".join(parts) or "...")


def _slice(start: int, end: int, step: int) -> str:
    text = f"{start or ''}:{'' if end == SLICE_END else end}"
    return text if step == 1 else f"{text}:{step}"


def pad(op: tensor.PadToOp, e: Forward) -> Expr:
    """Add elements around."""
    pairs = list(zip(op.low.get_values(), op.high.get_values(), strict=True))
    while pairs and pairs[0] == (0, 0):
        pairs.pop(0)
    x = e.value(op.operand)
    if not pairs:
        return x
    amounts = sequence([n for pair in reversed(pairs) for n in pair])
    value, type = op.value.value.data, tensor_type(op.operand)
    fill = number(value, type.element_type) if is_float(type) else str(int(value))
    return call("F.pad", x, amounts, value=None if fill in ("0", "0.0") else fill)


def squeeze(op: tensor.SqueezeOp, e: Forward) -> Expr:
    """Drop axes of size 1."""
    axes = op.axes.get_values()
    x = e.value(op.operand)
    if not axes:
        return x
    return x.method("squeeze", axes[0] if len(axes) == 1 else sequence(axes))


def unsqueeze(op: tensor.UnsqueezeOp, e: Forward) -> Expr:
    """Insert axes of size 1."""
    rank = tensor_type(op.result).get_num_dims()
    result = e.value(op.operand)
    for axis in sorted(axis % rank for axis in op.axes.get_values()):
        result = result.method("unsqueeze", axis)
    return result


def expand(op: tensor.ExpandOp, e: Forward) -> Expr:
    """Repeat axes of size 1."""
    return e.value(op.operand).method("expand", *(op.shape.get_values() or ["()"]))


def gather_rows(op: tensor.GatherRowsOp, e: Forward) -> Expr:
    """Pick rows by index."""
    indices, table = e.value(op.indices), e.value(op.table)
    if dtype_of(op.indices) != "torch.int64":
        indices = indices.method("to", "torch.int64")
    if is_float(tensor_type(op.table)) and tensor_type(op.table).get_num_dims() == 2:
        return call("F.embedding", indices, table)
    return table.index(str(indices))


RULES = {
    tensor.ReshapeToOp: reshape,
    tensor.FlattenOp: flatten,
    tensor.UnflattenOp: unflatten,
    tensor.PermuteOp: permute,
    tensor.ConcatenateOp: concatenate,
    tensor.SplitOp: split,
    tensor.SliceOp: slice_,
    tensor.PadToOp: pad,
    tensor.SqueezeOp: squeeze,
    tensor.UnsqueezeOp: unsqueeze,
    tensor.ExpandOp: expand,
    tensor.GatherRowsOp: gather_rows,
}
"""The rule of each op."""
