"""Native kernels behind PyTorch's operator: which tensors they see, and that none is stale."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from triton_dsl.ir.errors import OptionError, TritonError
from triton_dsl.runtime import operators
from triton_dsl.runtime.native import torch_linear
from triton_dsl.runtime.native.torch_linear import product, quick_product
from triton_dsl.runtime.operators import set_precision, ternary_linear, use_precision
from triton_dsl.runtime.packed import PackedTernaryLinear
from triton_dsl.runtime.packing import pack

pytest.importorskip("llvmlite")

GENERATOR = torch.Generator().manual_seed(11)


def random_trits(*shape: int) -> torch.Tensor:
    return torch.randint(-1, 2, shape, generator=GENERATOR)


def random_floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR)


def check(result: torch.Tensor | None, x: torch.Tensor, trits: torch.Tensor) -> None:
    """A result against the product in float64, as accurate as float32."""
    assert result is not None
    expected = x.double() @ trits.double()
    bound = 1e-6 * (x.double().abs() @ trits.double().abs()).amax().clamp(min=1)
    assert (result.double() - expected).abs().amax() <= bound


@pytest.fixture(autouse=True)
def default_precision() -> Iterator[None]:
    yield
    set_precision("float32")


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("outs", [1, 63, 130])
def test_kernels_multiply(shape: tuple[int, ...], outs: int) -> None:
    x, trits = random_floats(*shape), random_trits(5, outs)
    weight = pack(trits)
    scale, bias = random_floats(outs), random_floats(outs)
    check(product(x, weight, outs, None, None), x, trits)
    whole = product(x, weight, outs, scale, bias)
    assert whole is not None
    expected = (x.double() @ trits.double()) * scale + bias
    torch.testing.assert_close(whole.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 0, 5), (40, 500)])
def test_bytes_are_multiplied_exactly(shape: tuple[int, ...]) -> None:
    x = torch.randint(-128, 128, shape, dtype=torch.int8, generator=GENERATOR)
    trits = random_trits(shape[-1], 70)
    result = ternary_linear(x, pack(trits), 70)
    assert result.dtype == torch.int32
    assert torch.equal(result, (x.long() @ trits).to(torch.int32))
    with pytest.raises(OptionError, match="expected no bias with int8"):
        ternary_linear(x, pack(trits), 70, bias=torch.ones(70))


@pytest.mark.parametrize("largest", [1, 2, 100, 127])
@pytest.mark.parametrize("unit", [1.0, 2.0**-60, 2.0**100])
def test_small_integers_are_multiplied_exactly(largest: int, unit: float) -> None:
    """Spikes above all: a neuron fires where a sum reaches its threshold."""
    x = torch.randint(-largest, largest + 1, (7, 900), generator=GENERATOR).float() * unit
    trits = random_trits(900, 70)
    result = ternary_linear(x, pack(trits), 70, torch.full((70,), 0.3), torch.ones(70))
    assert torch.equal(result, (x @ trits.float()) * 0.3 + 1)


def test_memory_in_any_order_is_taken() -> None:
    trits = random_trits(6, 70)
    weight = pack(trits)
    base = random_floats(12, 14)
    for x in (base.T[:, :6], base[::2, 1:7], base[:1, :6].expand(5, 6), base[3, ::2][:6]):
        check(ternary_linear(x, weight, 70), x, trits)
    spread = torch.stack([weight, weight], 1)[:, 0]
    assert not spread.is_contiguous()
    x = random_floats(2, 6)
    for _ in range(2):
        check(ternary_linear(x, spread, 70), x, trits)
    imaginary = torch.complex(base, base)[:4, :6].conj().imag
    assert imaginary.is_neg()
    for _ in range(2):
        check(ternary_linear(imaginary, weight, 70), -base[:4, :6], trits)
    negative = torch.complex(torch.ones(70), torch.ones(70)).conj().imag
    for _ in range(2):
        result = ternary_linear(x, weight, 70, negative)
        check(-result, x, trits)


def test_changed_weights_are_noticed() -> None:
    layer = PackedTernaryLinear(8, 70, bias=False, scale=False)
    x = random_floats(3, 8)
    for _ in range(3):
        trits = random_trits(8, 70)
        layer.load_state_dict({"weight": pack(trits)})
        for _ in range(2):
            check(layer(x), x, trits)
    first = layer.weight
    for replace in ("attribute", "data"):
        for _ in range(3):
            trits = random_trits(8, 70)
            if replace == "data":
                layer.weight.data = pack(trits)
            else:
                layer.weight = pack(trits)
            for _ in range(2):
                check(layer(x), x, trits)
    view = first.view(-1)
    trits = random_trits(8, 70)
    check_before = ternary_linear(x, view, 70)
    first.copy_(pack(trits))
    check(ternary_linear(x, view, 70), x, trits)
    assert not torch.equal(check_before, ternary_linear(x, view, 70))


def write_as_data(weight: torch.Tensor, content: torch.Tensor) -> None:
    weight.data.copy_(content)


def write_one_byte(weight: torch.Tensor, content: torch.Tensor) -> None:
    weight.data.copy_(content)
    weight.data[-1] = 0


def write_by_numpy(weight: torch.Tensor, content: torch.Tensor) -> None:
    weight.numpy()[:] = content.numpy()


def write_detached(weight: torch.Tensor, content: torch.Tensor) -> None:
    weight.detach().copy_(content)


def write_in_place(weight: torch.Tensor, content: torch.Tensor) -> None:
    weight.copy_(content)


def write_elsewhere(weight: torch.Tensor, content: torch.Tensor) -> None:
    weight.data = content


def write_spread(weight: torch.Tensor, content: torch.Tensor) -> None:
    weight.data = torch.stack([content, content], 1)[:, 1]


WRITES = [
    write_as_data,
    write_one_byte,
    write_by_numpy,
    write_detached,
    write_in_place,
    write_elsewhere,
    write_spread,
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
@pytest.mark.parametrize("inference", [False, True])
def test_every_way_to_write_weights_is_noticed(
    write: Callable[[torch.Tensor, torch.Tensor], None], inference: bool
) -> None:
    with torch.inference_mode(inference):
        layer = PackedTernaryLinear(9, 70, bias=False, scale=False)
        layer.weight = pack(random_trits(9, 70))
        x = random_floats(3, 9)
        for _ in range(3):
            layer(x)
            write(layer.weight, pack(random_trits(9, 70)))
            trits = layer.get_ternary_weights()
            for _ in range(3):
                check(layer(x), x, trits)


def test_bytes_that_are_gone_are_not_read() -> None:
    layer, x = PackedTernaryLinear(1000, 700), random_floats(1, 1000)
    for _ in range(3):
        layer(x)
    layer.weight.data = torch.zeros(3, dtype=torch.uint8)
    with pytest.raises(TritonError, match="700"):
        layer(x)


def test_changed_scales_are_noticed() -> None:
    trits = random_trits(8, 4)
    weight, x = pack(trits), random_floats(3, 8)
    scale = torch.ones(4)
    for factor in (1.0, 2.0, 3.0):
        scale.fill_(factor)
        for _ in range(2):
            check(ternary_linear(x, weight, 4, scale) / factor, x, trits)
    scale.data = torch.full((4,), 5.0, dtype=torch.float64)
    for _ in range(2):
        check(ternary_linear(x, weight, 4, scale) / 5, x, trits)


def test_weights_made_anew_each_time_are_right() -> None:
    trits, x = random_trits(8, 70), random_floats(3, 8)
    weight = pack(trits)
    for _ in range(4):
        check(ternary_linear(x, weight.detach(), 70), x, trits)
    alias = weight.data
    trits = random_trits(8, 70)
    alias.copy_(pack(trits))
    for _ in range(2):
        check(ternary_linear(x, alias, 70), x, trits)
        check(ternary_linear(x, weight.detach(), 70), x, trits)


def test_inference_tensors_are_compared_by_content() -> None:
    x = random_floats(3, 8)
    with torch.inference_mode():
        trits = random_trits(8, 70)
        weight = pack(trits)
        for _ in range(3):
            check(ternary_linear(x, weight, 70), x, trits)
            trits = random_trits(8, 70)
            weight.copy_(pack(trits))
    check(ternary_linear(x, weight, 70), x, trits)


def test_panels_go_with_their_tensor() -> None:
    weight = pack(random_trits(8, 70))
    before = len(torch_linear._HELD)  # pyright: ignore[reportPrivateUsage]
    ternary_linear(random_floats(3, 8), weight, 70)
    assert len(torch_linear._HELD) == before + 1  # pyright: ignore[reportPrivateUsage]
    del weight
    gc.collect()
    assert len(torch_linear._HELD) == before  # pyright: ignore[reportPrivateUsage]


def test_precision_decides_the_kernel() -> None:
    trits, x = random_trits(500, 70), random_floats(3, 500)
    weight = pack(trits)
    exact = ternary_linear(x, weight, 70)
    with use_precision("dynamic-int8"):
        assert operators.get_precision() == "dynamic-int8"
        for _ in range(2):
            rough = ternary_linear(x, weight, 70)
            assert not torch.equal(rough, exact)
            torch.testing.assert_close(rough, exact, rtol=0, atol=1.0)
    assert torch.equal(ternary_linear(x, weight, 70), exact)
    wrong: Any = "half"
    with pytest.raises(OptionError, match="precision is one of"):
        set_precision(wrong)
    with pytest.raises(OptionError), use_precision(wrong):
        pass


def quick(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether a second call leaves PyTorch's dispatcher out."""
    ternary_linear(x, weight, 70)
    return quick_product(x, weight, 70, None, None) is not None


