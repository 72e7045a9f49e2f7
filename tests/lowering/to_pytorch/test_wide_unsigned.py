"""Arithmetic on uint16, uint32 and uint64 in PyTorch, against NumPy in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from triton_dsl.dialects import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.extras import install
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.targets import compile_to_target

pytest.importorskip("torch", reason=install("torch"))

MODULAR = "add sub mul and or xor"
ORDERED = "div mod maximum minimum shift_right"


def program(bits: int, names: str) -> str:
    """Each function of two tensors, and what sums and orders one."""
    type, sums, truths = f"tensor<3x4xui{bits}>", f"tensor<3xui{bits}>", "tensor<3x4xi1>"
    two = f"({type}, {type})"
    ops = [(f"{name} %x, %y", two, type) for name in names.split()] + [
        ("reduce_sum %x {axes = array<i64: 1>}", f"({type})", sums),
        ("cumsum %x {axis = 1 : i64}", f"({type})", type),
        ('compare %x, %y {predicate = "eq"}', two, truths),
    ]
    if ORDERED in names:
        ops += [
            ('compare %x, %y {predicate = "lt"}', two, truths),
            ("argmax %x {axis = 1 : i64}", f"({type})", "tensor<3xi64>"),
        ]
    body = "\n  ".join(
        f"%{n} = tensor.{op} : {given} -> {result}" for n, (op, given, result) in enumerate(ops)
    )
    values = ", ".join(f"%{n}" for n in range(len(ops)))
    types = ", ".join(result for _, _, result in ops)
    return (
        f"func.func @forward(%x: {type}, %y: {type}) -> ({types}) {{\n  {body}\n"
        f"  func.return {values} : {types}\n}}"
    )


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_every_bit_is_numpys(bits: int) -> None:
    names = MODULAR if bits == 64 else f"{MODULAR} {ORDERED}"
    module = parse_module(program(bits, names))
    kind = np.dtype(f"uint{bits}")
    rng = np.random.default_rng(bits)
    most = np.iinfo(kind).max
    x, y = (rng.integers(0, most, (3, 4), kind, endpoint=True) for _ in range(2))
    x[0], y[0] = most, np.maximum(y[0], 1)
    y[1] = rng.integers(1, 9, 4)
    y[2, :2] = x[2, :2] = most
    y[2, 2:] = 1
    _, found, _ = run_target(module, "pytorch", [x, y])
    for one, expected in zip(found, run_module(module, [x, y]), strict=True):
        assert one.dtype == expected.dtype
        np.testing.assert_array_equal(one, expected)


def test_orders_of_64_bits_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"div[^\0]*no kernel of it for uint64") as caught:
        compile_to_target(parse_module(program(64, f"{MODULAR} {ORDERED}")), "pytorch")
    assert str(caught.value).count("no kernel") == len(ORDERED.split()) + 2
