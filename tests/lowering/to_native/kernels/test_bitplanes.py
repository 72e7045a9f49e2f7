"""Products on bit planes against NumPy in int64, under every scheme that this processor can run."""

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_native.kernels.bitplanes import bitplane_fingerprint, bitplane_module
from triton_dsl.lowering.to_native.kernels.bitplanes_product import most_steps
from triton_dsl.lowering.to_native.kernels.bitplanes_schemes import (
    SCHEMES,
    Scheme,
    best_scheme,
    scheme_named,
)
from triton_dsl.lowering.to_native.matmul import native_matmul
from triton_dsl.runtime.native.abi.bitplanes import OPERANDS, STEP_GROUPS, VALUES, Operand, Values
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

RUNNABLE = pytest.mark.parametrize(
    "scheme", [scheme.name for scheme in SCHEMES if scheme.features <= host_features()]
)
ALLOWED: dict[Values, list[int]] = {"trits": [-1, 0, 1], "bits": [0, 1], "signs": [-1, 1]}
EDGES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 47, 48, 49, 63, 64, 65, 127, 128, 129, 191, 192, 193, 385]


def check(scheme: str, values: Values, a: NDArray[np.int8], b: NDArray[np.int8]) -> None:
    result = native_matmul(a, b, values=values, scheme=scheme)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    assert result.dtype == np.int32
    assert np.array_equal(result, expected), (scheme, values, a.shape, b.shape)


def size(rng: np.random.Generator, most: int) -> int:
    if rng.random() < 0.6:
        return int(rng.choice([edge for edge in EDGES if edge <= most]))
    return int(rng.integers(0, most + 1))


def sweep(scheme: str, count: int, seed: int) -> None:
    """Random shapes and values; every fourth has no zeros, every eighth one value only."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        rows, ins, outs = size(rng, 49), size(rng, 400), size(rng, 200)
        for values, allowed in ALLOWED.items():
            a = rng.choice(allowed, (rows, ins)).astype(np.int8)
            b = rng.integers(-1, 2, (ins, outs)).astype(np.int8)
            if number % 4 == 0:
                b = rng.choice([-1, 1], (ins, outs)).astype(np.int8)
            if number % 8 == 0:
                a[...], b[...] = rng.choice(allowed), rng.choice([-1, 1])
            check(scheme, values, a, b)


@RUNNABLE
def test_is_exact(scheme: str) -> None:
    sweep(scheme, 25, 1)


@RUNNABLE
@pytest.mark.slow
def test_is_exact_on_thousands_of_shapes(scheme: str) -> None:
    sweep(scheme, 3000, 2)


@RUNNABLE
@pytest.mark.parametrize("values", VALUES)
def test_sums_beyond_the_counters(scheme: str, values: Values) -> None:
    """The counters have 16 bits, so longer sums are made in parts; the last one is not full."""
    group = scheme_named(scheme, host_features()).group
    ins = 2 * most_steps(scheme_named(scheme, host_features())) * STEP_GROUPS * group + 5
    assert ins > 1 << 15
    ones, columns = np.ones((3, ins), np.int8), np.ones((ins, 65), np.int8)
    columns[:, 1::2] = -1
    check(scheme, values, ones, columns)
    if values != "bits":
        check(scheme, values, -ones, columns)
    rng = np.random.default_rng(3)
    a = rng.choice(ALLOWED[values], (3, ins)).astype(np.int8)
    check(scheme, values, a, rng.integers(-1, 2, (ins, 65)).astype(np.int8))


@RUNNABLE
def test_more_columns_than_a_block_and_more_rows_than_a_piece(scheme: str) -> None:
    rng = np.random.default_rng(4)
    for rows, ins, outs in [(2, 50, 4200), (300, 20, 70)]:
        a = rng.integers(-1, 2, (rows, ins)).astype(np.int8)
        check(scheme, "trits", a, rng.integers(-1, 2, (ins, outs)).astype(np.int8))


@RUNNABLE
def test_each_product_of_two_values(scheme: str) -> None:
    for values, allowed in ALLOWED.items():
        for place in range(7):
            a = np.zeros((len(allowed), 7), np.int8)
            if values == "signs":
                a[...] = 1
            a[:, place] = allowed
            b = np.zeros((7, 3), np.int8)
            b[place] = [-1, 0, 1]
            check(scheme, values, a, b)


def test_takes_the_best_that_runs() -> None:
    wide = {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx", "avx2"}
    assert best_scheme({*wide, "avx512vbmi"}).name == "avx512vbmi"
    assert best_scheme({*wide, "avx512vnni"}).name == "avx512bw"
    assert best_scheme({*wide, "avx512vbmi"}, most_width=32).name == "avx2"
    assert best_scheme({"neon"}).name == "generic"


def test_refuses_an_unknown_name_and_a_processor_that_lacks_something() -> None:
    with pytest.raises(OptionError, match="no scheme of bit planes is named 'sse9'; there are avx"):
        scheme_named("sse9", [])
    with pytest.raises(OptionError, match=r"it has no avx, avx2$"):
        scheme_named("avx2", ["sse2"])


def test_fingerprints_tell_modules_apart() -> None:
    marks = {bitplane_fingerprint(s, operand) for s in SCHEMES for operand in OPERANDS}
    assert len(marks) == len(SCHEMES) * len(OPERANDS)
    assert bitplane_fingerprint(SCHEMES[0], "bits") == bitplane_fingerprint(SCHEMES[0], "bits")


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_the_same_module_twice(scheme: Scheme, operand: Operand) -> None:
    module = bitplane_module(scheme, operand)
    module.verify()
    assert str(module) == str(bitplane_module(scheme, operand))


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize(
    ("name", "triple", "processor", "instruction"),
    [
        ("avx512vbmi", "x86_64-unknown-linux-gnu", "icelake-server", "vpermb"),
        ("avx512bw", "x86_64-unknown-linux-gnu", "skylake-avx512", "vpternlogd"),
        ("avx2", "x86_64-unknown-linux-gnu", "haswell", "vpshufb"),
        ("generic", "x86_64-unknown-linux-gnu", "x86-64", "pxor"),
        ("generic", "aarch64-unknown-linux-gnu", "generic", "eor"),
        pytest.param(
            "generic", "riscv64-unknown-linux-gnu", "generic-rv64", "xor", marks=pytest.mark.slow
        ),
    ],
)
def test_a_scheme_needs_no_more_than_it_says(
    name: str, triple: str, processor: str, instruction: str, operand: Operand
) -> None:
    from llvmlite import binding
    from xdsl.backend.llvm.convert import convert_module

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = bitplane_module(next(one for one in SCHEMES if one.name == name), operand)
    parsed = binding.parse_assembly(str(convert_module(module, fallback_target_triple=triple)))
    parsed.verify()
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=processor, opt=2)
    text = machine.emit_assembly(parsed)
    assert instruction in text
    for libcall in ("__popcountdi2", "__udivdi3"):
        assert libcall not in text
