"""Packing against `ir.trits`, tensors against PyTorch's indexing and products."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from triton_dsl.ir.errors import OptionError, ParameterError
from triton_dsl.ir.trits import pack_trits, unpack_trits
from triton_dsl.runtime.packing import pack, unpack
from triton_dsl.runtime.ternary_tensor import TernaryTensor, ternary_matmul

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@st.composite
def trit_arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    shape = draw(shapes)
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    return generator.integers(-1, 2, shape).astype(np.int8)


@given(trit_arrays(), st.sampled_from([torch.int8, torch.int64, torch.float32, torch.bfloat16]))
def test_packing_is_that_of_the_compiler(trits: Any, dtype: torch.dtype) -> None:
    packed = pack(torch.from_numpy(trits).to(dtype))
    assert packed.dtype == torch.uint8
    np.testing.assert_array_equal(packed.numpy(), pack_trits(trits))
    back = unpack(packed, trits.shape)
    assert back.dtype == torch.int8
    np.testing.assert_array_equal(back.numpy(), unpack_trits(packed.numpy(), trits.shape))
    np.testing.assert_array_equal(back.numpy(), trits)
    assert unpack(packed, trits.shape, torch.float16).dtype == torch.float16


@pytest.mark.parametrize(
    ("value", "shown"), [(2, "2"), (0.5, "0.5"), (float("nan"), "nan"), (-1.5, "-1.5")]
)
def test_other_values_are_not_packed(value: float, shown: str) -> None:
    values = torch.tensor([[0.0, 1.0], [-1.0, value]])
    with pytest.raises(ParameterError, match=rf"got {shown}(\.0)? at element 3; ternarize"):
        pack(values)


@pytest.mark.parametrize("count", [5, 6, 7, 8])
def test_broken_bytes_are_refused_as_in_the_compiler(count: int) -> None:
    for code in range(256):
        packed = np.array([0, code], np.uint8)
        try:
            expected = unpack_trits(packed, (count,))
        except ParameterError as error:
            with pytest.raises(ParameterError) as caught:
                unpack(torch.from_numpy(packed), (count,))
            assert str(caught.value) == str(error)
        else:
            given = unpack(torch.from_numpy(packed), (count,))
            np.testing.assert_array_equal(given.numpy(), expected)


@pytest.mark.parametrize(
    "packed",
    [
        torch.zeros(3, dtype=torch.uint8),
        torch.zeros(2, dtype=torch.int8),
        torch.zeros(1, 2, dtype=torch.uint8),
    ],
)
def test_wrong_bytes_are_named(packed: torch.Tensor) -> None:
    with pytest.raises(ParameterError, match=r"expected uint8\[2\] for 5 packed trits, got"):
        unpack(packed, (5,))
    with pytest.raises(ParameterError, match="at least 0"):
        unpack(packed, (-1, -4))


TRITS = torch.from_numpy(np.random.default_rng(1).integers(-1, 2, (5, 6, 7)).astype(np.int8))
INDICES = [
    0,
    -1,
    slice(1, 4),
    slice(None, None, 2),
    (..., 3),
    (slice(None), 2, slice(1, -1)),
    (None, 1),
    (1, 2, 3),
    torch.tensor([4, 0, 0]),
    (slice(None), torch.tensor([True, False, True, False, False, True])),
    (TRITS > 0),
    slice(3, 3),
]


@pytest.mark.parametrize("index", INDICES, ids=[str(i)[:20] for i in range(len(INDICES))])
def test_indexing_is_that_of_torch(index: Any) -> None:
    chosen = TernaryTensor(TRITS)[index]
    expected = TRITS[index]
    assert chosen.shape == expected.shape and chosen.nbytes == -(-expected.numel() // 4)
    assert torch.equal(chosen.to_trits(), expected)


@given(trit_arrays().filter(lambda a: a.ndim > 0), st.data())
def test_slices_are_those_of_torch(trits: Any, data: st.DataObject) -> None:
    index = tuple(
        slice(*data.draw(st.tuples(st.integers(-6, 6), st.integers(-6, 6), st.integers(1, 3))))
        for _ in trits.shape
    )
    values = torch.from_numpy(trits)
    assert torch.equal(TernaryTensor(values)[index].to_trits(), values[index])


def test_floats_are_ternarized() -> None:
    weights = torch.randn(64, 32, generator=torch.Generator().manual_seed(0))
    magnitude = weights.numpy().astype(np.float64)
    kept = np.abs(magnitude) > 0.7 * np.abs(magnitude).mean()
    expected = np.where(kept, np.sign(magnitude), 0)
    tensor = TernaryTensor(weights)
    np.testing.assert_array_equal(tensor.to_float().numpy(), expected)
    assert tensor.shape == (64, 32) and tensor.numel() == 2048 and tensor.nbytes == 512
    assert (tensor.ndim, tensor.dim(), len(tensor)) == (2, 2, 64)
    assert tensor.to_float(torch.float64).dtype == torch.float64

    scaled = TernaryTensor(weights, scaled=True)
    scale = np.abs(magnitude[kept]).mean()
    np.testing.assert_allclose(scaled.to_float().numpy(), expected * scale, rtol=1e-6)
    np.testing.assert_allclose(scaled[3].to_float().numpy(), (expected * scale)[3], rtol=1e-6)
    fixed = TernaryTensor(weights, 1.5).to_float()
    np.testing.assert_array_equal(
        fixed.numpy(), np.where(np.abs(magnitude) > 1.5, np.sign(magnitude), 0)
    )
    assert torch.equal(TernaryTensor(fixed).to_float(), fixed)


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(ParameterError, match="got 2 at element 1"):
        TernaryTensor(torch.tensor([0, 2]))
    with pytest.raises(OptionError, match="integers are taken as trits"):
        TernaryTensor(torch.tensor([0, 1]), 0.1)
    with pytest.raises(ParameterError, match="got NaN"):
        TernaryTensor(torch.tensor([1.0, float("nan")]))
    with pytest.raises(ParameterError, match="one float as scale"):
        TernaryTensor.from_packed(torch.zeros(1, dtype=torch.uint8), (2,), torch.ones(2))
    with pytest.raises(TypeError, match="without axes"):
        len(TernaryTensor(torch.tensor(1)))


def test_equality_is_of_content() -> None:
    one, same = TernaryTensor(TRITS), TernaryTensor(TRITS.clone())
    assert one == same
    assert one != TernaryTensor(-TRITS) and one != TernaryTensor(TRITS.flatten())
    assert one != "tensor" and one != TRITS.tolist()
    floats = torch.tensor([2.0, -2.0])
    assert TernaryTensor(floats, scaled=True) != TernaryTensor(floats)
    assert TernaryTensor(floats, scaled=True) != TernaryTensor(floats * 2, scaled=True)
    assert TernaryTensor(floats, scaled=True) == TernaryTensor(floats, scaled=True)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_repr_shows_small_values() -> None:
    small = TernaryTensor(torch.tensor([2.0, 0.0, -2.0]), scaled=True)
    assert repr(small) == ("TernaryTensor([1, 0, -1], shape=(3,), 1 bytes, scale=2, device='cpu')")
    assert repr(TernaryTensor(TRITS)) == "TernaryTensor(shape=(5, 6, 7), 53 bytes, device='cpu')"


def test_moves_to_a_device() -> None:
    tensor = TernaryTensor(torch.tensor([2.0, 0.0, -2.0]), scaled=True)
    moved = tensor.to("meta")
    assert moved.device.type == "meta" and moved.shape == (3,)
    assert moved.to_float().device.type == "meta" and "meta" in repr(moved)
    assert tensor.cpu() == tensor


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_moves_to_a_gpu_and_back() -> None:
    tensor = TernaryTensor(torch.randn(33, 7), scaled=True)
    moved = tensor.cuda()
    assert moved.device.type == "cuda" and moved == tensor and moved.cpu() == tensor
    assert torch.equal(moved.to_float().cpu(), tensor.to_float())


@pytest.mark.parametrize("shape", [(), (0,), (3,), (4, 5), (2, 0, 3)])
@pytest.mark.parametrize("scaled", [False, True])
def test_saved_tensors_are_read_back(shape: tuple[int, ...], scaled: bool, tmp_path: Path) -> None:
    tensor = TernaryTensor(torch.randn(shape), scaled=scaled)
    tensor.save(tmp_path / "t.safetensors")
    assert TernaryTensor.load(tmp_path / "t.safetensors") == tensor
    assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]


def test_broken_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    with pytest.raises(ParameterError, match="no such file"):
        TernaryTensor.load(path)
    path.write_bytes(b"not safetensors")
    with pytest.raises(ParameterError, match="is not safetensors"):
        TernaryTensor.load(path)
    good = {"packed": torch.zeros(2, dtype=torch.uint8)}
    for entries, metadata in (
        (good, None),
        (good, {"shape": "5"}),
        (good, {"shape": "[true, 5]"}),
        (good, {"shape": "["}),
        (good, {"shape": "[9]"}),
        ({"packed": torch.full((2,), 255, dtype=torch.uint8)}, {"shape": "[5]"}),
        ({"other": torch.zeros(2)}, {"shape": "[5]"}),
    ):
        save_file(entries, path, metadata)
        with pytest.raises(ParameterError, match=r"t\.safetensors"):
            TernaryTensor.load(path)


def test_copies_and_pickles_hold_checked_bytes() -> None:
    tensor = TernaryTensor(torch.randn(3, 5), scaled=True)
    for copied in (
        copy.copy(tensor),
        copy.deepcopy(tensor),
        pickle.loads(pickle.dumps(tensor)),
    ):
        assert copied == tensor
        assert copied.packed.data_ptr() != tensor.packed.data_ptr()
    function, (packed, *rest) = tensor.__reduce__()
    with pytest.raises(ParameterError, match="reserved trit code"):
        function(torch.full_like(packed, 255), *rest)
    buffer = io.BytesIO()
    torch.save({"packed": tensor.packed}, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, weights_only=True)["packed"], tensor.packed)


@given(
    st.integers(0, 6), st.integers(0, 9), st.integers(0, 6), st.integers(0, 2**32), st.booleans()
)
def test_products_are_exact(m: int, k: int, n: int, seed: int, packed: bool) -> None:
    generator = np.random.default_rng(seed)
    a, b = generator.integers(-1, 2, (m, k)), generator.integers(-1, 2, (k, n))
    a[:, generator.random(k) < 0.3] = 0
    left, right = torch.from_numpy(a).float(), torch.from_numpy(b).float()
    result = (
        TernaryTensor(left.to(torch.int8)) @ TernaryTensor(right.to(torch.int8))
        if packed
        else ternary_matmul(left, right, a_ternary=True, b_ternary=True)
    )
    assert result.dtype == torch.float32
    np.testing.assert_array_equal(result.numpy(), a @ b)


def test_products_with_floats_and_scales() -> None:
    x, w = torch.randn(2, 4, 8), torch.randn(8, 3)
    ternary = TernaryTensor(w, scaled=True)
    expected = x.double() @ ternary.to_float(torch.float64)
    torch.testing.assert_close((x @ ternary).double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ternary_matmul(x, ternary), x @ ternary)
    torch.testing.assert_close(ternary_matmul(ternary, torch.eye(3)), ternary.to_float())
    assert ternary_matmul(x.bfloat16(), ternary).dtype == torch.bfloat16
    both = ternary_matmul(ternary[:, :1].to("cpu"), TernaryTensor(torch.tensor([[1, -1]])))
    torch.testing.assert_close(both, ternary.to_float()[:, :1] @ torch.tensor([[1.0, -1.0]]))


def test_a_false_promise_is_refused() -> None:
    a, b = torch.tensor([[0.5]]), torch.tensor([[1.0]])
    with pytest.raises(ParameterError, match="operand a is said to be ternary"):
        ternary_matmul(a, b, a_ternary=True)
    with pytest.raises(ParameterError, match="operand b is said to be ternary"):
        ternary_matmul(b, a, b_ternary=True)


def test_products_of_trits_have_gradients_at_zeros() -> None:
    a = torch.tensor([[0.0, 1.0]], requires_grad=True)
    b = torch.tensor([[1.0], [-1.0]])
    ternary_matmul(a, b, a_ternary=True, b_ternary=True).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize("shape", [(1, 1), (300, 70), (65, 513)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_large_products_of_trits_are_exact(shape: tuple[int, int], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(shape[0])
    rows, outs = shape
    a = torch.randint(-1, 2, (rows, 400), generator=generator)
    b = torch.randint(-1, 2, (400, outs), generator=generator)
    result = ternary_matmul(a.to(dtype), b.to(dtype), a_ternary=True, b_ternary=True)
    exact = (a @ b).to(dtype if dtype.is_floating_point else torch.float32)
    assert torch.equal(result, exact)
    strided = ternary_matmul(a.T.contiguous().T.to(dtype), TernaryTensor(b), a_ternary=True)
    assert torch.equal(strided, exact)
    with torch.inference_mode():
        assert torch.equal(TernaryTensor(a) @ TernaryTensor(b), (a @ b).float())


def test_large_products_of_trits_have_gradients() -> None:
    a = torch.randint(-1, 2, (300, 400)).float().requires_grad_()
    b = torch.randint(-1, 2, (400, 70)).float()
    ternary_matmul(a, b, a_ternary=True, b_ternary=True).sum().backward()
    assert a.grad is not None
    assert torch.equal(a.grad, b.sum(dim=1).expand(300, 400))


def test_operands_of_other_types_are_refused() -> None:
    operands: list[Any] = [[[1, 0], [0, 1]], np.eye(2), None]
    for other in operands:
        with pytest.raises(ParameterError, match=r"operand a is of type \w+; ternary_matmul takes"):
            ternary_matmul(other, torch.eye(2), a_ternary=True)
        with pytest.raises(ParameterError, match="operand b is of type"):
            ternary_matmul(torch.eye(2), other)
