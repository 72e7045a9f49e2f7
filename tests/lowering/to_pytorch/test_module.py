"""The generated file as a whole: names, state, weights, training, torch's own compilers."""

from __future__ import annotations

import gc
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import LoweringError, ParameterError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.artifact import write_artifact
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_pytorch.expressions import layout
from triton_dsl.lowering.to_pytorch.load import load_module
from triton_dsl.lowering.to_pytorch.state import MODULE_ATTRIBUTES
from triton_dsl.runtime.random_values import fill_parameters

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(3)
Compile = Callable[..., Any]

LINEAR = """
builtin.module @LinearClassifier {
func.func @forward(%x : tensor<?x784xf32>) -> tensor<?x10xf32> {
  %w = ternary.parameter "weights" : tensor<784x10x!ternary.trit>
  %b = tensor.parameter "bias" : tensor<10xf32>
  %0 = ternary.matmul %x, %w : tensor<?x784xf32>, tensor<784x10x!ternary.trit> -> tensor<?x10xf32>
  %1 = tensor.add %0, %b : (tensor<?x10xf32>, tensor<10xf32>) -> tensor<?x10xf32>
  func.return %1 : tensor<?x10xf32>
}}
"""

LINEAR_INTEGERS = """
func.func @forward(%x : tensor<?x784xi8>) -> tensor<?x10xi32> {
  %w = ternary.parameter "weights" : tensor<784x10x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x784xi8>, tensor<784x10x!ternary.trit> -> tensor<?x10xi32>
  func.return %y : tensor<?x10xi32>
}
"""

KEYS = [
    "stem.conv.weight",
    "stem.conv.bias",
    "blocks.0.fc.weight",
    "blocks.1.fc.weight",
    "blocks.1.0.1.weight",
    "odd.3.weight",
    "odd.7.weight",
    "type",
    "training",
    "forward.half",
    "class.def",
    "_private",
    "weird-name.x y",
    "weight",
    "weight.1",
    "weight_1",
    "weight.1.5",
]


def with_keys(keys: list[str], kind: str = "tensor<2xf32>") -> str:
    """A function that adds all parameters."""
    lines = [f'  %p{i} = tensor.parameter "{key}" : {kind}' for i, key in enumerate(keys)]
    last = "%x"
    for i in range(len(keys)):
        lines.append(f"  %s{i} = tensor.add {last}, %p{i} : ({kind}, {kind}) -> {kind}")
        last = f"%s{i}"
    body = "\n".join(lines)
    return (
        f"func.func @forward(%x : {kind}) -> {kind} {{\n{body}\n  func.return {last} : {kind}\n}}"
    )


def test_the_class_of_the_seed(compile_text: Compile, check_style: Callable[[str], None]) -> None:
    source = compile_text(LINEAR).text()
    check_style(source)
    wanted = """\
    def __init__(self) -> None:
        super().__init__()
        # Ternary parameters are stored packed, four trits to a byte.
        self.register_buffer("weights", torch.zeros(1960, dtype=torch.uint8))
        self.bias = nn.Parameter(torch.zeros(10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # model.mlir:7
        return multiply_ternary(x, self.weights, (784, 10)) + self.bias
"""
    assert wanted in source
    assert "class LinearClassifier(nn.Module):" in source
    assert compile_text(LINEAR).files == compile_text(LINEAR).files


def test_keys_of_the_program_are_keys_of_the_state(
    compile_text: Compile, check_style: Callable[[str], None]
) -> None:
    source = compile_text(with_keys(KEYS)).text()
    check_style(source)
    model = load_module(source)
    clashing = {"weight.1": "weight_1_", "weight.1.5": "weight_1_5", "training": "training_"}
    assert set(model.state_dict()) == {clashing.get(key, key) for key in KEYS}
    weights = {key: RNG.standard_normal(2).astype(np.float32) for key in model.state_dict()}
    loaded = load_module(source, weights)
    expected = sum(torch.from_numpy(w) for w in weights.values())
    assert torch.allclose(loaded(torch.zeros(2)), expected, atol=1e-5)
    assert all(isinstance(p, torch.nn.Parameter) for p in loaded.parameters())
    assert len(list(loaded.parameters())) == len(KEYS)


