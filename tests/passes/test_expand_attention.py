"""`expand-attention` and `split-layers`, and attention as integers, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.stages import apply_passes

Array = NDArray[Any]

FIRST = "free-batch,fold-constants,fuse-linear,fold-constants,canonicalize"
INTEGERS = (
    f"{FIRST},split-layers,expand-attention,"
    'quantize-activations{{data="{data}" signed=false {options}}},requantize,cse,dce'
)


PRODUCTS = "products=true"


def names(module: ModuleOp) -> list[str]:
    """The ops of a program."""
    return [op.name for op in module.walk()]


def attention_program(mask: str, *, causal: bool, scale: float | None) -> ModuleOp:
    """Attention of 5 queries to 7 keys of two heads; `mask` is the type of one, or nothing."""
    q, k, v = "tensor<?x2x5x6xf32>", "tensor<?x2x7x6xf32>", "tensor<?x2x7x3xf32>"
    given = f", %m: tensor<5x7x{mask}>" if mask else ""
    read = ", %m" if mask else ""
    types = f"{q}, {k}, {v}" + (f", tensor<5x7x{mask}>" if mask else "")
    options = f"is_causal = {str(causal).lower()}"
    if scale is not None:
        options += f", scale = {scale} : f64"
    return parse_module(f"""
func.func @forward(%q: {q}, %k: {k}, %v: {v}{given}) -> tensor<?x2x5x3xf32> {{
  %o = tensor.scaled_dot_product_attention %q, %k, %v{read} {{{options}}}
       : ({types}) -> tensor<?x2x5x3xf32>
  func.return %o : tensor<?x2x5x3xf32>
}}
""")


@pytest.mark.parametrize("mask", ["", "f32", "i1"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_is_written_out(mask: str, causal: bool, scale: float | None) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(3, 2, *s)).astype(np.float32) * 3 for s in ((5, 6), (7, 6), (7, 3)))
    arrays: list[Array] = [q, k, v]
    hidden = np.zeros((5, 7), np.float32)
    if mask:
        values = rng.normal(size=(5, 7)).astype(np.float32)
        arrays.append(values if mask == "f32" else values > -1)
        hidden += values if mask == "f32" else np.where(values > -1, 0, -np.inf)
    if causal:
        hidden += np.where(np.tri(5, 7) > 0, 0, -np.inf).astype(np.float32)
    module = attention_program(mask, causal=causal, scale=scale)
    apply_passes(module, "expand-attention")
    assert not {"tensor.scaled_dot_product_attention", "tensor.softmax"} & set(names(module))
    (found,) = run_module(module, arrays)
    wanted = functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), attn_mask=torch.from_numpy(hidden), scale=scale
    )
    np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-5, atol=2e-6)


def test_sizes_that_are_not_known() -> None:
    size = "tensor<?x?x?xf32>"
    module = parse_module(f"""
func.func @forward(%q: {size}, %k: {size}, %v: {size}) -> {size} {{
  %o = tensor.scaled_dot_product_attention %q, %k, %v {{is_causal = true}}
       : ({size}, {size}, {size}) -> {size}
  func.return %o : {size}
}}
""")
    apply_passes(module, "expand-attention")
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(2, *s)).astype(np.float32) for s in ((5, 6), (7, 6), (7, 3))]
    (found,) = run_module(module, arrays)
    q, k, v = map(torch.from_numpy, arrays)
    wanted = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert "tensor.scaled_dot_product_attention" not in names(module)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-5, atol=2e-6)


def test_what_stays() -> None:
    free = parse_module("""
