"""`ScatterElements` and `ScatterND` at places that only the run tells, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx import from_onnx

Array = np.ndarray[Any, Any]


def build(
    bench: Any, kind: str, shape: tuple[int, ...], places: Array, updates: tuple[int, ...],
    **options: Any,
) -> tuple[Any, dict[str, Array]]:  # fmt: skip
    random = np.random.default_rng(len(shape))
    inputs = {
        "x": random.standard_normal(shape).astype(np.float32),
        "places": places,
        "updates": random.standard_normal(updates).astype(np.float32),
    }
    node = helper.make_node(kind, [*inputs], ["y"], **options)
    ports = {name: (array.dtype, array.shape) for name, array in inputs.items()}
    return bench.model([node], ports, ["y"]), inputs


def everywhere(bench: Any, model: Any, inputs: dict[str, Array]) -> None:
    module = bench.check(model, inputs)
    (want,) = bench.run(model, inputs)
    for target in ("onnx", "tflite", "native", "pytorch"):
        _, (got,), _ = run_target(module, target, [*inputs.values()])
        np.testing.assert_allclose(np.asarray(got), want, atol=1e-5)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("is_part", [False, True])
def test_elements(bench: Any, axis: int, is_part: bool, reduction: str) -> None:
    shape = (3, 5, 4)
    given = (2, 2, 3) if is_part else tuple(6 if a == axis % 3 else n for a, n in enumerate(shape))
    random = np.random.default_rng(7)
    size = shape[axis]
    places = random.integers(-size, size, given)
    if reduction == "none":  # ONNX Runtime may put equal places in any order
        places = np.argsort(random.random(shape), axis)[tuple(slice(n) for n in given)]
        given = places.shape
    everywhere(
        bench,
        *build(bench, "ScatterElements", shape, places, given, axis=axis, reduction=reduction),
    )


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_rows(bench: Any, depth: int, reduction: str) -> None:
    shape, count = (4, 3, 5), 6
    random = np.random.default_rng(depth)
    grid = np.stack(np.meshgrid(*map(np.arange, shape[:depth]), indexing="ij"), -1)
    rows = grid.reshape(-1, depth)
    chosen = random.permutation(len(rows))[:count] if depth > 1 else random.permutation(4)
    if reduction == "add":
        chosen = random.integers(0, len(rows), count)
    places = rows[chosen]
    places[::2] -= shape[:depth]
    updates = (len(places), *shape[depth:])
    everywhere(bench, *build(bench, "ScatterND", shape, places, updates, reduction=reduction))


def test_products_at_computed_places_are_refused(bench: Any) -> None:
    model, _ = build(bench, "ScatterND", (4, 3), np.zeros((2, 1), np.int64), (2, 3),
                     reduction="mul")  # fmt: skip
    with pytest.raises(UnsupportedError, match="indices"):
        from_onnx(model)