def test_reserved_names_cover_those_of_torch() -> None:
    public = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    assert public <= MODULE_ATTRIBUTES


parts = st.sampled_from(["a", "b", "0", "1", "2", "weight", "bias", "to", "x1", "é"])


@settings(max_examples=40)
@given(st.lists(st.lists(parts, min_size=1, max_size=4).map(".".join), unique=True, max_size=8))
def test_any_keys_load_strictly(keys: list[str]) -> None:
    from triton_dsl.dialects.registry import parse_module
    from triton_dsl.lowering.targets import compile_to_target

    keys = [k for k in keys if not any(o != k and o.startswith(f"{k}.") for o in keys)]
    source = compile_to_target(parse_module(with_keys(keys)), "pytorch").text()
    weights = {key: RNG.standard_normal(2).astype(np.float32) for key in keys}
    model = load_module(source, weights)
    assert set(model.state_dict()) == set(keys)
    expected = sum((torch.from_numpy(w) for w in weights.values()), torch.zeros(2))
    assert torch.allclose(model(torch.zeros(2)), expected, atol=1e-5)


TRITS = RNG.integers(-1, 2, (784, 10))


@pytest.mark.parametrize(
    "weights",
    [
        pack_trits(TRITS),
        TRITS.astype(np.float32),
        TRITS.astype(np.float64),
        TRITS,
        TRITS.astype(np.int8),
    ],
)
def test_trits_load_packed_or_plain(compile_text: Compile, weights: Any) -> None:
    bias = np.arange(10, dtype=np.float32)
    model = load_module(compile_text(LINEAR), {"weights": weights, "bias": bias})
    x = RNG.standard_normal((5, 784)).astype(np.float32)
    got = model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(got, x @ TRITS + bias, rtol=1e-4, atol=1e-4)
    state = model.state_dict()
    assert state["weights"].dtype == torch.uint8
    assert state["weights"].numel() == 1960
    wrapped = torch.nn.Sequential(load_module(compile_text(LINEAR)))
    wrapped.load_state_dict(
        {"0.weights": torch.from_numpy(np.array(TRITS)), "0.bias": state["bias"]}
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": None}, "Missing key.*weights"),
        ({"extra": np.zeros(3)}, "Unexpected key.*extra"),
        ({"bias": np.zeros(11)}, "size mismatch for bias"),
        ({"weights": np.zeros(1961, np.uint8)}, "size mismatch for weights"),
        ({"weights": np.full((784, 10), 0.5)}, "weights: expected values in {-1, 0, 1}"),
        ({"weights": np.full((784, 10), np.nan)}, "weights: expected values in {-1, 0, 1}"),
        ({"weights": np.zeros((10, 784))}, r"expected packed uint8 or trits of shape \[784, 10\]"),
        ({"weights": np.full(1960, 0b11000000, np.uint8)}, "reserved trit code 0b11"),
    ],
)
def test_wrong_weights(compile_text: Compile, changes: dict[str, Any], message: str) -> None:
    weights: dict[str, Any] = {"weights": TRITS, "bias": np.zeros(10, np.float32), **changes}
    weights = {key: value for key, value in weights.items() if value is not None}
    with pytest.raises(ParameterError, match=message):
        load_module(compile_text(LINEAR), weights)


STORED = {"weights": pack_trits(TRITS), "bias": np.arange(10, dtype=np.float32)}

ALONE = """
import sys
sys.modules["triton_dsl"] = None
sys.modules["numpy"] = None
sys.modules["safetensors"] = None if sys.argv[2] == "bare" else sys.modules.get("safetensors")
if sys.argv[2] != "bare": del sys.modules["safetensors"], sys.modules["numpy"]
sys.path.insert(0, sys.argv[1])
import torch
from importlib import import_module
for weights in sys.argv[3:]:
    print(import_module(weights).load()(torch.ones(1, 784)).tolist()[0])
"""


