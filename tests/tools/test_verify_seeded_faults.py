"""Faults put into importers, passes and emitters on purpose: `triton verify` finds each of them.

Each case changes one rule, as a slip of the pen would: an attribute that is forgotten, operands the
wrong way round, a bound that is off by one. Inputs are those that the command draws by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import i8, i32

from triton_dsl import from_onnx, from_torch
from triton_dsl.dialects import tensor
from triton_dsl.dialects.canonicalization_patterns import tensor as canonicalize
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import TritonError
from triton_dsl.lowering import torch_functions
from triton_dsl.lowering.from_onnx.onnx_operators import RULES as FROM_ONNX
from triton_dsl.lowering.from_tflite import fixed_point, from_tflite, importer
from triton_dsl.lowering.from_torch.torch_operators import RULES as FROM_TORCH
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.sources.choice import source_of
from triton_dsl.lowering.to_native.linalg import RULES as TO_LINALG
from triton_dsl.lowering.to_onnx import elementwise as onnx_elementwise
from triton_dsl.lowering.to_pytorch import rules_elementwise as torch_elementwise
from triton_dsl.lowering.to_tflite import elementwise as tflite_elementwise
from triton_dsl.passes import fold_constants, fuse_linear
from triton_dsl.passes.analysis import fusion
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.draws import EDGE, ORDINARY, draw
from triton_dsl.tools.verify import verify_module

torch: Any = pytest.importorskip("torch")
pytest.importorskip("llvmlite")
pytest.importorskip("ai_edge_litert")

Patch = pytest.MonkeyPatch
TFLITE = Path(__file__).resolve().parents[1] / "lowering" / "from_tflite" / "converted"
FLOAT, INT32, INT64, UINT8 = (
    TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8,
)  # fmt: skip
RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def onnx_model(nodes: list[Any], x: tuple[int, list[Any]], y: int, **arrays: Any) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", *x)],
        [helper.make_tensor_value_info("y", y, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    opset = helper.make_opsetid("", 20)
    return helper.make_model(graph, opset_imports=[opset], ir_version=9)


def chain(*steps: tuple[Any, ...], **attributes: dict[str, Any]) -> list[Any]:
    """Nodes one behind the other from x to y: operator, further inputs."""
    names = ["x", *(f"h{i}" for i in range(1, len(steps))), "y"]
    return [
        helper.make_node(op, [names[i], *more], [names[i + 1]], **attributes.get(op, {}))
        for i, (op, *more) in enumerate(steps)
    ]


@cache
def convolutional() -> Any:
    nodes = chain(
        ("Conv", "k", "kb"), ("BatchNormalization", "s", "b", "m", "v"), ("LeakyRelu",),
        ("MaxPool",), ("AveragePool",), ("Flatten",), ("Gemm", "w", "c"), ("Clip", "low", "high"),
        Conv={"pads": [1, 0, 0, 1], "strides": [1, 2], "group": 1},
        BatchNormalization={"epsilon": 0.1}, LeakyRelu={"alpha": 0.2},
        MaxPool={"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]},
        AveragePool={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        Gemm={"transB": 1, "alpha": 0.5, "beta": 2.0},
    )  # fmt: skip
    vectors = RNG.uniform(0.5, 1.5, (4, 4)).astype(np.float32)
    return onnx_model(
        nodes, (FLOAT, ["N", 3, 8, 8]), FLOAT, k=normal(4, 3, 3, 3), kb=normal(4),
        w=normal(112, 112), c=normal(112), low=np.float32(-9), high=np.float32(11),
        **dict(zip("sbmv", vectors, strict=True)),
    )  # fmt: skip


@cache
def sequence() -> Any:
    nodes = chain(
        ("LayerNormalization", "g", "b"), ("Transpose",), ("MatMul", "w"), ("Softmax",),
        ("Sub", "c"), ("Gelu",), ("Elu",), ("ReduceMean", "axes"),
        LayerNormalization={"epsilon": 0.05}, Transpose={"perm": [0, 2, 1]}, Softmax={"axis": 1},
        Gelu={"approximate": "tanh"}, Elu={"alpha": 0.5}, ReduceMean={"keepdims": 0},
    )  # fmt: skip
    return onnx_model(
        nodes, (FLOAT, ["N", 6, 6]), FLOAT, g=normal(6), b=normal(6), w=normal(6, 6) * 3,
        c=normal(6), axes=np.array([1]),
    )  # fmt: skip


@cache
def quantised() -> Any:
    nodes = chain(
        ("QuantizeLinear", "s", "z"), ("MatMulInteger", "w", "z", "wz"), ("Cast",), ("Mul", "t"),
        ("Round",), ("Clip", "low", "high"), ("Cast",), Cast={"to": FLOAT},
    )  # fmt: skip
    nodes[-1].attribute[0].i = INT32
    return onnx_model(
        nodes, (FLOAT, ["N", 9]), INT32, s=np.float32(0.03125), z=np.uint8(9),
        w=RNG.integers(-8, 8, (9, 4)).astype(np.int8), wz=np.int8(1), t=np.float32(0.125),
        low=np.float32(-70), high=np.float32(90),
    )  # fmt: skip


@cache
def integers() -> Any:
    nodes = chain(("Add", "a"), ("Max", "m"), ("Div", "d"), ("Clip", "low", "high"), ("Abs",))
    return onnx_model(
        nodes, (INT64, ["N", 5]), INT64, a=RNG.integers(-9, 9, 5), m=np.int64(-(2**50)),
        d=np.int64(3), low=np.int64(-(2**45)), high=np.int64(2**45),
    )  # fmt: skip


class Net(torch.nn.Module):
    """Layers whose options have defaults that are not those here."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(4, 8, 3, stride=1, padding=1, dilation=1, groups=2)
        self.norm = torch.nn.GroupNorm(2, 8, eps=0.1)
        self.linear = torch.nn.Linear(8, 8)
        self.layer = torch.nn.LayerNorm(8, eps=0.2)

    def forward(self, x: Any) -> Any:
        h = torch.nn.functional.gelu(self.norm(self.conv(x)), approximate="tanh")
        h = torch.nn.functional.avg_pool2d(h, 3, 2, 1, count_include_pad=False)
        h = self.layer(self.linear(h.mean((2, 3))))
        h = torch.nn.functional.leaky_relu(h, 0.3) - h.flip(1)
        return torch.nn.functional.hardtanh(h, -0.7, 0.9), torch.softmax(h, 1)


