"""Programs over fixed arrays: values that change in place, threads, arrays that are refused."""

from __future__ import annotations

import gc
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np
import pytest

from triton_dsl.ir.errors import BackendError
from triton_dsl.runtime.native.loading import load_program, program_bytes
from triton_dsl.runtime.native.threads import processors

from .test_program import FACTOR, INTERFACE, arrays, doubling_code, program

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("batch", [1, 5, 0])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_call_reads_what_the_inputs_hold_then(batch: int, threads: int) -> None:
    x, step, _ = arrays(batch)
    bound = program(threads).bind(x, step)
    assert bound.inputs[0] is x and bound.inputs[1] is step
    y, seen = bound()
    for _ in range(3):
        x[...] = RNG.standard_normal(x.shape)
        step[...] = RNG.standard_normal(1)
        again = bound()
        assert again[0] is y and again[1] is seen
        expected = (x * FACTOR + step).reshape(2 * batch, 2)
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_threads_share_a_batch_by_rows() -> None:
    x, step, expected = arrays(7)
    shared = False
    end = monotonic() + 60
    while not shared and monotonic() < end:
        y, seen = program(threads=3).bind(x, step)()
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        shared = seen.tolist() != [7] * 7
        assert not shared or seen.tolist() == [2, 2, 2, 2, 3, 3, 3]
    assert shared or processors() == 1


def test_outputs_may_be_given() -> None:
    x, step, expected = arrays(2)
    out = [np.zeros((4, 2), np.float32), np.zeros(2, np.int64)]
    bound = program().bind(x, step, out=out)
    assert all(a is b for a, b in zip(bound(), out, strict=True))
    np.testing.assert_allclose(out[0], expected, rtol=1e-6)
    double = replace(INTERFACE, inputs=INTERFACE.inputs[:1], outputs=INTERFACE.inputs[:1])
    run = load_program(program_bytes(double, doubling_code(), FACTOR.view(np.uint8)))
    rows = np.zeros((6, 4), np.float32)
    part = rows[2:4]
    assert run.bind(x, out=part)() is part
    np.testing.assert_array_equal(part, 3 * x)
    assert not rows[:2].any() and not rows[4:].any()


def test_what_is_bound_lives_on() -> None:
    x, step, expected = arrays(3)
    bound = program().bind(x.copy(), step.copy())
    gc.collect()
    np.testing.assert_allclose(bound()[0], expected, rtol=1e-6)


def test_several_are_apart() -> None:
    run = program()
    cases = [arrays(batch) for batch in (2, 9, 2)]
    bound = [run.bind(x, step) for x, step, _ in cases]
    results = [each()[0] for each in bound]
    for result, (_, _, expected) in zip(results, cases, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_wrong_inputs_are_refused() -> None:
    x, step, _ = arrays(2)
    run = program()
    wrong: list[tuple[Any, ...]] = [
        (x,),
        (x.astype(np.float64), step),
        (x.astype(">f4"), step),
        (x[:, :3], step),
    ]
    for inputs in wrong:
        with pytest.raises(BackendError, match=r"takes x: float32 \[batch, 4\], step: float32"):
            run.bind(*inputs)
    for no_array in ([1.0], np.float32(1.0)):
        with pytest.raises(BackendError, match="takes NumPy arrays"):
            run.bind(no_array, step)  # pyright: ignore[reportArgumentType]
    for strided in (np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
        with pytest.raises(BackendError, match=r"input 0 is not contiguous .*ascontiguousarray"):
            run.bind(strided, step)


def test_wrong_outputs_are_refused() -> None:
    x, step, _ = arrays(2)
    run = program()
    y, seen = np.zeros((4, 2), np.float32), np.zeros(2, np.int64)
    wrong: list[Any] = [y, [y], [y, seen, seen], [y.astype(np.float64), seen], [y[:2], seen]]
    for out in wrong:
        with pytest.raises(BackendError, match=r"gives y: float32 \[2\*batch, 2\], seen: int64"):
            run.bind(x, step, out=out)
    with pytest.raises(BackendError, match="output 0 is not contiguous"):
        run.bind(x, step, out=[np.asfortranarray(y), seen])
    with pytest.raises(BackendError, match="output 0 shares memory with another array"):
        run.bind(x, step, out=[x.reshape(4, 2), seen])
    frozen = seen.copy()
    frozen.flags.writeable = False
    with pytest.raises(BackendError, match="output 1 is read-only"):
        run.bind(x, step, out=[y, frozen])
