"""Programs whose matrices of trits and growing caches are in the caller's memory."""

from __future__ import annotations

import numpy as np
import pytest

from triton_dsl.dialects.parameters import store_of
from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.ir.trits import unpack_trits
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_native.callables import native_program, program_content
from triton_dsl.lowering.to_native.target import NativeOptions
from triton_dsl.runtime.native.abi.layouts import weights_in
from triton_dsl.runtime.native.loading import load_program
from triton_dsl.runtime.random_values import fill_parameters

TEXT = """
layer Net {
    param first: TernaryTensor[12, 70]
    param second: TernaryTensor[70, 6]

    fn forward(x: Tensor<int8>[1, 2, 12], cache: Tensor<int32>[1, P, 6]) {
        let inner = cast(clamp(x @ first, min=-100, max=100), dtype="int8")
        let all = concat([cache, inner @ second], axis=1)
        return [sum(all, axis=1), all]
    }
}
"""


def panels(name: str, seed: int) -> np.ndarray:
    """What a program asks for by `KEY:LAYOUT`, of the weights of a seed."""
    key, layout = name.rsplit(":", 1)
    assert layout == "panels"
    packed = store_of(fill_parameters(import_tri(TEXT), seed)).read(key)
    shape = (12, 70) if key == "first" else (70, 6)
    return weights_in("panels", unpack_trits(packed, shape).T).view(np.uint8).reshape(-1)


def inputs(length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(length)
    x = rng.integers(-128, 128, (1, 2, 12)).astype(np.int8)
    return [x, rng.integers(-9, 9, (1, length, 6)).astype(np.int32)]


def test_one_code_for_all_weights() -> None:
    content = program_content(import_tri(TEXT), NativeOptions(outside=True))
    for seed in (0, 1):
        program = load_program(content, held=lambda name, seed=seed: panels(name, seed))
        expected = native_program(fill_parameters(import_tri(TEXT), seed))
        for length in (0, 1, 5):
            for actual, wanted in zip(
                program(*inputs(length)), expected(*inputs(length)), strict=True
            ):
                np.testing.assert_array_equal(actual, wanted)


def test_a_cache_grows_in_place() -> None:
    content = program_content(import_tri(TEXT), NativeOptions(outside=True))
    program = load_program(content, held=lambda name: panels(name, 0))
    assert program.interface.shared == ((1, 1),)
    plain = native_program(fill_parameters(import_tri(TEXT), 0))
    memory = np.full((1, 9, 6), 77, np.int32)
    total = np.empty((1, 6), np.int64)
    cache = np.empty((1, 0, 6), np.int32)
    for length in (0, 2, 4):
        x = inputs(length)[0]
        step = program.bind(x, memory[:, :length], out=[total, memory[:, : length + 2]])
        step()
        wanted, cache = plain(x, cache)
        np.testing.assert_array_equal(total, wanted)
        np.testing.assert_array_equal(memory[:, : length + 2], cache)
    assert (memory[:, 6:] == 77).all()


def test_memory_that_is_not_shared() -> None:
    content = program_content(import_tri(TEXT), NativeOptions(outside=True))
    program = load_program(content, held=lambda name: panels(name, 0))
    x, cache = inputs(3)
    with pytest.raises(BackendError, match="give them as out"):
        program.bind(x, cache)
    outputs = [np.empty((1, 6), np.int64), np.empty((1, 5, 6), np.int32)]
    with pytest.raises(BackendError, match="output 1 does not begin with input 1"):
        program.bind(x, cache, out=outputs)


def test_files_hold_their_weights() -> None:
    module = fill_parameters(import_tri(TEXT), 0)
    with pytest.raises(OptionError, match="not for files"):
        compile_to_target(module, "native{outside=true}")
