"""Compiled programs as callables: shapes, dtypes, memory, threads, and the bytes that are kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from time import monotonic
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32, i64
from xdsl.dialects.llvm import FuncOp

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.lowering.to_native.arrays import arrays_entry
from triton_dsl.lowering.to_native.kernels.code import POINTER, Code
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.runtime.native.abi.interface import Interface, TensorInterface
from triton_dsl.runtime.native.abi.sizes import BATCH, ONE, TWO, ZERO, Size
from triton_dsl.runtime.native.loading import load_program, program_bytes
from triton_dsl.runtime.native.program import NativeProgram
from triton_dsl.runtime.native.threads import processors

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(7)
FACTOR = np.array([3.0], np.float32)
INTERFACE = Interface(
    "affine",
    (
        TensorInterface("x", "float32", (BATCH, Size.of(4))),
        TensorInterface("step", "float32", (ONE,)),
    ),
    (
        TensorInterface("y", "float32", (Size.of(0, 2), TWO)),
        TensorInterface("seen", "int64", (BATCH,)),
    ),
    "generic",
    ("batch",),
    True,
    4_000_000,
)


@cache
def object_code() -> bytes:
    """`y = factor · x + step` by way of the workspace, `seen` = the batch of the call."""

    code = Code("forward", [POINTER] * 6 + [i64])
    x, step, y, seen, constants, workspace, batch = code.arguments
    size = code.mul(batch, 4)
    with code.each(0, size) as index:
        value = code.fmul(code.load(code.at(x, index, f32), f32), code.load(constants, f32))
        code.store(value, code.at(workspace, index, f32))
    with code.each(0, size) as index:
        value = code.load(code.at(workspace, index, f32), f32)
        code.store(code.fadd(value, code.load(step, f32)), code.at(y, index, f32))
    with code.each(0, batch) as index:
        code.store(batch, code.at(seen, index, i64))
    return compile_object(ModuleOp([code.finish(), _workspace_bytes(), arrays_entry(4, 1)]))


def _workspace_bytes() -> FuncOp:
    code = Code("forward_workspace_bytes", [i64])
    return code.finish(code.mul(code.arguments[0], 16))


def program(threads: int = 1, **changes: Any) -> NativeProgram:
    interface = replace(INTERFACE, **changes)
    content = program_bytes(interface, object_code(), FACTOR.view(np.uint8))
    return load_program(content, threads=threads)


def arrays(batch: int) -> tuple[Any, Any, Any]:
    x = RNG.standard_normal((batch, 4)).astype(np.float32)
    step = RNG.standard_normal(1).astype(np.float32)
    return x, step, (x * FACTOR + step).reshape(2 * batch, 2)


@pytest.mark.parametrize("batch", [1, 5, 0, 300])
def test_outputs_have_the_sizes_of_the_batch(batch: int) -> None:
    x, step, expected = arrays(batch)
    run = program()
    for _ in range(2):
        y, seen = run(x, step)
        assert y.shape == (2 * batch, 2) and y.dtype == np.float32 and seen.dtype == np.int64
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        np.testing.assert_array_equal(seen, np.full(batch, batch))


@cache
def doubling_code() -> bytes:
    """`y = factor · x`, one input and one output."""

    code = Code("forward", [POINTER] * 4 + [i64])
    x, y, constants, _, batch = code.arguments
    with code.each(0, code.mul(batch, 4)) as index:
        value = code.fmul(code.load(code.at(x, index, f32), f32), code.load(constants, f32))
        code.store(value, code.at(y, index, f32))
    return compile_object(ModuleOp([code.finish(), _workspace_bytes(), arrays_entry(2, 1)]))


def test_one_input_and_one_output_go_the_same_way_the_second_time() -> None:
    x = TensorInterface("x", "float32", (BATCH, Size.of(4)))
    interface = replace(INTERFACE, inputs=(x,), outputs=(replace(x, name="y"),))
    content = program_bytes(interface, doubling_code(), FACTOR.view(np.uint8))
    for threads in (1, 3):
        run = load_program(content, threads=threads)
        for batch in (2, 0, 7, 2, 0, 7):
            given = RNG.standard_normal((batch, 4)).astype(np.float32)
            np.testing.assert_array_equal(run(given), 3 * given)
            np.testing.assert_array_equal(run(np.asfortranarray(given)), 3 * given)
            np.testing.assert_array_equal(run.run([given])[0], 3 * given)
            for wrong in (given.astype(np.float64), given[:, :2], given.astype(">f4")):
                with pytest.raises(BackendError, match=r"x: float32 \[batch, 4\]"):
                    run(wrong)


def test_results_belong_to_the_caller() -> None:
    run = program()
    x, step, expected = arrays(3)
    y, _ = run(x, step)
    run(x + 1, step)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_any_layout_of_inputs_is_read() -> None:
    x, step, expected = arrays(6)
    run = program()
    frozen = x.copy()
    frozen.flags.writeable = False
    for given in (np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], frozen):
        np.testing.assert_allclose(run(given, step)[0], expected, rtol=1e-6)
    raw = np.empty(x.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(x.shape)
    unaligned[...] = x
    np.testing.assert_allclose(run(unaligned, step)[0], expected, rtol=1e-6)


def test_wrong_inputs_are_refused() -> None:
    x, step, _ = arrays(2)
    run = program()
    wrong: list[tuple[Any, ...]] = [
        (x,),
        (x, step, step),
        (x.astype(np.float64), step),
        (x.astype(">f4"), step),
        (x[:, :3], step),
        (x[:, :1], step),
        (x.reshape(-1), step),
        (x, np.float32(1.0).reshape(())),
    ]
    for inputs in wrong:
        with pytest.raises(BackendError, match=r"takes x: float32 \[batch, 4\], step: float32"):
            run(*inputs)
    with pytest.raises(BackendError, match="takes NumPy arrays"):
        run([1.0], step)  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="threads"):
        program(threads=0)


def test_threads_share_a_batch_by_rows() -> None:
    x, step, expected = arrays(7)
    shared = False
    end = monotonic() + 60
    while not shared and monotonic() < end:
        y, seen = program(threads=3)(x, step)
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        shared = seen.tolist() != [7] * 7
        assert not shared or seen.tolist() == [2, 2, 2, 2, 3, 3, 3]
    assert shared or processors() == 1


def test_threads_are_used_only_where_rows_are_apart_and_work_is_enough() -> None:
    x, step, _ = arrays(6)
    assert program(threads=3, row_wise=False)(x, step)[1].tolist() == [6] * 6
    assert program(threads=3, work=1000)(x, step)[1].tolist() == [6] * 6
    assert program(threads=1)(x, step)[1].tolist() == [6] * 6


def test_calls_from_several_threads_do_not_meet() -> None:
    run = program()

    def call(seed: int) -> bool:
        x = np.full((200, 4), seed, np.float32)
        return all((run(x, np.zeros(1, np.float32))[0] == 3 * seed).all() for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(24)))


def test_damaged_bytes_are_no_program() -> None:
    content = program_bytes(INTERFACE, object_code(), FACTOR.view(np.uint8))
    for damaged in (b"", content[:-1], content + b"\0", b"\xff" * 64):
        with pytest.raises(BackendError, match="no compiled program"):
            load_program(damaged)
    text = INTERFACE.to_json().encode()
    with pytest.raises(BackendError, match="no interface"):
        load_program(content.replace(text, b"{" + b" " * (len(text) - 2) + b"}"))


def test_an_interface_survives_json() -> None:
    import json

    assert Interface.from_dict(json.loads(INTERFACE.to_json())) == INTERFACE
    assert INTERFACE.outputs[0].shown(INTERFACE.names) == "[2*batch, 2]"
    assert INTERFACE.outputs[0].sizes(4) == (8, 2)
    sizes = (Size.of(5, 2), BATCH * Size.free(1), Size.of(3), ZERO)
    mixed = TensorInterface("z", "int8", sizes)
    assert mixed.shown(["batch", "n"]) == "[2*batch + 5, batch*n, 3, 0]"
    assert mixed.sizes(4, 5) == (13, 20, 3, 0)