@pytest.mark.parametrize(
    ("libraries", "kinds"), [("bare", ["file", "embed"]), ("safetensors", ["file"])]
)
def test_the_file_runs_with_torch_alone(
    libraries: str,
    kinds: list[str],
    compile_text: Compile,
    tmp_path: Path,
    check_style: Callable[[str], None],
) -> None:
    for weights in kinds:
        artifact = compile_text(LINEAR, STORED, weights=weights)
        check_style(artifact.text())
        written = write_artifact(artifact, tmp_path / f"{weights}.py")
        names = ["file.py", "file.safetensors"] if weights == "file" else ["embed.py"]
        assert [path.name for path in written] == names
    command = [sys.executable, "-W", "ignore", "-c", ALONE, str(tmp_path), libraries, *kinds]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = (TRITS.sum(axis=0) + np.arange(10)).tolist()
    assert [eval(line) for line in done.stdout.splitlines()] == [expected] * len(kinds)


def test_kernels_change_last_places_only(
    compile_text: Compile, without_kernels: Callable[[Any], Any]
) -> None:
    artifact = compile_text(LINEAR, STORED)
    assert "ternary_linear = None" in artifact.text()
    x = torch.from_numpy(RNG.standard_normal((5, 784)).astype(np.float32))
    plain = load_module(without_kernels(artifact))(x)
    torch.testing.assert_close(load_module(artifact)(x), plain, rtol=1e-5, atol=1e-4)
    steps = torch.from_numpy(RNG.integers(-128, 128, (5, 784)).astype(np.int8))
    artifact = compile_text(LINEAR_INTEGERS, STORED)
    expected = torch.from_numpy(steps.numpy().astype(np.int32) @ TRITS.astype(np.int32))
    for made in (artifact, without_kernels(artifact)):
        assert torch.equal(load_module(made)(steps), expected)


def test_unpacked_weights_follow_the_packed_ones(
    compile_text: Compile, without_kernels: Callable[[Any], Any]
) -> None:
    model = load_module(without_kernels(compile_text(LINEAR, STORED)))
    x = torch.from_numpy(RNG.standard_normal((5, 784)))

    def check(model: Any, trits: Any) -> None:
        for dtype in (torch.float32, torch.float64, torch.float32):
            model.to(dtype)
            expected = x.to(dtype) @ torch.from_numpy(trits).to(dtype) + model.bias
            torch.testing.assert_close(model(x.to(dtype)), expected)

    with torch.inference_mode():
        check(model, TRITS)
    trits = TRITS
    for _ in range(3):
        trits = RNG.integers(-1, 2, (784, 10))
        model.load_state_dict({"weights": torch.from_numpy(trits), "bias": torch.ones(10)})
        check(model, trits)
    learned = x.float().requires_grad_()
    model(learned).sum().backward()
    torch.testing.assert_close(learned.grad[0], torch.from_numpy(trits.sum(axis=1)).float())
    assert set(model.state_dict()) == {"weights", "bias"}
    assert "unpacked" not in str(torch.export.export(model, (x.float(),)).graph_signature)
    table = model.forward.__globals__["UNPACKED"]
    assert len(table) == 1
    del model
    gc.collect()
    assert len(table) == 0


def test_weights_can_be_left_out(compile_text: Compile) -> None:
    artifact = compile_text(LINEAR, STORED, weights="none")
    assert set(artifact.files) == {"linear_classifier.py"}
    assert "def load" not in artifact.text()
    assert set(compile_text(LINEAR, {}).files) == {"linear_classifier.py"}


def test_weights_must_be_complete_and_right(compile_text: Compile) -> None:
    with pytest.raises(ParameterError, match="no values for parameters bias"):
        compile_text(LINEAR, {"weights": STORED["weights"]})
    with pytest.raises(ParameterError, match="holds NaN"):
        compile_text(LINEAR, {**STORED, "bias": np.full(10, np.nan, np.float32)})
    with pytest.raises(ParameterError, match="reserved trit code"):
        compile_text(LINEAR, {**STORED, "weights": np.full(1960, 255, np.uint8)})