@cache
def module() -> Any:
    return Net().eval()


TERNARY = """
layer Net {
    param w: TernaryTensor[12, 9]
    param b: Tensor[9]
    param v: TernaryTensor[9, 5]
    param k: Tensor[5]

    fn forward(x: Tensor[N, 12]) -> Tensor[N, 5] {
        let h = relu(x @ w - b) * 2.0
        return softmax(h @ v / 3.0 + k - exp(minimum(h, 1.0)) @ v)
    }
}
"""

ARITHMETIC = """
func.func @forward(%x: tensor<?x6xf32>, %n: tensor<?x6xi32>)
    -> (tensor<?x6xf32>, tensor<?x6xi32>, tensor<?x6xf32>) {
  %two = tensor.constant dense<2.0> : tensor<f32>
  %one = tensor.constant dense<1> : tensor<i32>
  %c = tensor.constant dense<[0.5, -1.0, 2.0, 3.0, -0.25, 1.5]> : tensor<6xf32>
  %e = tensor.exp %c : (tensor<6xf32>) -> tensor<6xf32>
  %a = tensor.mul %x, %two : (tensor<?x6xf32>, tensor<f32>) -> tensor<?x6xf32>
  %b = tensor.sub %a, %e : (tensor<?x6xf32>, tensor<6xf32>) -> tensor<?x6xf32>
  %m = tensor.maximum %b, %x : (tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
  %t = tensor.tanh %m : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %f = tensor.abs %t : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %l = tensor.compare %x, %c {predicate = "lt"} : (tensor<?x6xf32>, tensor<6xf32>) -> tensor<?x6xi1>
  %w = tensor.where %l, %f, %m
       : (tensor<?x6xi1>, tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
  %p = tensor.add %n, %one : (tensor<?x6xi32>, tensor<i32>) -> tensor<?x6xi32>
  %q = tensor.minimum %p, %n : (tensor<?x6xi32>, tensor<?x6xi32>) -> tensor<?x6xi32>
  func.return %w, %q, %b : tensor<?x6xf32>, tensor<?x6xi32>, tensor<?x6xf32>
}"""

