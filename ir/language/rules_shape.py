"""Type rules of the shape, pooling and reduction functions."""

from __future__ import annotations

from .dims import UNKNOWN, Dim, DimError, product
from .rules_linear import window
from .signatures import Functions, Result, RuleCall, Undetermined, as_tuple
from .types import TensorType, fits, promote


def _keeps_time(call: RuleCall, keeps: bool) -> None:
    x = call.types["x"]
    if x.kind == "spike" and not keeps:
        call.fail(f"would move the time axis of {x}", "x", "use decode(…) first")


def reshape(call: RuleCall) -> Result:
    """The same elements in another shape; one size may be -1."""
    x = call.types["x"]
    sizes: list[Dim | None] = []
    for size in call.attributes["shape"]:
        if size == -1:
            sizes.append(None)
        elif isinstance(size, int) and size < 1:
            call.fail(f"a size must be at least 1, or -1 to be inferred, found {size}", "shape")
        else:
            sizes.append(Dim.lift(size))
    if sizes.count(None) > 1:
        call.fail("only one size may be -1", "shape")
    total = product(x.shape)
    rest = product(d for d in sizes if d is not None)
    if None in sizes:
        try:
            inferred = total / rest
        except DimError:
            call.fail(f"{total} elements of {x} do not fill rows of {rest}", "shape")
        if not inferred.is_unknown:
            call.assumptions.assume_whole(inferred)
        shape = tuple(inferred if d is None else d for d in sizes)
    else:
        if not call.same(total, rest):
            wanted = ", ".join(str(d) for d in sizes)
            call.fail(f"{x} has {total} elements but [{wanted}] has {rest}", "shape")
        shape = tuple(d for d in sizes if d is not None)
    _keeps_time(call, bool(shape) and bool(x.shape) and call.same(shape[0], x.shape[0]))
    call.attributes["shape"] = tuple(d.simplified() for d in shape)
    return x.with_shape(shape)


def flatten(call: RuleCall) -> Result:
    """Axes `start` to `end`, both included, made one."""
    x = call.types["x"]
    if not x.rank:
        call.fail(f"needs at least one axis, found {x}", "x")
    start, end = call.axis("start", x.rank), call.axis("end", x.rank)
    if start > end:
        call.fail(f"'start' ({start}) is after 'end' ({end})", "start")
    _keeps_time(call, start > 0 or end == 0)
    shape = x.shape
    return x.with_shape((*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :]))


def transpose(call: RuleCall) -> Result:
    """Two axes swapped."""
    x = call.types["x"]
    a, b = call.axis("axis0", x.rank), call.axis("axis1", x.rank)
    axes = list(range(x.rank))
    axes[a], axes[b] = b, a
    _keeps_time(call, axes[0] == 0)
    call.attributes.clear()
    call.attributes["axes"] = tuple(axes)
    return x.with_shape([x.shape[i] for i in axes])


def permute(call: RuleCall) -> Result:
    """Axes in another order."""
    x = call.types["x"]
    axes = call.axes("axes", x.rank)
    if len(axes) != x.rank:
        call.fail(f"needs {x.rank} axes for {x}, found {len(axes)}", "axes")
    _keeps_time(call, axes[:1] == (0,))
    return x.with_shape([x.shape[i] for i in axes])


def _joined(call: RuleCall) -> tuple[TensorType, tuple[TensorType, ...]]:
    tensors = call.lists["tensors"]
    if not tensors:
        call.fail("needs at least one tensor", "tensors")
    kinds = {t.kind for t in tensors}
    if len(kinds) == 1 and tensors[0].kind != "dense":
        return tensors[0], tensors
    element = tensors[0].element
    for operand in tensors:
        if operand.kind == "spike":
            call.fail("cannot join a SpikeTensor with dense tensors", "tensors", "use decode(…)")
        element = promote(element, operand.element)
    call.casts["tensors"] = element
    return tensors[0].with_element(element), tensors


def concat(call: RuleCall) -> Result:
    """Tensors joined along an axis."""
    first, tensors = _joined(call)
    if not first.rank:
        call.fail("cannot join numbers", "tensors", "use stack(…)")
    axis = call.axis("axis", first.rank)
    total = first.shape[axis]
    for other in tensors[1:]:
        if other.rank != first.rank or not all(
            i == axis or call.same(a, b)
            for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True))
        ):
            call.fail(f"{tensors[0]} and {other} differ in an axis other than {axis}", "tensors")
        total = total + other.shape[axis]
    if first.kind == "spike" and axis == 0:
        call.fail("would join along the time axis", "axis", "use decode(…) first")
    return first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :]))