func.func @forward(%x: tensor<3x4xf32>, %h: tensor<3x4xf16>,
                   %w: tensor<4x2xf32>, %u: tensor<4x2xf16>)
    -> (tensor<3x2xf32>, tensor<3x4xf32>, tensor<3x2xf16>) {
  %p = tensor.softmax %x {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %y = tensor.matmul %p, %w : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  %s = tensor.softmax %h {axis = 1 : i64} : (tensor<3x4xf16>) -> tensor<3x4xf16>
  %z = tensor.matmul %s, %u : (tensor<3x4xf16>, tensor<4x2xf16>) -> tensor<3x2xf16>
  func.return %y, %p, %z : tensor<3x2xf32>, tensor<3x4xf32>, tensor<3x2xf16>
}
""")
    before = names(free)
    apply_passes(free, "expand-attention")
    assert names(free) == before


class Fused(nn.Module):
    """Attention as timm writes it, all projections in one layer."""

    def __init__(self, size: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        n, count, size = x.shape
        parts = self.qkv(x).reshape(n, count, 3, self.heads, size // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(n, count, size))


class Plain(Fused):
    """The same, written out, its projections cut along the channels."""

    def forward(self, x: Tensor) -> Tensor:
        n, count, size = x.shape
        q, k, v = (
            part.view(n, count, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        shares = (q @ k.transpose(-2, -1) * (size // self.heads) ** -0.5).softmax(-1)
        return self.out((shares @ v).transpose(1, 2).reshape(n, count, size))


def encoder() -> nn.Module:
    """PyTorch's own layer."""
    return nn.TransformerEncoderLayer(24, 3, 48, 0.0, "gelu", batch_first=True, norm_first=True)


MODELS: dict[str, Callable[[], nn.Module]] = {"fused": Fused, "plain": Plain, "encoder": encoder}


def model(name: str) -> tuple[nn.Module, Tensor]:
    """A model with its weights, and samples."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MODELS[name]().eval(), torch.randn(40, 11, 24)


@pytest.mark.parametrize("name", MODELS)
def test_projections_become_layers_of_their_own(name: str) -> None:
    module, x = model(name)
    program = from_torch(module, (x[:2],))
    apply_passes(program, FIRST)
    before = names(program).count("tensor.linear")
    apply_passes(program, "split-layers,expand-attention")
    assert names(program).count("tensor.linear") == before + 2
    assert "tensor.split" not in names(program)
    with torch.no_grad():
        wanted = module(x).numpy()
    np.testing.assert_allclose(run_module(program, [x.numpy()])[0], wanted, rtol=2e-5, atol=2e-6)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.permutations([0, 1, 2, 3]),
    st.sampled_from(["tensor", "ternary"]),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_a_layer_of_each_part(
    sizes: list[int], perm: Sequence[int], kind: str, options: bool
) -> None:
    """Results are equal to the last bit: no sum is another one."""
    blocks, rng = sum(sizes), np.random.default_rng(0)
    outs = 2 * blocks
    shape = [3, 2, blocks, 2]
    turned = [shape[axis] for axis in perm]
    axis = list(perm).index(2)
    cuts = [[n if a == axis else d for a, d in enumerate(turned)] for n in sizes]

    def spelt(dims: Sequence[int]) -> str:
        return "tensor<" + "x".join(map(str, dims)) + "xf32>"

    element = "!ternary.trit" if kind == "ternary" else "f32"
    scale = f'%s = tensor.parameter "s" : tensor<{outs}xf32>' if kind == "ternary" else ""
    read = f"scale(%s : tensor<{outs}xf32>)" if kind == "ternary" and options else ""
    types = f"tensor<3x2x5xf32>, tensor<5x{outs}x{element}>"
    signature = f"{types} -> tensor<3x2x{outs}xf32>" if kind == "ternary" else ""
    if kind == "tensor":
        bias = ", %b" if options else ""
        more = f", tensor<{outs}xf32>" if options else ""
        product = f"tensor.linear %x, %w{bias} : ({types}{more}) -> tensor<3x2x{outs}xf32>"
    else:
        bias = f" bias(%b : tensor<{outs}xf32>)" if options else ""
        product = f"ternary.linear %x, %w {read}{bias} : {signature}"
    results = [f"%r{n}" for n in range(len(sizes))]
    spelt_cuts = ", ".join(map(spelt, cuts))
    module = parse_module(f"""
func.func @forward(%x: tensor<3x2x5xf32>) -> ({spelt_cuts}) {{
  %w = {kind}.parameter "w" : tensor<5x{outs}x{element}>
  %b = tensor.parameter "b" : tensor<{outs}xf32>
  {scale}
  %y = {product}
  %h = tensor.reshape_to %y {{shape = array<i64: -2, -3, {blocks}, -1>}}
       : (tensor<3x2x{outs}xf32>) -> {spelt(shape)}
  %p = tensor.permute %h {{perm = array<i64: {", ".join(map(str, perm))}>}}
       : ({spelt(shape)}) -> {spelt(turned)}
  {", ".join(results)} = tensor.split %p {{axis = {axis} : i64,
      sizes = array<i64: {", ".join(map(str, sizes))}>}} : ({spelt(turned)}) -> ({spelt_cuts})
  func.return {", ".join(results)} : {spelt_cuts}
}}
""")
    trits = rng.integers(-1, 2, (5, outs)).astype(np.int8)
    floats = rng.normal(size=(5, outs)).astype(np.float32)
    arrays = {
        "w": pack_trits(trits) if kind == "ternary" else floats,
        "b": rng.normal(size=outs).astype(np.float32),
        "s": rng.random(outs).astype(np.float32),
    }
    attach_store(module, ParameterStore.of(arrays))
    x = rng.normal(size=(3, 2, 5)).astype(np.float32)
    wanted = run_module(module, [x])
    apply_passes(module, "dce,split-layers")
    assert names(module).count(f"{kind}.linear") == len(sizes)
    for found, expected in zip(run_module(module, [x]), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_what_is_known_of_the_zeros_of_a_whole_weight_goes() -> None:
    module = parse_module("""
func.func @forward(%x: tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x2xf32>) {
  %w = ternary.constant [1, 0, 0, -1, 0, 0, 0, 1, 0, 1, 0, 0] : tensor<4x3x!ternary.trit>
  %y = ternary.linear %x, %w
       {sparsity = #ternary.sparsity<4 : i64, array<i64>, array<i64: 2>, array<i64: 4, 256>, "0">}
       : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
  %a, %b = tensor.split %y {axis = 1 : i64, sizes = array<i64: 1, 2>}
           : (tensor<?x3xf32>) -> (tensor<?x1xf32>, tensor<?x2xf32>)
  func.return %a, %b : tensor<?x1xf32>, tensor<?x2xf32>
}
""")
    apply_passes(module, "split-layers")
    layers = [op for op in module.walk() if isinstance(op, ternary.LinearOp)]
    assert [op.sparsity for op in layers] == [None, None]


def test_layers_that_something_else_reads_are_not_split() -> None:
    module = parse_module("""
func.func @forward(%x: tensor<?x4xf32>, %w: tensor<4x6xf32>)
    -> (tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x6xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  %c = tensor.constant dense<0.5> : tensor<4x6xf32>
  %y = tensor.linear %x, %c : (tensor<?x4xf32>, tensor<4x6xf32>) -> tensor<?x6xf32>
  %a, %b = tensor.split %y {axis = 1 : i64, sizes = array<i64: 2, 4>}
           : (tensor<?x6xf32>) -> (tensor<?x2xf32>, tensor<?x4xf32>)
  %z = tensor.linear %x, %w : (tensor<?x4xf32>, tensor<4x6xf32>) -> tensor<?x6xf32>
  %d, %e = tensor.split %z {axis = 1 : i64, sizes = array<i64: 3, 3>}
           : (tensor<?x6xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>)
  func.return %a, %b, %y, %d, %e
      : tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x6xf32>, tensor<?x3xf32>, tensor<?x3xf32>
}
""")
    before = names(module)
    apply_passes(module, "split-layers")
    assert names(module) == before


def integer_program(name: str, data: str, options: str, *, trits: bool = False) -> ModuleOp:
    """A model as integers."""
    module, x = model(name)
    program = from_torch(module, (x[:2],))
    if trits:
        apply_passes(program, "ternarize")
    apply_passes(program, INTEGERS.format(data=data, options=options))
    return program


@pytest.fixture
def data(tmp_path: Any) -> str:
    """A file of samples."""
    path = tmp_path / "samples.npy"
    np.save(path, model("plain")[1].numpy())
    return str(path)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("trits", [False, True])
def test_attention_multiplies_integers(name: str, trits: bool, data: str) -> None:
    program = integer_program(name, data, f"{PRODUCTS} {'' if trits else 'weights=8'}", trits=trits)
    products = [op for op in program.walk() if isinstance(op, tensor.MatmulOp)]
    assert [str(tensor_type(op.result).element_type) for op in products] == ["i32", "i32"]
    # The largest score and the sum of shares are those of integers.
    for kind in tensor.ReduceMaxOp, tensor.ReduceSumOp:
        (op,) = (op for op in program.walk() if isinstance(op, kind))
        assert str(tensor_type(op.operand).element_type) == "i32"
    linear = {type(op) for op in program.walk() if "linear" in op.name}
    assert linear == {ternary.LinearOp if trits else tensor.LinearOp}


@pytest.mark.parametrize("name", MODELS)
def test_integers_are_near_the_floats(name: str, data: str) -> None:
    module, x = model(name)
    with torch.no_grad():
        wanted = module(x).numpy()
    (found,) = run_module(integer_program(name, data, f"{PRODUCTS} weights=8"), [x.numpy()])
    plain = integer_program(name, data, "weights=8")
    (without,) = run_module(plain, [x.numpy()])
    error, bound = (np.abs(y - wanted).mean() for y in (found, without))
    # Products of activations cost less than the rounding of weights and activations around them.
    assert 0 < error < 2.0 * bound


@pytest.mark.parametrize("backend", ["pytorch", "onnx", "tflite", "native"])
def test_targets_give_the_integers(backend: str, data: str) -> None:
    program = integer_program("fused", data, f"{PRODUCTS} weights=8")
    x = model("fused")[1][:4].numpy()
    (wanted,) = run_module(program, [x])
    _, (found,), _ = run_target(program, backend, [x])
    # An exponential that is a unit off may round to another share, a step of 255.
    np.testing.assert_allclose(found, wanted, atol=2e-2 * np.abs(wanted).max())
    assert (np.abs(found - wanted) > 1e-5 * np.abs(wanted).max()).mean() < 0.02


def test_sizes_that_are_not_known_stay_floats(data: str) -> None:
    text = """
func.func @forward(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  %t = tensor.permute %x {perm = array<i64: 0, 2, 1>} : (tensor<?x?x4xf32>) -> tensor<?x4x?xf32>
  %s = tensor.matmul %x, %t : (tensor<?x?x4xf32>, tensor<?x4x?xf32>) -> tensor<?x?x?xf32>
  %y = tensor.matmul %s, %x : (tensor<?x?x?xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  func.return %y : tensor<?x?x4xf32>
}
"""
    module = parse_module(text)
    x = np.random.default_rng(0).normal(size=(9, 5, 4)).astype(np.float32)
    np.save(data, x)
    apply_passes(module, f'quantize-activations{{data="{data}" products=true}}')
    products = [op for op in module.walk() if isinstance(op, tensor.MatmulOp)]
    # Sums over four products fit an i32, those over a free size may not.
    assert [str(tensor_type(op.result).element_type) for op in products] == ["i32", "f32"]
    wanted = x @ x.swapaxes(1, 2) @ x
    np.testing.assert_allclose(run_module(module, [x])[0], wanted, atol=0.03 * np.abs(wanted).max())


def test_ranges_that_calibrate_recorded_are_taken(data: str) -> None:
    module, x = model("plain")
    programs: list[ModuleOp] = []
    for passes in (
        'calibrate{{data="{data}"}},quantize-activations{{products=true weights=8}}',
        'quantize-activations{{data="{data}" products=true weights=8}}',
    ):
        program = from_torch(module, (x[:2],))
        apply_passes(program, f"{FIRST},expand-attention,{passes.format(data=data)}")
        programs.append(program)
    first, second = (run_module(program, [x.numpy()])[0] for program in programs)
    np.testing.assert_array_equal(first, second)
