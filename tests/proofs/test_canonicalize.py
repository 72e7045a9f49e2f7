"""Canonicalisation of integers and of shapes, proven on all values of small tensors.

Where a pattern fires at all in a family of programs, the program before and after must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, f32, f64, i1, i8, i32
from xdsl.ir import Attribute

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.dialects.shapes import DYNAMIC

from .equivalence import arguments_of, changed, prove
from .meaning import dtype_of
from .programs import Make, program, tensor_of, unary
from .rewrites import apply_pattern, canonicalisations, matching, proves

UNSIGNED = [IntegerType(width, Signedness.UNSIGNED) for width in (8, 32)]
INTEGERS: list[Any] = [*(IntegerType(width) for width in (8, 16, 32, 64)), *UNSIGNED]

SIZES = (1, 2, 3)
"""What a free axis is, one after the other."""


def proven(
    name: str,
    programs: Iterable[ModuleOp | None],
    least: int = 1,
    sizes: Callable[[ModuleOp], Sequence[int]] = lambda before: SIZES,
) -> None:
    """Prove every program of a family in which the pattern fires; so many must at least.

    Args:
        name: of the canonicalisation.
        programs: the family.
        least: how many programs it must change.
        sizes: what the free axes of a program are, one after the other.
    """
    rewrite, fired = apply_pattern(name), 0
    for before in programs:
        if before is None:
            continue
        done: list[bool] = []
        after = changed(before, lambda module, done=done: done.append(rewrite(module)))
        if done[0]:
            fired += 1
            (given,) = arguments_of(before)
            for size in sizes(before) if "?" in str(given) else (1,):
                prove(before, after, sizes=[size] * 4)
    assert fired >= least


def reshaped_sizes(before: ModuleOp) -> list[int]:
    """Sizes of one free axis with which all reshapes of a program have elements enough."""
    counts = [
        int(np.prod([abs(n) for n in op.shape.get_values()]))
        for op in before.walk()
        if isinstance(op, tensor.ReshapeToOp)
    ]
    return [int(np.lcm.reduce(counts))]


def operation(name: str) -> Any:
    """The op that a pattern is registered for."""
    return canonicalisations()[name][0]


ON_INTEGERS = {"relu", "relu6", "abs", "sign"}

IDEMPOTENT = [n for n in matching("Idempotent") if n.rpartition(".")[2] in ON_INTEGERS]


@pytest.mark.parametrize("name", [*IDEMPOTENT, *matching("Involution")])
@proves([*IDEMPOTENT, *matching("Involution")])
def test_one_op_after_itself(name: str) -> None:
    kind = operation(name)
    elements = [i1] if kind is tensor.NotOp else INTEGERS
    proven(name, (unary(tensor_of(e, [2, -1]), kind, kind) for e in elements), len(elements))


def with_constant(kind: Any, element: Any, shapes: Any, number: int, left: bool) -> ModuleOp:
    """x ∘ c or c ∘ x."""
    shape, other = shapes
    values = np.full(other, number, dtype_of(tensor_of(element, other)))

    def body(insert: Any, x: Any) -> Any:
        constant = insert(dense_constant(values, element))
        return insert(kind(constant, x) if left else kind(x, constant))

    return program([tensor_of(element, shape)], body)


SHAPES = [([2], []), ([2], [2]), ([-1, 2], [1, 2]), ([-1], [-1]), ([1], [2]), ([], []), ([], [1])]


@pytest.mark.parametrize("name", matching("NeutralElement"))
@proves(matching("NeutralElement"))
def test_neutral_elements(name: str) -> None:
    """Of all small constants and the ends of the type, on both sides."""

    def programs() -> Iterator[ModuleOp]:
        for element, shapes, left in product(INTEGERS, SHAPES, (False, True)):
            if -1 in shapes[1]:
                continue
            info = np.iinfo(dtype_of(tensor_of(element, [])))
            for number in {0, 1, 2, -1, int(info.min), int(info.max)}:
                if info.min <= number <= info.max:
                    yield with_constant(operation(name), element, shapes, number, left)

    proven(name, programs(), 4 * len(INTEGERS))


STRETCHED = [([-1, 2], [3, 2]), ([-1], [3]), ([1, -1], [2])]


@pytest.mark.parametrize("shapes", STRETCHED, ids=str)
def test_a_constant_that_stretches_a_free_axis_stays(shapes: Any) -> None:
    shape, other = shapes
    before = with_constant(tensor.AddOp, i32, (shape, other), 0, False)
    assert not apply_pattern("canonicalize: NeutralElement of tensor.add")(before)


# Shapes: every op of a kind on every small tensor.

SMALL = [[], [1], [2], [1, 2], [2, 2], [3, 2], [2, 1, 3], [-1], [-1, 2], [2, -1], [1, -1, 2]]


def changes(kind: Any, shape: list[int]) -> Iterator[Make]:
    """Ops of a kind that may fit a shape."""
    rank = len(shape)
    match kind.name.rpartition(".")[2]:
        case "reshape_to":
            total = abs(int(np.prod(shape)))
            sizes = [-3, -2, -1, 1, 2, 3, total]
            for n in range(4 if rank == 3 else 3):
                yield from (lambda v, s=s: kind(v, s) for s in product(sizes, repeat=n))
        case "permute":
            yield from (lambda v, p=p: kind(v, p) for p in permutations(range(rank)))
        case "flatten":
            ends = range(-rank, rank)
            yield from (lambda v, s=s, e=e: kind(v, s, e) for s in ends for e in ends)
        case "squeeze" | "unsqueeze":
            axes = [(), (0,), (-1,), (0, 1)]
            yield from (lambda v, a=a: kind(v, a) for a in axes)
        case "expand":
            for n in range(4):
                yield from (lambda v, s=s: kind(v, s) for s in product((-1, 1, 2), repeat=n))
        case "slice":
            bounds = [(0, 2), (0, 2**63 - 1), (-2, 2**63 - 1), (1, 2**63 - 1), (0, -1)]
            cuts = [(*ends, step) for ends in bounds for step in (1, 2)]
            for chosen in product(cuts, repeat=min(rank, 2)):
                whole = [*chosen, *[(0, 2**63 - 1, 1)] * (rank - len(chosen))]
                columns = [[cut[i] for cut in whole] for i in range(3)]
                yield lambda v, c=columns: kind(v, c[0], c[1], c[2])
        case "pad_to":
            yield from (
                lambda v, a=a, b=b: kind(v, [a] * rank, [b] * rank, 1.0)
                for a in (0, 1)
                for b in (0, 1)
            )
        case other:
            raise AssertionError(f"no changes of shape are written down for '{other}'")


@pytest.mark.parametrize("name", matching("SameShape"))
@proves(matching("SameShape"))
def test_a_change_of_shape_that_changes_nothing(name: str) -> None:
    kind = operation(name)
    proven(
        name,
        (unary(tensor_of(i8, s), make) for s in SMALL for make in changes(kind, s)),
        3,
    )


@proves(matching("MergePermutes"))
def test_two_permutations() -> None:
    """All pairs up to rank 3."""
    shapes = [[2, 3], [2, 2], [-1, 2], [2, 1, 3], [2, 2, 2], [-1, 2, 3]]
    pairs = [(s, p) for s in shapes for p in product(permutations(range(len(s))), repeat=2)]
    proven(
        "canonicalize: MergePermutes of tensor.permute",
        (
            unary(tensor_of(i8, s), *(lambda v, a=a: tensor.PermuteOp(v, a) for a in p))
            for s, p in pairs
        ),
        len(pairs),
    )


@proves(matching("MergeReshapes"))
def test_two_reshapes() -> None:
    """Known sizes in all ways, and one free axis with sizes that are kept, split and left over."""
    known = [[4], [2, 2], [2, 3, 1]]
    targets = [t for n in (1, 2, 3) for t in product((-3, -2, -1, 1, 2, 6), repeat=n)]

    def programs() -> Iterator[ModuleOp | None]:
        for shape, second in product(known, targets[::3]):
            for first in targets[::7]:
                yield unary(tensor_of(i8, shape), reshape(first), reshape(second))
            yield unary(tensor_of(i8, shape), tensor.FlattenOp, reshape(second))
        for second in [(-1,), (-1, 2), (2, -1), (-1, 1, 4), (-2, -1), (2, 2)]:
            for first in [(-1,), (-1, 2), (-2, 2, 2), (-2, -3), (-3, -2), (1, -2, 4)]:
                yield unary(tensor_of(i8, [-1, 4]), reshape(first), reshape(second))
            for ends in ((0, -1), (0, 1), (1, 1)):
                flat: Make = lambda v, e=ends: tensor.FlattenOp(v, *e)  # noqa: E731
                yield unary(tensor_of(i8, [-1, 4]), flat, reshape(second))

    def sizes(before: ModuleOp) -> list[int]:
        return [1] if "array<i64: 2, 2>" in str(before) else [2, 4]

    proven("canonicalize: MergeReshapes of tensor.reshape_to", programs(), 50, sizes)


def reshape(sizes: Sequence[int]) -> Make:
    return lambda v: tensor.ReshapeToOp(v, sizes)


@proves(matching("SplitBeforePermute"))
def test_a_reshape_that_splits_what_was_moved() -> None:
    """Every order of two and three axes, each of which is cut into one to three."""
    groups = [[2], [3], [2, 2], [1, 2], [3, 2], [2, 1, 2]]

    def programs() -> Iterator[ModuleOp | None]:
        for count in (2, 3):
            chosen = product(groups[: 5 if count == 2 else 3], repeat=count)
            for parts, perm in product(chosen, permutations(range(count))):
                inner = [int(np.prod(part)) for part in parts]
                outer = [size for axis in perm for size in parts[axis]]
                yield split(inner, list(perm), outer, [int(np.prod(inner))])
                for free in range(count):
                    opened = [-1 if axis == free else n for axis, n in enumerate(inner)]
                    yield split(opened, list(perm), outer, [-1])
                    at = sum(len(parts[axis]) for axis in perm[: perm.index(free)])
                    cut = [-1 if i == at else size for i, size in enumerate(outer)]
                    yield split(opened, list(perm), cut, [-1])

    proven("canonicalize: SplitBeforePermute of tensor.reshape_to", programs(), 100, reshaped_sizes)


def split(inner: Any, perm: Any, outer: Any, given: list[int]) -> ModuleOp | None:
    moved: Make = lambda v: tensor.PermuteOp(v, perm)  # noqa: E731
    return unary(tensor_of(i8, given), reshape(inner), moved, reshape(outer))


@proves(matching("MatmulToLinear"))
@pytest.mark.parametrize("element", INTEGERS, ids=str)
@pytest.mark.parametrize("shape", [[2, 3], [-1, 3], [2, 2, 3]], ids=str)
def test_a_product_with_a_matrix(element: Attribute, shape: list[int]) -> None:
    """With trits that may be anything."""

    def body(insert: Any, x: Any) -> Any:
        weight = insert(ternary.ParameterOp("w", [3, 2]))
        return insert(ternary.MatmulOp(x, weight))

    proven(
        "canonicalize: MatmulToLinear of ternary.matmul",
        [program([tensor_of(element, shape)], body)],
    )


# Spikes.

TRAIN = spike.TrainType([3, 2])


@proves([n for n in matching("TrainOfTensor") if n.endswith("from_tensor")])
@pytest.mark.parametrize("element", [i1, *INTEGERS], ids=str)
def test_a_train_that_was_a_tensor(element: Attribute) -> None:
    before = unary(TRAIN, lambda v: spike.ToTensorOp(v, element), spike.FromTensorOp)
    proven("canonicalize: TrainOfTensor of spike.from_tensor", [before])


@proves([n for n in matching("TensorOfTrain") if n.endswith("to_tensor")])
def test_truth_values_that_were_a_train() -> None:
    """Other elements than truth values stay: 5 would become 1."""
    name = "canonicalize: TensorOfTrain of spike.to_tensor"

    def before(element: Any) -> ModuleOp | None:
        make = [spike.FromTensorOp, lambda v: spike.ToTensorOp(v, element)]
        return unary(tensor_of(element, [3, 2]), *make)

    proven(name, [before(element) for element in (i1, *INTEGERS)])


@proves(matching("NoDelay", "MergeDelays"))
@pytest.mark.parametrize(
    "type", [TRAIN, tensor_of(i32, [3, 2]), spike.TrainType([DYNAMIC, 2])], ids=str
)
@pytest.mark.parametrize("name", matching("NoDelay", "MergeDelays"))
def test_delays(name: str, type: Attribute) -> None:
    """Of 0 to 4 steps, on 1 to 3 steps of input."""
    makes = [lambda v, d=d: spike.DelayOp(v, d) for d in range(5)]
    proven(name, (unary(type, *pair) for pair in product(makes, repeat=2)), 5)


@proves(["canonicalize: UnitWindows of spike.max_pool"])
def test_pools_of_one_element() -> None:
    windows = list(product([(1, 1), (2, 1)], [(1, 1), (1, 2)], [(0,) * 4, (0, 0, 1, 0)]))
    makes = [lambda v, w=w: spike.MaxPoolOp(v, *w) for w in windows]
    type = spike.TrainType([2, 1, 2, 2, 3])
    proven("canonicalize: UnitWindows of spike.max_pool", (unary(type, make) for make in makes))


@proves(matching("DecodedConstant"))
def test_a_constant_that_is_read_out() -> None:
    """Truth values by their rate; floats by the last step and the largest."""
    name = "canonicalize: DecodedConstant of spike.decode"
    for steps in (1, 2, 3, 7):
        encode: Make = lambda v, t=steps: spike.EncodeOp(v, "direct", t)  # noqa: E731
        proven(name, [unary(tensor_of(i1, [2]), encode, lambda v: spike.DecodeOp(v, "rate"))])
        for element, readout in product((f32, f64), ("last", "max")):
            read: Make = lambda v, r=readout: spike.DecodeOp(v, "membrane", r)  # noqa: E731
            proven(name, [unary(tensor_of(element, [2]), encode, read)])


NEVER_ON_INTEGERS = matching("FactorIntoGain", "GainIntoSynapse")
"""On neurons of integers; those of floats are no matter of integers."""


@pytest.mark.parametrize("name", [n for n in NEVER_ON_INTEGERS if "integ" in n])
def test_gains_of_integer_neurons_stay(name: str) -> None:
    """These patterns move floats alone."""
    kind = operation(name)
    options: Any = {"decay": 1.0, "shift": 1} if kind is spike.IntegerLifOp else {}

    def body(insert: Any, s: Any) -> Any:
        weight = insert(ternary.ParameterOp("w", [2, 2]))
        current = insert(spike.LinearOp(s, weight))
        two = insert(dense_constant(np.array(2, np.int32), i32))
        factor = insert(tensor.MulOp(current, two))
        return insert(kind(current, gain=3.0, **options)), insert(kind(factor, **options))

    if kind is spike.LeakyIntegratorOp:
        return
    before = program([TRAIN], body)
    before.verify()
    assert not apply_pattern(name)(before)