def test_the_dispatcher_is_left_out_where_nobody_looks() -> None:
    x, weight = random_floats(3, 8), pack(random_trits(8, 70))
    assert quick(x, weight)
    with torch.no_grad():
        assert quick(x, weight)
        assert quick(x.clone().requires_grad_(), weight)
    with torch.inference_mode():
        assert quick(x, weight)
    assert not quick(x.clone().requires_grad_(), weight)
    assert not quick(x.double(), weight)
    assert not quick(torch.nn.Parameter(x), weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not quick(x, weight)
        assert ternary_linear(x, weight, 70).dtype == torch.bfloat16
    with torch.device("meta"):
        assert not quick(x, weight)
        assert ternary_linear(x, weight, 70).device.type == "cpu"


def test_what_looks_sees_the_operator() -> None:
    x, weight = random_floats(3, 8), pack(random_trits(8, 70))
    assert quick(x, weight)
    with FlopCounterMode(display=False) as counter:
        ternary_linear(x, weight, 70)
    assert counter.get_total_flops() == 2 * 3 * 8 * 70
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        ternary_linear(x, weight, 70)
    assert "triton_dsl::ternary_linear" in {event.key for event in seen.key_averages()}
    traced = make_fx(lambda y: ternary_linear(y, weight, 70))(x)
    assert any("ternary_linear" in str(node.target) for node in traced.graph.nodes)


def test_compiled_and_exported_layers_agree() -> None:
    trits, x = random_trits(8, 70), random_floats(3, 8)
    layer = PackedTernaryLinear(8, 70).fill(pack(trits), random_floats(70), random_floats(70))
    expected = layer(x)
    compiled: Any = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected)
    for strict in (False, True):
        program = torch.export.export(layer, (x,), strict=strict)
        assert any("ternary_linear" in str(node.target) for node in program.graph.nodes)
        torch.testing.assert_close(program.module()(x), expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_number_of_threads_gives_the_same(threads: int) -> None:
    before = torch.get_num_threads()
    x, weight = random_floats(9, 1000), pack(random_trits(1000, 700))
    alone = ternary_linear(x, weight, 700)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(ternary_linear(x, weight, 700), alone)
    finally:
        torch.set_num_threads(before)


def test_threads_of_python_may_call_at_once() -> None:
    cases = [(random_floats(4, 900), random_trits(900, 600)) for _ in range(3)]
    packed = [pack(trits) for _, trits in cases]
    wrong: list[int] = []

    def work(i: int) -> None:
        torch.set_num_threads(2)
        x, trits = cases[i % 3]
        for _ in range(10):
            try:
                check(ternary_linear(x, packed[i % 3], 600), x, trits)
            except AssertionError:
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_forward_derivatives_are_not_lost() -> None:
    x, weight = random_floats(3, 8), pack(random_trits(8, 70))
    assert quick(x, weight)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        assert quick_product(dual, weight, 70, None, None) is None


WITHOUT = """
import torch
from triton_dsl.runtime.native.provider import LINEAR
from triton_dsl.runtime.native.torch_linear import product
from triton_dsl.runtime.operators import ternary_linear
from triton_dsl.runtime.packing import pack
LINEAR.set(None)
x, trits = torch.randint(-9, 9, (3, 8)), torch.randint(-1, 2, (8, 5))
assert product(x.float(), pack(trits), 5, None, None) is None
for dtype in (torch.float32, torch.bfloat16, torch.int8):
    for _ in range(2):
        assert torch.equal(ternary_linear(x.to(dtype), pack(trits), 5).long(), x @ trits)
"""


def test_without_kernels_the_formula_is_taken() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


FORKED = """
import os, torch
from triton_dsl.runtime.operators import ternary_linear
from triton_dsl.runtime.packing import pack
torch.set_num_threads(2)
x, trits = torch.randn(9, 1000), torch.randint(-1, 2, (1000, 700))
weight = pack(trits)
before = ternary_linear(x, weight, 700)
assert torch.equal(before, ternary_linear(x, weight, 700))
child = os.fork()
if child == 0:
    same = torch.equal(before, ternary_linear(x, weight, 700))
    os._exit(0 if same else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not fork, or not safely")
def test_a_forked_process_multiplies() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "done\n", done.stderr
