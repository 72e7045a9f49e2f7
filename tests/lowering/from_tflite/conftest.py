"""How the tests of this folder build files of one operator and run them in LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.to_tflite.flatbuffer import ModelInfo, serialize
from triton_dsl.lowering.to_tflite.graph import (
    Element,
    Graph,
    Quantization,
    Tensor,
    element_of_array,
)

pytest.importorskip("ai_edge_litert")

Array = np.ndarray[Any, Any]


def grid(scale: Any, zero: int = 0, axis: int = 0) -> Quantization:
    """How integers stand for real numbers."""
    return Quantization(np.atleast_1d(np.asarray(scale, np.float32)), zero, axis)


def tensor(name: str, shape: Sequence[int], element: Element = Element.FLOAT32,
           how: Quantization | None = None) -> Tensor:  # fmt: skip
    """A tensor that is computed."""
    return Tensor(name, element, tuple(shape), None, how)


def constant(values: Any, element: Element | None = None, how: Quantization | None = None,
             name: str = "constant") -> Tensor:  # fmt: skip
    """A stored tensor."""
    array = np.asarray(values)
    return Tensor(name, element_of_array(array) if element is None else element, array.shape,
                  array, how)  # fmt: skip


def file_of(graph: Graph) -> bytes:
    """The bytes of a graph whose ports are named like their tensors."""
    graph.input_names = [given.name for given in graph.inputs]
    graph.output_names = [made.name for made in graph.outputs]
    return serialize(graph, ModelInfo("", {}))


def one_operator(
    kind: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], options: dict[str, Any]
) -> bytes:
    """A file of one operator; inputs without values are its own."""
    graph = Graph()
    free = [given for given in inputs if given is not None and given.data is None]
    graph.inputs = [given for given in free if not given.variable]
    graph.outputs = list(outputs)
    graph.add(kind, inputs, outputs, options)
    return file_of(graph)


def litert(data: bytes, inputs: Sequence[Array], *, reference: bool = True) -> list[Array]:
    """What LiteRT gives: with its reference kernels, or with those it takes by default."""
    return litert_runs(data, [inputs], reference=reference)[0]


def litert_runs(
    data: bytes, runs: Sequence[Sequence[Array]], *, reference: bool = True
) -> list[list[Array]]:
    """What LiteRT gives in runs one after the other, between which it keeps variables."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolvers: Any = OpResolverType
    kernels = resolvers.BUILTIN_REF if reference else resolvers.AUTO
    interpreter: Any = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    ports = interpreter.get_input_details()
    for port, array in zip(ports, runs[0], strict=True):
        if tuple(port["shape"]) != array.shape:
            interpreter.resize_tensor_input(port["index"], array.shape)
    interpreter.allocate_tensors()
    given: list[list[Array]] = []
    for inputs in runs:
        for port, array in zip(ports, inputs, strict=True):
            interpreter.set_tensor(port["index"], array)
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        given.append([interpreter.get_tensor(port["index"]).copy() for port in outputs])
    return given


def values(given: Tensor, seed: int = 0) -> Array:
    """Values for an input: all integers of its type, or floats around 0."""
    random = np.random.default_rng(seed)
    if given.element is Element.BOOL:
        return random.random(given.shape) < 0.5
    if given.element.is_float:
        return (2 * random.standard_normal(given.shape)).astype(given.element.dtype)
    info = np.iinfo(given.element.dtype)
    return random.integers(info.min, info.max + 1, given.shape).astype(given.element.dtype)