def stack(call: RuleCall) -> Result:
    """Tensors of one shape joined along a new axis."""
    first, tensors = _joined(call)
    axis = call.axis("axis", first.rank + 1)
    for other in tensors[1:]:
        if not call.same_shape(first.shape, other.shape):
            call.fail(f"needs equal shapes, found {tensors[0]} and {other}", "tensors")
    if first.kind == "spike" and axis == 0:
        call.fail("would put an axis before time", "axis", "use decode(…) first")
    return first.with_shape((*first.shape[:axis], Dim.of(len(tensors)), *first.shape[axis:]))


def split(call: RuleCall) -> Result:
    """Parts along an axis: a number of equal ones, or a list of sizes."""
    x = call.types["x"]
    axis = call.axis("axis", x.rank)
    _keeps_time(call, axis > 0)
    size = x.shape[axis]
    sections = call.attributes["sections"]
    if isinstance(sections, tuple):
        listed = as_tuple(sections)
        sizes = tuple(Dim.lift(s) for s in listed)
        if any(isinstance(s, int) and s < 1 for s in listed):
            call.fail("each part must be at least 1", "sections")
        total = sum(sizes, Dim.of(0))
        if not sizes or not call.same(total, size):
            call.fail(f"the parts make {total} but axis {axis} has {size}", "sections")
    else:
        number = call.known(sections)
        if not 1 <= number <= 4096:
            call.fail(f"the number of parts must be between 1 and 4096, found {number}", "sections")
        try:
            part = size / number
        except DimError:
            call.fail(f"{size} does not split into {number} equal parts", "sections")
        call.assumptions.assume_whole(part)
        sizes = (part,) * number
    call.attributes["sections"] = tuple(s.simplified() for s in sizes)
    shape = x.shape
    return tuple(x.with_shape((*shape[:axis], s, *shape[axis + 1 :])) for s in sizes)


def slice_size(
    call: RuleCall, size: Dim, start: int | None, stop: int | Dim | None, step: int
) -> tuple[int, int | Dim | None, Dim]:
    """Normal form of one axis of a slice: first index, end (`None` for the axis's own) and size.

    A known size gives non-negative bounds; on a symbolic axis negative bounds count from the end.
    """
    if step < 1:
        call.fail(f"a slice's step must be at least 1, found {step}")
    known = size.constant()
    begin = 0 if start is None else start
    if known is not None:
        if isinstance(stop, Dim):
            raise Undetermined
        first, last, _ = slice(begin, stop, step).indices(known)
        length = len(range(first, last, step))
        if length == 0:
            call.fail(f"the slice of an axis of {known} is empty")
        return first, last, Dim.of(length)
    if isinstance(stop, Dim) and call.same(stop, size):
        stop = None
    if begin == 0 and stop is None and step == 1:
        return 0, None, size
    low = Dim.of(begin) if begin >= 0 else size + begin
    high = size if stop is None else Dim.lift(stop)
    if isinstance(stop, int) and stop < 0:
        high = size + stop
    extent = high - low
    value = extent.constant()
    if value is not None and value < 1:
        call.fail(f"the slice of an axis of {size} is empty")
    if size.is_unknown and value is None:
        return begin, stop, UNKNOWN
    if step == 1:
        return begin, stop, extent
    return begin, stop, call.assumptions.floor_divide(extent + (step - 1), Dim.of(step))


def slice_axis(call: RuleCall) -> Result:
    """One axis cut to `start:stop:step`."""
    x = call.types["x"]
    axis = call.axis("axis", x.rank)
    stop = call.attributes["stop"]
    start, end, size = slice_size(
        call, x.shape[axis], call.number("start"), stop, call.number("step")
    )
    step = call.attributes["step"]
    rank = x.rank
    call.attributes.clear()
    full = [x.shape[i].constant() for i in range(rank)]
    call.attributes["starts"] = tuple(start if i == axis else 0 for i in range(rank))
    call.attributes["stops"] = tuple(end if i == axis else full[i] for i in range(rank))
    call.attributes["steps"] = tuple(step if i == axis else 1 for i in range(rank))
    return x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))


