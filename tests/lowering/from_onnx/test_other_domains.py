"""Operators of `ai.onnx.ml` and of steps of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx

Array = np.ndarray[Any, Any]
CLASSIC, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"


def classic(bench: Any, op: str, x: Array, version: int = 5, **attributes: Any) -> Any:
    """A model of one node of `ai.onnx.ml`."""
    node = helper.make_node(op, ["x"], ["y"], domain=CLASSIC, **attributes)
    model = bench.model([node], {"x": (x.dtype, x.shape)}, ["y"], opset=20)
    model.opset_import.append(helper.make_opsetid(CLASSIC, version))
    return model


def random_trees(trees: int, depth: int, features: int, targets: int, modes: Any) -> dict[str, Any]:
    """The attributes of full trees with random comparisons."""
    rng = np.random.default_rng(trees * depth)
    inner, leaves = 2**depth - 1, 2**depth
    count = trees * inner
    yes, no = np.zeros(count, np.int64), np.zeros(count, np.int64)
    leaf = np.zeros(count, np.int64)
    for tree in range(trees):
        for node in range(inner):
            for table, child in ((yes, 2 * node + 1), (no, 2 * node + 2)):
                last = child >= inner
                leaf[tree * inner + node] = last
                table[tree * inner + node] = (
                    tree * leaves + child - inner if last else tree * inner + child
                )
    return {
        "nodes_splits": onnx.numpy_helper.from_array(
            rng.integers(-4, 5, count).astype(np.float32) / 2
        ),
        "nodes_featureids": rng.integers(0, features, count).tolist(),
        "nodes_modes": onnx.numpy_helper.from_array(rng.choice(modes, count).astype(np.uint8)),
        "nodes_truenodeids": yes.tolist(),
        "nodes_falsenodeids": no.tolist(),
        "nodes_trueleafs": leaf.tolist(),
        "nodes_falseleafs": leaf.tolist(),
        "nodes_missing_value_tracks_true": rng.integers(0, 2, count).tolist(),
        "leaf_targetids": rng.integers(0, targets, trees * leaves).tolist(),
        "leaf_weights": onnx.numpy_helper.from_array(
            rng.integers(-8, 9, trees * leaves).astype(np.float32) / 4
        ),
        "tree_roots": [tree * inner for tree in range(trees)],
        "n_targets": targets,
    }


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_ensembles_of_trees(bench: Any, aggregate: int) -> None:
    """All comparisons, missing values, several targets; against ONNX Runtime."""
    x = np.random.default_rng(0).integers(-5, 6, (40, 6)).astype(np.float32) / 2
    attributes = random_trees(4, 3, 6, 1 if aggregate > 1 else 3, [0, 1, 2, 3, 4, 5])
    model = classic(bench, "TreeEnsemble", x, aggregate_function=aggregate, **attributes)
    bench.check(model, {"x": x})
    x[::3, ::2] = np.nan
    bench.check(model, {"x": x})


def test_trees_that_go_in_circles_are_refused(bench: Any) -> None:
    x = np.zeros((1, 2), np.float32)
    attributes = random_trees(1, 2, 2, 1, [0])
    attributes["nodes_truenodeids"][1] = 0
    attributes["nodes_trueleafs"] = [0, 0, 1]
    with pytest.raises(UnsupportedError, match=r"TreeEnsemble at 'y'.* its trees"):
        from_onnx(classic(bench, "TreeEnsemble", x, **attributes))


def test_labels_of_numbers(bench: Any) -> None:
    x = np.array([[3, 7, 5], [9, 7, -1]])
    model = classic(
        bench, "LabelEncoder", x, 4, keys_int64s=[7, 3, 9], values_floats=[0.5, 1.5, 2.5],
        default_float=-4.0,
    )  # fmt: skip
    bench.check(model, {"x": x})
    real = np.array([1.5, np.nan, 0.0, 2.5], np.float32)
    model = classic(
        bench, "LabelEncoder", real, 4, keys_floats=[float("nan"), 1.5], values_int64s=[4, 6]
    )
    bench.check(model, {"x": real})


def test_labels_of_text_are_refused(bench: Any) -> None:
    model = classic(
        bench, "LabelEncoder", np.array([1, 2]), 4, keys_int64s=[1], values_strings=["a"]
    )
    with pytest.raises(UnsupportedError, match="it works on text"):
        from_onnx(model)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_features_are_picked(bench: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    node = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain=CLASSIC)
    model = bench.model([node], {"x": (np.float32, shape)}, ["y"], {"i": np.array([4, 0, 4])},
                        opset=20, domains=[CLASSIC])  # fmt: skip
    bench.check(model, {"x": x})


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("low", "high", "skips"), [(1, 1, 0), (1, 3, 2), (2, 3, 9), (2, 2, 1)])
def test_counts_of_grams(bench: Any, mode: str, low: int, high: int, skips: int) -> None:
    """n-grams whose elements stand apart, in rows and in one row; against ONNX Runtime."""
    rng = np.random.default_rng(low + high + skips)
    drawn = {tuple(rng.integers(0, 4, 1 + i % 3).tolist()) for i in range(15)}
    grams = sorted(drawn, key=lambda gram: (len(gram), gram))
    sizes = [len(gram) for gram in grams]
    starts = [sum(n for n in sizes if n < size) for size in (1, 2, 3)]
    attributes: dict[str, Any] = {
        "mode": mode, "min_gram_length": low, "max_gram_length": high, "max_skip_count": skips,
        "ngram_counts": starts, "ngram_indexes": rng.permutation(len(grams)).tolist(),
        "pool_int64s": [number for gram in grams for number in gram],
        "weights": rng.uniform(0.5, 2, len(grams)).astype(np.float32).tolist(),
    }  # fmt: skip
    for shape in ((12,), (3, 12)):
        x = rng.integers(0, 4, shape)
        node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
        bench.check(bench.model([node], {"x": (np.int64, shape)}, ["y"]), {"x": x})


def trained(bench: Any, op: str, steps: int, states: int, **attributes: Any) -> tuple[Array, Any]:
    """A parameter after some steps of an operator, and the gradients."""
    rng = np.random.default_rng(steps)
    x, gradients = rng.standard_normal(7), rng.standard_normal((steps, 7))
    names = ["r", "t", "x", "g", *(f"s{i}" for i in range(states))]
    outputs = ["y", *(f"z{i}" for i in range(states))]
    node = helper.make_node(op, names, outputs, domain=TRAINING, **attributes)
    inputs: dict[str, Any] = {name: (np.float64, (7,)) for name in names[2:]}
    model = bench.model([node], {"r": (np.float64, ()), "t": (np.int64, ()), **inputs}, outputs,
                        opset=20, domains=[TRAINING])  # fmt: skip
    module = from_onnx(model)
    values = [x, *[np.zeros(7) for _ in range(states)]]
    for step, gradient in enumerate(gradients):
        count = step + (op == "Adam")
        results = run_module(module, [np.array(0.1), np.array(count), values[0], gradient,
                                      *values[1:]])  # fmt: skip
        values = [*results]
    return values[0], (x, gradients)


def by_torch(kind: Any, start: tuple[Array, Array], **options: Any) -> Array:
    x, gradients = start
    parameter = torch.nn.Parameter(torch.tensor(x))
    optimizer = kind([parameter], lr=0.1, **options)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
    return parameter.detach().numpy()


def test_adagrad_is_that_of_pytorch(bench: Any) -> None:
    made, start = trained(
        bench, "Adagrad", 5, 1, epsilon=1e-6, norm_coefficient=0.25, decay_factor=0.5
    )
    expected = by_torch(torch.optim.Adagrad, start, eps=1e-6, weight_decay=0.25, lr_decay=0.5)
    np.testing.assert_allclose(made, expected, 1e-6)


def test_momentum_is_that_of_pytorch(bench: Any) -> None:
    for mode in ("standard", "nesterov"):
        made, start = trained(
            bench, "Momentum", 5, 1, alpha=0.75, beta=1.0, norm_coefficient=0.25, mode=mode
        )
        expected = by_torch(
            torch.optim.SGD, start, momentum=0.75, weight_decay=0.25, nesterov=mode == "nesterov"
        )
        np.testing.assert_allclose(made, expected, 1e-6)


def test_adam_is_that_of_pytorch(bench: Any) -> None:
    """With an ε that is nothing, since the two add it before and after the correction."""
    made, start = trained(bench, "Adam", 5, 2, alpha=0.875, beta=0.75, epsilon=1e-30)
    expected = by_torch(torch.optim.Adam, start, betas=(0.875, 0.75), eps=1e-30)
    np.testing.assert_allclose(made, expected, 1e-6)


def test_derivatives_of_a_graph_are_refused(bench: Any) -> None:
    node = helper.make_node("Gradient", ["x"], ["y"], domain=TRAINING, xs=["x"], y="x")
    model = bench.model([node], {"x": (np.float32, (2,))}, ["y"], domains=[TRAINING])
    with pytest.raises(UnsupportedError, match="it derives the graph around it; train in PyTorch"):
        from_onnx(model)
