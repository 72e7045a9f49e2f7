"""Sizes, views and the places of buffers, against NumPy and by brute force."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f32, i8

from triton_dsl.lowering.to_native.program.arena import Lifetime, plan
from triton_dsl.lowering.to_native.program.views import Buffer, View, whole_view
from triton_dsl.runtime.native.abi.sizes import (
    BATCH,
    ONE,
    ZERO,
    Size,
    least_of,
    needs_of,
    product,
)

polynomials = st.builds(Size.of, st.integers(-9, 9), st.integers(-9, 9), st.integers(-3, 3))
sizes = st.recursive(
    polynomials | st.builds(Size.free, st.integers(0, 2)),
    lambda inner: st.one_of(
        st.builds(Size.__add__, inner, inner),
        st.builds(Size.__mul__, inner, inner),
        st.builds(Size.over, inner, st.integers(1, 8)),
        st.builds(lambda a, b: a.most(b) or a, inner, inner),
        st.builds(lambda a, b: a.least(b) or a, inner, inner),
    ),
    max_leaves=4,
)
frees = st.tuples(*[st.integers(0, 50)] * 3)


@given(sizes, sizes, frees)
def test_arithmetic_of_sizes_is_that_of_numbers(
    a: Size, b: Size, free: tuple[int, int, int]
) -> None:
    x, y = a.at(*free), b.at(*free)
    assert (a + b).at(*free) == x + y
    assert (a - b).at(*free) == x - y
    assert (a * b).at(*free) == x * y == (b * a).at(*free)
    assert a.bound(b).at(*free) >= max(x, y)
    assert a.aligned(64).at(*free) >= x and a.aligned(64).at(*free) % 64 == 0
    most, least = a.most(b), a.least(b)
    assert most is None or most.at(*free) == max(x, y)
    assert least is None or least.at(*free) == min(x, y)
    assert Size.from_data(json.loads(json.dumps(a.to_data()))) == a
    raised = a.raised((0, 2))
    assert raised.at(*free) == a.at(free[0] + 1, free[1], free[2] + 1)
    text = a.shown("xyz").replace("/", "//")
    assert "?" in text or eval(text, dict(zip("xyz", free, strict=True))) == x


@given(sizes, st.integers(1, 8), frees)
def test_quotients_round_down(a: Size, divisor: int, free: tuple[int, int, int]) -> None:
    found = a.over(divisor)
    assert found.at(*free) == a.at(*free) // divisor
    again = (found + ONE).over(3)
    assert again.at(*free) == (a.at(*free) // divisor + 1) // 3
    assert (a * Size.of(divisor)).over(divisor) == a


@given(st.lists(st.builds(Size.of, st.integers(-9, 9), st.integers(1, 9))))
def test_no_size_is_negative_from_the_least_batch_on(found: list[Size]) -> None:
    needs = needs_of(found)
    assert len(needs) <= 1
    least = max((pair[1] for pair in map(least_of, needs) if pair is not None), default=0)
    assert all(size.at(batch) >= 0 for size in found for batch in (least, least + 1))
    assert least == 0 or any(size.at(least - 1) < 0 for size in found)


@given(st.lists(sizes), frees)
def test_what_is_needed_makes_no_size_negative(
    found: list[Size], free: tuple[int, int, int]
) -> None:
    needs = needs_of(found)
    assert set(needs) <= set(found)
    assert all(n.at(*free) >= 0 for n in needs) == all(size.at(*free) >= 0 for size in found)


def test_sizes_read_as_formulas() -> None:
    assert str(Size.of(3, 1, 2)) == "2*batch*batch + batch + 3"
    assert str(ZERO) == "0" and ZERO.number == 0 and BATCH.number is None
    assert product([BATCH, Size.of(4)]) == Size.of(0, 4)


def elements(view: View, memory: np.ndarray) -> np.ndarray:
    """What a view shows of its buffer."""
    shape = [size.at(0) for size in view.sizes]
    strides = [stride.at(0) * memory.itemsize for stride in view.strides]
    return np.lib.stride_tricks.as_strided(memory[view.offset.at(0) :], shape, strides)


@given(st.data())
def test_views_show_what_numpy_shows(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    array = np.arange(int(np.prod(shape)), dtype=np.float32)
    view = whole_view(Buffer(f32, Size.of(array.size)), [Size.of(n) for n in shape])
    expected = array.reshape(shape)
    starts = [data.draw(st.integers(0, n - 1)) for n in shape]
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    expected = expected[tuple(slice(a, None, s) for a, s in zip(starts, steps, strict=True))]
    lengths = [Size.of(n) for n in expected.shape]
    view = view.cut([Size.of(a) for a in starts], lengths, [Size.of(s) for s in steps])
    assert np.array_equal(elements(view, array), expected)
    flags = expected.flags.c_contiguous
    assert view.contiguous == flags
    merged = view.collapsed([list(range(len(shape)))])
    if merged is not None:
        assert np.array_equal(elements(merged, array), expected.reshape(-1))
    assert merged is not None or not flags
    cut = view.expanded([[2 * a, 2 * a + 1] for a in range(len(shape))], [*_with_ones(lengths)])
    assert np.array_equal(elements(cut, array).reshape(expected.shape), expected)


def _with_ones(lengths: list[Size]) -> list[Size]:
    return [size for length in lengths for size in (length, ONE)]


buffers = st.lists(
    st.tuples(st.integers(0, 999), st.integers(0, 99), st.integers(0, 9), st.integers(0, 4)),
    max_size=12,
)


@given(buffers)
def test_buffers_that_are_needed_at_once_stand_apart(
    rows: list[tuple[int, int, int, int]],
) -> None:
    lifetimes = [
        Lifetime(Buffer(i8, Size.of(a, b)), first, first + length) for a, b, first, length in rows
    ]
    total = plan(lifetimes)
    for batch in (0, 1, 7):
        places = [
            (life, life.buffer.offset.at(batch), life.buffer.size.at(batch)) for life in lifetimes
        ]
        for number, (life, start, size) in enumerate(places):
            assert start % 64 == 0 and start >= 0 and start + size <= total.at(batch)
            for other, begin, length in places[:number]:
                apart = start + size <= begin or begin + length <= start
                assert apart or not life.overlaps(other)