def pad(call: RuleCall) -> Result:
    """Padding by pairs from the last axis backwards, as in PyTorch."""
    x = call.numeric("x")
    padding = call.attributes["padding"]
    amounts = [call.known(p) for p in as_tuple(padding)]
    if len(amounts) % 2 or len(amounts) > 2 * x.rank:
        call.fail(f"'padding' needs pairs for at most {x.rank} axes", "padding")
    if any(p < 0 for p in amounts):
        call.fail("'padding' must not be negative", "padding", "use slice(…) to cut")
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(amounts) // 2):
        low[x.rank - 1 - i] = amounts[2 * i]
        high[x.rank - 1 - i] = amounts[2 * i + 1]
    del call.attributes["padding"]
    call.attributes["low"], call.attributes["high"] = tuple(low), tuple(high)
    value = call.attributes["value"]
    whole = isinstance(value, float) and value.is_integer()
    if x.is_integer and isinstance(value, float) and not (whole and fits(int(value), x.element)):
        call.fail(f"'value' {value} does not fit {x}", "value")
    sizes = [d + (a + b) for d, a, b in zip(x.shape, low, high, strict=True)]
    return x.with_shape(sizes)


def squeeze(call: RuleCall) -> Result:
    """Axes of size 1 removed."""
    x = call.types["x"]
    axes = call.axes("axis", x.rank)
    _keeps_time(call, 0 not in axes)
    for axis in axes:
        if x.shape[axis].constant() not in (1, None) or not call.same(x.shape[axis], Dim.of(1)):
            call.fail(f"axis {axis} of {x} is not 1", "axis")
    call.attributes["axes"] = call.attributes.pop("axis")
    return x.with_shape([d for i, d in enumerate(x.shape) if i not in axes])


def unsqueeze(call: RuleCall) -> Result:
    """An axis of size 1 added."""
    x = call.types["x"]
    axis = call.attributes["axis"]
    extra = len(as_tuple(axis))
    axes = call.axes("axis", x.rank + extra)
    _keeps_time(call, 0 not in axes)
    dims = iter(x.shape)
    call.attributes["axes"] = tuple(sorted(call.attributes.pop("axis")))
    rank = x.rank + extra
    return x.with_shape([Dim.of(1) if i in axes else next(dims) for i in range(rank)])


def expand(call: RuleCall) -> Result:
    """Axes of size 1 repeated; -1 keeps a size."""
    x = call.types["x"]
    sizes = call.attributes["shape"]
    offset = len(sizes) - x.rank
    if offset < 0:
        call.fail(f"the new shape has fewer axes than {x}", "shape")
    shape: list[Dim] = []
    for i, size in enumerate(sizes):
        old = x.shape[i - offset] if i >= offset else Dim.of(1)
        if size == -1:
            if i < offset:
                call.fail("a new axis needs a size", "shape")
            shape.append(old)
            continue
        if isinstance(size, int) and size < 1:
            call.fail(f"a size must be at least 1, found {size}", "shape")
        new = Dim.lift(size)
        if old.constant() != 1 and not call.same(old, new):
            call.fail(f"axis of size {old} cannot become {new}", "shape")
        shape.append(new)
    _keeps_time(call, offset == 0)
    call.attributes["shape"] = tuple(d.simplified() for d in shape)
    return x.with_shape(shape)


def gather(call: RuleCall) -> Result:
    """Entries of `x` along an axis at integer indices (NumPy's `take`)."""
    x = call.types["x"]
    indices = call.dense("indices")
    if not indices.is_integer:
        call.fail(f"needs integer indices, found {indices}", "indices")
    axis = call.axis("axis", x.rank)
    _keeps_time(call, axis > 0)
    return x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _pool(call: RuleCall) -> Result:
    x = call.types["x"]
    if x.kind == "spike":
        call.rank("x", 5, like="SpikeTensor[T, N, C, H, W]")
    else:
        x = call.numeric("x")
        call.rank("x", 4, like="[N, C, H, W]")
    if call.attributes["stride"] is None:
        call.attributes["stride"] = call.attributes["kernel"]
    kernel, stride = call.pair("kernel"), call.pair("stride")
    padding = call.pair("padding", least=0)
    for k, p in zip(kernel, padding, strict=True):
        size, border = k.constant(), p.constant()
        if size is not None and border is not None and 2 * border > size:
            call.fail(f"'padding' {border} is more than half the kernel {size}", "padding")
    spatial = [
        window(call, size, k, s, p, Dim.of(1))
        for size, k, s, p in zip(x.shape[-2:], kernel, stride, padding, strict=True)
    ]
    return x.with_shape((*x.shape[:-2], *spatial))


def max_pool2d(call: RuleCall) -> Result:
    """The largest of each window; spikes stay spikes."""
    return _pool(call)


def avg_pool2d(call: RuleCall) -> Result:
    """The mean of each window, as floats."""
    if call.types["x"].kind == "dense":
        call.floating("x")
    pooled = _pool(call)
    assert isinstance(pooled, TensorType)
    return pooled if pooled.is_float else pooled.with_element("float32")