Import = Callable[[], tuple[Any, Any]]
"""Imports a model: the program, and its source."""

MODELS: dict[str, Import] = {
    "convolutional": lambda: (from_onnx(convolutional()), convolutional()),
    "sequence": lambda: (from_onnx(sequence()), sequence()),
    "quantised": lambda: (from_onnx(quantised()), quantised()),
    "integers": lambda: (from_onnx(integers()), integers()),
    "module": lambda: (from_torch(module(), torch.zeros(2, 4, 6, 6)), module()),
    "tflite": lambda: (
        from_tflite(TFLITE / "mobilenet.int8.tflite"), TFLITE / "mobilenet.int8.tflite"
    ),
    "tflite floats": lambda: (
        from_tflite(TFLITE / "resnet.float32.tflite"), TFLITE / "resnet.float32.tflite"
    ),
    "ternary": lambda: (fill_parameters(import_tri(TERNARY), 3), None),
    "arithmetic": lambda: (parse_module(ARITHMETIC), None),
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """What is wrong, in which model it shows, on which targets, and how it is put in."""

    name: str
    model: str
    targets: tuple[str, ...]
    put: Callable[[Patch], None]


def onnx_attribute(op: str, **changed: Any) -> Callable[[Patch], None]:
    """An attribute read wrongly; `None` forgets it."""

    def put(patch: Patch) -> None:
        rule = FROM_ONNX[op]

        def faulty(e: Any, call: Any) -> Any:
            attributes = {k: v for k, v in call.attributes.items() if k not in changed}
            attributes |= {k: v for k, v in changed.items() if v is not None}
            return rule(e, replace(call, attributes=attributes))

        patch.setitem(FROM_ONNX, op, faulty)

    return put


def onnx_inputs(op: str, change: Callable[[Any, Any], list[Any]]) -> Callable[[Patch], None]:
    def put(patch: Patch) -> None:
        rule = FROM_ONNX[op]
        patch.setitem(
            FROM_ONNX, op, lambda e, call: rule(e, replace(call, inputs=change(e, call.inputs)))
        )

    return put


def onnx_result(op: str, change: Callable[[Any, Any], Any]) -> Callable[[Patch], None]:
    def put(patch: Patch) -> None:
        rule = FROM_ONNX[op]
        patch.setitem(FROM_ONNX, op, lambda e, call: change(e, rule(e, call)))

    return put


def torch_argument(op: str, **changed: Any) -> Callable[[Patch], None]:
    def put(patch: Patch) -> None:
        rule = FROM_TORCH[op]
        patch.setitem(
            FROM_TORCH,
            op,
            lambda e, call: rule(e, replace(call, arguments={**call.arguments, **changed})),
        )

    return put


def tflite_option(kind: str, **changed: Any) -> Callable[[Patch], None]:
    def put(patch: Patch) -> None:
        right = importer.rule_for

        def faulty(name: str, *, integers: bool) -> Any:
            rule = right(name, integers=integers)
            if name != kind or rule is None:
                return rule
            return lambda e, node: rule(e, replace(node, options={**node.options, **changed}))

        patch.setattr(importer, "rule_for", faulty)

    return put


def tflite_kind(kind: str, other: str) -> Callable[[Patch], None]:
    def put(patch: Patch) -> None:
        right = importer.rule_for
        patch.setattr(
            importer,
            "rule_for",
            lambda name, *, integers: right(other if name == kind else name, integers=integers),
        )

    return put


def halves_down(patch: Patch) -> None:
    """A factor of a sum of integers that is rounded down."""
    right = fixed_point.multiplier_of

    def wrong(factor: Any) -> Any:
        multiplier, shift = right(factor)
        return multiplier - (1 << 24), shift

    patch.setattr(fixed_point, "multiplier_of", wrong)


def entry(table: dict[Any, Any], key: Any, other: Any) -> Callable[[Patch], None]:
    """One entry of a table with the value of another."""
    return lambda patch: patch.setitem(table, key, table.get(other, other))


def folded(patch: Patch) -> None:
    """A constant that is folded wrongly in one element."""
    right = fold_constants.evaluate

    def wrong(op: Any, operands: Any) -> Any:
        results = [np.array(result) for result in right(op, operands)]
        for result in results:
            if result.size and result.dtype.kind == "f":
                result.reshape(-1)[-1] *= np.float32(1.01)
        return tuple(results)

    patch.setattr(fold_constants, "evaluate", wrong)


def bias_dropped(patch: Patch) -> None:
    """Fusion that forgets what was added."""
    right = fusion.Fusion.finish

    def wrong(self: Any, emit: Any, layer: Any, **changes: Any) -> Any:
        return right(self, emit, layer, **{**changes, "bias": None})

    patch.setattr(fusion.Fusion, "finish", wrong)


def relu_dropped(patch: Patch) -> None:
    """Fusion that forgets the activation."""
    patch.setattr(
        fuse_linear._Fusion,  # pyright: ignore[reportPrivateUsage]
        "_activation",
        lambda self, layer, user: fuse_linear.rebuilt(layer, activation="none"),
    )


FAULTS = [
    Fault("conv: pads the wrong way round", "convolutional", (),
          onnx_attribute("Conv", pads=[0, 1, 1, 0])),
    Fault("conv: strides the wrong way round", "convolutional", (),
          onnx_attribute("Conv", strides=[2, 1])),
    Fault("conv: bias forgotten", "convolutional", (), onnx_inputs("Conv", lambda e, v: v[:2])),
    Fault("batch normalisation: epsilon forgotten", "convolutional", (),
          onnx_attribute("BatchNormalization", epsilon=None)),
    Fault("batch normalisation: mean and variance exchanged", "convolutional", (),
          onnx_inputs("BatchNormalization", lambda e, v: [*v[:3], v[4], v[3]])),
    Fault("leaky relu: slope forgotten", "convolutional", (),
          onnx_attribute("LeakyRelu", alpha=None)),
    Fault("max pooling: pads the wrong way round", "convolutional", (),
          onnx_attribute("MaxPool", pads=[0, 1, 1, 0])),
    Fault("average pooling: pads are not counted", "convolutional", (),
          onnx_attribute("AveragePool", count_include_pad=0)),
    Fault("gemm: a square weight is not transposed", "convolutional", (),
          onnx_attribute("Gemm", transB=0)),
    Fault("gemm: alpha forgotten", "convolutional", (), onnx_attribute("Gemm", alpha=None)),
    Fault("gemm: beta forgotten", "convolutional", (), onnx_attribute("Gemm", beta=None)),
    Fault("clip: lower bound forgotten", "convolutional", (),
          onnx_inputs("Clip", lambda e, v: [v[0], None, v[2]])),
    Fault("layer normalisation: epsilon forgotten", "sequence", (),
          onnx_attribute("LayerNormalization", epsilon=None)),
    Fault("transpose: order forgotten", "sequence", (),
          onnx_attribute("Transpose", perm=[0, 1, 2])),
    Fault("softmax: the last axis", "sequence", (), onnx_attribute("Softmax", axis=-1)),
    Fault("sub: operands the wrong way round", "sequence", (),
          onnx_inputs("Sub", lambda e, v: v[::-1])),
    Fault("gelu: exact instead of by tanh", "sequence", (),
          onnx_attribute("Gelu", approximate="none")),
    Fault("elu: alpha forgotten", "sequence", (), onnx_attribute("Elu", alpha=None)),
    Fault("reduce: another axis", "sequence", (),
          onnx_inputs("ReduceMean", lambda e, v: [v[0], e.known(np.array([2]))])),
    Fault("quantise: zero point forgotten", "quantised", (),
          onnx_inputs("QuantizeLinear", lambda e, v: [*v[:2], e.known(np.uint8(0))])),
    Fault("round: down instead of to even", "quantised", (),
          onnx_result("Round", lambda e, y: e.add(tensor.FloorOp(y.owner.operands[0])))),
    Fault("clip: a bound off by one", "quantised", (),
          onnx_inputs("Clip", lambda e, v: [*v[:2], e.known(np.float32(89))])),
    Fault("integer product: zero point of the weight forgotten", "quantised", (),
          onnx_inputs("MatMulInteger", lambda e, v: v[:3])),
    Fault("max of wide integers: in 32 bits", "integers", (),
          onnx_result("Add", lambda e, y: e.convert(e.convert(y, i32), y))),
    Fault("div: rounds down", "integers", (),
          onnx_result("Div", lambda e, y: e.add(tensor.SubOp(y, e.number(1, y))))),
    Fault("clip of integers: a bound off by one", "integers", (),
          onnx_inputs("Clip", lambda e, v: [*v[:2], e.known(np.array(2**45 - 1))])),
    Fault("abs: forgotten", "integers", (), onnx_result("Abs", lambda e, y: y.owner.operands[0])),
    Fault("softmax: another axis", "module", (), torch_argument("aten::softmax", dim=0)),
    Fault("group normalisation: epsilon", "module", (),
          torch_argument("aten::group_norm", eps=1e-5)),
    Fault("layer normalisation: epsilon", "module", (),
          torch_argument("aten::layer_norm", eps=1e-5)),
    Fault("gelu: the other one", "module", (), torch_argument("aten::gelu", approximate="none")),
    Fault("pooling: pads are counted", "module", (),
          torch_argument("aten::avg_pool2d", count_include_pad=True)),
    Fault("leaky relu: the default slope", "module", (),
          torch_argument("aten::leaky_relu", negative_slope=0.01)),
    Fault("hardtanh: the default bounds", "module", (),
          torch_argument("aten::hardtanh", min_val=-1.0, max_val=1.0)),
    Fault("tflite: the least byte is -127", "tflite", (),
          entry(fixed_point.RANGES, i8, (-127, 127))),
    Fault("tflite: a fused relu is forgotten", "tflite floats", (),
          tflite_option("CONV_2D", fusedActivationFunction=0)),
    Fault("tflite: a sum is a product", "tflite floats", (), tflite_kind("ADD", "MUL")),
    Fault("tflite: a factor is too small by 1 %", "tflite", (), halves_down),
    Fault("fold-constants: one element off by 1 %", "arithmetic", ("onnx",), folded),
    Fault("canonicalize: x · 2 becomes x", "arithmetic", ("native",),
          entry(canonicalize._RIGHT_NEUTRAL, tensor.MulOp, 2)),  # pyright: ignore[reportPrivateUsage]
    Fault("canonicalize: x + 1 becomes x", "arithmetic", ("pytorch",),
          entry(canonicalize._RIGHT_NEUTRAL, tensor.AddOp, 1)),  # pyright: ignore[reportPrivateUsage]
    Fault("fuse-linear: the bias is dropped", "ternary", ("onnx",), bias_dropped),
    Fault("fuse-linear: relu is dropped", "ternary", ("tflite",), relu_dropped),
    Fault("pytorch: + for -", "arithmetic", ("pytorch",),
          entry(torch_elementwise.BINARY_OPERATORS, tensor.SubOp, tensor.AddOp)),
    Fault("pytorch: relu for abs", "arithmetic", ("pytorch",),
          entry(torch_functions.FUNCTIONS, tensor.AbsOp, tensor.ReluOp)),
    Fault("pytorch: <= for <", "arithmetic", ("pytorch",),
          entry(torch_elementwise.PREDICATES, "lt", "gt")),
    Fault("onnx: sigmoid for tanh", "arithmetic", ("onnx",),
          entry(onnx_elementwise.UNARY, tensor.TanhOp, tensor.SigmoidOp)),
    Fault("onnx: Sub for Add", "arithmetic", ("onnx",),
          entry(onnx_elementwise.BINARY, tensor.AddOp, tensor.SubOp)),
    Fault("tflite: minimum for maximum", "arithmetic", ("tflite",),
          entry(tflite_elementwise.BINARY, tensor.MaximumOp, tensor.MinimumOp)),
    Fault("tflite: the greater ones", "arithmetic", ("tflite",),
          entry(tflite_elementwise._COMPARISON, "lt", "gt")),  # pyright: ignore[reportPrivateUsage]
    Fault("tflite: product for sum", "arithmetic", ("tflite",),
          entry(tflite_elementwise.BINARY, tensor.SubOp, tensor.MulOp)),
    Fault("native: maximum for minimum", "arithmetic", ("native",),
          entry(TO_LINALG, tensor.MinimumOp, tensor.MaximumOp)),
    Fault("native: add for sub", "arithmetic", ("native",),
          entry(TO_LINALG, tensor.SubOp, tensor.AddOp)),
]  # fmt: skip


@pytest.fixture(autouse=True)
def cache_of_its_own(monkeypatch: Patch, tmp_path: Path) -> None:
    """Objects of programs that were compiled without a fault are not loaded."""
    monkeypatch.setenv("TRITON_DSL_CACHE", str(tmp_path))


def rows_of(name: str, targets: tuple[str, ...]) -> Any:
    """What `triton verify` compares, on the inputs that it draws."""
    program, given = MODELS[name]()
    source = None if given is None else source_of(given)
    drawn = [draw(program, kind, 16, 0, source=source) for kind in (ORDINARY, EDGE)]
    first, *more = [arrays for arrays in drawn if arrays is not None]
    return verify_module(program, first, targets, source=source, more_inputs=more, trace=False)


@pytest.mark.parametrize("name", MODELS)
def test_without_a_fault_all_agree(name: str) -> None:
    rows = rows_of(name, ("pytorch", "onnx", "native", "tflite") if name in OWN else ())
    assert all(row.agrees for row in rows), rows
    assert len(rows) == (4 if name in OWN else 2)


OWN = ("ternary", "arithmetic")
"""Programs of ours, whose faults are those of passes and emitters."""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.name, marks=[] if index % 5 == 0 else pytest.mark.slow)
        for index, fault in enumerate(FAULTS)
    ],
)
def test_a_fault_is_found(fault: Fault, monkeypatch: Patch) -> None:
    fault.put(monkeypatch)
    try:
        rows = rows_of(fault.model, fault.targets)
    except TritonError as error:
        pytest.fail(f"refused, which nobody would take for a fault of ours: {error}")
    assert not all(row.agrees for row in rows), rows


def test_there_are_faults_of_every_kind() -> None:
    assert len(FAULTS) >= 50
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {fault.model for fault in FAULTS} == set(MODELS)
    assert {t for fault in FAULTS for t in fault.targets} == {"pytorch", "onnx", "native", "tflite"}