class Bench:
    """The functions above."""

    grid = staticmethod(grid)
    tensor = staticmethod(tensor)
    constant = staticmethod(constant)
    file_of = staticmethod(file_of)
    one_operator = staticmethod(one_operator)
    litert = staticmethod(litert)
    litert_runs = staticmethod(litert_runs)
    values = staticmethod(values)

    def check(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Tensor | Sequence[Tensor],
        *,
        steps: int = 0,
        reference: bool = True,
        given: Sequence[Array] | None = None,
        **options: Any,
    ) -> Any:
        """Compare an imported operator with LiteRT: floats closely, integers within `steps`."""
        results = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        data = one_operator(kind, inputs, results, options)
        free = [t for t in inputs if t is not None and t.data is None]
        arrays = [values(t, seed) for seed, t in enumerate(free)] if given is None else list(given)
        module = from_tflite(data)
        expected = litert(data, arrays, reference=reference)
        for want, got in zip(expected, run_module(module, arrays), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            else:
                off = np.abs(got.astype(np.int64) - want.astype(np.int64))
                assert off.max(initial=0) <= steps
        return module


@pytest.fixture
def bench() -> Bench:
    """The functions above; a fixture because tests cannot import this file."""
    return Bench()


@pytest.fixture
def rich(bench: Bench) -> bytes:
    """A small file with most kinds of operators that take sizes, in floats and integers."""
    random = np.random.default_rng(0)
    graph = Graph()
    x = tensor("x", (2, 8, 8, 2))
    graph.inputs = [x]

    def add(kind: str, inputs: Sequence[Tensor | None], shape: Sequence[int],
            element: Element = Element.FLOAT32, how: Quantization | None = None,
            **options: Any) -> Tensor:  # fmt: skip
        made = tensor(kind.lower(), shape, element, how)
        graph.add(kind, inputs, [made], options)
        return made

    def ints(*numbers: Any) -> Tensor:
        return constant(np.array(numbers, np.int32))

    i8 = Element.INT8
    stride: dict[str, Any] = {"strideW": 2, "strideH": 2, "padding": 0}
    weight = constant(random.integers(-127, 128, (3, 3, 3, 2)).astype(np.int8), i8,
                      grid([0.01, 0.015, 0.02]), "w")  # fmt: skip
    bias = constant(np.zeros(3, np.float32))
    y = add("CONV_2D", [x, weight, bias], (2, 4, 4, 3), **stride, fusedActivationFunction=1,
            dilationWFactor=1, dilationHFactor=1)  # fmt: skip
    fine = grid(0.05, 3)
    y = add("QUANTIZE", [y], (2, 4, 4, 3), i8, fine)
    y = add("AVERAGE_POOL_2D", [y], (2, 2, 2, 3), i8, fine, **stride, filterWidth=3,
            filterHeight=3)  # fmt: skip
    y = add("ADD", [y, y], (2, 2, 2, 3), i8, grid(0.1, -3))
    shares = grid(1 / 256, -128)
    y = add("LOGISTIC", [y], (2, 2, 2, 3), i8, shares)
    y = add("RESHAPE", [y, ints(2, 12)], (2, 12), i8, shares)
    trits = constant(random.integers(-1, 2, (5, 12)).astype(np.int8), Element.INT2, grid(0.1), "t")
    y = add("FULLY_CONNECTED", [y, trits, ints(0, 0, 0, 0, 0)], (2, 5), i8, grid(0.01),
            keepNumDims=False)  # fmt: skip
    y = add("SOFTMAX", [y], (2, 5), i8, shares, beta=1.0)
    z = add("RESIZE_BILINEAR", [x, ints(5, 6)], (2, 5, 6, 2))
    z = add("PAD", [z, ints([0, 0], [1, 1], [2, 0], [0, 0])], (2, 7, 8, 2))
    z = add("STRIDED_SLICE", [z, ints(0, 1, 0, 0), ints(2, 6, 8, 2), ints(1, 2, 2, 1)],
            (2, 3, 4, 2), beginMask=1, endMask=1)  # fmt: skip
    z = add("MIRROR_PAD", [z, ints([0, 0], [1, 1], [1, 1], [0, 0])], (2, 5, 6, 2), mode=0)
    z = add("TILE", [z, ints(1, 2, 1, 1)], (2, 10, 6, 2))
    z = add("GATHER", [z, ints(0, 2, 1)], (2, 3, 6, 2), axis=1)
    z = add("MEAN", [z, ints(1, 2)], (2, 2), keepDims=False)
    kernel = constant(random.standard_normal((3, 3, 3, 2)).astype(np.float32))
    u = add("TRANSPOSE_CONV", [ints(2, 16, 16, 3), kernel, x], (2, 16, 16, 3), **stride)
    graph.outputs = [y, z, u]
    return file_of(graph)
