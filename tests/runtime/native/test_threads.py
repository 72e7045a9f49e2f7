"""Sharing of work among threads."""

import pytest

from triton_dsl.runtime.native.threads import share, split


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("parts", [1, 2, 5, 9])
def test_ranges_cover_everything_once(count: int, parts: int) -> None:
    ranges = split(count, parts)
    assert [i for first, end in ranges for i in range(first, end)] == list(range(count))
    sizes = [end - first for first, end in ranges]
    assert not sizes or (min(sizes) >= 1 and max(sizes) - min(sizes) <= 1)


def test_every_range_is_done() -> None:
    done: list[tuple[int, int]] = []
    share(lambda first, end: done.append((first, end)), split(10, 3))
    assert sorted(done) == split(10, 3)
    share(lambda first, end: done.append((first, end)), [])
    assert len(done) == 3


def test_an_error_in_a_thread_is_raised() -> None:
    def work(first: int, end: int) -> None:
        if first:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share(work, split(4, 2))
