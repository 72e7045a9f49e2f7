"""LiteRT's own kernels on models of one product: which stored weights they multiply rightly.

The expected numbers are PyTorch's, in float64. What `fitting` lets through is right in both sets of
kernels; what it replaces LiteRT refuses or gets wrong, and this file would tell if that changed.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import BackendError
from triton_dsl.lowering.to_tflite.engine import run_tflite
from triton_dsl.lowering.to_tflite.flatbuffer import ModelInfo, serialize
from triton_dsl.lowering.to_tflite.graph import Element, Graph, Operator, Quantization, Tensor
from triton_dsl.lowering.to_tflite.precision import fitting
from triton_dsl.lowering.to_tflite.versions import runtime, version

Array = np.ndarray[Any, Any]
F32, I8, I16, I4, I2 = (
    Element.FLOAT32, Element.INT8, Element.INT16, Element.INT4, Element.INT2,
)  # fmt: skip
PRODUCTS = ["FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"]
WIDTH = 16
COMBINATIONS = list(product(PRODUCTS, [F32, I8, I16], [I8, I4, I2]))


def stored(kind: str, element: Element) -> Tensor:
    """A weight of random levels, with a scale for each output channel."""
    rng = np.random.default_rng(0)
    most = 2 ** (element.bits - 1) - 1
    shape, axis = {
        "FULLY_CONNECTED": ((WIDTH, WIDTH), 0),
        "CONV_2D": ((WIDTH, 3, 3, WIDTH), 0),
        "DEPTHWISE_CONV_2D": ((1, 3, 3, WIDTH), 3),
    }[kind]
    levels = rng.integers(-most, most + 1, shape).astype(np.int8)
    scale = rng.uniform(0.01, 0.03, WIDTH).astype(np.float32)
    return Tensor("w", element, shape, levels, Quantization(scale, 0, axis))


def real(tensor: Tensor) -> Array:
    """The numbers that stored levels stand for."""
    assert tensor.data is not None and tensor.quantization is not None
    how = tensor.quantization
    shape = [-1 if a == how.axis else 1 for a in range(tensor.rank)]
    return tensor.data.astype(np.float64) * how.scale.astype(np.float64).reshape(shape)


def by_torch(kind: str, x: Array, w: Array) -> Array:
    given, weight = torch.from_numpy(x), torch.from_numpy(w)
    if kind == "FULLY_CONNECTED":
        return (given @ weight.T).numpy()
    order = (0, 3, 1, 2) if kind == "CONV_2D" else (3, 0, 1, 2)
    groups = 1 if kind == "CONV_2D" else WIDTH
    made = torch.nn.functional.conv2d(
        given.permute(0, 3, 1, 2), weight.permute(*order), groups=groups
    )
    return made.permute(0, 2, 3, 1).numpy()


def error(kind: str, activations: Element, weight: Tensor, *, delegates: bool) -> float:
    """The greatest error in steps of the result's grid, or of 1 % of the largest for floats."""
    rng = np.random.default_rng(1)
    shape = (3, WIDTH) if kind == "FULLY_CONNECTED" else (2, 6, 6, WIDTH)
    values = rng.uniform(-1, 1, shape)
    want = by_torch(kind, values, real(weight))
    x, y = Tensor("x", activations, shape), Tensor("y", activations, want.shape)
    inputs, made = values.astype(np.float32), 1.0
    bias = Tensor("b", F32, (WIDTH,), np.zeros(WIDTH, np.float32))
    if activations is not F32:
        most = np.iinfo(activations.dtype).max
        made = float(np.float32(np.abs(want).max() / most))
        x.quantization = Quantization(np.array([1 / most], np.float32))
        y.quantization = Quantization(np.array([made], np.float32))
        inputs = np.rint(values * most).astype(activations.dtype)
        want = by_torch(kind, inputs * float(np.float32(1 / most)), real(weight))
        wide = Element.INT32 if activations is I8 else Element.INT64
        assert weight.quantization is not None
        how = Quantization(weight.quantization.scale * x.quantization.scale)
        bias = Tensor("b", wide, (WIDTH,), np.zeros(WIDTH, wide.dtype), how)
    graph = Graph(inputs=[x], outputs=[y], input_names=["x"], output_names=["y"])
    window = {"padding": 1, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    options = {} if kind == "FULLY_CONNECTED" else window
    if kind == "DEPTHWISE_CONV_2D":
        options = {**options, "depthMultiplier": 1}
    graph.add(kind, [x, weight, bias], [y], options)
    (got,) = run_tflite(serialize(graph, ModelInfo("", {})), [inputs], delegates=delegates)
    step = float(np.abs(want).max()) / 100 if activations is F32 else made
    given = got.astype(np.float64) * (1 if activations is F32 else made)
    return float(np.abs(given - want).max() / step)


@pytest.mark.parametrize("delegates", [True, False])
@pytest.mark.parametrize(("kind", "activations", "element"), COMBINATIONS)
def test_what_is_written_is_right(
    kind: str, activations: Element, element: Element, delegates: bool
) -> None:
    weight = fitting(kind, activations, stored(kind, element))
    assert np.array_equal(real(weight), real(stored(kind, element))), "the same numbers"
    assert error(kind, activations, weight, delegates=delegates) < 1.6


REPLACED = [
    pytest.param(*c, id="-".join(map(str, c)))
    for c in COMBINATIONS
    if fitting(c[0], c[1], stored(c[0], c[2])).element is not c[2]
]


@pytest.mark.parametrize(("kind", "activations", "element"), REPLACED)
def test_what_is_replaced_is_wrong(kind: str, activations: Element, element: Element) -> None:
    try:
        off = error(kind, activations, stored(kind, element), delegates=True)
    except BackendError:
        return
    assert not off < 100, "LiteRT multiplies this now"


def operator(kind: str, elements: list[Element], shapes: list[tuple[int, ...]]) -> Operator:
    tensors = [Tensor("t", e, s) for e, s in zip(elements, shapes, strict=True)]
    window = {"dilationHFactor": 1, "dilationWFactor": 1}
    return Operator(kind, [*tensors], [Tensor("y", elements[0], shapes[0])], {**window})


@pytest.mark.parametrize(
    ("kind", "elements", "shapes", "number", "since"),
    [
        ("FULLY_CONNECTED", [F32, F32], [(1, 4), (4, 4)], 1, "1.14.0"),
        ("FULLY_CONNECTED", [F32, I8], [(1, 4), (4, 4)], 12, "2.17.0"),
        ("FULLY_CONNECTED", [I8, I8], [(1, 4), (4, 4)], 4, "1.14.0"),
        ("FULLY_CONNECTED", [I8, I4], [(1, 4), (4, 4)], 10, "2.11.0"),
        ("FULLY_CONNECTED", [F32, I2], [(1, 4), (4, 4)], 14, "2.1.6"),
        ("CONV_2D", [F32, F32], [(1, 4, 4, 4), (4, 1, 1, 4)], 1, "1.14.0"),
        ("CONV_2D", [F32, F32], [(1, 4, 4, 4), (4, 1, 1, 2)], 6, "2.9.0"),
        ("CONV_2D", [I16, I8], [(1, 4, 4, 4), (4, 1, 1, 4)], 4, "2.3.0"),
        ("DEPTHWISE_CONV_2D", [I8, I8], [(1, 4, 4, 4), (1, 3, 3, 4)], 3, "1.14.0"),
        ("TRANSPOSE", [F32], [(1, 2, 3, 4)], 1, "1.14.0"),
        ("TRANSPOSE", [F32], [(1, 2, 3, 4, 5)], 4, "2.3.0"),
        ("SLICE", [Element.BOOL], [(1, 2, 3, 4, 5)], 5, "2.5.0"),
        ("MUL", [Element.INT64], [(4,)], 5, "2.6.0"),
    ],
)
def test_lowest_versions(
    kind: str, elements: list[Element], shapes: list[tuple[int, ...]], number: int, since: str
) -> None:
    """Those of LiteRT's `op_version.cc` and `runtime_version.cc`."""
    made = operator(kind, elements, shapes)
    assert version(made) == number
    assert runtime([made]) == since


def test_results_that_litert_does_not_hand_out() -> None:
    """Where this fails, LiteRT can be given SLICE for parts without elements again."""
    x, y = Tensor("x", F32, (DYNAMIC, 4)), Tensor("y", F32, (DYNAMIC, 0))
    graph = Graph(inputs=[x], outputs=[y], input_names=["x"], output_names=["y"])
    bounds = [Tensor("b", Element.INT32, (2,), np.array(b, np.int32)) for b in ([0, 0], [-1, 0])]
    graph.add("SLICE", [x, *bounds], [y], {})
    with pytest.raises(BackendError, match="LiteRT gives no results"):
        run_tflite(serialize(graph, ModelInfo("", {})), [np.ones((3, 4), np.float32)])
