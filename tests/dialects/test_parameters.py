"""From a parameter op to its values, and every way in which an entry does not fit."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from xdsl.dialects.builtin import ModuleOp, i1

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import (
    add_parameter,
    add_trits,
    attach_store,
    dense_constant,
    parameter_value,
    parameters,
    store_of,
)
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import ParameterError
from triton_dsl.ir.store import ParameterStore, file_sha256
from triton_dsl.ir.trits import pack_trits

FLOATS = 'tensor.parameter "w" : tensor<2x3xf32>', "tensor<2x3xf32>"
TRITS = 'ternary.parameter "w" : tensor<2x3x!ternary.trit>', "tensor<2x3x!ternary.trit>"


def returning(op: str, type: str, store: str = "unsaved") -> str:
    return (
        f"module attributes {{tensor.parameters = #tensor.store<{store}>}} {{\n"
        f"  func.func @forward() -> {type} {{\n    %w = {op}\n"
        f"    func.return %w : {type}\n  }}\n}}\n"
    )


def module_with(op: tuple[str, str], array: NDArray[Any]) -> ModuleOp:
    module = parse_module(returning(*op), "m.mlir")
    attach_store(module, ParameterStore.of({"w": array}))
    return module


def test_values_come_from_the_store() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    (result,) = run_module(module_with(FLOATS, values), [])
    np.testing.assert_array_equal(result, values)
    result[0, 0] = 9  # a copy of one's own
    assert values[0, 0] == 0


def test_trits_come_unpacked() -> None:
    trits = np.array([[1, 0, -1], [-1, -1, 0]], np.int8)
    (result,) = run_module(module_with(TRITS, pack_trits(trits)), [])
    assert result.dtype == np.int8
    np.testing.assert_array_equal(result, trits)


@pytest.mark.parametrize(
    ("op", "array", "message"),
    [
        (FLOATS, np.zeros((3, 2), np.float32), r"expected float32\[2, 3\], got float32\[3, 2\]"),
        (FLOATS, np.zeros((2, 3), np.float64), r"expected float32\[2, 3\], got float64\[2, 3\]"),
        (FLOATS, np.full((2, 3), np.nan, np.float32), "parameter 'w' holds NaN"),
        (TRITS, np.zeros((2, 3), np.int8), "expected 2 bytes of packed trits for .*, got int8"),
        (TRITS, np.zeros(3, np.uint8), r"expected 2 bytes of packed trits .*, got uint8\[3\]"),
        (TRITS, np.array([0b1100, 0], np.uint8), "parameter 'w': reserved trit code 0b11 at elem"),
        (TRITS, np.array([0, 0b10000], np.uint8), "parameter 'w': padding bits"),
    ],
)
def test_entries_that_do_not_fit(op: tuple[str, str], array: NDArray[Any], message: str) -> None:
    with pytest.raises(ParameterError, match=rf"^m\.mlir:3:5: error: .*{message}"):
        run_module(module_with(op, array), [])


def test_nan_in_half_floats_is_found() -> None:
    op = 'tensor.parameter "w" : tensor<1xbf16>', "tensor<1xbf16>"
    with pytest.raises(ParameterError, match="holds NaN"):
        run_module(module_with(op, np.array([np.nan], ml_dtypes.bfloat16)), [])


def test_a_missing_entry_names_the_file_and_the_place(tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    save_file({"v": np.zeros(1)}, weights)
    path = tmp_path / "m.mlir"
    path.write_text(returning(*FLOATS, store=f'"w.safetensors", sha256 = "{file_sha256(weights)}"'))
    module = parse_module(path.read_text(), str(path))
    with pytest.raises(ParameterError) as refused:
        run_module(module, [])
    message = str(refused.value)
    assert message.startswith(f"{path}:3:5: error: ")
    assert f"'{weights}' has no entry 'w'" in message
    assert "\n" not in message


def test_a_module_without_weights_says_so() -> None:
    with pytest.raises(ParameterError, match="parameter 'w' is in no file"):
        run_module(parse_module(returning(*FLOATS)), [])


def test_adding_parameters() -> None:
    module = parse_module(returning(*FLOATS))
    values = np.ones((2, 2), np.float16)
    first = add_parameter(module, "v", values)
    second = add_trits(module, "v", np.array([1, -1, 0]))
    block = next(op for op in module.walk() if op.name == "func.func").regions[0].block
    block.insert_ops_before([first, second], block.ops.first)  # pyright: ignore[reportArgumentType]
    module.verify()
    assert [op.key.data for op in parameters(module)] == ["v", "v.1", "w"]
    assert store_of(module).added_names == ["v", "v.1"]
    assert str(second.result.type) == "tensor<3x!ternary.trit>"
    np.testing.assert_array_equal(parameter_value(second), [1, -1, 0])
    clone = module.clone()
    assert store_of(clone) is store_of(module)


def test_a_scalar_parameter() -> None:
    module = parse_module(returning('tensor.parameter "s" : tensor<f32>', "tensor<f32>"))
    op = add_parameter(module, "s", np.array(2.5, np.float32))
    (placed,) = parameters(module)
    assert op.results[0].type == placed.result.type
    assert parameter_value(placed) == np.float32(2.5)


@pytest.mark.filterwarnings("error")
def test_large_doubles_are_read_in_silence() -> None:
    module = module_with(
        ('tensor.parameter "w" : tensor<1xf64>', "tensor<1xf64>"), np.array([1e300])
    )
    assert run_module(module, [])[0].tolist() == [1e300]


def test_truth_values_have_one_spelling() -> None:
    values = np.array([True, False, True])
    parsed = parse_module("%c = tensor.constant dense<[true, false, true]> : tensor<3xi1>")
    (constant,) = parsed.ops
    assert dense_constant(values, i1).properties == constant.properties