def test_large_weights_are_not_embedded(compile_text: Compile) -> None:
    text = with_keys(["w"], "tensor<40000xf32>")
    with pytest.raises(LoweringError, match=r"too large to embed .*; use weights=file"):
        compile_text(text, {"w": np.zeros(40000, np.float32)}, weights="embed")


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "i32", "i64", "i1"])
def test_weights_of_every_type(
    dtype: str, compile_text: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ml_dtypes

    kinds = {"f16": "float16", "bf16": ml_dtypes.bfloat16, "f64": "float64", "i1": "bool"}
    values = np.array([1, 0, 1]).astype(kinds.get(dtype, f"int{dtype[1:]}"))
    kind = f"tensor<3x{dtype}>"
    text = f"""
func.func @forward() -> {kind} {{
  %w = tensor.parameter "w" : {kind}
  func.return %w : {kind}
}}
"""
    artifact = compile_text(text, {"w": values})
    assert load_module(artifact)().tolist() == [1, 0, 1]
    write_artifact(artifact, tmp_path / "model.py")
    for absent in ("safetensors", "safetensors.torch"):
        monkeypatch.setitem(sys.modules, absent, None)
    assert runpy.run_path(str(tmp_path / "model.py"))["load"]()().tolist() == [1, 0, 1]


def test_unused_parameters_stay_in_the_state(compile_text: Compile) -> None:
    text = LINEAR.replace(
        "  %b =", '  %u = tensor.parameter "unused" buffer : tensor<3xf32>\n  %b ='
    )
    model = load_module(compile_text(text))
    assert set(model.state_dict()) == {"weights", "bias", "unused"}
    optimized = compile_text(text, {**STORED, "unused": np.zeros(3, np.float32)}, optimize=True)
    x = torch.ones(2, 784)
    expected = (TRITS.sum(axis=0) + np.arange(10)).tolist()
    assert load_module(optimized)(x)[1].tolist() == expected


TRAINABLE = """
builtin.module @Net {
func.func @forward(%x : tensor<?x8xf32>) -> tensor<?x3xf32> {
  %l = tensor.parameter "fc1.weight" : tensor<8x32xf32>
  %t, %s = ternary.ternarize %l {rule = "RULE", scale = "channel", axis = 1 : i64FIXED}
    : (tensor<8x32xf32>) -> (tensor<8x32x!ternary.trit>, tensor<32xf32>)
  %h = ternary.matmul %x, %t scale(%s : tensor<32xf32>)
    : tensor<?x8xf32>, tensor<8x32x!ternary.trit> -> tensor<?x32xf32>
  %g = tensor.parameter "bn.weight" : tensor<32xf32>
  %b = tensor.parameter "bn.bias" : tensor<32xf32>
  %m = tensor.parameter "bn.running_mean" buffer : tensor<32xf32>
  %v = tensor.parameter "bn.running_var" buffer : tensor<32xf32>
  %n = tensor.batch_norm %h, %g, %b, %m, %v {epsilon = 1.0e-5 : f64}
    : (tensor<?x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>)
    -> tensor<?x32xf32>
  %r = tensor.relu %n : (tensor<?x32xf32>) -> tensor<?x32xf32>
  %l2 = tensor.parameter "fc2.weight" : tensor<3x32xf32>
  %t2 = ternary.ternarize %l2 {rule = "RULE"FIXED}
    : (tensor<3x32xf32>) -> tensor<3x32x!ternary.trit>
  %t3 = tensor.permute %t2 {perm = array<i64: 1, 0>}
    : (tensor<3x32x!ternary.trit>) -> tensor<32x3x!ternary.trit>
  %y = ternary.matmul %r, %t3 : tensor<?x32xf32>, tensor<32x3x!ternary.trit> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}}
"""


def trainable(rule: str) -> str:
    fixed = ", threshold = 0.05 : f64" if rule == "fixed" else ""
    return TRAINABLE.replace("RULE", rule).replace("FIXED", fixed)


@pytest.mark.parametrize("rule", ["twn", "absmean", "fixed"])
def test_training_lowers_the_loss(
    rule: str, compile_text: Compile, check_style: Callable[[str], None]
) -> None:
    source = compile_text(trainable(rule)).text()
    check_style(source)
    torch.manual_seed(0)
    model = load_module(source).train()
    assert set(dict(model.named_parameters())) == {
        "fc1.weight",
        "bn.weight",
        "bn.bias",
        "fc2.weight",
    }
    x = torch.randn(256, 8)
    target = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses: list[float] = []
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(model(x) * 0.2, target)
        optimizer.zero_grad()
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    state = model.state_dict()
    assert state["bn.running_mean"].abs().sum() > 0
    assert (state["bn.running_var"] != 1).all()


@pytest.mark.parametrize("rule", ["twn", "absmean", "fixed"])
def test_trained_latents_compute_what_the_interpreter_says(rule: str, agree: Compile) -> None:
    weights = {
        "fc1.weight": RNG.standard_normal((8, 32)).astype(np.float32),
        "fc2.weight": RNG.standard_normal((3, 32)).astype(np.float32),
        "bn.running_var": np.full(32, 0.7, np.float32),
    }
    for name in ("weight", "bias", "running_mean"):
        weights[f"bn.{name}"] = RNG.standard_normal(32).astype(np.float32)
    agree(
        trainable(rule), [RNG.standard_normal((5, 8)).astype(np.float32)], weights, tolerance=2e-5
    )


CONV = """
builtin.module @ConvNet {
func.func @forward(%image : tensor<?x3x8x8xf32>) -> (tensor<?x5xf32>, tensor<?xi64>) {
  %w = ternary.parameter "features.0.weight" : tensor<4x3x3x3x!ternary.trit>
  %b = tensor.parameter "features.0.bias" : tensor<4xf32>
  %c = ternary.conv %image, %w bias(%b : tensor<4xf32>) {strides = array<i64: 1, 1>,
    padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, activation = "relu"}
    : tensor<?x3x8x8xf32>, tensor<4x3x3x3x!ternary.trit> -> tensor<?x4x8x8xf32>
  %p = tensor.max_pool %c {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
    padding = array<i64: 0, 0, 0, 0>} : (tensor<?x4x8x8xf32>) -> tensor<?x4x4x4xf32>
  %f = tensor.flatten %p : (tensor<?x4x4x4xf32>) -> tensor<?x64xf32>
  %u = ternary.parameter "classifier.weight" : tensor<64x5x!ternary.trit>
  %y = ternary.matmul %f, %u : tensor<?x64xf32>, tensor<64x5x!ternary.trit> -> tensor<?x5xf32>
  %scale = tensor.constant dense<0.05> : tensor<f32>
  %zero = tensor.constant dense<0> : tensor<i8>
  %q = tensor.quantize %f, %scale, %zero {axis = 1 : i64}
    : (tensor<?x64xf32>, tensor<f32>, tensor<i8>) -> tensor<?x64xi8>
  %z = ternary.matmul %q, %u : tensor<?x64xi8>, tensor<64x5x!ternary.trit> -> tensor<?x5xi32>
  %a = tensor.argmax %z {axis = 1 : i64} : (tensor<?x5xi32>) -> tensor<?xi64>
  func.return %y, %a : tensor<?x5xf32>, tensor<?xi64>
}}
"""

CONV_WEIGHTS = {
    "features.0.weight": pack_trits(RNG.integers(-1, 2, (4, 3, 3, 3))),
    "features.0.bias": RNG.standard_normal(4).astype(np.float32),
    "classifier.weight": pack_trits(RNG.integers(-1, 2, (64, 5))),
}


def test_a_network_of_several_layers(agree: Compile) -> None:
    image = RNG.standard_normal((3, 3, 8, 8)).astype(np.float32)
    source = agree(CONV, [image], CONV_WEIGHTS, tolerance=1e-5).text()
    assert "self.features = nn.ModuleList()" in source
    assert "def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:" in source


def test_constants_are_not_called_like_parameters(agree: Compile) -> None:
    """A constant without a name beside parameters that are called `constant`, `constant.w`."""
    text = """
func.func @forward(%x : tensor<2xf32>) -> tensor<2xf32> {
  %p = tensor.parameter "constant" : tensor<2xf32>
  %q = tensor.parameter "constant_1.w" : tensor<2xf32>
  %c = tensor.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %a = tensor.mul %x, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %b = tensor.mul %a, %p : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = tensor.add %b, %q : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}"""
    weights = {
        key: RNG.standard_normal(2).astype(np.float32) for key in ("constant", "constant_1.w")
    }
    agree(text, [np.array([3, 4], np.float32)], weights)


def test_large_images_of_bytes_with_channels_last(agree: Compile) -> None:
    text = """
func.func @forward(%x : tensor<?x16x16x3xi8>) -> tensor<?x3x8x8xi8> {
  %t = tensor.permute %x {perm = array<i64: 0, 3, 1, 2>}
    : (tensor<?x16x16x3xi8>) -> tensor<?x3x16x16xi8>
  %y = tensor.max_pool %t {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
    padding = array<i64: 0, 0, 1, 1>} : (tensor<?x3x16x16xi8>) -> tensor<?x3x8x8xi8>
  func.return %y : tensor<?x3x8x8xi8>
}"""
    agree(text, [RNG.integers(-128, 128, (2, 16, 16, 3)).astype(np.int8)])


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", [CONV, trainable("twn")])
def test_torch_compile_takes_the_whole_graph(
    backend: str, text: str, compile_text: Compile
) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = load_module(compile_text(text, CONV_WEIGHTS if text is CONV else None))
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    shape = (3, 8, 8) if text is CONV else (8,)
    for batch in (4, 7):
        x = torch.randn(batch, *shape)
        with torch.no_grad():
            expected, actual = model(x), compiled(x)
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("text", [CONV, trainable("twn"), LINEAR])
def test_torch_export_keeps_the_batch_dynamic(text: str, compile_text: Compile) -> None:
    torch.manual_seed(0)
    weights = {CONV: CONV_WEIGHTS, LINEAR: STORED}.get(text)
    model = load_module(compile_text(text, weights))
    shape = {CONV: (3, 8, 8), LINEAR: (784,)}.get(text, (8,))
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (torch.randn(4, *shape),), dynamic_shapes=({0: batch},))
    x = torch.randn(9, *shape)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), model(x))