def global_avg_pool2d(call: RuleCall) -> Result:
    """[N, C, 1, 1]; of spikes [T, N, C, 1, 1], as floats."""
    if call.types["x"].kind == "spike":
        x = call.rank("x", 5, like="SpikeTensor[T, N, C, H, W]").with_element("float32")
    else:
        x = call.floating("x")
        call.rank("x", 4, like="[N, C, H, W]")
    return x.with_shape((*x.shape[:-2], Dim.of(1), Dim.of(1)))


def _reduced(call: RuleCall, x: TensorType) -> TensorType:
    axes = call.axes("axis", x.rank)
    keep = call.number("keepdims")
    call.attributes["axes"] = tuple(sorted(call.attributes.pop("axis")))
    if keep:
        return x.with_shape([Dim.of(1) if i in axes else d for i, d in enumerate(x.shape)])
    return x.with_shape([d for i, d in enumerate(x.shape) if i not in axes])


def total(call: RuleCall) -> Result:
    """Sum; integers and trits add up in `int64`."""
    x = call.dense("x")
    if not x.is_float:
        call.casts["x"] = "int64"
        x = x.with_element("int64")
    return _reduced(call, x)


def mean(call: RuleCall) -> Result:
    """Mean, as floats."""
    return _reduced(call, call.floating("x"))


def extreme(call: RuleCall) -> Result:
    """Largest or smallest."""
    return _reduced(call, call.numeric("x"))


def argmax(call: RuleCall) -> Result:
    """Index of the largest, the first among equals."""
    x = call.numeric("x")
    if not x.rank:
        call.fail("needs at least one axis", "x")
    axis = call.axis("axis", x.rank)
    size = (Dim.of(1),) if call.number("keepdims") else ()
    shape = (*x.shape[:axis], *size, *x.shape[axis + 1 :])
    return TensorType("dense", "int64", shape)


def positions(call: RuleCall) -> Result:
    """The places of an axis, counted from 0."""
    x = call.dense("x")
    if not x.rank:
        call.fail("needs at least one axis", "x")
    return TensorType("dense", "int64", (x.shape[call.axis("axis", x.rank)],))


SHAPE: Functions = {
    "shape": {
        "reshape(x, shape: shape): The same elements in another shape.": reshape,
        "flatten(x, start: int = 1, end: int = -1): Axes start to end made one.": flatten,
        (
            "transpose(x, axis0: int = -2, axis1: int = -1): Two axes swapped, "
            "the last two by default."
        ): transpose,
        "permute(x, axes: ints): Axes in a new order.": permute,
        "concat(*tensors, axis: int = 0): Joined along an axis.": concat,
        (
            "split(x, sections: ints, axis: int = 0): A list of parts: so many equal ones, "
            "or of the given sizes."
        ): split,
        "stack(*tensors, axis: int = 0): Joined on a new axis.": stack,
        (
            "slice(x, axis: int, start: int = 0, stop: int = none, step: int = 1): "
            "One axis cut to start:stop:step."
        ): slice_axis,
        (
            "pad(x, padding: ints, value: float = 0.0): A border of one value; pairs from the "
            "last axis backwards."
        ): pad,
        "squeeze(x, axis: ints): Axes of size 1 taken away.": squeeze,
        "unsqueeze(x, axis: ints): An axis of size 1.": unsqueeze,
        "expand(x, shape: shape): Axes of size 1 repeated; -1 keeps a size.": expand,
        "gather(x, indices, axis: int = 0): Entries along an axis at integer indices.": gather,
        "positions(x, axis: int = -1): 0, 1, 2, … along an axis of x, as int64.": positions,
    },
    "pooling, reduction": {
        (
            "max_pool2d(x, kernel: ints, stride: ints = none, padding: ints = 0): "
            "Largest of each window."
        ): max_pool2d,
        (
            "avg_pool2d(x, kernel: ints, stride: ints = none, padding: ints = 0, "
            "count_include_pad: bool = true): Mean of each window."
        ): avg_pool2d,
        "global_avg_pool2d(x): Mean over height and width: [N, C, 1, 1].": global_avg_pool2d,
        "sum(x, axis: ints = none, keepdims: bool = false): Sum over axes, all by default.": total,
        "mean(x, axis: ints = none, keepdims: bool = false): Mean over axes.": mean,
        "max(x, axis: ints = none, keepdims: bool = false): Largest over axes.": extreme,
        "min(x, axis: ints = none, keepdims: bool = false): Smallest over axes.": extreme,
        (
            "argmax(x, axis: int = -1, keepdims: bool = false): "
            "Index of the largest along an axis, as int64."
        ): argmax,
    },
}
