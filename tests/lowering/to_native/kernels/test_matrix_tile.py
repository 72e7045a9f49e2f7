"""Products by AMX, against NumPy in int64, and what happens where Linux refuses it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.runtime.native.processor import host_features
from triton_dsl.targets import native_linear

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(
    not RECIPES[0].features <= host_features(), reason="this processor has no AMX"
)

INTEGERS = (np.int8, np.uint8, np.int16, np.int32)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 110),
    st.one_of(st.integers(1, 300), st.sampled_from([64, 256, 1024, 1028, 4096])),
    st.integers(1, 200),
    st.sampled_from(INTEGERS),
    st.integers(0, 1 << 30),
)
def test_integers_are_exact(
    rows: int, ins: int, outs: int, dtype: type[np.integer], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
    bounds = np.iinfo(dtype)
    x = rng.integers(bounds.min, bounds.max, (rows, ins), endpoint=True).astype(dtype)
    wanted = (x.astype(np.int64) @ trits.T.astype(np.int64)).astype(np.int32)
    layer = native_linear(trits, recipe="amx", layout="panels")
    assert np.array_equal(layer(x), wanted)


def test_the_longest_rows_do_not_overflow() -> None:
    ins = 1 << 17
    x = np.full((12, ins), -128, np.int8)
    layer = native_linear(np.ones((65, ins), np.int8), recipe="amx", layout="panels")
    assert (layer(x) == -128 * ins).all()


REFUSED = """
import ctypes
import numpy as np
from triton_dsl.targets import native_linear

libc = ctypes.CDLL(None, use_errno=True)

class Stack(ctypes.Structure):
    _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

# The registers of AMX do not fit on this stack for signals, so that Linux says no.
memory = ctypes.create_string_buffer(8000)
assert libc.sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, 8000)), None) == 0
rng = np.random.default_rng(0)
trits = rng.integers(-1, 2, (70, 300)).astype(np.int8)
x = rng.integers(-128, 128, (40, 300)).astype(np.int8)
layer = native_linear(trits, recipe="amx")
wanted = x.astype(np.int64) @ trits.T.astype(np.int64)

def allowed():
    states = ctypes.c_uint64()
    assert libc.syscall(158, 0x1022, ctypes.byref(states)) == 0
    return bool(states.value >> 18 & 1)

assert (layer(x) == wanted).all()
print(allowed())
assert libc.sigaltstack(ctypes.byref(Stack(None, 2, 0)), None) == 0
assert (layer(x) == wanted).all()
print(allowed())
"""


def test_a_refusal_takes_the_other_way() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REFUSED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]