def test_the_class_name_can_be_chosen(compile_text: Compile) -> None:
    artifact = compile_text(LINEAR, class_name="My Net")
    assert "class My_Net(nn.Module):" in artifact.text()


def test_names_do_not_clash(compile_text: Compile, check_style: Callable[[str], None]) -> None:
    text = """
func.func @forward(%self : tensor<2xf32>, %torch : tensor<2xf32> {tensor.name = "class"},
    %print : tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %F = tensor.add %self, %torch : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %unpack_ternary = tensor.exp %F : (tensor<2xf32>) -> tensor<2xf32>
  %nn = tensor.mul %unpack_ternary, %print : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %nn, %F : tensor<2xf32>, tensor<2xf32>
}
"""
    source = compile_text(text).text()
    check_style(source)
    one = torch.ones(2)
    assert load_module(source)(one, one, one)[1].tolist() == [2, 2]


def test_text_of_strangers_cannot_reach_the_source(compile_text: Compile) -> None:
    key = 'w\\"); print(1) #'
    source = compile_text(with_keys([key]), class_name='A"""\nimport os').text()
    compile(source, "model.py", "exec")
    assert "\nimport os" not in source
    (name,) = load_module(source).state_dict()
    assert name == key.replace("\\", "")


def test_long_calls_are_split() -> None:
    arguments = ", ".join(f"argument_{i}" for i in range(7))
    assert layout(f"y = function({arguments}, 1)", 8) == [
        "        y = function(",
        f"            {arguments}, 1",
        "        )",
    ]
    longer = layout(f"y = function({arguments}, inner(a, b), 'c')", 20)
    assert longer[1] == f"{' ' * 24}argument_0,"
    assert longer[-2] == f"{' ' * 24}'c',"


def test_a_long_index_stays_an_index() -> None:
    """A comma behind the only index would make a tuple of it."""
    name = "a" * 100
    assert layout(f'y = self._parameters["{name}"]', 8) == [
        "        y = self._parameters[",
        f'            "{name}"',
        "        ]",
    ]
    values = ", ".join(["1.0"] * 40)
    assert layout(f"y = [{values}]", 8)[-2:] == ["            1.0,", "        ]"]


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_module_takes_other_float_types(dtype: Any, trainable: bool) -> None:
    source = """
    layer Net {
        let conv = TernaryConv2d(1, 4, kernel=3)
        let norm = BatchNorm2d(4)
        let head = TernaryLinear(64, 5, with_scale=true)
        fn forward(image: Tensor[N, 1, 6, 6]) -> Tensor[N, 5] {
            return head(flatten(relu(norm(conv(image)))))
        }
    }
    """
    module = fill_parameters(import_tri(source, trainable=trainable), 0)
    x = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    model = load_module(compile_to_target(module, "pytorch"))
    with torch.no_grad():
        expected = model(x)
        actual = model.to(dtype)(x.to(dtype))
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.float(), expected, rtol=3e-2, atol=3e-2)
